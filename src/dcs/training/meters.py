"""What is measured beside the loss, on a fixed batch at the end of each epoch."""

import torch
from torch import Generator, Tensor, nn

from dcs.objectives import DenoisingCosine, Objective, SelfSupervised

COLLAPSED = 0.02  # a healthy U-Net, whose features are means of maps, has 0.04
MOSTLY_FLOORED = 0.5
FEW_STEPS = 1000


class TrainingWarning(UserWarning):
    """Training goes on, but its result will hardly be of use; the message says what to try."""


@torch.no_grad()
def feature_spread(model: nn.Module, x: Tensor) -> float:
    """How far normalised features differ between samples, relative to directions drawn at random.

    The deviation of z/‖z‖ over the samples, averaged over its d entries, times √d: 1 if the features point
    everywhere, 0 if all point alike. nan for a model without `encode` or with one feature.
    """
    encode = getattr(model, "encode", None)
    if encode is None or len(x) < 2:
        return float("nan")
    return _spread(encode(x))


@torch.no_grad()
def projection_spread(objective: Objective, model: nn.Module, x: Tensor) -> dict[str, float]:
    """The same of a self-supervised objective's projections, whose collapse is what it must avoid."""
    if not isinstance(objective, SelfSupervised) or len(x) < 2:
        return {}
    return {"projection_spread": _spread(objective.project(model, x))}


def _spread(features: Tensor) -> float:
    features = features.flatten(1).float()
    if features.shape[1] < 2:
        return float("nan")
    directions = nn.functional.normalize(features, dim=1)
    return float(directions.std(0).mean() * directions.shape[1] ** 0.5)


@torch.no_grad()
def weight_statistics(
    objective: Objective,
    x: Tensor,
    generator: Generator,
    pair: Tensor | None = None,
    valid: Tensor | None = None,
) -> dict[str, float]:
    """Mean and deviation of ĉ and k over a batch, and the share of samples at the floor; of dCS alone."""
    if isinstance(objective, SelfSupervised) and objective.regulariser is not None:
        second = None if pair is None else objective.compared(pair)
        return weight_statistics(objective.regulariser, objective.compared(x), generator, second)
    if not isinstance(objective, DenoisingCosine):
        return {}
    snr, k, floored = objective.weights(x, generator, pair, valid)
    finite = snr[snr.isfinite()]
    spread = {
        "snr": float(finite.mean()) if len(finite) else float("inf"),
        "snr_deviation": float(finite.std()) if len(finite) > 1 else 0.0,
        "k": float(k.mean()),
        "k_deviation": float(k.std()) if len(k) > 1 else 0.0,
    }
    return {**spread, "floored": float(floored.float().mean())}


def still_falling(steps: int) -> list[str]:
    """What a user should know of a training that ended while it was still getting better."""
    if steps >= FEW_STEPS:
        return []
    return [
        f"training ended after {steps} steps while the loss was still falling: with little data an epoch is "
        f"few steps; raise max_epochs (--epochs) until there are some thousands"
    ]


def concerns(spread: float, statistics: dict[str, float]) -> list[str]:
    """What a user should know of, with what to try."""
    found = []
    if spread < COLLAPSED:
        found.append(
            f"the features have collapsed: their directions spread {spread:.3f} of what random ones would; "
            f"lower learning_rate, train longer (max_epochs, patience), mask more entries if any are masked "
            f"(masking rho), subtract what all samples have in common, or check that they differ"
        )
    if statistics.get("projection_spread", 1) < COLLAPSED:
        found.append(
            f"the projections have collapsed: their directions spread {statistics['projection_spread']:.3f} "
            f"of what random ones would; lower learning_rate, use larger batches, or leave the predictor out "
            f"of the schedule (fixed_predictor_rate)"
        )
    if statistics.get("floored", 0) > MOSTLY_FLOORED:
        found.append(
            f"{100 * statistics['floored']:.0f} % of the samples have an expected cosine at the floor: the "
            f"data is very noisy or few entries are masked; mask more of them (masking rho), and leave the "
            f"power of the weight at its default, -1"
        )
    return found

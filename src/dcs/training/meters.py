"""Measurements at the end of each epoch, and warnings that follow from them."""

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from dcs.objectives import Objective
from dcs.objectives.self_supervised import direction_spread
from dcs.training.stopping import Weights, copied

Metrics = dict[str, float]
Monitor = Callable[[nn.Module, int], Metrics]

COLLAPSED = 0.02  # a healthy U-Net, whose features are means of maps, has 0.04
MOSTLY_FLOORED = 0.5
FEW_STEPS = 1000


class TrainingWarning(UserWarning):
    """The result of a training will hardly be of use; the message names a remedy."""


@contextlib.contextmanager
def evaluating(model: nn.Module, average: Weights | None, objective: Objective) -> Iterator[None]:
    """Put model and objective into evaluation mode, with averaged weights if those are kept."""
    modes = [(module, module.training) for part in (model, objective) for module in part.modules()]
    own = copied(model.state_dict()) if average is not None else None
    try:
        if average is not None:
            model.load_state_dict(average)
        model.eval()
        objective.eval()
        yield
    finally:
        if own is not None:
            model.load_state_dict(own)
        for module, training in modes:
            module.training = training


@torch.no_grad()
def feature_spread(model: nn.Module, x: Tensor) -> float:
    """Measure how far the directions of features differ; nan for a model without `encode`.

    See `dcs.objectives.self_supervised.direction_spread`.
    """
    encode = getattr(model, "encode", None)
    if encode is None or len(x) < 2:
        return float("nan")
    return direction_spread(encode(x))


def still_falling(steps: int) -> list[str]:
    """Return a warning about a short training that ended while its loss was still falling."""
    if steps >= FEW_STEPS:
        return []
    return [
        f"training ended after {steps} steps while the loss was still falling: with little data an epoch is "
        f"few steps; raise max_epochs (--epochs) until there are some thousands"
    ]


def concerns(spread: float, statistics: dict[str, float]) -> list[str]:
    """Return warnings about collapsed features and floored weights, each with a remedy."""
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

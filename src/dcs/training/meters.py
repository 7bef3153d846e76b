"""At the end of each epoch: measurements, warnings that follow from them, and the weights that are kept."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dcs.objectives import Objective
from dcs.objectives.self_supervised import direction_spread

Metrics = dict[str, float]
Monitor = Callable[[nn.Module, int], Metrics]
Weights = dict[str, Tensor]

COLLAPSED = 0.02  # a healthy U-Net, whose features are means of maps, has 0.04
MOSTLY_FLOORED = 0.5
FEW_STEPS = 1000
PARTS = 16  # at most, of the held-out samples, whose losses are compared one by one
_STANDARD_ERRORS = 2.0  # that are clear


class TrainingWarning(UserWarning):
    """The result of a training will hardly be of use; the message names a remedy."""


class Stopping:
    """Keep the latest weights that are not clearly worse than the best; stop if all are for long.

    Which epoch has the lowest held-out loss is a matter of chance while the loss hardly changes, as on very
    noisy data before features form. So later weights are preferred until their losses, part by part of the
    held-out samples, exceed those of the best epoch by more than two standard errors of the difference.

    Args:
        patience: Number of epochs to wait after the last one kept; None keeps nothing and never stops.
    """

    def __init__(self, patience: int | None) -> None:
        self.patience = patience
        self.weights: list[Weights] | None = None
        self.losses: Tensor | None = None  # of the epoch with the lowest mean
        self.best_epoch = self.kept_epoch = -1

    def after_epoch(self, epoch: int, losses: Tensor, weights: Callable[[], Sequence[Weights]]) -> bool:
        """Return whether to stop.

        Args:
            epoch: Number of the epoch.
            losses: Loss of each part of the held-out samples, or the one training loss.
            weights: Function that returns the weights to keep; called only if they are kept.
        """
        if self.losses is None or losses.mean() < self.losses.mean():
            self.losses, self.best_epoch = losses, epoch
        difference = losses - self.losses
        clear = True  # one loss has no standard error
        if len(difference) > 1:
            clear = bool(difference.mean() > _STANDARD_ERRORS * (difference.std() / len(difference) ** 0.5))
        if self.best_epoch == epoch or not clear:
            self.kept_epoch = epoch
            if self.patience is not None:
                self.weights = [copied(each) for each in weights()]
        return self.patience is not None and epoch - self.kept_epoch >= self.patience

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {name: value for name, value in vars(self).items() if name != "patience"}

    def load_state(self, state: dict[str, Any], device: torch.device) -> None:
        """Restore a state."""
        self.losses, self.best_epoch, self.kept_epoch = (
            state[name] for name in ("losses", "best_epoch", "kept_epoch")
        )
        kept = state["weights"]
        self.weights = None if kept is None else [copied(each, device) for each in kept]


def copied(weights: Weights, device: torch.device | None = None) -> Weights:
    """Copy weights, to a device if one is given."""
    return {name: value.detach().to(device=device, copy=True) for name, value in weights.items()}


def update_average(average: Weights, model: nn.Module, decay: float, steps: int) -> None:
    """Add the weights of a model after a number of previous steps to their exponential moving average."""
    # Over fewer steps at first, or the initial weights would dominate for long.
    decay = min(decay, (1 + steps) / (10 + steps))
    for name, weights in model.state_dict().items():
        if weights.is_floating_point():
            average[name].lerp_(weights, 1 - decay)
        else:
            average[name].copy_(weights)


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
    return float("nan") if encode is None or len(x) < 2 else direction_spread(encode(x))


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
            f"data is very noisy or few entries are masked; if any are, mask more of them (masking rho), and "
            f"leave the power of the weight at its default, -1"
        )
    return found

"""Early stopping, and averages of weights."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

Weights = dict[str, Tensor]

PARTS = 16  # at most, of the held-out samples, whose losses are compared one by one
_STANDARD_ERRORS = 2.0  # that are clear


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
            keep = True
        else:
            keep = not _clearly_above(losses, self.losses)
        if keep:
            self.kept_epoch = epoch
            if self.patience is not None:
                self.weights = [copied(each) for each in weights()]
        return self.patience is not None and epoch - self.kept_epoch >= self.patience

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        names = ("weights", "losses", "best_epoch", "kept_epoch")
        return {name: getattr(self, name) for name in names}

    def load_state(self, state: dict[str, Any], device: torch.device) -> None:
        """Restore a state."""
        self.losses, self.best_epoch, self.kept_epoch = (
            state[name] for name in ("losses", "best_epoch", "kept_epoch")
        )
        kept = state["weights"]
        self.weights = None if kept is None else [copied(each, device) for each in kept]


class WeightAverage:
    """Exponential moving average of a model's weights.

    Args:
        model: Model to average.
        decay: Largest share of the old average that a step keeps.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights: Weights = copied(model.state_dict())

    def update(self, model: nn.Module, steps: int) -> None:
        """Add the weights of a model after a number of previous steps."""
        # Over fewer steps at first, or the initial weights would dominate for long.
        decay = min(self.decay, (1 + steps) / (10 + steps))
        for name, weights in model.state_dict().items():
            if weights.is_floating_point():
                self.weights[name].lerp_(weights, 1 - decay)
            else:
                self.weights[name].copy_(weights)


def copied(weights: Weights, device: torch.device | None = None) -> Weights:
    """Copy weights, to a device if one is given."""
    return {name: value.detach().to(device=device, copy=True) for name, value in weights.items()}


def _clearly_above(losses: Tensor, best: Tensor) -> bool:
    difference = losses - best
    if len(difference) < 2:
        return True  # one loss has no standard error
    error = difference.std() / len(difference) ** 0.5
    return bool(difference.mean() > _STANDARD_ERRORS * error)

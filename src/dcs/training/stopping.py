"""Which weights of a training are kept, and when it stops."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Weights = dict[str, Tensor]

PARTS = 16  # at most, of the held-out samples, whose losses are compared one by one
_STANDARD_ERRORS = 2.0  # that are clear


class Stopping:
    """Keeps the latest weights that are not clearly worse than the best; stops if all have been for long.

    The lowest held-out loss is a matter of luck while the loss hardly moves, as it does on very noisy data:
    the plateau before features form has it about as often as the features themselves. So later weights are
    preferred until their losses, part by part of the held-out samples, lie above those of the best epoch by
    more than two standard errors of the difference.

    Args:
        patience: Epochs that may pass after the last one kept; None keeps nothing, and never stops.
    """

    def __init__(self, patience: int | None) -> None:
        self.patience = patience
        self.weights: list[Weights] | None = None
        self.losses: Tensor | None = None  # of the epoch with the lowest mean
        self.best_epoch = self.kept_epoch = -1

    def after_epoch(self, epoch: int, losses: Tensor, weights: Callable[[], Sequence[Weights]]) -> bool:
        """Whether to stop.

        Args:
            epoch: Its number.
            losses: Of each part of the held-out samples, or the one loss of training, which has to get lower.
            weights: Of all that may be kept; called only if they are.
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
        """All that is needed to go on."""
        names = ("weights", "losses", "best_epoch", "kept_epoch")
        return {name: getattr(self, name) for name in names}

    def load_state(self, state: dict[str, Any], device: torch.device) -> None:
        """Go on from a state."""
        self.losses, self.best_epoch, self.kept_epoch = (
            state[name] for name in ("losses", "best_epoch", "kept_epoch")
        )
        kept = state["weights"]
        self.weights = None if kept is None else [copied(each, device) for each in kept]


def copied(weights: Weights, device: torch.device | None = None) -> Weights:
    """Weights that do not change with the model's, on a device."""
    return {name: value.detach().to(device=device, copy=True) for name, value in weights.items()}


def _clearly_above(losses: Tensor, best: Tensor) -> bool:
    difference = losses - best
    if len(difference) < 2:
        return True  # there is nothing to tell chance by
    error = difference.std() / len(difference) ** 0.5
    return bool(difference.mean() > _STANDARD_ERRORS * error)

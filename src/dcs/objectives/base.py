"""What all objectives share: one call, and the two ways to a second view of x."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn

from dcs._checks import check_batch, check_generator, check_same_shape
from dcs.masking import BlindSpot, Masker

Model = Callable[[Tensor], Tensor]


class Batch(NamedTuple):
    """What an objective is called with beside the model, checked."""

    x: Tensor
    generator: Generator | None
    pair: Tensor | None
    valid: Tensor | None

    @property
    def view(self) -> Tensor:
        """What the model sees if nothing is masked: the pair, if there is one."""
        return self.x if self.pair is None else self.pair


class Objective(nn.Module):
    """What is minimised: a scalar from a model and a batch.

    Every objective is called alike; a new one says in `compute` what it is. It is a module, so that what it
    estimates is moved, saved and loaded with it.
    """

    __call__: Callable[..., Tensor]

    def forward(
        self,
        model: Model,
        x: Tensor,
        generator: Generator | None = None,
        pair: Tensor | None = None,
        *,
        valid: Tensor | None = None,
    ) -> Tensor:
        """Compute the objective.

        Args:
            model: Any callable whose result has x's shape.
            x: Noisy samples (n, ...).
            generator: Where all randomness comes from.
            pair: A second, independent noisy view of the same things (A3), if there is one: it is what the
                model then sees, in place of a masked x, and all entries are compared.
            valid: False on padding, which never counts.

        Returns:
            A scalar.
        """
        check_batch("x", x)
        check_generator(generator, x.device)
        if pair is not None:
            check_batch("pair", pair)
            check_same_shape("pair", pair, "x", x)
        return self.compute(model, Batch(x, generator, pair, valid))

    def compute(self, model: Model, batch: Batch) -> Tensor:
        """Compute the objective of a checked batch."""
        raise NotImplementedError


class MaskedObjective(Objective):
    """An objective that compares masked entries.

    Args:
        masker: Makes (x_tilde, b). By default `BlindSpot(rho=0.3)`, over the last two axes of images
            (n, h, w) and (n, c, h, w), over the last one of vectors and signals (n, d).
    """

    def __init__(self, masker: Masker | None = None) -> None:
        super().__init__()
        self.masker = masker

    def mask(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return x_tilde and b."""
        masker = self.masker or self.default_masker(ndim=1 if batch.x.ndim <= 2 else 2)
        if batch.valid is None:
            return masker(batch.x, batch.generator)
        return masker(batch.x, batch.generator, valid=batch.valid)

    def second_view(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Return what the model sees and the entries to compare: the pair and all, or x_tilde and b."""
        return self.mask(batch) if batch.pair is None else (batch.pair, None)

    def default_masker(self, ndim: int) -> Masker:
        """Return what masks if no masker was given."""
        return BlindSpot(rho=0.3, ndim=ndim)

    def extra_repr(self) -> str:
        """Show the masker."""
        return f"masker={self.masker}"


def predict(model: Model, x: Tensor) -> Tensor:
    """Call the model, whose result must have x's shape."""
    prediction = model(x)
    if not isinstance(prediction, torch.Tensor) or prediction.shape != x.shape:
        got = tuple(prediction.shape) if isinstance(prediction, torch.Tensor) else type(prediction).__name__
        raise ValueError(f"model(x) must be a tensor of x's shape {tuple(x.shape)}, got {got}: reshape it")
    return prediction

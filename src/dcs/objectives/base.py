"""What all objectives share: one call, and the two ways to a second view of x."""

from collections.abc import Callable

import torch
from torch import Generator, Tensor, nn

from dcs._checks import check_batch, check_same_shape
from dcs.masking import BlindSpot, Masker

Model = Callable[[Tensor], Tensor]


class Objective(nn.Module):
    """What is minimised: a scalar from a model and a batch.

    Every objective is called alike:

    - `model`: any callable whose result has x's shape;
    - `x`: noisy samples (n, ...);
    - `generator`: where all randomness comes from;
    - `pair`: a second, independent noisy view of the same things (A3), if there is one: it is then what the
      model sees, in place of a masked x, and all entries are compared;
    - `valid`: False on padding, which never counts.

    An objective is a module, so that what it estimates is moved, saved and loaded with it.
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
        """Compute the objective."""
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

    def second_view(
        self, x: Tensor, generator: Generator | None, pair: Tensor | None, valid: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return x_tilde and the mask: those of the masker, or the pair and no mask."""
        if pair is not None:
            check_pair(pair, x)
            return pair, None
        check_batch("x", x)
        masker = self.masker or self.default_masker(ndim=1 if x.ndim <= 2 else 2)
        return masker(x, generator) if valid is None else masker(x, generator, valid=valid)

    def default_masker(self, ndim: int) -> Masker:
        """Return what masks if no masker was given."""
        return BlindSpot(rho=0.3, ndim=ndim)

    def extra_repr(self) -> str:
        """Show the masker."""
        return f"masker={self.masker}"


def check_pair(pair: Tensor, x: Tensor) -> None:
    """Require a second view of the same samples."""
    check_batch("pair", pair)
    check_batch("x", x)
    check_same_shape("pair", pair, "x", x)


def predict(model: Model, x: Tensor) -> Tensor:
    """Call the model, whose result must have x's shape."""
    prediction = model(x)
    if not isinstance(prediction, torch.Tensor) or prediction.shape != x.shape:
        got = tuple(prediction.shape) if isinstance(prediction, torch.Tensor) else type(prediction).__name__
        raise ValueError(f"model(x) must be a tensor of x's shape {tuple(x.shape)}, got {got}: reshape it")
    return prediction

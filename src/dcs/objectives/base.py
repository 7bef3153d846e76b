"""What all objectives share: one call, and the two ways to a second view of x."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn

from dcs._checks import check_batch, check_generator, check_mask, check_same_shape
from dcs.masking import BlindSpot, Masker
from dcs.noise import GaussianSplit
from dcs.noise.level import default_ndim
from dcs.noise.split import HoldsSigma
from dcs.objectives.views import ChosenViews

Model = Callable[[Tensor], Tensor]
_ESTIMATE_SAMPLES = 4096


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


class View(NamedTuple):
    """What a model sees, what its prediction is compared with, and where."""

    x: Tensor  # to compare with
    x_tilde: Tensor  # to see
    b: Tensor | None  # the entries to compare; None for all
    snr: Tensor | None = None  # of x, for each sample, where it is known better than from x and x_tilde


class Objective(nn.Module):
    """What is minimised: a scalar from a model and a batch.

    Every objective is called alike; a new one says in `compute` what it is. It is a module, so that what it
    estimates is moved, saved and loaded with it.
    """

    __call__: Callable[..., Tensor]
    full_batches = False  # whether an epoch's last batch, if it is smaller, is better left out
    predicts = True  # whether model(x) is trained to predict x

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
            valid: False on padding, which never counts: the model sees zeros there.

        Returns:
            A scalar.
        """
        if not callable(model):
            raise TypeError(f"model must be callable, got {type(model).__name__}")
        check_batch("x", x)
        check_generator(generator, x.device)
        if pair is not None:
            check_batch("pair", pair)
            check_same_shape("pair", pair, "x", x)
        if valid is not None:  # what is in the padding must not reach the model, either
            inside = check_mask("valid", valid, x)
            x, pair = x.where(inside, 0), None if pair is None else pair.where(inside, 0)
        return self.compute(model, Batch(x, generator, pair, valid))

    def compute(self, model: Model, batch: Batch) -> Tensor:
        """Compute the objective of a checked batch."""
        raise NotImplementedError

    def inputs(self, x: Tensor) -> Tensor:
        """Return what the network is to see of samples that are not masked: x itself, most often."""
        return x

    def wanted_samples(self) -> int:
        """Return how many samples `prepare` wants to see."""
        return _ESTIMATE_SAMPLES if self._without_sigma() else 0

    def prepare(self, model: Model, x: Tensor, valid: Tensor | None = None) -> None:  # noqa: ARG002
        """Set up what depends on the model or the data; the training loop does so before its optimiser."""
        for part in self._without_sigma():
            part.estimate(x, valid)

    def statistics(
        self,
        model: Model,  # noqa: ARG002
        x: Tensor,  # noqa: ARG002
        generator: Generator | None = None,  # noqa: ARG002
        pair: Tensor | None = None,  # noqa: ARG002
        valid: Tensor | None = None,  # noqa: ARG002
    ) -> dict[str, float]:
        """Return further numbers about a batch by name, such as the estimated SNR, for the metrics."""
        return {}

    def _without_sigma(self) -> list[HoldsSigma]:
        return [part for part in self.modules() if isinstance(part, HoldsSigma) and not part.is_known]


class MaskedObjective(Objective):
    """An objective that compares a prediction from one view of x with another, or with the masked entries.

    Args:
        masker: Makes (x_tilde, b), called as masker(x, generator), and with valid=… where there is padding;
            or a `dcs.noise.GaussianSplit`, which makes two views of which all entries are compared. By
            default `BlindSpot(rho=0.3)`: over the last two axes of images (n, h, w) and (n, c, h, w), over
            the last one of vectors and signals (n, t) and, with one or two channels, (n, c, t). Give a masker
            for signals with more channels and for volumes.
    """

    def __init__(self, masker: Masker | GaussianSplit | None = None) -> None:
        super().__init__()
        check_masker(masker)
        self.masker = masker

    def second_view(self, batch: Batch) -> View:
        """Return the pair, if there is one, or else what the masker makes of x."""
        if batch.pair is not None:
            return View(batch.x, batch.pair, None)
        return self.own_view(batch)

    def own_view(self, batch: Batch) -> View:
        """Return what the masker makes of x."""
        masker = self.default_masker(default_ndim(batch.x.shape[1:])) if self.masker is None else self.masker
        return apply_masker(masker, batch)

    def default_masker(self, ndim: int) -> Masker:
        """Return what masks if no masker was given."""
        return BlindSpot(rho=0.3, ndim=ndim)

    def extra_repr(self) -> str:
        """Show the masker."""
        return f"masker={self.masker}"

    def __repr__(self) -> str:
        """One line, unlike torch's for a module with parts."""
        return f"{type(self).__name__}({self.extra_repr()})"


def check_masker(masker: object) -> None:
    """Require something that can be called as a masker, or none."""
    if masker is not None and (not callable(masker) or isinstance(masker, type)):
        raise TypeError(f"masker must be a masker such as BlindSpot(rho=0.3), got {masker!r}")


def apply_masker(masker: Masker | GaussianSplit, batch: Batch) -> View:
    """Return the view that a masker or a split makes, with b as bool."""
    x, generator, _, valid = batch
    if isinstance(masker, ChosenViews) and not masker.splits:
        masker = BlindSpot(rho=0.3, ndim=default_ndim(x.shape[1:]))
    if isinstance(masker, GaussianSplit):
        x_tilde, target = masker(x, generator, valid=valid)
        return View(target, x_tilde, None, masker.snr(x, valid))
    result = masker(x, generator) if valid is None else masker(x, generator, valid=valid)
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(f"masker must return (x_tilde, b), got {type(result).__name__}")
    x_tilde, b = result
    check_batch("x_tilde", x_tilde)
    check_same_shape("x_tilde", x_tilde, "x", x)
    return View(x, x_tilde, check_mask("b", b, x))


def predict(model: Model, x: Tensor) -> Tensor:
    """Call the model, whose result must have x's shape."""
    prediction = model(x)
    if not isinstance(prediction, torch.Tensor) or prediction.shape != x.shape:
        got = tuple(prediction.shape) if isinstance(prediction, torch.Tensor) else type(prediction).__name__
        raise ValueError(f"model(x) must be a tensor of x's shape {tuple(x.shape)}, got {got}: reshape it")
    return prediction

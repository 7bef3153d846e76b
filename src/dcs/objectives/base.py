"""Base classes of objectives: one call, class attributes that describe them, and views of x."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Generator, Tensor, nn

from dcs._checks import check_batch, check_generator, check_mask, check_same_shape
from dcs._registry import Registry
from dcs.masking import BlindSpot, Masker, View, ViewMaker, as_view_maker
from dcs.noise.level import default_ndim
from dcs.noise.split import HoldsSigma

Model = Callable[[Tensor], Tensor]
_ESTIMATE_SAMPLES = 4096
OBJECTIVES: "Registry[Objective]" = Registry("objective", given=("masker", "regulariser"))
"""Objectives by the name that settings and the command line refer to them by."""


class Batch(NamedTuple):
    """A checked batch: samples, source of randomness, second observation and valid entries."""

    x: Tensor
    generator: Generator | None
    pair: Tensor | None
    valid: Tensor | None

    @property
    def view(self) -> Tensor:
        """Input of the model where nothing is masked: the pair, if there is one, else x."""
        return self.x if self.pair is None else self.pair


class Objective(nn.Module):
    """Function to minimise: a scalar from a model and a batch.

    All objectives have the same call; a new one implements `compute` and sets the attributes that differ.
    It is a module, so that its estimates are moved, saved and loaded with it.

    Attributes:
        predicts: Whether the model predicts samples; otherwise only its features are used.
        scale_free: Whether only the direction of a prediction counts.
        needs_pair: Whether a second observation of each sample must be given.
        full_batches: Whether a last batch of an epoch that is not full should be left out.
        recipe: Settings that differ from the usual defaults when this objective is trained.
    """

    __call__: Callable[..., Tensor]
    predicts: ClassVar[bool] = True
    scale_free: bool = False
    needs_pair: ClassVar[bool] = False
    full_batches: ClassVar[bool] = False
    recipe: ClassVar[dict[str, Any]] = {}

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
            model: Callable whose result has the shape of x.
            x: Noisy samples (n, ...).
            generator: Random generator.
            pair: Second, independent noisy observation of the same samples (A3): the model then sees it in
                place of a masked x, and all entries are compared.
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
        """Return the network's input for samples outside of training; x itself by default."""
        return x

    def statistics(
        self,
        model: Model,  # noqa: ARG002
        x: Tensor,  # noqa: ARG002
        generator: Generator | None = None,  # noqa: ARG002
        pair: Tensor | None = None,  # noqa: ARG002
        valid: Tensor | None = None,  # noqa: ARG002
    ) -> dict[str, float]:
        """Return further metrics of a fixed batch, computed after each epoch; none by default."""
        return {}

    def describe(self) -> dict[str, Any]:
        """Describe the objective as plain values, views and estimates included, for a run's record."""
        described = {"class": type(self).__name__}
        return {**described, "view": _described(self.masker)} if hasattr(self, "masker") else described

    def wanted_samples(self) -> int:
        """Return the number of samples that `prepare` needs."""
        return _ESTIMATE_SAMPLES if self._without_sigma() else 0

    def prepare(self, model: Model, x: Tensor, valid: Tensor | None = None) -> None:  # noqa: ARG002
        """Set up parts that depend on the model or the data; called before the optimiser is made."""
        for part in self._without_sigma():
            part.estimate(x, valid)

    def _without_sigma(self) -> list[HoldsSigma]:
        return [part for part in self.modules() if isinstance(part, HoldsSigma) and not part.is_known]


class MaskedObjective(Objective):
    """An objective that compares a prediction from one view of x with another view of it.

    Args:
        masker: View maker, such as `BlindSpot` or `dcs.noise.GaussianSplit`, or a function masker(x,
            generator) -> (x_tilde, b), with a keyword `valid` for padded data. By default
            `BlindSpot(rho=0.3)`: over the last two axes of images (n, h, w) and (n, c, h, w), over the last
            one of vectors and signals (n, t) and, with one or two channels, (n, c, t). Pass a masker for
            signals with more channels and for volumes.
    """

    masker: ViewMaker | None

    def __init__(self, masker: Masker | ViewMaker | None = None) -> None:
        super().__init__()
        self.masker = None if masker is None else as_view_maker(masker)

    def set_masker(self, masker: ViewMaker | None) -> None:
        """Replace the view maker."""
        del self.masker  # it may be a module, and the next one not
        self.masker = masker

    def view(self, batch: Batch) -> View:
        """Return the view of a batch: its pair, if there is one, or else one from the view maker."""
        if batch.pair is not None:
            return View(batch.pair, batch.x)
        return self.own_view(batch)

    def own_view(self, batch: Batch) -> View:
        """Return a view of x from the view maker, whether or not there is a pair."""
        x, generator, _, valid = batch
        return self.views_for(tuple(x.shape[1:])).view(x, generator, valid)

    def views_for(self, shape: tuple[int, ...]) -> ViewMaker:
        """Return the view maker in use for samples of a shape."""
        return self.default_masker(default_ndim(shape)) if self.masker is None else self.masker

    def default_masker(self, ndim: int) -> Masker:
        """Return the masker that is used by default."""
        return BlindSpot(rho=0.3, ndim=ndim)

    def extra_repr(self) -> str:
        """Show the view maker."""
        return f"masker={self.masker}"

    def __repr__(self) -> str:
        """Return one line; torch's own would show submodules over several."""
        return f"{type(self).__name__}({self.extra_repr()})"


def _described(maker: Any) -> Any:
    """Describe a view maker as plain values."""
    if maker is None:
        return None
    if hasattr(maker, "describe"):
        return maker.describe()
    options = {k: v for k, v in vars(maker).items() if isinstance(v, int | float | str | tuple)}
    return {"class": type(maker).__name__, **options}


def predict(model: Model, x: Tensor) -> Tensor:
    """Call the model, and check that its result has the shape of x."""
    prediction = model(x)
    if not isinstance(prediction, torch.Tensor) or prediction.shape != x.shape:
        got = tuple(prediction.shape) if isinstance(prediction, torch.Tensor) else type(prediction).__name__
        raise ValueError(f"model(x) must be a tensor of x's shape {tuple(x.shape)}, got {got}: reshape it")
    return prediction

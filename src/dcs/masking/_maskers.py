"""Views, i.e. what a model sees of a sample and what its prediction is compared with, and maskers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from torch import Generator, Tensor

from dcs._checks import check_batch, check_integer, check_mask, check_number, check_same_shape
from dcs._registry import Registry
from dcs.masking._replace import replace_by_neighbours


class View(NamedTuple):
    """What a model sees of a batch, what its prediction is compared with, and where.

    Args:
        seen: Input of the model.
        target: What the prediction is compared with.
        mask: Entries to compare, as bool; None compares all.
        snr: Signal-to-noise ratio of the target, one value per sample, where the view maker knows it better
            than an estimate from `seen` and `target`.
    """

    seen: Tensor
    target: Tensor
    mask: Tensor | None = None
    snr: Tensor | None = None


class ViewMaker(Protocol):
    """Anything that makes views of a batch."""

    def view(self, x: Tensor, generator: Generator | None = None, valid: Tensor | None = None) -> View:
        """Make a view.

        Args:
            x: Noisy samples (n, ...).
            generator: Random generator.
            valid: False on padding, which is never replaced, copied or compared.
        """
        ...


VIEWS: Registry[Any] = Registry("view")
"""View makers by the name that the setting `masking` refers to them by, as its `kind`."""


class Masker:
    """Base class of maskers: a subclass implements `__call__`, x -> (x_tilde, b)."""

    def __call__(
        self, x: Tensor, generator: Generator | None = None, *, valid: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Mask a batch; return x_tilde, and b, True where x_tilde differs from x by design."""
        raise NotImplementedError

    def view(self, x: Tensor, generator: Generator | None = None, valid: Tensor | None = None) -> View:
        """Mask a batch: the model sees x_tilde, and the masked entries of x are compared."""
        result = self(x, generator) if valid is None else self(x, generator, valid=valid)
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(f"masker must return (x_tilde, b), got {type(result).__name__}")
        x_tilde, b = result
        check_batch("x_tilde", x_tilde)
        check_same_shape("x_tilde", x_tilde, "x", x)
        return View(x_tilde, x, check_mask("b", b, x))


class FunctionMasker(Masker):
    """A masker made of a function.

    Args:
        function: Called as function(x, generator), and with valid=... where there is padding; returns
            (x_tilde, b).
    """

    def __init__(self, function: Callable[..., tuple[Tensor, Tensor]]) -> None:
        if not callable(function):
            raise TypeError(f"function must be callable, got {function!r}")
        self.function = function

    def __call__(self, x: Tensor, generator: Generator | None = None, **valid: Any) -> tuple[Tensor, Tensor]:
        """Call the function."""
        return self.function(x, generator, **valid)

    def __repr__(self) -> str:
        return f"FunctionMasker({self.function!r})"


@VIEWS.register("blind_spot")
@dataclass(frozen=True)
class BlindSpot(Masker):
    """Blind-spot masking (Definition 1): random entries take the value of a random neighbour.

    Each entry is masked with probability `rho`, independently. Its new value is that of an entry drawn
    uniformly from the window around it, inside the data and without the entry itself, read from the
    unmodified x. Vectors whose columns have no order have no neighbours in this sense.

    Args:
        rho: Probability in (0, 1] that an entry is masked.
        radius: Reach of the window along each of the last `ndim` axes: 1 is a window of 3; a tuple gives
            one radius per axis.
        ndim: Number of trailing axes that are space or time: 1, 2 or 3. Axes between the batch and these are
            channels, in any number, and masked independently; values never cross channels.
        centre: Whether an entry may also be "replaced" by itself.
        stratified: Whether to draw at most one position in each box of about 1/rho entries, as Noise2Void
            does, instead of independent positions: masked entries are then spread evenly.
        shared_channels: Whether all channels share the masked positions and their neighbours.
        min_masked: Minimum number of masked entries per sample (or all that have a valid neighbour); where
            fewer were drawn, further ones are drawn uniformly. 0 is the literal definition, which may leave a
            mask empty.

    Example:
        >>> import torch
        >>> x = torch.arange(6.0).reshape(1, 6)
        >>> BlindSpot(rho=0.3, ndim=1)(x, torch.Generator().manual_seed(2))
        (tensor([[0., 0., 2., 3., 3., 5.]]), tensor([[False,  True, False, False,  True, False]]))
    """

    rho: float = 0.1
    radius: int | tuple[int, ...] = 1
    ndim: int = 2
    centre: bool = False
    stratified: bool = False
    shared_channels: bool = False
    min_masked: int = 2

    def __post_init__(self) -> None:
        check_number("rho", self.rho, above=0, at_most=1)
        check_integer("ndim", self.ndim, at_least=1, at_most=3)
        radii = self.radius if isinstance(self.radius, tuple) else (self.radius,) * self.ndim
        if len(radii) != self.ndim:
            raise ValueError(f"radius must be one integer or ndim = {self.ndim} of them, got {self.radius}")
        for radius in radii:
            check_integer("radius", radius, at_least=1)
        check_integer("min_masked", self.min_masked, at_least=0)

    def __call__(
        self, x: Tensor, generator: Generator | None = None, *, valid: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Mask a batch.

        Args:
            x: Noisy samples, (n, ...), floating point and finite.
            generator: Random generator: the same state gives the same result.
            valid: False on padding, which is neither masked nor copied from; an entry that has no valid
                neighbour is left alone.

        Returns:
            x_tilde, a new tensor like x, and b, a bool tensor of the same shape: True where x_tilde holds
            a neighbour's value.
        """
        check_batch("x", x)
        if x.ndim <= self.ndim:
            raise ValueError(
                f"x must have a batch axis and ndim = {self.ndim} axes after it, got shape {tuple(x.shape)}: "
                f"reshape x or use another ndim"
            )
        radius = self.radius if isinstance(self.radius, tuple) else (self.radius,) * self.ndim
        radii = (0,) * (x.ndim - 1 - self.ndim) + radius
        how = {"centre": self.centre, "stratified": self.stratified, "shared": self.shared_channels}
        return replace_by_neighbours(x, radii, self.rho, self.min_masked, valid, generator, **how)


@VIEWS.register("amplitude")
@dataclass(frozen=True)
class AmplitudeNeighbors(Masker):
    """τ-Amplitude Masking via Neighbours (Definition 3): for speech and other signals.

    Each entry is masked with probability `rho`; its new value is that of an entry at most `delta` steps
    before or after it along `axis`, never its own.

    Args:
        rho: Probability in (0, 1] that an entry is masked.
        delta: Largest distance Δ along the axis.
        axis: Axis of time; not the batch axis.
        whole_frames: Whether to mask whole frames (all entries at one time, with the same neighbour) rather
            than single entries.
        min_masked: Minimum number of masked entries per sample; see `BlindSpot`.

    Example:
        >>> import torch
        >>> x = torch.arange(8.0).reshape(1, 8)
        >>> AmplitudeNeighbors(rho=0.3)(x, torch.Generator().manual_seed(0))[0]
        tensor([[0., 0., 2., 1., 5., 7., 4., 7.]])
    """

    rho: float = 0.3
    delta: int = 2
    axis: int = -1
    whole_frames: bool = False
    min_masked: int = 2

    def __post_init__(self) -> None:
        check_number("rho", self.rho, above=0, at_most=1)
        check_integer("delta", self.delta, at_least=1)
        check_integer("min_masked", self.min_masked, at_least=0)
        check_integer("axis", self.axis, at_least=-100)
        if self.axis == 0:
            raise ValueError("axis must not be 0: that is the batch, whose samples are not neighbours")

    def __call__(
        self, x: Tensor, generator: Generator | None = None, *, valid: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Mask a batch; see `BlindSpot.__call__`."""
        check_batch("x", x)
        if not -x.ndim < self.axis < x.ndim:
            raise ValueError(
                f"axis {self.axis} must be an axis of x after the batch, got shape {tuple(x.shape)}"
            )
        radii = tuple(self.delta if axis == self.axis % x.ndim else 0 for axis in range(1, x.ndim))
        how = {"shared": self.whole_frames}
        return replace_by_neighbours(x, radii, self.rho, self.min_masked, valid, generator, **how)


def as_view_maker(masker: object) -> ViewMaker:
    """Return a view maker: one as it is, a function that returns (x_tilde, b) wrapped as a masker."""
    is_data = isinstance(masker, type) or hasattr(masker, "__array__")  # arrays have a method `view`, too
    if is_data or not (callable(masker) or hasattr(masker, "view")):
        raise TypeError(f"masker must be a masker such as BlindSpot(rho=0.3), got {masker!r}")
    return masker if hasattr(masker, "view") else FunctionMasker(masker)  # type: ignore[arg-type]

"""Views of noisy samples, and maskers: x -> (x_tilde, b), where b marks the replaced entries."""

from dataclasses import dataclass

from torch import Generator, Tensor

from dcs._checks import check_batch, check_integer, check_number
from dcs.masking._replace import replace_by_neighbours
from dcs.masking._view import VIEWS, FunctionMasker, Masker, View, ViewMaker, as_view_maker


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
        return replace_by_neighbours(
            x,
            radii,
            rho=self.rho,
            min_masked=self.min_masked,
            centre=self.centre,
            stratified=self.stratified,
            shared=self.shared_channels,
            valid=valid,
            generator=generator,
        )


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
        return replace_by_neighbours(
            x,
            radii,
            rho=self.rho,
            min_masked=self.min_masked,
            shared=self.whole_frames,
            valid=valid,
            generator=generator,
        )


__all__ = [
    "VIEWS",
    "AmplitudeNeighbors",
    "BlindSpot",
    "FunctionMasker",
    "Masker",
    "View",
    "ViewMaker",
    "as_view_maker",
]

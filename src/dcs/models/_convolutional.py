"""Small convolutional networks for images and signals of any size: autoencoders and U-Nets."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, max_pool2d

from dcs._checks import check_integer
from dcs.models._autoencoder import NETWORKS, Autoencoder


@NETWORKS.register("conv", summary="Convolutional autoencoder for images.")
def conv(
    shape: Sequence[int], n_components: int = 10, *, width: int = 32, depth: int | None = None
) -> Autoencoder:
    """Make a convolutional autoencoder for images.

    Args:
        shape: Shape of one image, (h, w) or (c, h, w).
        n_components: Number of features.
        width: Channels after the first convolution; doubled by each further one.
        depth: Number of convolutions, each of which halves height and width; by default 3, or fewer for small
            images.
    """
    return _convolutional(nn.Conv2d, shape, 2, n_components, width, depth, most=3)


@NETWORKS.register("conv1d", summary="Convolutional autoencoder along time, for signals.", waveforms=True)
def conv1d(
    shape: Sequence[int], n_components: int = 10, *, width: int = 32, depth: int | None = None
) -> Autoencoder:
    """Make a convolutional autoencoder for signals.

    Args:
        shape: Shape of one signal, (t,) or (c, t).
        n_components: Number of features.
        width: Channels after the first convolution; doubled by each further one.
        depth: Number of convolutions, each of which halves the length; by default 4, or fewer for short
            signals.
    """
    return _convolutional(nn.Conv1d, shape, 1, n_components, width, depth, most=4)


class BaseUNet(nn.Module):
    """U-Net but for its head: blocks on the way down, at the bottom, and on the way up."""

    _interpolation = "nearest"

    def __init__(
        self, channels: int, widths: Sequence[int], n_components: int, block: Callable[[int, int], nn.Module]
    ) -> None:
        super().__init__()
        self.down = nn.ModuleList(map(block, [channels, *widths[:-1]], widths))
        levels = [*zip(widths, [*widths[1:], n_components], strict=True)]
        self.up = nn.ModuleList(block(below + width, width) for width, below in reversed(levels))
        self.bottom = block(widths[-1], n_components)

    def _halve(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _maps(self, x: Tensor) -> list[Tensor]:
        """Compute the maps of the skip connections, and the innermost map."""
        maps, inner = [], x
        for block in self.down:
            maps.append(block(inner))
            inner = self._halve(maps[-1])
        return [*maps, self.bottom(inner)]

    def _outermost(self, x: Tensor) -> Tensor:
        """Compute the last map on the way up."""
        *maps, inner = self._maps(x)
        for block, across in zip(self.up, reversed(maps), strict=True):
            inner = interpolate(inner, across.shape[2:], mode=self._interpolation)
            inner = block(torch.cat([inner, across], dim=1))
        return inner


@NETWORKS.register("unet", summary="U-Net for denoising images.")
class UNet(BaseUNet):
    """A small U-Net for denoising images: the decoder sees the encoder's maps at every scale.

    Its features are the spatial means of the innermost map. They do not determine the prediction, so that
    there is no `decode`.

    Args:
        shape: Shape of one image, (h, w) or (c, h, w).
        n_components: Number of features, the channels of the innermost map.
        width: Channels of the outermost maps; doubled at each further scale.
        depth: Number of times that height and width are halved; by default 2, or 1 for small images.
    """

    def __init__(
        self, shape: Sequence[int], n_components: int = 10, *, width: int = 32, depth: int | None = None
    ) -> None:
        check_integer("width", width, at_least=1)
        channels, *size = inner_shape = with_channels(shape, 2)
        widths = [width * 2**level for level in range(len(_halved(size, depth, most=2)) - 1)]
        super().__init__(channels, widths, n_components, _two_convolutions)
        self.shape, self.inner_shape = tuple(shape), inner_shape
        self.head = nn.Conv2d(width, channels, 1)

    def _halve(self, x: Tensor) -> Tensor:
        return max_pool2d(x, 2, ceil_mode=True)

    def encode(self, x: Tensor) -> Tensor:
        """Compute the features."""
        return self._maps(x.reshape(-1, *self.inner_shape))[-1].mean((2, 3))

    def forward(self, x: Tensor) -> Tensor:
        """Predict x."""
        prediction: Tensor = self.head(self._outermost(x.reshape(-1, *self.inner_shape)))
        return prediction.reshape(-1, *self.shape)


def _two_convolutions(before: int, after: int) -> nn.Sequential:
    first, second = nn.Conv2d(before, after, 3, padding=1), nn.Conv2d(after, after, 3, padding=1)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU())


def _convolutional(
    convolution: type[nn.Conv1d] | type[nn.Conv2d],
    shape: Sequence[int],
    ndim: int,
    n_components: int,
    width: int,
    depth: int | None,
    most: int,
) -> Autoencoder:
    """Make an encoder of convolutions of stride 2, and a decoder that upsamples to the same sizes."""
    check_integer("width", width, at_least=1)
    channels, *size = with_channels(shape, ndim)
    *sizes, smallest = _halved(size, depth, most)
    before = channels
    encoder: list[nn.Module] = [nn.Unflatten(1, (1, shape[0]))] if len(shape) == ndim else []
    decoder: list[nn.Module] = [nn.Flatten(1, 2)] if len(shape) == ndim else []
    for level, larger in enumerate(sizes):
        after = width * 2**level
        encoder += [convolution(before, after, 3, stride=2, padding=1), nn.ReLU()]
        decoder = [nn.ReLU(), nn.Upsample(larger), convolution(after, before, 3, padding=1), *decoder]
        before = after
    flat = (before, *smallest)
    encoder += [nn.Flatten(), nn.Linear(math.prod(flat), n_components)]
    decoder = [nn.Linear(n_components, math.prod(flat)), nn.Unflatten(1, flat), *decoder]
    return Autoencoder(nn.Sequential(*encoder), nn.Sequential(*decoder))


def with_channels(shape: Sequence[int], ndim: int) -> tuple[int, ...]:
    """Return the shape with a channel axis before its `ndim` axes of space or time."""
    if len(shape) == ndim:
        return (1, *shape)
    if len(shape) == ndim + 1:
        return tuple(shape)
    what = "images (h, w) or (c, h, w)" if ndim == 2 else "signals (t,) or (c, t)"
    raise ValueError(f"shape must be of {what} for this network, got {tuple(shape)}: use another model")


def deepest(size: Sequence[int]) -> int:
    """Return how often samples can be halved with at least two entries left along each axis; at least 1."""
    return max(1, (min(size) - 1).bit_length() - 1)


def _halved(size: Sequence[int], depth: int | None, most: int) -> list[tuple[int, ...]]:
    """Return the size itself, and the sizes after each halving: `depth` of them, by default up to `most`."""
    depth = min(most, deepest(size)) if depth is None else depth
    check_integer("depth", depth, at_least=1)
    sizes = [tuple(size)]
    for _ in range(depth):
        sizes.append(tuple(-(-length // 2) for length in sizes[-1]))
    if min(sizes[-1]) < 2 and min(size) > 1 and depth > 1:
        raise ValueError(f"depth {depth} is too large for samples of size {tuple(size)}: use a smaller depth")
    return sizes

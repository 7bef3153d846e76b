"""Small convolutional networks for images and signals of any size."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dcs._checks import check_integer
from dcs.models._autoencoder import Autoencoder
from dcs.models._networks import NETWORKS

_CONVOLUTION: dict[int, type[nn.Conv1d] | type[nn.Conv2d]] = {1: nn.Conv1d, 2: nn.Conv2d}


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
    inner = with_channels(shape, 2)
    return _convolutional(
        inner, tuple(shape), n_components, width, _depth(inner[1:], 3) if depth is None else depth
    )


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
    inner = with_channels(shape, 1)
    return _convolutional(
        inner, tuple(shape), n_components, width, _depth(inner[1:], 4) if depth is None else depth
    )


@NETWORKS.register("unet", summary="U-Net for denoising images.")
class UNet(nn.Module):
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
        super().__init__()
        check_integer("width", width, at_least=1)
        self.shape = tuple(shape)
        self.inner_shape = channels, *size = with_channels(shape, 2)
        depth = _depth(size, 2) if depth is None else depth
        _halved(size, depth)
        widths = [width * 2**level for level in range(depth)]
        down, up = [], []
        for before, after in zip([channels, *widths[:-1]], widths, strict=True):
            down.append(_block(before, after))
        for level in reversed(range(depth)):
            below = n_components if level == depth - 1 else widths[level + 1]
            up.append(_block(below + widths[level], widths[level]))
        self.down, self.up = nn.ModuleList(down), nn.ModuleList(up)
        self.bottom = _block(widths[-1], n_components)
        self.head = nn.Conv2d(width, channels, 1)

    def _maps(self, x: Tensor) -> list[Tensor]:
        """Compute the maps of the skip connections, and the innermost map."""
        maps, inner = [], x.reshape(-1, *self.inner_shape)
        for block in self.down:
            maps.append(block(inner))
            inner = nn.functional.max_pool2d(maps[-1], 2, ceil_mode=True)
        return [*maps, self.bottom(inner)]

    def encode(self, x: Tensor) -> Tensor:
        """Compute the features."""
        return self._maps(x)[-1].mean((2, 3))

    def forward(self, x: Tensor) -> Tensor:
        """Predict x."""
        *maps, inner = self._maps(x)
        for block, across in zip(self.up, reversed(maps), strict=True):
            inner = nn.functional.interpolate(inner, across.shape[2:])
            inner = block(torch.cat([inner, across], dim=1))
        prediction: Tensor = self.head(inner)
        return prediction.reshape(-1, *self.shape)


def _block(channels: int, next_channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, next_channels, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(next_channels, next_channels, 3, padding=1),
        nn.ReLU(),
    )


def _convolutional(
    inner: tuple[int, ...], shape: tuple[int, ...], n_components: int, width: int, depth: int
) -> Autoencoder:
    """Make an encoder of convolutions of stride 2, and a decoder that upsamples to the same sizes."""
    check_integer("width", width, at_least=1)
    channels, *size = inner
    sizes = _halved(size, depth)
    convolution = _CONVOLUTION[len(size)]
    widths = [channels, *(width * 2**level for level in range(depth))]
    encoder: list[nn.Module] = [nn.Unflatten(1, (1, shape[0]))] if len(shape) == len(size) else []
    decoder: list[nn.Module] = []
    for level in range(depth):
        encoder += [convolution(widths[level], widths[level + 1], 3, stride=2, padding=1), nn.ReLU()]
        layer = convolution(widths[level + 1], widths[level], 3, padding=1)
        up = [nn.ReLU(), nn.Upsample(size=tuple(sizes[level])), layer]
        decoder = up + decoder
    flat = (widths[-1], *sizes[-1])
    count = int(torch.Size(flat).numel())
    encoder += [nn.Flatten(), nn.Linear(count, n_components)]
    decoder = [nn.Linear(n_components, count), nn.Unflatten(1, flat), *decoder]
    if len(shape) == len(size):
        decoder.append(nn.Flatten(1, 2))
    return Autoencoder(nn.Sequential(*encoder), nn.Sequential(*decoder))


def with_channels(shape: Sequence[int], ndim: int) -> tuple[int, ...]:
    """Return the shape with a channel axis before its `ndim` axes of space or time."""
    if len(shape) == ndim:
        return (1, *shape)
    if len(shape) == ndim + 1:
        return tuple(shape)
    what = "images (h, w) or (c, h, w)" if ndim == 2 else "signals (t,) or (c, t)"
    raise ValueError(f"shape must be of {what} for this network, got {tuple(shape)}: use another model")


def _depth(size: Sequence[int], most: int) -> int:
    """Return how often samples can be halved, at most, with at least two entries left along each axis."""
    return max(1, min(most, (min(size) - 1).bit_length() - 1))


def _halved(size: Sequence[int], depth: int) -> list[list[int]]:
    """Return the size itself, and the sizes after each halving."""
    check_integer("depth", depth, at_least=1)
    sizes = [list(size)]
    for _ in range(depth):
        sizes.append([-(-length // 2) for length in sizes[-1]])
    if min(sizes[-1]) < 2 and min(size) > 1 and depth > 1:
        raise ValueError(f"depth {depth} is too large for samples of size {tuple(size)}: use a smaller depth")
    return sizes

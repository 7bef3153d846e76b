"""A U-Net for denoising signals, pictures and volumes of any size, without artefacts of its sampling."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from dcs._checks import check_integer
from dcs.models._autoencoder import NETWORKS
from dcs.models._convolutional import deepest, with_channels

_CONVOLUTION: dict[int, Callable[..., nn.Module]] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
_POOL: dict[int, Callable[..., Tensor]] = {
    1: functional.avg_pool1d,
    2: functional.avg_pool2d,
    3: functional.avg_pool3d,
}
_INTERPOLATION = {1: "linear", 2: "bilinear", 3: "trilinear"}
_BLOCK = 2  # convolutions of 3 entries in a row at each scale


@NETWORKS.register(
    "resunet",
    summary="Residual U-Net for pictures, volumes and signals of any size.",
    waveforms=True,
    own_weights=True,
)
class ResidualUNet(nn.Module):
    """U-Net that predicts a correction of its input, for samples of any size.

    Scales are halved by averaging and doubled by linear interpolation, neither of which leaves a
    checkerboard as strided convolutions do; the maps of the way down are added on the way up. Without its
    last layer, which is 0 at first, it is the identity. Its features are the spatial means of the innermost
    map, which do not determine the prediction, so that there is no `decode`.

    Args:
        shape: Shape of one sample: (h, w) or (c, h, w); with ndim 1, (t,) or (c, t); with ndim 3, (d, h, w)
            or (c, d, h, w). Only the number of channels matters.
        n_components: Number of features, the channels of the innermost map.
        width: Channels of the outermost maps; doubled at each further scale.
        depth: Number of times that the sides are halved; by default 3, or 2 for volumes, whose tiles overlap
            along three axes; less for small samples.
        ndim: Number of axes of space or time: 1, 2 or 3.

    Attributes:
        stride: Multiple that sides are filled up to, by mirroring the sample at its end.
        context: Distance from which an entry of the input still changes an entry of the output.

    Example:
        >>> network = ResidualUNet((64, 64), 8, width=4)
        >>> network(torch.zeros(2, 50, 70)).shape, network.encode(torch.zeros(2, 50, 70)).shape
        (torch.Size([2, 50, 70]), torch.Size([2, 8]))
        >>> network.stride, network.context
        (8, 58)
    """

    def __init__(
        self,
        shape: Sequence[int],
        n_components: int = 64,
        *,
        width: int = 32,
        depth: int | None = None,
        ndim: int = 2,
    ) -> None:
        super().__init__()
        check_integer("width", width, at_least=1)
        check_integer("ndim", ndim, at_least=1, at_most=3)
        channels, *size = with_channels(shape, ndim)
        depth = min(2 if ndim == 3 else 3, deepest(size)) if depth is None else depth
        check_integer("depth", depth, at_least=1, at_most=8)
        self.ndim, self.channels, self.channel_axis = ndim, channels, len(shape) > ndim
        self.stride = 2**depth
        scales = self.stride - 1  # 1 + 2 + 4 + ...
        self.context = 2 * _BLOCK * scales + _BLOCK * self.stride + 2 * scales
        widths = [width * 2**level for level in range(depth)]
        below = [*widths[1:], n_components]
        conv = _CONVOLUTION[ndim]
        self.down = nn.ModuleList(map(self._block, [channels, *widths[:-1]], widths))
        self.bottom = self._block(widths[-1], n_components)[:-1]  # features have either sign
        self.reduce = nn.ModuleList(conv(b, a, 1) for a, b in reversed([*zip(widths, below, strict=True)]))
        self.up = nn.ModuleList(self._block(a, a) for a in reversed(widths))
        self.head = conv(width, channels, 1)
        self.reset_parameters()
        if ndim > 1:
            kind = torch.channels_last if ndim == 2 else torch.channels_last_3d
            self.to(memory_format=kind)  # type: ignore[call-overload]

    def reset_parameters(self) -> None:
        """Draw Glorot-uniform weights, with zero biases and a last layer of zeros."""
        for module in self.modules():
            if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d):
                nn.init.xavier_uniform_(module.weight)
                assert module.bias is not None  # noqa: S101  (for the type checker)
                nn.init.zeros_(module.bias)
        nn.init.zeros_(self.head.weight)  # type: ignore[arg-type]

    def encode(self, x: Tensor) -> Tensor:
        """Compute the features."""
        return self.map(x).flatten(2).mean(2)

    def map(self, x: Tensor) -> Tensor:
        """Compute the innermost map, (n, n_components, ...), of one entry for `stride` of the sample."""
        return self._maps(self._arranged(x))[-1]

    def forward(self, x: Tensor) -> Tensor:
        """Predict x."""
        arranged = self._arranged(x)
        *maps, inner = self._maps(arranged)
        for reduce, block, across in zip(self.reduce, self.up, reversed(maps), strict=True):
            larger = functional.interpolate(reduce(inner), across.shape[2:], mode=_INTERPOLATION[self.ndim])
            inner = block(larger + across)
        whole: Tensor = arranged + self.head(inner)
        inside: tuple[Any, ...] = (..., *(slice(0, length) for length in x.shape[-self.ndim :]))
        return whole[inside].reshape(x.shape)

    def _arranged(self, x: Tensor) -> Tensor:
        """Return samples with an axis of channels, and sides that are multiples of the stride."""
        # Not len(x), which an exported graph would keep as a number.
        x = x.reshape(x.shape[0], self.channels, *x.shape[-self.ndim :])
        for axis, length in enumerate(x.shape[2:], 2):
            if length % self.stride:  # mirrored, as `Items.padded` does
                place = torch.arange(-(-length // self.stride) * self.stride, device=x.device) % (2 * length)
                x = x.index_select(axis, torch.minimum(place, 2 * length - 1 - place))
        if self.ndim == 1:
            return x
        return x.contiguous(memory_format=torch.channels_last if self.ndim == 2 else torch.channels_last_3d)

    def _maps(self, x: Tensor) -> list[Tensor]:
        """Compute the maps of the way down, and the innermost map."""
        maps, inner = [], x
        for block in self.down:
            maps.append(block(inner))
            inner = _POOL[self.ndim](maps[-1], 2)
        return [*maps, self.bottom(inner)]

    def _block(self, before: int, after: int) -> nn.Sequential:
        conv, layers = _CONVOLUTION[self.ndim], list[nn.Module]()
        for _ in range(_BLOCK):
            layers += [conv(before, after, 3, padding=1), nn.ReLU()]
            before = after
        return nn.Sequential(*layers)

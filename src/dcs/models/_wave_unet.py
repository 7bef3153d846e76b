"""A U-Net for waveforms."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from dcs._checks import check_bool, check_integer
from dcs.models._convolutional import with_channels
from dcs.models._networks import NETWORKS


@NETWORKS.register("waveunet", summary="U-Net for denoising waveforms.", waveforms=True)
class WaveUNet(nn.Module):
    """A small U-Net over time for denoising waveforms; it predicts waveforms of any length.

    The encoder convolves and keeps every second sample; the decoder interpolates, convolves and sees the
    encoder's maps at every scale. Features are the means over time of the innermost map. Stoller et al.,
    ISMIR 2018.

    Args:
        shape: Shape of one signal, (t,) or (c, t).
        n_components: Number of features, the channels of the innermost map.
        width: Channels of the outermost maps; each further scale adds as many.
        depth: Number of times that the length is halved; by default 5, less for short signals.
        kernel: Length of a convolution, odd.
        normalise: Whether to divide each signal by its root mean square, and multiply the prediction by it,
            so that loudness does not matter.

    Example:
        >>> network = WaveUNet((1000,), 8)
        >>> network(torch.zeros(2, 1234)).shape, network.encode(torch.zeros(2, 1000)).shape
        (torch.Size([2, 1234]), torch.Size([2, 8]))
    """

    def __init__(
        self,
        shape: Sequence[int],
        n_components: int = 32,
        *,
        width: int = 16,
        depth: int | None = None,
        kernel: int = 9,
        normalise: bool = True,
    ) -> None:
        super().__init__()
        channels, length = with_channels(shape, 1)
        deepest = max(1, (length - 1).bit_length() - 1)
        depth = min(5, deepest) if depth is None else depth
        check_integer("width", width, at_least=1)
        check_integer("depth", depth, at_least=1, at_most=deepest)
        check_integer("kernel", kernel, at_least=3)
        check_bool("normalise", normalise)
        if kernel % 2 == 0:
            raise ValueError(f"kernel must be odd, so that it has a centre, got {kernel}")
        self.shape, self.channels, self.normalise = tuple(shape), channels, normalise
        widths = [width * (level + 1) for level in range(depth)]
        down, up = [], []
        for before, after in zip([channels, *widths[:-1]], widths, strict=True):
            down.append(_block(before, after, kernel))
        for level in reversed(range(depth)):
            below = n_components if level == depth - 1 else widths[level + 1]
            up.append(_block(below + widths[level], widths[level], kernel))
        self.down, self.up = nn.ModuleList(down), nn.ModuleList(up)
        self.bottom = _block(widths[-1], n_components, kernel)
        self.head = nn.Conv1d(width, channels, 1)

    def _maps(self, x: Tensor) -> list[Tensor]:
        """Compute the maps of the skip connections, and the innermost map."""
        maps, inner = [], x
        for block in self.down:
            maps.append(block(inner))
            inner = maps[-1][:, :, ::2]
        return [*maps, self.bottom(inner)]

    def _scaled(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return x with a channel axis, divided by its loudness, and the loudness."""
        # Not len(x), which an exported graph would keep as a number.
        x = x.reshape(x.shape[0], self.channels, -1)
        if not self.normalise:
            return x, x.new_ones(())
        loudness = x.detach().square().mean((1, 2), keepdim=True).sqrt()
        return x / loudness.clamp(min=1e-8), loudness  # so that silence stays silent

    def encode(self, x: Tensor) -> Tensor:
        """Compute the features."""
        return self._maps(self._scaled(x)[0])[-1].mean(2)

    def forward(self, x: Tensor) -> Tensor:
        """Predict x."""
        scaled, loudness = self._scaled(x)
        *maps, inner = self._maps(scaled)
        for block, across in zip(self.up, reversed(maps), strict=True):
            inner = interpolate(inner, across.shape[2], mode="linear", align_corners=False)
            inner = block(torch.cat([inner, across], dim=1))
        prediction: Tensor = self.head(inner) * loudness
        return prediction.reshape(x.shape)


def _block(channels: int, next_channels: int, kernel: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv1d(channels, next_channels, kernel, padding=kernel // 2),
        nn.LeakyReLU(0.2),
    )

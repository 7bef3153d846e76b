"""A U-Net for waveforms."""

from collections.abc import Sequence

from torch import Tensor, nn

from dcs._checks import check_bool, check_integer
from dcs.models._autoencoder import NETWORKS
from dcs.models._convolutional import BaseUNet, deepest, with_channels


@NETWORKS.register("waveunet", summary="U-Net for denoising waveforms.", waveforms=True)
class WaveUNet(BaseUNet):
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
        >>> import torch
        >>> network = WaveUNet((1000,), 8)
        >>> network(torch.zeros(2, 1234)).shape, network.encode(torch.zeros(2, 1000)).shape
        (torch.Size([2, 1234]), torch.Size([2, 8]))
    """

    _interpolation = "linear"

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
        channels, length = with_channels(shape, 1)
        most = deepest([length])
        depth = min(5, most) if depth is None else depth
        check_integer("width", width, at_least=1)
        check_integer("depth", depth, at_least=1, at_most=most)
        check_integer("kernel", kernel, at_least=3)
        check_bool("normalise", normalise)
        if kernel % 2 == 0:
            raise ValueError(f"kernel must be odd, so that it has a centre, got {kernel}")

        def block(before: int, after: int) -> nn.Module:
            return nn.Sequential(nn.Conv1d(before, after, kernel, padding=kernel // 2), nn.LeakyReLU(0.2))

        super().__init__(channels, range(width, width * depth + 1, width), n_components, block)
        self.shape, self.channels, self.normalise = tuple(shape), channels, normalise
        self.head = nn.Conv1d(width, channels, 1)

    def _halve(self, x: Tensor) -> Tensor:
        return x[:, :, ::2]

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
        prediction: Tensor = self.head(self._outermost(scaled)) * loudness
        return prediction.reshape(x.shape)

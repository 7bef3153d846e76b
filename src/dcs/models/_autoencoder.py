"""The registry of networks, fully connected autoencoders, and decoders for backbones."""

import itertools
import math
from collections.abc import Sequence

from torch import Tensor, nn

from dcs._checks import check_choice, check_integer
from dcs._registry import Registry

DECODERS = ("linear", "pixel_shuffle")
NETWORKS: Registry[nn.Module] = Registry("network", given=("shape", "n_components"))
"""Networks by name, made as factory(shape, n_components, **options).

Traits: `waveforms`, whether the network takes recordings as waveforms (n, t); `own_weights`, whether its
initial weights are its own rather than Glorot-uniform ones; `fixed_features`, whether the number of features
follows from other options.
"""


class Autoencoder(nn.Module):
    """Encoder and decoder: x -> features -> a prediction of the shape of x.

    Args:
        encoder: Module from (n, ...) to (n, features).
        decoder: Module from (n, features) to (n, ...).

    Example:
        >>> import torch
        >>> model = Autoencoder(nn.Linear(6, 2), nn.Linear(2, 6))
        >>> model(torch.zeros(5, 6)).shape, model.encode(torch.zeros(5, 6)).shape
        (torch.Size([5, 6]), torch.Size([5, 2]))
    """

    def __init__(self, encoder: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def encode(self, x: Tensor) -> Tensor:
        """Compute the features."""
        features: Tensor = self.encoder(x)
        return features

    def decode(self, features: Tensor) -> Tensor:
        """Predict x from its features."""
        prediction: Tensor = self.decoder(features)
        return prediction

    def forward(self, x: Tensor) -> Tensor:
        """Predict x."""
        return self.decode(self.encode(x))


@NETWORKS.register(
    "mlp", summary="Fully connected autoencoder D-500-500-2000-C, the paper's.", waveforms=True
)
def mlp(
    shape: Sequence[int], n_components: int = 10, *, hidden: Sequence[int] = (500, 500, 2000)
) -> Autoencoder:
    """Make the fully connected autoencoder D-500-500-2000-C of Expt0 and Expt1, with ReLU between layers.

    Args:
        shape: Shape of one sample, with any number of axes.
        n_components: Number of features.
        hidden: Widths of the encoder's hidden layers; the decoder's are the same in reverse.
    """
    for width in hidden:
        check_integer("hidden", width, at_least=1)
    size = math.prod(shape)
    encoder = nn.Sequential(nn.Flatten(), *_dense(size, *hidden, n_components))
    decoder = nn.Sequential(*_dense(n_components, *reversed(hidden), size), nn.Unflatten(1, tuple(shape)))
    return Autoencoder(encoder, decoder)


def _dense(*widths: int) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for width, next_width in itertools.pairwise(widths):
        layers += [nn.Linear(width, next_width), nn.ReLU()]
    return layers[:-1]


def make_decoder(name: str, features: int, shape: Sequence[int], *, width: int = 64) -> nn.Sequential:
    """Make a decoder of Expt2.

    Args:
        name: Kind of decoder: `linear`, one layer, as for CIFAR; or `pixel_shuffle`, the five layers for
            Tiny-ImageNet (Appendix D), for images whose sides are multiples of 16.
        features: Number of features of the backbone.
        shape: Shape of one image, (h, w) or (c, h, w).
        width: Width of the pixel-shuffle decoder; 64 in the paper.

    Example:
        >>> import torch
        >>> make_decoder("pixel_shuffle", 2048, (3, 64, 64), width=4)(torch.zeros(5, 2048)).shape
        torch.Size([5, 3, 64, 64])
    """
    check_choice("name", name, DECODERS)
    check_integer("features", features, at_least=1)
    check_integer("width", width, at_least=1)
    if name == "linear":
        return nn.Sequential(nn.Linear(features, math.prod(shape)), nn.Unflatten(1, tuple(shape)))
    if len(shape) not in (2, 3) or shape[-1] % 16 or shape[-2] % 16:
        raise ValueError(
            f"shape must be (h, w) or (c, h, w) with sides that are multiples of 16 for the pixel_shuffle "
            f"decoder, got {tuple(shape)}: use the linear one"
        )
    if width % 4:
        raise ValueError(f"width must be a multiple of 4 for the pixel_shuffle decoder, got {width}")
    before = 2 * width
    grid = (before, shape[-2] // 16, shape[-1] // 16)
    layers: list[nn.Module] = [nn.Linear(features, math.prod(grid)), nn.ReLU(), nn.Unflatten(1, grid)]
    for after, scaling in ((16 * width, 2), (8 * width, 2), (4 * width, 4)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
        layers.append(nn.PixelShuffle(scaling))
        before = after // scaling**2
    if len(shape) == 2:
        return nn.Sequential(*layers, nn.Conv2d(before, 1, 3, padding=1), nn.Flatten(1, 2))
    return nn.Sequential(*layers, nn.Conv2d(before, shape[0], 3, padding=1))

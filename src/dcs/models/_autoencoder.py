"""An encoder and a decoder in one module, and the fully connected networks of Expt0 and Expt1."""

import itertools
import math
from collections.abc import Sequence

from torch import Tensor, nn

from dcs._checks import check_integer
from dcs.models._networks import NETWORKS


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

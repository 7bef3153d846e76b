"""Networks: autoencoders for vectors, images, signals and spectrograms, U-Nets for denoising, and ResNets."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from dcs._checks import check_choice, check_integer
from dcs.models._autoencoder import Autoencoder, mlp
from dcs.models._convolutional import UNet, conv, conv1d
from dcs.models._decoders import make_decoder
from dcs.models._resnet import ResNet, resnet18, resnet50
from dcs.models._vit import ViT
from dcs.models._wave_unet import WaveUNet

REGISTRY: dict[str, Callable[..., nn.Module]] = {
    "mlp": mlp,
    "conv": conv,
    "conv1d": conv1d,
    "unet": UNet,
    "vit": ViT,
    "waveunet": WaveUNet,
    "resnet18": resnet18,
    "resnet50": resnet50,
}
_OWN_WEIGHTS = ("resnet18", "resnet50")


def build(
    name: str, shape: Sequence[int], n_components: int = 10, *, seed: int = 0, **options: Any
) -> nn.Module:
    """Make a network by its name in `REGISTRY`.

    Initial weights are Keras' (Glorot-uniform, and no bias), and those of He et al. for the ResNets.

    Args:
        name: `mlp`, `conv`, `conv1d`, `unet`, `vit`, `waveunet`, `resnet18` or `resnet50`.
        shape: Of one sample.
        n_components: Features. Those of a ResNet follow from its width instead.
        seed: Where the weights are drawn from; torch's own random state is left alone.
        **options: Of the network.

    Example:
        >>> build("mlp", (8, 8), 10, hidden=(32,)).encode(torch.zeros(3, 8, 8)).shape
        torch.Size([3, 10])
    """
    check_choice("network", name, REGISTRY)
    check_integer("n_components", n_components, at_least=1)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed the GPUs too
        network = REGISTRY[name](shape, n_components, **options)
        if name not in _OWN_WEIGHTS:
            network.apply(_glorot)
    return network


def _glorot(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Conv1d | nn.Conv2d):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


__all__ = [
    "REGISTRY",
    "Autoencoder",
    "ResNet",
    "UNet",
    "ViT",
    "WaveUNet",
    "build",
    "conv",
    "conv1d",
    "make_decoder",
    "mlp",
    "resnet18",
    "resnet50",
]

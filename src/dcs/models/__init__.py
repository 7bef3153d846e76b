"""Networks: autoencoders for vectors, images, signals and spectrograms, U-Nets for denoising, and ResNets."""

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from dcs._checks import check_integer
from dcs.models._autoencoder import Autoencoder, mlp
from dcs.models._convolutional import UNet, conv, conv1d
from dcs.models._decoders import make_decoder
from dcs.models._inference import device_named, device_of, encoder_of, inferring
from dcs.models._networks import NETWORKS
from dcs.models._resnet import ResNet, resnet18, resnet50
from dcs.models._vit import ViT
from dcs.models._wave_unet import WaveUNet


def build(
    name: str, shape: Sequence[int], n_components: int | None = None, *, seed: int = 0, **options: Any
) -> nn.Module:
    """Make a network by its name in `NETWORKS`.

    Initial weights are Glorot-uniform with zero biases, as in Keras; He-normal for the ResNets.

    Args:
        name: Name of the network.
        shape: Shape of one sample.
        n_components: Number of features; None is the network's own default. That of a ResNet follows from
            its width.
        seed: Random seed of the weights; torch's global random state is not changed.
        **options: Options of the network.

    Example:
        >>> build("mlp", (8, 8), 10, hidden=(32,)).encode(torch.zeros(3, 8, 8)).shape
        torch.Size([3, 10])
    """
    entry = NETWORKS[name]
    if n_components is None:
        n_components = default_components(name)
    else:
        check_integer("n_components", n_components, at_least=1)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed the GPUs too
        network = NETWORKS.make(name, options, shape, n_components)
        if not entry.traits.get("own_weights"):
            network.apply(_glorot)
    return network


def default_components(name: str) -> int | None:
    """Return the number of features that a network has by default; None if it follows from other options."""
    default: int | None = inspect.signature(NETWORKS[name].factory).parameters["n_components"].default
    return default


def _glorot(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Conv1d | nn.Conv2d):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


__all__ = [
    "NETWORKS",
    "Autoencoder",
    "ResNet",
    "UNet",
    "ViT",
    "WaveUNet",
    "build",
    "conv",
    "conv1d",
    "default_components",
    "device_named",
    "device_of",
    "encoder_of",
    "inferring",
    "make_decoder",
    "mlp",
    "resnet18",
    "resnet50",
]

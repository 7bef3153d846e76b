"""Networks: autoencoders for vectors, images, signals and spectrograms, U-Nets for denoising, and ResNets."""

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dcs._checks import check_integer
from dcs.models._autoencoder import NETWORKS, Autoencoder, make_decoder, mlp
from dcs.models._convolutional import UNet, conv, conv1d
from dcs.models._residual_unet import ResidualUNet
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
    if n_components is None:
        n_components = default_components(name)
    else:
        check_integer("n_components", n_components, at_least=1)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed the GPUs too
        network = NETWORKS.make(name, options, shape, n_components)
        if not NETWORKS[name].traits.get("own_weights"):
            network.apply(_glorot)
    return network


def default_components(name: str) -> int | None:
    """Return the number of features that a network has by default; None if it follows from other options."""
    default: int | None = inspect.signature(NETWORKS[name].factory).parameters["n_components"].default
    return default


def encoder_of(network: nn.Module) -> Callable[[Tensor], Tensor]:
    """Return what computes a network's features, (n, k): its method `encode`, or its module `encoder`."""
    encode = getattr(network, "encode", None) or getattr(network, "encoder", None)
    if not callable(encode):
        raise ValueError(
            f"network must have a method encode(x), or a module encoder, that gives the features; "
            f"{type(network).__name__} has neither"
        )
    return lambda x: encode(x).flatten(1)


@contextlib.contextmanager
def inferring(network: nn.Module, device: torch.device) -> Iterator[None]:
    """Use a network in evaluation mode, without gradients, on a device; restore its state afterwards."""
    training, before = {module: module.training for module in network.modules()}, device_of(network)
    network.eval().to(device)
    try:
        with torch.no_grad():
            yield
    finally:
        network.to(before)
        for module, flag in training.items():
            module.training = flag


def device_named(name: str) -> torch.device:
    """Return the device of a setting: `cpu`, or `auto` for the best one available."""
    best = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return torch.device("cpu") if name == "cpu" or best is None else best


def device_of(network: nn.Module) -> torch.device:
    """Return the device of a network's parameters."""
    return next((parameter.device for parameter in network.parameters()), torch.device("cpu"))


def _glorot(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Conv1d | nn.Conv2d):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


__all__ = [
    "NETWORKS",
    "Autoencoder",
    "ResNet",
    "ResidualUNet",
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

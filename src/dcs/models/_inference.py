"""Use of a network outside of training: devices, evaluation mode, and features."""

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn


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

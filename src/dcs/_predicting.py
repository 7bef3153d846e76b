"""Predictions for whole data sets, and the scale that direction-only objectives leave open."""

import contextlib
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dcs import data, objectives

# Objectives that compare directions only: a prediction's length means nothing.
SCALE_FREE = (objectives.Cosine, objectives.DenoisingCosine, objectives.CosineOracle)
_SCALE_SAMPLES = 16_384
_OTHER_UNITS = 100  # pixels as integers and as fractions of one differ by 255
_FEW_ROWS = 64

rows_of = data.rows_per_batch

Array = NDArray[Any]
Numbers = Tensor | data.Samples


def encoder_of(network: nn.Module) -> Callable[[Tensor], Tensor]:
    """What computes a network's features, (n, k): its method `encode`, or its module `encoder`."""
    encode = getattr(network, "encode", None) or getattr(network, "encoder", None)
    if not callable(encode):
        raise ValueError(
            f"network must have a method encode(x), or a module encoder, that gives the features; "
            f"{type(network).__name__} has neither"
        )
    return lambda x: encode(x).flatten(1)


def prediction_scale(
    network: nn.Module,
    objective: objectives.Objective,
    x: Numbers,
    device: torch.device | None = None,
    lengths: Tensor | None = None,
) -> float:
    """The positive number a for which a s_hat is nearest to x, over all samples: Σ⟨x, s_hat⟩/Σ‖s_hat‖².

    It is 1 for an objective that sees the data's scale. At most 16,384 samples, evenly spread, are used.
    Where predictions point away from the data (nothing was learned), it is the ratio of the norms.

    Args:
        network: Trained.
        objective: What it was trained with.
        x: The samples it was trained on.
        device: Where to predict; by default where the network is.
        lengths: How much of each sample is no padding, (n,), which does not count.
    """
    if not isinstance(objective, SCALE_FREE):
        return 1.0
    device = device_of(network) if device is None else device
    rows = torch.arange(0, x.shape[0], -(-x.shape[0] // _SCALE_SAMPLES))
    products = torch.zeros(3, dtype=torch.float64)
    with predicting(network, device):
        for batch in data.Batches(x, rows_of(x), device=device, rows=rows).epoch():
            seen, inside = batch.x, None
            if lengths is not None:
                inside = data.valid_entries(lengths[batch.rows].to(device), x.shape[1:])
                seen = seen.where(inside, 0)
            prediction = network(seen)
            prediction = prediction if inside is None else prediction * inside
            a, b = (part.flatten().cpu().double() for part in (seen, prediction))
            products += torch.stack([a @ b, b @ b, a @ a])
    inner, predicted, given = products.tolist()
    if predicted <= 0:
        return 1.0
    scale = inner / predicted if inner > 0 else math.sqrt(given / predicted)
    return scale if 0 < scale < math.inf else 1.0


def largest_value(x: Numbers) -> float:
    """The largest absolute value of the data, or of a few samples of data that is not in memory."""
    if isinstance(x, data.Samples):
        x = x.read(range(0, x.shape[0], -(-x.shape[0] // _FEW_ROWS)))
    return max(abs(float(extreme)) for extreme in torch.aminmax(x))


def check_units(x: Numbers, fitted: float | None) -> None:
    """Warn of data in other units than what was fitted, by its largest value."""
    here = 0.0 if isinstance(x, data.Samples) else largest_value(x)
    if fitted and here and not 1 / _OTHER_UNITS < here / fitted < _OTHER_UNITS:
        warnings.warn(
            f"X goes up to {here:.3g}, what was fitted up to {fitted:.3g}: are the units the same? 8- and "
            f"16-bit unsigned integers are scaled to 0…1, other numbers are taken as they are",
            data.DataWarning,
            stacklevel=4,
        )


@contextlib.contextmanager
def predicting(network: nn.Module, device: torch.device) -> Iterator[None]:
    """Evaluation mode without gradients on a device; all is as before afterwards."""
    training, before = {module: module.training for module in network.modules()}, device_of(network)
    network.eval().to(device)
    try:
        with torch.no_grad():
            yield
    finally:
        network.to(before)
        for module, flag in training.items():
            module.training = flag


def collect(
    network: nn.Module,
    call: Callable[..., Tensor],
    x: Numbers,
    device: torch.device,
    lengths: Tensor | None = None,
    rows: int | None = None,
) -> Array:
    """`dcs.data.map_batches` with a network in evaluation mode on a device."""
    with predicting(network, device):
        return data.map_batches(call, x, rows=rows, device=device, lengths=lengths)


def nearest(x: Tensor, prediction: Tensor, valid: Tensor | None = None) -> Tensor:
    """Each prediction times the number that takes it nearest to x; where it is not valid, it is 0."""
    prediction = prediction if valid is None else prediction * valid
    a, b = x.flatten(1).cpu().double(), prediction.flatten(1).cpu().double()
    factor = (a * b).sum(1) / (b * b).sum(1).clamp(min=torch.finfo(torch.float64).tiny)
    return (b * factor[:, None]).reshape(x.shape)


def device_named(name: str) -> torch.device:
    """What a setting means: `cpu`, or `auto` for the best there is."""
    best = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return torch.device("cpu") if name == "cpu" or best is None else best


def device_of(network: nn.Module) -> torch.device:
    """Where a network's parameters are."""
    return next((parameter.device for parameter in network.parameters()), torch.device("cpu"))

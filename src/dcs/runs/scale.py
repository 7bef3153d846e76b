"""Scales of predictions: length of a direction, brightness and contrast of a picture, units of data."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dcs import models, objectives
from dcs.data import Batches, Items, Samples, rows_per_batch, valid_entries

Array = NDArray[Any]
Numbers = Tensor | Samples
_SCALE_SAMPLES = 16_384
_FEW_ROWS = 64


def nearest(x: Tensor, prediction: Tensor, valid: Tensor | None = None) -> Tensor:
    """Multiply each prediction by the number that takes it nearest to x; where it is not valid, it is 0."""
    prediction = prediction if valid is None else prediction * valid
    a, b = x.flatten(1).cpu().double(), prediction.flatten(1).cpu().double()
    factor = (a * b).sum(1) / (b * b).sum(1).clamp(min=torch.finfo(torch.float64).tiny)
    return (b * factor[:, None]).reshape(x.shape)


def prediction_scale(
    network: nn.Module,
    objective: objectives.Objective,
    x: Numbers,
    lengths: Tensor | None = None,
    device: torch.device | None = None,
) -> float:
    """Return the positive number a for which a s_hat is nearest to x over all samples: Σ⟨x, s_hat⟩/Σ‖s_hat‖².

    It is 1 for an objective that sees the data's scale. At most 16,384 samples, evenly spread, are used.
    Where predictions point away from the data (nothing was learned), it is the ratio of the norms.
    """
    if not objective.scale_free:
        return 1.0
    device = models.device_of(network) if device is None else device
    rows = torch.arange(0, x.shape[0], -(-x.shape[0] // _SCALE_SAMPLES))
    products = torch.zeros(3, dtype=torch.float64)
    with models.inferring(network, device):
        for seen, valid in batches(x, lengths, device, rows):
            if valid is not None:
                seen = seen.where(valid, 0)
            prediction = network(seen) if valid is None else network(seen) * valid
            a, b = (part.flatten().cpu().double() for part in (seen, prediction))
            products += torch.stack([a @ b, b @ b, a @ a])
    inner, predicted, given = products.tolist()
    if predicted <= 0:
        return 1.0
    scale = inner / predicted if inner > 0 else math.sqrt(given / predicted)
    return scale if 0 < scale < math.inf else 1.0


def match(result: Array, items: Items, index: int) -> None:
    """Shift and scale a prediction to the brightness and contrast of the noisy item, in place."""
    rows = np.array_split(np.arange(items.sizes[index][0]), -(-result.size // 2**22))
    sums = np.zeros(5)
    for some in rows if result.size else ():
        start, size = (int(some[0]), *[0] * (items.ndim - 1)), (len(some), *items.sizes[index][1:])
        x = items.region(index, start, size).numpy().astype(np.float64)
        place: Any = (..., slice(int(some[0]), int(some[-1]) + 1), *[slice(None)] * (items.ndim - 1))
        s = result[place].astype(np.float64)
        sums += [x.size, x.sum(), s.sum(), (x * s).sum(), (s * s).sum()]
    count, of_x, of_s, of_both, of_square = sums
    variance = of_square / count - (of_s / count) ** 2
    factor = max(0.0, (of_both / count - of_x * of_s / count**2) / variance) if variance > 0 else 1.0
    result *= factor
    result += (of_x - factor * of_s) / count


def largest_value(x: Numbers) -> float:
    """Return the largest absolute value of data, or of a few samples of data that is not in memory."""
    if isinstance(x, Samples):
        x = x.read(range(0, x.shape[0], -(-x.shape[0] // _FEW_ROWS)))
    return max(abs(float(extreme)) for extreme in torch.aminmax(x))


def batches(
    x: Numbers, lengths: Tensor | None, device: torch.device, rows: Tensor | None = None
) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Yield batches of samples, and which of their entries are not padding, if there is any."""
    for batch in Batches(x, rows_per_batch(x), device=device, rows=rows).epoch():
        inside = None if lengths is None else lengths[batch.rows].to(device)
        yield batch.x, None if inside is None else valid_entries(inside, x.shape[1:])

"""Search for a part of the data that is much noisier than the rest, and so has no flat regions.

Samples are cut into small cells, and those with the largest residuals are examined alone: they hold noise or
detail. Detail is predicted far better from near than from distant entries, and its residuals alternate in
sign; white noise cannot be predicted from either, and its best predictions are plain means.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from dcs.inspection._residuals import FAR, NEAR, Level, quantiles, window_residuals

_SIDE = {1: 48, 2: 6}  # approximate side of a cell
_LOUD = 3  # times the noise in flat regions
_FEWEST = 1000  # places in loud cells
# Ratio of far to near residuals, and correlation of adjacent near residuals. White noise: at most 1.2, and at
# least -0.17; detail of mnist, fashion-mnist and cifar10: at least 1.9, and at most -0.4.
_NOISE = (1.35, -0.27)
_PERHAPS = (1.6, -0.35)


class NoisyPart(NamedTuple):
    """The noisier part of the data."""

    share: float  # share of all places that are in it
    at: Level  # its residuals, as a level
    correlations: tuple[float, float, float]  # correlations of its far residuals 1, 2 and 3 entries apart
    of_samples: bool | None  # whether it consists of whole samples, not of a part of each; None if unknown
    sure: bool  # whether it is certainly noise; otherwise it may be fine detail
    by_brightness: bool  # whether it coincides with large, or with small values


def find_noisy_part(
    tiles: Tensor, value: Tensor, predicted: Tensor, flat: float, visible: float, whole: bool
) -> NoisyPart | None:
    """Find the noisier part; None if there is none, or if it is certainly fine detail.

    Args:
        tiles: The data, (m, space).
        value: Near residuals, which lack the border.
        predicted: Predictions that belong to them.
        flat: Standard deviation of `value` in flat regions.
        visible: Smallest standard deviation that counts as noise.
        whole: Whether a tile is a whole sample.
    """
    ndim = value.ndim - 1
    # The median is robust to edges that cross a cell.
    sizes = [cell.abs().flatten(1).median(1).values / 0.6745 for cell in _cells(value)]
    size = torch.stack(sizes, 1)
    limit = max(_LOUD * flat, visible, 0.5 * quantiles(size, (0.97,))[0])
    loud = size > limit
    mask = torch.zeros_like(value, dtype=torch.bool)
    for cell, here in zip(_cells(mask), loud.unbind(1), strict=True):
        cell[here] = True
    if int(mask.sum()) < _FEWEST:
        return None
    (near_side, near_rim), (far_side, far_rim) = NEAR[ndim], FAR[ndim]
    further = far_side // 2 - near_side // 2
    inside = mask[(slice(None), *[slice(further, -further)] * ndim)]
    if min(value.shape[1:]) <= 2 * further or int(inside.sum()) < _FEWEST:
        return None
    near = _alone(tiles, near_side, near_rim, mask)
    far = _alone(tiles, far_side, far_rim, inside)
    loudest = near[mask]
    deviation = float(loudest.std())
    ratio = float(far[inside].std()) / deviation if deviation > 0 else math.inf
    adjacent = _correlation_at(near, 1)
    if ratio > _PERHAPS[0] or adjacent < _PERHAPS[1] or not deviation > max(visible, 2 * flat):
        return None
    kurtosis = float(loudest.pow(4).mean()) / deviation**4 - 3
    bright = torch.stack([cell.flatten(1).mean(1) for cell in _cells(predicted)], 1)
    coincidence = torch.corrcoef(torch.stack([bright.flatten(), loud.double().flatten()]))[0, 1]
    by_sample, by_cell = (float(loud.double().mean(axis).var(correction=0)) for axis in (1, 0))
    return NoisyPart(
        share=float(mask.double().mean()),
        at=Level(float(predicted[mask].mean()), deviation, kurtosis, mask.flatten().nonzero().squeeze(1)),
        correlations=(_correlation_at(far, 1), _correlation_at(far, 2), _correlation_at(far, 3)),
        of_samples=by_sample > by_cell if whole else None,
        sure=ratio <= _NOISE[0] and adjacent >= _NOISE[1],
        by_brightness=abs(float(coincidence)) > 0.5,
    )


def _cells(values: Tensor, axis: int = 1) -> Iterator[Tensor]:
    """Yield the cells of all tiles, one position after the other, as views."""
    if axis == values.ndim:
        yield values
        return
    for part in values.tensor_split(max(1, values.shape[axis] // _SIDE[values.ndim - 1]), axis):
        yield from _cells(part, axis + 1)


def _alone(tiles: Tensor, side: int, inner: int, kept: Tensor) -> Tensor:
    """Return the residuals of some places by a regression on these alone; NaN elsewhere."""
    value = torch.full(kept.shape, math.nan, dtype=tiles.dtype, device=tiles.device)
    value[kept] = window_residuals(tiles, side, inner, kept)[0]
    return value


def _correlation_at(value: Tensor, lag: int) -> float:
    """Return the correlation of residuals `lag` entries apart, over all axes, where both are known."""
    found = []
    for axis in range(1, value.ndim):
        rest = value.shape[axis] - lag
        one, other = value.narrow(axis, 0, rest).flatten(), value.narrow(axis, lag, rest).flatten()
        both = torch.stack([one, other])[:, ~(one + other).isnan()]
        if both.shape[1] >= 50:
            found.append(float(torch.corrcoef(both)[0, 1]))
    return sum(found) / len(found) if found else math.nan

"""Is a part of the data much noisier than the rest? Calm places, which all else rests on, are not there.

Samples are cut into small cells, and the loudest of them are looked at alone: they may hold noise, or detail.
Detail is foretold far better from near than from further off, and its residuals swing from entry to entry;
noise that differs from entry to entry is foretold as badly from anywhere, by plain means of what is around.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from dcs.inspection._residuals import FAR, NEAR, Level, quantiles, window_residuals

_SIDE = {1: 48, 2: 6}  # of a cell, about
_LOUD = 3  # times the calm places
_FEWEST = 1000  # loud places
# Of white noise far over near is at most 1.2, and the correlation of near residuals next to each other -0.17;
# of the detail of mnist, fashion-mnist and cifar10 they are at least 1.9, and at most -0.4.
_NOISE = (1.35, -0.27)
_PERHAPS = (1.6, -0.35)


class Part(NamedTuple):
    """The noisier part of the data.

    Args:
        share: Of all places that are in it.
        at: Its residuals, as a level; their places are not known.
        like: Correlations of its far residuals 1, 2 and 3 entries apart.
        of_samples: Whether it is made of whole samples, rather than of a part of each; None if unknown.
        sure: Whether it is noise; else it may be fine detail.
        by_brightness: Whether it is where values are large, or where they are small.
    """

    share: float
    at: Level
    like: tuple[float, float, float]
    of_samples: bool | None
    sure: bool
    by_brightness: bool


def noisier_part(
    pieces: Tensor, left: Tensor, foretold: Tensor, calm: float, visible: float, whole: bool
) -> Part | None:
    """Find it; None if there is none, or if it is surely fine detail.

    Args:
        pieces: The data (m, space).
        left: What surroundings do not foretell of it, without the rim.
        foretold: What they do.
        calm: The deviation of `left` in calm places.
        visible: Less than this is no noise.
        whole: Whether a piece is a whole sample.
    """
    ndim = left.ndim - 1
    # By the median, which edges that cross a cell hardly move.
    sizes = [cell.abs().flatten(1).median(1).values / 0.6745 for cell in _cells(left)]
    size = torch.stack(sizes, 1)
    limit = max(_LOUD * calm, visible, 0.5 * quantiles(size, (0.97,))[0])
    loud = size > limit
    mask = torch.zeros_like(left, dtype=torch.bool)
    for cell, here in zip(_cells(mask), loud.unbind(1), strict=True):
        cell[here] = True
    if int(mask.sum()) < _FEWEST:
        return None
    (near_side, near_rim), (far_side, far_rim) = NEAR[ndim], FAR[ndim]
    further = far_side // 2 - near_side // 2
    inside = mask[(slice(None), *[slice(further, -further)] * ndim)]
    if min(left.shape[1:]) <= 2 * further or int(inside.sum()) < _FEWEST:
        return None
    near = _alone(pieces, near_side, near_rim, mask)
    far = _alone(pieces, far_side, far_rim, inside)
    values = near[mask]
    deviation = float(values.std())
    ratio = float(far[inside].std()) / deviation if deviation > 0 else math.inf
    swing = _likeness(near, 1)
    if ratio > _PERHAPS[0] or swing < _PERHAPS[1] or not deviation > max(visible, 2 * calm):
        return None
    kurtosis = float(values.pow(4).mean()) / deviation**4 - 3
    bright = torch.stack([cell.flatten(1).mean(1) for cell in _cells(foretold)], 1)
    together = torch.corrcoef(torch.stack([bright.flatten(), loud.double().flatten()]))[0, 1]
    by_sample, by_cell = (float(loud.double().mean(axis).var(correction=0)) for axis in (1, 0))
    return Part(
        share=float(mask.double().mean()),
        at=Level(float(foretold[mask].mean()), deviation, kurtosis, mask.flatten().nonzero().squeeze(1)),
        like=(_likeness(far, 1), _likeness(far, 2), _likeness(far, 3)),
        of_samples=by_sample > by_cell if whole else None,
        sure=ratio <= _NOISE[0] and swing >= _NOISE[1],
        by_brightness=abs(float(together)) > 0.5,
    )


def _cells(values: Tensor, axis: int = 1) -> Iterator[Tensor]:
    """The same cells of all pieces, one after the other, as views."""
    if axis == values.ndim:
        yield values
        return
    for part in values.tensor_split(max(1, values.shape[axis] // _SIDE[values.ndim - 1]), axis):
        yield from _cells(part, axis + 1)


def _alone(pieces: Tensor, side: int, inner: int, kept: Tensor) -> Tensor:
    """What is left of some places by a rule made for them alone; NaN elsewhere."""
    left = torch.full(kept.shape, math.nan, dtype=pieces.dtype, device=pieces.device)
    left[kept] = window_residuals(pieces, side, inner, kept)[0]
    return left


def _likeness(left: Tensor, lag: int) -> float:
    """The correlation of residuals `lag` entries apart, over the axes of space, where both are known."""
    found = []
    for axis in range(1, left.ndim):
        rest = left.shape[axis] - lag
        one, other = left.narrow(axis, 0, rest).flatten(), left.narrow(axis, lag, rest).flatten()
        both = torch.stack([one, other])[:, ~(one + other).isnan()]
        if both.shape[1] >= 50:
            found.append(float(torch.corrcoef(both)[0, 1]))
    return sum(found) / len(found) if found else math.nan

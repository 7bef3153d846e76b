"""Residuals of predictions from neighbouring entries, which show the noise without knowing the signal.

Each entry is predicted from others, never from itself (a blind spot), by linear regression on the data. The
residual holds the entry's own noise and the signal that cannot be predicted. There is least of the latter in
flat regions, where the other entries hardly differ: the flattest quarter of the places at each brightness.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

_PLACES = 2**18  # number of residuals that is enough for every statistic
_TILE = {1: 1024, 2: 64}  # larger samples are cut into tiles
LARGE = 24  # side from which on flat regions are found without regard to positions
_BINS = 12
_FEWEST = 400  # places at one brightness
_FLAT = 0.25
_CELLS = 6  # along each axis, to compare positions
# Windows from which their centre is predicted: side, and smallest distance from the centre.
_NEAR = {1: (9, 1), 2: (5, 1)}
_FAR = {1: (17, 5), 2: (7, 3)}
_SIDE = {1: 48, 2: 6}  # approximate side of the cells among which a noisier part is searched
_LOUD = 3  # times the noise in flat regions
_FEWEST_LOUD = 1000  # places in loud cells
# Ratio of far to near residuals, and correlation of adjacent near residuals. White noise: at most 1.2, and at
# least -0.17; detail of mnist, fashion-mnist and cifar10: at least 1.9, and at most -0.4.
_NOISE = (1.35, -0.27)
_PERHAPS = (1.6, -0.35)


class Residuals(NamedTuple):
    """Residual, prediction and variance of the neighbours at each place, (images, space)."""

    value: Tensor
    predicted: Tensor
    activity: Tensor


class Level(NamedTuple):
    """Residuals in the flat regions of one brightness: standard deviation, excess kurtosis and places."""

    brightness: float
    deviation: float
    kurtosis: float
    places: Tensor

    @property
    def error(self) -> float:
        """Standard error of the deviation."""
        return self.deviation * math.sqrt(max(self.kurtosis + 2, 0.1) / (4 * len(self.places)))


class NoiseSpread(NamedTuple):
    """Standard deviations in flat regions, compared between samples or between positions."""

    typical: float  # that of the median sample, or of the noisiest cell of a grid
    least: float  # that of the least noisy ones
    mean: float  # root mean square over all
    differs: bool  # whether some are clearly less noisy


class NoisyPart(NamedTuple):
    """The noisier part of the data."""

    share: float  # share of all places that are in it
    at: Level  # its residuals, as a level
    correlations: tuple[float, ...]  # correlations of its far residuals 1, 2 and 3 entries apart
    of_samples: bool | None  # whether it consists of whole samples, not of a part of each; None if unknown
    sure: bool  # whether it is certainly noise; otherwise it may be fine detail
    by_brightness: bool  # whether it coincides with large, or with small values


def residuals(images: Tensor) -> tuple[Residuals | None, Residuals | None, bool]:
    """Predict entries from all their neighbours, and from distant ones only, which do not share their noise.

    Small images (n, channels, space) are predicted position by position, if there are enough of them: from
    all other entries, and from the mean of the position. Whether they are is returned, too. Residuals are
    None if images are too small.
    """
    space = images.shape[2:]
    near, far = _NEAR[len(space)], _FAR[len(space)]
    entries = math.prod(images.shape[1:])
    if len(space) == 2 and 6 <= min(space) < LARGE and entries <= 512 and len(images) >= 8 * entries:
        return *_by_position(images), True
    if min(space) < 2 * near[0]:
        return None, None, False
    tiles = _tiles(images)
    return _by_window(tiles, *near), _by_window(tiles, *far) if min(space) >= far[0] + 3 else None, False


def _tiles(images: Tensor) -> Tensor:
    """Return images, or tiles of large ones, (m, space), evenly spread and no more than are needed."""
    ndim = images.ndim - 2
    tile = _TILE[ndim]
    tiles = images.flatten(0, 1)
    for axis in range(1, ndim + 1):
        if tiles.shape[axis] >= 2 * tile:
            tiles = tiles.unfold(axis, tile, tile)  # index of the tile at the axis, its entries last
            tiles = tiles.movedim((axis, -1), (1, axis + 1)).flatten(0, 1)
    wanted = max(8, _PLACES // math.prod(tiles.shape[1:]))
    return tiles[:: -(-len(tiles) // wanted)].double()


def _by_window(tiles: Tensor, side: int, inner: int, kept: Tensor | None = None) -> Residuals:
    """Predict the centres of all or some windows from their entries `inner` or more away; NaN elsewhere."""
    ndim, reach = tiles.ndim - 1, side // 2
    windows = tiles
    for axis in range(1, ndim + 1):
        windows = windows.unfold(axis, side, 1)
    shape = windows.shape[: ndim + 1]
    kept = torch.ones(shape, dtype=torch.bool, device=tiles.device) if kept is None else kept
    steps = torch.arange(-reach, reach + 1, device=tiles.device).abs()
    distance = steps if ndim == 1 else torch.maximum(steps[:, None], steps)
    flat = windows[kept].reshape(-1, side**ndim)
    others, centre = flat[:, (distance >= inner).reshape(-1)], flat[:, side**ndim // 2]
    mean, offset = others.mean(0), centre.mean()
    moved = others - mean
    predicted = moved @ _solve(moved.mT @ moved, moved.mT @ (centre - offset)) + offset
    found = (centre - predicted, predicted, others.var(1))
    return Residuals(*(tiles.new_full(shape, math.nan).masked_scatter(kept, values) for values in found))


def _by_position(images: Tensor) -> tuple[Residuals, Residuals]:
    """Predict each position from all others, and from its own mean."""
    n, d = len(images), images[0].numel()
    x = images.reshape(n, d).double()
    moved = x - x.mean(0)
    precision = _solve(moved.mT @ moved, torch.eye(d, dtype=x.dtype, device=x.device))
    value = moved @ precision / precision.diagonal()
    variance = value.square().mean(0).expand(n, d)
    shape = (-1, *images.shape[2:])
    # As many coefficients as positions are fitted, which makes residuals too small.
    near = (value * math.sqrt(n / (n - d)), x - value, variance)
    far = (moved, x.mean(0).expand(n, d), moved.square().mean(0).expand(n, d))
    return Residuals(*(v.reshape(shape) for v in near)), Residuals(*(v.reshape(shape) for v in far))


def _solve(gram: Tensor, right: Tensor) -> Tensor:
    """Solve a linear system, with a small ridge for entries that are constant or equal."""
    ridge = 1e-6 * float(gram.diagonal().mean()) or 1.0
    identity = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    solution: Tensor = torch.linalg.solve(gram + ridge * identity, right)
    return solution


def levels(residuals: Residuals | None) -> list[Level]:
    """Return the levels of flat regions, from dark to bright; none where there are too few places."""
    if residuals is None:
        return []
    value, predicted, activity = (values.reshape(-1) for values in residuals)
    low, high = quantiles(predicted, (0.005, 0.995))
    number = ((predicted - low) / max(high - low, 1e-300) * _BINS).floor().clamp(-1, _BINS)
    if high <= low:
        number.zero_()
    found = []
    for bin_ in range(_BINS):
        places = (number == bin_).nonzero().squeeze(1)
        if len(places) < _FEWEST:
            continue
        here = activity[places]
        places = places[here <= quantiles(here, (_FLAT,))[0]]
        values = value[places] - value[places].mean()  # a linear prediction may be biased at some brightness
        square = float(values.square().mean())
        kurtosis = float(values.pow(4).mean()) / square**2 - 3 if square > 1e-150 else 0.0
        found.append(Level(float(predicted[places].mean()), math.sqrt(square), kurtosis, places))
    return found


def pool(some: list[Level]) -> Level:
    """Pool several levels into one, weighted by their numbers of places."""
    counts = [len(at.places) for at in some]

    def mean(values: Iterable[float]) -> float:
        return sum(value * count for value, count in zip(values, counts, strict=True)) / sum(counts)

    return Level(
        mean(at.brightness for at in some),
        math.sqrt(mean(at.deviation**2 for at in some)),
        mean(at.kurtosis for at in some),
        torch.cat([at.places for at in some]),
    )


def quantiles(values: Tensor, shares: tuple[float, ...]) -> list[float]:
    """Return quantiles; those of evenly spread values if there are very many."""
    some = values.reshape(-1)[:: max(1, values.numel() // 2**19)]
    found: list[float] = torch.quantile(some.double(), some.new_tensor(shares, dtype=torch.float64)).tolist()
    return found


def correlation_at(residuals: Residuals, places: Tensor, lag: int) -> float:
    """Return the correlation of residuals at some places with those `lag` entries away, over all axes."""
    kept = torch.zeros(residuals.value.numel(), dtype=torch.bool, device=places.device)
    kept[places] = True
    return _correlation(residuals.value, kept.reshape(residuals.value.shape), lag)


def _correlation(value: Tensor, kept: Tensor, lag: int) -> float:
    """Return the correlation of kept values with those `lag` entries away that are not NaN, over all axes."""
    found = []
    for axis in range(1, value.ndim):
        rest = value.shape[axis] - lag
        if rest < 1:
            continue
        one, other = value.narrow(axis, 0, rest), value.narrow(axis, lag, rest)
        here = kept.narrow(axis, 0, rest) & ~other.isnan()
        a, b = (values[here] - values[here].mean() for values in (one, other))
        if len(a) >= 50:
            scale = (a.square().mean() * b.square().mean()).sqrt().clamp(min=1e-300)
            found.append(float((a * b).mean() / scale))
    return sum(found) / len(found) if found else math.nan


def spread_over_samples(residuals: Residuals) -> NoiseSpread | None:
    """Compare the noise of samples, the least noisy 5 % with the median; None if there are too few."""
    value, activity = residuals.value.flatten(1), residuals.activity.flatten(1)
    count = int(_FLAT * value.shape[1])
    if count < 100 or len(value) < 4:
        return None
    squares = value.gather(1, activity.argsort(1)[:, :count]).square()
    deviation = squares.mean(1).sqrt()
    kurtosis = float(squares.square().mean() / deviation.pow(4).mean().clamp(min=1e-300)) - 3
    low, typical = quantiles(deviation, (0.05, 0.5))
    # Of few samples, the least noisy one is compared, with a stricter limit.
    least, share = (low, 0.75) if len(value) >= 20 else (float(deviation.min()), 0.5)
    # The mean of N squares of normal numbers is below 1 - 1.64 √(2/N) once in twenty times, or further
    # below with outliers.
    chance = 1.64 * math.sqrt(max(2.0, kurtosis + 2) / count)
    differs = least < share * typical * math.sqrt(max(0.0, 1 - chance))
    return NoiseSpread(typical, least, float(deviation.square().mean().sqrt()), differs)


def spread_over_positions(residuals: Residuals, visible: float) -> NoiseSpread | None:
    """Compare the noise in the cells of a coarse grid, over all samples; None if there are too few places.

    They differ if the weakest noise is above `visible`, as weaker values may not be noise, and weaker than
    the strongest by more than the signal that adds to some positions could explain.
    """
    value, _, activity = residuals
    parts = [min(length, _CELLS) for length in value.shape[1:]]
    pairs = zip(_cells(value, parts), _cells(activity, parts), strict=True)
    flat = [here[active <= quantiles(active, (_FLAT,))[0]] for here, active in pairs]
    if len(flat) < 4 or min(len(values) for values in flat) < 100:
        return None
    # The median is robust to a few outliers.
    each = [quantiles(values.abs(), (0.5,))[0] / 0.6745 for values in flat]
    square = sum(float(values.square().mean()) for values in flat) / len(flat)
    differs = visible < min(each) < 0.45 * max(each)
    return NoiseSpread(max(each), min(each), math.sqrt(square), differs)


def find_noisy_part(images: Tensor, residuals: Residuals, flat: float, visible: float) -> NoisyPart | None:
    """Find a part of the data that is much noisier than the rest, and so has no flat regions.

    Samples are cut into small cells, and those with the largest near residuals are examined alone: they hold
    noise or detail. Detail is predicted far better from near than from distant entries, and its residuals
    alternate in sign; white noise cannot be predicted from either. `flat` is the standard deviation in flat
    regions, and `visible` the smallest that counts as noise.
    """
    tiles, value, predicted = _tiles(images), residuals.value, residuals.predicted
    ndim = value.ndim - 1
    parts = [max(1, length // _SIDE[ndim]) for length in value.shape[1:]]
    # The median is robust to edges that cross a cell.
    size = torch.stack([cell.abs().flatten(1).median(1).values / 0.6745 for cell in _cells(value, parts)], 1)
    loud = size > max(_LOUD * flat, visible, 0.5 * quantiles(size, (0.97,))[0])
    mask = torch.zeros_like(value, dtype=torch.bool)
    for cell, here in zip(_cells(mask, parts), loud.unbind(1), strict=True):
        cell[here] = True
    further = _FAR[ndim][0] // 2 - _NEAR[ndim][0] // 2
    inside = mask[(slice(None), *[slice(further, -further)] * ndim)]
    if int(inside.sum()) < _FEWEST_LOUD:
        return None
    near = _by_window(tiles, *_NEAR[ndim], mask).value
    far = _by_window(tiles, *_FAR[ndim], inside).value
    loudest = near[mask]
    deviation = float(loudest.std())
    ratio = float(far[inside].std()) / deviation if deviation > 0 else math.inf
    adjacent = _correlation(near, mask, 1)
    if ratio > _PERHAPS[0] or adjacent < _PERHAPS[1] or not deviation > max(visible, 2 * flat):
        return None
    kurtosis = float(loudest.pow(4).mean()) / deviation**4 - 3
    bright = torch.stack([cell.flatten(1).mean(1) for cell in _cells(predicted, parts)], 1)
    coincidence = torch.corrcoef(torch.stack([bright.flatten(), loud.double().flatten()]))[0, 1]
    by_sample, by_cell = (float(loud.double().mean(axis).var(correction=0)) for axis in (1, 0))
    return NoisyPart(
        share=float(mask.double().mean()),
        at=Level(float(predicted[mask].mean()), deviation, kurtosis, mask.flatten().nonzero().squeeze(1)),
        correlations=tuple(_correlation(far, inside, lag) for lag in (1, 2, 3)),
        of_samples=by_sample > by_cell if tiles.shape[1:] == images.shape[2:] else None,
        sure=ratio <= _NOISE[0] and adjacent >= _NOISE[1],
        by_brightness=abs(float(coincidence)) > 0.5,
    )


def _cells(values: Tensor, parts: list[int]) -> list[Tensor]:
    """Cut all samples into so many parts along each axis of space; return views."""
    cells = [values]
    for axis, count in enumerate(parts, 1):
        cells = [part for cell in cells for part in cell.tensor_split(count, axis)]
    return cells

"""Residuals of predictions from neighbouring entries, which show the noise without knowing the signal.

Each entry is predicted from others, never from itself (a blind spot), by linear regression on the data. The
residual holds the entry's own noise and the signal that cannot be predicted. There is least of the latter in
flat regions, where the other entries hardly differ: the flattest quarter of the places at each brightness.
"""

import math
from collections.abc import Iterator
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
NEAR = {1: (9, 1), 2: (5, 1)}
FAR = {1: (17, 5), 2: (7, 3)}


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


def residuals(images: Tensor) -> tuple[Residuals, Residuals | None, bool]:
    """Predict entries from all their neighbours, and from distant ones only, which do not share their noise.

    Small images are predicted position by position, if there are enough of them: from all other entries, and
    from the mean of the position.

    Args:
        images: (n, channels, space), one or two axes of space.

    Returns:
        The near residuals; the far ones, or None; and whether each position has its own prediction.
    """
    space = images.shape[2:]
    (near, _), (far, rim) = NEAR[len(space)], FAR[len(space)]
    entries = math.prod(images.shape[1:])
    if len(space) == 2 and 6 <= min(space) < LARGE and entries <= 512 and len(images) >= 8 * entries:
        return *_by_position(images), True
    if min(space) < 2 * near:
        raise ValueError(f"samples of {'x'.join(map(str, space))} are too small, or too few")
    tiles = tiles_of(images)
    from_far = _by_window(tiles, far, rim) if min(space) >= far + 3 else None
    return _by_window(tiles, near, 1), from_far, False


def tiles_of(images: Tensor) -> Tensor:
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


def _by_window(tiles: Tensor, side: int, inner: int) -> Residuals:
    """Predict the centre of a window from its entries at a distance of `inner` or more."""
    shape = (len(tiles), *(length - side + 1 for length in tiles.shape[1:]))
    return Residuals(*(values.reshape(shape) for values in window_residuals(tiles, side, inner)))


def window_residuals(
    tiles: Tensor, side: int, inner: int, kept: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return residuals, predictions and variances of the windows at some places, as flat tensors."""
    ndim, reach = tiles.ndim - 1, side // 2
    windows = tiles
    for axis in range(1, ndim + 1):
        windows = windows.unfold(axis, side, 1)
    steps = torch.arange(-reach, reach + 1, device=tiles.device).abs()
    distance = steps if ndim == 1 else torch.maximum(steps[:, None], steps)
    flat = (windows if kept is None else windows[kept]).reshape(-1, side**ndim)
    others, centre = flat[:, (distance >= inner).reshape(-1)], flat[:, side**ndim // 2]
    mean, offset = others.mean(0), centre.mean()
    moved = others - mean
    predicted = moved @ _solve(moved.mT @ moved, moved.mT @ (centre - offset)) + offset
    return centre - predicted, predicted, others.var(1)


def _by_position(images: Tensor) -> tuple[Residuals, Residuals]:
    """Predict each position from all others, and from its own mean."""
    n, d = len(images), images[0].numel()
    x = images.reshape(n, d).double()
    moved = x - x.mean(0)
    identity = torch.eye(d, dtype=x.dtype, device=x.device)
    precision = _solve(moved.mT @ moved, identity)
    value = moved @ precision / precision.diagonal()
    variance = value.square().mean(0).expand(n, d)
    shape = (-1, *images.shape[2:])
    # As many coefficients as positions are fitted, which makes residuals too small.
    near = (value * math.sqrt(n / (n - d)), x - value, variance)
    far = (moved, x.mean(0).expand(n, d), moved.square().mean(0).expand(n, d))
    return Residuals(*(v.reshape(shape) for v in near)), Residuals(*(v.reshape(shape) for v in far))


def _solve(gram: Tensor, right: Tensor) -> Tensor:
    """Solve a linear system, with a small ridge for entries that are constant or equal."""
    little = 1e-6 * float(gram.diagonal().mean()) or 1.0
    solution: Tensor = torch.linalg.solve(
        gram + little * torch.eye(len(gram), dtype=gram.dtype, device=gram.device), right
    )
    return solution


def levels(residuals: Residuals) -> list[Level]:
    """Return the levels of flat regions, from dark to bright; none where there are too few places."""
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
        found.append(_level(value, predicted, places))
    return found


def _level(value: Tensor, predicted: Tensor, places: Tensor) -> Level:
    values = value[places] - value[places].mean()  # a linear prediction may be biased at some brightness
    square = float(values.square().mean())
    fourth = float(values.pow(4).mean())
    kurtosis = fourth / square**2 - 3 if square > 1e-150 else 0.0
    return Level(float(predicted[places].mean()), math.sqrt(square), kurtosis, places)


def pool(some: list[Level]) -> Level:
    """Pool several levels into one, weighted by their numbers of places."""
    counts = [len(at.places) for at in some]

    def mean(values: list[float]) -> float:
        return sum(value * count for value, count in zip(values, counts, strict=True)) / sum(counts)

    return Level(
        mean([at.brightness for at in some]),
        math.sqrt(mean([at.deviation**2 for at in some])),
        mean([at.kurtosis for at in some]),
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
    kept = kept.reshape(residuals.value.shape)
    found = [
        float((a * b).mean() / (a.square().mean() * b.square().mean()).sqrt().clamp(min=1e-300))
        for a, b in _pairs(residuals.value, kept, lag)
        if len(a) >= 50
    ]
    return sum(found) / len(found) if found else math.nan


def _pairs(value: Tensor, kept: Tensor, lag: int) -> Iterator[tuple[Tensor, Tensor]]:
    for axis in range(1, value.ndim):
        rest = value.shape[axis] - lag
        if rest > 0:
            here = kept.narrow(axis, 0, rest)
            one, other = value.narrow(axis, 0, rest)[here], value.narrow(axis, lag, rest)[here]
            yield one - one.mean(), other - other.mean()


class NoiseSpread(NamedTuple):
    """Standard deviations in flat regions, compared between samples or between positions."""

    typical: float  # that of the median sample, or of the noisiest cell of a grid
    least: float  # that of the least noisy ones
    mean: float  # root mean square over all
    places: int  # number of flat places in each
    samples: int  # number of samples, or of cells, that are compared
    kurtosis: float = 0.0  # excess kurtosis within each


def spread_over_samples(residuals: Residuals) -> NoiseSpread | None:
    """Compare the noise of samples, the least noisy 5 % with the median; None if there are too few."""
    value, activity = residuals.value.flatten(1), residuals.activity.flatten(1)
    count = int(_FLAT * value.shape[1])
    if count < 100 or len(value) < 4:
        return None
    flat = activity.argsort(1)[:, :count]
    squares = value.gather(1, flat).square()
    deviation = squares.mean(1).sqrt()
    kurtosis = float(squares.square().mean() / deviation.pow(4).mean().clamp(min=1e-300)) - 3
    low, typical = quantiles(deviation, (0.05, 0.5))
    least = low if len(value) >= 20 else float(deviation.min())
    return NoiseSpread(typical, least, float(deviation.square().mean().sqrt()), count, len(value), kurtosis)


def spread_over_positions(residuals: Residuals) -> NoiseSpread | None:
    """Compare the noise in the cells of a coarse grid, over all samples; None if there are too few places.

    Signal adds to some positions, so a moderate difference does not prove that the noise differs.
    """
    cells = [(residuals.value, residuals.activity)]
    for axis in range(1, residuals.value.ndim):
        parts = min(residuals.value.shape[axis], _CELLS)
        cells = [
            pair
            for value, activity in cells
            for pair in zip(value.tensor_split(parts, axis), activity.tensor_split(parts, axis), strict=True)
        ]
    flat = [value[activity <= quantiles(activity, (_FLAT,))[0]] for value, activity in cells]
    fewest = min(len(values) for values in flat)
    if len(flat) < 4 or fewest < 100:
        return None
    # The median is robust to a few outliers.
    each = [quantiles(values.abs(), (0.5,))[0] / 0.6745 for values in flat]
    square = sum(float(values.square().mean()) for values in flat) / len(flat)
    return NoiseSpread(max(each), min(each), math.sqrt(square), fewest, len(each))

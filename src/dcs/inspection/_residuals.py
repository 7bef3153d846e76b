"""What neighbours do not foretell: residuals in which noise shows, without knowing the signal.

An entry is predicted from others, never from itself (a blind spot), by the linear rule that does best on the
data. What is left holds the entry's own noise, and signal that could not be foreseen. Of that there is least
where the others hardly differ, so only the least busy quarter of the places is used, at each brightness.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

_PLACES = 2**18  # as many residuals are enough for every figure that is drawn from them
_TILE = {1: 1024, 2: 64}  # larger samples are looked at in pieces
LARGE = 24  # from this side on, calm places are found without knowing positions
_BINS = 12
_FEWEST = 400  # places at one brightness
_CALM = 0.25
_CELLS = 6  # along each axis, to compare positions
# Sides of the windows that foretell their centre, and from which distance on.
NEAR = {1: (9, 1), 2: (5, 1)}
FAR = {1: (17, 5), 2: (7, 3)}


class Residuals(NamedTuple):
    """One a place, (images, space): what is left, what was foretold, and how busy its surroundings are."""

    left: Tensor
    foretold: Tensor
    busy: Tensor


class Level(NamedTuple):
    """The residuals of the calm places at one brightness: their deviation, excess kurtosis and where."""

    brightness: float
    deviation: float
    kurtosis: float
    places: Tensor

    @property
    def error(self) -> float:
        """Standard error of the deviation."""
        return self.deviation * math.sqrt(max(self.kurtosis + 2, 0.1) / (4 * len(self.places)))


def residuals(images: Tensor) -> tuple[Residuals, Residuals | None, bool]:
    """Foretell entries from all around them, and from further off only, where their noise is not shared.

    Small pictures are taken whole, position by position, if there are enough of them: from all other entries,
    and from the mean of the position.

    Args:
        images: (n, channels, space), one or two axes of space.

    Returns:
        The residuals from near; those from far, or None; and whether positions were kept apart.
    """
    space = images.shape[2:]
    (near, _), (far, rim) = NEAR[len(space)], FAR[len(space)]
    entries = math.prod(images.shape[1:])
    if len(space) == 2 and 6 <= min(space) < LARGE and entries <= 512 and len(images) >= 8 * entries:
        return *_by_position(images), True
    if min(space) < 2 * near:
        raise ValueError(f"samples of {'x'.join(map(str, space))} are too small, or too few")
    pieces = pieces_of(images)
    from_far = _by_window(pieces, far, rim) if min(space) >= far + 3 else None
    return _by_window(pieces, near, 1), from_far, False


def pieces_of(images: Tensor) -> Tensor:
    """(m, space): images, or tiles of large ones, evenly spread and no more than are needed."""
    ndim = images.ndim - 2
    tile = _TILE[ndim]
    pieces = images.flatten(0, 1)
    for axis in range(1, ndim + 1):
        if pieces.shape[axis] >= 2 * tile:
            tiles = pieces.unfold(axis, tile, tile)  # their number stands at the axis, what is in them last
            pieces = tiles.movedim((axis, -1), (1, axis + 1)).flatten(0, 1)
    wanted = max(8, _PLACES // math.prod(pieces.shape[1:]))
    return pieces[:: -(-len(pieces) // wanted)].double()


def _by_window(pieces: Tensor, side: int, inner: int) -> Residuals:
    """Foretell the centre of a window from its entries at a distance of `inner` or more."""
    shape = (len(pieces), *(length - side + 1 for length in pieces.shape[1:]))
    return Residuals(*(values.reshape(shape) for values in window_residuals(pieces, side, inner)))


def window_residuals(
    pieces: Tensor, side: int, inner: int, kept: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The same of some windows only, those at the places that are kept; one after the other."""
    ndim, reach = pieces.ndim - 1, side // 2
    windows = pieces
    for axis in range(1, ndim + 1):
        windows = windows.unfold(axis, side, 1)
    steps = torch.arange(-reach, reach + 1, device=pieces.device).abs()
    distance = steps if ndim == 1 else torch.maximum(steps[:, None], steps)
    flat = (windows if kept is None else windows[kept]).reshape(-1, side**ndim)
    others, centre = flat[:, (distance >= inner).reshape(-1)], flat[:, side**ndim // 2]
    mean, middle = others.mean(0), centre.mean()
    moved = others - mean
    foretold = moved @ _solve(moved.mT @ moved, moved.mT @ (centre - middle)) + middle
    return centre - foretold, foretold, others.var(1)


def _by_position(images: Tensor) -> tuple[Residuals, Residuals]:
    """Foretell each position from all others, and from its own mean."""
    n, d = len(images), images[0].numel()
    x = images.reshape(n, d).double()
    moved = x - x.mean(0)
    identity = torch.eye(d, dtype=x.dtype, device=x.device)
    precision = _solve(moved.mT @ moved, identity)
    left = moved @ precision / precision.diagonal()
    spread = left.square().mean(0).expand(n, d)
    shape = (-1, *images.shape[2:])
    # As many coefficients as positions were fitted, which makes what is left look smaller than it is.
    near = (left * math.sqrt(n / (n - d)), x - left, spread)
    far = (moved, x.mean(0).expand(n, d), moved.square().mean(0).expand(n, d))
    return Residuals(*(v.reshape(shape) for v in near)), Residuals(*(v.reshape(shape) for v in far))


def _solve(gram: Tensor, right: Tensor) -> Tensor:
    """Solve, with a little added to the diagonal for entries that are constant or alike."""
    little = 1e-6 * float(gram.diagonal().mean()) or 1.0
    solution: Tensor = torch.linalg.solve(
        gram + little * torch.eye(len(gram), dtype=gram.dtype, device=gram.device), right
    )
    return solution


def levels(residuals: Residuals) -> list[Level]:
    """The levels of the calm places, from dark to bright; none where there are too few places."""
    left, foretold, busy = (values.reshape(-1) for values in residuals)
    low, high = quantiles(foretold, (0.005, 0.995))
    number = ((foretold - low) / max(high - low, 1e-300) * _BINS).floor().clamp(-1, _BINS)
    if high <= low:
        number.zero_()
    found = []
    for bin_ in range(_BINS):
        places = (number == bin_).nonzero().squeeze(1)
        if len(places) < _FEWEST:
            continue
        here = busy[places]
        places = places[here <= quantiles(here, (_CALM,))[0]]
        found.append(_level(left, foretold, places))
    return found


def _level(left: Tensor, foretold: Tensor, places: Tensor) -> Level:
    values = (
        left[places] - left[places].mean()
    )  # the rule may be off at some brightness, as signal is not linear
    square = float(values.square().mean())
    fourth = float(values.pow(4).mean())
    kurtosis = fourth / square**2 - 3 if square > 1e-150 else 0.0
    return Level(float(foretold[places].mean()), math.sqrt(square), kurtosis, places)


def together(some: list[Level]) -> Level:
    """Several levels as one: the means of their figures, by how many places each has."""
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
    """Quantiles, of an even selection where there are very many values."""
    some = values.reshape(-1)[:: max(1, values.numel() // 2**19)]
    found: list[float] = torch.quantile(some.double(), some.new_tensor(shares, dtype=torch.float64)).tolist()
    return found


def likeness(residuals: Residuals, places: Tensor, lag: int) -> float:
    """The correlation of residuals at some places with those `lag` entries on, over the axes of space."""
    kept = torch.zeros(residuals.left.numel(), dtype=torch.bool, device=places.device)
    kept[places] = True
    kept = kept.reshape(residuals.left.shape)
    found = [
        float((a * b).mean() / (a.square().mean() * b.square().mean()).sqrt().clamp(min=1e-300))
        for a, b in _pairs(residuals.left, kept, lag)
        if len(a) >= 50
    ]
    return sum(found) / len(found) if found else math.nan


def _pairs(left: Tensor, kept: Tensor, lag: int) -> Iterator[tuple[Tensor, Tensor]]:
    for axis in range(1, left.ndim):
        rest = left.shape[axis] - lag
        if rest > 0:
            here = kept.narrow(axis, 0, rest)
            one, other = left.narrow(axis, 0, rest)[here], left.narrow(axis, lag, rest)[here]
            yield one - one.mean(), other - other.mean()


class Spread(NamedTuple):
    """How deviations in calm places differ between samples, or between positions.

    Args:
        usual: Of the usual sample, or of the noisiest cell of a grid.
        least: Of the quietest.
        mean: Root mean square over all.
        places: In each, that are calm.
        samples: Or cells, that were compared.
        kurtosis: Excess, within each.
    """

    usual: float
    least: float
    mean: float
    places: int
    samples: int
    kurtosis: float = 0.0


def spread_of_samples(residuals: Residuals) -> Spread | None:
    """How much weaker noise is in the quietest twentieth of the samples; None with too few to tell."""
    left, busy = residuals.left.flatten(1), residuals.busy.flatten(1)
    count = int(_CALM * left.shape[1])
    if count < 100 or len(left) < 4:
        return None
    calm = busy.argsort(1)[:, :count]
    squares = left.gather(1, calm).square()
    deviation = squares.mean(1).sqrt()
    kurtosis = float(squares.square().mean() / deviation.pow(4).mean().clamp(min=1e-300)) - 3
    low, usual = quantiles(deviation, (0.05, 0.5))
    least = low if len(left) >= 20 else float(deviation.min())
    return Spread(usual, least, float(deviation.square().mean().sqrt()), count, len(left), kurtosis)


def spread_of_positions(residuals: Residuals) -> Spread | None:
    """The same of positions, over all samples: of the cells of a coarse grid; None with too few places.

    Signal adds to some positions, so that alone hardly tells that the noise differs.
    """
    cells = [(residuals.left, residuals.busy)]
    for axis in range(1, residuals.left.ndim):
        parts = min(residuals.left.shape[axis], _CELLS)
        cells = [
            pair
            for left, busy in cells
            for pair in zip(left.tensor_split(parts, axis), busy.tensor_split(parts, axis), strict=True)
        ]
    calm = [left[busy <= quantiles(busy, (_CALM,))[0]] for left, busy in cells]
    fewest = min(len(values) for values in calm)
    if len(calm) < 4 or fewest < 100:
        return None
    # By the median, which a few outliers do not move.
    each = [quantiles(values.abs(), (0.5,))[0] / 0.6745 for values in calm]
    square = sum(float(values.square().mean()) for values in calm) / len(calm)
    return Spread(max(each), min(each), math.sqrt(square), fewest, len(each))

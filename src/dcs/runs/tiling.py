"""Cover an item of any size with windows, and join what a network predicts for them without seams."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dcs.data import Items

Array = NDArray[Any]

_ENTRIES = 2**18  # predicted at once: more maps would leave the cache of a processor
_BLOCKS = {1: 4096, 2: 64, 3: 16}  # sides of the blocks in which random numbers are drawn


class Tiling(NamedTuple):
    """How items are covered.

    Args:
        window: Size of a window; with a margin, its number of entries is what counts, and sides are chosen
            for each item.
        margin: Entries at the sides of a window whose prediction is not used, but for those at the border of
            an item; None lets windows overlap by half, and cross-fades them.
        stride: Multiple that sides of windows and their places must be of.

    Example:
        >>> Tiling((1024, 1024), 64, 8).fitted((2000, 900)), Tiling((1024, 1024), 64, 8).fitted((500, 9))
        ((1064, 904), (504, 16))
    """

    window: tuple[int, ...]
    margin: int | None = None
    stride: int = 1

    def fitted(self, size: Sequence[int]) -> tuple[int, ...]:
        """Return the size of the windows for an item: the one with which least is computed twice."""
        if self.margin is None:
            return self.window
        most = math.prod(self.window)
        choices = list(itertools.product(*(self._sides(length, most, len(size)) for length in size)))
        fitting = [choice for choice in choices if math.prod(side for side, _ in choice) <= most]
        smallest = [tuple(map(min, zip(*choices, strict=True)))]
        best = min(fitting or smallest, key=lambda choice: math.prod(side * count for side, count in choice))
        return tuple(side for side, _ in best)

    def _sides(self, length: int, most: int, ndim: int) -> list[tuple[int, int]]:
        """Return possible sides of windows along an axis, and how many of them cover it."""
        margin = self.margin or 0
        inner, least = max(1, length - 2 * margin), 2 * margin + max(self.stride, margin // 2)
        least = max(int(most ** (1 / ndim)) // 2, least)  # few are enough to choose from
        counts = range(-(-inner // max(1, most - 2 * margin)), -(-inner // (least - 2 * margin)) + 1)
        sides = [(length if count == 1 else -(-inner // count) + 2 * margin, count) for count in counts]
        return [(-(-side // self.stride) * self.stride, count) for side, count in sides]


class Cover:
    """Windows that cover an axis, of which the weights of a prediction are computed when they are needed.

    Args:
        length: Length of the axis.
        window: Length of a window, a multiple of the stride.
        margin: Entries at either end of a window that are not used; see `Tiling`.
        stride: Multiple that places are of.

    Attributes:
        starts: Where windows begin.

    Example:
        >>> cover = Cover(10, 6, 1)
        >>> cover.starts, cover.weights(0).tolist(), cover.weights(1).tolist()
        ([0, 4], [1.0, 1.0, 1.0, 1.0, 1.0, 0.0], [0.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    """

    def __init__(self, length: int, window: int, margin: int | None, stride: int = 1) -> None:
        self.length, self.window, self.margin = length, window, margin
        last = max(0, -(-(length - window) // stride) * stride)
        step = max(1, window // 2) if margin is None else window - 2 * margin
        self.starts = [*range(0, last, max(stride, step // stride * stride)), last]
        self._fade = np.hanning(window + 2)[1:-1]  # never 0, so that what one window covers is that window

    def weights(self, row: int) -> Array:
        """Return the weights of a window's entries; for each entry of the axis, those of windows sum to 1.

        Those beyond the end of the axis are 0.
        """
        start, window, starts = self.starts[row], self.window, self.starts
        inside = max(0, self.length - start)
        if self.margin is not None:
            first = 0 if row == 0 else self.margin
            end = window if row + 1 == len(starts) else starts[row + 1] + self.margin - start
            weights = np.zeros(window)
            weights[first : min(end, inside)] = 1
            return weights
        total = self._fade.copy()
        for rows in (range(row - 1, -1, -1), range(row + 1, len(starts))):
            for other in itertools.takewhile(lambda other: abs(starts[other] - start) < window, rows):
                shift = starts[other] - start
                total[max(0, shift) : window + shift] += self._fade[max(0, -shift) : window - shift]
        weights = self._fade / total
        weights[inside:] = 0
        return weights


def tiles(items: Items, index: int, tiling: Tiling) -> Iterator[tuple[list[tuple[int, ...]], list[Array]]]:
    """Yield the places of some windows of an item at a time, and the weights of their entries."""
    window = tiling.fitted(items.sizes[index])
    axes = [
        Cover(length, side, tiling.margin, tiling.stride)
        for length, side in zip(items.sizes[index], window, strict=True)
    ]
    numbers = itertools.product(*(range(len(axis.starts)) for axis in axes))
    while some := list(itertools.islice(numbers, max(1, _ENTRIES // math.prod(window)))):
        places = [tuple(axis.starts[n] for axis, n in zip(axes, number, strict=True)) for number in some]
        weights = [_outer([axis.weights(n) for axis, n in zip(axes, number, strict=True)]) for number in some]
        yield places, weights


def places(
    items: Items, window: Sequence[int], hop: int | None = None
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the windows that cover all items: the number of the item and the place of each.

    Args:
        items: Items.
        window: Size of the windows.
        hop: Distance between windows along each axis; by default they are side by side. The last window ends
            where the item does.
    """
    for index, size in enumerate(items.sizes):
        last = [max(0, length - side) for length, side in zip(size, window, strict=True)]
        axes = [[*range(0, end, hop or side), end] for end, side in zip(last, window, strict=True)]
        yield from ((index, place) for place in itertools.product(*axes))


def predict_item(
    predict: Callable[[Tensor, list[tuple[int, ...]]], Tensor],
    items: Items,
    index: int,
    tiling: Tiling,
    out: Array,
    *,
    scale: int = 1,
    advance: Callable[[float], object] = lambda _: None,
) -> None:
    """Add the prediction for an item to an array of zeros, window by window.

    Args:
        predict: Function of windows, (m, ...), and of their places, that returns a prediction of each.
        items: Items.
        index: Number of the item.
        tiling: How it is covered.
        out: Array of the item's shape in float32, which may be a file that is mapped into memory.
        scale: Entries of the item, along each axis, for one of the prediction.
        advance: Function that is told how many more entries are predicted.
    """
    window = tiling.fitted(items.sizes[index])
    thinned = (slice(None, None, scale),) * items.ndim
    for starts, weights in tiles(items, index, tiling):
        seen = torch.stack([items.padded(index, start, window) for start in starts])
        for start, weight, part in zip(starts, weights, predict(seen, starts).numpy(), strict=True):
            weighted = part * weight[thinned]
            sides = weighted.shape[-items.ndim :]
            target: Any = (
                ...,
                *(slice(a // scale, a // scale + s) for a, s in zip(start, sides, strict=True)),
            )
            inside: Any = (..., *(slice(0, length) for length in out[target].shape[-items.ndim :]))
            out[target] += weighted[inside]
            advance(float(weight.sum()))  # the weights of an entry sum to one


def noise_at(key: int, draw: int, start: Sequence[int], shape: Sequence[int]) -> Tensor:
    """Return standard normal numbers that depend on their place alone, so that windows agree where they meet.

    Args:
        key: Random seed.
        draw: Number of the draw.
        start: Place of the window along each axis of space or time.
        shape: Shape of the window, with axes of channels before those.
    """
    size, lead, side = shape[-len(start) :], tuple(shape[: -len(start)]), _BLOCKS[len(start)]
    out = np.empty(shape, np.float32)
    blocks = [range(a // side, -(-(a + s) // side)) for a, s in zip(start, size, strict=True)]
    for block in itertools.product(*blocks):
        sequence = np.random.SeedSequence(key, spawn_key=(draw, *block))
        generator = np.random.Generator(np.random.SFC64(sequence))
        drawn = generator.standard_normal((*lead, *[side] * len(start)), np.float32)
        to: list[Any] = [...]
        of: list[Any] = [...]
        for number, a, s in zip(block, start, size, strict=True):
            begin, end = max(a, number * side), min(a + s, (number + 1) * side)
            to.append(slice(begin - a, end - a))
            of.append(slice(begin - number * side, end - number * side))
        out[tuple(to)] = drawn[tuple(of)]
    return torch.from_numpy(out)


def _outer(vectors: Sequence[Array]) -> Array:
    result = np.ones(())
    for vector in vectors:
        result = result[..., None] * vector
    return result.astype(np.float32)

"""Axes of arrays and files: which of them count items, channels, and space."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from dcs._naming import argument
from dcs.data._dataset import DataError

LETTERS = "STCZYX"
_SPACE = "ZYX"
_CHANNELS = "Cc"


@dataclass(frozen=True)
class Layout:
    """Items in an array: pictures or volumes, with or without channels, in axes of any order.

    Args:
        axes: One letter per axis: Z, Y and X are space, C and c channels; all others count items.
        shape: Shape of the array.

    Example:
        >>> layout = Layout("TYXC", (5, 20, 30, 3))
        >>> layout.count, layout.channels, layout.size
        (5, 3, (20, 30))
    """

    axes: str
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of items."""
        return prod(self._lengths_of_items())

    @property
    def size(self) -> tuple[int, ...]:
        """Size of an item along Z, Y and X."""
        return tuple(self.shape[self.axes.index(letter)] for letter in _SPACE if letter in self.axes)

    @property
    def channels(self) -> int | None:
        """Number of channels; None if there is one only."""
        count = prod(n for axis, n in zip(self.axes, self.shape, strict=True) if axis in _CHANNELS)
        return None if count == 1 else count

    def index(
        self, number: int, start: Sequence[int] | None = None, size: Sequence[int] | None = None
    ) -> tuple[int | slice, ...]:
        """Return what to slice of the array for an item, or for a region of it."""
        of_items = iter(np.unravel_index(number, self._lengths_of_items() or (1,)))
        start, size = start or (0,) * len(self.size), size or self.size
        space = [letter for letter in _SPACE if letter in self.axes]
        places = {axis: slice(a, a + n) for axis, a, n in zip(space, start, size, strict=True)}
        return tuple(
            places[axis] if axis in _SPACE else slice(None) if axis in _CHANNELS else int(next(of_items))
            for axis in self.axes
        )

    def arrange(self, part: np.ndarray) -> np.ndarray:
        """Return what was sliced as (channels, *size), or (*size) if there is one channel only."""
        axes = [axis for axis in self.axes if axis in _SPACE + _CHANNELS]
        channels = [at for at, axis in enumerate(axes) if axis in _CHANNELS]
        space = [axes.index(letter) for letter in _SPACE if letter in axes]
        part = part.transpose(*channels, *space)
        size = part.shape[len(channels) :]
        return part.reshape(size if self.channels is None else (self.channels, *size))

    def spread(self, item: np.ndarray) -> np.ndarray:
        """Undo `arrange`."""
        axes = [axis for axis in self.axes if axis in _SPACE + _CHANNELS]
        channels = [axis for axis in axes if axis in _CHANNELS]
        order = [*channels, *(letter for letter in _SPACE if letter in axes)]
        space = item.shape[len(item.shape) - (len(order) - len(channels)) :]
        lengths = [self.shape[self.axes.index(axis)] for axis in channels]
        return item.reshape(*lengths, *space).transpose([order.index(axis) for axis in axes])

    def resized(self, size: Sequence[int]) -> "Layout":
        """Return the layout of items of another size along Z, Y and X."""
        lengths = dict(zip([letter for letter in _SPACE if letter in self.axes], size, strict=True))
        pairs = zip(self.axes, self.shape, strict=True)
        return Layout(self.axes, tuple(lengths.get(axis, length) for axis, length in pairs))

    def _lengths_of_items(self) -> tuple[int, ...]:
        pairs = zip(self.axes, self.shape, strict=True)
        return tuple(n for axis, n in pairs if axis not in _SPACE + _CHANNELS)


def check_axes(axes: Any) -> str | None:
    """Require letters from STCZYX, with Y and X, each at most once, in any case."""
    if axes is None:
        return None
    letters = axes.upper() if isinstance(axes, str) else ""
    once = len(set(letters)) == len(letters)
    if not once or not {"Y", "X"} <= set(letters) <= set(LETTERS):
        raise ValueError(
            f"axes must be letters from {LETTERS}, each at most once, with Y and X, e.g. ZYX, got "
            f"{axes!r:.60}"
        )
    return letters


def given_layout(axes: str, shape: Sequence[int], where: str, known: str = "") -> Layout:
    """Return the layout that `axes` names, which must fit the shape.

    Args:
        axes: Letters that `check_axes` accepts.
        shape: Shape of the array.
        where: Name of the array in errors.
        known: Axes that its file names.
    """
    if len(axes) != len(shape):
        named = f" ({known} by its metadata)" if known else ""
        raise DataError(
            f"{where} has {len(shape)} axes{named} of lengths {tuple(shape)}, but "
            f"{argument('axes', axes)} names {len(axes)}: name each axis by one letter of {LETTERS}, in order"
        )
    return Layout(axes, tuple(shape))

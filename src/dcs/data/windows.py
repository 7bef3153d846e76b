"""Items of any size (pictures, recordings, volumes), and samples of one size that are windows of them."""

import math
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from dcs.data._arrays import ArraySamples, as_float
from dcs.data._dataset import DataError, Samples, Split

Size = tuple[int, ...]

_CACHED = 2**28  # bytes of decoded files that a process keeps
_VISIT = 8  # windows that are read of a file in a row, where reading a window means decoding the file
_DEFAULT = {1: (16_384,), 2: (64, 64), 3: (16, 64, 64)}
_MOST = 2**14  # windows in an epoch


class Items(ABC):
    """Pictures, recordings or volumes of any size, read region by region.

    Attributes:
        sizes: Size of each item along its axes of space or time.
        channels: Number of channels; None if items have no axis of channels.
        costly: Whether reading a region costs about as much as reading the whole item.
    """

    sizes: Sequence[Size]
    channels: int | None = None
    costly: bool = False

    @abstractmethod
    def region(self, index: int, start: Sequence[int], size: Sequence[int]) -> Tensor:
        """Read a region inside an item, (channels, *size) or (*size), in float32 and finite."""

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def ndim(self) -> int:
        """Number of axes of space or time."""
        return len(self.sizes[0])

    def shape(self, size: Sequence[int]) -> Size:
        """Return the shape of a region of a size."""
        return tuple(size) if self.channels is None else (self.channels, *size)

    def whole(self, index: int) -> Tensor:
        """Read a whole item."""
        return self.region(index, (0,) * self.ndim, self.sizes[index])

    def take(self, rows: Sequence[int]) -> "Items":
        """Return some of the items."""
        return _Chosen(self, rows)

    def repeated(self, channels: int) -> "Items":
        """Return items without an axis of channels as such with equal channels."""
        return _Repeated(self, channels)

    def padded(self, index: int, start: Sequence[int], size: Sequence[int]) -> Tensor:
        """Read a region that may reach beyond the end of an item, which is then mirrored there."""
        inside = [min(s, have - a) for a, s, have in zip(start, size, self.sizes[index], strict=True)]
        found = self.region(index, start, inside)
        missing = [(0, s - i) for s, i in zip(size, inside, strict=True)]
        if not any(after for _, after in missing):
            return found
        lead = [(0, 0)] * (found.ndim - len(missing))
        return torch.from_numpy(np.pad(found.numpy(), [*lead, *missing], mode="symmetric"))


class ArrayItems(Items):
    """Rows of an array (n, ..., h, w), in memory, memory-mapped, or in an HDF5 or Zarr file.

    Args:
        array: Anything with a shape that slices to an array.
        ndim: Number of its last axes that are space or time; at most one axis before them is channels.
        convert: Function that makes a float32 tensor of a part of it.
    """

    def __init__(
        self, array: Any, ndim: int, convert: Callable[[Any], Tensor] = lambda part: torch.as_tensor(part)
    ) -> None:
        self.array, self.convert = array, convert
        self.sizes = [tuple(array.shape[-ndim:])] * array.shape[0]
        self.channels = array.shape[1] if len(array.shape) > ndim + 1 else None

    def region(self, index: int, start: Sequence[int], size: Sequence[int]) -> Tensor:
        """Slice a row."""
        return self.convert(self.array[(index, *_place(start, size))])


class ListItems(Items):
    """Tensors in memory, (c, *size) or (*size).

    Args:
        tensors: One per item, in float32.
        ndim: Number of their last axes that are space or time.
    """

    def __init__(self, tensors: Sequence[Tensor], ndim: int) -> None:
        self.tensors = list(tensors)
        self.sizes = [tuple(one.shape[-ndim:]) for one in self.tensors]
        self.channels = self.tensors[0].shape[0] if self.tensors[0].ndim > ndim else None

    def take(self, rows: Sequence[int]) -> "ListItems":
        """Return some of the items."""
        return ListItems([self.tensors[row] for row in rows], self.ndim)

    def region(self, index: int, start: Sequence[int], size: Sequence[int]) -> Tensor:
        """Slice a tensor."""
        return self.tensors[index][_place(start, size)]


class FileItems(Items):
    """Files that are decoded as a whole; a process keeps some of those it has decoded.

    Args:
        files: One per item.
        decode: Function that returns the item in a file in float32; picklable, for DataLoader workers.
        sizes: Size of each item.
        channels: Number of channels; None if items have no axis of channels.
    """

    costly = True

    def __init__(
        self,
        files: Sequence[Any],
        decode: Callable[[Any], Tensor],
        sizes: Sequence[Size],
        channels: int | None,
    ) -> None:
        self.files, self.decode, self.sizes, self.channels = tuple(files), decode, sizes, channels
        self._decoded: OrderedDict[int, Tensor] = OrderedDict()

    def region(self, index: int, start: Sequence[int], size: Sequence[int]) -> Tensor:
        """Slice a decoded file."""
        if index not in self._decoded:
            self._decoded[index] = self.decode(self.files[index])
            while len(self._decoded) > 1 and sum(4 * one.numel() for one in self._decoded.values()) > _CACHED:
                self._decoded.popitem(last=False)
        self._decoded.move_to_end(index)
        return self._decoded[index][_place(start, size)]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_decoded": OrderedDict()}


def _place(start: Sequence[int], size: Sequence[int]) -> tuple[Any, ...]:
    return (..., *(slice(a, a + s) for a, s in zip(start, size, strict=True)))


class _Chosen(Items):
    def __init__(self, items: Items, rows: Sequence[int]) -> None:
        self.items, self.rows = items, [int(row) for row in rows]
        self.sizes = [items.sizes[row] for row in self.rows]
        self.channels, self.costly = items.channels, items.costly

    def region(self, index: int, start: Sequence[int], size: Sequence[int]) -> Tensor:
        return self.items.region(self.rows[index], start, size)


class _Repeated(Items):
    def __init__(self, items: Items, channels: int) -> None:
        self.items, self.sizes, self.channels, self.costly = items, items.sizes, channels, items.costly

    def region(self, index: int, start: Sequence[int], size: Sequence[int]) -> Tensor:
        return self.items.region(index, start, size).expand(self.channels or 1, *size)


def default_window(ndim: int, sizes: Sequence[Size] = ()) -> Size:
    """Return the default size of windows, no larger than the largest item needs."""
    most = [max(lengths) for lengths in zip(*sizes, strict=True)] or [2**62] * ndim
    return tuple(min(side, length) for side, length in zip(_DEFAULT[ndim], most, strict=True))


def is_large(shape: Sequence[int]) -> bool:
    """Return whether samples of a shape are pictures that are better learned from window by window."""
    return len(shape) in (2, 3) and min(shape[-2:]) >= 16 and max(shape[-2:]) > 64


def count_windows(sizes: Sequence[Size], window: Sequence[int]) -> int:
    """Return the number of windows in an epoch, for items of these sizes."""
    return min(sum(_counts(sizes, window)), _MOST)


def _counts(sizes: Sequence[Size], window: Sequence[int]) -> list[int]:
    area = math.prod(window)
    return [max(1, -(-math.prod(size) // area)) for size in sizes]


def windowed(split: Split, window: Sequence[int]) -> Split:
    """Return a split whose samples are windows: the centre of each item."""
    items = split.items or _items_of(split.x, len(window))
    if items.ndim != len(window):
        raise ValueError(
            f"window must have {items.ndim} sizes, as the data has {items.ndim} axes of space or time, got "
            f"{tuple(window)}"
        )
    return replace(split, x=CentralWindows(items, window), items=items)


def paired_items(items: Items, pair: Split | Tensor | Samples, window: Sequence[int]) -> Items:
    """Return a second observation of items as items, which must have the sizes of the first."""
    second = windowed(pair if isinstance(pair, Split) else Split(pair), window).items
    assert second is not None  # noqa: S101
    if len(second) != len(items) or second.channels != items.channels:
        raise ValueError(
            f"pair must have the items of X, {len(items)} with {items.channels or 1} channels, got "
            f"{len(second)} with {second.channels or 1}: it is a second observation of the same things"
        )
    for row, (size, other) in enumerate(zip(items.sizes, second.sizes, strict=True)):
        if tuple(size) != tuple(other):
            raise ValueError(
                f"pair must have the sizes of X, {tuple(size)} for item {row}, got {tuple(other)}"
            )
    return second


def _items_of(x: Tensor | Samples, ndim: int) -> Items:
    """Return samples of one size as items."""
    if not ndim < len(x.shape) < ndim + 3:
        raise ValueError(f"window has {ndim} sizes, which does not fit samples of shape {tuple(x.shape[1:])}")
    if isinstance(x, Tensor):
        return ArrayItems(x, ndim)
    if isinstance(x, WholeItems):
        return x.items
    if isinstance(x, ArraySamples):
        return ArrayItems(x.array, ndim, partial(_part_as_float, where=x.where))
    channels = x.shape[1] if len(x.shape) > ndim + 1 else None
    return FileItems(range(len(x)), x.__getitem__, [tuple(x.shape[-ndim:])] * len(x), channels)


def _part_as_float(part: Any, where: str) -> Tensor:
    return as_float(np.asarray(part)[None], where)[0]


class Units(NamedTuple):
    """Offset and scale that are taken out of data: the network sees (x - offset) / scale."""

    offset: float = 0.0
    scale: float = 1.0

    def apply(self, x: Tensor) -> Tensor:
        """Return x in these units."""
        return x if self == (0.0, 1.0) else (x - self.offset) / self.scale

    def undo(self, x: Tensor) -> Tensor:
        """Return x in the units of the data."""
        return x if self == (0.0, 1.0) else x * self.scale + self.offset


class CentralWindows(Samples):
    """The centre of each item: one sample per item, all of one size; smaller items are mirrored.

    Args:
        items: Items of any size.
        window: Size of the windows.
    """

    def __init__(self, items: Items, window: Sequence[int]) -> None:
        self.items, self.window = items, tuple(window)
        self.shape = (len(items), *items.shape(self.window))

    def read(self, indices: Sequence[int]) -> Tensor:
        """Read the centres of some items."""
        if not len(indices):
            return torch.empty((0, *self.shape[1:]))
        return torch.stack([self._centre(int(index)) for index in indices])

    def _centre(self, index: int) -> Tensor:
        sizes = zip(self.items.sizes[index], self.window, strict=True)
        return self.items.padded(index, [max(0, (have - want) // 2) for have, want in sizes], self.window)


class WholeItems(Samples):
    """Items of one size, each a sample.

    Args:
        items: Items.
    """

    def __init__(self, items: Items) -> None:
        self.items = items
        self.shape = (len(items), *items.shape(items.sizes[0]))

    def read(self, indices: Sequence[int]) -> Tensor:
        """Read some items."""
        if not len(indices):
            return torch.empty((0, *self.shape[1:]))
        return torch.stack([self.items.whole(int(index)) for index in indices])


class RandomWindows(Samples):
    """Windows at random places, other ones in each epoch; as many as would cover all items, up to 16,384.

    Pictures are turned and mirrored at random, too, since noise has no direction.

    Args:
        items: Items of any size; those smaller than a window are mirrored.
        window: Size of the windows.
        units: Units that windows are given in.
        seed: Random seed of the places; see `for_epoch`.

    Example:
        >>> pictures = ListItems([torch.rand(20, 30), torch.rand(50, 40)], ndim=2)
        >>> windows = RandomWindows(pictures, (16, 16))
        >>> windows.shape, windows.read([0, 3]).shape
        ((11, 16, 16), torch.Size([2, 16, 16]))
    """

    def __init__(self, items: Items, window: Sequence[int], units: Units = Units(), seed: int = 0) -> None:  # noqa: B008
        self.items, self.window, self.units, self.seed = items, tuple(window), units, seed
        self.ends = np.cumsum(_counts(items.sizes, self.window))  # of the windows that would cover each item
        self.shape = (count_windows(items.sizes, self.window), *items.shape(self.window))

    def for_epoch(self, seed: int) -> "RandomWindows":
        """Return windows at other places."""
        other = object.__new__(RandomWindows)
        other.__dict__ = {**self.__dict__, "seed": seed}
        return other

    def groups(self) -> Tensor:
        """Return the item of each window, so that whole items can be held out."""
        rows = np.arange(len(self))
        return torch.from_numpy(np.searchsorted(self.ends, rows * self.ends[-1] // len(self), side="right"))

    def shuffled(self, rows: Tensor, generator: Generator) -> Tensor:
        """Return rows in random order; where files are decoded, a few windows of each stay together."""
        if not self.items.costly:
            return super().shuffled(rows, generator)
        groups = self.groups()
        rows = rows[groups[rows].argsort(stable=True)]
        item = groups[rows]
        first = torch.searchsorted(item, item)  # where the windows of its item begin
        visit = item * (len(rows) + 1) + (torch.arange(len(rows)) - first) // _VISIT
        _, number = visit.unique(return_inverse=True)
        order = torch.randperm(int(number.max()) + 1, generator=generator)
        return rows[order[number].argsort(stable=True)]

    def default_workers(self) -> int:
        """Return 0 where regions are read quickly."""
        return super().default_workers() if self.items.costly else 0

    def read(self, indices: Sequence[int]) -> Tensor:
        """Read some windows."""
        if not len(indices):
            return torch.empty((0, *self.shape[1:]))
        return self.units.apply(torch.stack([self._window(int(index)) for index in indices]))

    def _window(self, row: int) -> Tensor:
        # Philox counts: each row of an epoch has numbers of its own, whatever is read before it.
        philox = np.random.Philox(key=self.seed, counter=row << 64)
        draw = np.random.Generator(philox).random(len(self.window) + 4)
        index = int(np.searchsorted(self.ends, (row + draw[3]) * self.ends[-1] / len(self), side="right"))
        index = min(index, len(self.items) - 1)  # of a sum that was rounded up
        room = np.maximum(0, np.subtract(self.items.sizes[index], self.window)) + 1
        start = (draw[4:] * room).astype(int).tolist()
        return _turned(self.items.padded(index, start, self.window), self.window, draw[:3] < 0.5)


def measure_units(windows: RandomWindows, most: int = 256) -> Units:
    """Measure the mean and deviation of windows, without the largest and smallest half per cent of values.

    Raises:
        DataError: If all values are equal.
    """
    rows = np.linspace(0, len(windows) - 1, min(most, len(windows))).astype(int)
    values = np.sort(windows.read(rows.tolist()).numpy(), axis=None)
    kept = values[len(values) // 200 : len(values) - len(values) // 200].astype(np.float64)
    spread = float(kept.std()) or float(values.astype(np.float64).std())
    if not spread > 0:
        raise DataError(
            f"all values of the {len(rows)} windows looked at are {values[0]:g}: nothing can be learned from "
            f"constant data; check the files, or how they are read"
        )
    return Units(float(kept.mean()), spread)


def _turned(x: Tensor, window: Size, turns: Any) -> Tensor:
    """Mirror a picture along its axes, and exchange these if its sides are equal; a signal is left alone."""
    if len(window) < 2:
        return x
    x = x.flip([axis for axis, turn in zip((-1, -2), turns[:2], strict=True) if turn])
    return x.transpose(-1, -2) if turns[2] and window[-1] == window[-2] else x

"""Arrays whose axes are named: pictures or volumes in any order of axes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dcs.data._arrays import as_float, check_numeric, open_npy
from dcs.data._axes import Layout, given_layout
from dcs.data._dataset import Samples, Split, is_resident
from dcs.data.windows import CentralWindows, Items, ListItems, WholeItems, default_window


class ArrangedItems(Items):
    """Items of an array with axes in any order.

    Args:
        array: Anything with a shape that slices to an array.
        layout: Meaning of its axes.
        where: Name of the array in errors.
        path: .npy file of which the array is a memory map.
    """

    def __init__(self, array: Any, layout: Layout, where: str, path: Path | None = None) -> None:
        self.array, self.layout, self.where, self.path = array, layout, where, path
        self.sizes, self.channels = [layout.size] * layout.count, layout.channels

    def region(self, index: int, start: Sequence[int], size: Sequence[int]) -> Tensor:
        """Slice an item."""
        part = self.layout.arrange(np.asarray(self.array[self.layout.index(index, start, size)]))
        return as_float(np.ascontiguousarray(part)[None], self.where, np.array([index]))[0]

    def __getstate__(self) -> dict[str, Any]:
        # Another process maps the file itself: a mapping is pickled as a copy.
        return {**self.__dict__, **({} if self.path is None else {"array": None})}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.path is not None:
            self.array = open_npy(self.path)


def from_axes(
    array: Any, axes: str, where: str, resident: bool | None = None, path: Path | None = None
) -> Split:
    """Convert an array whose axes are named; volumes become items, of which samples are windows.

    Args:
        array: Array in memory, memory-mapped or stored.
        axes: One letter per axis, see `check_axes`.
        where: Name of the array in errors.
        resident: Whether to hold it in memory; None decides by its size.
        path: .npy file of which the array is a memory map.
    """
    check_numeric(array, where)
    items: Items = ArrangedItems(array, given_layout(axes, array.shape, where), where, path)
    held = is_resident(array.size, resident)
    if items.ndim == 2:
        x: Tensor | Samples = WholeItems(items)
        return Split(torch.stack([items.whole(row) for row in range(len(items))]) if held else x)
    if held:
        items = ListItems([items.whole(row) for row in range(len(items))], items.ndim)
    return Split(CentralWindows(items, default_window(items.ndim, items.sizes)), items=items)

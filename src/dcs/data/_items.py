"""`torch.utils.data.Dataset` as data."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import IterableDataset, TensorDataset

from dcs._progress import progress
from dcs.data._arrays import from_array
from dcs.data._dataset import DataError, Dataset, DataWarning, Samples, Split
from dcs.data._tables import number_labels


class ItemSamples(Samples):
    """Items of a map-style data set: samples, or tuples that begin with one."""

    def __init__(self, items: TorchDataset[Any], where: str) -> None:
        self.items, self.where = items, where
        try:
            count = len(items)  # type: ignore[arg-type]
        except (TypeError, NotImplementedError) as error:
            raise DataError(f"{where} has no length: use a map-style data set, with __len__") from error
        if not count:
            raise DataError(f"{where} is empty: at least one sample is needed")
        self.pixels: str | None = None
        self.shape = (count, *self._sample(0).shape)

    def read(self, indices: Sequence[int]) -> Tensor:
        """Read some items."""
        samples = [self._sample(int(index)) for index in indices]
        if not samples:
            return torch.empty((0, *self.shape[1:]))
        for index, sample in zip(indices, samples, strict=True):
            if sample.shape != self.shape[1:]:
                raise DataError(
                    f"{self.where} has items of shape {self.shape[1:]} and, at {index}, "
                    f"{tuple(sample.shape)}: crop or resize them to one"
                )
        return torch.stack(samples)

    def default_workers(self) -> int:
        """Return 0: open files and random states may not survive a fork."""
        return 0

    def _sample(self, index: int) -> Tensor:
        try:
            item = self.items[index]
        except Exception as error:  # a data set of others can fail in any way
            raise DataError(
                f"{self.where} failed at {index}: {type(error).__name__}: {error}; correct it, or leave that "
                f"item out"
            ) from error
        if isinstance(item, tuple | list) and item:
            item = item[0]
        if not isinstance(item, Tensor | np.ndarray):
            raise DataError(
                f"{self.where} gives {type(item).__name__} at {index}: its items must be tensors or arrays, "
                f"or tuples that begin with one; convert pictures with numpy.asarray"
            )
        dtype = str(item.dtype).rpartition(".")[2]
        pixels = dtype if dtype in ("uint8", "uint16") else ""  # which are scaled
        if self.pixels not in (None, pixels):
            raise DataError(
                f"{self.where} has {dtype} at {index}, unlike before: convert all items to one type"
            )
        self.pixels = pixels
        sample = from_array(item[None], f"{self.where}[{index}]", resident=True)
        return sample[0]


def from_torch(items: TorchDataset[Any], resident: bool | None) -> Dataset:
    """Convert a torch data set; the tensors of a TensorDataset are used directly."""
    where = type(items).__name__
    if isinstance(items, IterableDataset):
        raise DataError(
            f"{where} can only be iterated over: use a map-style data set, with __getitem__ and __len__"
        )
    if isinstance(items, TensorDataset) and items.tensors:
        x = from_array(items.tensors[0], where, resident)
        if len(items.tensors) == 1 or items.tensors[1].is_floating_point() or items.tensors[1].ndim != 1:
            return Dataset(where, Split(x))
        try:
            numbers, classes = number_labels(items.tensors[1].tolist(), where)
        except DataError as error:
            warnings.warn(f"{error}; they are left out", DataWarning, stacklevel=4)
            return Dataset(where, Split(x))
        return Dataset(where, Split(x, torch.from_numpy(numbers)), None, classes)
    samples = ItemSamples(items, where)
    if not resident:
        return Dataset(where, Split(samples))
    x = torch.empty(samples.shape)
    with progress(f"reading {where}", len(samples)) as advance:
        for start in range(0, len(samples), 256):
            rows = range(start, min(start + 256, len(samples)))
            x[start : start + 256] = samples.read(rows)
            advance(len(rows))
    return Dataset(where, Split(x))

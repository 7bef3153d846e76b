"""Denoised arrays as files, with the shape, the axes and the type of numbers of the array that was read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from dcs._optional import require
from dcs.data._arrays import open_npy, scale_of
from dcs.data._axes import Layout, given_layout
from dcs.data._stores import HDF5_SUFFIXES, ZARR_SUFFIX, StoredArray, is_store, open_stored
from dcs.data.image_output import to_integers

ARRAY_SUFFIXES = (".npy", *HDF5_SUFFIXES, ZARR_SUFFIX)
_CHUNK = 256  # entries of a chunk along an axis of space
_NAME = "data"  # of an array in an HDF5 file whose source has no name
_PLAIN = {3: "SYX", 4: "SCYX", 5: "SCZYX"}  # axes of arrays by their number, as samples are read


class ArrayOutput:
    """An array like another one, in a .npy file, an HDF5 file or a Zarr store, written region by region.

    Unsigned integers of 8 and 16 bits, which are read as 0 to 1, are scaled back; integers are rounded and
    clipped to their range.

    Args:
        like: File of the array that was read: "a.npy", "file.h5", "file.h5::/path/to/array" or "store.zarr".
        target: File or folder to write, which must not exist.
        kind: Its kind, by suffix.
        axes: Meaning of the axes, if given when the array was read.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> np.save(folder / "noisy.npy", np.zeros((2, 20, 30), np.uint8))
        >>> with ArrayOutput(folder / "noisy.npy", folder / "clean.npy", ".npy") as output:
        ...     output.write(1, (0, 0), np.ones((20, 30), np.float32))
        >>> np.load(folder / "clean.npy")[:, 0, 0].tolist()
        [0, 255]
    """

    def __init__(self, like: Path, target: Path, kind: str, axes: str | None = None) -> None:
        source: Any = open_stored(like) if is_store(like) else open_npy(like)
        self.layout = layout_of(source, axes, str(like))
        self.dtype, scale = np.dtype(source.dtype), scale_of(source)
        self.full = None if scale == 1 else scale
        key = source.key if isinstance(source, StoredArray) else ""
        self.array = _create(target, kind, self.layout, self.dtype, key or _NAME)

    def write(self, number: int, start: Sequence[int], values: np.ndarray) -> None:
        """Write a region of an item.

        Args:
            number: Number of the item in the array.
            start: Where the region begins, along the item's axes of space.
            values: Region, (*size) or (c, *size), in the units in which the array was read; channels of an
                array without channels are averaged.
        """
        size = values.shape[-len(self.layout.size) :]
        if self.layout.channels is None and len(values.shape) > len(size):
            values = values.mean(0)
        stored = to_integers(values, self.dtype.name, self.full).astype(self.dtype)
        self.array[self.layout.index(number, start, size)] = self.layout.spread(stored)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if isinstance(self.array, np.memmap):
            self.array.flush()
        elif hasattr(self.array, "file"):  # an HDF5 file is closed with its last object
            self.array.file.close()


def layout_of(source: Any, axes: str | None, where: str) -> Layout:
    """Return the meaning of the axes of an array: as given, as it says, or samples of pictures."""
    axes = axes or getattr(source, "axes", None) or _PLAIN.get(len(source.shape))
    if axes is None:
        raise ValueError(f"{where} has {len(source.shape)} axes: name them with axes= (--axes), e.g. ZYX")
    return given_layout(axes, source.shape, where)


def _create(target: Path, kind: str, layout: Layout, dtype: np.dtype[Any], key: str) -> Any:
    """Create an array of zeros on disk."""
    shape = layout.shape
    if kind == ".npy":
        return np.lib.format.open_memmap(target, mode="w+", dtype=dtype, shape=shape)
    space = [axis in "ZYX" for axis in layout.axes]
    chunks = tuple(min(n, _CHUNK) if is_space else 1 for n, is_space in zip(shape, space, strict=True))
    if kind == ZARR_SUFFIX:
        zarr = require("zarr", "zarr", "writing Zarr stores")
        return zarr.create_array(str(target), shape=shape, dtype=dtype, chunks=chunks)
    file = require("h5py", "hdf5", "writing HDF5 files").File(target, "w")
    return file.create_dataset(key, shape=shape, dtype=dtype, chunks=chunks, compression="gzip")

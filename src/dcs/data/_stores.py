"""Arrays in HDF5 files and Zarr stores, read part by part."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dcs._optional import require
from dcs.data._dataset import DataError

HDF5_SUFFIXES = (".h5", ".hdf5", ".hdf")
ZARR_SUFFIX = ".zarr"
SEPARATOR = "::"

_LISTED = 20


class StoredArray:
    """An array in an HDF5 file or a Zarr store; another process opens the file itself.

    Args:
        path: File, or folder of a Zarr store.
        key: Name of the array in it; by default the only one.

    Attributes:
        axes: Meaning of the axes, where an OME-Zarr store names them.
    """

    def __init__(self, path: Path, key: str = "") -> None:
        self.path = path
        with reading(path):
            root = _open(path)
            self.key, self.axes = (key.strip("/"), None) if key.strip("/") else _only_array(path, root)
            found = root if not self.key else _member(path, root, self.key)
            if not hasattr(found, "shape"):
                raise DataError(
                    f"{self} is a group: name one of its arrays, {_listed(path, found, self.key)}"
                )
            self.shape, self.dtype = tuple(map(int, found.shape)), np.dtype(found.dtype)
            if self.axes is not None:  # a single plane is a picture, not a volume
                self.axes = "".join(
                    "T" if axis == "Z" and length == 1 else axis
                    for axis, length in zip(self.axes, self.shape, strict=True)
                )
        self._opened: tuple[int, Any] = (os.getpid(), found)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of entries."""
        return int(np.prod(self.shape))

    def __str__(self) -> str:
        return f"{self.path}{SEPARATOR}{self.key}" if self.key else str(self.path)

    def __getitem__(self, key: Any) -> np.ndarray:
        with reading(self.path):
            return np.asarray(self._array()[key])

    def rows(self, indices: np.ndarray) -> np.ndarray:
        """Read some rows, in any order."""
        order, back = np.unique(indices, return_inverse=True)
        with reading(self.path):
            array = self._array()
            found = array.oindex[order] if hasattr(array, "oindex") else array[order]
        return np.asarray(found)[back]

    def _array(self) -> Any:
        process, array = self._opened
        if process != os.getpid():  # an open file must not be shared with a forked process
            root = _open(self.path)
            array = root[self.key] if self.key else root
            self._opened = (os.getpid(), array)
        return array

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": (-1, None)}


def is_store(path: Path) -> bool:
    """Return whether a path names an HDF5 file or a Zarr store, or an array in one."""
    return SEPARATOR in str(path) or path.suffix.lower() in (*HDF5_SUFFIXES, ZARR_SUFFIX)


def open_stored(path: Path) -> StoredArray:
    """Open `file.h5`, `file.h5::/path/to/array`, `store.zarr` or `store.zarr::path/to/array`."""
    file, _, key = str(path).partition(SEPARATOR)
    if Path(file).suffix.lower() not in (*HDF5_SUFFIXES, ZARR_SUFFIX):
        known = ", ".join((*HDF5_SUFFIXES, ZARR_SUFFIX))
        raise DataError(f"{file!r} is not an HDF5 file or Zarr store ({known}): check the path")
    if not Path(file).exists():
        raise FileNotFoundError(f"{file!r} does not exist: check the path")
    return StoredArray(Path(file), key)


def _open(path: Path) -> Any:
    if path.suffix.lower() == ZARR_SUFFIX:
        return require("zarr", "zarr", "reading Zarr stores").open(str(path), mode="r")
    return require("h5py", "hdf5", "reading HDF5 files").File(path, "r")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Let errors name the file."""
    try:
        yield
    except (DataError, PermissionError, ImportError):
        raise
    except Exception as error:  # damaged files make the libraries raise errors of every kind
        reason = str(error).splitlines() or [type(error).__name__]
        kind = "a Zarr store" if path.suffix.lower() == ZARR_SUFFIX else "an HDF5 file"
        raise DataError(
            f"{str(path)!r} cannot be read as {kind} ({reason[0]}): replace it by an intact copy"
        ) from error


def _member(path: Path, root: Any, key: str) -> Any:
    try:
        return root[key]
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise DataError(f"{str(path)!r} has no array {key!r}: {_listed(path, root)}") from error


def _only_array(path: Path, root: Any) -> tuple[str, str | None]:
    """Return the name of the only array, or of the full resolution of OME-Zarr, with its axes."""
    if hasattr(root, "shape"):
        return "", None
    attributes = dict(root.attrs)
    images = attributes.get("ome", attributes) if path.suffix.lower() == ZARR_SUFFIX else {}
    if isinstance(images, Mapping) and images.get("multiscales"):
        image = images["multiscales"][0]
        names = [axis["name"] if isinstance(axis, Mapping) else axis for axis in image.get("axes", ())]
        axes = "".join(names).upper()
        return image["datasets"][0]["path"], axes if axes and set(axes) <= set("TCZYX") else None
    names = [name for name, array in _arrays(root) if len(array.shape) > 1 and array.dtype.kind in "fuib"]
    if len(names) != 1:
        raise DataError(
            f"{str(path)!r} holds {len(names) or 'no'} arrays of numbers with two or more axes: name one of "
            f"{_listed(path, root)}"
        )
    return names[0], None


def _listed(path: Path, group: Any, within: str = "") -> str:
    """List arrays as one would name them."""
    lead = f"{path.name}{SEPARATOR}{within}/" if within else f"{path.name}{SEPARATOR}"
    found = [f"{lead}{name} {tuple(array.shape)} {array.dtype}" for name, array in _arrays(group)]
    more = [f"and {len(found) - _LISTED} more"] if len(found) > _LISTED else []
    return ", ".join([*found[:_LISTED], *more]) or "there is none"


def _arrays(group: Any) -> list[tuple[str, Any]]:
    if hasattr(group, "shape"):
        return []
    found: list[tuple[str, Any]] = []
    if hasattr(group, "visititems"):
        group.visititems(lambda name, member: found.append((name, member)))
    else:
        found = sorted(group.members(max_depth=None), key=lambda pair: pair[0])
    return [(name, member) for name, member in found if hasattr(member, "shape")]

"""Arrays as data: in memory, or memory-mapped and read batch by batch."""

import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dcs.data._dataset import DataError, Samples, is_resident
from dcs.data._stores import StoredArray

Array = np.ndarray[Any, np.dtype[Any]]

# Integers of these types are pixel values: the largest of them becomes 1.
_WHITE = {np.dtype(np.uint8): 255.0, np.dtype(np.uint16): 65535.0}


class ArraySamples(Samples):
    """The rows of an array that is memory-mapped, stored, or too large to be converted at once."""

    def __init__(self, array: Array | StoredArray, where: str, path: Path | None = None) -> None:
        self.array, self.where, self.path = array, where, path
        self.shape = array.shape

    def read(self, indices: Sequence[int]) -> Tensor:
        """Read some rows."""
        chosen = np.asarray(indices, dtype=np.int64)
        stored = self.array.rows(chosen) if isinstance(self.array, StoredArray) else None
        rows = np.asarray(self.array)[chosen] if stored is None else stored
        return as_float(rows, self.where, chosen)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self.path is not None:  # another process maps the file itself: a mapping is pickled as a copy
            del state["array"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.path is not None:
            self.array = open_npy(self.path)


def from_array(
    array: object, where: str, resident: bool | None = None, path: Path | None = None
) -> Tensor | ArraySamples:
    """Convert (n, ...) to float32 in memory, or to `ArraySamples`.

    8- and 16-bit unsigned integers are divided by 255 and 65535; other numbers are not scaled. A
    float32 tensor, or a writable float32 array, is not copied.

    Args:
        array: Anything that NumPy converts to an array.
        where: Name of the data in errors.
        resident: Whether to hold it in memory; None decides by its size.
        path: .npy file of which the array is a memory map.
    """
    if _is_ready(array) and resident is not False:
        assert isinstance(array, Tensor)  # noqa: S101
        return check_values(array.detach() if array.requires_grad else array, where)
    data = as_array(array, where)
    if is_resident(data.size, resident):
        return as_float(data[...], where)
    return ArraySamples(data, where, path)


def _is_ready(array: object) -> bool:
    """Return whether this is a tensor that can be used without conversion."""
    return (
        isinstance(array, Tensor)
        and array.dtype == torch.float32
        and array.device.type == "cpu"
        and array.layout == torch.strided
        and array.is_contiguous()
        and not array.is_neg()
        and array.ndim >= 2
        and array.numel() > 0
    )


def open_npy(path: Path) -> Array:
    """Memory-map a .npy file."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
    except (FileNotFoundError, PermissionError):
        raise
    except (ValueError, EOFError, OSError, SyntaxError, TypeError, OverflowError, MemoryError) as error:
        raise DataError(
            f"{path} cannot be read as a .npy file: {error}; write it again with numpy.save, as an array of "
            f"numbers"
        ) from error


def open_npz(path: Path) -> dict[str, Array]:
    """Read the arrays of an .npz file."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except (FileNotFoundError, PermissionError):
        raise
    except (ValueError, EOFError, OSError, SyntaxError, TypeError, OverflowError, MemoryError) as error:
        raise _corrupted_npz(path, error) from error
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, KeyError, AttributeError) as error:
        raise _corrupted_npz(path, error) from error


def _corrupted_npz(path: Path, error: Exception) -> DataError:
    return DataError(
        f"{path} cannot be read as an .npz file: {error}; write it again with numpy.savez, as arrays of "
        f"numbers"
    )


def as_array(array: Any, where: str) -> Any:
    """Convert to an array of real numbers; what is stored stays so."""
    if isinstance(array, StoredArray):
        check_numeric(array, where)
        return array
    if hasattr(array, "toarray"):
        raise DataError(f"{where} is a sparse matrix, which has no neighbours to mask: pass x.toarray()")
    if np.ma.isMaskedArray(array) and np.ma.is_masked(array):
        raise DataError(
            f"{where} is a masked array with masked entries: fill them first, as with x.filled(0)"
        )
    try:
        if isinstance(array, Tensor):
            tensor = array.detach().cpu().resolve_conj().resolve_neg()
            array = (
                tensor.float() if tensor.dtype.itemsize < 4 and tensor.is_floating_point() else tensor
            ).numpy()
        data = array if isinstance(array, np.ndarray) else np.asarray(array)
    except (ValueError, TypeError, RuntimeError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(
            f"{where} cannot be converted to an array of numbers with rows of one length: {reason}"
        ) from error
    check_numeric(data, where)
    return data


def check_numeric(data: Any, where: str) -> None:
    """Require real numbers in (samples, ...), at least one."""
    if data.dtype.kind not in "fuib":
        raise DataError(f"{where} holds {data.dtype}, not real numbers: convert it first")
    if data.ndim < 2:
        raise DataError(
            f"{where} has shape {data.shape}: it must be (samples, ...); use x.reshape(1, -1) for one"
        )
    if not data.size:
        raise DataError(f"{where} is empty, its shape is {data.shape}: at least one sample is needed")


def scale_of(data: Array) -> float:
    """Return the number by which the values of an array are divided."""
    return _WHITE.get(data.dtype.newbyteorder("="), 1.0)


def as_float(data: Array, where: str, rows: Array | None = None) -> Tensor:
    """Convert to float32 and require finite values; `rows` are the row numbers for the error."""
    if data.dtype == np.float32 and data.flags.writeable and data.flags.c_contiguous and data.dtype.isnative:
        x = torch.from_numpy(np.asarray(data))
    else:
        with np.errstate(
            over="ignore"
        ):  # what is too large for float32 becomes infinite, and is refused below
            x = torch.from_numpy(np.array(data, dtype=np.float32))
    scale = scale_of(data)
    if scale != 1:
        x.div_(scale)
    return check_values(x, where, rows)


def check_values(x: Tensor, where: str, rows: Array | None = None) -> Tensor:
    """Require finite values; the error names the first row that has others."""
    if math.isfinite(x.sum().item()):
        return x
    wrong = (~x.isfinite()).flatten(1).any(1).nonzero()
    if len(wrong):  # not so if only the sum overflowed
        bad = int(wrong[0])
        row = bad if rows is None else int(rows[bad])
        count = int((~x[bad].isfinite()).sum())
        raise DataError(
            f"{where} has {count} NaN, infinite or too large values in row {row}: remove or replace them "
            f"first"
        )
    return x

"""CIFAR's pickled batches, read without running anything that a pickle asks for."""

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dcs.data._dataset import DataError


def read_cifar(files: list[Path], label_key: bytes) -> tuple[Tensor, list[int]]:
    """Read batches: images (n, 3, 32, 32) in [0, 1], and their labels."""
    images, labels = [], []
    for path in files:
        batch = _unpickle(path)
        data, y = batch.get(b"data"), batch.get(label_key)
        if not isinstance(data, _StandIn) or not isinstance(y, list):
            raise _corrupted(path, f"it has no data or no {label_key.decode()}")
        try:
            pixels = _pixels(data)
        except (TypeError, ValueError, AttributeError, IndexError) as error:
            raise _corrupted(path, str(error)) from error
        if len(pixels) != len(y) or not all(isinstance(label, int) for label in y):
            raise _corrupted(
                path, f"it has {len(pixels)} images and {len(y)} labels, or labels that are no integers"
            )
        images.append(pixels)
        labels += y
    stacked = torch.from_numpy(np.concatenate(images)).reshape(-1, 3, 32, 32)
    return stacked.float().div_(255), labels


def read_cifar_classes(path: Path, key: bytes) -> tuple[str, ...]:
    """Read the names of the classes from `batches.meta` or `meta`."""
    names = _unpickle(path).get(key)
    if not isinstance(names, list) or not all(isinstance(name, bytes | str) for name in names):
        raise _corrupted(path, f"it has no {key.decode()}")
    return tuple(name.decode("latin1") if isinstance(name, bytes) else name for name in names)


class _StandIn:
    """Take the place of NumPy's array and dtype: keep what a pickle gives them, and trust none of it."""

    state: Any = None

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def __setstate__(self, state: Any) -> None:
        self.state = state


def _pixels(array: _StandIn) -> "np.ndarray[Any, np.dtype[np.uint8]]":
    """Return the bytes of an array as rows of 3072."""
    _, shape, dtype, fortran, data = array.state
    if dtype.arguments[0] not in ("u1", b"u1") or fortran or not isinstance(data, bytes):
        raise ValueError("its data are not bytes")
    if len(shape) != 2 or shape[1] != 3072 or shape[0] * 3072 != len(data) or not shape[0]:
        raise ValueError(f"its data have the shape {shape}, not rows of 3072")
    return np.frombuffer(data, np.uint8).reshape(-1, 3072)


_ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): _StandIn,
    ("numpy._core.multiarray", "_reconstruct"): _StandIn,
    ("numpy", "ndarray"): _StandIn,
    ("numpy", "dtype"): _StandIn,
    ("_codecs", "encode"): lambda text, _: text.encode("latin1"),  # bytes of Python 3 in old protocols
}


class _Unpickler(pickle._Unpickler):
    """Python's unpickler written in Python: the C one allocates whatever size a corrupted file names.

    For the same reason NumPy's own types are not allowed: an array is allocated before its data is there.
    """

    def find_class(self, module: str, name: str) -> Callable[..., Any]:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no batch needs") from None


def _unpickle(path: Path) -> dict[bytes, Any]:
    content = path.read_bytes()
    try:
        batch = _Unpickler(io.BytesIO(content), encoding="bytes").load()
        if not isinstance(batch, dict):
            raise TypeError("it is not a dictionary")
    # A pickle is a program: a corrupted one can fail in any way that a program can.
    except Exception as error:
        raise _corrupted(path, str(error)) from error
    return {key.encode() if isinstance(key, str) else key: value for key, value in batch.items()}


def _corrupted(path: Path, what: str) -> DataError:
    return DataError(f"{path} is not a batch of CIFAR, or corrupted: {what}; delete it and load it again")

"""CIFAR's pickled batches, read without running anything that a pickle may ask for."""

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

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
        if not isinstance(data, _Array) or not isinstance(y, list):
            raise _damaged(path, f"it has no data or no {label_key.decode()}")
        try:
            pixels = data.pixels()
        except (TypeError, ValueError, AttributeError) as error:
            raise _damaged(path, str(error)) from error
        if len(pixels) != len(y) or not all(isinstance(label, int) for label in y):
            raise _damaged(
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
        raise _damaged(path, f"it has no {key.decode()}")
    return tuple(name.decode("latin1") if isinstance(name, bytes) else name for name in names)


class _Array:
    """Stands for the array in a pickle: it takes what NumPy wrote and believes nothing of it."""

    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def pixels(self) -> "np.ndarray[Any, np.dtype[np.uint8]]":
        """The bytes as rows of 3072."""
        _, shape, dtype, fortran, data = self.state
        if dtype.code not in ("u1", b"u1") or fortran or not isinstance(data, bytes):
            raise ValueError("its data are not bytes")
        if len(shape) != 2 or shape[1] != 3072 or shape[0] * 3072 != len(data) or not shape[0]:
            raise ValueError(f"its data have the shape {shape}, not rows of 3072")
        return np.frombuffer(data, np.uint8).reshape(-1, 3072)


class _DType:
    """Stands for numpy.dtype."""

    def __init__(self, code: Any, *_: Any) -> None:
        self.code = code

    def __setstate__(self, state: Any) -> None:
        pass


def _encode(text: str, _encoding: str) -> bytes:
    """What Python 3 writes for bytes in old protocols."""
    return text.encode("latin1")


_ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): lambda *_: _Array(),
    ("numpy._core.multiarray", "_reconstruct"): lambda *_: _Array(),
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _DType,
    ("_codecs", "encode"): _encode,
}


class _Unpickler(pickle._Unpickler):
    """Python's own unpickler in Python, whose memory follows the file: the C one trusts the sizes in it."""

    def find_class(self, module: str, name: str) -> Callable[..., Any]:
        """Give the few types that a batch needs, as stand-ins."""
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no batch needs") from None

    def persistent_load(self, _: Any) -> NoReturn:
        """Refuse."""
        raise pickle.UnpicklingError("it refers to something outside")


def _unpickle(path: Path) -> dict[bytes, Any]:
    content = path.read_bytes()
    try:
        batch = _Unpickler(io.BytesIO(content), encoding="bytes").load()
        if not isinstance(batch, dict):
            raise TypeError("it is not a dictionary")
    # A pickle is a program: a damaged one can fail in any way that a program can.
    except Exception as error:
        raise _damaged(path, str(error)) from error
    return {key.encode() if isinstance(key, str) else key: value for key, value in batch.items()}


def _damaged(path: Path, what: str) -> DataError:
    return DataError(f"{path} is not a batch of CIFAR, or damaged: {what}; delete it and load it again")

"""Readers of the small sets of digits: USPS and Pendigits."""

import bz2
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dcs._optional import require
from dcs.data._arrays import check_values
from dcs.data._dataset import DataError


def read_usps_hdf5(path: Path) -> dict[str, tuple[Tensor, Tensor]]:
    """Read both splits of usps.h5: images (n, 16, 16) in [0, 1], and labels."""
    h5py = require("h5py", "hdf5", "reading usps.h5")
    splits = {}
    try:
        with h5py.File(path) as file:
            for split in ("train", "test"):
                x, y = (np.asarray(file[split][key]) for key in ("data", "target"))
                splits[split] = (torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y.astype(np.int64)))
    except FileNotFoundError:
        raise
    except (OSError, KeyError, ValueError, TypeError, RuntimeError, AttributeError) as error:
        raise DataError(
            f"{path} cannot be read as the USPS digits: {error}; delete it and load it again"
        ) from error
    return {split: (_images(path, x, y, 16, 0, 1), y) for split, (x, y) in splits.items()}


def read_usps_libsvm(path: Path) -> tuple[Tensor, Tensor]:
    """Read one split in LIBSVM's format, .bz2 or plain; values from -1 to 1 are scaled to [0, 1]."""
    from sklearn.datasets import load_svmlight_file

    try:
        with bz2.open(path) if path.suffix == ".bz2" else path.open("rb") as file:
            x, y = load_svmlight_file(file, n_features=256, dtype=np.float32, zero_based=False)
        dense = torch.from_numpy(x.toarray())
    except FileNotFoundError:
        raise
    except (OSError, EOFError, ValueError, OverflowError, MemoryError, IndexError) as error:
        raise DataError(
            f"{path} cannot be read as the USPS digits in LIBSVM's format: {error}; delete it and load it "
            f"again"
        ) from error
    labels = torch.from_numpy(y).to(torch.int64) - 1
    return _images(path, dense, labels, 16, -1, 1), labels


def read_pendigits(path: Path) -> tuple[Tensor, Tensor]:
    """Read one split: 8 points of a pen's path as (n, 2, 8), horizontal and vertical, in [0, 1]."""
    try:
        lines = path.read_text(encoding="ascii").split("\n")
        # NumPy warns of an empty file, and then gives no rows either.
        rows = np.loadtxt(lines, np.float32, delimiter=",", ndmin=2) if any(lines) else np.empty((0, 0))
    except (ValueError, OverflowError) as error:
        raise DataError(
            f"{path} cannot be read as Pendigits: {error}; delete it and load it again"
        ) from error
    if rows.shape[1] != 17 or not len(rows):
        raise DataError(
            f"{path} has {rows.shape[1]} columns and {len(rows)} rows, not the 17 columns of Pendigits: "
            f"replace it"
        )
    points = torch.from_numpy(rows[:, :16]).reshape(-1, 8, 2).transpose(1, 2).contiguous()
    _check_range(path, points, 0, 100)
    check_values(torch.from_numpy(rows), str(path))
    return points / 100, torch.from_numpy(rows[:, 16]).to(torch.int64)


def _images(path: Path, x: Tensor, y: Tensor, side: int, low: float, high: float) -> Tensor:
    if x.ndim != 2 or x.shape[1] != side * side or x.shape[:1] != y.shape or not len(x):
        raise DataError(
            f"{path} holds {tuple(x.shape)} values and {tuple(y.shape)} labels, not rows of {side * side} "
            f"with one label each: replace it"
        )
    _check_range(path, x, low, high)
    return ((x - low) / (high - low)).reshape(-1, side, side)


def _check_range(path: Path, x: Tensor, low: float, high: float) -> None:
    check_values(x, str(path))
    if float(x.min()) < low or float(x.max()) > high:
        raise DataError(
            f"{path} has values from {float(x.min()):g} to {float(x.max()):g}, outside {low:g} to {high:g}: "
            f"it is corrupted or scaled differently; replace it"
        )

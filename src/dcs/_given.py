"""What a caller may pass as data to `DenoisingEncoder`."""

import os
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_array
from torch import Tensor

from dcs import data
from dcs._predicting import Array, Numbers


def source_of(X: Any, name: str) -> Any:  # noqa: N803
    """What a caller passed as data, as something array-like or a `torch.utils.data.Dataset`."""
    if isinstance(X, data.Split):
        X = X.x  # noqa: N806
    if isinstance(X, data.Dataset):
        raise TypeError(f"{name} is a whole data set: pass one of its splits, such as ds.train")
    if isinstance(X, str | os.PathLike):
        raise TypeError(f"{name} must hold numbers, got a path: pass dcs.data.load({str(X)!r}).train")
    if isinstance(X, Tensor):
        X = X.detach().cpu()  # noqa: N806
        X = (X.float() if X.dtype == torch.bfloat16 else X).numpy()  # noqa: N806
    return X


def lengths_of(X: Any) -> Tensor | None:  # noqa: N803
    """How much of each sample is no padding, if that is known."""
    return X.lengths if isinstance(X, data.Split) else None


def stream(source: Any, resident: bool | None) -> Numbers:
    """A data set of torch, read as it is needed or held in memory."""
    return source if isinstance(source, data.Samples) else data.load(source, resident=resident).train.x


def ndim_of(source: Any) -> int:
    """Axes of something array-like."""
    if hasattr(source, "ndim"):
        return int(source.ndim)
    return 2 if hasattr(source, "__dataframe__") else np.ndim(np.asarray(source))


def at_once(source: Any) -> bool:
    """Whether all values are checked at once; those of a memory map are when they are read."""
    return not isinstance(source, np.memmap)


def check_nd(source: Any, name: str) -> Array:
    """An array of numbers, with any axes."""
    checked: Array = check_array(
        source, dtype="numeric", allow_nd=True, ensure_all_finite=at_once(source), input_name=name
    )
    return checked

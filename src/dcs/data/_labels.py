"""Labels from a file of their own."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dcs.data._tables import number_labels


def read_labels(path: Path) -> tuple[Tensor, tuple[str, ...]]:
    """Labels as numbers, in the order of the data, and the name of each number.

    Args:
        path: A .npy file, or a text file with one label a line; a first line that says `label` is a heading.
    """
    if path.suffix == ".npy":
        try:
            array = np.load(path, allow_pickle=False)
        except (ValueError, EOFError):
            raise ValueError(f"labels {path} is no .npy file of numbers or text: write it anew") from None
        if array.ndim != 1 and array.shape[1:] != (1,):
            raise ValueError(f"labels {path} must be (n,), one a sample, got shape {array.shape}")
        values = array.ravel().tolist()
    else:
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise ValueError(f"labels {path} is no text in UTF-8: write it anew, one label a line") from None
        values = [line.strip() for line in text.rstrip().splitlines()]
        if values and values[0].lower() in ("label", "labels", "class", "y"):
            values = values[1:]
    numbers, classes = number_labels(values, f"labels {path}")
    return torch.from_numpy(numbers), classes

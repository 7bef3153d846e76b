"""Labels from a file of their own."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor


def read_labels(path: Path) -> tuple[Tensor, tuple[str, ...]]:
    """Labels as numbers, in the order of the data, and the name of each number.

    Args:
        path: A .npy file, or a text file with one label a line; a first line that says `label` is a heading.
    """
    if path.suffix == ".npy":
        try:
            values = np.load(path, allow_pickle=False).reshape(-1)
        except (ValueError, EOFError):
            raise ValueError(f"labels {path} is no .npy file of numbers or text: write it anew") from None
    else:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
        values = np.array([line.strip() for line in lines])
        if len(values) and values[0].lower() in ("label", "labels", "class", "y"):
            values = values[1:]
    classes, numbers = np.unique(values, return_inverse=True)
    return torch.from_numpy(numbers), tuple(str(name) for name in classes.tolist())

"""Nearest-neighbour protocol, with which SimSiam monitors training."""

import time
import warnings
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from dcs._checks import check_integer, check_number
from dcs.evaluation._features import check_widths, features_of, labelled, numbered
from dcs.evaluation._result import Result, versions

_ENTRIES = 2**24  # largest number of similarities computed at once


def knn(train: Any, test: Any, encoder: Any = None, *, k: int = 200, temperature: float = 0.1) -> Result:
    """Classify each test sample by its k nearest training samples, weighted by exp(cosine/temperature).

    Args:
        train: Labelled training samples: a `dcs.data.Split`, or (x, y).
        test: Labelled test samples, likewise.
        encoder: Encoder of x; see `linear`.
        k: Number of neighbours; if there are no more samples than that, all vote, with a warning.
        temperature: Temperature of the weights: the lower, the more the nearest ones count.

    Returns:
        The accuracy in percent.

    Example:
        >>> x = torch.eye(2).repeat(10, 1)
        >>> knn((x, [0, 1] * 10), (x, [0, 1] * 10), k=5).score
        100.0
    """
    start = time.perf_counter()
    check_integer("k", k, at_least=1)
    check_number("temperature", temperature, above=0)
    (x, y), (test_x, test_y) = labelled(train, "train"), labelled(test, "test")
    classes, (targets, test_targets) = numbered(y, test_y)
    z, test_z = (
        _directions(torch.from_numpy(features_of(encoder, *part)))
        for part in ((x, "train"), (test_x, "test"))
    )
    check_widths(z, test_z)
    test_z = test_z.to(z.dtype)
    voters, right = min(k, len(z)), 0
    if voters == len(z):
        warnings.warn(
            f"k is {k}, but train has only {len(z)} samples, which all vote: use a lower k",
            stacklevel=2,
        )
    rows = max(1, _ENTRIES // len(z))
    for block, its_targets in zip(test_z.split(rows), test_targets.split(rows), strict=True):
        cosine, index = (block @ z.T).topk(voters, dim=1)
        # Relative to the nearest, so that small temperatures do not overflow.
        votes = ((cosine - cosine[:, :1]) / temperature).exp()
        tally = votes.new_zeros(len(block), len(classes)).scatter_add_(1, targets[index], votes)
        right += int((tally.argmax(1) == its_targets).sum())
    return Result(
        "knn",
        100 * right / len(test_z),
        {},
        {
            "k": voters,
            "temperature": temperature,
            "train": len(z),
            "test": len(test_z),
            "features": z.shape[1],
            "classes": len(classes),
        },
        None,
        time.perf_counter() - start,
        versions(),
    )


def _directions(z: Tensor) -> Tensor:
    """Normalise features, first by their largest entry, so that squares neither overflow nor underflow."""
    largest = z.abs().amax(1, keepdim=True)
    return normalize(z / torch.where(largest > 0, largest, 1.0), dim=1)

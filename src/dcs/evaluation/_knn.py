"""The nearest-neighbour protocol, as SimSiam monitors its training."""

import time
import warnings
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from dcs._checks import check_integer, check_number
from dcs.evaluation._features import check_widths, features_of, labelled, numbered
from dcs.evaluation._result import Result, versions

_ENTRIES = 2**24  # of a block of similarities


def knn(train: Any, test: Any, encoder: Any = None, *, k: int = 200, temperature: float = 0.1) -> Result:
    """Let the k training samples of highest cosine vote on each test sample, by exp(cosine/temperature).

    Args:
        train: A labelled `dcs.data.Split`, or (x, y).
        test: The same.
        encoder: See `linear`.
        k: Voters; all of them, with a warning, where there are no more.
        temperature: How much nearer ones count more.

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
            f"k is {k}, and train has {len(z)} samples, of which all vote on each: give a lower k",
            stacklevel=2,
        )
    rows = max(1, _ENTRIES // len(z))
    for block, its_targets in zip(test_z.split(rows), test_targets.split(rows), strict=True):
        cosine, index = (block @ z.T).topk(voters, dim=1)
        # Relative to the nearest, so that no small temperature overflows.
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
    """Features of length 1, or 0; first of size 1, as squares of the very large or small are no numbers."""
    largest = z.abs().amax(1, keepdim=True)
    return normalize(z / torch.where(largest > 0, largest, 1.0), dim=1)

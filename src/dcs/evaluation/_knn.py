"""Nearest-neighbour protocol, and scores by it during training."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from dcs._checks import check_integer, check_number
from dcs.data import Samples
from dcs.evaluation._features import features_and_labels
from dcs.evaluation._result import Result

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
    z, targets, test_z, test_targets, sizes = features_and_labels(train, test, encoder)
    z, test_z = _directions(z), _directions(test_z).to(z)
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
        tally = votes.new_zeros(len(block), sizes["classes"]).scatter_add_(1, targets[index], votes)
        right += int((tally.argmax(1) == its_targets).sum())
    settings = {"k": voters, "temperature": temperature, **sizes}
    score, seconds = 100 * right / len(test_z), time.perf_counter() - start
    return Result("knn", score, {}, settings, None, seconds)


def _directions(z: Tensor) -> Tensor:
    """Normalise features, first by their largest entry, so that squares neither overflow nor underflow."""
    largest = z.abs().amax(1, keepdim=True)
    return normalize(z / torch.where(largest > 0, largest, 1.0), dim=1)


class KNNMonitor:
    """Score features by their nearest neighbours every few epochs; the `monitor` of `dcs.training.train`.

    Labels are used for this score only, an accuracy in percent that is named `knn` in the metrics.

    Args:
        train: Labelled `dcs.data.Split`, or (x, y), whose samples are the neighbours.
        test: Labelled samples to classify, likewise.
        every: Number of epochs between scores.
        inputs: Function from samples to network inputs, such as the `inputs` of an objective.
        **options: Options of `dcs.evaluation.knn`: `k` and `temperature`.

    Example:
        >>> x, y = torch.eye(2).repeat(10, 1), [0, 1] * 10
        >>> KNNMonitor((x, y), (x, y), every=2, k=5)(torch.nn.Identity(), 1)
        {'knn': 100.0}
    """

    def __init__(
        self,
        train: Any,
        test: Any,
        *,
        every: int = 1,
        inputs: Callable[[Tensor], Tensor] | None = None,
        **options: Any,
    ) -> None:
        check_integer("every", every, at_least=1)
        self.train, self.test, self.every, self.options = train, test, every, options
        if inputs is not None:
            self.train, self.test = (
                (inputs(x.read(range(x.shape[0])) if isinstance(x, Samples) else torch.as_tensor(x)), y)
                for x, y in (part if isinstance(part, tuple) else (part.x, part.y) for part in (train, test))
            )

    def __call__(self, model: nn.Module, epoch: int) -> dict[str, float]:
        """Return the score after every `every`-th epoch, and nothing otherwise."""
        if (epoch + 1) % self.every:
            return {}
        return {"knn": knn(self.train, self.test, model, **self.options).score}

"""Scores of features during training."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from dcs._checks import check_integer
from dcs.data import Samples
from dcs.evaluation._knn import knn


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
        >>> import torch
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
        self.train, self.test = (_network_inputs(part, inputs) for part in (train, test))
        self.every, self.options = every, options

    def __call__(self, model: nn.Module, epoch: int) -> dict[str, float]:
        """Return the score after every `every`-th epoch, and nothing otherwise."""
        if (epoch + 1) % self.every:
            return {}
        return {"knn": knn(self.train, self.test, model, **self.options).score}


def _network_inputs(part: Any, inputs: Callable[[Tensor], Tensor] | None) -> Any:
    """Return samples as the network sees them, with their labels."""
    if inputs is None:
        return part
    x, y = part if isinstance(part, tuple) else (part.x, part.y)
    return inputs(x.read(range(x.shape[0])) if isinstance(x, Samples) else torch.as_tensor(x)), y

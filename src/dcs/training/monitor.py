"""What looks at a model during its training, beside the loop's own meters."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from dcs._checks import check_integer
from dcs.data import Samples

Metrics = dict[str, float]
Monitor = Callable[[nn.Module, int], Metrics]


class KNNMonitor:
    """Scores the features every few epochs by their nearest neighbours, as SimSiam watches its training.

    Labels are used for watching only. Its accuracy in percent is `knn` in the metrics.

    Args:
        train: A labelled `dcs.data.Split`, or (x, y).
        test: The same.
        every: How many epochs there are from one score to the next.
        inputs: Makes what the network sees of samples, such as the `inputs` of a self-supervised objective.
        **options: Of `dcs.evaluation.knn`: `k` and `temperature`.

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
        self.train, self.test = (_seen(part, inputs) for part in (train, test))
        self.every, self.options = every, options

    def __call__(self, model: nn.Module, epoch: int) -> Metrics:
        """Return the score, if it is time for one."""
        if (epoch + 1) % self.every:
            return {}
        from dcs.evaluation import knn

        return {"knn": knn(self.train, self.test, model, **self.options).score}


def _seen(part: Any, inputs: Callable[[Tensor], Tensor] | None) -> Any:
    """Samples as the network sees them, with their labels."""
    if inputs is None:
        return part
    x, y = part if isinstance(part, tuple) else (part.x, part.y)
    return inputs(x.read(range(x.shape[0])) if isinstance(x, Samples) else torch.as_tensor(x)), y

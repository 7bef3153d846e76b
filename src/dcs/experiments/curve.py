"""Learning curves: scores after 1,000, 2,000, 4,000, … steps, so that one training answers shorter ones."""

from collections.abc import Iterable, Mapping

from torch import nn

from dcs import evaluation
from dcs.data import Dataset
from dcs.training import TrainingConfig
from dcs.training.optimizer import batch_used

FIRST = 1_000  # steps


class Curve:
    """Score features by the linear protocol after 1,000, 2,000, 4,000, … steps, at the end of an epoch.

    Args:
        found: Data of the trial, with labels.
        config: Configuration of the training.
        head: Options of `dcs.evaluation.linear`.

    Attributes:
        epochs: Epochs after which features are scored, from 0; not the last one, whose score is the result.
    """

    def __init__(self, found: Dataset, config: TrainingConfig, head: Mapping[str, object]) -> None:
        self.found, self.head, self.seed = found, dict(head), config.seed
        steps = steps_per_epoch(found, config)
        ends = (round(FIRST * 2**power / steps) - 1 for power in range(64))
        self.epochs = {end for end in ends if 0 <= end < config.max_epochs - 1}

    def __call__(self, model: nn.Module, epoch: int) -> dict[str, float]:
        """Return the score after some epochs, and nothing after the others."""
        if epoch not in self.epochs:
            return {}
        result = evaluation.linear(self.found.train, self.found.test, model, **self.head, seed=self.seed)  # type: ignore[arg-type]
        return {"linear": result.score}


def steps_per_epoch(found: Dataset, config: TrainingConfig) -> int:
    """Return the number of steps in an epoch without held-out samples."""
    return -(-len(found.train) // batch_used(config, len(found.train)))


def curve_of(history: Iterable[Mapping[str, float]], steps: int) -> dict[str, float]:
    """Return the scores in the metrics of a training, by the number of steps."""
    return {str(steps * (int(one["epoch"]) + 1)): one["linear"] for one in history if "linear" in one}

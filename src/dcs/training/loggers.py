"""Further loggers of metrics, for those who use them: TensorBoard and Weights & Biases."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, Self

from dcs._checks import check_choice
from dcs._optional import require
from dcs.training.meters import Metrics


class Logger(Protocol):
    """Logs the metrics of each epoch; a context that is open during training."""

    def __enter__(self) -> Any: ...

    def __exit__(self, *error: object) -> Any: ...

    def epoch(self, metrics: Metrics) -> None:
        """Log the metrics of an epoch."""
        ...


class TensorBoard:
    """Write event files into the run directory: `tensorboard --logdir RUN`.

    Args:
        folder: Directory of the run.
        config: Settings of the training.
    """

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        self.folder, self.config = folder, config

    def __enter__(self) -> Self:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(self.folder / "tensorboard")
        self.writer.add_text("config", str(self.config))
        return self

    def epoch(self, metrics: Metrics) -> None:
        """Add a point to each curve."""
        for name, value in metrics.items():
            if name != "epoch":
                self.writer.add_scalar(name, value, int(metrics["epoch"]))

    def __exit__(self, *error: object) -> None:
        self.writer.close()


class WeightsAndBiases:
    """Log to the project that the environment (WANDB_PROJECT, WANDB_MODE, ...) names.

    Args:
        folder: Directory of the run.
        config: Settings of the training.
    """

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        self.folder, self.config = folder, config

    def __enter__(self) -> Self:
        import wandb

        self.run = wandb.init(dir=self.folder, config=self.config, name=self.folder.name)
        return self

    def epoch(self, metrics: Metrics) -> None:
        """Add a point to each curve."""
        self.run.log(metrics, step=int(metrics["epoch"]))

    def __exit__(self, *error: object) -> None:
        self.run.finish()


LOGGERS: dict[str, Callable[[Path, dict[str, Any]], Logger]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
}


def make_logger(name: str, folder: Path, config: dict[str, Any]) -> Logger:
    """Make a logger by its name in `LOGGERS`; its package must be installed."""
    check_choice("log", name, LOGGERS)
    module = {"tensorboard": "torch.utils.tensorboard", "wandb": "wandb"}[name]
    require(module, name, f"logging to {name}")
    return LOGGERS[name](folder, config)

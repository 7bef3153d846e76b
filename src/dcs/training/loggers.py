"""Displays and loggers of metrics: TensorBoard and Weights & Biases."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from dcs._checks import check_choice
from dcs._optional import require
from dcs.training.meters import Metrics


class Display(Protocol):
    """Shows or logs the metrics of a training; a context that is open during it."""

    def __enter__(self) -> Any: ...

    def __exit__(self, *error: Any) -> Any: ...

    def epoch(self, metrics: Metrics) -> None:
        """Show the metrics of an epoch."""


@dataclass
class TensorBoard:
    """Write event files into the run directory: `tensorboard --logdir RUN`."""

    folder: Path
    config: dict[str, Any]

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


@dataclass
class WeightsAndBiases:
    """Log to the project that the environment (WANDB_PROJECT, WANDB_MODE, ...) names."""

    folder: Path
    config: dict[str, Any]

    def __enter__(self) -> Self:
        import wandb

        self.run = wandb.init(dir=self.folder, config=self.config, name=self.folder.name)
        return self

    def epoch(self, metrics: Metrics) -> None:
        """Add a point to each curve."""
        self.run.log(metrics, step=int(metrics["epoch"]))

    def __exit__(self, *error: object) -> None:
        self.run.finish()


LOGGERS: dict[str, tuple[str, Callable[[Path, dict[str, Any]], Display]]] = {
    "tensorboard": ("torch.utils.tensorboard", TensorBoard),
    "wandb": ("wandb", WeightsAndBiases),
}


def make_logger(name: str, folder: Path, config: dict[str, Any]) -> Display:
    """Make a logger by its name in `LOGGERS`; its package must be installed.

    Args:
        name: Name of the logger.
        folder: Directory of the run.
        config: Settings of the training.
    """
    check_choice("log", name, LOGGERS)
    module, logger = LOGGERS[name]
    require(module, name, f"logging to {name}")
    return logger(folder, config)

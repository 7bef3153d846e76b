"""Loggers of metrics beside metrics.jsonl: TensorBoard, Weights & Biases."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from dcs._checks import check_choice
from dcs._optional import require
from dcs.training.meters import Metrics


class Logger(Protocol):
    """Receive the metrics of each epoch."""

    def log(self, metrics: Metrics) -> None:
        """Log the metrics of an epoch."""
        ...

    def close(self) -> None:
        """Write what is still buffered."""
        ...


class TensorBoard:
    """Write event files into the run directory: `tensorboard --logdir RUN`."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(folder / "tensorboard")
        self.writer.add_text("config", str(config))

    def log(self, metrics: Metrics) -> None:
        """Add a point to each curve."""
        for name, value in metrics.items():
            if name != "epoch":
                self.writer.add_scalar(name, value, int(metrics["epoch"]))

    def close(self) -> None:
        """Close the event file."""
        self.writer.close()


class WeightsAndBiases:
    """Log to the project that the environment (WANDB_PROJECT, WANDB_MODE, ...) names."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        import wandb

        self.run = wandb.init(dir=folder, config=config, name=folder.name)

    def log(self, metrics: Metrics) -> None:
        """Add a point to each curve."""
        self.run.log(metrics, step=int(metrics["epoch"]))

    def close(self) -> None:
        """End the run there."""
        self.run.finish()


LOGGERS: dict[str, Callable[[Path, dict[str, Any]], Logger]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
}


def check_logger(name: str) -> None:
    """Require a logger that is known and installed."""
    check_choice("log", name, LOGGERS)
    module = {"tensorboard": "torch.utils.tensorboard", "wandb": "wandb"}[name]
    require(module, name, f"logging to {name}")


def make_logger(name: str, folder: Path, config: dict[str, Any]) -> Logger:
    """Make a logger by its name in `LOGGERS`."""
    check_logger(name)
    return LOGGERS[name](folder, config)

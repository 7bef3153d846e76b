"""Training: one loop for every objective, its configuration, checkpoints and meters."""

from dcs.training.checkpoint import CheckpointWarning, RunError
from dcs.training.config import (
    CUSTOM,
    Facts,
    TrainingConfig,
    check_mappings,
    complete,
    make_front_end,
    make_network,
    make_objective,
    read_config,
)
from dcs.training.distributed import is_main, leave
from dcs.training.loop import train
from dcs.training.meters import Metrics, Monitor, TrainingWarning

__all__ = [
    "CUSTOM",
    "CheckpointWarning",
    "Facts",
    "Metrics",
    "Monitor",
    "RunError",
    "TrainingConfig",
    "TrainingWarning",
    "check_mappings",
    "complete",
    "is_main",
    "leave",
    "make_front_end",
    "make_network",
    "make_objective",
    "read_config",
    "train",
]

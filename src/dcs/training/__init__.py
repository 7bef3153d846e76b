"""Training: one loop for every objective, with checkpoints, meters and run directories."""

from dcs.training.checkpoint import CheckpointWarning, RunError
from dcs.training.config import TrainingConfig, make_front_end, make_network, make_objective, read_config
from dcs.training.loop import train
from dcs.training.meters import TrainingWarning
from dcs.training.run import Run, Stopped

__all__ = [
    "CheckpointWarning",
    "Run",
    "RunError",
    "Stopped",
    "TrainingConfig",
    "TrainingWarning",
    "make_front_end",
    "make_network",
    "make_objective",
    "read_config",
    "train",
]

"""Runs: one record, one directory format, one way to fit, load and predict."""

from dcs.runs.directory import Run, Stopped, load, read_history, save
from dcs.runs.fitting import Parts, Seen, count_features, estimate, fit, see, see_shape
from dcs.runs.predictor import Predictor, pooled
from dcs.runs.record import (
    CHECKPOINTS,
    CONFIG,
    METRICS,
    MODEL,
    OBJECTIVE,
    REPORT,
    RESULTS,
    Learned,
    RunRecord,
    read_record,
    readable,
)
from dcs.runs.scale import nearest
from dcs.training.loggers import Display
from dcs.training.loop import seeded

__all__ = [
    "CHECKPOINTS",
    "CONFIG",
    "METRICS",
    "MODEL",
    "OBJECTIVE",
    "REPORT",
    "RESULTS",
    "Display",
    "Learned",
    "Parts",
    "Predictor",
    "Run",
    "RunRecord",
    "Seen",
    "Stopped",
    "count_features",
    "estimate",
    "fit",
    "load",
    "nearest",
    "pooled",
    "read_history",
    "read_record",
    "readable",
    "save",
    "see",
    "see_shape",
    "seeded",
]

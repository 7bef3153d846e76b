"""Expt3: a transformer on spectrograms of environmental sounds."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from dcs.data import map_batches
from dcs.experiments.experiment import UNTRAINED, Experiment, Preset, Trial

STATISTICS = "log-mel statistics"
BATCH_SIZE = 64
# Options of the transformer, which the paper does not give. Patches over all bands, and the deviation over
# time next to the mean, give far better features than square patches and the mean alone, trained or not.
NETWORKS: dict[str, dict[str, Any]] = {
    "paper": {},
    "quick": {"patch": (10, 60), "depth": 2, "pooling": "statistics"},
    "smoke": {"width": 32, "depth": 1},
}


def settings(trial: Trial) -> dict[str, Any]:
    """Return the training settings of a trial."""
    options = NETWORKS[trial.scale]
    chosen: dict[str, Any] = {
        "objective": "cosine" if trial.method in (UNTRAINED, STATISTICS) else trial.method,
        "objective_options": {"variant": "paper"} if trial.variant == "paper" else {},
        "network": "vit",
        "network_options": options,
        "n_components": options.get("width", 192),
        "learning_rate": 1e-3,
    }
    if trial.method in ("n2v", "dcs"):  # along time, as in the paper
        chosen["masking"] = {"rho": 0.3, "delta": 2}
    return chosen


def statistics(x: Tensor) -> Tensor:
    """Compute mean and deviation over time of each band of spectrograms, (n, frames, mels)."""
    return torch.cat([x.mean(1), x.std(1)], dim=1)


EXPT3 = Experiment(
    title="Expt3: environmental sounds",
    datasets=("esc50",),
    methods=("mse", "cosine", "n2v", "dcs"),
    orientation=(UNTRAINED, STATISTICS),
    masked=("dcs",),  # n2v masks the same way in both variants
    presets={
        "paper": Preset({"linear": 6}, 4_000),
        "quick": Preset({"linear": 2}, 150, scale="quick"),
        "smoke": Preset({"linear": 1}, 20, None, ("tones",), scale="smoke"),
    },
    settings=settings,
    baselines={STATISTICS: lambda *_: partial(map_batches, statistics)},
    batch_size=BATCH_SIZE,
    resident=False,
    stand_ins=("tones",),
    folds=(5,),
    protocols=("linear",),
)

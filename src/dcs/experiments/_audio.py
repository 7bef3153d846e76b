"""One trial of Expt3: a transformer learns from spectrograms, and a linear classifier reads its features."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dcs import evaluation, training
from dcs.experiments._sounds import load_sounds, make_tones
from dcs.experiments._trial import Outcome, Part, Trial, subset, train_once
from dcs.models import device_named

STATISTICS = "log-mel statistics"
METHODS = ("mse", "cosine", "n2v", "dcs")
MASKED = ("dcs",)  # n2v masks alike in both variants: 30 % of the entries, from up to two frames away
ORIENTATION = ("untrained", STATISTICS)
BATCH_SIZE = 64
# Options of the transformer; the paper does not tell its own. Patches over all bands, and the deviation over
# time beside the mean, read sounds far better than square patches and the mean alone, trained or not.
NETWORKS: dict[str, dict[str, Any]] = {
    "paper": {},
    "quick": {"patch": (10, 60), "depth": 2, "pooling": "statistics"},
    "smoke": {"width": 32, "depth": 1},
}


def run(trial: Trial, out: Path, root: str | None, threads: int | None) -> Outcome:
    """Carry out a trial."""
    part, front_end = _load(trial, root)
    if trial.method == STATISTICS:
        return Outcome(evaluation.linear(part.train, part.test, statistics), {"front_end": front_end}, {})
    config = _config(trial, front_end, threads)
    shape = tuple(part.train.x.shape[1:])
    network = training.make_network(config, shape)
    if trial.method == "untrained":
        settings: dict[str, Any] = config.model_dump(include={"network", "network_options"})
        metrics: dict[str, float] = {}
        network.to(device_named(config.device))
    else:
        objective = training.make_objective(config, shape)
        settings, metrics = train_once(trial, network, objective, part.train.x, config, out, root)
    return Outcome(evaluation.linear(part.train, part.test, network), settings, metrics)


def statistics(x: Tensor) -> Tensor:
    """Mean and deviation over time of each band of spectrograms (n, frames, mels)."""
    return torch.cat([x.mean(1), x.std(1)], dim=1)


def _load(trial: Trial, root: str | None) -> tuple[Part, dict[str, Any]]:
    """Both splits, and how the spectrograms were made."""
    load = make_tones(trial.fold) if trial.dataset == "tones" else load_sounds(trial.fold, root)
    found, front_end = load
    assert found.test is not None  # noqa: S101
    described = {k: v for k, v in front_end.describe().items() if k not in ("mean", "deviation")}
    return Part(subset(found.train, trial.train_size), found.test), described


def _config(trial: Trial, front_end: dict[str, Any], threads: int | None) -> training.TrainingConfig:
    options = NETWORKS[trial.scale]
    paper = trial.variant == "paper"
    return training.read_config(
        {
            "objective": trial.method if trial.method in METHODS else "cosine",
            "objective_options": {"variant": "paper"} if paper else {},
            # Along time, ρ = 0.3 and Δ = 2, as the paper has it.
            "masking": {"rho": 0.3, "delta": 2} if trial.method in ("n2v", "dcs") else {},
            "front_end": front_end,
            "network": "vit",
            "network_options": options,
            "n_components": options.get("width", 192),
            "max_epochs": trial.epochs,
            "batch_size": BATCH_SIZE,
            "learning_rate": 1e-3,
            "validation": 0.0,
            "seed": trial.seed,
            "threads": threads,
            "precision": trial.precision,
        }
    )

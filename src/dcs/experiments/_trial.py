"""What one trial is: one method and seed, and what all kinds of trials share."""

import contextlib
import json
import statistics
from pathlib import Path
from typing import Any, NamedTuple

import torch
from filelock import FileLock, Timeout
from torch import Generator, Tensor, nn

from dcs import data, evaluation, objectives, training
from dcs._predicting import device_named
from dcs._saved import restore
from dcs.noise.level import default_ndim
from dcs.training.optimizer import batch_used
from dcs.training.run import LOCK, METRICS, MODEL, OBJECTIVE, fingerprint

WAIT_SECONDS = 10.0  # for a process that was told to end, and is about to
NOISE_SEED = SUBSET_SEED = 0  # the same in all trials
BOTH = "both"  # the variant of a method that is the same in both


class Trial(NamedTuple):
    """What is to be done; equal trials have the same result, to the last digit if threads are as many."""

    experiment: str
    dataset: str
    noise: float  # deviation of the Gaussian noise that is added once; 0 for none
    method: str
    variant: str  # default, paper or both
    protocol: str  # linear or clustering
    trial: int
    epochs: int
    train_size: int  # samples the encoder learns from
    precision: str = "no"  # bf16 for mixed precision
    # Fields below are newer than some results, which have their defaults.
    fold: int = 0  # the test split, where data has several
    weight: float = 0.0  # λ of a regulariser
    how: str = "separate"  # or shared: whether a regulariser has a pass of its own through the backbone
    scale: str = "paper"  # whose network and heads these are: the paper's, or those of a smaller preset

    @property
    def seed(self) -> int:
        """Of weights, order, masks and clusters; noise and choice of samples are the same in all trials."""
        return self.trial

    @property
    def part(self) -> str:
        """Of the data, that the encoder learns from: `train`, or `all` of it, which is clustered then."""
        return "train" if self.protocol == "linear" else "all"

    @property
    def name(self) -> str:
        """Of the directory with the encoder: all but what it does not depend on."""
        noise = f"-{self.noise:.15g}" if self.noise else ""
        method = self.method if self.variant == BOTH else f"{self.method}-{self.variant}"
        size = f"{self.part}{self.train_size}-{self.epochs}epochs"
        further = {
            f"-{self.precision}": self.precision != "no",
            f"-fold{self.fold}": self.fold,
            f"-lambda{self.weight:.15g}": self.weight,
            f"-{self.how}": self.how != "separate",
            f"-{self.scale}": self.scale != "paper",
        }
        size += "".join(text for text, there in further.items() if there)
        return f"{self.dataset}{noise}-{method}-{size}-{self.trial}"


class Part(NamedTuple):
    """Samples to learn from and samples to be scored on."""

    train: data.Split
    test: data.Split


class Outcome(NamedTuple):
    """What came out of a trial."""

    result: evaluation.Result
    settings: dict[str, Any]  # of the training
    metrics: dict[str, float]  # beside those of the result


def subset(split: data.Split, size: int) -> data.Split:
    """So many samples, the same in all trials, in memory."""
    if size >= len(split):
        return split
    rows = torch.randperm(len(split), generator=Generator().manual_seed(SUBSET_SEED))[:size]
    x = split.x.read(rows.tolist()) if isinstance(split.x, data.Samples) else split.x[rows]
    y, clean = (None if part is None else part[rows] for part in (split.y, split.clean))
    return data.Split(x, y, clean)


def train_once(
    trial: Trial,
    network: nn.Module,
    objective: objectives.Objective,
    x: Tensor | data.Samples,
    config: training.TrainingConfig,
    out: Path,
    root: str | None,
    **options: Any,
) -> tuple[dict[str, Any], dict[str, float]]:
    """Train a network in place, or read what an earlier call left, going on where that was stopped.

    Args:
        trial: What it is for.
        network: To train.
        objective: To minimise.
        x: Samples to learn from.
        config: The settings.
        out: The directory of encoders.
        root: Where the data set is, so that the encoder can be scored again.
        **options: Of `dcs.training.train`.

    Returns:
        The settings, and `step_seconds`, how long a step took (the median over the epochs but the first).
    """
    described: dict[str, Any] = {
        "data": {
            "source": trial.dataset,
            "root": None if root is None else str(Path(root).absolute()),
            "noise": trial.noise,
            "part": trial.part,
            "samples": x.shape[0],
            "fingerprint": fingerprint(x),
        },
        "method": trial.method,
        "variant": trial.variant,
        "shape": list(x.shape[1:]),
        "training": config.model_dump(mode="json"),
    }
    if trial.fold:
        described["data"]["fold"] = trial.fold
    for part in objective.modules():
        if isinstance(part, objectives.MaskedObjective) and part.masker is None:
            part.masker = part.default_masker(default_ndim(tuple(x.shape[1:])))  # so that it is taken down
    _wait_for(out / trial.name)
    with training.Run(out / trial.name, described, resume=True) as kept:
        if kept.finished:
            digests = kept.description()["sha256"]
            restore(network, kept.folder / MODEL, digests)
            network.to(device_named(config.device))
            if (kept.folder / OBJECTIVE).exists():
                restore(objective, kept.folder / OBJECTIVE, digests)
        else:
            training.train(network, objective, x, config, recorder=kept, **options)
            kept.finish_training(network, objective, own=trial.method == config.objective)
        took = _step_seconds(kept.folder / METRICS, batch_used(config, x.shape[0]))
        told = kept.description()
    used = _used(trial, config, " ".join(told["made_of"].split()))
    return {**told["training"], **used, "versions": told["versions"]}, took


def _used(trial: Trial, config: training.TrainingConfig, made_of: str) -> dict[str, Any]:
    """What an objective was made of, where the settings do not tell."""
    used: dict[str, Any] = {"made_of": made_of}
    if trial.method != config.objective:  # such as of an oracle
        used |= {"objective": trial.method, "objective_options": {}}
    if "ChosenViews(sigma=0," in made_of:
        used["views"] = "entries are masked by BlindSpot(rho=0.3)"
    return used


def _wait_for(folder: Path) -> None:
    """Let a process that is just ending leave the directory of a training."""
    if (folder / LOCK).exists():
        with contextlib.suppress(Timeout), FileLock(folder / LOCK, timeout=WAIT_SECONDS):
            return
        raise training.RunError(
            f"{folder} is in use by another process, which has this trial: it was left out here"
        )


def _step_seconds(path: Path, batch_size: int) -> dict[str, float]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rates = [json.loads(line)["samples_per_second"] for line in lines]
    # The first epoch bears what starting up costs; 0 is where a training went on at an epoch's very end.
    rates = [rate for rate in rates[1:] if rate]
    return {"step_seconds": round(batch_size / statistics.median(rates), 6)} if rates else {}

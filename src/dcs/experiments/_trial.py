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
from dcs.models import device_named
from dcs.runs import METRICS, MODEL, OBJECTIVE, Learned, Run, RunRecord
from dcs.runs.directory import LOCK
from dcs.runs.tensors import restore
from dcs.training.optimizer import batch_used

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
    own = trial.method == config.objective
    noise = data.NoiseSpec(kind="gaussian", strength=trial.noise) if trial.noise else None
    source = data.Source.of(
        trial.dataset,
        root=root,
        noise=noise,
        part=trial.part,
        fold=trial.fold or None,
        subset=trial.train_size,
    )
    record = RunRecord(
        source=source,
        samples=x.shape[0],
        fingerprint=data.fingerprint(x),
        shape=tuple(x.shape[1:]),
        training=config if own else config.model_copy(update={"objective": training.CUSTOM}),
        trial={"method": trial.method, "variant": trial.variant},
    )
    _wait_for(out / trial.name)
    with Run(out / trial.name, record, resume=True) as kept:
        if kept.finished:
            digests = kept.read().sha256
            restore(network, kept.folder / MODEL, digests)
            network.to(device_named(config.device))
            if (kept.folder / OBJECTIVE).exists():
                restore(objective, kept.folder / OBJECTIVE, digests)
        else:
            training.train(network, objective, x, config, recorder=kept, **options)
            state = objective.state_dict() if own and objective.predicts else None
            learned = Learned(
                objective=objective.describe(), predicts=objective.predicts, scale_free=objective.scale_free
            )
            kept.finish(network.state_dict(), state, learned)
        took = _step_seconds(kept.folder / METRICS, batch_used(config, x.shape[0]))
        told = kept.record.plain()
    return {**told["training"], "versions": told["versions"]}, took


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

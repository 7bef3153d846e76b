"""One trial of Expt0 or Expt1: train an encoder with one method and seed, and score it by one protocol."""

import math
import time
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from sklearn.decomposition import PCA
from torch import Generator, Tensor

from dcs import data, evaluation, models, objectives, training
from dcs._saved import restore
from dcs.training.run import MODEL

MASKED = ("n2v", "dcs")  # what the variants differ in: the paper masks 10 %, our default is 30 %
TRAINED = ("mse", "cosine", "n2v", "sure", "dcs")
ORIENTATION = ("pca", "untrained", "oracle")  # rows that are in every table, beside the methods
METHODS = (*TRAINED, *ORIENTATION)
BOTH = "both"  # the variant of a method that is the same in both
BATCH_SIZE = 256


class Trial(NamedTuple):
    """What is to be done; two trials that are equal have the same result."""

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

    @property
    def seed(self) -> int:
        """Of weights, order and masks; the noise and the choice of samples are the same in all trials."""
        return self.trial

    @property
    def name(self) -> str:
        """Of the directory with the encoder: all but what it does not depend on."""
        noise = f"-{self.noise:g}" if self.noise else ""
        method = self.method if self.variant == BOTH else f"{self.method}-{self.variant}"
        part = "train" if self.protocol == "linear" else "all"
        size = f"{part}{self.train_size}-{self.epochs}epochs"
        if self.precision != "no":
            size += f"-{self.precision}"
        return f"{self.dataset}{noise}-{method}-{size}-{self.trial}"


class Part(NamedTuple):
    """Samples to learn from and samples to be scored on."""

    train: data.Split
    test: data.Split


def run(trial: Trial, out: Path, root: str | None = None, threads: int | None = None) -> dict[str, Any]:
    """Carry out a trial, going on where it was stopped; its line of results.jsonl."""
    start = time.perf_counter()
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        part = load(trial, root)
        encoder, settings = train(trial, part.train, out, threads)
        if trial.protocol == "linear":
            result = evaluation.linear(part.train, part.test, encoder)
        else:
            result = evaluation.clustering(part.train, encoder, seed=trial.seed)
    finally:
        torch.set_num_threads(before)
    line = {**trial._asdict(), "seed": trial.seed, "score": result.score, "metrics": result.metrics}
    line |= {"settings": {"training": settings, "evaluation": result.settings}, "versions": result.versions}
    return {**line, "seconds": round(time.perf_counter() - start, 3)}


def load(trial: Trial, root: str | None) -> Part:
    """The samples of a trial: both splits for the linear protocol, all of them as one for the clustering."""
    found = _load(trial.dataset, trial.noise, root)
    assert found.test is not None  # noqa: S101  (all data sets of the experiments have one)
    if trial.protocol == "linear":
        train, test = found.train, found.test
    else:
        train = _join(found.train, found.test)
        test = train
    if trial.dataset == "pendigits" and trial.variant == "paper":
        train, test = (_flat(part) for part in (train, test))
    if trial.train_size < len(train):
        order = torch.randperm(len(train), generator=Generator().manual_seed(0))
        train = _rows(train, order[: trial.train_size])
    return Part(train, test)


def train(trial: Trial, split: data.Split, out: Path, threads: int | None) -> tuple[Any, dict[str, Any]]:
    """The encoder of a trial, trained or read from where an earlier call left it, and its settings."""
    x = split.x
    assert isinstance(x, Tensor)  # noqa: S101
    shape, classes = tuple(x.shape[1:]), int(split.y.max()) + 1 if split.y is not None else 10
    if trial.method == "pca":
        fitted = PCA(classes, random_state=trial.seed).fit(x.flatten(1).numpy())
        return lambda x: fitted.transform(x.flatten(1).numpy()), {"n_components": classes}
    config = training.read_config(
        {
            "objective": trial.method if trial.method in TRAINED else "cosine",
            **_settings_of(trial),
            "n_components": classes,
            "max_epochs": trial.epochs,
            "batch_size": BATCH_SIZE,
            "validation": 0.0,
            "seed": trial.seed,
            "threads": threads,
            "precision": trial.precision,
        }
    )
    network = models.build("mlp", shape, classes, seed=trial.seed)
    if trial.method == "untrained":
        return network, {"network": "mlp", "n_components": classes}
    oracle = trial.method == "oracle"
    objective: objectives.Objective = training.make_objective(config, shape)
    if oracle:
        objective = objectives.CosineOracle(objectives.ChosenViews())  # it sees what dcs sees
    described: dict[str, Any] = {
        "data": {"source": trial.dataset, "noise": trial.noise, "samples": len(split)},
        "method": trial.method,
        "shape": list(shape),
        "training": config.model_dump(mode="json"),
    }
    with training.Run(out / trial.name, described, resume=True) as kept:
        if kept.finished:
            restore(network, kept.folder / MODEL, {})
        else:
            training.train(network, objective, x, config, pair=split.clean if oracle else None, recorder=kept)
            kept.finish(network.state_dict())
    return network, {**described["training"], "made_of": repr(objective)}


def _settings_of(trial: Trial) -> dict[str, Any]:
    """What a variant changes."""
    if trial.method not in MASKED or trial.variant != "paper":
        return {}
    if trial.method == "dcs":
        return {"objective_options": {"variant": "paper"}}
    return {"masking": {"rho": 0.1}}


@lru_cache(maxsize=2)
def _load(name: str, noise: float, root: str | None) -> data.Dataset:
    wanted = ("gaussian", noise) if noise else None
    return data.load(name, root=root, noise=wanted, seed=0, resident=True)


def _join(one: data.Split, other: data.Split) -> data.Split:
    def both(name: str) -> Any:
        parts = [getattr(part, name) for part in (one, other)]
        return None if any(part is None for part in parts) else torch.cat(parts)

    return data.Split(both("x"), both("y"), both("clean"))


def _rows(split: data.Split, rows: Tensor) -> data.Split:
    assert isinstance(split.x, Tensor)  # noqa: S101
    y, clean = (None if part is None else part[rows] for part in (split.y, split.clean))
    return data.Split(split.x[rows], y, clean)


def _flat(split: data.Split) -> data.Split:
    """x₁, y₁, …, x₈, y₈ in place of two channels of eight points."""

    def flat(x: Any) -> Any:
        return None if x is None else x.transpose(1, 2).flatten(1).contiguous()

    return data.Split(flat(split.x), split.y, flat(split.clean))


def epochs_for(steps: int, train_size: int) -> int:
    """As many epochs as make at least so many steps."""
    return math.ceil(steps / math.ceil(train_size / BATCH_SIZE))

"""One trial of Expt0 or Expt1: train an encoder with one method and seed, and score it by one protocol."""

import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from sklearn.decomposition import PCA
from torch import Tensor

from dcs import data, evaluation, models, objectives, training
from dcs.experiments._trial import NOISE_SEED, Outcome, Part, Trial, subset, train_once
from dcs.models import device_named
from dcs.noise.level import default_ndim

MASKED = ("n2v", "dcs", "oracle")  # what the variants differ in: how samples become views
TRAINED = ("mse", "cosine", "n2v", "sure", "dcs")
BATCH_SIZE = 256


def run(trial: Trial, out: Path, root: str | None, threads: int | None) -> Outcome:
    """Carry out a trial."""
    part = load(trial, root)
    encoder, settings, metrics = train(trial, part.train, out, root, threads)
    if trial.protocol == "linear":
        result = evaluation.linear(part.train, part.test, encoder)
    else:
        result = evaluation.clustering(part.train, encoder, seed=trial.seed)
    return Outcome(result, settings, metrics)


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
    return Part(subset(train, trial.train_size), test)


def train(
    trial: Trial, split: data.Split, out: Path, root: str | None, threads: int | None
) -> tuple[Any, dict[str, Any], dict[str, float]]:
    """The encoder of a trial, trained or read from where an earlier call left it, its settings and times."""
    x = split.x
    assert isinstance(x, Tensor)  # noqa: S101
    shape, classes = tuple(x.shape[1:]), data.CATALOGUE[trial.dataset].classes
    if trial.method == "pca":
        fitted = PCA(classes, random_state=trial.seed).fit(x.flatten(1).numpy())
        return lambda x: fitted.transform(x.flatten(1).numpy()), {"n_components": classes}, {}
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
        return network.to(device_named(config.device)), {"network": "mlp", "n_components": classes}, {}
    oracle = trial.method == "oracle"
    objective: objectives.Objective = training.make_objective(config)
    if oracle:
        objective = objectives.CosineOracle(_views_of_dcs(trial, shape))
    pair = split.clean if oracle else None
    return network, *train_once(trial, network, objective, x, config, out, root, pair=pair)


def _settings_of(trial: Trial) -> dict[str, Any]:
    """What a variant changes."""
    if trial.variant != "paper":
        return {}
    if trial.method == "dcs":
        return {"objective_options": {"variant": "paper"}}
    return {"masking": {"rho": 0.1, "min_masked": 0}} if trial.method == "n2v" else {}


def _views_of_dcs(trial: Trial, shape: tuple[int, ...]) -> Any:
    """The oracle sees what dcs sees in the same variant."""
    dcs = objectives.DenoisingCosine(variant=trial.variant)
    return dcs.default_masker(default_ndim(shape)) if trial.variant == "paper" else dcs.masker


@lru_cache(maxsize=2)
def _load(name: str, noise: float, root: str | None) -> data.Dataset:
    wanted = ("gaussian", noise) if noise else None
    return data.load(name, root=root, noise=wanted, seed=NOISE_SEED, resident=True)


def _join(one: data.Split, other: data.Split) -> data.Split:
    def both(name: str) -> Any:
        parts = [getattr(part, name) for part in (one, other)]
        return None if any(part is None for part in parts) else torch.cat(parts)

    return data.Split(both("x"), both("y"), both("clean"))


def _flat(split: data.Split) -> data.Split:
    """x₁, y₁, …, x₈, y₈ in place of two channels of eight points."""

    def flat(x: Any) -> Any:
        return None if x is None else x.transpose(1, 2).flatten(1).contiguous()

    return data.Split(flat(split.x), split.y, flat(split.clean))


def epochs_for(steps: int, train_size: int) -> int:
    """As many epochs as make at least so many steps."""
    return math.ceil(steps / math.ceil(train_size / BATCH_SIZE))

"""One trial, from its data to its line of results.jsonl."""

import contextlib
import json
import statistics
import time
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from filelock import FileLock, Timeout

from dcs import data, evaluation
from dcs.experiments.experiment import UNTRAINED, Encode, Experiment, Trial
from dcs.experiments.plan import EXPERIMENTS, available_samples
from dcs.runs import METRICS, Parts, Seen, fit, read_history, see
from dcs.runs.directory import LOCK
from dcs.training import Facts, RunError, TrainingConfig, complete, read_config
from dcs.training.optimizer import batch_used

WAIT_SECONDS = 10.0  # for a process that is about to end


class Encoder(NamedTuple):
    """What makes features of samples, and how it was trained."""

    encode: Encode
    settings: dict[str, Any]
    objective: dict[str, Any] | None = None  # description of the objective
    metrics: dict[str, float] = {}  # noqa: RUF012  (never changed)


def run_trial(trial: Trial, out: Path, root: str | None = None, threads: int | None = None) -> dict[str, Any]:
    """Run a trial, or resume it, and return its line of results.jsonl.

    Args:
        trial: Trial to run.
        out: Directory of the runs.
        root: Folder of the data sets; see `dcs.data.load`.
        threads: Number of CPU threads; None leaves torch's own.
    """
    start = time.perf_counter()
    before = torch.get_num_threads()
    threads = threads or before
    torch.set_num_threads(threads)
    try:
        source = make_source(trial, root)
        encoder, result = _score(trial, source, out, threads)
    finally:
        torch.set_num_threads(before)
    used: dict[str, Any] = {
        "data": source.model_dump(mode="json", exclude={"root"}, exclude_none=True),
        "training": encoder.settings,
        "evaluation": result.settings,
    }
    if encoder.objective is not None:
        used["objective"] = encoder.objective
    return {
        **trial._asdict(),
        "seed": trial.seed,
        "score": result.score,
        "metrics": {**result.metrics, **encoder.metrics},
        "settings": used,
        "versions": result.versions,
        "seconds": round(time.perf_counter() - start, 3),
    }


def make_source(trial: Trial, root: str | None = None) -> data.Source:
    """Return the source of a trial's data; the noise and the subset are the same in all trials."""
    whole = trial.train_size >= available_samples(trial)
    return data.Source.of(
        trial.dataset,
        root=root,
        noise=("gaussian", trial.noise) if trial.noise else None,
        part=trial.part,
        fold=trial.fold or None,
        subset=None if whole else trial.train_size,
        prepare=EXPERIMENTS[trial.experiment].prepare(trial),
    )


def load_data(trial: Trial, root: str | None = None) -> data.Dataset:
    """Load the data of a trial."""
    return _load(make_source(trial, root), EXPERIMENTS[trial.experiment].resident)


def make_config(trial: Trial, found: data.Dataset, threads: int | None = None) -> TrainingConfig:
    """Return the complete training configuration of a trial.

    Args:
        trial: Trial.
        found: Its data.
        threads: Number of CPU threads.
    """
    experiment = EXPERIMENTS[trial.experiment]
    shared = {
        "max_epochs": trial.epochs,
        "batch_size": experiment.batch_size,
        "validation": 0.0,
        "seed": trial.seed,
        "threads": threads,
        "precision": trial.precision,
    }
    facts = Facts(found.shape, len(found.train), found.rate, found.name)
    return complete(shared | experiment.settings(trial), facts)


def _score(
    trial: Trial, source: data.Source, out: Path, threads: int | None
) -> tuple[Encoder, evaluation.Result]:
    experiment = EXPERIMENTS[trial.experiment]
    found = _load(source, experiment.resident)
    config = make_config(trial, found, threads)
    seen, test = _see(source, experiment.resident, json.dumps(config.front_end))
    encoder = _encoder(trial, experiment, found, seen, config, source, out)
    train = encoder.encode(seen.x), found.train.y
    if trial.protocol == "clustering":
        return encoder, evaluation.clustering(train, seed=trial.seed)
    assert found.test is not None  # noqa: S101  (all data sets of the experiments have one)
    held_out = encoder.encode(test), found.test.y
    if experiment.neighbours:
        encoder.metrics["knn"] = evaluation.knn(train, held_out).score
    return encoder, evaluation.linear(train, held_out, head=experiment.head(trial), seed=trial.seed)


def _encoder(
    trial: Trial,
    experiment: Experiment,
    found: data.Dataset,
    seen: Seen,
    config: TrainingConfig,
    source: data.Source,
    out: Path,
) -> Encoder:
    """Train an encoder, load it where that was done before, or make one that needs no training."""
    if trial.method in experiment.baselines:
        encode = experiment.baselines[trial.method](trial, seen.x)
        used = config.model_dump(mode="json", include={"n_components", "front_end"})
        return Encoder(encode, used, metrics={})
    if trial.method == UNTRAINED:
        predictor = fit(found.train, config, parts=Parts(seen=seen))
        used = config.model_dump(mode="json", include={"network", "network_options", "n_components"})
        return Encoder(predictor.encode, used, metrics={})
    parts = experiment.parts(trial, found, config)._replace(seen=seen)
    _wait_for(out / trial.name)
    predictor = fit(
        found.train,
        config,
        out / trial.name,
        parts=parts,
        source=source,
        trial=trial._asdict(),
        resume=True,
    )
    record = predictor.record
    used = {**record.plain()["training"], "versions": record.versions}
    took = _step_seconds(out / trial.name / METRICS, batch_used(config, len(found.train)))
    return Encoder(predictor.encode, used, predictor.learned.objective, took)


# Trials that follow each other often have the same data.
@lru_cache(maxsize=2)
def _load(source: data.Source, resident: bool | None) -> data.Dataset:
    return source.load(resident=resident)


@lru_cache(maxsize=2)
def _see(source: data.Source, resident: bool | None, front_end: str) -> tuple[Seen, Any]:
    """Return what a network sees of both splits."""
    found = _load(source, resident)
    seen = see(found.train, read_config({"front_end": json.loads(front_end)}))
    assert found.test is not None  # noqa: S101
    return seen, found.test.x if seen.front_end is None else seen.front_end.of(found.test.x)


def _wait_for(folder: Path) -> None:
    """Wait for a process that is about to end and leave the directory of a run."""
    if (folder / LOCK).exists():
        with contextlib.suppress(Timeout), FileLock(folder / LOCK, timeout=WAIT_SECONDS):
            return
        raise RunError(f"{folder} is in use by another process, which runs this trial: it is skipped here")


def _step_seconds(path: Path, batch_size: int) -> dict[str, float]:
    """Return the time of a step: the median over all epochs but the first."""
    # The first epoch includes the start; the rate is 0 where a training was resumed at the end of an epoch.
    rates = [epoch["samples_per_second"] for epoch in read_history(path)[1:] if epoch["samples_per_second"]]
    return {"step_seconds": round(batch_size / statistics.median(rates), 6)} if rates else {}

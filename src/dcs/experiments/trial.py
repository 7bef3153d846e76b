"""One trial, from its data to its line of results.jsonl."""

import json
import statistics
import time
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from dcs import data, evaluation
from dcs.experiments.curve import curve_of, steps_per_epoch
from dcs.experiments.experiment import UNTRAINED, Trial
from dcs.experiments.plan import EXPERIMENTS, available_samples
from dcs.runs import METRICS, Parts, Seen, fit, read_history, see
from dcs.runs.directory import LOCK
from dcs.training import Facts, RunError, TrainingConfig, complete, read_config
from dcs.training.optimizer import batch_used

WAIT_SECONDS = 10.0  # for a process that is about to end


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
        used, metrics, result = _score(trial, source, out, threads)
    finally:
        torch.set_num_threads(before)
    described = source.model_dump(mode="json", exclude={"root"}, exclude_none=True)
    return {
        **trial._asdict(),
        "seed": trial.seed,
        "score": result.score,
        "metrics": {**result.metrics, **metrics},
        "settings": {"data": described, **used, "evaluation": result.settings},
        "versions": result.versions,
        "seconds": round(time.perf_counter() - start, 3),
    }


def make_source(trial: Trial, root: str | None = None) -> data.Source:
    """Return the source of a trial's data; the noise and the subset are the same in all trials."""
    whole = trial.train_size >= available_samples(trial.dataset, trial.protocol)
    noise = None
    if trial.noise:
        switches = {name: name in trial.switches for name in ("clip", "fresh")}
        noise = data.NoiseSpec(kind="gaussian", strength=trial.noise, **switches)
    return data.Source.of(
        trial.dataset,
        root=root,
        noise=noise,
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
    facts = Facts.of(found.train, found.rate, found.name)
    return complete(shared | experiment.settings(trial), facts)


def _score(
    trial: Trial, source: data.Source, out: Path, threads: int | None
) -> tuple[dict[str, Any], dict[str, Any], evaluation.Result]:
    """Train an encoder, or load it, and score it; return also its settings and what else was measured."""
    experiment = EXPERIMENTS[trial.experiment]
    found = _load(source, experiment.resident)
    config = make_config(trial, found, threads)
    seen, test = _see(source, experiment.resident, json.dumps(config.front_end))
    used: dict[str, Any] = {}
    metrics: dict[str, Any] = {}
    if trial.method in experiment.baselines:
        encode = experiment.baselines[trial.method](trial, seen.x)
        used["training"] = config.model_dump(mode="json", include={"n_components", "front_end"})
    elif trial.method == UNTRAINED:
        encode = fit(found.train, config, parts=Parts(seen=seen)).encode
        kept = {"network", "network_options", "n_components"}
        used["training"] = config.model_dump(mode="json", include=kept)
    else:
        folder, parts = out / trial.name, experiment.parts(trial, found, config)._replace(seen=seen)
        busy = f"{folder} is in use by another process, which runs this trial: it is skipped here"
        if (folder / LOCK).exists():
            with hold(folder / LOCK, WAIT_SECONDS, busy):
                pass
        trained: dict[str, Any] = {"source": source, "trial": trial._asdict(), "resume": True}
        predictor = fit(found.train, config, folder, parts=parts, **trained)
        encode, record = predictor.encode, predictor.record
        used["training"] = {**record.plain()["training"], "versions": record.versions}
        if predictor.learned.objective is not None:
            used["objective"] = predictor.learned.objective
        history = read_history(folder / METRICS)
        metrics |= _step_seconds(history, batch_used(config, len(found.train)))
        if curve := curve_of(history, steps_per_epoch(found, config)):
            metrics["curve"] = curve
    train = encode(seen.x), found.train.y
    if trial.protocol == "clustering":
        return used, metrics, evaluation.clustering(train, seed=trial.seed)
    assert found.test is not None  # noqa: S101  (all data sets of the experiments have one)
    held_out = encode(test), found.test.y
    if experiment.neighbours:
        metrics["knn"] = evaluation.knn(train, held_out).score
    result = evaluation.linear(train, held_out, **experiment.head(trial), seed=trial.seed)
    return used, metrics, result


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


def hold(path: Path, seconds: float, refusal: str) -> AbstractContextManager[Any]:
    """Return a lock that is held, as soon as another process releases it; refuse if none does in time."""
    try:
        return FileLock(path, timeout=seconds).acquire()
    except Timeout:
        raise RunError(refusal) from None


def _step_seconds(history: list[dict[str, float]], batch_size: int) -> dict[str, float]:
    """Return the time of a step: the median over all epochs but the first."""
    # The first epoch includes the start; the rate is 0 where a training was resumed at the end of an epoch.
    rates = [epoch["samples_per_second"] for epoch in history[1:] if epoch["samples_per_second"]]
    return {"step_seconds": round(batch_size / statistics.median(rates), 6)} if rates else {}

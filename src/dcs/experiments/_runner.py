"""Carries out trials, side by side if asked to, and keeps the results; what is finished is not done again."""

import contextlib
import itertools
import json
import math
import os
import random
import re
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, NamedTuple

import torch
from filelock import FileLock, Timeout
from joblib import Parallel, cpu_count, delayed, parallel_config

from dcs._checks import check_choice, check_integer
from dcs._optional import require
from dcs.experiments import _audio, _autoencoding, _siamese
from dcs.experiments._plan import EXPERIMENTS, HOWS, VARIANTS
from dcs.experiments._trial import BOTH, NOISE_SEED, SUBSET_SEED, WAIT_SECONDS, Outcome, Trial
from dcs.runs import Stopped
from dcs.training import RunError
from dcs.training.checkpoint import cut_unfinished_line, whole_lines

Line = dict[str, Any]
BACKENDS = ("loky", "ray")
RUNS = "runs"
_KINDS: dict[str, Callable[[Trial, Path, str | None, int | None], Outcome]] = {
    "expt0": _autoencoding.run,
    "expt1": _autoencoding.run,
    "expt2": _siamese.run,
    "expt3": _audio.run,
}
_WATCH = "dcs-watch-parent"


class Failed(NamedTuple):
    """A trial that has no result, and why."""

    trial: Trial
    reason: str


class Answer(NamedTuple):
    """What came of a trial, and what was warned of meanwhile, maybe in another process."""

    outcome: Line | Failed
    warned: list[tuple[str, type[Warning]]]


class TrialsFailed(RunError):  # noqa: N818  (named for what happened, as `Stopped` is)
    """Some trials failed; all others were carried out.

    Args:
        failures: The reason of each.
    """

    def __init__(self, failures: Mapping[Trial, str]) -> None:
        self.failures = dict(failures)
        alike: dict[str, list[str]] = {}
        for trial, reason in failures.items():
            alike.setdefault(reason, []).append(trial.name)
        lines = [f"  {reason}: {', '.join(names)}" for reason, names in alike.items()]
        told = [f"{len(failures)} of the trials failed; the same command tries them again:", *lines]
        super().__init__("\n".join(told))


def carry_out(
    trials: Sequence[Trial],
    out: Path,
    *,
    root: str | None = None,
    jobs: int = 1,
    backend: str = "loky",
    shard: tuple[int, int] = (1, 1),
    finished: Callable[[Line], None] = lambda _: None,
    failed: Callable[[Trial, str], None] = lambda *_: None,
) -> None:
    """Carry out those of the trials that no result is there of yet.

    One that fails does not keep the others from being carried out: at the end, `TrialsFailed` tells of all
    that did.

    Args:
        trials: As `plan` lists them.
        out: The directory of results*.jsonl and of the encoders; made if need be.
        root: Where the data sets are; see `dcs.data.load`.
        jobs: How many trials run side by side, with the processor's threads divided between them.
        backend: `loky` for processes on this machine, `ray` for a Ray cluster.
        shard: (i, n): do the i-th of n shares; see `share_of`. Each writes a results file of its own; in one
            directory, all of them count.
        finished: Is told of each result.
        failed: Is told of each trial that failed, and why.
    """
    check_integer("jobs", jobs, at_least=1)
    check_choice("backend", backend, BACKENDS)
    number, count = shard
    check_integer("shard", count, at_least=1)
    check_integer("shard", number, at_least=1, at_most=count)
    if out.exists() and not out.is_dir():
        raise RunError(f"{out} is a file: name a directory")
    (out / RUNS).mkdir(parents=True, exist_ok=True)
    path = out / ("results.jsonl" if count == 1 else f"results-{number}-of-{count}.jsonl")
    with _locked(path), warnings.catch_warnings():
        # joblib replaces a process that has grown, as by data that is kept for the next trial.
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
        done = {key_of(line) for line in read_results(out)}
        waiting = [trial for trial in share_of(trials, shard) if trial not in done]
        cut_unfinished_line(path)
        failures = {}
        answers = _run_all(waiting, (out / RUNS).absolute(), root, jobs, backend)
        # Closing ends processes that are still at work when this one is told to stop.
        with path.open("a", encoding="utf-8") as file, contextlib.closing(answers):
            for outcome, warned in answers:
                if isinstance(outcome, Failed):
                    failures[outcome.trial] = outcome.reason
                    failed(*outcome)
                else:
                    file.write(json.dumps(outcome) + "\n")
                    file.flush()
                    os.fsync(file.fileno())
                    finished(outcome)
                for text, kind in warned:
                    warnings.warn(text, kind, stacklevel=2)
    if failures:
        raise TrialsFailed(failures)


def run(trial: Trial, out: Path, root: str | None = None, threads: int | None = None) -> Line:
    """Carry out a trial, going on where it was stopped; its line of results.jsonl."""
    start = time.perf_counter()
    before = torch.get_num_threads()
    threads = threads or before
    torch.set_num_threads(threads)
    try:
        result, settings, metrics = _KINDS[trial.experiment](trial, out, root, threads)
    finally:
        torch.set_num_threads(before)
    line = {**trial._asdict(), "seed": trial.seed, "score": result.score}
    line |= {"metrics": {**result.metrics, **metrics}}
    chosen: dict[str, Any] = {"noise_seed": NOISE_SEED} if trial.noise else {}
    chosen |= {"subset": f"of more samples, the first of torch.randperm with seed {SUBSET_SEED}"}
    used = {"data": chosen, "training": settings, "evaluation": result.settings}
    line |= {"settings": used, "versions": result.versions}
    return {**line, "seconds": round(time.perf_counter() - start, 3)}


def read_results(out: Path) -> list[Line]:
    """Read the results in a directory, of all shards; of a trial that is there twice, the first."""
    found: dict[Trial, Line] = {}
    for path in sorted(out.glob("results*.jsonl")):
        for row, text in enumerate(whole_lines(path.read_bytes()).splitlines(), 1):
            try:
                line = json.loads(text)
                found.setdefault(key_of(line), line)
            except (ValueError, KeyError, TypeError) as error:
                raise RunError(f"{path}, line {row}, is no result ({error}): remove or mend it") from None
    return list(found.values())


def key_of(line: Line) -> Trial:
    """The trial that a result is of."""
    if line.get("experiment") is None:
        raise ValueError("of no experiment: dcs evaluate writes such into the directory of a run")
    known = {name: line[name] for name in Trial._fields if name in line or name not in Trial._field_defaults}
    for name, value in {**known, "score": line["score"]}.items():
        kind = Trial.__annotations__.get(name, float)
        right = isinstance(value, int | float if kind is float else kind)
        if not right or (isinstance(value, float) and not math.isfinite(value)):
            raise TypeError(f"{name} is {value!r}")
    trial = Trial(**known)
    check_choice("experiment", trial.experiment, EXPERIMENTS)
    described = EXPERIMENTS[trial.experiment]
    methods = (*described.methods, *described.further, *described.orientation)
    check_choice("method", trial.method, methods)
    check_choice("protocol", trial.protocol, described.protocols)
    check_choice("variant", trial.variant, (*VARIANTS, BOTH))
    check_choice("how", trial.how, HOWS)
    return trial._replace(noise=float(trial.noise))


def share_of(trials: Sequence[Trial], shard: tuple[int, int]) -> list[Trial]:
    """The i-th of n shares, in their order: as many trainings in each, dealt at random."""
    number, count = shard
    chosen = set()
    for trained in (True, False):
        dealt = [trial for trial in trials if (trial.epochs > 0) == trained]
        random.Random(0).shuffle(dealt)  # noqa: S311  (on all machines alike)
        chosen.update(dealt[number - 1 :: count])
    return [trial for trial in trials if trial in chosen]


def parse_shard(text: str) -> tuple[int, int]:
    """'2/3' as (2, 3)."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(f"shard must be i/n with i from 1 to n, such as 2/3, got {text!r}")
    return int(match[1]), int(match[2])


Answers = Generator[Answer, None, None]


def _run_all(trials: Sequence[Trial], out: Path, root: str | None, jobs: int, backend: str) -> Answers:
    if backend == "loky" and jobs == 1:
        return (_attempt(trial, out, root) for trial in trials)
    threads = max(1, cpu_count() // jobs)
    parent = os.getpid() if backend == "loky" else None  # Ray ends its own processes
    calls = (delayed(_attempt)(trial, out, root, threads, parent) for trial in trials)
    return _side_by_side(calls, jobs, backend)


def _attempt(
    trial: Trial, out: Path, root: str | None, threads: int | None = None, parent: int | None = None
) -> Answer:
    """Carry out a trial; why, if that fails, for the others are to go on. Warnings name the trial."""
    if parent is not None:
        _end_with(parent)
    with warnings.catch_warnings(record=True) as caught:
        outcome = _outcome(trial, out, root, threads)
    texts = dict.fromkeys((f"{trial.name}: {warning.message}", warning.category) for warning in caught)
    return Answer(outcome, list(texts))


def _outcome(trial: Trial, out: Path, root: str | None, threads: int | None) -> Line | Failed:
    try:
        return run(trial, out, root, threads)
    except Stopped:
        raise
    except (ValueError, OSError, ImportError) as error:  # what a user can mend
        return Failed(trial, str(error) or type(error).__name__)
    except Exception:  # noqa: BLE001  (whatever it is, it is told)
        return Failed(trial, traceback.format_exc())


def _end_with(parent: int) -> None:
    """End this process when the one that started it is gone, for nobody would hear of its results.

    What it was at goes on from its last checkpoint. On Windows nothing is noticed, and the trial is finished.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    if all(thread.name != _WATCH for thread in threading.enumerate()):
        threading.Thread(target=watch, name=_WATCH, daemon=True).start()


def _side_by_side(calls: Iterable[Any], jobs: int, backend: str) -> Answers:
    if backend == "loky":
        side_by_side = Parallel(jobs, return_as="generator_unordered", pre_dispatch=jobs, batch_size=1)
        try:
            with contextlib.closing(side_by_side(calls)) as answers:
                yield from answers
        except BrokenProcessPool:
            raise RunError(
                "a process was ended from outside, often for want of memory: the same command goes on, with "
                "fewer jobs if need be"
            ) from None
        return
    require("ray", "ray", "backend ray")
    from ray.util.joblib import register_ray

    register_ray()  # type: ignore[no-untyped-call]
    waiting = iter(calls)
    # Ray hands over results when all are there: in rounds, so that few are lost if it ends before.
    with parallel_config("ray", n_jobs=jobs):
        while some := list(itertools.islice(waiting, jobs)):
            yield from Parallel()(some)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = FileLock(path.with_name(f".{path.name}.lock"), timeout=WAIT_SECONDS)
    try:
        held = lock.acquire()
    except Timeout:
        raise RunError(f"{path} is being written by another process: wait for it, or end it") from None
    with held:
        yield

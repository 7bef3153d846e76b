"""Run trials, in parallel if asked to, and write their results; finished trials are not run again."""

import contextlib
import itertools
import json
import os
import random
import re
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import Any

from joblib import Parallel, cpu_count, delayed, parallel_config

from dcs._checks import check_choice, check_integer
from dcs._optional import require
from dcs.experiments.experiment import Trial
from dcs.experiments.results import Line, key_of, read_results
from dcs.experiments.trial import WAIT_SECONDS, hold, run_trial
from dcs.runs import RESULTS, Stopped
from dcs.training import RunError
from dcs.training.checkpoint import cut_unfinished_line

BACKENDS = ("loky", "ray")
RUNS = "runs"
_WATCH = "dcs-watch-parent"
# A trial, its result or the reason why there is none, and the warnings it gave, perhaps in another process.
Answer = tuple[Trial, Line | str, list[tuple[str, type[Warning]]]]
Answers = Generator[Answer, None, None]


class TrialsFailed(RunError):  # noqa: N818  (named for what happened, as `Stopped` is)
    """Some trials failed; all others were run.

    Args:
        failures: Reason for each.
    """

    def __init__(self, failures: Mapping[Trial, str]) -> None:
        self.failures = dict(failures)
        alike: dict[str, list[str]] = {}
        for trial, reason in failures.items():
            alike.setdefault(reason, []).append(trial.name)
        lines = [f"  {reason}: {', '.join(names)}" for reason, names in alike.items()]
        summary = f"{len(failures)} of the trials failed; the same command runs them again:"
        super().__init__("\n".join([summary, *lines]))


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
    """Run those of the trials that have no result yet.

    A trial that fails does not stop the others: at the end, `TrialsFailed` lists all that did.

    Args:
        trials: Trials, as `plan` lists them.
        out: Directory of results*.jsonl and of the runs; made if need be.
        root: Folder of the data sets; see `dcs.data.load`.
        jobs: Number of trials that run in parallel, which share the CPU threads.
        backend: `loky` for processes on this machine, `ray` for a Ray cluster.
        shard: (i, n) to run the i-th of n shares; see `share_of`. Each share has its own results file; all
            files in one directory count.
        finished: Function that is called with each result.
        failed: Function that is called with each trial that failed, and the reason.
    """
    check_integer("jobs", jobs, at_least=1)
    check_choice("backend", backend, BACKENDS)
    number, count = shard
    check_integer("shard", count, at_least=1)
    check_integer("shard", number, at_least=1, at_most=count)
    if out.exists() and not out.is_dir():
        raise RunError(f"{out} is a file: give a directory")
    (out / RUNS).mkdir(parents=True, exist_ok=True)
    path = out / (RESULTS if count == 1 else f"results-{number}-of-{count}.jsonl")
    busy = f"{path} is being written by another process: wait for it, or stop it"
    lock = hold(path.with_name(f".{path.name}.lock"), WAIT_SECONDS, busy)
    with lock, warnings.catch_warnings():
        # joblib replaces a process that has grown, e.g. by data that is kept for the next trial.
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
        done = {key_of(line) for line in read_results(out)}
        waiting = [trial for trial in share_of(trials, shard) if trial not in done]
        cut_unfinished_line(path)
        failures = {}
        task = partial(_attempt, out=(out / RUNS).absolute(), root=root)
        if backend == "loky" and jobs == 1:
            answers: Answers = (task(trial) for trial in waiting)
        else:
            parent = os.getpid() if backend == "loky" else None  # Ray ends its own processes
            task = partial(task, threads=max(1, cpu_count() // jobs), parent=parent)
            answers = _side_by_side((delayed(task)(trial) for trial in waiting), jobs, backend)
        # Closing ends processes that are still running when this one is stopped.
        with path.open("a", encoding="utf-8") as file, contextlib.closing(answers):
            for trial, outcome, warned in answers:
                if isinstance(outcome, str):
                    failures[trial] = outcome
                    failed(trial, outcome)
                else:
                    file.write(json.dumps(outcome) + "\n")
                    file.flush()
                    os.fsync(file.fileno())
                    finished(outcome)
                for text, kind in warned:
                    warnings.warn(text, kind, stacklevel=2)
    if failures:
        raise TrialsFailed(failures)


def share_of(trials: Sequence[Trial], shard: tuple[int, int]) -> list[Trial]:
    """Return the i-th of n shares, in order; trainings are dealt at random, equally many to each."""
    number, count = shard
    chosen = set()
    for trained in (True, False):
        dealt = [trial for trial in trials if (trial.epochs > 0) == trained]
        random.Random(0).shuffle(dealt)  # noqa: S311  (the same on all machines)
        chosen.update(dealt[number - 1 :: count])
    return [trial for trial in trials if trial in chosen]


def parse_shard(text: str) -> tuple[int, int]:
    """Parse '2/3' as (2, 3)."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(f"shard must be i/n with i from 1 to n, e.g. 2/3, got {text!r}")
    return int(match[1]), int(match[2])


def _attempt(
    trial: Trial, out: Path, root: str | None, threads: int | None = None, parent: int | None = None
) -> Answer:
    """Run a trial; a failure is returned, so that the others are run. Warnings name the trial."""
    if parent is not None:
        _end_with(parent)
    outcome: Line | str
    with warnings.catch_warnings(record=True) as caught:
        try:
            outcome = run_trial(trial, out, root, threads)
        except Stopped:
            raise
        except (ValueError, OSError, ImportError) as error:  # what a user can fix
            outcome = str(error) or type(error).__name__
        except Exception:  # noqa: BLE001  (whatever it is, it is reported)
            outcome = traceback.format_exc()
    texts = dict.fromkeys((f"{trial.name}: {warning.message}", warning.category) for warning in caught)
    return trial, outcome, list(texts)


def _end_with(parent: int) -> None:
    """End this process when the one that started it has ended, as its results would be lost.

    The training is resumed from its last checkpoint. On Windows the end is not noticed, and the trial is
    finished.
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
                "a process was killed from outside, often for lack of memory: run the same command to "
                "resume, with fewer jobs if need be"
            ) from None
        return
    require("ray", "ray", "backend ray")
    from ray.util.joblib import register_ray

    register_ray()  # type: ignore[no-untyped-call]
    waiting = iter(calls)
    # Ray returns results when all are there: in rounds, so that few are lost if it ends early.
    with parallel_config("ray", n_jobs=jobs):
        while some := list(itertools.islice(waiting, jobs)):
            yield from Parallel()(some)

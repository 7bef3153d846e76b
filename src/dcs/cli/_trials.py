"""How far an experiment is: a line a trial and, on a terminal, a bar below them."""

import json
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from dcs.experiments import RUNS, Trial, key_of
from dcs.runs import METRICS

_SECONDS_BETWEEN_LOOKS = 2.0
_SECONDS_OF_MEMORY = 900.0  # for the time that is left, as an epoch may take minutes


class TrialProgress:
    """Tells of each trial on stderr, and of its result on stdout if a program reads that.

    Args:
        waiting: The trials that are to run.
        out: The directory of the experiment, where trainings take their epochs down.
        as_json: Whether a program reads.
    """

    def __init__(self, waiting: Iterable[Trial], out: Path, as_json: bool) -> None:
        self.waiting, self.out, self.as_json = set(waiting), out, as_json
        self.left, self.done = len(self.waiting), 0
        self.reasons: list[str] = []  # of failures, as far as they were told
        self.ended = threading.Event()
        self.console = Console(stderr=True, highlight=False, markup=False)
        columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
        self.bar = Progress(
            *columns,
            console=self.console,
            transient=True,
            redirect_stdout=False,
            speed_estimate_period=_SECONDS_OF_MEMORY,
            disable=as_json or not self.console.is_terminal,
        )
        self.total = sum(map(_work, self.waiting))
        self.task = self.bar.add_task("", total=self.total)
        self.watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        if self.left and not self.bar.disable:
            self._look()
            self.bar.start()
            self.watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.bar.stop()

    def finished(self, line: dict[str, Any]) -> None:
        """Tell of a result."""
        self._tell(key_of(line), f"{line['score']:.2f} % in {line['seconds']:.0f} s")
        if self.as_json:
            typer.echo(json.dumps(line))

    def failed(self, trial: Trial, reason: str) -> None:
        """Tell of a failure, the same reason once."""
        self._tell(trial, "failed as before" if reason in self.reasons else f"failed: {reason}")
        self.reasons.append(reason)

    def _tell(self, trial: Trial, what: str) -> None:
        self.done += 1
        self.waiting.discard(trial)
        if not self.bar.disable:
            self._look()
        noise = f" with noise {trial.noise:g}" if trial.noise else ""
        fold = f" fold {trial.fold}" if trial.fold else ""
        weight = f" λ = {trial.weight:g} {trial.how}" if trial.weight else ""
        method = f"{trial.method}{weight} ({trial.variant})"
        where = f"{trial.dataset}{noise}{fold}, {method}, {trial.protocol}, trial {trial.trial}"
        self.console.print(f"{self.done} of {self.left}: {where}: {what}", soft_wrap=True)

    def _watch(self) -> None:
        while not self.ended.wait(_SECONDS_BETWEEN_LOOKS):
            self._look()

    def _look(self) -> None:
        """Bring the bar up to date."""
        left = sum(_work(trial) * (1 - _share_done(trial, self.out)) for trial in tuple(self.waiting))
        text = f"{self.done} of {self.left} trials"
        self.bar.update(self.task, completed=self.total - left, description=text)


def _work(trial: Trial) -> int:
    """Samples that a training sees, by which trials are weighed."""
    return max(1, trial.epochs) * trial.train_size


def _share_done(trial: Trial, out: Path) -> float:
    """How much of a training is over, by the lines that it has taken down."""
    try:
        epochs = (out / RUNS / trial.name / METRICS).read_bytes().count(b"\n")
    except OSError:
        return 0.0
    return min(1.0, epochs / max(1, trial.epochs))

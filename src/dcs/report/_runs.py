"""What the directory of a run, or of an experiment, holds."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dcs import experiments
from dcs._saved import damaged
from dcs.experiments._runner import RUNS
from dcs.report._views import Views, views_of
from dcs.training import RunError, checkpoint
from dcs.training.run import CHECKPOINTS, CONFIG, METRICS, MODEL

RESULTS = "results.jsonl"
Line = dict[str, Any]


class Run(NamedTuple):
    """One training, and what is known of its scores."""

    name: str
    folder: Path  # of the training
    config: dict[str, Any]
    metrics: list[dict[str, float | None]]  # one a finished epoch
    results: list[Line]
    of_experiment: bool  # whether the results are trials of one
    shown_for: Path | None = None  # the directory of the experiment that this training stands for
    views: Views | None = None  # what was made of samples, as far as it is known
    remarks: tuple[str, ...] = ()  # on what could not be read

    @property
    def finished(self) -> bool:
        """Whether it has its model."""
        return (self.folder / MODEL).is_file()

    @property
    def lost(self) -> bool:
        """Whether it was finished, but has its model no longer."""
        return not self.finished and "sha256" in self.config

    @property
    def saved(self) -> bool:
        """Whether it has a checkpoint, from which it can go on."""
        return bool(checkpoint.numbers(self.folder / CHECKPOINTS))

    @property
    def settings(self) -> dict[str, Any]:
        """Of the training, or of the encoder that was saved."""
        found = self.config.get("training") or self.config.get("parameters")
        return found if isinstance(found, dict) else {}


def read_runs(folders: Sequence[Path]) -> list[Run]:
    """Read runs; those of one name are called by their path."""
    runs = [read_run(folder) for folder in folders]
    names = [run.name for run in runs]
    return [
        run._replace(name=str(folder)) if names.count(run.name) > 1 else run
        for run, folder in zip(runs, folders, strict=True)
    ]


def read_run(folder: Path) -> Run:
    """Read what `dcs fit`, `dcs reproduce` or `DenoisingEncoder.save` wrote."""
    if not folder.is_dir():
        raise RunError(f"{folder} is no directory: name one that dcs fit or dcs reproduce wrote")
    name = folder.absolute().name
    if (folder / CONFIG).is_file():
        return _training(folder, name)
    if not (folder / RUNS).is_dir() and not any(folder.glob("results*.jsonl")):
        raise RunError(f"{folder} holds no run: name a directory that dcs fit or dcs reproduce wrote")
    results = experiments.read_results(folder)
    shown = _one_of(folder, results)
    if shown is None:
        return Run(name, folder, {}, [], results, True, folder)
    return _training(shown, name)._replace(results=results, of_experiment=True, shown_for=folder)


def _training(folder: Path, name: str) -> Run:
    with damaged(folder / CONFIG):
        config = json.loads((folder / CONFIG).read_bytes())
        if not isinstance(config, dict):
            raise RunError(f"{folder / CONFIG} holds no settings by name: it is not of a run")
    measured, remarks = _lines(folder / METRICS)
    metrics = [
        {key: _number(value) for key, value in line.items() if value is None or _is_number(value)}
        for line in measured
    ]
    results = _trials_of(folder)
    of_experiment = bool(results)
    if not of_experiment:
        lines, further = _lines(folder / RESULTS)
        results, remarks = [line for line in lines if line], remarks + further
    views = views_of(config, None)
    return Run(name, folder, config, metrics, results, of_experiment, views=views, remarks=tuple(remarks))


def _lines(path: Path) -> tuple[list[Line], list[str]]:
    """The whole lines of a file, and what is to be said of damaged ones, which are empty.

    What is after the last end of a line is just being written, or was when the process was ended.
    """
    if not path.is_file():
        return [], []
    lines: list[Line] = []
    remarks = []
    for number, text in enumerate(checkpoint.whole_lines(path.read_bytes()).split(b"\n")[:-1], 1):
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            line = None
        if not isinstance(line, dict):
            remarks.append(f"{path.name}, line {number}, is damaged and was left out.")
        lines.append(line if isinstance(line, dict) else {})
    while lines and not lines[-1]:
        lines.pop()
    return lines, remarks


def _trials_of(folder: Path) -> list[Line]:
    """The results of a training that belongs to an experiment, which are kept two directories up."""
    if folder.absolute().parent.name != RUNS:
        return []
    name, results = folder.absolute().name, experiments.read_results(folder.absolute().parent.parent)
    return [line for line in results if experiments.key_of(line).name == name]


def _one_of(folder: Path, results: list[Line]) -> Path | None:
    """The training to show for an experiment: the first of dCS with the most noise, or what there is."""
    trials = sorted(
        map(experiments.key_of, results),
        key=lambda t: (t.method != "dcs", t.variant == "paper", t.protocol != "linear", -t.noise, t.trial),
    )
    wanted = [folder / RUNS / trial.name for trial in trials]
    there = sorted(path.parent for path in (folder / RUNS).glob(f"*/{CONFIG}"))
    return next((path for path in wanted if (path / MODEL).is_file()), there[0] if there else None)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: Any) -> float | None:
    return None if value is None or not math.isfinite(value) else value

"""What the directory of a run, or of an experiment, holds."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple

from dcs import experiments
from dcs.runs import CHECKPOINTS, CONFIG, METRICS, MODEL, RESULTS, RunRecord, read_record
from dcs.training import RunError, checkpoint

if TYPE_CHECKING:
    from dcs.report._gallery import Gallery

Line = dict[str, Any]


class ReportedRun(NamedTuple):
    """One training, and its scores."""

    name: str
    folder: Path  # directory of the training
    record: RunRecord | None  # None for an experiment without a run
    metrics: list[dict[str, float | None]]  # one per finished epoch
    results: list[Line]
    of_experiment: bool  # whether the results are trials of an experiment
    shown_for: Path | None = None  # directory of the experiment that this training is an example of
    objective: Mapping[str, Any] | None = None  # description of the objective as it was used, if known
    remarks: tuple[str, ...] = ()  # on what could not be read
    gallery: "Gallery | None" = None  # what is shown of its samples
    note: str = ""  # on the samples, or why they are not shown

    @property
    def finished(self) -> bool:
        """Whether it has its model."""
        return (self.folder / MODEL).is_file()

    @property
    def lost(self) -> bool:
        """Whether it was finished, but its model is missing."""
        return not self.finished and self.record is not None and self.record.learned is not None

    @property
    def saved(self) -> bool:
        """Whether it has a checkpoint to resume from."""
        return bool(checkpoint.numbers(self.folder / CHECKPOINTS))


def read_runs(folders: Sequence[Path]) -> list[ReportedRun]:
    """Read runs; those that have the same name are named by their paths."""
    runs = {folder: read_run(folder) for folder in folders}
    names = [run.name for run in runs.values()]
    return [
        run._replace(name=str(folder)) if names.count(run.name) > 1 else run for folder, run in runs.items()
    ]


def read_run(folder: Path) -> ReportedRun:
    """Read what `dcs fit`, `dcs reproduce` or `DenoisingEncoder.save` wrote."""
    if not folder.is_dir():
        raise RunError(f"{folder} is not a directory: give one that dcs fit or dcs reproduce wrote")
    name = folder.absolute().name
    if (folder / CONFIG).is_file():
        return _read_training(folder, name)
    if not (folder / experiments.RUNS).is_dir() and not any(folder.glob("results*.jsonl")):
        raise RunError(f"{folder} holds no run: give a directory that dcs fit or dcs reproduce wrote")
    results = experiments.read_results(folder)
    example = _find_example(folder, results)
    if example is None:
        return ReportedRun(name, folder, None, [], results, True, folder)
    return _read_training(example, name)._replace(results=results, of_experiment=True, shown_for=folder)


def _read_training(folder: Path, name: str) -> ReportedRun:
    record = read_record(folder)
    measured, remarks = _read_lines(folder / METRICS)
    metrics = [
        {k: _finite(v) for k, v in line.items() if type(v) in (int, float, NoneType)} for line in measured
    ]
    trials = _read_trials(folder)
    lines, further = ([], []) if trials else _read_lines(folder / RESULTS)
    results = trials or [line for line in lines if line]
    objective = None if record.learned is None else record.learned.objective
    remarks += further
    return ReportedRun(name, folder, record, metrics, results, bool(trials), None, objective, tuple(remarks))


def _read_lines(path: Path) -> tuple[list[Line], list[str]]:
    """Return the complete lines of a file, with empty ones for those that are damaged, and remarks on these.

    An incomplete last line is being written, or was when the process ended.
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
            remarks.append(f"{path.name}, line {number}, is damaged and was skipped.")
            line = {}
        lines.append(line)
    while lines and not lines[-1]:
        lines.pop()
    return lines, remarks


def _read_trials(folder: Path) -> list[Line]:
    """Return the results of a training of an experiment, which are kept two directories up."""
    path = folder.absolute()
    if path.parent.name != experiments.RUNS:
        return []
    results = experiments.read_results(path.parent.parent)
    return [line for line in results if experiments.key_of(line).name == path.name]


def _find_example(folder: Path, results: list[Line]) -> Path | None:
    """Return the training to show for an experiment: preferably one of dCS with the most noise."""
    trials = sorted(
        map(experiments.key_of, results),
        key=lambda t: (t.method != "dcs", t.variant == "paper", t.protocol != "linear", -t.noise, t.trial),
    )
    wanted = [folder / experiments.RUNS / trial.name for trial in trials]
    found = sorted(path.parent for path in (folder / experiments.RUNS).glob(f"*/{CONFIG}"))
    return next((path for path in wanted if (path / MODEL).is_file()), found[0] if found else None)


def _finite(value: Any) -> float | None:
    return None if value is None or not math.isfinite(value) else value

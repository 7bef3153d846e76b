"""Results as tables: mean and deviation next to the published value, and how certain the best is."""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from scipy.stats import ttest_ind_from_stats

from dcs.experiments.experiment import BOTH, FOLDS, HOWS, PROTOCOLS, VARIANTS
from dcs.experiments.plan import EXPERIMENTS
from dcs.experiments.published import Score, published
from dcs.experiments.results import ResultLine
from dcs.training import read_config

TITLES = {"linear": "Linear evaluation", "clustering": "Clustering"}
_SWEEP = "Linear evaluation with different λ"
_ALL = "all"  # five folds
_Row = tuple[str, str, str, float | None]  # method, variant, how, and λ where it is compared


class _Entry(NamedTuple):
    """A result, or the mean of a trial's results over all folds."""

    line: ResultLine
    score: float
    fold: str
    mixed: bool = False


class Column(NamedTuple):
    """What trials that are compared have in common, in the order by which columns are sorted."""

    dataset: str
    noise: float
    fold: str  # test fold, where there are several, or all
    scale: str
    train_size: int
    epochs: int
    precision: str


@dataclass(frozen=True)
class Cell:
    """The scores of one method in one column."""

    method: str
    variant: str
    scores: tuple[float, ...]
    published: Score | None
    rank: int | None = None  # 1 and 2 for the best two means of those that are compared; equal if tied
    how: str = HOWS[0]
    weight: float | None = None  # λ, where it is compared
    step_seconds: float | None = None
    mixed: bool = False  # whether settings or versions differ between the scores

    @property
    def mean(self) -> float:
        """Mean of the scores."""
        return statistics.mean(self.scores)

    @property
    def deviation(self) -> float | None:
        """Standard deviation of the scores, if there are several."""
        return statistics.stdev(self.scores) if len(self.scores) > 1 else None

    @property
    def printed(self) -> float:
        """Mean as it is printed, by which ranks are given."""
        return round(self.mean, 2)

    @property
    def row(self) -> str:
        """Name of its row."""
        marks = [self.variant] if self.variant != BOTH else []
        marks += [self.how] if self.how != HOWS[0] else []
        marks += [f"λ = {self.weight:g}"] if self.weight is not None else []
        return f"{self.method} ({', '.join(marks)})" if marks else self.method


@dataclass(frozen=True)
class Table:
    """The results of one experiment and protocol."""

    experiment: str
    protocol: str
    columns: dict[Column, dict[str, Cell]]  # in each, cells by row
    sweep: bool = False  # whether rows differ in λ

    @property
    def rows(self) -> list[str]:
        """Rows that have a cell, methods first."""
        cells = [cell for column in self.columns.values() for cell in column.values()]
        places = {cell.row: _place(cell, self.experiment) for cell in cells}
        return sorted(places, key=lambda row: places[row])

    @property
    def title(self) -> str:
        """Heading of the table."""
        return _SWEEP if self.sweep else TITLES[self.protocol]

    @property
    def headings(self) -> dict[Column, str]:
        """Headings of the columns; those that would be equal say how they differ."""
        names = {column: _heading(column) for column in self.columns}
        return {
            column: ", ".join([name, *_amount(column, [c for c in names if names[c] == name])])
            for column, name in names.items()
        }


def tables(lines: Iterable[ResultLine | Mapping[str, Any]]) -> list[Table]:
    """Put results in tables: for each experiment and protocol, and for λ of Expt2 if several were tried."""
    results = [ResultLine.of(line) for line in lines]
    found = []
    for name in EXPERIMENTS:
        for protocol in PROTOCOLS:
            own = [line for line in results if (line.experiment, line.protocol) == (name, protocol)]
            usual = [line for line in own if not _is_swept(line)]
            swept = {line.method for line in own if _is_swept(line)}
            if usual:
                found.append(Table(name, protocol, _columns(_entries(usual) + _over_folds(usual), False)))
            if swept:
                rows = [line for line in own if line.method in swept]
                found.append(Table(name, protocol, _columns(_entries(rows), True), sweep=True))
    return found


def _is_swept(line: ResultLine) -> bool:
    """Return whether λ is another than the paper's."""
    return line.weight not in (0, EXPERIMENTS[line.experiment].weights.get(line.dataset))


def _entries(lines: Iterable[ResultLine]) -> list[_Entry]:
    return [_Entry(line, line.score, str(line.fold or "")) for line in lines]


def _over_folds(lines: Iterable[ResultLine]) -> list[_Entry]:
    """Return the mean over all five folds, for each trial that was run on all of them."""
    groups: dict[Any, dict[int, ResultLine]] = {}
    for line in lines:
        if line.fold:
            groups.setdefault(line.key._replace(fold=0), {})[line.fold] = line
    return [
        _Entry(
            next(iter(folds.values())),
            statistics.mean(line.score for line in folds.values()),
            _ALL,
            len({_settings(line) for line in folds.values()}) > 1,
        )
        for folds in groups.values()
        if len(folds) == len(FOLDS)
    ]


def _columns(entries: list[_Entry], sweep: bool) -> dict[Column, dict[str, Cell]]:
    columns: dict[Column, dict[_Row, list[_Entry]]] = {}
    # What needs no training stands next to trainings of any length.
    for trained in (True, False):
        for entry in entries:
            line = entry.line
            if (line.epochs > 0) != trained:
                continue
            key = Column(**{**{name: getattr(line, name) for name in Column._fields}, "fold": entry.fold})
            beside = [c for c in columns if not trained and c._replace(epochs=0, precision="no") == key]
            row = line.method, line.variant, line.how, line.weight if sweep else None
            for column in beside or [key]:
                columns.setdefault(column, {}).setdefault(row, []).append(entry)
    experiment = entries[0].line.experiment
    first = {name: number for number, name in enumerate(EXPERIMENTS[experiment].datasets)}
    return {
        column: {
            cell.row: cell
            for cell in _ranked([_cell(column, row, own) for row, own in columns[column].items()], experiment)
        }
        for column in sorted(columns, key=lambda column: (first.get(column.dataset, len(first)), column))
    }


def _cell(column: Column, row: _Row, entries: list[_Entry]) -> Cell:
    (method, variant, how, weight), first = row, entries[0].line
    theirs = published(first.experiment, column.dataset, column.noise, method, first.protocol, weight=weight)
    lines = [entry.line for entry in entries]
    times = [line.metrics["step_seconds"] for line in lines if "step_seconds" in line.metrics]
    return Cell(
        method,
        variant,
        tuple(entry.score for entry in entries),
        theirs if column.fold in ("", "5") else None,
        how=how,
        weight=weight,
        step_seconds=statistics.median(times) if times else None,
        mixed=len({_settings(line) for line in lines}) > 1 or any(entry.mixed for entry in entries),
    )


def _settings(line: ResultLine) -> str:
    """Return what decides a score besides the seed, as far as a line records it."""
    defaults = read_config({}).model_dump(mode="json")  # a setting that is newer than a line had its default
    training = {**defaults, **line.settings.get("training", {})}
    trained_by = training.pop("versions", line.versions)
    versions = {**line.versions, "trained by": [trained_by.get(name) for name in ("dcs-learn", "torch")]}
    # Results of version 0.1 have a text, made_of, in place of the description of the objective.
    for name in ("seed", "threads", "made_of"):
        training.pop(name, None)
    objective = _without_sigma(line.settings.get("objective"))
    return json.dumps([training, objective, line.settings.get("evaluation", {}), versions], sort_keys=True)


def _without_sigma(described: Any) -> Any:
    """Return a description without σ as it was estimated, which another seed may change a little."""
    if not isinstance(described, dict):
        return described
    return {name: _without_sigma(value) for name, value in described.items() if name != "sigma"}


def _ranked(cells: Sequence[Cell], experiment: str) -> list[Cell]:
    unranked = EXPERIMENTS[experiment].orientation
    means = {cell.printed for cell in cells if cell.method not in unranked}
    ranks = dict(zip(sorted(means, reverse=True), (1, 2), strict=False))
    return [
        replace(cell, rank=None if cell.method in unranked else ranks.get(cell.printed)) for cell in cells
    ]


def _place(cell: Cell, experiment: str) -> tuple[float, ...]:
    variant = (*VARIANTS, BOTH).index(cell.variant)
    return EXPERIMENTS[experiment].rows.index(cell.method), variant, HOWS.index(cell.how), cell.weight or 0


def against_best(cell: Cell, cells: Iterable[Cell]) -> float | None:
    """Return p of Welch's test of a runner-up against the single best, if they have a spread."""
    best = [other for other in cells if other.rank == 1]
    if cell.rank != 2 or len(best) != 1:
        return None
    (first,) = best
    if first.deviation is None or cell.deviation is None or not first.deviation + cell.deviation:
        return None
    described = [n for c in (first, cell) for n in (c.mean, c.deviation, len(c.scores))]
    return float(ttest_ind_from_stats(*described, equal_var=False).pvalue)


def _heading(column: Column) -> str:
    if column.fold:
        return f"{column.dataset}, {'all five folds' if column.fold == _ALL else f'fold {column.fold}'}"
    return f"{column.dataset}, σ = {column.noise:g}" if column.noise else column.dataset


def _amount(column: Column, others: Sequence[Column]) -> list[str]:
    """Return how much was run, as far as others differ in it."""
    words = {
        "train_size": f"{column.train_size:,} samples",
        "epochs": f"{column.epochs} epochs",
        "precision": "full precision" if column.precision == "no" else column.precision,
        "scale": f"network of {column.scale}",
    }
    return [text for name, text in words.items() if len({getattr(other, name) for other in others}) > 1]

"""Results as a table: mean and deviation beside the published value, and how sure the best one is."""

import json
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scipy.stats import ttest_ind_from_stats

from dcs.experiments._plan import EXPERIMENTS, HOWS, PROTOCOLS, VARIANTS
from dcs.experiments._published import Score, published
from dcs.experiments._siamese import WEIGHTS
from dcs.experiments._sounds import FOLDS
from dcs.experiments._trial import BOTH
from dcs.training import read_config

TITLES = {"linear": "Linear evaluation", "clustering": "Clustering"}
_SWEEP = "Linear evaluation with different λ"
_ALL = "all"  # five folds
Line = dict[str, Any]
_Row = tuple[str, str, str, float | None]  # method, variant, how, and λ where it is what is compared


@dataclass(frozen=True)
class Column:
    """What trials have in common that may be compared."""

    dataset: str
    noise: float
    train_size: int
    epochs: int
    precision: str = "no"
    fold: str = ""  # of the test split, where there are several
    scale: str = "paper"


@dataclass(frozen=True)
class Cell:
    """The scores of one method in one column."""

    method: str
    variant: str
    scores: tuple[float, ...]
    published: Score | None
    rank: int | None = None  # 1 and 2 for the best two means of those that are compared; equal ones alike
    how: str = HOWS[0]
    weight: float | None = None  # λ, where it is what is compared
    step_seconds: float | None = None
    mixed: bool = False  # whether the scores are of different settings or versions

    @property
    def mean(self) -> float:
        """Of the scores."""
        return statistics.mean(self.scores)

    @property
    def deviation(self) -> float | None:
        """Of the scores, if there are several."""
        return statistics.stdev(self.scores) if len(self.scores) > 1 else None

    @property
    def printed(self) -> float:
        """The mean as it is printed: what looks equal is equal."""
        return round(self.mean, 2)

    @property
    def row(self) -> str:
        """The name of its row."""
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
        """The rows that have a cell, methods first."""
        cells = [cell for column in self.columns.values() for cell in column.values()]
        places = {cell.row: _place(cell, self.experiment) for cell in cells}
        return sorted(places, key=lambda row: places[row])

    @property
    def title(self) -> str:
        """What is in it."""
        return _SWEEP if self.sweep else TITLES[self.protocol]

    @property
    def headings(self) -> dict[Column, str]:
        """Of the columns; those that would be alike say in what they differ."""
        names = {column: _heading(column) for column in self.columns}
        return {
            column: ", ".join([name, *_amount(column, [c for c in names if names[c] == name])])
            for column, name in names.items()
        }


def tables(lines: Iterable[Line]) -> list[Table]:
    """Put results in tables: for each experiment and protocol, and for λ of Expt2 if several were tried."""
    lines = list(lines)
    found = []
    for experiment in EXPERIMENTS:
        for protocol in PROTOCOLS:
            own = [line for line in lines if (line["experiment"], line["protocol"]) == (experiment, protocol)]
            usual = [line for line in own if _weight(line) in (0, WEIGHTS.get(line["dataset"]))]
            swept = {line["method"] for line in own if line not in usual}
            if usual:
                found.append(Table(experiment, protocol, _columns(usual + _over_folds(usual), False)))
            if swept:
                rows = [line for line in own if line["method"] in swept]
                found.append(Table(experiment, protocol, _columns(rows, True), sweep=True))
    return found


def _weight(line: Line) -> float:
    return float(line.get("weight", 0))


def _over_folds(lines: list[Line]) -> list[Line]:
    """For each trial that was run on all five folds, the mean over them."""
    groups: dict[tuple[Any, ...], dict[int, Line]] = {}
    for line in lines:
        if line.get("fold"):
            same = ("dataset", "method", "variant", "trial", "epochs", "train_size", "precision", "scale")
            groups.setdefault(tuple(line.get(name) for name in same), {})[line["fold"]] = line
    return [
        {
            **next(iter(folds.values())),
            "fold": _ALL,
            "score": statistics.mean(f["score"] for f in folds.values()),
            "mixed": len({_settings(f) for f in folds.values()}) > 1,
        }
        for folds in groups.values()
        if len(folds) == len(FOLDS)
    ]


def _columns(lines: list[Line], sweep: bool) -> dict[Column, dict[str, Cell]]:
    columns: dict[Column, dict[_Row, list[Line]]] = {}
    # What needs no training stands beside trainings of any length.
    for trained in (True, False):
        for line in lines:
            if (line["epochs"] > 0) != trained:
                continue
            key = _column(line)
            beside = (
                [c for c in columns if replace(c, epochs=0, precision="no") == key] if not trained else []
            )
            for column in beside or [key]:
                cells = columns.setdefault(column, {})
                weight = _weight(line) if sweep else None
                row = line["method"], line["variant"], line.get("how", HOWS[0]), weight
                cells.setdefault(row, []).append(line)
    named = {
        column: [_cell(column, row, own) for row, own in cells.items()] for column, cells in columns.items()
    }
    experiment = lines[0]["experiment"]
    order = EXPERIMENTS[experiment].datasets
    places = sorted(
        named,
        key=lambda c: (
            order.index(c.dataset) if c.dataset in order else len(order),
            c.dataset,
            c.noise,
            c.fold,
            c.scale,
            c.train_size,
            c.epochs,
            c.precision,
        ),
    )
    return {column: {cell.row: cell for cell in _ranked(named[column], experiment)} for column in places}


def _column(line: Line) -> Column:
    return Column(
        line["dataset"],
        float(line["noise"]),
        line["train_size"],
        line["epochs"],
        line.get("precision", "no"),
        str(line.get("fold") or ""),
        line.get("scale", "paper"),
    )


def _cell(column: Column, row: _Row, lines: list[Line]) -> Cell:
    (method, variant, how, weight), first = row, lines[0]
    theirs = published(
        first["experiment"], column.dataset, column.noise, method, first["protocol"], weight=weight
    )
    if column.fold not in ("", "5"):
        theirs = None
    times = [line["metrics"]["step_seconds"] for line in lines if "step_seconds" in line.get("metrics", {})]
    return Cell(
        method,
        variant,
        tuple(float(line["score"]) for line in lines),
        theirs,
        how=how,
        weight=weight,
        step_seconds=statistics.median(times) if times else None,
        mixed=len({_settings(line) for line in lines}) > 1 or any(line.get("mixed") for line in lines),
    )


def _settings(line: Line) -> str:
    """What decides a score beside the seed, as far as a line tells."""
    settings, scored_by = line.get("settings", {}), line.get("versions", {})
    # A setting that is newer than a line had its default.
    training = {**read_config({}).model_dump(mode="json"), **settings.get("training", {})}
    trained_by = training.pop("versions", scored_by)
    versions = {**scored_by, "trained by": [trained_by.get(name) for name in ("dcs-learn", "torch")]}
    for name in ("seed", "threads"):
        training.pop(name)
    if "made_of" in training:  # with σ as it was estimated, which another seed may change a little
        training["made_of"] = re.sub(r"sigma=[\d.e-]+", "sigma", training["made_of"])
    return json.dumps([training, settings.get("evaluation", {}), versions], sort_keys=True)


def _ranked(cells: Sequence[Cell], experiment: str) -> list[Cell]:
    unranked = EXPERIMENTS[experiment].orientation
    means = {cell.printed for cell in cells if cell.method not in unranked}
    ranks = dict(zip(sorted(means, reverse=True), (1, 2), strict=False))
    return [
        replace(cell, rank=None if cell.method in unranked else ranks.get(cell.printed)) for cell in cells
    ]


def _place(cell: Cell, experiment: str) -> tuple[float, ...]:
    described = EXPERIMENTS[experiment]
    methods = (*described.methods, *described.further, *described.orientation)
    variant = (*VARIANTS, BOTH).index(cell.variant)
    return methods.index(cell.method), variant, HOWS.index(cell.how), cell.weight or 0


def against_best(cell: Cell, cells: Iterable[Cell]) -> float | None:
    """The p of Welch's test of a runner-up against the one best, if they have a spread."""
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
    """How much was run, as far as others differ in it."""
    words = {
        "train_size": f"{column.train_size:,} samples",
        "epochs": f"{column.epochs} epochs",
        "precision": "full precision" if column.precision == "no" else column.precision,
        "scale": f"network of {column.scale}",
    }
    return [text for name, text in words.items() if len({getattr(other, name) for other in others}) > 1]

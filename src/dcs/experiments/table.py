"""Results as tables, in Markdown, LaTeX and CSV, next to the published values."""

import csv
import io
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from scipy.stats import ttest_ind_from_stats

from dcs.experiments.experiment import BOTH, FOLDS, HOWS, PROTOCOLS, VARIANTS
from dcs.experiments.plan import EXPERIMENTS
from dcs.experiments.published import ESC50_BASELINES, HOURS, Score, published
from dcs.experiments.readings import OF_COLUMNS, parse_reading
from dcs.experiments.results import ResultLine
from dcs.training import read_config
from dcs.training.checkpoint import write_atomically

TITLES = {"linear": "Linear evaluation", "clustering": "Clustering"}
_SWEEP = "Linear evaluation with different λ"
_ALL = "all"  # five folds
_LATEX = str.maketrans({"λ": r"$\lambda$", "σ": r"$\sigma$", "±": r"$\pm$"})
_Row = tuple[str, str, str, float | None, str]  # method, variant, how, λ where it is compared, reading


class _Entry(NamedTuple):
    """A result, or the mean of a trial's results over all folds."""

    line: ResultLine
    score: float
    fold: str
    settings: frozenset[str]  # of all lines that it is made of


class Column(NamedTuple):
    """What trials that are compared have in common, in the order by which columns are sorted."""

    dataset: str
    noise: float
    fold: str  # test fold, where there are several, or all
    scale: str
    train_size: int
    epochs: int
    precision: str
    reading: str  # its switches that all methods share


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
    reading: str = ""  # its switches that the method alone has

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
        marks += [self.reading] if self.reading else []
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
        methods, variants = EXPERIMENTS[self.experiment].rows, (*VARIANTS, BOTH)

        def place(cell: Cell) -> tuple[float, ...]:
            order = methods.index(cell.method), variants.index(cell.variant), HOWS.index(cell.how)
            return *order, cell.weight or 0, len(cell.reading)

        cells = {cell.row: cell for column in self.columns.values() for cell in column.values()}
        return sorted(cells, key=lambda row: place(cells[row]))

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


def _heading(column: Column) -> str:
    words = [column.dataset]
    if column.fold:
        words.append("all five folds" if column.fold == _ALL else f"fold {column.fold}")
    words += [f"σ = {column.noise:g}"] if column.noise else []
    return ", ".join([*words, *([column.reading] if column.reading else [])])


def _amount(column: Column, others: Sequence[Column]) -> list[str]:
    """Return how much was run, as far as others differ in it."""
    words = {
        "train_size": f"{column.train_size:,} samples",
        "epochs": f"{column.epochs} epochs",
        "precision": "full precision" if column.precision == "no" else column.precision,
        "scale": f"network of {column.scale}",
    }
    return [text for name, text in words.items() if len({getattr(other, name) for other in others}) > 1]


def tables(lines: Iterable[ResultLine | Mapping[str, Any]]) -> list[Table]:
    """Put results in tables: for each experiment and protocol, and for λ of Expt2 if several were tried."""
    groups: dict[tuple[str, str], list[_Entry]] = {}
    for line in map(ResultLine.of, lines):
        entry = _Entry(line, line.score, str(line.fold or ""), frozenset({_settings(line)}))
        groups.setdefault((line.experiment, line.protocol), []).append(entry)
    found = []
    for name, protocol in ((name, protocol) for name in EXPERIMENTS for protocol in PROTOCOLS):
        own = groups.get((name, protocol), [])
        papers = EXPERIMENTS[name].weights
        usual = [entry for entry in own if entry.line.weight in (0, papers.get(entry.line.dataset))]
        swept = {line.method for line, *_ in own if line.weight not in (0, papers.get(line.dataset))}
        if usual:
            found.append(Table(name, protocol, _columns(usual + _over_folds(usual), name, sweep=False)))
        if swept:
            rows = [entry for entry in own if entry.line.method in swept]
            found.append(Table(name, protocol, _columns(rows, name, sweep=True), sweep=True))
    return found


def _over_folds(entries: Iterable[_Entry]) -> list[_Entry]:
    """Return the mean over all five folds, for each trial that was run on all of them."""
    groups: dict[Any, dict[str, _Entry]] = {}
    for entry in entries:
        if entry.fold:
            groups.setdefault(entry.line.key._replace(fold=0), {})[entry.fold] = entry
    return [
        _Entry(
            next(iter(folds.values())).line,
            statistics.mean(entry.score for entry in folds.values()),
            _ALL,
            frozenset().union(*(entry.settings for entry in folds.values())),
        )
        for folds in groups.values()
        if len(folds) == len(FOLDS)
    ]


def _columns(entries: list[_Entry], experiment: str, *, sweep: bool) -> dict[Column, dict[str, Cell]]:
    columns: dict[Column, dict[_Row, list[_Entry]]] = {}
    # What needs no training comes last, as it stands next to trainings of any length.
    for entry in sorted(entries, key=lambda entry: entry.line.epochs == 0):
        line = entry.line
        switches = parse_reading(line.reading)
        shared, own = (
            [name for name in switches if (name in OF_COLUMNS) is there] for there in (True, False)
        )
        further = {"fold": entry.fold, "reading": "+".join(shared)}
        key = Column(**{**{name: getattr(line, name) for name in Column._fields}, **further})
        beside = [c for c in columns if not line.epochs and c._replace(epochs=0, precision="no") == key]
        row = line.method, line.variant, line.how, line.weight if sweep else None, "+".join(own)
        for column in beside or [key]:
            columns.setdefault(column, {}).setdefault(row, []).append(entry)
    described = EXPERIMENTS[experiment]
    first = {name: number for number, name in enumerate(described.datasets)}
    found: dict[Column, dict[str, Cell]] = {}
    for column in sorted(columns, key=lambda column: (first.get(column.dataset, len(first)), column)):
        cells = [_cell(column, row, own) for row, own in columns[column].items()]
        means = {cell.printed for cell in cells if cell.method not in described.orientation}
        ranks = dict(zip(sorted(means, reverse=True), (1, 2), strict=False))
        for cell in cells:
            rank = None if cell.method in described.orientation else ranks.get(cell.printed)
            found.setdefault(column, {})[cell.row] = replace(cell, rank=rank)
    return found


def _cell(column: Column, row: _Row, entries: list[_Entry]) -> Cell:
    (method, variant, how, weight, reading), first = row, entries[0].line
    theirs = published(first.experiment, column.dataset, column.noise, method, first.protocol, weight=weight)
    metrics = [entry.line.metrics for entry in entries]
    times = [measured["step_seconds"] for measured in metrics if "step_seconds" in measured]
    return Cell(
        method,
        variant,
        tuple(entry.score for entry in entries),
        theirs if column.fold in ("", "5") else None,
        how=how,
        weight=weight,
        step_seconds=statistics.median(times) if times else None,
        mixed=len(frozenset().union(*(entry.settings for entry in entries))) > 1,
        reading=reading,
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


def as_markdown(table: Table) -> str:
    """Return a table in Markdown, with the published values in columns of their own."""
    header = ["", *(name for heading in table.headings.values() for name in (heading, "paper"))]
    rows = [header, ["---"] * len(header)]
    for row in table.rows:
        texts = _texts(table, row, "**{}**", "<u>{}</u>")
        rows.append([row, *(text for own_and_published in texts for text in own_and_published)])
    lines = [f"### {table.title}, %", "", *(f"| {' | '.join(row)} |" for row in rows), ""]
    lines += [f"- {table.headings[column]}: {text}" for column, text in remarks(table).items()]
    if table.experiment == "expt3" and any(column.dataset == "esc50" for column in table.columns):
        listed = ", ".join(f"{name} {score}" for name, score in ESC50_BASELINES.items())
        lines += [f"- ESC-50's own page lists, as means over its five folds: {listed}"]
    return "\n".join(lines) + "\n"


def as_latex(table: Table) -> str:
    """Return a table in LaTeX, with notes below it; it needs booktabs."""
    rows = []
    for row in table.rows:
        own, theirs = zip(*_texts(table, row, r"\textbf{{{}}}", r"\underline{{{}}}"), strict=True)
        rows.append([row, *own])
        rows += [["", *(text and f"({text})" for text in theirs)]] if any(theirs) else []
    notes = [f"{table.headings[column]}: {text}." for column, text in remarks(table).items()]
    lines = [
        rf"\begin{{tabular}}{{l{'c' * len(table.columns)}}}",
        r"\toprule",
        " & ".join(["", *table.headings.values()]) + r" \\",
        r"\midrule",
        *(" & ".join(row) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par{{\footnotesize {note}\par}}" for note in notes),
    ]
    comment = f"% {table.title}, accuracy (%): ours, and the published value below it\n"
    return comment + "\n".join(lines).translate(_LATEX) + "\n"


def _texts(table: Table, row: str, best: str, second: str) -> list[tuple[str, str]]:
    """Return the score, marked if it is one of the best two, and the published one, for each column."""
    found = []
    for cell in (cells.get(row) for cells in table.columns.values()):
        if cell is None:
            found.append(("", ""))
        else:
            mark = {1: best, 2: second}.get(cell.rank or 0, "{}")
            own = score_text((cell.mean, cell.deviation))
            found.append((mark.format(own), score_text(cell.published)))
    return found


def as_csv(found: Iterable[Table]) -> str:
    """Return all tables as CSV, one line per cell."""
    text = io.StringIO()
    names = "experiment protocol dataset noise fold train_size epochs precision scale method variant how "
    names += (
        "reading weight mean deviation trials rank welch_p published_mean published_deviation step_seconds"
    )
    writer = csv.DictWriter(text, names.split(), extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for table in found:
        for column, cells in table.columns.items():
            for cell in (cells[row] for row in table.rows if row in cells):
                theirs = cell.published or (None, None)
                computed = {
                    "mean": cell.mean,
                    "deviation": cell.deviation,
                    "trials": len(cell.scores),
                    "welch_p": against_best(cell, cells.values()),
                    "published_mean": theirs[0],
                    "published_deviation": theirs[1],
                    "reading": "+".join(filter(None, (column.reading, cell.reading))),
                }
                writer.writerow({**vars(table), **column._asdict(), **vars(cell), **computed})
    return text.getvalue()


def as_page(found: Sequence[Table]) -> str:
    """Return all tables in Markdown, those of each experiment below its title."""
    names = dict.fromkeys(table.experiment for table in found)
    groups = [[table for table in found if table.experiment == name] for name in names]
    return "\n".join("\n".join([f"## {experiment_title(own)}\n", *map(as_markdown, own)]) for own in groups)


def write_tables(found: Sequence[Table], out: Path) -> list[Path]:
    """Write table.md, table.csv and table.tex to a directory."""
    contents = {
        "table.md": as_page(found),
        "table.csv": as_csv(found),
        "table.tex": "\n".join(as_latex(table) for table in found),
    }
    for name, content in contents.items():
        write_atomically(out / name, content.encode())
    return [out / name for name in contents]


def experiment_title(found: Sequence[Table]) -> str:
    """Return the heading of an experiment's tables, with the data if it is not the paper's."""
    experiment = EXPERIMENTS[found[0].experiment]
    datasets = dict.fromkeys(column.dataset for table in found for column in table.columns)
    others = [name for name in datasets if name not in experiment.datasets]
    return f"{experiment.title}, here on {', '.join(others)}" if others else experiment.title


def remarks(table: Table) -> dict[Column, str]:
    """Return how much was run in each column, and how far its best is ahead."""
    texts = {}
    for column, cells in table.columns.items():
        counts = sorted({len(cell.scores) for cell in cells.values()})
        trials = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        text = f"{column.train_size:,} samples, {column.epochs} epochs, trials: {trials}"
        if column.precision != "no":
            text += f", in {column.precision}"
        if column.scale != "paper":
            text += f", the smaller network of the preset {column.scale}"
        mixed = [row for row in table.rows if row in cells and cells[row].mixed]
        if mixed:
            text += f"; {_and(mixed)}: of different settings or versions, which a mean should not mix"
        texts[column] = text + _ahead(cells.values()) + _times(table, column)
    return texts


def _ahead(cells: Iterable[Cell]) -> str:
    """Return how far the best is ahead of the runner-up."""
    best, second = ([cell for cell in cells if cell.rank == rank] for rank in (1, 2))
    if len(best) > 1:
        return f"; {_and(cell.row for cell in best)} are level"
    if not best or not second:
        return ""
    text = f"; {best[0].row} is {best[0].printed - second[0].printed:.2f} ahead of "
    text += _and(cell.row for cell in second)
    found = [against_best(cell, best) for cell in second]
    if None not in found:
        return f"{text} (Welch test of two picked after looking: p = {_and(f'{p:.2g}' for p in found)})"
    several = all(len(cell.scores) > 1 for cell in (*best, *second))
    return f"{text} (no spread to test with)" if several else text


def _and(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _times(table: Table, column: Column) -> str:
    """Return the time of a step relative to the first method, for Expt2."""
    cells = [table.columns[column][row] for row in table.rows if row in table.columns[column]]
    timed = [cell for cell in cells if cell.step_seconds]
    if table.experiment != "expt2" or not timed or timed[0].step_seconds is None:
        return ""
    first = timed[0].step_seconds
    others = ", ".join(f"{cell.row} {(cell.step_seconds or 0) / first:.2f}" for cell in timed[1:])
    text = f"; a step of {timed[0].row} takes {1000 * first:.0f} ms"
    text += f", relative to which {others}" if others else ""
    return text + (f" (the paper: {HOURS[column.dataset]})" if column.dataset in HOURS else "")


def score_text(score: tuple[float, float | None] | None) -> str:
    """Return a mean and its deviation, if there is one, as text."""
    if score is None:
        return ""
    mean, deviation = score
    return f"{mean:.2f}" if deviation is None else f"{mean:.2f} ± {deviation:.2f}"

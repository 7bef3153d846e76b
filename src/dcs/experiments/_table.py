"""Results as a table: mean and deviation beside the published value, and how sure the best one is."""

import csv
import io
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scipy.stats import ttest_ind

from dcs.experiments._plan import EXPERIMENTS, PROTOCOLS, VARIANTS
from dcs.experiments._published import Score, published
from dcs.experiments._trial import BOTH, METHODS, ORIENTATION
from dcs.training.checkpoint import write_atomically

TITLES = {"linear": "Linear evaluation", "clustering": "Clustering"}


@dataclass(frozen=True)
class Column:
    """What trials have in common that may be compared."""

    dataset: str
    noise: float
    train_size: int
    epochs: int
    precision: str = "no"


@dataclass(frozen=True)
class Cell:
    """The scores of one method in one column."""

    method: str
    variant: str
    scores: tuple[float, ...]
    published: Score | None
    rank: int | None = None  # 1 and 2 for the best two of those that are compared

    @property
    def mean(self) -> float:
        """Of the scores."""
        return statistics.mean(self.scores)

    @property
    def deviation(self) -> float | None:
        """Of the scores, if there are several."""
        return statistics.stdev(self.scores) if len(self.scores) > 1 else None

    @property
    def row(self) -> str:
        """The name of its row."""
        return self.method if self.variant == BOTH else f"{self.method} ({self.variant})"


@dataclass(frozen=True)
class Table:
    """The results of one experiment and protocol."""

    experiment: str
    protocol: str
    columns: dict[Column, dict[str, Cell]]  # in each, cells by row

    @property
    def rows(self) -> list[str]:
        """The rows that have a cell, methods first."""
        cells = [cell for column in self.columns.values() for cell in column.values()]
        places = {cell.row: _place(cell) for cell in cells}
        return sorted(places, key=lambda row: places[row])


def tables(lines: Iterable[dict[str, Any]]) -> list[Table]:
    """Put results in tables, one for each experiment and protocol."""
    lines = list(lines)
    found = []
    for experiment in EXPERIMENTS:
        for protocol in PROTOCOLS:
            own = [line for line in lines if (line["experiment"], line["protocol"]) == (experiment, protocol)]
            if own:
                found.append(Table(experiment, protocol, _columns(own)))
    return found


def _columns(lines: list[dict[str, Any]]) -> dict[Column, dict[str, Cell]]:
    columns: dict[Column, dict[tuple[str, str], list[float]]] = {}
    # What needs no training stands beside trainings of any length.
    for trained in (True, False):
        for line in lines:
            if (line["epochs"] > 0) != trained:
                continue
            precision = line.get("precision", "no")
            key = Column(line["dataset"], float(line["noise"]), line["train_size"], line["epochs"], precision)
            beside = (
                [c for c in columns if replace(c, epochs=0, precision="no") == key] if not trained else []
            )
            for column in beside or [key]:
                cells = columns.setdefault(column, {})
                cells.setdefault((line["method"], line["variant"]), []).append(float(line["score"]))
    first = lines[0]
    named = {
        column: [
            Cell(
                method,
                variant,
                tuple(scores),
                published(first["experiment"], column.dataset, column.noise, method, first["protocol"]),
            )
            for (method, variant), scores in cells.items()
        ]
        for column, cells in columns.items()
    }
    order = EXPERIMENTS[first["experiment"]].datasets
    places = sorted(
        named,
        key=lambda c: (
            order.index(c.dataset) if c.dataset in order else len(order),
            c.dataset,
            c.noise,
            c.train_size,
            c.epochs,
            c.precision,
        ),
    )
    return {column: {cell.row: cell for cell in _ranked(named[column])} for column in places}


def _ranked(cells: Sequence[Cell]) -> list[Cell]:
    compared = sorted((c for c in cells if c.method not in ORIENTATION), key=lambda c: -c.mean)
    ranks = {cell.row: rank for rank, cell in enumerate(compared[:2], 1)}
    return [replace(cell, rank=ranks.get(cell.row)) for cell in cells]


def _place(cell: Cell) -> tuple[int, int]:
    return METHODS.index(cell.method), (*VARIANTS, BOTH).index(cell.variant)


def as_markdown(table: Table) -> str:
    """A table with the published value in a column of its own beside each."""
    header = ["", *(name for column in table.columns for name in (_heading(column), "paper"))]
    lines = [f"### {TITLES[table.protocol]}, %", "", _row(header), _row(["---"] * len(header))]
    for row in table.rows:
        texts = [row]
        for cells in table.columns.values():
            cell = cells.get(row)
            texts += ["", ""] if cell is None else [_marked(cell, "**", "__"), _score(cell.published)]
        lines.append(_row(texts))
    lines += ["", *(f"- {_heading(column)}: {text}" for column, text in _remarks(table).items())]
    return "\n".join(lines) + "\n"


def as_latex(table: Table) -> str:
    """A tabular for a paper; it needs booktabs."""
    lines = [
        f"% {TITLES[table.protocol]} accuracy (%): ours, and the published value below it",
        rf"\begin{{tabular}}{{l{'c' * len(table.columns)}}}",
        r"\toprule",
        " & ".join(["", *(_heading(column, latex=True) for column in table.columns)]) + r" \\",
        r"\midrule",
    ]
    for row in table.rows:
        own, theirs = [row], [""]
        for cells in table.columns.values():
            cell = cells.get(row)
            text = "" if cell is None else _marked(cell, r"\textbf{", r"\underline{", "}")
            own.append(text.replace("±", r"$\pm$"))
            theirs.append("" if cell is None or cell.published is None else f"({_score(cell.published)})")
        lines.append(" & ".join(own) + r" \\")
        if any(theirs):
            lines.append(" & ".join(theirs).replace("±", r"$\pm$") + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def as_csv(found: Iterable[Table]) -> str:
    """All tables, a line for each cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    place = ["experiment", "protocol", "dataset", "noise", "train_size", "epochs", "precision"]
    score = [
        "method",
        "variant",
        "mean",
        "deviation",
        "trials",
        "rank",
        "published_mean",
        "published_deviation",
    ]
    writer.writerow([*place, *score])
    for table in found:
        for column, cells in table.columns.items():
            for row in table.rows:
                cell = cells.get(row)
                if cell is None:
                    continue
                where = [table.experiment, table.protocol, column.dataset, column.noise, column.train_size]
                what = [column.epochs, column.precision, cell.method, cell.variant]
                scores = [
                    cell.mean,
                    cell.deviation,
                    len(cell.scores),
                    cell.rank,
                    *(cell.published or [None] * 2),
                ]
                writer.writerow([*where, *what, *("" if value is None else value for value in scores)])
    return text.getvalue()


def write_tables(found: Sequence[Table], out: Path) -> list[Path]:
    """Write table.md, table.csv and table.tex into a directory."""
    titles = dict.fromkeys(table.experiment for table in found)
    pages = [
        "\n".join(
            [
                f"## {EXPERIMENTS[experiment].title}\n",
                *(as_markdown(table) for table in found if table.experiment == experiment),
            ]
        )
        for experiment in titles
    ]
    contents = {
        "table.md": "\n".join(pages),
        "table.csv": as_csv(found),
        "table.tex": "\n".join(as_latex(table) for table in found),
    }
    for name, content in contents.items():
        write_atomically(out / name, content.encode())
    return [out / name for name in contents]


def _remarks(table: Table) -> dict[Column, str]:
    """How much was run in each column, and whether its best is better than the runner-up."""
    remarks = {}
    for column, cells in table.columns.items():
        counts = sorted({len(cell.scores) for cell in cells.values()})
        trials = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        text = f"{column.train_size:,} samples, {column.epochs} epochs, trials: {trials}"
        if column.precision != "no":
            text += f", in {column.precision}"
        best, second = (next((c for c in cells.values() if c.rank == rank), None) for rank in (1, 2))
        if best is not None and second is not None:
            text += f"; {best.row} is {best.mean - second.mean:.2f} ahead of {second.row}"
            if min(len(best.scores), len(second.scores)) > 1:
                p = float(ttest_ind(best.scores, second.scores, equal_var=False).pvalue)
                text += f" (Welch test: p = {p:.2g})"
        remarks[column] = text
    return remarks


def _heading(column: Column, *, latex: bool = False) -> str:
    if not column.noise:
        return column.dataset
    sigma = r"$\sigma$" if latex else "σ"
    return f"{column.dataset}, {sigma} = {column.noise:g}"


def _marked(cell: Cell, best: str, second: str, end: str | None = None) -> str:
    text = _score((cell.mean, cell.deviation))
    if cell.rank is None:
        return text
    mark = best if cell.rank == 1 else second
    return f"{mark}{text}{mark if end is None else end}"


def _score(score: tuple[float, float | None] | None) -> str:
    if score is None:
        return ""
    mean, deviation = score
    return f"{mean:.2f}" if deviation is None else f"{mean:.2f} ± {deviation:.2f}"


def _row(texts: Iterable[str]) -> str:
    return "| " + " | ".join(texts) + " |"

"""Tables as text: Markdown, LaTeX and CSV, with the published values."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from dcs.experiments.plan import EXPERIMENTS
from dcs.experiments.published import ESC50_BASELINES, HOURS
from dcs.experiments.table import Cell, Column, Table, against_best
from dcs.training.checkpoint import write_atomically


def as_markdown(table: Table) -> str:
    """Return a table in Markdown, with the published values in columns of their own."""
    header = ["", *(name for heading in table.headings.values() for name in (heading, "paper"))]
    lines = [f"### {table.title}, %", "", _row(header), _row(["---"] * len(header))]
    for row in table.rows:
        texts = [row]
        for cells in table.columns.values():
            cell = cells.get(row)
            if cell is None:
                texts += ["", ""]
            else:
                texts += [_marked(cell, "**{}**", "<u>{}</u>"), score_text(cell.published)]
        lines.append(_row(texts))
    lines += ["", *(f"- {table.headings[column]}: {text}" for column, text in remarks(table).items())]
    if table.experiment == "expt3" and any(column.dataset == "esc50" for column in table.columns):
        listed = ", ".join(f"{name} {score}" for name, score in ESC50_BASELINES.items())
        lines += [f"- ESC-50's own page lists, as means over its five folds: {listed}"]
    return "\n".join(lines) + "\n"


def as_latex(table: Table) -> str:
    """Return a table in LaTeX, with notes below it; it needs booktabs."""
    lines = [
        f"% {table.title}, accuracy (%): ours, and the published value below it",
        rf"\begin{{tabular}}{{l{'c' * len(table.columns)}}}",
        r"\toprule",
        " & ".join(["", *map(_latex, table.headings.values())]) + r" \\",
        r"\midrule",
    ]
    for row in table.rows:
        own, theirs = [_latex(row)], [""]
        for cells in table.columns.values():
            cell = cells.get(row)
            own.append("" if cell is None else _latex(_marked(cell, r"\textbf{{{}}}", r"\underline{{{}}}")))
            theirs.append("" if cell is None or cell.published is None else f"({score_text(cell.published)})")
        lines.append(" & ".join(own) + r" \\")
        if any(theirs):
            lines.append(_latex(" & ".join(theirs)) + r" \\")
    notes = [f"{table.headings[column]}: {text}." for column, text in remarks(table).items()]
    notes = [rf"\par{{\footnotesize {_latex(note)}\par}}" for note in notes]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *notes]) + "\n"


def _latex(text: str) -> str:
    for sign, command in (("λ", r"$\lambda$"), ("σ", r"$\sigma$"), ("±", r"$\pm$")):
        text = text.replace(sign, command)
    return text


def as_csv(found: Iterable[Table]) -> str:
    """Return all tables as CSV, one line per cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    amount = ["train_size", "epochs", "precision", "scale"]
    what = ["method", "variant", "how", "weight", "mean", "deviation"]
    compared = ["trials", "rank", "welch_p", "published_mean", "published_deviation", "step_seconds"]
    writer.writerow(["experiment", "protocol", "dataset", "noise", "fold", *amount, *what, *compared])
    for table in found:
        for column, cells in table.columns.items():
            for cell in (cells[row] for row in table.rows if row in cells):
                values = [
                    *(table.experiment, table.protocol, column.dataset, column.noise, column.fold),
                    *(getattr(column, name) for name in amount),
                    *(getattr(cell, name) for name in what),
                    *(len(cell.scores), cell.rank, against_best(cell, cells.values())),
                    *(cell.published or (None, None)),
                    cell.step_seconds,
                ]
                writer.writerow(["" if value is None else value for value in values])
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
    others = {column.dataset: None for table in found for column in table.columns}
    others = {name: None for name in others if name not in experiment.datasets}
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


def _marked(cell: Cell, best: str, second: str) -> str:
    text = score_text((cell.mean, cell.deviation))
    return text if cell.rank is None else (best if cell.rank == 1 else second).format(text)


def score_text(score: tuple[float, float | None] | None) -> str:
    """Return a mean and its deviation, if there is one, as text."""
    if score is None:
        return ""
    mean, deviation = score
    return f"{mean:.2f}" if deviation is None else f"{mean:.2f} ± {deviation:.2f}"


def _row(texts: Iterable[str]) -> str:
    return "| " + " | ".join(texts) + " |"

"""Scores and trials as tables, beside the published values where there are some."""

import shlex
from collections.abc import Sequence
from typing import Any

from dcs import experiments
from dcs.experiments._formats import experiment_title, remarks, score_text
from dcs.experiments._table import TITLES
from dcs.report._html import Markup, join, table, tag
from dcs.report._runs import Line, Run
from dcs.report._words import MEASURES, PROTOCOLS, ROWS


def scores_of(run: Run, labelled: bool | None) -> Markup:
    """All that is known of how good a run's features are.

    Args:
        run: The run.
        labelled: Whether its samples have labels, if that is known.
    """
    if not run.results:
        return _no_scores(run, labelled)
    return _experiment(run.results) if run.of_experiment else _evaluations(run.results)


def _no_scores(run: Run, labelled: bool | None) -> Markup:
    if run.shown_for is not None:
        return tag("p", "No scores yet: ", tag("code", "dcs reproduce"), " makes them.", class_="note")
    how = shlex.join(["dcs", "evaluate", str(run.folder)]) + ("" if labelled else " --labels FILE")
    if labelled:
        text = "makes them"
    else:
        known = (
            "The data has no labels" if labelled is False else "If the data has labels, leave --labels out"
        )
        text = f"makes them, where FILE is a .npy file or a text file with one label a line. {known}"
    when = "" if run.finished else "when the run has its network, "
    return tag("p", f"No scores yet: {when}", tag("code", how), f" {text}.", class_="note")


def _evaluations(lines: list[Line]) -> Markup:
    """What `dcs evaluate` measured, the newest last."""
    rows: list[list[object]] = [
        [
            line.get("protocol", ""),
            _percent(line.get("score")),
            line.get("dataset", ""),
            line.get("noise") or "none",
            line.get("epochs", ""),
            _further(line.get("metrics")),
        ]
        for line in lines
    ]
    heads = ["protocol", "score, %", "data", "noise", "epochs", "also measured"]
    found = {str(line.get("protocol")) for line in lines}
    meanings = [tag("li", tag("b", name), f": {text}") for name, text in PROTOCOLS.items() if name in found]
    return join(table(heads, rows, caption="Scores of this run"), tag("ul", *meanings, class_="meanings"))


def _experiment(lines: list[Line]) -> Markup:
    """The tables of the paper's experiments, and every trial."""
    parts = []
    for found in experiments.tables(lines):
        heads = ["method"]
        for column in found.columns:
            heads += [found.headings[column], "paper"]
        unranked = experiments.EXPERIMENTS[found.experiment].orientation
        rows: list[list[object]] = []
        for row in found.rows:
            cells: list[object] = [row]
            for inside in found.columns.values():
                cell = inside.get(row)
                if cell is None:
                    cells += ["", ""]
                    continue
                own = score_text((cell.mean, cell.deviation))
                mark = None if cell.rank is None else ("strong", "u")[cell.rank - 1]
                cells += [tag(mark, own) if mark else own, score_text(cell.published) or "–"]
            rows.append(cells)
        caption = f"{experiment_title([found])}. {TITLES[found.protocol]}: accuracy, %"
        notes = [tag("li", f"{found.headings[column]}: {text}") for column, text in remarks(found).items()]
        meaning = PROTOCOLS[found.protocol]
        parts.append(
            join(
                table(heads, rows, caption=caption, numbers_from=1),
                tag(
                    "ul",
                    tag("li", f"{TITLES[found.protocol]}: {meaning}."),
                    tag("li", _about_rows(found.rows, unranked)),
                    *notes,
                    class_="meanings",
                ),
            )
        )
    trials: list[list[object]] = [
        [
            line["method"],
            line["variant"],
            line["dataset"],
            f"{float(line['noise']):g}",
            line["protocol"],
            line["trial"],
            line["epochs"],
            _percent(line["score"]),
            _seconds(line.get("seconds")),
        ]
        for line in lines
    ]
    heads = ["method", "variant", "data", "noise", "protocol", "trial", "epochs", "score, %", "seconds"]
    whole = table(heads, trials, caption="Every trial", numbers_from=5)
    return join(*parts, tag("details", tag("summary", f"Every trial ({len(trials)})"), whole))


def _about_rows(rows: Sequence[str], unranked: Sequence[str]) -> str:
    """What is marked, and what the rows are that take no part in it."""
    methods = {row.partition(" (")[0] for row in rows}
    beside = [f"{name} ({ROWS[name]})" for name in unranked if name in methods]
    text = "Bold is the best of a column, underlined the second best; “paper” is the published value."
    return f"{text} For orientation only, and never marked: {', '.join(beside)}." if beside else text


def _percent(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, int | float) else "–"


def _seconds(value: Any) -> str:
    return f"{value:.0f}" if isinstance(value, int | float) else "–"


def _further(metrics: Any) -> str:
    if not isinstance(metrics, dict):
        return ""
    numbers = {name: value for name, value in metrics.items() if isinstance(value, int | float)}
    return ", ".join(
        f"{MEASURES.get(name, name.replace('_', ' '))} {value:.4g}" for name, value in numbers.items()
    )

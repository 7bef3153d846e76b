"""Scores and trials as tables, beside the published values where there are some."""

from typing import Any

from dcs import experiments
from dcs.experiments._table import TITLES, _heading, _remarks, _score
from dcs.report._html import Markup, join, table, tag
from dcs.report._runs import Line, Run
from dcs.report._words import PROTOCOLS


def scores_of(run: Run) -> Markup:
    """All that is known of how good a run's features are."""
    if not run.results:
        where = run.shown_for or run.folder
        how = "dcs reproduce" if run.shown_for else f"dcs evaluate {where.name}"
        return tag("p", "No scores yet: ", tag("code", how), " makes them.", class_="note")
    return _experiment(run.results) if run.of_experiment else _evaluations(run.results)


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
    heads = ["protocol", "score, %", "data", "noise", "epochs", "further"]
    found = {str(line.get("protocol")) for line in lines}
    meanings = [tag("li", tag("b", name), f": {text}") for name, text in PROTOCOLS.items() if name in found]
    return join(table(heads, rows, caption="Scores of this run"), tag("ul", *meanings, class_="meanings"))


def _experiment(lines: list[Line]) -> Markup:
    """The tables of the paper's experiments, and every trial."""
    parts = []
    for found in experiments.tables(lines):
        heads = ["method"]
        for column in found.columns:
            heads += [_heading(column), "paper"]
        rows: list[list[object]] = []
        for row in found.rows:
            cells: list[object] = [row]
            for inside in found.columns.values():
                cell = inside.get(row)
                if cell is None:
                    cells += ["", ""]
                    continue
                own = _score((cell.mean, cell.deviation))
                mark = {1: "strong", 2: "u"}.get(cell.rank or 0)
                cells += [tag(mark, own) if mark else own, _score(cell.published) or "–"]
            rows.append(cells)
        caption = f"{experiments.EXPERIMENTS[found.experiment].title}. {TITLES[found.protocol]}: accuracy, %"
        remarks = [tag("li", f"{_heading(column)}: {text}") for column, text in _remarks(found).items()]
        meaning = PROTOCOLS[found.protocol]
        parts.append(
            join(
                table(heads, rows, caption=caption, numbers_from=1),
                tag("ul", tag("li", f"{TITLES[found.protocol]}: {meaning}."), *remarks, class_="meanings"),
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


def _percent(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, int | float) else "–"


def _seconds(value: Any) -> str:
    return f"{value:.0f}" if isinstance(value, int | float) else "–"


def _further(metrics: Any) -> str:
    if not isinstance(metrics, dict):
        return ""
    numbers = {name: value for name, value in metrics.items() if isinstance(value, int | float)}
    return ", ".join(f"{name} {value:.4g}" for name, value in numbers.items())

"""The course of a training, for charts and for a table."""

from typing import Any

from dcs.report._html import Markup, table, tag
from dcs.report._runs import Run
from dcs.report._words import CHARTS, Chart

_POINTS = 1_000  # of a line
_ROWS = 200  # of the table


def charts_of(runs: list[Run]) -> list[dict[str, Any]]:
    """The charts of what the runs measured, for the page."""
    there = {
        name for run in runs for line in run.metrics for name, value in line.items() if value is not None
    }
    known = {name for chart in CHARTS for name, _ in chart.lines} | {
        chart.deviation for chart in CHARTS if chart.deviation
    }
    further = [
        Chart(name, "Measured in training.", ((name, name),)) for name in sorted(there - known - {"epoch"})
    ]
    objectives = {str(run.settings.get("objective")) for run in runs if run.metrics}
    apart = " Here losses of different kinds are side by side: compare their shapes, not their heights."
    return [
        {
            "title": chart.title,
            "meaning": chart.meaning + (apart if chart.title == "Loss" and len(objectives) > 1 else ""),
            "lines": [[name, called] for name, called in chart.lines if name in there],
            "deviation": chart.deviation if chart.deviation in there else None,
        }
        for chart in (*CHARTS, *further)
        if any(name in there for name, _ in chart.lines)
    ]


def lines_of(run: Run) -> dict[str, list[float | None]]:
    """The metrics of a run, each as one list; of very many epochs, some."""
    shown = _thinned(len(run.metrics), _POINTS)
    names = {name: None for line in run.metrics for name in line}
    lines = {name: [_short(run.metrics[row].get(name)) for row in shown] for name in names}
    return {**lines, "epoch": [row + 1 for row in shown]}


def table_of(run: Run) -> Markup | None:
    """The same as a table, for those who do not see the charts."""
    if not run.metrics:
        return None
    names = list({name: None for line in run.metrics for name in line if name != "epoch"})
    shown = _thinned(len(run.metrics), _ROWS)
    rows: list[list[object]] = [
        [row + 1, *(_digits(run.metrics[row].get(name)) for name in names)] for row in shown
    ]
    some = "" if len(shown) == len(run.metrics) else f", {len(shown)} of {len(run.metrics)} epochs"
    heads = ["epoch", *(name.replace("_", " ") for name in names)]
    whole = table(heads, rows, caption=f"{run.name}: all metrics{some}", numbers_from=1)
    return tag("details", tag("summary", f"{run.name}: the same numbers as a table"), whole)


def _thinned(n: int, most: int) -> list[int]:
    """Evenly spread rows, with the first and the last."""
    if n <= most:
        return list(range(n))
    return sorted({round(i * (n - 1) / (most - 1)) for i in range(most)})


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def _digits(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"

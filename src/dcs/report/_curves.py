"""Training curves: the charts of all runs, and their metrics as tables."""

from typing import Any, NamedTuple

from dcs.report._runs import ReportedRun
from dcs.report._templates import PageTable

_POINTS = 1_000  # per line
_ROWS = 200  # per table
_OF_VERSION = (
    " If each sample is split into two noisier versions, the value is that of such a version, which is lower "
    "than that of the sample."
)


class MetricChart(NamedTuple):
    """Metrics that are drawn together."""

    title: str
    meaning: str
    lines: tuple[tuple[str, str], ...]  # metrics, and their names in the chart
    deviation: str | None = None  # metric that makes a band around the first line


CHARTS = (
    MetricChart(
        "Loss",
        "The quantity that training minimises. It should fall and then level off. If the loss of held-out "
        "samples rises while the training loss still falls, the network is overfitted.",
        (("loss", "training"), ("validation_loss", "held out")),
    ),
    MetricChart("Learning rate", "Step size of the optimiser.", (("learning_rate", "rate"),)),
    MetricChart(
        "Expected cosine (k)",
        "The cosine similarity to expect between a noisy sample and its clean version, estimated from the "
        f"data alone: 1 without noise, 0 for noise alone.{_OF_VERSION} It is measured on the same samples "
        "after each epoch, so the line is often level. The band is the standard deviation over samples.",
        (("k", "k"),),
        "k_deviation",
    ),
    MetricChart(
        "Signal-to-noise ratio",
        "Strength of the signal divided by that of the noise, estimated from the data alone: at 1 both are "
        f"equally strong, above 10 the noise is negligible.{_OF_VERSION}",
        (("snr", "SNR"),),
        "snr_deviation",
    ),
    MetricChart(
        "Feature spread (collapse)",
        "1 if the features point in all directions, 0 if they are the same for all samples. It is always "
        "small early in training. If it stays near 0, the network has collapsed: it returns the same for "
        "every sample and has learned nothing.",
        (("feature_spread", "features"), ("projection_spread", "projections")),
    ),
    MetricChart(
        "Share of very noisy samples",
        "The loss weights each sample by its k, but never by less than a lower limit. This is the share of "
        "samples whose k is below the limit; near 1, the data is almost entirely noise.",
        (("floored", "share"),),
    ),
    MetricChart(
        "Gradient norm",
        "Size of the gradient of the loss. Sudden peaks indicate unstable training.",
        (("gradient_norm", "norm"),),
    ),
    MetricChart("Speed", "Samples per second.", (("samples_per_second", "samples/s"),)),
)


def charts_of(runs: list[ReportedRun]) -> list[dict[str, Any]]:
    """Return the charts of what the runs measured, for the script of the page."""
    lines = [line for run in runs for line in run.metrics]
    there = {name for line in lines for name, value in line.items() if value is not None}
    known = {name for chart in CHARTS for name in (*dict(chart.lines), chart.deviation)} | {"epoch"}
    further = [MetricChart(name, "Measured in training.", ((name, name),)) for name in sorted(there - known)]
    objectives = {run.record.training.objective for run in runs if run.record and run.metrics}
    apart = " These are losses of different objectives: compare their shapes, not their values."
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


def lines_of(run: ReportedRun) -> dict[str, list[float | None]]:
    """Return each metric of a run as one list, thinned if there are very many epochs."""
    shown = thinned(len(run.metrics), _POINTS)
    names = {name: None for line in run.metrics for name in line}
    values = {name: [run.metrics[row].get(name) for row in shown] for name in names}
    lines = {name: [None if x is None else float(f"{x:.6g}") for x in xs] for name, xs in values.items()}
    return {**lines, "epoch": [row + 1 for row in shown]}


def table_of(run: ReportedRun) -> PageTable:
    """Return the metrics of a run as a table, for readers who cannot see the charts."""
    names = list({name: None for line in run.metrics for name in line if name != "epoch"})
    shown = thinned(len(run.metrics), _ROWS)
    rows = []
    for row in shown:
        values = [run.metrics[row].get(name) for name in names]
        rows.append([row + 1, *("" if value is None else f"{value:.4g}" for value in values)])
    some = "" if len(shown) == len(run.metrics) else f", {len(shown)} of {len(run.metrics)} epochs"
    heads = ["epoch", *(name.replace("_", " ") for name in names)]
    return PageTable(f"{run.name}: all metrics{some}", heads, rows, numbers_from=1)


def thinned(n: int, most: int) -> list[int]:
    """Return at most `most` evenly spread rows of `n`, including the first and the last."""
    if n <= most:
        return list(range(n))
    return sorted({round(i * (n - 1) / (most - 1)) for i in range(most)})

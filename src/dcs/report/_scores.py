"""Scores and trials as tables, next to the published values where there are any."""

from collections.abc import Sequence
from typing import Any

from dcs import evaluation, experiments
from dcs.report._runs import Line, ReportedRun
from dcs.report._templates import PageTable, RankedCell

MEASURES = {
    "train_accuracy": "accuracy on the training samples of the classifier, %:",
    "nmi": "normalised mutual information of clusters and classes (NMI), %:",
    "ari": "adjusted Rand index of clusters and classes (ARI), %:",
    "psnr": "PSNR, dB:",
    "si_snr": "SI-SNR, dB:",
    "ssim": "SSIM:",
}
ROWS = {
    "pca": "principal components of the data",
    "untrained": "the network with its random initial weights",
    "oracle": "trained with the clean samples, which no method has",
    "supervised": "trained with labels",
    "log-mel statistics": "means and standard deviations of the spectrogram",
}


def tables_of(run: ReportedRun) -> list[PageTable]:
    """Return the scores of a run, or the paper's tables of an experiment."""
    if run.of_experiment:
        return [_published(found) for found in experiments.tables(run.results)]
    return [_evaluations(run.results)] if run.results else []


def trials_of(run: ReportedRun) -> PageTable | None:
    """Return all trials of an experiment."""
    if not run.of_experiment or not run.results:
        return None
    names = ["method", "variant", "dataset", "noise", "protocol", "trial", "epochs"]
    rows = []
    for line in run.results:
        cells = {**line, "noise": f"{float(line['noise']):g}"}
        scored = _digits(line["score"], 2), _digits(line.get("seconds"), 0)
        rows.append([*(cells[name] for name in names), *scored])
    names[2] = "data"
    return PageTable(f"All trials ({len(rows)})", [*names, "score, %", "seconds"], rows, numbers_from=5)


def describe_protocol(name: str) -> str:
    """Describe a protocol in a sentence; empty if it is unknown."""
    return sentence(evaluation.PROTOCOLS[name].summary) if name in evaluation.PROTOCOLS else ""


def sentence(text: str) -> str:
    """Return a summary with a full stop, unless it is empty."""
    return text and f"{text.rstrip('.')}."


def newest(run: ReportedRun) -> list[str]:
    """Return the newest score of each protocol, for a run that is not part of an experiment."""
    found = {} if run.of_experiment else {line.get("protocol"): line.get("score") for line in run.results}
    return [f"{name} {score:.1f} %" for name, score in found.items() if isinstance(score, int | float)]


def _evaluations(lines: list[Line]) -> PageTable:
    """Return what `dcs evaluate` measured, the newest last."""
    rows = [
        [
            line.get("protocol", ""),
            _digits(line.get("score"), 2),
            line.get("dataset", ""),
            line.get("noise") or "none",
            line.get("epochs", ""),
            _further(line.get("metrics")),
        ]
        for line in lines
    ]
    heads = ["protocol", "score, %", "data", "noise", "epochs", "other metrics"]
    names = dict.fromkeys(str(row[0]) for row in rows)
    notes = [(name, text) for name in names if (text := describe_protocol(name))]
    return PageTable("Scores of this run", heads, rows, notes=notes)


def _published(found: experiments.Table) -> PageTable:
    """Return a table of an experiment next to the published values."""
    heads = ["method", *(name for column in found.columns for name in (found.headings[column], "paper"))]
    columns = found.columns.values()
    rows = [[row, *(cell for column in columns for cell in _cells(column.get(row)))] for row in found.rows]
    title, meaning = found.title, describe_protocol(found.protocol)
    unranked = experiments.EXPERIMENTS[found.experiment].orientation
    notes = [(title, meaning)] if meaning else []
    notes += [("", _about_rows(found.rows, unranked))]
    notes += [(found.headings[column], text) for column, text in experiments.remarks(found).items()]
    return PageTable(f"{experiments.experiment_title([found])}. {title}: accuracy, %", heads, rows, 1, notes)


def _cells(cell: Any) -> tuple[object, object]:
    """Return the score in a cell of an experiment's table, and the published one."""
    if cell is None:
        return "", ""
    own = RankedCell(experiments.score_text((cell.mean, cell.deviation)), cell.rank)
    return own, experiments.score_text(cell.published) or "–"


def _about_rows(rows: Sequence[str], unranked: Sequence[str]) -> str:
    """Explain the marks, and the rows that are never marked."""
    methods = {row.partition(" (")[0] for row in rows}
    beside = [f"{name} ({ROWS[name]})" for name in unranked if name in methods]
    text = "Bold is the best of a column, underlined the second best; “paper” is the published value."
    return f"{text} For orientation only, and never marked: {', '.join(beside)}." if beside else text


def _further(metrics: Any) -> str:
    """Return what was measured besides the score."""
    found = metrics.items() if isinstance(metrics, dict) else ()
    numbers = [(MEASURES.get(name, name.replace("_", " ")), value) for name, value in found]
    return ", ".join(f"{name} {value:.4g}" for name, value in numbers if isinstance(value, int | float))


def _digits(value: Any, after_point: int) -> str:
    return f"{value:.{after_point}f}" if isinstance(value, int | float) else "–"

"""The report page: what its template shows of each run, and the data that its scripts draw."""

import math
import shlex
from pathlib import Path
from typing import Any

import dcs
from dcs import models
from dcs.report._curves import charts_of, lines_of, table_of
from dcs.report._descriptions import describe_network, describe_objective, is_split
from dcs.report._pictures import Sheets
from dcs.report._runs import ReportedRun
from dcs.report._scores import newest, tables_of, trials_of
from dcs.report._templates import PageTable, render
from dcs.runs import RunRecord
from dcs.training.meters import COLLAPSED, FEW_STEPS

GENERATOR = "dcs-learn report"
_SCRIPTS = ("base.js", "curves.js", "strips.js", "map.js", "map_tools.js")
_LONGEST = 10_000  # characters of a setting
Json = dict[str, Any]


def page_of(runs: list[ReportedRun], sheets: dict[str, Sheets]) -> str:
    """Return the page as text.

    Args:
        runs: Runs to show.
        sheets: Pictures of all maps, by their key.
    """
    cards: list[Json] = [{"number": number, "run": run, **_described(run)} for number, run in enumerate(runs)]
    drawn = []
    for run in runs:
        strips, map_ = (None, None) if run.gallery is None else (run.gallery.strips, run.gallery.map)
        drawn.append({"name": run.name, "lines": lines_of(run), "strips": strips, "map": map_})
    return render(
        "report.html",
        generator=GENERATOR,
        scripts=_SCRIPTS,
        made_by=f"dcs-learn {dcs.__version__}",
        title=", ".join(run.name for run in runs),
        cards=cards,
        measured=[card for card in cards if card["metrics"]],
        playable=[card for card in cards if card["run"].gallery and card["run"].gallery.sounds],
        collapsed=COLLAPSED,
        data={"charts": charts_of(runs), "runs": drawn, "sheets": sheets},
    )


def _described(run: ReportedRun) -> Json:
    """Return what the template shows of a run."""
    shown = {
        "metrics": table_of(run) if run.metrics else None,
        "scores": newest(run),
        "tables": tables_of(run),
        "trials": trials_of(run),
    }
    if run.record is None:
        return shown
    training, settings = run.record.training, _flat(run.record.plain())
    features = training.n_components if run.gallery is None else run.gallery.map["features"]
    if run.gallery is None and training.network in models.NETWORKS:
        features = features if models.default_components(training.network) else None  # they are fixed
    return {
        **shown,
        "network": describe_network(training.network),
        "meaning": describe_objective(training.objective, run.objective),
        "split": is_split(run.objective),
        "features": features,
        "early": not run.finished or _steps(run.record, len(run.metrics)) < FEW_STEPS,
        "resume": _resume_command(run.record, run.folder),
        "evaluate": shlex.join(["dcs", "evaluate", str(run.folder)]),
        "settings": PageTable(f"Settings and versions of {run.name}", ["setting", "value"], settings),
    }


def _resume_command(record: RunRecord, folder: Path) -> str:
    """Return the command that resumes a run; the training settings are in its directory."""
    if record.trial is not None:
        return "the same dcs reproduce command"
    if record.source is None:
        return ""
    options = record.source.as_options()
    return shlex.join(["dcs", "fit", record.source.data, "--out", str(folder), "--resume", *options])


def _steps(record: RunRecord, epochs: int) -> int:
    """Estimate how many steps training took."""
    learned_from = (record.samples or 1) * (1 - record.training.validation)
    return epochs * math.ceil(learned_from / record.training.batch_size)


def _flat(config: Json, before: str = "") -> list[tuple[str, str]]:
    """Return settings by their full name; very long values are shortened."""
    rows: list[tuple[str, str]] = []
    for name, value in config.items():
        if isinstance(value, dict) and value:
            rows += _flat(value, f"{before}{name}.")
        else:
            text = str(value)
            rows.append((f"{before}{name}", text if len(text) <= _LONGEST else text[:_LONGEST] + "…"))
    return rows

"""The report page: what its template shows of each run, and the data that its scripts draw."""

import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dcs
from dcs import models, objectives
from dcs.report._curves import charts_of, lines_of, table_of
from dcs.report._pictures import Sheets
from dcs.report._runs import ReportedRun
from dcs.report._scores import newest, sentence, tables_of, trials_of
from dcs.report._templates import PageTable, render
from dcs.runs import RunRecord
from dcs.training.meters import COLLAPSED, FEW_STEPS

GENERATOR = "dcs-learn report"
_SCRIPTS = ("base.js", "curves.js", "strips.js", "map.js", "map_tools.js")
_LONGEST = 10_000  # characters of a setting
_ONLY_SIGNAL = "Only the signal can be predicted in this way, the noise cannot."
_SPLIT = (
    "Each sample is split into two noisier versions with independent noise, and the network predicts one "
    f"from the other. {_ONLY_SIGNAL}"
)
_MASKED = (
    f"Some values of each sample are masked, and the network predicts them from the others. {_ONLY_SIGNAL}"
)
_ANY_SCALE = "The overall brightness or loudness of a prediction does not count."
Json = dict[str, Any]


def page_of(runs: list[ReportedRun], sheets: dict[str, Sheets]) -> str:
    """Return the page as text.

    Args:
        runs: Runs to show.
        sheets: Pictures of all maps, by their key.
    """
    cards: list[Json] = [{"number": number, "run": run, **_described(run)} for number, run in enumerate(runs)]
    drawn = [
        {
            "name": run.name,
            "lines": lines_of(run),
            "strips": run.gallery and run.gallery.strips,
            "map": run.gallery and run.gallery.map,
        }
        for run in runs
    ]
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
    learned_from = (run.record.samples or 1) * (1 - training.validation)
    steps = len(run.metrics) * math.ceil(learned_from / training.batch_size)
    return {
        **shown,
        "network": describe_network(training.network),
        "meaning": describe_objective(training.objective, run.objective),
        "split": is_split(run.objective),
        "features": features,
        "early": not run.finished or steps < FEW_STEPS,
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


def describe_objective(name: str, described: Mapping[str, Any] | None = None) -> str:
    """Describe an objective and its views in sentences; empty if nothing is known.

    Args:
        name: Name of the objective.
        described: What `Objective.describe` returned after training, if known.
    """
    sentences, scale_free = [], False
    if name in objectives.names():
        parts = objectives.parse(name)
        compares = objectives.OBJECTIVES[parts.regulariser or parts.base].factory
        sentences, scale_free = [sentence(parts.summary)], getattr(compares, "scale_free", False)
    part = _comparing(described)
    view = part.get("view") or {}
    masks = "view" in part and (not view or "rho" in view)
    if masks or is_split(described):
        sentences += [_MASKED if masks else _SPLIT, _ANY_SCALE if scale_free else ""]
    if not masks and is_split(described) and view.get("chosen"):
        normalised = described and described.get("normalised")
        data = "the images after colour normalisation" if normalised else "the data"
        sentences.append(f"The split uses a noise level of σ = {view['sigma']:.3g}, estimated from {data}.")
    return " ".join(filter(None, sentences))


def is_split(described: Mapping[str, Any] | None) -> bool:
    """Return whether an objective, or its regulariser, splits samples into two noisier versions."""
    return (_comparing(described).get("view") or {}).get("kind") == "split"


def describe_network(name: str) -> str:
    """Describe a network in a few words, with its name."""
    if name not in models.NETWORKS:
        return f"The network {name}" if name != "custom" else "A custom network"
    return f"The network {name} ({models.NETWORKS[name].summary.rstrip('.')})"


def _comparing(described: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the description of what compares samples: the objective, or the regulariser of another one."""
    described = described or {}
    return described.get("regulariser", described) or {}

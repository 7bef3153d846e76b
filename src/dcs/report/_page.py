"""The report page: what its template shows of each run, and the data that its scripts draw."""

import math
import shlex
from typing import Any

import dcs
from dcs.objectives import SELF_SUPERVISED
from dcs.report._curves import charts_of, lines_of, table_of
from dcs.report._descriptions import describe_network, describe_objective
from dcs.report._pictures import Sheets
from dcs.report._runs import Run
from dcs.report._samples import Looked
from dcs.report._scores import newest, tables_of, trials_of
from dcs.report._templates import Table, render
from dcs.training.meters import COLLAPSED, FEW_STEPS

GENERATOR = "dcs-learn report"
_SCRIPTS = ("base.js", "curves.js", "strips.js", "map.js", "map_tools.js")
_LONGEST = 10_000  # characters of a setting
Json = dict[str, Any]


def page_of(runs: list[Run], looked: list[Looked | None], notes: list[str], sheets: dict[str, Sheets]) -> str:
    """Return the page as text.

    Args:
        runs: Runs to show.
        looked: What is known of the samples of each run; None if nothing is.
        notes: Remarks on the samples of each run, or the reason why they are not shown.
        sheets: Pictures of all maps, by their key.
    """
    cards: list[Json] = [
        {"number": number, "run": run, "note": note, **_described(run, found), **_shown(found)}
        for number, (run, found, note) in enumerate(zip(runs, looked, notes, strict=True))
    ]
    drawn = [
        {"name": run.name, "lines": lines_of(run), "strips": card["strips"], "map": card["map"]}
        for run, card in zip(runs, cards, strict=True)
    ]
    return render(
        "report.html",
        generator=GENERATOR,
        scripts=_SCRIPTS,
        made_by=f"dcs-learn {dcs.__version__}",
        title=", ".join(run.name for run in runs),
        cards=cards,
        measured=[card for card in cards if card["metrics"]],
        heard=[card for card in cards if card["sounds"]],
        collapsed=COLLAPSED,
        data={"charts": charts_of(runs), "runs": drawn, "sheets": sheets},
    )


def _described(run: Run, found: Looked | None) -> Json:
    """Return what is known from the directory of a run."""
    settings, about = run.settings, _about(run)
    objective, network = str(settings.get("objective") or "custom"), settings.get("network")
    features = None if found is None else found.map["features"]
    if features is None and not objective.startswith(tuple(SELF_SUPERVISED)):  # whose networks have their own
        features = settings.get("n_components")
    return {
        "network": f"{describe_network(str(network))} ({network})" if network else "custom network",
        "objective": objective,
        "meaning": describe_objective(objective, run.views),
        "features": features,
        **{name: about.get(name) for name in ("samples", "source", "noise")},
        "early": not run.finished or _steps(run) < FEW_STEPS,
        "resume": _resume_command(run),
        "evaluate": shlex.join(["dcs", "evaluate", str(run.folder)]),
        "settings": Table(f"Settings and versions of {run.name}", ["setting", "value"], _flat(run.config)),
        "metrics": table_of(run) if run.metrics else None,
        "scores": newest(run),
        "tables": tables_of(run),
        "trials": trials_of(run),
    }


def _shown(found: Looked | None) -> Json:
    """Return what is known from the samples of a run."""
    if found is None:
        return dict.fromkeys(("labelled", "strips", "map", "sounds", "cosines"))
    strips = found.strips or {}
    return {
        "labelled": found.map["labels"] is not None,
        "strips": found.strips,
        "map": {**found.map, "sheets": found.key},
        "sounds": found.sounds,
        "cosines": strips.get("mean_cosines"),
        "compared": strips.get("compared"),
    }


def _about(run: Run) -> Json:
    """Return what the run says about its data."""
    about = run.config.get("data")
    return about if isinstance(about, dict) else {}


def _resume_command(run: Run) -> str:
    """Return the command that resumes a run; the training settings are in its directory."""
    about = _about(run)
    if not about.get("source"):
        return ""
    if "method" in run.config:
        return "the same dcs reproduce command"
    asked = {"noise": about.get("noise"), "data-seed": about.get("seed"), "root": about.get("root")}
    asked |= {name: about.get(name) for name in ("label", "size", "rate", "hop")}
    asked["mixed"] = None if about.get("mixed") == "error" else about.get("mixed")
    options = [f"--{name}={value}" for name, value in asked.items() if value is not None]
    options += ["--skip-bad"] if about.get("skipped") else []
    return shlex.join(["dcs", "fit", str(about["source"]), "--out", str(run.folder), "--resume", *options])


def _steps(run: Run) -> int:
    """Estimate how many steps training took."""
    samples, size = _about(run).get("samples"), run.settings.get("batch_size")
    if not isinstance(samples, int) or not isinstance(size, int) or size < 1:
        return len(run.metrics)
    return len(run.metrics) * math.ceil(samples * (1 - (run.settings.get("validation") or 0)) / size)


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

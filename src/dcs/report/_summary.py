"""What a run is and how it went, in sentences."""

import math
import shlex
from typing import Any

from dcs.objectives import SELF_SUPERVISED
from dcs.report._html import Markup, table, tag
from dcs.report._runs import Run
from dcs.report._samples import Looked
from dcs.report._words import NETWORKS, describe_objective
from dcs.training.meters import COLLAPSED, FEW_STEPS
from dcs.training.run import METRICS, MODEL

Json = dict[str, Any]
_CLEAR = 2  # times the spread of features that have collapsed: nearer to it, nothing is sure


def summary_of(run: Run, found: Looked | None) -> Markup:
    """The card of a run, with what was found of its samples."""
    strips, features = (None, None) if found is None else (found.strips, found.map["features"])
    findings = [tag("li", text) for text in [*_course(run), *_denoising(strips), *_best(run)]]
    done = "finished" if run.finished else "unfinished"
    badge = tag("span", "network missing" if run.lost else done, class_=f"badge {done}")
    # How many trials of an experiment were planned is not known.
    parts = [
        tag("h3", tag("span", run.name, class_="name"), " ", badge if run.shown_for is None else None),
        tag("p", _sentence(run, features)),
        *(tag("p", text, class_="note") for text in run.remarks),
        tag("ul", *findings) if findings else None,
    ]
    if run.config:
        settings: list[list[object]] = [[name, value] for name, value in _flat(run.config)]
        whole = table(["setting", "value"], settings, caption=f"Settings and versions of {run.name}")
        parts.append(tag("details", tag("summary", "All settings and versions"), whole))
    return tag("article", *parts, class_="card")


def _sentence(run: Run, features: int | None) -> str:
    settings, about = run.settings, run.config.get("data")
    about = about if isinstance(about, dict) else {}
    before = ""
    if run.shown_for is not None:
        before = f"An experiment with {_count(len(run.results), 'trial')} so far. "
        if not run.config:
            return before + "It has no training to show yet."
        before += f"Of its trainings, this page shows {run.folder.name}. "
    objective = str(settings.get("objective", "one of its own"))
    network = settings.get("network")
    if features is None and not objective.startswith(tuple(SELF_SUPERVISED)):  # whose networks have their own
        features = settings.get("n_components")
    known = NETWORKS.get(str(network))
    built = f"{known or 'network'} ({network or 'one of its own'})"
    many = _count(features, "feature") if isinstance(features, int) else "features"
    learnt_from, source = about.get("samples"), about.get("source")
    samples = _count(learnt_from, "sample") if isinstance(learnt_from, int) else "samples"
    what = f" of {source}" if source else ""
    noise = about.get("noise")
    added = f", to which noise was added ({noise})" if noise else ""
    meaning = describe_objective(objective, run.views)
    return (
        f"{before}A {built} learnt {many} of a sample, without labels, from {samples}{what}{added}. Its "
        f"objective was {objective}{f': {meaning}' if meaning else ''}."
    )


def _course(run: Run) -> list[str]:
    """The training in short, by its first and last epoch."""
    if not run.config:
        return []
    if not run.metrics:
        return [_without_metrics(run)]
    first, last, count = run.metrics[0], run.metrics[-1], len(run.metrics)
    found = [] if run.finished else [_unfinished(run)]
    before, after = first.get("loss"), last.get("loss")
    if before is not None and after is not None:
        word = "fell" if after < before else "did not fall: it went"
        course = f"{word} from {before:.4g} to {after:.4g} in {count} epochs"
        found.append(f"The loss {course if count > 1 else f'was {after:.4g} in the only epoch'}.")
    for what in ("feature", "projection"):
        spread = last.get(f"{what}_spread")
        if spread is not None:
            verdict = _verdict(spread, early=not run.finished or _steps(run) < FEW_STEPS)
            found.append(
                f"The {what}s have a spread of {spread:.3g} (0: all alike, 1: everywhere): {verdict}."
            )
    k = last.get("k")
    if k is not None:
        split = run.views is not None and run.views.split
        where = "the noisier versions that were made of samples" if split else "the samples"
        found.append(f"In {where}, k is about {k:.2f} (1: no noise, 0: nothing but noise).")
    return found


def _without_metrics(run: Run) -> str:
    if not run.finished and not run.lost:
        return f"No epoch is finished yet.{_going_on(run)}"
    if run.settings.get("max_epochs") == 0:
        return "It was not trained."
    return f"How training went is not known: {METRICS} is empty or missing."


def _unfinished(run: Run) -> str:
    """Why there is no network, and what makes one."""
    count, wanted = len(run.metrics), run.settings.get("max_epochs")
    if run.lost:
        return f"It was finished after {_count(count, 'epoch')}, but its network is gone: {MODEL} is missing."
    of = f" of {wanted}" if wanted else ""
    text = f"It is not finished: {count}{of} epochs are there."
    if count == wanted:
        text = (
            f"All epochs ({count}) are there, but not the network ({MODEL}): the end of training is missing."
        )
    return text + _going_on(run)


def _going_on(run: Run) -> str:
    """The command that goes on, if it is known, and what it does."""
    command = _resume(run)
    does = "goes on" if run.saved else "begins anew, as there is no checkpoint yet"
    return f" If it was stopped, {command} {does}." if command else ""


def _resume(run: Run) -> str:
    """The command that goes on with a run of `dcs fit`; training settings are in its directory."""
    about = run.config.get("data")
    if not isinstance(about, dict) or not about.get("source"):
        return ""
    if "method" in run.config:
        return "dcs reproduce, called as before,"
    asked = {"noise": about.get("noise"), "data-seed": about.get("seed"), "root": about.get("root")}
    asked |= {name: about.get(name) for name in ("label", "size", "rate", "hop")}
    asked["mixed"] = None if about.get("mixed") == "error" else about.get("mixed")
    options = [f"--{name}={value}" for name, value in asked.items() if value is not None]
    options += ["--skip-bad"] if about.get("skipped") else []
    return shlex.join(["dcs", "fit", str(about["source"]), "--out", str(run.folder), "--resume", *options])


def _verdict(spread: float, *, early: bool) -> str:
    """As `dcs.training.meters.concerns` has it; but early in training the spread is always small."""
    if spread >= _CLEAR * COLLAPSED:
        return "they tell samples apart, and have not collapsed"
    if spread >= COLLAPSED:
        return (
            f"they hardly tell samples apart{' yet' if early else ''}; below {COLLAPSED:g} they are all alike"
        )
    if early:
        return (
            "they are not spread out yet, as is usual early in training; if that does not change with more "
            "epochs, the network has learnt nothing, and dcs inspect may say why"
        )
    return f"below {COLLAPSED:g} they have collapsed, and tell samples apart no longer"


def _steps(run: Run) -> int:
    """About how many steps training took."""
    about, settings = run.config.get("data"), run.settings
    samples = about.get("samples") if isinstance(about, dict) else None
    size, held_out = settings.get("batch_size"), settings.get("validation") or 0
    if not isinstance(samples, int) or not isinstance(size, int) or size < 1:
        return len(run.metrics)
    return len(run.metrics) * math.ceil(samples * (1 - held_out) / size)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _denoising(strips: Json | None) -> list[str]:
    if strips is None or strips["cosines"] is None:
        return []
    noisy, denoised = strips["mean_cosines"]
    word = "nearer" if denoised > noisy else "no nearer"
    return [
        f"Denoised samples are {word} to the clean ones: the cosine goes from {noisy:.3f} to {denoised:.3f} "
        f"(mean of {_count(strips['compared'], 'sample')})."
    ]


def _best(run: Run) -> list[str]:
    """The newest score of each protocol, of a run that was evaluated."""
    if run.of_experiment:
        return []
    newest = {str(line.get("protocol")): line.get("score") for line in run.results}
    scores = [f"{name} {score:.1f} %" for name, score in newest.items() if isinstance(score, int | float)]
    return [f"Scores: {', '.join(scores)}."] if scores else []


def _flat(config: Json, before: str = "") -> list[tuple[str, str]]:
    """Settings by their full name; long lists are shortened."""
    rows: list[tuple[str, str]] = []
    for name, value in config.items():
        if isinstance(value, dict) and value:
            rows += _flat(value, f"{before}{name}.")
        else:
            text = str(value)
            rows.append((f"{before}{name}", text if len(text) <= 10_000 else text[:10_000] + "…"))
    return rows

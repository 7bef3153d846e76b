"""What a run is and how it went, in sentences."""

from typing import Any

from dcs.report._html import Markup, table, tag
from dcs.report._runs import Run
from dcs.report._words import OBJECTIVES
from dcs.training.meters import COLLAPSED

Json = dict[str, Any]


def summary_of(run: Run, strips: Json | None) -> Markup:
    """The card of a run."""
    findings = [tag("li", text) for text in [*_course(run), *_denoising(strips), *_best(run)]]
    done = "finished" if run.finished else "unfinished"
    badge = tag("span", done, class_=f"badge {done}")
    parts = [
        tag("h3", tag("span", run.name, class_="name"), " ", badge),
        tag("p", _sentence(run)),
        tag("ul", *findings) if findings else None,
    ]
    if run.config:
        settings: list[list[object]] = [[name, value] for name, value in _flat(run.config)]
        whole = table(["setting", "value"], settings, caption=f"Settings and versions of {run.name}")
        parts.append(tag("details", tag("summary", "All settings and versions"), whole))
    return tag("article", *parts, class_="card")


def _sentence(run: Run) -> str:
    settings, about = run.settings, run.config.get("data")
    about = about if isinstance(about, dict) else {}
    before = ""
    if run.shown_for is not None:
        count = len(run.results)
        before = f"An experiment of {count} {'trial' if count == 1 else 'trials'}. "
        if not run.config:
            return before + "It has no training to show yet."
        before += f"Of its trainings, this page shows {run.folder.name}. "
    objective = str(settings.get("objective", "one of its own"))
    network, features = settings.get("network", "one of its own"), settings.get("n_components", "some")
    learnt_from, source = about.get("samples"), about.get("source")
    samples = f"{learnt_from:,} samples" if isinstance(learnt_from, int) else "samples"
    what = f" of {source}" if source else ""
    noise = about.get("noise")
    added = f", to which noise was added ({noise})" if noise else ""
    meaning = f": {OBJECTIVES[objective]}" if objective in OBJECTIVES else ""
    return (
        f"{before}A network ({network}) learnt {features} features of a sample, without labels, from "
        f"{samples}{what}{added}. Its objective was {objective}{meaning}."
    )


def _course(run: Run) -> list[str]:
    """The training in short, by its first and last epoch."""
    if not run.metrics:
        said = "It was not trained." if run.finished else "No epoch is finished yet."
        return [said] if run.config else []
    first, last, count = run.metrics[0], run.metrics[-1], len(run.metrics)
    found = []
    if not run.finished:
        wanted = run.settings.get("max_epochs")
        of = f" of {wanted}" if wanted else ""
        found.append(f"It is not finished: {count}{of} epochs are there. dcs fit --resume goes on.")
    before, after = first.get("loss"), last.get("loss")
    if before is not None and after is not None:
        word = "fell" if after < before else "did not fall: it went"
        found.append(f"The loss {word} from {before:.4g} to {after:.4g} in {count} epochs.")
    spread, k = last.get("feature_spread"), last.get("k")
    if spread is not None:
        verdict = "they have collapsed, and tell samples apart no longer"
        if spread > COLLAPSED:
            verdict = "they tell samples apart, and have not collapsed"
        found.append(f"The features have a spread of {spread:.2f} (0: all alike, 1: everywhere): {verdict}.")
    if k is not None:
        found.append(
            f"Noisy and clean samples have a cosine of about {k:.2f} (k; 1: no noise, 0: nothing but noise)."
        )
    return found


def _denoising(strips: Json | None) -> list[str]:
    if strips is None or strips["cosines"] is None:
        return []
    noisy, denoised = strips["mean_cosines"]
    word = "nearer" if denoised > noisy else "no nearer"
    return [
        f"Denoised samples are {word} to the clean ones: the cosine goes from {noisy:.3f} to {denoised:.3f} "
        f"(mean of {strips['compared']} samples)."
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

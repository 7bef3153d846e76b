"""The page: headings, words and tables in HTML, the rest as data for its script."""

import base64
import hashlib
from importlib.resources import files
from typing import Any

import dcs
from dcs.report._curves import charts_of, lines_of, table_of
from dcs.report._html import Markup, embed_json, join, tag
from dcs.report._runs import Run
from dcs.report._samples import Json, Looked
from dcs.report._sheets import Sheets
from dcs.report._summary import summary_of
from dcs.report._tables import scores_of
from dcs.report._words import WORDS

GENERATOR = "dcs-learn report"
_SCRIPTS = ("base.js", "curves.js", "strips.js", "map.js", "map_tools.js")
_HEADINGS = {
    "summary": ("Summary", "What was trained, on what, and how it went."),
    "training": (
        "Training",
        "How numbers changed from epoch to epoch, each epoch being one pass through the data. Point at a "
        "chart, or focus it and use the arrow keys, to read values.",
    ),
    "denoising": (
        "Denoising",
        "Some samples as they are, and what the network makes of them. A good network takes the noise away "
        "and keeps the shapes; a bad one blurs, or shows the same for all.",
    ),
    "map": (
        "Map of the features",
        "Each point is one sample; samples with similar features lie together. Look for separate islands of "
        "one colour: the network then tells these kinds apart without ever having been told.",
    ),
    "scores": (
        "Scores",
        "How useful the features are, measured with labels that training never saw. Higher is better; 100 is "
        "perfect. Compare with the same measure only.",
    ),
    "recordings": ("Recordings", "Some recordings to listen to."),
    "words": ("Words", "What words on this page mean."),
}
_NO_DENOISING = (
    "This network was trained to give features, and predicts no samples: there is nothing to denoise with. "
    "The map shows its features."
)


def page_of(runs: list[Run], looked: list[Looked | None], notes: list[str], sheets: dict[str, Sheets]) -> str:
    """The whole page.

    Args:
        runs: What it is about.
        looked: What was found of the samples of each; None where there is nothing.
        notes: Why not, of each; or what is to be said of the samples.
        sheets: The pictures of all maps, by their key.
    """
    bodies: dict[str, Markup | None] = {
        "summary": _columns([summary_of(run, found) for run, found in zip(runs, looked, strict=True)]),
        "training": _training(runs),
        "denoising": _columns(_cards("strips", runs, looked, notes)),
        "map": _columns(_cards("map", runs, looked, notes)),
        "scores": _columns(
            [
                tag("article", _title(runs, run), scores_of(run, _labelled(found)), class_="card")
                for run, found in zip(runs, looked, strict=True)
            ]
        ),
        "recordings": _recordings(runs, looked),
        "words": tag("dl", *(join(tag("dt", word), tag("dd", text)) for word, text in WORDS.items())),
    }
    shown = {name: body for name, body in bodies.items() if body is not None}
    sections = [
        tag(
            "section",
            tag("h2", _HEADINGS[name][0], id=f"{name}-title"),
            tag("p", _HEADINGS[name][1], class_="meaning"),
            body,
            id=name,
            aria_labelledby=f"{name}-title",
        )
        for name, body in shown.items()
    ]
    links = [tag("a", _HEADINGS[name][0], href=f"#{name}") for name in shown]
    title = ", ".join(run.name for run in runs)
    top = tag(
        "header",
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag("h1", "What was learnt: ", tag("span", title, class_="name")),
        tag("nav", *links, aria_label="Sections"),
        tag("button", "Theme: as the system", type="button", id="theme"),
    )
    without = tag("noscript", tag("p", "Charts, strips and maps need JavaScript.", class_="note"))
    foot = tag(
        "footer",
        tag("p", f"Made by dcs-learn {dcs.__version__}. Nothing on this page is loaded from elsewhere."),
    )
    return _document(
        title, join(top, without, tag("main", *sections, id="content"), foot), _data(runs, looked, sheets)
    )


def _data(runs: list[Run], looked: list[Looked | None], sheets: dict[str, Sheets]) -> Json:
    """All that the script draws."""
    found: list[Json] = [
        {
            "name": run.name,
            "lines": lines_of(run),
            "strips": None if there is None else there.strips,
            "map": None if there is None else {**there.map, "sheets": there.key},
        }
        for run, there in zip(runs, looked, strict=True)
    ]
    return {"charts": charts_of(runs), "runs": found, "sheets": sheets}


def _document(title: str, body: Markup, data: Any) -> str:
    style, script = _asset("page.css"), "\n".join(_asset(name) for name in _SCRIPTS)
    # Nothing but our own style and script, and pictures and sounds inside the page, may be used.
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        f"media-src data:; base-uri 'none'; form-action 'none'"
    )
    head = join(
        tag("meta", charset="utf-8"),
        tag("meta", name_="generator", content=GENERATOR),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("link", rel="icon", href="data:,"),
        tag("title", f"{title}: what was learnt"),
        Markup(f"<style>{style}</style>"),
    )
    held = Markup(f'<script type="application/json" id="data">{embed_json(data)}</script>')
    inside = join(body, held, Markup(f"<script>{script}</script>"))
    return f"<!doctype html>\n{tag('html', tag('head', head), tag('body', inside), lang='en')}\n"


def _training(runs: list[Run]) -> Markup | None:
    if not any(run.metrics for run in runs):
        return None
    return join(tag("div", id="charts"), *(table_of(run) for run in runs))


def _cards(kind: str, runs: list[Run], looked: list[Looked | None], notes: list[str]) -> list[Markup]:
    """A place for the script to fill, for each run, and what is to be said of it; or why there is none."""
    cards = []
    for number, (run, found, note) in enumerate(zip(runs, looked, notes, strict=True)):
        there = found is not None and getattr(found, kind) is not None
        text = note if found is None or there else _NO_DENOISING
        inside = tag("div", class_=kind, data_run=number) if there else None
        said = tag("p", text, class_="note") if text else None
        cards.append(tag("article", _title(runs, run), said, inside, class_="card"))
    return cards


def _labelled(found: Looked | None) -> bool | None:
    """Whether the samples have labels, if that is known."""
    return None if found is None else found.map["labels"] is not None


def _recordings(runs: list[Run], looked: list[Looked | None]) -> Markup | None:
    cards = []
    for run, found in zip(runs, looked, strict=True):
        if found is None or not found.sounds:
            continue
        players = []
        for sound in found.sounds:
            label = f" ({sound['label']})" if sound["label"] is not None else ""
            versions = [
                tag("label", f"{kind} ", tag("audio", controls=True, preload="none", src=source))
                for kind, source in sound["versions"].items()
            ]
            cut = ", its beginning" if sound["cut"] else ""
            players.append(tag("li", tag("p", f"{sound['name']}{label}{cut}", class_="name"), *versions))
        few = tag("p", "The denoised ones should hiss less and sound the same otherwise.", class_="quiet")
        if "denoised" not in found.sounds[0]["versions"]:
            why = "sees spectrograms, of which no recording can be made"
            why = "predicts no recordings" if found.strips is None else why
            few = tag("p", f"This network {why}: none is denoised.", class_="note")
        cards.append(
            tag("article", _title(runs, run), few, tag("ul", *players, class_="players"), class_="card")
        )
    return _columns(cards) if cards else None


def _columns(cards: list[Markup]) -> Markup:
    return tag("div", *cards, class_="columns")


def _title(runs: list[Run], run: Run) -> Markup | None:
    """The name of a run, where there are several."""
    return tag("h3", run.name, class_="name") if len(runs) > 1 else None


def _asset(name: str) -> str:
    return files("dcs.report").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

"""The page of `dcs inspect`: one HTML file without scripts, which needs nothing else."""

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from html import escape

import torch
from torch import Tensor

from dcs.inspection import FAILS, HOLDS, Check, Distribution, Estimate, Inspection, Sigma

_COLOURS = {"clean": "good", "slight": "fair", "noisy": "bad", "unknown": "fair"}
_SIGNS = {HOLDS: ("good", "✓"), FAILS: ("bad", "✗")}
_WIDTH, _HEIGHT, _FOOT, _TOP = 420, 190, 36, 12
_GLOSSARY = {
    "noise": "What a measurement adds by chance to what is measured: grain, hiss, counting errors.",
    "sigma (σ)": "The strength of the noise: its standard deviation, in the units of the data. About two "
    "thirds of the errors are smaller than σ.",
    "signal-to-noise ratio (c)": "How many times stronger the signal is than the noise. Above 10 noise "
    "hardly matters; at 1 both are equally strong. ĉ is its estimate for one sample.",
    "expected cosine (k)": "How well a noisy sample still points in the direction of the clean one: 1 is "
    "noise-free, 0 is noise alone. Samples of small k teach little, so dCS gives them less weight.",
    "dCS": "The denoising Cosine-Similarity loss: it trains a network on noisy data alone, so that it acts "
    "as if it had seen the clean data.",
    "objective": "What training makes small: dcs is the loss above; mse, of a plain autoencoder, is the mean "
    "square of the errors; dae, a denoising autoencoder, the same after noise was added; n2v guesses hidden "
    "values from those around them.",
    "views": "Training needs two noisy versions of each sample whose noises are independent of each other. "
    "They are made by masking (some values are replaced by a neighbour and then guessed) or by splitting "
    "(noise of the same strength is added to one version and taken away from the other).",
    "mask ratio (ρ)": "The share of the values of a sample that is masked.",
    "radius": "How far away the neighbour may be that a masked value is replaced by: 1 is the values next "
    "to it.",
    "calm places": "Where the surroundings of a value hardly differ from each other. What cannot be "
    "foretold from them there is noise, and no detail of the picture.",
    "chen2015, mad": "Two published ways to estimate σ: by the smallest variances of small patches, and by "
    "the median size of the finest detail.",
    "excess kurtosis": "How often extreme values occur: 0 as for Gaussian noise, above 1 many more.",
    "correlation": "Whether two numbers go together: 0 not at all, 1 entirely.",
}
_STYLE = """
:root{color-scheme:light dark;--page:#fff;--text:#1c1f23;--quiet:#5b6470;--line:#d5dae0;--card:#f6f7f9;
--good:#1a7f37;--fair:#8a5a00;--bad:#b3261e;--bar:#2f6fb3}
@media(prefers-color-scheme:dark){:root{--page:#14171a;--text:#e6e8ea;--quiet:#a2abb5;--line:#363c43;
--card:#1d2125;--good:#56c271;--fair:#e0a83a;--bad:#ff8f85;--bar:#6fa8dc}}
*{box-sizing:border-box}body{margin:0 auto;max-width:62rem;padding:1rem;background:var(--page);
color:var(--text);font:1rem/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.5rem;margin:.5rem 0}h1 span{display:block;max-height:7.5em;overflow:auto}
h2{font-size:1.2rem;margin:2rem 0 .5rem}h3{font-size:1rem;margin:0}
p{margin:.4rem 0}.quiet,dd,figcaption,small{color:var(--quiet)}
.answer{border-left:.4rem solid;padding:.6rem 1rem;background:var(--card);font-size:1.15rem}
.good{border-color:var(--good)}.fair{border-color:var(--fair)}.bad{border-color:var(--bad)}
.grid{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr))}
.card{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.8rem 1rem}
.verdict{font-weight:700}.verdict.good{color:var(--good)}.verdict.fair{color:var(--fair)}
.verdict.bad{color:var(--bad)}
figure{margin:0}svg{width:100%;height:auto;display:block}svg text{fill:var(--quiet);font-size:12px}
svg .bar{fill:var(--bar)}svg .axis{stroke:var(--line)}svg .curve{stroke:var(--bar);stroke-width:2;fill:none}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.3rem .6rem .3rem 0;
border-bottom:1px solid var(--line);font-variant-numeric:tabular-nums}
pre{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.8rem;overflow-x:auto;
white-space:pre-wrap}
.strip{display:grid;gap:.5rem;grid-template-columns:repeat(auto-fill,minmax(7rem,1fr))}
h3+.strip{margin:.3rem 0 .8rem}
.strip img{width:100%;image-rendering:pixelated;border:1px solid var(--line);display:block}
dt{font-weight:600;margin-top:.6rem}dd{margin:0}
"""


def render(found: Inspection, name: str, command: str, versions: str = "") -> bytes:
    """Make the page.

    Args:
        found: What `dcs.inspection.inspect` returned.
        name: What was inspected; any text.
        command: What to run next.
        versions: Of what made it, for the foot of the page.
    """
    of_all = "" if found.inspected == found.samples else f", of which {found.inspected:,} were looked at"
    noun = "sample" if found.samples == 1 else "samples"
    parts = [
        f"<h1>How noisy is it? <span>{escape(name)}</span></h1>",
        f'<p class="quiet">{found.samples:,} {noun} of {size(found, "×")}{of_all}.</p>',
        *(f'<p class="quiet">{escape(note)}</p>' for note in found.notes),
        f'<p class="answer {_COLOURS[found.state]}">{escape(found.summary)}</p>',
        _what_to_do(found, command),
        _strength(found),
        _assumptions(found.checks),
        _spreads(found),
        _examples(found),
        "<h2>Words</h2><dl>",
        *(f"<dt>{escape(word)}</dt><dd>{escape(text)}</dd>" for word, text in _GLOSSARY.items()),
        f"</dl><p><small>Written by dcs inspect{escape(versions)}.</small></p>",
    ]
    title = escape(name if len(name) <= 80 else name[:79] + "…")
    page = (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; img-src data:\">"
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>How noisy is {title}?</title><style>{_STYLE}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )
    return page.encode("utf-8", "replace")


def _what_to_do(found: Inspection, command: str) -> str:
    advice = found.advice
    views = {
        "split": "split each sample into two noisy views",
        "blind_spot": f"mask {advice.rho or 0:.0%} of the values, by neighbours up to {advice.window} away",
        "amplitude": f"mask {advice.rho or 0:.0%} of the values, by those up to {advice.window} steps "
        "earlier or later",
        "none": "no masking",
    }[advice.views]
    warnings = "".join(f"<li>{escape(warning)}</li>" for warning in advice.warnings)
    if not advice.ready:
        return f"<h2>What to do</h2><p>{escape(advice.why)}</p>"
    return (
        f"<h2>What to do</h2><p>Train with <b>{escape(advice.objective)}</b>; {escape(views)}. "
        f"{escape(advice.why)}</p>{f'<ul>{warnings}</ul>' if warnings else ''}"
        f"<pre><code>{escape(command)}</code></pre>"
    )


def _strength(found: Inspection) -> str:
    sigma = found.sigma
    if sigma.value is None:
        return f"<h2>How strong is the noise?</h2><p>{escape(sigma.why)}</p>"
    rows = {"calm places": sigma.calm, "chen2015": sigma.chen2015, "mad": sigma.mad}
    table = "".join(f"<tr><th>{name}</th>{_cells(one)}</tr>" for name, one in rows.items())
    curve = ""
    if len(found.noise_by_brightness) > 1:
        curve = _figure(
            _curve(found.noise_by_brightness),
            "The noise in calm places, by how large the values are there. A level line is noise that is "
            "equally strong everywhere; a rising one, noise that grows with the signal. A hump in the "
            "middle is detail of the signal.",
        )
    return (
        f"<h2>How strong is the noise?</h2><p>Its standard deviation σ: "
        f"<b>{escape(strength(sigma))}</b>. {escape(sigma.why)}</p>"
        '<div class="grid"><div><table><tr><th>estimated by</th><th>σ</th><th>between</th></tr>'
        f"{table}</table></div>{curve}</div>"
    )


def _cells(one: Estimate | None) -> str:
    if one is None:
        return "<td>–</td><td>cannot be used here</td>"
    between = f"{number(one.low)} and {number(one.high)}" if math.isfinite(one.high) else "unknown"
    return f"<td>{number(one.value)}</td><td>{between}</td>"


def _assumptions(checks: Sequence[Check]) -> str:
    cards = []
    for check in checks:
        colour, sign = _SIGNS.get(check.verdict, ("fair", "?"))
        cards.append(
            f'<section class="card"><h3>{escape(check.title)}</h3>'
            f'<p class="verdict {colour}"><span aria-hidden="true">{sign}</span> {escape(check.verdict)}</p>'
            f"<p>{escape(check.because)}</p><p class=quiet>{escape(check.meaning)}</p></section>"
        )
    return f'<h2>What dCS assumes of the noise</h2><div class="grid">{"".join(cards)}</div>'


def _spreads(found: Inspection) -> str:
    if found.c is None or found.k is None:
        return ""
    figures = [
        (
            found.c,
            "Signal-to-noise ratio ĉ of the samples, as training estimates it: further right is cleaner.",
            "signal-to-noise ratio ĉ",
        ),
        (
            found.k,
            "Expected cosine k of the samples: 1 is noise-free, 0 is noise alone.",
            "expected cosine k",
        ),
    ]
    masked = (
        " A split adds noise to the version that is compared with, and ĉ and k are those of that version: "
        "smaller than those of the data."
        if found.advice.views == "split"
        else " Masking takes what differs between neighbours for noise, also where it is detail: in data "
        "with little noise, both come out too small."
    )
    drawn = "".join(_figure(_histogram(one, axis), _caption(one, text)) for one, text, axis in figures)
    return (
        "<h2>How noisy is each sample?</h2><p>In training, two noisy versions of a sample are compared in "
        f"about {found.dim:.0f} of its values. Unlike in the answer above, the mean of all values counts as "
        f"signal here.{masked}</p>"
        f'<div class="grid">{drawn}</div>'
    )


def _caption(spread: Distribution, text: str) -> str:
    if not spread.quantiles:
        return f"{text} It has no bound for any of {spread.infinite} samples: nothing differs."
    q = spread.quantiles
    more = f" {spread.infinite} samples in which nothing differs are left out." if spread.infinite else ""
    middle = f"Median {number(q['50'])}; nine in ten lie between {number(q['5'])} and {number(q['95'])}."
    return f"{text} {middle}{more}"


def _figure(drawing: str, caption: str) -> str:
    drawing = drawing.replace("<svg ", f'<svg role="img" aria-label="{escape(caption)}" ', 1)
    return f"<figure>{drawing}<figcaption>{escape(caption)}</figcaption></figure>"


def _histogram(spread: Distribution, axis: str) -> str:
    if not spread.counts:
        return _svg("", ("", ""), "", (axis, "samples"))
    most = max(spread.counts)
    left = _left(f"{most:,}")
    wide = (_WIDTH - left - 8) / len(spread.counts)
    bars = "".join(
        f'<rect class="bar" x="{left + number_ * wide + 0.5:.1f}" width="{wide - 1:.1f}" '
        f'y="{_across(count, most):.1f}" height="{_HEIGHT - _FOOT - _across(count, most):.1f}"/>'
        for number_, count in enumerate(spread.counts)
    )
    ends = (number(spread.edges[0]), number(spread.edges[-1]))
    return _svg(bars, ends, f"{most:,}", (axis, "samples"))


def _curve(points: Sequence[tuple[float, float]]) -> str:
    low, high = points[0][0], points[-1][0]
    most = max(strength for _, strength in points) or 1.0
    left = _left(number(most))
    wide = (_WIDTH - left - 8) / ((high - low) or 1.0)
    at = [(left + (x - low) * wide, _across(y, most)) for x, y in points]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
    dots = "".join(f'<circle class="bar" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in at)
    drawn = f'<polyline class="curve" points="{line}"/>{dots}'
    return _svg(drawn, (number(low), number(high)), number(most), ("values of the data", "noise σ"))


def _left(most: str) -> int:
    """Where a chart begins: right of its title and its largest number."""
    return 30 + 8 * max(2, len(most))


def _across(value: float, most: float) -> float:
    return _HEIGHT - _FOOT - (_HEIGHT - _FOOT - _TOP) * value / most


def _svg(drawn: str, ends: tuple[str, str], most: str, titles: tuple[str, str]) -> str:
    foot, left = _HEIGHT - _FOOT, _left(most)
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}">{drawn}'
        f'<line class="axis" x1="{left}" x2="{_WIDTH - 8}" y1="{foot}" y2="{foot}"/>'
        f'<text x="{left}" y="{foot + 18}">{ends[0]}</text>'
        f'<text x="{_WIDTH - 8}" y="{foot + 18}" text-anchor="end">{ends[1]}</text>'
        f'<text x="{(left + _WIDTH) / 2}" y="{foot + 32}" text-anchor="middle">{titles[0]}</text>'
        f'<text x="14" y="{(foot + _TOP) / 2}" text-anchor="middle" '
        f'transform="rotate(-90 14 {(foot + _TOP) / 2})">{titles[1]}</text>'
        f'<text x="{left - 6}" y="{_TOP + 10}" text-anchor="end">{most}</text>'
        f'<text x="{left - 6}" y="{foot}" text-anchor="end">0</text></svg>'
    )


def _examples(found: Inspection) -> str:
    if found.examples is None:
        return ""
    noisy, left = found.examples
    shown = []
    mostly = {"clean": "mostly detail, as there is hardly any noise", "unknown": "noise, or detail"}
    rest = f"What surroundings do not foretell: {mostly.get(found.state, 'mostly noise')}"
    sound = found.domain == "spectrogram"
    for title, values in (("As they are", noisy), (rest, left)):
        values = values.transpose(1, 2).flip(1) if sound else values
        drawn = _pictures(values) if values.ndim == 3 else _signals(values)
        shown.append(f"<h3>{title}</h3><div class=strip>{drawn}</div>")
    how = "<p class=quiet>Time goes to the right, high tones are above, bright is loud.</p>" if sound else ""
    return f"<h2>Some samples</h2>{how}{''.join(shown)}"


def _pictures(values: Tensor) -> str:
    low, high = torch.quantile(values.flatten()[: 2**20], torch.tensor([0.01, 0.99])).tolist()
    grey = ((values - low) / max(high - low, 1e-12)).clamp(0, 1).mul(255).round().to(torch.uint8)
    coded = (base64.b64encode(_png(one)).decode() for one in grey)
    return "".join(f'<img alt="sample {n}" src="data:image/png;base64,{c}">' for n, c in enumerate(coded, 1))


def _png(grey: Tensor) -> bytes:
    """A picture of bytes (h, w) as a PNG file."""
    height, width = grey.shape
    rows = torch.cat([grey.new_zeros(height, 1), grey], 1)  # each row begins with the number of its filter, 0

    def chunk(kind: bytes, content: bytes) -> bytes:
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = zlib.compress(rows.contiguous().numpy().tobytes(), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def _signals(values: Tensor) -> str:
    drawn = []
    low, high = float(values.min()), float(values.max())
    scale = 76 / (high - low) if high > low else 0.0
    for signal in values[:, :400]:
        step = 200 / max(1, len(signal) - 1)
        line = " ".join(f"{i * step:.1f},{78 - scale * (float(v) - low):.1f}" for i, v in enumerate(signal))
        drawn.append(
            f'<svg viewBox="0 0 200 80" role="img" aria-label="a signal"><polyline class="curve" '
            f'style="stroke-width:1" points="{line}"/></svg>'
        )
    return "".join(drawn)


def strength(sigma: Sigma) -> str:
    """In words: σ and its interval, as far as they are known and can be shown."""
    if sigma.value is None or sigma.low is None or sigma.high is None:
        return "unknown"
    if number(sigma.high) == "0":
        return "too small to be seen"
    if sigma.value < 0.01 * sigma.high:
        return f"next to nothing, at most {number(sigma.high)}"
    if sigma.at_least:
        return f"at least {number(sigma.value)}, and at most {number(sigma.high)}"
    if sigma.low == 0:
        return f"at most {number(sigma.high)}"
    return f"{number(sigma.value)}, most likely between {number(sigma.low)} and {number(sigma.high)}"


def size(found: Inspection, times: str = "x") -> str:
    """Of a sample, in words."""
    if found.domain == "spectrogram" and len(found.shape) == 2:
        return f"{found.shape[0]} frames {times} {found.shape[1]} bands"
    return f" {times} ".join(map(str, found.shape)) + (" values" if times == "×" else "")


def number(value: float | None) -> str:
    """A number for people: three digits."""
    if value is None or not math.isfinite(value):
        return "–"
    return "0" if abs(value) < 1e-300 else f"{value:.3g}"

"""The page of `dcs inspect`: one HTML file without scripts."""

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from dcs.inspection import FAILS, HOLDS, Distribution, Inspection, Sigma, number, size, strength
from dcs.report._templates import PageTable
from dcs.report._templates import render as render_page

_COLOURS = {"clean": "good", "slight": "fair", "noisy": "bad", "unknown": "fair"}
_SIGNS = {HOLDS: ("good", "✓"), FAILS: ("bad", "✗")}


class Figure(NamedTuple):
    """A histogram or a curve; heights, and places along the axis, are shares of the largest."""

    caption: str
    titles: tuple[str, str]  # of the horizontal and the vertical axis
    ends: tuple[str, str] = ("", "")  # of the horizontal axis
    most: str = ""  # largest number of the vertical axis
    bars: Sequence[float] = ()
    points: Sequence[tuple[float, float]] = ()


def render(found: Inspection, name: str, command: str, versions: str = "") -> bytes:
    """Return the page, encoded as UTF-8.

    Args:
        found: Result of `dcs.inspection.inspect`.
        name: Name of the inspected data; any text.
        command: Command to run next.
        versions: Version of the program, for the end of the page.
    """
    return render_page(
        "inspect.html",
        generator="dcs-learn inspect",
        made_by=f"dcs inspect{versions}",
        title=name if len(name) <= 80 else name[:79] + "…",
        name=name,
        found=found,
        size=size(found, "×"),
        colour=_COLOURS[found.state],
        command=command,
        strength=strength(found.sigma),
        estimates=_estimates(found.sigma),
        levels=_levels(found.noise_by_brightness),
        checks=[(check, *_SIGNS.get(check.verdict, ("fair", "?"))) for check in found.checks],
        histograms=_histograms(found),
        examples=_examples(found),
    ).encode()


def _estimates(sigma: Sigma) -> PageTable:
    rows = []
    for name, one in (("flat regions", sigma.calm), ("chen2015", sigma.chen2015), ("mad", sigma.mad)):
        between = "not applicable here" if one is None else "unknown"
        if one is not None and math.isfinite(one.high):
            between = f"{number(one.low)} and {number(one.high)}"
        rows.append((name, number(None if one is None else one.value), between))
    return PageTable("Estimates of the noise level", ["estimated from", "σ", "between"], rows)


def _levels(points: Sequence[tuple[float, float]]) -> Figure | None:
    """Draw the noise level by brightness."""
    if len(points) < 2:
        return None
    low, high = points[0][0], points[-1][0]
    most, across = max(level for _, level in points) or 1.0, (high - low) or 1.0
    return Figure(
        "Noise level in flat regions, by the values there. A level line is noise that is equally strong "
        "everywhere; a rising one is noise that grows with the signal. A hump in the middle is detail of the "
        "signal.",
        ("values of the data", "noise σ"),
        (number(low), number(high)),
        number(most),
        points=[((x - low) / across, y / most) for x, y in points],
    )


def _histograms(found: Inspection) -> list[Figure]:
    if found.c is None or found.k is None:
        return []
    of_c = "Signal-to-noise ratio ĉ of the samples, as estimated in training: further right is cleaner."
    of_k = "Expected cosine k of the samples: 1 without noise, 0 for noise alone."
    ratios = _histogram(found.c, "signal-to-noise ratio ĉ", of_c)
    return [ratios, _histogram(found.k, "expected cosine k", of_k)]


def _histogram(spread: Distribution, axis: str, text: str) -> Figure:
    q, titles = spread.quantiles, (axis, "samples")
    if not q:
        text += f" It is infinite for all {spread.infinite} samples: their two views are equal."
    else:
        text += f" Median {number(q['50'])}; 90 % are between {number(q['5'])} and {number(q['95'])}."
        if spread.infinite:
            text += f" {spread.infinite} samples are left out, as their two views are equal."
    if not spread.counts:
        return Figure(text, titles)
    most, ends = max(spread.counts), (number(spread.edges[0]), number(spread.edges[-1]))
    return Figure(text, titles, ends, f"{most:,}", [count / most for count in spread.counts])


def _examples(found: Inspection) -> list[tuple[str, list[str], list[list[tuple[float, float]]]]]:
    """Return some samples, and what cannot be predicted of them: a title, and pictures or else curves."""
    if found.examples is None:
        return []
    mostly = {"clean": "mostly detail, as there is hardly any noise", "unknown": "noise or detail"}
    rest = f"What neighbouring values do not predict: {mostly.get(found.state, 'mostly noise')}"
    shown = []
    for title, values in zip(("Samples as they are", rest), found.examples, strict=True):
        values = values.transpose(1, 2).flip(1) if found.domain == "spectrogram" else values
        images = values.ndim == 3
        shown.append((title, _pictures(values) if images else [], [] if images else _curves(values)))
    return shown


def _pictures(values: Tensor) -> list[str]:
    low, high = torch.quantile(values.flatten()[: 2**20], torch.tensor([0.01, 0.99])).tolist()
    grey = ((values - low) / max(high - low, 1e-12)).clamp(0, 1).mul(255).round().to(torch.uint8)
    return [f"data:image/png;base64,{base64.b64encode(_png(one)).decode()}" for one in grey]


def _png(grey: Tensor) -> bytes:
    """Encode bytes (h, w) as a PNG file; here, as Pillow is optional."""
    height, width = grey.shape
    rows = torch.cat([grey.new_zeros(height, 1), grey], 1)  # each row begins with the number of its filter, 0

    def chunk(kind: bytes, content: bytes) -> bytes:
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = zlib.compress(rows.contiguous().numpy().tobytes(), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def _curves(values: Tensor) -> list[list[tuple[float, float]]]:
    """Return signals as points of curves in 200 by 80 pixels."""
    values = values[:, :400]
    low, high = float(values.min()), float(values.max())
    scale = 76 / (high - low) if high > low else 0.0
    step = 200 / max(1, values.shape[1] - 1)
    return [[(i * step, 78 - scale * (v - low)) for i, v in enumerate(signal)] for signal in values.tolist()]

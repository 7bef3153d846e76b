"""Samples as small pictures (images, spectrograms or bar profiles), packed into few large ones."""

import base64
import io
import math
from typing import Any, NamedTuple, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate

from dcs._optional import require
from dcs.data import LogMel, Split

Pixels = NDArray[np.uint8]
_PROFILE = (32, 48)  # height and largest width, in pixels
_A_SHEET = 2_500  # pictures
_BLOCK = 8  # pixels of a JPEG block, so that neighbouring pictures do not blend
_QUALITIES = (75, 60, 45, 30)


class Painter(NamedTuple):
    """Draw all samples of a data set in the same way; made by `find_painter`."""

    kind: str  # image, spectrogram or profile
    low: float  # value drawn black
    high: float  # value drawn white
    front_end: LogMel | None = None
    base: float = 0.0  # value from which the bars of profiles are drawn

    def paint(self, x: Tensor, edge: int) -> Pixels:
        """Draw samples as (n, height, width), or (n, height, width, 3) if they have colours.

        Args:
            x: Samples (n, ...) as returned by `levels`.
            edge: Longest side of a picture, in pixels.
        """
        values = ((x.float() - self.low) / (self.high - self.low)).clamp(0, 1)
        if self.kind == "profile":
            return _profiles(values, (self.base - self.low) / (self.high - self.low))
        if self.kind == "spectrogram":
            # Time from left to right, high frequencies at the top.
            values = values.transpose(1, 2).flip(1)[:, None]
            size = (min(values.shape[2], edge * 2 // 3), min(values.shape[3], edge))
        else:
            values = values[:, None] if values.ndim == 3 else values
            values = values if values.shape[1] in (1, 3) else values.mean(1, keepdim=True)
            height, width = values.shape[2:]
            shrink = min(1.0, edge / max(height, width))
            size = (max(1, round(height * shrink)), max(1, round(width * shrink)))
        if size != tuple(values.shape[2:]):
            values = interpolate(values, size, mode="area")
        pixels: Pixels = (255 * values).round().byte().permute(0, 2, 3, 1).numpy()
        return pixels[..., 0] if pixels.shape[-1] == 1 else pixels

    def levels(self, x: Tensor) -> Tensor:
        """Return the values to draw: the samples, or decibels for recordings."""
        return x if self.front_end is None else self.front_end.decibels(x)


def find_painter(part: Split, front_end: LogMel | None, rate: int | None) -> Painter:
    """Choose from some samples how all of them are drawn."""
    assert isinstance(part.x, Tensor)  # noqa: S101  (they were read)
    shown = part.x if part.clean is None else part.clean
    if rate is not None and shown.ndim == 2:
        maker = front_end or _spectrograms(rate, shown.shape[1])
        decibels = maker.decibels(part.x)
        low, high = _range(decibels)
        return Painter("spectrogram", low, high, maker)
    if shown.ndim == 2:
        low, high = _range(shown)
        if min(abs(low), abs(high)) > high - low:  # so far from zero that all bars would look the same
            return Painter("profile", low, high, base=float(shown.median()))
        return Painter("profile", min(low, 0.0), max(high, 0.0) if low < 0 or high > 0 else 1.0)
    low, high = (float(value) for value in shown.aminmax())
    low, high = (0.0, 1.0) if low >= 0 and 0.3 < high <= 1 else _range(shown)
    return Painter("image", low, high)


def _spectrograms(rate: int, length: int) -> LogMel:
    """Return spectrograms for recordings given as waveforms, with at least eight frames."""
    usual = LogMel(rate, standardise="none")
    frame = min(usual.frame, max(8, length // 5))
    return usual if frame == usual.frame else LogMel(rate, frame=frame, hop=frame // 2, standardise="none")


def _range(x: Tensor) -> tuple[float, float]:
    """Return the range of the values without outliers."""
    some = x.flatten()[:: max(1, x.numel() // 2**20)].double()
    low, high = torch.quantile(some, torch.tensor([0.01, 0.99], dtype=some.dtype)).tolist()
    if not high > low:
        low, high = (float(value) for value in some.aminmax())
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _profiles(values: Tensor, zero: float) -> Pixels:
    """Draw bars from the level `zero` up or down to each value of (n, d), all from 0 to 1."""
    height, width = _PROFILE
    if values.shape[1] > width:
        values = interpolate(values[:, None], width, mode="area")[:, 0]
    values = values.repeat_interleave(math.ceil(width / 2 / values.shape[1]), dim=1)
    level = torch.linspace(1 - 0.5 / height, 0.5 / height, height)[None, :, None]
    bars = values[:, None]
    filled = ((level <= bars) & (level >= zero)) | ((level >= bars) & (level <= zero))
    return (255 * filled.byte()).numpy()


class Sheets(TypedDict):
    """Pictures for the page: picture i is in sheet i // size, in rows from left to right."""

    sources: list[str]  # data URIs
    size: int
    columns: int
    step: list[int]  # distance between pictures: horizontal, vertical
    tile: list[int]  # width and height of a picture


def pack(pictures: Pixels, budget: int) -> Sheets:
    """Pack pictures, (n, height, width) or (n, height, width, 3), into at most about `budget` characters.

    They are kept exactly, as PNG, if that fits; otherwise as JPEG of decreasing quality, and finally smaller.
    """
    exact = _encode(pictures, None)
    if _length(exact) <= budget:
        return exact
    while True:
        for quality in _QUALITIES:
            sheets = _encode(pictures, quality)
            if _length(sheets) <= budget or min(pictures.shape[1:3]) <= _BLOCK:
                return sheets
        pictures = _smaller(pictures)


def _encode(pictures: Pixels, quality: int | None) -> Sheets:
    pillow = require("PIL.Image", "images", "a report with pictures")
    height, width = pictures.shape[1:3]
    if quality is not None:
        down, across = (-length % _BLOCK for length in (height, width))
        further = [(0, 0)] * (pictures.ndim - 3)
        pictures = np.pad(pictures, [(0, 0), (0, down), (0, across), *further], mode="edge")
    count = min(len(pictures), _A_SHEET)
    columns = math.ceil(math.sqrt(count))
    options: dict[str, Any] = {"format": "PNG", "optimize": True}
    if quality is not None:
        options = {"format": "JPEG", "quality": quality, "subsampling": 0}
    sources = []
    for start in range(0, len(pictures), _A_SHEET):
        buffer = io.BytesIO()
        pillow.fromarray(_grid(pictures[start : start + _A_SHEET], columns)).save(buffer, **options)
        kind = str(options["format"]).lower()
        sources.append(f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}")
    step = [pictures.shape[2], pictures.shape[1]]
    return {"sources": sources, "size": _A_SHEET, "columns": columns, "step": step, "tile": [width, height]}


def _grid(pictures: Pixels, columns: int) -> Pixels:
    n, height, width, *colour = pictures.shape
    rows = math.ceil(n / columns)
    filled = np.zeros((rows * columns, height, width, *colour), np.uint8)
    filled[:n] = pictures
    across = filled.reshape(rows, columns, height, width, *colour).swapaxes(1, 2)
    return np.ascontiguousarray(across.reshape(rows * height, columns * width, *colour))


def _smaller(pictures: Pixels) -> Pixels:
    """Shrink to three quarters of the width and height, by the nearest pixel."""
    rows, columns = (
        np.linspace(0, length - 1, max(_BLOCK, length * 3 // 4)).round().astype(int)
        for length in pictures.shape[1:3]
    )
    return np.ascontiguousarray(pictures[:, rows][:, :, columns])


def _length(sheets: Sheets) -> int:
    return sum(map(len, sheets["sources"]))

"""Many small pictures as few large ones, inside the page."""

import base64
import io
import math
from typing import Any, TypedDict

import numpy as np

from dcs._optional import require
from dcs.report._pictures import Pixels

_A_SHEET = 2_500  # pictures
_BLOCK = 8  # of JPEG, so that neighbours do not shine through
_QUALITIES = (75, 60, 45, 30)


class Sheets(TypedDict):
    """For the page: picture i is in sheet i // size, from left to right and then down."""

    sources: list[str]  # data URIs
    size: int
    columns: int
    step: list[int]  # from picture to picture: across, down
    tile: list[int]  # width and height of a picture


def pack(pictures: Pixels, budget: int) -> Sheets:
    """Pack pictures, (n, height, width) or (n, height, width, 3), into about `budget` characters at most.

    They are kept exactly, as PNG, where that fits; otherwise as JPEG of falling quality, and at last smaller.
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
    """Three quarters of the width and height, by the nearest pixel."""
    rows, columns = (
        np.linspace(0, length - 1, max(_BLOCK, length * 3 // 4)).round().astype(int)
        for length in pictures.shape[1:3]
    )
    return np.ascontiguousarray(pictures[:, rows][:, :, columns])


def _length(sheets: Sheets) -> int:
    return sum(map(len, sheets["sources"]))

"""LZW compression of TIFF files: tifffile alone cannot decode it, the libtiff in Pillow can."""

import io
import struct
from math import prod
from typing import Any

import numpy as np

from dcs._optional import require


def decode_lzw(page: Any) -> np.ndarray:
    """Decode a page of a TIFF file that tifffile has opened."""
    dtype = page.dtype.newbyteorder(page.parent.byteorder)
    out = np.zeros(page.shape, page.dtype)
    for number, place in enumerate(np.ndindex(*page.chunked)):
        page.parent.filehandle.seek(page.dataoffsets[number])
        packed = page.parent.filehandle.read(page.databytecounts[number])
        starts = [at * step for at, step in zip(place, page.chunks, strict=True)]
        inside = [min(n, end - at) for n, end, at in zip(page.chunks, page.shape, starts, strict=True)]
        shape = page.chunks if page.is_tiled else inside
        raw = _decode_bytes(packed, prod(shape) * dtype.itemsize)
        chunk = _undo_prediction(raw, dtype, tuple(shape), page)
        target = tuple(slice(at, at + n) for at, n in zip(starts, inside, strict=True))
        out[target] = chunk[tuple(slice(n) for n in inside)]
    return out


def _decode_bytes(packed: bytes, length: int) -> bytes:
    """Decode one segment: as the only strip of a picture with one row of bytes."""
    tags = {256: length, 257: 1, 258: 8, 259: 5, 262: 1, 273: 8, 277: 1, 278: 1, 279: len(packed)}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    directory = struct.pack("<H", len(tags)) + entries + bytes(4)
    pad = bytes(len(packed) % 2)
    header = b"II*\0" + struct.pack("<I", 8 + len(packed) + len(pad))
    pillow = require("PIL.Image", "images", "reading images")
    with pillow.open(io.BytesIO(header + packed + pad + directory), formats=("TIFF",)) as image:
        return bytes(image.tobytes())


def _undo_prediction(raw: bytes, dtype: Any, shape: tuple[int, ...], page: Any) -> np.ndarray:
    """Undo the differences between neighbours (predictor 2), or between bytes of floating point (3)."""
    across = len(shape) - 1 - (page.axes[-1] == "S")  # the axis of rows
    if page.predictor == 3:
        samples = shape[-1] if page.axes[-1] == "S" else 1
        width = shape[across] * samples
        rows = np.frombuffer(raw, np.uint8).reshape(-1, width * dtype.itemsize // samples, samples)
        rows = np.cumsum(rows, axis=1, dtype=np.uint8).reshape(-1, dtype.itemsize, width)
        values = np.ascontiguousarray(rows.transpose(0, 2, 1)).view(f">f{dtype.itemsize}")
        return values.reshape(shape)
    values = np.frombuffer(raw, dtype).reshape(shape)
    if page.predictor != 2:
        return values
    integers = values.astype(dtype.newbyteorder("=")).view(f"u{dtype.itemsize}")
    summed = np.cumsum(integers, axis=across, dtype=integers.dtype)
    return summed.view(dtype.newbyteorder("="))

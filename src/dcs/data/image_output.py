"""Denoised images as files: the format, bit depth and axes of the file that each was read from."""

import io
import re
import struct
import zlib
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from dcs._optional import require
from dcs.data._axes import Layout
from dcs.data._files import quote
from dcs.data._images import Picture, open_image, scan_image, stored_bits
from dcs.data._tiff import TIFF_SUFFIXES, Pixels, TiffSeries, open_tiff

_ORIENTATION = 0x0112
_LARGEST = 2**32 - 2**25  # bytes in a TIFF file with offsets of 32 bits
_IMAGEJ_TYPES = ("uint8", "uint16", "float32")
_OF_IMAGEJ = ("ImageJ", "images", "channels", "slices", "frames", "hyperstack", "mode", "loop")
_OF_OME = ("PhysicalSizeX", "PhysicalSizeY", "PhysicalSizeZ", "TimeIncrement")


def file_of(name: str) -> str:
    """Return the file of a sample: "stack.tif" for "stack.tif#3".

    Example:
        >>> file_of("cells/stack.tif#3"), file_of("photo.png")
        ('cells/stack.tif', 'photo.png')
    """
    return re.sub(r"(\.tiff?)#\d+$", r"\1", name, flags=re.IGNORECASE)


def encode_image(items: Sequence[np.ndarray], like: Path, axes: str | None = None) -> bytes:
    """Encode images in the format of the file they were read from.

    Integers are rounded and clipped to their range. JPEG files are written with quality 95 and full colour
    resolution, WebP files without loss. Pixels are written upright. Palettes, and depths of less than 8 bits,
    become 8 bits; 9 to 15 bits become 16.

    Args:
        items: All pictures or volumes of the file, in its order, (h, w), (c, h, w), (d, h, w) or
            (c, d, h, w), in the units in which they were read. Colours of a grey picture are averaged.
        like: File that they were read from.
        axes: Meaning of its axes, if given when it was read.
    """
    pictures = scan_image(like, axes)
    if len(items) != len(pictures):
        raise ValueError(f"{quote(like)} holds {len(pictures)} images, got {len(items)}: give all of them")
    values = [_fitting(item, picture) for item, picture in zip(items, pictures, strict=True)]
    if like.suffix.lower() not in TIFF_SUFFIXES:
        return _encode_by_pillow(values[0], like)
    buffer = io.BytesIO()
    targets, start = [], 0
    for target in _targets(like, pictures):
        its_values = values[start : start + target.layout.count]
        start += len(its_values)
        size = its_values[0].shape[-len(target.layout.size) :]
        target = target._replace(layout=target.layout.resized(size))
        targets.append((target, _stored_array(target, its_values)))
    with _writer(buffer, like, [target for target, _ in targets]) as writer:
        for target, array in targets:
            writer.write(array, compression=target.compression, **target.options)
    return buffer.getvalue()


class TiffOutput:
    """A TIFF file like another one, written region by region through a memory map.

    Args:
        like: File that the images were read from.
        target: File to write, which is replaced.
        axes: Meaning of its axes, if given when it was read.

    Example:
        >>> with TiffOutput(Path("noisy.tif"), Path("clean.tif")) as output:  # doctest: +SKIP
        ...     output.write(0, (0, 0), rows)
    """

    def __init__(self, like: Path, target: Path, axes: str | None = None) -> None:
        self.pictures = scan_image(like, axes)
        self.arrays: list[tuple[_Target, np.memmap[Any, Any]]] = []
        targets, places = _targets(like, self.pictures), []
        with _writer(target, like, targets) as writer:
            for one in targets:
                shape, options = one.layout.shape, one.options
                offset, _ = writer.write(None, shape=shape, dtype=one.dtype, returnoffset=True, **options)
                places.append(offset)
        for one, offset in zip(targets, places, strict=True):
            self.arrays.append((one, np.memmap(target, one.dtype, "r+", offset, one.layout.shape)))

    def write(self, number: int, start: Sequence[int], values: np.ndarray) -> None:
        """Write a region of an item.

        Args:
            number: Number of the item in the file.
            start: Where the region begins, along the item's axes of space.
            values: Region, (*size) or (c, *size), in the units in which the file was read.
        """
        values = _fitting(values, self.pictures[number])
        for target, array in self.arrays:
            if number < target.layout.count:
                size = values.shape[-len(target.layout.size) :]
                stored = _to_stored(values, target)
                array[target.layout.index(number, start, size)] = target.layout.spread(stored)
                return
            number -= target.layout.count

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for _, array in self.arrays:
            array.flush()
        self.arrays = []


class _Target(NamedTuple):
    """How some images of one size are stored."""

    layout: Layout
    dtype: str
    pixels: Pixels
    options: dict[str, Any]  # of tifffile
    compression: str | None


def _targets(like: Path, pictures: Sequence[Picture]) -> list[_Target]:
    """Return how the pictures of a TIFF file are stored in a file like it."""
    targets: list[_Target] = []
    with open_tiff(like) as tiff:
        for picture in pictures:
            if picture.part is None:
                targets.append(_plain_target(picture, like))
            elif picture.part[1] == 0:
                page = _page_at(tiff, picture.part[0])
                targets.append(_target_of(picture.part[0], tiff, page))
    return targets


def _page_at(tiff: Any, series: TiffSeries) -> tuple[Any, Any]:
    """Return tifffile's series and its first page."""
    for one in tiff.series:
        offsets = (one.dataoffset, one.keyframe.offset, *one.keyframe.dataoffsets[:1])
        if series.offsets[0] in offsets and tuple(one.shape) == series.layout.shape:
            return one, one.keyframe
    return None, tiff.pages.first  # one of several files of an OME-TIFF


def _plain_target(picture: Picture, like: Path) -> _Target:
    """Return how to store what tifffile does not decode."""
    with open_image(like, picture.number) as image:
        floating, deep = image.mode == "F", stored_bits(image) > 8
    dtype = "float32" if floating else "uint16" if deep else "uint8"
    pixels = Pixels(None if floating else float(np.iinfo(dtype).max))
    options = {"photometric": "minisblack" if picture.channels is None else "rgb", "metadata": None}
    layout = Layout("YX", picture.size) if picture.channels is None else Layout("YXc", (*picture.size, 3))
    return _Target(layout, dtype, pixels, options, "zlib")


def _target_of(series: TiffSeries, tiff: Any, found: tuple[Any, Any]) -> _Target:
    own, page = found
    layout = series.layout.resized(series.size)
    dtype, pixels = np.dtype(series.dtype).newbyteorder("="), series.pixels._replace(orientation=1)
    if pixels.palette is not None:
        layout = layout if series.channels is None else Layout(layout.axes + "c", (*layout.shape, 3))
        pixels = Pixels(255.0)
    elif pixels.full is not None and pixels.full not in (255, 65535):
        dtype = np.dtype(np.uint8 if pixels.full < 255 else np.uint16)
        pixels = pixels._replace(full=float(np.iinfo(dtype).max))
    colour = page.photometric == 2 or (page.photometric == 3 and series.channels == 3)
    options: dict[str, Any] = {"photometric": "rgb" if colour else "minisblack"}
    if pixels.inverted:
        options["photometric"] = "miniswhite"
    known = own.axes if own is not None else ""
    if "S" in known and page.samplesperpixel > 1:
        options["planarconfig"] = "contig" if known.endswith("S") else "separate"
        options["extrasamples"] = [int(kind) for kind in page.extrasamples]
    if 282 in page.tags and 283 in page.tags:
        options |= {"resolution": page.resolution, "resolutionunit": page.resolutionunit}
    options |= _metadata(tiff, own, page, dtype)
    compression = None if page.compression == 1 else "zlib"
    return _Target(layout, str(dtype), pixels, options, compression)


def _metadata(tiff: Any, own: Any, page: Any, dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return the description of a series: axes, and what is known of its scale."""
    if own is None or own.kind not in ("imagej", "ome", "shaped"):
        text = page.description if own is not None and own.kind in ("generic", "uniform") else ""
        return {"metadata": None, **({"description": text} if text else {})}
    metadata: dict[str, Any] = {"axes": own.axes}
    if own.kind == "imagej" and str(dtype) in _IMAGEJ_TYPES:
        metadata |= {k: v for k, v in (tiff.imagej_metadata or {}).items() if k not in _OF_IMAGEJ}
    elif own.kind == "ome":
        metadata |= _ome_metadata(tiff, own)
    elif own.kind == "shaped" and not page.description.startswith("{"):  # which tifffile itself adds
        return {"metadata": metadata, "description": page.description}
    return {"metadata": metadata}


def _ome_metadata(tiff: Any, own: Any) -> dict[str, Any]:
    """Return the sizes of pixels and the names of channels."""
    tifffile = require("tifffile", "images", "writing TIFF files")
    images = tifffile.xml2dict(tiff.ome_metadata)["OME"]["Image"]
    images = images if isinstance(images, list) else [images]
    at = [one.keyframe.offset for one in tiff.series].index(own.keyframe.offset)
    pixels = images[min(at, len(images) - 1)]["Pixels"]
    names = [name for size in _OF_OME for name in (size, f"{size}Unit")]
    found = {name: pixels[name] for name in names if name in pixels}
    channels = pixels.get("Channel", [])
    channels = channels if isinstance(channels, list) else [channels]
    if channels and all("Name" in channel for channel in channels):
        found["Channel"] = {"Name": [str(channel["Name"]) for channel in channels]}
    return found


def _writer(target: Any, like: Path, targets: Sequence[_Target]) -> Any:
    tifffile = require("tifffile", "images", "writing TIFF files")
    size = sum(prod(one.layout.shape) * np.dtype(one.dtype).itemsize for one in targets)
    with open_tiff(like) as tiff:
        imagej = tiff.is_imagej and all(one.dtype in _IMAGEJ_TYPES for one in targets) and size < _LARGEST
        return tifffile.TiffWriter(
            target,
            bigtiff=tiff.is_bigtiff or size >= _LARGEST,
            imagej=imagej,
            ome=bool(tiff.is_ome) and all(one.options["metadata"] for one in targets),
        )


def _stored_array(target: _Target, values: Sequence[np.ndarray]) -> np.ndarray:
    out = np.empty(target.layout.shape, target.dtype)
    for number, item in enumerate(values):
        out[target.layout.index(number)] = target.layout.spread(_to_stored(item, target))
    return out


def _to_stored(values: np.ndarray, target: _Target) -> np.ndarray:
    """Convert values, (channels, *size) or (*size), to numbers as a file stores them."""
    pixels, ndim = target.pixels, len(target.layout.size)
    stored = to_integers(values, target.dtype, pixels.full)
    if pixels.inverted:
        stored = np.iinfo(target.dtype).max - stored
    if pixels.alpha:
        planes = stored[None] if stored.ndim == ndim else stored
        opaque = 1 if stored.dtype.kind == "f" else np.iinfo(stored.dtype).max
        places = [at - number for number, at in enumerate(pixels.alpha)]
        stored = np.insert(planes, places, opaque, axis=0)
    return stored


def to_integers(values: np.ndarray, dtype: str, full: float | None = None) -> np.ndarray:
    """Convert values to a type of numbers; integers are rounded and clipped to their range.

    Args:
        values: Values in float32.
        dtype: Type of the numbers.
        full: Number that stands for 1; None if numbers are not scaled.
    """
    if np.dtype(dtype).kind == "f":
        return values.astype(dtype)
    info = np.iinfo(dtype)
    scaled = values.astype(np.float64) * (full or 1)
    return np.clip(np.rint(scaled), info.min, info.max).astype(dtype)


def _fitting(values: np.ndarray, picture: Picture) -> np.ndarray:
    """Require the channels of a picture; colours of a grey one are averaged."""
    values, ndim = np.asarray(values), len(picture.size)
    if picture.channels is None and values.ndim == ndim + 1 and len(values) in (1, 3):
        values = values.mean(0, dtype=np.float64)
    channels = None if values.ndim == ndim else len(values)
    if values.ndim not in (ndim, ndim + 1) or channels != picture.channels:
        raise ValueError(
            f"values must have the channels and axes of {quote(picture)}, {picture.channels or 1} x "
            f"{picture.size}, got shape {values.shape}"
        )
    return values


def _encode_by_pillow(values: np.ndarray, like: Path) -> bytes:
    pillow = require("PIL.Image", "images", "writing images")
    with open_image(like) as image:
        deep, info = stored_bits(image) > 8, dict(image.info)
        exif = _upright_exif(image)
        kind = "JPEG" if image.format == "MPO" else image.format
    full = 65535 if deep else 255
    pixels = to_integers(values, "uint16" if deep else "uint8", full)
    pixels = pixels if pixels.ndim == 2 else np.ascontiguousarray(np.moveaxis(pixels, 0, -1))
    if deep and pixels.ndim == 3:
        return _encode_deep_png(pixels)
    options: dict[str, Any] = {}
    if kind != "BMP":
        options = {name: info[name] for name in ("icc_profile",) if info.get(name)}
        options |= {"exif": exif} if exif else {}
    if "dpi" in info and kind != "WEBP":
        options["dpi"] = info["dpi"]
    options |= {"quality": 95, "subsampling": 0} if kind == "JPEG" else {}
    options |= {"lossless": True, "quality": 100} if kind == "WEBP" else {}
    buffer = io.BytesIO()
    pillow.fromarray(pixels).save(buffer, kind, **options)
    return buffer.getvalue()


def _upright_exif(image: Any) -> bytes:
    """Return the EXIF data without its orientation; nothing if it cannot be read."""
    pillow = require("PIL.Image", "images", "writing images")
    try:
        exif = pillow.Image.getexif(image)
        if _ORIENTATION in exif:
            exif[_ORIENTATION] = 1
        return bytes(exif.tobytes()) if len(exif) else b""
    except (SyntaxError, ValueError, TypeError, LookupError, OSError, struct.error):
        return b""


def _encode_deep_png(pixels: np.ndarray) -> bytes:
    """Encode 16-bit colour, (h, w, 3), which Pillow cannot write."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    height, width, _ = pixels.shape
    rows = pixels.astype(">u2").reshape(height, -1).view(np.uint8)
    up = rows.copy()
    up[1:] -= rows[:-1]  # filter 2: differences from the row above
    packed = zlib.compress(np.pad(up, ((0, 0), (1, 0)), constant_values=2).tobytes())
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", packed) + chunk(b"IEND", b"")

"""TIFF files: pictures, stacks and volumes of any type of numbers, read region by region."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dcs._optional import require
from dcs.data._axes import Layout, given_layout
from dcs.data._dataset import DataError
from dcs.data._files import quote, unreadable
from dcs.data._lzw import decode_lzw

TIFF_SUFFIXES = (".tif", ".tiff")

_WHITE_IS_ZERO, _PALETTE = 0, 3
_PLAIN = (_WHITE_IS_ZERO, 1, 2, _PALETTE, 32803, 34892)  # photometric: grey, RGB, palette, sensor data
_LZW = 5
_COMPRESSIONS = (1, _LZW, 8, 32946, 32773, 34925)  # none, deflate, PackBits, LZMA: without imagecodecs
_BITS = (1, 8, 16, 32, 64)
_ALL_SERIES = ("generic", "uniform", "shaped", "ome")  # other kinds append previews and labels

logging.getLogger("tifffile").addHandler(logging.NullHandler())  # what matters is checked, and raises


class Pixels(NamedTuple):
    """How stored numbers become values.

    Args:
        full: Number that becomes 1; None if numbers are not scaled.
        inverted: Whether the largest number is black.
        alpha: Channels that hold opacity.
        palette: Colours of the numbers, (3, 256) in uint8; None if they are values.
        orientation: TIFF orientation, 1 to 8.
    """

    full: float | None = None
    inverted: bool = False
    alpha: tuple[int, ...] = ()
    palette: bytes | None = None
    orientation: int = 1


class TiffSeries(NamedTuple):
    """Pictures or volumes of one size in a TIFF file.

    Args:
        file: Path.
        layout: Axes and shape of the series.
        dtype: Type of the stored numbers, with their byte order.
        block: Shape of a block, which is a page, or the whole series if its pages are contiguous.
        offsets: Byte offset of the numbers of each block if `mapped`, else of its directory.
        mapped: Whether numbers are stored as they are, without compression.
        pixels: How numbers become values.
    """

    file: Path
    layout: Layout
    dtype: str
    block: tuple[int, ...]
    offsets: tuple[int, ...]
    mapped: bool
    pixels: Pixels

    @property
    def lazy(self) -> bool:
        """Whether a region is read without the rest of its item."""
        return self.mapped and self.pixels.orientation == 1

    @property
    def size(self) -> tuple[int, ...]:
        """Size of an item, upright."""
        *depth, height, width = self.layout.size
        return (*depth, width, height) if self.pixels.orientation > 4 else (*depth, height, width)

    @property
    def channels(self) -> int | None:
        """Number of channels of an item, without opacity; None if it is grey."""
        if self.pixels.palette is not None:
            return None if _is_grey(_colours(self.pixels.palette)) else 3
        count = (self.layout.channels or 1) - len(self.pixels.alpha)
        return None if count == 1 else count

    def read(self, number: int, start: Sequence[int] | None = None, size: Sequence[int] | None = None) -> Any:
        """Read an item, or a region of it, (channels, *size) or (*size) in float32."""
        if self.pixels.orientation != 1 and size is not None:
            whole, first = self.read(number), start or (0,) * len(size)
            return whole[(..., *(slice(a, a + n) for a, n in zip(first, size, strict=True)))]
        index = self.layout.index(number, start, size)
        pages = len(self.layout.shape) - len(self.block)
        numbers = np.arange(len(self.offsets)).reshape(self.layout.shape[:pages])
        chosen = np.asarray(numbers[index[:pages]])
        with self._blocks() as read:
            parts = [read(int(block))[index[pages:]] for block in chosen.flat]
        stored = np.stack(parts).reshape(*chosen.shape, *parts[0].shape)
        values = _to_values(self.layout.arrange(stored), len(self.layout.size), self.pixels, self.file)
        return upright(values, self.pixels.orientation)

    @contextmanager
    def _blocks(self) -> Iterator[Callable[[int], np.ndarray]]:
        """Give a function that reads a block."""
        if self.mapped:
            yield lambda block: np.memmap(self.file, self.dtype, "r", self.offsets[block], self.block)
            return
        with open_tiff(self.file) as tiff:
            yield lambda block: self._decode(tiff, block)

    def _decode(self, tiff: Any, block: int) -> np.ndarray:
        tifffile = require("tifffile", "images", "reading TIFF files")
        try:
            tiff.filehandle.seek(self.offsets[block])
            page = tifffile.TiffPage(tiff, block)
            by_hand = page.compression == _LZW and find_spec("imagecodecs") is None
            found = decode_lzw(page) if by_hand else page.asarray(maxworkers=1)
        except Exception as error:
            raise ValueError(f"page {block}: {error}") from error
        if found is None or found.shape != self.block:
            raise ValueError(f"page {block}: it is not of shape {self.block}")
        return np.asarray(found)


def scan_tiff(file: Path, axes: str | None = None) -> list[TiffSeries] | None:
    """Read the headers of a TIFF file; None if Pillow has to read it.

    Args:
        file: Path.
        axes: Meaning of the axes; by default as the file says, and pages of unknown meaning are pictures.
    """
    with open_tiff(file) as tiff:
        chosen = _choose(tiff)
        if any(page is None or page.parent is not tiff for series in chosen for page in series.pages):
            with open_tiff(file, is_ome=False) as alone:  # one of several files of an OME-TIFF
                chosen = _choose(alone)
                return _describe_all(file, chosen, axes)
        return _describe_all(file, chosen, axes)


@contextmanager
def open_tiff(file: Path, **options: Any) -> Iterator[Any]:
    """Open a TIFF file; errors until it is closed name the file."""
    tifffile = require("tifffile", "images", "reading TIFF files")
    try:
        with tifffile.TiffFile(file, **options) as tiff:
            yield tiff
    except (DataError, FileNotFoundError, PermissionError):
        raise
    except Exception as error:  # corrupted files make tifffile raise errors of every kind
        reason = str(error).splitlines()
        raise unreadable(file, "an image", reason[0] if reason else type(error).__name__) from error


def upright(values: np.ndarray, orientation: int) -> np.ndarray:
    """Undo an EXIF or TIFF orientation of (..., h, w)."""
    if orientation > 4:
        values = values.swapaxes(-1, -2)
    if orientation in (3, 4, 7, 8):
        values = values[..., ::-1, :]
    return values[..., ::-1] if orientation in (2, 3, 6, 7) else values


def _choose(tiff: Any) -> list[Any]:
    """Return the series that hold data, not previews."""
    found = list(tiff.series)
    if not found:
        raise DataError(f"{quote(tiff.filehandle.path)} holds no images: remove it")
    if found[0].kind not in _ALL_SERIES:
        return found[:1]
    chosen = [s for s in found if not (s.keyframe.is_reduced or s.keyframe.is_mask or s.keyframe.is_subifd)]
    return chosen or found[:1]


def _describe_all(file: Path, chosen: list[Any], axes: str | None) -> list[TiffSeries] | None:
    if all(_is_readable(series.keyframe) for series in chosen):
        return [_describe(file, series, axes) for series in chosen]
    known = [series.axes.replace("S", "") for series in chosen]
    if axes is None and all(set(letters) <= set("IQTYX") for letters in known):
        return None  # pictures, which Pillow may be able to decode
    page = next(series.keyframe for series in chosen if not _is_readable(series.keyframe))
    raise DataError(
        f"{quote(file)} is stored in a way ({page.compression.name}, {page.photometric.name}, "
        f"{page.bitspersample} bits) that needs the package imagecodecs: install it, or save the file "
        f"without compression"
    )


def _is_readable(page: Any) -> bool:
    """Return whether tifffile can decode a page, and gives grey, RGB or separate channels."""
    if page.photometric not in _PLAIN or page.dtype is None or page.dtype.kind == "c":
        return False
    if page.photometric == _PALETTE and (page.bitspersample != 8 or page.samplesperpixel > 1):
        return False
    if find_spec("imagecodecs") is not None:
        return True
    if page.compression == _LZW:
        return page.bitspersample in _BITS[1:]
    return page.compression in _COMPRESSIONS and page.bitspersample in _BITS and page.predictor in (1, 2)


def _describe(file: Path, series: Any, axes: str | None) -> TiffSeries:
    page, shape, known = series.keyframe, tuple(series.shape), series.axes
    if 0 in shape or "Y" not in known or "X" not in known:
        raise unreadable(file, "an image", f"its axes are {known} of lengths {shape}")
    if axes is None:
        layout = Layout(known.replace("S", "c"), shape)
    else:
        layout = given_layout(axes, shape, quote(file), known)
    dtype = series.dtype.newbyteorder(page.parent.byteorder)
    pixels = _pixels_of(page, layout, known)
    whole = series.dataoffset
    pages = list(series.pages) if whole is None else []
    block = tuple(page.shape) if whole is None else shape
    mapped = whole is not None or all(_is_contiguous(one) for one in pages)
    if whole is not None:
        offsets: tuple[int, ...] = (whole,)
    else:
        offsets = tuple(int(one.dataoffsets[0] if mapped else one.offset) for one in pages)
    if len(offsets) * prod(block) != prod(shape) or shape[len(shape) - len(block) :] != block:
        raise unreadable(file, "an image", f"its {len(offsets)} pages of {block} do not fill {shape}")
    length = file.stat().st_size
    if mapped and max(offsets) + prod(block) * dtype.itemsize > length:
        raise unreadable(file, "an image", f"it ends after {length} bytes: it is truncated")
    if not mapped:
        _check_pixels(file, layout)
    return TiffSeries(file, layout, dtype.str, block, offsets, mapped, pixels)


def _is_contiguous(page: Any) -> bool:
    """Return whether the numbers of a page are stored as they are, one after another."""
    strips = list(zip(page.dataoffsets, page.databytecounts, strict=False))
    return bool(page.is_final) and all(a + n == b for (a, n), (b, _) in pairwise(strips))


def _check_pixels(file: Path, layout: Layout) -> None:
    """Refuse what would take too much memory to decode."""
    limit = require("PIL.Image", "images", "reading images").MAX_IMAGE_PIXELS
    count = prod(layout.size[-2:])
    if limit is not None and count > limit:
        raise DataError(
            f"{quote(file)} has too many pixels to be decoded safely ({count} pixels): save it without "
            f"compression, or raise PIL.Image.MAX_IMAGE_PIXELS if you trust it"
        )


def _pixels_of(page: Any, layout: Layout, known: str) -> Pixels:
    tag = page.tags.get(274)
    orientation = int(tag.value) if tag is not None and tag.value in range(1, 9) else 1
    if page.photometric == _PALETTE:
        colours = (np.asarray(page.colormap) >> 8).astype(np.uint8)
        return Pixels(palette=colours.tobytes(), orientation=orientation)
    full = {"b": 1.0}.get(page.dtype.kind)
    if page.dtype.kind == "u" and page.bitspersample <= 16:
        full = 2.0**page.bitspersample - 1
    alpha: tuple[int, ...] = ()
    samples = page.samplesperpixel
    if "S" in known and layout.axes[known.index("S")] in "Cc" and layout.channels == samples:
        first = samples - len(page.extrasamples)
        alpha = tuple(first + i for i, kind in enumerate(page.extrasamples) if kind in (1, 2))
    inverted = page.photometric == _WHITE_IS_ZERO and full is not None
    return Pixels(full, inverted, alpha, None, orientation)


def _to_values(stored: np.ndarray, ndim: int, pixels: Pixels, file: Path) -> np.ndarray:
    """Convert stored numbers, (channels, *size) or (*size), to values in float32."""
    if pixels.palette is not None:
        colours = _colours(pixels.palette)
        colours = colours[:1] if _is_grey(colours) else colours
        found = colours[:, stored]
        return _divided(found[0] if len(found) == 1 else found, 255)
    if pixels.alpha:
        opaque = 1.0 if stored.dtype.kind == "f" else pixels.full or np.iinfo(stored.dtype).max
        if (stored[list(pixels.alpha)] != opaque).any():
            raise not_opaque(file)
        stored = np.delete(stored, pixels.alpha, axis=0)
        stored = stored[0] if len(stored) == 1 else stored
    assert stored.ndim in (ndim, ndim + 1)  # noqa: S101
    if pixels.full is None:
        with np.errstate(over="ignore"):  # what is too large for float32 becomes infinite, and is refused
            return stored.astype(np.float32)
    if pixels.inverted:
        stored = np.asarray(pixels.full - stored)
    return _divided(stored, pixels.full)


def _divided(stored: np.ndarray, full: float) -> np.ndarray:
    values: np.ndarray = np.divide(stored, full, dtype=np.float32)
    return values


def not_opaque(file: Path) -> DataError:
    """Return the error for an image that is not opaque."""
    return DataError(
        f"{quote(file)} is partly transparent: flatten it onto a background first, or save it opaque"
    )


def _colours(palette: bytes) -> np.ndarray:
    return np.frombuffer(palette, np.uint8).reshape(3, -1)


def _is_grey(colours: np.ndarray) -> bool:
    return bool((colours == colours[:1]).all())

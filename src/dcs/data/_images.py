"""Image files: pictures and volumes with any channels and type of numbers, as float32."""

import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dcs._naming import argument
from dcs._optional import require
from dcs.data._dataset import DataError, Samples, is_resident
from dcs.data._files import (
    check_sample,
    decode_checked,
    list_kinds,
    quote,
    read_files,
    read_items,
    scan_files,
    unreadable,
)
from dcs.data._tiff import TIFF_SUFFIXES, TiffSeries, not_opaque, scan_tiff, upright
from dcs.data.windows import CentralWindows, FileItems, Items, WholeItems, default_window

if TYPE_CHECKING:
    from dcs.data._reading import Reading  # imports pydantic, which takes a while

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp")

_FORMATS = ("PNG", "JPEG", "TIFF", "BMP", "WEBP")
_READ_AS = {"1": "L", "L": "L", "LA": "LA", "La": "LA"}  # 8-bit modes; all others as RGB
_READ_AS |= dict.fromkeys(("P", "PA", "RGBA", "RGBa"), "RGBA")
_GREY_MODES = {"1", "L", "LA", "La", "I", "F"}  # and all I;16
_ORIENTATION = 0x0112  # EXIF and TIFF tag
_BITS_PER_SAMPLE = 258  # TIFF tag
_LAZY_FROM = 2**26  # numbers, from which uncompressed files stay on disk
_SCALED, _FLOATING = "integers", "floating point"
_SAMPLE_FORMAT = 339  # TIFF tag; 2 says signed
_PHOTOMETRIC = 262  # TIFF tag; 0 says that white is zero
_PLANES = 284  # TIFF tag; 2 says that each channel is stored apart


class Picture(NamedTuple):
    """A picture or volume in a file.

    Args:
        file: Path.
        number: Number in the file, from 0; None if it is the only one there.
        part: Series of a TIFF file and number in it; None if Pillow reads the picture, at `number`.
        size: Size along its axes of space, upright.
        channels: Number of channels; None if it is grey.
        kind: Scale of its numbers, in words.
    """

    file: Path
    number: int | None
    part: tuple[TiffSeries, int] | None
    size: tuple[int, ...]
    channels: int | None
    kind: str

    def __str__(self) -> str:
        return f"{self.file}{self.mark}"

    @property
    def mark(self) -> str:
        """What its name has after that of the file."""
        return "" if self.number is None else f"#{self.number}"

    @property
    def lazy(self) -> bool:
        """Whether a region is read without the rest."""
        return self.part is not None and self.part[0].lazy

    def read(self, start: Sequence[int] | None = None, size: Sequence[int] | None = None) -> np.ndarray:
        """Read the picture, (channels, *size) or (*size) in float32; a region only if it is lazy."""
        if self.part is None:
            with open_image(self.file, self.number) as image:
                pixels = _read_pixels(self.file, image)
                turned = _orientation(image)
            return upright(pixels if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0), turned)
        series, number = self.part
        try:
            values: np.ndarray = series.read(number, start, size)
        except (ValueError, OSError) as error:  # changed or truncated since its header was read
            if isinstance(error, DataError | FileNotFoundError | PermissionError):
                raise
            raise unreadable(Path(str(self)), "an image", str(error)) from error
        return values


class ImagePlan(NamedTuple):
    """Pictures to read.

    Args:
        pictures: One per sample or item.
        channels: Number of channels of a sample; None if all are grey.
        size: Size of samples, or of windows; None for the default size of windows.
        mixed: What to do with pictures of different sizes.
        windows: Whether samples are windows.
    """

    pictures: list[Picture]
    channels: int | None
    size: tuple[int, ...] | None
    mixed: str
    windows: bool

    def read(self, resident: bool | None = None) -> Tensor | Samples:
        """Read all; see `read_images`."""
        pictures, what = self.pictures, "reading images"
        sizes = [picture.size for picture in pictures]
        fitting = self.windows or set(sizes) == {self.size}
        decode = partial(
            _decode, channels=self.channels, size=None if fitting else self.size, mixed=self.mixed
        )
        items: Items | None = None
        if fitting and not self._in_memory(resident):
            items = PictureItems(pictures, decode, sizes, self.channels)
        if self.windows:
            items = items or read_items(pictures, decode, sizes, self.channels, what)
            return CentralWindows(items, self.size or default_window(len(sizes[0]), sizes))
        if items is not None and not items.costly:
            return WholeItems(items)
        assert self.size is not None  # noqa: S101
        shape = self.size if self.channels is None else (self.channels, *self.size)
        return read_files(pictures, decode, shape, resident, what)

    def _in_memory(self, resident: bool | None) -> bool:
        count = (self.channels or 1) * sum(prod(picture.size) for picture in self.pictures)
        if resident is None and count > _LAZY_FROM and all(picture.lazy for picture in self.pictures):
            return False
        return is_resident(count, resident)


class PictureItems(FileItems):
    """Pictures or volumes in files; regions of uncompressed TIFF files are read alone.

    Args:
        files: One picture per item.
        decode: Function that returns a picture in float32.
        sizes: Size of each item.
        channels: Number of channels; None if all are grey.
    """

    def __init__(
        self,
        files: Sequence[Picture],
        decode: Callable[[Picture], Tensor],
        sizes: Sequence[tuple[int, ...]],
        channels: int | None,
    ) -> None:
        super().__init__(files, partial(decode_checked, decode), sizes, channels)
        self.costly = not all(picture.lazy for picture in files)

    def region(self, index: int, start: Sequence[int], size: Sequence[int]) -> Tensor:
        """Read a region."""
        picture: Picture = self.files[index]
        if not picture.lazy:
            return super().region(index, start, size)
        values = _with_channels(picture.read(start, size), len(size), self.channels)
        return torch.from_numpy(np.ascontiguousarray(check_sample(values, self.shape(size), picture)))


def read_images(files: Sequence[Path], reading: "Reading", resident: bool | None = None) -> Tensor | Samples:
    """Read image files.

    Unsigned integers of up to 16 bits are divided by the largest their format can hold (8-bit by 255, 12-bit
    by 4095, 16-bit by 65535, also in colour), so they are in [0, 1]; signed, 32-bit and floating-point
    numbers are not scaled. Palette images become colour, or grey if the palette is; other colour spaces
    become RGB. Orientation is applied, unless the EXIF data is corrupted. An alpha channel is dropped, but
    must be fully opaque. Each page of a TIFF file is a picture, unless the file, or `axes`, says otherwise.

    Args:
        files: Their paths.
        reading: Options of reading. For images that differ, mixed `auto` and `windows` keep them as they are,
            `resize` averages each over the area of every new pixel, which changes the aspect where theirs
            differ, and `crop` cuts out the centre. Grey images among colour ones are repeated in three
            channels, unless mixed is `error`.
        resident: Whether to hold all in memory; None decides by their size.

    Returns:
        (n, h, w) if all are grey, else (n, c, h, w), in float32; of volumes, and of images of different
        sizes, the centres.

    Raises:
        DataError: If a file cannot be read, or images differ that must not.
    """
    return plan_images(files, reading).read(resident)


def plan_images(files: Sequence[Path], reading: "Reading") -> ImagePlan:
    """Decide, by the headers, what to read of image files; see `read_images`."""
    if reading.rate is not None:
        raise ValueError(
            f"{argument('rate')} is for recordings and is not applicable to images: leave it out"
        )
    mixed = reading.mixed
    if mixed == "pad":
        raise ValueError(f"{argument('mixed', mixed)} is for recordings: use {_fitting()} for images")
    if reading.axes and files and not any(file.suffix.lower() in TIFF_SUFFIXES for file in files):
        raise ValueError(f"{argument('axes')} is for TIFF files and arrays: leave it out")
    found = scan_files(files, partial(scan_image, axes=reading.axes), "scanning images")
    pictures = [picture for part in found for picture in part]
    if len({picture.kind == _SCALED for picture in pictures}) > 1:
        kinds = list_kinds([picture.kind for picture in pictures], pictures)
        raise DataError(f"images of different scales are mixed: {kinds}: convert them to one kind first")
    channels = _agree_on_channels(pictures, mixed)
    ndim = len(pictures[0].size)
    if any(len(picture.size) != ndim for picture in pictures):
        kinds = list_kinds(
            ["volume" if len(picture.size) == 3 else "picture" for picture in pictures], pictures
        )
        raise DataError(
            f"pictures and volumes are mixed: {kinds}: put them in folders of their own, or name their axes "
            f"with {argument('axes')}"
        )
    size = (reading.size,) * ndim if isinstance(reading.size, int) else reading.size
    if size is not None and len(size) != ndim:
        wanted = "(depth, height, width) for volumes" if ndim == 3 else "(height, width) for images"
        raise ValueError(f"size must be a number or {wanted}, got {size!r}")
    sizes = {picture.size for picture in pictures}
    differ = len(sizes) > 1 or ndim == 3 or (size is not None and sizes != {size})
    if mixed == "windows" or (mixed == "auto" and differ):
        largest = tuple(max(lengths) for lengths in zip(*sizes, strict=True))
        if size is not None and any(want > have for want, have in zip(size, largest, strict=True)):
            raise ValueError(
                f"size must be at most that of the largest image for windows, {'×'.join(map(str, largest))}, "
                f"got {'×'.join(map(str, size))}"
            )
        return ImagePlan(pictures, channels, size, mixed, windows=True)
    if ndim == 3:
        raise ValueError(
            f"{argument('mixed', mixed)} is for pictures; volumes are read in windows: leave it out"
        )
    return ImagePlan(pictures, channels, _agree_on_size(pictures, mixed, size), mixed, windows=False)


def check_image(file: Path, axes: str | None = None) -> None:
    """Raise DataError if an image cannot be read or is not finite."""
    for picture in scan_image(file, axes):
        rows, *others = picture.size
        step = max(1, _LAZY_FROM // max(1, prod(others))) if picture.lazy else rows
        for start in range(0, rows, step):
            place = (
                ((start, *(0 for _ in others)), (min(step, rows - start), *others)) if picture.lazy else ()
            )
            if not np.isfinite(picture.read(*place)).all():
                raise DataError(
                    f"{quote(picture)} has NaN or infinite pixels: replace them, or remove the file"
                )


def _agree_on_channels(pictures: list[Picture], mixed: str) -> int | None:
    counts = {picture.channels for picture in pictures}
    repeated = counts == {None, 3} and mixed != "error"
    if len(counts) > 1 and not repeated:
        names = {None: "grey", 3: "colour"}
        kinds = list_kinds([names.get(p.channels, f"{p.channels} channels") for p in pictures], pictures)
        remedy = (
            f", or repeat the grey ones in three channels with {_fitting()}" if counts == {None, 3} else ""
        )
        raise DataError(
            f"grey and colour images are mixed: {kinds}: put them in folders of their own{remedy}"
            if counts == {None, 3}
            else f"images with different channels are mixed: {kinds}: put them in folders of their own"
        )
    return 3 if repeated else counts.pop()


def _agree_on_size(pictures: list[Picture], mixed: str, wanted: tuple[int, ...] | None) -> tuple[int, ...]:
    sizes = [picture.size for picture in pictures]
    smallest = (min(height for height, _ in sizes), min(width for _, width in sizes))
    height, width = wanted or smallest
    if mixed in ("auto", "error") and set(sizes) != {(height, width)}:
        asked = f", {height}×{width} as size asks," if wanted else ""
        raise DataError(
            f"images must be of one size (height×width){asked} but these are "
            f"{list_kinds([f'{h}×{w}' for h, w in sizes], pictures)}: "
            f"remove the odd ones, or use {_fitting()}"
        )
    if mixed == "crop" and (smallest[0] < height or smallest[1] < width):
        small = [picture for picture in pictures if picture.size[0] < height or picture.size[1] < width]
        kinds = list_kinds([f"{h}×{w}" for h, w in (picture.size for picture in small)], small)
        raise DataError(
            f"images are smaller (height×width) than the {height}×{width} that size cuts out: {kinds}: "
            f"use a smaller size, or {argument('mixed', 'resize')}"
        )
    return height, width


def scan_image(file: Path, axes: str | None = None) -> tuple[Picture, ...]:
    """Read the header of an image file, and return the pictures in it."""
    if file.suffix.lower() not in TIFF_SUFFIXES:
        return (_scan_by_pillow(file, None),)
    found = scan_tiff(file, axes)
    if found is None:
        with open_image(file) as image:
            pages = getattr(image, "n_frames", 1)
        return tuple(_scan_by_pillow(file, None if pages == 1 else page) for page in range(pages))
    parts = [(series, number) for series in found for number in range(series.layout.count)]
    return tuple(
        Picture(
            file, None if len(parts) == 1 else at, part, part[0].size, part[0].channels, _kind_of(part[0])
        )
        for at, part in enumerate(parts)
    )


def _kind_of(series: TiffSeries) -> str:
    dtype = np.dtype(series.dtype)
    if series.pixels.full is not None or series.pixels.palette is not None:
        return _SCALED
    return _FLOATING if dtype.kind == "f" else f"{dtype.newbyteorder('=')} numbers"


def _scan_by_pillow(file: Path, page: int | None) -> Picture:
    with open_image(file, page) as image:
        pages = getattr(image, "n_frames", 1)
        if pages > 1 and image.format not in ("MPO", "TIFF"):  # in a camera's MPO, what follows are previews
            raise DataError(f"{quote(file)} holds {pages} images: split it into files of one image each")
        signed = image.format == "TIFF" and image.tag_v2.get(_SAMPLE_FORMAT, (1,))[0] == 2
        if signed or (image.mode == "I" and image.format == "TIFF"):
            raise DataError(
                f"{quote(file)} holds signed or 32-bit integers with a compression that only the package "
                f"imagecodecs reads: install it, or save the file without compression"
            )
        width, height = image.size
        if image.format != "TIFF" and _orientation(image) > 4:  # Pillow gives TIFF images upright
            width, height = height, width
        kind = _FLOATING if image.mode == "F" else _SCALED
        return Picture(file, page, None, (height, width), None if _is_grey(image) else 3, kind)


def _decode(picture: Picture, *, channels: int | None, size: tuple[int, ...] | None, mixed: str) -> Tensor:
    values = picture.read()
    ndim = len(picture.size)
    if size is not None and values.shape[-ndim:] != size:
        planes = values[None] if values.ndim == ndim else values
        if mixed == "resize":
            planes = np.stack([_resize(plane, size) for plane in planes])
        elif mixed == "crop":
            top, left = ((have - want) // 2 for have, want in zip(planes.shape[1:], size, strict=True))
            planes = planes[:, top : top + size[0], left : left + size[1]]
        values = planes[0] if values.ndim == ndim else planes
    return torch.from_numpy(np.ascontiguousarray(_with_channels(values, ndim, channels)))


def _with_channels(values: np.ndarray, ndim: int, channels: int | None) -> np.ndarray:
    """Repeat what is grey where channels are wanted."""
    return values if channels is None or values.ndim > ndim else np.stack([values] * channels)


def _resize(channel: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """Resize by averaging over areas, which keeps the range and does not spread noise to neighbours."""
    pillow = require("PIL.Image", "images", "reading images")
    image = pillow.fromarray(np.ascontiguousarray(channel))
    return np.array(image.resize((size[1], size[0]), pillow.Resampling.BOX))


def _read_pixels(file: Path, image: Any) -> np.ndarray:
    """Return the pixels as stored, (h, w) or (h, w, 3) in float32."""
    grey, mode = _is_grey(image), image.mode  # before decoding, which changes the palette
    if mode == "F":
        return np.array(image, dtype=np.float32)
    key = image.info.pop("transparency", None) if mode not in ("P", "PA") else None
    if not grey and stored_bits(image) > 8:
        pixels, full = _read_deep_colour(file, image), 65535
    elif mode.startswith("I"):
        pixels, full = np.array(image), 2 ** stored_bits(image) - 1 if image.format == "TIFF" else 65535
        if image.format == "TIFF" and image.tag_v2.get(_PHOTOMETRIC) == 0:  # Pillow inverts 8-bit ones only
            pixels = full - pixels
    else:
        target = _READ_AS.get(mode, "RGB")
        pixels, full = np.asarray(image if mode == target else image.convert(target)), 255
    pixels = pixels.reshape(*pixels.shape[:2], -1)
    if key is not None:
        transparent = (pixels == key).all(axis=-1)
    else:
        transparent = pixels[..., -1] < full if pixels.shape[2] in (2, 4) else np.zeros(())
    if transparent.any():
        raise not_opaque(file)
    values: np.ndarray = np.divide(pixels[..., 0] if grey else pixels[..., :3], full, dtype=np.float32)
    return values


def _read_deep_colour(file: Path, image: Any) -> np.ndarray:
    """Read both bytes of 16-bit colour: Pillow keeps the upper, so a second decoding reads the lower."""
    lower_of = {"L": "B", "B": "L", "N": "B" if sys.byteorder == "little" else "L"}
    with open_image(file) as lower:
        tiles = []
        for tile in lower.tile:
            rawmode, *others = (tile.args,) if isinstance(tile.args, str) else tile.args
            if image.format == "TIFF" and image.tag_v2.get(_PLANES) == 2:
                rawmode = "in planes"  # which are decoded in a way of their own
            if rawmode[:-1] not in ("RGB;16", "RGBA;16", "RGBX;16"):
                raise DataError(
                    f"{quote(file)} stores 16-bit pixels in a way that cannot be read in full ({rawmode}): "
                    f"save it as a 16-bit RGB or grey PNG file, without alpha"
                )
            rawmode = rawmode[:-1] + lower_of[rawmode[-1]]
            tiles.append(tile._replace(args=(rawmode, *others) if others else rawmode))
        lower.tile = tiles
        both: np.ndarray = np.asarray(image).astype(np.uint16) << 8 | np.asarray(lower)
        return both


def stored_bits(image: Any) -> int:
    """Return the number of bits per channel; more than 8 only where the format has more."""
    if image.format == "TIFF":
        return int(max(image.tag_v2.get(_BITS_PER_SAMPLE, (1,))))
    return 16 if image.format == "PNG" and ";16" in image.tile[0].args else 8


def _is_grey(image: Any) -> bool:
    """Return whether an image that was opened but not decoded is grey."""
    if image.mode not in ("P", "PA"):
        return image.mode in _GREY_MODES or image.mode.startswith("I;16")
    pillow = require("PIL.Image", "images", "reading images")
    pixel = pillow.new("P", (1, 1))  # whose palette can be read in RGB without decoding the image
    pixel.putpalette(image.palette)
    red, green, blue = np.array(pixel.getpalette("RGB")).reshape(-1, 3).T
    return bool((red == green).all() and (green == blue).all())


def _orientation(image: Any) -> int:
    """Return the EXIF orientation, 1 to 8; 1 (upright) if none can be read."""
    pillow = require("PIL.Image", "images", "reading images")
    try:
        # Not image.getexif(), which decodes a PNG image in search of EXIF data at its end.
        orientation = pillow.Image.getexif(image).get(_ORIENTATION)
    except (SyntaxError, ValueError, TypeError, LookupError, OSError, struct.error):
        return 1
    return int(orientation) if orientation in range(1, 9) else 1


@contextmanager
def open_image(file: Path, page: int | None = None) -> Iterator[Any]:
    """Open an image, at a page; errors until it is closed name the file."""
    pillow = require("PIL.Image", "images", "reading images")
    try:
        # A stream, as Pillow maps a named TIFF file into memory, and then misreads one that is turned.
        with file.open("rb") as stream, pillow.open(stream, formats=_FORMATS) as image:
            limit = pillow.MAX_IMAGE_PIXELS
            if limit is not None and image.width * image.height > limit:
                raise pillow.DecompressionBombError(f"{image.width * image.height} pixels")
            if page is not None:
                image.seek(page)
            yield image
    except (DataError, FileNotFoundError, PermissionError):
        raise
    except pillow.DecompressionBombError as error:
        raise DataError(
            f"{quote(file)} has too many pixels to be decoded safely ({error}): cut it into smaller images, "
            f"or raise PIL.Image.MAX_IMAGE_PIXELS if you trust it"
        ) from error
    except Exception as error:  # corrupted files make Pillow raise errors of every kind
        reason = str(error) or type(error).__name__
        if isinstance(error, pillow.UnidentifiedImageError):
            reason = "its content is not that of an image"
        raise unreadable(file, "an image", reason) from error


def _fitting() -> str:
    """Name the ways to use images of different sizes."""
    return f"{argument('mixed', 'windows')}, {argument('mixed', 'resize')} or {argument('mixed', 'crop')}"

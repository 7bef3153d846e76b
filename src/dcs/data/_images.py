"""Image files: grey or colour, 8-bit, 16-bit or floating-point, as float32."""

import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dcs._naming import argument
from dcs._optional import require
from dcs.data._dataset import DataError, Samples
from dcs.data._files import list_kinds, quote, read_files, read_items, scan_files, unreadable
from dcs.data.windows import CentralWindows, default_window

if TYPE_CHECKING:
    from dcs.data._reading import Reading  # imports pydantic, which takes a while

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp")

_FORMATS = ("PNG", "JPEG", "TIFF", "BMP", "WEBP")
_READ_AS = {"1": "L", "L": "L", "LA": "LA", "La": "LA"}  # 8-bit modes; all others as RGB
_READ_AS |= dict.fromkeys(("P", "PA", "RGBA", "RGBa"), "RGBA")
_GREY_MODES = {"1", "L", "LA", "La", "I", "F"}  # and all I;16
_ORIENTATION = 0x0112  # EXIF and TIFF tag
_BITS_PER_SAMPLE = 258  # TIFF tag
_SAMPLE_FORMAT = 339  # TIFF tag; 2 says signed
_PHOTOMETRIC = 262  # TIFF tag; 0 says that white is zero
_PLANES = 284  # TIFF tag; 2 says that each channel is stored apart


class _Header(NamedTuple):
    size: tuple[int, int]
    colour: bool
    floating: bool


def read_images(files: Sequence[Path], reading: "Reading", resident: bool | None = None) -> Tensor | Samples:
    """Read image files.

    Integers are divided by the largest their format can hold (8-bit by 255, 12-bit by 4095, 16-bit by
    65535, also in colour), so they are in [0, 1]; floating-point images are not scaled. Palette images
    become colour, or grey if the palette is; other colour spaces become RGB. EXIF orientation is applied,
    unless the EXIF data is corrupted. An alpha channel is dropped, but must be fully opaque.

    Args:
        files: One per sample.
        reading: Options of reading. For images that differ, mixed `auto` and `windows` keep them as they are,
            `resize` averages each over the area of every new pixel, which changes the aspect where theirs
            differ, and `crop` cuts out the centre. Grey images among colour ones are repeated in three
            channels, unless mixed is `error`.
        resident: Whether to hold all in memory; None decides by their size.

    Returns:
        (n, h, w) if all are grey, else (n, 3, h, w), in float32; of images of different sizes, the centres.

    Raises:
        DataError: If a file cannot be read, or images differ that must not.
    """
    for name in ("rate", "hop"):
        if getattr(reading, name) is not None:
            raise ValueError(
                f"{argument(name)} is for recordings and is not applicable to images: leave it out"
            )
    mixed, size = reading.mixed, reading.size
    if mixed == "pad":
        raise ValueError(f"{argument('mixed', mixed)} is for recordings: use {_fitting()} for images")
    size = (size, size) if isinstance(size, int) else size
    headers = scan_files(files, _read_header, "scanning images")
    if len({header.floating for header in headers}) > 1:
        kinds = list_kinds(["floating point" if header.floating else "integers" for header in headers], files)
        raise DataError(f"images of different scales are mixed: {kinds}: convert them to one kind first")
    colour = _agree_on_colour(files, [header.colour for header in headers], mixed)
    sizes = [header.size for header in headers]
    if mixed == "windows" or (mixed == "auto" and len(set(sizes)) > 1):
        decode = partial(_decode, colour=colour, size=None, mixed=mixed)
        items = read_items(files, decode, sizes, 3 if colour else None, resident, "reading images")
        return CentralWindows(items, size or default_window(2, sizes))
    height, width = _agree_on_size(files, sizes, mixed, size)
    decode = partial(_decode, colour=colour, size=(height, width), mixed=mixed)
    shape = (3, height, width) if colour else (height, width)
    return read_files(files, decode, shape, resident, "reading images")


def check_image(file: Path) -> None:
    """Raise DataError if an image cannot be read or is not finite."""
    _read_header(file)
    with _open(file) as image:
        if not np.isfinite(_read_pixels(file, image)).all():
            raise DataError(f"{quote(file)} has NaN or infinite pixels: replace them, or remove the file")


def _agree_on_colour(files: Sequence[Path], colour: list[bool], mixed: str) -> bool:
    if mixed == "error" and len(set(colour)) > 1:
        kinds = list_kinds(["colour" if c else "grey" for c in colour], files)
        raise DataError(
            f"grey and colour images are mixed: {kinds}: put them in folders of their own, or repeat the "
            f"grey ones in three channels with {_fitting()}"
        )
    return any(colour)


def _agree_on_size(
    files: Sequence[Path], sizes: list[tuple[int, int]], mixed: str, wanted: tuple[int, int] | None
) -> tuple[int, int]:
    smallest = (min(height for height, _ in sizes), min(width for _, width in sizes))
    height, width = wanted or smallest
    if mixed in ("auto", "error") and set(sizes) != {(height, width)}:
        asked = f", {height}×{width} as size asks," if wanted else ""
        raise DataError(
            f"images must be of one size (height×width){asked} but these are "
            f"{list_kinds([f'{h}×{w}' for h, w in sizes], files)}: "
            f"remove the odd ones, or use {_fitting()}"
        )
    if mixed == "crop" and (smallest[0] < height or smallest[1] < width):
        small = [i for i, (h, w) in enumerate(sizes) if h < height or w < width]
        kinds = list_kinds([f"{h}×{w}" for h, w in (sizes[i] for i in small)], [files[i] for i in small])
        raise DataError(
            f"images are smaller (height×width) than the {height}×{width} that size cuts out: {kinds}: "
            f"use a smaller size, or {argument('mixed', 'resize')}"
        )
    return height, width


def _read_header(file: Path) -> _Header:
    with _open(file) as image:
        pages = getattr(image, "n_frames", 1)
        if pages > 1 and image.format != "MPO":  # in a camera's MPO, what follows are previews
            raise DataError(f"{quote(file)} holds {pages} images: split it into files of one image each")
        signed = image.format == "TIFF" and image.tag_v2.get(_SAMPLE_FORMAT, (1,))[0] == 2
        if signed or (image.mode == "I" and image.format == "TIFF"):
            raise DataError(
                f"{quote(file)} holds signed or 32-bit integers, which have no agreed full scale: "
                f"save it with 16 bits or as floating point"
            )
        width, height = image.size
        if image.format != "TIFF" and _orientation(image) > 4:  # Pillow gives TIFF images upright
            width, height = height, width
        return _Header((height, width), not _is_grey(image), image.mode == "F")


def _decode(file: Path, *, colour: bool, size: tuple[int, int] | None, mixed: str) -> Tensor:
    with _open(file) as image:
        pixels = _read_pixels(file, image)
        pixels = _upright(pixels, _orientation(image))
    channels = pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)
    if size is not None and channels.shape[1:] != size and mixed == "resize":
        channels = np.stack([_resize(channel, size) for channel in channels])
    elif size is not None and channels.shape[1:] != size and mixed == "crop":
        top, left = ((have - want) // 2 for have, want in zip(channels.shape[1:], size, strict=True))
        channels = channels[:, top : top + size[0], left : left + size[1]]
    if colour and len(channels) == 1:
        channels = np.repeat(channels, 3, axis=0)
    return torch.from_numpy(np.ascontiguousarray(channels if colour else channels[0]))


def _resize(channel: np.ndarray, size: tuple[int, int]) -> np.ndarray:
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
    if not grey and _bits(image) > 8:
        pixels, full = _read_deep_colour(file, image), 65535
    elif mode.startswith("I"):
        pixels, full = np.array(image), 2 ** _bits(image) - 1 if image.format == "TIFF" else 65535
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
        raise DataError(
            f"{quote(file)} is partly transparent: flatten it onto a background first, or save it opaque"
        )
    values: np.ndarray = np.divide(pixels[..., 0] if grey else pixels[..., :3], full, dtype=np.float32)
    return values


def _read_deep_colour(file: Path, image: Any) -> np.ndarray:
    """Read both bytes of 16-bit colour: Pillow keeps the upper, so a second decoding reads the lower."""
    lower_of = {"L": "B", "B": "L", "N": "B" if sys.byteorder == "little" else "L"}
    with _open(file) as lower:
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


def _bits(image: Any) -> int:
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


def _upright(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """Undo an EXIF orientation of (h, w) or (h, w, 3)."""
    if orientation > 4:
        pixels = pixels.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return pixels[:, ::-1] if orientation in (2, 3, 6, 7) else pixels


@contextmanager
def _open(file: Path) -> Iterator[Any]:
    """Open an image; errors until it is closed name the file."""
    pillow = require("PIL.Image", "images", "reading images")
    try:
        # A stream, as Pillow maps a named TIFF file into memory, and then misreads one that is turned.
        with file.open("rb") as stream, pillow.open(stream, formats=_FORMATS) as image:
            limit = pillow.MAX_IMAGE_PIXELS
            if limit is not None and image.width * image.height > limit:
                raise pillow.DecompressionBombError(f"{image.width * image.height} pixels")
            yield image
    except (DataError, FileNotFoundError, PermissionError):
        raise
    except pillow.DecompressionBombError as error:
        raise DataError(
            f"{quote(file)} has too many pixels to be decoded safely ({error}): cut it into smaller images, "
            f"or raise PIL.Image.MAX_IMAGE_PIXELS if you trust it"
        ) from error
    except Exception as error:  # corrupted files make Pillow raise errors of every kind
        raise unreadable(file, "an image", str(error) or type(error).__name__) from error


def _fitting() -> str:
    """Name the ways to use images of different sizes."""
    return f"{argument('mixed', 'windows')}, {argument('mixed', 'resize')} or {argument('mixed', 'crop')}"

import os
import pickle
import struct
import zlib
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from PIL import Image, ImageOps
from torch.utils.data import DataLoader

from dcs.data import DataError, DataWarning, Reading, _folders, _images
from dcs.data._files import FileSamples, read_files
from dcs.data._recordings import plan_recordings

RNG = np.random.default_rng(0)
START = RNG.bit_generator.state
HOSTILE = ["a b.png", "ünï→.png", 'it\'s "q".png', "new\nline.png", "%s{x}.png", "-rf.png"]


@pytest.fixture(autouse=True)
def _same_draws_in_any_order():
    RNG.bit_generator.state = START


def read_images(files, resident=None, **options):
    return _images.read_images(files, Reading(**options), resident)


def read_recordings(files, resident=None, **options):
    plan = plan_recordings(files, Reading(**options))
    return plan.read(resident), plan.rate


def read_folder(folder, resident=None, **options):
    return _folders.read_folder(folder, Reading(**options), resident)


def ints(*shape, bits=8):
    return RNG.integers(0, 2**bits, shape, dtype=f"uint{8 if bits <= 8 else 16}")


def save(path, pixels, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)
    return path


def read_one(path, **options):
    return read_images([path], **options)[0].numpy()


def write_png(path, pixels, chunks=b""):
    """A 16-bit PNG, which Pillow writes in grey only: (h, w, channels)."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    height, width, channels = pixels.shape
    kind = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 16, kind, 0, 0, 0))
    extra = chunk(b"tRNS", chunks) if chunks else b""
    body = header + extra + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)
    return path


def write_tiff(path, pixels, order="<", deflate=False, planar=False, white_is_zero=False):
    """A TIFF of unsigned or signed integers, of one strip a plane: (h, w, channels)."""
    height, width, channels = pixels.shape
    planes = np.moveaxis(pixels, -1, 0) if planar else [pixels]
    data = [p.astype(pixels.dtype.newbyteorder(order)).tobytes() for p in planes]
    data = [zlib.compress(d) for d in data] if deflate else data
    bits, kind = pixels.dtype.itemsize * 8, 2 if pixels.dtype.kind == "i" else 1
    photometric = 2 if channels > 2 else 0 if white_is_zero else 1
    offsets = [8 + sum(map(len, data[:i])) for i in range(len(data))]
    tags = {256: [width], 257: [height], 258: [bits] * channels, 259: [8 if deflate else 1]}
    tags |= {262: [photometric], 273: offsets, 277: [channels], 278: [height]}
    tags |= {279: [len(d) for d in data], 284: [2 if planar else 1], 339: [kind] * channels}
    start = 8 + sum(map(len, data))
    tail, entries = b"", b""
    for tag, values in tags.items():
        packed = struct.pack(f"{order}{len(values)}I", *values)
        if len(packed) > 4:
            at = start + 2 + 12 * len(tags) + 4 + len(tail)
            tail, packed = tail + packed, struct.pack(f"{order}I", at)
        entries += struct.pack(f"{order}HHI", tag, 4, len(values)) + packed
    mark = b"II*\0" if order == "<" else b"MM\0*"
    directory = struct.pack(f"{order}H", len(tags)) + entries + bytes(4) + tail
    path.write_bytes(mark + struct.pack(f"{order}I", start) + b"".join(data) + directory)
    return path


def fails(function, *needles):
    with pytest.raises(DataError) as caught:
        function()
    for needle in needles:
        assert str(needle) in str(caught.value)


def named(path):
    return repr(str(path))


# Images


@pytest.mark.parametrize("suffix", ["png", "tif", "tiff", "bmp", "webp", "PNG", "TIF"])
@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 3)])
def test_lossless_8_bit(tmp_path, suffix, shape):
    if suffix == "webp" and len(shape) == 2:
        pytest.skip("WebP has no grey")
    pixels = ints(*shape)
    options = {"lossless": True} if suffix == "webp" else {}
    read = read_one(save(tmp_path / f"a.{suffix}", pixels, **options))
    expected = pixels if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    assert read.dtype == np.float32
    assert np.array_equal(read, expected.astype(np.float32) / np.float32(255))


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_16_bit_grey(tmp_path, suffix):
    pixels = ints(5, 7, bits=16)
    pixels[0, :2] = 0, 65535
    read = read_one(save(tmp_path / f"a.{suffix}", pixels))
    assert np.array_equal(read, pixels.astype(np.float32) / np.float32(65535))
    assert (read.min(), read.max()) == (0, 1)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("deflate", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
def test_16_bit_tiff_keeps_both_bytes(tmp_path, order, deflate, channels):
    pixels = ints(5, 7, channels, bits=16)
    read = read_one(write_tiff(tmp_path / "a.tif", pixels, order, deflate))
    expected = (pixels.astype(np.float32) / np.float32(65535)).transpose(2, 0, 1)
    assert np.array_equal(read, expected if channels == 3 else expected[0])


@pytest.mark.parametrize("deflate", [False, True])
def test_16_bit_tiff_in_planes(tmp_path, deflate):
    pixels = ints(5, 7, 3, bits=16)
    read = read_one(write_tiff(tmp_path / "a.tif", pixels, deflate=deflate, planar=True))
    assert np.array_equal(read, (pixels.astype(np.float32) / np.float32(65535)).transpose(2, 0, 1))


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_white_is_zero(tmp_path, dtype):
    pixels = ints(5, 7, 1, bits=16).astype(dtype)
    full = np.iinfo(dtype).max
    read = read_one(write_tiff(tmp_path / "a.tif", pixels, white_is_zero=True))
    assert np.array_equal(read, (full - pixels[..., 0]).astype(np.float32) / np.float32(full))


@pytest.mark.parametrize("channels", [3, 4])
def test_16_bit_colour_png_keeps_both_bytes(tmp_path, channels):
    pixels = ints(5, 7, channels, bits=16)
    pixels[..., 3:] = 65535
    read = read_one(write_png(tmp_path / "a.png", pixels))
    assert np.array_equal(read, (pixels[..., :3].astype(np.float32) / np.float32(65535)).transpose(2, 0, 1))


def test_16_bit_transparency(tmp_path):
    pixels = ints(5, 7, 4, bits=16)
    pixels[..., 3] = 65535
    pixels[2, 2, 3] = 65534  # opaque in its upper byte
    file = write_png(tmp_path / "a.png", pixels)
    fails(lambda: read_one(file), named(file), "transparent", "flatten")
    file = write_png(tmp_path / "b.png", ints(5, 7, 2, bits=16))
    fails(lambda: read_one(file), named(file), "16-bit", "without alpha")


@pytest.mark.parametrize("channels", [1, 3])
def test_16_bit_colour_key(tmp_path, channels):
    pixels = ints(5, 7, channels, bits=16) | 1
    used, unused = pixels[3, 3], pixels[3, 3] ^ 1
    file = write_png(tmp_path / "a.png", pixels, struct.pack(f">{channels}H", *used))
    fails(lambda: read_one(file), named(file), "transparent")
    assert read_one(write_png(tmp_path / "b.png", pixels, struct.pack(f">{channels}H", *unused))).size


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 3)])
def test_8_bit_colour_key(tmp_path, shape):
    pixels = ints(*shape) | 1
    key = pixels[3, 3].tolist()
    unused = 2 if pixels.ndim == 2 else (2, 2, 2)
    file = save(tmp_path / "a.png", pixels, transparency=key if pixels.ndim == 2 else tuple(key))
    fails(lambda: read_one(file), named(file), "transparent")
    assert read_one(save(tmp_path / "b.png", pixels, transparency=unused)).shape[-2:] == (5, 7)


def test_float_tiff_is_taken_as_it_is(tmp_path):
    pixels = RNG.normal(size=(5, 7)).astype(np.float32) * 100
    assert np.array_equal(read_one(save(tmp_path / "a.tif", pixels)), pixels)


def test_one_bit(tmp_path):
    pixels = RNG.random((5, 7)) < 0.5
    for suffix in ("png", "tif", "bmp"):
        assert np.array_equal(read_one(save(tmp_path / f"a.{suffix}", pixels)), pixels.astype(np.float32))


@pytest.mark.parametrize("suffix", ["png", "tif", "bmp"])
@pytest.mark.parametrize("grey", [False, True])
def test_palette(tmp_path, suffix, grey):
    palette = ints(256, 3)
    palette[:, 1:] = palette[:, :1] if grey else palette[:, 1:]
    indices = ints(20, 30)
    image = Image.frombytes("P", (30, 20), indices.tobytes())
    image.putpalette(palette.tobytes())
    image.save(tmp_path / f"a.{suffix}")
    expected = palette[indices].astype(np.float32) / np.float32(255)
    read = read_one(tmp_path / f"a.{suffix}")
    assert np.array_equal(read, expected[..., 0] if grey else expected.transpose(2, 0, 1))


@pytest.mark.parametrize("transparency", [3, bytes([255, 255, 255, 254])])
def test_palette_transparency(tmp_path, transparency):
    for used in (True, False):
        indices = ints(5, 7, bits=2)
        indices[indices == 3] = 2
        indices[0, 0] = 3 if used else 2
        image = Image.frombytes("P", (7, 5), indices.tobytes())
        image.putpalette(ints(4, 3).tobytes())
        image.save(tmp_path / "a.png", transparency=transparency)
        if used:
            fails(lambda: read_one(tmp_path / "a.png"), named(tmp_path / "a.png"), "flatten")
        else:
            assert read_one(tmp_path / "a.png").shape == (3, 5, 7)


@pytest.mark.parametrize("mode", ["LA", "RGBA"])
def test_alpha_must_be_opaque(tmp_path, mode):
    pixels = ints(5, 7, len(mode))
    pixels[..., -1] = 255
    read = read_one(save(tmp_path / "a.png", pixels))
    expected = pixels[..., :-1].transpose(2, 0, 1).astype(np.float32) / np.float32(255)
    assert np.array_equal(read, expected if mode == "RGBA" else expected[0])
    pixels[4, 6, -1] = 254
    save(tmp_path / "a.png", pixels)
    fails(lambda: read_one(tmp_path / "a.png"), named(tmp_path / "a.png"), "transparent", "flatten")


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_jpeg_is_what_pillow_decodes(tmp_path, mode):
    image = Image.fromarray(ints(16, 24, 3)).convert(mode)
    image.save(tmp_path / "a.jpg")
    with Image.open(tmp_path / "a.jpg") as opened:
        expected = np.asarray(opened.convert("L" if mode == "L" else "RGB"))
    expected = expected if mode == "L" else expected.transpose(2, 0, 1)
    assert np.array_equal(read_one(tmp_path / "a.jpg"), expected.astype(np.float32) / np.float32(255))


@pytest.mark.parametrize("shape", [(16, 24), (16, 24, 3)])
@pytest.mark.parametrize("suffix", ["jpg", "png", "tif", "deflate.tif"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_applied(tmp_path, shape, suffix, orientation):
    turn = {
        1: lambda a: a,
        2: np.fliplr,
        3: lambda a: np.rot90(a, 2),
        4: np.flipud,
        5: lambda a: np.fliplr(np.rot90(a, -1)),
        6: lambda a: np.rot90(a, -1),
        7: lambda a: np.fliplr(np.rot90(a)),
        8: np.rot90,
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"compression": "tiff_deflate"} if suffix == "deflate.tif" else {}
    pixels = ints(*shape)
    file = save(tmp_path / f"a.{suffix}", pixels, exif=exif, **options)
    if suffix == "jpg":
        with Image.open(file) as image:
            pixels = np.asarray(image)
            assert np.array_equal(turn(pixels), np.asarray(ImageOps.exif_transpose(image)))
    read = read_one(file)
    expected = turn(pixels).astype(np.float32) / np.float32(255)
    assert np.array_equal(read, expected if pixels.ndim == 2 else expected.transpose(2, 0, 1))


@pytest.mark.parametrize(
    "exif", [b"Exif\0\0nonsense", b"Exif\0\0II*\0\x08\0\0\0\xff\xff\x12\x01", b"Exif\0\0"]
)
def test_damaged_exif_is_ignored(tmp_path, exif):
    pixels = ints(16, 24)
    file = save(tmp_path / "a.png", pixels)
    data = file.read_bytes()
    chunk = struct.pack(">I", len(exif) - 6) + b"eXIf" + exif[6:]
    chunk += struct.pack(">I", zlib.crc32(chunk[4:]))
    file.write_bytes(data[:33] + chunk + data[33:])
    assert np.array_equal(read_one(file), pixels.astype(np.float32) / np.float32(255))
    jpeg = save(tmp_path / "a.jpg", pixels, exif=exif)
    assert read_one(jpeg).shape == (16, 24)


def mixed_sizes(folder):
    shapes = [(9, 8), (6, 11), (9, 8), (7, 9)]
    arrays = [ints(*shape) for shape in shapes]
    return arrays, [save(folder / f"{i}.png", a) for i, a in enumerate(arrays)]


def test_mixed_sizes_are_refused(tmp_path):
    _, files = mixed_sizes(tmp_path)
    fails(
        lambda: read_images(files, mixed="error"),
        f"9×8 (2 files, such as {named(files[0])})",
        f"6×11 (1 file, {named(files[1])})",
        'mixed="windows", mixed="resize" or mixed="crop"',
    )
    asked = {"size": (8, 9), "mixed": "error"}
    fails(lambda: read_images(files[:1], **asked), "8×9 as size asks", named(files[0]), 'mixed="resize"')
    assert read_images(files[:1], size=(4, 5)).shape == (1, 4, 5)  # a window
    assert read_images(files[::2], size=(9, 8)).shape == (2, 9, 8)


def test_many_sizes_are_summed_up(tmp_path):
    files = [save(tmp_path / f"{i}.png", ints(i + 1, 3)) for i in range(8)]
    fails(lambda: read_images(files, mixed="error"), "5×3 (1 file", "and 3 more")


@pytest.mark.parametrize("size", [None, (5, 4), (6, 8), (1, 1)])
@pytest.mark.parametrize("resident", [True, False])
def test_crop_takes_the_centre(tmp_path, size, resident):
    arrays, files = mixed_sizes(tmp_path)
    x = read_images(files, mixed="crop", size=size, resident=resident)
    height, width = size or (6, 8)
    assert tuple(x.shape) == (4, height, width)
    x = x if resident else x.read(range(4))
    for sample, pixels in zip(x.tolist(), arrays, strict=True):
        top, left = (pixels.shape[0] - height) // 2, (pixels.shape[1] - width) // 2
        for i in range(height):
            for j in range(width):
                assert sample[i][j] == np.float32(pixels[top + i, left + j]) / np.float32(255)


def test_crop_needs_large_enough_images(tmp_path):
    _, files = mixed_sizes(tmp_path)
    fails(
        lambda: read_images(files, mixed="crop", size=(7, 8)),
        "7×8",
        f"6×11 (1 file, {named(files[1])})",
        "smaller",
    )


@pytest.mark.parametrize("kind", ["8", "16", "float", "colour"])
def test_resize_averages_areas(tmp_path, kind):
    large = {
        "8": lambda: ints(8, 12),
        "16": lambda: ints(8, 12, bits=16),
        "float": lambda: RNG.normal(size=(8, 12)).astype(np.float32),
        "colour": lambda: ints(8, 12, 3),
    }[kind]()
    small = large[:4, :4]
    full = {"16": 65535, "float": 1}.get(kind, 255)
    files = [save(tmp_path / "a.tif", large), save(tmp_path / "b.tif", small)]
    x = read_images(files, mixed="resize").numpy()
    values = large.astype(np.float64) / full
    blocks = values.reshape(4, 2, 4, 3, -1).mean((1, 3)).transpose(2, 0, 1)
    expected = blocks if kind == "colour" else blocks[0]
    assert x[0] == pytest.approx(expected, abs=1e-6)
    same = (small if kind != "colour" else small.transpose(2, 0, 1)).astype(np.float32) / np.float32(full)
    assert np.array_equal(x[1], same)  # one that fits is left alone
    assert read_images(files, mixed="resize", size=(16, 5)).shape[-2:] == (16, 5)


def test_mixed_colour(tmp_path):
    grey, colour = ints(5, 7), ints(5, 7, 3)
    files = [save(tmp_path / "grey.png", grey), save(tmp_path / "colour.png", colour)]
    fails(
        lambda: read_images(files, mixed="error"),
        f"grey (1 file, {named(files[0])})",
        f"colour (1 file, {named(files[1])})",
        "folders of their own",
    )
    for mixed in ("auto", "resize", "crop"):
        x = read_images(files, mixed=mixed).numpy()
        assert np.array_equal(x[0], np.stack([grey.astype(np.float32) / np.float32(255)] * 3))
        assert np.array_equal(x[1], colour.transpose(2, 0, 1).astype(np.float32) / np.float32(255))


def test_several_pages(tmp_path):
    file = tmp_path / "stack.tif"
    pages = [ints(5, 7) for _ in range(3)]
    first, *others = [Image.fromarray(page) for page in pages]
    first.save(file, save_all=True, append_images=others)
    read = read_images([file]).numpy()
    assert np.array_equal(read, np.stack(pages).astype(np.float32) / np.float32(255))
    assert list(read_folder(tmp_path).train.names) == ["stack.tif#0", "stack.tif#1", "stack.tif#2"]
    first.save(tmp_path / "a.webp", save_all=True, append_images=others, lossless=True)
    fails(lambda: read_images([tmp_path / "a.webp"]), named(tmp_path / "a.webp"), "3 images", "split it")


def test_integers_without_full_scale_are_not_scaled(tmp_path):
    pixels = RNG.integers(0, 2**31, (5, 7), dtype=np.int32)
    assert np.array_equal(read_one(save(tmp_path / "a.tif", pixels)), pixels.astype(np.float32))
    pixels = RNG.integers(-99, 99, (5, 7, 1), dtype=np.int16)
    assert np.array_equal(read_one(write_tiff(tmp_path / "b.tif", pixels)), np.float32(pixels[..., 0]))


@pytest.mark.parametrize("suffix", ["png", "jpg", "tif", "bmp"])
def test_truncated_image(tmp_path, suffix):
    file = save(tmp_path / f"a.{suffix}", ints(64, 64))
    file.write_bytes(file.read_bytes()[:-2000])
    fails(lambda: read_images([file]), named(file), "remove it or replace it")


@pytest.mark.parametrize("content", [b"", b"not an image", b"\x89PNG\r\n\x1a\n", b"GIF89a\1\0\1\0\0\0\0;"])
def test_no_image(tmp_path, content):
    file = tmp_path / "a.png"
    file.write_bytes(content)
    fails(lambda: read_images([file]), named(file), "cannot be read as an image", "remove it or replace it")
    with pytest.raises(FileNotFoundError, match=r"b\.png"):
        read_images([tmp_path / "b.png"])


def test_damaged_images_raise_nothing_else(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    palette = Image.fromarray(ints(12, 12)).convert("P")
    palette.save(tmp_path / "p.png", transparency=3)
    sources = [save(tmp_path / f"a.{s}", ints(12, 12, 3), exif=exif) for s in ("png", "jpg", "tif")]
    for source in [*sources, save(tmp_path / "a.bmp", ints(12, 12)), tmp_path / "p.png"]:
        data = np.frombuffer(source.read_bytes(), np.uint8)
        for _ in range(60):
            damaged = data.copy()
            places = RNG.integers(8, min(len(data), 300), 3)
            damaged[places] = ints(3)
            (tmp_path / f"x{source.suffix}").write_bytes(damaged.tobytes())
            try:
                x = read_images([tmp_path / f"x{source.suffix}"])
            except DataError as error:
                assert f"x{source.suffix}" in str(error)  # noqa: PT017  (most, but not all, must fail)
            else:
                assert x.isfinite().all()


@pytest.mark.parametrize("limit", [30, 10])  # Pillow warns above it, and raises above twice as many
def test_too_many_pixels(tmp_path, monkeypatch, limit):
    file = save(tmp_path / "a.png", ints(5, 7))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    fails(lambda: read_images([file]), named(file), "too many pixels", "MAX_IMAGE_PIXELS")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    assert read_images([file]).shape == (1, 5, 7)


def test_not_finite(tmp_path):
    pixels = np.zeros((5, 7), np.float32)
    pixels[2, 3], pixels[4, 4] = np.nan, np.inf
    file = save(tmp_path / "a.tif", pixels)
    fails(lambda: read_images([file], resident=True), named(file), "2 NaN or infinite values of 35", "remove")
    fails(
        lambda: read_images([file], resident=False)[0],
        named(file),
        "2 NaN or infinite values of 35",
        "remove",
    )


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"mixed": "pad"}, ValueError),
        ({"size": 6}, ValueError),
        ({"size": (5,)}, ValueError),
        ({"size": (0, 5)}, ValueError),
        ({"size": (5, 1.5)}, ValueError),
    ],
)
def test_wrong_image_options(tmp_path, options, error):
    file = save(tmp_path / "a.png", ints(5, 7))
    with pytest.raises(error, match=next(iter(options))):
        read_images([file], **options)


# Files


def decode_number(path, shape=(2,)):
    return torch.full(shape, float(path.name))


def test_samples_survive_pickling_and_any_index():
    files = [Path(str(i)) for i in range(50)]
    samples = pickle.loads(pickle.dumps(FileSamples(files, decode_number, (2,))))  # noqa: S301
    assert len(samples) == 50
    assert samples.shape == (50, 2)
    assert samples.read([7, 7, 0])[:, 0].tolist() == [7, 7, 0]
    assert samples.read(np.array([3, 49]))[:, 1].tolist() == [3, 49]
    assert samples.read([]).shape == (0, 2)
    assert samples[-1].tolist() == [49, 49]


@pytest.mark.parametrize("size", [2, 2**14])  # without and with threads
def test_files_keep_their_order(size):
    files = [Path(str(i)) for i in RNG.permutation(101)]
    x = read_files(files, partial(decode_number, shape=(size,)), (size,), True, "reading")
    assert x[:, 0].tolist() == x[:, -1].tolist() == [float(file.name) for file in files]


@pytest.mark.parametrize("size", [2, 2**14])
def test_wrong_shape_is_refused(size):
    decode = partial(decode_number, shape=(1, size))
    needles = ("'1'", f"(1, {size})", "replace it")
    fails(lambda: read_files([Path("1")], decode, (size,), True, "reading"), *needles)
    fails(lambda: read_files([Path("1")], decode, (size,), False, "reading")[0], *needles)


def test_nothing_to_read():
    fails(lambda: read_images([]), "no files", "at least one")
    fails(lambda: read_recordings([]), "no files", "at least one")


def stack(batch):
    return torch.stack(tuple(batch))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")  # Python 3.12 and later
@pytest.mark.parametrize("side", [6, 80])  # without and with threads
def test_memory_disk_and_workers_agree(tmp_path, side):
    for i in range(11):
        save(tmp_path / f"{i:02}.png", ints(side, side, 3))
    held = read_folder(tmp_path, resident=True).train.x
    on_disk = read_folder(tmp_path, resident=False).train.x
    assert isinstance(held, torch.Tensor)
    assert isinstance(on_disk, FileSamples)
    assert on_disk.shape == held.shape == (11, 3, side, side)
    assert torch.equal(on_disk.read(range(11)), held)
    assert torch.equal(on_disk[4], held[4])
    loader = DataLoader(on_disk, batch_size=4, num_workers=2, collate_fn=stack)
    assert torch.equal(torch.cat(list(loader)), held)


# Recordings


def record(path, values, rate=8000, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, values, rate, **options)
    return path


@pytest.mark.parametrize(
    ("suffix", "subtype", "bits"),
    [("wav", "PCM_U8", 8), ("wav", "PCM_16", 16), ("wav", "PCM_24", 24), ("flac", "PCM_16", 16)],
)
def test_integer_recordings_are_exact(tmp_path, suffix, subtype, bits):
    integers = RNG.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), 500)
    integers[0] = -(2 ** (bits - 1))
    values = integers / 2 ** (bits - 1)
    x, rate = read_recordings([record(tmp_path / f"a.{suffix}", values, 8000, subtype=subtype)])
    assert rate == 8000
    assert x.dtype == torch.float32
    assert np.array_equal(x[0].numpy(), values.astype(np.float32))
    assert x.min() == -1


def test_32_bit_and_floating_point_recordings(tmp_path):
    values = RNG.uniform(-1, 1, 500).astype(np.float32)
    x, _ = read_recordings([record(tmp_path / "a.wav", values, subtype="PCM_32")])
    assert x[0].numpy() == pytest.approx(values, abs=2**-24)
    x, _ = read_recordings([record(tmp_path / "b.wav", values * 3, subtype="FLOAT")])
    assert np.array_equal(x[0].numpy(), values * 3)


def test_ogg_is_near(tmp_path):
    values = 0.5 * np.sin(np.arange(8000) * 0.05)
    x, rate = read_recordings([record(tmp_path / "a.OGG", values, format="OGG")])
    assert (rate, x.shape) == (8000, (1, 8000))
    assert np.abs(x[0].numpy() - values).max() < 0.05


def test_channels_are_averaged(tmp_path):
    values = RNG.uniform(-1, 1, (50, 3)).astype(np.float32)
    x, _ = read_recordings([record(tmp_path / "a.wav", values, subtype="FLOAT")])
    assert x[0].numpy() == pytest.approx(values.astype(np.float64).mean(1), abs=1e-7)


def lengths(folder, suffix="wav"):
    arrays = [RNG.integers(-(2**15), 2**15, n) / 2**15 for n in (30, 25, 30, 36)]
    return arrays, [record(folder / f"{i}.{suffix}", a) for i, a in enumerate(arrays)]


def test_mixed_lengths_are_refused(tmp_path):
    _, files = lengths(tmp_path)
    fails(
        lambda: read_recordings(files, mixed="error"),
        f"30 samples (2 files, such as {named(files[0])})",
        f"25 samples (1 file, {named(files[1])})",
        'mixed="crop"',
    )
    fails(
        lambda: read_recordings(files[:1], size=29),
        "of one length, 29 samples, but",
        named(files[0]),
        'mixed="crop"',
    )
    with pytest.raises(ValueError, match='pitch: use mixed="crop"'):
        read_recordings(files, mixed="resize")


@pytest.mark.parametrize("suffix", ["wav", "flac"])
@pytest.mark.parametrize("size", [None, 24, 1])
@pytest.mark.parametrize("resident", [True, False])
def test_crop_takes_the_centre_of_recordings(tmp_path, suffix, size, resident):
    arrays, files = lengths(tmp_path, suffix)
    x, _ = read_recordings(files, mixed="crop", size=size, resident=resident)
    n = size or 25
    assert tuple(x.shape) == (4, n)
    x = x if resident else x.read(range(4))
    for sample, values in zip(x.numpy(), arrays, strict=True):
        start = (len(values) - n) // 2
        assert sample.tolist() == [np.float32(values[start + i]) for i in range(n)]


def test_crop_of_ogg_is_the_centre_of_the_whole(tmp_path):
    files = [record(tmp_path / f"{n}.ogg", RNG.uniform(-0.5, 0.5, n)) for n in (9000, 20000)]
    x, _ = read_recordings(files, mixed="crop")
    whole, _ = soundfile.read(files[1], dtype="float32")
    assert x[1].numpy() == pytest.approx(whole[5500:14500], abs=1e-6)


def test_crop_needs_long_enough_recordings(tmp_path):
    _, files = lengths(tmp_path)
    fails(
        lambda: read_recordings(files, mixed="crop", size=26),
        "26 samples",
        f"25 samples (1 file, {named(files[1])})",
        "smaller size",
    )


def test_sample_rates_must_agree(tmp_path):
    files = [record(tmp_path / f"{i}.wav", np.zeros(9), rate) for i, rate in enumerate((8000, 8000, 44100))]
    fails(
        lambda: read_recordings(files, mixed="crop"),
        f"8000 Hz (2 files, such as {named(files[0])})",
        f"44100 Hz (1 file, {named(files[2])})",
        "resample",
    )


def test_unusable_recordings(tmp_path):
    empty = record(tmp_path / "empty.wav", np.zeros(0))
    fails(lambda: read_recordings([empty]), named(empty), "0 samples", "remove")
    broken = tmp_path / "broken.flac"
    broken.write_bytes(b"not a recording")
    fails(lambda: read_recordings([broken]), named(broken), "cannot be read as a recording", "replace it")
    with pytest.raises(FileNotFoundError, match=r"missing\.wav"):
        read_recordings([tmp_path / "missing.wav"])
    cut = record(tmp_path / "cut.flac", RNG.uniform(-1, 1, 20000))
    cut.write_bytes(cut.read_bytes()[:9000])
    fails(lambda: read_recordings([cut]), named(cut), "replace it")
    wrong = record(tmp_path / "nan.wav", np.array([0, np.nan, 1], np.float32), subtype="FLOAT")
    fails(lambda: read_recordings([wrong]), named(wrong), "1 NaN or infinite values of 3", "remove")
    endless = record(tmp_path / "endless.flac", np.zeros(5000))
    data = bytearray(endless.read_bytes())
    data[21] &= 0xF0  # the 36 bits of STREAMINFO that say how many samples there are
    data[22:26] = bytes(4)
    endless.write_bytes(data)
    fails(lambda: read_recordings([endless]), named(endless), "how long it is", "save it again")


def test_a_recording_that_changed_since(tmp_path):
    file = record(tmp_path / "a.wav", np.zeros(30))
    x, _ = read_recordings([file], resident=False)
    for length in (29, 31):
        record(file, np.zeros(length))
        fails(lambda: x[0], named(file), "(30,)", "changed")


@pytest.mark.skipif(os.name == "nt", reason="names are text there")
def test_names_that_are_no_text(tmp_path):
    sound = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.wav"))
    image = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.png"))
    record(tmp_path / "a.wav", np.ones(3) / 2).rename(sound)
    save(tmp_path / "a.png", ints(5, 7)).rename(image)
    assert read_recordings([sound])[0].tolist() == [[0.5] * 3]
    assert read_images([image]).shape == (1, 5, 7)
    for file in (sound, image):
        file.write_bytes(b"")
        fails(lambda file=file: (read_images if file is image else read_recordings)([file]), "\\udcff")


# Folders


def test_flat_folder(tmp_path):
    pixels = {name: ints(5, 7) for name in ("b.png", "a.png", "B.png")}
    for name, p in pixels.items():
        save(tmp_path / name, p)
    (tmp_path / "notes.txt").write_text("no image")
    data = read_folder(tmp_path)
    assert (data.name, data.location, data.test, data.classes) == (str(tmp_path), tmp_path, None, ())
    assert list(data.train.names) == ["B.png", "a.png", "b.png"]
    assert data.train.y is None
    for name, x in zip(data.train.names, data.train.x, strict=True):
        assert np.array_equal(x.numpy(), pixels[name].astype(np.float32) / np.float32(255))


@pytest.mark.parametrize("resident", [True, False])
def test_classes(tmp_path, resident):
    values = {"dog/a.wav": 1, "cat/b.wav": 2, "cat/deep/er/a.wav": 3, "eel/a.wav": 4}
    for name, value in values.items():
        record(tmp_path / name, np.full(9, value / 8))
    data = read_folder(tmp_path, resident=resident)
    assert data.classes == ("cat", "dog", "eel")
    assert list(data.train.names) == ["cat/b.wav", "cat/deep/er/a.wav", "dog/a.wav", "eel/a.wav"]
    assert data.train.y.tolist() == [0, 0, 1, 2]
    assert data.train.y.dtype == torch.int64
    assert [float(x[0]) * 8 for x in data.train.x] == [2, 3, 1, 4]


def test_files_beside_folders_have_no_labels(tmp_path):
    for name in ("cat/a.png", "dog/a.png", "c.png"):
        save(tmp_path / name, ints(5, 7))
    data = read_folder(tmp_path)
    assert (len(data.train), data.train.y, data.classes) == (3, None, ())


def test_one_class_is_none(tmp_path):
    save(tmp_path / "cat/a.png", ints(5, 7))
    data = read_folder(tmp_path)
    assert (list(data.train.names), data.train.y, data.classes) == (["cat/a.png"], None, ())


@pytest.mark.parametrize("resident", [True, False])
@pytest.mark.parametrize(("train", "test"), [("train", "test"), ("Train", "TEST")])
def test_splits(tmp_path, resident, train, test):
    pixels = {
        f"{train}/dog/a.png": ints(9, 9),
        f"{train}/cat/a.png": ints(8, 9),
        f"{test}/cat/a.png": ints(7, 7),
        f"{test}/ant/a.png": ints(9, 6),
    }
    for name, p in pixels.items():
        save(tmp_path / name, p)
    # Sizes are decided over both.
    fails(lambda: read_folder(tmp_path, mixed="error"), "9×6 (1 file", "8×9 (1 file")
    data = read_folder(tmp_path, mixed="crop", resident=resident)
    assert data.classes == ("ant", "cat", "dog")
    assert list(data.train.names) == [f"{train}/cat/a.png", f"{train}/dog/a.png"]
    assert list(data.test.names) == [f"{test}/ant/a.png", f"{test}/cat/a.png"]
    assert (data.train.y.tolist(), data.test.y.tolist()) == ([1, 2], [0, 1])
    for split in (data.train, data.test):
        assert tuple(split.x.shape) == (2, 7, 6)
        for name, x in zip(split.names, split.x, strict=True):
            p = pixels[name]
            top, left = (p.shape[0] - 7) // 2, (p.shape[1] - 6) // 2
            assert np.array_equal(
                x.numpy(), p[top : top + 7, left : left + 6].astype(np.float32) / np.float32(255)
            )


def test_a_test_split_without_labels(tmp_path):
    for name in ("train/cat/a.png", "train/dog/a.png", "test/a.png"):
        save(tmp_path / name, ints(5, 7))
    data = read_folder(tmp_path)
    assert (data.train.y.tolist(), data.test.y, data.classes) == ([0, 1], None, ("cat", "dog"))


@pytest.mark.parametrize("beside", ["val/a.png", "b.png", "extra/a.png"])
def test_splits_with_something_beside(tmp_path, beside):
    for name in ("train/a.png", "test/a.png", beside):
        save(tmp_path / name, ints(5, 7))
    fails(lambda: read_folder(tmp_path), named(tmp_path), beside.split("/")[0], "only train/ and test/")


@pytest.mark.parametrize("names", [("training", "testing"), ("test", "val"), ("val",)])
def test_other_names_for_splits_are_not_taken_for_classes(tmp_path, names):
    for name in names:
        save(tmp_path / name / "cat/a.png", ints(5, 7))
    fails(lambda: read_folder(tmp_path), named(tmp_path), names[0], "only train/ and test/")


def test_a_training_split_alone(tmp_path):
    for name in ("train/cat/a.png", "train/dog/b.png"):
        save(tmp_path / name, ints(5, 7))
    data = read_folder(tmp_path)
    assert (data.classes, data.train.y.tolist(), data.test) == (("cat", "dog"), [0, 1], None)


def test_a_class_called_train(tmp_path):
    for name in ("train/a.png", "tram/a.png"):
        save(tmp_path / name, ints(5, 7))
    assert read_folder(tmp_path).classes == ("train", "tram")


def test_hidden_and_linked_files(tmp_path):
    root = tmp_path / "data"
    save(root / "a.png", ints(5, 7))
    save(root / ".b.png", ints(6, 7))
    save(root / ".cache/c.png", ints(6, 7))
    save(tmp_path / "outside/d.png", ints(5, 7))
    (tmp_path / "outside/back").symlink_to(root, target_is_directory=True)
    (root / "link").symlink_to(tmp_path / "outside", target_is_directory=True)
    save(tmp_path / "e.png", ints(5, 7))
    (root / "linked.png").symlink_to(tmp_path / "e.png")
    assert list(read_folder(root).train.names) == ["a.png", "link/d.png", "linked.png"]
    (root / "link2").symlink_to(tmp_path / "outside", target_is_directory=True)
    assert list(read_folder(root).train.names) == ["a.png", "link/d.png", "link2/d.png", "linked.png"]
    (root / "broken.png").symlink_to(tmp_path / "nowhere.png")
    fails(lambda: read_folder(root), named(root / "broken.png"), "broken link", "remove it")


def test_scales_are_not_mixed(tmp_path):
    files = [save(tmp_path / "a.tif", np.float32(ints(5, 7))), save(tmp_path / "b.png", ints(5, 7))]
    for mixed in ("error", "crop"):
        fails(
            lambda mixed=mixed: read_images(files, mixed=mixed),
            "different scales",
            "floating point",
            "one kind",
        )


def test_other_files_are_not_skipped_in_silence(tmp_path):
    save(tmp_path / "a.png", ints(5, 7))
    (tmp_path / "Thumbs.db").touch()
    read_folder(tmp_path)
    (tmp_path / "b.gif").touch()
    with pytest.warns(DataWarning, match=r"1 file of another kind was skipped, such as 'b\.gif'"):
        read_folder(tmp_path)


def test_tiff_of_twelve_bits_and_of_signed_bytes(tmp_path):
    import tifffile

    pixels = np.array([[0, 4095], [2048, 1]], np.uint16)
    file = tmp_path / "a.tif"
    save(file, pixels)
    data = bytearray(file.read_bytes())
    tag = data.index(struct.pack("<HHIH", 258, 3, 1, 16))  # says 16 bits
    data[tag + 8] = 12
    words = [0 << 12 | 4095, 2048 << 12 | 1]  # two pixels in three bytes
    packed = b"".join(word.to_bytes(3, "big") for word in words)
    with Image.open(file) as image:
        offset = image.tag_v2[273][0]
    data[offset : offset + 6] = packed
    file.write_bytes(data)
    np.testing.assert_allclose(read_images([file])[0], pixels / 4095, atol=1e-6)
    signed = tmp_path / "b.tif"
    tifffile.imwrite(signed, np.array([[-5, 3]], np.int8))
    assert read_images([signed]).tolist() == [[[-5, 3]]]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.png")
    fails(lambda: read_folder(tmp_path), named(tmp_path / "a.png"), "not a regular file", "remove it")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may list everything")
def test_a_folder_that_cannot_be_listed(tmp_path):
    save(tmp_path / "a.png", ints(5, 7))
    (tmp_path / "locked").mkdir(mode=0)
    fails(lambda: read_folder(tmp_path), "locked", "make it readable")


def test_unlistable_folders_raise(tmp_path, monkeypatch):
    save(tmp_path / "a.png", ints(5, 7))

    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)
    fails(lambda: read_folder(tmp_path), named(tmp_path), "Permission denied", "make it readable")


def test_folders_without_use(tmp_path):
    fails(lambda: read_folder(tmp_path / "none"), named(tmp_path / "none"), "nothing there", "check the path")
    (tmp_path / "a.gif").write_bytes(b"")
    (tmp_path / "b.txt").write_bytes(b"")
    fails(lambda: read_folder(tmp_path / "b.txt"), named(tmp_path / "b.txt"), "neither an image", "convert")
    fails(lambda: read_folder(tmp_path), named(tmp_path), ".jpeg", ".flac", "2 other files", "convert")
    save(tmp_path / "c.png", ints(5, 7))
    record(tmp_path / "d.wav", np.zeros(9))
    fails(
        lambda: read_folder(tmp_path),
        "1 images and 1 recordings",
        "'c.png'",
        "'d.wav'",
        "folders of their own",
    )


def test_hostile_names(tmp_path):
    root = tmp_path / 'it\'s\na "folder" ü'
    for name in HOSTILE:
        save(root / name, ints(5, 7))
    data = read_folder(root)
    assert list(data.train.names) == sorted(HOSTILE)
    for name in HOSTILE:
        (root / name).write_bytes(b"damaged")
        fails(lambda: read_images([root / name]), named(root / name), "remove it or replace it")  # noqa: B023


def test_size_of_a_folder(tmp_path):
    save(tmp_path / "images/a.png", ints(9, 8))
    save(tmp_path / "images/b.png", ints(9, 7))
    assert read_folder(tmp_path / "images", mixed="crop", size=6).shape == (6, 6)
    assert read_folder(tmp_path / "images", mixed="resize", size=(6, 5)).shape == (6, 5)
    record(tmp_path / "sounds/a.wav", np.zeros(9))
    record(tmp_path / "sounds/b.wav", np.zeros(8))
    assert read_folder(tmp_path / "sounds", mixed="crop", size=6).shape == (6,)
    for kind in ("images", "sounds"):
        with pytest.raises(ValueError, match="at least 1, got 0"):
            read_folder(tmp_path / kind, mixed="crop", size=0)
        with pytest.raises(ValueError, match=r"mixed must be one of auto, windows, crop.*, got 'fold'"):
            read_folder(tmp_path / kind, mixed="fold")
    with pytest.raises(ValueError, match="one number of samples"):
        read_folder(tmp_path / "sounds", mixed="crop", size=(6, 6))
    with pytest.raises(ValueError, match=r"\(height, width\)"):
        read_folder(tmp_path / "images", mixed="crop", size=(6, 6, 3))

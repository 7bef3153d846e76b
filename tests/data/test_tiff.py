import pickle
import struct

import numpy as np
import pytest
import tifffile
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dcs.data import CentralWindows, DataError, DataWarning, Reading, Source, _images, load, windowed
from dcs.data._axes import Layout
from dcs.data._images import read_images
from dcs.data.windows import WholeItems

RNG = np.random.default_rng(0)
SCALE = {"uint8": 255, "uint16": 65535}


def draw(shape, dtype="uint16"):
    if np.dtype(dtype).kind == "f":
        return RNG.normal(0, 100, shape).astype(dtype)
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


def values(stored):
    """What is read of stored numbers: an independent statement of the rule."""
    return stored.astype(np.float32) / np.float32(SCALE.get(str(stored.dtype), 1))


def write(path, pixels, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    tifffile.imwrite(path, pixels, **{"photometric": "minisblack", **options})
    return path


def read(path, resident=None, **options):
    return read_images([path], Reading(**options), resident)


def items(path, **options):
    found = read(path, **options)
    assert isinstance(found, CentralWindows)
    return found.items


def fails(function, *needles):
    with pytest.raises(DataError) as caught:
        function()
    for needle in needles:
        assert str(needle) in str(caught.value)


# Numbers and storage


TYPES = ["uint8", "uint16", "uint32", "int8", "int16", "int32", "float16", "float32", "float64"]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("resident", [True, False])
def test_types_of_numbers(tmp_path, dtype, order, resident):
    pixels = draw((5, 7), dtype)
    found = read(write(tmp_path / "a.tif", pixels, byteorder=order), resident)
    assert np.array_equal(found[0].numpy(), values(pixels))


STORAGES = {
    "plain": {},
    "deflate": {"compression": "zlib"},
    "predicted": {"compression": "zlib", "predictor": True},
    "lzma": {"compression": "lzma"},
    "strips": {"rowsperstrip": 3},
    "deflate in strips": {"compression": "zlib", "rowsperstrip": 3},
    "tiles": {"tile": (16, 16)},
    "deflate in tiles": {"compression": "zlib", "tile": (16, 16)},
    "big": {"bigtiff": True},
}


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("shape", [(21, 37), (21, 37, 3), (5, 21, 37), (3, 21, 37)])
def test_storage(tmp_path, storage, shape):
    pixels = draw(shape)
    options = {"photometric": "rgb"} if 3 in shape else {}
    options |= {"planarconfig": "separate"} if shape[0] == 3 else {}
    file = write(tmp_path / "a.tif", pixels, **options, **STORAGES[storage])
    expected = values(pixels if shape[-1] != 3 else np.moveaxis(pixels, -1, 0))
    found = read(file)
    assert np.array_equal(found.numpy().squeeze(), expected)
    assert np.array_equal(read(file, False).read(range(len(found))).numpy().squeeze(), expected)


@pytest.mark.parametrize(("compression", "predictor"), [("lzw", None), ("lzw", 2), ("packbits", None)])
@pytest.mark.parametrize("mode", ["L", "I;16", "RGB", "F"])
def test_compressions_that_libtiff_writes(tmp_path, mode, compression, predictor):
    size = (150, 170)  # several strips
    if mode == "RGB":
        pixels = draw((*size, 3), "uint8")
    else:
        pixels = draw(size, {"L": "uint8", "I;16": "uint16", "F": "float32"}[mode])
    names = {"lzw": "tiff_lzw", "packbits": "packbits"}
    info = {317: predictor} if predictor and mode != "F" else {}
    Image.fromarray(pixels).save(tmp_path / "a.tif", compression=names[compression], tiffinfo=info)
    expected = values(pixels)
    expected = expected.transpose(2, 0, 1) if mode == "RGB" else expected
    assert np.array_equal(read(tmp_path / "a.tif")[0].numpy(), expected)


def test_a_stack_in_lzw(tmp_path):
    pages = draw((3, 20, 30), "uint16")
    first, *others = [Image.fromarray(page) for page in pages]
    first.save(tmp_path / "a.tif", compression="tiff_lzw", save_all=True, append_images=others)
    assert np.array_equal(read(tmp_path / "a.tif").numpy(), values(pages))
    assert np.array_equal(items(tmp_path / "a.tif", axes="ZYX").whole(0).numpy(), values(pages))


def test_other_compressions_and_colours_are_left_to_pillow(tmp_path):
    colour = Image.fromarray(draw((16, 24, 3), "uint8"))
    colour.save(tmp_path / "a.tif", compression="jpeg")
    with Image.open(tmp_path / "a.tif") as image:
        expected = np.asarray(image.convert("RGB"))
    assert np.array_equal(read(tmp_path / "a.tif")[0].numpy(), values(expected.transpose(2, 0, 1)))
    colour.convert("CMYK").save(tmp_path / "b.tif")
    expected = np.asarray(colour.convert("CMYK").convert("RGB"))
    assert np.array_equal(read(tmp_path / "b.tif")[0].numpy(), values(expected.transpose(2, 0, 1)))
    bits = RNG.random((16, 24)) < 0.5
    first, second = Image.fromarray(bits), Image.fromarray(~bits)
    first.save(tmp_path / "c.tif", compression="group4", save_all=True, append_images=[second])
    assert np.array_equal(read(tmp_path / "c.tif").numpy(), np.float32([bits, ~bits]))
    fails(
        lambda: read(tmp_path / "c.tif", axes="ZYX"), "c.tif", "CCITT", "imagecodecs", "without compression"
    )


def test_a_type_without_order_is_refused(tmp_path):
    file = write(tmp_path / "a.tif", np.ones((4, 4), np.complex64))
    fails(lambda: read(file), "a.tif")


# Channels


@pytest.mark.parametrize("channels", [2, 4, 5, 9])
@pytest.mark.parametrize("planar", [True, False])
def test_any_number_of_channels(tmp_path, channels, planar):
    pixels = draw((channels, 6, 8))
    options = {"photometric": "minisblack", "planarconfig": "separate" if planar else "contig"}
    stored = pixels if planar else np.moveaxis(pixels, 0, -1)
    file = write(tmp_path / "a.tif", stored, extrasamples=[0] * (channels - 1), **options)
    for resident in (True, False):
        found = read(file, resident)
        assert tuple(found.shape) == (1, channels, 6, 8)
        assert np.array_equal(found[0].numpy(), values(pixels))


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("colours", [1, 3])
@pytest.mark.parametrize("storage", ["plain", "deflate"])
def test_alpha_must_be_opaque(tmp_path, dtype, colours, storage):
    pixels = draw((6, 8, colours + 1), dtype)
    pixels[..., -1] = SCALE[dtype]
    options = {"photometric": "rgb" if colours == 3 else "minisblack", "extrasamples": ["unassalpha"]}
    options |= {"planarconfig": "contig", **STORAGES[storage]}
    found = read(write(tmp_path / "a.tif", pixels, **options))[0].numpy()
    expected = values(pixels[..., :-1].transpose(2, 0, 1))
    assert np.array_equal(found, expected if colours == 3 else expected[0])
    pixels[3, 3, -1] -= 1
    fails(lambda: read(write(tmp_path / "b.tif", pixels, **options)), "b.tif", "transparent", "flatten")


def test_files_must_agree(tmp_path):
    grey = write(tmp_path / "grey.tif", draw((6, 8)))
    colour = write(tmp_path / "colour.tif", draw((6, 8, 3)), photometric="rgb")
    five = write(tmp_path / "five.tif", draw((5, 6, 8)), metadata={"axes": "CYX"})
    volume = write(tmp_path / "volume.tif", draw((5, 6, 8)), metadata={"axes": "ZYX"})
    signed = write(tmp_path / "signed.tif", draw((6, 8), "int16"))
    assert read_images([grey, colour], Reading()).shape == (2, 3, 6, 8)
    fails(lambda: read_images([grey, colour], Reading(mixed="error")), "grey and colour", "grey.tif")
    fails(lambda: read_images([colour, five], Reading()), "different channels", "5 channels", "five.tif")
    fails(lambda: read_images([grey, volume], Reading()), "pictures and volumes", "volume.tif", "axes")
    fails(lambda: read_images([grey, signed], Reading()), "different scales", "int16 numbers", "signed.tif")


# Axes


@pytest.mark.parametrize("kind", ["imagej", "ome", "shaped"])
@pytest.mark.parametrize("storage", ["plain", "deflate"])
@pytest.mark.parametrize("axes", ["TYX", "ZYX", "CYX", "TZYX", "ZCYX", "TZCYX", "TCYX"])
def test_axes_of_the_metadata(tmp_path, kind, storage, axes):
    lengths = {"T": 2, "Z": 3, "C": 4, "Y": 20, "X": 17}
    pixels = draw([lengths[axis] for axis in axes])
    options = {"imagej": {"imagej": True}, "ome": {"ome": True}, "shaped": {}}[kind]
    name = "a.ome.tif" if kind == "ome" else "a.tif"
    file = write(tmp_path / name, pixels, metadata={"axes": axes}, **options, **STORAGES[storage])
    order = [axes.index(axis) for axis in "TCZYX" if axis in axes]
    expected = values(pixels.transpose(order))
    expected = expected if "T" in axes else expected[None]
    if "Z" in axes:
        for resident in (True, False):
            found = items(file, resident=resident)
            assert (found.ndim, found.channels) == (3, 4 if "C" in axes else None)
            assert np.array_equal(torch.stack([found.whole(i) for i in range(len(found))]), expected)
            assert np.array_equal(found.region(0, (1, 2, 3), (2, 5, 6)), expected[0, ..., 1:3, 2:7, 3:9])
        assert load(file).train.items.ndim == 3
    else:
        assert np.array_equal(read(file), expected)


def test_unknown_axes_are_a_stack_of_pictures(tmp_path):
    pages = draw((12, 6, 8))
    file = write(tmp_path / "stack.tif", pages)
    data = load(file)
    assert np.array_equal(data.train.x, values(pages))
    assert list(data.train.names) == [f"stack.tif#{i}" for i in range(12)]
    write(tmp_path / "single.tif", pages[0])
    assert list(load(tmp_path).train.names)[:2] == ["single.tif", "stack.tif#0"]
    volume = load(file, axes="zyx").train
    assert (len(volume), volume.items.sizes, list(volume.names)) == (1, [(12, 6, 8)], ["stack.tif"])
    assert np.array_equal(volume.items.whole(0), values(pages))


def test_pages_of_different_sizes(tmp_path):
    pages = [draw((6, 8)), draw((9, 5)), draw((7, 7))]
    with tifffile.TiffWriter(tmp_path / "a.tif") as writer:
        for page in pages:
            writer.write(page)
    data = load(tmp_path / "a.tif")
    assert data.train.items.sizes == [(6, 8), (9, 5), (7, 7)]
    for at, page in enumerate(pages):
        assert np.array_equal(data.train.items.whole(at), values(page))


def test_previews_are_not_data(tmp_path):
    pixels = draw((64, 64))
    with tifffile.TiffWriter(tmp_path / "a.tif") as writer:
        writer.write(pixels, subifds=1)
        writer.write(pixels[::2, ::2], subfiletype=1)
    assert np.array_equal(read(tmp_path / "a.tif").numpy(), values(pixels)[None])


def test_one_of_several_files_of_an_ome_tiff(tmp_path):
    pages = draw((2, 6, 8))
    for at, page in enumerate(pages):
        write(tmp_path / f"{at}.ome.tif", page, ome=True)
    with tifffile.TiffFile(tmp_path / "0.ome.tif") as tiff:
        text = tiff.ome_metadata
    both = text.replace('SizeT="1"', 'SizeT="2"').replace(
        "</Pixels>",
        '<TiffData FirstT="1" IFD="0" PlaneCount="1"><UUID FileName="missing.ome.tif">urn:uuid:1</UUID>'
        "</TiffData></Pixels>",
    )
    assert both.count("T=") > text.count("T=")
    tifffile.tiffcomment(tmp_path / "0.ome.tif", both)
    assert np.array_equal(read(tmp_path / "0.ome.tif")[0].numpy(), values(pages[0]))


def test_axes_must_fit(tmp_path):
    file = write(tmp_path / "a.tif", draw((4, 6, 8)), metadata={"axes": "ZYX"})
    fails(lambda: read(file, axes="YX"), "a.tif", "3 axes (ZYX", "(4, 6, 8)", 'axes="YX" names 2', "STCZYX")
    assert read(file, axes="SYX").shape == (4, 6, 8)
    assert read(file, axes="CYX").shape == (1, 4, 6, 8)
    Image.fromarray(draw((6, 8), "uint8")).save(tmp_path / "b.png")
    with pytest.raises(ValueError, match="axes is for TIFF files and arrays"):
        load(tmp_path / "b.png", axes="YX")
    with pytest.raises(ValueError, match="axes is not applicable to digits"):
        load("digits", axes="YX")


def test_axes_are_part_of_a_source(tmp_path):
    file = write(tmp_path / "a.tif", draw((4, 6, 8)))
    source = Source.of(file, axes="zyx")
    assert source.as_options() == ["--axes=ZYX"]
    assert Source.model_validate_json(source.model_dump_json()) == source
    assert source.load().train.items.sizes == [(4, 6, 8)]


def test_sizes_of_windows_of_volumes(tmp_path):
    file = write(tmp_path / "a.tif", draw((40, 90, 80)), metadata={"axes": "ZYX"})
    assert load(file).shape == (16, 64, 64)
    assert load(file, size="8x32x24").shape == (8, 32, 24)
    assert load(file, size=8).shape == (8, 8, 8)
    with pytest.raises(ValueError, match=r"\(depth, height, width\) for volumes"):
        load(file, size=(8, 8))
    with pytest.raises(ValueError, match="volumes are read in windows"):
        load(file, mixed="crop")


@settings(max_examples=60, deadline=None)
@given(st.permutations("STCZYX"), st.integers(2, 6), st.data())
def test_any_order_of_axes(letters, count, data):
    """Reading with axes is NumPy's transpose, whatever the order; `spread` is its inverse."""
    others = [axis for axis in letters if axis not in "YX"][: count - 2]
    axes = "".join(axis for axis in letters if axis in {*others, "Y", "X"})
    lengths = {"S": 2, "T": 3, "C": 2, "Z": 3, "Y": 5, "X": 4}
    pixels = np.arange(np.prod([lengths[a] for a in axes]), dtype=np.float32)
    pixels = pixels.reshape([lengths[axis] for axis in axes])
    layout = Layout(axes, pixels.shape)
    first = [axis for axis in axes if axis in "ST"]
    order = [axes.index(axis) for axis in (*first, *"CZYX") if axis in axes]
    expected = pixels.transpose(order)
    expected = expected.reshape(-1, *expected.shape[len(first) :])
    assert layout.count == len(expected)
    start = [data.draw(st.integers(0, n - 1)) for n in layout.size]
    size = [data.draw(st.integers(1, n - a)) for n, a in zip(layout.size, start, strict=True)]
    place = (..., *(slice(a, a + n) for a, n in zip(start, size, strict=True)))
    for number in range(layout.count):
        stored = pixels[layout.index(number)]
        assert np.array_equal(layout.arrange(stored), expected[number])
        assert np.array_equal(layout.spread(layout.arrange(stored)), stored)
        assert np.array_equal(
            layout.arrange(pixels[layout.index(number, start, size)]), expected[number][place]
        )


# Large files


def test_regions_of_a_large_file_are_read_alone(tmp_path):
    file = tmp_path / "large.tif"
    side = 20_000
    mapped = tifffile.memmap(file, shape=(side, side), dtype="uint16")  # sparse on disk
    corner = draw((50, 60))
    mapped[12_345:12_395, 15_000:15_060] = corner
    mapped.flush()
    del mapped
    split = load(file).train
    assert isinstance(split.x, WholeItems)
    found = windowed(split, (64, 64)).items
    assert (found.costly, found.sizes) == (False, [(side, side)])
    import tracemalloc

    tracemalloc.start()
    region = pickle.loads(pickle.dumps(found)).region(0, (12_345, 15_000), (50, 60))  # noqa: S301
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()
    assert np.array_equal(region, values(corner))
    other = write(tmp_path / "small.tif", corner)
    both = read_images([file, other], Reading())
    assert not both.items.costly
    assert both.read([1]).shape == (1, 64, 64)


@pytest.mark.parametrize("storage", ["plain", "strips", "pages apart"])
def test_uncompressed_files_are_lazy(tmp_path, storage):
    pages = draw((3, 40, 50))
    if storage == "pages apart":
        first, *others = [Image.fromarray(page) for page in pages]
        first.save(tmp_path / "a.tif", save_all=True, append_images=others)
    else:
        write(tmp_path / "a.tif", pages, **STORAGES[storage])
    found = read(tmp_path / "a.tif", False, mixed="windows").items
    assert not found.costly
    assert np.array_equal(found.region(2, (5, 6), (7, 8)), values(pages[2, 5:12, 6:14]))
    write(tmp_path / "b.tif", pages, compression="zlib")
    assert read(tmp_path / "b.tif", False, mixed="windows").items.costly


# Damage


def test_truncated(tmp_path):
    for storage in ("plain", "deflate", "deflate in strips"):
        file = write(tmp_path / "a.tif", draw((3, 64, 64)), **STORAGES[storage])
        file.write_bytes(file.read_bytes()[:-3000])
        fails(lambda: read(file), "a.tif", "cannot be read as an image", "remove it or replace it")  # noqa: B023


def test_truncated_after_its_header_was_read(tmp_path):
    file = write(tmp_path / "a.tif", draw((3, 64, 64)))
    found = read(file, False, mixed="windows").items
    file.write_bytes(file.read_bytes()[:-3000])
    fails(lambda: found.whole(2), "a.tif#2", "remove it or replace it")


def test_a_corrupt_page(tmp_path):
    file = write(tmp_path / "a.tif", draw((3, 64, 64)), compression="zlib")
    with tifffile.TiffFile(file) as tiff:
        at = tiff.pages[1].dataoffsets[0]
    data = bytearray(file.read_bytes())
    data[at : at + 200] = bytes(200)
    file.write_bytes(data)
    fails(lambda: read(file), "a.tif'", "page 1: ", "remove it or replace it", "skip_bad")
    write(tmp_path / "b.tif", draw((64, 64)))
    with pytest.warns(DataWarning, match=r"1 of 2 files are bad and were skipped:\n.*a\.tif.*page 1"):
        data = load(tmp_path, skip_bad=True)
    assert list(data.train.names) == ["b.tif"]


def test_absurd_headers(tmp_path):
    file = write(tmp_path / "a.tif", draw((8, 8)))
    with tifffile.TiffFile(file, mode="r+") as tiff:
        tiff.pages[0].tags["ImageWidth"].overwrite(2**31 - 1)
    fails(lambda: read(file), "a.tif", "truncated")
    file = write(tmp_path / "b.tif", draw((8, 8)), compression="zlib")
    with tifffile.TiffFile(file, mode="r+") as tiff:
        tiff.pages[0].tags["ImageWidth"].overwrite(2**31 - 1)
    fails(lambda: read(file), "b.tif", "too many pixels", "MAX_IMAGE_PIXELS")
    (tmp_path / "c.tif").write_bytes(b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", 0) + bytes(4))
    fails(lambda: read(tmp_path / "c.tif"), "c.tif")
    (tmp_path / "d.tif").write_bytes(b"not a TIFF file")
    fails(lambda: read(tmp_path / "d.tif"), "d.tif", "cannot be read as an image")


@pytest.mark.parametrize("storage", ["plain", "deflate", "tiles", "predicted"])
def test_damage_raises_nothing_else(tmp_path, storage):
    source = write(tmp_path / "a.tif", draw((2, 20, 20)), **STORAGES[storage], metadata={"axes": "ZYX"})
    data = np.frombuffer(source.read_bytes(), np.uint8)
    for _ in range(80):
        damaged = data.copy()
        damaged[RNG.integers(4, min(len(data), 500), 3)] = draw(3, "uint8")
        (tmp_path / "x.tif").write_bytes(damaged.tobytes())
        try:
            found = read(tmp_path / "x.tif")
            found = found.items.whole(0) if isinstance(found, CentralWindows) else found
        except DataError as error:
            assert "x.tif" in str(error)  # noqa: PT017
        else:
            assert found.isfinite().all()


def test_not_finite_in_a_lazy_region(tmp_path):
    pixels = draw((2, 30, 40), "float32")
    pixels[1, 20, 20] = np.nan
    file = write(tmp_path / "a.tif", pixels)
    found = read(file, False, mixed="windows").items
    assert found.region(1, (0, 0), (10, 10)).isfinite().all()
    fails(lambda: found.region(1, (15, 15), (10, 10)), "a.tif#1", "1 NaN or infinite values of 100")
    fails(lambda: _images.check_image(file), "a.tif#1", "NaN or infinite")


# Photographs


def test_photographs_of_one_sensor_held_both_ways(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    wide, turned = draw((40, 60, 3), "uint8"), draw((40, 60, 3), "uint8")
    Image.fromarray(wide).save(tmp_path / "a.png")
    Image.fromarray(turned).save(tmp_path / "b.png", exif=exif)
    split = load(tmp_path).train
    assert split.items.sizes == [(40, 60), (60, 40)]
    upright = np.rot90(turned, -1).transpose(2, 0, 1)
    assert np.array_equal(split.items.whole(1), values(upright))


def test_webp(tmp_path):
    pixels = draw((20, 30, 4), "uint8")
    pixels[..., 3] = 255
    Image.fromarray(pixels).save(tmp_path / "a.webp", lossless=True)
    expected = values(pixels[..., :3].transpose(2, 0, 1))
    assert np.array_equal(load(tmp_path / "a.webp").train.x[0], expected)
    pixels[0, 0, 3] = 7
    Image.fromarray(pixels).save(tmp_path / "a.webp", lossless=True)
    fails(lambda: load(tmp_path / "a.webp"), "a.webp", "transparent", "flatten")

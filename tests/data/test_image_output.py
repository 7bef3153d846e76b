import io

import numpy as np
import pytest
import tifffile
from PIL import Image

from dcs.data import Reading
from dcs.data._images import plan_images
from dcs.data.image_output import TiffOutput, encode_image, file_of, to_integers

RNG = np.random.default_rng(0)


def draw(shape, dtype="uint16"):
    if np.dtype(dtype).kind == "f":
        return RNG.normal(0, 100, shape).astype(dtype)
    info = np.iinfo(dtype)
    low, high = (-(2**23), 2**23) if info.bits == 32 else (info.min, info.max)
    return RNG.integers(max(low, info.min), high, shape, dtype=dtype, endpoint=True)


def write(path, pixels, **options):
    tifffile.imwrite(path, pixels, **{"photometric": "minisblack", **options})
    return path


def read_items(path, axes=None):
    return [picture.read() for picture in plan_images([path], Reading(axes=axes)).pictures]


def again(path, axes=None):
    """Write what was read of a file, and return the new file."""
    target = path.with_name(f"again-{path.name}")
    target.write_bytes(encode_image(read_items(path, axes), path, axes))
    return target


# TIFF


TYPES = ["uint8", "uint16", "uint32", "int8", "int16", "int32", "float16", "float32", "float64"]
STORAGES = {"plain": {}, "deflate": {"compression": "zlib"}, "tiles": {"tile": (16, 16)}}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("order", ["<", ">"])
def test_tiff_keeps_its_numbers_and_their_type(tmp_path, dtype, storage, order):
    pixels = draw((20, 30), dtype)
    pixels = pixels if dtype != "float64" else pixels.astype(np.float32).astype(dtype)
    file = again(write(tmp_path / "a.tif", pixels, byteorder=order, **STORAGES[storage]))
    found = tifffile.imread(file)
    assert found.dtype == np.dtype(dtype)
    assert np.array_equal(found, pixels)


@pytest.mark.parametrize("kind", ["imagej", "ome", "shaped", "bare"])
@pytest.mark.parametrize("axes", ["YX", "TYX", "ZYX", "CYX", "TZYX", "ZCYX", "TZCYX", "YXS", "TYXS"])
@pytest.mark.parametrize("by", ["bytes", "regions"])
def test_tiff_keeps_its_axes(tmp_path, kind, axes, by):
    lengths = {"T": 2, "Z": 3, "C": 4, "Y": 20, "X": 17, "S": 3}
    pixels = draw([lengths[axis] for axis in axes], "uint8")
    options = {"imagej": {"imagej": True}, "ome": {"ome": True}}.get(kind, {})
    options |= {"photometric": "rgb"} if "S" in axes else {}
    metadata = {"axes": axes} if kind != "bare" else None
    file = write(tmp_path / f"a.{'ome.' * (kind == 'ome')}tif", pixels, metadata=metadata, **options)
    if by == "bytes":
        new = again(file)
    else:
        new = file.with_name(f"again-{file.name}")
        with TiffOutput(file, new) as output:
            for number, item in enumerate(read_items(file)):
                first, rows = item.shape[-2] // 2, item.shape[-2]
                depth = (0,) * (len(output.pictures[0].size) - 2)
                output.write(number, (*depth, first, 0), item[..., first:rows, :])
                output.write(number, (*depth, 0, 0), item[..., :first, :])
    with tifffile.TiffFile(file) as old, tifffile.TiffFile(new) as made:
        assert made.series[0].axes == old.series[0].axes
        assert made.series[0].kind == old.series[0].kind
        assert len(made.pages) == len(old.pages)
        assert made.pages[0].photometric == old.pages[0].photometric
        assert np.array_equal(made.asarray(), old.asarray())


def test_tiff_with_given_axes(tmp_path):
    pixels = draw((5, 20, 30))
    file = write(tmp_path / "a.tif", pixels)
    for axes in ("ZYX", "CYX", "SYX"):
        with tifffile.TiffFile(again(file, axes)) as made:
            assert np.array_equal(made.asarray(), pixels)
            assert len(made.pages) == 5


@pytest.mark.parametrize("planar", ["contig", "separate"])
@pytest.mark.parametrize("channels", [2, 3, 5])
def test_tiff_keeps_its_channels(tmp_path, planar, channels):
    pixels = draw((20, 30, channels) if planar == "contig" else (channels, 20, 30))
    options = {"photometric": "rgb"} if channels == 3 else {"extrasamples": [0] * (channels - 1)}
    file = write(tmp_path / "a.tif", pixels, planarconfig=planar, **options)
    with tifffile.TiffFile(again(file)) as made:
        assert np.array_equal(made.asarray(), pixels)
        assert made.pages[0].planarconfig == tifffile.PLANARCONFIG[planar.upper()]
        assert made.pages[0].samplesperpixel == channels


def test_tiff_keeps_its_alpha(tmp_path):
    pixels = draw((20, 30, 4), "uint8")
    pixels[..., 3] = 255
    file = write(tmp_path / "a.tif", pixels, photometric="rgb", extrasamples=["unassalpha"])
    assert np.array_equal(tifffile.imread(again(file)), pixels)


def test_tiff_with_white_as_zero(tmp_path):
    pixels = draw((20, 30), "uint8")
    file = again(write(tmp_path / "a.tif", pixels, photometric="miniswhite"))
    assert np.array_equal(tifffile.imread(file), pixels)
    with tifffile.TiffFile(file) as made:
        assert made.pages[0].photometric == 0


def test_tiff_keeps_its_resolution_and_description(tmp_path):
    pixels = draw((3, 20, 30))
    plain = write(tmp_path / "a.tif", pixels, resolution=(300, 200), resolutionunit=2, metadata=None,
                  description="made by hand")  # fmt: skip
    with tifffile.TiffFile(again(plain)) as made:
        page = made.pages[0]
        assert (page.resolution, page.resolutionunit) == ((300, 200), 2)
        assert page.description == "made by hand"
    described = write(tmp_path / "described.tif", pixels, description="made by hand")
    with tifffile.TiffFile(again(described)) as made:
        assert made.pages[0].description == "made by hand"
        assert made.series[0].kind == "shaped"
    given = {"axes": "ZYX", "spacing": 0.5, "unit": "um", "Info": "by hand"}
    imagej = write(tmp_path / "b.tif", pixels, imagej=True, metadata=given, resolution=(10, 10))
    with tifffile.TiffFile(again(imagej)) as made:
        found = made.imagej_metadata
        assert (found["spacing"], found["unit"], found["Info"]) == (0.5, "um", "by hand")
        assert found["slices"] == 3
        assert made.pages[0].resolution == (10, 10)
    given = {
        "axes": "CYX",
        "PhysicalSizeX": 0.25,
        "PhysicalSizeXUnit": "nm",
        "Channel": {"Name": list("abc")},
    }
    ome = write(tmp_path / "c.ome.tif", pixels, ome=True, metadata=given)
    with tifffile.TiffFile(again(ome)) as made:
        found = tifffile.xml2dict(made.ome_metadata)["OME"]["Image"]["Pixels"]
        assert (found["PhysicalSizeX"], found["PhysicalSizeXUnit"]) == (0.25, "nm")
        assert [channel["Name"] for channel in found["Channel"]] == ["a", "b", "c"]


def test_pages_of_different_sizes_go_into_one_file(tmp_path):
    pages = [draw((20, 30)), draw((9, 5)), draw((20, 30))]
    with tifffile.TiffWriter(tmp_path / "a.tif") as writer:
        for page in pages:
            writer.write(page, metadata=None)
    items = read_items(tmp_path / "a.tif")
    new = again(tmp_path / "a.tif")
    assert [item.shape for item in items] == [item.shape for item in read_items(new)]
    assert all(np.array_equal(a, b) for a, b in zip(items, read_items(new), strict=True))


def test_one_of_several_files_of_an_ome_tiff(tmp_path):
    pixels = draw((20, 30))
    file = write(tmp_path / "a.ome.tif", pixels, ome=True)
    with tifffile.TiffFile(file) as tiff:
        text = tiff.ome_metadata.replace('SizeT="1"', 'SizeT="2"').replace(
            "</Pixels>",
            '<TiffData FirstT="1" IFD="0" PlaneCount="1"><UUID FileName="missing.ome.tif">urn:uuid:1</UUID>'
            "</TiffData></Pixels>",
        )
    tifffile.tiffcomment(file, text)
    assert np.array_equal(read_items(again(file))[0], read_items(file)[0])


@pytest.mark.parametrize("orientation", [3, 6])
def test_tiff_is_written_upright(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    pixels = draw((20, 30, 3), "uint8")
    Image.fromarray(pixels).save(tmp_path / "a.tif", exif=exif)
    found = tifffile.imread(again(tmp_path / "a.tif"))
    assert np.array_equal(found, np.rot90(pixels, {3: 2, 6: -1}[orientation]))


def test_tiffs_that_only_pillow_decodes(tmp_path):
    colour = Image.fromarray(draw((16, 24, 3), "uint8"))
    colour.convert("CMYK").save(tmp_path / "a.tif")
    bits = RNG.random((16, 24)) < 0.5
    pages = [Image.fromarray(bits), Image.fromarray(~bits)]
    pages[0].save(tmp_path / "b.tif", compression="group4", save_all=True, append_images=pages[1:])
    pages[0].save(tmp_path / "c.tif")
    indices = Image.fromarray(draw((16, 24, 3), "uint8")).quantize(50)
    indices.save(tmp_path / "d.tif")
    indices.save(tmp_path / "e.tif", compression="tiff_lzw")
    for name in "abcde":
        file = tmp_path / f"{name}.tif"
        for one, other in zip(read_items(file), read_items(again(file)), strict=True):
            assert np.array_equal(one, other)


def test_a_large_tiff_is_written_in_bands(tmp_path):
    import tracemalloc

    side = 20_000
    tifffile.memmap(tmp_path / "a.tif", shape=(side, side), dtype="uint16").flush()
    band = np.full((200, side), 0.5, np.float32)
    tracemalloc.start()
    with TiffOutput(tmp_path / "a.tif", tmp_path / "b.tif") as output:
        output.write(0, (12_000, 0), band)
    assert tracemalloc.get_traced_memory()[1] < 2**27  # of 800 MB
    tracemalloc.stop()
    found = tifffile.memmap(tmp_path / "b.tif", mode="r")
    assert (found.shape, found.dtype) == ((side, side), np.uint16)
    assert found[11_998:12_002, 7].tolist() == [0, 0, 32768, 32768]


# Other formats


@pytest.mark.parametrize("suffix", ["png", "bmp", "webp"])
@pytest.mark.parametrize("shape", [(20, 30), (20, 30, 3)])
def test_lossless_formats(tmp_path, suffix, shape):
    pixels = draw(shape, "uint8")
    file = tmp_path / f"a.{suffix}"
    Image.fromarray(pixels).save(file, **({"lossless": True} if suffix == "webp" else {}))
    with Image.open(file) as old, Image.open(again(file)) as new:
        assert (new.format, new.mode) == (old.format, old.mode)
        assert np.array_equal(np.asarray(new), np.asarray(old))


def test_16_bit_png(tmp_path):
    grey = draw((20, 30))
    Image.fromarray(grey).save(tmp_path / "a.png")
    with Image.open(again(tmp_path / "a.png")) as new:
        assert new.mode.startswith("I;16")
        assert np.array_equal(np.asarray(new), grey)
    from tests.data.test_files import write_png

    colour = draw((20, 30, 3))
    file = write_png(tmp_path / "b.png", colour)
    expected = colour.transpose(2, 0, 1).astype(np.float32) / np.float32(65535)
    assert np.array_equal(read_items(file)[0], expected)
    assert np.array_equal(read_items(again(file))[0], expected)


def test_palettes_and_bits_become_bytes(tmp_path):
    Image.fromarray(draw((20, 30, 3), "uint8")).quantize(40).save(tmp_path / "a.png")
    Image.fromarray(RNG.random((20, 30)) < 0.5).save(tmp_path / "b.png")
    pixels = draw((20, 30, 4), "uint8")
    pixels[..., 3] = 255
    Image.fromarray(pixels).save(tmp_path / "c.png")
    for name in "abc":
        file = tmp_path / f"{name}.png"
        assert np.array_equal(read_items(file)[0], read_items(again(file))[0])


def test_jpeg_is_upright_and_keeps_its_exif(tmp_path):
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "a camera"
    smooth = np.linspace(0, 255, 40 * 60 * 3).reshape(40, 60, 3).astype(np.uint8)
    Image.fromarray(smooth).save(tmp_path / "a.jpg", exif=exif, quality=90)
    values = read_items(tmp_path / "a.jpg")[0]
    assert values.shape == (3, 60, 40)
    with Image.open(again(tmp_path / "a.jpg")) as new:
        assert (new.format, new.size) == ("JPEG", (40, 60))
        assert (new.getexif()[0x0112], new.getexif()[0x010F]) == (1, "a camera")
        assert new.layer[0][1:3] == (1, 1) == new.layer[1][1:3]  # colour at full resolution
        difference = np.asarray(new).transpose(2, 0, 1) / 255 - values
        assert np.abs(difference).max() < 0.05


# Rules


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "int8"])
def test_integers_are_rounded_and_clipped(dtype):
    info = np.iinfo(dtype)
    values = np.float32([-1e9, info.min - 0.6, info.min, 0.4, 0.6, info.max, info.max + 0.6, 1e9])
    expected = [info.min, info.min, info.min, 0, 1, info.max, info.max, info.max]
    assert to_integers(values, dtype).tolist() == expected
    if info.min == 0:
        scaled = to_integers(np.float32([-0.1, 0, 0.5, 1, 1.1]), dtype, info.max)
        assert scaled.tolist() == [0, 0, round(info.max / 2), info.max, info.max]


def test_grey_pictures_among_colour_ones_stay_grey(tmp_path):
    pixels = draw((20, 30), "uint8")
    Image.fromarray(pixels).save(tmp_path / "a.png")
    values = np.stack([read_items(tmp_path / "a.png")[0]] * 3)
    with Image.open(io.BytesIO(encode_image([values], tmp_path / "a.png"))) as new:
        assert np.array_equal(np.asarray(new), pixels)


def test_another_size(tmp_path):
    file = write(tmp_path / "a.tif", draw((3, 20, 30)))
    cropped = [item[5:15, 5:20] for item in read_items(file)]
    found = tifffile.imread(io.BytesIO(encode_image(cropped, file)))
    assert np.array_equal(found, tifffile.imread(file)[:, 5:15, 5:20])


def test_what_does_not_fit(tmp_path):
    file = write(tmp_path / "a.tif", draw((3, 20, 30)))
    with pytest.raises(ValueError, match="holds 3 images, got 1"):
        encode_image([np.zeros((20, 30))], file)
    with pytest.raises(ValueError, match=r"a\.tif#0.*got shape \(4, 20, 30\)"):
        encode_image([np.zeros((4, 20, 30))] * 3, file)


def test_names_of_pages():
    assert file_of("a/b.tif#12") == "a/b.tif"
    assert file_of("A.TIFF#0") == "A.TIFF"
    assert file_of("a#1.tif") == "a#1.tif"
    assert file_of("a#1.png") == "a#1.png"

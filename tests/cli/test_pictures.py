"""Folders of pictures of any size through fit, embed, denoise, inspect, evaluate and report."""

import contextlib
import csv
import json
import re
import signal

import h5py
import numpy as np
import pytest
import soundfile
import tifffile
import torch
import zarr
from PIL import Image

import dcs
from dcs import runs
from dcs.training import Facts, complete
from tests.helpers import inside, seeded

pytestmark = pytest.mark.filterwarnings("ignore::dcs.training.TrainingWarning")  # runs are short
NETWORK = ("--set", 'network_options={"width": 4, "depth": 2}', "--components", "6")
SMALL = (*NETWORK, "--threads", "1", "--size", "32")
LENGTH = ("--epochs", "100", "--batch-size", "16", "--learning-rate", "0.003")


def smooth(size, seed):
    """A random smooth picture in 0.2 ... 0.8."""
    coarse = torch.rand(1, 1, 6, 6, generator=seeded(seed))
    fine = torch.nn.functional.interpolate(coarse, size, mode="bicubic")[0, 0]
    return 0.2 + 0.6 * (fine - fine.min()) / (fine.max() - fine.min())


def read_index(features):
    return list(csv.DictReader(features.with_suffix(".csv").read_text().splitlines()))


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "photos"
    for number in range(12):
        size = (90, 70) if number % 2 else (70, 90 + number)
        noisy = dcs.noise.add(smooth(size, number)[None], "gaussian", 0.1, seed=number)[0]
        path = folder / f"{'ab'[number % 2]}/{number:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.rint(noisy.clamp(0, 1).numpy() * 255).astype(np.uint8)).save(path)
    return folder


@pytest.fixture(scope="module")
def run(photos, tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "run"
    result = inside("fit", photos, "--out", out, *SMALL, *LENGTH)
    assert result.returncode == 0, result.stderr
    found = re.search(r"samples were split, for uniform noise of deviation (\S+) ", result.stdout)
    assert float(found[1]) == pytest.approx(0.1, rel=0.05)
    return out


def test_what_is_decided_by_the_data(photos, tmp_path):
    out = inside("fit", photos, "--out", tmp_path / "run", "--dry-run")
    shown = json.loads(out.stdout)
    settings = shown["training"]
    assert shown["shape"] == settings["window"] == [64, 64]
    assert (settings["network"], settings["schedule"], settings["standardise"]) == ("resunet", "cosine", True)
    assert settings["objective_options"] == {"centre": True, "length": 1.0}
    assert settings["masking"] == {"kind": "automatic", "alpha": 0.5}
    assert shown["about_megabytes"] > 100
    views = complete({"objective": "simsiam"}, Facts.of(dcs.data.load(photos).train))  # which are in 0 … 1
    assert (views.window, views.network, views.standardise) == ((64, 64), "resnet18", False)


def test_denoised_copies_keep_names_and_formats_and_are_closer_to_the_truth(photos, run, tmp_path):
    result = inside("denoise", run, photos, "--out", tmp_path / "cleaner")
    assert result.returncode == 0, result.stderr
    assert "12 images" in result.stdout
    errors = []
    for number in range(12):
        name = f"{'ab'[number % 2]}/{number:02d}.png"
        clean = smooth((90, 70) if number % 2 else (70, 90 + number), number).numpy()
        pair = [np.asarray(Image.open(folder / name)) for folder in (photos, tmp_path / "cleaner")]
        assert pair[0].shape == pair[1].shape
        assert pair[1].dtype == np.uint8
        errors.append([float(((one / 255 - clean) ** 2).mean()) for one in pair])
    noisy, denoised = np.mean(errors, axis=0)
    assert 10 * np.log10(noisy / denoised) > 6  # dB


def test_embed_gives_a_row_for_each_picture_and_for_each_window(photos, run, tmp_path):
    features = tmp_path / "features.npy"
    assert inside("embed", run, photos, "--out", features, "--map", tmp_path / "maps").returncode == 0
    pooled = np.load(features)
    assert pooled.shape == (12, 12)
    index = read_index(features)
    assert [row["source"] for row in index][:2] == ["a/00.png", "a/02.png"]
    windows = tmp_path / "windows.npy"
    assert inside("embed", run, photos, "--out", windows, "--per-window").returncode == 0
    each, places = np.load(windows), read_index(windows)
    first = [n for n, row in enumerate(places) if row["source"] == "a/00.png"]
    assert {(row["top"], row["left"]) for row in places[: len(first)]} == {
        (top, left) for top in ("0", "32", "38") for left in ("0", "32", "58")
    }
    assert np.allclose(pooled[0, :6], each[first].mean(0), atol=1e-5)
    assert np.allclose(pooled[0, 6:], each[first].std(0), atol=1e-4)
    found = np.load(tmp_path / "maps/a/00.png.npy")
    assert found.shape == (6, 18, 23)  # a quarter of 70 x 90, with two scales
    predictor = runs.load(run)
    picture = dcs.data.load(photos).train.items.whole(0)
    with torch.no_grad():
        whole = predictor.network.map(predictor.learned.units.apply(picture)[None])[0]
    assert np.allclose(found, whole, atol=1e-4)


def test_inspect_evaluate_and_report(photos, run, tmp_path):
    shown = json.loads(inside("inspect", photos, "--json").stdout)
    assert shown["state"] == "noisy"
    assert shown["sigma"]["value"] == pytest.approx(0.1, rel=0.15)
    assert shown["command"].endswith("--out run")
    assert inside("evaluate", run, "--protocol", "knn", "--test-share", "0.5").returncode == 0
    page = inside("report", run, "--map", "pca")
    assert page.returncode == 0, page.stderr
    assert (run / "report.html").stat().st_size > 10_000


def test_the_estimator_gives_the_same_weights_and_takes_any_size(photos, run):
    settings = {"network_options": {"width": 4, "depth": 2}, "n_components": 6, "batch_size": 16}
    split = dcs.data.load(photos, size=32).train
    torch.set_num_threads(1)
    encoder = dcs.DenoisingEncoder(**settings, max_epochs=100, learning_rate=0.003, random_state=0).fit(split)
    predictor = runs.load(run)
    for name, value in predictor.network.state_dict().items():
        assert torch.equal(value, encoder.network_.state_dict()[name])
    pictures = [split.items.whole(0), split.items.whole(1).numpy()]
    assert encoder.transform(pictures).shape == (2, 12)
    assert [one.shape for one in encoder.denoise(pictures)] == [(70, 90), (70, 92)]
    assert encoder.denoise(np.stack([pictures[1]] * 2)).shape == (2, 70, 92)
    assert list(encoder.get_feature_names_out())[-1] == "denoisingencoder11"
    assert np.isfinite(encoder.score(pictures))


class Interrupt(contextlib.nullcontext):
    """Presses Ctrl-C at the end of the second epoch."""

    def epoch(self, metrics):
        if metrics["epoch"] == 1:
            signal.raise_signal(signal.SIGINT)


def test_resuming_in_the_middle_of_an_epoch_gives_the_same_weights(photos, tmp_path):
    split = dcs.data.load(photos, size=32).train
    given = {"network_options": {"width": 4, "depth": 2}, "n_components": 6, "max_epochs": 4}
    config = complete({**given, "batch_size": 16, "threads": 1}, Facts.of(split))
    runs.fit(split, config, tmp_path / "whole")
    with pytest.raises(runs.Stopped):
        runs.fit(split, config, tmp_path / "parts", displays=[Interrupt()])
    runs.fit(split, config, tmp_path / "parts", resume=True)
    one, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts"))
    assert one == other


def test_large_pictures_of_one_size_and_pages_of_a_file(run, tmp_path):
    """Windows of pictures of one size: the report shows them, and each page has a map of its own."""
    pages = torch.stack([smooth((80, 90), n) for n in range(3)])
    noisy = dcs.noise.add(pages, "gaussian", 0.1, seed=1).numpy()
    (tmp_path / "stack").mkdir()
    tifffile.imwrite(tmp_path / "stack/s.tif", noisy, photometric="minisblack")
    advised = json.loads(inside("inspect", tmp_path / "stack", "--json").stdout)
    assert "masking" not in advised["command"]
    fitted = inside("fit", tmp_path / "stack", "--out", tmp_path / "run", *NETWORK, "--epochs", "2")
    assert fitted.returncode == 0, fitted.stderr
    shown = inside("report", tmp_path / "run", "--map", "pca")
    assert "could not be read" not in shown.stdout + shown.stderr
    out = tmp_path / "f.npy"
    given = ("embed", tmp_path / "run", tmp_path / "stack", "--out", out, "--map", tmp_path / "maps")
    assert inside(*given).returncode == 0
    assert sorted(path.name for path in (tmp_path / "maps").iterdir()) == [f"s.tif#{n}.npy" for n in range(3)]
    assert inside("denoise", tmp_path / "run", tmp_path / "stack", "--out", tmp_path / "out").returncode == 0
    written = tifffile.imread(tmp_path / "out/s.tif")
    assert (written.shape, written.dtype) == (noisy.shape, np.float32)


def test_a_volume_is_learned_from_in_full_precision(tmp_path):
    volume = dcs.noise.add(torch.stack([smooth((48, 40), n) for n in range(12)]), "gaussian", 0.1, seed=1)
    tifffile.imwrite(tmp_path / "v.tif", volume.numpy())
    small = (*NETWORK, "--axes", "ZYX", "--size", "8x32x32", "--epochs", "2")
    fitted = inside("fit", tmp_path / "v.tif", "--out", tmp_path / "run", *small)
    assert fitted.returncode == 0, fitted.stderr
    assert runs.read_record(tmp_path / "run").training.precision == "no"
    folder = tmp_path / "more"
    folder.mkdir()
    tifffile.imwrite(folder / "w.tif", volume[:9].numpy())
    result = inside(
        "denoise", tmp_path / "run", folder, "--out", tmp_path / "out"
    )  # with the axes of the run
    assert result.returncode == 0, result.stderr
    assert tifffile.imread(tmp_path / "out/w.tif").shape == (9, 48, 40)


def test_an_array_of_large_pictures_is_denoised_to_an_array(run, tmp_path):
    pictures = torch.stack([smooth((80, 90), n) for n in range(2)]).numpy()
    np.save(tmp_path / "x.npy", pictures)
    large = inside("fit", tmp_path / "x.npy", "--out", tmp_path / "large", "--set", "window=[200,64]")
    assert "window must be at most (80, 90), the size of the largest sample" in large.stderr
    result = inside("denoise", run, tmp_path / "x.npy", "--out", tmp_path / "y.npy", "--draws", "0")
    assert result.returncode == 0, result.stderr
    assert np.load(tmp_path / "y.npy").shape == (2, 80, 90)
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_what_does_not_fit_is_one_line(photos, run, tmp_path):
    colour = tmp_path / "colour"
    colour.mkdir()
    Image.new("RGB", (80, 90), (9, 90, 200)).save(colour / "a.png")
    result = inside("denoise", run, colour, "--out", tmp_path / "out")
    assert result.returncode == 1
    assert (
        "the data has 3 channels (colour), but the run was trained on data with one channel" in result.stderr
    )
    result = inside("denoise", run, photos, "--out", tmp_path / "y.npy")
    assert result.returncode == 1
    assert "--out must be a folder" in result.stderr
    result = inside("denoise", run, photos, "--out", tmp_path / "y.png")
    assert "--out must be a folder for this data" in result.stderr
    result = inside("denoise", run, photos / "a/00.png", "--out", tmp_path / "y.tif")
    assert "--out must be a .png file, or a folder, for this data" in result.stderr
    assert inside("denoise", run, photos / "a/00.png", "--out", tmp_path / "y.png").returncode == 0
    with Image.open(tmp_path / "y.png") as picture:
        assert picture.size == (90, 70)
    assert "no file matches" in inside("inspect", photos / "*.xyz").stderr
    assert (
        "size must be at most that of the largest image" in inside("inspect", photos, "--size", "999").stderr
    )
    plain = inside("fit", "digits", "--out", tmp_path / "plain", "--epochs", 1)
    assert plain.returncode == 0
    result = inside("embed", tmp_path / "plain", "digits", "--out", tmp_path / "f.npy", "--per-window")
    assert "--per-window needs a run that learned from windows" in result.stderr


def test_arrays_are_denoised_into_arrays_like_them(tmp_path):
    values = np.random.default_rng(0).integers(0, 4000, (6, 80, 90)).astype(np.uint16)
    store = zarr.create_array(str(tmp_path / "film.zarr"), shape=values.shape, dtype="uint16")
    store[:] = values
    np.save(tmp_path / "film.npy", values)
    result = inside("fit", tmp_path / "film.zarr", "--out", tmp_path / "run", "--epochs", 1, *NETWORK)
    assert result.returncode == 0, result.stderr
    for source in ("film.zarr", "film.npy"):
        for name in ("a.zarr", "a.npy", "a.h5"):
            out = ("--out", tmp_path / name, "--overwrite")
            result = inside("denoise", tmp_path / "run", tmp_path / source, *out)
            assert "(6, 80, 90) uint16" in result.stdout, result.stderr
    found = np.asarray(zarr.open(str(tmp_path / "a.zarr"), mode="r"))
    assert found.dtype == np.uint16
    assert np.array_equal(found, np.load(tmp_path / "a.npy"))
    assert not list(tmp_path.glob(".*"))
    wrong = inside("denoise", tmp_path / "run", tmp_path, "--out", tmp_path / "b.zarr")
    assert "--out must be a folder or a .npy file for this data" in wrong.stderr


def test_a_run_on_colour_takes_grey_pictures_and_gives_grey_ones_back(tmp_path):
    rng = np.random.default_rng(0)
    for name, size in (
        ("colour/a.png", (80, 90, 3)),
        ("colour/b.png", (70, 100, 3)),
        ("grey/c.png", (75, 80)),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 255, size).astype(np.uint8)).save(tmp_path / name)
    run = tmp_path / "run"
    assert inside("fit", tmp_path / "colour", "--out", run, "--epochs", 1, *SMALL).returncode == 0
    result = inside("denoise", run, tmp_path / "grey", "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    with Image.open(tmp_path / "out/c.png") as image:
        assert (image.mode, image.size) == ("L", (80, 75))
    assert inside("embed", run, tmp_path / "grey", "--out", tmp_path / "f.npy").returncode == 0
    assert np.load(tmp_path / "f.npy").shape == (1, 12)


def test_the_file_of_the_data_is_never_replaced(run, tmp_path):
    """An array in a file is named by ::, which is no part of the file's name."""
    pictures = torch.stack([smooth((40, 50), seed) for seed in range(3)]).numpy()
    with h5py.File(tmp_path / "keep.h5", "w") as file:
        file["data"], file["precious"] = pictures, np.arange(5)
    zarr.create_array(str(tmp_path / "keep.zarr" / "image"), data=pictures)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for data, out in (("keep.h5::data", "keep.h5"), ("keep.zarr::image", "keep.zarr")):
        given = (tmp_path / data, "--out", tmp_path / out, "--overwrite")
        refused = inside("denoise", run, *given)
        assert refused.returncode == 1
        assert "is the data itself" in refused.stderr
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_data_of_another_kind_is_refused(photos, run, tmp_path):
    for number in range(3):
        wave = 0.1 * np.sin(np.arange(9000 + number) / 5)
        soundfile.write(tmp_path / f"{number}.wav", wave, 8000)
    for command in ("embed", "denoise"):
        said = inside(command, run, tmp_path, "--out", tmp_path.with_name(f"{command}.npy"))
        assert said.returncode == 1
        assert "was trained on other data, but" in said.stderr
        assert "holds recordings" in said.stderr
    sounds = tmp_path.with_name("sounds")
    network = ("--set", 'network_options={"width": 4, "depth": 2}', "--epochs", "1", "--threads", "1")
    trained = inside("fit", tmp_path, "--domain", "waveform", "--out", sounds, *network)
    assert trained.returncode == 0, trained.stderr
    said = inside("embed", sounds, photos, "--out", tmp_path.with_name("x.npy"))
    assert said.returncode == 1
    assert "was trained on recordings, but" in said.stderr
    volume = tmp_path.with_name("volume.tif")
    tifffile.imwrite(
        volume, np.random.default_rng(0).random((20, 40, 40), np.float32), metadata={"axes": "ZYX"}
    )
    said = inside("denoise", run, volume, "--out", tmp_path.with_name("y.npy"))
    assert "was trained on pictures, but" in said.stderr
    assert "holds volumes" in said.stderr


def test_options_without_effect_are_refused(photos, run, tmp_path):
    said = inside("embed", run, photos, "--out", tmp_path / "x.npy", "--size", "48")
    assert said.returncode == 1
    assert "--size has no effect on a run that learned from windows of 32x32: leave it out" in said.stderr
    masked = tmp_path / "masked"
    fitted = inside("fit", photos, "--out", masked, *SMALL, "--objective", "n2v", "--epochs", "1")
    assert fitted.returncode == 0, fitted.stderr
    said = inside("denoise", masked, photos, "--out", tmp_path / "y.npy", "--draws", "2")
    assert "--draws is only applicable to a run that learned from windows, and split them" in said.stderr
    (masked / "model.safetensors").unlink()
    said = inside("fit", photos, "--out", masked, "--resume", "--size", "48")
    assert said.returncode == 1
    assert "--size was 32 when the run began, is now 48: leave it out to resume" in said.stderr
    said = inside("fit", photos, "--out", tmp_path / "z", "--set", "window=64")
    assert "window must be a list of sizes, one for each axis, e.g. [64, 64], got 64" in said.stderr
    said = inside("evaluate", run, "--labels", tmp_path / "none.txt")
    assert said.stderr == f"dcs: {tmp_path / 'none.txt'}: No such file or directory\n"


def test_arrays_of_volumes_and_colours_in_the_last_axis(tmp_path):
    np.save(tmp_path / "volumes.npy", np.random.default_rng(0).random((2, 1, 16, 40, 40), np.float32))
    said = inside("fit", tmp_path / "volumes.npy", "--dry-run", "--epochs", "1")
    assert said.returncode == 0, said.stderr
    training = json.loads(said.stdout)["training"]
    assert (training["network"], training["window"]) == ("resunet", [16, 40, 40])
    np.save(tmp_path / "last.npy", np.random.default_rng(0).random((3, 40, 50, 3), np.float32))
    with pytest.warns(dcs.data.DataWarning, match="if the last axis is colour, give axes SYXC"):
        dcs.data.load(tmp_path / "last.npy")
    volumes = np.load(tmp_path / "volumes.npy")
    options = {"network_options": {"width": 2, "depth": 1}, "max_epochs": 1, "random_state": 0}
    encoder = dcs.DenoisingEncoder(**options).fit(volumes)
    assert np.shape(encoder.denoise(volumes)) == (2, 16, 40, 40)


def test_small_pictures_in_arrays_keep_their_type(tmp_path):
    pictures = np.random.default_rng(0).integers(50, 200, (60, 8, 8), np.uint8)
    np.save(tmp_path / "small.npy", pictures)
    out = tmp_path / "run"
    quick = ("--set", 'network_options={"hidden": [8]}', "--epochs", "2", "--threads", "1")
    assert inside("fit", tmp_path / "small.npy", "--out", out, *quick).returncode == 0
    for name in ("clean.npy", "clean.h5"):
        done = inside("denoise", out, tmp_path / "small.npy", "--out", tmp_path / name)
        assert done.returncode == 0, done.stderr
    clean = np.load(tmp_path / "clean.npy")
    assert (clean.dtype, clean.shape) == (np.uint8, pictures.shape)
    with h5py.File(tmp_path / "clean.h5") as file:
        assert np.array_equal(file["data"], clean)
    exact = runs.load(out).denoise(dcs.data.load(tmp_path / "small.npy").train)
    assert np.array_equal(clean, np.rint(exact.clip(0, 1) * 255).astype(np.uint8))


def test_one_picture_in_python_needs_an_axis_of_samples(photos, run):
    encoder = dcs.load(run)
    picture = smooth((40, 50), 0)
    with pytest.raises(ValueError, match=r"got shape \(40, 50\): pass X\[None\] for one"):
        encoder.denoise(picture)
    assert encoder.denoise(picture[None]).shape == (1, 40, 50)

"""`dcs fit`, `embed` and `denoise` as a user drives them."""

import csv
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tifffile
from PIL import Image

import dcs as library
from dcs.augmentation import CIFAR10
from tests.helpers import DCS, QUICK, dcs, inside
from tests.official_files import some_images, write_cifar10

EPOCHS = 250


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Noisy pictures of a disc at various places, in two classes."""
    folder = tmp_path_factory.mktemp("data") / "photos"
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:16, :16]
    for number in range(120):
        y, x = rng.uniform(4, 12, 2)
        clean = np.exp(-((rows - y) ** 2 + (columns - x) ** 2) / 8)
        pixels = np.clip(clean * 0.7 + 0.15 + rng.normal(0, 0.2, clean.shape), 0, 1)
        path = folder / ("left" if x < 8 else "right") / f"{number:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.uint8(pixels * 255)).save(path)
        np.save(folder.parent / f"{number:03d}.npy", clean)
    return folder


@pytest.fixture(scope="module")
def run(photos, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    result = dcs("fit", photos, "--out", out, "--epochs", EPOCHS, *QUICK)
    assert result.returncode == 0, result.stderr
    assert "next: dcs embed" in result.stdout
    assert f"epoch {EPOCHS} of {EPOCHS}" in result.stderr
    return out


def test_a_run_is_plain_files(run):
    assert {path.name for path in run.iterdir()} - {".lock"} == {
        "config.json",
        "metrics.jsonl",
        "model.safetensors",
        "objective.safetensors",
    }
    config = json.loads((run / "config.json").read_text())
    assert config["shape"] == [16, 16]
    assert config["training"]["max_epochs"] == EPOCHS
    assert config["versions"]["torch"]
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == list(range(EPOCHS))
    assert lines[-1]["loss"] < lines[0]["loss"]
    wanted = {"learning_rate", "gradient_norm", "samples_per_second", "feature_spread", "k", "snr", "floored"}
    assert wanted <= set(lines[0])


def test_embed_says_which_file_is_which(run, photos, tmp_path):
    result = inside("embed", run, photos, "--out", tmp_path / "features.npy")
    assert result.returncode == 0, result.stderr
    features = np.load(tmp_path / "features.npy")
    assert features.shape == (120, 10)
    with (tmp_path / "features.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["row"]) for row in rows] == list(range(120))
    assert all((photos / row["source"]).exists() for row in rows)
    again = inside("embed", run, photos, "--out", tmp_path / "features.npy")
    assert again.returncode == 1
    assert "exists: give another file" in again.stderr
    assert inside("embed", run, photos, "--out", tmp_path / "features.npy", "--overwrite").returncode == 0
    assert np.array_equal(np.load(tmp_path / "features.npy"), features)


def test_denoise_writes_cleaner_pictures(run, photos, tmp_path):
    result = inside("denoise", run, photos, "--out", tmp_path / "cleaner")
    assert result.returncode == 0, result.stderr
    before, after = [], []
    for path in photos.glob("*/*.png"):
        clean = np.load(photos.parent / f"{path.stem}.npy") * 0.7 + 0.15
        cleaner = tmp_path / "cleaner" / path.relative_to(photos)
        for errors, file in ((before, path), (after, cleaner)):
            with Image.open(file) as image:
                errors.append(np.mean((np.asarray(image) / 255 - clean) ** 2))
    assert len(after) == 120
    assert np.mean(after) < 0.7 * np.mean(before)
    array = inside("denoise", run, photos, "--out", tmp_path / "a.npy")
    assert array.returncode == 0, array.stderr
    assert np.load(tmp_path / "a.npy").shape == (120, 16, 16)
    assert inside("denoise", run, photos, "--out", tmp_path / "cleaner").returncode == 1


def test_the_data_is_never_written_to(run, photos, tmp_path):
    (tmp_path / "t.csv").write_text("a,b,c\n" + "0.1,0.2,0.3\n0.3,0.1,0.2\n" * 10)
    before = (tmp_path / "t.csv").read_bytes()
    assert inside("fit", tmp_path / "t.csv", "--out", tmp_path / "r", "--epochs", 1, *QUICK).returncode == 0
    for command, out in (("embed", "t.npy"), ("denoise", "t.csv")):
        result = inside(command, tmp_path / "r", tmp_path / "t.csv", "--out", tmp_path / out, "--overwrite")
        assert result.returncode == 1
        assert "data itself" in result.stderr or "where the data is" in result.stderr
    assert (tmp_path / "t.csv").read_bytes() == before
    result = inside("denoise", run, photos, "--out", photos, "--overwrite")
    assert (result.returncode, "where the data is" in result.stderr) == (1, True)


def test_small_pictures_keep_their_names_formats_and_numbers(tmp_path):
    rng, data = np.random.default_rng(0), tmp_path / "data"
    data.mkdir()
    for number in range(300):  # more than are denoised at once
        suffix = ("tif", "tiff")[number % 2]
        tifffile.imwrite(data / f"{number // 2}.{suffix}", np.float32(rng.random((8, 8)) * 500))
    run = tmp_path / "run"
    assert inside("fit", data, "--out", run, "--epochs", 1, *QUICK).returncode == 0
    result = inside("denoise", run, data, "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert inside("denoise", run, data, "--out", tmp_path / "a.npy").returncode == 0
    names = sorted(path.name for path in data.iterdir())
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    found = np.stack([tifffile.imread(tmp_path / "out" / name) for name in names])
    assert found == pytest.approx(np.load(tmp_path / "a.npy"), rel=1e-5)


def test_what_cannot_start_leaves_a_finished_run_alone(run, photos):
    before = (run / "model.safetensors").read_bytes()
    for option in (("--objective", "n2n"), ("--log", "wandb")):
        result = inside("fit", photos, "--out", run, "--overwrite", *option, *QUICK)
        assert result.returncode == 1
    assert (run / "model.safetensors").read_bytes() == before


def test_a_finished_run_is_safe(run, photos):
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.name != ".lock"}
    again = inside("fit", photos, "--out", run, "--epochs", EPOCHS, *QUICK)
    assert again.returncode == 1
    assert "--overwrite" in again.stderr
    assert again.stderr.count("\n") == 1
    resumed = inside("fit", photos, "--out", run, "--epochs", 40, "--resume", *QUICK)
    assert resumed.returncode == 0
    assert "is finished" in resumed.stdout
    assert {path.name: path.read_bytes() for path in run.iterdir() if path.name != ".lock"} == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stop_and_go_on(run, photos, tmp_path, number):
    out = tmp_path / "run"
    command = [
        DCS,
        "fit",
        photos,
        "--out",
        out,
        "--epochs",
        str(EPOCHS),
        "--set",
        "checkpoint_seconds=0",
        *QUICK,
    ]
    process = subprocess.Popen([*map(str, command)], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not (out / "metrics.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 128 + number, stderr
    assert "resume with --resume" in stderr
    assert "Traceback" not in stderr
    assert not (out / "model.safetensors").exists()
    unfinished = inside("embed", out, photos, "--out", tmp_path / "a.npy")
    assert unfinished.returncode == 1
    assert "--resume" in unfinished.stderr
    other = inside("fit", photos, "--out", out, "--epochs", str(EPOCHS), "--resume", "--rho", "0.5", *QUICK)
    assert other.returncode == 1
    assert "masking was {}, is now {'rho': 0.5}" in other.stderr
    resumed = dcs("fit", photos, "--out", out, "--resume")  # the settings are the run's
    assert resumed.returncode == 0, resumed.stderr
    assert (out / "model.safetensors").read_bytes() == (run / "model.safetensors").read_bytes()


def test_dry_run_changes_nothing(photos, tmp_path):
    result = inside("fit", photos, "--out", tmp_path / "run", "--dry-run", "--rho", 0.5, *QUICK)
    assert result.returncode == 0, result.stderr
    described = json.loads(result.stdout)
    assert described["training"]["masking"] == {"kind": "blind_spot", "ndim": 2, "rho": 0.5}
    assert described["samples"] == 120
    assert described["about_seconds"] > 0
    assert not (tmp_path / "run").exists()
    without = inside("fit", photos, "--dry-run", "--rho", 0.5, *QUICK)
    assert json.loads(without.stdout)["training"] == described["training"]
    missing = inside("fit", photos, *QUICK)
    assert missing.returncode == 2
    assert "give the directory of the run, e.g. --out run" in missing.stderr


@pytest.mark.parametrize("name", ["a.toml", "a.json"])
def test_settings_from_a_file(photos, tmp_path, name):
    text = (
        "max_epochs = 3\n[masking]\nrho = 0.2\n"
        if name == "a.toml"
        else '{"max_epochs": 3, "masking": {"rho": 0.2}}'
    )
    (tmp_path / name).write_text(text)
    result = dcs(
        "fit", photos, "--out", tmp_path / "r", "--dry-run", "--config", tmp_path / name, "--radius", 2
    )
    training = json.loads(result.stdout)["training"]
    assert (training["max_epochs"], training["masking"]) == (
        3,
        {"kind": "blind_spot", "ndim": 2, "rho": 0.2, "radius": 2},
    )


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["nothing-there", "--out", "r"], 1, "neither a known data set nor a file"),
        (["digits"], 2, "--out: give the directory of the run, e.g. --out run"),
        (["digits", "--out", "r", "--objective", "dcss"], 1, "did you mean 'dcs'"),
        (["digits", "--out", "r", "--set", "max_epoch=3"], 1, "did you mean 'max_epochs'"),
        (["digits", "--out", "r", "--set", "rho"], 2, "is not NAME=VALUE"),
        (["digits", "--out", "r", "--epochs", "-1"], 2, "--epochs"),
        (["digits", "--out", "r", "--noise", "gaussian"], 2, "KIND:STRENGTH"),
        (["digits", "--out", "r", "--noise", "pink:1"], 2, "noise must be one of"),
        (["digits", "--out", "r", "--size", "big"], 2, "size must be a number or (height, width)"),
        (["digits", "--out", "r", "--size", "8"], 1, "size is not applicable to digits"),
        (["digits", "--out", "r", "--network", "vgg"], 1, "network must be one of"),
        (["digits", "--out", "r", "--rho", "1.5"], 1, "rho must be in (0, 1]"),
        (["digits", "--out", "r", "--config", "nothing.toml"], 1, "nothing.toml"),
        (["digits", "--out", "/proc/nowhere/r"], 1, "/proc/nowhere"),
    ],
)
def test_wrong_usage_is_said_plainly(tmp_path, monkeypatch, arguments, code, says):
    monkeypatch.chdir(tmp_path)
    result = inside("fit", *arguments)
    assert result.returncode == code, result.stderr
    assert says in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert code == 2 or result.stderr.count("\n") == 1
    assert not (tmp_path / "r" / "model.safetensors").exists()


def test_other_data_than_the_run_s(run, tmp_path):
    result = inside("embed", run, "digits", "--out", tmp_path / "a.npy")
    assert result.returncode == 1
    assert "shape (8, 8), but the run was trained on (16, 16)" in result.stderr


def test_a_known_data_set_with_noise(tmp_path):
    result = dcs(
        "fit", "digits", "--noise", "gaussian:0.3", "--out", tmp_path / "r", "--epochs", 1, "--json", *QUICK
    )
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert answer["epochs"] == 1
    assert answer["objective"]["view"]["kind"] == "split"
    assert answer["objective"]["view"]["sigma"] == pytest.approx(0.3, abs=0.05)
    learned = json.loads((tmp_path / "r/config.json").read_text())["learned"]
    assert answer["objective"] == learned["objective"]
    assert "AutomaticViews(sigma=0.3" in repr(library.load(tmp_path / "r").objective_)
    inside("embed", tmp_path / "r", "digits", "--part", "test", "--out", tmp_path / "f.npy")
    assert np.load(tmp_path / "f.npy").shape == (597, 10)


def test_metrics_go_to_tensorboard_too(tmp_path):
    arguments = ("fit", "digits", "--out", tmp_path / "r", "--epochs", 2, *QUICK)
    result = inside(*arguments, "--log", "tensorboard")
    assert result.returncode == 0, result.stderr
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "r/tensorboard")).Reload()
    lines = [json.loads(line) for line in (tmp_path / "r/metrics.jsonl").read_text().splitlines()]
    assert [event.value for event in events.Scalars("loss")] == pytest.approx(
        [line["loss"] for line in lines]
    )
    missing = inside("fit", "digits", "--out", tmp_path / "s", "--epochs", 2, "--log", "wandb", *QUICK)
    assert missing.returncode == 1
    assert "pip install 'dcs-learn[wandb]'" in missing.stderr
    unknown = inside("fit", "digits", "--out", tmp_path / "t", "--log", "paper", *QUICK)
    assert "log must be one of tensorboard, wandb" in unknown.stderr


def test_python_m_dcs():
    code = subprocess.run(
        [sys.executable, "-m", "dcs", "--version"], capture_output=True, text=True, env=os.environ
    )
    assert code.stdout.startswith("dcs-learn ")


def test_a_bit_that_fell_over_is_seen(run, photos, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    path = tmp_path / "run" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)
    result = inside("embed", tmp_path / "run", photos, "--out", tmp_path / "a.npy")
    assert result.returncode == 1
    assert "is damaged, its checksum differs" in result.stderr


def test_epochs_are_as_many_as_make_three_thousand_steps(photos, tmp_path):
    said = inside("fit", photos, "--out", tmp_path / "r", "--dry-run")
    training = json.loads(said.stdout)["training"]
    assert (training["max_epochs"], training["patience"]) == (3000, 200)
    said = inside("fit", photos, "--out", tmp_path / "r", "--dry-run", "--batch-size", 1)
    training = json.loads(said.stdout)["training"]
    assert (training["max_epochs"], training["patience"]) == (100, 10)
    said = inside("fit", photos, "--out", tmp_path / "r", "--dry-run", "--epochs", 5)
    training = json.loads(said.stdout)["training"]
    assert (training["max_epochs"], training["patience"]) == (5, None)


@pytest.mark.filterwarnings("ignore:the features have collapsed")
def test_fit_says_whose_weights_it_keeps(photos, tmp_path):
    rough = ("--set", "validation=0", "--set", "learning_rate=0.01", "--patience", 1, "--epochs", 60)
    result = inside("fit", photos, "--out", tmp_path / "r", "--components", 2, "--seed", 1, *rough)
    assert result.returncode == 0, result.stderr
    last = json.loads((tmp_path / "r/metrics.jsonl").read_text().splitlines()[-1])
    assert last["epoch"] == last["kept_epoch"] + 1 < 59
    assert f"the weights after epoch {last['kept_epoch'] + 1} were kept\n" in result.stdout


def test_resuming_asks_what_the_data_is_not_where(photos, tmp_path):
    """A folder that was moved will do; one with another picture in it will not."""
    moved, out = tmp_path / "moved", tmp_path / "run"
    shutil.copytree(photos, moved)
    arguments = ("--out", out, *QUICK, "--set", "checkpoint_seconds=0")
    process = subprocess.Popen([DCS, *map(str, ("fit", photos, *arguments, "--epochs", "9999"))])
    while not (out / "checkpoint").is_dir() or not list((out / "checkpoint").glob("*.json")):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143
    last = max(moved.rglob("*.png"))
    content = last.read_bytes()
    last.write_bytes(min(moved.rglob("*.png")).read_bytes())
    changed = inside("fit", moved, "--out", out, "--resume")
    assert changed.returncode == 1
    assert "data was" in changed.stderr
    last.write_bytes(content)
    done = json.loads(max((out / "checkpoint").glob("*.json")).read_text())["position"]["epoch"]
    resumed = inside("fit", moved, "--out", out, "--resume", "--epochs", done + 2)
    assert resumed.returncode == 0, resumed.stderr


def test_what_cannot_be_meant_is_refused(photos, run, tmp_path):
    both = inside("fit", photos, "--out", run, "--resume", "--overwrite")
    assert both.returncode == 1
    assert "give one of them" in both.stderr
    within = inside("fit", photos, "--out", photos / "run", "--epochs", 1)
    assert within.returncode == 1
    assert "is in the folder of the data" in within.stderr
    (tmp_path / "file").write_text("mine")
    onto_file = inside("denoise", run, photos, "--out", tmp_path / "file", "--overwrite")
    assert onto_file.returncode == 1
    assert "is a file: give a folder" in onto_file.stderr
    assert (tmp_path / "file").read_text() == "mine"


def test_settings_that_fail_leave_the_directory_free(photos, tmp_path):
    failed = inside("fit", photos, "--out", tmp_path / "r", "--radius", 100, *QUICK)
    assert failed.returncode == 1
    assert "window of radius 100" in failed.stderr
    assert inside("fit", photos, "--out", tmp_path / "r", "--epochs", 1, *QUICK).returncode == 0


def test_resuming_nothing_is_said(photos, tmp_path):
    result = inside("fit", photos, "--out", tmp_path / "r", "--resume", "--epochs", 1, *QUICK)
    assert result.returncode == 0
    assert "there is no run to resume: a new one starts" in result.stderr


def test_two_columns_and_names_with_spaces(tmp_path):
    np.save(tmp_path / "two columns.npy", np.random.default_rng(0).normal(size=(60, 2)))
    result = inside("fit", tmp_path / "two columns.npy", "--out", tmp_path / "my run", "--epochs", 1, *QUICK)
    assert result.returncode == 0, result.stderr
    command = next(line for line in result.stdout.splitlines() if line.startswith("next: "))
    words = shlex.split(command)[1:]
    assert words[:4] == ["dcs", "embed", str(tmp_path / "my run"), str(tmp_path / "two columns.npy")]


def test_few_steps_are_warned_of(photos, tmp_path):
    result = dcs("fit", photos, "--out", tmp_path / "r", "--epochs", 50, *QUICK)
    assert result.returncode == 0
    assert "dcs: warning: training ended after 100 steps while the loss was still falling" in result.stderr


@pytest.fixture(scope="module")
def coloured(tmp_path_factory):
    """Small colour pictures, reddish and bluish."""
    folder, rng = tmp_path_factory.mktemp("data") / "coloured", np.random.default_rng(0)
    for name, channel in (("red", 0), ("blue", 2)):
        (folder / name).mkdir(parents=True)
        for number in range(20):
            pixels = rng.integers(0, 90, (16, 16, 3))
            pixels[..., channel] += 120
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{number}.png")
    return folder


VIEWS = ("--epochs", "1", "--threads", "1", "--batch-size", "16", "--set", 'network_options={"width": 4}')
NARROW = {"projector": [16, 16], "predictor": 8}


@pytest.mark.filterwarnings("ignore::dcs.training.TrainingWarning")  # one epoch is few
@pytest.mark.parametrize(
    ("objective", "options"),
    [
        ("simsiam", NARROW),
        ("simsiam+bsm", NARROW),
        ("simsiam-n2v", NARROW),
        ("simsiam-dae", NARROW),
        ("simclr", {"projector": [16, 16]}),
        ("simclr-dcs", {"projector": [16, 16]}),
        ("byol", NARROW),
        ("byol-dcs", {**NARROW, "how": "shared"}),
    ],
)
def test_self_supervised_objectives_by_command(coloured, tmp_path, objective, options):
    run = tmp_path / "run"
    given = ("--objective", objective, "--set", f"objective_options={json.dumps(options)}", *VIEWS)
    result = inside("fit", coloured, "--out", run, *given)
    assert result.returncode == 0, result.stderr
    training = json.loads((run / "config.json").read_text())["training"]
    recipe = ("network", "optimizer", "learning_rate", "weight_decay", "schedule", "validation")
    assert [training[name] for name in recipe] == ["resnet18", "sgd", 0.03, 5e-4, "cosine", 0.0]
    assert "learning rate 0.001875 = 0.03 x batch 16 / 256" in result.stderr
    embedded = inside("embed", run, coloured, "--out", tmp_path / "features.npy")
    assert embedded.returncode == 0, embedded.stderr
    assert np.load(tmp_path / "features.npy").shape == (40, 32)


@pytest.mark.filterwarnings("ignore::dcs.training.TrainingWarning")
def test_simsiam_dcs_on_a_known_data_set(tmp_path):
    write_cifar10(tmp_path / "data" / "cifar10", some_images((3, 32, 32)), [b"%d" % n for n in range(10)])
    given = ("--root", tmp_path / "data", "--set", f"objective_options={json.dumps(NARROW)}", *VIEWS)
    fitted = inside("fit", "cifar10", "--objective", "simsiam-dcs", "--out", tmp_path / "run", *given)
    assert fitted.returncode == 0, fitted.stderr
    options = json.loads((tmp_path / "run" / "config.json").read_text())["training"]["objective_options"]
    assert options["augment"] == dict(zip(("mean", "std"), map(list, CIFAR10), strict=True))
    scored = inside("evaluate", tmp_path / "run", "--protocol", "linear,knn")
    assert scored.stdout.count(" %") == 2, scored.stderr


@pytest.mark.filterwarnings("ignore::dcs.training.TrainingWarning")
def test_simsiam_dcs_is_resumed_scored_and_refused_what_it_cannot(coloured, tmp_path):
    own = {**NARROW, "weight": 0.02, "regulariser_options": {"samples": 50}}
    run, options = tmp_path / "run", f"objective_options={json.dumps(own)}"
    given = ("--objective", "simsiam-dcs", "--variant", "paper", "--set", options, *VIEWS)
    assert inside("fit", coloured, "--out", run, *given).returncode == 0
    told = json.loads((run / "config.json").read_text())["training"]["objective_options"]
    assert told == {**own, "regulariser_options": {"samples": 50, "variant": "paper"}}
    again = inside("fit", coloured, "--out", run, "--resume", *given)
    assert "there is nothing to resume" in again.stdout
    scored = inside("evaluate", run, "--protocol", "linear,knn", "--json")
    assert [json.loads(line)["method"] for line in scored.stdout.splitlines()] == ["simsiam-dcs"] * 2
    refused = inside("denoise", run, coloured, "--out", tmp_path / "clean.npy")
    assert refused.returncode == 1
    assert "denoise needs an objective that predicts samples" in refused.stderr
    plain = inside(
        "fit", coloured, "--out", tmp_path / "adam", *given, "--set", "optimizer=adam", "--dry-run"
    )
    settings = json.loads(plain.stdout)["training"]
    assert (settings["learning_rate"], settings["weight_decay"]) == (1e-3, 0)


@pytest.mark.filterwarnings("ignore::dcs.training.TrainingWarning")
def test_grey_images_can_be_viewed_too(tmp_path):
    folder, rng = tmp_path / "grey", np.random.default_rng(0)
    for name, level in (("dark", 0), ("bright", 120)):
        (folder / name).mkdir(parents=True)
        for number in range(16):
            pixels = rng.integers(level, level + 90, (16, 16)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    run, options = tmp_path / "run", f"objective_options={json.dumps(NARROW)}"
    fitted = inside("fit", folder, "--objective", "simsiam-dcs", "--out", run, "--set", options, *VIEWS)
    assert fitted.returncode == 0, fitted.stderr
    assert inside("embed", run, folder, "--out", tmp_path / "f.npy").returncode == 0
    scored = inside("evaluate", run, "--protocol", "knn")
    assert scored.stdout.startswith("knn: "), scored.stderr
    last = np.random.default_rng(0).random((32, 16, 16, 3), np.float32)
    np.save(tmp_path / "last.npy", last)
    given = ("--objective", "simsiam", "--set", options, *VIEWS)
    refused = inside("fit", tmp_path / "last.npy", "--out", tmp_path / "no", *given)
    assert refused.returncode == 1
    assert "put channels first" in refused.stderr

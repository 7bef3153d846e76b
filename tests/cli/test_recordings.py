"""`dcs fit`, `embed`, `evaluate` and `denoise` on people's own recordings: tones in noise."""

import csv
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from dcs.data import DataWarning
from dcs.evaluation._denoising import si_snr
from tests.helpers import dcs, inside

pytestmark = pytest.mark.filterwarnings("ignore::dcs.training.TrainingWarning")  # so few steps

RATE, SECONDS = 8000, 0.256
TONES = {"low": 300.0, "middle": 700.0, "high": 1500.0}
SMALL_VIT = ("--set", 'network_options={"width": 24, "depth": 2}', "--threads", "1", "--components", "24")
SMALL_WAVE = ("--set", 'network_options={"width": 8, "depth": 4}', "--threads", "1", "--batch-size", "32")
SMALL_WAVE += ("--learning-rate", "0.003", "--components", "16")


def tone(pitch, seconds, rng, rate=RATE):
    time = np.arange(round(seconds * rate)) / rate
    return 0.3 * np.sin(2 * np.pi * pitch * rng.uniform(0.95, 1.05) * time + rng.uniform(0, 6.3))


def at_0_db(clean, rng):
    noise = rng.normal(size=clean.shape)
    return clean + noise * np.sqrt((clean**2).sum() / (noise**2).sum())


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """Three classes of tones, in as much noise; the clean ones are beside."""
    folder, rng = tmp_path_factory.mktemp("sound") / "recordings", np.random.default_rng(0)
    for number in range(120):
        name = list(TONES)[number % 3]
        clean = tone(TONES[name], SECONDS, rng)
        path = folder / name / f"{number:03d}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, at_0_db(clean, rng), RATE, subtype="FLOAT")
        np.save(folder.parent / f"{number:03d}.npy", clean)
    return folder


@pytest.fixture(scope="module")
def spectrogram_run(recordings, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "spectrogram"
    result = inside("fit", recordings, "--out", out, "--epochs", 15, *SMALL_VIT)
    assert result.returncode == 0, result.stderr
    assert "next: dcs embed" in result.stdout
    return out


@pytest.fixture(scope="module")
def waveform_run(recordings, tmp_path_factory):
    """The run of an objective on waveforms; each is trained once."""
    made = {}

    def train(objective="dcs"):
        if objective not in made:
            out = made[objective] = tmp_path_factory.mktemp("runs") / objective
            windows = ("--mixed", "windows", "--size", 512)
            arguments = ("--network", "waveunet", "--objective", objective, "--epochs", 12, *SMALL_WAVE)
            result = inside("fit", recordings, "--out", out, *windows, *arguments)
            assert result.returncode == 0, result.stderr
        return made[objective]

    return train


def test_a_run_on_recordings_sees_spectrograms_masked_along_time(spectrogram_run):
    config = json.loads((spectrogram_run / "config.json").read_text())
    assert config["shape"] == [2048]
    assert config["training"]["network"] == "vit"
    assert config["learned"]["front_end"]["rate"] == config["source"]["rate"] == RATE
    assert len(config["learned"]["front_end"]["mean"]) == config["learned"]["front_end"]["mels"]
    import dcs

    encoder = dcs.load(spectrogram_run)
    masker = encoder.objective_.masker
    assert (type(masker).__name__, masker.axis, masker.rho, masker.delta) == (
        "AmplitudeNeighbors",
        -2,
        0.3,
        2,
    )


def test_features_of_tones_in_noise_tell_their_classes(spectrogram_run, recordings, tmp_path):
    result = inside("embed", spectrogram_run, recordings, "--out", tmp_path / "f.npy")
    assert result.returncode == 0, result.stderr
    assert np.load(tmp_path / "f.npy").shape == (120, 24)
    with (tmp_path / "f.csv").open(newline="") as file:
        assert all((recordings / row["source"]).exists() for row in csv.DictReader(file))
    scored = inside("evaluate", spectrogram_run, "--protocol", "linear", "--json")
    assert scored.returncode == 0, scored.stderr
    assert json.loads(scored.stdout)["score"] > 75  # chance is 33


def test_one_recording_of_another_rate_is_embedded_as_the_run_was_trained(spectrogram_run, tmp_path):
    rng = np.random.default_rng(1)
    stereo = np.stack([at_0_db(tone(300, SECONDS, rng, 16000), rng)] * 2, axis=1)
    soundfile.write(tmp_path / "new.flac", np.clip(stereo, -1, 1), 16000)
    result = inside("embed", spectrogram_run, tmp_path / "new.flac", "--out", tmp_path / "f.npy")
    assert result.returncode == 0, result.stderr
    assert np.load(tmp_path / "f.npy").shape == (1, 24)
    soundfile.write(tmp_path / "long.wav", np.zeros(5000), RATE)
    wrong = inside("embed", spectrogram_run, tmp_path / "long.wav", "--out", tmp_path / "g.npy")
    assert wrong.returncode == 1
    assert "long.wav" in wrong.stderr
    assert "of one length, 2048 samples, but" in wrong.stderr
    assert wrong.stderr.count("\n") == 1


@pytest.mark.parametrize("mixed", ["crop", "pad"])
def test_the_size_is_that_of_the_run_where_none_is_given(spectrogram_run, tmp_path, mixed):
    data = tmp_path / "data"
    for number in range(10):
        length = 5000 if mixed == "crop" or number else 1500
        path = data / "ab"[number % 2] / f"{number}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, np.random.default_rng(number).normal(0, 0.1, length), RATE)
    for arguments in (
        ("embed", spectrogram_run, data, "--out", tmp_path / "f.npy"),
        ("denoise", spectrogram_run, data, "--out", tmp_path / "d.npy"),
        ("evaluate", spectrogram_run, "--data", data, "--protocol", "linear"),
    ):
        result = inside(*arguments, "--mixed", mixed)
        assert result.returncode == 0, result.stderr
    assert len(np.load(tmp_path / "f.npy")) == len(np.load(tmp_path / "d.npy")) == 10
    soundfile.write(data / "a/short.wav", np.random.default_rng(0).normal(0, 0.1, 900), RATE)
    wrong = inside("embed", spectrogram_run, data, "--out", tmp_path / "g.npy", "--mixed", "crop")
    assert (wrong.returncode, "short.wav" in wrong.stderr, "--mixed pad" in wrong.stderr) == (1, True, True)
    assert "shorter than the 2048 samples to be cut out" in wrong.stderr


@pytest.mark.parametrize("objective", ["dcs", "n2v"])
def test_denoising_raises_the_ratio_by_three_db(waveform_run, recordings, tmp_path, objective):
    data, out = recordings / "middle", tmp_path / "cleaner"
    result = inside("denoise", waveform_run(objective), data, "--out", out)
    assert result.returncode == 0, result.stderr
    assert "40 recordings" in result.stdout
    ratios, energies = [], []
    for path in data.glob("*.wav"):
        clean = torch.from_numpy(np.load(recordings.parent / f"{path.stem}.npy"))[None]
        noisy, cleaner = (soundfile.read(p)[0] for p in (path, out / path.name))
        assert len(noisy) == len(cleaner)
        ratios.append([float(si_snr(clean, torch.from_numpy(x)[None])) for x in (noisy, cleaner)])
        energies.append(np.square(cleaner).sum() / float(clean.square().sum()))
    before, after = np.mean(ratios, axis=0)
    assert abs(before) < 0.5
    assert after - before > 3
    assert 0.5 < np.mean(energies) < 1.5  # on the recording's own scale, of which half is noise


@pytest.mark.parametrize(("suffix", "subtype"), [("wav", "PCM_16"), ("flac", "PCM_24"), ("wav", "FLOAT")])
def test_a_long_recording_keeps_rate_length_channels_and_scale(waveform_run, tmp_path, suffix, subtype):
    rng, rate = np.random.default_rng(2), 11025
    clean = np.stack([tone(pitch, 1.7, rng, rate) for pitch in (300, 700)], axis=1)
    noisy = clean + rng.normal(0, 0.2, clean.shape)
    soundfile.write(tmp_path / f"in.{suffix}", noisy, rate, subtype=subtype)
    out = tmp_path / f"out.{suffix}"
    result = inside("denoise", waveform_run(), tmp_path / f"in.{suffix}", "--out", out)
    assert result.returncode == 0, result.stderr
    about = soundfile.info(out)
    assert (about.samplerate, about.frames, about.channels, about.subtype) == (rate, len(noisy), 2, subtype)
    cleaner, _ = soundfile.read(out)
    for channel in range(2):
        a, b = (torch.from_numpy(x[:, channel].copy())[None] for x in (noisy, cleaner))
        s = torch.from_numpy(clean[:, channel].copy())[None]
        assert float(si_snr(s, b) - si_snr(s, a)) > 3
    again = inside("denoise", waveform_run(), tmp_path / f"in.{suffix}", "--out", out)
    assert (again.returncode, "exists: give another file" in again.stderr) == (1, True)


def test_what_a_lower_rate_removes_is_said(waveform_run, tmp_path):
    rng, data = np.random.default_rng(3), tmp_path / "data"
    data.mkdir()
    for name, rate in (("a", RATE), ("b", 2 * RATE), ("c", 3 * RATE)):
        soundfile.write(data / f"{name}.wav", at_0_db(tone(300, SECONDS, rng, rate), rng), rate)
    says = r"b\.wav' has 16000 Hz, the run 8000 \(as 1 more have\): frequencies above 4000 Hz are removed"
    with pytest.warns(DataWarning, match=says):
        result = inside("denoise", waveform_run(), data, "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        result = inside("denoise", waveform_run(), data / "a.wav", "--out", tmp_path / "a.wav")
    assert result.returncode == 0, result.stderr


def test_windows_are_named_by_file_and_start(waveform_run, recordings, tmp_path):
    def read(name, *options):
        result = inside("embed", waveform_run(), recordings, "--out", tmp_path / f"{name}.npy", *options)
        assert result.returncode == 0, result.stderr
        with (tmp_path / f"{name}.csv").open(newline="") as file:
            return np.load(tmp_path / f"{name}.npy"), list(csv.DictReader(file))

    each, rows = read("f", "--per-window")
    assert len(rows) == 4 * 120
    assert [float(row["start_seconds"]) for row in rows[:4]] == [0.0, 0.064, 0.128, 0.192]
    assert len({row["source"] for row in rows}) == 120
    _, close = read("h", "--per-window", "--hop", "256")
    assert [float(row["start_seconds"]) for row in close[:7]] == [0.032 * number for number in range(7)]
    pooled, sources = read("g")
    assert np.allclose(pooled[0], np.concatenate([each[:4].mean(0), each[:4].std(0)]), atol=1e-5)
    assert len(pooled) == len(sources) == 120
    assert sources[0]["source"] == rows[0]["source"]


def test_recordings_of_different_lengths_need_no_options(tmp_path):
    folder = tmp_path / "recordings"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(12):
        soundfile.write(folder / f"{number}.wav", 0.1 * rng.normal(size=3000 + 500 * number), 8000)
    small = ("--set", 'network_options={"width": 16, "depth": 1}', "--components", "8", "--threads", "1")
    assert inside("fit", folder, "--out", tmp_path / "run", *small, "--epochs", 2).returncode == 0
    result = inside("embed", tmp_path / "run", folder, "--out", tmp_path / "f.npy")
    assert result.returncode == 0, result.stderr
    assert np.load(tmp_path / "f.npy").shape == (12, 16)
    assert inside("inspect", folder).returncode == 0
    result = inside("denoise", tmp_path / "run", folder, "--out", tmp_path / "d.npy")
    assert result.returncode == 0, result.stderr
    assert np.load(tmp_path / "d.npy").shape[0] == 12  # one window each
    wrong = inside("embed", tmp_path / "run", folder, "--out", tmp_path / "i.npy", "--hop", 5)
    assert "--hop is only applicable with --per-window" in wrong.stderr


def test_one_long_recording_is_learned_from_in_windows(tmp_path):
    rng, rate = np.random.default_rng(0), 1000
    soundfile.write(tmp_path / "a.wav", 0.1 * rng.normal(size=31 * rate), rate)
    dry = inside("fit", tmp_path / "a.wav", "--out", tmp_path / "run", "--domain", "waveform", "--dry-run")
    told = json.loads(dry.stdout)
    assert (told["shape"], told["training"]["window"]) == ([5000], [5000])
    assert told["training"]["batch_size"] == 2**18 // 5000
    asked = inside(
        "fit", tmp_path / "a.wav", "--out", tmp_path / "run", "--domain", "waveform", "--mixed", "windows",
        "--size", 700, "--dry-run",
    )  # fmt: skip
    assert json.loads(asked.stdout)["training"]["window"] == [700]


def test_what_cannot_be_denoised_is_said(spectrogram_run, waveform_run, recordings, tmp_path):
    one = next(recordings.glob("*/*.wav"))
    for run, data, out, says in (
        (spectrogram_run, one, tmp_path / "a.wav", "trained on spectrograms"),
        (waveform_run(), one, tmp_path / "a", "out must end in .wav"),
        (waveform_run(), recordings, tmp_path / "a.wav", "out must be a folder"),
        (waveform_run(), tmp_path / "none.wav", tmp_path / "a.wav", "does not exist"),
        (waveform_run(), recordings, recordings, "where the data is"),
    ):
        result = inside("denoise", run, data, "--out", out)
        assert result.returncode == 1
        assert says in result.stderr
        assert result.stderr.count("\n") == 1
    result = inside("denoise", waveform_run(), one, "--noise", "gaussian:0.1", "--out", tmp_path / "a.wav")
    assert "--noise must be left out where recordings are written" in result.stderr
    result = inside("denoise", spectrogram_run, recordings, "--out", tmp_path / "a.npy")
    assert result.returncode == 0, result.stderr
    decibels = np.load(tmp_path / "a.npy")
    assert decibels.shape[0] == 120
    assert -120 < decibels.mean() < 20


def test_bad_files_are_skipped_counted_and_listed(waveform_run, recordings, tmp_path):
    folder = tmp_path / "mixed"
    folder.mkdir()
    good = sorted(recordings.glob("*/*.wav"))[:20]
    for path in good:
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "x-header.wav").write_bytes(good[0].read_bytes()[:20])
    soundfile.write(folder / "x-empty.wav", np.zeros(0), RATE)
    soundfile.write(folder / "x-nan.wav", np.full(2048, np.nan), RATE, subtype="FLOAT")
    soundfile.write(folder / "x-silent.wav", np.zeros(2048), RATE)
    (folder / "x-link.wav").symlink_to("nowhere.wav")
    soundfile.write(folder / "y-eight.wav", np.random.default_rng(0).normal(0, 0.1, (2048, 8)), RATE)
    arguments = ("fit", folder, "--out", tmp_path / "run", "--epochs", 1, *SMALL_VIT)
    refused = inside(*arguments)
    assert refused.returncode == 1
    assert "x-" in refused.stderr
    result = dcs(*arguments, "--skip-bad")  # in a process of its own, for its warnings
    assert result.returncode == 0, result.stderr
    assert "5 of 26 files are bad and were skipped" in result.stderr
    for name in ("x-header.wav", "x-empty.wav", "x-link.wav", "x-nan.wav", "x-silent.wav"):
        assert name in result.stderr
    assert "y-eight.wav' with 8" in result.stderr
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert config["samples"] == 21
    names = ("empty", "header", "link", "nan", "silent")
    assert config["skipped"] == [f"x-{name}.wav" for name in names]
    refused = inside("denoise", waveform_run(), folder, "--out", tmp_path / "out")
    assert (refused.returncode, "x-" in refused.stderr) == (1, True)
    assert not (tmp_path / "out").exists()  # not even of the good ones, which come first
    cleaned = dcs("denoise", waveform_run(), folder, "--out", tmp_path / "out", "--skip-bad")
    assert cleaned.returncode == 0, cleaned.stderr
    assert "4 of 26 files are bad and were skipped" in cleaned.stderr  # silence can be denoised
    assert "leave out" not in cleaned.stderr
    assert soundfile.info(tmp_path / "out/y-eight.wav").channels == 8
    assert not soundfile.read(tmp_path / "out/x-silent.wav")[0].any()


@pytest.mark.parametrize("command", [("fit", "--out", "nowhere"), ("inspect",)])
def test_a_recording_too_short_for_a_frame_is_named(tmp_path, command):
    for name, length in (("a", 2048), ("short", 20), ("z", 2048)):
        values = np.random.default_rng(0).normal(0, 0.1, length)
        soundfile.write(tmp_path / f"{name}.wav", values, RATE)
    result = inside(command[0], tmp_path, *command[1:], "--mixed", "crop")
    assert result.returncode == 1
    assert "short.wav' has 20 samples, less than a frame of the spectrogram, 181: remove" in result.stderr
    assert "--mixed pad" in result.stderr


@pytest.mark.parametrize("domain", ["spectrogram", "waveform"])
@pytest.mark.parametrize("objective", ["dcs", "n2v", "cosine", "mse"])
def test_every_objective_in_either_domain_with_padding(recordings, tmp_path, domain, objective):
    for number, path in enumerate(sorted(recordings.glob("*/*.wav"))[:8]):
        values, _ = soundfile.read(path)
        (tmp_path / "data").mkdir(exist_ok=True)
        soundfile.write(tmp_path / f"data/{path.name}", values[: 2048 - 200 * number], RATE)
    small = SMALL_VIT if domain == "spectrogram" else SMALL_WAVE
    result = inside(
        *("fit", tmp_path / "data", "--out", tmp_path / "run", "--mixed", "pad", "--domain", domain),
        *("--objective", objective, "--epochs", 2, *small),
    )
    assert result.returncode == 0, result.stderr
    training = json.loads((tmp_path / "run/config.json").read_text())["training"]
    if objective in ("dcs", "n2v") and domain == "waveform":
        assert training["masking"] == {"kind": "amplitude"}
    embedded = inside("embed", tmp_path / "run", tmp_path / "data", "--out", tmp_path / "f.npy")
    assert embedded.returncode == 0, embedded.stderr
    assert len(np.load(tmp_path / "f.npy")) == 8


@pytest.mark.parametrize("domain", ["spectrogram", "waveform"])
def test_settings_of_a_run_are_its_own_when_it_goes_on(recordings, tmp_path, domain):
    perceptron = ("--network", "mlp", "--set", 'network_options={"hidden": [8]}', "--set", "max_epochs=1")
    result = inside("fit", recordings, "--out", tmp_path / "a", "--domain", domain, *perceptron)
    assert result.returncode == 0, result.stderr
    again = inside("fit", recordings, "--out", tmp_path / "b", "--config", tmp_path / "a/config.json")
    assert again.returncode == 0, again.stderr
    one, other = (json.loads((tmp_path / run / "config.json").read_text()) for run in "ab")
    assert one["training"] == other["training"]
    assert (tmp_path / "a/model.safetensors").read_bytes() == (tmp_path / "b/model.safetensors").read_bytes()
    resumed = inside("fit", recordings, "--out", tmp_path / "a", "--resume")
    assert (resumed.returncode, "is finished" in resumed.stdout) == (0, True), resumed.stderr


def test_domain_is_for_recordings():
    result = inside("fit", "digits", "--out", "nowhere", "--domain", "waveform")
    assert result.returncode == 1
    assert "domain is only applicable to recordings" in result.stderr


def test_a_network_for_images_does_not_go_with_waveforms(recordings, tmp_path):
    result = inside("fit", recordings, "--out", tmp_path / "run", "--domain", "waveform", "--network", "vit")
    assert result.returncode == 1
    assert "network 'vit' does not take waveforms" in result.stderr
    assert not (tmp_path / "run").exists()


def test_examples_of_denoising_recordings_say_how_to_fit_for_it():
    told = " ".join(inside("denoise", "--help").stdout.split())
    readme = " ".join(Path(__file__).parents[2].joinpath("README.md").read_text(encoding="utf-8").split())
    for text in (told, readme):
        before, found, _ = text.partition("dcs denoise run in.wav --out out.wav")
        assert found
        assert "dcs fit recordings/ --domain waveform" in before

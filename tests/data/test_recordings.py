"""Recordings as people have them: of any rate, length and state."""

import math
import warnings

import numpy as np
import pytest
import soundfile
import torch
from PIL import Image
from scipy.signal import resample_poly

from dcs.data import DataError, DataWarning, Reading, RecordingItems, load, scan_recordings, write_recording
from dcs.data._recordings import plan_recordings

RNG = np.random.default_rng(0)


def record(path, values, rate=8000, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, values, rate, **options)
    return path


def read_recordings(files, resident=None, **options):
    plan = plan_recordings(files, Reading(**options))
    return plan.read(resident), plan.rate


def noise(length):
    return RNG.uniform(-0.5, 0.5, length).astype(np.float32)


# Rates


@pytest.mark.parametrize(
    ("rate", "new"), [(44_100, 16_000), (8000, 44_100), (22_050, 44_100), (48_000, 8000)]
)
def test_recordings_are_resampled_as_scipy_does(tmp_path, rate, new):
    values = noise(3001)
    file = record(tmp_path / "a.wav", values, rate, subtype="FLOAT")
    x, found = read_recordings([file], rate=new)
    divisor = math.gcd(rate, new)
    expected = resample_poly(values, new // divisor, rate // divisor)
    assert found == new
    assert x.shape == (1, len(expected))
    assert x[0].numpy() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("rate", "new"), [(44_100, 16_000), (8000, 44_100), (16_000, 8000)])
@pytest.mark.parametrize("resident", [True, False])
def test_a_window_is_what_it_is_in_the_whole_resampled_recording(tmp_path, rate, new, resident):
    file = record(tmp_path / "a.wav", noise(20_000), rate, subtype="FLOAT")
    whole = read_recordings([file], rate=new)[0][0]
    x, _ = read_recordings([file], rate=new, mixed="windows", size=500, resident=resident)
    assert x.shape == (1, 500)
    assert isinstance(x.items, RecordingItems) is not resident
    assert x.items.sizes == [(len(whole),)]
    for start in (*range(0, len(whole) - 500, 331), len(whole) - 500):
        part = x.items.region(0, [start], [500])
        torch.testing.assert_close(part, whole[start : start + 500], rtol=0, atol=1e-6)


def test_a_tone_keeps_its_pitch(tmp_path):
    time = np.arange(44_100) / 44_100
    file = record(tmp_path / "a.wav", 0.5 * np.sin(2 * np.pi * 1000 * time), 44_100)
    x, rate = read_recordings([file], rate=16_000)
    spectrum = torch.fft.rfft(x[0]).abs()
    assert int(spectrum.argmax()) * rate / x.shape[1] == pytest.approx(1000, abs=1)


def test_mixed_rates_load_once_a_rate_is_named(tmp_path):
    for number, rate in enumerate((8000, 16_000, 44_100)):
        record(tmp_path / f"{number}.wav", noise(rate // 10), rate)
    with pytest.raises(DataError, match=r"one sample rate.*rate="):
        load(tmp_path)
    data = load(tmp_path, rate=8000)
    assert (data.rate, data.shape, len(data.train)) == (8000, (800,), 3)
    assert data.train.items is None  # all are of one length at that rate


# Lengths


@pytest.mark.parametrize("resident", [True, False])
@pytest.mark.parametrize("size", [None, 25])
def test_padding(tmp_path, resident, size):
    arrays = [noise(length) for length in (30, 20, 10)]
    for number, values in enumerate(arrays):
        record(tmp_path / f"{number}.wav", values, subtype="FLOAT")
    data = load(tmp_path, mixed="pad", size=size, resident=resident)
    n = size or 30
    x = data.train.x if resident else data.train.x.read(range(3))
    assert data.train.lengths.tolist() == [n, 20, 10]
    for row, values in zip(x.tolist(), arrays, strict=True):
        centre = values[(len(values) - n) // 2 :][:n] if len(values) > n else values
        assert row == [*centre.tolist(), *[0.0] * (n - len(centre))]
    assert load(tmp_path, mixed="pad", size=5).train.lengths is None  # nothing is padded


@pytest.mark.parametrize("resident", [True, False])
def test_recordings_of_any_length_are_items(tmp_path, resident):
    arrays = {"train/cat/a.wav": noise(25), "train/dog/b.wav": noise(7), "test/cat/c.wav": noise(10)}
    for name, values in arrays.items():
        record(tmp_path / name, values, subtype="FLOAT")
    data = load(tmp_path, mixed="windows", size=10, resident=resident)
    assert list(data.train.names) == ["train/cat/a.wav", "train/dog/b.wav"]
    assert (data.shape, data.train.items.sizes, data.train.lengths) == ((10,), [(25,), (7,)], None)
    assert data.train.y.tolist() == [0, 1]
    assert list(data.test.names) == ["test/cat/c.wav"]
    for split in (data.train, data.test):
        for row, name in enumerate(split.names):
            assert np.array_equal(split.items.whole(row).numpy(), arrays[name])
    assert data.train.x[0].tolist() == arrays["train/cat/a.wav"][7:17].tolist()
    short = arrays["train/dog/b.wav"].tolist()
    assert data.train.x[1].tolist() == short + short[:3:-1]  # mirrored at its end


def test_a_default_window_is_the_longest_recording_up_to_five_seconds(tmp_path):
    for number, length in enumerate((70, 300)):
        record(tmp_path / f"{number}.wav", noise(length), rate=100)
    assert load(tmp_path).shape == (300,)
    record(tmp_path / "2.wav", noise(900), rate=100)
    assert load(tmp_path).shape == (500,)
    assert load(tmp_path / "2.wav", mixed="windows").shape == (500,)


def test_one_recording_is_data_too(tmp_path):
    file = record(tmp_path / "a.flac", noise(25))
    data = load(file)
    assert (data.shape, data.rate, list(data.train.names), data.train.y) == ((25,), 8000, ["a.flac"], None)
    assert load(file, mixed="windows", size=10).train.items.sizes == [(25,)]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"rate": 0}, "rate must be at least 1"),
        ({"rate": 8000.0}, "rate must be an integer"),
        ({"skip_bad": 1}, "skip_bad must be True or False"),
        ({"mixed": "resize"}, "without changing its pitch"),
    ],
)
def test_wrong_options_for_recordings(tmp_path, options, says):
    record(tmp_path / "a.wav", noise(9))
    with pytest.raises((TypeError, ValueError), match=says):
        load(tmp_path, **options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"rate": 8000}, "rate is for recordings"),
        ({"mixed": "pad"}, 'mixed="pad" is for recordings'),
    ],
)
def test_what_is_for_recordings_is_refused_for_images(tmp_path, options, says):
    Image.fromarray(np.zeros((5, 5), np.uint8)).save(tmp_path / "a.png")
    with pytest.raises(ValueError, match=says):
        load(tmp_path, **options)
    with pytest.raises(ValueError, match="is not applicable to"):
        load("digits", **{**options, "mixed": "crop"})


# Bad files


def bad_files(folder):
    good = record(folder / "good.wav", noise(2000))
    (folder / "header.wav").write_bytes(good.read_bytes()[:30])
    (folder / "text.flac").write_text("no sound")
    cut = record(folder / "cut.flac", noise(20_000))
    cut.write_bytes(cut.read_bytes()[:9000])
    cut = record(folder / "cut.wav", noise(20_000))
    cut.write_bytes(cut.read_bytes()[:9000])
    record(folder / "empty.wav", np.zeros(0))
    record(folder / "nan.wav", np.array([0, np.nan] * 1000, np.float32), subtype="FLOAT")
    record(folder / "huge.wav", np.array([0, 1e30] * 1000, np.float32), subtype="FLOAT")
    (folder / "link.wav").symlink_to("nowhere.wav")
    return sorted(path.name for path in folder.iterdir() if path != good)


@pytest.mark.parametrize("resident", [True, False])
@pytest.mark.parametrize("mixed", ["error", "windows"])
def test_bad_recordings_are_skipped_counted_and_listed(tmp_path, resident, mixed):
    bad = bad_files(tmp_path)
    record(tmp_path / "silent.wav", np.zeros(2000))
    with pytest.warns(DataWarning) as caught:
        data = load(tmp_path, skip_bad=True, resident=resident, mixed=mixed, size=2000)
    message = str(caught[0].message)
    assert message.startswith("9 of 10 files are bad and were skipped:\n")
    assert set(data.skipped) == {*bad, "silent.wav"}
    assert all(name in message for name in data.skipped)
    assert list(data.train.names) == ["good.wav"]
    assert data.train.x.shape == (1, 2000)


BAD = ["header.wav", "text.flac", "cut.flac", "cut.wav", "empty.wav", "nan.wav", "huge.wav"]


@pytest.mark.parametrize("name", BAD)
def test_each_bad_recording_alone_is_named(tmp_path, name):
    bad_files(tmp_path / "all")
    file = tmp_path / name
    (tmp_path / "all" / name).rename(file)
    with pytest.raises(DataError, match=name):
        load(file)
    with pytest.raises(DataError, match=rf"none of the 1 files can be used.*{name}"):
        load(file, skip_bad=True)
    with pytest.raises(DataError, match=name):
        scan_recordings(file)


@pytest.mark.parametrize("size", [0x7FFFF000, 0xFFFFFFFF])
def test_a_stream_that_does_not_say_how_long_it_is_is_read_to_its_end(tmp_path, size):
    values = noise(2000)
    file = record(tmp_path / "a.wav", values, subtype="FLOAT")
    content = bytearray(file.read_bytes())
    for place in (4, content.index(b"data") + 4):
        content[place : place + 4] = size.to_bytes(4, "little")
    file.write_bytes(content)
    assert np.array_equal(load(file).train.x[0].numpy(), values)


@pytest.mark.parametrize(("kind", "endian"), [("WAV", "BIG"), ("WAVEX", "FILE"), ("RF64", "FILE")])
def test_whole_files_of_all_kinds_of_wav_are_read(tmp_path, kind, endian):
    record(tmp_path / "a.wav", noise(2001), format=kind, endian=endian, subtype="PCM_24")
    assert load(tmp_path).shape == (2001,)


def test_silence_and_many_channels_are_warned_of_by_name(tmp_path):
    record(tmp_path / "silent.wav", np.zeros(50))
    record(tmp_path / "eight.wav", RNG.uniform(-0.5, 0.5, (50, 8)))
    with pytest.warns(DataWarning, match=r"1 recordings are silent, such as .*silent\.wav"):
        load(tmp_path)
    with pytest.warns(DataWarning, match=r"more than two channels, such as .*eight\.wav' with 8"):
        data = load(tmp_path / "eight.wav")
    assert data.shape == (50,)
    record(tmp_path / "two.wav", RNG.uniform(-0.5, 0.5, (50, 2)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(tmp_path / "two.wav")


def test_bad_images_are_skipped_too(tmp_path):
    for name in ("a", "b"):
        Image.fromarray(np.zeros((5, 5), np.uint8)).save(tmp_path / f"{name}.png")
    (tmp_path / "c.png").write_bytes((tmp_path / "a.png").read_bytes()[:40])
    Image.fromarray(np.full((5, 5), np.nan, np.float32)).save(tmp_path / "d.tif")
    with pytest.raises(DataError, match=r"c\.png"):
        load(tmp_path)
    with pytest.warns(DataWarning, match="2 of 4 files are bad"):
        data = load(tmp_path, skip_bad=True)
    assert (list(data.train.names), set(data.skipped)) == (["a.png", "b.png"], {"c.png", "d.tif"})


# Writing


def written(path, signal, like, rate=8000):
    """Write a signal as a recording is, and read it back: (channels, t), rate, sample format."""
    write_recording(path, signal, rate, like, path.suffix)
    about = soundfile.info(path)
    return soundfile.read(path, dtype="float32", always_2d=True)[0].T, about.samplerate, about.subtype


@pytest.mark.parametrize("name", ["a.wav", "a.flac", "a.ogg", "a.mp3"])
def test_what_is_too_loud_is_made_quieter_and_never_clipped(tmp_path, name):
    like = record(tmp_path / "like.wav", noise(4000), subtype="PCM_16")
    wave = (3 * np.sin(np.arange(4000) * 0.05)).astype(np.float32)[None]
    with pytest.warns(DataWarning, match=r"was made quieter, by a factor of 3"):
        found, rate, _ = written(tmp_path / name, wave, like)
    assert rate == 8000
    assert found == pytest.approx(0.333 * wave, abs=0.1 if name in ("a.ogg", "a.mp3") else 1e-3)


def test_floating_point_is_written_as_it_is(tmp_path):
    like = record(tmp_path / "like.wav", noise(400), subtype="FLOAT")
    wave = (3 * np.sin(np.arange(400) * 0.05)).astype(np.float32)[None]
    assert np.array_equal(written(tmp_path / "a.wav", wave, like)[0], wave)


@pytest.mark.parametrize("subtype", ["FLOAT", "DOUBLE", "PCM_32"])
def test_what_flac_cannot_hold_is_written_with_the_most_bits_it_has(tmp_path, subtype):
    like = record(tmp_path / "like.wav", noise(400), subtype=subtype)
    wave = noise(400)[None]
    found, _, used = written(tmp_path / "a.flac", wave, like)
    assert used == "PCM_24"
    assert found == pytest.approx(wave, abs=2**-22)


@pytest.mark.parametrize(("rate", "run_rate"), [(44_100, 16_000), (8000, 44_100), (11_025, 8000)])
def test_blocks_are_joined_without_seams(tmp_path, rate, run_rate, monkeypatch):
    monkeypatch.setattr("dcs.data._recordings._BLOCK", 701)
    like = record(tmp_path / "like.wav", RNG.uniform(-0.5, 0.5, (5003, 2)), rate, subtype="FLOAT")
    items = RecordingItems.channels_of(like, run_rate)
    signal = np.stack([items.whole(channel).numpy() for channel in range(2)])
    found, found_rate, _ = written(tmp_path / "a.wav", signal, like, run_rate)
    divisor = math.gcd(rate, run_rate)
    expected = resample_poly(signal, rate // divisor, run_rate // divisor, axis=1)[:, :5003]
    assert found_rate == rate
    assert found == pytest.approx(expected, abs=1e-5)


def test_more_than_a_wav_file_can_hold_is_written_as_rf64(tmp_path, monkeypatch):
    monkeypatch.setattr("dcs.data._recordings._LARGEST_WAV", 1000)
    like = record(tmp_path / "like.wav", noise(400))
    found = written(tmp_path / "a.wav", noise(400)[None], like)[0]
    assert soundfile.info(tmp_path / "a.wav").format == "RF64"
    assert load(tmp_path / "a.wav").shape == (found.shape[1],) == (400,)


def test_mp3(tmp_path):
    values = (0.5 * np.sin(np.arange(8000) * 0.1)).astype(np.float32)
    x = load(record(tmp_path / "a.mp3", values)).train.x[0].numpy()
    assert len(x) == 8000
    assert x == pytest.approx(values, abs=0.1)

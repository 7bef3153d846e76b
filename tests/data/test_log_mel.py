"""Log-mel spectrograms against librosa's, against a plain loop, and their statistics."""

import json
import math
import pickle

import numpy as np
import pytest
import torch

from dcs import DenoisingEncoder, load
from dcs.data import Dataset, LogMel, Samples, Split
from dcs.data._log_mel import Spectrograms
from tests.helpers import seeded


def clips(n=3, length=22_050, rate=44_100, dtype=torch.float32):
    """Chirps in a little noise, the last of them quiet and short: silence is at its end."""
    time = torch.arange(length, dtype=torch.float64) / rate
    pitch = torch.linspace(200, rate / 5, n, dtype=torch.float64)[:, None]
    x = torch.sin(2 * math.pi * pitch * time * (1 + time)) * 0.3
    x += 0.01 * torch.randn(x.shape, generator=seeded(), dtype=torch.float64)
    x[-1] *= 1e-3
    x[-1, length // 2 :] = 0
    return x.to(dtype)


OPTIONS = [
    {"rate": 44_100},
    {"rate": 44_100, "mels": 30, "frame": 1024, "hop": 256},
    {"rate": 16_000, "frame": 400, "hop": 160, "mels": 40, "low": 50.0, "high": 7000.0},
    {"rate": 8000, "frame": 256, "hop": 100, "mels": 20, "top_db": None},
    {"rate": 22_050, "frame": 601, "hop": 300, "mels": 32, "top_db": 40.0, "amin": 1e-6},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_it_is_librosa_s(options):
    librosa = pytest.importorskip("librosa")
    mel = LogMel(**options)

    def theirs(wave):
        power = librosa.feature.melspectrogram(
            y=wave,
            sr=mel.rate,
            n_fft=mel.frame,
            hop_length=mel.hop,
            win_length=mel.frame,
            window="hann",
            center=False,
            power=2.0,
            n_mels=mel.mels,
            fmin=mel.low,
            fmax=mel.high,
        )
        return librosa.power_to_db(power, ref=1.0, amin=mel.amin, top_db=mel.top_db).T

    x = clips(rate=mel.rate, dtype=torch.float64)
    expected = np.stack([theirs(wave) for wave in x.numpy()])
    assert np.abs(mel.decibels(x).numpy() - expected).max() < 1e-5
    # In single precision, the faintest bands, 80 dB below the loudest, feel the rounding of those.
    single = np.stack([theirs(wave) for wave in x.float().numpy()])
    near = np.abs(mel.decibels(x.float()).numpy() - single)
    assert np.percentile(near, 99) < 1e-4
    deviation = expected.std()
    assert near.max() / deviation < 1e-4


def test_five_seconds_at_44_100_hz_are_440_by_60():
    mel = LogMel(44_100)
    assert (mel.frame, mel.hop, mel.mels, mel.low, mel.high) == (1000, 500, 60, 0.0, 22_050.0)
    assert mel.shape(220_500) == (440, 60)
    assert mel.decibels(torch.randn(2, 220_500, generator=seeded())).shape == (2, 440, 60)


def test_a_plain_loop():
    """By the definition: a sum for every frequency, triangles by their corners."""
    rate, frame, hop, mels = 8000, 64, 32, 6
    x = clips(2, 200, rate, torch.float64)
    mel = LogMel(rate, frame=frame, hop=hop, mels=mels)

    def to_mel(hz):
        return 3 * hz / 200 if hz < 1000 else 15 + 27 * math.log(hz / 1000, 6.4)

    def to_hz(value):
        return 200 * value / 3 if value < 15 else 1000 * 6.4 ** ((value - 15) / 27)

    corners = [to_hz(to_mel(rate / 2) * i / (mels + 1)) for i in range(mels + 2)]
    for row, wave in enumerate(x.tolist()):
        table = []
        for start in range(0, len(wave) - frame + 1, hop):
            bands = [0.0] * mels
            for k in range(frame // 2 + 1):
                real = imaginary = 0.0
                for j in range(frame):
                    value = wave[start + j] * (0.5 - 0.5 * math.cos(2 * math.pi * j / frame))
                    real += value * math.cos(2 * math.pi * j * k / frame)
                    imaginary += value * math.sin(2 * math.pi * j * k / frame)
                for m in range(mels):
                    left, centre, right = corners[m : m + 3]
                    hz = k * rate / frame
                    up, down = (hz - left) / (centre - left), (right - hz) / (right - centre)
                    bands[m] += max(0.0, min(up, down)) * 2 / (right - left) * (real**2 + imaginary**2)
            table.append([10 * math.log10(max(1e-10, band)) for band in bands])
        loudest = max(max(line) for line in table)
        expected = [[max(value, loudest - 80) for value in line] for line in table]
        assert mel.decibels(x)[row].numpy() == pytest.approx(np.array(expected), abs=1e-6)


@pytest.mark.parametrize("rate", [4000, 8000, 11_025, 16_000, 22_050, 32_000, 48_000, 96_000])
def test_defaults_fit_every_rate(rate):
    mel = LogMel(rate)
    assert mel.hop / rate == pytest.approx(500 / 44_100, rel=0.03)
    assert mel.mels in (60, 40, 20, 10)
    assert float(mel.decibels(torch.randn(1, rate, generator=seeded())).min()) > -100  # no empty band


@pytest.mark.parametrize("standardise", ["bin", "all"])
@pytest.mark.parametrize("on_disk", [False, True])
def test_statistics_are_those_of_the_training_set(standardise, on_disk):
    x = clips(40, 4000, 8000)
    mel = LogMel(8000, standardise=standardise)
    fitted = mel.fit(OnDisk(x) if on_disk else x)
    decibels = mel.decibels(x).double()
    axes = (0, 1) if standardise == "bin" else (0, 1, 2)
    assert mel.mean is None
    assert fitted.mean == pytest.approx(decibels.mean(axes).expand(mel.mels).tolist(), rel=1e-6)
    deviation = decibels.std(axes, correction=0).expand(mel.mels)
    assert fitted.deviation == pytest.approx(deviation.tolist(), rel=1e-5)
    z = fitted(x)
    assert mel.fit_decibels(mel.decibels(x)).mean == pytest.approx(fitted.mean, rel=1e-6)
    torch.testing.assert_close(z, ((decibels - decibels.mean(axes)) / deviation).float(), rtol=0, atol=1e-4)
    torch.testing.assert_close(fitted.undo(z), decibels.float(), rtol=0, atol=1e-4)


class OnDisk(Samples):
    """Waveforms that are read when they are asked for."""

    def __init__(self, x):
        self.x, self.shape = x, tuple(x.shape)

    def read(self, indices):
        return self.x[list(indices)]


def test_padding_counts_nowhere():
    x, lengths = clips(4, 4000, 8000), torch.tensor([4000, 3000, 2000, 1111])
    garbage = x.clone()
    for row, length in enumerate(lengths):
        garbage[row, length:] = 100 * torch.randn(4000 - int(length), generator=seeded(row))
    mel = LogMel(8000)
    fitted = mel.fit(garbage, lengths)
    frames = [1 + (int(length) - mel.frame) // mel.hop for length in lengths]
    assert mel.frames_of(lengths).tolist() == frames
    rows = [mel.decibels(x[i : i + 1, : int(n)])[0] for i, n in enumerate(lengths)]
    assert fitted.mean == pytest.approx(torch.cat(rows).double().mean(0).tolist(), abs=1e-4)
    z = fitted(garbage, lengths)
    for row, count in enumerate(frames):
        assert not z[row, count:].any()
        torch.testing.assert_close(fitted.undo(z[row, :count]), rows[row], rtol=0, atol=1e-3)


def test_silence_is_finite_and_a_constant_band_is_left_alone():
    silence = torch.zeros(3, 4000)
    mel = LogMel(8000).fit(silence)
    assert set(mel.deviation) == {1.0}
    assert not mel(silence).any()
    assert torch.equal(mel.decibels(silence), torch.full((3, *mel.shape(4000)), -100.0))


def test_spectrograms_of_data_on_disk(monkeypatch):
    x, lengths = clips(5, 4000, 8000), torch.tensor([4000, 3000, 4000, 2000, 4000])
    mel = LogMel(8000).fit(x)
    held = mel.of(OnDisk(x), lengths)
    assert isinstance(held, torch.Tensor)
    monkeypatch.setattr("dcs.data._log_mel.is_resident", lambda *_: False)
    streamed = mel.of(OnDisk(x), lengths)
    assert isinstance(streamed, Spectrograms)
    assert streamed.shape == tuple(held.shape)
    torch.testing.assert_close(streamed.read([4, 1]), held[[4, 1]])
    assert pickle.loads(pickle.dumps(mel)) == mel  # noqa: S301  (our own, for worker processes)


def test_a_data_set_of_recordings_becomes_one_of_spectrograms():
    x = clips(6, 4000, 8000)
    data = Dataset("a", Split(x[:4], lengths=torch.tensor([4000, 4000, 900, 4000])), Split(x[4:]), rate=8000)
    spectrograms, mel = LogMel(8000).apply(data)
    assert spectrograms.shape == mel.shape(4000)
    assert mel == LogMel(8000).fit(x[:4], data.train.lengths)  # the test split has no part in it
    assert torch.equal(spectrograms.test.x, mel(x[4:]))
    assert spectrograms.train.lengths.tolist() == mel.frames_of(data.train.lengths).tolist()
    assert mel.apply(data)[1] is mel
    with pytest.raises(ValueError, match="has 8000 Hz, but LogMel is for rate 16000"):
        LogMel(16_000).apply(data)


def test_described_and_made_again():
    mel = LogMel(8000, mels=16, top_db=None).fit(clips(4, 4000, 8000))
    assert LogMel(**json.loads(json.dumps(mel.describe()))) == mel


def test_the_statistics_are_saved_with_an_encoder(tmp_path):
    x = clips(40, 2000, 8000)
    encoder = DenoisingEncoder(
        front_end={"rate": 8000, "mels": 12},
        network="vit",
        network_options={"width": 8, "depth": 1},
        n_components=6,
        max_epochs=2,
        objective="n2v",
        random_state=0,
    ).fit(x)
    masker = encoder.objective_.masker
    assert (type(masker).__name__, masker.axis) == ("AmplitudeNeighbors", -2)
    assert encoder.front_end_ == LogMel(8000, mels=12).fit(x)
    assert encoder.denoise(x).shape == (40, *encoder.front_end_.shape(2000))
    assert float(encoder.denoise(x).mean()) == pytest.approx(float(np.mean(encoder.front_end_.mean)), abs=9)
    encoder.save(tmp_path / "saved")
    again = load(tmp_path / "saved")
    assert again.front_end_ == encoder.front_end_
    assert np.array_equal(again.transform(x), encoder.transform(x))
    assert again.score(x) == encoder.score(x)
    with pytest.raises(ValueError, match=r"X has 1500 features, but .* expecting 2000"):
        again.transform(x[:, :1500])
    with pytest.raises(ValueError, match="denoise_signal needs a network that was trained on waveforms"):
        again.denoise_signal(x[0])


@pytest.mark.parametrize(
    ("front_end", "says"),
    [
        ({}, "front_end must give the sampling rate"),
        ({"rate": 8000, "mel": 3}, "unknown option 'front_end.mel' of front_end: did you mean 'mels'"),
        ({"rate": 8000, "mels": 500}, "front_end: mels must be fewer than 500"),
        ({"rate": 8000, "frame": 9000, "mels": 10}, "front_end: x has 2000 samples"),
        (3, "front_end"),
    ],
)
def test_a_wrong_front_end_is_named(front_end, says):
    with pytest.raises(ValueError, match=says):
        DenoisingEncoder(front_end=front_end, max_epochs=0).fit(clips(4, 2000, 8000))


@pytest.mark.parametrize(
    ("mean", "deviation", "says"),
    [
        ([0.0] * 7, [1.0] * 8, "mean must hold 8 numbers"),
        ([0.0] * 8, [1.0] * 9, "deviation must hold 8 numbers"),
        ([0.0] * 8, [0.0] * 8, "deviation must be a finite number above 0"),
        ([math.nan] * 8, [1.0] * 8, "mean must be a finite number"),
        ("abcdefgh", [1.0] * 8, "mean must be a number"),
    ],
)
def test_wrong_statistics_are_refused(mean, deviation, says):
    with pytest.raises((TypeError, ValueError), match=says):
        LogMel(8000, mels=8, mean=mean, deviation=deviation)


def test_statistics_are_asked_for():
    with pytest.raises(ValueError, match=r"decibels must be spectrograms \(n, frames, 12\)"):
        LogMel(8000, mels=12).fit_decibels(torch.zeros(2, 5, 11))
    with pytest.raises(ValueError, match="LogMel has no mean yet"):
        LogMel(8000)(clips(2, 4000, 8000))
    raw = LogMel(8000, standardise="none")
    assert raw.fit(clips(2, 4000, 8000)) is raw
    assert torch.equal(raw(clips(2, 4000, 8000)), raw.decibels(clips(2, 4000, 8000)))

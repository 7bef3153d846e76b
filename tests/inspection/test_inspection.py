"""Does inspection see what is there? Data with known noise, without telling it which."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

import dcs
from dcs import noise
from dcs.inspection import FAILS, HOLDS, UNKNOWN, inspect
from dcs.inspection._advice import advise
from dcs.inspection._evidence import gather
from dcs.inspection._reading import is_ordered
from dcs.inspection._residuals import Level, NoisyPart, correlation_at, levels, residuals
from dcs.inspection._verdicts import checks, sigma_of, state_of, summarise
from tests.helpers import seeded

DIGITS = torch.tensor(load_digits().images / 16).float()
DRAWS, RIGHT = 20, 18


def smooth_images(seed, n=16, side=40):
    """Slow waves of up to two periods an image, in 0…1; other images for each seed."""
    draw = torch.rand(3, n, 4, 1, 1, generator=seeded(seed))
    u = torch.arange(side) / side
    angle = 4 * (2 * draw[0] - 1) * u[:, None] + 4 * (2 * draw[1] - 1) * u + 2 * draw[2]
    x = torch.cos(math.pi * angle).sum(1)
    low, high = x.amin((1, 2), keepdim=True), x.amax((1, 2), keepdim=True)
    return (x - low) / (high - low)


def strokes(seed, n=100, side=28):
    """Three random lines, some three entries wide and soft at the edges, on an empty ground."""
    ends = 4 + (side - 8) * torch.rand(2, n, 3, 2, 1, 1, generator=seeded(seed))
    along, u = ends[1] - ends[0], torch.arange(side)
    grid = torch.stack([u[:, None].expand(side, side), u.expand(side, side)]).float()
    place = ((grid - ends[0]) * along).sum(2) / along.square().sum(2).clamp(min=1)
    nearest = ends[0] + place.clamp(0, 1)[:, :, None] * along
    distance = (grid - nearest).square().sum(2).sqrt().amin(1)
    return (2.2 - distance).clamp(0, 1)


def some_digits(seed, n=1400):
    return DIGITS[torch.randperm(len(DIGITS), generator=seeded(seed))[:n]]


def student(x, sigma, seed):
    """Noise of Student's t law with 3 degrees of freedom: its fourth moment is infinite."""
    draw = np.random.default_rng(seed).standard_t(3, tuple(x.shape)) / math.sqrt(3)
    return x + sigma * torch.tensor(draw).float()


def noisy(x, kind, sigma, seed):
    if kind == "none":
        return x
    return student(x, sigma, seed) if kind == "student" else noise.add(x, kind, sigma, seed)


# What is wrong with the noise, if anything; all else must not be called wrong.
WRONG = {"gaussian": None, "poisson": "isotropy", "correlated": "independence", "student": "light_tails"}


def is_right(kind, found):
    if kind == "none":
        return found.state == "clean" and found.summary.startswith("Clean: dCS will not help much")
    verdicts = {check.name: check.verdict for check in found.checks}
    if found.state not in ("slight", "noisy"):
        return False
    if kind == "gaussian":
        return set(verdicts.values()) == {HOLDS}
    return [name for name, verdict in verdicts.items() if verdict == FAILS] == [WRONG[kind]]


@pytest.mark.parametrize("kind", ["none", *WRONG])
@pytest.mark.parametrize(
    ("images", "strengths"),
    [(smooth_images, (0.2, 0.3, 0.5)), (some_digits, (0.3, 0.5)), (strokes, (0.3, 0.5))],
    ids=["smooth", "digits", "strokes"],
)
def test_verdicts_are_right_in_18_of_20_draws(images, strengths, kind):
    right, errors = 0, []
    for draw in range(DRAWS):
        sigma = strengths[draw % len(strengths)]
        found = inspect(noisy(images(90_000 + draw), kind, sigma, 95_000 + draw))
        right += is_right(kind, found)
        errors.append(abs(found.sigma.value / sigma - 1))
    assert right >= RIGHT
    if kind == "gaussian":
        assert max(errors) < 0.1


@pytest.mark.parametrize("sigma", [0.1, 0.15])
def test_sigma_of_faint_noise_on_smooth_images(sigma):
    for draw in range(3):
        found = inspect(noise.add(smooth_images(71_000 + draw), "gaussian", sigma, draw))
        assert found.sigma.value == pytest.approx(sigma, rel=0.1)
        assert found.sigma.low <= found.sigma.value <= found.sigma.high
        assert found.sigma.agree


def test_views_follow_the_rule_of_training():
    """They are split if σ is known and no more than 15 % of the windows are too quiet for it."""
    for kind, sigma in (("gaussian", 0.3), ("poisson", 0.5), ("speckle", 0.5), ("student", 0.3)):
        x = noisy(smooth_images(72_000), kind, sigma, 1)
        quiet = noise.quiet_share(x, noise.estimate_sigma(x))
        found = inspect(x)
        assert found.quiet_share == quiet
        assert found.advice.views == ("split" if quiet <= 0.15 else "blind_spot")


def test_advice_for_each_kind():
    gaussian = inspect(noise.add(some_digits(3), "gaussian", 0.3, 1)).advice
    setting = json.loads(gaussian.arguments[1].removeprefix("masking="))
    assert (gaussian.objective, gaussian.arguments[0], setting["kind"]) == ("dcs", "--set", "split")
    assert setting["sigma"] == pytest.approx(0.3, rel=0.1)
    correlated = inspect(noise.add(smooth_images(4), "correlated", 0.3, 1)).advice
    assert (correlated.views, correlated.rho) == ("blind_spot", 0.3)
    assert correlated.window > 1
    clean = inspect(smooth_images(5)).advice
    assert (clean.objective, clean.arguments) == ("mse", ("--objective", "mse"))
    poisson = inspect(noise.add(some_digits(3), "poisson", 0.5, 1)).advice
    assert (poisson.views, poisson.window) == ("blind_spot", 1)
    assert any("n2v" in warning for warning in poisson.warnings)


def test_every_advice_is_accepted_by_training():
    for kind, sigma in (("none", 0), ("gaussian", 0.3), ("poisson", 0.5), ("correlated", 0.3)):
        advice = inspect(noisy(some_digits(6), kind, sigma, 1)).advice
        given = {"objective": advice.objective}
        if advice.views != "none":
            given["masking"] = json.loads(advice.arguments[1].removeprefix("masking="))
        objective = dcs.training.make_objective(dcs.training.read_config(given))
        assert float(objective(lambda x: x, DIGITS[:4], seeded(0))) <= 1


def test_values_that_are_cut_off():
    for images in (smooth_images(7), some_digits(7)):
        x = noise.add(images, "gaussian", 0.3, 1)
        assert inspect(x)["zero_mean"].verdict == HOLDS
        assert inspect(x.clamp(0, 1))["zero_mean"].verdict == FAILS
        as_bytes = (x.clamp(0, 1) * 255).round().to(torch.uint8)
        assert inspect(as_bytes)["zero_mean"].verdict == FAILS


def test_noise_that_differs_between_samples():
    x = smooth_images(8, n=60)
    mixed = torch.cat([noise.add(x[:30], "gaussian", 0.5, 1), noise.add(x[30:], "gaussian", 0.05, 1)])
    check = inspect(mixed)["isotropy"]
    assert check.verdict == FAILS
    assert "some samples are much noisier" in check.because


def waves(n=300, length=100):
    """Slow sines of random frequency and phase."""
    t, draw = torch.linspace(0, 1, length), torch.rand(2, n, 1, generator=seeded(n))
    return torch.sin(2 * math.pi * ((1 + 3 * draw[0]) * t + draw[1]))


def some_samples(x, share, sigma):
    """The deviation of the noise where only the first samples have any."""
    return sigma * (torch.arange(len(x)) < share * len(x)).reshape(-1, *[1] * (x.ndim - 1))


def middle_quarter(x, sigma):
    inside = (torch.arange(x.shape[-1]) - x.shape[-1] / 2).abs() < x.shape[-1] / 4
    return sigma * (inside[:, None] & inside).expand(x.shape)


PARTLY_NOISY = {
    "two in five signals": (waves, lambda x: some_samples(x, 0.4, 0.5)),
    "one in ten signals": (lambda: waves(500), lambda x: some_samples(x, 0.1, 0.5)),
    "one in ten pictures": (lambda: smooth_images(8, n=60), lambda x: some_samples(x, 0.1, 0.3)),
    "a quarter of each picture": (lambda: smooth_images(8, n=60), lambda x: middle_quarter(x, 0.2)),
    "one in five drawings": (lambda: strokes(8, n=200), lambda x: some_samples(x, 0.2, 0.4)),
}


@pytest.mark.parametrize("faint", [0, 0.02])
@pytest.mark.parametrize("kind", PARTLY_NOISY)
def test_noise_in_a_part_of_the_data_only(kind, faint):
    images, strength = PARTLY_NOISY[kind]
    at = strength(images()).float().clamp(min=faint)
    found = inspect(at_positions(images(), at, 1))
    assert found.state in ("slight", "noisy")
    assert found.summary.startswith("Partly noisy")
    assert (found.advice.objective, found.advice.views) == ("dcs", "blind_spot")
    assert found["isotropy"].verdict == FAILS
    assert ("of each sample" if "each" in kind else "some samples are much") in found["isotropy"].because
    assert [check.name for check in found.checks if check.verdict == FAILS] == ["isotropy"]
    rms = float(at.expand(images().shape).square().mean().sqrt())
    assert found.sigma.value == pytest.approx(rms, rel=0.2)
    assert found.sigma.high >= 0.95 * float(at.max())


def test_what_may_be_noise_or_detail_is_not_called_clean():
    evidence = gather(smooth_images(3), 2)
    at = Level(0.5, 0.1, 0.0, torch.arange(2000))
    perhaps = replace(evidence, part=NoisyPart(0.2, at, (0.4, 0.2, 0.1), True, False, False))
    state, ratio = state_of(perhaps)
    assert (state_of(evidence)[0], state) == ("clean", "unknown")
    assert summarise(state, ratio, perhaps).startswith("Cannot tell: flat regions are clean, but about 20%")
    assert sigma_of(perhaps, state).low == 0
    advice = advise(perhaps, state, checks(perhaps, state), sigma_of(perhaps, state), 1600, None)
    assert advice.objective == "dcs"
    assert "mse" in advice.warnings[0]


def test_detail_is_no_noisier_part():
    for x in (strokes(5), strokes(6, n=300), smooth_images(5), noise.add(strokes(5), "gaussian", 0.3, 1)):
        assert gather(x, 2).part is None


def test_an_offset_hides_no_noise():
    x = (5 * waves(500)).double()
    x = x + 3 * torch.randn(x.shape, generator=seeded(1), dtype=x.dtype)
    plain, moved = inspect(x), inspect(x + 293)
    assert {check.verdict for check in moved.checks} == {HOLDS}
    assert moved.sigma.value == pytest.approx(3, rel=0.1)
    assert (moved.state, moved.snr) == ("noisy", pytest.approx(plain.snr, rel=1e-3))
    assert (plain.offset, moved.offset) == (None, pytest.approx(293, abs=1))
    assert moved.summary.endswith("subtract the mean first.")
    assert "x - x.mean()" in moved.notes[-1]
    assert moved.k.quantiles["5"] > 0.99  # as the note says
    assert plain.notes == ()


def test_hardly_any_signal():
    found = inspect(torch.randn(100, 32, 32, generator=seeded(0)))
    assert found.summary.startswith("Nearly all noise: there is hardly any signal")


def test_dead_pixels_on_an_empty_ground():
    found = inspect(noise.add(strokes(7, n=300), "salt_and_pepper", 0.1, 1))
    assert found["light_tails"].verdict == FAILS
    assert "dead pixels" in found["light_tails"].meaning
    assert "photon" not in found["isotropy"].meaning


def test_photon_counts_are_spoken_of_where_noise_grows_with_brightness():
    assert "photon" in inspect(noise.add(smooth_images(7), "poisson", 0.3, 1))["isotropy"].meaning
    assert "photon" not in inspect(at_positions(smooth_images(7), across(40), 1))["isotropy"].meaning


def test_intervals_where_little_is_known():
    one = inspect(noise.add(smooth_images(9, n=1, side=200), "gaussian", 0.2, 1)).sigma
    assert one.agree
    assert 0.9 * one.value < one.low < one.high < 1.1 * one.value
    x = torch.rand(40, 2, 2, generator=seeded(0))
    few = inspect(x)
    assert (few.state, few.sigma.low) == ("unknown", 0)
    assert few.sigma.high >= float(x.std())


def test_where_neighbours_share_noise_sigma_is_a_lower_bound():
    found = inspect(noise.add(smooth_images(4), "correlated", 0.3, 1))
    assert found.sigma.at_least
    assert "at most about" in found.summary
    assert not inspect(noise.add(smooth_images(4), "gaussian", 0.3, 1)).sigma.at_least


def test_words_on_estimates_fit_the_numbers():
    hiss = dcs.data.Split(0.1 * torch.randn(12, 16_000, generator=seeded(1)))
    spectrograms = dcs.data.LogMel(16_000).apply(dcs.data.Dataset("x", hiss, rate=16_000))[0]
    found = inspect(spectrograms, domain="spectrogram")
    sigma = found.sigma
    if sigma.chen2015.value < min(sigma.mad.value, sigma.calm.value):
        assert "raise chen2015" not in sigma.why
    assert "brightness" not in sigma.why
    assert "photon" not in found["isotropy"].meaning


def at_positions(images, strength, seed):
    """Noise of a deviation of its own at each position."""
    return images + strength * torch.randn(images.shape, generator=seeded(seed))


def across(side):
    return torch.linspace(0.06, 0.6, side).expand(side, side)


def vignette(side):
    u = torch.linspace(-1, 1, side).square()
    return 0.1 + 0.3 * (u[:, None] + u)


@pytest.mark.parametrize("strength", [across, vignette])
@pytest.mark.parametrize("images", [smooth_images, strokes])
def test_noise_that_differs_by_position(images, strength):
    for draw in range(5):
        x = images(81_000 + draw)
        at = strength(x.shape[-1])
        found = inspect(at_positions(x, at, draw))
        assert found.state == "noisy"
        assert found["isotropy"].verdict != HOLDS
        assert found.sigma.value == pytest.approx(float(at.square().mean().sqrt()), rel=0.3)
        assert found.sigma.low <= float(at.square().mean().sqrt()) <= found.sigma.high


def test_verdict_and_advice_do_not_contradict_each_other():
    x = smooth_images(82_000)
    many = [noisy(x, kind, sigma, 2) for kind in ("gaussian", "poisson", "student") for sigma in (0.1, 0.4)]
    many += [at_positions(x, across(40), 1), at_positions(x, vignette(40), 1)]
    for one in many:
        found = inspect(one)
        if found["isotropy"].verdict == HOLDS:
            assert found.quiet_share <= 0.15
        said = "noise is not equally strong everywhere, and" in found.advice.why
        assert not said or found["isotropy"].verdict == FAILS


def test_one_clean_image_among_few_noisy_ones():
    x = noise.add(smooth_images(8, n=5), "gaussian", 0.3, 1)
    x[0] = smooth_images(9, n=1)[0]
    found = inspect(x)
    assert (found.state, found["isotropy"].verdict) == ("noisy", FAILS)
    assert "any noise" not in found.summary


def test_clean_data_is_called_clean_only_in_flat_regions():
    for x in (noise.add(strokes(3), "poisson", 0.1, 1), smooth_images(3), smooth_images(3) + stripes(3)):
        found = inspect(x)
        assert "any noise" not in found.summary
        assert "in flat regions" in found.summary
        assert "elsewhere, faint noise cannot be distinguished" in found.summary
        estimates = [one.value for one in (found.sigma.chen2015, found.sigma.mad, found.sigma.calm)]
        assert found.sigma.low <= min(estimates) <= max(estimates) <= found.sigma.high


def stripes(seed):
    return 0.2 * torch.randn(16, 40, 1, generator=seeded(seed))


def test_samples_of_two_strengths():
    x = smooth_images(8, n=60)
    found = inspect(at_positions(x, torch.where(torch.arange(60) < 18, 0.1, 0.3)[:, None, None], 1))
    rms = math.sqrt(0.3 * 0.1**2 + 0.7 * 0.3**2)
    assert found.sigma.value == pytest.approx(rms, rel=0.1)
    assert found.snr == pytest.approx(found.signal / found.sigma.value, rel=0.01)
    assert "it differs by sample" in found.sigma.why


@pytest.mark.parametrize("images", [smooth_images, some_digits, strokes])
def test_intervals_hold_the_truth_in_9_of_10_draws(images):
    inside = 0
    for draw in range(10):
        sigma = (0.15, 0.3)[draw % 2] if images is smooth_images else 0.3
        found = inspect(noise.add(images(83_000 + draw), "gaussian", sigma, draw)).sigma
        inside += found.low <= sigma <= found.high
    assert inside >= 9


def test_words_about_shared_noise_fit_the_numbers():
    draw = torch.rand(12, 1, generator=seeded(1))
    tones = 0.5 * torch.sin(2 * math.pi * (200 + 1000 * draw) * torch.arange(16_000) / 16_000)
    data = dcs.data.Dataset("x", dcs.data.Split(noise.add(tones, "gaussian", 0.1, 1)), rate=16_000)
    spectrograms = inspect(dcs.data.LogMel(16_000).apply(data)[0], domain="spectrogram")
    flat = inspect(noise.add(smooth_images(4, n=300, side=24), "gaussian", 0.2, 1).flatten(1))
    shared = inspect(noise.add(smooth_images(4), "correlated", 0.3, 1))
    for found in (spectrograms, flat, shared):
        if "stronger than they say" in found.sigma.why:
            assert found.sigma.value >= max(found.sigma.chen2015.value, found.sigma.mad.value)
        if "Neighbours share noise" in found.advice.why:
            assert found.advice.window > 1
        if found.summary.startswith("Noisy"):
            assert found.snr <= 4
    assert flat["independence"].verdict != FAILS
    assert shared["independence"].verdict == FAILS


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_values_without_room_for_their_squares(scale):
    advice = inspect(scale * noise.add(smooth_images(5).double(), "gaussian", 0.3, 1)).advice
    assert not advice.ready
    assert advice.why.startswith("Rescale your data")


def test_there_is_nothing_to_train_on():
    found = inspect(torch.ones(50, 20, 20))
    assert (found.advice.ready, found.sigma.value) == (False, None)
    assert "nothing to learn" in found.advice.why
    assert inspect(torch.randn(100, 1, 1, generator=seeded(0))).advice.objective == "dae"


def test_it_says_why_fewer_are_looked_at_than_were_asked_for():
    found = inspect(torch.randn(80, 300, 300, generator=seeded(0)), samples=70)
    assert found.inspected == 64
    assert "64 samples of this size" in found.notes[0]


def test_too_little_data_is_not_judged():
    few = inspect(torch.randn(5, 8, 8, generator=seeded(0)))
    assert few.state == "unknown"
    assert few.summary.startswith("Cannot tell")
    assert {check.verdict for check in few.checks} == {UNKNOWN}
    alike = inspect(torch.zeros(50, 20, 20))
    assert "all values are equal" in alike.summary
    assert inspect(torch.randn(100, 2, 3, generator=seeded(0))).state == "unknown"
    assert inspect(torch.randn(1, 2, generator=seeded(0))).state == "unknown"


def test_columns_without_an_order():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(400, 6)) @ rng.normal(size=(6, 40))
    found = inspect(table)
    assert not found.ordered
    assert (found.state, found.advice.objective, found.c) == ("unknown", "dae", None)
    t = np.linspace(0, 1, 40)
    series = np.sin(2 * np.pi * (rng.uniform(0.5, 2, (400, 1)) * t + rng.uniform(size=(400, 1))))
    assert is_ordered(torch.tensor(series))
    assert is_ordered(torch.tensor(series + rng.normal(0, 0.7, series.shape)))
    assert not is_ordered(torch.tensor(series[:, rng.permutation(40)]))


def test_signals():
    t = torch.linspace(0, 1, 400)
    draw = torch.rand(2, 100, 1, generator=seeded(9))
    clean = torch.sin(2 * math.pi * (3 * draw[0] * t + draw[1]))
    found = inspect(noise.add(clean, "gaussian", 0.3, 1), domain="waveform")
    assert found.sigma.value == pytest.approx(0.3, rel=0.1)
    assert {check.verdict for check in found.checks} == {HOLDS}
    assert (found.advice.views, found.advice.window) == ("amplitude", 2)
    assert found.advice.arguments == ("--domain", "waveform")
    assert inspect(clean, domain="waveform").state == "clean"
    correlated = inspect(noise.add(clean, "correlated", 0.5, 1, length=1.5), domain="waveform")
    assert correlated["independence"].verdict == FAILS


@pytest.mark.parametrize("length", [0.6, 1.0, 2.0])
def test_noise_shared_by_neighbours_of_any_reach(length):
    x = noise.add(smooth_images(10), "correlated", 0.4, 1, length=length)
    assert inspect(x)["independence"].verdict == FAILS


def test_recordings_are_inspected_as_the_spectrograms_of_training():
    x = 0.3 * torch.randn(12, 4000, generator=seeded(3)) + torch.sin(0.2 * torch.arange(4000.0))
    recordings = dcs.data.Dataset("sounds", dcs.data.Split(x), rate=8000)
    seen = dcs.data.LogMel(8000).apply(recordings)[0]
    found, expected = (inspect(one, domain="spectrogram") for one in (recordings, seen))
    assert found.to_json() == expected.to_json()
    assert (found.samples, found.shape) == (12, seen.shape)
    assert inspect(recordings, domain="spectrogram", samples=5).inspected == 5


def test_colours_and_large_images():
    colour = smooth_images(11, n=30, side=40).reshape(10, 3, 40, 40)
    found = inspect(noise.add(colour, "gaussian", 0.2, 1))
    assert found.sigma.value == pytest.approx(0.2, rel=0.1)
    large = inspect(noise.add(smooth_images(12, n=2, side=300), "gaussian", 0.2, 1))
    assert large.sigma.value == pytest.approx(0.2, rel=0.1)
    assert large.examples[0].shape[1:] == (60, 60)  # a tile of 64 without its rim
    wide = inspect(noise.add(smooth_images(12, n=1, side=1100), "gaussian", 0.2, 1)[:, :1050])
    assert "Only the centre of each sample is inspected: 1024 x 1024" in wide.notes[0]


def test_as_many_samples_as_are_asked_for():
    found = inspect(noise.add(DIGITS, "gaussian", 0.3, 1), samples=900)
    assert (found.samples, found.inspected) == (1797, 900)
    assert found.sigma.value == pytest.approx(0.3, rel=0.1)


def test_data_on_disk_is_read_in_part(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, noise.add(smooth_images(13, n=3, side=32), "gaussian", 0.3, 1).repeat(200, 1, 1).numpy())
    samples = dcs.data.load(path, resident=False).train.x
    read, rows = samples.read, []
    samples.read = lambda indices: rows.extend(indices) or read(indices)
    found = inspect(samples, samples=100)
    assert (found.samples, found.inspected) == (600, 100)
    assert rows == [6 * number for number in range(100)]


def test_padding_is_not_looked_at():
    t = torch.linspace(0, 1, 300)
    x = noise.add(torch.sin(6 * t + torch.rand(40, 1, generator=seeded(1))), "gaussian", 0.3, 1)
    lengths = torch.where(torch.arange(40) < 10, 100, 250)
    x[dcs.data.valid_entries(lengths, (300,)).logical_not()] = 0
    found = inspect(dcs.data.Split(x, lengths=lengths), domain="waveform")
    assert found.inspected == 30
    assert "length 250 or more" in found.notes[0]
    assert found.sigma.value == pytest.approx(0.3, rel=0.1)
    assert found["zero_mean"].verdict == HOLDS


def test_it_is_deterministic_and_plain_json():
    x = noise.add(some_digits(14), "gaussian", 0.3, 1)
    first, again = inspect(x), inspect(x.numpy())
    assert first.to_json() == again.to_json()
    told = json.loads(first.to_json())
    assert "examples" not in told
    assert told["sigma"]["chen2015"]["value"] == noise.estimate_sigma(x)
    assert told["sigma"]["mad"]["value"] == noise.estimate_sigma(x, "mad")
    assert [check["name"] for check in told["checks"]] == [check.name for check in first.checks]
    assert sum(told["k"]["counts"]) == sum(told["c"]["counts"]) + told["c"]["infinite"] == 1400
    assert json.loads(inspect(torch.zeros(50, 20, 20)).to_json())["state"] == "unknown"


def test_c_and_k_are_those_of_training():
    x = noise.add(some_digits(15), "gaussian", 0.5, 1)
    found = inspect(x, seed=3)
    objective = dcs.objectives.DenoisingCosine(noise.GaussianSplit(found.sigma.value))
    c, k, _ = objective.weights(x, seeded(3))
    for values, spread in ((c, found.c), (k, found.k)):
        for share, quantile in spread.quantiles.items():
            assert quantile == pytest.approx(np.percentile(values.numpy(), float(share)), rel=1e-5)
    assert found.dim == 64


def test_residuals_are_those_of_least_squares():
    """Against NumPy's least squares, window by window."""
    x = noise.add(smooth_images(16, n=4, side=30), "gaussian", 0.1, 1)
    near, far, by_position = residuals(x[:, None])
    assert not by_position
    for found, reach, inner in ((near, 2, 1), (far, 3, 3)):
        rows = []
        for image in x.double().numpy():
            for i in range(reach, 30 - reach):
                for j in range(reach, 30 - reach):
                    window = image[i - reach : i + reach + 1, j - reach : j + reach + 1]
                    rows.append((window, image[i, j]))
        away = np.abs(np.arange(-reach, reach + 1))
        others = np.maximum(away[:, None], away) >= inner
        a = np.array([[*window[others], 1.0] for window, _ in rows])
        y = np.array([centre for _, centre in rows])
        left = y - a @ np.linalg.lstsq(a, y, rcond=None)[0]
        np.testing.assert_allclose(found.value.reshape(-1).numpy(), left, atol=1e-4)
        np.testing.assert_allclose(found.activity.reshape(-1).numpy(), a[:, :-1].var(1, ddof=1), atol=1e-9)


def test_residuals_by_position_are_those_of_least_squares():
    x = noise.add(some_digits(17, n=700), "gaussian", 0.3, 1)
    near, far, by_position = residuals(x[:, None])
    assert by_position
    rows = x.reshape(700, 64).double().numpy()
    for position in (0, 27, 63):
        others = np.delete(rows, position, axis=1)
        a = np.column_stack([others, np.ones(700)])
        left = rows[:, position] - a @ np.linalg.lstsq(a, rows[:, position], rcond=None)[0]
        scaled = near.value.reshape(700, 64)[:, position].numpy() * math.sqrt((700 - 64) / 700)
        np.testing.assert_allclose(scaled, left, atol=1e-4)
        alone = rows[:, position] - rows[:, position].mean()
        np.testing.assert_allclose(far.value.reshape(700, 64)[:, position].numpy(), alone, atol=1e-9)


@settings(max_examples=10, derandomize=True, database=None)
@given(st.floats(0.01, 100), st.floats(-50, 50), st.integers(0, 99))
def test_units_and_offsets_do_not_matter(scale, offset, seed):
    """All that is told of white noise alone scales with the data."""
    x = noise.add(smooth_images(seed, n=6, side=32), "gaussian", 0.3, seed).double()
    plain, moved = (levels(residuals(values[:, None])[0]) for values in (x, scale * x + offset))
    assert len(plain) == len(moved)
    for one, other in zip(plain, moved, strict=True):
        assert other.deviation == pytest.approx(scale * one.deviation, rel=1e-2)


def test_likeness_is_a_correlation():
    x = torch.randn(40, 30, 30, generator=seeded(0))
    x = x + 0.7 * x.roll(1, 2)  # neighbours along the last axis have a correlation of 0.7/1.49
    _, far, _ = residuals(x[:, None])
    everywhere = torch.arange(far.value.numel())
    assert correlation_at(far, everywhere, 1) == pytest.approx(0.7 / 1.49 / 2, abs=0.02)
    assert correlation_at(far, everywhere, 2) == pytest.approx(0, abs=0.02)


def test_wrong_arguments_are_named():
    x = DIGITS[:100]
    for changed, word in (
        ({"samples": 0}, "samples"),
        ({"samples": 1.5}, "samples"),
        ({"seed": -1}, "seed"),
        ({"domain": "image"}, "domain"),
        ({"x": X_NAN}, "NaN"),
        ({"x": None}, "must be"),
        ({"x": torch.ones(5, 30), "domain": "spectrogram"}, "spectrograms"),
        ({"x": "nowhere.npy"}, "nowhere.npy"),
    ):
        with pytest.raises((ValueError, TypeError, FileNotFoundError), match=word):
            inspect(**{"x": x, **changed})
    with pytest.raises(KeyError, match="none of zero_mean"):
        inspect(x)["symmetry"]


X_NAN = np.full((20, 8, 8), np.nan)

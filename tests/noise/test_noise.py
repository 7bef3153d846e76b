"""Noise laws, makers of noisy data and estimators of the noise level."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from skimage.restoration import estimate_sigma as skimage_sigma
from sklearn.datasets import load_digits, load_sample_image

from dcs import noise
from dcs.noise.corruption import KINDS
from tests.helpers import seeded


def smooth_images(n=20, side=64):
    """Slow waves of a few random frequencies, in 0…1."""
    y, x = torch.meshgrid(torch.linspace(0, 1, side), torch.linspace(0, 1, side), indexing="ij")
    a = torch.rand(n, 4, 1, 1, generator=seeded(5)) * 6
    return 0.5 + 0.25 * torch.sin(a[:, 0] * x + a[:, 1]) + 0.25 * torch.cos(a[:, 2] * y + a[:, 3])


LAWS = [
    noise.Gaussian(),
    noise.Sphere(),
    noise.GaussianScaleMixture([0.3, 1.0, 2.0], [0.5, 0.3, 0.2]),
    noise.Radial(lambda dim, g: (dim * (0.5 + torch.rand(dim.shape, dtype=dim.dtype, generator=g))).sqrt()),
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_laws_are_isotropic_with_unit_variance(law):
    e = law.sample((40_000, 2, 3), seeded(), dtype=torch.float64).flatten(1)
    n = len(e)
    square = e.square()
    error = 5 * square.std(0) / math.sqrt(n)
    assert bool(((square.mean(0) - 1).abs() < error).all())
    assert bool((e.mean(0).abs() < 5 / math.sqrt(n)).all())
    off_diagonal = (e.T @ e / n) - torch.diag(square.mean(0))
    assert float(off_diagonal.abs().max()) < 5 * float(e[:, 0].mul(e[:, 1]).std()) / math.sqrt(n)
    angle = torch.atan2(e[:, 0], e[:, 1]).numpy()
    assert stats.kstest(angle, "uniform", args=(-math.pi, 2 * math.pi)).pvalue > 1e-4


def test_gaussian_law_is_gaussian():
    e = noise.Gaussian().sample((20_000, 3), seeded(), dtype=torch.float64)
    assert stats.kstest(e.flatten().numpy(), "norm").pvalue > 1e-4


def test_mixture_has_its_scales():
    law = noise.GaussianScaleMixture([1.0, 3.0], [3.0, 1.0])
    assert sum(p * s**2 for s, p in zip(law.scales, law.probabilities, strict=True)) == pytest.approx(1)
    assert law.scales[1] / law.scales[0] == pytest.approx(3)
    length = law.sample((20_000, 400), seeded()).norm(dim=1) / 20
    assert float((length > 1).float().mean()) == pytest.approx(0.25, abs=5 * math.sqrt(0.19 / 20_000))


@pytest.mark.parametrize("kind", [*KINDS, noise.Sphere()], ids=str)
def test_add_is_reproducible_and_keeps_its_input(kind):
    x = torch.rand(50, 12, 12, generator=seeded())
    before = x.clone()
    first, again, other = (noise.add(x, kind, 0.3, seed) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(x, before)
    array = noise.add(x.numpy(), kind, 0.3, 1)
    assert isinstance(array, np.ndarray)
    assert np.array_equal(array, first.numpy())
    assert torch.equal(noise.add(x, kind, 0.0), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_add_keeps_precision(dtype):
    for kind in KINDS:
        assert noise.add(torch.rand(4, 9, 9).to(dtype), kind, 0.3).dtype == dtype


def test_add_moments():
    x = torch.full((400, 32, 32), 0.7, dtype=torch.float64)
    count = x.numel()
    expected = {
        "gaussian": 0.3**2,
        "poisson": 0.3**2 * 0.7,
        "speckle": (0.3 * 0.7) ** 2,
        "correlated": 0.3**2,
    }
    for kind, variance in expected.items():
        difference = noise.add(x, kind, 0.3) - x
        independent = count if kind != "correlated" else count / (4 * math.pi * 2**2)
        assert float(difference.mean()) == pytest.approx(0, abs=5 * math.sqrt(variance / independent))
        assert float(difference.var()) == pytest.approx(variance, rel=8 / math.sqrt(independent))
    salted = noise.add(x, "salt_and_pepper", 0.3)
    for value in (0.0, 1.0):
        assert float((salted == value).double().mean()) == pytest.approx(
            0.15, abs=5 * math.sqrt(0.13 / count)
        )


def test_correlated_noise_is_correlated_and_white_noise_is_not():
    x = torch.zeros(200, 32, 32)
    for kind, expected in (("gaussian", 0.0), ("correlated", math.exp(-1 / 16))):
        e = noise.add(x, kind, 1.0)
        assert float((e[:, :, 1:] * e[:, :, :-1]).mean()) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("sigma", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("method", ["chen2015", "mad"])
def test_sigma_within_five_percent_on_smooth_images(sigma, method):
    x = noise.add(smooth_images(), "gaussian", sigma, seed=3)
    assert noise.estimate_sigma(x, method) == pytest.approx(sigma, rel=0.05)
    each = noise.estimate_sigma(x, method, per_image=True)
    assert each.shape == (20,)
    assert float(each.mean()) == pytest.approx(sigma, rel=0.05)
    single = noise.estimate_sigma(x[:1], method, per_image=True)
    assert float(single) == pytest.approx(float(each[0]), rel=1e-9)


def test_sigma_of_signals_colours_and_arrays():
    t = torch.linspace(0, 20, 4000)
    signals = torch.stack([torch.sin(t * f) for f in (1.0, 2.0, 3.0)])
    noisy = noise.add(signals, "gaussian", 0.2)
    colours = noise.add(smooth_images(30).reshape(10, 3, 64, 64), "gaussian", 0.2)
    for method in ("chen2015", "mad"):
        assert noise.estimate_sigma(noisy, method) == pytest.approx(0.2, rel=0.05)
        assert noise.estimate_sigma(colours, method) == pytest.approx(0.2, rel=0.05)
        assert noise.estimate_sigma(colours.numpy(), method) == noise.estimate_sigma(colours, method)


def photographs():
    """Windows of two photographs, (n, 64, 64), grey, in 0 ... 1."""
    grey = [torch.tensor(load_sample_image(name).mean(2) / 255) for name in ("china.jpg", "flower.jpg")]
    windows = [one.unfold(0, 64, 64).unfold(1, 64, 64).flatten(0, 1) for one in grey]
    return torch.cat(windows).float()


@pytest.mark.parametrize("sigma", [0.01, 0.03, 0.1, 0.3, 1.0])
def test_texture_does_not_raise_the_level_of_flat_blocks(sigma):
    x = noise.add(photographs(), "gaussian", sigma, seed=1)
    assert noise.estimate_sigma(x, "flat") == pytest.approx(sigma, rel=0.05)
    assert noise.estimate_sigma(x, "auto") == noise.estimate_sigma(x, "flat")
    assert noise.estimate_sigma(x[:, None].numpy(), "flat") == noise.estimate_sigma(x, "flat")
    if sigma <= 0.03:
        assert noise.estimate_sigma(x, "chen2015") > 1.5 * sigma


def test_the_choice_of_flat_blocks_does_not_bias_the_level():
    """Among blocks of pure noise the flattest are chosen by chance, and their details are as strong."""
    x = torch.randn(400, 64, 64, generator=torch.Generator().manual_seed(3))
    assert noise.estimate_sigma(x, "flat") == pytest.approx(1, rel=0.02)
    assert noise.sigma_by_brightness(x).numpy() == pytest.approx(1, rel=0.03)


@pytest.mark.parametrize("sigma", [0.04, 0.1])
@pytest.mark.parametrize("steps", [255, None])
def test_clipped_values_do_not_lower_the_level(sigma, steps):
    dark = photographs().square()  # so that many values are near 0
    x = noise.add(dark, "gaussian", sigma, clip=True)
    x = x if steps is None else (x * steps).round() / steps
    assert float((x == 0).float().mean()) > 0.02
    levels = noise.sigma_by_brightness(x)
    assert levels.max() < 1.25 * levels.min()
    assert noise.estimate_sigma(x, "flat") == pytest.approx(sigma, rel=0.1)


def test_counts_without_photons_are_not_clipped_values():
    """Zeros of photon counts must not be left out: the noise is weaker there because the signal is."""
    for count in (2, 10, 50):
        x = torch.poisson(photographs() * count, generator=seeded()) / count
        levels = noise.sigma_by_brightness(x)
        assert levels.max() > 2 * levels.min()


def test_flat_blocks_by_a_plain_loop():
    x = noise.add(photographs()[:9], "gaussian", 0.1).double()
    blocks = [
        one[top : top + 16, left : left + 16].numpy()
        for one in x
        for top in range(0, 64, 16)
        for left in range(0, 64, 16)
    ]
    cells = [[b[i : i + 4, j : j + 4] for i in range(0, 16, 4) for j in range(0, 16, 4)] for b in blocks]
    order = np.argsort([np.var([cell.mean() for cell in block], ddof=1) for block in cells])
    left = np.stack([(cell - cell.mean()).ravel() for row in order[:16] for cell in cells[row]])
    eigenvalues = np.linalg.eigvalsh(np.cov(left.T, bias=True))[1:]
    for kept in range(15, 0, -1):
        mean = eigenvalues[:kept].mean()
        if (eigenvalues[:kept] > mean).sum() == (eigenvalues[:kept] < mean).sum():
            break
    assert noise.estimate_sigma(x, "flat") == pytest.approx(math.sqrt(mean), rel=1e-6)


@pytest.mark.parametrize(
    ("kind", "level", "even"),
    [("gaussian", 0.1, True), (noise.Sphere(), 0.1, True), ("poisson", 0.2, False), ("speckle", 0.3, False)],
)
def test_noise_that_depends_on_the_signal_differs_by_brightness(kind, level, even):
    dark, medium, bright = noise.sigma_by_brightness(noise.add(photographs(), kind, level)).tolist()
    if even:
        assert max(dark, medium, bright) < 1.1 * min(dark, medium, bright)
    else:
        assert bright > 2 * dark


def test_flat_blocks_need_pictures():
    x = torch.randn(9, 15, 40, generator=torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match="at least 16 x 16"):
        noise.estimate_sigma(x, "flat")
    with pytest.raises(ValueError, match="at least 16 x 16"):
        noise.sigma_by_brightness(x)
    with pytest.raises(ValueError, match="per_image=False"):
        noise.estimate_sigma(torch.zeros(9, 64, 64), "flat", per_image=True)


@pytest.mark.parametrize("offset", [0, 1e5, 1e8])
def test_an_offset_does_not_change_the_level(offset):
    x = offset + torch.randn(20, 32, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert noise.estimate_sigma(x) == pytest.approx(1, rel=0.03)


def test_chen_against_a_plain_loop():
    """The reference algorithm, patch by patch and eigenvalue by eigenvalue."""
    x = noise.add(smooth_images(12, 20), "gaussian", 0.2).double().numpy()
    patches = [
        image[i : i + 5, j : j + 5].ravel() for image in x for i in range(0, 16, 3) for j in range(0, 16, 3)
    ]
    eigenvalues = sorted(np.linalg.eigvalsh(np.cov(np.array(patches).T, bias=True)))
    for n in range(len(eigenvalues), 0, -1):
        mean = sum(eigenvalues[:n]) / n
        if sum(v > mean for v in eigenvalues[:n]) == sum(v < mean for v in eigenvalues[:n]):
            break
    assert noise.estimate_sigma(torch.from_numpy(x), patch=5, stride=3) == pytest.approx(
        math.sqrt(mean), rel=1e-9
    )


def test_mad_against_scikit_image():
    x = noise.add(smooth_images(4, 128), "gaussian", 0.3)
    ours = noise.estimate_sigma(x, "mad", per_image=True)
    theirs = [skimage_sigma(image.numpy()) for image in x]
    assert ours.tolist() == pytest.approx(theirs, rel=0.03)


def test_texture_passes_for_noise():
    """Strokes one pixel wide fill all directions of a small patch; whole digits leave some empty."""
    clean = torch.tensor(load_digits().images / 16, dtype=torch.float32)
    bias = {}
    for sigma in (0.0, 0.1, 0.5):
        x = noise.add(clean, "gaussian", sigma)
        assert noise.estimate_sigma(x) == pytest.approx(sigma, rel=0.05, abs=0.005)
        for name, estimate in {
            "chen2015": noise.estimate_sigma(x, patch=5, stride=1),
            "mad": noise.estimate_sigma(x, "mad"),
        }.items():
            bias[name, sigma] = estimate - sigma
    for name in ("chen2015", "mad"):
        assert bias[name, 0.0] > bias[name, 0.1] > bias[name, 0.5] > 0
        assert bias[name, 0.0] > 0.1


@pytest.mark.parametrize("sigma", [0.1, 0.5])
def test_tables_need_no_order(sigma):
    """Three factors make all columns; windows of columns would take what they do not share for noise."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(600, 3, generator=generator) @ torch.randn(3, 16, generator=generator)
    x = x + sigma * torch.randn(x.shape, generator=generator)
    estimate = noise.estimate_sigma(x)
    assert estimate == pytest.approx(sigma, rel=0.05)
    assert noise.estimate_sigma(x[:, torch.randperm(16, generator=generator)]) == pytest.approx(estimate)
    assert noise.estimate_sigma(x, patch=8) > 1


def test_a_table_of_one_column_is_too_little():
    with pytest.raises(ValueError, match="too few patches"):
        noise.estimate_sigma(torch.randn(50, 1, generator=torch.Generator().manual_seed(0)))


def test_signals_keep_their_windows():
    """As few rows as entries do not matter where neighbours are alike."""
    generator = torch.Generator().manual_seed(0)
    phase, pitch = torch.rand(2, 1000, 1, generator=generator)
    x = torch.sin(6 * phase + 18 * pitch * torch.linspace(0, 1, 64))
    x = x + 0.3 * torch.randn(x.shape, generator=generator)
    assert noise.estimate_sigma(x) == noise.estimate_sigma(x, patch=8) == pytest.approx(0.3, rel=0.02)


def test_quiet_share_counts_the_windows_that_vary_too_little():
    x = noise.add(smooth_images(3, 16), "gaussian", 0.2).double()
    for some, side in ((x, 3), (x[:, :2].reshape(3, 2, 16), 5)):
        inside = 2 if some is x else 1
        blocks = np.lib.stride_tricks.sliding_window_view(
            some.numpy(), (side,) * inside, axis=tuple(range(-inside, 0))
        )
        variances = [np.var(block, ddof=1) for block in blocks.reshape(-1, side**inside)]
        most = 0.2**2 * stats.chi2.ppf(0.05, side**inside - 1) / (side**inside - 1)
        assert noise.quiet_share(some, 0.2) == pytest.approx(np.mean([v < most for v in variances]))
    assert math.isnan(noise.quiet_share(x[:, :2, :4], 0.2))  # too small to tell


@pytest.mark.parametrize(
    ("kind", "level", "quiet"),
    [("gaussian", 0.3, False), (noise.Sphere(), 0.3, False), ("poisson", 0.3, True), ("speckle", 0.3, True)],
)
def test_noise_that_is_not_the_same_everywhere_leaves_quiet_windows(kind, level, quiet):
    strokes = (smooth_images(40, 32) - 0.5).clamp(min=0)
    x = noise.add(strokes, kind, level)
    assert (noise.quiet_share(x, noise.estimate_sigma(x)) > 0.15) == quiet


def test_chunks_do_not_change_the_estimate(monkeypatch):
    x = noise.add(smooth_images(), "gaussian", 0.3)
    whole = [noise.estimate_sigma(x), noise.estimate_sigma(x, per_image=True)]
    quiet = noise.quiet_share(x, 0.3)
    monkeypatch.setattr(noise.level, "_CHUNK", 1)
    assert noise.quiet_share(x, 0.3) == quiet
    assert noise.estimate_sigma(x) == pytest.approx(whole[0], rel=1e-12)
    assert torch.allclose(noise.estimate_sigma(x, per_image=True), whole[1], rtol=1e-12)


def test_any_layout_of_a_numpy_array_is_read():
    x = np.random.default_rng(0).random((6, 16, 16))
    read_only = x.copy()
    read_only.flags.writeable = False
    for other in (read_only, x.astype(">f8"), np.asfortranarray(x), np.repeat(x, 2, axis=0)[::2]):
        assert np.array_equal(noise.add(other, "gaussian", 0.3), noise.add(x, "gaussian", 0.3))
        assert noise.estimate_sigma(other, patch=4) == noise.estimate_sigma(x, patch=4)


@pytest.mark.parametrize("n", [20, 65, 256, 1000])
def test_few_images_are_not_underestimated(n):
    """With few patches the smallest eigenvalues are far below σ² by chance."""
    x = 0.3 * torch.randn(n, 8, 8, generator=seeded())
    assert noise.estimate_sigma(x) == pytest.approx(0.3, rel=0.08)
    with pytest.raises(ValueError, match="too few patches"):
        noise.estimate_sigma(x[:200], patch=8)


def test_signals_with_a_channel_axis():
    t = torch.linspace(0, 20, 4000)
    noisy = noise.add(torch.sin(t).expand(3, 1, 4000).clone(), "gaussian", 0.2)
    assert noise.estimate_sigma(noisy) == pytest.approx(0.2, rel=0.05)

"""The losses against plain loops, closed forms and simulation; gradients; degenerate and padded data."""

import math

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

import dcs.noise
from dcs import functional as F
from tests.helpers import seeded

SHAPES = [(6,), (6, 5), (4, 2, 3, 5)]
HALVES = [torch.float16, torch.bfloat16]
law = settings(max_examples=50, derandomize=True, database=None)


def randn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=seeded(seed), dtype=dtype)


def random_mask(*shape, seed=0, share=0.6):
    """A mask with at least one entry a sample."""
    b = torch.rand(shape, generator=seeded(seed)) < share
    b.reshape(len(b), -1)[:, 0] = True
    return b


def rows(x):
    return x.reshape(len(x), -1).tolist()


def close(actual, expected, rtol=1e-10):
    expected = torch.as_tensor(expected, dtype=actual.dtype)
    torch.testing.assert_close(actual, expected, rtol=rtol, atol=rtol)


# --- by hand: one sample, given as lists


def dot_by_hand(u, v, b):
    return math.fsum(p * q for p, q, use in zip(u, v, b, strict=True) if use)


def cosine_by_hand(u, v, b, eps=1e-8):
    """Eq. 1 without the minus."""
    norms = math.sqrt(dot_by_hand(u, u, b)) * math.sqrt(dot_by_hand(v, v, b))
    return dot_by_hand(u, v, b) / max(norms, eps)


def snr_by_hand(x, x_tilde, b):
    difference = [p - q for p, q in zip(x, x_tilde, strict=True)]
    distance2 = dot_by_hand(difference, difference, b)
    return math.sqrt(2 * max(dot_by_hand(x, x_tilde, b), 0) / distance2) if distance2 else math.inf


def k_by_hand(c, dim):
    """Eq. 3 for Gaussian noise, through Kummer's function."""
    if math.isinf(c):
        return 1.0
    mu = mpmath.mpf(c) * mpmath.sqrt(dim)
    factor = mpmath.gammaprod([mpmath.mpf(dim + 1) / 2], [mpmath.mpf(dim) / 2 + 1]) / mpmath.sqrt(2)
    return float(mu * factor * mpmath.hyp1f1(0.5, mpmath.mpf(dim) / 2 + 1, -(mu**2) / 2))


def dcs_by_hand(prediction, x, x_tilde, b, floor=0.2, power=1.0):
    """Eq. 9 with the exact k̂, floored."""
    dim = sum(map(bool, b))
    if not dim:
        return 0.0
    k = max(k_by_hand(snr_by_hand(x, x_tilde, b), dim), floor)
    return -cosine_by_hand(x, prediction, b) / k**power


def noise2void_by_hand(prediction, x, b):
    difference = [p - q for p, q in zip(prediction, x, strict=True)]
    return dot_by_hand(difference, difference, b) / max(sum(map(bool, b)), 1)


def noisy_views(*shape, noise=1.0, dtype=torch.float64):
    """x, x_tilde and a prediction for one clean batch."""
    clean = randn(*shape, seed=1, dtype=dtype)
    x, x_tilde = (clean + noise * randn(*shape, seed=seed, dtype=dtype) for seed in (2, 3))
    return x, x_tilde, clean + 0.5 * randn(*shape, seed=4, dtype=dtype)


# --- cosine


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_cosine_is_that_of_torch(shape, dtype, rtol):
    target, prediction = randn(*shape, dtype=dtype), randn(*shape, seed=1, dtype=dtype)
    ours = F.cosine_loss(target, prediction, reduction="none")
    theirs = torch.nn.functional.cosine_similarity(
        target.reshape(len(target), -1), prediction.reshape(len(target), -1)
    )
    assert ours.dtype == dtype
    close(ours, -theirs, rtol)


@pytest.mark.parametrize("shape", SHAPES)
def test_masked_cosine_is_that_of_a_loop(shape):
    target, prediction, b = randn(*shape), randn(*shape, seed=1), random_mask(*shape)
    expected = [-cosine_by_hand(*s) for s in zip(rows(target), rows(prediction), rows(b), strict=True)]
    close(F.cosine_loss(target, prediction, b, reduction="none"), expected)


def test_a_mask_may_be_shared_along_an_axis():
    target, prediction = randn(4, 3, 5), randn(4, 3, 5, seed=1)
    for shape in ((1, 3, 5), (4, 1, 5), (4, 3, 1), (1, 1, 5)):
        b = random_mask(*shape)
        shared = F.cosine_loss(target, prediction, b, reduction="none")
        assert torch.equal(shared, F.cosine_loss(target, prediction, b.expand(4, 3, 5), reduction="none"))


def all_losses(prediction, x, x_tilde, b, **options):
    """Each loss that compares a prediction with the data."""
    return {
        "cosine": F.cosine_loss(x, prediction, b, **options),
        "dcs": F.denoising_cosine_loss(prediction, x, x_tilde, b, **options),
        "noise2void": F.noise2void_loss(prediction, x, b, **options),
    }


@pytest.mark.parametrize("shape", SHAPES)
def test_reductions_agree(shape):
    x, x_tilde, prediction = noisy_views(*shape)
    views = prediction, x, x_tilde, random_mask(*shape)
    each, mean, total = (all_losses(*views, reduction=r) for r in ("none", "mean", "sum"))
    default = all_losses(*views)
    for name, values in each.items():
        assert values.shape == shape[:1]
        close(mean[name], math.fsum(values) / len(x))
        close(total[name], math.fsum(values))
        assert torch.equal(default[name], mean[name])

    def sure(**options):
        return F.sure_loss(torch.tanh, x, 0.3, generator=seeded(), **options)

    values = sure(reduction="none")
    assert values.shape == shape[:1]
    close(sure(), math.fsum(values) / len(x))
    close(sure(reduction="mean"), math.fsum(values) / len(x))
    close(sure(reduction="sum"), math.fsum(values))


@pytest.mark.parametrize("dtype", [*HALVES, torch.float32, torch.float64])
def test_precision_follows_the_input_and_half_is_summed_in_float32(dtype):
    views = [v.to(dtype) for v in noisy_views(5, 3, 40)]
    x, x_tilde, prediction = views
    b = random_mask(5, 3, 40)
    working = torch.promote_types(dtype, torch.float32)
    reference = all_losses(*(v.to(working) for v in (prediction, x, x_tilde)), b, reduction="none")
    for name, values in all_losses(prediction, x, x_tilde, b, reduction="none").items():
        assert values.dtype == working
        close(values, reference[name], 1e-6)


@pytest.mark.parametrize("dtype", HALVES)
def test_a_half_precision_prediction_may_meet_float32_data(dtype):
    """As under autocast."""
    x, x_tilde, prediction = noisy_views(5, 40, dtype=torch.float32)
    half = prediction.to(dtype).requires_grad_()
    reference = all_losses(half.detach().float(), x, x_tilde, None)
    for name, value in all_losses(half, x, x_tilde, None).items():
        assert value.dtype == torch.float32
        close(value, reference[name], 1e-6)
        (slope,) = torch.autograd.grad(value, half)
        assert slope.dtype == dtype


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("masked", [True, False])
def test_losses_are_not_spoilt_by_mixed_precision(dtype, masked):
    """Inside an autocast region, sums would lose digits, and those of float16 overflow."""
    x, x_tilde, prediction = (1000 * v for v in noisy_views(5, 60, dtype=torch.float32))
    b = random_mask(5, 60) if masked else None
    plain = all_losses(prediction, x, x_tilde, b)
    with torch.autocast("cpu", dtype=dtype):
        mixed = all_losses(prediction, x, x_tilde, b)
    for name, value in mixed.items():
        assert value.dtype == torch.float32
        close(value, plain[name], 1e-6)


@pytest.mark.parametrize(
    ("dtype", "size"), [(torch.float32, 1e6), (torch.float16, 6e4), (torch.bfloat16, 1e6)]
)
def test_large_values_do_not_overflow(dtype, size):
    sign = torch.where(randn(4, 500) > 0, 1.0, -1.0)
    x = (size * sign).to(dtype)
    x_tilde, prediction = -x.roll(1, 1), x.roll(2, 1)
    unit = [(v.double() / size) for v in (x, x_tilde, prediction)]
    for b in (None, random_mask(4, 500)):
        losses = all_losses(prediction, x, x_tilde, b)
        expected = all_losses(unit[2], unit[0], unit[1], b)
        close(losses["cosine"], float(expected["cosine"]), 1e-3)
        close(losses["dcs"], float(expected["dcs"]), 1e-3)
        assert float(losses["noise2void"]) == pytest.approx(size**2 * float(expected["noise2void"]), rel=1e-2)


# --- dCS


@pytest.mark.parametrize("shape", [(6, 5), (4, 2, 3, 5), (5, 784)])
@pytest.mark.parametrize(("floor", "power"), [(0.2, 1.0), (0.05, 1.0), (0.2, -1.0), (0.3, 0.5), (0.2, 0.0)])
@pytest.mark.parametrize("noise", [0.3, 3.0])
def test_dcs_is_that_of_a_loop(shape, floor, power, noise):
    x, x_tilde, prediction = noisy_views(*shape, noise=noise)
    b = random_mask(*shape, share=0.4)
    samples = zip(rows(prediction), rows(x), rows(x_tilde), rows(b), strict=True)
    expected = [dcs_by_hand(*s, floor=floor, power=power) for s in samples]
    options = {"floor": floor, "power": power}
    close(F.denoising_cosine_loss(prediction, x, x_tilde, b, reduction="none", **options), expected)
    mean = math.fsum(expected) / len(x)
    close(F.denoising_cosine_loss(prediction, x, x_tilde, b, **options), mean)


def test_dcs_of_a_second_observation_compares_all_entries():
    x, x_tilde, prediction = noisy_views(5, 3, 7)
    everything = torch.ones(5, 3, 7, dtype=torch.bool)
    samples = zip(rows(prediction), rows(x), rows(x_tilde), rows(everything), strict=True)
    values = F.denoising_cosine_loss(prediction, x, x_tilde, None, reduction="none")
    close(values, [dcs_by_hand(*s) for s in samples])
    close(values, F.denoising_cosine_loss(prediction, x, x_tilde, everything, reduction="none"))


def test_masks_may_be_bool_or_numbers():
    x, x_tilde, prediction = noisy_views(4, 3, 5)
    b = random_mask(4, 3, 5)
    reference = all_losses(prediction, x, x_tilde, b)
    for dtype in (torch.float32, torch.float64, torch.float16, torch.int64, torch.uint8):
        for name, value in all_losses(prediction, x, x_tilde, b.to(dtype)).items():
            assert torch.equal(value, reference[name])
        padded = all_losses(prediction, x, x_tilde, None, valid=b.to(dtype))
        for name, value in padded.items():
            close(value, reference[name])


def test_a_known_snr_takes_the_place_of_the_estimate():
    x, x_tilde, prediction = noisy_views(5, 12)
    b = random_mask(5, 12)
    snr = torch.tensor([0.0, 0.1, 1.0, 30.0, math.inf], dtype=torch.float64)
    values = F.denoising_cosine_loss(prediction, x, x_tilde, b, snr=snr, reduction="none")
    cosine = F.cosine_loss(x, prediction, b, reduction="none")
    k = [k_by_hand(c, int(dim)) for c, dim in zip(snr.tolist(), b.sum(1), strict=True)]
    close(values, [float(v) / max(k, 0.2) for v, k in zip(cosine, k, strict=True)])
    estimate = F.snr(x, x_tilde, b)
    close(
        F.denoising_cosine_loss(prediction, x, x_tilde, b, snr=estimate),
        F.denoising_cosine_loss(prediction, x, x_tilde, b),
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"method": "asymptotic"},
        {"method": "monte_carlo", "samples": 7},
        {"method": "monte_carlo", "noise": dcs.noise.Sphere()},
        {"noise": dcs.noise.GaussianScaleMixture([1, 3])},
        {"eta": 0.1},
        {"floor": 0.5, "power": 2},
        {"variant": "paper"},
    ],
    ids=str,
)
def test_dcs_is_the_weight_times_the_cosine_loss(options):
    """Options go to `denoising_weight`; the full dimension is the number of entries that are not padding."""
    x, x_tilde, prediction = noisy_views(6, 3, 5)
    b = random_mask(6, 3, 5)
    valid = torch.ones(6, 3, 5, dtype=torch.bool)
    valid[1:3, :, 4:] = False
    both = b & valid
    weight = F.denoising_weight(
        F.snr(x, x_tilde, both),
        both.sum((1, 2)).double(),
        full_dim=valid.sum((1, 2)).double(),
        generator=seeded(),
        **options,
    )
    values = F.denoising_cosine_loss(
        prediction, x, x_tilde, b, valid=valid, generator=seeded(), reduction="none", **options
    )
    close(values, weight * F.cosine_loss(x, prediction, both, reduction="none"))


@pytest.mark.parametrize("samples", [1, 100])
def test_paper_variant_is_algorithm_1(samples):
    x, x_tilde, prediction = noisy_views(8, 20, noise=2.0)
    b = random_mask(8, 20, share=0.5)
    dims = b.sum(1).double()
    assert int(dims.min()) > 1
    generator = seeded(5)
    # κ ~ N(0, 1) and ν ~ χ²(D − 1), drawn as the library draws them, one row a repetition.
    kappa = torch.randn((samples, 8), generator=generator, dtype=torch.float64)
    half_degrees = ((dims - 1) / 2).expand(samples, 8).contiguous()
    nu = 2 * torch._standard_gamma(half_degrees, generator=generator)
    expected = []
    for i in range(8):
        sample = rows(x)[i], rows(x_tilde)[i], rows(b)[i]
        c, dim = snr_by_hand(*sample), float(dims[i])
        cosines = []
        for s in range(samples):
            along = c + float(kappa[s, i]) / math.sqrt(dim)
            cosines.append(along / math.sqrt(along**2 + float(nu[s, i]) / dim))
        k_hat = math.fsum(cosines) / samples
        expected.append(-cosine_by_hand(rows(x)[i], rows(prediction)[i], rows(b)[i]) / k_hat)
    options = {"variant": "paper", "samples": samples, "generator": seeded(5)}
    ignored = {"method": "asymptotic", "floor": 1.0, "power": -1, "eta": 0.5, "noise": dcs.noise.Sphere()}
    values = F.denoising_cosine_loss(prediction, x, x_tilde, b, reduction="none", **options, **ignored)
    close(values, expected)
    if samples == 1:
        cosine = F.cosine_loss(x, prediction, b, reduction="none")
        assert bool((values * cosine < 0).any())  # a negative weight: what the default rules out


def test_theorem_1():
    """With the true k, the dCS loss has the mean of the cosine loss to the clean data."""
    n, dim, sigma = 20_000, 6, 1.5
    clean, prediction = randn(1, dim, seed=8), randn(1, dim, seed=9) + 1
    x = clean + sigma * randn(n, dim)
    snr = torch.full((n,), float(clean.norm()) / (sigma * math.sqrt(dim)), dtype=torch.float64)
    values = F.denoising_cosine_loss(
        prediction.expand(n, dim), x, x.roll(1, 0), None, snr=snr, floor=1e-3, reduction="none"
    )
    supervised = float(F.cosine_loss(clean, prediction))
    assert abs(float(values.mean()) - supervised) < 5 * float(values.std()) / math.sqrt(n)


# --- Noise2Void


@pytest.mark.parametrize("shape", SHAPES)
def test_noise2void_is_that_of_a_loop(shape):
    x, prediction = randn(*shape), randn(*shape, seed=1)
    for b in (random_mask(*shape), torch.zeros(shape), torch.ones(shape)):
        expected = [noise2void_by_hand(*s) for s in zip(rows(prediction), rows(x), rows(b), strict=True)]
        close(F.noise2void_loss(prediction, x, b, reduction="none"), expected)
    plain = torch.nn.functional.mse_loss(prediction, x)
    close(F.noise2void_loss(prediction, x, None), plain)


# --- SURE


def sure_by_hand(model, x, sigma, probe, step=1e-3):
    """MC-SURE of one sample (d,) with a known probe."""
    moved = ((model(x + step * probe) - model(x)) / step).tolist()
    terms = zip(model(x).tolist(), x.tolist(), probe.tolist(), moved, sigma, strict=True)
    return math.fsum((h - v) ** 2 - s**2 + 2 * s**2 * n * m for h, v, n, m, s in terms) / len(x)


def linear_model(dim):
    matrix, shift = randn(dim, dim, seed=11) / math.sqrt(dim), randn(dim, seed=12)
    return matrix, lambda x: x @ matrix.T + shift


def test_sure_of_a_linear_model_with_a_known_probe():
    """The divergence along a probe n is nᵀWn, whatever the step."""
    dim, sigma = 6, 0.7
    matrix, model = linear_model(dim)
    x = randn(5, dim)
    probe = torch.randn(x.shape, dtype=x.dtype, generator=seeded(3))
    residual = (model(x) - x).square().mean(1)
    expected = residual - sigma**2 + 2 * sigma**2 * torch.einsum("ni,ij,nj->n", probe, matrix, probe) / dim
    for step in (1e-4, 1e-3, 1.0):
        values = F.sure_loss(model, x, sigma, step=step, generator=seeded(3), reduction="none")
        close(values, expected, 1e-8)


def test_sure_of_a_linear_model_has_its_trace_as_mean_divergence():
    dim, sigma, n = 6, 0.7, 20_000
    matrix, model = linear_model(dim)
    x = randn(1, dim)
    expected = float((model(x) - x).square().mean() - sigma**2 + 2 * sigma**2 * matrix.trace() / dim)
    values = F.sure_loss(model, x.expand(n, dim), sigma, generator=seeded(), reduction="none")
    assert abs(float(values.mean()) - expected) < 5 * float(values.std()) / math.sqrt(n)


def test_sure_takes_sigma_in_every_broadcast_shape():
    x = randn(4, 3)
    probe = torch.randn(x.shape, dtype=x.dtype, generator=seeded(3))
    per_sample, per_entry = torch.tensor([0.0, 0.1, 0.5, 2.0]), torch.tensor([0.3, 0.0, 1.0])
    grid = per_sample[:, None] + per_entry
    for sigma, full in [
        (0.4, torch.full((4, 3), 0.4)),
        (torch.tensor(0.4), torch.full((4, 3), 0.4)),
        (per_sample, per_sample[:, None].expand(4, 3)),
        (per_sample[:, None], per_sample[:, None].expand(4, 3)),
        (per_entry[None], per_entry.expand(4, 3)),
        (per_entry, per_entry.expand(4, 3)),
        (grid, grid),
    ]:
        expected = [sure_by_hand(torch.tanh, *s) for s in zip(x, full.double().tolist(), probe, strict=True)]
        values = F.sure_loss(torch.tanh, x, sigma, generator=seeded(3), reduction="none")
        close(values, expected, 1e-6)


def test_sure_takes_one_sigma_a_sample_for_images():
    x, sigma = randn(4, 2, 3, 3), torch.tensor([0.0, 0.1, 0.5, 2.0], dtype=torch.float64)
    values = [
        F.sure_loss(torch.tanh, x, s, generator=seeded(), reduction="none")
        for s in (sigma, sigma[:, None, None, None], sigma[:, None, None, None].expand(4, 2, 3, 3))
    ]
    assert torch.equal(values[0], values[1])
    assert torch.equal(values[0], values[2])
    for i in range(4):
        one = F.sure_loss(torch.tanh, x, float(sigma[i]), generator=seeded(), reduction="none")
        close(values[0][i], one[i])


def test_sure_is_unbiased_for_the_true_risk():
    n, dim, sigma = 40_000, 5, 0.6
    matrix = randn(dim, dim, seed=11)
    clean = randn(1, dim, seed=13)
    x = clean + sigma * randn(n, dim)

    def model(v):
        return torch.tanh(v @ matrix.T) + 0.1 * v.square()

    true_risk = (model(x) - clean).square().mean(1)
    difference = F.sure_loss(model, x, sigma, generator=seeded(7), reduction="none") - true_risk
    assert abs(float(difference.mean())) < 5 * float(difference.std()) / math.sqrt(n)
    assert float(difference.std()) / math.sqrt(n) < 0.05 * float(true_risk.mean())


def test_sure_in_half_precision_is_summed_in_float32():
    for dtype in HALVES:
        value = F.sure_loss(torch.tanh, randn(3, 40).to(dtype), 0.3, step=0.1, generator=seeded())
        assert value.dtype == torch.float32
        assert math.isfinite(float(value))


@pytest.mark.parametrize("sigma_dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sure_has_the_precision_of_x_whatever_that_of_sigma(dtype, sigma_dtype):
    x, sigma = randn(3, 4, dtype=dtype), torch.full((3,), 0.5, dtype=sigma_dtype)
    value = F.sure_loss(torch.tanh, x, sigma, generator=seeded())
    assert value.dtype == dtype
    close(value, float(F.sure_loss(torch.tanh, x, 0.5, generator=seeded())), 1e-6)


def test_sure_is_not_spoilt_by_mixed_precision():
    layer = torch.nn.Linear(30, 30)
    x = randn(8, 30, dtype=torch.float32)
    plain = F.sure_loss(layer, x, 0.3, generator=seeded())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = F.sure_loss(layer, x, 0.3, generator=seeded())
    assert torch.equal(plain, mixed)


def test_sure_draws_from_the_generator_alone():
    x = randn(3, 8)
    before = torch.random.get_rng_state()
    first, again = (F.sure_loss(torch.tanh, x, 0.5, generator=seeded(1)) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, F.sure_loss(torch.tanh, x, 0.5, generator=seeded(2)))
    assert torch.equal(before, torch.random.get_rng_state())


# --- padding

GARBAGE = [math.nan, math.inf, -1e30, 3.0]
LENGTHS = torch.tensor([9, 5, 7, 1])
VALID = torch.arange(9) < LENGTHS[:, None]


def unpadded(i, *tensors):
    return (None if t is None else t[i, : LENGTHS[i]][None] for t in tensors)


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize("masked", [True, False])
def test_padding_never_counts(garbage, masked):
    x, x_tilde, prediction = noisy_views(4, 9)
    b = random_mask(4, 9) if masked else None
    each = [all_losses(*unpadded(i, prediction, x, x_tilde, b), reduction="none") for i in range(4)]
    views = [v.masked_fill(~VALID, garbage) for v in (prediction, x, x_tilde)]
    views[0].requires_grad_()
    for name, values in all_losses(*views, b, valid=VALID, reduction="none").items():
        close(values, torch.cat([one[name] for one in each]), 1e-13)
        (slope,) = torch.autograd.grad(values.sum(), views[0])
        assert bool(slope.isfinite().all())
        assert bool((slope[~VALID] == 0).all())
        for i in range(4):
            (short,) = unpadded(i, prediction)
            short = short.clone().requires_grad_()
            one = all_losses(short, *unpadded(i, x, x_tilde, b))[name]
            close(slope[i, : LENGTHS[i]], torch.autograd.grad(one, short)[0][0], 1e-12)


@pytest.mark.parametrize("garbage", GARBAGE)
def test_padding_never_counts_for_sure(garbage):
    x = randn(4, 9)
    sigma = torch.tensor([0.1, 0.5, 1.0, 2.0], dtype=torch.float64)
    probe = torch.randn(x.shape, dtype=x.dtype, generator=seeded(3))

    def model(v):
        return 0.5 * torch.nan_to_num(v, posinf=7.0)

    values = F.sure_loss(
        model, x.masked_fill(~VALID, garbage), sigma, valid=VALID, generator=seeded(3), reduction="none"
    )
    expected = []
    for i, length in enumerate(LENGTHS.tolist()):
        short, short_probe = x[i, :length], probe[i, :length]
        expected.append(sure_by_hand(model, short, [float(sigma[i])] * length, short_probe))
    close(values, expected, 1e-10)


def test_a_sample_that_is_all_padding_adds_nothing():
    x, x_tilde, prediction = noisy_views(3, 5)
    valid = torch.tensor([[1], [0], [1]]).expand(3, 5)
    for view in (x, x_tilde, prediction):
        view[1] = math.nan
    prediction.requires_grad_()
    for values in all_losses(prediction, x, x_tilde, None, valid=valid, reduction="none").values():
        assert values[1] == 0
        (slope,) = torch.autograd.grad(values.sum(), prediction)
        assert bool((slope[1] == 0).all())
        assert bool(slope.isfinite().all())
    values = F.sure_loss(lambda v: 0.5 * v, x, 0.5, valid=valid, generator=seeded(), reduction="none")
    assert values[1] == 0
    assert bool(values.isfinite().all())


# --- degenerate samples


@pytest.mark.parametrize("dtype", [*HALVES, torch.float32, torch.float64])
@pytest.mark.parametrize("masked", [True, False])
def test_zero_target_or_prediction_has_no_gradient(dtype, masked):
    target, prediction = randn(4, 6, dtype=dtype), randn(4, 6, seed=1, dtype=dtype)
    target[0] = 0
    prediction[1] = 0
    target[2], prediction[2] = 0, 0
    prediction.requires_grad_()
    values = F.cosine_loss(target, prediction, random_mask(4, 6) if masked else None, reduction="none")
    assert bool((values[:3] == 0).all())
    (slope,) = torch.autograd.grad(values.sum(), prediction)
    assert bool((slope[:3] == 0).all())
    assert bool(slope.isfinite().all())
    assert bool((slope[3] != 0).any())


@pytest.mark.parametrize("variant", ["default", "paper"])
@pytest.mark.parametrize("method", ["exact", "monte_carlo", "asymptotic"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("padded", [True, False])
def test_degenerate_samples_have_a_finite_loss_and_no_gradient(variant, method, dtype, padded):
    x, x_tilde, prediction = noisy_views(7, 8, dtype=dtype)
    b = random_mask(7, 8)
    b[0] = False  # an empty mask
    x[1], x_tilde[1] = 0, 0  # no data
    x[2], x_tilde[2] = 3, 3  # constant data
    prediction[3] = 0
    x[4], x_tilde[4] = -2, -2
    prediction[4] = 5
    prediction.requires_grad_()
    # Padding with something other than the constant must not hide that the sample is constant.
    valid = None
    if padded:
        x, x_tilde, b = (torch.cat([v, v[:, :1] + 1], 1) for v in (x, x_tilde, b.to(dtype)))
        b[:, -1] = 1
        valid = torch.arange(9) < torch.full((7, 1), 8)
    shown = torch.cat([prediction, prediction[:, :1]], 1) if padded else prediction
    options = {"variant": variant, "method": method, "valid": valid}
    values = F.denoising_cosine_loss(shown, x, x_tilde, b, generator=seeded(), reduction="none", **options)
    assert bool(values.isfinite().all())
    (slope,) = torch.autograd.grad(values.sum(), prediction)
    assert bool((slope[:5] == 0).all())
    assert bool(slope.isfinite().all())
    assert bool((slope[5:] != 0).any(1).all())


def test_degenerate_samples_leave_the_others_their_gradient():
    x, x_tilde, prediction = noisy_views(6, 8)
    b = random_mask(6, 8)
    x[0] = x_tilde[0] = 1
    b[1] = False
    healthy = prediction[2:].clone().requires_grad_()
    alone = F.denoising_cosine_loss(healthy, x[2:], x_tilde[2:], b[2:], reduction="sum")
    prediction.requires_grad_()
    together = F.denoising_cosine_loss(prediction, x, x_tilde, b, reduction="sum")
    (expected,) = torch.autograd.grad(alone, healthy)
    (slope,) = torch.autograd.grad(together, prediction)
    close(slope[2:], expected)


@pytest.mark.parametrize("masked", [True, False])
def test_a_gradient_never_depends_on_the_other_samples(masked):
    """Constant or not, equal to its second view or not: each sample gets what it would get alone."""
    x, x_tilde, prediction = noisy_views(6, 8)
    b = random_mask(6, 8) if masked else None
    x[0] = x_tilde[0] = 1
    x[1] = 1  # constant, with another second view
    x_tilde[2] = x[2]
    x[3], x_tilde[4] = 0, 0
    prediction.requires_grad_()
    together = F.denoising_cosine_loss(prediction, x, x_tilde, b, reduction="sum")
    (slope,) = torch.autograd.grad(together, prediction)
    for i in range(6):
        one = prediction.detach()[i : i + 1].clone().requires_grad_()
        mask = None if b is None else b[i : i + 1]
        alone = F.denoising_cosine_loss(one, x[i : i + 1], x_tilde[i : i + 1], mask)
        close(slope[i], torch.autograd.grad(alone, one)[0][0], 1e-12)


def test_noise2void_of_an_empty_mask_is_zero():
    x, _, prediction = noisy_views(3, 5)
    b = random_mask(3, 5)
    b[1] = False
    prediction.requires_grad_()
    values = F.noise2void_loss(prediction, x, b, reduction="none")
    (slope,) = torch.autograd.grad(values.sum(), prediction)
    assert values[1] == 0
    assert bool((slope[~b] == 0).all())
    assert bool((slope[b] != 0).all())


# --- gradients


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("name", ["cosine", "dcs", "noise2void"])
def test_gradient_in_the_prediction(name, masked):
    x, x_tilde, prediction = noisy_views(3, 2, 4)
    b = random_mask(3, 2, 4) if masked else None
    valid = random_mask(3, 2, 4, seed=5, share=0.8) if masked else None

    def loss(v):
        return all_losses(v, x, x_tilde, b, valid=valid, reduction="none")[name]

    assert gradcheck(loss, prediction.requires_grad_())


@pytest.mark.parametrize("masked", [True, False])
def test_gradient_of_the_cosine_in_both_arguments(masked):
    target, _, prediction = noisy_views(3, 6)
    b = random_mask(3, 6) if masked else None

    def loss(u, v):
        return F.cosine_loss(u, v, b, reduction="none")

    assert gradcheck(loss, (target.requires_grad_(), prediction.requires_grad_()))


@pytest.mark.parametrize("length", [1e-15, 1e15])
def test_the_gradient_of_the_cosine_falls_with_the_length_of_the_prediction(length):
    target, _, prediction = (view.float() for view in noisy_views(3, 6))

    def slope(v):
        v = v.detach().requires_grad_()
        return torch.autograd.grad(F.cosine_loss(target, v, eps=1e-20), v)[0]

    close(slope(prediction * length) * length, slope(prediction), 1e-5)


@pytest.mark.parametrize("options", [{"variant": "paper"}, {"method": "monte_carlo"}, {"eta": 0.1}], ids=str)
def test_gradient_in_the_prediction_with_other_weights(options):
    x, x_tilde, prediction = noisy_views(3, 6)
    b = random_mask(3, 6)

    def loss(v):
        return F.denoising_cosine_loss(v, x, x_tilde, b, generator=seeded(), reduction="none", **options)

    assert gradcheck(loss, prediction.requires_grad_())


@pytest.mark.parametrize("masked", [True, False])
def test_gradient_of_sure_in_the_model_and_in_x(masked):
    valid = random_mask(3, 4) if masked else None
    matrix, x = randn(4, 4, seed=1).requires_grad_(), randn(3, 4).requires_grad_()

    def loss(matrix, x):
        return F.sure_loss(
            lambda v: torch.tanh(v @ matrix.T), x, 0.5, valid=valid, generator=seeded(), reduction="none"
        )

    assert gradcheck(loss, (matrix, x))


@pytest.mark.parametrize("power", [1.0, -1.0])
def test_no_gradient_flows_through_the_weight(power):
    x, x_tilde, prediction = noisy_views(5, 8)
    b = random_mask(5, 8)
    prediction.requires_grad_()
    weight = F.denoising_weight(F.snr(x, x_tilde, b), b.sum(1).double(), power=power)
    cosine = F.cosine_loss(x, prediction, b, reduction="sum")
    loss = F.denoising_cosine_loss(prediction, x, x_tilde, b, power=power, reduction="sum")
    (plain,) = torch.autograd.grad(cosine, prediction)
    (weighted,) = torch.autograd.grad(loss, prediction)
    close(weighted, weight[:, None] * plain)
    assert bool((weighted[~b] == 0).all())


def test_the_gradient_of_dcs_flows_to_the_prediction_alone():
    x, x_tilde, prediction = (v.requires_grad_() for v in noisy_views(5, 8))
    F.denoising_cosine_loss(prediction, x, x_tilde, random_mask(5, 8)).backward()
    assert prediction.grad is not None
    assert x_tilde.grad is None
    assert x.grad is None


# --- laws


@law
@given(
    exponent=st.floats(-3, 3),
    seed=st.integers(0, 2**32),
    shape=st.sampled_from([(2, 3), (3, 2, 4)]),
    masked=st.booleans(),
)
def test_cosine_losses_do_not_see_the_scale_of_the_prediction(exponent, seed, shape, masked):
    generator = seeded(seed)
    x, x_tilde, prediction = torch.randn((3, *shape), generator=generator, dtype=torch.float64)
    b = random_mask(*shape, seed=seed) if masked else None
    scaled = 10**exponent * prediction
    before, after = (all_losses(v, x, x_tilde, b, reduction="none") for v in (prediction, scaled))
    close(after["cosine"], before["cosine"], 1e-12)
    close(after["dcs"], before["dcs"], 1e-12)


@law
@given(
    order=st.permutations(range(5)),
    seed=st.integers(0, 2**32),
    method=st.sampled_from(["exact", "asymptotic"]),
)
def test_permuting_samples_permutes_results(order, seed, method):
    x, x_tilde, prediction = torch.randn((3, 5, 2, 3), generator=seeded(seed), dtype=torch.float64)
    b = random_mask(5, 2, 3, seed=seed)
    views = prediction, x, x_tilde, b
    before = all_losses(*views, reduction="none")
    after = all_losses(*(v[list(order)] for v in views), reduction="none")
    for name, values in after.items():
        close(values, before[name][list(order)], 1e-13)
    values = F.denoising_cosine_loss(*views, method=method, reduction="none")
    permuted = F.denoising_cosine_loss(*(v[list(order)] for v in views), method=method, reduction="none")
    close(permuted, values[list(order)], 1e-13)


@law
@given(seed=st.integers(0, 2**32), size=st.integers(1, 40))
def test_cosine_is_between_minus_one_and_one(seed, size):
    target, prediction = torch.randn((2, 4, size), generator=seeded(seed))
    values = F.cosine_loss(target, prediction, reduction="none")
    assert bool((values.abs() <= 1 + 1e-6).all())


def test_length_loss_is_that_of_a_loop():
    x, prediction = torch.randn(2, 5, 3, 4, generator=seeded()).double()
    mask = torch.rand(5, 3, 4, generator=seeded(1)) < 0.5
    expected = []
    for row in range(5):
        u, v = x[row][mask[row]], prediction[row][mask[row]]
        expected.append(float(((v.norm() - (u @ v) / v.norm()) / u.norm()) ** 2))
    found = F.length_loss(prediction, x, mask, reduction="none")
    assert torch.allclose(found, torch.tensor(expected, dtype=torch.float64))
    assert F.length_loss(prediction, x, mask) == pytest.approx(sum(expected) / 5)


def test_length_loss_changes_lengths_only_and_is_smallest_at_the_nearest():
    x = torch.randn(4, 30, generator=seeded())
    prediction = torch.randn(4, 30, generator=seeded(1)).add(x).requires_grad_()
    F.length_loss(prediction, x).backward()
    gradient, prediction = prediction.grad, prediction.detach()
    across = gradient - prediction * ((gradient * prediction).sum(1) / prediction.square().sum(1))[:, None]
    assert float(across.abs().max()) < 1e-6 * float(gradient.abs().max()) + 1e-9
    nearest = prediction * ((x * prediction).sum(1) / prediction.square().sum(1))[:, None]
    assert float(F.length_loss(nearest, x)) < 1e-12
    zeros = torch.zeros(2, 3, requires_grad=True)
    F.length_loss(zeros, x[:2, :3]).backward()
    assert bool(zeros.grad.isfinite().all())

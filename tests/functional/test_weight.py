"""The SNR, the expected cosine k and the weight against 40-digit arithmetic, integrals and plain loops."""

import math
import random

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

import dcs.noise
from dcs import functional as F
from tests.helpers import seeded

DIMS = [1, 2, 3, 16, 78, 784, 10**5, 10**6]
SNRS = sorted([*(10.0**e for e in range(-6, 5)), 0.5, 2.0, 5.0, 0.03, 30.0])
METHODS = ["exact", "monte_carlo", "asymptotic"]
LAWS = {
    "gaussian": "gaussian",
    "Gaussian": dcs.noise.Gaussian(),
    "mixture": dcs.noise.GaussianScaleMixture([0.5, 1.0, 3.0], [0.5, 0.3, 0.2]),
    "sphere": dcs.noise.Sphere(),
}
law = settings(max_examples=50, derandomize=True, database=None)


def gaussian_k(c, dim):
    """k for Gaussian noise through Kummer's function, to 40 digits."""
    with mpmath.workdps(40):
        dim = mpmath.mpf(dim)
        mu = mpmath.mpf(c) * mpmath.sqrt(dim)
        factor = mpmath.gammaprod([(dim + 1) / 2], [dim / 2 + 1]) / mpmath.sqrt(2)
        return mu * factor * mpmath.hyp1f1(mpmath.mpf(1) / 2, dim / 2 + 1, -(mu**2) / 2)


def worst_relative_error(k, snrs, dim):
    return max(
        float(abs(mpmath.mpf(value) / gaussian_k(c, dim) - 1))
        for value, c in zip(k.tolist(), snrs, strict=True)
    )


def mean_and_error(draws):
    return float(draws.mean()), float(draws.std()) / math.sqrt(draws.numel())


# --- k, exact


@pytest.mark.parametrize("dim", [2, 3, 5])
@pytest.mark.parametrize("c", [0.3, 1.5])
def test_reference_is_the_mean_cosine_of_the_definition(c, dim):
    """The law of y = s + ε in polar coordinates around s, integrated as Eq. 3 says."""
    with mpmath.workdps(15):
        t = c * mpmath.sqrt(dim)
        sphere = 2 * mpmath.pi ** (mpmath.mpf(dim - 1) / 2) / mpmath.gamma(mpmath.mpf(dim - 1) / 2)
        scale = sphere / (2 * mpmath.pi) ** (mpmath.mpf(dim) / 2)

        def integrand(length, angle):
            distance2 = length**2 - 2 * length * t * mpmath.cos(angle) + t**2
            volume = length ** (dim - 1) * mpmath.sin(angle) ** (dim - 2)
            return mpmath.cos(angle) * scale * mpmath.exp(-distance2 / 2) * volume

        k = mpmath.quad(integrand, [0, t + 9], [0, mpmath.pi], maxdegree=5)
    assert float(gaussian_k(c, dim)) == pytest.approx(float(k), rel=1e-10)


@pytest.mark.parametrize("c", SNRS)
def test_reference_in_one_dimension_is_the_error_function(c):
    with mpmath.workdps(40):
        assert abs(gaussian_k(c, 1) / mpmath.erf(mpmath.mpf(c) / mpmath.sqrt(2)) - 1) < 1e-35


@pytest.mark.parametrize("dim", DIMS)
def test_exact_k_in_float64(dim):
    k = F.expected_cosine(torch.tensor(SNRS, dtype=torch.float64), dim)
    assert k.dtype == torch.float64
    assert worst_relative_error(k, SNRS, dim) <= 1e-12


@pytest.mark.parametrize("dim", DIMS)
def test_exact_k_in_float32(dim):
    snr = torch.tensor(SNRS, dtype=torch.float32)
    k = F.expected_cosine(snr, dim)
    assert k.dtype == torch.float32
    assert worst_relative_error(k, snr.tolist(), dim) <= 2e-6


def test_exact_k_in_one_dimension_is_the_error_function():
    c = torch.logspace(-6, 1, 50, dtype=torch.float64)
    torch.testing.assert_close(F.expected_cosine(c, 1), torch.erf(c / math.sqrt(2)), rtol=1e-13, atol=0)


@pytest.mark.parametrize("c", [0.1, 1.0, 4.0])
def test_exact_k_approaches_the_limit_of_large_dimensions_like_one_over_dim(c):
    limit = c / math.sqrt(c**2 + 1)
    slope = (2 * c**2 - 1) / (4 * (1 + c**2) ** 2)
    for dim in (1000, 4000, 16000):
        rest = float(F.expected_cosine(c, dim)) / limit - 1 - slope / dim
        assert abs(rest) < 2 / dim**2


def test_exact_k_of_a_mixture_is_the_mean_over_its_scales():
    mixture = LAWS["mixture"]
    second_moment = sum(p * s**2 for s, p in zip(mixture.scales, mixture.probabilities, strict=True))
    assert second_moment == pytest.approx(1, rel=1e-14)
    for c, dim in [(0.01, 2), (0.5, 16), (3.0, 784)]:
        pairs = zip(mixture.scales, mixture.probabilities, strict=True)
        expected = sum(p * float(gaussian_k(c / s, dim)) for s, p in pairs)
        assert float(F.expected_cosine(c, dim, noise=mixture)) == pytest.approx(expected, rel=1e-12)


def test_exact_k_is_not_available_for_the_sphere():
    with pytest.raises(ValueError, match=r"method='exact'.*Sphere.*monte_carlo"):
        F.expected_cosine(0.5, 8, noise=dcs.noise.Sphere())


@law
@given(c=st.floats(1e-300, 1e300), dim=st.integers(1, 10**7))
def test_exact_k_is_positive_and_at_most_one(c, dim):
    k = float(F.expected_cosine(c, dim))
    assert 0 < k <= 1


@law
@given(
    pair=st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)).map(sorted),
    dim=st.integers(1, 10**7),
    noise=st.sampled_from(["gaussian", "mixture"]),
)
def test_exact_k_grows_with_the_snr(pair, dim, noise):
    low, high = F.expected_cosine(torch.tensor(pair, dtype=torch.float64), dim, noise=LAWS[noise]).tolist()
    assert 0 <= low <= high + 1e-12


# --- k, Monte Carlo and asymptotic


@pytest.mark.parametrize("noise", ["gaussian", "Gaussian", "mixture"])
@pytest.mark.parametrize(("c", "dim"), [(0.05, 1), (0.3, 2), (0.5, 16), (1.0, 78), (0.2, 784)])
def test_monte_carlo_is_an_unbiased_estimate_of_exact(c, dim, noise):
    snr = torch.full((300,), c, dtype=torch.float64)
    draws = F.expected_cosine(snr, dim, method="monte_carlo", noise=LAWS[noise], generator=seeded())
    mean, error = mean_and_error(draws)
    exact = float(F.expected_cosine(c, dim, noise=LAWS[noise]))
    assert abs(mean - exact) < 5 * error
    assert error < 0.05


@pytest.mark.parametrize(("c", "dim"), [(0.3, 2), (1.0, 78)])
def test_general_isotropic_estimator_agrees_with_the_gaussian_one(c, dim):
    """Eq. 7 with Gaussian lengths has the same mean and the same spread as Eq. 8."""
    snr = torch.full((400,), c, dtype=torch.float64)
    gaussian = F.expected_cosine(snr, dim, method="monte_carlo", generator=seeded(1))
    general = F.expected_cosine(
        snr, dim, method="monte_carlo", noise=dcs.noise.Gaussian(), generator=seeded(2)
    )
    (mean_8, error_8), (mean_7, error_7) = mean_and_error(gaussian), mean_and_error(general)
    assert abs(mean_7 - mean_8) < 5 * math.hypot(error_7, error_8)
    assert error_7 == pytest.approx(error_8, rel=5 / math.sqrt(400))


def test_full_dim_makes_no_difference_to_gaussian_noise():
    for noise in ("Gaussian", "mixture"):
        snr = torch.full((300,), 0.4, dtype=torch.float64)
        draws = F.expected_cosine(
            snr, 3, full_dim=50, method="monte_carlo", noise=LAWS[noise], generator=seeded()
        )
        mean, error = mean_and_error(draws)
        assert abs(mean - float(F.expected_cosine(0.4, 3, noise=LAWS[noise]))) < 5 * error
        assert F.expected_cosine(0.4, 3, noise=LAWS[noise], full_dim=50) == F.expected_cosine(
            0.4, 3, noise=LAWS[noise]
        )


def cosine_on_circle(c, radius):
    """Mean cosine to e₁ of c·e₁ plus a vector of given length and uniform direction, in the plane."""

    def cosine(angle):
        along = c + radius * math.cos(angle)
        return along / math.hypot(along, radius * math.sin(angle)) / math.pi

    return integrate.quad(cosine, 0, math.pi, limit=200)[0]


@pytest.mark.parametrize(("full_dim", "published"), [(None, 0.376), (8, 0.519)])
def test_sphere_noise_is_seen_through_its_marginal(full_dim, published):
    """Two of the eight entries of uniform noise on a sphere have the squared length 8·Beta(1, 3)."""
    c = 0.7
    if full_dim is None:
        expected = cosine_on_circle(c, 1.0)
    else:
        share = stats.beta(1, 3)
        expected = integrate.quad(
            lambda b: share.pdf(b) * cosine_on_circle(c, math.sqrt(8 * b / 2)), 0, 1, limit=100
        )[0]
    assert expected == pytest.approx(published, abs=1e-3)
    draws = F.expected_cosine(
        torch.full((200,), c, dtype=torch.float64),
        2,
        full_dim=full_dim,
        method="monte_carlo",
        noise=dcs.noise.Sphere(),
        samples=10_000,
        generator=seeded(),
    )
    mean, error = mean_and_error(draws)
    assert abs(mean - expected) < 5 * error
    assert mean == pytest.approx(published, abs=2e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_asymptotic_is_its_formula(dtype):
    c = torch.logspace(-6, 4, 40, dtype=dtype)
    k = F.expected_cosine(c, 7, method="asymptotic")
    expected = [float(v / mpmath.sqrt(v**2 + 1)) for v in map(mpmath.mpf, c.tolist())]
    rounding = 3 * torch.finfo(dtype).eps
    torch.testing.assert_close(k, torch.tensor(expected, dtype=dtype), rtol=rounding, atol=0)


# --- k, all methods


METHODS_AND_LAWS = [
    pytest.param(method, noise, id=f"{method}-{name}")
    for method in METHODS
    for name, noise in LAWS.items()
    if not (method == "exact" and name == "sphere")
]


@pytest.mark.parametrize(("method", "noise"), METHODS_AND_LAWS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ends_are_zero_and_one_and_nothing_is_above_one(method, noise, dtype):
    c = torch.tensor([0.0, *SNRS, 1e8, 1e15, 1e30, math.inf], dtype=dtype)
    for dim in (1, 2, 78, 10**6):
        k = F.expected_cosine(c, dim, method=method, noise=noise, generator=seeded())
        assert k.dtype == dtype
        assert k[0] == 0
        assert k[-1] == 1
        assert bool((k.abs() <= 1).all())
        assert float(k[-2]) == pytest.approx(1)


@pytest.mark.parametrize(("method", "noise"), METHODS_AND_LAWS)
def test_shapes_broadcast(method, noise):
    snr, dim = torch.tensor([[0.2], [1.0], [5.0]]), torch.tensor([1, 2, 30, 784])
    options = {"method": method, "noise": noise}
    k = F.expected_cosine(snr, dim, full_dim=1000, generator=seeded(), **options)
    assert k.shape == (3, 4)
    assert F.expected_cosine(0.5, 3, generator=seeded(), **options).shape == ()
    assert F.expected_cosine(0.5, dim, generator=seeded(), **options).shape == (4,)
    full = torch.full((5, 1, 1), 800)
    assert F.expected_cosine(snr, dim, full_dim=full, generator=seeded(), **options).shape == (5, 3, 4)
    if method != "monte_carlo":
        each = [[float(F.expected_cosine(c, d, **options)) for d in dim] for c in snr[:, 0]]
        torch.testing.assert_close(k, torch.tensor(each), rtol=2e-6, atol=0)


@pytest.mark.parametrize("method", METHODS)
def test_precision_follows_the_snr(method):
    assert F.expected_cosine(0.5, 3, method=method).dtype == torch.float64
    assert F.expected_cosine(1, 3, method=method).dtype == torch.float64
    assert F.expected_cosine(np.float32(0.5), 3, method=method).dtype == torch.float64
    for dtype in (torch.float16, torch.bfloat16):
        snr = torch.tensor([0.0, 0.3, 2.0, math.inf], dtype=dtype)
        k = F.expected_cosine(snr, 78, method=method, generator=seeded())
        assert k.dtype == torch.float32
        assert torch.equal(k, F.expected_cosine(snr.float(), 78, method=method, generator=seeded()))


@pytest.mark.parametrize("noise", LAWS.values(), ids=LAWS)
def test_draws_follow_the_generator_and_nothing_else(noise):
    snr, options = torch.full((4, 5), 0.3), {"method": "monte_carlo", "noise": noise, "full_dim": 9}
    before = torch.random.get_rng_state()
    generator = seeded(3)
    first = F.expected_cosine(snr, 5, generator=generator, **options)
    second = F.expected_cosine(snr, 5, generator=generator, **options)
    assert torch.equal(first, F.expected_cosine(snr, 5, generator=seeded(3), **options))
    assert not torch.equal(first, second)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("noise", LAWS.values(), ids=LAWS)
def test_every_element_has_draws_of_its_own(noise):
    n = 2000
    k = F.expected_cosine(
        torch.full((n, 2), 0.3),
        3,
        method="monte_carlo",
        noise=noise,
        full_dim=6,
        samples=2,
        generator=seeded(),
    )
    assert len(k.unique()) > 0.99 * k.numel()
    rows = torch.stack([k[:, 0], k[:, 1], k[:, 0].roll(1)])
    off_diagonal = torch.corrcoef(rows)[[0, 0, 1], [1, 2, 2]]
    assert float(off_diagonal.abs().max()) < 5 / math.sqrt(n)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("noise", ["gaussian", "mixture"])
def test_k_is_not_spoilt_by_mixed_precision(method, noise):
    c, options = torch.tensor(SNRS), {"method": method, "noise": LAWS[noise]}
    plain = F.expected_cosine(c, 78, generator=seeded(), **options)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = F.expected_cosine(c, 78, generator=seeded(), **options)
    assert mixed.dtype == torch.float32
    torch.testing.assert_close(mixed, plain, rtol=1e-6, atol=0)


# --- snr


def snr_by_hand(x, x_tilde, b):
    """ĉ of one sample, given as lists."""
    kept = [(u, v) for u, v, use in zip(x, x_tilde, b, strict=True) if use]
    inner = math.fsum(u * v for u, v in kept)
    distance2 = math.fsum((u - v) ** 2 for u, v in kept)
    return math.sqrt(2 * max(inner, 0.0) / distance2) if distance2 else math.inf


@pytest.mark.parametrize("shape", [(6,), (2, 3), (2, 4, 5)])
@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_snr_is_its_formula_on_the_masked_entries(shape, dtype, rtol):
    numbers = random.Random(0)  # noqa: S311  (test data)
    n, size = 20, math.prod(shape)

    def batch(draw):
        return [[draw() for _ in range(size)] for _ in range(n)]

    # The first entry is large and always counts, so that no inner product is zero but for rounding.
    x = torch.tensor(batch(lambda: numbers.gauss(0, 1)), dtype=dtype)
    x_tilde = torch.tensor(batch(lambda: numbers.gauss(0, 1)), dtype=dtype)
    x[:, 0], x_tilde[:, 0] = 4, torch.tensor([4.0, -4.0] * (n // 2), dtype=dtype)
    b = torch.tensor(batch(lambda: numbers.random() < 0.6))
    b[:, 0] = True
    by_hand = [snr_by_hand(*rows) for rows in zip(x.tolist(), x_tilde.tolist(), b.tolist(), strict=True)]
    assert any(c > 0 for c in by_hand)
    assert 0.0 in by_hand
    estimate = F.snr(x.reshape(n, *shape), x_tilde.reshape(n, *shape), b.reshape(n, *shape))
    torch.testing.assert_close(estimate, torch.tensor(by_hand, dtype=dtype), rtol=rtol, atol=0)


def test_snr_at_its_ends():
    x = torch.tensor([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [0.0, 0.0]])
    x_tilde = torch.tensor([[1.0, 2.0], [-1.0, -2.0], [2.0, -1.0], [1.0, 0.0]])
    assert F.snr(x, x_tilde).tolist() == [math.inf, 0, 0, 0]


def test_snr_looks_at_masked_entries_only():
    x, x_tilde = torch.randn(2, 5, 7, generator=seeded()).double().unbind(0)
    b = torch.zeros(5, 7, dtype=torch.bool)
    b[:, 2:5] = True
    inside = F.snr(x[:, 2:5], x_tilde[:, 2:5])
    torch.testing.assert_close(F.snr(x, x_tilde, b), inside, rtol=1e-12, atol=0)
    assert torch.equal(F.snr(x, x_tilde, b[:1]), F.snr(x, x_tilde, b))
    assert torch.equal(F.snr(x, x_tilde, b.int()), F.snr(x, x_tilde, b))
    assert torch.equal(F.snr(x, x_tilde, b.half()), F.snr(x, x_tilde, b))
    assert torch.equal(F.snr(x, x_tilde), F.snr(x, x_tilde, torch.ones(5, 7)))
    assert F.snr(x, x_tilde, torch.zeros(5, 7)).tolist() == [math.inf] * 5


@pytest.mark.parametrize("garbage", [math.nan, math.inf, 1e30, 0.0])
@pytest.mark.parametrize("masked", [True, False])
def test_snr_never_sees_padding(garbage, masked):
    x, x_tilde = torch.randn(2, 4, 9, generator=seeded()).double().unbind(0)
    valid = torch.arange(9) < torch.tensor([9, 5, 7, 3])[:, None]
    b = torch.rand(4, 9, generator=seeded()) < 0.7 if masked else None
    padded = [v.masked_fill(~valid, garbage) for v in (x, x_tilde)]
    each = []
    for i in range(4):
        kept = valid[i]
        mask = None if b is None else b[i, kept][None]
        each.append(F.snr(x[i, kept][None], x_tilde[i, kept][None], mask))
    torch.testing.assert_close(F.snr(*padded, b, valid=valid), torch.cat(each), rtol=1e-12, atol=0)


def test_snr_of_half_precision_is_that_of_float32():
    for dtype in (torch.float16, torch.bfloat16):
        x, x_tilde = torch.randn(2, 5, 300, generator=seeded()).to(dtype).unbind(0)
        x_tilde = (x + x_tilde).to(dtype)
        estimate = F.snr(x, x_tilde)
        assert estimate.dtype == torch.float32
        torch.testing.assert_close(estimate, F.snr(x.float(), x_tilde.float()), rtol=1e-6, atol=0)


def test_snr_is_not_spoilt_by_mixed_precision():
    x, x_tilde = torch.randn(2, 5, 300, generator=seeded()).unbind(0)
    x_tilde = x + x_tilde
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = F.snr(x, x_tilde)
    assert mixed.dtype == torch.float32
    torch.testing.assert_close(mixed, F.snr(x, x_tilde), rtol=1e-6, atol=0)


@pytest.mark.parametrize("scale", [1e-25, 1e-12, 1e12, 1e25])
def test_snr_does_not_depend_on_the_unit_or_says_so(scale):
    x, x_tilde = torch.randn(2, 5, 30, generator=seeded()).unbind(0)
    x_tilde = x + 0.5 * x_tilde
    try:
        estimate = F.snr(scale * x, scale * x_tilde)
    except ValueError as error:
        assert "rescale" in str(error)  # noqa: PT017  (either outcome is right)
    else:
        torch.testing.assert_close(estimate, F.snr(x, x_tilde), rtol=1e-4, atol=0)


def test_snr_estimates_the_true_ratio():
    """For large D, ĉ is ‖s‖/(σ√D) up to O(1/√D) (Theorem 2)."""
    dim = 40_000
    clean = torch.randn(1, dim, generator=seeded()).double()
    for c in (0.3, 1.0, 3.0):
        sigma = float(clean.norm()) / math.sqrt(dim) / c
        noise = torch.randn(2, 50, dim, generator=seeded(1)).double()
        estimates = F.snr(clean + sigma * noise[0], clean + sigma * noise[1])
        assert float((estimates - c).abs().max()) < 5 * (c + 1 / c) / math.sqrt(dim)


# --- the weight


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("power", [1.0, 0.0, -1.0, 0.5])
@pytest.mark.parametrize("floor", [0.05, 0.2, 1.0])
def test_weight_is_a_power_of_the_floored_k(method, power, floor):
    snr = torch.tensor([0.0, 0.01, 0.3, 1.0, 10.0, math.inf], dtype=torch.float64)
    dim = torch.tensor([3.0, 1.0, 78.0, 2.0, 784.0, 5.0], dtype=torch.float64)
    options = {"method": method, "samples": 50}
    weight = F.denoising_weight(snr, dim, floor=floor, power=power, generator=seeded(), **options)
    k = F.expected_cosine(snr, dim, generator=seeded(), **options)
    if method == "monte_carlo":  # at c = 0 the estimate itself, not its known mean, is floored
        weight, k = weight[1:], k[1:]
    expected = [max(value, floor) ** -power for value in k.tolist()]
    torch.testing.assert_close(weight, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=0)
    assert weight[-1] == 1


@pytest.mark.parametrize("power", [1.0, 0.0, -1.0, 0.5])
@pytest.mark.parametrize("eta", [1e-3, 0.1, 2.0])
def test_soft_weight_is_its_formula(power, eta):
    """Remark 3: √(ĉ² + 1)/(ĉ + η)."""
    c = [0.0, 0.01, 0.3, 1.0, 10.0]
    snr = torch.tensor([*c, math.inf], dtype=torch.float64)
    weight = F.denoising_weight(snr, torch.full_like(snr, 7), eta=eta, power=power)
    expected = [(math.sqrt(v**2 + 1) / (v + eta)) ** power for v in c]
    torch.testing.assert_close(weight[:-1], torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=0)
    assert float(weight[-1]) == pytest.approx(1, abs=1e-8)


@pytest.mark.parametrize("floor", [0.2, 1.0])
def test_paper_weight_is_one_over_the_monte_carlo_estimate(floor):
    snr = torch.tensor([0.01, 0.1, 0.3, 1.0, 10.0], dtype=torch.float64)
    dim = torch.tensor([1.0, 2.0, 6.0, 78.0, 784.0], dtype=torch.float64)
    weight = F.denoising_weight(
        snr,
        dim,
        variant="paper",
        method="asymptotic",
        floor=floor,
        power=-1,
        eta=0.5,
        noise=LAWS["mixture"],
        generator=seeded(),
    )
    k = F.expected_cosine(snr, dim, method="monte_carlo", generator=seeded())
    torch.testing.assert_close(weight, 1 / k, rtol=1e-12, atol=0)


def test_paper_weight_takes_either_sign_and_no_other_does():
    snr, dim = torch.full((500,), 0.01), torch.full((500,), 3.0)
    paper = F.denoising_weight(snr, dim, variant="paper", samples=5, generator=seeded())
    assert bool((paper < 0).any())
    assert bool((paper > 0).any())
    for method in METHODS:
        for power in (1, 0, -1, 0.5):
            weight = F.denoising_weight(snr, dim, method=method, power=power, samples=5, generator=seeded())
            assert bool((weight > 0).all())


def test_paper_weight_of_a_zero_estimate_is_zero():
    """In one dimension the cosine is a sign, and two signs may cancel."""
    snr, dim = torch.full((50,), 1e-6), torch.ones(50)
    weight = F.denoising_weight(snr, dim, variant="paper", samples=2, generator=seeded())
    assert set(weight.tolist()) == {-1.0, 0.0, 1.0}


def test_weight_of_half_precision_is_that_of_float32():
    for dtype in (torch.float16, torch.bfloat16):
        snr = torch.tensor([0.0, 0.3, 2.0, math.inf], dtype=dtype)
        dim = torch.tensor([2.0, 6.0, 78.0, 100.0], dtype=dtype)
        for options in ({}, {"method": "asymptotic"}, {"eta": 0.1}):
            weight = F.denoising_weight(snr, dim, **options)
            assert weight.dtype == torch.float32
            torch.testing.assert_close(weight, F.denoising_weight(snr.float(), dim.float(), **options))


def test_weight_takes_an_integer_dimension():
    snr = torch.tensor([0.1, 0.5, 2.0])
    for method in METHODS:
        weights = [
            F.denoising_weight(snr, dim, method=method, generator=seeded())
            for dim in (torch.tensor([1, 6, 78]), torch.tensor([1.0, 6.0, 78.0]))
        ]
        assert torch.equal(*weights)


@law
@given(
    c=st.floats(0, allow_nan=False),
    dim=st.integers(1, 10**6),
    floor=st.floats(1e-3, 1),
    power=st.floats(-2, 2),
    method=st.sampled_from(METHODS),
    seed=st.integers(0, 2**32),
)
def test_weight_is_bounded_by_the_floor(c, dim, floor, power, method, seed):
    snr, dims = torch.tensor([c], dtype=torch.float64), torch.tensor([float(dim)], dtype=torch.float64)
    options = {"method": method, "samples": 4, "floor": floor, "power": power}
    weight = float(F.denoising_weight(snr, dims, generator=seeded(seed), **options))
    low, high = sorted([1.0, floor**-power])
    assert low * (1 - 1e-12) <= weight <= high * (1 + 1e-12)

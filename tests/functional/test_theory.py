"""The paper's theory, by simulation with stated tolerances.

Unless a test says otherwise, a simulated mean must lie within 5 standard errors of what the theory
predicts: by chance a single such comparison fails once in a million seeds, and the seeds are fixed.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.special import ncfdtr
from torch.nn.functional import avg_pool2d, conv2d

import dcs.functional as F
from dcs.masking import BlindSpot
from dcs.noise import Gaussian, GaussianScaleMixture, Sphere
from tests.helpers import seeded

F64 = torch.float64
MIXTURE = GaussianScaleMixture([0.5, 1.0, 2.0], [0.3, 0.5, 0.2])


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """On a busy machine, threads that wait for each other make these small tensors six times slower."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def randn(*shape, generator):
    return torch.randn(shape, dtype=F64, generator=generator)


def assert_mean(values, target, target_error=0.0):
    """Mean over the first axis equal to `target` within 5 standard errors, the target's own included."""
    deviation = (values.mean(0) - target).abs()
    error = torch.hypot(values.std(0) / len(values) ** 0.5, torch.as_tensor(target_error, dtype=values.dtype))
    assert (deviation <= 5 * error).all(), f"{deviation} is more than 5 standard errors of {error}"


def log_slope(dims, values):
    return np.polyfit(np.log(np.asarray(dims)), np.log(np.asarray(values)), 1)[0]


def sphere_cosine(c, dim, full_dim, samples=2_000_000):
    """k for `dim` of `full_dim` entries of sphere noise, and its standard error (a cosine varies by < 1)."""
    k = F.expected_cosine(
        c,
        dim,
        method="monte_carlo",
        noise=Sphere(),
        full_dim=full_dim,
        samples=samples,
        generator=seeded(99),
    )
    return float(k), samples**-0.5


def tanh_network(dim, generator):
    """A random network with one hidden layer, tied weights and a skip connection."""
    weight, bias = randn(dim, dim, generator=generator) / dim**0.5, randn(dim, generator=generator)
    return lambda x: x + (x @ weight + bias).tanh() @ weight.T


@pytest.mark.parametrize("noise", [Gaussian(), MIXTURE, Sphere()])
def test_lemma_1_mean_direction_of_noisy_vector_is_k_times_clean_direction(noise):
    n, dim, sigma = 300_000, 5, 1.3
    generator = seeded(0)
    s = randn(dim, generator=generator)
    c = float(s.norm()) / (sigma * dim**0.5)
    x = s + sigma * noise.sample((n, dim), generator, dtype=F64)
    if isinstance(noise, Sphere):
        k, k_error = sphere_cosine(c, dim, dim)
    else:
        k, k_error = float(F.expected_cosine(c, dim, noise=noise)), 0.0
    unit = s / s.norm()
    assert_mean(x / x.norm(dim=1, keepdim=True), k * unit, k_error * unit.abs())


def both_sides_of_theorem_1(noise, dim, masked, c, n=300_000):
    """Draws of l_CS(b⊙s, b⊙h(x̃)) and l_CS(b⊙x, b⊙h(x̃)), with c the SNR on the masked entries."""
    generator = seeded(0)
    h = tanh_network(dim, generator)
    b = torch.zeros(1, dim, dtype=torch.bool)
    b[0, torch.randperm(dim, generator=generator)[:masked]] = True
    s = randn(1, dim, generator=generator)
    sigma = float((b * s).norm()) / (c * masked**0.5)
    x, x_tilde = (s + sigma * noise.sample((n, dim), generator, dtype=F64) for _ in range(2))
    prediction = h(x_tilde)
    clean = F.cosine_loss(s.expand(n, dim), prediction, b, reduction="none")
    noisy = F.cosine_loss(x, prediction, b, reduction="none")
    assert abs(float(clean.mean())) > 0.3, "near 0 any k would do"
    return clean, noisy


@pytest.mark.parametrize("noise", [Gaussian(), MIXTURE])
def test_theorem_1_noisy_loss_over_k_is_clean_loss_for_a_nonlinear_model(noise):
    clean, noisy = both_sides_of_theorem_1(noise, dim=12, masked=5, c=0.6)
    k = float(F.expected_cosine(0.6, 5, noise=noise))
    assert_mean(noisy / k - clean, 0.0)


def test_theorem_1_for_sphere_noise_holds_with_the_marginal_law_and_not_with_the_small_sphere():
    clean, noisy = both_sides_of_theorem_1(Sphere(), dim=8, masked=2, c=0.7)
    k, k_error = sphere_cosine(0.7, 2, full_dim=8)
    wrong_k, _ = sphere_cosine(0.7, 2, full_dim=2)
    rounding = 0.0005
    assert abs(k - 0.519) <= rounding + 5 * k_error
    assert abs(wrong_k - 0.376) <= rounding + 5 * k_error
    assert_mean(noisy / k - clean, 0.0, k_error / k * float(clean.mean()))
    wrong = noisy / wrong_k - clean
    assert abs(float(wrong.mean())) > 20 * float(wrong.std()) / len(wrong) ** 0.5


def masked_and_full_loss(s, prediction, rho):
    """E_b[l_CS(b⊙ŝ, b⊙s)] over all 2^D masks, exactly, and l_CS(ŝ, s); one of each a row."""
    masked = torch.zeros(len(s), dtype=F64)
    for b in itertools.product((0, 1), repeat=s.shape[1]):
        probability = rho ** sum(b) * (1 - rho) ** (len(b) - sum(b))
        masked += probability * F.cosine_loss(prediction, s, torch.tensor([b]), reduction="none")
    return masked, F.cosine_loss(prediction, s, reduction="none")


@pytest.mark.parametrize("rho", [0.1, 0.5, 0.9])
def test_proposition_1_masked_loss_is_bounded_by_full_loss_on_both_sides_for_positive_vectors(rho):
    """M₁|ℓ| <= |ℓ_masked| <= M₂|ℓ|, with 0 < M₁ <= M₂ that depend on the range of the data and rho alone.

    Entries in [low, high] have a cosine of at least 2·low·high/(low² + high²) on any mask (the inequality
    of Pólya and Szegő), and at most 1. Both losses are negative, so it is their sizes that are ordered.
    """
    low, high, dim = 1.0, 20.0, 5
    generator = seeded(2)
    corners = low + (high - low) * torch.randint(2, (2, 1000, dim), generator=generator).to(F64)
    inside = low * (high / low) ** torch.rand((2, 1000, dim), dtype=F64, generator=generator)
    one_large = inside.clamp(max=4).index_fill(2, torch.tensor(0), high)
    s, prediction = torch.cat([corners, inside, one_large], dim=1)
    masked, full = masked_and_full_loss(s, prediction, rho)
    least = 2 * low * high / (low**2 + high**2)
    not_empty = 1 - (1 - rho) ** dim
    ratio = masked / full
    assert (ratio >= not_empty * least - 1e-12).all()
    assert (ratio <= not_empty / least + 1e-12).all()
    # Neither constant may be not_empty itself: the bound is about vectors that differ.
    assert ratio.min() < 0.999 * not_empty
    assert ratio.max() > 1.5 * not_empty


def test_proposition_1_fails_where_an_inner_product_is_negative():
    """Two equally likely samples with D = 2, rho = 1/2: full loss 0, masked loss −1/4, so no M₂ exists."""
    s = torch.tensor([[1.0, 3.0], [1.0, 2.0]], dtype=F64)
    prediction = torch.tensor([[3.0, 1.0], [1.0, -2.0]], dtype=F64)
    masked, full = masked_and_full_loss(s, prediction, rho=0.5)
    torch.testing.assert_close(full, torch.tensor([-0.6, 0.6], dtype=F64), rtol=0, atol=1e-15)
    assert abs(float(full.mean())) <= 1e-15
    assert abs(float(masked.mean()) + 0.25) <= 1e-15


# With E[s_d] = ±1, E[s_d²] = 1.5 and σ = 1, the best a·x̃ has a = 1.5/2.5 and the best 0.6·x̃ + t·E[s] has
# t = 0.4; the best clipping is not known beforehand.
PREDICTORS = {
    "scale": (lambda x_tilde, mean, a: a * x_tilde, 0.6),
    "shift": (lambda x_tilde, mean, t: 0.6 * x_tilde + t * mean, 0.4),
    "clip": (lambda x_tilde, mean, t: x_tilde.clamp(-2 * t, 2 * t), None),
}


@pytest.mark.parametrize("family", PREDICTORS)
def test_proposition_2_noise2void_risk_is_the_clean_risk_plus_a_constant(family):
    """Summed, the constant is ρDσ²; as a mean over masked entries, it is σ² times P(mask not empty).

    `noise2void_loss` divides by ‖b‖₁ and an empty mask adds 0. Given ‖b‖₁ all masks are equally likely, so
    E[‖b⊙(ŝ − s)‖²/‖b‖₁] = P(‖b‖₁ > 0)·E‖ŝ − s‖²/D: the same factor for every predictor.
    """
    n, dim, rho, sigma = 50_000, 12, 0.2, 1.0
    generator = seeded(3)
    mean = torch.ones(dim, dtype=F64)
    mean[::2] = -1
    s = mean + 0.5**0.5 * randn(n, dim, generator=generator)
    x, x_tilde = (s + sigma * randn(n, dim, generator=generator) for _ in range(2))
    b = torch.rand((n, dim), generator=generator) < rho
    not_empty = 1 - (1 - rho) ** dim
    predict, best = PREDICTORS[family]
    grid = [round(0.1 + 0.05 * i, 2) for i in range(17)]
    noisy_risk, clean_risk = [], []
    for parameter in grid:
        prediction = predict(x_tilde, mean, parameter)
        noisy = F.noise2void_loss(prediction, x, b, reduction="none")
        masked = F.noise2void_loss(prediction, s, b, reduction="none")
        clean = F.noise2void_loss(prediction, s, None, reduction="none")
        assert_mean((noisy - masked) * b.sum(1), rho * dim * sigma**2)
        assert_mean(noisy - masked, not_empty * sigma**2)
        assert_mean(masked - not_empty * clean, 0.0)
        noisy_risk.append(float(noisy.mean()))
        clean_risk.append(float(clean.mean()))
    chosen = grid[int(np.argmin(noisy_risk))]
    assert chosen == grid[int(np.argmin(clean_risk))]
    assert grid[0] < chosen < grid[-1]
    assert best is None or chosen == best


def test_proposition_2_needs_independent_noises():
    """With x̃ = x the squared error to x prefers a = 1 in a·x̃, and not the a = 0.6 that is best for s."""
    n, dim = 20_000, 12
    generator = seeded(4)
    x = 1.5**0.5 * randn(n, dim, generator=generator) + randn(n, dim, generator=generator)
    b = torch.rand((n, dim), generator=generator) < 0.2
    grid = [round(0.1 * i, 1) for i in range(3, 12)]
    risk = [float(F.noise2void_loss(a * x, x, b)) for a in grid]
    assert grid[int(np.argmin(risk))] == 1.0


def snr_estimates(snrs, dim, n, seed):
    """ĉ for each c of `snrs`, (len(snrs), n), from independent pairs with unit noise; the noise is shared."""
    generator = seeded(seed)
    parts = []
    for start in range(0, n, size := max(1, 2**21 // dim)):
        noises = torch.randn((2, min(size, n - start), dim), generator=generator)
        parts.append(torch.stack([F.snr(*(noises + c)) for c in snrs]))
    return torch.cat(parts, dim=1).double()


def test_theorem_2_error_of_estimated_snr_falls_like_one_over_root_dim():
    """Slope −1/2 ± 0.06: 5 standard errors of the fit are 0.02, and small D bends it by about 0.01.

    The theorem's own bound holds with probability 1 − δ from D = (12·log(12/δ))² on (c = 1, σ̄ = σ).
    """
    c, n, dims = 1.0, 2000, [64, 256, 1024, 4096, 16384]
    error = [(snr_estimates([c], dim, n, seed=dim)[0] - c).abs() for dim in dims]
    assert -0.56 <= log_slope(dims, [float(e.square().mean().sqrt()) for e in error]) <= -0.44
    delta = 0.01
    assert dims[-1] >= (12 * math.log(12 / delta)) ** 2
    bound = 12 * (c + 1 / c) * math.log(12 / delta) / dims[-1] ** 0.5
    assert float((error[-1] <= bound).double().mean()) > 1 - delta


def test_spread_of_estimated_snr_is_that_of_the_delta_method():
    """D·Var ĉ -> 1 + c²/2 + 1/(4c²) for Gaussian noise, within 3 % in the standard deviation.

    With A = xᵀx̃/D and B = ‖x − x̃‖²/(2D), ĉ = √(A/B). For u, v = (ε ± ε̃)/√2, which are independent,
    A = (‖√2·s + u‖² − ‖v‖²)/(2D) and B = ‖v‖²/D. So, in units of σ⁴/D, Var A = 2c² + 1, Var B = 2 and
    Cov = −1; the slopes of √(A/B) at (c², 1)·σ² are 1/(2c) and −c/2. Five standard errors of a standard
    deviation from n draws are 5/√(2n) = 2.9 %.
    """
    snrs, dim, n = [0.5, 1.0, 2.0], 2048, 15_000
    for c, estimates in zip(snrs, snr_estimates(snrs, dim, n, seed=5), strict=True):
        predicted = ((1 + c**2 / 2 + 1 / (4 * c**2)) / dim) ** 0.5
        assert abs(float(estimates.std()) / predicted - 1) <= 0.03


DIMS = [64.0, 256.0, 1024.0, 4096.0, 16384.0]


@pytest.mark.parametrize("c", [0.2, 0.5, 1.0, 2.0])
def test_theorem_3_gaussian_k_approaches_its_limit_like_one_over_dim(c):
    """k = c/√(1 + c²)·[1 + (2c² − 1)/(4D(1 + c²)²) + O(D⁻²)]: slopes −1 and, for the rest, −2, ± 0.03."""
    dim = torch.tensor(DIMS, dtype=F64)
    k = F.expected_cosine(torch.tensor(c, dtype=F64), dim)
    limit = F.expected_cosine(c, 1, method="asymptotic")
    assert abs(float(limit) - c / math.sqrt(1 + c**2)) <= 1e-15
    first_order = limit * (2 * c**2 - 1) / (4 * dim * (1 + c**2) ** 2)
    assert abs(log_slope(DIMS, (k - limit).abs()) + 1) <= 0.03
    assert abs(log_slope(DIMS, (k - limit - first_order).abs()) + 2) <= 0.03


def test_theorem_3_needs_the_noise_level_to_concentrate():
    """Of a mixture whose scale S keeps its spread for all D, k tends to the mean over S of the limits."""
    c, dim = 0.5, 100_000
    limit = c / math.sqrt(1 + c**2)
    noise = GaussianScaleMixture([0.5, 1.5])
    mean_limit = sum(
        p * (c / scale) / math.hypot(c / scale, 1)
        for scale, p in zip(noise.scales, noise.probabilities, strict=True)
    )
    k = float(F.expected_cosine(c, dim, noise=noise))
    assert abs(k - mean_limit) <= 1 / dim
    assert k - limit > 0.09
    # Where √D·(S² − 1) stays bounded (Remark 2), the theorem holds again, with its rate or a better one.
    error = []
    for d in DIMS:
        spread = 2 / math.sqrt(d)
        noise = GaussianScaleMixture([math.sqrt(1 - spread), math.sqrt(1 + spread)])
        error.append(abs(float(F.expected_cosine(c, int(d), noise=noise)) - limit))
    assert log_slope(DIMS, error) <= -0.5


RHOS = [0.05, 0.1, 0.3, 0.6, 1.0]


def test_remark_4_masked_noises_overlap_more_with_larger_rho():
    """On pure noise, what of the masked noise b⊙ε reaches x̃, where the model could read it.

    - The correlation of ε_d with ε̃_d at a masked entry is 0 for every rho: a neighbour is copied.
    - The share of masked entries of x̃ that hold the noise of another masked entry, which is also
      ‖Cov(b⊙ε, b⊙ε̃ | b)‖_F²/‖b‖₁: rho.
    - The share of the values of b⊙ε that are still to be seen somewhere in x̃: the mean over the entries d
      of 1 − Π(1 − rho/m), over the neighbours of d, which have m neighbours themselves.

    Values are compared for equality, which finds the source of a copy: no two draws are equal.
    """
    n, side = 1000, 16
    ones, window = torch.ones(1, 1, side, side, dtype=F64), torch.ones(1, 1, 3, 3, dtype=F64)
    neighbours = conv2d(ones, window, padding=1) - 1
    overlap, seen = [], []
    for rho in RHOS:
        generator = seeded(6)
        noise = randn(n, side, side, generator=generator)
        noise_tilde, b = BlindSpot(rho, min_masked=0)(noise, generator)
        assert_mean((noise * noise_tilde)[b], 0.0)

        masked = b.sum((1, 2))
        from_masked = (torch.isin(noise_tilde, noise[b]) & b).sum((1, 2))
        assert_mean(from_masked - rho * masked, 0.0)
        overlap.append(int(from_masked.sum()) / int(masked.sum()))

        log_missed = torch.log1p(-rho / neighbours)
        expected = float((1 - (conv2d(log_missed, window, padding=1) - log_missed).exp()).mean())
        still_there = (torch.isin(noise, noise_tilde) & b).sum((1, 2))
        assert_mean(still_there - expected * masked, 0.0)
        seen.append(int(still_there.sum()) / int(masked.sum()))
    assert overlap == sorted(overlap)
    assert seen == sorted(seen)
    assert max(overlap[0], seen[0]) < 0.06 < 0.6 < min(overlap[-1], seen[-1])


def test_remark_4_theorem_1_holds_approximately_for_blind_spot_masking_at_small_rho():
    """Noisy loss over the true k exceeds the clean loss by a share in proportion to rho: 12 % at rho = 1.

    The model is a 3×3 mean filter, the clean image is constant. The filter reads the noise of the entry it
    predicts wherever a neighbour has copied it. With m neighbours of an entry, their covariance is
    Σ(rho/m over the neighbours)/(m + 1), and relative to c² = 1 its mean over the entries is the excess, to
    first order: hence 5 standard errors plus 5 %.
    """
    n, side, c = 2000, 16, 1.0
    ones, window = torch.ones(1, 1, side, side, dtype=F64), torch.ones(1, 1, 3, 3, dtype=F64)
    size = conv2d(ones, window, padding=1)
    copies = conv2d(1 / (size - 1), window, padding=1) - 1 / (size - 1)
    excess = []
    for rho in RHOS:
        generator = seeded(7)
        x = c + randn(n, side, side, generator=generator)
        x_tilde, b = BlindSpot(rho)(x, generator)
        prediction = avg_pool2d(x_tilde[:, None], 3, 1, 1, count_include_pad=False)[:, 0]
        clean = F.cosine_loss(torch.full_like(x, c), prediction, b, reduction="none")
        snr = torch.full((n,), c, dtype=F64)
        noisy = F.denoising_cosine_loss(prediction, x, x_tilde, b, snr=snr, reduction="none")
        excess.append(float((noisy - clean).mean() / clean.mean()))
        predicted = rho * float((copies / size).mean()) / c**2
        error = float((noisy - clean).std() / clean.mean().abs()) / n**0.5
        assert abs(excess[-1] - predicted) <= 5 * error + 0.05 * predicted
    assert excess[1:] == sorted(excess[1:])
    assert max(excess[:2]) < 0.03 < 0.1 < excess[-1]


def relative_losses(dim, c, cosine, floors, n=20_000, seed=8):
    """Draws of cos(x, h)/k relative to cos(s, h): with the true k, then with k̂ for each floor."""
    generator = seeded(seed)
    s, h = torch.zeros(2, dim, dtype=F64)
    s[0] = c * dim**0.5
    h[0], h[1] = cosine, (1 - cosine**2) ** 0.5
    parts = []
    for start in range(0, n, size := min(n, 2**20 // dim)):
        x, x_tilde = s + randn(2, min(size, n - start), dim, generator=generator)
        settings = [{"snr": torch.full_like(x[:, 0], c), "floor": 1e-6}]
        settings += [{"floor": floor} for floor in floors]
        parts.append(
            torch.stack(
                [
                    F.denoising_cosine_loss(h.expand_as(x), x, x_tilde, None, reduction="none", **setting)
                    for setting in settings
                ]
            )
        )
    return torch.cat(parts, dim=1) / -cosine


# Mean and standard deviation with the true k, with k̂ and floor 0.05, and with k̂ and floor 0.2, from an
# independent computation, as it was rounded. cos(s, h) is set so that the spread with the true k is met.
PLUG_IN = [
    (78, 0.5, 0.90, [("1.00", "0.22"), ("1.33", "1.32"), ("1.11", "0.41")]),
    (20, 0.5, 0.88, [("1.00", "0.46"), ("2.17", "3.0"), ("1.18", "0.77")]),
    (6, 0.5, 0.96, [("0.98", "0.79"), ("2.5", "4.9"), ("1.12", "1.3")]),
    (784, 0.2, 0.90, [("1.00", "0.19"), ("1.49", "1.11"), ("0.88", "0.20")]),
]


@pytest.mark.parametrize(("dim", "c", "cosine", "expected"), PLUG_IN)
def test_plug_in_weight_has_the_known_bias_and_spread(dim, c, cosine, expected):
    """5 standard errors of the mean, or of the standard deviation, plus half a unit of the last digit."""
    draws = relative_losses(dim, c, cosine, floors=[0.05, 0.2])
    assert_mean(draws[0], 1.0)
    for values, (mean, std) in zip(draws, expected, strict=True):
        root_n = len(values) ** 0.5
        std_error = float((values - values.mean()).square().std() / (2 * values.std())) / root_n
        assert abs(float(values.mean()) - float(mean)) <= 5 * float(values.std()) / root_n + half_unit(mean)
        assert abs(float(values.std()) - float(std)) <= 5 * std_error + half_unit(std)


def half_unit(rounded):
    """Half a unit of the last digit that is written."""
    return 0.5 * 10.0 ** -len(rounded.partition(".")[2])


def test_plug_in_weight_is_harmless_at_high_snr():
    """At c = 1, D = 78 the bias is below 2 % and the spread grows by less than 15 %, whatever the floor."""
    true, *plug_in = relative_losses(78, 1.0, 0.9, floors=[0.05, 0.2])
    for values in plug_in:
        assert abs(float(values.mean()) - 1) < 0.02
        assert float(values.std() / true.std()) < 1.15


@pytest.mark.parametrize(("dim", "c", "percent"), [(78, 0.2, 37), (20, 0.5, 18)])
def test_share_of_samples_with_zero_estimated_snr(dim, c, percent):
    """ĉ = 0 where ‖x + x̃‖ <= ‖x − x̃‖: a non-central F(D, D, 2c²D) variable of at most 1."""
    share = float(ncfdtr(dim, dim, 2 * c**2 * dim, 1.0))
    assert round(100 * share) == percent
    n, generator = 20_000, seeded(9)
    x, x_tilde = c + randn(2, n, dim, generator=generator)
    assert_mean((F.snr(x, x_tilde) == 0).double(), share)

"""GaussianSplit: two views of one sample, with independent noises."""

import math

import pytest
import torch

import dcs
from dcs import functional as F
from dcs import objectives
from dcs.noise import GaussianSplit
from dcs.training import make_objective, read_config
from tests.helpers import seeded


def draws(n, dim, sigma, seed=0):
    """One clean vector, and n noisy copies of it."""
    clean = torch.rand(dim, generator=seeded(seed), dtype=torch.float64)
    noise = sigma * torch.randn(n, dim, generator=seeded(seed + 1), dtype=torch.float64)
    return clean, clean + noise


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
def test_the_two_noises_are_independent_and_of_the_stated_deviations(alpha):
    n = 400_000
    clean, x = draws(n, 1, 0.7)
    seen, compared = (view - clean for view in GaussianSplit(0.7, alpha=alpha)(x, seeded(2)))
    assert seen.std().item() == pytest.approx(0.7 * math.sqrt(1 + alpha**2), rel=0.01)
    assert compared.std().item() == pytest.approx(0.7 * math.sqrt(1 + alpha**-2), rel=0.01)
    seen, compared = seen / seen.std(), compared / compared.std()
    for f in (lambda v: v, torch.square, torch.tanh, torch.abs):  # not the correlation alone
        product = (f(seen) - f(seen).mean()) * compared
        assert abs(product.mean().item()) < 4 * product.std().item() / math.sqrt(n)


def test_noise_of_another_law_comes_out_uncorrelated_only():
    n = 400_000
    noise = torch.empty(n, 1, dtype=torch.float64).exponential_(generator=seeded()) - 1
    seen, compared = GaussianSplit(1.0, alpha=1.0)(noise, seeded(1))
    spread = (seen * compared).std().item() / math.sqrt(n)
    assert abs((seen * compared).mean().item()) < 4 * spread
    assert (seen.square() * compared).mean().item() > 1  # the third moment of the exponential law is 2


@pytest.mark.parametrize("alpha", [0.7, 1.5])
def test_theorem_1_holds_for_a_nonlinear_model(alpha):
    n, dim, sigma = 200_000, 6, 0.5
    clean, x = draws(n, dim, sigma)
    weights = torch.randn(dim, dim, generator=seeded(5), dtype=torch.float64)
    x_tilde, target = GaussianSplit(sigma, alpha=alpha)(x, seeded(2))
    prediction = 0.5 + torch.tanh(x_tilde @ weights)
    c = clean.norm() / (sigma * math.sqrt(1 + alpha**-2) * math.sqrt(dim))
    k = F.expected_cosine(c, dim)
    noisy = -F.cosine_loss(target, prediction, reduction="none") / k
    wanted = -F.cosine_loss(clean.expand(n, dim), prediction, reduction="none")
    error = noisy - wanted
    assert abs(error.mean().item()) < 4 * error.std().item() / math.sqrt(n)
    assert abs(wanted.mean().item()) > 0.1
    # x itself in place of the split's target shares its noise with what the model sees.
    k_of_x = F.expected_cosine(clean.norm() / (sigma * math.sqrt(dim)), dim)
    biased = -F.cosine_loss(x, prediction, reduction="none") / k_of_x - wanted
    assert abs(biased.mean().item()) > 4 * biased.std().item() / math.sqrt(n)


def test_proposition_2_squared_error_to_the_target_is_the_clean_error_plus_its_variance():
    n, sigma, alpha = 200_000, 0.4, 1.5
    clean, x = draws(n, 3, sigma)
    split = GaussianSplit(sigma, alpha=alpha)
    x_tilde, target = split(x, seeded(2))
    prediction = torch.tanh(2 * x_tilde)
    difference = (prediction - target).square().mean(1) - (prediction - clean).square().mean(1)
    expected = sigma**2 * (1 + alpha**-2)
    assert abs(difference.mean().item() - expected) < 4 * difference.std().item() / math.sqrt(n)
    loss = objectives.Noise2Void(split)(lambda v: torch.tanh(2 * v), x, seeded(2))
    assert loss.item() == pytest.approx((prediction - target).square().mean().item())


def test_snr_is_that_of_the_target():
    sigma, alpha = 0.3, 1.5
    clean = torch.rand(50, 784, generator=seeded())
    x = dcs.noise.add(clean, "gaussian", sigma, seed=1)
    truth = clean.norm(dim=1) / (sigma * math.sqrt(1 + alpha**-2) * 28)
    assert torch.allclose(GaussianSplit(sigma, alpha=alpha).snr(x), truth, rtol=0.05)
    each = GaussianSplit(torch.full((784,), sigma), alpha=alpha)  # one a column
    assert torch.allclose(each.snr(x), GaussianSplit(sigma, alpha=alpha).snr(x))
    assert bool(GaussianSplit(0.0).snr(x).isinf().all())
    assert bool((GaussianSplit(100.0).snr(x) == 0).all())


def test_without_noise_it_is_the_plain_cosine_loss():
    x = torch.rand(5, 9, 9, generator=seeded())
    value = objectives.DenoisingCosine(GaussianSplit(0.0))(torch.tanh, x, seeded())
    assert torch.allclose(value, objectives.Cosine()(torch.tanh, x))


@pytest.mark.parametrize("sigma", [0.3, torch.full((6,), 0.3), torch.full((1, 9), 0.3)])
def test_padding_is_left_alone_and_never_counts(sigma):
    x = torch.rand(6, 9, generator=seeded())
    valid = torch.rand(x.shape, generator=seeded(1)) < 0.7
    objective, results = objectives.DenoisingCosine(GaussianSplit(sigma)), []
    for padding in (0.0, math.nan, 1e30):
        padded = x.where(valid, torch.tensor(padding))
        seen, compared = objective.masker(padded, seeded(2), valid=valid)
        for view in (seen, compared):
            assert torch.equal(view[~valid].nan_to_num(), padded[~valid].nan_to_num())
        results.append(objective(lambda v: 0.5 * v, padded, seeded(2), valid=valid))
    assert torch.allclose(results[0], results[1])
    assert torch.allclose(results[0], results[2])


def test_a_sigma_that_may_mean_two_things_is_refused():
    sigma, x = torch.linspace(0, 1, 16), torch.randn(16, 16, generator=seeded(0))
    for use in (GaussianSplit(sigma), lambda x: dcs.objectives.SURE(sigma)(torch.zeros_like, x)):
        with pytest.raises(ValueError, match=r"per sample or one per entry.*\(16, 1\) or \(1, 16\)"):
            use(x)
    column, row = (GaussianSplit(sigma.reshape(shape)) for shape in ((16, 1), (1, 16)))
    assert torch.equal(column(x)[0][0], x[0])
    assert torch.equal(row(x)[0][:, 0], x[:, 0])
    assert torch.equal(GaussianSplit(sigma)(x[:9])[0][:, 0], x[:9, 0])


def test_sigma_is_estimated_once_and_saved():
    noisy = 0.3 * torch.randn(40, 16, 16, generator=seeded())
    objective = objectives.DenoisingCosine(GaussianSplit())
    assert "sigma=None" in repr(objective)
    assert "\n" not in repr(objective)
    objective(lambda v: 0.5 * v, noisy, seeded())
    first = float(objective.masker.sigma)
    assert first == pytest.approx(0.3, rel=0.05)
    objective(lambda v: 0.5 * v, 5 * noisy, seeded())
    assert float(objective.masker.sigma) == first
    restored = objectives.DenoisingCosine(GaussianSplit())
    restored.load_state_dict(objective.state_dict())
    assert float(restored.masker.sigma) == first
    with pytest.raises(ValueError, match="pass sigma to GaussianSplit"):
        objectives.DenoisingCosine(GaussianSplit())(lambda v: v, torch.rand(2, 3))
    with pytest.raises(ValueError, match="padded data: pass sigma"):
        objectives.DenoisingCosine(GaussianSplit())(lambda v: v, noisy, valid=noisy > 0)


def test_oracles_know_the_true_snr_of_the_target():
    sigma, alpha = 0.4, 2.0
    clean = torch.rand(6, 9, 9, generator=seeded())
    x = dcs.noise.add(clean, "gaussian", sigma, seed=1)
    split = GaussianSplit(sigma, alpha=alpha)
    value = objectives.DenoisingCosineOracle(sigma, split, floor=1e-3)(torch.tanh, x, seeded(), clean)
    seen, compared = split(x, seeded())
    c = clean.flatten(1).norm(dim=1) / (sigma * math.sqrt(1 + alpha**-2) * 9)
    cosine = F.cosine_loss(compared, torch.tanh(seen), reduction="none")
    assert torch.allclose(value, (cosine / F.expected_cosine(c, 81)).mean())
    oracle = objectives.CosineOracle(split)(torch.tanh, x, seeded(), clean)
    assert torch.allclose(oracle, F.cosine_loss(clean, torch.tanh(seen)))


def test_training_estimates_sigma_from_many_samples_by_name_of_the_kind():
    x = dcs.noise.add(torch.rand(600, 8, 8, generator=seeded()).round(), "gaussian", 0.3, seed=1)
    config = read_config({"masking": {"kind": "split", "alpha": 2.0}, "max_epochs": 1, "n_components": 2})
    objective = make_objective(config)
    assert isinstance(objective.masker, GaussianSplit)
    assert objective.masker.alpha == 2.0
    network = dcs.models.build("mlp", (8, 8), 2, hidden=(8,))
    metrics = dcs.training.train(network, objective, x, config)
    assert float(objective.masker.sigma) == pytest.approx(dcs.noise.estimate_sigma(x), rel=1e-6)
    assert 0 < metrics[0]["k"] < 1
    encoder = dcs.DenoisingEncoder(max_epochs=1, n_components=2, masking={"kind": "split"}, random_state=0)
    assert encoder.fit_transform(x.numpy()).shape == (600, 2)


def test_spectrograms_can_be_split_too():
    config = read_config({"masking": {"kind": "split", "sigma": 0.5}, "front_end": {"rate": 8000}})
    assert isinstance(make_objective(config).masker, GaussianSplit)

"""Objectives: one call for all, each equal to what its definition says."""

import inspect
import math

import pytest
import torch
from torch import nn

from dcs import functional as F
from dcs import objectives
from dcs.masking import AmplitudeNeighbors, BlindSpot
from dcs.noise import GaussianSplit
from tests.helpers import seeded

NAMES = [name for name, entry in objectives.OBJECTIVES.items() if entry.factory.predicts]


def make(name):
    return objectives.get(name, **({"sigma": 0.3} if name == "sure" else {}))


@pytest.fixture
def x():
    return torch.rand(6, 1, 9, 9, generator=seeded())


@pytest.fixture
def pair(x):
    return x + 0.1 * torch.randn(x.shape, generator=seeded(1))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 1, 3, padding=1))


def test_registry_holds_the_names_of_the_contract():
    assert NAMES == ["mse", "cosine", "n2v", "r2r", "n2n", "sure", "dae", "dcs"]


@pytest.mark.parametrize("name", NAMES)
def test_one_call_for_all(name, model, x, pair):
    objective = make(name)
    with_pair = objective(model, x, seeded(), pair=pair)
    with_pair.backward()
    assert with_pair.shape == ()
    if name != "n2n":
        for batch in (x, x.squeeze(1)):
            h = model if batch.ndim == 4 else lambda v: model(v[:, None])[:, 0]
            first, again = (objective(h, batch, seeded()) for _ in range(2))
            assert torch.equal(first, again)
            first.backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())


@pytest.mark.parametrize("name", NAMES)
def test_docstrings_open_with_the_noise_that_is_assumed(name):
    assert inspect.getdoc(objectives.OBJECTIVES[name].factory).startswith("Assumes")


@pytest.mark.parametrize("name", NAMES)
def test_signature_is_the_same(name):
    parameters = list(inspect.signature(objectives.OBJECTIVES[name].factory.forward).parameters)
    assert parameters == ["self", "model", "x", "generator", "pair", "valid"]


def test_values_by_definition(model, x, pair):
    h = model(x)
    assert torch.allclose(make("mse")(model, x), (h - x).square().mean())
    assert torch.allclose(make("cosine")(model, x), F.cosine_loss(x, h))
    assert torch.allclose(make("n2n")(model, x, pair=pair), (model(pair) - x).square().mean())
    assert torch.allclose(make("mse")(model, x, pair=pair), make("n2n")(model, x, pair=pair))
    assert torch.allclose(make("sure")(model, x, pair=pair), (model(pair) - x).square().mean() - 0.3**2)
    assert torch.allclose(make("sure")(model, x, seeded()), F.sure_loss(model, x, 0.3, generator=seeded()))
    noise = torch.randn(x.shape, generator=seeded())
    assert torch.allclose(make("dae")(model, x, seeded()), (model(x + 0.1 * noise) - x).square().mean())


def test_masked_objectives_by_definition(model, x, pair):
    masker = BlindSpot(0.2)
    generator = seeded()
    x_tilde, b = masker(x, generator)
    prediction = model(x_tilde)
    n2v = objectives.Noise2Void(masker)(model, x, seeded())
    per_sample = [(p - t)[m].square().mean() for p, t, m in zip(prediction, x, b, strict=True)]
    assert torch.allclose(n2v, torch.stack(per_sample).mean())
    for options in ({}, {"power": 1.0, "floor": 0.05}, {"eta": 0.1}, {"method": "monte_carlo"}):
        full = {"power": -1.0, **options}
        state = generator.get_state()
        expected = F.denoising_cosine_loss(prediction, x, x_tilde, b, generator=generator, **full)
        generator.set_state(state)
        assert torch.allclose(objectives.DenoisingCosine(masker, **options)(model, x, seeded()), expected)
    expected = F.denoising_cosine_loss(model(pair), x, pair, None, power=-1.0)
    assert torch.allclose(objectives.DenoisingCosine()(model, x, pair=pair), expected)


def test_paper_variant_is_algorithm_1(model, x):
    """One mask with rho = 0.1 in a 3 x 3 window, Eq. 8 with 100 draws, and the mean of the ratios."""
    generator = seeded()
    x_tilde, b = BlindSpot(rho=0.1, radius=1, min_masked=0)(x, generator)
    prediction = model(x_tilde)
    ratios = []
    snr = F.snr(x, x_tilde, b)
    dims = b.flatten(1).sum(1).clamp(min=1)
    kappa = torch.randn((100, len(x)), generator=generator)
    nu = 2 * torch._standard_gamma(
        ((dims - 1) / 2).clamp(min=0.5).expand(100, -1).contiguous(), generator=generator
    )
    for i in range(len(x)):
        noisy = snr[i] + kappa[:, i] / dims[i].sqrt()
        k = (noisy / (noisy.square() + nu[:, i] / dims[i]).sqrt()).mean()
        u, v = x[i][b[i]], prediction[i][b[i]]
        ratios.append(-(u @ v) / (u.norm() * v.norm()) / k)
    loss = objectives.DenoisingCosine(variant="paper")(model, x, seeded())
    assert torch.allclose(loss, torch.stack(ratios).mean(), rtol=1e-4)


@pytest.mark.parametrize("name", ["n2v", "dcs"])
def test_default_masker_follows_the_shape(name):
    objective = make(name)
    for shape in ((4, 20), (4, 9, 9), (4, 3, 9, 9)):
        assert objective(lambda v: v, torch.rand(shape, generator=seeded()), seeded()).isfinite()
    assert objectives.get(name, masker=AmplitudeNeighbors())(
        lambda v: v, torch.rand(4, 20), seeded()
    ).isfinite()


@pytest.mark.parametrize("name", NAMES)
def test_padding_never_counts(name):
    lengths = (20, 14)
    x, pair = (torch.rand(2, 20, generator=seeded(s)) for s in (0, 1))
    valid = torch.arange(20) < torch.tensor(lengths)[:, None]
    objective = make(name)
    results = []
    for padding in (0.0, 7.0):
        padded, second = (t.where(valid, torch.tensor(padding)) for t in (x, pair))
        p = second if name == "n2n" else None
        results.append(objective(lambda v: 0.5 * v, padded, seeded(), pair=p, valid=valid))
    assert torch.allclose(*results)


def test_sure_estimates_sigma_once_and_saves_it():
    clean = torch.zeros(40, 16, 16)
    noisy = clean + 0.3 * torch.randn(clean.shape, generator=seeded())
    objective = objectives.SURE()
    assert math.isnan(objective.sigma)
    objective(lambda v: 0.5 * v, noisy, seeded())
    first = float(objective.sigma)
    assert first == pytest.approx(0.3, rel=0.05)
    objective(lambda v: 0.5 * v, 5 * noisy, seeded())
    assert float(objective.sigma) == first
    restored = objectives.SURE()
    restored.load_state_dict(objective.state_dict())
    assert float(restored.sigma) == first
    with pytest.raises(ValueError, match="pass sigma"):
        objectives.SURE()(lambda v: v, torch.rand(2, 3))


def test_sure_takes_any_sigma_that_broadcasts(x):
    one = objectives.SURE(0.3)(torch.tanh, x, seeded())
    for sigma in (torch.tensor(0.3), torch.full((6,), 0.3), torch.full((1, 1, 9, 9), 0.3)):
        assert torch.allclose(objectives.SURE(sigma)(torch.tanh, x, seeded()), one)


def test_oracles(model, x):
    clean = x
    noisy = x + 0.2 * torch.randn(x.shape, generator=seeded(3))
    loss = objectives.CosineOracle()(model, noisy, pair=clean)
    assert torch.allclose(loss, F.cosine_loss(clean, model(noisy)))
    masker = BlindSpot(0.3)
    x_tilde, b = masker(noisy, seeded())
    masked = objectives.CosineOracle(masker)(model, noisy, seeded(), pair=clean)
    assert torch.allclose(masked, F.cosine_loss(clean, model(x_tilde), b))
    c = torch.stack([s[m].norm() / (0.2 * m.sum().sqrt()) for s, m in zip(clean, b, strict=True)])
    k = F.expected_cosine(c, b.flatten(1).sum(1))
    cosine = F.cosine_loss(noisy, model(x_tilde), b, reduction="none")
    true_k = objectives.DenoisingCosineOracle(0.2, masker, floor=1e-6)(model, noisy, seeded(), pair=clean)
    assert torch.allclose(true_k, (cosine / k).mean())
    for oracle in (objectives.CosineOracle(), objectives.DenoisingCosineOracle(0.2)):
        with pytest.raises(ValueError, match="pair"):
            oracle(model, noisy)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda x: objectives.get("dsc"), ValueError, "did you mean 'dcs'"),
        (lambda x: objectives.get("zzz"), ValueError, "must be one of mse, cosine"),
        (lambda x: objectives.get("dCS"), ValueError, "did you mean 'dcs'"),
        (lambda x: make("mse")("a", x), TypeError, "model must be callable"),
        (lambda x: objectives.Noise2Void(BlindSpot), TypeError, "masker"),
        (lambda x: objectives.Noise2Void("a"), TypeError, "masker"),
        (lambda x: objectives.Noise2Void(lambda x, g: x)(lambda v: v, x), TypeError, "masker must return"),
        (lambda x: objectives.SURE(torch.tensor(-1.0)), ValueError, "sigma"),
        (lambda x: objectives.SURE(torch.tensor(1)), TypeError, "sigma"),
        (lambda x: objectives.SURE()(lambda v: v, x, valid=x > 0), ValueError, "pass sigma"),
        (lambda x: make("sure")(lambda v: v, 65535 * x), ValueError, "step"),
        (lambda x: make("n2n")(lambda v: v, x), ValueError, "pair"),
        (lambda x: make("dcs")(lambda v: v[:, :, :4], x), ValueError, r"model\(x\)"),
        (lambda x: make("mse")(lambda v: None, x), ValueError, r"model\(x\)"),
        (lambda x: make("dcs")(lambda v: v, x.numpy()), TypeError, "x must be a torch.Tensor"),
        (lambda x: make("dcs")(lambda v: v, x, pair=x[:2]), ValueError, "pair"),
        (lambda x: make("dcs")(lambda v: v * math.nan, x), ValueError, "prediction"),
        (lambda x: make("mse")(lambda v: v, x * math.nan), ValueError, "x has 486 NaN"),
        (lambda x: objectives.SURE(-1.0), ValueError, "sigma"),
        (lambda x: objectives.DenoisingAutoencoder(0.0), ValueError, "sigma"),
        (lambda x: objectives.DenoisingCosine(floor=0.0), ValueError, "floor"),
        (lambda x: objectives.DenoisingCosine(method="exat"), ValueError, "method"),
        (lambda x: objectives.DenoisingCosine(variant="papper"), ValueError, "variant"),
        (lambda x: objectives.DenoisingCosine(eta=-1.0), ValueError, "eta"),
    ],
)
def test_wrong_use_is_named(call, error, match, x):
    with pytest.raises(error, match=match):
        call(x)


def test_training_goes_the_right_way():
    """A few steps with the default objective bring the prediction nearer to the clean data."""
    t = torch.linspace(0, 6.28, 32)
    phase = torch.rand(256, 1, generator=seeded()) * 6.28
    clean = torch.sin(t + phase)
    noisy = clean + 0.5 * torch.randn(clean.shape, generator=seeded(1))
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4), nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 32)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    objective, generator = objectives.DenoisingCosine(), seeded()
    for _ in range(150):
        optimizer.zero_grad()
        objective(model, noisy, generator).backward()
        optimizer.step()
    with torch.no_grad():
        denoised = -F.cosine_loss(clean, model(noisy))
    assert denoised > -F.cosine_loss(clean, noisy) + 0.05


def test_objectives_leave_the_global_generator_alone(x):
    state = torch.get_rng_state()
    for options in ({"variant": "paper"}, {"method": "monte_carlo"}):
        objectives.DenoisingCosine(**options)(lambda v: v, x, seeded())
    for name in NAMES:
        make(name)(lambda v: v, x, seeded(), pair=x if name == "n2n" else None)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("name", ["cosine", "dcs"])
@pytest.mark.parametrize("scale", [1e-7, 1e-3, 1e7])
def test_the_unit_of_the_data_does_not_matter(name, scale, x):
    def gradient(data):
        weight = torch.eye(81).mul(0.9).requires_grad_()
        objective = make(name)
        objective(lambda v: (v.flatten(1) @ weight).reshape(v.shape), data, seeded()).backward()
        return weight.grad

    assert torch.allclose(gradient(x), gradient(scale * x), rtol=1e-3, atol=1e-6)


def test_a_mask_of_numbers_and_a_plain_function_will_do(model, x):
    def masker(x, generator):
        x_tilde, b = BlindSpot()(x, generator)
        return x_tilde, b.float()

    for objective in (objectives.DenoisingCosine, objectives.Noise2Void):
        assert torch.equal(objective(masker)(model, x, seeded()), objective(BlindSpot())(model, x, seeded()))
    oracle = objectives.DenoisingCosineOracle(0.3, masker)
    assert oracle(model, x, seeded(), pair=x).isfinite()
    assert objectives.CosineOracle(masker)(model, x, seeded(), pair=x).isfinite()


def test_signals_with_one_channel_are_masked_along_time():
    signal = torch.rand(4, 1, 64, generator=seeded())
    assert make("dcs")(lambda v: v, signal, seeded()).isfinite()


def test_sure_with_a_pair_averages_sigma_over_valid_entries():
    zeros = torch.zeros(4, 8)
    sigma = torch.tensor([0.1] * 4 + [5.0] * 4)[None]
    valid = (torch.arange(8) < 4).expand(4, 8)
    loss = objectives.SURE(sigma)(lambda v: v, zeros, None, zeros, valid=valid)
    assert loss.item() == pytest.approx(-0.01)
    assert objectives.SURE(1)(lambda v: v, zeros, pair=zeros).item() == pytest.approx(-1)


def test_centred_dcs_does_not_see_brightness():
    """Adding a constant to samples and predictions changes nothing; without centring, the loss nears -k."""
    x = torch.randn(6, 12, 12, generator=seeded())
    masker = GaussianSplit(0.5)
    objective = objectives.DenoisingCosine(masker, centre=True, length=0.5)
    model = torch.nn.Conv1d(12, 12, 3, padding=1)

    def shifted(by):
        return objective(lambda seen: model(seen - by) + by, x + by, seeded(1)).item()

    assert shifted(100.0) == pytest.approx(shifted(0.0), abs=1e-4)
    assert objective.describe()["centre"] is True
    assert not objective.scale_free
    assert objectives.DenoisingCosine().scale_free


def test_centred_dcs_ignores_padding():
    x = torch.randn(3, 20, generator=seeded()) + 5
    valid = torch.arange(20) < torch.tensor([20, 12, 7])[:, None]
    objective = objectives.DenoisingCosine(GaussianSplit(0.5), centre=True, length=1.0)
    losses = [
        float(objective(lambda seen: seen, x.where(valid, fill), seeded(1), valid=valid)) for fill in (0, 99)
    ]
    assert losses[0] == losses[1]

"""SimSiam, SimCLR, BYOL and their regularisers: against plain implementations, and what gets gradients."""

import copy
import inspect
import math

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from dcs import models, objectives
from dcs.augmentation import Views
from dcs.evaluation import KNNMonitor
from dcs.masking import BlindSpot
from dcs.noise import GaussianSplit
from dcs.objectives import BYOL, AutomaticViews, DenoisingCosine, Noise2Void, SimCLR, SimSiam
from dcs.training import read_config, train
from tests.helpers import seeded

SHAPE = (3, 8, 8)
# Without changes of colour, so that kornia is not needed.
VIEWS = Views(jitter_share=0, mean=(0.4, 0.5, 0.6), std=(0.2, 0.25, 0.3))
NAMES = [name for name in objectives.names() if not objectives.parse(name).kind.predicts]
KINDS = [SimSiam, SimCLR, BYOL]


def images(n=6):
    return torch.rand(n, *SHAPE, generator=seeded(5))


def network(seed=0):
    torch.manual_seed(seed)
    encoder = models.ResNet((1, 1), bottleneck=False, width=4)
    return models.Autoencoder(encoder, models.make_decoder("linear", encoder.features, SHAPE))


def make(kind, **options):
    widths = {"projector": (10, 6)} if kind is SimCLR else {"projector": (10, 6), "predictor": 5}
    return kind(VIEWS, **{**widths, "features": 8, **options})


def named(name, **options):
    widths = {"projector": (10, 6)} if name.startswith("simclr") else {"projector": (10, 6), "predictor": 5}
    return objectives.get(name, augment=VIEWS, features=8, **widths, **options)


def two_views(generator):
    return VIEWS(images(), generator), VIEWS(images(), generator)


# --- losses, written out


def normalised(rows):
    """Batch normalisation of (n, d) as a loop over its columns."""
    columns = []
    for column in rows.T:
        centred = column - column.mean()
        columns.append(centred / (centred.square().mean() + 1e-5).sqrt())
    return torch.stack(columns, 1)


def cosine(u, v):
    return float((u @ v) / (u.norm() * v.norm()))


@torch.no_grad()
def test_simsiam_is_equation_2():
    model, objective = network(), make(SimSiam)
    first, second = two_views(seeded())
    w1, w2 = (layer.weight for layer in objective.projector if isinstance(layer, nn.Linear))
    v1, v2 = (layer for layer in objective.predictor if isinstance(layer, nn.Linear))

    def heads(view):
        z = normalised(normalised(model.encode(view) @ w1.T).clamp(min=0) @ w2.T)
        return z, normalised(z @ v1.weight.T).clamp(min=0) @ v2.weight.T + v2.bias

    (z1, p1), (z2, p2) = heads(first), heads(second)
    both = [-cosine(p1[i], z2[i]) / 2 - cosine(p2[i], z1[i]) / 2 for i in range(6)]
    assert objective(model, images(), seeded()).item() == pytest.approx(sum(both) / 6, abs=1e-5)


@torch.no_grad()
def test_simclr_is_the_cross_entropy_over_all_other_views():
    model, objective = network(), make(SimCLR, temperature=0.3)
    z = torch.cat([objective.projector(model.encode(view)) for view in two_views(seeded())])
    total = 0.0
    for i in range(12):
        others = {j: math.exp(cosine(z[i], z[j]) / 0.3) for j in range(12) if j != i}
        total -= math.log(others[(i + 6) % 12] / sum(others.values()))
    assert objective(model, images(), seeded()).item() == pytest.approx(total / 12, abs=1e-5)


@torch.no_grad()
def test_byol_compares_with_its_target():
    model, objective = network(), make(BYOL)
    objective.prepare(model, images())
    torch.nn.init.normal_(next(objective.target.encoder.parameters()))  # the target is a network of its own
    first, second = two_views(seeded())
    p1, p2 = (objective.predictor(objective.projector(model.encode(v))) for v in (first, second))
    z1, z2 = (objective.target_projector(objective.target.encode(v)) for v in (first, second))
    squares = 0.0
    for p, z in ((p1, z2), (p2, z1)):
        for u, v in zip(p, z, strict=True):
            squares += float((u / u.norm() - v / v.norm()).square().sum())
    assert objective(model, images(), seeded()).item() == pytest.approx(squares / 6, abs=1e-5)


def test_byol_follows_the_model_by_its_momentum():
    model, objective = network(), make(BYOL, momentum=0.9, steps=10)
    objective.prepare(model, images())
    optimizer = torch.optim.SGD([*model.parameters(), *objective.parameters()], lr=0.5)
    expected = {name: p.detach().clone() for name, p in model.encoder.named_parameters()}
    for step in range(4):
        loss = objective(model, images(), seeded(step))
        momentum = 1 - 0.1 * (math.cos(math.pi * step / 10) + 1) / 2
        for name, p in model.encoder.named_parameters():
            expected[name] = momentum * expected[name] + (1 - momentum) * p.detach()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            objective(model, images(), seeded(step))  # looking does not move it
    for name, p in objective.target.encoder.named_parameters():
        torch.testing.assert_close(p, expected[name])
        assert p.grad is None
        assert not torch.equal(p, dict(model.encoder.named_parameters())[name])
    assert not list(objective.target.decoder.parameters())


# --- regularisers


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("regulariser", [DenoisingCosine(), Noise2Void(BlindSpot(0.2))], ids=repr)
def test_separate_adds_the_objective_of_the_normalised_image(kind, regulariser):
    model, generator = network().eval(), seeded()
    alone = make(kind).eval()(model, images(), generator)
    added = regulariser(model, VIEWS.normalise(images()), generator)
    both = make(kind, regulariser=regulariser, weight=0.3).eval()(model, images(), seeded())
    torch.testing.assert_close(both, alone + 0.3 * added)


def test_separate_with_images_as_they_are():
    model, generator = network().eval(), seeded()
    alone = make(SimSiam).eval()(model, images(), generator)
    x_tilde, b = BlindSpot(0.3)(images(), generator)
    error = (model(VIEWS.normalise(x_tilde)) - images()).square()
    added = torch.stack([e[m].mean() for e, m in zip(error, b, strict=True)]).mean()
    objective = make(SimSiam, regulariser=Noise2Void(), weight=2.0, normalised=False).eval()
    torch.testing.assert_close(objective(model, images(), seeded()), alone + 2 * added)


@pytest.mark.parametrize("normalise", [True, False])
def test_shared_masks_the_first_view_and_predicts_it(normalise):
    model, objective = network().eval(), make(SimSiam).eval()
    generator = seeded()
    first, second = two_views(generator)
    target = first if normalise else VIEWS.denormalise(first)
    x_tilde, b = BlindSpot(0.3)(target, generator)
    seen = x_tilde if normalise else VIEWS.normalise(x_tilde)
    features = model.encode(seen)
    error = (model.decode(features) - target).square()
    added = torch.stack([e[m].mean() for e, m in zip(error, b, strict=True)]).mean()
    alone = objective.compare(model, (seen, second), (features, model.encode(second)))
    objective = make(SimSiam, regulariser=Noise2Void(), weight=0.7, how="shared", normalised=normalise).eval()
    torch.testing.assert_close(objective(model, images(), seeded()), alone + 0.7 * added)


@pytest.mark.parametrize(
    ("name", "how", "passes", "decoded"),
    [
        ("simsiam", "separate", 2, 0),
        ("simsiam+bsm", "separate", 2, 0),
        ("simsiam-dcs", "separate", 3, 1),
        ("simsiam-dcs", "shared", 2, 1),
        ("simsiam-n2v", "shared", 2, 1),
        ("simsiam-dae", "shared", 2, 1),
        ("simclr-dcs", "shared", 2, 1),
        ("byol-dcs", "shared", 2, 1),
    ],
)
def test_each_view_is_one_pass_with_statistics_of_its_own(name, how, passes, decoded):
    model, objective = network(), named(name, how=how)
    objective.prepare(model, images())  # BYOL's copy has no hooks then
    seen = {"encoder": [], "decoder": []}
    for part, inputs in seen.items():
        getattr(model, part).register_forward_hook(
            lambda _, given, __, inputs=inputs: inputs.append(given[0])
        )
    objective(model, images(), seeded())
    assert [len(given) for given in seen.values()] == [passes, decoded]
    assert all(len(given) == 6 for given in seen["encoder"])
    assert not torch.equal(*seen["encoder"][:2])
    norm = model.encoder.stem[1]
    assert int(norm.num_batches_tracked) == passes  # in training mode, once a pass
    maps = [model.encoder.stem[0](given) for given in seen["encoder"]]
    expected = torch.zeros(4)
    for values in maps:
        expected = 0.9 * expected + 0.1 * values.detach().mean((0, 2, 3))
    torch.testing.assert_close(norm.running_mean, expected)


def test_bsm_masks_both_views():
    model, generator = network().eval(), seeded()
    views = []
    for _ in range(2):
        view = VIEWS(images(), generator)
        views.append(BlindSpot(rho=0.1)(view, generator)[0])
    expected = make(SimSiam).eval().compare(model, views, [model.encode(view) for view in views])
    torch.testing.assert_close(named("simsiam+bsm").eval()(model, images(), seeded()), expected)


def test_a_pair_is_what_the_second_view_is_made_of():
    model, generator, pair = network().eval(), seeded(), 1 - images()
    views = VIEWS(images(), generator), VIEWS(pair, generator)
    expected = make(SimSiam).eval().compare(model, views, [model.encode(view) for view in views])
    torch.testing.assert_close(make(SimSiam).eval()(model, images(), seeded(), pair), expected)
    both = make(SimSiam, regulariser=Noise2Void(), weight=1.0).eval()(model, images(), seeded(), pair)
    clean, noisy = VIEWS.normalise(images()), VIEWS.normalise(pair)
    torch.testing.assert_close(both, expected + (model(noisy) - clean).square().mean())


# --- gradients


@pytest.mark.parametrize("name", NAMES)
def test_gradients_reach_all_that_is_trained_and_nothing_else(name):
    model, objective = network(), named(name)
    objective(model, images(), seeded()).backward()
    for key, p in model.encoder.named_parameters():
        assert p.grad is not None, key
        assert bool(p.grad.abs().sum() > 0), key
    assert all((p.grad is not None) == ("-" in name) for p in model.decoder.parameters())
    for key, p in objective.named_parameters():
        assert (p.grad is None) == key.startswith("target"), key


def test_no_gradient_goes_through_the_stopped_branch():
    """With one direction left, the gradient of the encoder is that of the predicting view alone."""
    model, objective = network().eval(), make(SimSiam).eval()
    first, second = two_views(seeded())
    fixed = copy.deepcopy(model)
    z2 = objective.projector(fixed.encode(second)).detach()
    z1 = objective.projector(fixed.encode(first)).detach()
    losses = []
    for view, z in ((first, z2), (second, z1)):
        p = objective.predictor(objective.projector(model.encode(view)))
        losses.append(-torch.nn.functional.cosine_similarity(p, z).mean() / 2)
    parameters = [*model.encoder.parameters()]
    expected = torch.autograd.grad(sum(losses), parameters)
    got = torch.autograd.grad(objective(model, images(), seeded()), parameters)
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("how", ["separate", "shared"])
def test_the_decoder_teaches_the_encoder(how):
    gradients = []
    for weight in (0.0, 1.0):
        model = network()
        make(SimSiam, regulariser=DenoisingCosine(), weight=weight, how=how)(
            model, images(), seeded()
        ).backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.encoder.parameters()]))
    assert float((gradients[1] - gradients[0]).norm()) > 0.01 * float(gradients[0].norm())


# --- heads


@pytest.mark.parametrize("kind", KINDS)
def test_heads_are_made_from_a_seed_when_the_features_are_known(kind):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    given, asked, other = make(kind), make(kind, features=None), make(kind, features=None, seed=1)
    model, state = network(), None
    torch.set_rng_state(before)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    for objective in (asked, other):
        assert not list(objective.parameters())
        objective.prepare(model, images())
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert model.training
    first, second, third = (o.projector.state_dict() for o in (given, asked, other))
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert not all(torch.equal(first[key], third[key]) for key in first)


def test_heads_that_come_too_late_for_an_optimiser_are_warned_of():
    objective = make(SimSiam, features=None)
    with pytest.warns(UserWarning, match=r"features=.*prepare\(model, x\)"):
        objective(network(), images(), seeded())
    with torch.no_grad():
        make(SimSiam, features=None)(network(), images(), seeded())


def test_heads_are_simsiams():
    objective = SimSiam(VIEWS, features=512, projector=(2048, 2048, 2048))
    kinds = [type(layer) for layer in objective.projector]
    hidden = [nn.Linear, nn.BatchNorm1d, nn.ReLU]
    assert kinds == [*hidden, *hidden, nn.Linear, nn.BatchNorm1d]
    assert not objective.projector[-1].affine
    assert all(layer.bias is None for layer in objective.projector if isinstance(layer, nn.Linear))
    assert [type(layer) for layer in objective.predictor] == [*hidden, nn.Linear]
    assert objective.predictor[0].weight.shape == (512, 2048)
    assert objective.predictor[-1].weight.shape == (2048, 512)
    assert len(SimSiam(VIEWS, features=512).projector) == 5


# --- names, and one call for all


@pytest.mark.parametrize("name", NAMES)
def test_one_call_for_all(name):
    objective = named(name)
    parameters = list(inspect.signature(objective.forward).parameters)
    assert parameters == ["model", "x", "generator", "pair", "valid"]
    before = torch.get_rng_state()
    first, again = (named(name).eval()(network().eval(), images(), seeded()) for _ in range(2))
    torch.set_rng_state(before)
    assert torch.equal(first, again)
    assert first.shape == ()
    assert inspect.getdoc(type(objective)).startswith("Assumes")
    assert "\n" not in repr(objective)


def test_names_are_those_of_the_contract_and_their_kin():
    assert {"simsiam", "simsiam+bsm", "simsiam-n2v", "simsiam-dcs", "simclr", "byol"} <= set(NAMES)
    assert isinstance(named("simsiam-dcs").regulariser, DenoisingCosine)
    inner = named("byol-dcs", regulariser_options={"variant": "paper"}, masker=BlindSpot(0.4)).regulariser
    assert (inner.variant, inner.masker) == ("paper", BlindSpot(0.4))
    assert objectives.get("simclr", augment={"grey": 0.5}).augment == Views(grey=0.5)
    assert named("simsiam+bsm", masker=BlindSpot(0.4)).masker == BlindSpot(0.4)


class Twice(objectives.Objective):
    """Calls the model more than once."""

    def compute(self, model, batch):
        return (model(batch.x) + model(batch.x)).mean()


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: SimSiam(3), TypeError, "augment must be a function"),
        (lambda: SimSiam(Views), TypeError, "augment must be a function"),
        (lambda: SimSiam(regulariser="dcs"), TypeError, "regulariser must be an objective"),
        (lambda: SimSiam(regulariser=make(SimSiam)), TypeError, "regulariser must be an objective"),
        (lambda: SimSiam(weight=-1), ValueError, "weight must be"),
        (lambda: SimSiam(how="both"), ValueError, "how must be one of separate, shared"),
        (lambda: SimSiam(masker=BlindSpot), TypeError, "masker must be a masker"),
        (lambda: SimSiam(masker=BlindSpot(), how="shared"), ValueError, "masker must be None"),
        (lambda: SimSiam(normalised=1), TypeError, "normalised must be True or False"),
        (lambda: SimSiam(projector=()), TypeError, "projector must be a sequence"),
        (lambda: SimSiam(projector=(0,)), ValueError, "projector must be at least 1"),
        (lambda: SimSiam(predictor=None), TypeError, "predictor must be an integer"),
        (lambda: SimSiam(features=0), ValueError, "features must be at least 1"),
        (lambda: SimSiam(seed=-1), ValueError, "seed must be at least 0"),
        (lambda: SimCLR(temperature=0), ValueError, "temperature must be"),
        (lambda: SimCLR(predictor=3), TypeError, "predictor must be left out"),
        (lambda: BYOL(momentum=1.1), ValueError, "momentum must be in"),
        (lambda: BYOL(steps=0), ValueError, "steps must be at least 1"),
        (lambda: make(SimSiam)(nn.Identity(), images()), TypeError, "model must have encode"),
        (lambda: make(SimSiam)(network(), images(), valid=images() > 0), ValueError, "valid must be None"),
        (lambda: make(SimSiam)(network(), 255 * images()), ValueError, "divide pixels by 255"),
        (lambda: make(SimSiam)(network(), images()[:, 0]), ValueError, "x must be images of 3 channels"),
        (lambda: make(SimSiam)(network(), images() * math.nan), ValueError, "x has .* NaN"),
        (lambda: make(SimSiam)(network(), images(1)), ValueError, "at least two images"),
        (
            lambda: make(SimSiam, regulariser=Twice(), how="shared")(network(), images()),
            ValueError,
            "regulariser must call the model once",
        ),
        (
            lambda: make(SimSiam, regulariser=DenoisingCosine(), how="shared")(
                nn.ModuleDict({"encoder": network().encoder}), images()
            ),
            TypeError,
            "model must have",
        ),
        (lambda: objectives.get("simsam"), ValueError, "did you mean 'simsiam'"),
        (lambda: named("simsiam", regulariser_options={"power": 1}), ValueError, "regulariser_options must"),
    ],
)
def test_wrong_use_is_named(call, error, match):
    with pytest.raises(error, match=match):
        call()


# --- learning


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("simsiam", "separate"),
        ("simsiam-dcs", "shared"),
        ("simclr", "separate"),
        ("byol", "separate"),
    ],
)
def test_digits_are_learned(name, how):
    """Nearest neighbours are right at least 5 points more often than on an untrained network's features."""
    pytest.importorskip("kornia")  # without changes of brightness, that is all that is learned
    digits = load_digits()
    x = torch.tensor(digits.images / 16).float()[:, None].repeat(1, 3, 1, 1)
    parts = (x[:1000], digits.target[:1000]), (x[1000:], digits.target[1000:])
    views = Views(scale=(0.6, 1), flip=0, jitter=(0.4, 0.4, 0, 0), grey=0, mean=(0.3,), std=(0.35,))
    torch.manual_seed(1)
    encoder = models.ResNet((1, 1, 1), bottleneck=False, width=8)
    model = models.Autoencoder(encoder, models.make_decoder("linear", 32, SHAPE))
    options = {
        "simclr": {"projector": (512, 128)},
        "byol": {"projector": (512, 128), "predictor": 512, "momentum": 0.9},
    }
    widths = {"projector": (512, 512), "predictor": 128}
    objective = objectives.get(name, augment=views, how=how, **options.get(name, widths))
    monitor = KNNMonitor(*parts, every=15, inputs=objective.inputs, k=20)
    untrained = monitor(model, 14)["knn"]
    config = read_config(
        {
            "optimizer": "sgd",
            "learning_rate": 0.5,
            "weight_decay": 5e-4,
            "schedule": "cosine",
            "batch_size": 128,
            "max_epochs": 15,
            "validation": 0.0,
            "device": "cpu",
            "threads": 1,
        }
    )
    history = train(model, objective, parts[0][0], config, monitor=monitor)
    assert history[-1]["knn"] >= untrained + 5
    assert history[-1]["projection_spread"] > 0.5


@pytest.mark.parametrize("make_it", [lambda: DenoisingCosine(), lambda: DenoisingCosine(AutomaticViews())])
@pytest.mark.parametrize("how", ["separate", "shared"])
def test_a_regulariser_masks_even_where_it_would_split_samples(how, make_it):
    x = torch.rand(200, 3, 16, 16, generator=seeded())  # white noise
    alone = make_it()
    alone.prepare(network(), x)
    assert alone.masker.splits
    objective = make(SimSiam, regulariser=make_it(), how=how)
    objective.prepare(network(), x)
    assert objective.regulariser.masker == BlindSpot(rho=0.3)
    named = objectives.get("simsiam-dcs", features=4)
    assert named.regulariser.masker == BlindSpot(rho=0.3)


def test_a_split_that_was_asked_for_is_for_raw_images_alone():
    split = GaussianSplit(0.1)
    assert make(SimSiam, regulariser=DenoisingCosine(split)).regulariser.masker is split
    with pytest.raises(ValueError, match="regulariser must mask for how='shared'"):
        make(SimSiam, regulariser=DenoisingCosine(split), how="shared")


def test_the_target_of_byol_has_the_mode_of_the_objective():
    objective = make(BYOL)
    objective.prepare(network().eval(), images())
    assert objective.target.training
    assert objective.target_projector.training
    objective = make(BYOL).eval()
    objective.prepare(network().train(), images())
    assert not any(module.training for module in objective.target.modules())


def test_a_state_that_comes_too_early_is_refused_with_the_remedy():
    trained, fresh = make(BYOL), make(BYOL)
    trained.prepare(network(), images())
    with pytest.raises(RuntimeError, match=r"target.* does not have yet: call objective\.prepare"):
        fresh.load_state_dict(trained.state_dict())
    fresh.prepare(network(1), images())
    fresh.load_state_dict(trained.state_dict())
    for key, value in trained.state_dict().items():
        assert torch.equal(fresh.state_dict()[key], value)

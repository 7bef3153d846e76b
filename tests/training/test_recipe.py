"""SimSiam's recipe in the loop: SGD, rates, heads, meters, monitor, and exact resuming."""

import json
import logging
import math

import numpy as np
import pytest
import torch
from torch import nn

import dcs
from dcs import models, objectives
from dcs.augmentation import Views
from dcs.runs import Run, RunRecord, Stopped
from dcs.training import Facts, TrainingWarning, complete, make_objective, read_config, train
from dcs.training.meters import concerns

SHAPE = (3, 8, 8)
SETTINGS = {"batch_size": 8, "max_epochs": 3, "device": "cpu", "threads": 1, "validation": 0.0}
SGD = {**SETTINGS, "optimizer": "sgd", "learning_rate": 0.1, "weight_decay": 1e-3, "momentum": 0.8}
VIEWS = Views(jitter_share=0)


def images(n=40):
    coarse = torch.rand(n, 3, 3, 3, generator=torch.Generator().manual_seed(5))
    return nn.functional.interpolate(coarse, SHAPE[1:], mode="bilinear")


def network(seed=0):
    torch.manual_seed(seed)
    encoder = models.ResNet((1, 1), bottleneck=False, width=4)
    return models.Autoencoder(encoder, models.make_decoder("linear", encoder.features, SHAPE))


def made(name="simsiam-dcs", **options):
    widths = {"projector": (10, 6)} if name.startswith("simclr") else {"projector": (10, 6), "predictor": 5}
    return objectives.get(name, augment=VIEWS, **widths, **options)


def test_sgd_is_torchs_own_with_a_rate_scaled_by_the_batch():
    """Step by step beside torch.optim.SGD with momentum and weight decay on everything."""
    model, plain, batches = network(), network(), []

    class Noted(objectives.MSE):
        def compute(self, model, batch):
            batches.append(batch.x)
            return super().compute(model, batch)

    train(model, Noted(), images(), read_config(SGD))
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1 * 8 / 256, momentum=0.8, weight_decay=1e-3)
    assert len(batches) == 15
    for batch in batches:
        optimizer.zero_grad()
        (plain(batch) - batch).square().mean().backward()
        optimizer.step()
    for key, value in model.state_dict().items():
        torch.testing.assert_close(value, plain.state_dict()[key], rtol=1e-4, atol=1e-5)


def test_the_scaled_rate_is_said(caplog):
    config = read_config({**SGD, "batch_size": 16, "schedule": "cosine"})
    with caplog.at_level(logging.INFO, logger="dcs.training"):
        history = train(network(), made(), images(), config)
    assert "learning rate 0.00625 = 0.1 x batch 16 / 256" in caplog.text
    steps = 2  # an epoch
    for epoch, metrics in enumerate(history):
        done = (epoch + (steps - 1) / steps) / 3
        assert metrics["learning_rate"] == pytest.approx(0.00625 * 0.5 * (1 + math.cos(math.pi * done)))
    adam = train(network(), made(), images(), read_config({**SETTINGS, "max_epochs": 1}))
    assert adam[0]["learning_rate"] == 1e-3  # as it was given


class Rates:
    """A recorder of the learning rate and size of each group of parameters."""

    def __init__(self):
        self.rates = []

    def restore(self):
        return None

    def after_step(self, state):
        groups = state()["optimizer"]["param_groups"]
        self.rates.append([(group["lr"], len(group["params"])) for group in groups])
        return False

    def after_epoch(self, metrics):
        pass


@pytest.mark.parametrize("fixed", [False, True])
def test_the_predictor_can_be_left_out_of_the_schedule(fixed):
    config = read_config({**SGD, "schedule": "cosine", "fixed_predictor_rate": fixed})
    objective = made()
    recorder, model, peak = Rates(), network(), 0.1 * 8 / 256
    train(model, objective, images(), config, recorder=recorder)
    rates = recorder.rates[2 * 5]  # in the first step of the third epoch
    assert [rate for rate, _ in rates] == pytest.approx([peak / 4, peak] if fixed else [peak / 4])
    own = len(list(objective.predictor.parameters()))
    whole = len(list(model.parameters())) + len(list(objective.parameters()))
    assert [count for _, count in rates] == ([whole - own, own] if fixed else [whole])


def test_a_predictor_that_is_not_there_cannot_be_fixed():
    config = read_config({**SGD, "fixed_predictor_rate": True})
    for objective in (objectives.MSE(), made("simclr")):
        with pytest.raises(ValueError, match="fixed_predictor_rate must be False"):
            train(network(), objective, images(), config)


@pytest.mark.parametrize("name", ["simsiam", "simclr", "byol-dcs"])
def test_heads_are_trained_with_the_model(name):
    objective = made(name)
    untrained = made(name)
    untrained.prepare(network(), images())
    train(network(), objective, images(), read_config(SGD))
    before = dict(untrained.named_parameters())
    for key, parameter in objective.named_parameters():
        moved = not torch.equal(parameter, before[key])
        assert moved, key


def test_held_out_images_do_not_teach_the_heads():
    """Their batch statistics stay those of training, and so does all else but the held-out samples."""
    objective = made("simsiam")
    config = read_config({**SGD, "max_epochs": 1, "validation": 0.2})
    history = train(network(), objective, images(), config)
    assert math.isfinite(history[0]["validation_loss"])
    tracked = [m.num_batches_tracked for m in objective.modules() if isinstance(m, nn.BatchNorm1d)]
    assert {int(count) for count in tracked} == {2 * 4}  # two views of each of four batches
    assert objective.training


def test_a_last_batch_that_is_not_full_is_left_out():
    """One image would have no batch statistics; the loss is the mean over those that were seen."""
    sizes = []

    class Noted(objectives.SimSiam):
        def compute(self, model, batch):
            sizes.append(len(batch.x))
            return super().compute(model, batch) * 0 + 3

    config = read_config({**SGD, "max_epochs": 1})
    history = train(network(), Noted(VIEWS, projector=(4, 4)), images(33), config)
    assert sizes == [8] * 4
    assert history[0]["loss"] == pytest.approx(3)
    with pytest.raises(ValueError, match="at least two images"):
        train(network(), made(), images(1), config)


def test_features_are_watched_as_the_network_sees_them():
    seen = []
    model, objective = network(), made("simsiam")
    encode = model.encode
    model.encode = lambda x: seen.append((x, model.training)) or encode(x)
    history = train(model, objective, images(), read_config({**SGD, "max_epochs": 1}))
    watched = [x for x, training in seen if not training and len(x) == 40]
    assert len(watched) == 2  # features, and projections
    for x in watched:
        low, high = VIEWS.normalise(images()).aminmax()
        assert float(x.min()) == pytest.approx(float(low))
        assert float(x.max()) == pytest.approx(float(high))
    assert 0 < history[0]["projection_spread"] < 2


def test_the_collapse_meter_knows_a_collapse():
    objective, model = made("simsiam", features=8), network().eval()
    objective.eval()
    healthy = objective.statistics(model, images())["projection_spread"]
    z = objective.project(model, images()).detach()
    expected = torch.stack([row / row.norm() for row in z]).std(0).mean() * math.sqrt(6)
    assert healthy == pytest.approx(float(expected), rel=1e-5)
    nn.init.zeros_(objective.projector[3].weight)
    objective.projector.append(nn.Linear(6, 6))
    collapsed = objective.statistics(model, images())
    assert collapsed["projection_spread"] < 1e-3
    assert "projections have collapsed" in concerns(1.0, collapsed)[0]
    assert objectives.MSE().statistics(model, images()) == {}


def test_weights_of_the_regulariser_are_in_the_metrics():
    config = read_config({**SGD, "max_epochs": 1})
    assert {"k", "snr", "floored"} <= set(train(network(), made("simsiam-dcs"), images(), config)[0])
    assert "k" not in train(network(), made("simsiam-n2v"), images(), config)[0]


class Asked(Run):
    """A run that is asked to stop after some steps."""

    def after_step(self, state):
        super().after_step(state)
        return self.step == 7


@pytest.mark.parametrize("name", ["simsiam-dcs", "byol", "simclr"])
def test_a_run_that_was_stopped_ends_with_the_very_weights(name, tmp_path):
    config = read_config({**SGD, "schedule": "cosine", "validation": 0.2, "max_epochs": 4})
    whole, resumed = network(), network()
    objective, again = made(name), made(name)
    train(whole, objective, images(), config)
    described = RunRecord(shape=SHAPE, training=config)
    with Asked(tmp_path / "run", described) as run, pytest.raises(Stopped):
        train(network(), made(name), images(), config, recorder=run)
    with Run(tmp_path / "run", described, resume=True) as run:
        train(resumed, again, images(), config, recorder=run)
    for one, two in ((whole, resumed), (objective, again)):
        for key, value in one.state_dict().items():
            assert torch.equal(value, two.state_dict()[key]), key


def test_a_configuration_makes_them():
    facts = Facts(SHAPE, 40)
    config = complete(
        {
            "objective": "simsiam-dcs",
            "objective_options": {"augment": {"mean": [0.5], "std": [0.2]}, "how": "shared", "weight": 0.02},
            "masking": {"rho": 0.25},
            "seed": 3,
        },
        facts,
    )
    objective = make_objective(config)
    assert objective.augment == Views(mean=(0.5,), std=(0.2,))
    assert (objective.how, objective.weight, objective.seed) == ("shared", 0.02, 3)
    assert objective.regulariser.masker.rho == 0.25
    bsm = make_objective(complete({"objective": "simsiam+bsm", "masking": {"radius": 2}}, facts))
    assert (bsm.masker.rho, bsm.masker.radius) == (0.1, 2)
    literal = {"objective": "byol-dcs", "objective_options": {"regulariser_options": {"variant": "paper"}}}
    inner = make_objective(complete({**literal, "masking": {"radius": 1}}, facts)).regulariser
    assert (inner.variant, inner.masker.rho, inner.masker.min_masked) == ("paper", 0.1, 0)
    for name in ("simsiam", "simsiam-dae"):
        with pytest.raises(ValueError, match="masking is not applicable"):
            complete({"objective": name, "masking": {"rho": 0.2}}, facts)
    with pytest.raises(ValueError, match="did you mean 'weight'"):
        complete({"objective": "simclr", "objective_options": {"wieght": 1}}, facts)


@pytest.mark.parametrize("name", ["simsiam-dcs", "simclr", "byol"])
def test_mixed_precision_and_doubles_will_do(name):
    config = {**SGD, "max_epochs": 1}
    losses = {}
    for precision in ("no", "bf16"):
        made_so = read_config({**config, "precision": precision})
        losses[precision] = train(network(), made(name), images(), made_so)[0]["loss"]
    double = train(network().double(), made(name), images().double(), read_config(config))
    assert losses["bf16"] == pytest.approx(losses["no"], abs=0.15)
    assert math.isfinite(double[0]["loss"])


def test_the_estimator_normalises_images_and_says_what_it_cannot_do(tmp_path):
    with pytest.raises(TypeError, match="objective must be given by name"):
        dcs.DenoisingEncoder(objective=made()).fit(images().numpy())
    with pytest.raises(ValueError, match="masking is not applicable to objective 'simsiam'"):
        dcs.DenoisingEncoder(objective="simsiam", masking={"rho": 0.1}).fit(images().numpy())
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.3, 0.4)
    x = images()
    encoder = dcs.DenoisingEncoder(
        objective="simsiam-dcs",
        objective_options={"augment": {"mean": mean, "std": std}, "projector": [16, 16], "predictor": 8},
        network="resnet18",
        network_options={"width": 4},
        batch_size=16,
        max_epochs=1,
        random_state=0,
    ).fit(x.numpy())
    features = encoder.transform(x.numpy())
    seen = (x - torch.tensor(mean).reshape(3, 1, 1)) / torch.tensor(std).reshape(3, 1, 1)
    with torch.no_grad():
        expected = encoder.network_.encode(seen)
    torch.testing.assert_close(torch.from_numpy(features), expected, rtol=1e-4, atol=1e-5)
    encoder.save(tmp_path / "saved")
    assert sorted(path.name for path in (tmp_path / "saved").iterdir()) == [
        "config.json",
        "metrics.jsonl",
        "model.safetensors",
    ]
    assert np.array_equal(dcs.load(tmp_path / "saved").transform(x.numpy()), features)
    for refused in (encoder.denoise, encoder.score, dcs.load(tmp_path / "saved").denoise):
        with pytest.raises(
            ValueError, match="needs an objective that predicts samples, such as 'dcs': simsiam-dcs"
        ):
            refused(x.numpy())
    with pytest.raises(ValueError, match="inverse_transform needs an objective that predicts samples"):
        encoder.inverse_transform(features)


def test_a_collapse_is_warned_of():
    """Without the stop-gradient's help: all views are the same grey."""
    objective = made("simsiam")
    objective.augment = lambda x, generator: torch.zeros_like(x)
    with pytest.warns(TrainingWarning, match="collapsed"):
        train(network(), objective, torch.zeros(40, *SHAPE), read_config({**SGD, "max_epochs": 1}))


@pytest.mark.parametrize("given", [{}, {"optimizer": "adam"}, {"learning_rate": 0.1, "validation": 0.2}])
def test_the_estimator_and_the_command_train_alike(tmp_path, given):
    from tests.helpers import inside

    np.save(tmp_path / "x.npy", images().numpy())
    narrow = {"projector": [16, 16], "predictor": 8}
    settings = {"objective_options": narrow, "network_options": {"width": 4}, **given}
    asked = [word for name, value in settings.items() for word in ("--set", f"{name}={json.dumps(value)}")]
    told = inside(
        "fit", tmp_path / "x.npy", "--objective", "simsiam-dcs", "--out", tmp_path / "r", "--dry-run", *asked
    )
    encoder = dcs.DenoisingEncoder(objective="simsiam-dcs", random_state=0, max_epochs=0, **settings)
    config = encoder.fit(images().numpy()).config_.model_copy(update={"max_epochs": 100})
    assert json.loads(told.stdout)["training"] == config.model_dump(mode="json"), told.stderr


def test_patience_needs_held_out_images():
    with pytest.raises(ValueError, match="patience must be left out for objective 'simsiam'"):
        read_config({"objective": "simsiam", "patience": 2, "validation": 0.0})
    assert read_config({"objective": "simsiam", "patience": 2, "validation": 0.1}).patience == 2


def test_the_rate_is_that_of_the_batches_there_are():
    config = read_config({**SGD, "batch_size": 256, "max_epochs": 1, "validation": 0.2})
    history = train(network(), objectives.MSE(), images(40), config)
    assert history[0]["learning_rate"] == pytest.approx(0.1 * 32 / 256)

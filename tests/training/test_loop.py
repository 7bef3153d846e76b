"""The loop: it does what a loop written by hand does, and says what goes wrong."""

import copy
import json
import math
import shutil
import warnings

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from dcs import masking, models, objectives
from dcs.data import Samples
from dcs.training import (
    Facts,
    TrainingWarning,
    complete,
    loop,
    make_network,
    make_objective,
    read_config,
    train,
)
from tests.helpers import seeded

SMALL = {"network_options": {"hidden": [32]}, "batch_size": 64, "validation": 0, "device": "cpu"}


def digits(n=300, sigma=0.2, seed=0):
    clean = torch.tensor(load_digits().images[:n] / 16, dtype=torch.float32)
    return clean + sigma * torch.randn(clean.shape, generator=seeded(seed))


def setup(x, **settings):
    config = read_config({**SMALL, **settings})
    shape = tuple(x.shape[1:])
    return make_network(config, shape), make_objective(config), config


def run(x, *, pair=None, recorder=None, **settings):
    model, objective, config = setup(x, **settings)
    return model, train(model, objective, x, config, pair=pair, recorder=recorder)


def same(one, other):
    one, other = one.state_dict(), other.state_dict()
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def by_hand(
    x,
    objective,
    *,
    epochs,
    seed=0,
    batch_size=64,
    lr=1e-3,
    pair=None,
    validation=0.0,
    each_step=None,
    fused=True,
):
    """The loop as the documentation tells it, in plain torch."""
    model = models.build("mlp", x.shape[1:], 10, seed=seed, hidden=(32,))
    objective.prepare(model, x)
    order, noise = seeded(seed), seeded(seed)
    rows = torch.randperm(len(x), generator=order)[round(validation * len(x)) :]
    adam = torch.optim.Adam(model.parameters(), lr=lr, fused=fused)
    for _ in range(epochs):
        shuffled = rows[torch.randperm(len(rows), generator=order)]
        torch.randint(2**62, (), generator=order)
        for start in range(0, len(rows), batch_size):
            index = shuffled[start : start + batch_size]
            loss = objective(model, x[index], noise, None if pair is None else pair[index])
            adam.zero_grad()
            loss.backward()
            if each_step is not None:
                each_step(model, adam)
            adam.step()
    return model


class InFile(Samples):
    """Samples that are read one by one, as from disk."""

    def __init__(self, x, workers=0):
        self.x, self.shape, self.workers = x, tuple(x.shape), workers

    def read(self, indices):
        return torch.stack([self.x[i] for i in indices])

    def default_workers(self):
        return self.workers


class Contrary(objectives.Objective):
    """Pulls one weight up; held-out samples, which are negative, would have it near 1/2."""

    def compute(self, model, batch):
        weight = model.weight.sum()
        if bool((batch.x > 0).all()):
            return -weight
        return (weight - 0.5).square()


class One(nn.Module):
    def __init__(self, value=0.0):
        super().__init__()
        self.weight = nn.Parameter(torch.full((1,), value))

    def forward(self, x):
        return x * self.weight


class Scaled(objectives.Objective):
    """Has a parameter of its own."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def compute(self, model, batch):
        return (self.scale * model(batch.x) - batch.x).square().mean() + (self.scale - 3).square()


class Keep:
    """A recorder in memory, which may stop after some steps."""

    def __init__(self, state=None, stop_after=math.inf):
        self.state, self.stop_after, self.steps = state, stop_after, 0

    def restore(self):
        return copy.deepcopy(self.state)

    def after_step(self, state):
        self.steps += 1
        return self.steps >= self.stop_after

    def after_epoch(self, metrics):
        pass

    def stop(self, state):
        self.state = copy.deepcopy(state)
        raise InterruptedError


@pytest.mark.parametrize(
    "name", [name for name, entry in objectives.OBJECTIVES.items() if entry.factory.predicts]
)
def test_each_objective_lowers_its_loss(name):
    x = digits()
    pair = digits(seed=1) if name == "n2n" else None
    options = {"sigma": 0.2} if name in ("sure", "dae") else {}
    _, history = run(x, pair=pair, objective=name, objective_options=options, max_epochs=8, validation=0.1)
    assert [m["epoch"] for m in history] == list(range(8))
    assert history[-1]["loss"] < 0.9 * history[0]["loss"] or history[-1]["loss"] < history[0]["loss"] - 0.1
    assert history[-1]["validation_loss"] < history[0]["validation_loss"]
    json.dumps(history, allow_nan=False)


@pytest.mark.parametrize("network", ["conv", "unet"])
def test_other_networks_learn_too(network):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, history = run(
            digits(128),
            network=network,
            network_options={"width": 4, "depth": 2},
            max_epochs=6,
            learning_rate=3e-3,
        )
    assert history[-1]["loss"] < history[0]["loss"] - 0.05


@pytest.mark.parametrize("name", ["mse", "dcs", "n2v"])
@pytest.mark.parametrize("validation", [0.0, 0.2])
def test_equals_a_loop_by_hand(name, validation):
    x = digits()
    model, _ = run(x, objective=name, max_epochs=3, seed=5, validation=validation)
    assert same(model, by_hand(x, objectives.get(name), epochs=3, seed=5, validation=validation))


def test_the_fused_step_is_adams():
    x = digits()
    model, _ = run(x, objective="mse", max_epochs=3)
    plain = by_hand(x, objectives.MSE(), epochs=3, fused=False)
    for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("clip_norm", [None, 0.01])
def test_a_scaled_loss_gives_the_same_steps(clip_norm, monkeypatch):
    """The scale is a power of two, so that nothing is rounded."""
    x = digits(200)
    plain, history = run(x, objective="dcs", max_epochs=2, clip_norm=clip_norm)
    monkeypatch.setattr(loop, "GradScaler", lambda device, **_: torch.amp.GradScaler(device))
    scaled, its_history = run(x, objective="dcs", max_epochs=2, clip_norm=clip_norm)
    assert same(plain, scaled)
    assert [m["gradient_norm"] for m in history] == [m["gradient_norm"] for m in its_history]


def test_pair_is_used_and_stays_beside_its_row():
    """Each sample is one constant, its pair twice that: with any other row's the loss could not vanish."""
    x = torch.linspace(-1, 1, 60)[:, None].expand(60, 4).contiguous()
    seen = []

    class Watching(objectives.MSE):
        def compute(self, model, batch):
            seen.append(float((batch.pair - 2 * batch.x).abs().max()))
            return super().compute(model, batch)

    for second in (2 * x, InFile(2 * x)):
        model, _, config = setup(x, max_epochs=3, batch_size=7, validation=0.2)
        train(model, Watching(), x, config, pair=second)
    assert len(seen) == 2 * 3 * (7 + 2)
    assert max(seen) == 0
    model, _ = run(x, pair=2 * x, objective="n2n", max_epochs=3, batch_size=7)
    assert same(model, by_hand(x, objectives.get("n2n"), epochs=3, batch_size=7, pair=2 * x))
    with pytest.raises(ValueError, match=r"pair must have the shape of x, \(60, 4\), got \(61, 4\)"):
        run(x, pair=torch.zeros(61, 4), objective="n2n")


@pytest.mark.parametrize("workers", [0, 1])
def test_streaming_equals_memory(workers):
    x = digits(130)
    settings = {"max_epochs": 2, "validation": 0.1, "patience": 5, "ema": 0.9}
    resident, first = run(x, **settings)
    streamed, second = run(InFile(x, workers), **settings)
    assert same(resident, streamed)
    assert [m["validation_loss"] for m in first] == [m["validation_loss"] for m in second]


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
@pytest.mark.parametrize("warmup", [0, 1.5, 0.001])
def test_learning_rate_has_its_closed_form(schedule, warmup):
    rates = []

    class Watch(Keep):
        def after_step(self, state):
            rates.append(state()["optimizer"]["param_groups"][0]["lr"])
            return False

    _, history = run(
        torch.rand(10, 4, generator=seeded()),
        recorder=Watch(),
        objective="mse",
        batch_size=3,
        max_epochs=3,
        schedule=schedule,
        warmup_epochs=warmup,
        learning_rate=0.01,
    )
    expected = []
    for i in range(12):
        epochs = i / 4
        if epochs < warmup:
            expected.append(0.01 * min(1, (epochs + 0.25) / warmup))
        elif schedule == "constant":
            expected.append(0.01)
        else:
            expected.append(0.005 * (1 + math.cos(math.pi * (epochs - warmup) / (3 - warmup))))
    assert rates == pytest.approx(expected, rel=1e-9)
    assert [m["learning_rate"] for m in history] == rates[3::4]


def test_clipping_is_that_of_a_manual_computation():
    x, norms, limit = digits(200), [], 0.02

    def clip(model, _):
        norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
        norms.append(float(norm))
        for p in model.parameters():
            p.grad *= (limit / (norm + 1e-6)).clamp(max=1)

    expected = by_hand(x, objectives.MSE(), epochs=2, each_step=clip)
    model, history = run(x, objective="mse", max_epochs=2, clip_norm=limit)
    assert min(norms) > limit
    for name, value in model.state_dict().items():
        assert torch.allclose(value, expected.state_dict()[name], atol=1e-7)
    assert [m["gradient_norm"] for m in history] == pytest.approx([norms[3], norms[7]], rel=1e-5)
    unclipped, history = run(x, objective="mse", max_epochs=2)
    assert same(unclipped, by_hand(x, objectives.MSE(), epochs=2))
    assert history[0]["gradient_norm"] > limit


def test_weight_decay_is_decoupled():
    x, rate, decay = digits(200), 1e-3, 0.1

    def shrink(model, _):
        for p in model.parameters():
            p.data.mul_(1 - rate * decay)

    model, _ = run(x, objective="mse", max_epochs=2, weight_decay=decay)
    assert same(model, by_hand(x, objectives.MSE(), epochs=2, each_step=shrink))


def test_average_of_weights_is_kept_and_is_what_is_validated():
    x, decay = digits(200), 0.8
    average = None
    course = []

    def watch(model, _):
        course.append({k: v.clone() for k, v in model.state_dict().items()})

    final = by_hand(x, objectives.MSE(), epochs=2, each_step=watch, validation=0.1)
    course.append(final.state_dict())
    average = {k: v.double() for k, v in course[0].items()}
    for step, weights in enumerate(course[1:]):
        now = min(decay, (1 + step) / (10 + step))
        average = {k: now * v + (1 - now) * weights[k].double() for k, v in average.items()}
    model, history = run(x, objective="mse", max_epochs=2, ema=decay, validation=0.1)
    for name, value in model.state_dict().items():
        assert torch.allclose(value.double(), average[name], atol=1e-6)
    rows = torch.randperm(len(x), generator=seeded())[:20]
    assert history[-1]["validation_loss"] == pytest.approx(
        float((model(x[rows]) - x[rows]).detach().square().mean())
    )
    # With early stopping too, it is averages that are compared and kept.
    best, _ = run(x, objective="mse", max_epochs=2, ema=decay, validation=0.1, patience=2)
    assert same(model, best)


def test_early_stopping_keeps_the_best():
    """Adam moves the weight by 0.1 a step: 0.5 after epoch 4 is the best, and two more are waited for."""
    x = torch.ones(10, 3)
    rows = torch.randperm(10, generator=seeded())
    x[rows[:5]] = -1
    config = read_config({**SMALL, "max_epochs": 50, "validation": 0.5, "patience": 2, "learning_rate": 0.1})
    model = One()
    history = train(model, Contrary(), x, config)
    assert [m["epoch"] for m in history] == list(range(7))
    assert min(history, key=lambda m: m["validation_loss"])["epoch"] == 4
    assert float(model.weight.detach()) == pytest.approx(0.5, abs=1e-4)
    model = One()
    assert len(train(model, Contrary(), x, config.model_copy(update={"patience": None}))) == 50
    assert float(model.weight.detach()) == pytest.approx(5, abs=1e-2)


class Counts(objectives.Objective):
    """Counts the samples it is shown at once to measure, and keeps a number of its own."""

    def __init__(self):
        super().__init__()
        self.sizes = []
        self.register_buffer("seen", torch.zeros(()))

    def compute(self, model, batch):
        if torch.is_grad_enabled():
            self.seen += 1
        else:
            self.sizes.append(len(batch.x))
        return (model(batch.x) - (-1 if torch.is_grad_enabled() else 1)).square().mean()


@pytest.mark.parametrize(("n", "sizes"), [(1200, [8] * 15), (470, [3] * 15 + [2]), (50, [1] * 5), (10, [1])])
def test_held_out_samples_are_compared_in_parts(n, sizes):
    objective = Counts()
    config = read_config({**SMALL, "max_epochs": 2, "validation": 0.1, "patience": 1, "batch_size": 64})
    train(One(), objective, torch.ones(n, 3), config)
    assert objective.sizes[: len(sizes)] == sizes
    assert len(objective.sizes) == 2 * len(sizes)


def test_what_an_objective_learns_is_kept_with_the_weights():
    """Training makes the held-out loss worse each epoch, so that the first is kept."""
    objective = Counts()
    config = read_config({**SMALL, "max_epochs": 9, "validation": 0.5, "patience": 3, "batch_size": 10})
    history = train(One(), objective, torch.ones(40, 3), config)
    assert len(history) == 4
    assert history[-1]["kept_epoch"] == 0
    assert objective.seen == 2  # steps of the first epoch


def test_validation_masks_are_the_same_each_epoch():
    """With a model that hardly moves, the held-out loss moves no more than it."""
    x = digits(100)
    drawn = []
    masker = masking.BlindSpot(0.3)

    def watching(batch, generator):
        x_tilde, b = masker(batch, generator)
        drawn.append(b)
        return x_tilde, b

    model, _, config = setup(x, max_epochs=3, validation=0.2, batch_size=80)
    train(model, objectives.Noise2Void(watching), x, config)
    validation = [b for b in drawn if len(b) == 20]
    training = [b for b in drawn if len(b) == 80]
    assert (len(validation), len(training)) == (3, 3)
    assert torch.equal(validation[0], validation[1])
    assert torch.equal(validation[0], validation[2])
    assert not torch.equal(training[0], training[1])


def test_repeats_and_leaves_global_state_alone():
    x = digits(128)
    torch.manual_seed(7)
    before = torch.get_rng_state()
    threads = torch.get_num_threads()
    first, _ = run(x, max_epochs=2, threads=3 - min(threads, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads
    with pytest.raises(ValueError, match="NaN or infinite"):
        run(x * torch.inf, max_epochs=1, threads=3 - min(threads, 2))
    assert torch.get_num_threads() == threads
    second, _ = run(x, max_epochs=2, threads=3 - min(threads, 2))
    other, _ = run(x, max_epochs=2, seed=1)
    assert same(first, second)
    assert not same(first, other)


def test_modes_of_parts_are_kept():
    x = digits(64)
    frozen = nn.BatchNorm1d(64).eval()
    model = nn.Sequential(nn.Flatten(), frozen, nn.Dropout(0.5), nn.Linear(64, 64), nn.Unflatten(1, (8, 8)))
    seen = []
    model[2].register_forward_hook(lambda module, *_: seen.append(module.training))
    train(model, objectives.MSE(), x, read_config({**SMALL, "max_epochs": 2, "validation": 0.5}))
    assert seen == [True, False, True, False]
    assert (model.training, model[2].training, frozen.training) == (True, True, False)


def test_bf16_runs_in_bf16_and_is_no_lasting_change():
    x = digits(128)
    full, history = run(x, max_epochs=3)
    model, _, config = setup(x, max_epochs=3, precision="bf16")
    kinds = set()
    hook = model.decoder[0].register_forward_hook(lambda _m, _i, output: kinds.add(output.dtype))
    lower = train(model, objectives.DenoisingCosine(), x, config)
    hook.remove()
    assert kinds == {torch.bfloat16}
    assert lower[-1]["loss"] == pytest.approx(history[-1]["loss"], abs=0.02)
    assert not same(full, model)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert model(x).dtype == torch.float32
    assert "forward" not in vars(model)
    # The next training has its own precision.
    again, _ = run(x, max_epochs=3)
    assert same(full, again)


def test_sure_is_never_computed_in_low_precision():
    """The difference of its two passes would be rounded away."""
    x = digits(64)
    model, objective, config = setup(
        x, objective="sure", objective_options={"sigma": 0.2}, max_epochs=1, precision="bf16"
    )
    kinds = set()
    model.decoder[0].register_forward_hook(lambda _m, _i, output: kinds.add(output.dtype))
    train(model, objective, x, config)
    assert kinds == {torch.float32}


def test_fp16_is_not_ignored_silently():
    with pytest.raises(ValueError, match="precision fp16 needs a GPU: use bf16 or no"):
        run(digits(32), max_epochs=1, precision="fp16")


@pytest.mark.skipif(shutil.which("c++") is None, reason="torch.compile needs a C++ compiler")
def test_compile_switch():
    x = digits(64)
    plain, first = run(x, max_epochs=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own
        model, second = run(x, max_epochs=2, compile=True)
    assert second[-1]["loss"] == pytest.approx(first[-1]["loss"], abs=1e-4)
    assert model.state_dict().keys() == plain.state_dict().keys()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_samples(n):
    model, history = run(digits(n), objective="mse", max_epochs=2, batch_size=1000, validation=0.5)
    assert len(history) == 2
    assert ("validation_loss" in history[0]) == (n > 1)
    assert all(bool(p.isfinite().all()) for p in model.parameters())


def test_no_epochs():
    x = digits(10)
    model, history = run(x, max_epochs=0, ema=0.9, patience=1)
    assert history == []
    assert same(model, setup(x)[0])


def test_batch_larger_than_the_data_is_all_of_it():
    x = digits(50)
    one, _ = run(x, objective="mse", max_epochs=3, batch_size=50)
    other, _ = run(x, objective="mse", max_epochs=3, batch_size=10**6)
    assert same(one, other)


class Exploding(objectives.Objective):
    def compute(self, model, batch):
        return model(batch.x).sum() * torch.inf


class Cusp(objectives.Objective):
    """Finite, with a gradient that is not."""

    def compute(self, model, batch):
        return (model(batch.x) * 0).sum().abs().sqrt()


@pytest.mark.parametrize(("objective", "what"), [(Exploding(), "loss"), (Cusp(), "gradient")])
def test_what_is_not_finite_is_an_error_and_no_step(objective, what):
    model, _, config = setup(digits(32), max_epochs=1)
    before = copy.deepcopy(model)
    with pytest.raises(ValueError, match=f"the {what} became .* in epoch 0: use a lower learning_rate"):
        train(model, objective, digits(32), config)
    assert same(model, before)


def test_a_model_without_parameters_is_refused():
    with pytest.raises(ValueError, match="model has no parameters to train"):
        train(nn.Identity(), objectives.MSE(), digits(8), read_config(SMALL))


class FirstIsBest(objectives.Objective):
    """Is best with the weights that training begins with, on which it makes no demands."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def compute(self, model, batch):
        if torch.is_grad_enabled():
            return (model(batch.x) - batch.x).square().mean()
        self.calls += 1
        return torch.tensor(float(self.calls))


def test_collapse_is_told_of_the_weights_that_are_kept():
    rates = {"learning_rate": 1e-2, "warmup_epochs": 30}
    model, _, config = setup(digits(200), max_epochs=40, patience=39, validation=0.1, **rates)
    with torch.no_grad():  # all features alike at first, as on the plateau before features form
        last = [layer for layer in model.encoder.modules() if isinstance(layer, nn.Linear)][-1]
        last.weight.mul_(1e-3)
        last.bias.fill_(1)
    with pytest.warns(TrainingWarning, match="features have collapsed"):
        history = train(model, FirstIsBest(), digits(200), config)
    assert history[-1]["feature_spread"] > 0.05


def test_collapse_is_told_with_a_remedy():
    x = torch.ones(64, 8, 8) + 1e-3 * torch.randn(64, 8, 8, generator=seeded())
    with pytest.warns(TrainingWarning, match=r"features have collapsed.*lower learning_rate") as caught:
        _, history = run(x, objective="mse", max_epochs=1)
    assert history[-1]["feature_spread"] < 0.02
    assert caught[0].filename == __file__  # of the caller


def test_floored_samples_are_told_with_a_remedy():
    x = torch.randn(128, 8, 8, generator=seeded())
    with pytest.warns(TrainingWarning, match=r"% of the samples have an expected cosine at the floor.*rho"):
        _, history = run(x, max_epochs=1)
    assert history[-1]["floored"] > 0.5


@pytest.mark.parametrize("options", [{"eta": 1.0}, {"variant": "paper"}])
def test_where_there_is_no_floor_nothing_is_told_of_it(options):
    x = torch.randn(128, 8, 8, generator=seeded())
    _, history = run(x, max_epochs=1, objective_options=options)
    assert history[-1]["floored"] == 0


def test_ordinary_data_is_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, history = run(digits(), max_epochs=5, validation=0.1)
        run(digits(), max_epochs=1, n_components=1)  # a single feature has no direction
    last = history[-1]
    assert last["feature_spread"] > 0.2
    assert last["floored"] < 0.2
    assert 0 < last["k"] < 1
    assert last["k_deviation"] > 0
    assert last["snr"] > 0
    assert last["snr_deviation"] > 0
    assert last["samples_per_second"] > 0


def test_meters_see_the_pair():
    x, pair = digits(), digits(seed=1)
    _, history = run(x, pair=pair, max_epochs=1)
    snr, k, _ = objectives.DenoisingCosine().weights(x, None, pair)
    assert history[0]["snr"] == pytest.approx(float(snr.mean()), rel=1e-4)
    assert history[0]["k"] == pytest.approx(float(k.mean()), rel=1e-4)


def test_parameters_of_an_objective_are_trained_and_saved():
    x = digits(64)
    _, _, config = setup(x, max_epochs=4, learning_rate=0.01, batch_size=16)

    def fresh():
        return models.build("mlp", (8, 8), hidden=(8,)), Scaled()

    model, objective = fresh()
    train(model, objective, x, config)
    assert float(objective.scale.detach()) == pytest.approx(1.16, abs=0.05)  # 16 steps of about 0.01
    stopped = Keep(stop_after=6)
    with pytest.raises(InterruptedError):
        train(*fresh(), x, config, recorder=stopped)
    resumed, its_objective = fresh()
    train(resumed, its_objective, x, config, recorder=Keep(stopped.state))
    assert same(resumed, model)
    assert torch.equal(its_objective.scale, objective.scale)


def test_dropout_is_seeded_and_goes_on_where_it_was():
    x = digits(64)
    config = read_config({**SMALL, "max_epochs": 3, "batch_size": 16})

    def fresh():
        model = models.build("mlp", (8, 8), hidden=(32,))
        model.encoder.append(nn.Dropout(0.3))
        return model, objectives.MSE()

    whole, again, resumed = (fresh() for _ in range(3))
    train(*whole, x, config)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    train(*again, x, config)
    assert torch.equal(torch.get_rng_state(), before)
    assert same(whole[0], again[0])
    stopped = Keep(stop_after=6)
    with pytest.raises(InterruptedError):
        train(*fresh(), x, config, recorder=stopped)
    train(*resumed, x, config, recorder=Keep(stopped.state))
    assert same(whole[0], resumed[0])
    with pytest.raises(ValueError, match="of a training on cuda, this one on cpu"):
        train(*fresh(), x, config, recorder=Keep({**stopped.state, "device": "cuda"}))


@pytest.mark.parametrize("steps", [1, 3, 4, 5, 8, 11])
def test_going_on_from_any_step_ends_alike(steps):
    """Four steps an epoch: also from the end of one, where nothing but its measures is left to do."""
    x = digits(111)
    settings = {
        "max_epochs": 3, "batch_size": 25, "validation": 0.1, "ema": 0.7, "patience": 2, "schedule": "cosine",
        "warmup_epochs": 0.5, "clip_norm": 0.05,
    }  # fmt: skip
    whole, history = run(x, **settings)
    stopped = Keep(stop_after=steps)
    model, objective, config = setup(x, **settings)
    with pytest.raises(InterruptedError):
        train(model, objective, x, config, recorder=stopped)
    model, objective, config = setup(x, **settings)
    rest = train(model, objective, x, config, recorder=Keep(stopped.state))
    assert same(whole, model)
    timeless = [{k: v for k, v in m.items() if k != "samples_per_second"} for m in history]
    assert [{k: v for k, v in m.items() if k != "samples_per_second"} for m in rest] == timeless[-len(rest) :]
    assert len(rest) == 3 - (steps - 1) // 4


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"epochs": 3}, "unknown setting 'epochs'"),
        ({"learning_rat": 3}, "unknown setting 'learning_rat': did you mean 'learning_rate'"),
        ({"learning_rate": -1}, "learning_rate: .*greater than 0, got -1"),
        ({"warmup_epochs": math.inf}, "warmup_epochs: .*finite"),
        ({"clip_norm": math.inf}, "clip_norm: .*finite"),
        ({"batch_size": 0, "seed": -1}, "batch_size: .*; seed: "),
    ],
)
def test_wrong_settings_are_named(settings, match):
    with pytest.raises(ValueError, match=match):
        read_config(settings)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"objective": "dsc"}, "did you mean 'dcs'"),
        (
            {"objective_options": {"powr": 1}},
            "unknown option 'objective_options.powr' of objective 'dcs': did you mean 'power'",
        ),
        ({"masking": {"kind": "dots"}}, "masking: view must be one of .*, split, automatic, got 'dots'"),
        ({"masking": {"ro": 0.1}}, "unknown option 'masking.ro' of view 'blind_spot': did you mean 'rho'"),
        (
            {"objective": "mse", "masking": {"rho": 0.1}},
            "masking is not applicable to objective 'mse'",
        ),
    ],
)
def test_wrong_options_are_named(settings, match):
    with pytest.raises(ValueError, match=match):
        make_objective(complete(settings, Facts((8, 8), 100)))


def test_masking_settings_reach_the_masker():
    def made_for(shape, **settings):
        return make_objective(complete(settings, Facts(shape, 100)))

    made = made_for((8, 8), objective="n2v", masking={"rho": 0.2, "radius": 2})
    assert (made.masker.rho, made.masker.radius, made.masker.ndim) == (0.2, 2, 2)
    assert made_for((64,), masking={"rho": 0.2}).masker.ndim == 1
    amplitude = made_for((64,), masking={"kind": "amplitude", "delta": 3}).masker
    assert isinstance(amplitude, masking.AmplitudeNeighbors)

"""Self-supervised objectives in two processes, with batch normalisation over the joint batch."""

import copy
from pathlib import Path

import pytest
import torch
from dcs.training.batchnorm import SyncBatchNorm, synchronise
from torch import nn

from dcs import models, objectives
from dcs.augmentation import Views
from dcs.training import loop, processes, read_config, train
from tests.training.test_processes import both

SHAPE = (3, 8, 8)
NAMES = [
    ("simsiam", "separate"),
    ("simsiam-dcs", "separate"),
    ("simclr-n2v", "shared"),
    ("byol-dcs", "shared"),
]
SETTINGS = {
    "batch_size": 7,
    "max_epochs": 2,
    "device": "cpu",
    "threads": 1,
    "validation": 0.2,
    "optimizer": "sgd",
    "learning_rate": 1.0,
    "weight_decay": 1e-4,
}


def images(n=28):
    coarse = torch.rand(n, 3, 3, 3, generator=torch.Generator().manual_seed(5))
    return nn.functional.interpolate(coarse, SHAPE[1:], mode="bilinear")


def network(seed=0):
    torch.manual_seed(seed)
    encoder = models.ResNet((1, 1), bottleneck=False, width=4)
    return models.Autoencoder(encoder, models.make_decoder("linear", encoder.features, SHAPE)).double()


def made(name, how, seed=0):
    widths = {"projector": (10, 6)} if name.startswith("simclr") else {"projector": (10, 6), "predictor": 5}
    objective = objectives.get(name, augment=Views(jitter_share=0), how=how, features=8, seed=seed, **widths)
    return objective.double()


def normalised(norm, x, weight):
    """The result of a normalisation, and the gradients of a weighted sum of it."""
    x = x.clone().requires_grad_()
    result = norm(x)
    (result * weight).sum().backward()
    return result.detach(), x.grad, norm.weight.grad, norm.bias.grad


def maps(n=7):
    generator = torch.Generator().manual_seed(1)
    return (torch.randn(n, 5, 3, 3, generator=generator, dtype=torch.float64) for _ in range(2))


def norm():
    made = nn.BatchNorm2d(5).double()
    nn.init.normal_(made.weight, generator=torch.Generator().manual_seed(2))
    return made


def shifted(x):
    """A mean that is much larger than the deviation, in half of the digits."""
    return (10 + 0.3 * x).bfloat16()


def work(out, rank):
    results = {}
    with loop._engine(read_config(SETTINGS)) as accelerator:
        holder = nn.Sequential(norm())
        synchronise(holder, accelerator.device)
        x, weight = (part[:4] if rank == 0 else part[4:] for part in maps())
        results["norm"] = normalised(holder[0], x, weight)
        results["running"] = holder.state_dict()
        half = nn.Sequential(nn.BatchNorm2d(5))
        synchronise(half, accelerator.device)
        results["half"] = half[0](shifted(x)).detach()
        del accelerator, holder, half
    for name, how in NAMES:
        # Each process has weights of its own to begin with: those of the first count.
        model, objective = network(rank), made(name, how, rank)
        history = train(model, objective, images().double(), read_config(SETTINGS))
        results[name, how] = model.state_dict(), objective.state_dict(), history
    model = network()
    alone = read_config({**SETTINGS, "sync_batchnorm": False})
    train(model, made(*NAMES[0]), images().double(), alone)
    results["alone"] = model.state_dict(), [type(m).__name__ for m in model.modules()]
    torch.save(results, Path(out) / f"{rank}.pt")
    processes.leave()


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    assert both(work, folder) == [0, 0]
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


def test_joint_normalisation_is_that_of_one_process(results):
    plain = norm()
    result, *gradients = normalised(plain, *maps())
    torch.testing.assert_close(torch.cat([part["norm"][0] for part in results]), result)
    torch.testing.assert_close(torch.cat([part["norm"][1] for part in results]), gradients[0])
    for index in (2, 3):
        torch.testing.assert_close(sum(part["norm"][index] for part in results), gradients[index - 1])
    for part in results:
        for key, value in plain.state_dict().items():
            torch.testing.assert_close(part["running"][f"0.{key}"], value)


def test_joint_normalisation_keeps_its_digits_in_mixed_precision(results):
    x, _ = maps()
    found = torch.cat([part["half"] for part in results])
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, nn.BatchNorm2d(5)(shifted(x)).detach(), rtol=0.01, atol=0.01)


@pytest.mark.parametrize(("name", "how"), NAMES)
def test_weights_are_those_of_one_process(results, name, how):
    model, objective = network(), made(name, how)
    untrained = copy.deepcopy(model.state_dict())
    history = train(model, objective, images().double(), read_config(SETTINGS))
    for index, module in enumerate((model, objective)):
        first, second = (part[name, how][index] for part in results)
        for key, wanted in module.state_dict().items():
            torch.testing.assert_close(first[key], wanted, rtol=1e-5, atol=1e-7, msg=key)
            assert torch.equal(first[key], second[key]), key
    moved = max(float((value - untrained[key]).abs().max()) for key, value in model.state_dict().items())
    assert moved > 1e-3
    for metric in ("loss", "validation_loss", "feature_spread", "projection_spread", "gradient_norm"):
        wanted = [metrics[metric] for metrics in history]
        assert [metrics[metric] for metrics in results[0][name, how][2]] == pytest.approx(wanted, rel=1e-5)


def test_without_joint_normalisation_it_is_another_result(results):
    """So the agreement above is the joint normalisation's doing; processes still agree among themselves."""
    state, kinds = results[0]["alone"]
    assert "SyncBatchNorm" not in kinds
    joint = results[0][NAMES[0]][0]
    assert max(float((state[key] - joint[key]).abs().max()) for key in state) > 1e-4
    assert all(torch.equal(value, results[1]["alone"][0][key]) for key, value in state.items())


def test_a_synchronised_model_is_the_same_model():
    model = network()
    expected, before = model(images(4).double()), dict(model.named_parameters())
    twin = network()
    synchronise(twin, torch.device("cpu"))
    assert any(isinstance(module, SyncBatchNorm) for module in twin.modules())
    assert not any(type(module) is nn.BatchNorm2d for module in twin.modules())
    torch.testing.assert_close(twin(images(4).double()), expected)
    assert twin.state_dict().keys() == model.state_dict().keys()
    assert all(name in before for name, _ in twin.named_parameters())
    torch.testing.assert_close(twin.eval()(images(4).double()), model.eval()(images(4).double()))

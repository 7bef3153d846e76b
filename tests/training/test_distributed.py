"""Several processes: the gradients of the joint batch, own masks and samples, and exact resuming."""

import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

from dcs import masking, models, objectives
from dcs.augmentation import Views
from dcs.data import Samples
from dcs.runs import Run, RunRecord, Stopped
from dcs.training import (
    CheckpointWarning,
    RunError,
    checkpoint,
    distributed,
    read_config,
    train,
)
from tests.helpers import QUICK, seeded

CHILDREN = multiprocessing.get_context("forkserver")
CHILDREN.set_forkserver_preload(["dcs.runs", "torch._dynamo", "torch.nn.parallel"])
SETTINGS = {
    "batch_size": 8,
    "max_epochs": 3,
    "device": "cpu",
    "threads": 1,
    "validation": 0.2,
    "patience": 5,
    "ema": 0.5,
    "clip_norm": 0.5,
    "checkpoint_seconds": 0,
}
SIZES = {"divides": (40, 8), "does not": (41, 7)}  # samples, of which a fifth is held out, and batch size
IMAGES = (3, 8, 8)
SELF_SUPERVISED = [
    ("simsiam", "separate"),
    ("simsiam-dcs", "separate"),
    ("simclr-n2v", "shared"),
    ("byol-dcs", "shared"),
]


class Scaled(objectives.Objective):
    """Has parameters of its own, before and after the model."""

    def __init__(self, before=0.9):
        super().__init__()
        self.before, self.after = nn.Parameter(torch.tensor(before)), nn.Parameter(torch.tensor(1.1))

    def compute(self, model, batch):
        return (self.after * model(self.before * batch.x) - batch.x).square().mean()


class Encodes(objectives.Objective):
    """Leaves the decoder unused."""

    def __init__(self, predicts):
        super().__init__()
        self.predicts = predicts

    def compute(self, model, batch):
        return model.encode(batch.x).square().mean()


class Noted:
    """A masker that keeps its masks."""

    def __init__(self):
        self.masker, self.masks = masking.BlindSpot(0.3, ndim=1), []

    def __call__(self, x, generator=None, *, valid=None):
        x_tilde, b = self.masker(x, generator)
        if torch.is_grad_enabled():
            self.masks.append(b)
        return x_tilde, b


class Counted(Samples):
    """Samples that keep which of them were read."""

    def __init__(self, x):
        self.x, self.shape, self.reads = x, tuple(x.shape), []

    def read(self, indices):
        self.reads.append(list(indices))
        return self.x[list(indices)]

    def default_workers(self):
        return 0


class Asked(Run):
    """A run in which a process other than the first is asked to stop."""

    def after_step(self, state):
        if self.step + 1 == 6 and not self.main:
            signal.raise_signal(signal.SIGTERM)
        return super().after_step(state)


class Killed(Run):
    """A run in which a process other than the first is killed."""

    def after_step(self, state):
        leave = super().after_step(state)
        if self.step == 6 and not self.main:
            os.kill(os.getpid(), signal.SIGKILL)
        return leave


class Failing(Run):
    """A run in which a process other than the first fails, as when it cannot read its samples."""

    def after_step(self, state):
        leave = super().after_step(state)
        if self.step == 6 and not self.main:
            raise OSError("no such file")
        return leave


def objective(name, rank=0):
    made = {
        "mse": objectives.MSE,
        "cosine": objectives.Cosine,
        "own": lambda: Scaled(0.9 + rank),
    }
    return made[name]()


def data(n=40):
    return torch.randn(n, 12, generator=seeded()).cumsum(1)


def network(seed=0):
    return models.build("mlp", (12,), 4, seed=seed, hidden=(16,))


def mixed_network(seed=0, width=16):
    """With running statistics, and random numbers of its own."""
    torch.manual_seed(seed)
    last = nn.Linear(width, width), nn.Linear(width, 12)
    return nn.Sequential(nn.Linear(12, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.2), *last)


def images(n=24):
    return nn.functional.interpolate(torch.rand(n, 3, 3, 3, generator=seeded(5)), IMAGES[1:], mode="bilinear")


def image_network(seed=0):
    torch.manual_seed(seed)
    encoder = models.ResNet((1, 1), bottleneck=False, width=4)
    return models.Autoencoder(encoder, models.make_decoder("linear", encoder.features, IMAGES))


def self_supervised(name, how, seed=0):
    widths = {"projector": (10, 6)} if name.startswith("simclr") else {"projector": (10, 6), "predictor": 5}
    return objectives.get(name, augment=Views(jitter_share=0), how=how, seed=seed, **widths)


def fit_run(out, rank, kind=Run, name="run", resume=False, width=16):
    """Train the network with everything that a checkpoint must hold; its weights."""
    config = read_config(SETTINGS)
    record = RunRecord(shape=(12,), training=config)
    with kind(Path(out) / name, record, main=rank == 0, resume=resume) as run:
        model = mixed_network(rank, width)
        train(model, objectives.DenoisingCosine(), data(), config, recorder=run)
        run.finish(model.state_dict())
    return model.state_dict()


def curves(out, rank):
    results = {}
    for name in ("mse", "cosine", "own"):
        for size, (n, batch_size) in SIZES.items():
            # Each process has weights of its own to begin with: those of process 0 count.
            model, config = network(seed=rank), read_config({**SETTINGS, "batch_size": batch_size})
            history = train(model, objective(name, rank), data(n), config)
            results[name, size] = model.state_dict(), history
    return results


def masks(out, rank):
    results = {}
    for kind in (objectives.Noise2Void, objectives.DenoisingCosine):
        masker = Noted()
        train(network(), kind(masker), data(), read_config({**SETTINGS, "max_epochs": 1}))
        results[kind.__name__] = masker.masks
    return results


def heads(out, rank):
    results = {}
    settings = {"optimizer": "sgd", "learning_rate": 1.0, "batch_size": 7, "patience": None, "max_epochs": 2}
    for name, how in SELF_SUPERVISED:
        model, made = image_network(rank), self_supervised(name, how, rank)
        history = train(model, made, images(), read_config({**SETTINGS, **settings}))
        results[name, how] = model.state_dict(), made.state_dict(), history
    return results


def unused(out, rank):
    model = network()
    train(model, Encodes(predicts=False), data(), read_config(SETTINGS))
    with pytest.raises(ValueError, match=r"some parameters take no part in the loss.* predicts = False"):
        train(network(), Encodes(predicts=True), data(), read_config(SETTINGS))
    return model.state_dict()


def reads(out, rank):
    samples = Counted(data())
    train(network(), objectives.MSE(), samples, read_config({**SETTINGS, "max_epochs": 2}))
    return samples.reads


def everything(out, rank):
    return {task.__name__: task(out, rank) for task in (curves, masks, heads, unused, reads, fit_run)}


def interrupted(out, rank, **options):
    with pytest.raises(Stopped, match="stopped in epoch 2 after batch 2, and saved"):
        fit_run(out, rank, Asked, **options)
    return fit_run(out, rank, resume=True, **options)


def exact(out, rank):
    """The weights of an undisturbed run, and of one that was interrupted."""
    return fit_run(out, rank, name="undisturbed", width=200), interrupted(out, rank, width=200)


def ended(out, rank, kind):
    try:
        fit_run(out, rank, kind)
    except (RunError, OSError) as error:
        return f"{type(error).__name__}: {error}"


def member(rank, count, port, out, task, *arguments):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.save(task(out, rank, *arguments), out / f"{rank}.pt")
    distributed.leave()


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def together(out, task, *arguments, count=2, codes=(0, 0)):
    """Run a task in several processes; what it returned in each that was not killed."""
    port = free_port()
    members = [
        CHILDREN.Process(target=member, args=(rank, count, port, out, task, *arguments))
        for rank in range(count)
    ]
    for process in members:
        process.start()
    for process in members:
        process.join(120)
    assert [process.exitcode for process in members] == list(codes)
    return [torch.load(out / f"{rank}.pt") for rank in range(count) if codes[rank] == 0]


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("two")


@pytest.fixture(scope="module")
def results(out):
    return together(out, everything)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["mse", "cosine", "own"])
def test_losses_are_those_of_one_process_with_the_joint_batch(results, name, size):
    n, batch_size = SIZES[size]
    model = network()
    history = train(model, objective(name), data(n), read_config({**SETTINGS, "batch_size": batch_size}))
    (first, its_history), (second, other_history) = (result["curves"][name, size] for result in results)
    for metric in ("loss", "validation_loss", "gradient_norm", "learning_rate", "feature_spread"):
        wanted = [metrics[metric] for metrics in history]
        assert [metrics[metric] for metrics in its_history] == pytest.approx(wanted, abs=1e-5)
    assert its_history == other_history
    assert same(first, second)
    for key, wanted in model.state_dict().items():
        torch.testing.assert_close(first[key], wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["Noise2Void", "DenoisingCosine"])
def test_masks_differ_between_processes_and_steps(results, name):
    first, second = (result["masks"][name] for result in results)
    assert [len(b) for b in first] == [len(b) for b in second] == [4] * 4
    for step, (one, other) in enumerate(zip(first, second, strict=True)):
        assert not torch.equal(one, other)
        assert not any(torch.equal(one, later) for later in first[step + 1 :] + second[step + 1 :])


@pytest.mark.parametrize("case", SELF_SUPERVISED)
def test_self_supervised_objectives_agree_between_processes(results, case):
    (model, made, history), (other_model, other_made, other_history) = (
        result["heads"][case] for result in results
    )
    assert same(model, other_model)
    assert same(made, other_made)
    assert history == other_history
    assert all(bool(value.isfinite().all()) for value in [*model.values(), *made.values()])
    start = image_network().state_dict()
    moved = [name for name, _ in image_network().encoder.named_parameters(prefix="encoder")]
    assert not any(torch.equal(model[name], start[name]) for name in moved)


def test_parameters_may_be_unused(results):
    first, second = (result["unused"] for result in results)
    assert same(first, second)
    start = network().state_dict()
    moved = {name.split(".")[0] for name in start if not torch.equal(first[name], start[name])}
    assert moved == {"encoder"}


def test_each_process_reads_its_own_samples(results):
    measured, *first = results[0]["reads"]
    second = results[1]["reads"]
    assert sorted(measured) == list(range(40))  # process 0 alone measures
    assert len(second) == len(first) == 2 * (4 + 4)  # in each epoch 4 batches, and half of 8 held-out ones
    for epoch in (slice(0, 8), slice(8, 16)):
        read = [row for reads in (first[epoch], second[epoch]) for rows in reads for row in rows]
        assert sorted(read) == list(range(40))
    assert {len(rows) for rows in second} == {4, 1}


def test_one_process_writes(results, out):
    names = {path.name for path in (out / "run").rglob("*")}
    assert names == {".lock", "config.json", "metrics.jsonl", "model.safetensors"}
    assert len((out / "run" / "metrics.jsonl").read_text().splitlines()) == 3
    assert same(*(result["fit_run"] for result in results))


def test_a_resumed_training_ends_with_the_same_bytes(results, out, tmp_path):
    resumed = together(tmp_path, interrupted)
    assert all(same(state, results[0]["fit_run"]) for state in resumed)
    for name in ("model.safetensors", "metrics.jsonl"):
        one, other = ((folder / "run" / name).read_bytes() for folder in (out, tmp_path))
        if name == "metrics.jsonl":
            one, other = (re.sub(rb'"samples_per_second": [^,}]+', b"", lines) for lines in (one, other))
        assert one == other


def test_three_processes_resume_exactly_too(tmp_path):
    """Their sums depend on the order of summation, which torch changes after its first step."""
    states = [state for pair in together(tmp_path, exact, count=3, codes=(0, 0, 0)) for state in pair]
    assert all(same(state, states[0]) for state in states)


@pytest.mark.parametrize(("kind", "code"), [(Killed, -signal.SIGKILL), (Failing, 0)])
def test_a_process_that_ends_is_an_error_in_the_others(tmp_path, kind, code):
    messages = together(tmp_path, ended, kind, codes=(0, code))
    assert messages[0].startswith("RunError: another process of this training has ended")
    assert "--resume" in messages[0]
    assert messages[1:] == ([] if code else ["OSError: no such file"])
    assert max(checkpoint.numbers(tmp_path / "run" / "checkpoint")) == 6


def test_one_process_continues_what_two_have_begun(tmp_path):
    together(tmp_path, ended, Killed, codes=(0, -signal.SIGKILL))
    with pytest.warns(CheckpointWarning, match="written by 2 processes, there are now 1: .*not be bit-ident"):
        fit_run(tmp_path, 0, resume=True)
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_seeds_differ_between_processes_and_steps():
    groups = [distributed.Group(torch.device("cpu"), rank, 4) for rank in range(4)]
    seeds = [group.seed(3, step) for group in groups for step in (None, 0, 1, 2)]
    assert len(set(seeds)) == 16
    assert seeds[0] == 3  # as in one process


def start_torchrun(out, *options):
    arguments = ["fit", "digits", "--epochs", "3", "--noise", "gaussian:0.3", *QUICK, "--out", out, *options]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--master-addr", "127.0.0.1", "--master-port", str(free_port()), "-m", "dcs", *arguments]
    return subprocess.Popen(
        [*map(str, command), "--set", "checkpoint_seconds=0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    stdout, stderr = process.communicate(timeout=200)
    assert process.returncode == 0, stderr
    assert stdout.count("is finished after 3 epochs") == 1


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds processes in /proc")
def test_torchrun_killed_and_resumed_ends_with_the_same_bytes(tmp_path):
    whole = start_torchrun(tmp_path / "whole")
    finish(whole)
    process = start_torchrun(tmp_path / "run")
    while process.poll() is None and max(checkpoint.numbers(tmp_path / "run" / "checkpoint"), default=0) < 30:
        time.sleep(0.01)
    workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(workers) == 2
    for number in (process.pid, *map(int, workers)):
        os.kill(number, signal.SIGKILL)
    process.communicate()
    while any(Path(f"/proc/{number}").exists() for number in workers):
        time.sleep(0.01)
    assert not (tmp_path / "run" / "model.safetensors").exists()
    finish(start_torchrun(tmp_path / "run", "--resume"))
    one, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "run"))
    assert one == other

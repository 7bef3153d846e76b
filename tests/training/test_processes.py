"""Several processes: one joint batch, the gradients of one process, and one set of files."""

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

from dcs import models, objectives
from dcs.training import Run, RunError, Stopped, checkpoint, loop, processes, read_config, train

CHILDREN = multiprocessing.get_context("forkserver")
CHILDREN.set_forkserver_preload(["accelerate", "dcs.training", "torch._dynamo"])
OBJECTIVES = {
    "mse": objectives.MSE(),
    "n2v": objectives.Noise2Void(),
    "dcs": objectives.DenoisingCosine(),
    "sure": objectives.SURE(0.3),
}
SIZES = [1, 2, 7, 8]
SETTINGS = {
    "batch_size": 7,
    "max_epochs": 3,
    "device": "cpu",
    "threads": 1,
    "validation": 0.2,
    "patience": 5,
    "ema": 0.5,
}


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def data(n=40):
    return torch.randn(n, 12, generator=torch.Generator().manual_seed(0)).cumsum(1)


def network(seed=0):
    return models.build("mlp", (12,), 4, seed=seed, hidden=(16,))


class Scaled(objectives.Objective):
    """Has parameters of its own, before and after the model."""

    def __init__(self, before=0.9):
        super().__init__()
        self.before, self.after = nn.Parameter(torch.tensor(before)), nn.Parameter(torch.tensor(1.1))

    def compute(self, model, batch):
        return (self.after * model(self.before * batch.x) - batch.x).square().mean()


def gradients(objective, model, n, wrapped, accelerator=None):
    model.zero_grad()
    objective.zero_grad()
    objective(wrapped, data()[:n], torch.Generator().manual_seed(1)).backward()
    if accelerator is not None:
        processes.average_gradients([*model.parameters(), *objective.parameters()], accelerator)
    return [p.grad.clone() for p in [*model.parameters(), *objective.parameters()]]


def work(out, rank):
    """What each process does: gradients, then trainings."""
    results = {}
    with loop._engine(read_config(SETTINGS)) as accelerator:
        assert (accelerator.num_processes, accelerator.process_index) == (2, rank)
        model = network()
        joint = processes.Joint(model, accelerator)
        for name, objective in {**OBJECTIVES, "own": Scaled()}.items():
            for n in SIZES:
                results[name, n] = gradients(objective, model, n, joint, accelerator)
        assert processes.from_main(rank, accelerator) == 0
        assert processes.any_process(rank == 1, accelerator)
        assert not processes.any_process(False, accelerator)
        del joint, model, accelerator
    for name, objective in {**OBJECTIVES, "own": Scaled(0.9 + rank)}.items():
        # Each process has weights of its own to begin with: those of the first count.
        model = network(seed=rank)
        history = train(model, objective, data(), read_config(SETTINGS))
        results["weights", name] = model.state_dict()
        results["losses", name] = [m["validation_loss"] for m in history]
    config = read_config({**SETTINGS, "checkpoint_seconds": 0})
    with Run(Path(out) / "run", {"training": config.model_dump()}, main=rank == 0) as run:
        model = network()
        train(model, OBJECTIVES["dcs"], data(), config, recorder=run)
        run.finish(model.state_dict())
    torch.save(results, Path(out) / f"{rank}.pt")


class Dying(Run):
    """A run in which a process other than the first is killed."""

    def after_step(self, state):
        leave = super().after_step(state)
        if self.step == 8 and not self.main:
            os.kill(os.getpid(), signal.SIGKILL)
        return leave


class Asked(Run):
    """A run in which a process other than the first is asked to stop."""

    def after_step(self, state):
        if self.step + 1 == 8 and not self.main:
            signal.raise_signal(signal.SIGTERM)
        return super().after_step(state)


def end_early(out, rank, kind):
    config = read_config({**SETTINGS, "checkpoint_seconds": 0})
    with kind(Path(out) / "run", {"training": config.model_dump()}, main=rank == 0) as run:
        try:
            train(network(), OBJECTIVES["dcs"], data(), config, recorder=run)
        except (RunError, Stopped) as error:
            Path(out, f"{rank}.txt").write_text(f"{type(error).__name__}: {error}")


def member(rank, port, task, *arguments):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    out, *rest = arguments
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        task(out, rank, *rest)
    processes.leave()


def both(task, *arguments):
    """Run a task in two processes; their exit codes."""
    port = free_port()
    members = [CHILDREN.Process(target=member, args=(rank, port, task, *arguments)) for rank in range(2)]
    for process in members:
        process.start()
    for process in members:
        process.join(120)
    return [process.exitcode for process in members]


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    assert both(work, folder) == [0, 0]
    return folder


@pytest.fixture(scope="module")
def results(out):
    return [torch.load(out / f"{rank}.pt") for rank in range(2)]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", [*OBJECTIVES, "own"])
def test_gradients_are_those_of_one_process(results, name, n):
    objective, model = {**OBJECTIVES, "own": Scaled()}[name], network()
    expected = gradients(objective, model, n, model)
    assert max(float(gradient.abs().max()) for gradient in expected) > 1e-3
    bound = 1e-5 if name == "sure" else 1e-6  # SURE divides rounding errors by its step, 1e-3
    for result in results:
        for got, wanted in zip(result[name, n], expected, strict=True):
            assert float((got - wanted).abs().max()) <= bound
    assert all(torch.equal(a, b) for a, b in zip(*(result[name, n] for result in results), strict=True))


@pytest.mark.parametrize("name", [*OBJECTIVES, "own"])
def test_weights_are_those_of_one_process(results, name):
    model = network()
    history = train(model, {**OBJECTIVES, "own": Scaled()}[name], data(), read_config(SETTINGS))
    first, second = (result["weights", name] for result in results)
    for key, wanted in model.state_dict().items():
        assert float((first[key] - wanted).abs().max()) <= 1e-5
        assert torch.equal(first[key], second[key])
    assert results[0]["losses", name] == pytest.approx([m["validation_loss"] for m in history], rel=1e-4)
    assert results[0]["losses", name] == results[1]["losses", name]


def test_one_process_writes(out):
    names = {path.name for path in (out / "run").rglob("*")}
    assert names == {".lock", "config.json", "metrics.jsonl", "model.safetensors"}
    assert len((out / "run" / "metrics.jsonl").read_text().splitlines()) == 3


@pytest.mark.parametrize(("kind", "codes"), [(Dying, [0, -signal.SIGKILL]), (Asked, [0, 0])])
def test_a_process_that_ends_or_is_asked_to_ends_all(tmp_path, kind, codes):
    assert both(end_early, tmp_path, kind) == codes
    said = (tmp_path / "0.txt").read_text()
    if kind is Dying:
        assert said.startswith("RunError: another process of this training has ended")
        assert "--resume" in said
    else:
        assert said.startswith("Stopped: stopped in epoch 2 after batch 3, and saved")
        assert (tmp_path / "1.txt").read_text() == said
    assert max(checkpoint.numbers(tmp_path / "run" / "checkpoint")) == 8
    # One process goes on where two left off.
    config = read_config(SETTINGS)
    whole, resumed = network(), network()
    train(whole, OBJECTIVES["dcs"], data(), config)
    with Run(tmp_path / "run", {"training": config.model_dump()}, resume=True) as run:
        train(resumed, OBJECTIVES["dcs"], data(), config, recorder=run)
    for key, wanted in whole.state_dict().items():
        assert float((resumed.state_dict()[key] - wanted).abs().max()) <= 1e-5


def test_under_torchrun(tmp_path):
    """As people start it; both processes end well."""
    script = tmp_path / "script.py"
    script.write_text(
        f"import os, sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from tests.training.test_processes import *\n"
        "history = train(network(), OBJECTIVES['dcs'], data(), read_config(SETTINGS))\n"
        f"open({str(tmp_path)!r} + '/' + os.environ['RANK'], 'w').write(str(history[-1]['loss']))\n"
        "processes.leave()\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"]
    command += ["--master_addr", "127.0.0.1", "--master_port", str(free_port()), str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    losses = [float((tmp_path / str(rank)).read_text()) for rank in range(2)]
    expected = train(network(), OBJECTIVES["dcs"], data(), read_config(SETTINGS))[-1]["loss"]
    assert losses[0] == losses[1] == pytest.approx(expected, abs=1e-5)

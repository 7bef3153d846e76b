"""Run directories: killed, stopped, damaged or full, a run ends with the very bytes it would have had."""

import hashlib
import json
import multiprocessing
import os
import pickle
import random
import resource
import shutil
import signal
import sys
import time
import warnings
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from dcs.runs import Run, RunRecord, Stopped
from dcs.training import (
    CheckpointWarning,
    RunError,
    checkpoint,
    make_network,
    make_objective,
    read_config,
    train,
)

# Children are forked from a process that has imported what is slow to import.
CHILDREN = multiprocessing.get_context("forkserver")
CHILDREN.set_forkserver_preload(["dcs.runs", "torch._dynamo"])
STEPS, EPOCHS = 5, 6  # an epoch; in all
SETTINGS = {
    "network_options": {"hidden": (16,)},
    "n_components": 4,
    "max_epochs": EPOCHS,
    "batch_size": 8,
    "learning_rate": 0.01,
    "validation": 0.1,
    "patience": 20,
    "ema": 0.8,
    "schedule": "cosine",
    "warmup_epochs": 1.5,
    "device": "cpu",
    "threads": 1,
    "checkpoint_seconds": 0,
}


class Signalled(Run):
    """A run that is sent a signal after some step."""

    signal_number, at_step = signal.SIGTERM, 0

    def after_step(self, state):
        if self.step + 1 == self.at_step:
            signal.raise_signal(self.signal_number)
        return super().after_step(state)


class Slow(Run):
    """A run that takes its time, to be caught in the act."""

    def after_step(self, state):
        time.sleep(0.03)
        return super().after_step(state)


class FullDisk(Run):
    """A run whose disk takes no file of more than 100 bytes after some step."""

    def after_step(self, state):
        if self.step == 12:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
        return super().after_step(state)


def data():
    return torch.randn(40, 12, generator=torch.Generator().manual_seed(0)).cumsum(1)


def opened(folder, *, kind=Run, resume=False, overwrite=False, **settings):
    config = read_config({**SETTINGS, **settings})
    record = RunRecord(shape=(12,), fingerprint="walks", training=config)
    return kind(Path(folder), record, resume=resume, overwrite=overwrite)


def fit(
    folder, *, kind=Run, at_step=0, signal_number=signal.SIGTERM, resume=False, overwrite=False, **settings
):
    config = read_config({**SETTINGS, **settings})
    x = data()
    model, objective = make_network(config, x.shape[1:]), make_objective(config)
    with opened(folder, kind=kind, resume=resume, overwrite=overwrite, **settings) as run:
        run.at_step, run.signal_number = at_step, signal_number
        train(model, objective, x, config, recorder=run)
        run.finish(model.state_dict())


def child(folder, log, options):
    """Train in a process of its own; exit as a program should."""
    sys.stderr = open(log, "w")  # noqa: SIM115  (until the process ends)
    print_error = options.pop("print_error", False)
    try:
        fit(folder, resume=True, **options)
    except Stopped as stopped:
        os._exit(128 + stopped.signal_number)
    except OSError:
        if print_error:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        raise


def started(folder, **options):
    process = CHILDREN.Process(target=child, args=(folder, f"{folder}.log", options))
    process.start()
    return process


def newest(folder):
    return max(checkpoint.numbers(folder / "checkpoint"), default=0)


def wait_for(folder, step, process):
    """Until there is a checkpoint of that step or a later one, or the process has ended."""
    while process.is_alive() and newest(folder) < step and not (folder / "model.safetensors").exists():
        time.sleep(0.0005)


def wait_for_an_epoch(folder, process):
    path = folder / "metrics.jsonl"
    while process.is_alive() and not (path.exists() and path.read_text().endswith("\n")):
        time.sleep(0.001)


def metrics(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k != "samples_per_second"} for line in lines]


def contents(folder):
    """All that a user could notice."""
    paths = sorted(folder.rglob("*"))
    return {str(p): (p.stat().st_mtime_ns, p.read_bytes() if p.is_file() else None) for p in paths}


def check_like(folder, whole):
    assert (folder / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert metrics(folder) == metrics(whole)
    assert [line["epoch"] for line in metrics(folder)] == list(range(EPOCHS))
    assert {p.name for p in folder.rglob("*")} == {
        ".lock",
        "config.json",
        "metrics.jsonl",
        "model.safetensors",
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    fit(folder)
    return folder


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def stopped(folder):
    """A run that was stopped in the middle."""
    with pytest.raises(Stopped):
        fit(folder, kind=Signalled, at_step=13, keep_checkpoints=3)
    return folder


def test_directory_of_a_finished_run(whole):
    check_like(whole, whole)
    config = json.loads((whole / "config.json").read_text())
    assert read_config(config["training"]).max_epochs == EPOCHS
    assert config["versions"]["torch"] == torch.__version__
    model = make_network(read_config(config["training"]), (12,))
    model.load_state_dict(load_file(whole / "model.safetensors"))
    lines = (whole / "metrics.jsonl").read_text().splitlines()
    assert all(json.loads(line)["samples_per_second"] > 0 for line in lines)


def test_the_same_run_gives_the_same_bytes(whole, folder):
    fit(folder, checkpoint_seconds=60)
    check_like(folder, whole)


@pytest.mark.parametrize("kills", [12, pytest.param(100, marks=pytest.mark.slow)])
def test_killed_at_any_moment(whole, tmp_path, kills):
    chance = random.Random(kills)  # noqa: S311
    killed = 0
    for course in range(kills):
        folder = tmp_path / str(course)
        while not (folder / "model.safetensors").exists():
            target = newest(folder) + chance.randint(0, 4)
            process = started(folder)
            wait_for(folder, target, process)
            time.sleep(chance.uniform(0, 0.02))
            process.kill()
            process.join()
            assert process.exitcode in (0, -signal.SIGKILL), Path(f"{folder}.log").read_text()
            killed += process.exitcode == -signal.SIGKILL
        if (folder / "checkpoint").exists():  # killed after the model was there: it is finished all the same
            shutil.rmtree(folder / "checkpoint")
        check_like(folder, whole)
        if killed >= kills:
            break
    assert killed >= kills


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_signal_from_outside(whole, folder, signal_number):
    process = started(folder, checkpoint_seconds=60, kind=Slow)
    wait_for_an_epoch(folder, process)
    os.kill(process.pid, signal_number)
    process.join()
    assert process.exitcode == 128 + signal_number, Path(f"{folder}.log").read_text()
    assert newest(folder) > 0
    assert not (folder / "model.safetensors").exists()
    fit(folder, resume=True)
    check_like(folder, whole)


@pytest.mark.parametrize("at_step", [1, 2, STEPS - 1, STEPS, STEPS + 1, STEPS * EPOCHS - 1, STEPS * EPOCHS])
def test_stopped_after_any_step(whole, folder, at_step):
    """Also at the very end of an epoch, and of the training."""
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(
        Stopped, match=r"stopped in epoch \d after batch \d, and saved: resume with --resume"
    ) as caught:
        fit(folder, kind=Signalled, at_step=at_step, signal_number=signal.SIGINT, checkpoint_seconds=60)
    assert caught.value.signal_number == signal.SIGINT
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert checkpoint.numbers(folder / "checkpoint") == [at_step]
    assert (
        len((folder / "metrics.jsonl").read_text().splitlines() if at_step > STEPS else [])
        == (at_step - 1) // STEPS
    )
    fit(folder, resume=True)
    check_like(folder, whole)


def test_second_signal_leaves_at_once(folder):
    with opened(folder) as run:
        signal.raise_signal(signal.SIGINT)
        assert run.asked_to_stop == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_resume_without_a_checkpoint_starts(whole, folder):
    fit(folder, resume=True)
    check_like(folder, whole)


def test_resume_after_epochs_without_a_checkpoint_counts_each_once(whole, folder):
    """As when it was killed before the first checkpoint was due."""
    process = started(folder, checkpoint_seconds=60, kind=Slow)
    wait_for_an_epoch(folder, process)
    process.kill()
    process.join()
    assert newest(folder) == 0
    assert metrics(folder)
    with pytest.warns(CheckpointWarning, match="has no checkpoint: the run starts over"):
        fit(folder, resume=True)
    check_like(folder, whole)


@pytest.mark.parametrize("size", [0, 100, -1])
@pytest.mark.parametrize("keep", [1, 2])
def test_truncated_checkpoint_is_left_out(whole, stopped, size, keep):
    path = max((stopped / "checkpoint").glob("*.pt"))
    path.write_bytes(path.read_bytes()[:size])
    with pytest.warns(
        CheckpointWarning, match=f"{path.name} is damaged or not one of ours .*checksum differs"
    ):
        fit(stopped, resume=True, kind=Signalled, at_step=0, keep_checkpoints=keep)
    check_like(stopped, whole)


def test_what_follows_a_damaged_checkpoint_is_kept(stopped):
    """The damaged one has the larger number, but does not count as newer."""
    path = max((stopped / "checkpoint").glob("*.pt"))
    path.write_bytes(b"")
    path.with_name("000000012.json").write_text("{")
    with pytest.warns(CheckpointWarning), pytest.raises(Stopped):
        fit(stopped, resume=True, kind=Signalled, at_step=12, keep_checkpoints=1)
    assert checkpoint.numbers(stopped / "checkpoint") == [12]
    assert {p.name for p in (stopped / "checkpoint").iterdir()} == {"000000012.pt", "000000012.json"}


class Touch:
    """Pickled, it makes a file when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("how", ["pickle", "torch"])
def test_code_in_a_checkpoint_is_not_run(whole, stopped, tmp_path, how):
    """Not even where its checksum is right."""
    path, mark = max((stopped / "checkpoint").glob("*.pt")), tmp_path / "mark"
    if how == "pickle":
        path.write_bytes(pickle.dumps(Touch(mark), protocol=2))
    else:
        torch.save({"model": Touch(mark)}, path)
    about = json.loads(path.with_suffix(".json").read_text())
    about["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_suffix(".json").write_text(json.dumps(about))
    with pytest.warns(CheckpointWarning, match="damaged or not one of ours") as warned:
        fit(stopped, resume=True)
    assert not any("weights_only" in str(warning.message) for warning in warned)  # as torch advises
    assert not mark.exists()
    check_like(stopped, whole)


def rewrite(folder, change):
    """Change the newest checkpoint, as nobody should, and make its checksum right."""
    path = max((folder / "checkpoint").glob("*.pt"))
    state = torch.load(path, weights_only=True)
    change(state)
    torch.save(state, path)
    about = json.loads(path.with_suffix(".json").read_text())
    about["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_suffix(".json").write_text(json.dumps(about))


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.pop("model"),
        lambda state: state["model"].update({name: value[:1] for name, value in state["model"].items()}),
        lambda state: state.update(noise=state["noise"][:5]),
        lambda state: state["position"].update(pages=3),
    ],
)
def test_a_foreign_checkpoint_is_said_not_to_fit(stopped, change):
    rewrite(stopped, change)
    with pytest.raises(RunError, match="the checkpoint does not fit this training"):
        fit(stopped, resume=True)


def test_a_run_that_never_began_leaves_its_directory_free(folder):
    with pytest.raises(RuntimeError, match="early"), opened(folder):
        raise RuntimeError("early")
    fit(folder)
    assert (folder / "model.safetensors").exists()


def test_the_model_of_a_run_has_a_checksum(whole):
    described = json.loads((whole / "config.json").read_text())
    content = (whole / "model.safetensors").read_bytes()
    assert described["sha256"] == {"model.safetensors": hashlib.sha256(content).hexdigest()}


def test_a_checkpoint_older_than_a_setting_can_be_gone_on_from(whole, stopped):
    for path in (stopped / "checkpoint").glob("*.json"):
        about = json.loads(path.read_text())
        del about["config"]["training"]["momentum"]
        path.write_text(json.dumps(about))
    fit(stopped, resume=True, keep_checkpoints=3)
    check_like(stopped, whole)


def test_other_settings_are_refused_by_name(stopped):
    before = contents(stopped)
    with pytest.raises(
        RunError, match=r"other settings \(batch_size was 8, is now 9; learning_rate was 0.01, is now 0.1\)"
    ):
        fit(stopped, resume=True, batch_size=9, learning_rate=0.1)
    with pytest.raises(RunError, match="max_epochs was 6, is now 7"):  # by which the cosine is stretched
        fit(stopped, resume=True, max_epochs=7)
    with opened(stopped, resume=True) as run:
        run.record = run.record.model_copy(update={"fingerprint": "other"})
        with pytest.raises(RunError, match="data was 'walks', is now 'other'"):
            run.restore()
    assert contents(stopped) == before


def test_more_epochs_may_be_asked_for_and_fewer_may_not(tmp_path):
    with pytest.raises(Stopped):
        fit(tmp_path / "a", kind=Signalled, at_step=13, max_epochs=3, schedule="constant")
    with pytest.raises(RunError, match=r"in epoch 2, past max_epochs 2: raise it"):
        fit(tmp_path / "a", resume=True, max_epochs=2, schedule="constant")
    fit(tmp_path / "a", resume=True, schedule="constant")
    fit(tmp_path / "b", schedule="constant")
    check_like(tmp_path / "a", tmp_path / "b")


def test_another_environment_is_told(stopped):
    """Another version or number of threads may give other bits."""
    for path in (stopped / "checkpoint").glob("*.json"):
        path.write_text(path.read_text().replace('"threads": "1"', '"threads": "7"'))
    with pytest.warns(CheckpointWarning, match="not be bit-identical.*threads was '7', is now '1'"):
        fit(stopped, resume=True)


def test_used_directories_are_left_alone(whole, stopped):
    for folder, state in (
        (whole, "a finished run: give another directory"),
        (stopped, "an unfinished run: resume with --resume"),
    ):
        before = contents(folder)
        with pytest.raises(RunError, match=f"holds {state}, or start over with --overwrite"):
            fit(folder)
        assert contents(folder) == before
        (folder / ".lock").unlink()
        before = contents(folder)
        with pytest.raises(RunError, match=f"holds {state}"):
            fit(folder)
        assert contents(folder) == before


def test_finished_run_is_not_trained_again(whole):
    with opened(whole, resume=True) as run:
        assert run.finished
    before = {k: v for k, v in contents(whole).items() if ".lock" not in k}
    with pytest.raises(RunError, match="holds a finished run: start over with --overwrite"):
        fit(whole, resume=True)
    assert {k: v for k, v in contents(whole).items() if ".lock" not in k} == before


@pytest.mark.parametrize(
    "files", [["notes.txt"], ["config.json", "notes.txt"], ["config.json"], ["checkpoint/a.pt"]]
)
@pytest.mark.parametrize("options", [{}, {"resume": True}, {"overwrite": True}])
def test_directories_of_others_are_left_alone(folder, files, options):
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text('{"mine": 1}')
    before = contents(folder)
    with pytest.raises(RunError, match=r"holds other files, such as .*: give a new directory"):
        fit(folder, **options)
    assert contents(folder) == before


@pytest.mark.parametrize("options", [{}, {"overwrite": True}])
def test_logs_of_a_run_that_failed_at_once_do_not_block_its_directory(folder, options):
    (folder / "tensorboard").mkdir(parents=True)
    (folder / "tensorboard" / "events").write_text("old")
    fit(folder, **options)
    assert (folder / "model.safetensors").exists()
    assert (folder / "tensorboard").exists() == (not options)


def test_no_directory(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="is a file: give a directory"):
        fit(tmp_path / "file")
    with pytest.raises(RunError, match=r"cannot be written \(Not a directory\): give another"):
        fit(tmp_path / "file" / "run")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_unwritable_directory(folder):
    folder.mkdir(mode=0o500)
    with pytest.raises(RunError, match="cannot be written"):
        fit(folder)


def hold(folder, ready, done):
    with opened(folder, resume=True):
        ready.set()
        done.wait()


@pytest.mark.parametrize("options", [{}, {"resume": True}, {"overwrite": True}])
def test_directory_in_use(stopped, options):
    ready, done = CHILDREN.Event(), CHILDREN.Event()
    process = CHILDREN.Process(target=hold, args=(stopped, ready, done))
    process.start()
    assert ready.wait(60)
    before = contents(stopped)
    with pytest.raises(RunError, match="in use by another process: wait, or give another"):
        fit(stopped, **options)
    assert contents(stopped) == before
    done.set()
    process.join()
    assert process.exitcode == 0


def test_overwrite(whole, stopped):
    (stopped / "notes.txt").write_text("mine")
    fit(stopped, overwrite=True)
    assert (stopped / "notes.txt").read_text() == "mine"
    (stopped / "notes.txt").unlink()
    check_like(stopped, whole)


def test_errors_inside_leave_nothing_behind(folder):
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(ZeroDivisionError), opened(folder) as run:
        1 / 0  # noqa: B018
    assert not run.lock.is_locked
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    fit(folder, resume=True)


@pytest.mark.parametrize("keep", [1, 2, 5])
def test_old_checkpoints_are_removed(folder, keep):
    with pytest.raises(Stopped):
        fit(folder, kind=Signalled, at_step=13, keep_checkpoints=keep)
    expected = list(range(14 - keep, 14))
    assert checkpoint.numbers(folder / "checkpoint") == expected
    names = {f"{number:09d}.{kind}" for number in expected for kind in ("pt", "json")}
    assert {path.name for path in (folder / "checkpoint").iterdir()} == names


def test_checkpoints_say_what_they_are(stopped):
    about = json.loads((stopped / "checkpoint" / "000000013.json").read_text())
    assert about["position"] == {"epoch": 2, "batch": 3}
    assert about["config"]["training"]["seed"] == 0
    assert about["environment"]["torch"] == torch.__version__
    state = torch.load(stopped / "checkpoint" / "000000013.pt", weights_only=True)
    assert {
        "model",
        "objective",
        "optimizer",
        "scaler",
        "average",
        "stopping",
        "epoch_order",
        "noise",
    } < state.keys()


def test_leavings_of_a_killed_process_are_removed(whole, stopped):
    for path in (stopped / ".metrics.jsonl.1.tmp", stopped / "checkpoint" / ".000000014.pt.1.tmp"):
        path.write_bytes(b"half")
    (stopped / "checkpoint" / "000000014.pt").write_bytes(b"without its description")
    with pytest.raises(Stopped):
        fit(stopped, resume=True, kind=Signalled, at_step=14)
    assert not list(stopped.rglob("*.tmp"))
    fit(stopped, resume=True)
    check_like(stopped, whole)


def test_killed_while_the_very_first_file_was_written(whole, folder):
    folder.mkdir()
    (folder / ".lock").touch()
    (folder / ".config.json.1.tmp").write_bytes(b"{")
    fit(folder)
    check_like(folder, whole)


def test_full_disk_is_told_and_costs_no_checkpoint(whole, folder):
    process = started(folder, kind=FullDisk, print_error=True)
    process.join()
    assert process.exitcode == 1
    error = Path(f"{folder}.log").read_text()
    assert "OSError: [Errno 27] cannot write: File too large: " in error
    assert "000000013.pt" in error
    assert newest(folder) == 12
    assert not list(folder.rglob("*.tmp"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(folder, resume=True)
    check_like(folder, whole)


def test_tied_weights_are_saved(folder):
    weight = torch.ones(2, 3)
    with opened(folder) as run:
        run.finish({"a": weight, "b": weight.T, "c": weight})
    saved = load_file(folder / "model.safetensors")
    assert {name: tuple(value.shape) for name, value in saved.items()} == {
        "a": (2, 3),
        "b": (3, 2),
        "c": (2, 3),
    }


def test_metrics_are_json_to_the_letter(folder):
    with opened(folder) as run:
        run.after_epoch({"epoch": 0, "loss": float("nan"), "snr": float("inf")})
    assert (folder / "metrics.jsonl").read_text() == '{"epoch": 0, "loss": null, "snr": null}\n'


def test_other_processes_write_nothing(folder):
    with Run(folder, RunRecord(shape=(12,), training=read_config(SETTINGS)), main=False) as run:
        run.after_epoch({"epoch": 0})
        run.after_step(lambda: pytest.fail("it asked for the state"))
        run.finish({"a": torch.ones(1)})
    assert not folder.exists()

"""Trials in processes: these end with the one that started them, and a trial that fails costs no other."""

import signal
import subprocess
import sys
import time

import pytest
import torch
from filelock import FileLock, Timeout

from dcs import experiments
from dcs.experiments import runner
from dcs.experiments import trial as trial_module
from dcs.runs import Run, Stopped
from dcs.training import CheckpointWarning, RunError
from tests.helpers import DCS

SMALL = {"preset": "smoke", "protocols": ["linear"], "trials": 1, "epochs": 2}


def command(out, *arguments):
    words = [DCS, "reproduce", "expt0", "--preset", "smoke", "--protocol", "linear", "--losses", "mse,dcs"]
    return [*map(str, [*words, *arguments, "--out", out])]


def in_use(folder):
    """Whether a process is training there."""
    try:
        with FileLock(folder / ".lock", blocking=False):
            return False
    except Timeout:
        return True


def until(condition, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not condition():
        time.sleep(0.05)
    return condition()


def start(out):
    """A command with two trainings that would take hours."""
    return subprocess.Popen(
        command(out, "--jobs", 2, "--epochs", 99_999),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.fixture
def two_at_work(tmp_path):
    """Such a command, and the directories of its trainings."""
    with start(tmp_path) as process:
        assert until(lambda: len(list(tmp_path.glob("runs/*/metrics.jsonl"))) == 2, 120)
        folders = [path.parent for path in tmp_path.glob("runs/*/metrics.jsonl")]
        assert all(map(in_use, folders))
        yield process, folders
        process.kill()


def stop(process):
    """What it says when it is told to stop, alone, without those that it started."""
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, said
    assert "Traceback" not in said
    return said


def test_sigterm_ends_all_processes_and_says_how_to_go_on(two_at_work):
    process, folders = two_at_work
    assert "dcs: stopped after 0 of 5 trials: run the same command to resume" in stop(process)
    assert until(lambda: not any(map(in_use, folders)), 2)


def test_processes_end_when_the_one_that_started_them_is_killed(two_at_work):
    process, folders = two_at_work
    process.kill()
    assert until(lambda: not any(map(in_use, folders)), 10)


def test_started_again_at_once_it_goes_on(two_at_work, tmp_path):
    process, folders = two_at_work
    process.kill()
    with start(tmp_path) as again:
        later = time.time() + 2  # when the first processes are gone
        assert until(lambda: all((f / "metrics.jsonl").stat().st_mtime > later for f in folders), 60)
        said = stop(again)
    assert "stopped after 0 of 5 trials" in said
    assert "in use" not in said


def test_a_restart_waits_for_a_training_that_is_just_ending(tmp_path):
    (trial,) = [t for t in experiments.plan("expt0", **SMALL, methods=["mse"]) if t.method == "mse"]
    folder = tmp_path / "runs" / trial.name
    folder.mkdir(parents=True)
    hold = f"from filelock import FileLock; import time; lock = FileLock({str(folder / '.lock')!r})"
    holder = [sys.executable, "-c", f"{hold}; lock.acquire(); print(flush=True); time.sleep(2)"]
    with subprocess.Popen(holder, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        assert in_use(folder)
        experiments.carry_out([trial], tmp_path)
    assert len(experiments.read_results(tmp_path)) == 1


def test_a_trial_that_another_process_has_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(trial_module, "WAIT_SECONDS", 0.1)
    trials = experiments.plan("expt0", **SMALL, methods=["mse"])
    mse = next(trial for trial in trials if trial.method == "mse")
    (tmp_path / "runs" / mse.name).mkdir(parents=True)
    with (
        FileLock(tmp_path / "runs" / mse.name / ".lock"),
        pytest.raises(experiments.TrialsFailed, match="in use by another process, which runs this trial"),
    ):
        experiments.carry_out(trials, tmp_path)
    done = {experiments.key_of(line) for line in experiments.read_results(tmp_path)}
    assert done == set(trials) - {mse}
    experiments.carry_out(trials, tmp_path)
    assert {experiments.key_of(line) for line in experiments.read_results(tmp_path)} == set(trials)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_trial_that_fails_does_not_keep_the_others_from_running(tmp_path, jobs):
    arguments = ["--epochs", 1, "--train-size", 5, "--losses", "mse", "--jobs", jobs]
    result = subprocess.run(command(tmp_path, *arguments), capture_output=True, text=True, timeout=120)
    assert result.returncode == 1
    done = {line["method"] for line in experiments.read_results(tmp_path)}
    assert {"mse", "untrained", "oracle"} == done
    assert "pca (both), linear, trial 0: failed: n_components=10 must be between" in result.stderr
    summary = result.stderr.rpartition("dcs: ")[2]
    assert summary.startswith("1 of the trials failed; the same command runs them again:\n  n_components=10")
    assert summary.rstrip().endswith(": digits-0.3-pca-train5-0epochs-0")
    assert "Traceback" not in result.stderr
    assert "| mse | " in result.stdout  # the table of what there is
    assert (tmp_path / "table.md").exists()


def test_what_no_one_can_mend_is_told_with_its_place(tmp_path, monkeypatch):
    def broken(trial, *_):
        if trial.method == "mse":
            raise KeyError("surprise")
        raise ValueError

    monkeypatch.setattr(runner, "run_trial", broken)
    trials = experiments.plan("expt0", **SMALL, methods=["mse"])
    told = {}
    with pytest.raises(experiments.TrialsFailed) as caught:
        experiments.carry_out(trials, tmp_path, failed=lambda trial, reason: told.update({trial: reason}))
    assert caught.value.failures == told
    assert set(told) == set(trials)
    by_method = {trial.method: reason for trial, reason in told.items()}
    assert "in broken" in by_method["mse"]
    assert "KeyError: 'surprise'" in by_method["mse"]
    assert by_method["pca"] == "ValueError"
    assert str(caught.value).count("ValueError") == 1  # the same reason is told once


def test_a_process_that_the_system_ends_is_told_of(tmp_path, monkeypatch):
    calls = (runner.delayed(runner.os._exit)(1) for _ in range(2))
    with pytest.raises(RunError, match="often for lack of memory: run the same command to resume"):
        list(runner._side_by_side(calls, 2, "loky"))


def test_another_number_of_processes_goes_on_with_what_is_there(tmp_path, monkeypatch):
    """And with it another number of threads, of which a warning tells, for it changes the last digits."""
    (trial,) = [t for t in experiments.plan("expt0", **SMALL, methods=["mse"]) if t.method == "mse"]
    steps = []
    after_step = Run.after_step

    def stopping(self, state):
        steps.append(1)
        return after_step(self, state) or len(steps) == 3

    monkeypatch.setattr(Run, "after_step", stopping)
    with pytest.raises(Stopped):
        experiments.run_trial(trial, tmp_path)
    threads = torch.get_num_threads() + 1
    with pytest.warns(CheckpointWarning, match="will not be bit-identical"):
        line = experiments.run_trial(trial, tmp_path, threads=threads)
    assert len(steps) == 2 * 4  # none was done twice
    assert line["settings"]["training"]["threads"] == threads

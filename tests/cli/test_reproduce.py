"""Progress of an experiment, on a terminal and elsewhere."""

import os
import pty
import re
import subprocess

import pytest

from dcs import experiments
from dcs.cli.reproduce import TrialProgress
from tests.helpers import DCS


def trials():
    return experiments.plan("expt0", "smoke", protocols=["linear"], methods=["mse", "cosine"], epochs=10)


def taken_down(out, trial, epochs):
    folder = out / experiments.RUNS / trial.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.jsonl").write_text("{}\n" * epochs)


def shown(progress):
    progress.set(progress.measure())
    (task,) = progress.bar.tasks
    return task.completed / task.total, task.description


def test_the_bar_counts_epochs_of_trainings_that_run(tmp_path):
    mse, cosine = (trial for trial in trials() if trial.method in ("mse", "cosine"))
    progress = TrialProgress([mse, cosine], tmp_path, as_json=False)
    assert shown(progress) == (0.0, "0 of 2 trials")
    taken_down(tmp_path, mse, 4)
    taken_down(tmp_path, cosine, 1)
    assert shown(progress) == (pytest.approx(0.25), "0 of 2 trials")
    progress.finished({**mse._asdict(), "score": 50.0, "seconds": 1.0})
    assert shown(progress) == (pytest.approx(0.55), "1 of 2 trials")
    progress.failed(cosine, "no memory")
    assert shown(progress) == (1.0, "2 of 2 trials")


def test_there_is_a_bar_on_a_terminal_and_results_stay_on_stdout(tmp_path):
    words = ["reproduce", "expt0", "--preset", "smoke", "--protocol", "linear", "--losses", "mse"]
    command = [str(DCS), *words, "--epochs", "2", "--out", str(tmp_path)]
    terminal, other_end = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=other_end, env=environment) as process:
        os.close(other_end)
        told = b""
        while piece := _read(terminal):
            told += piece
        printed = process.stdout.read().decode()
    os.close(terminal)
    assert process.returncode == 0
    assert re.search("0 of 4 trials .*━━━", told.decode())
    assert "1 of 4: digits with noise 0.3, mse (both), linear, trial 0: " in told.decode()
    assert printed.startswith("## Expt0: MNIST with Gaussian noise, here on digits\n\n### Linear evaluation")


def _read(terminal):
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other end is closed
        return b""

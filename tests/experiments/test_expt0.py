"""Expt0 and Expt1: their trials, which survive being killed, and their tables."""

import csv
import io
import json
import math
import os
import re
import shutil
import signal
import subprocess
import time
import warnings

import pytest
import torch
from filelock import FileLock
from scipy.stats import t, ttest_ind

from dcs import experiments
from dcs.experiments import figures, runner
from dcs.runs import Run, Stopped
from dcs.training import RunError
from tests.helpers import DCS, dcs


def test_the_papers_amount():
    for name, rows in (("expt0", 5 + 3), ("expt1", 4 + 2)):
        trials = experiments.plan(name, "paper")
        per = {"linear": 10, "clustering": 20}
        places = 5 if name == "expt0" else 4
        assert len(trials) == sum(per.values()) * places * rows
        assert {t.epochs for t in trials if t.epochs} == {800}
    sizes = {t.protocol: t.train_size for t in experiments.plan("expt0", "paper")}
    assert sizes == {"linear": 60_000, "clustering": 70_000}
    assert {t.noise for t in experiments.plan("expt0", "paper")} == {0.01, 0.1, 0.3, 0.5, 0.7}
    assert {t.dataset for t in experiments.plan("expt1", "paper")} == {
        "mnist",
        "usps",
        "pendigits",
        "fashion-mnist",
    }


def test_quick_is_four_thousand_steps():
    for trial in experiments.plan("expt1", "quick"):
        if trial.epochs:
            steps = trial.epochs * math.ceil(trial.train_size / 256)
            assert 4000 <= steps < 4000 + math.ceil(trial.train_size / 256)


def test_subsets_and_variants():
    trials = experiments.plan(
        "expt0",
        variants=["default", "paper"],
        protocols=["linear"],
        noises=[0.5],
        methods=["cosine", "dcs"],
        trials=2,
        epochs=7,
        train_size=1000,
    )
    rows = [(t.method, t.variant) for t in trials if t.trial == 0]
    assert rows == [
        ("cosine", "both"),
        ("dcs", "default"),
        ("dcs", "paper"),
        ("pca", "both"),
        ("untrained", "both"),
        ("oracle", "default"),
        ("oracle", "paper"),
    ]
    assert len(trials) == 14
    assert {(t.epochs, t.train_size) for t in trials} == {(7, 1000), (0, 1000)}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"experiment": "expt9"}, "experiment must be one of expt0, expt1"),
        ({"preset": "slow"}, "preset must be one of"),
        ({"methods": ["sgd"]}, "methods must be one of mse, cosine, n2v, sure, dcs"),
        ({"datasets": ["mnits"]}, "datasets must be one of"),
        ({"noises": [-1]}, "noises must be above 0"),
        ({"trials": 0}, "trials must be at least 1"),
        ({"experiment": "expt1", "noises": [0.3]}, "noises are for expt0"),
        ({"experiment": "expt1", "methods": ["sure"]}, "methods must be one of mse, cosine, n2v, dcs"),
        ({"methods": []}, "methods is empty: give some of mse"),
        ({"datasets": []}, "datasets is empty: give some of mnist"),
        ({"protocols": []}, "protocols is empty: give some of linear, clustering"),
        ({"variants": ["papers"]}, "variants must be one of default, paper"),
    ],
)
def test_wrong_plans_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        experiments.plan(**{"experiment": "expt0", **options})


SMALL = {"preset": "smoke", "protocols": ["linear"], "trials": 1, "epochs": 2}


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """The smoke test as a user runs it: both protocols."""
    out = tmp_path_factory.mktemp("smoke") / "out"
    result = dcs("reproduce", "expt0", "--preset", "smoke", "--out", out)
    assert result.returncode == 0, result.stderr
    return out, result


def test_smoke_has_every_row_and_learns(smoke):
    out, result = smoke
    lines = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    rows = {"mse", "cosine", "n2v (default)", "sure", "dcs (default)"}
    for protocol, title in (("linear", "Linear evaluation"), ("clustering", "Clustering")):
        found = next(t for t in experiments.tables(lines) if t.protocol == protocol)
        assert set(found.rows) == rows | {"pca", "untrained", "oracle (default)"}
        assert f"### {title}, %" in result.stdout
        (column,) = found.columns.values()
        if protocol == "linear":
            assert column["cosine"].mean > 60  # of ten classes
            assert column["dcs (default)"].mean > max(column["untrained"].mean + 5, 5 * 10)
        else:  # by chance, matching ten clusters reaches less than 20; after so few steps not all are above
            assert max(cell.mean for cell in column.values() if cell.rank) > 2 * 20
    needed = (
        "experiment dataset noise method variant protocol trial seed epochs score settings versions seconds"
    )
    assert all(set(needed.split()) <= set(line) for line in lines)
    assert (out / "table.md").read_text().startswith("## Expt0: MNIST with Gaussian noise")
    assert "\\begin{tabular}" in (out / "table.tex").read_text()


def test_what_is_finished_is_not_run_again(smoke):
    out, _ = smoke
    before = (out / "results.jsonl").read_bytes()
    again = dcs("reproduce", "expt0", "--preset", "smoke", "--out", out)
    assert again.returncode == 0
    assert ", 0 of them to run here" in again.stderr
    assert (out / "results.jsonl").read_bytes() == before


def test_figures(smoke):
    pytest.importorskip("matplotlib")
    pytest.importorskip("umap")
    out, _ = smoke
    written = experiments.draw_figures(out)
    assert [path.name for path in written] == ["figure2.png", "figure2.pdf", "figure3.png", "figure3.pdf"]
    assert all(path.stat().st_size > 5000 for path in written)


def test_figures_have_their_panels_and_say_what_they_are_of(smoke, monkeypatch):
    pytest.importorskip("matplotlib")
    pytest.importorskip("umap")
    drawn = {}
    monkeypatch.setattr(figures, "_write", lambda figure, path: drawn.update({path.name: figure}) or [])
    experiments.draw_figures(smoke[0])
    maps, images = drawn["figure2"], drawn["figure3"]
    assert [axes.get_title() for axes in maps.axes] == ["cosine", "dcs"]
    assert all(len(axes.collections[0].get_offsets()) == 1024 for axes in maps.axes)
    assert len(images.axes) == 4 * 10
    assert [axes.get_ylabel() for axes in images.axes[::10]] == ["noisy", "cosine", "dcs", "clean"]
    for figure in (maps, images):
        words = "digits, σ = 0.3, dcs (default), 20 epochs, 1,024 samples"
        assert figure.get_suptitle().endswith(words)


def test_merged_shards_without_encoders_say_what_to_copy(smoke, tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "results-1-of-1.jsonl").write_bytes((smoke[0] / "results.jsonl").read_bytes())
    with pytest.raises(RunError, match=r"is missing: copy runs/digits-0.3-cosine-\S+ from where"):
        experiments.draw_figures(tmp_path)


def test_only_the_table_and_lines_of_what_is_there(smoke, tmp_path):
    out, _ = smoke
    lines = (out / "results.jsonl").read_text().splitlines()
    (tmp_path / "results-1-of-2.jsonl").write_text("\n".join(lines[:5]) + "\n")
    table = dcs("reproduce", "expt0", "--preset", "smoke", "--only-table", "--out", tmp_path)
    assert (table.returncode, "| mse | " in table.stdout) == (0, True)
    assert len(experiments.read_results(tmp_path)) == 5
    asked = ("reproduce", "expt0", "--preset", "smoke", "--json")
    again = dcs(*asked, "--out", out)
    assert sorted(again.stdout.splitlines()) == sorted(lines)
    with FileLock(tmp_path / ".results.jsonl.lock"):  # as while it is being written
        some = dcs("reproduce", "expt0", "--only-table", "--json", "--out", tmp_path)
    assert some.stdout.splitlines() == lines[:5]
    assert not (tmp_path / "runs").exists()
    empty = dcs(*asked, "--only-table", "--out", tmp_path / "none")
    assert empty.returncode == 1
    assert "has no results*.jsonl with results" in empty.stderr
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    "wanted", [["expt1"], ["expt0", "--losses", "mse"], ["expt0", "--protocol", "clustering"]]
)
def test_figures_that_cannot_be_drawn_are_refused_before_anything_runs(tmp_path, wanted):
    result = dcs("reproduce", *wanted, "--preset", "smoke", "--figures", "--out", tmp_path / "out")
    assert result.returncode == 1
    assert "the figures need the linear protocol of cosine and dcs in expt0" in result.stderr
    assert not (tmp_path / "out").exists()


def test_results_say_what_was_used(smoke):
    """The masks and their share, the oracle's objective, the noise and the subset."""
    lines = experiments.read_results(smoke[0])
    used = {(line["method"], line["protocol"]): line["settings"] for line in lines}
    n2v = used["n2v", "linear"]["objective"]
    assert (n2v["class"], n2v["view"]["class"], n2v["view"]["rho"]) == ("Noise2Void", "BlindSpot", 0.3)
    oracle = used["oracle", "linear"]
    assert (oracle["training"]["objective"], oracle["objective"]["class"]) == ("custom", "CosineOracle")
    for method in ("dcs", "oracle"):
        assert used[method, "linear"]["objective"]["view"]["kind"] == "split"
        assert used[method, "linear"]["objective"]["view"]["sigma"] == pytest.approx(0.3, abs=0.1)
    for (_, protocol), settings in used.items():
        data = settings["data"]
        assert (data["noise"], data["seed"], data["subset"]) == ("gaussian:0.3", 0, 1024)
        assert data["part"] == {"linear": "train", "clustering": "all"}[protocol]
    assert all("objective" not in used[method, "linear"] for method in ("pca", "untrained"))


@pytest.mark.filterwarnings("ignore:the features have collapsed")
def test_the_oracle_follows_the_variant(tmp_path):
    planned = experiments.plan("expt0", **SMALL, methods=["dcs"], variants=["paper"])
    for trial in planned:
        if trial.method in ("dcs", "oracle"):
            view = experiments.run_trial(trial, tmp_path)["settings"]["objective"]["view"]
            assert (view["class"], view["rho"], view["radius"], view["ndim"]) == ("BlindSpot", 0.1, 1, 2)


def test_figures_need_their_trials(tmp_path):
    pytest.importorskip("matplotlib")
    with pytest.raises(RunError, match="need the linear protocol of cosine and dcs"):
        experiments.draw_figures(tmp_path)


def scores(out):
    return {experiments.key_of(line): line["score"] for line in experiments.read_results(out)}


# The next training may have begun when it is killed, and have no checkpoint yet.
@pytest.mark.filterwarnings("ignore:.*has no checkpoint:dcs.training.checkpoint.CheckpointWarning")
def test_killed_and_started_again_it_ends_with_the_same_scores(tmp_path):
    trials = experiments.plan("expt0", **SMALL, methods=["mse", "dcs"])
    experiments.carry_out(trials, tmp_path / "whole")
    command = [DCS, "reproduce", "expt0", "--preset", "smoke", "--protocol", "linear", "--trials", "1"]
    command += ["--epochs", "2", "--losses", "mse,dcs", "--out", tmp_path / "killed"]
    results = tmp_path / "killed" / "results.jsonl"
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (results.exists() and results.stat().st_size):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with results.open("a") as file:
        file.write('{"experiment": "expt0", "dat')  # as a write that was cut short leaves it
    assert len(scores(tmp_path / "killed")) < len(trials)
    experiments.carry_out(trials, tmp_path / "killed")
    assert scores(tmp_path / "killed") == scores(tmp_path / "whole")


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_signal_stops_it_without_a_traceback(tmp_path, jobs):
    command = [DCS, "reproduce", "expt0", "--preset", "smoke", "--protocol", "linear", "--epochs", "9999"]
    command += ["--losses", "mse,dcs", "--jobs", jobs, "--out", tmp_path / "out"]
    process = subprocess.Popen(
        list(map(str, command)), stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and len(list(tmp_path.glob("out/runs/*/metrics.jsonl"))) < jobs:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "run the same command to resume" in said
    assert "Traceback" not in said
    if jobs == 1:  # several are ended at once, and go on from a checkpoint of the last minute
        assert list(tmp_path.glob("out/runs/*/checkpoint/*.pt"))


@pytest.mark.filterwarnings("ignore:the features have collapsed")  # after 24 steps
def test_a_training_that_was_stopped_goes_on(tmp_path, monkeypatch):
    (trial,) = [
        t for t in experiments.plan("expt0", **SMALL | {"epochs": 6}, methods=["dcs"]) if t.method == "dcs"
    ]
    whole = experiments.run_trial(trial, tmp_path / "whole")
    steps = []
    after_step = Run.after_step

    def stopping(self, state):
        steps.append(1)
        return after_step(self, state) or len(steps) == 12

    monkeypatch.setattr(Run, "after_step", stopping)
    with pytest.raises(Stopped):
        experiments.run_trial(trial, tmp_path / "stopped")
    resumed = experiments.run_trial(trial, tmp_path / "stopped")
    assert len(steps) == 6 * 4
    assert resumed["score"] == whole["score"]
    read_back = experiments.run_trial(
        trial, tmp_path / "stopped"
    )  # the encoder is there, and not trained again
    assert len(steps) == 6 * 4
    assert read_back["score"] == whole["score"]


@pytest.mark.filterwarnings("ignore:the features have collapsed")
def test_an_encoder_that_is_there_must_be_the_one_that_is_asked_for(tmp_path, monkeypatch):
    (trial,) = [t for t in experiments.plan("expt0", **SMALL, methods=["mse"]) if t.method == "mse"]
    one = experiments.run_trial(trial, tmp_path, threads=1)
    again = experiments.run_trial(trial, tmp_path, threads=torch.get_num_threads() + 1)
    assert again["settings"]["training"] == one["settings"]["training"]  # those it was trained with
    (folder,) = tmp_path.iterdir()
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (folder / "model.safetensors").write_bytes(weights)
    with pytest.raises(RunError, match="is damaged, its checksum differs"):
        experiments.run_trial(trial, tmp_path)
    described = json.loads((folder / "config.json").read_text())
    described["training"]["learning_rate"] = 0.5
    (folder / "config.json").write_text(json.dumps(described))
    with pytest.raises(RunError, match=r"finished with other settings \(learning_rate was 0.5, is now 0.001"):
        experiments.run_trial(trial, tmp_path)


def write_pendigits(root, first=0):
    folder = root / "pendigits"
    folder.mkdir(parents=True)
    for name, rows in (("pendigits.tra", 12), ("pendigits.tes", 6)):
        lines = [",".join(map(str, [*range(first + i, first + i + 16), i % 10])) for i in range(rows)]
        (folder / name).write_text("\n".join(lines) + "\n")
    return str(root)


@pytest.mark.filterwarnings("ignore:the features have collapsed")
def test_an_encoder_of_other_data_is_not_taken_for_this_ones(tmp_path):
    (trial,) = [
        t
        for t in experiments.plan("expt1", **SMALL, datasets=["pendigits"], methods=["mse"], train_size=12)
        if t.method == "mse"
    ]
    one, other = (write_pendigits(tmp_path / name, first) for name, first in (("a", 0), ("b", 30)))
    line = experiments.run_trial(trial, tmp_path / "out", one)
    assert line["settings"]["training"]["threads"] == torch.get_num_threads()
    assert line["settings"]["training"]["versions"]["torch"] == torch.__version__
    moved = shutil.copytree(one, tmp_path / "moved")
    assert experiments.run_trial(trial, tmp_path / "out", str(moved))["score"] == line["score"]
    with pytest.raises(RunError, match="finished with other settings"):
        experiments.run_trial(trial, tmp_path / "out", other)


def test_n2v_masks_by_the_letter_in_the_papers_variant(tmp_path):
    trials = experiments.plan("expt0", **SMALL | {"epochs": 1}, methods=["n2v"], variants=["paper"])
    (trial,) = [t for t in trials if t.method == "n2v"]
    view = experiments.run_trial(trial, tmp_path)["settings"]["objective"]["view"]
    assert (view["class"], view["rho"], view["min_masked"]) == ("BlindSpot", 0.1, 0)


def test_figures_are_of_the_longest_training():
    trials = [t for n in (2, 40, 7) for t in experiments.plan("expt0", "smoke", epochs=n)]
    assert [trial.epochs for trial in figures.pair(trials)] == [40, 40]


@pytest.mark.filterwarnings("ignore:the features have collapsed")
def test_a_training_that_was_stopped_after_its_last_step_has_a_result(tmp_path, monkeypatch):
    (trial,) = [
        t for t in experiments.plan("expt0", **SMALL | {"epochs": 1}, methods=["mse"]) if t.method == "mse"
    ]
    after_step = Run.after_step
    monkeypatch.setattr(Run, "after_step", lambda self, state: after_step(self, state) or self.step == 4)
    with pytest.raises(Stopped):
        experiments.run_trial(trial, tmp_path)
    line = experiments.run_trial(trial, tmp_path)
    assert "step_seconds" not in line["metrics"]  # which nobody measured
    assert line["score"] > 0


@pytest.mark.parametrize("count", [2, 4, 8, 7])
def test_shards_share_trainings_and_methods(count):
    trials = experiments.plan("expt0", "paper")
    shares = [experiments.share_of(trials, (number, count)) for number in range(1, count + 1)]
    assert sorted(trial for share in shares for trial in share) == sorted(trials)
    trained = [sum(trial.epochs > 0 for trial in share) for share in shares]
    assert max(trained) - min(trained) <= 1
    assert all({trial.method for trial in share} == {trial.method for trial in trials} for share in shares)
    assert experiments.share_of(trials, (1, 1)) == trials


def test_jobs_and_shards_give_the_same_results(tmp_path):
    trials = experiments.plan("expt0", **SMALL, methods=["mse"])
    experiments.carry_out(trials, tmp_path / "one")
    experiments.carry_out(trials, tmp_path / "two", jobs=2)
    for number in (1, 2, 3):
        experiments.carry_out(trials, tmp_path / "shards", shard=(number, 3))
    assert len(list((tmp_path / "shards").glob("results-*-of-3.jsonl"))) == 3
    one, two, shards = (scores(tmp_path / name) for name in ("one", "two", "shards"))
    assert one.keys() == two.keys() == shards.keys() == set(trials)
    assert one == shards
    for trial, score in one.items():
        assert two[trial] == pytest.approx(score, abs=2)  # sums in another order, with one thread each


@pytest.mark.slow
def test_ray(tmp_path):
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        trials = experiments.plan("expt0", **SMALL, methods=["mse"])
        experiments.carry_out(trials, tmp_path, jobs=2, backend="ray")
        assert set(scores(tmp_path)) == set(trials)
    finally:
        ray.shutdown()


def test_a_directory_in_use_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "WAIT_SECONDS", 0.1)
    trials = experiments.plan("expt0", **SMALL, methods=["mse"])
    with (
        FileLock(tmp_path / ".results.jsonl.lock"),
        pytest.raises(RunError, match="being written by another"),
    ):
        experiments.carry_out(trials, tmp_path)


def test_a_file_in_place_of_the_directory_is_named(tmp_path):
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(RunError, match="mine is a file: give a directory"):
        experiments.carry_out(experiments.plan("expt0", **SMALL), tmp_path / "mine")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ({"score": math.nan}, "score: input should be a finite number, got nan"),
        ({"score": "80"}, "score: input should be a valid number, got '80'"),
        ({"epochs": "1"}, "epochs: input should be a valid integer, got '1'"),
        ({"method": "magic"}, "method must be one of mse"),
        ({"variant": "other"}, "variant must be one of default, paper, both"),
        ({"protocol": "knn"}, "protocol must be one of linear, clustering"),
        ({"experiment": "expt9"}, "experiment must be one of expt0"),
        ({"experiment": None}, "experiment is null: dcs evaluate writes such"),
    ],
)
def test_damaged_results_are_named(tmp_path, damage, words):
    (line,) = results(mse=[80.0])
    (tmp_path / "results.jsonl").write_text(json.dumps(line) + "\n" + json.dumps(line | damage) + "\n")
    with pytest.raises(RunError, match=f"results.jsonl, line 2, is not a result .*{re.escape(words)}"):
        experiments.read_results(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'{"experiment": "\xff"}', "decode byte 0xff"),
        (b"[" * 100_000 + b"]" * 100_000, "recursion"),
        (b'{"score": 1', "delimiter"),
        (b"[1, 2]", "must be an object with named fields"),
        (b"{}", "experiment must be given; dataset must be given"),
    ],
)
def test_lines_that_are_no_results_are_named(tmp_path, text, words):
    (line,) = results(mse=[80.0])
    (tmp_path / "results.jsonl").write_bytes(json.dumps(line).encode() + b"\n" + text + b"\n")
    with pytest.raises(RunError, match=f"results.jsonl, line 2, is not a result .*{words}"):
        experiments.read_results(tmp_path)


def test_a_deeply_nested_last_line_is_not_whole(tmp_path):
    (line,) = results(mse=[80.0])
    (tmp_path / "results.jsonl").write_bytes(json.dumps(line).encode() + b"\n" + b"[" * 100_000)
    assert experiments.read_results(tmp_path) == [line]


def test_a_last_line_without_an_end_counts_if_it_is_whole(tmp_path):
    path, (line,) = tmp_path / "results.jsonl", results(mse=[80.0])
    path.write_text(json.dumps(line))
    assert experiments.read_results(tmp_path) == [line]
    experiments.carry_out([], tmp_path)
    assert path.read_text() == json.dumps(line) + "\n"
    path.write_text(json.dumps(line) + "\n" + json.dumps(line)[:-1])
    assert experiments.read_results(tmp_path) == [line]
    experiments.carry_out([], tmp_path)
    assert path.read_text() == json.dumps(line) + "\n"


@pytest.mark.parametrize("jobs", [1, 2])
def test_warnings_name_their_trial(tmp_path, monkeypatch, jobs):
    trials = experiments.plan("expt0", **SMALL | {"epochs": 1}, methods=["mse"], train_size=12)
    trials = [trial for trial in trials if trial.method in ("mse", "pca")]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        experiments.carry_out(trials, tmp_path, jobs=jobs)
    texts = [str(warning.message) for warning in caught]
    for trial in trials:
        assert any(text.startswith(f"{trial.name}: test has ") for text in texts)


def test_without_a_result_no_table_is_written(tmp_path):
    out, words = tmp_path / "out", ["reproduce", "expt0", "--preset", "smoke", "--protocol", "linear"]
    empty = dcs(*words, "--losses", "mse", "--shard", "9/9", "--out", out)
    assert (empty.returncode, empty.stdout.strip()) == (0, "")
    assert not list(out.glob("table.*"))


@pytest.mark.parametrize("text", ["0/2", "3/2", "2", "a/b", "1/0", ""])
def test_wrong_shards_are_refused(text):
    with pytest.raises(ValueError, match="shard must be i/n"):
        experiments.parse_shard(text)


def test_published_values_are_the_papers():
    """Spot checks against the printed tables, their size, and what the paper claims of them."""
    assert experiments.published("expt0", "mnist", 0.5, "dcs", "linear") == (89.13, 0.48)
    assert experiments.published("expt0", "mnist", 0.7, "sure", "clustering") == (66.72, 3.77)
    assert experiments.published("expt1", "usps", 0.0, "n2v", "clustering") == (82.78, 10.2)
    assert experiments.published("expt1", "fashion-mnist", 0.0, "dcs", "linear") == (76.70, 0.49)
    assert experiments.published("expt0", "mnist", 0.4, "dcs", "linear") is None
    assert experiments.published("expt0", "digits", 0.3, "dcs", "linear") is None
    assert experiments.published("expt1", "usps", 0.0, "pca", "linear") is None
    columns = {}
    for name in ("expt0", "expt1"):
        for trial in experiments.plan(name, "paper", trials=1):
            score = experiments.published(name, trial.dataset, trial.noise, trial.method, trial.protocol)
            if score is not None:
                columns.setdefault((name, trial.protocol, trial.dataset, trial.noise), {})[trial.method] = (
                    score
                )
    assert sum(map(len, columns.values())) == 2 * 5 * 5 + 2 * 4 * 4
    assert all(50 < mean < 100 and 0 < spread < 11 for c in columns.values() for mean, spread in c.values())
    best = {place: max(scores, key=scores.get) for place, scores in columns.items()}
    for (name, protocol, dataset, noise), method in best.items():
        strong = noise >= 0.3 or protocol == "linear"
        claimed = strong if name == "expt0" else dataset in ("usps", "mnist") and protocol == "linear"
        assert method == "dcs" or not claimed


def results(**values):
    """Lines as of trials with these scores, (method, variant) by 'method-variant'."""
    lines = []
    for name, trial_scores in values.items():
        method, _, variant = name.partition("_")
        for number, score in enumerate(trial_scores):
            place = {"experiment": "expt0", "dataset": "mnist", "noise": 0.5, "protocol": "linear"}
            amount = {"epochs": 0 if method in ("pca", "untrained") else 80, "train_size": 12800}
            lines.append(
                {
                    **place,
                    **amount,
                    "method": method,
                    "variant": variant or "both",
                    "trial": number,
                    "score": score,
                }
            )
    return lines


def test_the_table_marks_the_best_two_and_says_how_sure_that_is():
    lines = results(
        cosine=[80.0, 81.0, 82.0],
        n2v_default=[83.0, 83.5, 84.0],
        dcs_default=[85.0, 85.5, 86.5],
        dcs_paper=[70.0],
        oracle=[99.0, 99.0, 99.0],
        pca=[76.0, 76.0, 76.0],
    )
    (table,) = experiments.tables(lines)
    text = experiments.as_markdown(table)
    assert "| | mnist, σ = 0.5 | paper |" in text.replace("|  |", "| |")
    assert "| dcs (default) | **85.67 ± 0.76** | 89.13 ± 0.48 |" in text
    assert "| n2v (default) | <u>83.50 ± 0.50</u> | 85.22 ± 0.48 |" in text
    assert "| dcs (paper) | 70.00 | 89.13 ± 0.48 |" in text
    assert "| oracle | 99.00 ± 0.00 |  |" in text
    p = ttest_ind([85.0, 85.5, 86.5], [83.0, 83.5, 84.0], equal_var=False).pvalue
    ahead = (
        f"dcs (default) is 2.17 ahead of n2v (default) (Welch test of two picked after looking: p = {p:.2g})"
    )
    assert f"12,800 samples, 80 epochs, trials: 1 to 3; {ahead}" in text
    latex = experiments.as_latex(table)
    assert r"\textbf{85.67 $\pm$ 0.76}" in latex
    assert r"\underline{83.50 $\pm$ 0.50}" in latex
    assert latex.count(r"\\") == 1 + 6 + 4
    assert f"$\\sigma$ = 0.5: 12,800 samples, 80 epochs, trials: 1 to 3; {ahead}" in latex
    rows = list(csv.DictReader(io.StringIO(experiments.as_csv([table]))))
    (best,) = [row for row in rows if row["rank"] == "1"]
    assert (best["method"], best["trials"], best["published_mean"]) == ("dcs", "3", "89.13")
    assert float(best["mean"]) == pytest.approx(85.6667, abs=1e-3)
    assert [(row["rank"], float(row["welch_p"])) for row in rows if row["welch_p"]] == [
        ("2", pytest.approx(p))
    ]


def marked(text):
    """Which rows have the mark of the best, and of the second best."""
    found = re.findall(r"^\| (\S+).*? \| (\*\*|<u>)", text, re.MULTILINE)
    return [{row for row, mark in found if mark == kind} for kind in ("**", "<u>")]


def test_what_is_printed_alike_is_marked_alike():
    lines = results(
        mse=[80.0, 82.0], cosine=[81.001, 81.001], n2v_default=[70.0], sure=[70.0], dcs_default=[60.0]
    )
    (table,) = experiments.tables(lines)
    text = experiments.as_markdown(table)
    assert marked(text) == [{"mse", "cosine"}, {"n2v", "sure"}]
    assert "trials: 1 to 2; mse and cosine are level\n" in text
    assert "nan" not in text
    three = experiments.as_markdown(*experiments.tables(results(mse=[9.0], cosine=[9.0], sure=[9.0])))
    assert marked(three) == [{"mse", "cosine", "sure"}, set()]
    assert "; mse, cosine and sure are level" in three


def test_results_of_different_settings_are_told_of():
    lines = results(mse=[80.0, 81.0], dcs_default=[82.0, 83.0, 84.0])
    for line in lines:
        view = {"kind": "split", "sigma": 0.5 + line["trial"] / 1e4, "alpha": 1.5}  # as it was estimated
        objective = {"class": "DenoisingCosine", "view": view}
        line["settings"] = {"training": {"seed": line["trial"], "threads": 1}, "objective": objective}
    (table,) = experiments.tables(lines)
    assert "should not mix" not in experiments.as_markdown(table)
    lines[-1]["settings"]["objective"] = {"class": "DenoisingCosine", "view": {"kind": "blind_spot"}}
    (table,) = experiments.tables(lines)
    assert "; dcs (default): of different settings or versions, which" in experiments.as_markdown(table)


def test_results_of_version_0_1_are_compared_by_their_settings():
    lines = results(dcs_default=[82.0, 83.0])
    for line in lines:
        made_of = f"DenoisingCosine(masker=ChosenViews(sigma={0.5 + line['trial'] / 1e4}, alpha=1.5))"
        line["settings"] = {"training": {"seed": line["trial"], "made_of": made_of}}
    assert "should not mix" not in experiments.as_markdown(*experiments.tables(lines))
    lines[-1]["settings"]["training"]["objective_options"] = {"power": 1}
    assert "should not mix" in experiments.as_markdown(*experiments.tables(lines))


@pytest.mark.parametrize(
    "other",
    [
        {"versions": {"dcs-learn": "0.1.0", "umap-learn": "0.5.3"}},
        {"settings": {"evaluation": {"n_neighbors": 5}}},
        {"settings": {"training": {"learning_rate": 0.1}, "evaluation": {"n_neighbors": 20}}},
        {"settings": {"training": {"versions": {"torch": "2.6.0"}}, "evaluation": {"n_neighbors": 20}}},
    ],
)
def test_what_a_mean_should_not_mix(other):
    lines = results(dcs_default=[82.0, 83.0])
    for line in lines:
        line["versions"] = {"dcs-learn": "0.1.0", "umap-learn": "0.5.9"}
        line["settings"] = {"training": {"seed": line["trial"]}, "evaluation": {"n_neighbors": 20}}
    # A line that is older than a setting had its default, and was trained by what scored it.
    lines[0]["settings"]["training"] |= {"clip_norm": None, "versions": {"dcs-learn": "0.1.0"}}
    assert "should not mix" not in experiments.as_markdown(*experiments.tables(lines))
    lines[1] |= other
    assert "dcs (default): of different settings" in experiments.as_markdown(*experiments.tables(lines))


def test_scores_without_a_spread_are_not_tested():
    """Where one has a spread, Welch's test is that of its formula: t of n - 1 degrees of freedom."""
    text = experiments.as_markdown(*experiments.tables(results(mse=[80.0, 80.0], cosine=[81.0, 81.0])))
    assert "cosine is 1.00 ahead of mse (no spread to test with)" in text
    text = experiments.as_markdown(
        *experiments.tables(results(mse=[80.0, 80.0, 80.0], sure=[81.0, 83.0, 82.0]))
    )
    p = 2 * t.sf(2 / math.sqrt(1 / 3), 2)
    assert f"sure is 2.00 ahead of mse (Welch test of two picked after looking: p = {p:.2g})" in text
    one = experiments.as_markdown(*experiments.tables(results(mse=[80.0], cosine=[81.0])))
    assert "cosine is 1.00 ahead of mse\n" in one


def test_columns_that_would_be_headed_alike_say_in_what_they_differ():
    lines = results(cosine=[80.0], pca=[76.0])
    lines += [{**line, "epochs": 40} for line in results(cosine=[70.0])]
    lines += [{**line, "precision": "bf16"} for line in results(cosine=[79.0])]
    lines += [{**line, "noise": 0.3} for line in results(cosine=[90.0])]
    (table,) = experiments.tables(lines)
    heads = [
        "mnist, σ = 0.3",
        "mnist, σ = 0.5, 40 epochs, full precision",
        "mnist, σ = 0.5, 80 epochs, bf16",
        "mnist, σ = 0.5, 80 epochs, full precision",
    ]
    text, latex = experiments.as_markdown(table), experiments.as_latex(table)
    for head in heads:
        assert text.count(f"| {head} | paper |") == text.count(f"\n- {head}: 12,800 samples") == 1
        assert latex.count(head.replace("σ", r"$\sigma$")) == 2


def test_trials_that_differ_in_amount_are_not_averaged():
    lines = results(cosine=[80.0], pca=[76.0]) + [
        {**line, "epochs": 40, "score": 70.0} for line in results(cosine=[80.0])
    ]
    (table,) = experiments.tables(lines)
    assert [
        (c.epochs, {row: cell.scores for row, cell in cells.items()}) for c, cells in table.columns.items()
    ] == [
        (40, {"cosine": (70.0,), "pca": (76.0,)}),
        (80, {"cosine": (80.0,), "pca": (76.0,)}),
    ]


def test_pendigits_is_flat_in_the_papers_variant(tmp_path):
    write_pendigits(tmp_path)
    base = experiments.Trial("expt1", "pendigits", 0.0, "dcs", "default", "linear", 0, 1, 12)
    default, flat = (
        experiments.load_data(base._replace(variant=v), str(tmp_path)).train.x for v in ("default", "paper")
    )
    assert tuple(default.shape) == (12, 2, 8)
    torch.testing.assert_close(flat[3] * 100, torch.arange(3.0, 19.0))


def test_all_samples_are_one_for_clustering_and_the_subset_is_fixed():
    base = experiments.Trial("expt0", "digits", 0.3, "dcs", "default", "linear", 0, 1, 100)
    linear, other = (experiments.load_data(base._replace(trial=number)) for number in (0, 1))
    assert torch.equal(linear.train.x, other.train.x)
    assert (len(linear.train), len(linear.test)) == (100, 597)
    clustering = experiments.load_data(base._replace(protocol="clustering", train_size=1797))
    assert len(clustering.train) == 1797
    assert clustering.train.clean is not None


def test_dry_run_and_wrong_usage(tmp_path):
    listed = dcs(
        "reproduce", "expt0", "--preset", "smoke", "--shard", "2/3", "--dry-run", "--out", tmp_path / "x"
    )
    trials = [json.loads(line) for line in listed.stdout.splitlines()]
    whole = experiments.plan("expt0", "smoke")
    assert [experiments.Trial(**trial) for trial in trials] == experiments.share_of(whole, (2, 3))
    assert not (tmp_path / "x").exists()
    for arguments, code, words in (
        (["expt7"], 2, "expt7"),
        (["expt0", "--noise", "loud"], 2, "--noise"),
        (["expt0", "--losses", "dsc"], 1, "methods must be one of"),
        (["expt0", "--shard", "9"], 1, "shard must be i/n"),
    ):
        wrong = dcs("reproduce", *arguments, "--out", tmp_path / "y")
        assert wrong.returncode == code
        assert words in wrong.stderr
        assert "Traceback" not in wrong.stderr
    assert os.listdir(tmp_path) == []
    assert re.search(r"Example: dcs reproduce", dcs("reproduce", "--help").stdout)

"""Expt3: its trials, the tones that stand in for ESC-50, its table, and files laid out like ESC-50."""

import json
import math

import numpy as np
import pytest
import torch

from dcs import experiments
from dcs.data import Dataset, LogMel, Source, Split
from dcs.experiments import expt3
from dcs.runs import Run, Stopped, load
from tests.helpers import dcs
from tests.official_files import write_esc50


def test_the_papers_amount():
    trials = experiments.plan("expt3", "paper")
    assert len(trials) == 6 * (4 + 2)
    assert {(t.dataset, t.fold, t.train_size, t.protocol, t.scale) for t in trials} == {
        ("esc50", 5, 1600, "linear", "paper")
    }
    assert {t.epochs for t in trials if t.method in expt3.EXPT3.methods} == {4000}
    assert {t.epochs for t in trials if t.method not in expt3.EXPT3.methods} == {0}
    recordings = Dataset("esc50", Split(torch.zeros(2, 220_500)), rate=44_100)
    config = experiments.make_config(next(t for t in trials if t.method == "dcs"), recordings)
    assert (config.batch_size, config.optimizer, config.learning_rate) == (64, "adam", 1e-3)
    assert config.masking == {"kind": "amplitude", "axis": -2, "rho": 0.3, "delta": 2}
    assert config.front_end == {"rate": 44_100}


def test_folds_and_variants():
    trials = experiments.plan(
        "expt3", "smoke", folds=[1, 4], variants=["default", "paper"], methods=["n2v", "dcs"]
    )
    rows = [(t.fold, t.method, t.variant) for t in trials]
    assert rows == [
        (fold, method, variant)
        for fold in (1, 4)
        for method, variant in (
            ("n2v", "both"),
            ("dcs", "default"),
            ("dcs", "paper"),
            ("untrained", "both"),
            ("log-mel statistics", "both"),
        )
    ]
    assert len({t.name for t in trials}) == len(trials)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"folds": [6]}, "folds must be one of 1, 2, 3, 4, 5"),
        ({"folds": []}, "folds is empty"),
        ({"noises": [0.3]}, "noises are for expt0: expt3 adds none"),
        ({"lambdas": [0.1]}, "lambdas are for expt2: expt3 has no regulariser"),
        ({"hows": ["shared"]}, "hows are for expt2"),
        ({"protocols": ["clustering"]}, "protocols must be one of linear, got 'clustering'"),
        ({"datasets": ["mnist"]}, "datasets must be one of esc50, tones"),
        ({"methods": ["sure"]}, "methods must be one of mse, cosine, n2v, dcs"),
        ({"experiment": "expt1", "folds": [5]}, "folds are for expt3: expt1 has none"),
    ],
)
def test_wrong_plans_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        experiments.plan(**{"experiment": "expt3", **options})


def test_tones_are_fixed_folded_and_where_they_should_be():
    def tones(fold):
        return LogMel(8000).apply(Source.of("tones", fold=fold).load())

    (ds, mel), (again, _) = tones(5), tones(5)
    assert torch.equal(ds.train.x, again.train.x)
    assert (len(ds.train), len(ds.test), len(ds.classes)) == (240, 60, 6)
    assert set(tones(2)[0].test.names) <= set(ds.train.names)
    assert torch.bincount(ds.test.y).tolist() == [10] * 6
    decibels = mel.undo(ds.train.x)
    peaks = torch.stack([decibels[ds.train.y == pitch].mean((0, 1)).argmax() for pitch in range(6)])
    assert (peaks.diff() > 0).all()  # a higher pitch is in a higher band


def test_statistics_by_hand():
    x = torch.randn(3, 7, 4, generator=torch.Generator().manual_seed(0))
    found = expt3.statistics(x)
    for sample, row in zip(x, found, strict=True):
        for band in range(4):
            values = sample[:, band].tolist()
            mean = math.fsum(values) / 7
            deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / 6)
            assert [row[band].item(), row[4 + band].item()] == pytest.approx([mean, deviation], abs=1e-5)


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    out = tmp_path_factory.mktemp("smoke") / "out"
    result = dcs("reproduce", "expt3", "--preset", "smoke", "--out", out)
    assert result.returncode == 0, result.stderr
    return out, result


def test_smoke_has_every_row_and_is_better_than_chance(smoke):
    out, result = smoke
    (table,) = experiments.tables(experiments.read_results(out))
    assert table.rows == ["mse", "cosine", "n2v", "dcs (default)", "untrained", "log-mel statistics"]
    (column,) = table.columns.values()
    assert all(cell.mean > 2 * 100 / 6 for cell in column.values())
    assert {cell.rank for cell in column.values()} == {1, 2, None}
    assert column["untrained"].rank is None
    assert "| dcs (default) |" in result.stdout
    assert "tones, fold 5: 240 samples, 20 epochs, trials: 1, the smaller network" in result.stdout
    lines = experiments.read_results(out)
    assert all(line["metrics"]["step_seconds"] > 0 for line in lines if line["epochs"])
    dcs_line = next(line for line in lines if line["method"] == "dcs")
    view = dcs_line["settings"]["objective"]["view"]
    assert (view["class"], view["rho"], view["delta"], view["axis"]) == ("AmplitudeNeighbors", 0.3, 2, -2)
    again = dcs("reproduce", "expt3", "--preset", "smoke", "--out", out)
    assert ", 0 of them to run here" in again.stderr


def test_a_run_is_scored_by_evaluate_as_its_trial_was(smoke):
    """From recordings, of which the run makes spectrograms as in training."""
    out, _ = smoke
    line = next(line for line in experiments.read_results(out) if line["method"] == "n2v")
    folder = out / experiments.RUNS / experiments.key_of(line).name
    record = load(folder).record
    assert (record.source.data, record.source.fold, record.shape) == ("tones", 5, (4000,))
    assert record.training.front_end == {"rate": 8000}
    result = dcs("evaluate", folder, "--protocol", "linear", "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["score"] == line["score"]


def test_a_training_that_was_stopped_goes_on(tmp_path, monkeypatch):
    (trial,) = [t for t in experiments.plan("expt3", "smoke", methods=["dcs"], epochs=4) if t.method == "dcs"]
    whole = experiments.run_trial(trial, tmp_path / "whole")
    steps = []
    after_step = Run.after_step

    def stopping(self, state):
        steps.append(1)
        return after_step(self, state) or len(steps) == 6

    monkeypatch.setattr(Run, "after_step", stopping)
    with pytest.raises(Stopped):
        experiments.run_trial(trial, tmp_path / "stopped")
    resumed = experiments.run_trial(trial, tmp_path / "stopped")
    assert len(steps) == 4 * math.ceil(240 / 64)
    assert resumed["score"] == whole["score"]


@pytest.mark.filterwarnings("ignore:.*expected cosine at the floor")  # these clips are noise
def test_files_like_esc50_in_both_variants(tmp_path):
    clips = np.random.default_rng(0).integers(-9000, 9000, (100, 44_100)).astype(np.int16)
    write_esc50(tmp_path / "data" / "ESC-50-master", clips)
    trials = experiments.plan(
        "expt3",
        "smoke",
        datasets=["esc50"],
        variants=["default", "paper"],
        methods=["dcs"],
        folds=range(1, 6),
        epochs=1,
    )
    experiments.carry_out(trials, tmp_path / "out", root=str(tmp_path / "data"))
    lines = experiments.read_results(tmp_path / "out")
    made = {line["variant"]: line["settings"]["objective"] for line in lines if line["method"] == "dcs"}
    assert (made["paper"]["variant"], made["default"]["variant"]) == ("paper", "default")
    assert {line["fold"] for line in lines} == {1, 2, 3, 4, 5}
    assert all(math.isfinite(line["score"]) for line in lines)


def test_five_folds_are_averaged_by_trial():
    place = {"experiment": "expt3", "dataset": "esc50", "noise": 0.0, "protocol": "linear", "variant": "both"}
    amount = {"epochs": 8, "train_size": 1600, "metrics": {}}
    lines = [
        {
            **place,
            **amount,
            "method": method,
            "trial": trial,
            "fold": fold,
            "score": 10.0 * trial + fold + shift,
        }
        for method, shift in (("mse", 0), ("n2v", 1))
        for trial in (0, 1)
        for fold in range(1, 6 if method == "mse" or trial == 0 else 5)
    ]
    (table,) = experiments.tables(lines)
    assert [column.fold for column in table.columns] == ["1", "2", "3", "4", "5", "all"]
    *_, fifth, together = table.columns.values()
    assert together["mse"].scores == (3.0, 13.0)
    assert together["n2v"].scores == (4.0,)  # of the second trial, a fold is missing
    assert (fifth["mse"].published, together["mse"].published) == ((22.83, 0.55), None)
    text = experiments.as_markdown(table)
    assert "| mse | " in text
    assert "esc50, all five folds" in text
    assert (
        "means over its five folds: k-NN on MFCC 32.2, SVM on MFCC 39.6, random forest on MFCC 44.3" in text
    )


def test_published_values_are_the_papers():
    assert experiments.published("expt3", "esc50", 0.0, "cosine", "linear") == (27.92, 2.34)
    assert experiments.published("expt3", "tones", 0.0, "cosine", "linear") is None
    assert experiments.published("expt3", "esc50", 0.0, "untrained", "linear") is None


def test_options_of_the_command(tmp_path):
    listed = dcs(
        "reproduce", "expt3", "--preset", "smoke", "--fold", "all", "--dry-run", "--out", tmp_path / "x"
    )
    folds = [json.loads(line)["fold"] for line in listed.stdout.splitlines()]
    assert sorted(set(folds)) == [1, 2, 3, 4, 5]
    wrong = dcs("reproduce", "expt3", "--fold", "last", "--out", tmp_path / "x")
    assert wrong.returncode == 2
    assert "is not a list of folds" in wrong.stderr
    wrong = dcs("reproduce", "expt1", "--fold", "3", "--out", tmp_path / "x")
    assert (wrong.returncode, wrong.stderr.strip()) == (1, "dcs: folds are for expt3: expt1 has none")

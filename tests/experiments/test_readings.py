"""Readings of the paper: what each switch does, and where it goes."""

import pytest
import torch

from dcs import data, experiments
from dcs import functional as F
from dcs.data import Batches
from dcs.experiments.readings import SWITCHES, applied, parse_reading
from dcs.masking import BlindSpot
from dcs.objectives import DenoisingCosine
from tests.helpers import inside, seeded

SMALL = {"preset": "smoke", "protocols": ["linear"], "trials": 1, "epochs": 2, "train_size": 300}
ALL = "clip+fresh+sgd+centre+whole"


def planned(method, reading, variants=("paper",)):
    trials = experiments.plan("expt0", **SMALL, methods=[method], variants=variants, readings=[reading])
    return [trial for trial in trials if trial.method == method]


def test_a_reading_is_its_switches_in_one_order():
    assert parse_reading("centre + clip") == parse_reading("clip+centre") == ("clip", "centre")
    assert parse_reading("plain") == parse_reading("") == ()
    assert parse_reading("+".join(SWITCHES)) == tuple(SWITCHES)
    with pytest.raises(ValueError, match=r"reading must be one of clip, fresh, .* got 'clop'"):
        parse_reading("clop")


def test_a_method_has_only_the_switches_that_change_it():
    every = tuple(SWITCHES)
    assert applied(every, "mse", "both") == "clip+fresh+sgd"
    assert applied(every, "n2v", "paper") == "clip+fresh+sgd+centre"
    assert applied(every, "dcs", "paper") == "+".join(every)
    assert applied(every, "dcs", "default") == "clip+fresh+sgd"
    readings = ["plain", "centre", "whole"]
    trials = experiments.plan("expt0", **SMALL, methods=["n2v", "mse"], variants=["paper"], readings=readings)
    assert [t.reading for t in trials if t.method == "mse"] == [""]
    assert [t.reading for t in trials if t.method == "n2v"] == ["", "centre"]
    assert len({trial.name for trial in trials}) == len(trials)
    with pytest.raises(ValueError, match="readings are for expt0 and expt1: expt3 has none"):
        experiments.plan("expt3", readings=["clip"])


def test_clipped_noise():
    source = data.Source.of("digits", noise="gaussian:0.5:clip")
    plain, clipped = data.load("digits", noise=("gaussian", 0.5)), source.load()
    for one, other in ((plain.train, clipped.train), (plain.test, clipped.test)):
        assert torch.equal(one.x.clamp(0, 1), other.x)
        assert torch.equal(one.clean, other.clean)
    assert source.as_options() == ["--noise=gaussian:0.5:clip"]
    assert data.Source.model_validate_json(source.model_dump_json()) == source


def test_fresh_noise_differs_between_epochs_and_has_its_law():
    loaded = data.load("digits", noise="gaussian:0.5:fresh")
    once = data.load("digits", noise="gaussian:0.5")
    x, clean = loaded.train.x, loaded.train.clean
    assert torch.equal(loaded.train.read(range(len(loaded.train))), once.train.x)
    assert torch.equal(loaded.test.x, once.test.x)
    batches, generator = Batches(x, 100), seeded()
    state = generator.get_state()
    epochs = [
        {int(row): one for b in batches.epoch(generator) for row, one in zip(b.rows, b.x, strict=True)}
        for _ in range(20)
    ]
    assert all(len(epoch) == len(clean) for epoch in epochs)
    noise = torch.stack([torch.stack([epoch[row] for row in range(len(clean))]) for epoch in epochs]) - clean
    assert abs(float(noise.mean())) < 0.002
    assert float(noise.std()) == pytest.approx(0.5, rel=0.005)
    pooled = noise.flatten(1)
    assert torch.corrcoef(pooled).fill_diagonal_(0).abs().max() < 0.02  # one epoch says nothing of another
    resumed = [batch.x for batch in batches.epoch(generator.set_state(state), start=5)]
    assert torch.equal(resumed[0], list(batches.epoch(generator.set_state(state)))[5].x)
    subset = data.Source.of("digits", noise="gaussian:0.5:fresh", subset=50).load().train
    assert not torch.equal(subset.x.for_epoch(1).read(range(50)), subset.read(range(50)))


@pytest.mark.parametrize("noise", ["gaussian:0.5:clop", "gaussian", ("gaussian", 0.5, "fresh", "x")])
def test_wrong_switches_of_noise(noise):
    with pytest.raises(ValueError, match=r"noise must be KIND:STRENGTH, .* :clip and :fresh may follow"):
        data.load("digits", noise=noise)


def test_the_snr_of_whole_samples():
    x = torch.rand(5, 8, 8, generator=seeded()) + 0.3 * torch.randn(5, 8, 8, generator=seeded(1))
    masker = BlindSpot(rho=0.2, min_masked=0)
    objective = DenoisingCosine(masker, variant="paper", whole_snr=True)
    snr, _, _ = objective.weights(x, seeded(2))
    seen, b = masker(x, seeded(2))
    by_hand = [(2 * (u * v).sum().clamp(min=0)).sqrt() / (u - v).norm() for u, v in zip(x, seen, strict=True)]
    assert torch.allclose(snr, torch.stack(by_hand))
    assert (snr > F.snr(x, seen, b)).all()
    exact = DenoisingCosine(masker, whole_snr=True, power=1.0)
    loss = exact(lambda seen: seen + 1, x, seeded(2))
    expected = F.denoising_cosine_loss(seen + 1, x, seen, b, power=1.0, snr=torch.stack(by_hand))
    assert torch.allclose(loss, expected)


@pytest.mark.filterwarnings("ignore::dcs.training.TrainingWarning")
def test_a_trial_under_a_reading(tmp_path):
    (trial,) = planned("dcs", ALL)
    line = experiments.run_trial(trial, tmp_path)
    settings = line["settings"]
    assert settings["data"]["noise"] == "gaussian:0.3:clip:fresh"
    assert settings["training"]["objective_options"] == {"variant": "paper", "whole_snr": True}
    assert settings["training"]["masking"]["centre"] is True
    assert settings["evaluation"]["head"] == "sgd"
    (soft,) = planned("dcs", "soft")
    options = experiments.run_trial(soft, tmp_path)["settings"]["training"]["objective_options"]
    assert options == {"method": "asymptotic", "power": 1.0, "eta": 0.01}
    (table,) = experiments.tables([line])
    (column,) = table.columns
    assert column.reading == "clip+fresh+sgd"
    assert table.headings[column] == "digits, σ = 0.3, clip+fresh+sgd"
    assert table.rows == ["dcs (paper, centre+whole)"]
    assert ALL in experiments.as_csv([table])
    assert experiments.key_of(line) == trial
    with pytest.raises(ValueError, match="reading must be names joined by"):
        experiments.key_of({**line, "reading": "centre+clip"})


def test_the_command_plans_readings(tmp_path):
    options = ("--variant", "paper", "--reading", "plain,clip+centre", "--losses", "dcs", "--dry-run")
    done = inside("reproduce", "expt0", "--preset", "smoke", *options, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert '"reading": "clip+centre"' in done.stdout
    wrong = inside("reproduce", "expt0", "--reading", "klip", "--out", tmp_path)
    assert wrong.returncode == 1
    assert "did you mean" in wrong.stderr or "must be one of clip" in wrong.stderr


@pytest.mark.filterwarnings("ignore::dcs.training.TrainingWarning")
def test_a_trial_has_a_learning_curve_and_is_not_changed_by_it(tmp_path, monkeypatch):
    (trial,) = planned("mse", "plain")
    trial = trial._replace(epochs=6)  # of two steps each
    without = experiments.run_trial(trial, tmp_path / "without")
    monkeypatch.setattr("dcs.experiments.curve.FIRST", 2)
    line = experiments.run_trial(trial, tmp_path / "with")
    assert list(line["metrics"]["curve"]) == ["2", "4", "8"]
    assert line["score"] == without["score"]
    assert "curve" not in without["metrics"]
    shorter = experiments.run_trial(trial._replace(epochs=4), tmp_path / "shorter")
    assert shorter["score"] == line["metrics"]["curve"]["8"]
    assert experiments.key_of(line) == trial

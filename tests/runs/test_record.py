"""The record of a run: one format, written and read by every door; earlier versions keep loading."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import dcs
from dcs.data import Source
from dcs.runs import RunRecord, read_record
from dcs.training import RunError
from tests.helpers import inside

OLD = Path(__file__).parent / "version-0.1"
EXPECTED = json.loads((OLD / "expected.json").read_text())
SMALL = ("--set", 'network_options={"hidden": [16]}', "--threads", "1")


def old_samples(name):
    if name == "saved":
        return np.random.RandomState(0).normal(size=(40, 16)).astype(np.float32)[:3]
    if name == "simsiam":
        return torch.rand(3, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    return dcs.data.load("digits", noise=("gaussian", 0.3)).train.x[:3]


@pytest.mark.parametrize("name", ["fit", "saved", "simsiam"])
def test_models_of_version_0_1_give_the_same_results(name):
    encoder, x = dcs.load(OLD / name), old_samples(name)
    features, *denoised = EXPECTED[name]
    np.testing.assert_allclose(encoder.transform(x), features, atol=1e-4)
    if denoised:
        np.testing.assert_allclose(encoder.denoise(x), denoised[0], atol=1e-4)


def test_recordings_of_version_0_1_keep_their_front_end():
    encoder = dcs.load(OLD / "recordings")
    x = np.stack([0.3 * np.sin(np.arange(800) * 0.05 * (i + 1)) for i in range(3)]).astype(np.float32)
    assert encoder.transform(x).shape == np.shape(EXPECTED["recordings"][0])
    assert encoder.denoise(x).shape == np.shape(EXPECTED["recordings"][1])
    source = encoder.predictor_.record.source
    assert (source.rate, source.mixed, source.size) == (800, "windows", 800)


def test_runs_of_version_0_1_say_what_they_were_trained_on():
    fit, trial = (read_record(OLD / name) for name in ("fit", "simsiam"))
    assert fit.source == Source.of("digits", noise="gaussian:0.3")
    assert trial.trial == {"method": "simsiam-dcs", "variant": "default"}
    assert trial.source.load().shape == trial.shape == (3, 16, 16)
    assert len(trial.source.load().train) == trial.samples == 256


@pytest.mark.parametrize("name", ["fit", "saved", "simsiam", "recordings"])
def test_an_old_record_is_written_in_the_new_format(name):
    record = read_record(OLD / name)
    again = RunRecord(**json.loads(record.to_json()))
    assert again.format_version == 2
    assert again == record


@pytest.mark.filterwarnings("ignore::dcs.training.TrainingWarning")
@pytest.mark.parametrize("shape", ["images", "vectors"])
def test_the_command_and_the_estimator_give_the_same_weights(shape, tmp_path):
    """`dcs fit DATA --seed 0` and `DenoisingEncoder(random_state=0).fit(X)`, all settings left to them."""
    rng = np.random.RandomState(0)
    x = rng.normal(size=(6000, 12)) if shape == "vectors" else rng.normal(size=(6000, 4, 4))
    np.save(tmp_path / "x.npy", x.astype(np.float32))
    assert inside("fit", tmp_path / "x.npy", "--out", tmp_path / "run", "--seed", 0, *SMALL).returncode == 0
    torch.set_num_threads(1)
    encoder = dcs.DenoisingEncoder(random_state=0, network_options={"hidden": [16]}).fit(x.astype(np.float32))
    encoder.save(tmp_path / "saved")
    model = "model.safetensors"
    assert (tmp_path / "run" / model).read_bytes() == (tmp_path / "saved" / model).read_bytes()
    ran, saved = (read_record(tmp_path / name) for name in ("run", "saved"))
    assert ran.training.model_copy(update={"threads": None}) == saved.training
    assert (ran.fingerprint, ran.shape, ran.learned) == (saved.fingerprint, saved.shape, saved.learned)


def test_a_dry_run_shows_the_settings_that_are_then_used(tmp_path):
    command = ["fit", "digits", "--noise", "gaussian:0.3", "--out", tmp_path / "run", "--epochs", 1, *SMALL]
    shown = json.loads(inside(*command, "--dry-run").stdout)
    assert not (tmp_path / "run").exists()
    assert inside(*command).returncode == 0
    record = json.loads((tmp_path / "run/config.json").read_text())
    assert shown["training"] == record["training"]
    assert shown["source"] == record["source"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"training": {"objective": "dsc"}}, "did you mean 'dcs'"),
        ({"training": {"objective_options": {"pwoer": 1}}}, "did you mean 'power'"),
        ({"shape": []}, "shape"),
        ({"learned": {"scale": -1}}, "learned"),
        ({"source": {"data": "x", "noise": "gaussan:1"}}, "gaussian"),
        ({"surprise": 1}, "unknown setting 'surprise'"),
    ],
)
def test_a_record_that_cannot_be_is_one_error(change, says, tmp_path):
    record = json.loads(RunRecord(shape=(3,), training={}).to_json())
    (tmp_path / "config.json").write_text(json.dumps({**record, **change}))
    with pytest.raises(RunError, match=says):
        read_record(tmp_path)


def test_nested_too_deeply(tmp_path):
    (tmp_path / "config.json").write_text('{"training": ' + "[" * 100_000)
    with pytest.raises(RunError, match="damaged"):
        read_record(tmp_path)

"""The examples of CONTRIBUTING.md, run as printed."""

import re

import pytest

from dcs import evaluation, masking, models, objectives
from dcs.cli import app
from dcs.data import CATALOGUE
from tests.helpers import ROOT, inside

BLOCKS = re.findall(r"### (.+?)\n.*?```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
FIT = ("--epochs", 1, "--set", 'network_options={"hidden": [8]}')
TOUCHED = [
    objectives.OBJECTIVES,
    masking.VIEWS,
    models.NETWORKS,
    evaluation.PROTOCOLS,
    CATALOGUE,
]


@pytest.fixture(autouse=True)
def restored():
    """Leave no part of an example behind."""
    before, commands = [dict(entries) for entries in TOUCHED], list(app.registered_commands)
    yield
    for entries, kept in zip(TOUCHED, before, strict=True):
        entries.clear()
        entries.update(kept)
    app.registered_commands[:] = commands


def run(title):
    (code,) = [code for heading, code in BLOCKS if heading == title]
    exec(compile(code, title, "exec", dont_inherit=True), {"__name__": "example"})  # noqa: S102  (our own page)


def succeed(*arguments):
    result = inside(*arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_all_examples_are_run():
    assert [title for title, _ in BLOCKS] == [
        "An objective",
        "A view maker",
        "A network",
        "A protocol",
        "A data set",
        "A command",
    ]


def test_an_objective(tmp_path):
    run("An objective")
    options = ("--set", 'objective_options={"delta": 0.5}')
    succeed("fit", "digits", "--objective", "huber", *options, "--out", tmp_path / "run", *FIT)
    assert "huber" in succeed("fit", "--help")
    wrong = inside(
        "fit",
        "digits",
        "--objective",
        "huber",
        "--set",
        'objective_options={"dleta": 1}',
        *FIT,
        "--out",
        tmp_path / "other",
    )
    assert "did you mean 'delta'" in wrong.stderr
    assert "`huber`" in objectives.OBJECTIVES.table()


def test_a_view_maker(tmp_path):
    run("A view maker")
    command = ("fit", "digits", "--objective", "n2v", "--view", "zero", "--rho", "0.2", *FIT)
    succeed(*command, "--out", tmp_path / "run")
    assert "zero" in succeed("fit", "--help")


def test_a_network(tmp_path):
    run("A network")
    succeed("fit", "digits", "--network", "linear", "--epochs", 1, "--out", tmp_path / "run")
    assert "linear" in succeed("fit", "--help")
    assert succeed("embed", tmp_path / "run", "digits", "--out", tmp_path / "f.npy")


def test_a_protocol(tmp_path):
    run("A protocol")
    succeed("fit", "digits", *FIT, "--out", tmp_path / "run")
    assert "centroid" in succeed("evaluate", "--help")
    assert succeed("evaluate", tmp_path / "run", "--protocol", "centroid").startswith("centroid: ")


def test_a_data_set(tmp_path):
    run("A data set")
    assert "ramps" in succeed("datasets", "list", "--json")
    succeed("fit", "ramps", "--noise", "gaussian:0.1", *FIT, "--out", tmp_path / "run")
    assert succeed("evaluate", tmp_path / "run").startswith("linear: ")


def test_a_command():
    run("A command")
    assert succeed("count", "digits", "--twice").strip() == "2400"

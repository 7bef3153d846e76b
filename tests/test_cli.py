"""The `dcs` command as a user drives it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

DCS = Path(sys.executable).with_name("dcs")


def dcs(*arguments):
    return subprocess.run([DCS, *arguments], capture_output=True, text=True, timeout=300)


def test_demo_prints_a_table_of_all_objectives():
    result = dcs("demo", "--steps", "5", "--seeds", "2")
    assert result.returncode == 0, result.stderr
    for name in (
        "PCA",
        "untrained",
        "mse",
        "cosine",
        "dae",
        "sure",
        "n2v",
        "dcs",
        "dcs (paper)",
        "clean target",
    ):
        assert f" {name} " in result.stdout
    assert "seed 1: training with dcs, 5 steps" in result.stderr
    assert " ± " in result.stdout


def test_demo_as_json_is_reproducible():
    first, again = (dcs("demo", "--steps", "3", "--seed", "1", "--seeds", "1", "--json") for _ in range(2))
    assert first.returncode == 0, first.stderr
    assert first.stdout == again.stdout
    rows = [json.loads(line) for line in first.stdout.splitlines()]
    assert len(rows) == 11
    assert all(0 <= row["accuracy"] <= 100 and row["seed"] == 1 for row in rows)


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "--help"], ["--version"]])
def test_help_and_version(arguments):
    result = dcs(*arguments)
    assert result.returncode == 0
    assert "dcs" in result.stdout
    if arguments == ["demo", "--help"]:
        assert "Example: dcs demo" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "word"),
    [(["demo", "--sigma", "-1"], "--sigma"), (["demo", "--stepps", "3"], "--stepps"), (["dmo"], "dmo")],
)
def test_wrong_usage_exits_with_2_and_no_traceback(arguments, word):
    result = dcs(*arguments)
    assert result.returncode == 2
    assert word in result.stderr
    assert "Traceback" not in result.stderr

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


def test_datasets_are_listed():
    bare, listed = dcs("datasets"), dcs("datasets", "list")
    assert bare.returncode == listed.returncode == 0, listed.stderr
    assert bare.stdout == listed.stdout
    for words in ("mnist", "60,000", "3x64x64", "with scikit-learn", "Krizhevsky (2009)"):
        assert words in listed.stdout


def test_datasets_for_programs(tmp_path):
    (tmp_path / "pendigits").mkdir()
    for name in ("pendigits.tra", "pendigits.tes"):
        (tmp_path / "pendigits" / name).write_text("1," * 16 + "3\n")
    result = dcs("datasets", "list", "--json", "--root", str(tmp_path))
    rows = {row["name"]: row for row in json.loads(result.stdout)}
    assert rows["pendigits"]["location"] == str(tmp_path / "pendigits")
    assert rows["mnist"]["location"] is None
    assert rows["mnist"]["shape"] == [28, 28]
    assert rows["mnist"]["download_bytes"] == 11594722
    got = dcs("datasets", "get", "pendigits", "--root", str(tmp_path), "--json")
    assert json.loads(got.stdout) == rows["pendigits"]
    said = dcs("datasets", "get", "pendigits", "--root", str(tmp_path))
    assert str(tmp_path / "pendigits") in said.stdout
    assert "Cite: E. Alpaydin" in said.stdout


def test_an_unknown_data_set_is_wrong_usage():
    result = dcs("datasets", "get", "minst")
    assert result.returncode == 2
    assert "'minst' is not one of digits, mnist" in result.stderr

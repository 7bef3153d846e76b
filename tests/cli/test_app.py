"""The `dcs` command as a user drives it."""

import io
import json
import re

import pytest
import torch
from rich.console import Console

from dcs import demo
from dcs.cli.demo import _findings, _picture
from tests.helpers import dcs


def test_demo_prints_a_table_a_picture_and_what_to_do_next():
    result = dcs("demo", "--epochs", "1", "--seeds", "2")
    assert result.returncode == 0, result.stderr
    for name in ("PCA", "untrained", "mse", "cosine", "dae", "sure", "n2v", "dcs", *demo.ORACLES):
        assert f"│ {name} " in result.stdout
    assert "seed 1 (2 of 2): training with dcs" in result.stderr
    assert " ± " in result.stdout
    assert len(re.findall("^(noisy|cosine|dcs|clean) .*[+@]", result.stdout, re.MULTILINE)) == 4
    assert "Features: dcs, " in result.stdout
    assert "dcs fit photos/ --out run" in result.stdout


def test_demo_as_json_is_reproducible():
    first, again = (dcs("demo", "--epochs", "1", "--seed", "1", "--seeds", "1", "--json") for _ in range(2))
    assert first.returncode == 0, first.stderr
    assert first.stdout == again.stdout
    rows = [json.loads(line) for line in first.stdout.splitlines()]
    assert len(rows) == 11
    assert all(0 <= row["accuracy"] <= 100 and row["seed"] == 1 for row in rows)


def findings(dcs, n2v, literal=(80.0, 80.0)):
    """What the demo says of accuracies; the cosines are a hundredth of them."""
    scores = {"PCA": (50.0, 50.0), "n2v": n2v, "dcs": dcs, "dcs (paper)": literal, "clean target": (99, 99)}
    results = {
        name: [demo.Result(name, value, None if name == "PCA" else value / 100) for value in values]
        for name, values in scores.items()
    }
    return _findings(results, demo.ORACLES)


def test_the_demo_says_who_won_and_by_how_much():
    """The clean target, which knows too much, does not count."""
    assert findings((85.0, 86.0), (82.0, 83.1)) == [
        "Features: dcs, 85.5 %, is ahead of the best of the others, n2v, 82.5 %, "
        "and not by chance (t-test, 95 %).",
        "Denoising: dcs, 0.855, is ahead of the best of the others, n2v, 0.825, "
        "and not by chance (t-test, 95 %).",
        "dcs (paper), the algorithm to the letter, reads 80.0 %: with six masked entries a digit "
        "its weight 1/k is a gamble, which is why dcs weighs by k.",
    ]
    lost, _ = findings((82.0, 83.1), (85.0, 86.0))
    assert "82.5 %, is behind the best of the others, n2v, 85.5 %, and not by chance" in lost
    level, _ = findings((82.0, 84.0), (84.0, 83.0))
    assert "is level with the best of the others, n2v, 83.5 %, within the spread" in level
    once, _ = findings((82.0,), (81.0,), (81.0,))
    assert "is ahead of the best of the others, n2v, 81.0 %; one seed proves nothing" in once


def test_the_picture_is_grey_where_there_are_colours():
    images = torch.zeros(9, 8, 8)
    images[0, 0, 0], images[0, 1, 0] = 2.0, 0.6
    console = Console(color_system="truecolor", width=80, file=io.StringIO(), force_terminal=True)
    console.print(_picture({"noisy": images, "clean": images}, in_colour=True))
    drawn = console.file.getvalue()
    assert drawn.count("▀") == 2 * 7 * 8 * 4
    assert "\x1b[38;2;255;255;255;48;2;153;153;153m▀" in drawn


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "--help"], ["--version"]])
def test_help_and_version(arguments):
    result = dcs(*arguments)
    assert result.returncode == 0
    assert "dcs" in result.stdout
    if arguments == ["demo", "--help"]:
        assert "Example: dcs demo" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "word"),
    [(["demo", "--sigma", "-1"], "--sigma"), (["demo", "--epocs", "3"], "--epocs"), (["dmo"], "dmo")],
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


def test_an_error_of_the_library_names_options(tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    for name, size in (("a", 8), ("b", 16)):
        pillow.new("L", (size, size)).save(tmp_path / f"{name}.png")
    result = dcs("fit", str(tmp_path), "--mixed", "error", "--out", str(tmp_path.parent / "run"))
    assert result.returncode == 1
    assert "--mixed resize" in result.stderr
    assert "mixed=" not in result.stderr


def test_labels_in_a_table_are_named_as_an_option(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,my class\n1,2,x\n3,4,y\n".replace("my class", "label"))
    result = dcs("fit", tmp_path / "t.csv", "--out", tmp_path / "run")
    assert result.returncode == 1
    assert "pass --label label to set it aside, or --label none to learn from it too" in result.stderr

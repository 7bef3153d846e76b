"""Each example runs, at small scale, and prints what it promises."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SMALL = {
    "custom_loop.py": (["--steps", "150"], r"noisy (0\.\d+), predicted (0\.\d+)"),
    "own_arrays.py": (["--epochs", "40", "--samples", "400"], r"noisy (0\.\d+), denoised (0\.\d+)"),
    "own_images.py": (["--epochs", "1", "--pictures", "40"], None),
    "own_recordings.py": (
        ["--epochs", "6", "--recordings", "20"],
        r"noisy (-?\d+\.\d+) dB, denoised (\d+\.\d+) dB",
    ),
    "simsiam_dcs.py": (["--epochs", "6"], r"untrained (\d+\.\d) %, trained (\d+\.\d) %"),
    "sklearn_pipeline.py": (["--epochs", "2", "--samples", "300"], None),
}


def run(name, *options):
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *options]
    if name == "own_images.py":  # one epoch on a few pictures is little enough to be warned of
        command[2] = "ignore"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_run_here():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SMALL)


@pytest.mark.parametrize("name", SMALL)
def test_example_runs(name):
    options, better = SMALL[name]
    printed = run(name, *options)
    assert len(printed.splitlines()) >= 3
    assert "nan" not in printed
    if better is not None:
        noisy, denoised = map(float, re.search(better, printed).groups())
        assert denoised > noisy + 0.02


@pytest.mark.parametrize("name", SMALL)
def test_example_is_short_and_says_what_it_does(name):
    text = (EXAMPLES / name).read_text()
    assert text.startswith('"""')
    assert f"python examples/{name}" in text
    assert len(text.splitlines()) < 80


def test_denoised_pictures_are_written(tmp_path):
    from PIL import Image

    (tmp_path / "photos").mkdir()
    for number in range(6):
        Image.new("RGB", (8, 9 + number), (40 * number, 90, 120)).save(tmp_path / f"photos/{number}.png")
    run(
        "own_images.py", "--folder", str(tmp_path / "photos"), "--out", str(tmp_path / "out"), "--epochs", "1"
    )
    written = sorted((tmp_path / "out").glob("*.png"))
    assert [path.stem for path in written] == list("012345")
    for number, path in enumerate(written):
        with Image.open(path) as picture:
            assert (picture.size, picture.mode) == ((8, 9 + number), "RGB")

"""`dcs inspect` as a user drives it, and its page."""

import base64
import hashlib
import html.parser
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from PIL import Image

from dcs import noise
from dcs.inspection import Sigma, inspect, strength
from dcs.report.inspect_page import render
from tests.helpers import dcs, inside
from tests.inspection.test_inspection import smooth_images, some_digits

HOSTILE = ["<script>alert(1)</script>", '"\'&<b>"', "🎈\udcff\u202e", "x" * 10_000, "a\nb\x1b[31m"]


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "photos"
    folder.mkdir()
    x = noise.add(0.3 + 0.4 * smooth_images(1, n=20, side=32), "gaussian", 0.08, 1)
    for number, image in enumerate(x):
        Image.fromarray(np.uint8(image.clamp(0, 1) * 255)).save(folder / f"{number:02d}.png")
    return folder


def test_the_answer_on_a_terminal(photos):
    result = dcs("inspect", photos)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == f"{photos}: 20 samples of 32 x 32"
    assert "oisy: dCS " in result.stdout
    assert sum(line.startswith("  holds ") for line in lines) == 4
    command = shlex.split(lines[-1].removeprefix("next: "))
    assert command[:5] == ["dcs", "fit", str(photos), "--out", "run"]
    assert not list(photos.parent.glob("*.html"))


@pytest.mark.filterwarnings("ignore::dcs.training.TrainingWarning")
def test_what_it_advises_can_be_run(photos, tmp_path):
    said = inside("inspect", photos).stdout.splitlines()[-1].removeprefix("next: ")
    command = shlex.split(said)[1:]
    command[command.index("run")] = tmp_path / "run"
    result = inside(*command, "--epochs", "1", "--dry-run")
    assert result.returncode == 0, result.stderr
    masking = json.loads(result.stdout)["training"]["masking"]
    assert masking["kind"] == "split"
    assert masking["sigma"] == pytest.approx(0.08, rel=0.1)


def test_for_programs(photos, tmp_path):
    page = tmp_path / "noise.html"
    result = inside("inspect", photos, "--json", "--out", page, "--samples", "15")
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert (told["data"], told["page"]) == (str(photos), str(page))
    assert (told["samples"], told["inspected"]) == (20, 15)
    assert told["command"].startswith("dcs fit ")
    assert {check["verdict"] for check in told["checks"]} <= {"holds", "does not hold", "cannot tell"}
    assert json.loads(inside("inspect", photos, "--json").stdout)["page"] is None


def test_the_options_of_the_data_are_in_the_command():
    given = ("--noise", "gaussian:0.3", "--data-seed", "4")
    said = inside("inspect", "digits", *given, "--json")
    told = json.loads(said.stdout)
    assert told["sigma"]["value"] == pytest.approx(0.3, rel=0.1)
    assert {"--noise=gaussian:0.3", "--data-seed=4"} <= set(shlex.split(told["command"]))
    clean = json.loads(inside("inspect", "digits", "--json").stdout)
    assert clean["summary"].startswith("Clean: dCS will not help much")
    assert clean["command"] == "dcs fit digits --out run --objective mse"


def test_the_run_has_a_free_name(photos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    assert "--out run-2 " in inside("inspect", photos).stdout.splitlines()[-1]


def test_no_command_where_training_would_fail(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((50, 20, 20)))
    assert "next:" not in inside("inspect", tmp_path / "x.npy").stdout
    assert json.loads(inside("inspect", tmp_path / "x.npy", "--json").stdout)["command"] is None
    np.save(tmp_path / "one.npy", np.random.default_rng(0).normal(size=(40, 1, 1)).astype("float32"))
    said = inside("inspect", tmp_path / "one.npy").stdout.splitlines()[-1].removeprefix("next: ")
    command = shlex.split(said)[1:]
    command[command.index("--out") + 1] = tmp_path / "run"
    assert inside(*command, "--epochs", "1", "--dry-run").returncode == 0


@pytest.mark.parametrize("kind", ["gaussian", "clean", "alike"])
def test_no_interval_of_nothing(kind):
    found = inspect(DATA[kind]())
    read = Reader(render(found, kind, "dcs fit").decode())
    for words in ("between 0 and 0 ", "and –", "between 0 and 0.", "window of", "Both estimators"):
        assert words not in read.text
    if found.c is not None:
        assert "signal-to-noise ratio ĉ" in read.text


def test_nothing_is_overwritten(photos, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("mine")
    refused = inside("inspect", photos, "--out", page)
    assert refused.returncode == 1
    assert "exists: give another file, or pass --overwrite" in refused.stderr
    assert page.read_text() == "mine"
    assert inside("inspect", photos, "--out", page, "--overwrite").returncode == 0
    assert page.read_text().startswith("<!DOCTYPE html>")
    for wrong, word in (("page.txt", "must end in .html"), ("no/page.html", "does not exist")):
        result = inside("inspect", photos, "--out", tmp_path / wrong)
        assert (result.returncode, word in result.stderr) == (1, True)
    assert "in its folder" in inside("inspect", photos, "--out", photos / "page.html").stderr


def test_the_page_is_opened(photos, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with mock.patch("webbrowser.open", return_value=True) as opened:
        result = inside("inspect", photos, "--open")
    (page,) = tmp_path.glob("*/inspect.html")
    opened.assert_called_once_with(page.as_uri())
    assert f"page: {page}" in result.stdout
    with mock.patch("webbrowser.open", return_value=False):
        result = inside("inspect", photos, "--open", "--out", tmp_path / "other.html")
    assert result.returncode == 0
    assert "no browser was found" in result.stderr


def test_broken_files(photos, tmp_path):
    folder = tmp_path / "photos"
    shutil.copytree(photos, folder)
    (folder / "bad.png").write_bytes(b"no picture")
    refused = inside("inspect", folder)
    assert (refused.returncode, "bad.png" in refused.stderr) == (1, True)
    with pytest.warns(UserWarning, match=r"bad\.png"):
        result = inside("inspect", folder, "--skip-bad")
    assert result.returncode == 0
    assert "--skip-bad" in result.stdout.splitlines()[-1]
    missing = inside("inspect", tmp_path / "nothing.npy")
    assert (missing.returncode, "nothing.npy" in missing.stderr) == (1, True)
    assert inside("inspect").returncode == 2


def test_a_table_without_an_order(tmp_path):
    rng = np.random.default_rng(0)
    np.savetxt(tmp_path / "table.csv", rng.normal(size=(60, 12)), delimiter=",")
    result = inside("inspect", tmp_path / "table.csv", "--out", tmp_path / "table.html")
    assert "they seem to have no order" in result.stdout
    assert result.stdout.splitlines()[-1].endswith("--objective dae")
    assert (
        "--domain is only applicable to recordings"
        in inside("inspect", tmp_path / "table.csv", "--domain", "waveform").stderr
    )


@pytest.mark.parametrize("domain", ["spectrogram", "waveform"])
def test_recordings(tmp_path, domain):
    soundfile = pytest.importorskip("soundfile")
    rng = np.random.default_rng(0)
    time_ = np.arange(16_000) / 8000
    for number in range(6):
        tone = 0.3 * np.sin(2 * np.pi * rng.uniform(100, 400) * time_)
        soundfile.write(tmp_path / f"{number}.wav", tone + rng.normal(0, 0.05, len(time_)), 8000)
    result = inside("inspect", tmp_path, "--domain", domain, "--json")
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["shape"] == ([16_000] if domain == "waveform" else told["shape"])
    assert ("--domain waveform" in told["command"]) == (domain == "waveform")
    if domain == "waveform":
        assert told["sigma"]["value"] == pytest.approx(0.05, rel=0.1)
        assert told["advice"]["views"] == "amplitude"


@pytest.mark.parametrize("domain", ["spectrogram", "waveform"])
def test_silent_recordings_change_nothing_and_are_warned_of(tmp_path, domain):
    soundfile = pytest.importorskip("soundfile")
    rng = np.random.default_rng(0)
    time_ = np.arange(16_000) / 8000
    told = []
    for number in range(6):
        tone = 0.3 * np.sin(2 * np.pi * rng.uniform(100, 400) * time_)
        soundfile.write(tmp_path / f"{number}.wav", tone + rng.normal(0, 0.05, len(time_)), 8000)
    for silent in (0, 2):
        for number in range(silent):
            soundfile.write(tmp_path / f"silent-{number}.wav", np.full(16_000, 0.25 * number), 8000)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = inside("inspect", tmp_path, "--domain", domain, "--json")
        assert result.returncode == 0, result.stderr
        told.append(json.loads(result.stdout))
        said = [str(warning.message) for warning in caught if "silent" in str(warning.message)]
        assert len(said) == (silent > 0)
    assert "2 recordings are silent, such as 'silent-0.wav'" in said[0]
    assert (told[1].pop("samples"), told[0].pop("samples")) == (8, 6)
    assert told[0] == told[1]


def test_of_ten_thousand_images_some_are_enough(tmp_path):
    x = noise.add(smooth_images(2, n=100, side=28).repeat(100, 1, 1), "gaussian", 0.3, 1)
    np.save(tmp_path / "x.npy", x.numpy())
    result = inside("inspect", tmp_path / "x.npy", "--out", tmp_path / "x.html", "--json")
    told = json.loads(result.stdout)
    assert (told["samples"], told["inspected"]) == (10_000, 4096)


def test_a_name_like_an_option(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("-x.npy", noise.add(smooth_images(4), "gaussian", 0.3, 1).numpy())
    result = inside("inspect", "--", "-x.npy")
    assert shlex.split(result.stdout.splitlines()[-1])[1:4] == ["dcs", "fit", "./-x.npy"]


def test_an_offset_is_taken_out_by_the_command_that_is_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = 50 + noise.add(smooth_images(4), "gaussian", 0.3, 1)
    np.save("x.npy", x.numpy())
    told = json.loads(inside("inspect", "x.npy", "--json").stdout)
    python, flag, code = shlex.split(told["prepare"])
    assert (python, flag) == ("python", "-c")
    exec(code, {})  # noqa: S102
    np.testing.assert_allclose(np.load("centred.npy"), (x - x.mean()).numpy(), atol=1e-4)
    assert told["command"].startswith("dcs fit centred.npy ")
    assert "subtract the mean" in told["summary"]
    again = inside("inspect", "x.npy").stdout.splitlines()
    assert again[-2].startswith("first: python -c ")
    assert again[-1].startswith("next: dcs fit centred-2.npy ")  # nothing is overwritten


def test_notes_say_what_was_inspected():
    printed = inside("inspect", "digits", "--noise", "gaussian:0.3").stdout
    assert "Noise was added first: gaussian:0.3." in printed
    assert "Only the training split is inspected." in printed


def test_errors_name_options_and_remedies(photos, tmp_path):
    assert "is neither a known data set" in inside("inspect", photos / "none.png").stderr
    assert "--skip-bad is not applicable to digits" in inside("inspect", "digits", "--skip-bad").stderr
    assert "--out must end in" in inside("inspect", photos, "--out", tmp_path / "x.txt").stderr
    (tmp_path / "none").mkdir()
    assert "nor anything else" in inside("inspect", tmp_path / "none").stderr
    folder = tmp_path / "photos"
    shutil.copytree(photos, folder)
    (folder / "bad.png").write_bytes(b"no picture")
    assert "leave out all such files with --skip-bad" in inside("inspect", folder).stderr
    with pytest.warns(UserWarning, match="are bad and were skipped") as warned:
        inside("inspect", folder, "--skip-bad")
    assert not any("remove it" in str(one.message) for one in warned)


# --- the page


class Reader(html.parser.HTMLParser):
    """What a page holds: its text, its elements, and what it would fetch."""

    VOID = ("meta", "link", "img", "line", "rect", "circle", "polyline")

    def __init__(self, page):
        super().__init__()
        self.text, self.tags, self.links, self.open = "", [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for name, value in attributes if name in ("src", "href", "srcset", "action")]
        assert not any(name.startswith("on") or name == "style" for name, _ in attributes)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def random(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


DATA = {
    "gaussian": lambda: noise.add(some_digits(1), "gaussian", 0.3, 1),
    "poisson": lambda: noise.add(some_digits(1), "poisson", 0.5, 1),
    "clean": lambda: some_digits(1),
    "alike": lambda: torch.zeros(50, 20, 20),
    "too few": lambda: random(5, 8, 8),
    "table": lambda: random(50, 12),
    "signals": lambda: random(40, 600),
}


@pytest.mark.parametrize("kind", DATA)
def test_the_page_stands_alone_and_says_it_all(kind):
    found = inspect(DATA[kind]())
    page = render(found, kind, "dcs fit x --out run").decode()
    read = Reader(page)
    assert read.open == []
    assert "script" not in read.tags
    assert all(link.startswith("data:image/png;base64,") or link == "data:," for link in read.links)
    assert "http:" not in page
    assert "https:" not in page
    assert "prefers-color-scheme: dark" in page
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"content=\"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; "
    assert policy in page
    assert "unsafe-inline" not in page
    assert found.summary in read.text
    for check in found.checks:
        assert check.verdict in read.text
        assert check.because in read.text
        assert check.meaning in read.text
    assert ("dcs fit x --out run" in read.text) == found.advice.ready
    assert len(page) < 200_000


@pytest.mark.parametrize("name", HOSTILE, ids=["script", "quotes", "emoji", "long", "control"])
def test_hostile_names_are_text(name):
    found = inspect(noise.add(smooth_images(3, n=4), "gaussian", 0.3, 1))
    page = render(found, name, shlex.join(["dcs", "fit", name])).decode()
    read = Reader(page)
    assert "script" not in read.tags
    assert "b" not in read.tags[: read.tags.index("main")]
    shown = name.encode("utf-8", "replace").decode()
    assert read.text.count(shown) >= 2
    assert shlex.join(["dcs", "fit", shown]) in read.text


def test_hostile_file_names_reach_the_page_as_text(tmp_path):
    folder = tmp_path / "<img src=x onerror=alert(1)> '\" 🎈"
    folder.mkdir()
    np.save(folder / "x.npy", noise.add(smooth_images(4), "gaussian", 0.3, 1).numpy())
    result = inside("inspect", folder / "x.npy", "--out", tmp_path / "page.html")
    assert result.returncode == 0, result.stderr
    assert str(folder) in Reader((tmp_path / "page.html").read_text()).text


def shown_with(examples, **changes):
    """A page of an inspection with examples of one's own."""
    found = inspect(DATA["gaussian"]())
    return render(replace(found, examples=(examples, examples), **changes), "x", "y").decode()


def picture_of(page):
    return Image.open(io.BytesIO(base64.b64decode(page.split("base64,")[1].split('"')[0])))


def test_pictures_are_png_files():
    grey = torch.arange(256.0)[torch.randperm(256, generator=torch.Generator().manual_seed(0))]
    grey = torch.cat([grey, torch.tensor([-1e3] * 4 + [1e3] * 4)]).reshape(1, 12, 22)  # ends that are cut off
    with picture_of(shown_with(grey)) as image:
        assert (image.format, image.size) == ("PNG", (22, 12))
        drawn = np.asarray(image).astype(float)
    low, high = np.quantile(grey.numpy(), [0.01, 0.99])
    expected = 255 * ((grey[0].numpy() - low) / (high - low)).clip(0, 1)
    np.testing.assert_allclose(drawn, expected, atol=0.51)


def test_the_page_needs_no_pillow():
    with mock.patch.dict(sys.modules, {"PIL": None, "PIL.Image": None}):
        for kind in ("gaussian", "signals"):
            assert b"How noisy is" in render(inspect(DATA[kind]()), kind, "y")


def test_the_histograms_are_drawn_to_scale():
    found = inspect(noise.add(some_digits(1), "gaussian", 0.3, 1))
    page = render(found, "x", "y").decode()
    heights = [float(part.split('"')[0]) for part in page.split('height="')[1:]]
    counts = [*found.c.counts, *found.k.counts]
    assert len(heights) == len(counts)
    for some, drawn in ((found.c.counts, heights[:24]), (found.k.counts, heights[24:])):
        np.testing.assert_allclose(np.array(drawn) / max(drawn), np.array(some) / max(some), atol=1e-3)


def test_charts_leave_room_for_their_largest_number():
    found = inspect(1e6 * noise.add(smooth_images(3), "gaussian", 0.1, 1))
    page = render(found, "x", "y").decode()
    largest = [
        (float(at), text)
        for at, text in re.findall(r'<text x="([\d.]+)" y="22" text-anchor="end">([^<]*)</text>', page)
    ]
    assert "e+05" in largest[0][1]
    for at, text in largest:
        assert at - 7.6 * len(text) > 20  # where the title ends; digits of 12 px are up to 7.6 px wide


def test_signals_far_from_zero_can_be_seen():
    page = shown_with(torch.sin(torch.linspace(0, 9, 80)).expand(2, 80) + 293)
    signals = re.findall(r'<polyline class="curve thin" points="([^"]*)"/>', page)
    assert len(signals) == 4
    heights = [float(point.split(",")[1]) for point in signals[0].split()]
    assert len(heights) == 80
    assert (min(heights), max(heights)) == (pytest.approx(2, abs=0.2), pytest.approx(78, abs=0.2))


def test_spectrograms_stand_upright():
    noisy = torch.zeros(1, 3, 2)
    noisy[0, 2, 0] = 1  # the last frame, the lowest band
    page = shown_with(noisy, domain="spectrogram", shape=(3, 2))
    with picture_of(page) as image:
        assert image.size == (3, 2)
        assert np.asarray(image).tolist() == [[0, 0, 0], [0, 0, 255]]
    assert "Time runs from left to right" in page
    assert "3 frames × 2 bands" in page


def test_what_is_left_of_clean_samples_is_not_called_noise():
    assert "mostly detail" in Reader(render(inspect(DATA["clean"]()), "x", "y").decode()).text
    assert "mostly noise" in Reader(render(inspect(DATA["gaussian"]()), "x", "y").decode()).text


def test_words_for_sigma():
    known = Sigma(0.3, 0.28, 0.32, None, None, None, True, "")
    assert strength(known) == "0.3, most likely between 0.28 and 0.32"
    assert strength(replace(known, low=0.0)) == "at most 0.32"
    assert strength(replace(known, at_least=True)) == "at least 0.3, and at most 0.32"


ROOT = Path(__file__).parents[2]


def test_the_documentation_shows_what_is_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command, shown = re.search(
        r"```\n\$ (dcs inspect .*?)\n(.*?)```", (ROOT / "docs" / "inspect.md").read_text(), re.DOTALL
    ).groups()
    printed = inside(*shlex.split(command)[1:]).stdout
    without_numbers = [re.sub(r"-?\d[\d.]*", "0", text) for text in (shown, printed)]
    assert without_numbers[0] == without_numbers[1]
    assert (tmp_path / "noise.html").exists()


def test_the_python_of_the_page_of_docs_runs():
    names = {}
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "inspect.md").read_text(), re.DOTALL)
    exec(block, names)  # noqa: S102
    assert names["found"].state == "noisy"
    assert names["found"].advice.arguments[0] == "--set"


def test_it_is_a_command_with_an_example():
    result = dcs("inspect", "--help")
    assert result.returncode == 0
    assert "Example: dcs inspect photos/ --out noise.html" in result.stdout


CHROMIUM = shutil.which("chromium")


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed")
def test_a_browser_shows_it_without_complaint(tmp_path):
    found = inspect(noise.add(some_digits(1), "gaussian", 0.3, 1))
    (tmp_path / "page.html").write_bytes(render(found, HOSTILE[0], "dcs fit"))
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]
    options.append(f"--user-data-dir={tmp_path / 'profile'}")
    address = (tmp_path / "page.html").as_uri()
    result = subprocess.run([CHROMIUM, *options, address], capture_output=True, text=True, timeout=120)
    assert "&lt;script&gt;alert(1)" in result.stdout
    assert "CONSOLE" not in result.stderr

"""The commands of the README and the docs are run as printed, but for the length of trainings."""

import re
import shlex
import shutil
import webbrowser

import numpy as np
import pytest
import soundfile
import typer
from PIL import Image

from dcs.cli import app
from tests.helpers import ROOT, inside

PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")),
]
# Of these only the options are checked: they need other data, or take long whatever the options are.
TOO_LONG = ("reproduce", "demo")
OTHER_DATA = ("cifar10",)


def commands(page):
    """The lines of a page's shell blocks that call dcs."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    lines = [
        line.removeprefix("$ ") for kind, block in blocks for line in block.splitlines() if kind in ("", "sh")
    ]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("dcs ")]


def short(arguments):
    """A command that replaces what is there, and trains for one epoch, a ResNet with few channels."""
    if arguments[0] == "inspect" and "--out" in arguments:
        return [*arguments, "--overwrite"]
    if arguments[0] != "fit":
        return arguments
    if "--epochs" in arguments:
        place = arguments.index("--epochs")
        arguments = arguments[:place] + arguments[place + 2 :]
    narrow = ["--set", 'network_options={"width": 4}'] if "simsiam-dcs" in arguments else []
    return [*arguments, *narrow, "--epochs", "1", "--overwrite"]


def parse(arguments):
    """Check the name and the options of a command, and the types of their values."""
    group = typer.main.get_command(app)
    name, command, rest = group.resolve_command(group.make_context("dcs", arguments[:1]), arguments)
    command.make_context(name, rest)


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    """A folder with pictures of two classes and different sizes, recordings, and labels."""
    root, generator = tmp_path_factory.mktemp("material"), np.random.default_rng(0)
    for number in range(24):
        size = (64 + number % 3, 66)
        ramp = np.linspace(60, 190, 66)[:: 1 if number % 2 else -1]
        pixels = np.clip(ramp + 20 * generator.standard_normal(size), 0, 255).astype(np.uint8)
        folder = root / "photos" / ("rising" if number % 2 else "falling")
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / f"{number:02}.png")
    (root / "labels.txt").write_text("\n".join(["falling"] * 12 + ["rising"] * 12) + "\n")
    (root / "recordings").mkdir()
    for number in range(12):
        wave = np.sin(np.arange(8000 + 500 * number) / (3 + number)) + 0.1 * generator.standard_normal(
            8000 + 500 * number
        )
        soundfile.write(root / "recordings" / f"{number:02}.wav", 0.3 * wave, 8000)
    shutil.copy(root / "recordings" / "00.wav", root / "in.wav")
    return root


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)])
def test_the_commands_of_a_page_run(page, material, tmp_path, monkeypatch):
    monkeypatch.chdir(shutil.copytree(material, tmp_path / "here"))
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    for arguments in commands(page):
        parse(arguments)
        if arguments[0] in TOO_LONG or set(arguments) & set(OTHER_DATA) or "expt0" in arguments:
            continue
        if "other-run" in arguments:
            shutil.copytree("run", "other-run")
        done = inside(*short(arguments))
        assert done.returncode == 0, (arguments, done.stderr)
    assert len(opened) == sum("--open" in arguments for arguments in commands(page))


def test_an_option_that_is_gone_is_noticed():
    with pytest.raises(Exception, match="No such option"):
        parse(["fit", "photos/", "--out", "run", "--hop", "3"])

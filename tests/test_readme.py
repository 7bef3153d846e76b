"""What the README and the docs say is run, as printed."""

import re
import shlex

import pytest
import torch
from sklearn.datasets import load_digits

from dcs import demo, evaluation, masking, models, objectives
from dcs import functional as F
from dcs.data import CATALOGUE
from dcs.experiments.readings import SWITCHES
from dcs.training import TrainingConfig
from tests.helpers import ROOT
from tests.official_files import some_images, write_idx

README = (ROOT / "README.md").read_text()


def test_the_example_runs_as_printed():
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, object] = {}
    torch.manual_seed(0)
    exec(code, names)  # noqa: S102  (our own README)
    assert names["features"].shape == (1797, 10)
    clean = torch.tensor(load_digits().images / 16).float()
    denoised = names["model"](names["noisy"]).detach()
    assert -F.cosine_loss(clean, denoised) > -F.cosine_loss(clean, names["noisy"]) + 0.05


def test_the_commands_exist():
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    commands = re.findall(r"\bmake ([a-z]+)", README)
    assert {"demo", "test"} <= set(commands)
    assert set(commands) <= set(targets)
    assert shlex.split((ROOT / ".ci" / "run").read_text().splitlines()[-1]) == ["make", "test"]


def test_the_table_has_the_rows_of_the_demo():
    printed = re.findall(r"^│ (.+?) +│", README, re.MULTILINE)
    assert printed == ["PCA", "untrained", *demo.methods(0.3)]


def test_every_objective_is_in_the_table():
    printed = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", README, re.MULTILINE)
    assert {
        name: entry.factory.__name__
        for name, entry in objectives.OBJECTIVES.items()
        if entry.factory.predicts
    } == dict(printed)


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))])
def test_links_lead_somewhere(page):
    prose = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", prose):
        assert ((ROOT / page).parent / target).exists(), target


def test_every_docs_page_is_linked_from_the_readme():
    assert all(f"docs/{page.name}" in README for page in (ROOT / "docs").glob("*.md"))


def test_the_page_of_parts_is_what_the_registries_say():
    page = (ROOT / "docs" / "parts.md").read_text()
    for registry in (objectives.OBJECTIVES, masking.VIEWS, models.NETWORKS, evaluation.PROTOCOLS):
        assert registry.table() in page
        for entry in registry.values():
            assert entry.reference() in page


def test_figures_of_the_weight_page():
    page = (ROOT / "docs" / "weight.md").read_text()
    repeats = torch.full((20_000,), 0.2, dtype=torch.float64)
    for c, printed in ((0.2, "5.6 %"), (1.0, "0.7 %")):
        k = F.expected_cosine(
            repeats * 5 * c, 78, method="monte_carlo", generator=torch.Generator().manual_seed(0)
        )
        assert f"{100 * float(k.std() / k.mean()):.1f} %" == printed
        assert f"{printed} at c = {c:g}" in page
    for dim, printed in ((6, "1.8 %"), (78, "0.1 %")):
        excess = F.expected_cosine(0.5, dim, method="asymptotic") / F.expected_cosine(0.5, dim) - 1
        assert f"{100 * float(excess):.1f} %" == printed
        assert printed in page


def test_the_data_page_has_a_line_for_each_data_set():
    page = (ROOT / "docs" / "data.md").read_text()
    for entry in CATALOGUE.values():
        shape = " x ".join(map(str, entry.shape))
        cells = (
            shape,
            f"{entry.train} + {entry.test}",
            entry.scaling,
            f"[home]({entry.homepage})" if entry.homepage else "synthetic",
            entry.note,
        )
        assert f"| `{entry.name}` | " + " | ".join(cells) + " |" in page


def test_the_page_on_experiments_lists_the_readings():
    page = (ROOT / "docs" / "evaluation.md").read_text()
    rows = [f"| `{name}` | {switch.summary} | {switch.text} |" for name, switch in SWITCHES.items()]
    assert "\n".join(rows) in page


def test_the_training_page_lists_all_settings():
    page = (ROOT / "docs" / "training.md").read_text()
    rows = [
        f"| `{name}` | `{field.default!r}` | {field.description} |"
        for name, field in TrainingConfig.model_fields.items()
    ]
    assert "\n".join(rows) in page


def test_the_python_of_the_training_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "training.md").read_text(), re.DOTALL):
        exec(block, names)  # noqa: S102
    assert names["features"].shape == (1797, 10)
    assert names["cleaner"].shape == (1797, 8, 8)
    assert len(names["history"]) == 5


def test_the_first_lines_of_the_data_page_run(tmp_path, monkeypatch):
    from PIL import Image

    page = (ROOT / "docs" / "data.md").read_text()
    code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DCS_DATA", raising=False)
    write_idx(tmp_path / "data/mnist", some_images((28, 28)))
    (tmp_path / "photos").mkdir()
    Image.new("L", (4, 4)).save(tmp_path / "photos/a.png")
    (tmp_path / "table.csv").write_text("a,kind\n1,x\n2,y\n")
    names: dict[str, object] = {"generator": torch.Generator().manual_seed(0)}
    for block in code:
        exec(block, names)  # noqa: S102
    assert names["ds"].classes == ("x", "y")


@pytest.mark.filterwarnings("ignore::dcs.training.TrainingWarning")
def test_the_python_of_the_audio_page_runs():
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "audio.md").read_text(), re.DOTALL):
        exec(block, names)  # noqa: S102
    assert names["spectrograms"].shape == (8, 87, 40)
    assert names["features"].shape == (8, 48)


def test_the_python_of_the_page_on_views_runs():
    pytest.importorskip("kornia")
    names: dict[str, object] = {}
    page = (ROOT / "docs" / "ssl.md").read_text()
    torch.manual_seed(0)
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, names)  # noqa: S102
    assert names["features"].shape == (64, 32)
    assert names["loss"].isfinite()

"""The pages in results/ say what the measurements beside them say."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dcs.experiments import as_markdown, tables

ROOT = Path(__file__).parents[2]


def printed(script, *arguments):
    command = [sys.executable, str(ROOT / "studies" / script), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@pytest.mark.parametrize("name", ["robust-dcs", "robust-choices"])
def test_the_page_on_robust_dcs_has_the_tables_of_its_files(name):
    tables = printed("robust_dcs.py", "table", f"results/{name}.jsonl")
    assert "### digits" in tables
    assert tables in (ROOT / "results" / "robust-dcs.md").read_text()


@pytest.mark.parametrize("name", ["expt0-quick", "expt1-quick", "expt2-quick", "expt3-quick"])
def test_the_page_of_an_experiment_has_the_table_of_its_trials(name):
    trials = [json.loads(line) for line in (ROOT / "results" / f"{name}.jsonl").read_text().splitlines()]
    page = (ROOT / "results" / f"{name}.md").read_text()
    assert trials
    for table in tables(trials):
        assert as_markdown(table).strip() in page


@pytest.mark.parametrize(
    ("name", "heading"),
    [("denoising", "### BSD68, 68 pictures, σ = 25/255"), ("features", "### NEU-DET, σ = 50/255")],
)
def test_the_page_of_a_study_has_the_tables_of_its_file(name, heading):
    table = printed(f"{name}.py", "table", f"results/{name}.jsonl")
    assert heading in table
    assert table in (ROOT / "results" / f"{name}.md").read_text()


def test_the_page_on_expt3_says_what_moved_it():
    table = printed("expt3_choices.py", "table", "results/expt3-choices.jsonl")
    assert "| quick |" in table
    assert table in (ROOT / "results" / "expt3-quick.md").read_text()

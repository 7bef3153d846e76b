"""The pages in results/ say what the measurements beside them say."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def printed(script, *arguments):
    command = [sys.executable, str(ROOT / "benchmarks" / script), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@pytest.mark.parametrize("name", ["robust-dcs", "robust-choices"])
def test_the_page_on_robust_dcs_has_the_tables_of_its_files(name):
    tables = printed("robust_dcs.py", "table", f"results/{name}.jsonl")
    assert "### digits" in tables
    assert tables in (ROOT / "results" / "robust-dcs.md").read_text()

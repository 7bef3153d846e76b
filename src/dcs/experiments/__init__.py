"""The paper's experiments: trials that are planned, carried out, and put in a table beside the published."""

from dcs.experiments._figures import check_figures, draw_figures
from dcs.experiments._formats import (
    as_csv,
    as_latex,
    as_markdown,
    as_page,
    experiment_title,
    remarks,
    score_text,
    write_tables,
)
from dcs.experiments._plan import EXPERIMENTS, PRESETS, PROTOCOLS, VARIANTS, plan
from dcs.experiments._published import published
from dcs.experiments._runner import RUNS, TrialsFailed, carry_out, key_of, parse_shard, read_results, share_of
from dcs.experiments._table import TITLES, Table, tables
from dcs.experiments._trial import Trial

__all__ = [
    "EXPERIMENTS",
    "PRESETS",
    "PROTOCOLS",
    "RUNS",
    "TITLES",
    "VARIANTS",
    "Table",
    "Trial",
    "TrialsFailed",
    "as_csv",
    "as_latex",
    "as_markdown",
    "as_page",
    "carry_out",
    "check_figures",
    "draw_figures",
    "experiment_title",
    "key_of",
    "parse_shard",
    "plan",
    "published",
    "read_results",
    "remarks",
    "score_text",
    "share_of",
    "tables",
    "write_tables",
]

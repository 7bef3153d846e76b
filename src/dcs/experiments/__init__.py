"""The paper's experiments: trials that are planned, run, and tabulated next to the published results.

`expt0.py` to `expt3.py` describe the experiments; `trial.py` runs one trial of any of them, `runner.py` many.
"""

from dcs.experiments.experiment import PROTOCOLS, VARIANTS, Experiment, Preset, Trial
from dcs.experiments.figures import check_figures, draw_figures
from dcs.experiments.plan import EXPERIMENTS, PRESETS, plan
from dcs.experiments.published import published
from dcs.experiments.results import ResultLine, key_of, read_results
from dcs.experiments.runner import RUNS, TrialsFailed, carry_out, parse_shard, share_of
from dcs.experiments.table import (
    TITLES,
    Cell,
    Column,
    Table,
    as_csv,
    as_latex,
    as_markdown,
    as_page,
    experiment_title,
    remarks,
    score_text,
    tables,
    write_tables,
)
from dcs.experiments.trial import load_data, make_config, make_source, run_trial

__all__ = [
    "EXPERIMENTS",
    "PRESETS",
    "PROTOCOLS",
    "RUNS",
    "TITLES",
    "VARIANTS",
    "Cell",
    "Column",
    "Experiment",
    "Preset",
    "ResultLine",
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
    "load_data",
    "make_config",
    "make_source",
    "parse_shard",
    "plan",
    "published",
    "read_results",
    "remarks",
    "run_trial",
    "score_text",
    "share_of",
    "tables",
    "write_tables",
]

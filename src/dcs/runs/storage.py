"""Loading a finished run, and saving a trained network as one. No code in a file is ever run."""

import json
import math
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from dcs.data import LogMel
from dcs.objectives import Objective
from dcs.runs.predictor import Predictor
from dcs.runs.record import CONFIG, METRICS, MODEL, OBJECTIVE, RunRecord, read_record, readable
from dcs.runs.tensors import as_files, digest, restore
from dcs.training import RunError, make_network, make_objective
from dcs.training.checkpoint import write_atomically
from dcs.training.config import CUSTOM

_SAVED = {CONFIG, METRICS, MODEL, OBJECTIVE}


def load(
    folder: Path,
    network: nn.Module | Callable[..., nn.Module] | None = None,
    objective: Objective | None = None,
    *,
    history: bool = True,
) -> Predictor:
    """Load a finished run.

    Args:
        folder: Directory that `dcs fit` or `DenoisingEncoder.save` wrote.
        network: Module, or callable (shape, n_components) that makes it, where the run was fitted with one.
        objective: Objective, where the run was fitted with one given as an object; without it all but the
            score can be computed.
        history: Whether to read the metrics of the epochs, too.

    Raises:
        RunError: A file is missing, damaged or of another kind.
    """
    record = read_record(folder)
    if not (folder / MODEL).is_file():
        resume = "dcs reproduce, called as before," if record.trial else "dcs fit ... --resume"
        raise RunError(f"{folder / MODEL} does not exist, so the run has not finished: {resume} resumes it")
    with readable(folder / CONFIG):
        learned = record.learned
        front_end = LogMel(**learned.front_end) if learned and learned.front_end else None
        shape = record.shape if front_end is None else front_end.shape(*record.shape)
        known = objective
        if objective is None and record.training.objective != CUSTOM and not _lacks(record, "objective"):
            known = make_objective(record.training)
        made = _network(record, shape, network, folder).cpu().eval()
    restore(made, folder / MODEL, record.sha256)
    if known is not None and known.predicts and (folder / OBJECTIVE).exists():
        restore(known, folder / OBJECTIVE, record.sha256)
    metrics = read_history(folder / METRICS) if history else []
    return Predictor(made, known, record, front_end, metrics)


def save(predictor: Predictor, folder: Path, *, overwrite: bool = False) -> None:
    """Save a trained network as a run directory, which appears whole or not at all.

    Args:
        predictor: Trained network.
        folder: Directory; an existing one is replaced only if it holds what `save` wrote.
        overwrite: Whether to replace it.
    """
    _check_target(folder, overwrite)
    objective = predictor.objective
    own = objective.state_dict() if objective is not None and objective.predicts else None
    files = as_files({MODEL: predictor.network.state_dict(), OBJECTIVE: own})
    sha256 = {name: digest(content) for name, content in files.items()}
    files[METRICS] = "".join(_as_line(metrics) for metrics in predictor.history).encode()
    files[CONFIG] = predictor.record.model_copy(update={"sha256": sha256}).to_json()
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent))
    try:
        new = beside / "new"
        new.mkdir()
        for name, content in files.items():
            write_atomically(new / name, content)
        if folder.exists():
            folder.rename(beside / "old")
        new.rename(folder)
    finally:
        if not folder.exists() and (beside / "old").exists():
            (beside / "old").rename(folder)
        shutil.rmtree(beside, ignore_errors=True)


def read_history(path: Path) -> list[dict[str, float]]:
    """Read the metrics of each epoch."""
    if not path.exists():
        return []
    with readable(path):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return [{k: math.nan if v is None else v for k, v in line.items()} for line in lines]


def _network(
    record: RunRecord,
    shape: tuple[int, ...],
    given: nn.Module | Callable[..., nn.Module] | None,
    folder: Path,
) -> nn.Module:
    if isinstance(given, nn.Module):
        return given
    if given is not None:
        made: nn.Module = given(shape, record.training.n_components, **record.training.network_options)
        return made
    if record.training.network == CUSTOM or _lacks(record, "network"):
        raise RunError(f"{folder} was fitted with a network of your own: pass it, as load(path, network=...)")
    return make_network(record.training, shape)


def _lacks(record: RunRecord, part: str) -> bool:
    """Return whether options of a part were objects, without which it cannot be made again."""
    beside = ("masking",) if part == "objective" else ()
    return any(name.startswith((part, *beside)) for name in record.left_out)


def _check_target(folder: Path, overwrite: bool) -> None:
    """Require a directory that `save` may write."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    try:
        ours = {"format", "versions"} <= json.loads((folder / CONFIG).read_bytes()).keys()
    except (OSError, ValueError, AttributeError):
        ours = False
    if not ours or not {path.name for path in folder.iterdir()} <= _SAVED:
        raise FileExistsError(f"{folder} exists and holds more than a saved encoder: give a new directory")
    if not overwrite:
        raise FileExistsError(f"{folder} holds a saved encoder: pass overwrite=True to replace it")


def _as_line(metrics: dict[str, float]) -> str:
    line: dict[str, Any] = {k: v if math.isfinite(v) else None for k, v in metrics.items()}
    return json.dumps(line) + "\n"

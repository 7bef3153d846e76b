"""`write`: from run directories to one page."""

import os
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dcs import runs as trained
from dcs._checks import check_bool, check_choice, check_integer
from dcs._naming import argument
from dcs.report._gallery import make_gallery, share_sheets
from dcs.report._layout import MAPS
from dcs.report._page import GENERATOR, page_of
from dcs.report._runs import ReportedRun, read_runs
from dcs.report._selection import PathLike, ReportOptions, select
from dcs.training import RunError
from dcs.training.checkpoint import write_atomically

_PICTURES = 5_000_000  # characters of all pictures on maps


class Report(NamedTuple):
    """A page that was written."""

    path: Path
    size: int  # in bytes
    seconds: float
    runs: list[dict[str, Any]]  # name of each run, and what the page shows of it


def write(
    runs: PathLike | Sequence[PathLike],
    out: PathLike | None = None,
    *,
    data: PathLike | None = None,
    labels: PathLike | None = None,
    root: PathLike | None = None,
    part: str | None = None,
    map: str | None = None,  # noqa: A002  (as the option of the command is called)
    points: int = 10_000,
    clusters: int | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> Report:
    """Write one self-contained HTML page about a run, or about several side by side.

    Args:
        runs: Directory that `dcs fit`, `dcs reproduce` or `DenoisingEncoder.save` wrote, or several.
        out: File to write, ending in .html; by default report.html in the first directory.
        data: New location of the training data, if it has moved; it is read as in training.
        labels: Labels of the training samples: a .npy file, or a text file with one label per line.
        root: Folder in which root/NAME holds a known data set, if it has moved.
        part: Split to show, `train` or `test`; by default the test split, if there is one.
        map: Layout of the feature map, `umap` or `pca`; by default UMAP if it is installed.
        points: Largest number of samples on the map; if there are more, a random subset is shown.
        clusters: Number of clusters; by default the number of classes, or ten.
        seed: Random seed for the subset, UMAP and the clusters.
        overwrite: Whether to replace a file that is not a report.

    Raises:
        RunError: A directory holds no run, or a damaged one.
        FileExistsError: `out` exists and is not a report.
    """
    start = time.perf_counter()
    folders = _folders(runs)
    for name, value in (("out", out), ("data", data), ("labels", labels), ("root", root)):
        if value is not None and not isinstance(value, str | os.PathLike):
            raise TypeError(f"{name} must be a path, got {type(value).__name__}")
    for name, value, choices in (("map", map, MAPS), ("part", part, ("train", "test"))):
        if value is not None:
            check_choice(name, value, choices)
    check_integer("points", points, at_least=1)
    check_integer("seed", seed, at_least=0, at_most=2**32 - 1)
    check_bool("overwrite", overwrite)
    if clusters is not None:
        check_integer("clusters", clusters, at_least=1)
    path = folders[0] / trained.REPORT if out is None else Path(out)
    found = read_runs(folders)
    _check_output(path, overwrite)
    options = ReportOptions(data, labels, root, part, map, points, clusters, seed)
    found = [_with_samples(run, options) for run in found]
    sheets = share_sheets([run.gallery for run in found if run.gallery is not None], _PICTURES)
    page = page_of(found, sheets).encode()
    write_atomically(path.resolve(), page)  # a symbolic link is kept
    return Report(path, len(page), round(time.perf_counter() - start, 3), [_summarise(run) for run in found])


def _folders(runs: object) -> list[Path]:
    """Return the directories that were given, each once."""
    given = [runs] if isinstance(runs, str | os.PathLike) else runs
    if not isinstance(given, Sequence) or not all(isinstance(run, str | os.PathLike) for run in given):
        raise TypeError(f"runs must be a path or a list of paths, got {runs!r:.80}")
    if not given:
        raise ValueError("runs is empty: give at least one directory")
    unique: dict[Path, Path] = {}
    for run in given:
        unique.setdefault(Path(run).resolve(), Path(run))
    return list(unique.values())


def _with_samples(run: ReportedRun, options: ReportOptions) -> ReportedRun:
    """Return a run with what is shown of its samples, or with a note why they cannot be shown."""
    if run.lost:
        return run._replace(note=f"The network of this run is missing: there is no {trained.MODEL}.")
    if not run.finished:
        kept = ", only checkpoints to resume from" if run.saved else ""
        note = f"The run has no network yet{kept}: this section appears when training has finished."
        return run._replace(note=note)
    try:
        predictor = trained.load(run.folder, history=False)
    except RunError as error:  # e.g. a damaged file
        return run._replace(note=f"The network of this run could not be read: {error}.")
    if run.objective is None and predictor.objective is not None:  # written by version 0.1
        run = run._replace(objective=predictor.objective.describe())
    try:
        shown = select(run.folder, predictor.record, options)
    except (ValueError, OSError, ImportError) as error:
        if options.data is not None or options.labels is not None or options.part is not None:
            raise  # whoever names the data wants to see it
        command = shlex.join(["dcs", "report", str(run.shown_for or run.folder), "--data"])
        moved = f"If it has moved, give its new location: {command} PATH"
        return run._replace(note=f"The data of this run could not be read: {error}. {moved}")
    try:
        return run._replace(gallery=make_gallery(predictor, shown, options), note=shown.remark)
    except ValueError as error:  # the other runs still get their page
        return run._replace(note=f"There is nothing to show for this network: {error}.")


def _check_output(path: Path, overwrite: bool) -> None:
    """Raise if the page cannot be written, or would replace a file that is not a report."""
    if path.is_dir():
        raise ValueError(f"out must be a file, got the directory {path}")
    if path.suffix.lower() != ".html":
        raise ValueError(f"out must end in .html, got {path}")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"the folder of {path} does not exist: create it first")
    if not path.exists() or overwrite:
        return
    with path.open("rb") as file:
        ours = f'content="{GENERATOR}"'.encode() in file.read(2048)
    if not ours:
        remedy = argument("overwrite", True)
        raise FileExistsError(f"{path} exists and is not a report: give another file, or pass {remedy}")


def _summarise(run: ReportedRun) -> dict[str, Any]:
    shown = {} if run.gallery is None else run.gallery.map
    return {
        "name": run.name,
        "folder": str(run.folder),
        "finished": run.finished,
        "epochs": len(run.metrics),
        "results": len(run.results),
        "points": len(shown.get("x", ())),
        "samples": shown.get("of"),
        "map": shown.get("kind"),
        "recordings": 0 if run.gallery is None else len(run.gallery.sounds),
        "note": " ".join(filter(None, [*run.remarks, run.note])) or None,
    }

"""`write`: from run directories to one page."""

import os
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import dcs
from dcs._checks import check_bool, check_choice, check_integer
from dcs._loading import load_without_history
from dcs.report._layout import MAPS
from dcs.report._page import GENERATOR, page_of
from dcs.report._pictures import Pixels
from dcs.report._runs import Run, read_runs
from dcs.report._samples import Looked, Wanted, look, share_sheets
from dcs.report._source import RemadeError, find
from dcs.report._views import views_of
from dcs.training import RunError
from dcs.training.checkpoint import write_atomically
from dcs.training.run import MODEL

PAGE = "report.html"
PARTS = ("train", "test")
_PICTURES = 5_000_000  # characters of all pictures on maps
PathLike = str | os.PathLike[str]


class Report(NamedTuple):
    """What was written."""

    path: Path
    size: int  # in bytes
    seconds: float
    runs: list[dict[str, Any]]  # of each: its name, and what the page shows of it


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
        runs: The directory of `dcs fit`, `dcs reproduce` or `DenoisingEncoder.save`; or several.
        out: The file; by default report.html in the first directory.
        data: Where the data of the runs is, if it is not where it was in training. It is read as it was then.
        labels: A .npy file, or a text file with one label a line, of the samples to learn from.
        root: Where root/NAME holds a known data set, if it is not where it was.
        part: `train` or `test`; by default the test split, if there is one.
        map: `umap` or `pca`; by default UMAP if it is installed.
        points: Of the map, at most; of more samples, so many are drawn.
        clusters: How many; by default as many as there are classes, or ten.
        seed: Of the choice of points, of UMAP and of the clusters.
        overwrite: Write over a file that is no report.

    Raises:
        RunError: A directory holds no run, or a damaged one.
        FileExistsError: `out` is there, and is no report.
    """
    start = time.perf_counter()
    folders = _folders(runs)
    for name, value in (("out", out), ("data", data), ("labels", labels), ("root", root)):
        if value is not None and not isinstance(value, str | os.PathLike):
            raise TypeError(f"{name} must be a path, got {type(value).__name__}")
    for name, value, choices in (("map", map, MAPS), ("part", part, PARTS)):
        if value is not None:
            check_choice(name, value, choices)
    check_integer("points", points, at_least=1)
    check_integer("seed", seed, at_least=0, at_most=2**32 - 1)
    check_bool("overwrite", overwrite)
    if clusters is not None:
        check_integer("clusters", clusters, at_least=1)
    path = folders[0] / PAGE if out is None else Path(out)
    found = read_runs(folders)
    _check_place(path, overwrite)
    wanted = Wanted(data, labels, root, part, map, points, clusters, seed)
    looked, notes = [], []
    for number, run in enumerate(found):
        encoder, note = _encoder(run)
        there = None
        if encoder is not None:
            there, note = _look(run, encoder, wanted)
            found[number] = run._replace(views=views_of(run.config, encoder.objective_))
        looked.append(there)
        notes.append(note)
    pictures: dict[str, Pixels] = {there.key: there.pictures for there in looked if there is not None}
    page = page_of(found, looked, notes, share_sheets(pictures, _PICTURES)).encode()
    write_atomically(path.resolve(), page)  # through a link, which stays
    shown = [_in_short(run, there, note) for run, there, note in zip(found, looked, notes, strict=True)]
    return Report(path, len(page), round(time.perf_counter() - start, 3), shown)


def _folders(runs: object) -> list[Path]:
    """What a caller passed as runs, each once."""
    given = [runs] if isinstance(runs, str | os.PathLike) else runs
    if not isinstance(given, Sequence) or not all(isinstance(run, str | os.PathLike) for run in given):
        raise TypeError(f"runs must be a path or a list of paths, got {runs!r:.80}")
    if not given:
        raise ValueError("runs is empty: name at least one directory")
    unique: dict[Path, Path] = {}
    for run in given:
        unique.setdefault(Path(run).resolve(), Path(run))
    return list(unique.values())


def _encoder(run: Run) -> tuple[dcs.DenoisingEncoder | None, str]:
    """The network of a run; or nothing, and why."""
    if run.lost:
        return None, f"The network of this run is gone: {MODEL} is missing."
    if not run.finished:
        kept = ", only checkpoints to go on from" if run.saved else ""
        return None, f"The run has no network yet{kept}: when it is finished, this part will be here."
    try:
        return load_without_history(run.folder), ""
    except RunError as error:  # such as of a damaged file
        return None, f"The network of this run could not be read: {error}."


def _look(run: Run, encoder: dcs.DenoisingEncoder, wanted: Wanted) -> tuple[Looked | None, str]:
    """What there is to see of a run's samples, with what is to be said of them; or nothing, and why."""
    try:
        shown = find(
            run,
            encoder.shape_,
            data=wanted.data,
            labels=wanted.labels,
            root=wanted.root,
            part=wanted.part,
            points=wanted.points,
            seed=wanted.seed,
        )
    except RemadeError as error:
        return None, str(error)
    except (ValueError, OSError, ImportError) as error:
        if wanted.data is not None or wanted.labels is not None or wanted.part is not None:
            raise  # who names the data wants to see it
        command = shlex.join(["dcs", "report", str(run.shown_for or run.folder), "--data"])
        return None, (
            f"The data of this run could not be read: {error}. If it has moved, say where it is now: "
            f"{command} PLACE"
        )
    try:
        return look(encoder, shown, wanted), shown.remark
    except ValueError as error:  # one run must not cost the page of the others
        return None, f"There is nothing to show of this network: {error}."


def _check_place(path: Path, overwrite: bool) -> None:
    """Require a file that may be written: none yet, a report, or one that may be lost."""
    if path.is_dir():
        raise ValueError(f"out must be a file, got the directory {path}")
    if path.suffix.lower() != ".html":
        raise ValueError(f"{path} is no name for a page: let it end in .html")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"the folder of {path} does not exist: make it first")
    if not path.exists() or overwrite:
        return
    with path.open("rb") as file:
        ours = f'content="{GENERATOR}"'.encode() in file.read(2048)
    if not ours:
        raise FileExistsError(
            f"{path} is there already, and is no report: name another, or pass overwrite (--overwrite)"
        )


def _in_short(run: Run, there: Looked | None, note: str) -> dict[str, Any]:
    return {
        "name": run.name,
        "folder": str(run.folder),
        "finished": run.finished,
        "epochs": len(run.metrics),
        "results": len(run.results),
        "points": 0 if there is None else len(there.map["x"]),
        "samples": None if there is None else there.map["of"],
        "map": None if there is None else there.map["kind"],
        "recordings": 0 if there is None else len(there.sounds),
        "note": " ".join([*run.remarks, *([note] if note else [])]) or None,
    }

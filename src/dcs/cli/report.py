"""`dcs report`: one page that shows what a run learnt."""

import json
import webbrowser
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dcs.cli.options import AsJson, Root


class Map(StrEnum):
    """How features are laid out."""

    umap = "umap"
    pca = "pca"


class Part(StrEnum):
    """Which samples of a data set."""

    train = "train"
    test = "test"


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Directories that dcs fit or dcs reproduce wrote; several are shown side by side.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="The .html file to write.  [default: report.html in the first RUN]")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="Where the data is now, if it has moved; it is read as it was in training."),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="A .npy file, or a text file with one label a line, if the data has none."),
    ] = None,
    root: Root = None,
    part: Annotated[
        Part | None, typer.Option(help="Which samples to show.  [default: test, if there is one]")
    ] = None,
    map_: Annotated[
        Map | None,
        typer.Option("--map", help="How to lay out the features.  [default: umap, if it is installed]"),
    ] = None,
    points: Annotated[
        int, typer.Option(min=1, help="How many samples the map shows at most; of more, so many are chosen.")
    ] = 10_000,
    clusters: Annotated[
        int | None, typer.Option(min=1, help="How many groups to find.  [default: as many as classes, or 10]")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the choice of samples, the map and the groups.")
    ] = 0,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Replace a file that is no report, too; a report is replaced without."
        ),
    ] = False,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write one HTML page about runs: curves, denoised samples, a map of the features, scores."""
    from dcs.report import write

    written = write(
        runs,
        out,
        data=data,
        labels=labels,
        root=root,
        part=None if part is None else str(part),
        map=None if map_ is None else str(map_),
        points=points,
        clusters=clusters,
        seed=seed,
        overwrite=overwrite,
    )
    if as_json:
        described = {"path": str(written.path), "bytes": written.size, "seconds": written.seconds}
        typer.echo(json.dumps({**described, "runs": written.runs}))
    else:
        for run in written.runs:
            if run["note"]:
                typer.echo(f"{run['name']}: {run['note']}", err=True)
        typer.echo(f"{written.path}: {written.size / 1e6:.1f} MB in {written.seconds:.0f} s")
    if open_ and not webbrowser.open(written.path.absolute().as_uri()):
        typer.echo(f"no browser could be opened: open {written.path} yourself", err=True)

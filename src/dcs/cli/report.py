"""`dcs report`: one page that shows what a run learned."""

import json
import webbrowser
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dcs.cli.options import AsJson, Root

Map = StrEnum("Map", ["umap", "pca"])
ShownPart = StrEnum("ShownPart", ["train", "test"])


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Directories that dcs fit or dcs reproduce wrote; several are shown side by side.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Output file, ending in .html.  [default: report.html in the first RUN]"),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="New location of the data, if it has moved; it is read as in training."),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="Labels, if the data has none: a .npy file, or a text file with one label per line."
        ),
    ] = None,
    root: Root = None,
    part: Annotated[
        ShownPart | None, typer.Option(help="Split to show.  [default: test, if there is one]")
    ] = None,
    map_: Annotated[
        Map | None,
        typer.Option("--map", help="Layout of the feature map.  [default: umap, if it is installed]"),
    ] = None,
    points: Annotated[
        int, typer.Option(min=1, help="Largest number of samples to show; a random subset of more.")
    ] = 10_000,
    clusters: Annotated[
        int | None, typer.Option(min=1, help="Number of clusters.  [default: number of classes, or 10]")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed for the subset, the map and the clusters.")
    ] = 0,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace a file that is not a report; a report is always replaced."),
    ] = False,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write one HTML page about runs: curves, denoised samples, a feature map, scores."""
    from dcs.report import write

    written = write(
        runs,
        out,
        data=data,
        labels=labels,
        root=root,
        part=part,
        map=map_,
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

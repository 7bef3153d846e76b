"""`dcs datasets`."""

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dcs.cli.options import AsJson, Root

if TYPE_CHECKING:
    from dcs.data import Entry

app = typer.Typer(help="The data sets that are known by name.", rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def _list_by_default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_datasets()


@app.command("list", epilog="Example: dcs datasets list --json")
def list_datasets(root: Root = None, as_json: AsJson = False) -> None:
    """Show the known data sets: sizes, splits, citations, what is on disk."""
    from dcs.data import CATALOGUE, find

    rows = []
    for entry in CATALOGUE.values():
        found = find(entry, root)
        rows.append(_describe(entry, str(found.folder) if found and found.files else None))
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    table = Table("name", "sample", "train", "test", "classes", "download", box=None)
    table.add_column("on disk", overflow="fold")
    for row, entry in zip(rows, CATALOGUE.values(), strict=True):
        shape = "x".join(map(str, entry.shape))
        size = f"{entry.download_size / 1e6:.0f} MB" if entry.remotes else "none"
        where = row["location"] or (entry.shipped_with and f"with {entry.shipped_with}")
        counts = (f"{entry.train:,}", f"{entry.test:,}", str(entry.classes))
        table.add_row(entry.name, shape, *counts, size, escape(str(where)))
    console = Console()
    console.print(table)
    console.print("\nCite what you use:")
    for entry in CATALOGUE.values():
        console.print(f"  {entry.name}: {entry.citation} ({entry.licence})", highlight=False, soft_wrap=True)


@app.command("get", epilog="Example: dcs datasets get mnist --root ~/data")
def get_dataset(
    name: Annotated[str, typer.Argument(help="One that `dcs datasets list` shows.")],
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """Download a data set, unless it is on disk, and say where it is."""
    from dcs.data import CATALOGUE, obtain

    if name not in CATALOGUE:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(CATALOGUE)}", param_hint="NAME")
    entry = CATALOGUE[name]
    found = obtain(entry, root, download=True)
    location = str(found.folder) if found.files else None
    if as_json:
        typer.echo(json.dumps(_describe(entry, location), indent=1))
    else:
        typer.echo(f"{name} is {f'in {location}' if location else f'with {entry.shipped_with}'}")
        typer.echo(f"Cite: {entry.citation} ({entry.licence})")


def _describe(entry: "Entry", location: str | None) -> dict[str, object]:
    """Return what a program may want to know about a data set."""
    shown = ("title", "shape", "classes", "train", "test", "scaling", "citation", "licence", "homepage")
    described = {"name": entry.name, **{field: getattr(entry, field) for field in shown}, "note": entry.note}
    return {**described, "download_bytes": entry.download_size, "location": location}

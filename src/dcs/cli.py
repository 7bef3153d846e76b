"""The `dcs` command."""

import json
import statistics
import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import dcs

if TYPE_CHECKING:
    from dcs.data import Entry
    from dcs.demo import Row

app = typer.Typer(
    name="dcs",
    help="Learn representations from noisy, unlabelled data with the denoising Cosine-Similarity (dCS) loss.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> None:
    """Run the command; what a user can mend is one line on stderr and exit code 1."""
    try:
        app()
    except (ValueError, TypeError, OSError, ImportError) as error:
        sys.exit(f"dcs: {error}")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dcs-learn {dcs.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command(epilog="Example: dcs demo --sigma 0.5 --steps 1000")
def demo(
    sigma: Annotated[
        float, typer.Option(min=0.01, max=10, help="Standard deviation of the noise; digits are in 0…1.")
    ] = 0.3,
    steps: Annotated[int, typer.Option(min=1, help="Training steps an objective gets.")] = 600,
    seed: Annotated[
        int, typer.Option(min=0, max=2**31, help="Of noise, split, network and batches; the first of them.")
    ] = 0,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="How many seeds to average over.")] = 3,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a method and seed, no table.")
    ] = False,
) -> None:
    """Take the tour: noisy digits, every objective, one table. Offline, about two minutes."""
    import torch

    from dcs import demo as tour  # scikit-learn takes a second to import

    torch.set_num_threads(1)  # sums in another order would give another table on another machine
    console = Console(stderr=True)
    rows: dict[str, list[tour.Row]] = {}
    with console.status("noisy digits") as status:
        for current in range(seed, seed + seeds):

            def progress(name: str, current: int = current) -> None:
                message = f"seed {current}: training with {name}, {steps} steps"
                if console.is_terminal:
                    status.update(message)
                else:
                    console.print(message)

            for row in tour.run(sigma, steps, current, progress):
                rows.setdefault(row.method, []).append(row)
                if as_json:
                    typer.echo(json.dumps({**row._asdict(), "sigma": sigma, "steps": steps, "seed": current}))
    if not as_json:
        Console().print(_demo_table(rows, f"Noisy digits, sigma = {sigma:g}, {steps} steps, seeds: {seeds}"))
        typer.echo(
            "Trained on 1,200 noisy digits without labels; a linear classifier on the 10 features is then\n"
            "trained on the same digits with labels, and scored on 597 others. The last two rows know what\n"
            "the others do not: the true weight, and the clean digits. Try --sigma 0.5."
        )


def _demo_table(rows: "dict[str, list[Row]]", title: str) -> Table:
    """Mean over seeds and, for several, the deviation."""
    table = Table(title=title)
    table.add_column("objective")
    table.add_column("linear accuracy, %", justify="right")
    table.add_column("cosine to clean", justify="right")
    for method, trials in rows.items():
        accuracies = [row.accuracy for row in trials]
        cosines = [row.cosine for row in trials if row.cosine is not None]
        spread = f" ± {statistics.stdev(accuracies):.1f}" if len(trials) > 1 else ""
        cosine = f"{statistics.mean(cosines):.3f}" if cosines else ""
        table.add_row(method, f"{statistics.mean(accuracies):.1f}{spread}", cosine)
    return table


datasets = typer.Typer(help="The data sets that are known by name.", rich_markup_mode=None)
app.add_typer(datasets, name="datasets")

Root = Annotated[
    str | None, typer.Option(help="Where ROOT/NAME holds the files; by default DCS_DATA, the cache, ./data.")
]
AsJson = Annotated[bool, typer.Option("--json", help="For programs.")]


@datasets.callback(invoke_without_command=True)
def _list_by_default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_datasets()


@datasets.command("list", epilog="Example: dcs datasets list --json")
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
        where = row["location"] or ("" if entry.remotes else "with scikit-learn")
        table.add_row(
            entry.name,
            shape,
            f"{entry.train:,}",
            f"{entry.test:,}",
            str(entry.classes),
            size,
            escape(str(where)),
        )
    console = Console()
    console.print(table)
    console.print("\nCite what you use:")
    for entry in CATALOGUE.values():
        console.print(f"  {entry.name}: {entry.citation} ({entry.licence})", highlight=False, soft_wrap=True)


@datasets.command("get", epilog="Example: dcs datasets get mnist --root ~/data")
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
        typer.echo(f"{name} is {f'in {location}' if location else 'with scikit-learn'}")
        typer.echo(f"Cite: {entry.citation} ({entry.licence})")


def _describe(entry: "Entry", location: str | None) -> dict[str, object]:
    """What a program may want to know of a data set."""
    shown = (
        "name",
        "title",
        "shape",
        "classes",
        "train",
        "test",
        "scaling",
        "citation",
        "licence",
        "homepage",
        "note",
    )
    return {
        **{field: getattr(entry, field) for field in shown},
        "download_bytes": entry.download_size,
        "location": location,
    }

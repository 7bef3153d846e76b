"""The `dcs` command."""

import json
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import dcs

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
    except (ValueError, TypeError, OSError) as error:
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
        int, typer.Option(min=0, max=2**32 - 1, help="Of noise, split, network and batches.")
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a row, no table.")] = False,
) -> None:
    """Take the tour: noisy digits, every objective, one table. Offline, under a minute."""
    import torch

    from dcs import demo as tour  # scikit-learn takes a second to import

    torch.set_num_threads(1)  # sums in another order would give another table on another machine

    console = Console(stderr=True)
    rows = []
    with console.status("noisy digits") as status:

        def progress(name: str) -> None:
            if console.is_terminal:
                status.update(f"training with {name}, {steps} steps")
            else:
                console.print(f"training with {name}, {steps} steps")

        for row in tour.run(sigma, steps, seed, progress):
            rows.append(row)
            if as_json:
                typer.echo(json.dumps({**row._asdict(), "sigma": sigma, "steps": steps, "seed": seed}))
    if as_json:
        return
    table = Table(title=f"Noisy digits, sigma = {sigma:g}, {steps} steps each, seed {seed}")
    table.add_column("objective")
    table.add_column("linear accuracy, %", justify="right")
    table.add_column("cosine to clean", justify="right")
    for row in rows:
        cosine = "" if row.cosine is None else f"{row.cosine:.3f}"
        table.add_row(row.method, f"{row.accuracy:.1f}", cosine)
    Console().print(table)
    typer.echo(
        "Trained on 1,200 noisy digits without labels; a linear classifier on the 10 features is then\n"
        "trained on the same digits with labels, and scored on 597 others. The last two rows know what the\n"
        "others do not: the true weight, and the clean digits. One seed is one draw: try --seed 1."
    )

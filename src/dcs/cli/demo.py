"""`dcs demo`."""

import json
import statistics
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from dcs.demo import Row


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

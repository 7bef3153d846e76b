"""`dcs demo`: the tour in a terminal."""

import contextlib
import json
import statistics
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from torch import Tensor

    from dcs.demo import Result

    Results = dict[str, list[Result]]  # by method, one a seed

_SHADES = " .:-=+*#%@"
_NEXT = """\
Next, with pictures, recordings or tables of your own:
  dcs fit photos/ --out run                   learn from them; Ctrl-C stops and saves, --resume goes on
  dcs embed run photos/ --out features.npy    what was learned, a row for each file
  dcs denoise run photos/ --out cleaner/      a denoised copy
  dcs demo --sigma 0.5                        this tour again, with more noise"""


def demo(
    sigma: Annotated[
        float, typer.Option(min=0.01, max=10, help="Standard deviation of the noise; digits are in 0…1.")
    ] = 0.3,
    epochs: Annotated[
        int, typer.Option(min=1, help="Of five training steps, for each objective alike.")
    ] = 120,
    seed: Annotated[
        int, typer.Option(min=0, max=2**31, help="Of noise, split, network and batches; the first of them.")
    ] = 0,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="How many seeds to average over.")] = 3,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a method and seed, nothing else.")
    ] = False,
) -> None:
    """Take the tour: noisy digits, every objective, one table. Offline, about two minutes."""
    import torch

    from dcs import demo as tour  # scikit-learn takes a second to import
    from dcs.runs import nearest

    torch.set_num_threads(1)  # sums in another order would give another table on another machine
    console, errors = Console(), Console(stderr=True)
    title = f"Noisy digits, sigma = {sigma:g}, {epochs} epochs"
    results: Results = {}
    live = Live(console=console, transient=True) if console.is_terminal and not as_json else None
    with live or contextlib.nullcontext():
        for current in range(seed, seed + seeds):

            def show(name: str, current: int = current) -> None:
                doing = f"seed {current} ({current - seed + 1} of {seeds}): training with {name}"
                if live is not None:
                    live.update(_table(results, title, doing))
                else:
                    errors.print(doing)

            for result in tour.run(sigma, epochs, current, show):
                results.setdefault(result.method, []).append(result)
                if as_json:
                    measured = {"method": result.method, "accuracy": result.accuracy, "cosine": result.cosine}
                    typer.echo(json.dumps({**measured, "sigma": sigma, "epochs": epochs, "seed": current}))
    if as_json:
        return
    console.print(_table(results, f"{title}, seeds: {seeds}"))
    console.print(
        "Trained on 1,200 noisy digits without labels; a linear classifier on the 10 features was then "
        "trained on the same digits with labels, and scored on 597 others. The last two rows know what the "
        "others do not: the true weight, and the clean digits.\n"
    )
    _, test = tour.load(sigma, seed)
    rows = {"noisy": test.noisy}
    for name in ("cosine", "dcs"):  # on the scale of the digits, which directions leave open
        rows[name] = nearest(test.noisy, cast("Tensor", results[name][0].predicted))
    console.print(_picture({**rows, "clean": test.clean}, in_colour=console.color_system is not None))
    for line in _findings(results, tour.ORACLES):
        console.print(line)
    console.print(f"\n{_NEXT}", soft_wrap=True)


def _table(results: "Results", title: str, caption: str | None = None) -> Table:
    """Mean over seeds and, for several, the deviation."""
    table = Table(title=title, caption=caption)
    table.add_column("objective")
    table.add_column("linear accuracy, %", justify="right")
    table.add_column("cosine to clean", justify="right")
    for method, trials in results.items():
        accuracies, cosines = _values(trials, "accuracy"), _values(trials, "cosine")
        spread = f" ± {statistics.stdev(accuracies):.1f}" if len(trials) > 1 else ""
        cosine = f"{statistics.mean(cosines):.3f}" if cosines else ""
        table.add_row(method, f"{statistics.mean(accuracies):.1f}{spread}", cosine)
    return table


def _values(trials: "list[Result]", name: str) -> list[float]:
    return [value for trial in trials if (value := getattr(trial, name)) is not None]


def _findings(results: "Results", oracles: tuple[str, ...]) -> list[str]:
    """What the table says of dCS against the best of the others, whichever way it went."""
    from scipy.stats import t

    others = {name: trials for name, trials in results.items() if name != "dcs" and name not in oracles}
    findings = []
    for what, score, digits, unit in (("Features", "accuracy", 1, " %"), ("Denoising", "cosine", 3, "")):
        ours = _values(results["dcs"], score)
        theirs = {name: found for name, trials in others.items() if (found := _values(trials, score))}
        best = max(theirs, key=lambda name: statistics.mean(theirs[name]))
        # Methods share noise, split and first weights, so that their difference is measured seed by seed.
        gaps = [a - b for a, b in zip(ours, theirs[best], strict=True)]
        gap = statistics.mean(gaps)
        word, why = "ahead of" if gap > 0 else "behind", ", and not by chance (t-test, 95 %)"
        if len(gaps) < 2:
            why = "; one seed proves nothing: try --seeds 5"
        elif abs(gap) <= t.ppf(0.975, len(gaps) - 1) * statistics.stdev(gaps) / len(gaps) ** 0.5:
            word, why = "level with", ", within the spread of the seeds"
        mean = f"{statistics.mean(ours):.{digits}f}{unit}"
        best_mean = f"{statistics.mean(theirs[best]):.{digits}f}{unit}"
        findings.append(f"{what}: dcs, {mean}, is {word} the best of the others, {best}, {best_mean}{why}.")
    usual, literal = (statistics.mean(_values(results[name], "accuracy")) for name in ("dcs", "dcs (paper)"))
    if literal < usual - 5:
        findings.append(
            f"dcs (paper), the algorithm to the letter, reads {literal:.1f} %: with six masked entries a "
            f"digit its weight 1/k is a gamble, which is why dcs weighs by k."
        )
    return findings


def _picture(rows: "dict[str, Tensor]", *, in_colour: bool) -> Table:
    """The first digits of each row: in shades of grey, two pixels a character, or else in letters."""
    draw, count = (_grey, 7) if in_colour else (_letters, 4)
    grid = Table.grid(padding=(0, 2, 0, 0))
    for name, images in rows.items():
        grid.add_row(name, *(draw(image) for image in images[:count].clamp(0, 1).tolist()))
    return grid


def _grey(image: list[list[float]]) -> Text:
    text = Text()
    for upper, lower in zip(image[::2], image[1::2], strict=True):
        for above, below in zip(upper, lower, strict=True):
            front, back = (round(255 * value) for value in (above, below))
            text.append("▀", f"rgb({front},{front},{front}) on rgb({back},{back},{back})")
        text.append("\n")
    return text


def _letters(image: list[list[float]]) -> Text:
    shades = [[2 * _SHADES[round(value * (len(_SHADES) - 1))] for value in line] for line in image]
    return Text("".join("".join(line) + "\n" for line in shades))

"""`dcs reproduce`: the paper's experiments."""

import json
import signal
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer


class Name(StrEnum):
    """The experiments."""

    expt0 = "expt0"
    expt1 = "expt1"
    expt2 = "expt2"
    expt3 = "expt3"


class Preset(StrEnum):
    """How much is run."""

    smoke = "smoke"
    quick = "quick"
    paper = "paper"


class Precision(StrEnum):
    """Of the trainings."""

    no = "no"
    bf16 = "bf16"


class Backend(StrEnum):
    """Where trials run side by side."""

    loky = "loky"
    ray = "ray"


def reproduce(
    experiment: Annotated[
        Name,
        typer.Argument(
            help="expt0: MNIST with noise added; expt1: four data sets; expt2: SimSiam on colour images; "
            "expt3: environmental sounds."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The directory of results and encoders; made if need be.")],
    preset: Annotated[
        Preset, typer.Option(help="How much: two minutes', an evening's, or the paper's.")
    ] = Preset.quick,
    variant: Annotated[
        str, typer.Option(help="Of methods that mask: default, paper, or default,paper.")
    ] = "default",
    protocol: Annotated[
        str | None,
        typer.Option(help="linear, clustering, or both.  [default: both; linear for expt2 and expt3]"),
    ] = None,
    datasets: Annotated[str | None, typer.Option(help="Such as usps,pendigits.")] = None,
    noise: Annotated[str | None, typer.Option(help="Deviations, such as 0.3,0.5; of expt0.")] = None,
    fold: Annotated[
        str | None, typer.Option(help="To test on: 1 to 5, such as 1,2, or all; of expt3.  [default: 5]")
    ] = None,
    losses: Annotated[
        str | None, typer.Option(help="Such as cosine,n2v,dcs; of expt2 such as simsiam,byol-dcs.")
    ] = None,
    lambdas: Annotated[
        str | None,
        typer.Option(help="Weights of the regulariser to compare, such as 0.001,0.01; of expt2."),
    ] = None,
    how: Annotated[
        str | None,
        typer.Option(help="Of regularisers: separate, shared, or separate,shared; of expt2."),
    ] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Seeds of each.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Of each training.")] = None,
    train_size: Annotated[int | None, typer.Option(min=1, help="Samples to learn from, at most.")] = None,
    precision: Annotated[
        Precision, typer.Option(help="bf16: mixed, quicker where the processor has it.")
    ] = Precision.no,
    root: Annotated[Path | None, typer.Option(help="Where ROOT/NAME holds a data set.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Trials side by side.")] = 1,
    backend: Annotated[Backend, typer.Option(help="Processes here, or a Ray cluster.")] = Backend.loky,
    shard: Annotated[str, typer.Option(help="Do the i-th of n shares: i/n.")] = "1/1",
    figures: Annotated[
        bool, typer.Option("--figures", help="Draw the paper's figures 2 and 3 from what is there; of expt0.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the trials, and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one line a trial.")] = False,
) -> None:
    """Run an experiment of the paper, and print its table beside the published one.

    What is finished is not run again: stop with Ctrl-C, and go on with the same command.
    """
    from dcs import experiments
    from dcs.training import Stopped

    wanted = experiments.plan(
        str(experiment),
        str(preset),
        variants=_words(variant) or (),
        protocols=_words(protocol),
        datasets=_words(datasets),
        noises=_numbers("--noise", noise),
        folds=_folds(fold),
        methods=_words(losses),
        lambdas=_numbers("--lambdas", lambdas),
        hows=_words(how),
        trials=trials,
        epochs=epochs,
        train_size=train_size,
        precision=str(precision),
    )
    share = experiments.parse_shard(shard)
    if dry_run:
        for trial in wanted[share[0] - 1 :: share[1]]:
            typer.echo(json.dumps(trial._asdict()))
        return
    there = {experiments.key_of(line) for line in experiments.read_results(out)}
    left = sum(trial not in there for trial in wanted[share[0] - 1 :: share[1]])
    typer.echo(f"{len(wanted)} trials, {left} of them to run here", err=True)
    count = 0

    def finished(line: dict[str, Any]) -> None:
        nonlocal count
        count += 1
        noise = f" with noise {line['noise']:g}" if line["noise"] else ""
        fold = f" fold {line['fold']}" if line["fold"] else ""
        weight = f" λ = {line['weight']:g} {line['how']}" if line["weight"] else ""
        method = f"{line['method']}{weight} ({line['variant']})"
        what = f"{line['dataset']}{noise}{fold}, {method}, {line['protocol']}"
        scored = f"trial {line['trial']}: {line['score']:.2f} % in {line['seconds']:.0f} s"
        typer.echo(f"{count} of {left}: {what}, {scored}", err=True)
        if as_json:
            typer.echo(json.dumps(line))

    try:
        experiments.carry_out(
            wanted,
            out,
            root=None if root is None else str(root),
            jobs=jobs,
            backend=str(backend),
            shard=share,
            finished=finished,
        )
    except (Stopped, KeyboardInterrupt) as stopped:
        typer.echo(f"dcs: stopped after {count} of {left} trials: the same command goes on", err=True)
        number = stopped.signal_number if isinstance(stopped, Stopped) else signal.SIGINT
        raise typer.Exit(128 + number) from None
    found = experiments.tables(experiments.read_results(out))
    written = experiments.write_tables(found, out)
    if figures:
        written += experiments.draw_figures(out, root=None if root is None else str(root))
    if not as_json:
        for table in found:
            typer.echo(experiments.as_markdown(table))
        typer.echo("written: " + ", ".join(str(path) for path in written))


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]


def _numbers(option: str, text: str | None) -> list[float] | None:
    try:
        return None if text is None else [float(word) for word in text.split(",") if word.strip()]
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not numbers, such as 0.3,0.5", param_hint=option) from None


def _folds(text: str | None) -> list[int] | None:
    words = ["1", "2", "3", "4", "5"] if text == "all" else _words(text)
    if words is not None and not all(word.isdecimal() for word in words):
        raise typer.BadParameter(f"{text!r} is not folds, such as 5, 1,2 or all", param_hint="--fold")
    return None if words is None else [int(word) for word in words]

"""`dcs reproduce`: the paper's experiments."""

import contextlib
import json
import signal
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from dcs.cli._trials import TrialProgress
    from dcs.experiments import Trial


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
    only_table: Annotated[
        bool, typer.Option("--only-table", help="Run nothing: print the table of all that is there.")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="For programs: one line a trial, of all asked for; with --only-table, of all there are.",
        ),
    ] = False,
) -> None:
    """Run an experiment of the paper, and print its table beside the published one.

    What is finished is not run again: stop with Ctrl-C, and go on with the same command.
    """
    from dcs import experiments
    from dcs.cli._trials import TrialProgress

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
    mine = experiments.share_of(wanted, share)
    if dry_run:
        for trial in mine:
            typer.echo(json.dumps(trial._asdict()))
        return
    there = {experiments.key_of(line): line for line in experiments.read_results(out)}
    if only_table:
        _check_there(out, there)
        wanted = mine = list(there)
    if figures:
        experiments.check_figures([*mine, *there])
    waiting = [trial for trial in mine if trial not in there]
    if not only_table:
        typer.echo(f"{len(wanted)} trials, {len(waiting)} of them to run here", err=True)
    for trial in mine if as_json else ():
        if trial in there:
            typer.echo(json.dumps(there[trial]))
    failure = None
    if not only_table:
        with _stoppable(TrialProgress(waiting, out, as_json)) as progress:
            try:
                experiments.carry_out(
                    wanted,
                    out,
                    root=None if root is None else str(root),
                    jobs=jobs,
                    backend=str(backend),
                    shard=share,
                    finished=progress.finished,
                    failed=progress.failed,
                )
            except experiments.TrialsFailed as failed:
                failure = failed  # the others have their table first
    found = experiments.tables(experiments.read_results(out))
    if not as_json:
        typer.echo(experiments.as_page(found))
    written = experiments.write_tables(found, out) if found else []
    if figures and failure is None:
        written += experiments.draw_figures(out, root=None if root is None else str(root))
    if written and not as_json:
        typer.echo("written: " + ", ".join(str(path) for path in written))
    if failure is not None:
        raise failure


def _check_there(out: Path, there: "dict[Trial, Any]") -> None:
    if not there:
        raise ValueError(
            f"{out} has no results*.jsonl with results: put them there, or leave out --only-table"
        )


class _Terminated(KeyboardInterrupt):
    """SIGTERM, which ends everything as Ctrl-C does."""


@contextlib.contextmanager
def _stoppable(progress: "TrialProgress") -> Iterator["TrialProgress"]:
    """Let Ctrl-C and SIGTERM stop trials, and processes that have some, and say how to go on."""
    from dcs.runs import Stopped

    def terminate(*_: object) -> NoReturn:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        with progress:
            yield progress
    except (Stopped, KeyboardInterrupt) as stopped:
        told = f"stopped after {progress.done} of {progress.left} trials: the same command goes on"
        typer.echo(f"dcs: {told}", err=True)
        number: int = signal.SIGTERM if isinstance(stopped, _Terminated) else signal.SIGINT
        number = stopped.signal_number if isinstance(stopped, Stopped) else number
        raise typer.Exit(128 + number) from None
    finally:
        signal.signal(signal.SIGTERM, before)


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

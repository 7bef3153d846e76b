"""`dcs reproduce`: the paper's experiments."""

import contextlib
import json
import signal
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from dcs._progress import Progress
from dcs.cli.options import AsJson, Root, words

_SECONDS_OF_MEMORY = 900.0  # for the time left, as an epoch may take minutes


Name = StrEnum("Name", ["expt0", "expt1", "expt2", "expt3"])
Preset = StrEnum("Preset", ["smoke", "quick", "paper"])
Precision = StrEnum("Precision", ["no", "bf16"])
Backend = StrEnum("Backend", ["loky", "ray"])


def reproduce(
    experiment: Annotated[
        Name,
        typer.Argument(
            help="expt0: MNIST with added noise; expt1: four data sets; expt2: SimSiam on colour images; "
            "expt3: environmental sounds."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Directory of results and runs; made if need be.")],
    preset: Annotated[
        Preset, typer.Option(help="Amount: smoke takes two minutes, quick an evening, paper is the paper's.")
    ] = Preset.quick,
    variant: Annotated[
        str, typer.Option(help="Variants of methods that mask: default, paper, or default,paper.")
    ] = "default",
    reading: Annotated[
        str,
        typer.Option(
            help="Readings of the paper where its text is open, for expt0 and expt1: plain, or clip, fresh, "
            "sgd, centre, whole and soft joined by +, e.g. plain,clip+centre."
        ),
    ] = "plain",
    protocol: Annotated[
        str | None,
        typer.Option(
            help="Protocols: linear, clustering, or both.  [default: both; linear for expt2 and expt3]"
        ),
    ] = None,
    datasets: Annotated[str | None, typer.Option(help="Data sets, e.g. usps,pendigits.")] = None,
    noise: Annotated[
        str | None, typer.Option(help="Standard deviations of the noise, e.g. 0.3,0.5; for expt0.")
    ] = None,
    fold: Annotated[
        str | None, typer.Option(help="Test folds, 1 to 5, e.g. 1,2, or all; for expt3.  [default: 5]")
    ] = None,
    losses: Annotated[
        str | None,
        typer.Option(help="Methods, e.g. cosine,n2v,dcs; for expt2 e.g. simsiam,byol-dcs."),
    ] = None,
    lambdas: Annotated[
        str | None,
        typer.Option(help="Weights of the regulariser to compare, e.g. 0.001,0.01; for expt2."),
    ] = None,
    how: Annotated[
        str | None,
        typer.Option(help="Passes of regularisers: separate, shared, or separate,shared; for expt2."),
    ] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Number of seeds.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Number of epochs.")] = None,
    train_size: Annotated[int | None, typer.Option(min=1, help="Maximum number of training samples.")] = None,
    precision: Annotated[
        Precision, typer.Option(help="Precision; bf16 is mixed precision, faster on some processors.")
    ] = Precision.no,
    root: Root = None,
    jobs: Annotated[int, typer.Option(min=1, help="Number of trials that run in parallel.")] = 1,
    backend: Annotated[
        Backend, typer.Option(help="Processes on this machine, or a Ray cluster.")
    ] = Backend.loky,
    shard: Annotated[
        str, typer.Option(help="Share of the trials to run, e.g. 2/5 for the second fifth.")
    ] = "1/1",
    figures: Annotated[
        bool, typer.Option("--figures", help="Draw the paper's figures 2 and 3 from the runs; for expt0.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the trials, and stop.")] = False,
    only_table: Annotated[
        bool, typer.Option("--only-table", help="Print the table of all results in --out, and run nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run an experiment of the paper, and print its table next to the published one.

    Finished trials are not run again: stop with Ctrl-C, and run the same command to resume. With --json, the
    result of each trial is one line; with --only-table, of all there are.
    """
    from dcs import experiments

    wanted = experiments.plan(
        str(experiment),
        str(preset),
        variants=words(variant) or (),
        protocols=words(protocol),
        datasets=words(datasets),
        noises=_numbers("--noise", noise),
        folds=_folds(fold),
        methods=words(losses),
        lambdas=_numbers("--lambdas", lambdas),
        hows=words(how),
        trials=trials,
        epochs=epochs,
        train_size=train_size,
        precision=str(precision),
        readings=words(reading) or ("plain",),
    )
    share = experiments.parse_shard(shard)
    mine = experiments.share_of(wanted, share)
    if dry_run:
        for trial in mine:
            typer.echo(json.dumps(trial._asdict()))
        return
    there = {experiments.key_of(line): line for line in experiments.read_results(out)}
    if only_table:
        if not there:
            raise ValueError(
                f"{out} has no results*.jsonl with results: copy them there, or leave out --only-table"
            )
        wanted = mine = list(there)
    if figures:
        experiments.check_figures([*mine, *there])
    for trial in mine if as_json else ():
        if trial in there:
            typer.echo(json.dumps(there[trial]))
    failure, place = None, None if root is None else str(root)
    if not only_table:
        waiting = [trial for trial in mine if trial not in there]
        typer.echo(f"{len(wanted)} trials, {len(waiting)} of them to run here", err=True)
        with _stoppable(TrialProgress(waiting, out, as_json)) as progress:
            try:
                experiments.carry_out(
                    wanted,
                    out,
                    root=place,
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
        written += experiments.draw_figures(out, root=place)
    if written and not as_json:
        typer.echo("written: " + ", ".join(str(path) for path in written))
    if failure is not None:
        raise failure


class TrialProgress(Progress):
    """Progress of an experiment in `out`: one line per trial and, on a terminal, a bar that counts epochs."""

    def __init__(self, waiting: Iterable[Any], out: Path, as_json: bool) -> None:
        self.waiting, self.out, self.as_json = set(waiting), out, as_json
        self.count, self.ended_trials = len(self.waiting), 0
        self.reasons: set[str] = set()  # of failures that were shown
        work = sum(map(_work, self.waiting))
        super().__init__(
            f"0 of {self.count} trials", work, lines=False, look=self.measure, memory=_SECONDS_OF_MEMORY
        )

    def measure(self) -> float:
        """Return the work that is done."""
        left = sum(_work(trial) * (1 - _share_done(trial, self.out)) for trial in tuple(self.waiting))
        return (self.total or 0) - left

    def finished(self, line: dict[str, Any]) -> None:
        """Show a result."""
        from dcs.experiments import key_of

        self._end(key_of(line), f"{line['score']:.2f} % in {line['seconds']:.0f} s")
        if self.as_json:
            typer.echo(json.dumps(line))

    def failed(self, trial: Any, reason: str) -> None:
        """Show a failure; the same reason only once."""
        self._end(trial, "failed as before" if reason in self.reasons else f"failed: {reason}")
        self.reasons.add(reason)

    def _end(self, trial: Any, outcome: str) -> None:
        self.ended_trials += 1
        self.waiting.discard(trial)
        self.set(self.measure(), f"{self.ended_trials} of {self.count} trials")
        noise = f" with noise {trial.noise:g}" if trial.noise else ""
        fold = f" fold {trial.fold}" if trial.fold else ""
        weight = f" λ = {trial.weight:g} {trial.how}" if trial.weight else ""
        reading = f", {trial.reading}" if trial.reading else ""
        method = f"{trial.method}{weight} ({trial.variant}{reading})"
        where = f"{trial.dataset}{noise}{fold}, {method}, {trial.protocol}, trial {trial.trial}"
        self.print(f"{self.ended_trials} of {self.count}: {where}: {outcome}")


def _work(trial: Any) -> int:
    """Return the number of samples that a training sees, by which trials are weighted."""
    return int(max(1, trial.epochs) * trial.train_size)


def _share_done(trial: Any, out: Path) -> float:
    """Return the finished share of a training, by the epochs it has recorded."""
    from dcs.experiments import RUNS
    from dcs.runs import METRICS

    try:
        epochs = (out / RUNS / trial.name / METRICS).read_bytes().count(b"\n")
    except OSError:
        return 0.0
    return float(min(1.0, epochs / max(1, trial.epochs)))


class _Terminated(KeyboardInterrupt):
    """SIGTERM, which ends everything as Ctrl-C does."""

    signal_number = signal.SIGTERM


@contextlib.contextmanager
def _stoppable(progress: TrialProgress) -> Iterator[TrialProgress]:
    """Let Ctrl-C and SIGTERM stop all trials and their processes, and say how to resume."""
    from dcs.runs import Stopped

    def terminate(*_: object) -> NoReturn:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        with progress:
            yield progress
    except (Stopped, KeyboardInterrupt) as stopped:
        done = f"{progress.ended_trials} of {progress.count} trials"
        typer.echo(f"dcs: stopped after {done}: run the same command to resume", err=True)
        raise typer.Exit(128 + getattr(stopped, "signal_number", signal.SIGINT)) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _numbers(option: str, text: str | None) -> list[float] | None:
    try:
        return None if text is None else [float(word) for word in words(text) or ()]
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a list of numbers, e.g. 0.3,0.5", param_hint=option
        ) from None


def _folds(text: str | None) -> list[int] | None:
    from dcs.experiments.experiment import FOLDS

    if text == "all":
        return list(FOLDS)
    chosen = words(text)
    if chosen is not None and not all(word.isdecimal() for word in chosen):
        raise typer.BadParameter(f"{text!r} is not a list of folds, e.g. 5, 1,2 or all", param_hint="--fold")
    return None if chosen is None else [int(word) for word in chosen]

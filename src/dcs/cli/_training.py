"""What `dcs fit` does once it knows what is wanted."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from dcs.data import Dataset, LogMel, Samples
from dcs.data._recordings import check_shortest
from dcs.objectives import ChosenViews
from dcs.training import Run, Stopped, TrainingConfig, make_front_end, make_network, make_objective, train
from dcs.training.distributed import is_main, leave
from dcs.training.loggers import Logger, check_logger, make_logger
from dcs.training.optimizer import batch_used, describe_rate
from dcs.training.run import CONFIG, fingerprint

_SECONDS_BETWEEN_LINES = 10.0


class ShownRun(Run):
    """A run that shows how far it is: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self, *arguments: Any, log: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.log = log
        self.loggers: list[Logger] = []
        self.console = Console(stderr=True)
        self.epochs = self.config["training"]["max_epochs"]
        self.last_line = time.monotonic()
        columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
        self.bar = Progress(*columns, console=self.console, transient=True)
        self.task = self.bar.add_task("training", total=self.epochs)

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            if self.main and not self.finished:
                self.loggers = [make_logger(name, self.folder, self.config) for name in self.log]
        except BaseException as error:
            super().__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def after_epoch(self, metrics: dict[str, float]) -> None:
        """Take the metrics down, and show them."""
        super().after_epoch(metrics)
        if not self.main:
            return
        for logger in self.loggers:
            logger.log(metrics)
        epoch = int(metrics["epoch"]) + 1
        held_out = f", held out {metrics['validation_loss']:.4f}" if "validation_loss" in metrics else ""
        text = f"epoch {epoch} of {self.epochs}: loss {metrics['loss']:.4f}{held_out}"
        if self.console.is_terminal:
            self.bar.start()
            self.bar.update(self.task, completed=epoch, description=text)
        elif epoch == self.epochs or time.monotonic() - self.last_line > _SECONDS_BETWEEN_LINES:
            self.last_line = time.monotonic()
            print(text, file=sys.stderr, flush=True)

    def __exit__(self, *error: Any) -> None:
        for logger in self.loggers:
            logger.close()
        if self.console.is_terminal:
            self.bar.stop()
        super().__exit__(*error)


def train_run(
    data: Dataset,
    source: dict[str, Any],
    config: TrainingConfig,
    out: Path,
    *,
    resume: bool,
    overwrite: bool,
    log: Sequence[str] = (),
) -> dict[str, Any]:
    """Train in a run directory; the result in short."""
    from dcs._predicting import largest_value, prediction_scale

    described = {
        "data": {**source, "samples": len(data.train), "fingerprint": fingerprint(data.train.x)},
        "shape": list(data.shape),
        "training": config.model_dump(mode="json"),
    }
    learned: dict[str, Any] = {"largest": largest_value(data.train.x)}
    data, front_end = seen(data, config)
    if front_end is not None:
        learned["front_end"] = front_end.describe()
    x, lengths = data.train.x, data.train.lengths
    network, objective = make_network(config, data.shape), make_objective(config, data.shape)
    for name in log:
        check_logger(name)
    main = is_main()
    if main and resume and not (out / CONFIG).exists():
        print(f"dcs: {out}: there is no run to resume: a new one begins", file=sys.stderr)
    with ShownRun(out, described, resume=resume, overwrite=overwrite, main=main, log=log) as run:
        if run.finished:
            return {"run": str(out), "already_finished": True}
        if main and config.optimizer == "sgd":
            used = config.model_copy(update={"batch_size": batch_used(config, x.shape[0])})
            print(f"dcs: {describe_rate(used)}", file=sys.stderr)
        try:
            history = train(network, objective, x, config, lengths=lengths, recorder=run)
        except Stopped as stopped:
            if main:
                print(f"dcs: {stopped}", file=sys.stderr)
            raise typer.Exit(128 + stopped.signal_number) from None
        finally:
            leave()
        learned["scale"] = prediction_scale(network, objective, x, lengths=lengths)
        run.finish_training(network, objective, **learned)
    last, views = history[-1] if history else {}, getattr(objective, "masker", None)
    return {
        "run": str(out),
        "already_finished": False,
        "epochs": int(last.get("epoch", -1)) + 1,
        "loss": last.get("loss"),
        "validation_loss": last.get("validation_loss"),
        "kept_epochs": int(last["kept_epoch"]) + 1 if "kept_epoch" in last else None,
        "made_of": repr(objective),
        "views": views.describe() if isinstance(views, ChosenViews) else None,
    }


def seen(data: Dataset, config: TrainingConfig) -> tuple[Dataset, LogMel | None]:
    """What the network sees of data, and what makes it of recordings."""
    front_end = make_front_end(config)
    if front_end is None:
        return data, None
    check_shortest(data, front_end.frame or 0)
    return front_end.apply(data)


def estimate(data: Dataset, config: TrainingConfig) -> dict[str, float]:
    """About how long the training would take, by a few steps, and how much memory."""
    x = seen(data, config)[0].train.x
    n = x.shape[0]
    some = x.read(range(min(n, config.batch_size))) if isinstance(x, Samples) else x[: config.batch_size]
    shape = tuple(x.shape[1:])
    steps = -(-round(n * (1 - config.validation)) // config.batch_size) * config.max_epochs
    network = make_network(config, shape)
    trial = config.model_copy(update={"max_epochs": 3, "validation": 0.0, "patience": None, "compile": False})
    train(network, make_objective(config, shape), some, trial.model_copy(update={"max_epochs": 1}))
    start = time.perf_counter()
    train(network, make_objective(config, shape), some, trial)
    seconds = (time.perf_counter() - start) / 3 * steps
    parameters = sum(parameter.numel() for parameter in network.parameters())
    held = 0 if isinstance(x, Samples) else x.numel() * x.element_size()
    return {
        "parameters": parameters,
        "about_seconds": round(seconds, 1),
        # Weights, gradients and Adam's two averages; the data; and what passes through the network.
        "about_megabytes": round((16 * parameters + held + 40 * some.numel()) / 1e6, 1),
    }

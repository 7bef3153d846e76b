"""`dcs fit`: learn features from noisy data."""

import json
import shlex
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from dcs.cli.options import AsJson, Data, Domain, Reading, assignments, load, reads_data
from dcs.cli.output import is_within

if TYPE_CHECKING:
    from dcs.data import Dataset
    from dcs.runs import Predictor
    from dcs.training import TrainingConfig


@reads_data
def fit(
    data: Data,
    out: Annotated[Path, typer.Option(help="Directory of the run; created if needed.")],
    reading: Reading,
    objective: Annotated[str | None, typer.Option(help="Objective: {objectives}.  [default: dcs]")] = None,
    variant: Annotated[
        str | None, typer.Option(help="Variant of dcs: default, or paper for the literal algorithm.")
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(
            help="Network: {networks}.  [default: mlp; vit or waveunet for recordings, resnet18 for "
            "self-supervised objectives]"
        ),
    ] = None,
    domain: Annotated[
        Domain | None,
        typer.Option(help="What the network sees of recordings.  [default: depends on the network]"),
    ] = None,
    components: Annotated[
        int | None, typer.Option(min=1, help="Number of features.  [default: 10; vit 192, waveunet 32]")
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Maximum number of epochs.  [default: at least 100 and 3,000 steps, with early stopping; "
            "100 for self-supervised objectives]",
        ),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Epochs of a clearly higher held-out loss before training stops; self-supervised objectives "
            "hold nothing out unless --set validation=0.1 is given.",
        ),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Samples per step.  [default: 256; 64 for spectrograms]")
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(
            help="Learning rate; that of SGD is for batches of 256.  [default: 0.001; 0.03 for "
            "self-supervised objectives]"
        ),
    ] = None,
    view: Annotated[
        str | None,
        typer.Option(
            help="View maker: {views}.  [default for dcs: split if the noise allows it, else blind_spot]"
        ),
    ] = None,
    rho: Annotated[
        float | None,
        typer.Option(
            help="Share of the entries that are masked.  [default: 0.3 for blind_spot, else that of the view]"
        ),
    ] = None,
    radius: Annotated[
        int | None, typer.Option(min=1, help="Radius of the masking window.  [default: 1]")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Random seed for weights, sample order and masks.  [default: 0]"),
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Number of CPU threads.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other setting, with its value in JSON."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A .toml or .json file of settings.")] = None,
    log: Annotated[
        list[str] | None,
        typer.Option(help="Further logger of metrics: tensorboard or wandb; may be repeated."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume a run that was stopped.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing run.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print the complete settings and an estimate of the time; then stop."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Learn features from noisy data; stop with Ctrl-C and resume with --resume."""
    from dcs import runs
    from dcs.data import check_shortest
    from dcs.training import Facts, check_mappings, complete, is_main, leave, make_front_end, read_config

    if resume and overwrite:
        raise ValueError("--resume continues a run and --overwrite removes it: give one of them")
    if is_within(out, data):
        raise ValueError(f"{out} is in the folder of the data: give another directory")
    if resume and (out / runs.MODEL).exists():
        _tell_finished(out, as_json)
        return
    stored = runs.read_record(out) if resume and (out / runs.CONFIG).is_file() else None
    if resume and stored is None:
        print(f"dcs: {out}: there is no run to resume: a new one starts", file=sys.stderr)
    options = {
        "objective": objective,
        "network": network,
        "n_components": components,
        "max_epochs": epochs,
        "patience": patience,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "seed": seed,
        "threads": threads,
    }
    given = _read_settings(config) | assignments(settings)
    given |= {name: value for name, value in options.items() if value is not None}
    check_mappings(given)
    views = {
        name: value for name, value in (("kind", view), ("rho", rho), ("radius", radius)) if value is not None
    }
    if views:
        given["masking"] = {**given.get("masking", {}), **views}
    _check_components(given, components)
    if variant is not None:
        given["objective_options"] = _with_variant(given, variant)
    _check_pair(given)
    source = reading.source(data)
    loaded = load(source)
    facts = Facts(loaded.shape, len(loaded.train), loaded.rate, loaded.name)
    if stored is None:
        checked = complete(given, facts, None if domain is None else str(domain))
    else:
        checked = read_config({**stored.training.model_dump(), **given})
    source = source.as_read(loaded)
    front_end = make_front_end(checked)
    if front_end is not None:
        check_shortest(loaded, front_end.frame or 0)
    if dry_run:
        described: dict[str, Any] = {"source": source.model_dump(mode="json"), "shape": list(loaded.shape)}
        described |= {"samples": len(loaded.train), "training": checked.model_dump(mode="json")}
        typer.echo(json.dumps(described | runs.estimate(loaded.train, checked), indent=1))
        return
    try:
        predictor = _train(loaded, checked, out, source, resume, overwrite, log or ())
    finally:
        leave()
    if is_main():
        _tell_result(predictor, out, data, source, as_json)


def _train(
    loaded: "Dataset",
    config: "TrainingConfig",
    out: Path,
    source: Any,
    resume: bool,
    overwrite: bool,
    log: "list[str] | tuple[str, ...]",
) -> "Predictor":
    from dcs import runs
    from dcs.training import is_main
    from dcs.training.loggers import make_logger
    from dcs.training.optimizer import batch_used, describe_rate

    loggers = [make_logger(name, out, config.model_dump(mode="json")) for name in log]
    if is_main() and config.optimizer == "sgd":
        used = config.model_copy(update={"batch_size": batch_used(config, len(loaded.train))})
        print(f"dcs: {describe_rate(used)}", file=sys.stderr)
    displays = [Epochs(config.max_epochs), *loggers]
    try:
        return runs.fit(
            loaded.train,
            config,
            out,
            source=source,
            skipped=sorted(loaded.skipped),
            resume=resume,
            overwrite=overwrite,
            displays=displays,
        )
    except runs.Stopped as stopped:
        if is_main():
            print(f"dcs: {stopped}", file=sys.stderr)
        raise typer.Exit(128 + stopped.signal_number) from None


class Epochs:
    """Shows the epochs of a training.

    Args:
        total: Maximum number of epochs.
    """

    def __init__(self, total: int) -> None:
        from dcs._progress import Progress

        self.total, self.bar = total, Progress("training", total)

    def __enter__(self) -> Self:
        self.bar.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.__exit__(*error)

    def epoch(self, metrics: dict[str, float]) -> None:
        """Show the metrics of an epoch."""
        number = int(metrics["epoch"]) + 1
        held_out = f", held out {metrics['validation_loss']:.4f}" if "validation_loss" in metrics else ""
        self.bar.set(number, f"epoch {number} of {self.total}: loss {metrics['loss']:.4f}{held_out}")


def _tell_finished(out: Path, as_json: bool) -> None:
    from dcs.training import is_main

    if is_main():
        finished = {"run": str(out), "already_finished": True}
        typer.echo(json.dumps(finished) if as_json else f"{out} is finished: there is nothing to resume")


def _tell_result(predictor: "Predictor", out: Path, data: str, source: Any, as_json: bool) -> None:
    """Print what came out of a training, and what to do next."""
    history = predictor.history
    last = history[-1] if history else {}
    described = predictor.learned.objective or {}
    kept = int(last["kept_epoch"]) + 1 if "kept_epoch" in last else None
    epochs = int(last.get("epoch", -1)) + 1
    if as_json:
        result = {"run": str(out), "already_finished": False, "epochs": epochs}
        result |= {"loss": last.get("loss"), "validation_loss": last.get("validation_loss")}
        typer.echo(json.dumps({**result, "kept_epochs": kept, "objective": described}))
        return
    loss = f", loss {last['loss']:.4f}" if "loss" in last else ""
    before = "" if kept in (None, epochs) else f"; the weights after epoch {kept} were kept"
    typer.echo(f"{out} is finished after {epochs} epoch{'s' * (epochs != 1)}{loss}{before}")
    view = described.get("view") or {}
    if view.get("chosen"):
        found = (
            f"split, for uniform noise of deviation {view['sigma']:.3g}"
            if view["kind"] == "split"
            else ("masked: no uniform noise was found")
        )
        typer.echo(f"samples were {found} (dcs inspect says more)")
    read = source.model_copy(update={"rate": None, "hop": None, "size": None, "mixed": "error"})
    options = (
        read if source.rate is not None else source
    ).as_options()  # the run knows how to read recordings
    typer.echo("next: " + shlex.join(["dcs", "embed", str(out), data, "--out", "features.npy", *options]))


def _check_components(given: dict[str, Any], components: int | None) -> None:
    from dcs import models, objectives
    from dcs.training import CUSTOM

    name = given.get("objective", "dcs")
    usual = None if name == CUSTOM else objectives.parse(name).kind.recipe.get("network")
    network = given.get("network", usual)
    if components is not None and network and models.NETWORKS[network].traits.get("fixed_features"):
        raise ValueError(
            "--components must be left out for a ResNet, whose features follow from its width: "
            "--set 'network_options={\"width\": 16}' gives a resnet18 128 features"
        )


def _check_pair(given: dict[str, Any]) -> None:
    from dcs import objectives

    name = given.get("objective", "dcs")
    if objectives.parse(name).kind.needs_pair:
        raise ValueError(
            f"objective {name} needs two observations of each sample: use it in Python, fit(X, pair=X2)"
        )


def _with_variant(given: dict[str, Any], variant: str) -> dict[str, Any]:
    from dcs import objectives

    options = dict(given.get("objective_options", {}))
    if objectives.parse(given.get("objective", "dcs")).regulariser is None:
        return {**options, "variant": variant}
    return {**options, "regulariser_options": {**options.get("regulariser_options", {}), "variant": variant}}


def _read_settings(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    if path.suffix not in (".toml", ".json"):
        raise ValueError(f"--config must be a .toml or .json file, got {path}")
    text = path.read_text(encoding="utf-8")
    try:
        settings = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except ValueError as error:
        raise ValueError(f"--config {path} is not valid {path.suffix[1:].upper()}: {error}") from error
    if not isinstance(settings, dict):
        raise ValueError(f"--config {path} must hold settings by name, got {type(settings).__name__}")
    # The config.json of a run can be used, too.
    inner = settings.get("training", settings)
    return dict(inner)

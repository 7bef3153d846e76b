"""`dcs fit`: learn features from noisy data."""

import json
import shlex
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcs._progress import Progress
from dcs.cli.options import AsJson, Data, Domain, Reading, assignments, load, reads_data
from dcs.cli.output import is_within

if TYPE_CHECKING:
    from dcs.data import Source
    from dcs.runs import Predictor


@reads_data
def fit(
    data: Data,
    reading: Reading,
    out: Annotated[
        Path | None,
        typer.Option(help="Directory of the run; created if needed.  [required, but for --dry-run]"),
    ] = None,
    objective: Annotated[str | None, typer.Option(help="Objective: {objectives}.  [default: dcs]")] = None,
    variant: Annotated[
        str | None, typer.Option(help="Variant of dcs: default, or paper for the literal algorithm.")
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(
            help="Network: {networks}.  [default: mlp; resunet for pictures of more than 64 pixels or of "
            "different sizes, vit or waveunet for recordings, resnet18 for self-supervised objectives]"
        ),
    ] = None,
    domain: Annotated[
        Domain | None,
        typer.Option(help="What the network sees of recordings.  [default: depends on the network]"),
    ] = None,
    components: Annotated[
        int | None,
        typer.Option(min=1, help="Number of features.  [default: 10; resunet 64, vit 192, waveunet 32]"),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Maximum number of epochs.  [default: at least 100 and 3,000 steps, with early stopping; "
            "6,000 steps on windows of pictures; 100 for self-supervised objectives]",
        ),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Epochs of a clearly higher held-out loss before training stops; self-supervised objectives "
            "hold nothing out unless --set validation=0.1 is given.  [default: a fifteenth of all epochs, at "
            "least 10; none for windows of pictures]",
        ),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1, help="Samples per step.  [default: 256; 64 for spectrograms, 16 for windows of 64 x 64]"
        ),
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
    threads: Annotated[
        int | None, typer.Option(min=1, help="Number of CPU threads.  [default: torch's own]")
    ] = None,
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
    from dcs.training.loggers import make_logger
    from dcs.training.optimizer import batch_used, describe_rate

    if out is None:
        if not dry_run:
            raise typer.BadParameter("give the directory of the run, e.g. --out run", param_hint="--out")
        out = Path("run")
    elif is_within(out, data):
        raise ValueError(f"{out} is in the folder of the data: give another directory")
    if resume and overwrite:
        raise ValueError("--resume continues a run and --overwrite removes it: give one of them")
    if resume and (out / runs.MODEL).exists():
        if is_main():
            finished = {"run": str(out), "already_finished": True}
            typer.echo(json.dumps(finished) if as_json else f"{out} is finished: there is nothing to resume")
        return
    stored = runs.read_record(out) if resume and (out / runs.CONFIG).is_file() else None
    if resume and stored is None:
        typer.echo(f"dcs: {out}: there is no run to resume: a new one starts", err=True)
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
    given = _read_settings(config) | assignments(settings) | _without_none(options)
    check_mappings(given)
    views = _without_none({"kind": view, "rho": rho, "radius": radius})
    if views:
        given["masking"] = {**(given.get("masking") or {}), **views}
    _check_objective(given, components, variant)
    source = reading.source(data)
    loaded = load(source)
    if stored is None:
        facts = Facts.of(loaded.train, loaded.rate, loaded.name)
        checked = complete(given, facts, domain)
    else:
        _check_same_reading(reading, source, stored.source)
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
    loggers = [make_logger(name, out, checked.model_dump(mode="json")) for name in log or ()]
    if is_main() and checked.optimizer == "sgd":
        used = checked.model_copy(update={"batch_size": batch_used(checked, len(loaded.train))})
        typer.echo(f"dcs: {describe_rate(used)}", err=True)
    try:
        predictor = runs.fit(
            loaded.train,
            checked,
            out,
            source=source,
            skipped=sorted(loaded.skipped),
            resume=resume,
            overwrite=overwrite,
            displays=[Epochs("training", checked.max_epochs), *loggers],
        )
    except runs.Stopped as stopped:
        if is_main():
            typer.echo(f"dcs: {stopped}", err=True)
        raise typer.Exit(128 + stopped.signal_number) from None
    finally:
        leave()
    if is_main():
        _tell_result(predictor, out, data, source, as_json)


class Epochs(Progress):
    """Progress of a training, by its epochs."""

    def epoch(self, metrics: dict[str, float]) -> None:
        """Show the metrics of an epoch."""
        number = int(metrics["epoch"]) + 1
        held_out = f", held out {metrics['validation_loss']:.4f}" if "validation_loss" in metrics else ""
        self.set(number, f"epoch {number} of {self.total}: loss {metrics['loss']:.4f}{held_out}")


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
        found = "masked: no uniform noise was found"
        if view["kind"] == "split":
            found = f"split, for uniform noise of deviation {view['sigma']:.3g}"
        typer.echo(f"samples were {found} (dcs inspect says more)")
    if source.rate is not None:  # the run knows how to read recordings
        source = source.model_copy(update={"rate": None, "size": None, "mixed": "auto"})
    command = ["dcs", "embed", str(out), data, "--out", "features.npy", *source.as_options()]
    typer.echo(f"next: {shlex.join(command)}")


def _check_same_reading(reading: Reading, source: "Source", stored: "Source | None") -> None:
    """Refuse options of reading that differ from those of the run that is resumed."""
    for name in (name for name in reading.given if stored is not None and name not in ("root", "skip_bad")):
        before, now = getattr(stored, name), getattr(source, name)
        if before != now:
            option = "data-seed" if name == "seed" else name
            raise ValueError(
                f"--{option} was {before} when the run began, is now {now}: leave it out to resume"
            )


def _without_none(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _check_objective(given: dict[str, Any], components: int | None, variant: str | None) -> None:
    """Refuse what the command cannot give an objective or its network, and add the variant to its options."""
    from dcs import models, objectives

    parsed = objectives.parse(given.get("objective", "dcs"))
    network = given.get("network", parsed.kind.recipe.get("network"))
    if components is not None and network and models.NETWORKS[network].traits.get("fixed_features"):
        raise ValueError(
            "--components must be left out for a ResNet, whose features follow from its width: "
            "--set 'network_options={\"width\": 16}' gives a resnet18 128 features"
        )
    if parsed.kind.needs_pair:
        raise ValueError(
            f"objective {given['objective']} needs two observations of each sample: use it in Python, "
            f"fit(X, pair=X2)"
        )
    if variant is not None:
        given["objective_options"] = options = dict(given.get("objective_options") or {})
        if parsed.regulariser is not None:
            options["regulariser_options"] = options = dict(options.get("regulariser_options") or {})
        options["variant"] = variant


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
    return dict(settings.get("training", settings))  # the config.json of a run can be used, too

"""`dcs fit`."""

import json
import shlex
import tomllib
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from dcs.cli._data import (
    AsJson,
    Data,
    DataSeed,
    Hop,
    Label,
    Mixed,
    MixedSizes,
    Noise,
    Rate,
    Reading,
    Root,
    Size,
    SkipBad,
    load_data,
)
from dcs.cli._output import is_within

_OF_WAVEFORMS = ("waveunet", "conv1d", "mlp")


class Domain(StrEnum):
    """What the network sees of recordings."""

    spectrogram = "spectrogram"
    waveform = "waveform"


def fit(
    data: Data,
    out: Annotated[Path, typer.Option(help="The directory of the run; made if need be.")],
    objective: Annotated[
        str | None,
        typer.Option(
            help="mse cosine n2v sure dae dcs; of images also simsiam, simclr, byol, alone or with +bsm, "
            "-n2v, -dae or -dcs  [default: dcs]"
        ),
    ] = None,
    variant: Annotated[
        str | None, typer.Option(help="Of dcs and -dcs: default, or paper for the literal one.")
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(
            help="mlp conv conv1d unet resnet18 resnet50 vit waveunet  "
            "[default: mlp; for recordings vit or waveunet, for views resnet18]"
        ),
    ] = None,
    domain: Annotated[
        Domain | None, typer.Option(help="What is learned of recordings.  [default: as the network needs it]")
    ] = None,
    components: Annotated[
        int | None, typer.Option(min=1, help="Features.  [default: 10; for recordings vit 192, waveunet 32]")
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            min=0, help="At most.  [default: enough, with early stopping; 100 for simsiam and the like]"
        ),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Epochs of a clearly higher held-out loss before stopping; simsiam and the like hold "
            "nothing out unless --set validation=0.1 is given.",
        ),
    ] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Samples a step.  [default: 256]")] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(
            help="Of Adam; for simsiam and the like of SGD with batches of 256.  [default: 0.001; 0.03]"
        ),
    ] = None,
    rho: Annotated[
        float | None, typer.Option(help="Share of the entries that is masked.  [default: 0.3]")
    ] = None,
    radius: Annotated[int | None, typer.Option(min=1, help="Reach of the window.  [default: 1]")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Of weights, order and masks.  [default: 0]")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Of the processor.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other setting, value in JSON."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A .toml or .json file of settings.")] = None,
    noise: Noise = None,
    data_seed: DataSeed = 0,
    root: Root = None,
    label: Label = None,
    mixed: MixedSizes = Mixed.error,
    size: Size = None,
    rate: Rate = None,
    hop: Hop = None,
    skip_bad: SkipBad = False,
    log: Annotated[
        list[str] | None, typer.Option(help="Where metrics go too: tensorboard, wandb; may be repeated.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where it was stopped.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Remove the run that is there.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the settings, and about how long it takes; then stop.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Learn features from noisy data; stop with Ctrl-C and go on with --resume."""
    from dcs.objectives import SELF_SUPERVISED
    from dcs.training import read_config
    from dcs.training.config import enough_epochs, with_recipe
    from dcs.training.distributed import is_main

    if resume and overwrite:
        raise ValueError("--resume goes on with a run and --overwrite removes it: give one of them")
    if is_within(out, data):
        raise ValueError(f"{out} is in the folder of the data: name another")
    stored = out / "config.json"
    given = _read_settings(stored) if resume and stored.is_file() else {}
    given |= _read_settings(config) | _assignments(settings or [])
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
    given |= {name: value for name, value in options.items() if value is not None}
    masking = {name: value for name, value in (("rho", rho), ("radius", radius)) if value is not None}
    if masking:
        given["masking"] = {**given.get("masking", {}), **masking}
    checked = read_config(given)
    if components is not None and with_recipe(given).get("network", "").startswith("resnet"):
        raise ValueError(
            "--components must be left out for a ResNet, whose features follow from its width: "
            "--set 'network_options={\"width\": 16}' makes 128 of a resnet18"
        )
    views = checked.objective.startswith(tuple(SELF_SUPERVISED))
    if variant is not None:
        told = dict(given.get("objective_options", {}))
        inner = {**told.get("regulariser_options", {}), "variant": variant}
        given["objective_options"] = told | (
            {"regulariser_options": inner} if views else {"variant": variant}
        )
    given = with_recipe(given)
    if checked.objective == "n2n":
        raise ValueError(
            "objective n2n needs two observations of each sample: use it in Python, fit(X, pair=X2)"
        )
    reading = Reading(mixed, size, rate, hop, skip_bad)
    loaded = load_data(data, root, noise, data_seed, label, reading)
    if views and not (resume and stored.is_file()):  # which is to go on as it began
        given = _own_colours(given, loaded.name)
    checked = read_config(_for_recordings(given, domain, loaded.rate, checked.objective))
    if "max_epochs" not in given and not views:
        learning = max(1, round(len(loaded.train) * (1 - checked.validation)))
        long = enough_epochs(learning, checked.batch_size)
        # Enough for any data is too much for some: little data is soon learned by heart.
        stop = checked.patience or (max(10, long // 15) if checked.validation else None)
        checked = checked.model_copy(update={"max_epochs": long, "patience": stop})
    source: dict[str, Any] = {
        "source": _absolute(data),
        "root": None if root is None else _absolute(str(root)),
        "noise": noise,
        "seed": data_seed if noise else None,
        "label": label,
        "mixed": str(mixed),
        "size": size,
    }
    if loaded.rate is not None:
        source |= {"rate": loaded.rate, "hop": hop}
    if loaded.skipped:
        source["skipped"] = sorted(loaded.skipped)
    from dcs.cli._training import estimate, train_run

    if dry_run:
        described = {"data": source, "shape": list(loaded.shape), "samples": len(loaded.train)}
        described |= {"training": checked.model_dump(), **estimate(loaded, checked)}
        typer.echo(json.dumps(described, indent=1))
        return
    result = train_run(loaded, source, checked, out, resume=resume, overwrite=overwrite, log=log or ())
    if not is_main():
        return
    if as_json:
        typer.echo(json.dumps(result))
    elif result["already_finished"]:
        typer.echo(f"{out} is finished: there is nothing to resume")
    else:
        loss = "" if result["loss"] is None else f", loss {result['loss']:.4f}"
        plural = "" if result["epochs"] == 1 else "s"
        kept = result["kept_epochs"]
        before = "" if kept in (None, result["epochs"]) else f"; kept are the weights after epoch {kept}"
        typer.echo(f"{out} is finished after {result['epochs']} epoch{plural}{loss}{before}")
        if result["views"] is not None:
            typer.echo(f"{result['views']} (dcs inspect looks closer)")
        asked = {"noise": noise, "data-seed": data_seed or None, "root": root, "label": label, "size": size}
        asked["mixed"] = None if mixed is Mixed.error else str(mixed)
        if loaded.rate is not None:  # the run knows how recordings were read
            asked = {name: asked[name] for name in ("noise", "data-seed", "root")}
        again = [f"--{name}={value}" for name, value in asked.items() if value is not None]
        again += ["--skip-bad"] if skip_bad else []
        typer.echo("next: " + shlex.join(["dcs", "embed", str(out), data, "--out", "features.npy", *again]))


def _own_colours(given: dict[str, Any], name: str) -> dict[str, Any]:
    """Settings with the statistics of a known data set's colours, unless others are given."""
    from dcs.augmentation import CIFAR10, CIFAR100

    known = {"cifar10": CIFAR10, "cifar100": CIFAR100}.get(name)
    options = given.get("objective_options", {})
    augment = options.get("augment", {})
    if known is None or {"mean", "std"} & set(augment):
        return given
    own = {**augment, "mean": list(known[0]), "std": list(known[1])}
    return {**given, "objective_options": {**options, "augment": own}}


def _for_recordings(
    given: dict[str, Any], domain: Domain | None, rate: int | None, objective: str
) -> dict[str, Any]:
    """Settings, completed for recordings: a transformer on spectrograms, or a U-Net on waveforms."""
    if rate is None:
        if domain is not None:
            raise ValueError("--domain is for recordings, and the data has none: leave it out")
        return given
    given = dict(given)
    if domain is None:
        # A run that is resumed, or whose settings are used again, says itself whether it has a front end.
        signal = given.get("network") in ("conv1d", "waveunet")
        plain = not given["front_end"] if "front_end" in given else signal
        domain = Domain.waveform if plain else Domain.spectrogram
    if domain is Domain.spectrogram:
        given["front_end"] = {**(given.get("front_end") or {}), "rate": rate}
        given.setdefault("network", "vit")
        given.setdefault("batch_size", 64)
    else:
        from dcs.objectives import REGISTRY, MaskedObjective

        if given.get("front_end"):
            raise ValueError("front_end makes spectrograms: leave it out with --domain waveform")
        given.setdefault("network", "waveunet")
        if given["network"] not in _OF_WAVEFORMS:
            raise ValueError(
                f"--network {given['network']} does not go with --domain waveform: leave out --domain, so "
                f"that it sees spectrograms, or use one of {', '.join(_OF_WAVEFORMS)}"
            )
        if objective in REGISTRY and issubclass(REGISTRY[objective], MaskedObjective):
            given["masking"] = {"kind": "amplitude", **given.get("masking", {})}
    own = {"vit": 192, "waveunet": 32}
    if given["network"] in own:
        given.setdefault("n_components", own[given["network"]])
    return given


def _read_settings(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    if path.suffix not in (".toml", ".json"):
        raise ValueError(f"config must be a .toml or .json file, got {path}")
    text = path.read_text(encoding="utf-8")
    try:
        settings = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except ValueError as error:
        raise ValueError(
            f"config {path} is not valid {path.suffix[1:].upper() or 'JSON'}: {error}"
        ) from error
    if not isinstance(settings, dict):
        raise ValueError(f"config {path} must hold settings by name, got {type(settings).__name__}")
    # What a run wrote of itself will do too.
    inner = settings.get("training", settings)
    return dict(inner)


def _assignments(items: list[str]) -> dict[str, Any]:
    settings = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals:
            raise typer.BadParameter(f"{item!r} is not NAME=VALUE", param_hint="--set")
        try:
            settings[name.strip()] = json.loads(value)
        except ValueError:
            settings[name.strip()] = value
    return settings


def _absolute(data: str) -> str:
    path = Path(data).expanduser()
    return str(path.absolute()) if path.exists() else data

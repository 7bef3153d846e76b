"""`dcs fit`, `dcs embed` and `dcs denoise`."""

import json
import shlex
import tomllib
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from torch import Tensor

    from dcs.data import Dataset, Samples, Split


class Mixed(StrEnum):
    """What to do with files of different sizes."""

    error = "error"
    resize = "resize"
    crop = "crop"


class Part(StrEnum):
    """Which samples of a data set."""

    all = "all"
    train = "train"
    test = "test"


Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A data set's name, a .npy, .npz, .csv or .parquet file, or a folder of images or recordings.",
    ),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The directory that dcs fit wrote.")]
Root = Annotated[Path | None, typer.Option(help="Where ROOT/NAME holds a known data set.")]
Noise = Annotated[str | None, typer.Option(help="To add to the data, such as gaussian:0.5.")]
DataSeed = Annotated[int, typer.Option(min=0, help="Of that noise.")]
Label = Annotated[
    str | None, typer.Option(help="The column of labels in a table, to set aside; none if there is none.")
]
MixedSizes = Annotated[Mixed, typer.Option(help="What to do with files of different sizes.")]
Size = Annotated[str | None, typer.Option(help="The size to which, such as 64 or 48x64.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Write over files that are there.")]
AsJson = Annotated[bool, typer.Option("--json", help="For programs.")]


def fit(
    data: Data,
    out: Annotated[Path, typer.Option(help="The directory of the run; made if need be.")],
    objective: Annotated[
        str | None, typer.Option(help="mse cosine n2v n2n sure dae dcs  [default: dcs]")
    ] = None,
    variant: Annotated[
        str | None, typer.Option(help="Of dcs: default, or paper for the literal one.")
    ] = None,
    network: Annotated[str | None, typer.Option(help="mlp conv conv1d unet  [default: mlp]")] = None,
    components: Annotated[int | None, typer.Option(min=1, help="Features.  [default: 10]")] = None,
    epochs: Annotated[
        int | None, typer.Option(min=0, help="At most.  [default: enough, with early stopping]")
    ] = None,
    patience: Annotated[
        int | None, typer.Option(min=1, help="Epochs without a better held-out loss before stopping.")
    ] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Samples a step.  [default: 256]")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Of Adam.  [default: 0.001]")] = None,
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
    from dcs.training import read_config
    from dcs.training.config import enough_epochs
    from dcs.training.processes import is_main

    if resume and overwrite:
        raise ValueError("--resume goes on with a run and --overwrite removes it: give one of them")
    if _is_within(out, data):
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
    if variant is not None:
        given["objective_options"] = {**given.get("objective_options", {}), "variant": variant}
    checked = read_config(given)
    if checked.objective == "n2n":
        raise ValueError(
            "objective n2n needs two observations of each sample: use it in Python, fit(X, pair=X2)"
        )
    loaded = load_data(data, root, noise, data_seed, label, mixed, size)
    if "max_epochs" not in given:
        learning = max(1, round(len(loaded.train) * (1 - checked.validation)))
        long = enough_epochs(learning, checked.batch_size)
        # Enough for any data is too much for some: little data is soon learned by heart.
        stop = checked.patience or (max(10, long // 15) if checked.validation else None)
        checked = checked.model_copy(update={"max_epochs": long, "patience": stop})
    source = {
        "source": _absolute(data),
        "root": None if root is None else _absolute(str(root)),
        "noise": noise,
        "seed": data_seed if noise else None,
        "label": label,
        "mixed": str(mixed),
        "size": size,
    }
    from dcs.cli._training import estimate, train_run

    if dry_run:
        described = {"data": source, "shape": list(loaded.shape), "samples": len(loaded.train)}
        described |= {"training": checked.model_dump(), **estimate(loaded.train.x, checked)}
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
        typer.echo(f"{out} is finished after {result['epochs']} epochs{loss}")
        asked = {"noise": noise, "data-seed": data_seed or None, "root": root, "label": label, "size": size}
        asked["mixed"] = None if mixed is Mixed.error else str(mixed)
        again = [f"--{name}={value}" for name, value in asked.items() if value is not None]
        typer.echo("next: " + shlex.join(["dcs", "embed", str(out), data, "--out", "features.npy", *again]))


def embed(
    run: RunFolder,
    data: Data,
    out: Annotated[
        Path, typer.Option(help="The .npy file of features; an index in .csv is written beside it.")
    ],
    part: Annotated[Part, typer.Option(help="Of a data set with splits.")] = Part.all,
    noise: Noise = None,
    data_seed: DataSeed = 0,
    root: Root = None,
    label: Label = None,
    mixed: MixedSizes = Mixed.error,
    size: Size = None,
    overwrite: Overwrite = False,
) -> None:
    """Write the features of data: one row a sample, and which file or row each is."""
    import csv
    import io

    import numpy as np

    import dcs

    index = out.with_suffix(".csv")
    _check_output(out, ".npy", overwrite, data)
    _check_output(index, ".csv", overwrite, data)
    encoder = dcs.load(run)
    loaded = load_data(data, root, noise, data_seed, label, mixed, size, encoder.shape_)
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["row", "split", "source"])
    features = []
    for name, split in _parts(loaded, part):
        features.append(encoder.transform(split.x))
        for number in range(len(split)):
            source = split.names[number] if len(split.names) else f"row {number}"
            table.writerow([sum(map(len, features[:-1])) + number, name, source])
    rows = np.concatenate(features)
    _write_npy(out, rows)
    _write(index, text.getvalue().encode())
    typer.echo(f"{out}: {rows.shape[0]} rows of {rows.shape[1]} features; {index} says which is which")


def denoise(
    run: RunFolder,
    data: Data,
    out: Annotated[
        Path, typer.Option(help="A .npy file, or, for a folder of images, a new folder of PNG files.")
    ],
    part: Annotated[Part, typer.Option(help="Of a data set with splits.")] = Part.all,
    noise: Noise = None,
    data_seed: DataSeed = 0,
    root: Root = None,
    label: Label = None,
    mixed: MixedSizes = Mixed.error,
    size: Size = None,
    overwrite: Overwrite = False,
) -> None:
    """Write a denoised copy of data, on the data's own scale."""
    import numpy as np

    import dcs

    as_array = out.suffix.lower() == ".npy"
    if as_array:
        _check_output(out, ".npy", overwrite, data)
    elif _is_within(out, data):
        raise ValueError(f"{out} is where the data is: name another folder")
    elif out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file: name a folder, or a .npy file")
    elif out.exists() and any(out.iterdir()) and not overwrite:
        raise ValueError(f"{out} is there already: name a new folder, or pass --overwrite")
    encoder = dcs.load(run)
    loaded = load_data(data, root, noise, data_seed, label, mixed, size, encoder.shape_)
    parts = _parts(loaded, part)
    if as_array:
        denoised = np.concatenate([encoder.denoise(split.x) for _, split in parts])
        _write_npy(out, denoised)
        typer.echo(f"{out}: {denoised.shape}")
        return
    names = [name for _, split in parts for name in split.names]
    if not names or loaded.rate is not None:
        raise ValueError(
            f"out must be a .npy file for this data, got {out}: a folder is for folders of images"
        )
    targets = {name: Path(name).with_suffix(".png") for name in names}
    if len(set(targets.values())) < len(names):
        raise ValueError(f"some files of {data} differ only in their suffix: write to a .npy file instead")
    count = 0
    for _, split in parts:
        for start in range(0, len(split), 256):
            rows = range(start, min(start + 256, len(split)))
            noisy = _rows(split.x, rows)
            if float(noisy.min()) < 0 or float(noisy.max()) > 1:
                raise ValueError(
                    f"{data} has pixels outside 0 to 1, which PNG files cannot hold: write to a .npy"
                )
            for row, image in zip(rows, encoder.denoise(noisy), strict=True):
                _write_png(out / targets[split.names[row]], image)
                count += 1
    typer.echo(f"{out}: {count} images")


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


def load_data(
    data: str,
    root: Path | None,
    noise: str | None,
    seed: int,
    label: str | None,
    mixed: Mixed,
    size: str | None,
    shape: tuple[int, ...] | None = None,
) -> "Dataset":
    """Load what the command line names; it must have the shape that a run was trained on."""
    from dcs.data import load

    options: dict[str, Any] = {"noise": None if noise is None else _noise(noise), "seed": seed}
    if root is not None:
        options["root"] = root
    if label is not None:
        options["label"] = False if label == "none" else int(label) if label.lstrip("-").isdigit() else label
    if mixed is not Mixed.error:
        options["mixed"] = str(mixed)
    if size is not None:
        options["size"] = _size(size)
    loaded = load(data, **options)
    if shape is not None and loaded.shape != tuple(shape):
        raise ValueError(
            f"{data} has samples of shape {loaded.shape}, but the run was trained on {tuple(shape)}: give "
            f"data of that shape, or use --mixed and --size"
        )
    return loaded


def _noise(text: str) -> tuple[str, float]:
    kind, colon, strength = text.partition(":")
    try:
        if colon:
            return kind, float(strength)
    except ValueError:
        pass
    raise typer.BadParameter(f"{text!r} is not KIND:STRENGTH, such as gaussian:0.5", param_hint="--noise")


def _size(text: str) -> int | tuple[int, int]:
    try:
        numbers = [int(number) for number in text.lower().split("x")]
    except ValueError:
        numbers = []
    if len(numbers) == 1:
        return numbers[0]
    if len(numbers) == 2:
        return numbers[0], numbers[1]
    raise typer.BadParameter(f"{text!r} is not a size, such as 64 or 48x64", param_hint="--size")


def _parts(loaded: "Dataset", part: Part) -> list[tuple[str, "Split"]]:
    splits = {"train": loaded.train, "test": loaded.test}
    chosen = [(name, split) for name, split in splits.items() if split is not None and part in ("all", name)]
    if not chosen:
        raise ValueError(f"{loaded.name} has no {part} split")
    return chosen


def _rows(x: "Tensor | Samples", rows: range) -> "Tensor":
    from dcs.data import Samples

    return x.read(rows) if isinstance(x, Samples) else x[rows.start : rows.stop]


def _absolute(data: str) -> str:
    path = Path(data).expanduser()
    return str(path.absolute()) if path.exists() else data


def _is_within(path: Path, data: str) -> bool:
    """Whether writing there would change the data."""
    source = Path(data).expanduser().resolve()
    return source.exists() and (path.resolve() == source or source in path.resolve().parents)


def _check_output(path: Path, suffix: str, overwrite: bool, data: str) -> None:
    if path.suffix.lower() != suffix:
        raise ValueError(f"out must end in {suffix}, got {path}")
    if _is_within(path, data):
        raise ValueError(f"{path} is the data itself, or in its folder: name another file")
    if path.exists() and not overwrite:
        raise ValueError(f"{path} is there already: name another file, or pass --overwrite")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"the folder of {path} does not exist: make it first")


def _write(path: Path, content: bytes) -> None:
    from dcs.training.checkpoint import write_atomically

    write_atomically(path, content)


def _write_npy(path: Path, array: Any) -> None:
    import io

    import numpy as np

    buffer = io.BytesIO()
    np.save(buffer, array)
    _write(path, buffer.getvalue())


def _write_png(path: Path, image: Any) -> None:
    """8 bits a pixel, cut off at 0 and 1."""
    import io

    import numpy as np

    from dcs._optional import require

    pillow = require("PIL.Image", "images", "writing images")
    pixels = np.rint(np.clip(image, 0, 1) * 255).astype(np.uint8)
    buffer = io.BytesIO()
    pillow.fromarray(np.moveaxis(pixels, 0, -1) if pixels.ndim == 3 else pixels).save(buffer, "PNG")
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, buffer.getvalue())

"""What data a command is given: its options, and how it is loaded."""

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

if TYPE_CHECKING:
    from dcs.data import Dataset


class Mixed(StrEnum):
    """What to do with files of different sizes."""

    error = "error"
    resize = "resize"
    crop = "crop"
    pad = "pad"
    windows = "windows"


class Reading(NamedTuple):
    """How the files of a folder are read."""

    mixed: Mixed = Mixed.error
    size: str | None = None
    rate: int | None = None
    hop: int | None = None
    skip_bad: bool = False


Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A data set's name, a .npy, .npz, .csv, .parquet, .wav, .flac or .ogg file, or a folder of "
        "images or recordings.",
    ),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The directory that dcs fit wrote.")]
Root = Annotated[Path | None, typer.Option(help="Where ROOT/NAME holds a known data set.")]
Noise = Annotated[
    str | None,
    typer.Option(
        help="Noise to add, such as gaussian:0.5; or poisson, salt_and_pepper, speckle, correlated."
    ),
]
DataSeed = Annotated[int, typer.Option(min=0, help="Seed of the noise that --noise adds.")]
Label = Annotated[
    str | None, typer.Option(help="The column of labels in a table, to set aside; none if there is none.")
]
MixedSizes = Annotated[Mixed, typer.Option(help="What to do with files of different sizes.")]
Size = Annotated[
    str | None, typer.Option(help="The size to which, such as 64 or 48x64; of recordings, in samples.")
]
Rate = Annotated[int | None, typer.Option(min=1, help="In Hz, to which recordings are resampled.")]
Hop = Annotated[
    int | None, typer.Option(min=1, help="From window to window of recordings, in samples.  [default: size]")
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave out files that cannot be used.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Write over files that are there.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs to read.")]


def load_data(
    data: str,
    root: Path | None,
    noise: str | None,
    seed: int,
    label: str | None,
    reading: Reading,
    shape: tuple[int, ...] | None = None,
    resident: bool | None = None,
) -> "Dataset":
    """Load what the command line names; it must have the shape that a run was trained on."""
    from dcs.data import load

    options: dict[str, Any] = {"noise": None if noise is None else _noise(noise), "seed": seed}
    options["resident"] = resident
    if root is not None:
        options["root"] = root
    if label is not None:
        options["label"] = False if label == "none" else int(label) if label.lstrip("-").isdigit() else label
    if reading.mixed is not Mixed.error:
        options["mixed"] = str(reading.mixed)
    if reading.size is not None:
        options["size"] = _size(reading.size)
    further = {"rate": reading.rate, "hop": reading.hop, "skip_bad": reading.skip_bad or None}
    options |= {name: value for name, value in further.items() if value is not None}
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


def trained_on(run: Path) -> dict[str, Any]:
    """What a run says of its data."""
    described = json.loads((run / "config.json").read_bytes()).get("data")
    return described if isinstance(described, dict) else {}


def as_trained(run: Path, data: str, reading: Reading) -> Reading:
    """How to read recordings: as those that the run was trained on, where nothing else is asked for."""
    known, path = trained_on(run), Path(data).expanduser()
    if known.get("rate") is None or not (path.is_dir() or is_sound(path)):
        return reading
    if reading.rate is None:
        reading = reading._replace(rate=known["rate"])
    if reading.mixed is Mixed.error and reading.size is None:
        reading = reading._replace(mixed=Mixed(known["mixed"]))
    if reading.size is None:
        length = json.loads((run / "config.json").read_bytes())["shape"][0]
        reading = reading._replace(size=str(length))
    if reading.mixed is Mixed.windows and reading.hop is None:
        reading = reading._replace(hop=known["hop"])
    return reading


def is_sound(path: Path) -> bool:
    return path.suffix.lower() in (".wav", ".flac", ".ogg")

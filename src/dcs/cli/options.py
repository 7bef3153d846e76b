"""Options that commands share, and data as the command line gives it."""

import functools
import inspect
import json
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

if TYPE_CHECKING:
    from dcs.data import Dataset, Source, Split
    from dcs.runs import Predictor


Mixed = StrEnum("Mixed", ["auto", "windows", "crop", "resize", "pad", "error"])
Domain = StrEnum("Domain", ["spectrogram", "waveform"])
Part = StrEnum("Part", ["all", "train", "test"])
Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="Name of a data set, a .npy, .npz, .h5, .zarr, .csv or .parquet file, an array in one such as "
        "file.h5::/path/to/array, an image or recording, a folder of them, or a pattern such as "
        "'photos/*.png'.",
    ),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Directory that dcs fit wrote.")]
Root = Annotated[
    Path | None,
    typer.Option(help="Folder in which ROOT/NAME holds a known data set, not DCS_DATA, the cache or ./data."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

_READING: dict[str, Any] = {
    "noise": Annotated[
        str | None,
        typer.Option(
            help="Noise to add, e.g. gaussian:0.5, poisson, salt_and_pepper, speckle, correlated; "
            "gaussian:0.5:clip clips noisy values to 0 ... 1."
        ),
    ],
    "data_seed": Annotated[int | None, typer.Option(min=0, help="Random seed of --noise.  [default: 0]")],
    "root": Root,
    "label": Annotated[
        str | None, typer.Option(help="Column of labels in a table, which is set aside; none if it has none.")
    ],
    "mixed": Annotated[
        Mixed | None,
        typer.Option(
            help="Treatment of files of different sizes.  [default: auto, windows where sizes differ]"
        ),
    ],
    "size": Annotated[
        str | None,
        typer.Option(help="Target size, or size of windows, e.g. 64 or 48x64; in samples for recordings."),
    ],
    "axes": Annotated[
        str | None,
        typer.Option(
            help="Axes of TIFF files and arrays, letters from STCZYX, e.g. ZYX.  [default: as the file says]"
        ),
    ],
    "rate": Annotated[
        int | None, typer.Option(min=1, help="Sampling rate in Hz to which recordings are resampled.")
    ],
    "skip_bad": Annotated[bool, typer.Option("--skip-bad", help="Skip files that cannot be read.")],
}


class Reading(NamedTuple):
    """How data is read, as far as the command line says."""

    given: dict[str, Any]

    def source(self, data: str) -> "Source":
        """Return the source of data."""
        from dcs.data import Source

        try:
            return Source.of(data, **self.given)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    def like(self, data: str, trained: "Source | None", shape: tuple[int, ...]) -> "Source":
        """Return the source of data for a run: recordings are read as in training."""
        source = self.source(data)
        return source if trained is None else source.reading_as(trained, shape[0])


def reads_data(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of reading data to a command, which gets them as one argument, `reading`."""
    signature = inspect.signature(command, eval_str=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    own = [one.replace(kind=kind) for name, one in signature.parameters.items() if name != "reading"]
    further = [
        inspect.Parameter(name, kind, default=False if name == "skip_bad" else None, annotation=annotation)
        for name, annotation in _READING.items()
        if name not in signature.parameters
    ]

    @functools.wraps(command)
    def called(**values: Any) -> None:
        from dcs.data import parse_label

        convert: dict[str, Callable[[Any], Any]] = {"label": parse_label, "mixed": str}
        given = {one.name: values.pop(one.name) for one in further}
        named = {
            "seed" if name == "data_seed" else name: convert.get(name, lambda same: same)(value)
            for name, value in given.items()
            if value is not None and value is not False
        }
        command(**values, reading=Reading(named))

    called.__signature__ = signature.replace(parameters=[*own, *further])  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in (*own, *further)}
    return called


def load(source: "Source", predictor: "Predictor | None" = None, resident: bool | None = None) -> "Dataset":
    """Load data, which must have the shape that a run was trained on, unless it learned from windows."""
    loaded = source.load(resident=resident)
    if predictor is not None:
        _check_kind(loaded, predictor, source)
    if predictor is not None and predictor.window is None and loaded.shape != predictor.shape:
        raise ValueError(
            f"{source.data} has samples of shape {loaded.shape}, but the run was trained on "
            f"{predictor.shape}: give data of that shape; images can be brought to it by --mixed and --size"
        )
    return loaded


def _check_kind(loaded: "Dataset", predictor: "Predictor", source: "Source") -> None:
    """Raise if data is of another kind than that of a run, or if a size was given that has no effect."""
    window, items, trained = predictor.window, loaded.train.items, predictor.record.source
    kinds = ("recordings", "pictures", "volumes")
    if trained is not None and trained.has_rate != (loaded.rate is not None):
        # Arrays of signals are recordings without a rate.
        other_shape = loaded.shape if trained.has_rate else predictor.shape
        if len(other_shape) > 1:
            one, other = ("recordings", "other data")[:: 1 if trained.has_rate else -1]
            raise ValueError(
                f"the run was trained on {one}, but {source.data} holds {other}: give data like that"
            )
    if window is not None and items is not None and items.ndim != len(window):
        raise ValueError(
            f"the run was trained on {kinds[len(window) - 1]}, but {source.data} holds "
            f"{kinds[items.ndim - 1]}: give data like that, or name its axes with --axes"
        )
    size = (source.size,) * len(window or ()) if isinstance(source.size, int) else source.size
    if window is not None and loaded.rate is None and size not in (None, window):
        raise ValueError(
            f"--size has no effect on a run that learned from windows of {'x'.join(map(str, window))}: leave "
            f"it out"
        )


def splits(loaded: "Dataset", part: Part) -> "list[tuple[str, Split]]":
    """Return the splits of a data set that were asked for, by name."""
    named = {"train": loaded.train, "test": loaded.test}
    chosen = [(name, split) for name, split in named.items() if split is not None and part in ("all", name)]
    if not chosen:
        raise ValueError(f"{loaded.name} has no {part} split")
    return chosen


def assignments(items: list[str] | None) -> dict[str, Any]:
    """Read the values of --set, NAME=VALUE with the value in JSON."""
    settings = {}
    for item in items or ():
        name, equals, value = item.partition("=")
        if not equals:
            raise typer.BadParameter(f"{item!r} is not NAME=VALUE", param_hint="--set")
        try:
            settings[name.strip()] = json.loads(value)
        except ValueError as error:
            if value.lstrip().startswith(("{", "[", '"')):
                raise typer.BadParameter(f"{item!r} is not valid JSON: {error}", param_hint="--set") from None
            settings[name.strip()] = value
    return settings


def words(text: str | None) -> list[str] | None:
    """Split a list with commas."""
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]

"""`dcs denoise`: a denoised copy of data."""

import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcs.cli.options import Data, Overwrite, Part, Reading, RunFolder, load, reads_data, splits
from dcs.cli.output import (
    check_folder,
    check_output,
    scratch_array,
    unfinished,
    write,
    write_npy,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

    from dcs.data import Dataset, Items, Source, Split
    from dcs.runs import Predictor

_AT_ONCE = 256  # images in memory
_LARGE = 2**27  # entries of images that are written band by band


@reads_data
def denoise(
    run: RunFolder,
    data: Data,
    out: Annotated[
        Path,
        typer.Option(
            help="A .npy file; for a folder of images or recordings, a new folder; for one image, a file of "
            "its format; for one recording, such as .wav or .flac; for an array, also .h5 or .zarr."
        ),
    ],
    reading: Reading,
    part: Annotated[Part, typer.Option(help="Splits to denoise, of a data set that has them.")] = Part.all,
    draws: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Number of predictions to average, each with other noise added; 0 predicts from the data as "
            "it is; for runs on windows.  [default: 4 if training has split samples]",
        ),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write a denoised copy of data, on the scale of the data."""
    import numpy as np

    from dcs import runs
    from dcs.data import AUDIO_SUFFIXES, IMAGE_SUFFIXES
    from dcs.data.array_output import ARRAY_SUFFIXES

    suffix = out.suffix.lower()
    as_array = suffix == ".npy"
    if suffix in ARRAY_SUFFIXES and not as_array and not _is_array(data):
        raise ValueError(f"--out must be a folder or a .npy file for this data, got {out}")
    if suffix in (*ARRAY_SUFFIXES, *AUDIO_SUFFIXES, *IMAGE_SUFFIXES):
        check_output(out, [*ARRAY_SUFFIXES, *AUDIO_SUFFIXES, *IMAGE_SUFFIXES], overwrite, data)
    else:
        check_folder(out, overwrite, data)
    predictor = runs.load(run)
    predictor.check_predicts("dcs denoise")
    trained = predictor.record.source
    rate = None if trained is None else trained.rate
    if rate is not None and not as_array:
        asked = ["data-seed" if name == "seed" else name for name in reading.given if name != "skip_bad"]
        asked += ["part"] if part is not Part.all else []
        if asked:
            raise ValueError(
                f"--{', --'.join(asked)} must be left out where recordings are written, which are used as "
                f"they are; or write to a .npy file"
            )
        skip_bad = reading.given.get("skip_bad", False)
        typer.echo(_write_recordings(predictor, rate, Path(data), out, skip_bad, draws))
        return
    source = reading.like(data, trained, predictor.shape)
    loaded = load(source, predictor)
    if draws and not (predictor.added and predictor.takes_windows(loaded.train)):
        raise ValueError(
            "--draws is only applicable to a run that learned from windows, and split them: leave it out"
        )
    by_window = predictor.takes_windows(loaded.train) and predictor.front_end is None
    pictures = predictor.window if by_window else loaded.shape
    if suffix in ARRAY_SUFFIXES and _is_array(data) and len(pictures or ()) > 1:
        typer.echo(_write_like(predictor, loaded.train, data, source.axes, out, draws))
    elif by_window:
        if as_array:
            shape = _write_array(predictor, [split for _, split in splits(loaded, part)], out, draws)
            typer.echo(f"{out}: {shape}")
        else:
            typer.echo(_write_pictures(predictor, loaded, part, source, out, draws))
    elif as_array:
        denoised = np.concatenate([predictor.denoise(split) for _, split in splits(loaded, part)])
        write_npy(out, denoised)
        typer.echo(f"{out}: {denoised.shape}")
    else:
        typer.echo(_write_pictures(predictor, loaded, part, source, out, None))


def _write_array(
    predictor: "Predictor", chosen: "list[Split]", out: Path, draws: int | None
) -> tuple[int, ...]:
    """Write denoised items of one size to a .npy file, one by one, and return its shape."""
    import numpy as np

    from dcs._progress import progress

    parts = [predictor.items_of(split) for split in chosen]
    shapes = {items.shape(size) for items in parts for size in items.sizes}
    if len(shapes) > 1:
        raise ValueError("--out must be a folder for items of different sizes, got a .npy file")
    shape = (sum(map(len, parts)), *shapes.pop())
    row = 0
    with unfinished(out) as path, progress("denoising", sum(map(_entries, parts))) as advance:
        array = np.lib.format.open_memmap(path, "w+", np.float32, shape)
        for items in parts:
            for index in range(len(items)):
                predictor.denoise_item(items, index, out=array[row], draws=draws, advance=advance)
                row += 1
        array.flush()
    return shape


def _is_array(data: str) -> bool:
    from dcs.data.array_output import ARRAY_SUFFIXES

    return Path(data.partition("::")[0]).suffix.lower() in ARRAY_SUFFIXES


def _write_like(
    predictor: "Predictor", split: "Split", data: str, axes: str | None, out: Path, draws: int | None
) -> str:
    """Write denoised samples to an array like the one that they were read from."""
    from dcs._progress import progress
    from dcs.data.array_output import ArrayOutput

    items = predictor.items_of(split) if predictor.takes_windows(split) else None
    with (
        unfinished(out) as path,
        ArrayOutput(Path(data).expanduser(), path, out.suffix.lower(), axes) as output,
        progress("denoising", len(split) if items is None else _entries(items)) as advance,
    ):
        if items is None:
            for row, values in enumerate(_samples(predictor, split, advance)):
                output.write(row, (0,) * len(output.layout.size), values)
        else:
            how: Any = {"draws": draws, "advance": advance}
            for row in range(len(items)):
                for start, values in _regions(predictor, items, row, out.absolute().parent, **how):
                    output.write(row, start, values)
    return f"{out}: {output.layout.shape} {output.dtype}"


def _write_pictures(
    predictor: "Predictor", loaded: "Dataset", part: Part, source: "Source", out: Path, draws: int | None
) -> str:
    """Write denoised pictures, each to a file of the name and format of its own."""
    from itertools import groupby

    from dcs._progress import progress
    from dcs.data import IMAGE_SUFFIXES
    from dcs.data.image_output import TiffOutput, encode_image, file_of

    chosen = [split for _, split in splits(loaded, part)]
    if loaded.location is None or loaded.rate is not None or not all(len(split.names) for split in chosen):
        raise ValueError(f"--out must be a .npy file for this data, got {out}: a folder is for image files")
    root = loaded.location if loaded.location.is_dir() else loaded.location.parent
    single = out.suffix.lower() in IMAGE_SUFFIXES
    if single and (root == loaded.location or out.suffix.lower() != loaded.location.suffix.lower()):
        wanted = "a folder" if root == loaded.location else f"a {loaded.location.suffix} file, or a folder,"
        raise ValueError(f"--out must be {wanted} for this data, got {out}")
    by_window, count = predictor.takes_windows(loaded.train), 0
    total = sum(_entries(predictor.items_of(split)) if by_window else len(split) for split in chosen)
    with progress("denoising", total) as advance:
        how: Any = {"draws": draws, "advance": advance}
        for split in chosen:
            items = predictor.items_of(split) if by_window else None
            samples = _samples(predictor, split, advance)
            for name, numbers in groupby(range(len(split)), key=lambda row: file_of(split.names[row])):
                rows, target = list(numbers), out if single else out / name
                if (
                    items is not None
                    and target.suffix.lower() in (".tif", ".tiff")
                    and _is_large(items, rows)
                ):
                    with unfinished(target) as path, TiffOutput(root / name, path, source.axes) as output:
                        for number, row in enumerate(rows):
                            for start, values in _regions(predictor, items, row, target.parent, **how):
                                output.write(number, start, values)
                else:
                    denoised = [
                        next(samples) if items is None else predictor.denoise_item(items, row, **how)
                        for row in rows
                    ]
                    target.parent.mkdir(parents=True, exist_ok=True)
                    write(target, encode_image(denoised, root / name, source.axes))
                count += 1
    return f"{out}: {count} image{'s' * (count != 1)}"


def _samples(
    predictor: "Predictor", split: "Split", advance: "Callable[[float], object]"
) -> "Iterator[np.ndarray]":
    """Yield the predictions for whole samples, of which some are made at a time."""
    for start in range(0, len(split), _AT_ONCE):
        some = predictor.denoise(split.take(range(start, min(start + _AT_ONCE, len(split)))))
        yield from some
        advance(len(some))


def _is_large(items: "Items", rows: list[int]) -> bool:
    return sum(math.prod(items.shape(items.sizes[row])) for row in rows) > _LARGE


def _entries(items: "Items") -> int:
    return sum(map(math.prod, items.sizes))


def _regions(
    predictor: "Predictor", items: "Items", row: int, folder: Path, **how: Any
) -> "Iterator[tuple[tuple[int, ...], np.ndarray]]":
    """Yield a denoised item region by region, each with its place; a large one is never in memory."""
    size = items.sizes[row]
    shape, further = items.shape(size), (0,) * (len(size) - 1)
    if math.prod(shape) <= _LARGE:
        yield (0, *further), predictor.denoise_item(items, row, **how)
        return
    with scratch_array(folder, shape) as array:
        predictor.denoise_item(items, row, out=array, **how)
        band = max(1, 2**24 // (math.prod(shape) // size[0]))
        for top in range(0, size[0], band):
            some: Any = (..., slice(top, top + band), *[slice(None)] * len(further))
            yield (top, *further), array[some]


def _write_recordings(
    predictor: "Predictor", rate: int, data: Path, out: Path, skip_bad: bool, draws: int | None
) -> str:
    """Denoise a recording, or a folder of them; each keeps its rate, its length and its channels."""
    from dcs._progress import progress
    from dcs.data import AUDIO_SUFFIXES, DataWarning, RecordingItems, scan_recordings, write_recording

    if predictor.front_end is not None:
        raise ValueError(
            "this run was trained on spectrograms, which cannot be turned into recordings: train one on "
            "waveforms (dcs fit ... --domain waveform), or write the spectrograms to a .npy file"
        )
    if not data.exists():
        raise FileNotFoundError(f"{str(data)!r} does not exist: give a recording, or a folder of them")
    single = data.is_file()
    if single != (out.suffix.lower() in AUDIO_SUFFIXES):
        wanted = "be a folder for a folder of recordings"
        if single:
            wanted = f"end in {', '.join(AUDIO_SUFFIXES)} or .npy for one recording"
        raise ValueError(f"--out must {wanted}, got {out}")
    # All are read before any is written: a bad one must not leave half a folder behind.
    rates = scan_recordings(data, skip_bad=skip_bad)
    above = {file: found for file, found in rates.items() if found > rate}
    if above:
        file, found = next(iter(above.items()))
        others = f" (as {len(above) - 1} more have)" if len(above) > 1 else ""
        warnings.warn(
            f"{str(file)!r} has {found} Hz, the run {rate}{others}: frequencies above {rate / 2:g} Hz are "
            f"removed; a run on recordings of the higher rate would keep them",
            DataWarning,
            stacklevel=3,
        )
    each = {source: RecordingItems.channels_of(source, rate) for source in rates}
    with progress("denoising", sum(map(_entries, each.values()))) as advance:
        for source, items in each.items():
            target = out if single else out / source.relative_to(data)
            with (
                unfinished(target) as path,
                scratch_array(target.parent, (len(items), *items.sizes[0])) as signal,
            ):
                for index, channel in enumerate(signal):
                    predictor.denoise_item(items, index, out=channel, draws=draws, advance=advance)
                write_recording(path, signal, rate, source, target.suffix.lower())
    return f"{out}: denoised" if single else f"{out}: {len(rates)} recordings"

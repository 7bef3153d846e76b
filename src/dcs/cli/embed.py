"""`dcs embed`: the features of data."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dcs.cli.options import Data, Overwrite, Part, Reading, RunFolder, load, reads_data, splits
from dcs.cli.output import check_folder, check_output, write, write_npy

if TYPE_CHECKING:
    import numpy as np

    from dcs.data import Split
    from dcs.runs import Predictor


@reads_data
def embed(
    run: RunFolder,
    data: Data,
    out: Annotated[
        Path, typer.Option(help="The .npy file of features; an index in .csv is written beside it.")
    ],
    reading: Reading,
    part: Annotated[Part, typer.Option(help="Splits to embed, of a data set that has them.")] = Part.all,
    per_window: Annotated[
        bool,
        typer.Option(
            "--per-window",
            help="Write a row for each window; without it, the mean and deviation over windows.",
        ),
    ] = False,
    hop: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="With --per-window, distance between windows in pixels or samples.  [default: side by side]",
        ),
    ] = None,
    maps: Annotated[
        Path | None,
        typer.Option(
            "--map",
            help="New folder for dense feature maps: NAME.npy, (features, height, width), for each picture.",
        ),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write the features of data: one row per sample, and an index of the file or row of each."""
    import numpy as np

    from dcs import runs

    index = out.with_suffix(".csv")
    check_output(out, [".npy"], overwrite, data)
    check_output(index, [".csv"], overwrite, data)
    if maps is not None:
        check_folder(maps, overwrite, data)
    predictor = runs.load(run)
    if maps is not None and predictor.window is None:
        raise ValueError("--map needs a run that learned from windows of pictures: see --mixed windows")
    if maps is not None:
        predictor.check_maps()
    if hop is not None and not per_window:
        raise ValueError("--hop is only applicable with --per-window: leave it out, or add that")
    loaded = load(reading.like(data, predictor.record.source, predictor.shape), predictor)
    if per_window and not predictor.takes_windows(loaded.train):
        raise ValueError("--per-window needs a run that learned from windows: see --mixed windows")
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    axes = ["depth", "top", "left"][-len(predictor.window or ()) :]
    further = [] if not per_window else axes if loaded.rate is None else ["start_seconds"]
    table.writerow(["row", "split", "source", *further])
    features: list[np.ndarray] = []
    chosen = splits(loaded, part)
    for name, split in chosen:
        before = sum(len(rows) for rows in features)
        found, numbers, starts = _features(predictor, split, per_window, hop)
        features.append(found)
        for row, (number, start) in enumerate(zip(numbers, starts, strict=True)):
            place = start if loaded.rate is None else [round(at / loaded.rate, 4) for at in start]
            table.writerow([before + row, name, _source(split, number), *place])
        if maps is not None:
            _write_maps(predictor, split, maps if len(chosen) == 1 or split.names else maps / name)
    rows = np.concatenate(features)
    write_npy(out, rows)
    write(index, text.getvalue().encode())
    typer.echo(f"{out}: {rows.shape[0]} rows of {rows.shape[1]} features; {index} is their index")


def _source(split: "Split", number: int) -> str:
    return str(split.names[number]) if len(split.names) else f"row {number}"


def _features(
    predictor: "Predictor", split: "Split", per_window: bool, hop: int | None
) -> "tuple[np.ndarray, Iterable[int], Iterable[Sequence[float]]]":
    """Return features, and the number of the sample and the place of the window that each row belongs to."""
    import numpy as np

    if not per_window:
        return predictor.transform(split), range(len(split)), [()] * len(split)
    found = list(predictor.encode_windows(predictor.items_of(split), hop))
    numbers = [number for _, some, _ in found for number in some]
    return (
        np.concatenate([one for one, _, _ in found]),
        numbers,
        [place for _, _, some in found for place in some],
    )


def _write_maps(predictor: "Predictor", split: "Split", folder: Path) -> None:
    """Write the dense feature map of each item, under the name of its file."""
    items = predictor.items_of(split)
    for number in range(len(items)):
        target = folder / f"{_source(split, number)}.npy"
        target.parent.mkdir(parents=True, exist_ok=True)
        write_npy(target, predictor.feature_map(items, number))

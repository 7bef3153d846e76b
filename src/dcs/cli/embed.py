"""`dcs embed`: the features of data."""

import csv
import io
from pathlib import Path
from typing import Annotated

import typer

from dcs.cli.options import Data, Overwrite, Part, Reading, RunFolder, load, reads_data, splits
from dcs.cli.output import check_output, write, write_npy


@reads_data
def embed(
    run: RunFolder,
    data: Data,
    out: Annotated[
        Path, typer.Option(help="The .npy file of features; an index in .csv is written beside it.")
    ],
    reading: Reading,
    part: Annotated[Part, typer.Option(help="Splits to embed, of a data set that has them.")] = Part.all,
    overwrite: Overwrite = False,
) -> None:
    """Write the features of data: one row per sample, and an index of the file or row of each."""
    import numpy as np

    from dcs import runs

    index = out.with_suffix(".csv")
    check_output(out, [".npy"], overwrite, data)
    check_output(index, [".csv"], overwrite, data)
    predictor = runs.load(run)
    loaded = load(reading.like(data, predictor.record.source, predictor.shape), predictor)
    windows = loaded.train.starts is not None and loaded.rate is not None
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["row", "split", "source", *(["start_seconds"] if windows else [])])
    features: list[np.ndarray] = []
    for name, split in splits(loaded, part):
        before = sum(len(rows) for rows in features)
        features.append(predictor.transform(split))
        for number in range(len(split)):
            source = split.names[number] if len(split.names) else f"row {number}"
            start = [] if split.starts is None else [round(int(split.starts[number]) / (loaded.rate or 1), 4)]
            table.writerow([before + number, name, source, *start])
    rows = np.concatenate(features)
    write_npy(out, rows)
    write(index, text.getvalue().encode())
    typer.echo(f"{out}: {rows.shape[0]} rows of {rows.shape[1]} features; {index} is their index")

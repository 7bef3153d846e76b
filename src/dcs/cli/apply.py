"""`dcs embed` and `dcs denoise`: what a trained run makes of data."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dcs.cli._data import (
    Data,
    DataSeed,
    Hop,
    Label,
    Mixed,
    MixedSizes,
    Noise,
    Overwrite,
    Rate,
    Reading,
    Root,
    RunFolder,
    Size,
    SkipBad,
    as_trained,
    is_sound,
    load_data,
    trained_on,
)
from dcs.cli._output import check_output, is_within, write, write_npy, write_png

if TYPE_CHECKING:
    from torch import Tensor

    from dcs.data import Dataset, Samples, Split


class Part(StrEnum):
    """Which samples of a data set."""

    all = "all"
    train = "train"
    test = "test"


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
    rate: Rate = None,
    hop: Hop = None,
    skip_bad: SkipBad = False,
    overwrite: Overwrite = False,
) -> None:
    """Write the features of data: one row a sample, and which file or row each is."""
    import csv
    import io

    import numpy as np

    import dcs

    index = out.with_suffix(".csv")
    check_output(out, ".npy", overwrite, data)
    check_output(index, ".csv", overwrite, data)
    encoder = dcs.load(run)
    reading = as_trained(run, data, Reading(mixed, size, rate, hop, skip_bad))
    loaded = load_data(data, root, noise, data_seed, label, reading, encoder.shape_)
    windows = loaded.train.starts is not None and loaded.rate is not None
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["row", "split", "source", *(["start_seconds"] if windows else [])])
    features = []
    for name, split in _parts(loaded, part):
        features.append(encoder.transform(split))
        for number in range(len(split)):
            source = split.names[number] if len(split.names) else f"row {number}"
            begin = [] if split.starts is None else [round(int(split.starts[number]) / (loaded.rate or 1), 4)]
            table.writerow([sum(map(len, features[:-1])) + number, name, source, *begin])
    rows = np.concatenate(features)
    write_npy(out, rows)
    write(index, text.getvalue().encode())
    typer.echo(f"{out}: {rows.shape[0]} rows of {rows.shape[1]} features; {index} says which is which")


def denoise(
    run: RunFolder,
    data: Data,
    out: Annotated[
        Path,
        typer.Option(
            help="A .npy file; or, for a folder of images or recordings, a new folder of such; or, for one "
            "recording, a .wav, .flac or .ogg file."
        ),
    ],
    part: Annotated[Part, typer.Option(help="Of a data set with splits.")] = Part.all,
    noise: Noise = None,
    data_seed: DataSeed = 0,
    root: Root = None,
    label: Label = None,
    mixed: MixedSizes = Mixed.error,
    size: Size = None,
    rate: Rate = None,
    hop: Hop = None,
    skip_bad: SkipBad = False,
    overwrite: Overwrite = False,
) -> None:
    """Write a denoised copy of data, on the data's own scale."""
    import numpy as np

    import dcs

    as_array = out.suffix.lower() == ".npy"
    if as_array:
        check_output(out, ".npy", overwrite, data)
    elif is_sound(out):
        check_output(out, out.suffix.lower(), overwrite, data)
    elif is_within(out, data):
        raise ValueError(f"{out} is where the data is: name another folder")
    elif out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file: name a folder, or a .npy file")
    elif out.exists() and any(out.iterdir()) and not overwrite:
        raise ValueError(f"{out} is there already: name a new folder, or pass --overwrite")
    encoder = dcs.load(run)
    trained_rate = trained_on(run).get("rate")
    if trained_rate is not None and not as_array:
        from dcs.cli._sound import denoise_recordings

        given = {"noise": noise, "data-seed": data_seed, "root": root, "label": label, "size": size}
        given |= {"rate": rate, "hop": hop}
        given |= {"part": part is not Part.all, "mixed": mixed is not Mixed.error}
        asked = [f"--{name}" for name, value in given.items() if value]
        if asked:
            raise ValueError(
                f"{', '.join(asked)} must be left out when recordings are written, taken as they are; "
                f"or write to a .npy file"
            )
        typer.echo(denoise_recordings(encoder, trained_rate, Path(data), out, skip_bad))
        return
    reading = as_trained(run, data, Reading(mixed, size, rate, hop, skip_bad))
    loaded = load_data(data, root, noise, data_seed, label, reading, encoder.shape_)
    parts = _parts(loaded, part)
    if as_array:
        denoised = np.concatenate([encoder.denoise(split) for _, split in parts])
        write_npy(out, denoised)
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
                write_png(out / targets[split.names[row]], image)
                count += 1
    typer.echo(f"{out}: {count} images")


def _parts(loaded: "Dataset", part: Part) -> list[tuple[str, "Split"]]:
    splits = {"train": loaded.train, "test": loaded.test}
    chosen = [(name, split) for name, split in splits.items() if split is not None and part in ("all", name)]
    if not chosen:
        raise ValueError(f"{loaded.name} has no {part} split")
    return chosen


def _rows(x: "Tensor | Samples", rows: range) -> "Tensor":
    from dcs.data import Samples

    return x.read(rows) if isinstance(x, Samples) else x[rows.start : rows.stop]

"""The data behind a run, and the samples of it that a page shows."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
import typer
from torch import Tensor

from dcs.cli._data import Mixed, Reading, as_trained, load_data
from dcs.data import Dataset, Samples, Split, read_labels
from dcs.report._runs import Run
from dcs.training import RunError
from dcs.training.run import fingerprint


class RemadeError(ValueError):
    """An experiment trained on what it made of a data set."""


class Shown(NamedTuple):
    """The samples that a page shows."""

    split: Split
    rows: Tensor  # which of the split, in order
    part: str  # train or test
    classes: tuple[str, ...]
    rate: int | None  # of recordings
    remark: str = ""  # if they may be others than those of the training

    def take(self, chosen: Tensor) -> Split:
        """Read some of them: the chosen ones of `rows`."""
        return _rows(self.split, self.rows[chosen])

    def name(self, chosen: int) -> str:
        """The file of a sample, or its row."""
        row = int(self.rows[chosen])
        return str(self.split.names[row]) if len(self.split.names) else f"row {row}"


def find(
    run: Run,
    shape: Sequence[int],
    *,
    data: str | os.PathLike[str] | None,
    labels: str | os.PathLike[str] | None,
    root: str | os.PathLike[str] | None,
    part: str | None,
    points: int,
    seed: int,
) -> Shown:
    """Load the data of a run as it was read for training, and choose what is shown of it."""
    loaded = _load(run, tuple(shape), data, root)
    remark = "" if data is None and root is None else _compare(run, loaded, data)
    if labels is not None:
        loaded = _labelled(loaded, Path(labels), part)
    splits = {"test": loaded.test, "train": loaded.train}
    if labels is not None:
        splits = {"train": loaded.train}
    part = part or next(name for name, split in splits.items() if split is not None)
    split = splits.get(part)
    if split is None:
        raise ValueError(f"{loaded.name} has no {part} split: leave part (--part) out")
    rows = torch.arange(len(split))
    if len(split) > points:
        generator = torch.Generator().manual_seed(seed)
        rows = torch.randperm(len(split), generator=generator)[:points].sort().values
    return Shown(split, rows, part, tuple(map(str, loaded.classes)), loaded.rate, remark)


def _load(run: Run, shape: tuple[int, ...], data: str | os.PathLike[str] | None, root: Any) -> Dataset:
    known = run.config.get("data")
    known = known if isinstance(known, dict) else {}
    source = known.get("source") if data is None else os.fspath(data)
    if source is None:
        raise RunError(f"{run.folder} does not say what it was trained on: name it with data (--data)")
    noise = known.get("noise")
    if isinstance(noise, int | float):  # as experiments write it
        noise = f"gaussian:{noise}" if noise else None
    skip_bad = bool(known.get("skipped"))
    if known.get("rate") is None:
        reading = Reading(Mixed(known.get("mixed") or "error"), known.get("size"), skip_bad=skip_bad)
    else:
        reading = as_trained(run.folder, source, Reading(skip_bad=skip_bad))
    place = root or known.get("root")
    own = None if place is None else Path(place)
    try:
        loaded = load_data(source, own, noise, known.get("seed") or 0, known.get("label"), reading)
    except typer.BadParameter as error:
        raise RunError(f"{run.folder} says of its data what cannot be: {error.message}") from error
    if loaded.shape != shape and data is None and "method" in run.config:
        raise RemadeError(
            f"The experiment made its samples, of shape {shape}, from {source} itself: they cannot be shown "
            f"here."
        )
    if loaded.shape != shape:
        raise ValueError(
            f"{source} has samples of shape {loaded.shape}, but {run.folder} was trained on {shape}: name "
            f"the data it was trained on, or other data of that shape, with data (--data)"
        )
    return loaded


def _compare(run: Run, loaded: Dataset, data: str | os.PathLike[str] | None) -> str:
    """Say of data that was named whether it is what the run was trained on, unless it is."""
    # What an experiment has a fingerprint of is what it made of the data, such as a choice of samples.
    about = run.config.get("data") if "method" not in run.config else None
    trained_on = about.get("fingerprint") if isinstance(about, dict) else None
    name = loaded.name if data is None else os.fspath(data)
    if trained_on is None:
        known = f"Shown are samples of {name}; whether it was trained on them is not known."
        return "" if data is None else known
    if fingerprint(loaded.train.x) == trained_on:
        return ""
    return f"Shown are samples of {name}, which are not those that it was trained on."


def _labelled(loaded: Dataset, path: Path, part: str | None) -> Dataset:
    """The data set with the labels of a file, which are those of its training split."""
    if part == "test":
        raise ValueError("labels are those of the samples to learn from: leave part (--part) out")
    y, classes = read_labels(path)
    if len(y) != len(loaded.train):
        raise ValueError(f"labels {path} has {len(y)} labels, but the data has {len(loaded.train)} samples")
    return replace(loaded, train=replace(loaded.train, y=y), classes=classes)


def _rows(split: Split, rows: Tensor) -> Split:
    x = split.x.read(rows.tolist()) if isinstance(split.x, Samples) else split.x[rows]
    y, clean, lengths = (
        None if value is None else value[rows] for value in (split.y, split.clean, split.lengths)
    )
    return Split(x, y, clean, lengths=lengths)

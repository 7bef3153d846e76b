"""The data of a run, and the samples of it that a page shows."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dcs._naming import argument
from dcs.data import Dataset, Source, Split, fingerprint, read_labels, windowed
from dcs.runs import RunRecord
from dcs.training import RunError

PathLike = str | os.PathLike[str]


class ReportOptions(NamedTuple):
    """Options of `dcs.report.write` on the samples to show."""

    data: PathLike | None = None
    labels: PathLike | None = None
    root: PathLike | None = None
    part: str | None = None
    map: str | None = None
    points: int = 10_000
    clusters: int | None = None
    seed: int = 0


class Selection(NamedTuple):
    """The samples that a page shows."""

    split: Split
    rows: Tensor  # their indices in the split, ascending
    part: str  # train or test
    classes: tuple[str, ...]
    rate: int | None  # sampling rate of recordings
    remark: str = ""  # if they may not be those of the training

    def take(self, chosen: Tensor) -> Split:
        """Read some of the samples, by their positions in `rows`."""
        return self.split.take(self.rows[chosen])

    def name(self, chosen: int) -> str:
        """Return the file of a sample, or its row."""
        row = int(self.rows[chosen])
        return str(self.split.names[row]) if len(self.split.names) else f"row {row}"

    def label_names(self, part: Split) -> list[str] | None:
        """Return the names of the labels of some samples, if they have any."""
        if part.y is None:
            return None
        return [self.classes[k] if k < len(self.classes) else str(k) for k in part.y.tolist()]


def select(folder: Path, record: RunRecord, options: ReportOptions) -> Selection:
    """Load the data of a run as it was read for training, and choose the samples to show."""
    loaded = _load(folder, record, options)
    remark = "" if options.data is None and options.root is None else _compare(record, loaded, options.data)
    splits = {"test": loaded.test, "train": loaded.train}
    if options.labels is not None:
        loaded = _with_labels(loaded, Path(options.labels), options.part)
        splits = {"train": loaded.train}
    part = options.part or next(name for name, split in splits.items() if split is not None)
    split = splits.get(part)
    if split is None:
        raise ValueError(f"{loaded.name} has no {part} split: leave {argument('part')} out")
    rows = torch.arange(len(split))
    if len(split) > options.points:
        generator = torch.Generator().manual_seed(options.seed)
        rows = torch.randperm(len(split), generator=generator)[: options.points].sort().values
    return Selection(split, rows, part, tuple(map(str, loaded.classes)), loaded.rate, remark)


def _load(folder: Path, record: RunRecord, options: ReportOptions) -> Dataset:
    changed: dict[str, Any] = {}
    if options.data is not None:
        changed = {"data": Source.of(options.data).data, "root": None}
    if options.root is not None:
        changed["root"] = str(Path(options.root).expanduser().absolute())
    trained = record.source
    if trained is None and options.data is None:
        raise RunError(f"{folder} does not record what it was trained on: give it with {argument('data')}")
    source = Source(**changed) if trained is None else trained.model_copy(update=changed)
    if options.data is not None and trained is not None:
        source = source.reading_as(trained, record.shape[0])
    loaded, window = source.load(), record.training.window
    if window is not None:
        test = None if loaded.test is None else windowed(loaded.test, window)
        loaded = replace(loaded, train=windowed(loaded.train, window), test=test)
    if loaded.shape != record.shape:
        raise ValueError(
            f"{source.data} has samples of shape {loaded.shape}, but {folder} was trained on {record.shape}: "
            f"give the training data, or other data of that shape, with {argument('data')}"
        )
    return loaded


def _compare(record: RunRecord, loaded: Dataset, data: PathLike | None) -> str:
    """Return a remark if data that was given is not the training data, or may not be."""
    name = loaded.name if data is None else os.fspath(data)
    if record.fingerprint is None:
        verb = "" if data is None else "may not be"
    else:
        verb = "" if fingerprint(loaded.train.x) == record.fingerprint else "is not"
    return f"The samples shown are those of {name}, which {verb} the training data." if verb else ""


def _with_labels(loaded: Dataset, path: Path, part: str | None) -> Dataset:
    """Return the data set with labels from a file, which are those of its training split."""
    if part == "test":
        raise ValueError(f"labels are those of the training samples: leave {argument('part')} out")
    y, classes = read_labels(path)
    if len(y) != len(loaded.train):
        raise ValueError(f"labels {path} has {len(y)} labels, but the data has {len(loaded.train)} samples")
    return replace(loaded, train=replace(loaded.train, y=y), classes=classes)

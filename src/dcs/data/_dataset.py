"""A data set with its splits, in memory or read from disk batch by batch."""

import hashlib
import multiprocessing
import operator
import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor
from torch.utils.data import Dataset as TorchDataset

if TYPE_CHECKING:
    from dcs.data.windows import Items


class DataError(ValueError):
    """A file, folder or array cannot be used as data; the message says which, why and what to do."""


class DataWarning(UserWarning):
    """The data can be used, but may not be what was meant."""


class Samples(TorchDataset[Tensor]):
    """Samples that stay on disk and are read on demand."""

    shape: tuple[int, ...]  # (n, ...), as a tensor of all samples would have it

    @abstractmethod
    def read(self, indices: Sequence[int]) -> Tensor:
        """Read some samples, (len(indices), ...) in float32, finite."""

    def default_workers(self) -> int:
        """Return the default number of processes that read ahead: 0 in a process that is one of several."""
        return 0 if multiprocessing.parent_process() else min(4, os.cpu_count() or 1)

    def for_epoch(self, seed: int) -> "Samples":  # noqa: ARG002
        """Return the samples of an epoch; the same in each, unless they are drawn at random."""
        return self

    def groups(self) -> Tensor | None:
        """Return a number for each sample, equal for those that belong together; None if none do."""
        return None

    def shuffled(self, rows: Tensor, generator: Generator) -> Tensor:
        """Return rows in the random order in which they are read."""
        return rows[torch.randperm(len(rows), generator=generator)]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: int) -> Tensor:
        index = operator.index(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range: there are {len(self)} samples")
        return self.read([index % len(self)])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Tensor]:
        """Read a batch at once; torch's DataLoader calls this where it exists."""
        return list(self.read(indices))


@dataclass(frozen=True, eq=False)
class Split:
    """Some samples of a data set, with labels where they are known.

    Args:
        x: (n, ...) in float32: a tensor, or `Samples` where the data does not fit in memory.
        y: Labels, (n,) in int64, from 0.
        clean: x without the noise that was added, if any was.
        names: Name of each sample, usually its file; empty where samples are rows of an array.
        lengths: Number of entries along the first axis before the padding, (n,), where samples are padded.
        items: Pictures, recordings or volumes of any size, where samples are windows of them; `x` is then the
            centre of each.
    """

    x: Tensor | Samples
    y: Tensor | None = None
    clean: Tensor | None = None
    names: Sequence[str] = ()
    lengths: Tensor | None = None
    items: "Items | None" = None

    def __len__(self) -> int:
        return self.x.shape[0]

    def take(self, rows: Tensor | Sequence[int]) -> "Split":
        """Return some samples, in memory, with all that is known of them.

        Args:
            rows: Their indices, (m,), or a boolean mask, (n,).
        """
        index = self._index(rows)
        y, clean, lengths = (
            None if part is None else part[index] for part in (self.y, self.clean, self.lengths)
        )
        names = [self.names[row] for row in index.tolist()] if len(self.names) else ()
        items = None if self.items is None else self.items.take(index.tolist())
        return Split(self.read(index), y, clean, names, lengths, items)

    def read(self, rows: Tensor | Sequence[int]) -> Tensor:
        """Return `x` of some samples, in memory."""
        index = self._index(rows)
        return self.x.read(index.tolist()) if isinstance(self.x, Samples) else self.x[index]

    def subset(self, size: int) -> "Split":
        """Return so many samples, drawn at random and the same every time; all if there are no more."""
        if size >= len(self):
            return self
        return self.take(torch.randperm(len(self), generator=torch.Generator().manual_seed(0))[:size])

    def _index(self, rows: Tensor | Sequence[int]) -> Tensor:
        index = torch.as_tensor(rows).cpu()
        if index.dtype == torch.bool:
            return index.nonzero().squeeze(1)
        return index.to(torch.int64)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set.

    Args:
        name: Name of a known data set, or the file or folder it was read from.
        train: Samples to learn from; all samples, where the data has no test split.
        test: Held-out samples.
        classes: Name of each label.
        citation: Publication to cite.
        licence: Licence, in a few words.
        location: File or folder it was read from.
        rate: Sample rate of recordings in Hz.
        skipped: Files that were left out, and the problem of each.
    """

    name: str
    train: Split
    test: Split | None = None
    classes: tuple[str, ...] = ()
    citation: str = field(default="", repr=False)
    licence: str = field(default="", repr=False)
    location: Path | None = None
    rate: int | None = None
    skipped: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return tuple(self.train.x.shape[1:])

    def __repr__(self) -> str:
        parts = [f"train={len(self.train)}"]
        if self.test is not None:
            parts.append(f"test={len(self.test)}")
        if self.classes:
            parts.append(f"classes={len(self.classes)}")
        return f"Dataset({self.name!r}, shape={self.shape}, {', '.join(parts)})"


def check_lengths(lengths: object, shape: Sequence[int]) -> None:
    """Require one length per sample, each from 1 to that of the samples' first axis."""
    if not isinstance(lengths, Tensor) or lengths.is_floating_point() or lengths.shape != (shape[0],):
        raise ValueError(f"lengths must be {shape[0]} integers, one per sample, got {lengths!r:.60}")
    if int(lengths.min()) < 1 or int(lengths.max()) > shape[1]:
        raise ValueError(
            f"lengths must be from 1 to {shape[1]}, the samples' first axis, got {int(lengths.min())} to "
            f"{int(lengths.max())}"
        )


def valid_entries(lengths: Tensor, shape: Sequence[int]) -> Tensor:
    """Return a mask of the entries before the padding, (n, shape[0], 1, ...), for samples of a shape."""
    number = torch.arange(shape[0], device=lengths.device)
    return (number < lengths[:, None]).reshape(len(lengths), shape[0], *[1] * (len(shape) - 1))


def fingerprint(x: Tensor | Samples) -> str:
    """Return a hash that tells one set of data from another.

    It covers all samples in memory, or 256 samples, evenly spread, of data on disk.
    """
    if isinstance(x, Samples):
        x = x.read(range(0, x.shape[0], -(-x.shape[0] // 256)))
    return hashlib.sha256(x.contiguous().cpu().float().numpy().data).hexdigest()[:16]


def is_resident(float_count: int, resident: bool | None) -> bool:
    """Return whether to hold so many float32 numbers in memory: by default up to a quarter of it."""
    return 4 * float_count <= _physical_memory() // 4 if resident is None else resident


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not a POSIX system
        return 8 * 2**30


def to_labels(y: object, classes: int, where: str) -> Tensor:
    """Convert labels to int64 and require each to be one of the classes."""
    try:
        labels = torch.as_tensor(y).to(torch.int64).reshape(-1)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise DataError(f"{where} holds labels that are not class numbers ({error}): replace it") from error
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        wrong = int(labels.min()) if int(labels.min()) < 0 else int(labels.max())
        raise DataError(
            f"{where} holds the label {wrong}, but there are {classes} classes, 0 to {classes - 1}: "
            f"the file is corrupted or of another data set; replace it"
        )
    return labels

"""Choice of the samples to inspect, and reading them."""

import math
from typing import Any

import torch
from torch import Tensor

from dcs._progress import progress
from dcs.data import (
    Dataset,
    LogMel,
    RandomWindows,
    Samples,
    Split,
    check_shortest,
    load,
    warn_of_silence,
)
from dcs.noise.level import default_ndim

_ENTRIES = 2**22  # inspected, unless samples are so large that these would be few of them
_FEW = 64
_LONGEST = {1: 2**17, 2: 1024}  # larger samples are cropped
_COLUMNS = 512
_RECORDINGS = 256  # whose spectrograms are inspected; all would take long


def as_split(x: Any) -> Split:
    """Return samples of any kind as a split; the training split of a data set."""
    if isinstance(x, Split):
        return x
    if isinstance(x, Dataset):
        return x.train
    if x is None or isinstance(x, bytes | dict):
        raise TypeError(f"x must be an array, a tensor, data of dcs.data or a path, got {type(x).__name__}")
    return load(x).train


def windows_of(split: Split) -> tuple[Split, tuple[str, ...]]:
    """Return windows of items of any size as samples, with a note; other samples as they are."""
    if split.items is None:
        return split, ()
    window = tuple(split.x.shape[-split.items.ndim :])
    windows = RandomWindows(split.items, window)
    note = f"Windows of {' x '.join(map(str, window))} values are inspected, at random places."
    return Split(windows, items=split.items), (note,)


def choose_samples(split: Split, most: int, domain: str | None) -> tuple[Tensor, int, tuple[str, ...]]:
    """Return at most `most` samples, evenly spread, the number of axes with neighbours, and notes.

    Of samples that end in padding, those of the median length or more are taken and cut to it. Silent
    waveforms are left out. Very large samples are cropped to their centre.
    """
    notes: tuple[str, ...] = ()
    rows, shape = torch.arange(len(split)), tuple(split.x.shape[1:])
    if split.lengths is not None:
        median = int(split.lengths.median())
        rows, shape = rows[split.lengths.cpu() >= median], (median, *shape[1:])
        notes = (f"Some samples end in padding: the {len(rows)} of length {median} or more are inspected.",)
    enough = max(_FEW, _ENTRIES // math.prod(shape))
    if enough < min(most, len(rows)):
        count = f"{enough:,} samples of this size"
        notes += (f"{count} are inspected, about {_ENTRIES / 1e6:.0f} million values.",)
    rows = rows[spread_rows(len(rows), min(most, enough))]
    x = read_audible(split, rows)[0] if domain == "waveform" else read(split.x, rows)
    x = whole = x[:, : shape[0]]
    ndim = 1 if domain == "waveform" else default_ndim(shape)
    for axis in range(x.ndim - ndim, x.ndim):
        length = min(x.shape[axis], _LONGEST[ndim])
        x = x.narrow(axis, (x.shape[axis] - length) // 2, length)
    if x.shape != whole.shape:
        centre = " x ".join(map(str, x.shape[-ndim:]))
        notes += (f"Only the centre of each sample is inspected: {centre} values.",)
    return x, ndim, notes


def read_audible(split: Split, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Read those of some recordings that are not silent, and warn of the others; return their rows, too."""
    x = read(split.x, rows)
    silent = (x.flatten(1).amin(1) == x.flatten(1).amax(1)).cpu()
    if not isinstance(split.x, RandomWindows):  # of which some are silent passages
        numbers = rows[silent].tolist()
        warn_of_silence([split.names[row] if len(split.names) else f"row {row}" for row in numbers])
    return (x, rows) if bool(silent.all()) else (x[~silent], rows[~silent])


def spread_rows(samples: int, most: int) -> Tensor:
    """Return at most `most` rows of so many samples, evenly spread."""
    count = min(samples, most)
    return torch.arange(count) * samples // count


def read(x: Tensor | Samples, rows: Tensor) -> Tensor:
    """Read some samples; show the progress of reading from disk."""
    if isinstance(x, Tensor):
        return x[rows.to(x.device)]
    parts = []
    with progress("reading samples", len(rows)) as advance:
        for some in rows.split(256):
            parts.append(x.read(some.tolist()))
            advance(len(some))
    return torch.cat(parts)


def spectrograms(recordings: Dataset, most: int) -> Split:
    """Return the log-mel spectrograms of some recordings, as training would see them."""
    assert recordings.rate is not None  # noqa: S101
    front_end, split = LogMel(recordings.rate), recordings.train
    check_shortest(recordings, front_end.frame or 0)
    x, rows = read_audible(split, spread_rows(len(split), min(most, _RECORDINGS)))
    some = Split(x, lengths=None if split.lengths is None else split.lengths[rows])
    return front_end.apply(Dataset(recordings.name, some, rate=recordings.rate))[0].train


def is_ordered(x: Tensor) -> bool:
    """Return whether neighbouring columns of (n, d) are more strongly correlated than other columns.

    Rows of more than 512 entries are assumed to be signals.
    """
    if x.ndim != 2 or x.shape[1] > _COLUMNS:
        return True
    n, d = x.shape
    if d < 8 or n < 20:
        return False
    moved = x.double() - x.double().mean(0)
    scale = moved.square().sum(0).sqrt()
    moved, scale = moved[:, scale > 0], scale[scale > 0]
    correlation = (moved.mT @ moved / scale / scale[:, None]).abs()
    if len(correlation) < 8:
        return False
    beside = float(correlation.diagonal(1).mean())
    others = float(correlation.triu(2).sum() / ((len(correlation) - 1) * (len(correlation) - 2) / 2))
    more = beside > 1.5 * others and beside - others > 4 / math.sqrt(n * len(correlation))
    return more or 1 - beside < 0.8 * (1 - others)

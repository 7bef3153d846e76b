"""Which samples are looked at, and how much of them."""

import math
from typing import Any

import torch
from torch import Tensor

from dcs._progress import progress
from dcs.data import Dataset, Samples, Split, load, warn_of_silence

_ENTRIES = 2**22  # looked at, unless samples are so large that these would be few of them
_FEW = 64
_LONGEST = {1: 2**17, 2: 1024}  # of larger samples the middle is looked at
_COLUMNS = 512


def as_split(x: Any) -> Split:
    """Whatever holds samples as a split; of a data set what there is to learn from."""
    if isinstance(x, Split):
        return x
    if isinstance(x, Dataset):
        return x.train
    if isinstance(x, Samples):
        return Split(x)
    if x is None or isinstance(x, bytes | dict):
        raise TypeError(f"x must be an array, a tensor, data of dcs.data or a path, got {type(x).__name__}")
    return load(x).train


def choose(split: Split, most: int, *, waveforms: bool = False) -> tuple[Tensor, tuple[str, ...]]:
    """Some samples, evenly spread, and what to say of that.

    Of samples that end in padding, those of the usual length or more are taken, cut to it. Silent
    waveforms are left out.
    """
    notes: tuple[str, ...] = ()
    rows, shape = torch.arange(len(split)), tuple(split.x.shape[1:])
    if split.lengths is not None:
        usual = int(split.lengths.median())
        rows, shape = rows[split.lengths.cpu() >= usual], (usual, *shape[1:])
        notes = (f"Of samples that end in padding, {len(rows)} of length {usual} or more are looked at.",)
    enough = max(_FEW, _ENTRIES // math.prod(shape))
    count = min(most, len(rows), enough)
    if enough < min(most, len(rows)):
        notes += (f"{enough:,} samples of this size, about {_ENTRIES / 1e6:.0f} million values, are enough.",)
    rows = rows[pick(len(rows), count)]
    x = heard(split, rows)[0] if waveforms else read(split.x, rows)
    return x[:, : shape[0]], notes


def heard(split: Split, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Read some recordings: those that are not silent, of which a warning names one, and their numbers."""
    x = read(split.x, rows)
    silent = (x.flatten(1).amin(1) == x.flatten(1).amax(1)).cpu()
    if split.starts is None:  # a silent passage is nothing to speak of
        numbers = rows[silent].tolist()
        warn_of_silence([split.names[row] if len(split.names) else f"row {row}" for row in numbers])
    return (x, rows) if bool(silent.all()) else (x[~silent], rows[~silent])


def pick(samples: int, most: int) -> Tensor:
    """The numbers of at most so many samples, evenly spread."""
    count = min(samples, most)
    return torch.arange(count) * samples // count


def read(x: Tensor | Samples, rows: Tensor) -> Tensor:
    """Read some samples, and show how far that is where they come from disk."""
    if isinstance(x, Tensor):
        return x[rows.to(x.device)]
    parts = []
    with progress("reading samples", len(rows)) as advance:
        for some in rows.split(256):
            parts.append(x.read(some.tolist()))
            advance(len(some))
    return torch.cat(parts)


def middle(x: Tensor, ndim: int) -> tuple[Tensor, tuple[str, ...]]:
    """The middle of very large samples, and what to say of that."""
    longest, whole = _LONGEST[ndim], x.shape
    for axis in range(x.ndim - ndim, x.ndim):
        if x.shape[axis] > longest:
            x = x.narrow(axis, (x.shape[axis] - longest) // 2, longest)
    if x.shape == whole:
        return x, ()
    return x, (f"Of each sample the middle is looked at, {' x '.join(map(str, x.shape[-ndim:]))} entries.",)


def in_order(x: Tensor) -> bool:
    """Whether neighbouring columns of (n, d) are more alike than others: else they are in no order.

    Long rows are taken for signals.
    """
    if x.ndim != 2 or x.shape[1] > _COLUMNS:
        return True
    n, d = x.shape
    if d < 8 or n < 20:
        return False
    moved = x.double() - x.double().mean(0)
    scale = moved.square().sum(0).sqrt()
    moved, scale = moved[:, scale > 0], scale[scale > 0]
    like = (moved.mT @ moved / scale / scale[:, None]).abs()
    if len(like) < 8:
        return False
    beside = float(like.diagonal(1).mean())
    others = float(like.triu(2).sum() / ((len(like) - 1) * (len(like) - 2) / 2))
    more = beside > 1.5 * others and beside - others > 4 / math.sqrt(n * len(like))
    return more or 1 - beside < 0.8 * (1 - others)

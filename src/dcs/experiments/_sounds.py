"""Sounds as Expt3 sees them: standardised log-mel spectrograms, in five folds, of ESC-50 or of made tones."""

import os
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from dcs import data
from dcs._checks import check_choice
from dcs.data import LogMel

FOLDS = ("1", "2", "3", "4", "5")
RATE = 44_100
TONES = data.CATALOGUE["tones"].train + data.CATALOGUE["tones"].test


class Sounds(NamedTuple):
    """All recordings, in the order of their names."""

    decibels: Tensor  # (n, frames, mels)
    y: Tensor
    folds: Tensor
    names: list[str]
    classes: tuple[str, ...]


def load_sounds(
    fold: int = 5, root: str | os.PathLike[str] | None = None, front_end: LogMel | None = None
) -> tuple[data.Dataset, LogMel]:
    """Spectrograms of ESC-50, standardised by its training split.

    The recordings are read once for all folds, a few at a time: in memory are their spectrograms (211 MB for
    the paper's), and those of one fold.

    Args:
        fold: The test split.
        root: As for `dcs.data.load`.
        front_end: Makes the spectrograms; by default the paper's. Its statistics are found anew.

    Returns:
        The data set, and the LogMel with the statistics.
    """
    check_choice("fold", str(fold), FOLDS)
    front_end = LogMel(RATE) if front_end is None else front_end
    sounds = _read(None if root is None else str(root), front_end)
    return _split("esc50", sounds, fold, front_end)


def make_tones(fold: int = 5) -> tuple[data.Dataset, LogMel]:
    """Return spectrograms of the data set `tones`, which stands in for ESC-50.

    Args:
        fold: Test fold, of five.
    """
    check_choice("fold", str(fold), FOLDS)
    tones = data.load("tones", fold=int(fold))
    assert tones.rate is not None  # noqa: S101
    return LogMel(tones.rate).apply(tones)


def _split(name: str, sounds: Sounds, fold: int, front_end: LogMel) -> tuple[data.Dataset, LogMel]:
    test = sounds.folds == int(fold)
    fitted = front_end.fit_decibels(sounds.decibels[~test])

    def split(chosen: Tensor) -> data.Split:
        names = [name for name, kept in zip(sounds.names, chosen.tolist(), strict=True) if kept]
        return data.Split(fitted.standardised(sounds.decibels[chosen]), sounds.y[chosen], names=names)

    return data.Dataset(name, split(~test), split(test), sounds.classes, rate=front_end.rate), fitted


@lru_cache(maxsize=1)
def _read(root: str | None, front_end: LogMel) -> Sounds:
    loaded = data.load("esc50", root=root, resident=False)
    assert loaded.test is not None  # noqa: S101
    plain = LogMel(**{**front_end.describe(), "standardise": "none", "mean": None, "deviation": None})
    parts = (loaded.train, loaded.test)
    decibels, y = [], []
    for part in parts:
        spectrograms = plain.of(part.x)
        assert isinstance(spectrograms, Tensor)  # noqa: S101
        assert part.y is not None  # noqa: S101
        decibels.append(spectrograms)
        y.append(part.y)
    names = [name for part in parts for name in part.names]
    order = sorted(range(len(names)), key=names.__getitem__)
    ordered = [names[row] for row in order]
    # A file is called FOLD-SOURCE-TAKE-CLASS.wav.
    folds = torch.tensor([int(name.partition("-")[0]) for name in ordered])
    return Sounds(torch.cat(decibels)[order], torch.cat(y)[order], folds, ordered, loaded.classes)

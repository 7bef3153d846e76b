"""Data sets and people's own data, in memory or from disk, with noise on top.

`load` gives a `Dataset`, whose splits hold tensors, or `Samples` that are read from disk; `Batches` makes
batches of either. `LogMel` makes spectrograms of recordings.
"""

from dcs.data._batches import Batch, Batches
from dcs.data._catalogue import CATALOGUE, Entry
from dcs.data._dataset import DataError, Dataset, DataWarning, Samples, Split, check_lengths, valid_entries
from dcs.data._download import DownloadError
from dcs.data._load import load
from dcs.data._locate import find, obtain
from dcs.data._log_mel import LogMel

__all__ = [
    "CATALOGUE",
    "Batch",
    "Batches",
    "DataError",
    "DataWarning",
    "Dataset",
    "DownloadError",
    "Entry",
    "LogMel",
    "Samples",
    "Split",
    "check_lengths",
    "find",
    "load",
    "obtain",
    "valid_entries",
]

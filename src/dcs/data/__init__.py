"""Data sets and people's own data, in memory or from disk, with noise on top.

`Source` describes data and how it is read; `load` reads it and returns a `Dataset`, whose splits hold
tensors, or `Samples` that are read from disk. `Batches` makes batches of either. `LogMel` computes
spectrograms of recordings.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dcs.data._batches import Batch, Batches
from dcs.data._catalogue import CATALOGUE, Entry
from dcs.data._dataset import (
    DataError,
    Dataset,
    DataWarning,
    Samples,
    Split,
    check_lengths,
    fingerprint,
    valid_entries,
)
from dcs.data._download import DownloadError
from dcs.data._folders import scan_recordings
from dcs.data._images import IMAGE_SUFFIXES
from dcs.data._layouts import Layout, Loaded
from dcs.data._load import load
from dcs.data._locate import find, obtain
from dcs.data._log_mel import LogMel, Spectrograms
from dcs.data._map import map_batches, rows_per_batch
from dcs.data._recordings import (
    AUDIO_SUFFIXES,
    RecordingItems,
    check_shortest,
    recording_window,
    warn_of_silence,
    write_recording,
)
from dcs.data._tables import read_labels
from dcs.data.windows import (
    CentralWindows,
    Items,
    ListItems,
    RandomWindows,
    Units,
    count_windows,
    default_window,
    is_large,
    measure_units,
    paired_items,
    windowed,
)

if TYPE_CHECKING:
    from dcs.data._reading import NoiseSpec, Reading, parse_label
    from dcs.data.source import Source

__all__ = [
    "AUDIO_SUFFIXES",
    "CATALOGUE",
    "IMAGE_SUFFIXES",
    "Batch",
    "Batches",
    "CentralWindows",
    "DataError",
    "DataWarning",
    "Dataset",
    "DownloadError",
    "Entry",
    "Items",
    "Layout",
    "ListItems",
    "Loaded",
    "LogMel",
    "NoiseSpec",
    "RandomWindows",
    "Reading",
    "RecordingItems",
    "Samples",
    "Source",
    "Spectrograms",
    "Split",
    "Units",
    "check_lengths",
    "check_shortest",
    "count_windows",
    "default_window",
    "find",
    "fingerprint",
    "is_large",
    "load",
    "map_batches",
    "measure_units",
    "obtain",
    "paired_items",
    "parse_label",
    "read_labels",
    "recording_window",
    "rows_per_batch",
    "scan_recordings",
    "valid_entries",
    "warn_of_silence",
    "windowed",
    "write_recording",
]

_LAZY = {"NoiseSpec": "_reading", "Reading": "_reading", "parse_label": "_reading", "Source": "source"}


def __getattr__(name: str) -> Any:
    """Import what needs pydantic, which takes a while, on first use."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)

"""`load`: a known data set, or one's own data, by one call."""

import glob
import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor
from torch.utils.data import Dataset as TorchDataset

from dcs._checks import check_bool, check_integer
from dcs._naming import argument
from dcs.data._arranged import from_axes
from dcs.data._arrays import as_array, from_array, open_npy, open_npz, scale_of
from dcs.data._catalogue import CATALOGUE, Entry
from dcs.data._dataset import DataError, Dataset, DataWarning, Samples, Split, to_labels
from dcs.data._folders import read_folder, read_paths
from dcs.data._images import IMAGE_SUFFIXES
from dcs.data._items import from_torch
from dcs.data._locate import Found, obtain
from dcs.data._noisy import Law, Noise, freshened, with_noise
from dcs.data._recordings import AUDIO_SUFFIXES
from dcs.data._stores import HDF5_SUFFIXES, ZARR_SUFFIX, is_store, open_stored
from dcs.data._tables import Table, from_frame, number_labels, read_csv, read_parquet
from dcs.data.windows import CentralWindows, ListItems, default_window

if TYPE_CHECKING:
    from dcs.data._reading import Reading

Array = np.ndarray[Any, np.dtype[Any]]


def load(
    name: object,
    root: str | os.PathLike[str] | None = None,
    download: bool = True,
    noise: Noise | None = None,
    seed: int = 0,
    *,
    resident: bool | None = None,
    mixed: str = "auto",
    size: str | int | tuple[int, ...] | None = None,
    axes: str | None = None,
    label: str | int | bool | None = None,
    fold: int | None = None,
    rate: int | None = None,
    skip_bad: bool = False,
) -> Dataset:
    """Load a known data set, or data of one's own.

    Args:
        name: Name of a known data set (`dcs datasets list` shows them); path of a .npy, .npz, .csv or
            .parquet file, of an array in an HDF5 file or Zarr store ("file.h5::/path/to/array"; the file
            alone if it holds one array), of a folder of images or recordings (write ./mnist for one named
            like a known data set), or of one image or recording; a pattern such as "photos/*.png", or a list
            of paths; or an array, a tensor, or a `torch.utils.data.Dataset` of samples or of tuples that
            begin with one.
        root: Folder in which root/NAME holds the files of a known data set; no other folder is searched. By
            default DCS_DATA, the user's cache, ./data and /usr/share/datasets are searched.
        download: Whether to download what is not on disk.
        noise: Noise to add, once, to both splits, e.g. ("gaussian", 0.5) or "gaussian:0.5", see
            `dcs.noise.add`. The data without it is kept in `clean`. "gaussian:0.5:clip" clips noisy values to
            [0, 1]; with "gaussian:0.5:fresh" training draws the noise anew in each epoch.
        seed: Random seed of the noise.
        resident: Whether to hold the data in memory (True) or to read it from disk batch by batch (False). By
            default it is held in memory up to a quarter of the machine's. A `torch.utils.data.Dataset` is
            held in memory only if True, since that would freeze what it draws at random.
        mixed: What to do with files of different sizes: `windows` (learn from windows of `size`, whatever the
            size of a file), `crop` (to the centre), `resize` (images), `pad` (recordings, with zeros, which
            are never learned from), or `error`. `auto` is `windows` where sizes differ.
        size: Target size: (height, width), (depth, height, width) for windows of volumes, or one number for
            all, or the length of recordings in samples; by default the smallest found, the largest to pad to,
            and for windows 64 x 64 pixels, or at most 5 seconds.
        axes: Meaning of the axes of TIFF files and arrays, in order: letters from STCZYX, where Z, Y and X
            are space, C channels, and S and T count samples; by default as the file says.
        label: Label column of a table or DataFrame, by name or number, or array of an .npz; False if there is
            none although a column is named like one.
        fold: Test fold of data that comes in folds (esc50, tones); by default 5.
        rate: Target sample rate of recordings in Hz; by default the one that all have.
        skip_bad: Whether to leave out files of a folder that cannot be used, with a warning that lists them.

    Returns:
        The data set. Own data is all in `train`, and `test` is None, unless a folder contains train and test,
        or an .npz x_train and x_test.

    Raises:
        DataError: The data is corrupted, or not what it should be.
        DownloadError: The data could not be downloaded.

    Example:
        >>> load("digits", noise=("gaussian", 0.3))
        Dataset('digits', shape=(8, 8), train=1200, test=597, classes=10)
        >>> load(np.zeros((5, 3)))
        Dataset('array', shape=(3,), train=5)
    """
    from dcs.data._reading import Reading  # imports pydantic, which takes a while

    options: dict[str, Any] = {
        "mixed": mixed,
        "size": size,
        "axes": axes,
        "label": label,
        "fold": fold,
        "rate": rate,
    }
    reading = Reading(**options, skip_bad=skip_bad)
    check_integer("seed", seed, at_least=0)
    check_bool("download", download)
    check_bool("resident", resident, optional=True)
    law = None if noise is None else Law.of(noise)
    known = isinstance(name, str) and name in CATALOGUE
    used = ("root", "fold" if CATALOGUE[str(name)].folds else "") if known else _options_of(name)
    for option in [*reading.given(), *(["root"] if root is not None else [])]:
        if option not in used:
            raise ValueError(f"{argument(option)} is not applicable to {_describe(name)}: leave it out")
    if known:
        data = _known(CATALOGUE[str(name)], obtain(CATALOGUE[str(name)], root, download), reading, resident)
    else:
        data = _own(name, reading, resident)
    if law is None:
        return data
    data = with_noise(data, law, seed)
    return replace(data, train=freshened(data.train, law)) if law.fresh else data


def _known(entry: Entry, found: Found, reading: "Reading", resident: bool | None) -> Dataset:
    train, test, classes, rate = found.layout.read(found.files, reading, resident)
    location = found.folder if found.files else None
    if (len(train), len(test)) != (entry.train, entry.test):
        warnings.warn(
            f"{location} holds {len(train)} + {len(test)} samples, but {entry.title} has {entry.train} + "
            f"{entry.test}: it is incomplete, or not what its name says",
            DataWarning,
            stacklevel=3,
        )
    return Dataset(entry.name, train, test, classes, entry.citation, entry.licence, location, rate)


def _own(source: object, reading: "Reading", resident: bool | None) -> Dataset:
    label = reading.label
    if isinstance(source, TorchDataset) and not isinstance(source, Samples):
        return from_torch(source, resident)
    if isinstance(source, Samples):
        return Dataset(type(source).__name__, Split(source))
    if hasattr(source, "columns") and hasattr(source, "iloc"):
        return _from_table("DataFrame", from_frame(source, label), resident)
    if source is None or isinstance(source, bytes | dict | Dataset):
        raise TypeError(
            f"name must be a known data set, a path, an array or a torch Dataset, got {type(source).__name__}"
        )
    if _are_paths(source):
        return read_paths([_own_path(one) for one in source], reading, resident)  # type: ignore[attr-defined]
    if isinstance(source, list | tuple) and _differ(source):
        return from_list(source)
    if not isinstance(source, str | os.PathLike):
        return Dataset("array", _from_array(source, reading.axes, "x", resident))
    path = _own_path(source)
    suffix = path.suffix.lower()
    if is_store(path):
        stored = open_stored(path)
        axes = reading.axes or stored.axes
        return Dataset(str(path), _from_array(stored, axes, str(stored), resident), location=stored.path)
    if path.is_dir() or (path.is_file() and suffix in _ONE_FILE):
        return read_folder(path, reading, resident)
    if matching := _matching(path):
        return read_paths(matching, reading, resident, str(path))
    if not path.exists() and glob.has_magic(str(path)):
        raise FileNotFoundError(f"no file matches {str(source)!r}: check the pattern")
    if not path.exists():
        from dcs.data._reading import suggest

        hint = suggest(str(source), CATALOGUE)
        raise FileNotFoundError(f"{str(source)!r} is neither a known data set nor a file or folder: {hint}")
    if suffix == ".npy":
        array = open_npy(path)
        return Dataset(str(path), _from_array(array, reading.axes, str(path), resident, path), location=path)
    if suffix == ".npz":
        return _from_npz(path, resident, label)
    if suffix in _TABLES:
        return _from_table(str(path), _TABLES[suffix](path, label), resident, path)
    known = ", ".join((".npy", ".npz", *HDF5_SUFFIXES, ZARR_SUFFIX, *_TABLES, *_ONE_FILE))
    raise DataError(
        f"{path} is not of a kind that can be read ({known}, or a folder of images or recordings): convert "
        f"it, or load it yourself and pass the array"
    )


_TABLES = {".csv": read_csv, ".tsv": read_csv, ".parquet": read_parquet}
_ONE_FILE = (*IMAGE_SUFFIXES, *AUDIO_SUFFIXES)
_FOLDER = ("mixed", "size", "axes", "rate", "skip_bad")


def _from_array(
    array: Any, axes: str | None, where: str, resident: bool | None, path: Path | None = None
) -> Split:
    if axes is None:
        shape = tuple(getattr(array, "shape", ()))
        if len(shape) == 5:
            axes = "SCZYX"
        else:
            _warn_of_channels_last(shape, where)
    if axes is None:
        return Split(from_array(array, where, resident, path))
    return from_axes(as_array(array, where), axes, where, resident, path)


def _warn_of_channels_last(shape: tuple[int, ...], where: str) -> None:
    """Warn of pictures that are likely to have their colours in the last axis."""
    if len(shape) == 4 and shape[3] in (3, 4) and min(shape[1:3]) > 4:
        warnings.warn(
            f"{where} has shape {shape}, which is read as (n, c, h, w), pictures of {shape[1]} channels: if "
            f"the last axis is colour, give {argument('axes')} SYXC, or move it to the second place",
            DataWarning,
            stacklevel=4,
        )


def _are_paths(source: object) -> bool:
    """Return whether this is a list of paths."""
    return isinstance(source, list | tuple) and bool(source) and isinstance(source[0], str | os.PathLike)


def _matching(path: Path) -> list[Path]:
    """Return the files that a pattern such as photos/*.png matches, sorted."""
    if path.exists() or not glob.has_magic(str(path)):
        return []
    return sorted(found for one in glob.glob(str(path), recursive=True) if (found := Path(one)).is_file())


def _differ(source: Sequence[Any]) -> bool:
    """Return whether these are arrays or tensors of different shapes."""
    shapes = {tuple(one.shape) for one in source if hasattr(one, "shape")}
    return len(shapes) > 1 and all(hasattr(one, "shape") for one in source)


def from_list(arrays: Sequence[Any], where: str = "x") -> Dataset:
    """Convert images (h, w) or (c, h, w), or signals (t,), of different sizes."""
    tensors = []
    for number, array in enumerate(arrays):
        if not 0 < len(array.shape) < 4 or 0 in array.shape:
            raise DataError(
                f"{where}[{number}] has shape {tuple(array.shape)}: it must be an image (h, w) or (c, h, w), "
                f"or a signal (t,)"
            )
        found = from_array(array[None], f"{where}[{number}]", resident=True)
        assert isinstance(found, Tensor)  # noqa: S101
        tensors.append(found[0])
    kinds = {(one.ndim, one.shape[0] if one.ndim == 3 else None) for one in tensors}
    if len(kinds) > 1:
        raise DataError(
            f"{where} has items with different numbers of axes or channels: give one kind, images as (h, w) "
            f"or, channels first, (c, h, w)"
        )
    items = ListItems(tensors, min(2, tensors[0].ndim))
    return Dataset("list", Split(CentralWindows(items, default_window(items.ndim, items.sizes)), items=items))


def _from_table(where: str, table: Table, resident: bool | None, location: Path | None = None) -> Dataset:
    y, classes = (None, ()) if table.labels is None else number_labels(table.labels, where)
    labels = None if y is None else to_labels(y, len(classes), where)
    return Dataset(
        where, Split(from_array(table.x, where, resident), labels), None, classes, location=location
    )


def _from_npz(path: Path, resident: bool | None, label: str | int | bool | None) -> Dataset:
    """Read x (or the only array) with y; or x_train, y_train, x_test, y_test."""
    arrays = open_npz(path)
    names = ", ".join(arrays) or "(none)"
    if label is not None and label is not False and (not isinstance(label, str) or label not in arrays):
        raise DataError(f"label must be an array of {path}, got {label!r}: it has {names}")
    splits: dict[str, tuple[Array, Array | None]] = {}
    if "x_train" in arrays and not isinstance(label, str):
        for split in ("train", "test"):
            if f"x_{split}" in arrays:
                splits[split] = arrays.pop(f"x_{split}"), arrays.pop(f"y_{split}", None)
        if arrays:
            warnings.warn(f"{path}: {', '.join(arrays)} is not used", DataWarning, stacklevel=4)
        if len({(x.shape[1:], scale_of(x)) for x, _ in splits.values()}) > 1:
            kinds = " and ".join(f"{x.dtype} {x.shape}" for x, _ in splits.values())
            raise DataError(f"{path} has {kinds} in x_train and x_test: they must be of one kind and shape")
    else:
        key = label if isinstance(label, str) else "y"
        others = [name for name in arrays if name != key]
        data = "x" if "x" in arrays else others[0] if len(others) == 1 else None
        if data is None:
            raise DataError(
                f"{path} has the arrays {names}: call the data x and its labels y, or load it yourself and "
                f"pass the array"
            )
        splits["train"] = arrays[data], arrays.get(key)
        unused = [name for name in arrays if name not in (data, key)]
        if unused:
            warnings.warn(f"{path}: {', '.join(unused)} is not used", DataWarning, stacklevel=4)
    if label is False:
        splits = {split: (x, None) for split, (x, _) in splits.items()}
    values = [label for _, y in splits.values() if y is not None for label in y.ravel().tolist()]
    numbers, classes = number_labels(values, str(path))
    made, start = {}, 0
    for split, (x, y) in splits.items():
        labels = None
        if y is not None:
            if y.shape != x.shape[:1]:
                raise DataError(
                    f"{path} has {x.shape} data and {y.shape} labels: one label per sample is needed"
                )
            labels = to_labels(numbers[start : start + len(y)], len(classes), str(path))
            start += len(y)
        made[split] = Split(from_array(x, f"{path} (the {split} data)", resident), labels)
    return Dataset(str(path), made["train"], made.get("test"), classes, location=path)


def _options_of(source: object) -> tuple[str, ...]:
    """Return the options that apply to data of one's own."""
    if _are_paths(source):
        return _FOLDER
    if not isinstance(source, str | os.PathLike):
        if hasattr(source, "columns") and hasattr(source, "iloc"):
            return ("label",)
        return ("axes",) if isinstance(source, np.ndarray | Tensor) else ()
    path = _own_path(source)
    if is_store(path) or path.suffix.lower() == ".npy":
        return ("axes",)
    if path.is_dir() or path.suffix.lower() in _ONE_FILE or _matching(path):
        return _FOLDER
    return ("label",) if path.suffix.lower() in (".npz", *_TABLES) else ()


def _own_path(source: str | os.PathLike[str]) -> Path:
    """Return the absolute path, so that it is found again after a change of directory."""
    if not str(source):
        raise ValueError("name is empty: name a known data set, a file or a folder")
    try:
        return Path(source).expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(f"name {str(source)!r} cannot be used: {error}") from error


def _describe(source: object) -> str:
    return str(source) if isinstance(source, str | os.PathLike) else f"a {type(source).__name__}"

"""`load`: a known data set, or one's own data, by one call."""

import difflib
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import Dataset as TorchDataset

from dcs._checks import check_bool, check_choice, check_integer, check_number
from dcs.data._arrays import from_array, open_npy, open_npz, scale_of
from dcs.data._catalogue import CATALOGUE
from dcs.data._dataset import DataError, Dataset, DataWarning, Samples, Split, to_labels
from dcs.data._folders import read_folder
from dcs.data._images import IMAGE_SUFFIXES
from dcs.data._items import from_torch
from dcs.data._layouts import Options
from dcs.data._locate import obtain
from dcs.data._recordings import AUDIO_SUFFIXES
from dcs.data._tables import Table, from_frame, number_labels, read_csv, read_parquet
from dcs.noise import IsotropicNoise, add
from dcs.noise.corruption import KINDS

Array = np.ndarray[Any, np.dtype[Any]]
Size = int | tuple[int, int]
Noise = tuple[str | IsotropicNoise, float]


def load(
    name: object,
    root: str | os.PathLike[str] | None = None,
    download: bool = True,
    noise: Noise | None = None,
    seed: int = 0,
    *,
    resident: bool | None = None,
    mixed: str = "error",
    size: Size | None = None,
    label: str | int | bool | None = None,
    fold: int = 5,
    rate: int | None = None,
    hop: int | None = None,
    skip_bad: bool = False,
) -> Dataset:
    """Load a known data set, or data of one's own.

    Args:
        name: A known data set (`dcs datasets list` shows them); or a .npy, .npz, .csv or .parquet file; or a
            folder of images or recordings (one called like a known data set: ./mnist), or one recording; or
            an array, a tensor, or a `torch.utils.data.Dataset` of samples or of tuples that begin with one.
        root: Where root/NAME holds the files of a known data set; then nothing else is searched. By default
            DCS_DATA, the user's cache, ./data and /usr/share/datasets are.
        download: Whether to download what is not on disk.
        noise: What to add, once, to both splits, such as ("gaussian", 0.5): see `dcs.noise.add`. The data
            without it stays in `clean`.
        seed: Where the noise starts.
        resident: Whether to hold the data in memory (True) or to read it from disk batch by batch (False);
            None: in memory up to a quarter of the machine's. A `torch.utils.data.Dataset` is only held in
            memory if asked for, since that would freeze what it draws at random.
        mixed: What to do with files of different sizes: `error`, `resize` (images), `crop` (to the centre),
            or, for recordings, `pad` (with zeros, which are never learned from) or `windows` (of `size`).
        size: The size to which: (height, width), or one number for both, or for the length of recordings; by
            default the smallest found, or the largest to pad to.
        label: The column of a table or DataFrame, or the array in an .npz, that holds the labels; False if
            none does although one is named like it.
        fold: The fold of ESC-50 to test on.
        rate: In Hz, to which recordings are resampled; by default that which all have.
        hop: From window to window of recordings, in samples; by default `size`.
        skip_bad: Leave out files of a folder that cannot be used, with a warning that lists them.

    Returns:
        The data set. Own data is all in `train`, and `test` is None, unless a folder has train and test in
        it, or an .npz x_train and x_test.

    Raises:
        DataError: The data is damaged, or not what it should be.
        DownloadError: It could not be downloaded.

    Example:
        >>> load("digits", noise=("gaussian", 0.3))
        Dataset('digits', shape=(8, 8), train=1200, test=597, classes=10)
        >>> load(np.zeros((5, 3)))
        Dataset('array', shape=(3,), train=5)
    """
    check_integer("seed", seed, at_least=0)
    check_integer("fold", fold, at_least=1)
    check_bool("download", download)
    check_bool("skip_bad", skip_bad)
    check_bool("resident", resident, optional=True)
    if noise is not None:
        _check_noise(noise)
    own = not (isinstance(name, str) and name in CATALOGUE)
    given = {
        "mixed": mixed != "error",
        "size": size is not None,
        "label": label is not None,
        "root": root is not None,
        "fold": fold != 5,
        "rate": rate is not None,
        "hop": hop is not None,
        "skip_bad": skip_bad,
    }
    used = _options_of(name) if own else ("root", "fold") if name == "esc50" else ("root",)
    for option, is_given in given.items():
        if is_given and option not in used:
            raise ValueError(f"{option} means nothing for {_describe(name)}: leave it out")
    if own:
        files = {"mixed": mixed, "size": size, "rate": rate, "hop": hop, "skip_bad": skip_bad}
        data = _own(name, resident, label, files)
    else:
        data = _known(str(name), root, download, resident, fold)
    return data if noise is None else _with_noise(data, noise, seed)


def _known(
    name: str, root: str | os.PathLike[str] | None, download: bool, resident: bool | None, fold: int
) -> Dataset:
    entry = CATALOGUE[name]
    found = obtain(entry, root, download)
    train, test, classes, rate = found.layout.read(found.files, Options(resident, fold))
    location = found.folder if found.files else None
    if (len(train), len(test)) != (entry.train, entry.test):
        warnings.warn(
            f"{location} holds {len(train)} + {len(test)} samples, but {entry.title} has {entry.train} + "
            f"{entry.test}: it is not complete, or not what it is called",
            DataWarning,
            stacklevel=3,
        )
    return Dataset(name, train, test, classes, entry.citation, entry.licence, location, rate)


def _own(
    source: object, resident: bool | None, label: str | int | bool | None, files: dict[str, Any]
) -> Dataset:
    if isinstance(source, TorchDataset):
        return from_torch(source, resident)
    if isinstance(source, Samples):
        return Dataset(type(source).__name__, Split(source))
    if hasattr(source, "columns") and hasattr(source, "iloc"):
        return _from_table("DataFrame", from_frame(source, label), resident)
    if source is None or isinstance(source, bytes | dict | Dataset):
        raise TypeError(
            f"name must be a known data set, a path, an array or a torch Dataset, got {type(source).__name__}"
        )
    if not isinstance(source, str | os.PathLike):
        return Dataset("array", Split(from_array(source, "x", resident)))
    path = _own_path(source)
    if path.is_dir() or (path.is_file() and path.suffix.lower() in AUDIO_SUFFIXES):
        return read_folder(path, resident=resident, **files)
    if not path.exists():
        near = difflib.get_close_matches(str(source).lower(), CATALOGUE, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(CATALOGUE)}"
        raise FileNotFoundError(f"{str(source)!r} is neither a known data set nor a file or folder: {hint}")
    readers: Mapping[str, Callable[[], Dataset]] = {
        ".npy": lambda: Dataset(
            str(path), Split(from_array(open_npy(path), str(path), resident, path)), location=path
        ),
        ".npz": lambda: _from_npz(path, resident, label),
        ".csv": lambda: _from_table(str(path), read_csv(path, label), resident, path),
        ".tsv": lambda: _from_table(str(path), read_csv(path, label), resident, path),
        ".parquet": lambda: _from_table(str(path), read_parquet(path, label), resident, path),
    }
    if path.suffix.lower() not in readers:
        remedy = "convert it, or load it yourself and pass the array"
        if path.suffix.lower() in IMAGE_SUFFIXES:
            remedy = "put it in a folder, and name that"
        raise DataError(
            f"{path} is of no kind that is read ({', '.join((*readers, *AUDIO_SUFFIXES))}, or a folder of "
            f"images or recordings): {remedy}"
        )
    return readers[path.suffix.lower()]()


def _from_table(where: str, table: Table, resident: bool | None, location: Path | None = None) -> Dataset:
    y, classes = (None, ()) if table.labels is None else number_labels(table.labels, where)
    labels = None if y is None else to_labels(y, len(classes), where)
    return Dataset(
        where, Split(from_array(table.x, where, resident), labels), None, classes, location=location
    )


def _from_npz(path: Path, resident: bool | None, label: str | int | bool | None) -> Dataset:
    """x (or the only array) with y; or x_train, y_train, x_test, y_test."""
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
                    f"{path} has {x.shape} data and {y.shape} labels: one label a sample is needed"
                )
            labels = to_labels(numbers[start : start + len(y)], len(classes), str(path))
            start += len(y)
        made[split] = Split(from_array(x, f"{path} (the {split} data)", resident), labels)
    return Dataset(str(path), made["train"], made.get("test"), classes, location=path)


def _check_noise(noise: Noise) -> None:
    """Before anything is read or downloaded."""
    if not isinstance(noise, tuple | list) or len(noise) != 2:
        raise TypeError(f'noise must be a kind and its strength, such as ("gaussian", 0.5), got {noise!r}')
    kind, sigma = noise
    if not isinstance(kind, IsotropicNoise):
        check_choice("the kind of noise", kind, KINDS)
    check_number("the strength of noise", sigma, at_least=0)


def _with_noise(data: Dataset, noise: Noise, seed: int) -> Dataset:
    kind, sigma = noise

    def noisy(split: Split, number: int) -> Split:
        if not isinstance(split.x, Tensor):
            raise DataError(
                f"noise is added in memory, but {data.name} is read from disk batch by batch: pass "
                f"resident=True if it fits, or add the noise to the files"
            )
        own_seed = int(np.random.SeedSequence(seed, spawn_key=(number,)).generate_state(1, np.uint64)[0] >> 1)
        return replace(split, x=add(split.x, kind, sigma, own_seed), clean=split.x)

    test = None if data.test is None else noisy(data.test, 1)
    return replace(data, train=noisy(data.train, 0), test=test)


def _options_of(source: object) -> tuple[str, ...]:
    """The options that mean something for data of one's own."""
    if not isinstance(source, str | os.PathLike):
        return ("label",) if hasattr(source, "columns") and hasattr(source, "iloc") else ()
    path = _own_path(source)
    if path.is_dir() or path.suffix.lower() in AUDIO_SUFFIXES:
        return ("mixed", "size", "rate", "hop", "skip_bad")
    return ("label",) if path.suffix.lower() in (".npz", ".csv", ".tsv", ".parquet") else ()


def _own_path(source: str | os.PathLike[str]) -> Path:
    """Absolute, so that it is found again from wherever it is read later."""
    if not str(source):
        raise ValueError("name is empty: name a known data set, a file or a folder")
    try:
        return Path(source).expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(f"name {str(source)!r} cannot be used: {error}") from error


def _describe(source: object) -> str:
    return str(source) if isinstance(source, str | os.PathLike) else f"a {type(source).__name__}"

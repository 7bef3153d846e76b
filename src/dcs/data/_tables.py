"""Tables as data: CSV and Parquet, one sample per row."""

import csv
import itertools
import math
import warnings
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dcs._naming import argument
from dcs._optional import require
from dcs.data._dataset import DataError

Array = np.ndarray[Any, np.dtype[Any]]

Label = str | int | bool | None

_MISSING = ("", "na", "n/a", "nan", "null", "none", "?", "-")
_LABEL_NAMES = ("label", "labels", "class", "target", "y")


class Table(NamedTuple):
    """Numbers of a table, and the values of its label column."""

    x: Array  # (n, columns), float32
    labels: list[Any] | None


def read_csv(path: Path, label: Label = None) -> Table:
    """Read a CSV file, separated by commas, semicolons or tabs.

    A first line of text only names the columns.

    Args:
        path: File to read.
        label: Label column, by name or number; False if there is none although a column is named like one.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = (line for line in file if line.strip())
            start = list(itertools.islice(lines, 2))
            if not start:
                raise DataError(f"{path} is empty: there is nothing to learn from")
            separator = max(",;\t", key=start[0].count)
            rows = csv.reader(itertools.chain(start, lines), delimiter=separator)
            first, second = next(rows), next(rows, [])
            header = _is_header(path, first, second)
            first[0] = first[0].lstrip("# ") if header else first[0]  # as NumPy writes it
            names = [field.strip() for field in first] if header else [str(i) for i in range(len(first))]
            column = _label_column(str(path), names, label, header)
            labels = []
            for number, row in enumerate([second] if header else [first, second], start=1 + header):
                if row:
                    labels.append(_label_of(path, row, number, names, column))
            labels += [
                _label_of(path, row, number, names, column) for number, row in enumerate(rows, start=3)
            ]
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not in UTF-8 ({error}): save it as UTF-8") from error
    except csv.Error as error:
        raise _unreadable(path, "CSV", error) from error
    used = [index for index in range(len(names)) if index != column]
    if not used or not labels:
        raise DataError(
            f"{path} has {len(labels)} rows and {len(used)} columns of numbers: at least one is needed"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of empty lines, which do not count
            x = np.loadtxt(
                path,
                np.float32,
                comments=None,
                delimiter=separator,
                skiprows=int(header),
                usecols=used,
                ndmin=2,
                encoding="utf-8-sig",
                quotechar='"',
            )
    except (ValueError, OverflowError, MemoryError) as error:
        raise DataError(
            f"{path} is not a table of numbers: {error} (rows counted from 0 below the header); fill or "
            f"remove missing values, and name a column of labels with {argument('label')}"
        ) from error
    if len(x) != len(labels):
        raise DataError(f"{path} has lines that cannot be separated: write it again, one sample per line")
    return Table(x, None if column is None else labels)


def from_frame(frame: Any, label: Label) -> Table:
    """Convert a pandas DataFrame, or an object like one, to a table."""
    names = [str(name) for name in frame.columns]
    column = _label_column("the DataFrame", names, label, header=True)
    used = [index for index in range(len(names)) if index != column]
    try:
        x = np.asarray(frame.iloc[:, used], dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(f"the DataFrame has columns that are not numbers: {error}; remove them") from error
    return Table(x, None if column is None else frame.iloc[:, column].tolist())


def read_parquet(path: Path, label: Label = None) -> Table:
    """Read a Parquet file whose columns are numbers, but for the labels."""
    parquet = require("pyarrow.parquet", "tables", "reading Parquet")
    arrow = require("pyarrow", "tables", "reading Parquet")
    try:
        table = parquet.read_table(path)
    except FileNotFoundError:
        raise
    except (arrow.ArrowException, OSError, ValueError, MemoryError) as error:
        raise _unreadable(path, "Parquet", error) from error
    of_pandas = [name for name in table.column_names if name.startswith("__index_level_")]
    table = table.drop_columns(of_pandas)
    names = list(table.column_names)
    column = _label_column(str(path), names, label, header=True)
    x = np.empty((table.num_rows, len(names) - (column is not None)), np.float32)
    labels, place = None, 0
    for index, name in enumerate(names):
        values = table.column(index)
        if values.null_count:
            raise DataError(
                f"{path} has {values.null_count} missing values in column {name!r}: fill or remove them"
            )
        if index == column:
            labels = values.to_pylist()
            continue
        kind = values.type
        if not (
            arrow.types.is_integer(kind) or arrow.types.is_floating(kind) or arrow.types.is_boolean(kind)
        ):
            raise DataError(
                f"{path} has {kind} in column {name!r}, not numbers: remove it, or say label={name!r} if it "
                f"holds the labels"
            )
        with np.errstate(over="ignore"):  # infinite values are refused later, with their row
            x[:, place] = values.to_numpy()
        place += 1
    return Table(x, labels)


def number_labels(values: Sequence[Any], where: str) -> tuple[Array, tuple[str, ...]]:
    """Number labels from 0 and return the name of each: the distinct values, sorted."""
    values = [value.decode("latin1") if isinstance(value, bytes) else value for value in values]
    missing = sum(_is_missing(value) for value in values)
    if missing:
        raise DataError(
            f"{where} has {missing} missing labels of {len(values)}: fill them in, or leave them out"
        )
    try:
        distinct = sorted(set(values), key=lambda value: (float(value), str(value)))
        continuous = any(float(value) % 1 for value in distinct)
    except TypeError as error:
        raise DataError(f"{where} has labels that are neither text nor numbers: {error}") from error
    except (ValueError, OverflowError):
        distinct, continuous = sorted(set(values), key=str), False
    if len(distinct) > max(10, len(values) // 2) or (continuous and len(distinct) > 10):
        raise DataError(
            f"{where} has {len(distinct)} different labels in {len(values)} rows, which is not a set of "
            f"classes: name other labels, or none"
        )
    number = {value: index for index, value in enumerate(distinct)}
    return np.array([number[value] for value in values], np.int64), tuple(str(value) for value in distinct)


def read_labels(path: Path) -> tuple[Tensor, tuple[str, ...]]:
    """Read labels as numbers, in the order of the data, and the name of each number.

    Args:
        path: .npy file, or a text file with one label per line; a first line `label` is a header.
    """
    if path.suffix == ".npy":
        try:
            array = np.load(path, allow_pickle=False)
        except (ValueError, EOFError):
            raise ValueError(f"labels {path} is not a .npy file of numbers or text: write it again") from None
        if array.ndim != 1 and array.shape[1:] != (1,):
            raise ValueError(f"labels {path} must be (n,), one per sample, got shape {array.shape}")
        values = array.ravel().tolist()
    else:
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise ValueError(f"labels {path} is not UTF-8 text: write it again, one label per line") from None
        values = [line.strip() for line in text.rstrip().splitlines()]
        if values and values[0].lower() in ("label", "labels", "class", "y"):
            values = values[1:]
    numbers, classes = number_labels(values, f"labels {path}")
    return torch.from_numpy(numbers), classes


def _is_missing(value: object) -> bool:
    text = isinstance(value, str) and value.strip().lower() in _MISSING
    return value is None or text or (isinstance(value, float) and math.isnan(value))


def _is_header(path: Path, first: list[str], second: list[str]) -> bool:
    """Return whether the first line names the columns; refuse an ambiguous one: a sample might be lost."""
    text = [_is_text(field) for field in first]
    if any(text) and not any(_is_number(field) for field in first):
        if not all(text):
            raise DataError(f"{path} has a column without a name, an index perhaps: name it, or leave it out")
        return True
    ambiguous = len(first) > 2 and first == [str(number) for number in range(len(first))]
    ambiguous |= any(_is_number(value) for value, is_text in zip(second, text, strict=False) if is_text)
    if ambiguous:
        raise DataError(
            f"{path} begins with {separated(first)}: is that a sample, or a header? Give all columns names, "
            f"or none, and correct what is not a number"
        )
    return False


def separated(fields: list[str]) -> str:
    """Join the first few fields, for an error."""
    return ", ".join(fields[:5]) + (", ..." if len(fields) > 5 else "")


def _is_text(field: str) -> bool:
    return not _is_number(field) and field.strip().lower() not in _MISSING


def _label_of(path: Path, row: list[str], number: int, names: list[str], column: int | None) -> str:
    """Return the label in a row, which must have as many fields as the others."""
    if len(row) != len(names):
        raise DataError(
            f"{path} has {len(row)} fields in row {number}, not {len(names)}: quote or remove the surplus"
        )
    return "" if column is None else row[column].strip()


def _label_column(where: str, names: list[str], label: Label, header: bool) -> int | None:
    if label is False:
        return None
    if label is None:
        found = [name for name in names if name.lower() in _LABEL_NAMES] if header else []
        if found:
            raise DataError(
                f"{where} has a column {found[0]!r} that looks like labels: pass "
                f"{argument('label', found[0])} to set it aside, or {argument('label', False)} to learn "
                f"from it too"
            )
        return None
    if isinstance(label, Integral) and not isinstance(label, bool) and -len(names) <= label < len(names):
        return int(label) % len(names)
    if isinstance(label, str) and names.count(label) == 1:
        return names.index(label)
    shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    raise DataError(f"label must be one column of {where}, got {label!r}: its columns are {shown}")


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _unreadable(path: Path, kind: str, error: Exception) -> DataError:
    return DataError(f"{path} cannot be read as {kind}: {error}; write it again")

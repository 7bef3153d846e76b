"""Tables as data: CSV and Parquet, one sample a row."""

import csv
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dcs._optional import require
from dcs.data._dataset import DataError

Array = np.ndarray[Any, np.dtype[Any]]

_LABEL_NAMES = ("label", "labels", "class", "target", "y")


class Table(NamedTuple):
    """The numbers of a table, and the values of its label column as they stand there."""

    x: Array  # (n, columns), float32
    labels: list[Any] | None


def read_csv(path: Path, label: str | int | bool | None = None) -> Table:
    """Read a CSV file, separated by commas, semicolons or tabs; a first line with text names the columns.

    Args:
        path: The file.
        label: The label column, by name or number; False if there is none although a column is named like
            one.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            separator = max(",;\t", key=first.count)
            fields = next(csv.reader([first], delimiter=separator), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise _unreadable(path, "CSV", error) from error
    header = not all(_is_number(field) for field in fields)
    names = [field.strip() for field in fields] if header else [str(i) for i in range(len(fields))]
    column = _label_column(path, names, label, header)
    used = [index for index in range(len(names)) if index != column]
    if not used:
        raise DataError(
            f"{path} has no columns beside the labels: a table needs at least one column of numbers"
        )

    def load(columns: Sequence[int], dtype: Any) -> Array:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of empty lines, which do not count
            return np.loadtxt(
                path,
                dtype,
                comments=None,
                delimiter=separator,
                skiprows=int(header),
                usecols=columns,
                ndmin=2,
                encoding="utf-8-sig",
                quotechar='"',
            )

    try:
        if not _has_rows(path, header):
            raise DataError(f"{path} has no rows: there is nothing to learn from")
        x = load(used, np.float32)
        labels = None if column is None else [value.strip() for value in load([column], str)[:, 0].tolist()]
    except DataError:
        raise
    except (ValueError, OverflowError, MemoryError) as error:
        raise DataError(
            f"{path} is not a table of numbers: {error}; fill or remove missing values, and name a column of "
            f"labels with label=..."
        ) from error
    return Table(x, labels)


def read_parquet(path: Path, label: str | int | bool | None = None) -> Table:
    """Read a Parquet file whose columns are numbers, but for the labels."""
    parquet = require("pyarrow.parquet", "tables", "reading Parquet")
    arrow = require("pyarrow", "tables", "reading Parquet")
    try:
        table = parquet.read_table(path)
    except FileNotFoundError:
        raise
    except (arrow.ArrowException, OSError, ValueError, MemoryError) as error:
        raise _unreadable(path, "Parquet", error) from error
    names = list(table.column_names)
    column = _label_column(path, names, label, header=True)
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


def number_labels(values: list[Any], path: Path) -> tuple[Array, tuple[str, ...]]:
    """Labels from 0, and the name of each: the distinct values, in order (of numbers, if all are)."""
    try:
        distinct = sorted(set(values), key=float)
    except (TypeError, ValueError):
        distinct = sorted(set(values), key=str)
    if len(distinct) > max(100, len(values) // 2):
        raise DataError(
            f"{path}: the label column has {len(distinct)} different values in {len(values)} rows, which is "
            f"not a set of classes: name another column, or none"
        )
    number = {value: index for index, value in enumerate(distinct)}
    return np.array([number[value] for value in values]), tuple(str(value) for value in distinct)


def _label_column(path: Path, names: list[str], label: str | int | bool | None, header: bool) -> int | None:
    if label is False:
        return None
    if label is None:
        found = [name for name in names if name.lower() in _LABEL_NAMES] if header else []
        if found:
            raise DataError(
                f"{path} has a column {found[0]!r} that looks like labels: pass label={found[0]!r} to set it "
                f"aside, or label=False to learn from it too"
            )
        return None
    if isinstance(label, int) and not isinstance(label, bool) and -len(names) <= label < len(names):
        return label % len(names)
    if isinstance(label, str) and names.count(label) == 1:
        return names.index(label)
    shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    raise DataError(f"label must be one column of {path}, got {label!r}: its columns are {shown}")


def _has_rows(path: Path, header: bool) -> bool:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return sum(1 for _, line in zip(range(1000), file, strict=False) if line.strip()) > int(header)


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _unreadable(path: Path, kind: str, error: Exception) -> DataError:
    return DataError(f"{path} cannot be read as {kind}: {error}; write it anew")

"""Files that commands write, without losing any that exist."""

import contextlib
import io
import math
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def is_within(path: Path, data: str) -> bool:
    """Return whether writing to a path would change the data."""
    source = Path(data.partition("::")[0]).expanduser().resolve()  # "::" names an array in a file
    return source.exists() and (path.resolve() == source or source in path.resolve().parents)


def check_output(path: Path, suffixes: "Sequence[str]", overwrite: bool, data: str) -> None:
    """Raise if a file cannot be written, or would replace something."""
    if path.suffix.lower() not in suffixes:
        raise ValueError(f"--out must end in {', '.join(suffixes)}, got {path}")
    if is_within(path, data):
        raise ValueError(f"{path} is the data itself, or in its folder: give another file")
    if path.exists() and not overwrite:
        raise ValueError(f"{path} exists: give another file, or pass --overwrite")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"the folder of {path} does not exist: create it first")


def check_folder(path: Path, overwrite: bool, data: str) -> None:
    """Raise if a folder cannot be written, or would replace something."""
    if is_within(path, data):
        raise ValueError(f"{path} is where the data is: give another folder")
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file: give a folder, or a .npy file")
    if path.exists() and any(path.iterdir()) and not overwrite:
        raise ValueError(f"{path} exists: give a new folder, or pass --overwrite")


@contextlib.contextmanager
def unfinished(path: Path) -> "Iterator[Path]":
    """Give a name beside a file, or a folder, to write it under; it appears when it is complete."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield temporary
        if path.is_dir():
            _remove(path)
        os.replace(temporary, path)
    finally:
        _remove(temporary)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def scratch_array(folder: Path, shape: "tuple[int, ...]") -> "Iterator[Any]":
    """Give an array of zeros in float32 that is kept in a temporary file in a folder."""
    import numpy as np

    with tempfile.TemporaryFile(dir=folder) as file:
        file.truncate(4 * math.prod(shape))
        yield np.memmap(file, np.float32, "r+", shape=shape)


def write(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all."""
    from dcs.training.checkpoint import write_atomically

    write_atomically(path, content)


def write_npy(path: Path, array: Any) -> None:
    """Write an array as a .npy file."""
    import numpy as np

    buffer = io.BytesIO()
    np.save(buffer, array)
    write(path, buffer.getvalue())

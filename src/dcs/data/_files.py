"""Samples that are files, one each: decoded when asked for, or all at once into memory."""

import contextvars
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from dcs._naming import argument
from dcs._progress import progress
from dcs.data._dataset import DataError, DataWarning, Samples, is_resident
from dcs.data.windows import ListItems

Rows = np.ndarray | list[np.ndarray]  # one per file

Header = TypeVar("Header", bound=Hashable)

# Decoders release the interpreter's lock only while they unpack, which takes most of the time in large
# samples alone: of 32×32 JPEG files, two threads read a third fewer in a second than one does.
_THREADS_PAY_FROM = 2**14  # numbers in a sample
_FILES_PER_TASK = 4
_KINDS_LISTED = 5


class FileSamples(Samples):
    """Samples that are decoded from their files on demand.

    Args:
        files: One per sample: paths, or parts of files whose text is the path.
        decode: Function that returns the sample in a file in float32; picklable, for DataLoader workers.
        shape: Shape of one sample.
    """

    def __init__(self, files: Sequence[Any], decode: Callable[[Any], Tensor], shape: tuple[int, ...]) -> None:
        self.files = tuple(files)
        self.decode = decode
        self.shape = (len(self.files), *shape)

    def read(self, indices: Sequence[int]) -> Tensor:
        """Decode some samples, (len(indices), ...) in float32, finite."""
        out = torch.empty((len(indices), *self.shape[1:]))
        for _ in _fill(out.numpy(), [self.files[index] for index in indices], self.decode):
            pass
        return out


def read_files(
    files: Sequence[Any],
    decode: Callable[[Any], Tensor],
    shape: tuple[int, ...],
    resident: bool | None,
    what: str,
) -> Tensor | FileSamples:
    """Decode files into one tensor, (n, ...) in float32, or leave them on disk if they are too many.

    Args:
        files: One per sample, as for `FileSamples`.
        decode: Function that returns the sample in a file in float32; picklable.
        shape: Shape of one sample.
        resident: Whether to hold all in memory; None decides by their size.
        what: Name of the task in the progress display.

    Raises:
        DataError: If a sample has another shape or holds NaN or infinite values.
    """
    if not is_resident(len(files) * prod(shape), resident):
        return FileSamples(files, decode, shape)
    out = torch.empty((len(files), *shape))
    _fill_all(out.numpy(), files, decode, what)
    return out


def read_items(
    files: Sequence[Any],
    decode: Callable[[Any], Tensor],
    sizes: Sequence[tuple[int, ...]],
    channels: int | None,
    what: str,
) -> ListItems:
    """Decode files of different sizes into memory.

    Args:
        files: One per item, as for `FileSamples`.
        decode: Function that returns the item in a file in float32.
        sizes: Size of each item along its axes of space or time.
        channels: Number of channels; None if items have no axis of channels.
        what: Name of the task in the progress display.
    """
    out = [torch.empty(size if channels is None else (channels, *size)) for size in sizes]
    _fill_all([one.numpy() for one in out], files, decode, what)
    return ListItems(out, len(sizes[0]))


def decode_checked(decode: Callable[[Any], Tensor], file: Any) -> Tensor:
    """Decode a file, whose values must be finite."""
    with _quiet():
        found = decode(file)
    check_sample(found.numpy(), tuple(found.shape), file)
    return found


def scan_files(files: Sequence[Path], read_header: Callable[[Path], Header], what: str) -> list[Header]:
    """Read the headers of files, in order, in one thread, which is fastest for short headers."""
    if not files:
        raise DataError(f"{what}: there are no files to read; give at least one")
    headers = []
    with _quiet(), progress(what, total=len(files)) as advance:
        for file in files:
            headers.append(read_header(file))
            advance(1)
    return headers


def sort_out(
    files: Sequence[Path], check: Callable[[Path], object], what: str
) -> tuple[list[Path], dict[Path, str]]:
    """Return the files that a check accepts, and the problem of each of the others; warn of the latter."""
    good, bad = [], {}
    with _quiet(), progress(what, total=len(files)) as advance:
        for file in files:
            try:
                if not file.is_file():
                    raise no_file(file)
                check(file)
                good.append(file)
            except (DataError, OSError) as error:
                bad[file] = re.split("[:;] re(?:move|place) ", str(error))[0]  # it is left out already
            advance(1)
    if bad and not good:
        raise DataError(f"none of the {len(bad)} files can be used; the first: {next(iter(bad.values()))}")
    if bad:
        message = f"{len(bad)} of {len(files)} files are bad and were skipped:"
        warnings.warn("\n  ".join([message, *bad.values()]), DataWarning, stacklevel=4)
    return good, bad


def quote(file: object) -> str:
    """Quote a file name for a message, on one line whatever characters it has."""
    return repr(str(file))


def unreadable(file: object, kind: str, reason: str) -> DataError:
    """Return the error for a file that cannot be opened or decoded."""
    return DataError(
        f"{quote(file)} cannot be read as {kind} ({reason}): remove it or replace it by an intact copy, or "
        f"leave out all such files with {argument('skip_bad', True)}"
    )


def no_file(file: Path) -> DataError:
    """Return the error for what is not a file; reading a pipe would wait forever."""
    return DataError(f"{quote(file)} is a broken link or not a regular file: remove it or restore it")


def list_kinds(kinds: Sequence[str], files: Sequence[object]) -> str:
    """List the kinds among files, with counts and an example of each, the most frequent first."""
    example = dict(zip(reversed(kinds), reversed(files), strict=True))
    counts = Counter(kinds).most_common()
    parts = [
        f"{kind} ({count} files, such as {quote(example[kind])})"
        if count > 1
        else f"{kind} (1 file, {quote(example[kind])})"
        for kind, count in counts[:_KINDS_LISTED]
    ]
    if len(counts) > _KINDS_LISTED:
        parts.append(f"and {len(counts) - _KINDS_LISTED} more")
    return ", ".join(parts)


def _fill_all(rows: Rows, files: Sequence[Any], decode: Callable[[Any], Tensor], what: str) -> None:
    """Decode file i into rows[i], and show the progress."""
    with progress(what, total=len(files)) as advance:
        for count in _fill(rows, files, decode):
            advance(count)


def _fill(rows: Rows, files: Sequence[Any], decode: Callable[[Any], Tensor]) -> Iterator[int]:
    """Decode file i into rows[i]; yield how many more are done after each task.

    Rows are NumPy's, as torch's own threads would compete with these.
    """

    def fill(start: int) -> int:
        batch = files[start : start + _FILES_PER_TASK]
        for row, file in enumerate(batch, start):
            rows[row][...] = check_sample(decode(file).numpy(), rows[row].shape, file)
        return len(batch)

    tasks = range(0, len(files), _FILES_PER_TASK)
    threads = min(os.cpu_count() or 1, len(tasks))
    with _quiet():
        # A DataLoader worker is one of several already.
        if threads < 2 or rows[0].size < _THREADS_PAY_FROM or get_worker_info() is not None:
            yield from map(fill, tasks)
        else:
            contexts = [contextvars.copy_context() for _ in tasks]  # so that messages name options
            with ThreadPoolExecutor(threads) as pool:
                yield from pool.map(lambda context, start: context.run(fill, start), contexts, tasks)


def changed(file: object, found: tuple[int, ...], promised: tuple[int, ...]) -> DataError:
    """Return the error for a file whose content does not match its header."""
    return DataError(
        f"{quote(file)} holds a sample of shape {found} where its header and the other files "
        f"promise {promised}: it is corrupted or was changed; remove it or replace it by an intact copy"
    )


def check_sample(sample: np.ndarray, shape: tuple[int, ...], file: object) -> np.ndarray:
    """Require a shape and finite values."""
    if sample.shape != shape:
        raise changed(file, sample.shape, shape)
    if not np.isfinite(sample).all():
        wrong = int((~np.isfinite(sample)).sum())
        raise DataError(
            f"{quote(file)} has {wrong} NaN or infinite values of {sample.size}: "
            f"remove the file or replace these values"
        )
    return sample


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress warnings of decoders about odd metadata: what matters is checked, and raises.

    Entered by the thread that waits for the decoding ones, because warning filters are global.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield

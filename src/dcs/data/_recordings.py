"""Sound recordings: mono, of one sample rate and one length."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dcs._checks import check_choice, check_integer
from dcs._optional import require
from dcs.data._dataset import DataError
from dcs.data._files import FileSamples, list_kinds, quote, read_files, scan_files, unreadable

AUDIO_SUFFIXES = (".wav", ".flac", ".ogg")

_LENGTH_UNKNOWN = 2**62  # libsndfile gives about 2**63 where a header leaves the length out


class _Header(NamedTuple):
    rate: int
    length: int


def read_recordings(
    files: Sequence[Path],
    *,
    mixed: str = "error",
    size: int | None = None,
    resident: bool | None = None,
) -> tuple[Tensor | FileSamples, int]:
    """Read sound recordings; those of several channels are averaged to one.

    Integers are scaled to [-1, 1); floating-point and lossy recordings are taken as they are, which may
    lie a little beyond.

    Args:
        files: One a sample, all of one sample rate.
        mixed: What to do with recordings of different lengths: `error` refuses them, `crop` cuts out the
            centre. `resize` is for images only.
        size: The length in samples; by default what all have, or the shortest among them.
        resident: Whether to hold all in memory; None decides by their size.

    Returns:
        The recordings, (n, t) in float32, and their sample rate in Hz.

    Raises:
        DataError: If a file cannot be read, or recordings differ that must not.
    """
    check_choice("mixed", mixed, ("error", "resize", "crop"))
    if mixed == "resize":
        raise ValueError('a recording cannot be resized without changing its pitch: use mixed="crop"')
    if size is not None:
        check_integer("size", size, at_least=1)
    headers = scan_files(files, _read_header, "scanning recordings")
    rates = [header.rate for header in headers]
    if len(set(rates)) > 1:
        raise DataError(
            f"recordings must be of one sample rate, but these are "
            f"{list_kinds([f'{rate} Hz' for rate in rates], files)}: resample them to one rate first"
        )
    length = _agree_on_length(files, [header.length for header in headers], mixed, size)
    decode = partial(_decode, length=length, crop=mixed == "crop")
    return read_files(files, decode, (length,), resident, "reading recordings"), rates[0]


def _agree_on_length(files: Sequence[Path], lengths: list[int], mixed: str, wanted: int | None) -> int:
    length = wanted or min(lengths)
    kinds = [f"{length} samples" for length in lengths]
    if mixed == "error" and set(lengths) != {length}:
        asked = f", {length} samples as size asks," if wanted else ""
        raise DataError(
            f"recordings must be of one length{asked} but these are {list_kinds(kinds, files)}: "
            f'remove the odd ones, or cut out the centre of each with mixed="crop"'
        )
    if min(lengths) < length:
        short = [i for i, have in enumerate(lengths) if have < length]
        raise DataError(
            f"recordings are shorter than the {length} samples that size cuts out: "
            f"{list_kinds([kinds[i] for i in short], [files[i] for i in short])}: "
            f"use a smaller size, or remove them"
        )
    return length


def _read_header(file: Path) -> _Header:
    with _open(file) as recording:
        if recording.frames == 0:
            raise DataError(f"{quote(file)} is empty (0 samples): remove it")
        if recording.frames > _LENGTH_UNKNOWN:
            raise DataError(f"{quote(file)} does not say how long it is: save it again, as WAV or FLAC")
        return _Header(recording.samplerate, recording.frames)


def _decode(file: Path, *, length: int, crop: bool) -> Tensor:
    with _open(file) as recording:
        if crop and recording.frames > length:
            recording.seek((recording.frames - length) // 2)
        # One sample more than expected, so that a file that has grown since is noticed.
        channels = recording.read(length if crop else length + 1, dtype="float32", always_2d=True)
    mono = channels[:, 0] if channels.shape[1] == 1 else channels.mean(axis=1)
    return torch.from_numpy(np.ascontiguousarray(mono))


@contextmanager
def _open(file: Path) -> Iterator[Any]:
    """Open a recording; what fails until it is closed names the file."""
    soundfile = require("soundfile", "audio", "reading recordings")
    # The bytes of a name that is no valid text, which soundfile would not encode; Windows has none.
    path = str(file) if os.name == "nt" else os.fsencode(file)
    try:
        with soundfile.SoundFile(path) as recording:
            yield recording
    except (soundfile.SoundFileError, OSError) as error:
        file.open("rb").close()  # a missing or forbidden file raises its own error
        raise unreadable(file, "a recording", getattr(error, "error_string", str(error))) from error

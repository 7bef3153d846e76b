"""Sound recordings: mono, brought to one sample rate and one length."""

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import gcd
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dcs._naming import argument
from dcs._optional import require
from dcs.data._dataset import DataError, Dataset, DataWarning
from dcs.data._files import FileSamples, changed, list_kinds, quote, read_files, scan_files, unreadable

if TYPE_CHECKING:
    from dcs.data._reading import Reading  # imports pydantic, which takes a while

AUDIO_SUFFIXES = (".wav", ".flac", ".ogg")

_LENGTH_UNKNOWN = 2**62  # libsndfile gives about 2**63 where a header leaves the length out
_STREAMED = 0x7FFFF000  # bytes, and more, promise writers of WAV files that cannot go back to say how many
_LOUDEST = 1e15  # so that the power of a frame, or of a recording, is finite in float32
_TAPS = 10  # SciPy's resampling filter reaches so many samples, of the lower rate, to either side
_BLOCK = 2**20
_WINDOW_SECONDS = 5  # of recordings of different lengths, at most


class _Header(NamedTuple):
    rate: int
    length: int
    channels: int


class Section(NamedTuple):
    """A part of a recording; `start` and `length` are in samples at the target rate."""

    file: Path
    start: int
    length: int  # what there is: the rest of a sample is padding
    header: _Header

    def __str__(self) -> str:
        return str(self.file)


class Plan(NamedTuple):
    """Sections of recordings to read."""

    sections: list[Section]  # one per sample
    length: int  # of a sample
    rate: int
    windows: bool

    def read(self, resident: bool | None = None) -> Tensor | FileSamples:
        """Read all, (n, length) in float32; shorter sections are followed by zeros."""
        decode = partial(_decode, length=self.length, rate=self.rate)
        x = read_files(self.sections, decode, (self.length,), resident, "reading recordings")
        if isinstance(x, Tensor) and not self.windows:  # silent windows are normal
            silent = (x.amin(1) == x.amax(1)).nonzero().squeeze(1).tolist()
            warn_of_silence([self.sections[row].file for row in silent])
        return x

    @property
    def lengths(self) -> Tensor | None:
        """Length of each sample without its padding, (n,); None if none is padded."""
        lengths = torch.tensor([section.length for section in self.sections])
        return None if bool((lengths == self.length).all()) else lengths

    @property
    def starts(self) -> Tensor | None:
        """Position of each window in its recording, (n,); None if recordings are not cut into windows."""
        return torch.tensor([section.start for section in self.sections]) if self.windows else None


def plan_recordings(files: Sequence[Path], reading: "Reading") -> Plan:
    """Decide, by the headers, what to read of sound recordings; several channels are averaged to one.

    Integers are scaled to [-1, 1); floating-point and lossy recordings are not scaled and may lie a little
    beyond.

    Args:
        files: One per recording.
        reading: Options of reading. For different lengths, mixed `crop` cuts out the centre, `pad` appends
            zeros to shorter recordings and crops longer ones, and `windows` cuts each into windows, the last
            of which ends where the recording does; `auto` is `windows` of the longest, at most 5 s, and
            shorter recordings are followed by zeros.

    Raises:
        DataError: If a file cannot be read, or recordings differ that must not.
    """
    mixed, size, rate, hop = reading.mixed, reading.size, reading.rate, reading.hop
    if isinstance(size, tuple):
        raise ValueError(f"size must be one number of samples for recordings, got {size!r}")
    if mixed == "resize":
        raise ValueError(
            f"a recording cannot be resized without changing its pitch: use {argument('mixed', 'crop')}"
        )
    if hop is not None and mixed != "windows":
        raise ValueError(
            f"{argument('hop')} is not applicable to {argument('mixed', mixed)}, only to windows: leave "
            f"it out"
        )
    if mixed == "windows" and size is None:
        raise ValueError(f"{argument('mixed', 'windows')} needs {argument('size')}: the samples of a window")
    headers = scan_files(files, _read_header, "scanning recordings")
    rates = [header.rate for header in headers]
    if rate is None and len(set(rates)) > 1:
        raise DataError(
            f"recordings must be of one sample rate, but these are "
            f"{list_kinds([f'{rate} Hz' for rate in rates], files)}: resample them to one with rate= (--rate)"
        )
    rate = rates[0] if rate is None else rate
    lengths = [_resampled(header, rate) for header in headers]
    if mixed == "auto" and len(set(lengths)) > 1:
        mixed, size = "windows", size or min(max(lengths), _WINDOW_SECONDS * rate)
    length = _agree_on_length(files, lengths, mixed, size)
    sections = []
    for file, header, have in zip(files, headers, lengths, strict=True):
        if mixed == "windows":
            starts = _window_starts(have, length, hop or length)
        else:
            starts = [max(0, (have - length) // 2)]
        sections += [Section(file, start, min(length, have), header) for start in starts]
    _warn_of_channels(files, headers)
    return Plan(sections, length, rate, mixed == "windows")


def warn_of_silence(silent: Sequence[object]) -> None:
    """Warn of silent recordings, if there are any."""
    if silent:
        warnings.warn(
            f"{len(silent)} recordings are silent, such as {quote(silent[0])}: nothing can be learned from "
            f"them; remove them, or use {argument('skip_bad', True)}",
            DataWarning,
            stacklevel=5,
        )


def check_shortest(data: Dataset, frame: int) -> None:
    """Raise DataError if all recordings were cropped to one that is shorter than a frame, and name it."""
    if data.rate is None or data.location is None or data.shape[0] >= frame:
        return
    folder = data.location if data.location.is_dir() else data.location.parent
    splits = [data.train] if data.test is None else [data.train, data.test]
    files = [folder / name for split in splits for name in split.names]
    lengths = [_resampled(_read_header(file), data.rate) for file in files]
    if min(lengths) == data.shape[0] and frame <= max(lengths):
        file = files[lengths.index(min(lengths))]
        raise DataError(
            f"{quote(file)} has {min(lengths)} samples, less than a frame of the spectrogram, {frame}: "
            f"remove all as short, use {argument('mixed', 'pad')}, a shorter frame, or waveforms in place of "
            f"spectrograms"
        )


def check_recording(file: Path) -> None:
    """Raise DataError if a recording cannot be used: unreadable, not finite, or silent."""
    promised, count = _read_header(file).length, 0
    low, high = np.inf, -np.inf
    with _open(file) as recording:
        while len(block := recording.read(_BLOCK, dtype="float32", always_2d=True)):
            _check_values(file, block)
            low, high, count = min(low, block.min()), max(high, block.max()), count + len(block)
    if count != promised:
        raise changed(file, (count,), (promised,))
    if low == high:
        raise DataError(f"{quote(file)} is silent: all its samples are {low:g}; remove it")


def _check_values(file: Path, values: np.ndarray) -> None:
    peak = float(np.abs(values).max(initial=0))
    if not np.isfinite(peak):
        wrong = int((~np.isfinite(values)).sum())
        raise DataError(
            f"{quote(file)} has {wrong} NaN or infinite values of {values.size}: replace them, or remove the "
            f"file"
        )
    if peak > _LOUDEST:
        raise DataError(
            f"{quote(file)} goes up to {peak:.3g}, too large to be squared: replace it by a copy that "
            f"is scaled to about 1, or remove it"
        )


class Sound(NamedTuple):
    """A whole recording with all its channels."""

    channels: np.ndarray  # (t, channels) in float32
    rate: int
    subtype: str  # sample format, as soundfile names it


def read_sound(file: Path) -> Sound:
    """Read a whole recording."""
    promised = _read_header(file).length
    with _open(file) as recording:
        channels = recording.read(dtype="float32", always_2d=True)
        sound = Sound(channels, recording.samplerate, recording.subtype)
    if len(channels) != promised:
        raise changed(file, (len(channels),), (promised,))
    _check_values(file, channels)
    return sound


def write_sound(file: Path, sound: Sound) -> bytes:
    """Return the content of a file in the format of its suffix, in the sample format of `sound` if possible.

    A recording too loud for the format is made quieter as a whole, with a warning: it is never clipped.
    """
    import io

    soundfile = require("soundfile", "audio", "writing recordings")
    kind = file.suffix[1:].upper()
    subtype = sound.subtype
    if not soundfile.check_format(kind, subtype):
        # FLAC's own choice has 16 bits, too few for these.
        fine = kind == "FLAC" and subtype in ("FLOAT", "DOUBLE", "PCM_32")
        subtype = "PCM_24" if fine else soundfile.default_subtype(kind)
    channels, peak = sound.channels, float(np.abs(sound.channels).max())
    if peak >= 1 and subtype not in ("FLOAT", "DOUBLE"):
        channels = channels * (0.999 / peak)
        warnings.warn(
            f"{quote(file)} was made quieter, by a factor of {peak / 0.999:.3g}, to fit in {subtype}",
            DataWarning,
            stacklevel=2,
        )
    buffer = io.BytesIO()
    soundfile.write(buffer, channels, sound.rate, subtype=subtype, format=kind)
    return buffer.getvalue()


def _window_starts(have: int, length: int, hop: int) -> list[int]:
    """Return every multiple of hop, and the start of a last window that ends with the recording."""
    last = max(0, have - length)
    starts = list(range(0, last + 1, hop))
    return starts if starts[-1] == last else [*starts, last]


def _agree_on_length(files: Sequence[Path], lengths: list[int], mixed: str, wanted: int | None) -> int:
    length = wanted or (max(lengths) if mixed == "pad" else min(lengths))
    kinds = [f"{length} samples" for length in lengths]
    if mixed in ("auto", "error") and set(lengths) != {length}:
        asked = f", {length} samples," if wanted else ""
        raise DataError(
            f"recordings must be of one length{asked} but these are {list_kinds(kinds, files)}: remove the "
            f"odd ones, cut out the centre of each with {argument('mixed', 'crop')}, or use "
            f"{argument('mixed', 'pad')} or {argument('mixed', 'windows')}"
        )
    if mixed == "crop" and min(lengths) < length:
        short = [i for i, have in enumerate(lengths) if have < length]
        raise DataError(
            f"recordings are shorter than the {length} samples to be cut out: "
            f"{list_kinds([kinds[i] for i in short], [files[i] for i in short])}: "
            f"use a smaller size, {argument('mixed', 'pad')}, or remove them"
        )
    return length


def _warn_of_channels(files: Sequence[Path], headers: list[_Header]) -> None:
    many = [
        (file, header.channels) for file, header in zip(files, headers, strict=True) if header.channels > 2
    ]
    if many:
        warnings.warn(
            f"{len(many)} recordings have more than two channels, such as {quote(many[0][0])} with "
            f"{many[0][1]}: they are averaged; if they are different things, split them into files",
            DataWarning,
            stacklevel=5,
        )


def _read_header(file: Path) -> _Header:
    with _open(file) as recording:
        if recording.frames == 0:
            raise DataError(f"{quote(file)} is empty (0 samples): remove it")
        if recording.frames > _LENGTH_UNKNOWN:
            raise DataError(f"{quote(file)} does not say how long it is: save it again, as WAV or FLAC")
        header = _Header(recording.samplerate, recording.frames, recording.channels)
        missing = _missing_bytes(file) if recording.format in ("WAV", "WAVEX") else 0
    if missing:
        raise unreadable(file, "a recording", f"it was cut off: {missing} bytes are missing at its end")
    return header


def _missing_bytes(file: Path) -> int:
    """Return how many bytes a WAV file lacks of what its header promises, which libsndfile ignores."""
    with file.open("rb") as content:
        order: Literal["little", "big"] = "big" if content.read(4) == b"RIFX" else "little"
        content.seek(12)
        while len(chunk := content.read(8)) == 8:
            size = int.from_bytes(chunk[4:], order)
            if chunk[:4] == b"data":
                there = os.fstat(content.fileno()).st_size - content.tell()
                return max(0, size - there) if size < _STREAMED else 0
            content.seek(size + size % 2, os.SEEK_CUR)
    return 0


def _resampled(header: _Header, rate: int) -> int:
    """Return the length of a recording at another rate, as SciPy resamples it."""
    return -(-header.length * rate // header.rate)


def _decode(section: Section, *, length: int, rate: int) -> Tensor:
    """Read a section at the target rate, padded with zeros."""
    divisor = gcd(rate, section.header.rate)
    up, down = rate // divisor, section.header.rate // divisor
    stop = section.start + section.length
    # Resampled by itself, a part is what it is in the whole if it begins at a multiple of `down`, and reaches
    # as far beyond both ends as the filter does.
    margin = 0 if up == down else _TAPS * max(up, down) // up + 1
    first = max(0, section.start * down // up - margin) // down * down
    last = min(section.header.length, -(-stop * down // up) + margin)
    with _open(section.file) as recording:
        if first:
            recording.seek(first)
        # One sample more than there should be, so that a file that has grown since is noticed.
        ask = last - first + (last == section.header.length)
        channels = recording.read(ask, dtype="float32", always_2d=True)
    if len(channels) != last - first:
        raise changed(section.file, (len(channels),), (last - first,))
    _check_values(section.file, channels)
    mono = channels[:, 0] if channels.shape[1] == 1 else channels.mean(axis=1)
    if up != down:
        offset = first // down * up
        mono = resample(mono, section.header.rate, rate)[section.start - offset : stop - offset]
    padded = np.zeros(length, np.float32)
    padded[: section.length] = mono
    return torch.from_numpy(padded)


def resample(signal: np.ndarray, rate: int, new_rate: int) -> np.ndarray:
    """Resample a signal, (t,) or (t, channels), to another sample rate."""
    from scipy.signal import resample_poly  # slow to import

    divisor = gcd(rate, new_rate)
    resampled: np.ndarray = resample_poly(signal, new_rate // divisor, rate // divisor, axis=0)
    return resampled


@contextmanager
def _open(file: Path) -> Iterator[Any]:
    """Open a recording; errors until it is closed name the file."""
    soundfile = require("soundfile", "audio", "reading recordings")
    # The bytes of a name that is no valid text, which soundfile would not encode; Windows has none.
    path = str(file) if os.name == "nt" else os.fsencode(file)
    try:
        with soundfile.SoundFile(path) as recording:
            yield recording
    except (soundfile.SoundFileError, OSError) as error:
        file.open("rb").close()  # a missing or forbidden file raises its own error
        raise unreadable(file, "a recording", getattr(error, "error_string", str(error))) from error

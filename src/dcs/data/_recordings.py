"""Sound recordings: mono, brought to one sample rate, of one length or read window by window."""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
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
from dcs.data._dataset import DataError, Dataset, DataWarning, Samples
from dcs.data._files import changed, list_kinds, quote, read_files, read_items, scan_files, unreadable
from dcs.data.windows import CentralWindows, Items

if TYPE_CHECKING:
    from dcs.data._reading import Reading  # imports pydantic, which takes a while

AUDIO_SUFFIXES = (".wav", ".flac", ".ogg", ".mp3")

_LENGTH_UNKNOWN = 2**62  # libsndfile gives about 2**63 where a header leaves the length out
_STREAMED = 0x7FFFF000  # bytes, and more, promise writers of WAV files that cannot go back to say how many
_LOUDEST = 1e15  # so that the power of a frame, or of a recording, is finite in float32
_TAPS = 10  # SciPy's resampling filter reaches so many samples, of the lower rate, to either side
_BLOCK = 2**20
_LARGEST_WAV = 2**32 - 2**20  # bytes of sound; larger files are written as RF64
_WINDOW_SECONDS, _WHOLE_SECONDS = 5, 30  # of windows, and of recordings that are samples, at most
_LAZY_FROM = 2**28  # samples, from which recordings that are learned from in windows stay on disk


class _Header(NamedTuple):
    rate: int
    length: int
    channels: int


class Section(NamedTuple):
    """A part of a recording, or a whole one; `start` and `length` are in samples at the target rate."""

    file: Path
    start: int
    length: int  # what there is: the rest of a sample is padding
    header: _Header
    channel: int | None = None  # None averages all

    def __str__(self) -> str:
        return str(self.file)


class Plan(NamedTuple):
    """Recordings to read.

    Args:
        sections: One per sample; a whole recording where samples are windows.
        length: Length of a sample or a window.
        rate: Sample rate.
        windows: Whether samples are windows.
    """

    sections: list[Section]
    length: int
    rate: int
    windows: bool

    def read(self, resident: bool | None = None) -> Tensor | Samples:
        """Read all, (n, length) in float32; shorter sections are followed by zeros."""
        if self.windows:
            return CentralWindows(self._items(resident), (self.length,))
        decode = partial(_decode, length=self.length, rate=self.rate)
        x = read_files(self.sections, decode, (self.length,), resident, "reading recordings")
        if isinstance(x, Tensor):
            silent = (x.amin(1) == x.amax(1)).nonzero().squeeze(1).tolist()
            warn_of_silence([self.sections[row].file for row in silent])
        return x

    @property
    def lengths(self) -> Tensor | None:
        """Length of each sample without its padding, (n,); None if none is padded."""
        lengths = torch.tensor([section.length for section in self.sections])
        return None if self.windows or bool((lengths == self.length).all()) else lengths

    def _items(self, resident: bool | None) -> Items:
        items = RecordingItems(self.sections, self.rate)
        count = sum(section.length for section in self.sections)
        if resident is False or (resident is None and count > _LAZY_FROM):
            return items
        return read_items(self.sections, items.decode, items.sizes, None, "reading recordings")


class RecordingItems(Items):
    """Recordings of any length, of which parts are read without the rest.

    Args:
        sections: Whole recordings.
        rate: Sample rate at which they are read.
    """

    def __init__(self, sections: Sequence[Section], rate: int) -> None:
        self.sections, self.rate = tuple(sections), rate
        self.sizes = [(section.length,) for section in sections]

    @classmethod
    def channels_of(cls, file: Path, rate: int) -> "RecordingItems":
        """Return the channels of a recording, each as an item."""
        header = _read_header(file)
        length = _resampled(header, rate)
        return cls([Section(file, 0, length, header, channel) for channel in range(header.channels)], rate)

    def decode(self, section: Section) -> Tensor:
        """Read a whole recording."""
        return _decode(section, length=section.length, rate=self.rate)

    def region(self, index: int, start: Sequence[int], size: Sequence[int]) -> Tensor:
        """Read a part of a recording."""
        return self.decode(self.sections[index]._replace(start=start[0], length=size[0]))


def plan_recordings(files: Sequence[Path], reading: "Reading") -> Plan:
    """Decide, by the headers, what to read of sound recordings; several channels are averaged to one.

    Integers are scaled to [-1, 1); floating-point and lossy recordings are not scaled and may lie a little
    beyond.

    Args:
        files: One per recording.
        reading: Options of reading. For different lengths, mixed `crop` cuts out the centre, `pad` appends
            zeros to shorter recordings and crops longer ones, and `windows` takes windows of `size` samples,
            by default as long as the longest recording, at most 5 s; `auto` is `windows` for recordings of
            different lengths, or of more than 30 s if no size is given.

    Raises:
        DataError: If a file cannot be read, or recordings differ that must not.
    """
    mixed, size, rate = reading.mixed, reading.size, reading.rate
    if isinstance(size, tuple):
        raise ValueError(f"size must be one number of samples for recordings, got {size!r}")
    if mixed == "resize":
        raise ValueError(
            f"a recording cannot be resized without changing its pitch: use {argument('mixed', 'crop')}"
        )
    headers = scan_files(files, _read_header, "scanning recordings")
    rates = [header.rate for header in headers]
    if rate is None and len(set(rates)) > 1:
        raise DataError(
            f"recordings must be of one sample rate, but these are "
            f"{list_kinds([f'{rate} Hz' for rate in rates], files)}: resample them to one with rate= (--rate)"
        )
    rate = rates[0] if rate is None else rate
    lengths = [_resampled(header, rate) for header in headers]
    _warn_of_channels(files, headers)
    long = size is None and max(lengths) > _WHOLE_SECONDS * rate
    if mixed == "windows" or (mixed == "auto" and (long or len(set(lengths)) > 1)):
        whole = [Section(*one) for one in zip(files, [0] * len(files), lengths, headers, strict=True)]
        return Plan(whole, size or recording_window(max(lengths), rate), rate, True)
    length = _agree_on_length(files, lengths, mixed, size)
    sections = [
        Section(file, max(0, (have - length) // 2), min(length, have), header)
        for file, header, have in zip(files, headers, lengths, strict=True)
    ]
    return Plan(sections, length, rate, False)


def recording_window(longest: int, rate: int) -> int:
    """Return the default length of windows, for recordings of which the longest has so many samples."""
    return min(longest, _WINDOW_SECONDS * rate)


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
    windows = data.train.items is not None
    if data.rate is None or data.location is None or windows or data.shape[0] >= frame:
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
    low, high = scan_recording(file)
    if low == high:
        raise DataError(f"{quote(file)} is silent: all its samples are {low:g}; remove it")


def scan_recording(file: Path) -> tuple[float, float]:
    """Read a recording, block by block, and return its least and its greatest value.

    Raises:
        DataError: If it is unreadable, or not finite.
    """
    promised, count = _read_header(file).length, 0
    low, high = np.inf, -np.inf
    with _open(file) as recording:
        while len(block := recording.read(_BLOCK, dtype="float32", always_2d=True)):
            _check_values(file, block)
            low, high, count = min(low, block.min()), max(high, block.max()), count + len(block)
    if count != promised:
        raise changed(file, (count,), (promised,))
    return float(low), float(high)


def rate_of(file: Path) -> int:
    """Return the sample rate of a recording."""
    return _read_header(file).rate


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


def write_recording(file: Path, signal: np.ndarray, rate: int, like: Path, kind: str) -> None:
    """Write a signal with the sample rate, the length and, if possible, the sample format of a recording.

    A signal too loud for the format is made quieter as a whole, with a warning: it is never clipped. Neither
    is ever in memory as a whole.

    Args:
        file: File to write.
        signal: Signal, (channels, t), at least as long as the recording; it may be mapped into memory.
        rate: Its sample rate.
        like: The recording.
        kind: Format, named by a suffix such as ".wav".
    """
    soundfile = require("soundfile", "audio", "writing recordings")
    header, form = _read_header(like), kind[1:].upper()
    with _open(like) as recording:
        subtype = recording.subtype
    if not soundfile.check_format(form, subtype):
        # FLAC's own choice has 16 bits, too few for these.
        fine = form == "FLAC" and subtype in ("FLOAT", "DOUBLE", "PCM_32")
        subtype = "PCM_24" if fine else soundfile.default_subtype(form)
    if form == "WAV" and 8 * header.length * len(signal) > _LARGEST_WAV:
        form = "RF64"

    def blocks() -> Iterator[np.ndarray]:
        for start in range(0, header.length, _BLOCK):
            stop = min(start + _BLOCK, header.length)
            yield resample_part(
                lambda first, last: signal[:, first:last].T, signal.shape[1], start, stop, rate, header.rate
            )

    factor, peak = 1.0, max(float(np.abs(block).max()) for block in blocks())
    if peak >= 1 and subtype not in ("FLOAT", "DOUBLE"):
        factor = 0.999 / peak
        warnings.warn(
            f"{quote(file)} was made quieter, by a factor of {1 / factor:.3g}, to fit in {subtype}",
            DataWarning,
            stacklevel=2,
        )
    with soundfile.SoundFile(file, "w", header.rate, len(signal), subtype, format=form) as output:
        for block in blocks():
            output.write(block * np.float32(factor))


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
    header = section.header

    def read(first: int, last: int) -> np.ndarray:
        with _open(section.file) as recording:
            if first:
                recording.seek(first)
            # One sample more than there should be, so that a file that has grown since is noticed.
            ask = last - first + (last == header.length)
            channels: np.ndarray = recording.read(ask, dtype="float32", always_2d=True)
        if len(channels) != last - first:
            raise changed(section.file, (len(channels),), (last - first,))
        _check_values(section.file, channels)
        if channels.shape[1] == 1:
            return channels[:, 0]
        return channels.mean(axis=1) if section.channel is None else channels[:, section.channel]

    padded = np.zeros(length, np.float32)
    stop = section.start + section.length
    padded[: section.length] = resample_part(read, header.length, section.start, stop, header.rate, rate)
    return torch.from_numpy(padded)


def resample_part(
    read: Callable[[int, int], np.ndarray], length: int, start: int, stop: int, rate: int, new_rate: int
) -> np.ndarray:
    """Return a part of what a signal is at another rate, and read no more of it than that takes.

    Args:
        read: Function of a first and a last sample that returns the signal between them, (t,) or (t, c).
        length: Length of the signal.
        start: First sample of the part, at the new rate.
        stop: Its end.
        rate: Sample rate of the signal.
        new_rate: Sample rate of the result.
    """
    if rate == new_rate:
        return read(start, stop)
    divisor = gcd(new_rate, rate)
    up, down = new_rate // divisor, rate // divisor
    # Resampled by itself, a part is what it is in the whole if it begins at a multiple of `down`, and reaches
    # as far beyond both ends as the filter does.
    margin = _TAPS * max(up, down) // up + 1
    first = max(0, start * down // up - margin) // down * down
    last = min(length, -(-stop * down // up) + margin)
    offset = first // down * up
    return resample(read(first, last), rate, new_rate)[start - offset : stop - offset]


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

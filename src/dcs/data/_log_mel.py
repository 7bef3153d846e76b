"""Log-mel spectrograms of recordings, as in the paper's Expt3."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np
import torch
from torch import Generator, Tensor

from dcs._checks import check_choice, check_finite, check_integer, check_number, check_tensor
from dcs._progress import progress
from dcs.data._dataset import Dataset, Samples, Split, check_lengths, is_resident, valid_entries

_PAPER_RATE, _PAPER_FRAME = 44_100, 1000
_BANDS = (60, 40, 20, 10)
_SAMPLES_AT_ONCE = 2**18  # on a processor: spectra of more do not stay in its cache
_SAMPLES_A_CHUNK = 2**23
# Slaney's scale: linear up to 1 kHz, 15 mels there, then 27 mels for every factor of 6.4.
_LINEAR_HZ, _BREAK_HZ, _BREAK_MEL, _LOG_STEP = 200 / 3, 1000.0, 15.0, np.log(6.4) / 27


@dataclass(frozen=True)
class LogMel:
    """Convert waveforms (n, t) to standardised log-mel spectrograms (n, frames, mels).

    The power spectrum of frames under a Hann window (none beyond the ends), summed in triangular bands on
    Slaney's mel scale, each of area one; 10·log10 of it; values more than `top_db` below a recording's
    loudest are raised to that. Then the mean and deviation of a training set are taken out, without which a
    cosine would see little but the offset of the decibels. For 5 s at 44.1 kHz the spectrogram is 440 x 60.

    Args:
        rate: Sample rate in Hz.
        frame: Samples per frame; by default those of 1000/44,100 s.
        hop: Hop between frames, in samples; by default half a frame.
        mels: Number of bands; by default 60, or fewer where bands would be narrower than a frame resolves.
        low: Lower edge of the lowest band in Hz.
        high: Upper edge of the highest band in Hz; by default half the rate.
        amin: Smallest power, which silence gets.
        top_db: Dynamic range of a spectrogram in dB; None for no limit.
        standardise: Statistics to standardise by: of each `bin`, of `all` entries together, or `none`.
        mean: Mean to subtract, one value per band; set by `fit`.
        deviation: Standard deviation to divide by, one value per band.

    Example:
        >>> noise = torch.randn(3, 220_500, generator=torch.Generator().manual_seed(0))
        >>> LogMel(44_100).fit(noise)(noise).shape
        torch.Size([3, 440, 60])
    """

    rate: int
    frame: int = None  # type: ignore[assignment]  # None, here and below, is replaced by the default
    hop: int = None  # type: ignore[assignment]
    mels: int = None  # type: ignore[assignment]
    low: float = 0.0
    high: float = None  # type: ignore[assignment]
    amin: float = 1e-10
    top_db: float | None = 80.0
    standardise: str = "bin"
    mean: Sequence[float] | None = None
    deviation: Sequence[float] | None = None

    def __post_init__(self) -> None:
        check_integer("rate", self.rate, at_least=1)
        self._default("frame", max(2, self.rate * _PAPER_FRAME // _PAPER_RATE))
        check_integer("frame", self.frame, at_least=2)
        self._default("hop", self.frame // 2)
        check_integer("hop", self.hop, at_least=1)
        self._default("high", self.rate / 2)
        check_number("high", self.high, above=0, at_most=self.rate / 2)
        check_number("low", self.low, at_least=0)
        if self.low >= self.high:
            raise ValueError(f"low must be below high, {self.high:g} Hz, got {self.low:g}")
        check_number("amin", self.amin, above=0)
        if self.top_db is not None:
            check_number("top_db", self.top_db, above=0)
        check_choice("standardise", self.standardise, ("bin", "all", "none"))
        band = (self.frame, self.rate, self.low, self.high)
        self._default("mels", next((count for count in _BANDS if not _empty_bands(count, *band)), _BANDS[-1]))
        check_integer("mels", self.mels, at_least=1, at_most=2**16)
        empty = _empty_bands(self.mels, *band)
        if empty:
            raise ValueError(
                f"mels must be fewer than {self.mels}: {empty} bands from {self.low:g} to {self.high:g} Hz "
                f"would hold no frequency of a frame of {self.frame} samples; or use a longer frame"
            )
        self._check_statistics()

    def __call__(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Compute standardised spectrograms, on x's device.

        Args:
            x: Waveforms, (n, t).
            lengths: Length of each without its padding, (n,); frames that reach into the padding are 0.
        """
        if self.standardise != "none" and self.mean is None:
            raise ValueError('LogMel has no mean yet: fit it to the training set, or use standardise="none"')
        z = self.standardised(self.decibels(_heard(x, lengths)))
        return z if lengths is None else z.where(self.valid(lengths, z), 0)

    def decibels(self, x: Tensor) -> Tensor:
        """Compute spectrograms (n, frames, mels) in dB, before they are standardised."""
        self._check_waveforms(x)
        window, matrix = _tables(self.frame, self.rate, self.mels, self.low, self.high, x.device, x.dtype)
        power = x.new_empty(len(x), self.frames(x.shape[1]), self.mels)
        step = max(1, _SAMPLES_AT_ONCE // x.shape[1]) if x.device.type == "cpu" else len(x)
        for some, out in zip(x.split(step), power.split(step), strict=True):
            # torch.stft does the same with strided transforms, which take three times as long.
            spectra = torch.fft.rfft(some.unfold(1, self.frame, self.hop) * window)
            torch.matmul(spectra.real.square() + spectra.imag.square(), matrix, out=out)
        check_finite(power.sum() + x.sum(), x=x)  # x too, as its end may be in no frame
        decibels = power.clamp_(min=self.amin).log10_().mul_(10)
        if self.top_db is None:
            return decibels
        return decibels.clamp_(min=decibels.amax((1, 2), keepdim=True) - self.top_db)

    def standardised(self, decibels: Tensor) -> Tensor:
        """Standardise spectrograms in dB."""
        if self.mean is None:
            return decibels
        return (decibels - self._statistic("mean", decibels)).div_(self._statistic("deviation", decibels))

    def undo(self, z: Tensor) -> Tensor:
        """Convert standardised spectrograms back to dB."""
        check_tensor("z", z)
        return z if self.mean is None else z * self._statistic("deviation", z) + self._statistic("mean", z)

    def fit(self, x: Tensor | Samples, lengths: Tensor | None = None) -> Self:
        """Return a LogMel with the mean and deviation of a training set; frames in padding do not count."""
        if self.standardise == "none":
            return self
        sums = torch.zeros(3, self.mels, dtype=torch.float64)
        for rows, waves in _chunks(x, "measuring spectrograms"):
            some = None if lengths is None else lengths[rows]
            decibels = self.decibels(_heard(waves, some))
            sums += _moments(decibels, None if some is None else self.valid(some, decibels))
        return self._with(sums)

    def fit_decibels(self, decibels: Tensor) -> Self:
        """Return the same for spectrograms that were computed by `decibels`."""
        check_tensor("decibels", decibels)
        if decibels.ndim != 3 or decibels.shape[2] != self.mels:
            shape = tuple(decibels.shape)
            raise ValueError(f"decibels must be spectrograms (n, frames, {self.mels}), got shape {shape}")
        if self.standardise == "none":
            return self
        return self._with(torch.stack([_moments(some) for some in decibels.split(64)]).sum(0))

    def _with(self, sums: Tensor) -> Self:
        """Return a copy with the statistics of the number, sum and sum of squares in each band."""
        if self.standardise == "all":
            sums = sums.sum(1, keepdim=True).expand(3, self.mels)
        count, total, squares = sums
        mean = total / count
        deviation = (squares / count - mean.square()).clamp(min=0).sqrt()
        deviation = deviation.where(deviation > 1e-6, 1)  # a band that is always the same
        return replace(self, mean=tuple(mean.tolist()), deviation=tuple(deviation.tolist()))

    def of(self, x: Tensor | Samples, lengths: Tensor | None = None) -> Tensor | Samples:
        """Compute the spectrograms of a whole data set, in memory or, if they do not fit, on demand."""
        shape = (x.shape[0], *self.shape(x.shape[1]))
        if isinstance(x, Samples) and not is_resident(int(np.prod(shape)), None):
            return Spectrograms(x, self, lengths)
        out = torch.empty(shape)
        for rows, waves in _chunks(x, "computing spectrograms"):
            out[rows] = self(waves, None if lengths is None else lengths[rows]).cpu()
        return out

    def apply(self, data: Dataset) -> tuple[Dataset, "LogMel"]:
        """Return the spectrograms of a data set of recordings, and the LogMel they were made with.

        One that has no statistics yet gets those of the training split.
        """
        if data.rate != self.rate:
            raise ValueError(f"{data.name} has {data.rate} Hz, but LogMel is for rate {self.rate}: use that")
        fitted = self.fit(data.train.x, data.train.lengths) if self.mean is None else self

        def spectrograms(split: Split) -> Split:
            lengths = None if split.lengths is None else fitted.frames_of(split.lengths)
            x: Any = fitted.of(split.x, split.lengths)
            clean: Any = None if split.clean is None else fitted.of(split.clean, split.lengths)
            return replace(split, x=x, clean=clean, lengths=lengths)

        test = None if data.test is None else spectrograms(data.test)
        return replace(data, train=spectrograms(data.train), test=test), fitted

    def frames(self, length: int) -> int:
        """Return the number of frames of a recording."""
        check_integer("length", length, at_least=self.frame)
        return 1 + (int(length) - self.frame) // self.hop

    def shape(self, length: int) -> tuple[int, int]:
        """Return the shape of the spectrogram of a recording, (frames, mels)."""
        return self.frames(length), self.mels

    def frames_of(self, lengths: Tensor) -> Tensor:
        """Return the number of frames before the padding of each recording, (n,), at least one."""
        return ((lengths - self.frame).div(self.hop, rounding_mode="floor") + 1).clamp(min=1)

    def valid(self, lengths: Tensor, like: Tensor) -> Tensor:
        """Return a mask of the frames before the padding, (n, frames, 1)."""
        return valid_entries(self.frames_of(lengths).to(like.device), like.shape[1:])

    def describe(self) -> dict[str, Any]:
        """Return all options as plain values, for `LogMel(**values)`."""
        return asdict(self)

    def _default(self, name: str, value: object) -> None:
        if getattr(self, name) is None:
            object.__setattr__(self, name, value)

    def _check_statistics(self) -> None:
        if (self.mean is None) != (self.deviation is None):
            raise ValueError("mean and deviation must be given both, or neither: fit finds them")
        for name in ("mean", "deviation"):
            values = getattr(self, name)
            if values is None:
                continue
            if not isinstance(values, Sequence) or len(values) != self.mels:
                raise ValueError(f"{name} must hold {self.mels} numbers, one per band, got {values!r:.60}")
            for value in values:
                check_number(name, value, **({"above": 0} if name == "deviation" else {}))
            object.__setattr__(self, name, tuple(float(value) for value in values))

    def _check_waveforms(self, x: Tensor) -> None:
        check_tensor("x", x)
        if x.ndim != 2 or not len(x):
            raise ValueError(f"x must be waveforms (n, t), got shape {tuple(x.shape)}")
        if x.shape[1] < self.frame:
            raise ValueError(
                f"x has {x.shape[1]} samples, which is less than a frame of {self.frame}: use longer "
                f"recordings, a shorter frame, or waveforms in place of spectrograms"
            )

    def _statistic(self, name: str, like: Tensor) -> Tensor:
        return torch.tensor(getattr(self, name), dtype=like.dtype, device=like.device)


class Spectrograms(Samples):
    """Spectrograms that are computed on demand.

    Args:
        waveforms: Waveforms, (n, t).
        front_end: LogMel that computes them.
        lengths: Length of each without its padding, (n,).
    """

    def __init__(self, waveforms: Samples, front_end: LogMel, lengths: Tensor | None = None) -> None:
        self.waveforms, self.front_end, self.lengths = waveforms, front_end, lengths
        self.shape = (len(waveforms), *front_end.shape(waveforms.shape[1]))

    def for_epoch(self, seed: int) -> "Spectrograms":
        """Return the spectrograms of an epoch."""
        return Spectrograms(self.waveforms.for_epoch(seed), self.front_end, self.lengths)

    def groups(self) -> Tensor | None:
        """Return the group of each recording."""
        return self.waveforms.groups()

    def shuffled(self, rows: Tensor, generator: Generator) -> Tensor:
        """Return rows in the random order in which recordings are read."""
        return self.waveforms.shuffled(rows, generator)

    def read(self, indices: Sequence[int]) -> Tensor:
        """Compute some spectrograms."""
        if not len(indices):
            return torch.empty((0, *self.shape[1:]))
        lengths = None if self.lengths is None else self.lengths[list(indices)]
        return self.front_end(self.waveforms.read(indices), lengths)


def _moments(decibels: Tensor, valid: Tensor | None = None) -> Tensor:
    """Return the number, sum and sum of squares of the values in each band, (3, mels)."""
    kept = decibels.double()
    count = torch.full((kept.shape[2],), kept.shape[0] * kept.shape[1], dtype=torch.float64)
    if valid is not None:
        kept = kept.where(valid, 0)
        count = count.new_full(count.shape, float(valid.sum()))
    return torch.stack([count, kept.sum((0, 1)).cpu(), kept.square().sum((0, 1)).cpu()])


def _heard(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Replace the padding of waveforms by silence."""
    if lengths is None:
        return x
    check_lengths(lengths, x.shape)
    return x.where(valid_entries(lengths.to(x.device), x.shape[1:]), 0)


def _chunks(x: Tensor | Samples, what: str) -> Iterator[tuple[slice, Tensor]]:
    """Yield some waveforms at a time, so that their spectra fit in memory."""
    if len(x.shape) != 2:
        raise ValueError(f"x must be waveforms (n, t), got shape {tuple(x.shape)}")
    n, step = x.shape[0], max(1, _SAMPLES_A_CHUNK // x.shape[1])
    with progress(what, total=n) as advance:
        for start in range(0, n, step):
            stop = min(start + step, n)
            yield slice(start, stop), x.read(range(start, stop)) if isinstance(x, Samples) else x[start:stop]
            advance(stop - start)


@lru_cache(maxsize=8)
def _tables(
    frame: int, rate: int, mels: int, low: float, high: float, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return the window, and the bands as a matrix (frequencies, mels)."""
    window = torch.hann_window(frame, dtype=torch.float64)
    bands = torch.from_numpy(_bands(mels, frame, rate, low, high).T.copy())
    return window.to(device, dtype), bands.to(device, dtype)


def _bands(mels: int, frame: int, rate: int, low: float, high: float) -> np.ndarray:
    """Return triangles between neighbouring points of the mel scale, of area one, (mels, frequencies)."""
    points = _to_hz(np.linspace(_to_mel(low), _to_mel(high), mels + 2))
    frequency = np.arange(frame // 2 + 1) * rate / frame
    left, centre, right = points[:-2, None], points[1:-1, None], points[2:, None]
    rising, falling = (frequency - left) / (centre - left), (right - frequency) / (right - centre)
    triangles: np.ndarray = np.maximum(0, np.minimum(rising, falling)) * 2 / (right - left)
    return triangles


def _empty_bands(mels: int, frame: int, rate: int, low: float, high: float) -> int:
    return int((_bands(mels, frame, rate, low, high).max(axis=1) <= 0).sum())


def _to_mel(hz: float) -> float:
    return hz / _LINEAR_HZ if hz < _BREAK_HZ else _BREAK_MEL + float(np.log(hz / _BREAK_HZ)) / _LOG_STEP


def _to_hz(mel: np.ndarray) -> np.ndarray:
    above: np.ndarray = _BREAK_HZ * np.exp(_LOG_STEP * np.maximum(mel - _BREAK_MEL, 0))
    return np.where(mel < _BREAK_MEL, mel * _LINEAR_HZ, above)

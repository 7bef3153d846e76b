"""Samples as small pictures: images as they are, recordings as spectrograms, vectors as profiles."""

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate

from dcs.data import LogMel, Split

Pixels = NDArray[np.uint8]
_PROFILE = (32, 48)  # height, and width at most


class Painter(NamedTuple):
    """Draws samples of one data set alike; `find_painter` makes it."""

    kind: str  # image, spectrogram or profile
    low: float  # what is black
    high: float  # what is white
    front_end: LogMel | None = None
    base: float = 0.0  # where the bars of profiles begin

    def paint(self, x: Tensor, edge: int) -> Pixels:
        """Draw samples: (n, height, width), or (n, height, width, 3) of colour, no side longer than `edge`.

        Args:
            x: Samples (n, ...); or what `levels` made of them.
            edge: In pixels.
        """
        values = ((x.float() - self.low) / (self.high - self.low)).clamp(0, 1)
        if self.kind == "profile":
            return _profiles(values, (self.base - self.low) / (self.high - self.low))
        if self.kind == "spectrogram":
            # Time goes to the right, and high tones are above.
            values = values.transpose(1, 2).flip(1)[:, None]
            size = (min(values.shape[2], edge * 2 // 3), min(values.shape[3], edge))
        else:
            values = values[:, None] if values.ndim == 3 else values
            values = values if values.shape[1] in (1, 3) else values.mean(1, keepdim=True)
            height, width = values.shape[2:]
            shrink = min(1.0, edge / max(height, width))
            size = (max(1, round(height * shrink)), max(1, round(width * shrink)))
        if size != tuple(values.shape[2:]):
            values = interpolate(values, size, mode="area")
        pixels: Pixels = (255 * values).round().byte().permute(0, 2, 3, 1).numpy()
        return pixels[..., 0] if pixels.shape[-1] == 1 else pixels

    def levels(self, x: Tensor) -> Tensor:
        """What is drawn of samples: of recordings, decibels."""
        return x if self.front_end is None else self.front_end.decibels(x)


def find_painter(part: Split, front_end: LogMel | None, rate: int | None) -> Painter:
    """See by some samples how all are to be drawn."""
    assert isinstance(part.x, Tensor)  # noqa: S101  (they were read)
    shown = part.x if part.clean is None else part.clean
    if rate is not None and shown.ndim == 2:
        maker = front_end or _spectrograms(rate, shown.shape[1])
        decibels = maker.decibels(part.x)
        low, high = _range(decibels)
        return Painter("spectrogram", low, high, maker)
    if shown.ndim == 2:
        low, high = _range(shown)
        if min(abs(low), abs(high)) > high - low:  # so far from zero that bars from there would all be alike
            return Painter("profile", low, high, base=float(shown.median()))
        return Painter("profile", min(low, 0.0), max(high, 0.0) if low < 0 or high > 0 else 1.0)
    low, high = (float(value) for value in shown.aminmax())
    low, high = (0.0, 1.0) if low >= 0 and 0.3 < high <= 1 else _range(shown)
    return Painter("image", low, high)


def _spectrograms(rate: int, length: int) -> LogMel:
    """For recordings that the network sees as waveforms: at least eight frames, whatever their length."""
    usual = LogMel(rate, standardise="none")
    frame = min(usual.frame, max(8, length // 5))
    return usual if frame == usual.frame else LogMel(rate, frame=frame, hop=frame // 2, standardise="none")


def _range(x: Tensor) -> tuple[float, float]:
    """From near the least to near the largest value; few outliers do not count."""
    some = x.flatten()[:: max(1, x.numel() // 2**20)].double()
    low, high = torch.quantile(some, torch.tensor([0.01, 0.99], dtype=some.dtype)).tolist()
    if not high > low:
        low, high = (float(value) for value in some.aminmax())
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _profiles(values: Tensor, zero: float) -> Pixels:
    """Bars from the line of `zero` up or down to each value, (n, d) in 0 to 1."""
    height, width = _PROFILE
    if values.shape[1] > width:
        values = interpolate(values[:, None], width, mode="area")[:, 0]
    values = values.repeat_interleave(math.ceil(width / 2 / values.shape[1]), dim=1)
    level = torch.linspace(1 - 0.5 / height, 0.5 / height, height)[None, :, None]
    bars = values[:, None]
    filled = ((level <= bars) & (level >= zero)) | ((level >= bars) & (level <= zero))
    return (255 * filled.byte()).numpy()

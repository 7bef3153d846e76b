"""Signals of any length as overlapping windows, and windows as one signal again."""

import torch
from torch import Tensor
from torch.nn.functional import pad


def cut(signal: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Windows that overlap by half, the last of which ends with the signal.

    Args:
        signal: (channels, t); one that is shorter than a window is followed by zeros.
        length: Of a window.

    Returns:
        The windows, (channels·m, length), channel by channel, and where each begins, (m,).
    """
    t = signal.shape[1]
    last = max(0, t - length)
    starts = torch.arange(0, last + 1, max(1, length // 2))
    if int(starts[-1]) != last:
        starts = torch.cat([starts, torch.tensor([last])])
    padded = pad(signal, (0, max(0, length - t)))
    place = starts[:, None] + torch.arange(length)
    return padded[:, place].flatten(0, 1), starts


def cross_fade(pieces: Tensor, starts: Tensor, t: int) -> Tensor:
    """Signals, (channels, t), of windows, each of which fades in and out.

    Args:
        pieces: (channels·m, length).
        starts: Where each begins, (m,), in every channel.
        t: Length of the signals.
    """
    length = pieces.shape[1]
    # Never 0, so that what only one window covers is that window.
    fade = torch.hann_window(length + 2, periodic=False, dtype=torch.float64)[1:-1]
    place = (starts[:, None] + torch.arange(length)).flatten()
    weight = torch.zeros(t, dtype=torch.float64).index_add_(0, place, fade.repeat(len(starts)))
    pieces = (pieces.double() * fade).reshape(-1, len(starts) * length)
    total = torch.zeros(len(pieces), t, dtype=torch.float64).index_add_(1, place, pieces)
    return (total / weight).float()

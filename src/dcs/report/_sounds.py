"""Recordings as sounds inside the page."""

import base64
import io
import wave

import numpy as np
from numpy.typing import NDArray

RECORDINGS = 3
_BYTES = 1_200_000  # all recordings of a run together
_LONGEST = 8.0  # seconds


def playable_length(rate: int, length: int, kinds: int) -> int:
    """Return how many samples of each recording are played, so that all recordings of a run fit in the page.

    Args:
        rate: Sampling rate in Hz.
        length: Length of a recording in samples.
        kinds: Number of versions of each recording.
    """
    return min(length, round(_LONGEST * rate), _BYTES // (2 * RECORDINGS * kinds))


def as_wav(signal: NDArray[np.float32], rate: int, gain: float) -> str:
    """Return a data URI of a mono recording with 16 bits per sample."""
    integers = np.rint(np.clip(signal * gain, -1, 1) * 32767).astype("<i2")
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(integers.tobytes())
    return f"data:audio/wav;base64,{base64.b64encode(buffer.getvalue()).decode()}"

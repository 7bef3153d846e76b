"""The paper's equations as pure functions: no state, no files, no classes.

Everything is batch first, (n, ...) with any trailing shape, on any device. Half-precision input is
summed in float32, and the results are float32 then; otherwise they have the input's precision.
"""

from dcs.functional.losses import (
    cosine_loss,
    denoising_cosine_loss,
    length_loss,
    noise2void_loss,
    sure_loss,
)
from dcs.functional.weight import RadialLaw, denoising_weight, expected_cosine, snr

__all__ = [
    "RadialLaw",
    "cosine_loss",
    "denoising_cosine_loss",
    "denoising_weight",
    "expected_cosine",
    "length_loss",
    "noise2void_loss",
    "snr",
    "sure_loss",
]

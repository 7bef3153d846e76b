"""`dcs denoise` of recordings."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from dcs.data import (
    AUDIO_SUFFIXES,
    DataWarning,
    Sound,
    read_sound,
    resample,
    scan_recordings,
    write_sound,
)
from dcs.training.checkpoint import write_atomically

if TYPE_CHECKING:
    from dcs import DenoisingEncoder


def denoise_recordings(
    encoder: "DenoisingEncoder", rate: int, data: Path, out: Path, skip_bad: bool = False
) -> str:
    """Write a denoised copy of a recording, or of a folder of them; what was done, in words.

    Each keeps its rate, its length and its channels, which are denoised one by one.

    Args:
        encoder: Of a run on waveforms.
        rate: Which they had, in Hz.
        data: A file or a folder.
        out: The same.
        skip_bad: Leave out recordings that cannot be read.
    """
    if encoder.front_end_ is not None:
        raise ValueError(
            "this run was trained on spectrograms, from which no recording can be made: train one on "
            "waveforms (dcs fit ... --domain waveform), or write the spectrograms to a .npy file"
        )
    if not data.exists():
        raise FileNotFoundError(f"{str(data)!r} does not exist: name a recording, or a folder of them")
    single = data.is_file()
    if single and out.suffix.lower() not in AUDIO_SUFFIXES:
        raise ValueError(f"out must end in {', '.join(AUDIO_SUFFIXES)} or .npy for one recording, got {out}")
    if not single and out.suffix.lower() in AUDIO_SUFFIXES:
        raise ValueError(f"out must be a folder for a folder of recordings, got {out}")
    # All are read before any is written: a bad one must not leave half a folder behind.
    rates = scan_recordings(data, skip_bad=skip_bad)
    _warn_of_rates({file: its_rate for file, its_rate in rates.items() if its_rate > rate}, rate)
    for source in rates:
        target = out if single else out / source.relative_to(data)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, write_sound(target, _denoise(encoder, read_sound(source), rate)))
    return f"{out}: denoised" if single else f"{out}: {len(rates)} recordings"


def _warn_of_rates(above: dict[Path, int], rate: int) -> None:
    if not above:
        return
    file, its_rate = next(iter(above.items()))
    others = f" (and {len(above) - 1} more are like it)" if len(above) > 1 else ""
    warnings.warn(
        f"{str(file)!r} has {its_rate} Hz, the run {rate}{others}: what is above {rate / 2:g} Hz is removed; "
        f"a run on recordings of the higher rate would keep it",
        DataWarning,
        stacklevel=3,
    )


def _denoise(encoder: "DenoisingEncoder", sound: Sound, rate: int) -> Sound:
    noisy = sound.channels if sound.rate == rate else resample(sound.channels, sound.rate, rate)
    clean = encoder.denoise_signal(noisy.T).T
    if sound.rate != rate:
        clean = resample(clean, rate, sound.rate)
    # There and back again, resampling may add a sample, but never lacks one.
    return sound._replace(channels=clean[: len(sound.channels)])

"""`dcs denoise`: a denoised copy of data."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dcs.cli.options import Data, Overwrite, Part, Reading, RunFolder, load, reads_data, splits
from dcs.cli.output import check_folder, check_output, write, write_npy, write_png

if TYPE_CHECKING:
    from dcs.data import Dataset, Sound
    from dcs.runs import Predictor

_AT_ONCE = 256  # images in memory


@reads_data
def denoise(
    run: RunFolder,
    data: Data,
    out: Annotated[
        Path,
        typer.Option(
            help="A .npy file; for a folder of images or recordings, a new folder; for one recording, a "
            ".wav, .flac or .ogg file."
        ),
    ],
    reading: Reading,
    part: Annotated[Part, typer.Option(help="Splits to denoise, of a data set that has them.")] = Part.all,
    overwrite: Overwrite = False,
) -> None:
    """Write a denoised copy of data, on the scale of the data."""
    import numpy as np

    from dcs import runs
    from dcs.data import AUDIO_SUFFIXES

    as_array = out.suffix.lower() == ".npy"
    if as_array or out.suffix.lower() in AUDIO_SUFFIXES:
        check_output(out, [".npy", *AUDIO_SUFFIXES], overwrite, data)
    else:
        check_folder(out, overwrite, data)
    predictor = runs.load(run)
    predictor.check_predicts("dcs denoise")
    trained = predictor.record.source
    rate = None if trained is None else trained.rate
    if rate is not None and not as_array:
        asked = ["data-seed" if name == "seed" else name for name in reading.given if name != "skip_bad"]
        asked += ["part"] if part is not Part.all else []
        if asked:
            raise ValueError(
                f"--{', --'.join(asked)} must be left out where recordings are written, which are used as "
                f"they are; or write to a .npy file"
            )
        typer.echo(_write_recordings(predictor, rate, Path(data), out, reading.given.get("skip_bad", False)))
        return
    loaded = load(reading.like(data, trained, predictor.shape), predictor)
    if as_array:
        denoised = np.concatenate([predictor.denoise(split) for _, split in splits(loaded, part)])
        write_npy(out, denoised)
        typer.echo(f"{out}: {denoised.shape}")
    else:
        typer.echo(_write_images(predictor, loaded, part, data, out))


def _write_images(predictor: "Predictor", loaded: "Dataset", part: Part, data: str, out: Path) -> str:
    import torch

    chosen = [split for _, split in splits(loaded, part)]
    names = [name for split in chosen for name in split.names]
    if not names or loaded.rate is not None:
        raise ValueError(
            f"--out must be a .npy file for this data, got {out}: a folder is for folders of images"
        )
    targets = {name: Path(name).with_suffix(".png") for name in names}
    if len(set(targets.values())) < len(names):
        raise ValueError(f"some files of {data} differ only in their suffix: write to a .npy file instead")
    for split in chosen:
        for start in range(0, len(split), _AT_ONCE):
            rows = range(start, min(start + _AT_ONCE, len(split)))
            some = split.take(rows)
            low, high = torch.as_tensor(some.x).aminmax()
            if float(low) < 0 or float(high) > 1:
                raise ValueError(
                    f"{data} has pixels outside 0 to 1, which PNG files cannot hold: write to a .npy file"
                )
            for row, image in zip(rows, predictor.denoise(some), strict=True):
                write_png(out / targets[split.names[row]], image)
    return f"{out}: {len(names)} images"


def _write_recordings(predictor: "Predictor", rate: int, data: Path, out: Path, skip_bad: bool) -> str:
    """Denoise a recording, or a folder of them; each keeps its rate, its length and its channels."""
    from dcs.data import AUDIO_SUFFIXES, DataWarning, read_sound, scan_recordings, write_sound

    if predictor.front_end is not None:
        raise ValueError(
            "this run was trained on spectrograms, which cannot be turned into recordings: train one on "
            "waveforms (dcs fit ... --domain waveform), or write the spectrograms to a .npy file"
        )
    if not data.exists():
        raise FileNotFoundError(f"{str(data)!r} does not exist: give a recording, or a folder of them")
    single = data.is_file()
    if single != (out.suffix.lower() in AUDIO_SUFFIXES):
        wanted = "be a folder for a folder of recordings"
        if single:
            wanted = f"end in {', '.join(AUDIO_SUFFIXES)} or .npy for one recording"
        raise ValueError(f"--out must {wanted}, got {out}")
    # All are read before any is written: a bad one must not leave half a folder behind.
    rates = scan_recordings(data, skip_bad=skip_bad)
    above = {file: found for file, found in rates.items() if found > rate}
    if above:
        file, found = next(iter(above.items()))
        others = f" (as {len(above) - 1} more have)" if len(above) > 1 else ""
        warnings.warn(
            f"{str(file)!r} has {found} Hz, the run {rate}{others}: frequencies above {rate / 2:g} Hz are "
            f"removed; a run on recordings of the higher rate would keep them",
            DataWarning,
            stacklevel=3,
        )
    for source in rates:
        target = out if single else out / source.relative_to(data)
        target.parent.mkdir(parents=True, exist_ok=True)
        write(target, write_sound(target, _denoised(predictor, read_sound(source), rate)))
    return f"{out}: denoised" if single else f"{out}: {len(rates)} recordings"


def _denoised(predictor: "Predictor", sound: "Sound", rate: int) -> "Sound":
    import torch

    from dcs.data import resample

    noisy = sound.channels if sound.rate == rate else resample(sound.channels, sound.rate, rate)
    clean = predictor.denoise_signal(torch.from_numpy(noisy.T.copy())).numpy().T
    if sound.rate != rate:
        clean = resample(clean, rate, sound.rate)
    # Resampling there and back may add a sample, but never drops one.
    return sound._replace(channels=clean[: len(sound.channels)])

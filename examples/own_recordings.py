"""Learn from a folder of noisy recordings, denoise them, and measure the improvement.

Without --folder, WAV files of tones with noise of equal power are written to a temporary folder. Recordings
may have any length; they are resampled to --rate.

    python examples/own_recordings.py [--folder RECORDINGS] [--epochs 10] [--rate 8000]
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import soundfile

import dcs


def make_recordings(folder: Path, count: int, rate: int) -> list[np.ndarray]:
    """Write noisy tones as WAV files, and return the clean tones."""
    random = np.random.default_rng(0)
    tones = []
    for number in range(count):
        time = np.arange(rate // 2 + 100 * number) / rate
        tones.append(0.3 * np.sin(2 * np.pi * random.uniform(200, 500) * time).astype(np.float32))
        noise = random.normal(0, tones[-1].std(), len(time))
        soundfile.write(folder / f"{number:03d}.wav", tones[-1] + noise, rate, subtype="FLOAT")
    return tones


def learn(folder: Path, epochs: int, rate: int, clean: list[np.ndarray]) -> None:
    """Fit a network to windows of the recordings, and denoise whole recordings."""
    windows = dcs.data.load(folder, rate=rate, mixed="windows", size=512).train
    print(f"{len(set(windows.names))} recordings, cut into {len(windows)} windows of 512 samples")
    encoder = dcs.DenoisingEncoder(
        network="waveunet",
        network_options={"width": 8, "depth": 4},
        masking={"kind": "amplitude"},
        n_components=16,
        batch_size=32,
        learning_rate=3e-3,
        max_epochs=epochs,
        random_state=0,
    ).fit(windows)
    print(f"trained for {encoder.n_iter_} epochs, {encoder.transform(windows).shape[1]} features per window")

    noisy = [dcs.data.load(path, rate=rate).train.x[0].numpy() for path in sorted(folder.glob("*.wav"))]
    denoised = [encoder.denoise_signal(signal) for signal in noisy]
    if clean:
        before, after = (
            np.mean(
                [
                    dcs.evaluation.denoising(x[None], s[None]).metrics["si_snr"]
                    for x, s in zip(signals, clean, strict=True)
                ]
            )
            for signals in (noisy, denoised)
        )
        print(f"signal-to-noise ratio: noisy {before:.1f} dB, denoised {after:.1f} dB")


def main() -> None:
    """Parse the options, and make recordings if none are given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", type=Path, help="folder of recordings")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--rate", type=int, default=8000, help="sampling rate in Hz")
    parser.add_argument("--recordings", type=int, default=24, help="number to make without --folder")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder, clean = wanted.folder or Path(made), []
        if wanted.folder is None:
            clean = make_recordings(folder, wanted.recordings, wanted.rate)
        learn(folder, wanted.epochs, wanted.rate, clean)


if __name__ == "__main__":
    main()

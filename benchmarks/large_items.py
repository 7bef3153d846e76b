"""Denoise a picture or a recording that does not fit: how much memory is really taken?

    python benchmarks/large_items.py --side 20000    # a 16-bit TIFF file of 20,000 x 20,000 pixels
    python benchmarks/large_items.py --hours 4       # a 16-bit WAV file at 44.1 kHz

It writes such a file, trains on a small one, calls `dcs denoise`, and prints the most anonymous memory
(RssAnon) that the command has in use. It fails if that is more than 2 GB.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import soundfile
import tifffile

_LIMIT = 2e9
_RATE = 44_100


def write_picture(path: Path, side: int) -> None:
    """Write waves with noise, band by band."""
    picture, rng = tifffile.memmap(path, shape=(side, side), dtype="uint16"), np.random.default_rng(0)
    waves = 20_000 + 8_000 * np.sin(np.arange(side) / 50)
    for top in range(0, side, 512):
        band = picture[top : top + 512]
        band[:] = waves + 2_000 * rng.standard_normal(band.shape, np.float32)
    picture.flush()


def write_recording(path: Path, minutes: float) -> None:
    """Write a tone with noise, second by second."""
    rng, tone = np.random.default_rng(0), 0.3 * np.sin(np.arange(_RATE) * (2 * np.pi * 440 / _RATE))
    with soundfile.SoundFile(path, "w", _RATE, 1, "PCM_16") as recording:
        for _ in range(round(60 * minutes)):
            recording.write(tone + 0.1 * rng.standard_normal(_RATE))


def main() -> None:
    """Write, train, denoise, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--side", type=int, help="of a picture, in pixels")
    what.add_argument("--hours", type=float, help="of a recording")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as place:
        folder = Path(place)
        if given.side:
            large, small, options = folder / "large.tif", folder / "small.tif", ["--epochs", "20"]
            write_picture(large, given.side)
            write_picture(small, 512)
        else:
            large, small = folder / "large.wav", folder / "small.wav"
            options = ["--domain", "waveform", "--epochs", "1"]
            write_recording(large, 60 * given.hours)
            write_recording(small, 2)
        dcs = [sys.executable, "-m", "dcs"]
        fit = ["fit", small, "--out", folder / "run", *options]
        subprocess.run([*dcs, *fit], check=True, capture_output=True)
        start, most = time.perf_counter(), 0.0
        denoise = ["denoise", folder / "run", large, "--out", folder / f"out{large.suffix}", "--draws", "0"]
        process = subprocess.Popen([*dcs, *denoise])
        while process.poll() is None:
            status = Path(f"/proc/{process.pid}/status").read_text()
            found = re.search(r"RssAnon:\s+(\d+)", status)
            most = max(most, 1024 * int(found[1]) if found else 0)
            time.sleep(0.5)
        seconds = time.perf_counter() - start
    item = f"{given.side} x {given.side} pixels" if given.side else f"{given.hours:g} hours at {_RATE} Hz"
    print(f"{item}: {seconds:.0f} s, at most {most / 1e6:.0f} MB of anonymous memory")
    sys.exit(process.returncode or most > _LIMIT)


if __name__ == "__main__":
    main()

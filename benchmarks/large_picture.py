"""Denoise a picture that does not fit: how much memory is really taken?

`python benchmarks/large_picture.py --side 20000` writes a noisy 16-bit TIFF file of so many pixels squared,
trains on a small one, calls `dcs denoise`, and prints the most anonymous memory (RssAnon) that the command
has in use. It fails if that is more than 2 GB.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import tifffile

_LIMIT = 2e9


def write(path: Path, side: int) -> None:
    """Write waves with noise, band by band."""
    picture, rng = tifffile.memmap(path, shape=(side, side), dtype="uint16"), np.random.default_rng(0)
    waves = 20_000 + 8_000 * np.sin(np.arange(side) / 50)
    for top in range(0, side, 512):
        band = picture[top : top + 512]
        band[:] = waves + 2_000 * rng.standard_normal(band.shape, np.float32)
    picture.flush()


def main() -> None:
    """Write, train, denoise, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=20_000)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as place:
        folder = Path(place)
        write(folder / "large.tif", arguments.side)
        write(folder / "small.tif", 512)
        dcs = [sys.executable, "-m", "dcs"]
        fit = ["fit", folder / "small.tif", "--out", folder / "run", "--epochs", "20"]
        subprocess.run([*dcs, *fit], check=True, capture_output=True)
        start, most = time.perf_counter(), 0.0
        denoise = ["denoise", folder / "run", folder / "large.tif", "--out", folder / "out", "--draws", "0"]
        process = subprocess.Popen([*dcs, *denoise])
        while process.poll() is None:
            status = Path(f"/proc/{process.pid}/status").read_text()
            found = re.search(r"RssAnon:\s+(\d+)", status)
            most = max(most, 1024 * int(found[1]) if found else 0)
            time.sleep(0.5)
        seconds = time.perf_counter() - start
    pixels = f"{arguments.side} x {arguments.side} pixels"
    print(f"{pixels}: {seconds:.0f} s, at most {most / 1e6:.0f} MB of anonymous memory")
    sys.exit(process.returncode or most > _LIMIT)


if __name__ == "__main__":
    main()

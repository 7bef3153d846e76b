"""Train on a .npy that does not fit: how much memory is really taken?

`python benchmarks/large_npy.py --gigabytes 10` writes a file of random numbers, trains an autoencoder on it
for one epoch, read batch by batch, and prints the most anonymous memory (RssAnon) that this process and its
workers have in use.
"""

import argparse
import re
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from dcs.data import Batches, load
from dcs.objectives import DenoisingCosine


def anonymous_mebibytes() -> float:
    """Of this process and its children."""
    own = Path("/proc/self")
    children = (own / "task" / own.resolve().name / "children").read_text().split()
    total = 0.0
    for process in (own, *(Path("/proc") / child for child in children)):
        found = re.search(r"RssAnon:\s+(\d+)", (process / "status").read_text())
        total += int(found[1]) / 1024 if found else 0
    return total


def main() -> None:
    """Write, train, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    arguments = parser.parse_args()
    side, rng = 64, np.random.default_rng(0)
    n = int(arguments.gigabytes * 1e9 / (4 * side * side))
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = Path(folder) / "large.npy"
        array = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, side, side))
        for start in range(0, n, 4096):
            chunk = array[start : start + 4096]
            chunk[:] = rng.random(chunk.shape, dtype=np.float32)
        del array, chunk
        x = load(path).train.x
        print(f"{path.stat().st_size / 1e9:.1f} GB, {n} samples, held as {type(x).__name__}", flush=True)
        torch.manual_seed(0)
        layers = [torch.nn.Flatten(), torch.nn.Linear(side * side, 64), torch.nn.ReLU()]
        layers += [torch.nn.Linear(64, side * side), torch.nn.Unflatten(1, (side, side))]
        model, objective = torch.nn.Sequential(*layers), DenoisingCosine()
        optimizer = torch.optim.Adam(model.parameters())
        generator, most, start = torch.Generator().manual_seed(0), 0.0, time.perf_counter()
        for number, batch in enumerate(Batches(x, 256).epoch(generator)):
            optimizer.zero_grad()
            objective(model, batch.x, generator).backward()
            optimizer.step()
            if number % 20 == 0:
                most = max(most, anonymous_mebibytes())
        print(f"one epoch: {time.perf_counter() - start:.0f} s, at most {most:.0f} MiB of anonymous memory")


if __name__ == "__main__":
    main()

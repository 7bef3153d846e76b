"""Compare networks on small noisy images, by their features and by how well they denoise.

    python studies/small_images.py run --out study/small-images.jsonl --root DATA
    python studies/small_images.py table results/small-images.jsonl

Trainings are those of `dcs fit NAME --noise gaussian:SIGMA --network NETWORK`, which sees nothing but the
noisy training images. Finished trainings are not run again.
"""

import argparse
import statistics
from pathlib import Path

import torch

from dcs import data, evaluation, runs
from dcs.training import Facts, complete
from records import Line, Records, Stopwatch, command, grouped, markdown


def run(given: argparse.Namespace) -> None:
    """Run what is missing, and print a line for each training."""
    records = Records(given.out)
    for name in given.datasets.split(","):
        for sigma in map(float, given.sigmas.split(",")):
            for seed in range(given.seeds):
                loaded = data.load(name, root=given.root, noise=("gaussian", sigma), seed=seed)
                assert loaded.test is not None  # noqa: S101
                assert loaded.test.clean is not None  # noqa: S101
                train = loaded.train if given.most is None else loaded.train.subset(given.most)
                for network in given.networks.split(","):
                    key: Line = {"data": name, "train": len(train), "sigma": sigma, "network": network}
                    key["seed"] = seed
                    if records.has(key):
                        continue
                    watch = Stopwatch()
                    config = complete({"network": network, "seed": seed}, Facts.of(train))
                    predictor = runs.fit(train, config)
                    times = watch.times()
                    features = [(predictor.transform(part), part.y) for part in (train, loaded.test)]
                    denoised = torch.from_numpy(predictor.denoise(loaded.test))
                    clean = loaded.test.clean
                    cosine = torch.cosine_similarity(denoised.flatten(1), clean.flatten(1)).mean()
                    line = {"accuracy": round(evaluation.linear(*features).score, 2)}
                    line |= {"cosine": round(float(cosine), 4), "epochs": len(predictor.history)}
                    records.add({**key, **line, **times})


def table(lines: list[Line]) -> str:
    """Return a table of means and deviations over seeds, in Markdown."""
    header = ["data", "σ", "network", "linear accuracy", "cosine to clean", "CPU seconds", "seeds"]
    rows = []
    for (name, sigma, network), some in sorted(grouped(lines, "data", "sigma", "network").items()):
        accuracy, cosine, cpu = (
            [line[key] for line in some] for key in ("accuracy", "cosine", "cpu_seconds")
        )
        spread = f" ± {statistics.stdev(accuracy):.1f}" if len(some) > 1 else ""
        score, seconds = f"{statistics.mean(accuracy):.1f}{spread}", f"{statistics.mean(cpu):.0f}"
        rows.append([name, sigma, network, score, f"{statistics.mean(cosine):.3f}", seconds, len(some)])
    return "\n".join(markdown(header, rows))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `run`."""
    parser.add_argument("--out", type=Path, required=True, help="file of results")
    parser.add_argument("--root", type=Path, help="folder of the data sets")
    parser.add_argument("--datasets", default="digits,usps")
    parser.add_argument("--sigmas", default="0.3,0.5")
    parser.add_argument("--networks", default="mlp,conv")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--most", type=int, help="number of training images; all without it")


if __name__ == "__main__":
    command(__doc__, add_options, run, table)

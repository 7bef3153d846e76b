"""What moves the accuracy of Expt3: patches, depth, standardisation, shifts, length, and the read-out.

    python studies/expt3_choices.py run --root data --jobs 2 --out results/expt3-choices.jsonl
    python studies/expt3_choices.py table results/expt3-choices.jsonl

Each row changes one thing of the preset quick, is trained with dCS for 30 epochs and is scored on fold 4 of
ESC-50, which no choice was made on. What is in the file already is not run again.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from joblib import Parallel, delayed
from torch import Tensor

from dcs import evaluation, models, objectives, training
from dcs.data import CATALOGUE, LogMel, Source
from dcs.experiments.expt3 import BATCH_SIZE, NETWORKS
from dcs.masking import AmplitudeNeighbors

FOLD, WIDTH = 4, 192
READ_OUTS = ("mean", "statistics")


class Choice(NamedTuple):
    """What is changed of the preset quick."""

    network: dict[str, Any] = {}  # noqa: RUF012
    standardise: str = "bin"
    shifted: bool = False
    epochs: int = 30


CHOICES = {
    "quick": Choice(),
    "patches 20 x 20": Choice({"patch": (20, 20)}),
    "patches 5 x 60": Choice({"patch": (5, 60)}),
    "1 block": Choice({"depth": 1}),
    "6 blocks": Choice({"depth": 6}),
    "one mean and deviation for all bands": Choice(standardise="all"),
    "shifted in time at random": Choice(shifted=True),
    "10 epochs": Choice(epochs=10),
}


class Shifted(objectives.DenoisingCosine):
    """dCS of spectrograms that are shifted in time, round and round, each batch by chance."""

    def compute(self, model: Callable[[Tensor], Tensor], batch: objectives.Batch) -> Tensor:
        """Shift the batch, and compute the loss."""
        by = int(torch.randint(batch.x.shape[1], (), generator=batch.generator))
        return super().compute(model, batch._replace(x=batch.x.roll(by, 1)))


def run(name: str, root: str | None) -> dict[str, Any]:
    """One line of the results: accuracies before and after training, by read-out."""
    torch.set_num_threads(1)
    start, choice = time.perf_counter(), CHOICES[name]
    recordings = Source.of("esc50", root=root, fold=FOLD).load(resident=False)
    found, _ = LogMel(CATALOGUE["esc50"].rate, standardise=choice.standardise).apply(recordings)
    options = {**NETWORKS["quick"], **choice.network}
    network = models.build("vit", found.shape, WIDTH, seed=0, **options)

    def scores() -> dict[str, float]:
        network.eval()
        return {
            each: round(evaluation.linear(found.train, found.test, partial(read, network, each)).score, 2)
            for each in READ_OUTS
        }

    untrained = scores()
    config = training.read_config(
        {"max_epochs": choice.epochs, "batch_size": BATCH_SIZE, "validation": 0.0, "threads": 1}
        | {"precision": "bf16"}
    )
    objective = (Shifted if choice.shifted else objectives.DenoisingCosine)(
        AmplitudeNeighbors(0.3, delta=2, axis=-2)
    )
    network.train()
    training.train(network, objective, found.train.x, config)
    return {
        "choice": name,
        "fold": FOLD,
        "untrained": untrained,
        "trained": scores(),
        "seconds": round(time.perf_counter() - start),
    }


@torch.no_grad()
def read(network: Any, pooling: str, x: Tensor) -> Tensor:
    """Features by another read-out than the network's own, which training does not depend on."""
    network.pooling = pooling
    return torch.cat([network.encode(part) for part in x.split(100)])


def run_all(arguments: argparse.Namespace) -> None:
    """Run what is not in the file yet, and append it."""
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    done = {line["choice"] for line in lines(arguments.out)} if arguments.out.exists() else set()
    calls = (delayed(run)(name, arguments.root) for name in CHOICES if name not in done)
    finished = Parallel(arguments.jobs, return_as="generator_unordered", pre_dispatch=arguments.jobs)(calls)
    with arguments.out.open("a") as file:
        for line in finished:
            file.write(json.dumps(line) + "\n")
            file.flush()
            print(line, flush=True)


def lines(path: Path) -> list[dict[str, Any]]:
    """The results so far."""
    return [json.loads(text) for text in path.read_text().splitlines()]


def table(arguments: argparse.Namespace) -> None:
    """Print accuracies, untrained -> trained, for each read-out."""
    print("| changed | " + " | ".join(READ_OUTS) + " |\n|---|" + "---|" * len(READ_OUTS))
    found = {line["choice"]: line for line in lines(arguments.file)}
    for name in (name for name in CHOICES if name in found):
        before, after = found[name]["untrained"], found[name]["trained"]
        print(f"| {name} | " + " | ".join(f"{before[r]:.1f} → {after[r]:.1f}" for r in READ_OUTS) + " |")


def main() -> None:
    """Run trainings, or print the table of those that were run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run")
    running.add_argument("--root", help="where the data sets are")
    running.add_argument("--jobs", type=int, default=1)
    running.add_argument("--out", type=Path, default=Path("results/expt3-choices.jsonl"))
    running.set_defaults(function=run_all)
    printing = commands.add_parser("table")
    printing.add_argument("file", type=Path)
    printing.set_defaults(function=table)
    arguments = parser.parse_args()
    try:
        arguments.function(arguments)
    except (OSError, ValueError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()

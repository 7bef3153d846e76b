"""dCS against every baseline: data sets x noise levels x methods x seeds.

    python studies/robust_dcs.py run --datasets digits,usps --out results/robust-dcs.jsonl
    python studies/robust_dcs.py table results/robust-dcs.jsonl

One seed gives noise, first weights and batches, and all methods of a seed share them, so that differences
between methods can be paired. Every training on a data set runs for the same number of steps of Adam. With
--validation 0.1, a tenth is held out, and the latest weights are kept whose held-out loss, of the training's
own objective, is not clearly above the best. What is in the file already is not run again.
"""

import argparse
import itertools
import json
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from joblib import Parallel, delayed
from scipy import stats
from sklearn.decomposition import PCA
from torch import Generator, Tensor

from dcs import data, demo, evaluation, models, noise, objectives, training
from dcs import functional as F
from dcs._checks import check_choice
from dcs.masking import BlindSpot
from dcs.noise import GaussianSplit
from dcs.training.config import default_ndim

SIGMAS = (0.1, 0.3, 0.5, 0.7)


class Setting(NamedTuple):
    """How a data set is learned from."""

    seeds: int
    steps: int
    hidden: tuple[int, ...]
    train_size: int | None = None


SETTINGS = {
    "digits": Setting(8, 600, (256, 256)),
    "usps": Setting(5, 2000, (256, 128)),
    "pendigits": Setting(5, 2000, (256, 128)),
    "mnist": Setting(2, 3000, (256, 128), 10_000),
    "fashion-mnist": Setting(2, 3000, (256, 128), 10_000),
}
BATCH_SIZE = 240
SAME_VIEWS = "n2v (views of dcs)"


Cell = dict[int, dict[str, Any]]  # results of one method on one data set and noise level, by seed


class Comparison(NamedTuple):
    """How dcs stands to another method."""

    rival: str
    difference: float  # points
    p: float  # of a paired t-test

    def __str__(self) -> str:
        return f"dcs − {self.rival} = {self.difference:+.2f} points (p = {self.p:.3f})"


class Samples(NamedTuple):
    """Noisy samples, the clean ones behind them, and what they are."""

    noisy: Tensor
    clean: Tensor
    labels: Tensor


def blind_spot(shape: tuple[int, ...], rho: float = 0.3) -> BlindSpot:
    """The masker of Noise2Void, with the share that did best for it in docs/weight.md."""
    return BlindSpot(rho, ndim=default_ndim(shape))


def methods(sigma: float, shape: tuple[int, ...]) -> dict[str, objectives.Objective]:
    """The objectives of the table, and candidates for the default."""
    split = GaussianSplit
    return {
        "mse": objectives.MSE(),
        "cosine": objectives.Cosine(),
        "n2v": objectives.Noise2Void(blind_spot(shape)),
        SAME_VIEWS: objectives.Noise2Void(objectives.AutomaticViews()),
        "sure": objectives.SURE(),
        "dcs (paper)": objectives.DenoisingCosine(variant="paper"),
        "dcs": objectives.DenoisingCosine(),
        "dcs (true k)": objectives.DenoisingCosineOracle(sigma),
        "clean target": objectives.CosineOracle(objectives.AutomaticViews()),
        **{f"n2v rho {rho}": objectives.Noise2Void(blind_spot(shape, rho)) for rho in (0.1, 0.5)},
        **{f"dcs rho {rho}": objectives.DenoisingCosine(blind_spot(shape, rho)) for rho in (0.1, 0.3, 0.5)},
        **{
            f"dcs alpha {alpha} power {power}": objectives.DenoisingCosine(split(alpha=alpha), power=power)
            for alpha in (0.7, 1.0, 1.25, 1.5, 2.0)
            for power in (-2, -1, 0, 1)
        },
        **{f"n2v alpha {alpha}": objectives.Noise2Void(split(alpha=alpha)) for alpha in (1.0, 1.5)},
    }


PLAIN = ("PCA", "untrained")
CANDIDATES = tuple(methods(0.5, (8, 8)))
TABLE = (*PLAIN, *CANDIDATES[:9])
KNOWS_MORE = ("dcs (true k)", "clean target")


def load(name: str, sigma: float, seed: int, root: str | None) -> tuple[Samples, Samples]:
    """Training and test samples; the noise is the seed's."""
    if name == "digits":
        return tuple(Samples(*part) for part in demo.load(sigma, seed))  # type: ignore[return-value]
    found = data.load(name, root=root, resident=True)
    size = SETTINGS[name].train_size
    parts = []
    for number, split in enumerate((found.train, found.test)):
        assert split is not None  # noqa: S101  (all of these have a test part)
        x, y = split.x, split.y
        if number == 0 and size is not None:
            rows = torch.randperm(len(x), generator=Generator().manual_seed(0))[:size]
            x, y = x[rows], y[rows]
        parts.append(Samples(noise.add(x, "gaussian", sigma, 2 * seed + number), x, y))
    return parts[0], parts[1]


def run(
    name: str, sigma: float, method: str, seed: int, validation: float, root: str | None
) -> dict[str, Any]:
    """One line of the results."""
    torch.set_num_threads(1)
    start = time.perf_counter()
    train, test = load(name, sigma, seed, root)
    shape, setting = tuple(train.noisy.shape[1:]), SETTINGS[name]
    line: dict[str, Any] = {"dataset": name, "sigma": sigma, "method": method, "seed": seed}
    line["validation"] = validation
    if method == "PCA":
        fitted = PCA(10, random_state=seed).fit(train.noisy.flatten(1).numpy())
        features = [
            torch.from_numpy(fitted.transform(part.noisy.flatten(1).numpy())) for part in (train, test)
        ]
        score = evaluation.linear((features[0], train.labels), (features[1], test.labels)).score
        return {**line, "accuracy": round(score, 3), "seconds": round(time.perf_counter() - start, 1)}
    network = models.build("mlp", shape, 10, seed=seed, hidden=setting.hidden)
    history: list[dict[str, float]] = []
    if method != "untrained":
        objective = methods(sigma, shape)[method]
        each = -(-round((1 - validation) * len(train.noisy)) // BATCH_SIZE)
        epochs = -(-setting.steps // each)
        config = training.read_config(
            {"max_epochs": epochs, "batch_size": BATCH_SIZE, "seed": seed, "threads": 1}
            | {"validation": validation, "patience": epochs if validation else None}
        )
        pair = train.clean if method in KNOWS_MORE else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", training.TrainingWarning)
            history = training.train(network, objective, train.noisy, config, pair=pair)
    network.eval()
    with torch.no_grad():
        features = [network.encode(part.noisy) for part in (train, test)]
        cosine = -F.cosine_loss(test.clean, network(test.noisy)).item()
    score = evaluation.linear((features[0], train.labels), (features[1], test.labels)).score
    kept: dict[str, float] = history[-1] if history else {}
    if validation and history:
        kept = history[int(kept["kept_epoch"])]
    watched = {key: round(kept[key], 4) for key in ("epoch", "feature_spread", "k", "floored") if key in kept}
    line |= {"accuracy": round(score, 3), "cosine": round(cosine, 5), **watched}
    return {**line, "seconds": round(time.perf_counter() - start, 1)}


def key_of(line: dict[str, Any]) -> tuple[Any, ...]:
    """What makes two lines results of the same training."""
    return line["dataset"], line["sigma"], line["method"], line["seed"], line["validation"]


def read(path: Path) -> list[dict[str, Any]]:
    """The results so far."""
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    for number, line in enumerate(lines, 1):
        if not {"dataset", "sigma", "method", "seed", "validation", "accuracy"} <= line.keys():
            raise ValueError(f"{path}, line {number}, is no result of this script: name another file")
    return lines


def run_all(arguments: argparse.Namespace) -> None:
    """Run what is not in the file yet, seed by seed, and append it."""
    done = {key_of(line) for line in read(arguments.out)} if arguments.out.exists() else set()
    names = arguments.datasets.split(",")
    wanted = arguments.methods.split(",") if arguments.methods else TABLE
    for name in names:
        check_choice("datasets", name, SETTINGS)
    for method in wanted:
        check_choice("methods", method, (*PLAIN, *CANDIDATES))
    most = max(SETTINGS[name].seeds for name in names)
    waiting = [
        (name, sigma, method, seed)
        for seed, name, sigma, method in itertools.product(
            range(arguments.seeds or most), names, [float(s) for s in arguments.sigmas.split(",")], wanted
        )
        if seed < (arguments.seeds or SETTINGS[name].seeds)
        and (name, sigma, method, seed, arguments.validation) not in done
    ]
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    calls = (delayed(run)(*trial, arguments.validation, arguments.root) for trial in waiting)
    finished = Parallel(arguments.jobs, return_as="generator_unordered", pre_dispatch=arguments.jobs)(calls)
    with arguments.out.open("a") as file:
        for number, line in enumerate(finished, 1):
            file.write(json.dumps(line) + "\n")
            file.flush()
            print(f"{number} of {len(waiting)}: {line}", flush=True)


def table(arguments: argparse.Namespace) -> None:
    """Print a table for each data set: accuracy ± deviation / cosine to clean, and paired tests of dcs."""
    cells: dict[tuple[str, float, str], Cell] = defaultdict(dict)
    for line in read(arguments.file):
        if line["validation"] == arguments.validation:
            cells[line["dataset"], line["sigma"], line["method"]][line["seed"]] = line
    compared: dict[tuple[str, float], list[Comparison]] = {}
    for name in SETTINGS:
        present = list(dict.fromkeys(method for d, _, method in cells if d == name))
        rows = [m for m in TABLE if m in present] + [m for m in present if m not in TABLE]
        levels = sorted({sigma for d, sigma, _ in cells if d == name})
        if not rows:
            continue
        print(f"\n### {name}\n\n| method | " + " | ".join(f"σ = {s}" for s in levels) + " |")
        print("|---|" + "---|" * len(levels))
        for method in rows:
            texts = [describe(cells[name, sigma, method]) for sigma in levels]
            print(f"| {method} | " + " | ".join(texts) + " |")
        print()
        for sigma in levels:
            found = {m: cells[name, sigma, m] for m in rows if cells[name, sigma, m]}
            compared[name, sigma] = [c for c in (compare(found), compare(found, (SAME_VIEWS,))) if c]
            if compared[name, sigma]:
                print(f"- σ = {sigma}: " + "; ".join(map(str, dict.fromkeys(compared[name, sigma]))))
    if any(compared.values()):
        summarise(compared)
        against_each(cells)


def summarise(compared: dict[tuple[str, float], list[Comparison]]) -> None:
    """Count the cells in which dcs is ahead, level or behind, for sigma of 0.3 or more."""
    for number, rivals in enumerate(("all that need no clean data", f"the same without {SAME_VIEWS}")):
        found = [c[number] for (_, sigma), c in compared.items() if sigma >= 0.3 and len(c) == 2]
        clear = [c for c in found if c.p < 0.05]
        ahead = sum(c.difference > 0 for c in clear)
        print(
            f"\nσ >= 0.3, dcs against the best of {rivals}: significantly ahead in {ahead} of {len(found)} "
            f"cells, not significantly different in {len(found) - len(clear)}, significantly behind in "
            f"{len(clear) - ahead}; with Holm's correction for {len(found)} tests ahead in "
            f"{sum(c.difference > 0 for c in holm(found))}, behind in "
            f"{sum(c.difference < 0 for c in holm(found))}."
        )


def holm(found: list[Comparison]) -> list[Comparison]:
    """What is significant though there are many tests: the chance of any false one is 5 % at most."""
    ordered = sorted(found, key=lambda c: c.p)
    passed = [c.p * (len(ordered) - place) < 0.05 for place, c in enumerate(ordered)]
    return ordered[: passed.index(False)] if False in passed else ordered


def against_each(cells: dict[tuple[str, float, str], Cell]) -> None:
    """Say in how many cells dcs is ahead of each rival, and by how much on average."""
    print("\nσ >= 0.3, dcs against each, over the cells:\n")
    for rival in (m for m in TABLE if m != "dcs"):
        differences = [
            mean_difference(cells[name, sigma, "dcs"], cells[name, sigma, rival])
            for name, sigma in sorted({(name, sigma) for name, sigma, _ in cells if sigma >= 0.3})
            if set(cells[name, sigma, "dcs"]) & set(cells[name, sigma, rival])
        ]
        if differences:
            ahead, mean = sum(d > 0 for d in differences), sum(differences) / len(differences)
            print(f"- {rival}: ahead in {ahead} of {len(differences)}, on average by {mean:+.2f} points")


def mean_difference(ours: Cell, theirs: Cell) -> float:
    """Mean over the seeds of both."""
    seeds = set(ours) & set(theirs)
    return sum(ours[seed]["accuracy"] - theirs[seed]["accuracy"] for seed in seeds) / len(seeds)


def describe(found: Cell) -> str:
    """Mean ± deviation of the accuracy / mean cosine (seeds)."""
    if not found:
        return ""
    accuracy = torch.tensor([line["accuracy"] for line in found.values()], dtype=torch.float64)
    spread = f" ± {accuracy.std():.1f}" if len(accuracy) > 1 else ""
    cosines = [line["cosine"] for line in found.values() if "cosine" in line]
    cosine = f" / {sum(cosines) / len(cosines):.3f}" if cosines else ""
    return f"{accuracy.mean():.1f}{spread}{cosine} ({len(found)})"


def compare(found: dict[str, Cell], left_out: tuple[str, ...] = ()) -> Comparison | None:
    """How dcs stands to the best of the others that need no clean data, by a paired t-test."""
    ours = found.get("dcs", {})
    others = [m for m in TABLE if m in found and m not in (*KNOWS_MORE, *left_out, "dcs")]
    others = [m for m in others if len(set(ours) & set(found[m])) >= 2]
    if not others:
        return None
    best = min(others, key=lambda m: mean_difference(ours, found[m]))
    seeds = sorted(set(ours) & set(found[best]))
    pairs = [[found[m][seed]["accuracy"] for seed in seeds] for m in ("dcs", best)]
    return Comparison(best, mean_difference(ours, found[best]), float(stats.ttest_rel(*pairs).pvalue))


def main() -> None:
    """Run trainings, or print the tables of those that were run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run")
    running.add_argument("--datasets", default=",".join(SETTINGS))
    running.add_argument("--sigmas", default=",".join(map(str, SIGMAS)))
    running.add_argument("--methods", help="separated by commas; default: the rows of the table")
    running.add_argument("--seeds", type=int, help="default: as many as the table has")
    running.add_argument("--root", help="where the data sets are")
    running.add_argument("--jobs", type=int, default=1)
    running.add_argument("--out", type=Path, default=Path("results/robust-dcs.jsonl"))
    running.set_defaults(function=run_all)
    printing = commands.add_parser("table")
    printing.add_argument("file", type=Path)
    printing.set_defaults(function=table)
    for command in (running, printing):
        command.add_argument("--validation", type=float, default=0.0, help="share to hold out")
    arguments = parser.parse_args()
    try:
        arguments.function(arguments)
    except (OSError, ValueError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()

"""`dcs evaluate`: how good are the features of a run?"""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcs.cli._data import (
    AsJson,
    Hop,
    Label,
    Mixed,
    MixedSizes,
    Rate,
    Reading,
    Root,
    RunFolder,
    Size,
    SkipBad,
    as_trained,
    load_data,
)

if TYPE_CHECKING:
    from dcs.data import Dataset, Split
    from dcs.evaluation import Result

PROTOCOLS = ("linear", "clustering", "knn", "denoising")


def evaluate(
    run: RunFolder,
    data: Annotated[
        str | None, typer.Option(help="What to score on; by default what the run was trained on.")
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="A .npy file, or a text file with one label a line, of the samples to learn from; some of "
            "these are then held out, in place of any test split."
        ),
    ] = None,
    protocol: Annotated[str, typer.Option(help="Of linear, clustering, knn and denoising.")] = "linear,knn",
    test_share: Annotated[
        float,
        typer.Option(
            min=0.01, max=0.99, help="Held out for testing, of data without a test split or with --labels."
        ),
    ] = 0.2,
    seed: Annotated[int, typer.Option(min=0, help="Of that share, and of the clustering.")] = 0,
    noise: Annotated[
        str | None, typer.Option(help="To add, such as gaussian:0.5; by default as in training.")
    ] = None,
    data_seed: Annotated[int, typer.Option(min=0, help="Of that noise.")] = 0,
    root: Root = None,
    label: Label = None,
    mixed: MixedSizes = Mixed.error,
    size: Size = None,
    rate: Rate = None,
    hop: Hop = None,
    skip_bad: SkipBad = False,
    as_json: AsJson = False,
) -> None:
    """Score the features of a run; the results are added to RUN/results.jsonl."""
    import dcs
    from dcs._checks import check_choice
    from dcs.evaluation import features_of

    wanted = [word.strip() for word in protocol.split(",") if word.strip()]
    for name in wanted:
        check_choice("protocol", name, PROTOCOLS)
    if not wanted:
        raise ValueError(f"protocol is empty: name some of {', '.join(PROTOCOLS)}")
    encoder = dcs.load(run)
    config = json.loads((run / "config.json").read_bytes())
    if data is None:
        trained_on = config.get("data", {})
        data = trained_on.get("source")
        if data is None:
            raise ValueError(f"{run} does not say what it was trained on: name it with --data")
        if noise is None and trained_on["noise"] is not None:
            noise, data_seed = trained_on["noise"], trained_on["seed"]
        root = Path(trained_on["root"]) if root is None and trained_on["root"] else root
        label = trained_on["label"] if label is None else label
        mixed = Mixed(trained_on["mixed"]) if mixed is Mixed.error else mixed
        size = trained_on["size"] if size is None else size
        skip_bad = skip_bad or bool(trained_on.get("skipped"))
    reading = as_trained(run, data, Reading(mixed, size, rate, hop, skip_bad))
    loaded = load_data(data, root, noise, data_seed, label, reading, encoder.shape_)
    train, test = _splits(loaded, labels, test_share, seed)
    if set(wanted) - {"denoising"} and train.y is None:
        raise ValueError(f"{data} has no labels: give them with --labels, or score --protocol denoising")
    # Features are made once, for all protocols.
    features = [(features_of(encoder, split), split.y) for split in (train, test) if split.y is not None]
    results = [_score(name, encoder, features, test, seed) for name in wanted]
    training = config.get("training") or config["parameters"]
    about = {
        "experiment": None,
        "dataset": loaded.name,
        "noise": noise,
        "method": training.get("objective"),
        "variant": (training.get("objective_options") or {}).get("variant", "default"),
        "trial": 0,
        "epochs": encoder.n_iter_,
    }
    lines = []
    for result in results:
        settings = {"training": training, "evaluation": {**result.settings, "seed": result.seed}}
        of_training = {"settings": settings, "seed": training.get("seed", training.get("random_state"))}
        lines.append({**about, **json.loads(result.to_json()), **of_training})
    with (run / "results.jsonl").open("a", encoding="utf-8") as file:
        file.write("".join(json.dumps(line) + "\n" for line in lines))
    for line, result in zip(lines, results, strict=True):
        further = "".join(f", {name} {value:.4g}" for name, value in result.metrics.items())
        typer.echo(json.dumps(line) if as_json else f"{result.protocol}: {result.score:.2f} %{further}")


def _splits(loaded: "Dataset", labels: Path | None, test_share: float, seed: int) -> tuple["Split", "Split"]:
    """What to train a classifier on, and what to score it on."""
    import torch

    from dcs.data import Samples, Split
    from dcs.data._labels import read_labels

    train, test = loaded.train, loaded.test
    if labels is not None:
        y, classes = read_labels(labels)
        if len(y) != len(train):
            raise ValueError(
                f"{labels} has {len(y)} labels, but the data has {len(train)} samples to learn from"
            )
        if len(classes) == 1:
            raise ValueError(f"{labels} has one class only, {classes[0]}: at least two are needed")
        # Labels of a test split may be of other classes, or the same in another order: they cannot be mixed.
        if test is not None:
            typer.echo(
                f"dcs: {labels} has the labels of the samples to learn from: some of these are held out for "
                f"testing, and the test split of {loaded.name} is not used",
                err=True,
            )
        train, test = replace(train, y=y), None
    if test is not None and (test.y is not None or train.y is None):
        return train, test
    # Windows of one recording stay together: a classifier may know a recording, not its class.
    of: list[Any] = list(range(len(train)) if train.starts is None else train.names)
    things = sorted(set(of))
    if len(things) < 2:
        raise ValueError(f"{loaded.name} holds one recording, of which nothing can be held out: name more")
    order = torch.randperm(len(things), generator=torch.Generator().manual_seed(seed))
    held_out = min(max(1, round(test_share * len(things))), len(things) - 1)

    def rows(chosen: torch.Tensor) -> Split:
        if train.starts is not None:
            kept = {things[int(number)] for number in chosen}
            chosen = torch.tensor([row for row, thing in enumerate(of) if thing in kept])
        x = train.x.read(chosen.tolist()) if isinstance(train.x, Samples) else train.x[chosen]
        parts = (train.y, train.clean, train.lengths)
        y, clean, lengths = (None if part is None else part[chosen] for part in parts)
        return Split(x, y, clean, lengths=lengths)

    return rows(order[held_out:]), rows(order[:held_out])


def _score(name: str, encoder: Any, features: list[Any], test: "Split", seed: int) -> "Result":
    from dcs import evaluation

    if name == "denoising":
        if test.clean is None:
            raise ValueError("the denoising protocol needs clean data: use a data set with --noise")
        return evaluation.denoising(test.x, test.clean, encoder)
    if name == "clustering":
        import numpy as np

        everything = tuple(np.concatenate(parts) for parts in zip(*features, strict=True))
        return evaluation.clustering(everything, seed=seed)
    train, held_out = features
    return evaluation.linear(train, held_out) if name == "linear" else evaluation.knn(train, held_out)

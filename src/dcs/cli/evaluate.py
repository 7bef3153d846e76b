"""`dcs evaluate`: how good are the features of a run?"""

import json
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

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
    trained_on,
)

if TYPE_CHECKING:
    from dcs.data import Dataset, Split
    from dcs.evaluation import Result

PROTOCOLS = ("linear", "clustering", "knn", "denoising")
_MOST_VOTERS = 200  # as SimSiam has it


class Head(StrEnum):
    """The classifier of the linear protocol."""

    lbfgs = "lbfgs"
    sgd = "sgd"


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
    head: Annotated[
        Head,
        typer.Option(
            help="Of linear: lbfgs, logistic regression on standardised features; or sgd, SimSiam's recipe."
        ),
    ] = Head.lbfgs,
    k: Annotated[
        int | None,
        typer.Option(
            "--k",
            min=1,
            help="Of knn: how many neighbours vote.  [default: 200, or a fifth of the samples if fewer]",
        ),
    ] = None,
    test_share: Annotated[
        float,
        typer.Option(
            min=0.01, max=0.99, help="Held out for testing, of data without a test split or with --labels."
        ),
    ] = 0.2,
    seed: Annotated[int, typer.Option(min=0, help="Of that share, of the clustering and of --head sgd.")] = 0,
    noise: Annotated[
        str | None,
        typer.Option(
            help="To add, such as gaussian:0.5; by default as in training, or none with --data.",
        ),
    ] = None,
    data_seed: Annotated[
        int | None, typer.Option(min=0, help="Of that noise; by default as in training, or 0 with --noise.")
    ] = None,
    data_range: Annotated[
        float | None,
        typer.Option(
            min=1e-30,
            help="Of denoising: the largest minus the smallest value that data can have; by default, that of "
            "the clean samples.",
        ),
    ] = None,
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
    from dcs._optional import require
    from dcs.evaluation import denoising, features_of
    from dcs.training.checkpoint import cut_unfinished_line

    wanted = [word.strip() for word in protocol.split(",") if word.strip()]
    for name in wanted:
        check_choice("protocol", name, PROTOCOLS)
    if not wanted:
        raise ValueError(f"protocol is empty: name some of {', '.join(PROTOCOLS)}")
    encoder = dcs.load(run)
    if "denoising" in wanted:
        encoder._check_predicts("the denoising protocol")
    source = Source(data, root, noise, data_seed, label, Reading(mixed, size, rate, hop, skip_bad))
    source, loaded = _load(run, source, encoder.shape_)
    train, test, held_out = _splits(loaded, labels, test_share, seed)
    if set(wanted) - {"denoising"} and train.y is None:
        further = "" if test.clean is None else ", or score --protocol denoising"
        raise ValueError(f"{source.data} has no labels: give them with --labels{further}")
    # To denoise, nobody needs the labels that a test split may lack.
    own_test = loaded.test if labels is None else None
    noisy, noisy_held_out = (test, held_out) if own_test is None else (own_test, None)
    if "denoising" in wanted and noisy.clean is None:
        raise ValueError("the denoising protocol needs clean data: use a data set with --noise")
    if "clustering" in wanted:
        require("umap", "clustering", "the clustering protocol")
    if data is None and trained_on(run).get("part") == "all" and set(wanted) - {"clustering"}:
        typer.echo(
            f"dcs: {run} has learned from the test split, too (without labels), to cluster it: no score is "
            f"on samples that are new to it",
            err=True,
        )
    scored_on = {**source.described(), "labels": None if labels is None else str(labels.absolute())}
    about = _about(run) | {"dataset": loaded.name, "noise": source.noise, "epochs": encoder.n_iter_}
    features: list[Any] = []  # made once, for all protocols
    if set(wanted) - {"denoising"}:
        features = [(features_of(encoder, split), split.y) for split in (train, test)]
    cut_unfinished_line(run / "results.jsonl")
    for name in wanted:
        if name == "denoising":
            result = denoising(noisy, model=encoder, data_range=data_range or _range_of(noisy))
        else:
            result = _score(name, features, head, seed, k)
        parted = {"held_out": noisy_held_out if name == "denoising" else held_out}
        line = json.dumps(_line(about, result, scored_on | parted))
        further = "".join(f", {name} {value:.4g}" for name, value in result.metrics.items())
        typer.echo(line if as_json else f"{result.protocol}: {result.score:.2f} %{further}")
        with (run / "results.jsonl").open("a", encoding="utf-8") as file:
            file.write(line + "\n")


class Source(NamedTuple):
    """What data a run is scored on."""

    data: str | None
    root: Path | None
    noise: str | None
    seed: int | None  # of the noise
    label: str | None
    reading: Reading

    def described(self) -> dict[str, Any]:
        """As plain values."""
        root, seed = None if self.root is None else str(self.root), self.seed if self.noise else None
        described = {
            "source": self.data,
            "root": root,
            "noise": self.noise,
            "seed": seed,
            "label": self.label,
        }
        return described | self.reading._asdict()


def _load(run: Path, source: Source, shape: tuple[int, ...]) -> tuple[Source, "Dataset"]:
    """Load the data that is asked for or, by default, what the run was trained on."""
    known = trained_on(run) if source.data is None else {}
    if source.data is None:
        source = _as_known(source, known)
    name = source.data
    if name is None:
        raise ValueError(f"{run} does not say what it was trained on: name it with --data")
    seed, reading = source.seed or 0, as_trained(run, name, source.reading)
    source = source._replace(seed=seed, reading=reading)
    try:
        return source, load_data(name, source.root, source.noise, seed, source.label, reading, shape)
    except (ValueError, OSError) as error:
        if isinstance(known.get("noise"), str | None):  # as dcs fit writes it
            raise
        raise ValueError(
            f"{run} has learned from {name} as dcs reproduce prepares it ({error}): its score is in "
            f"the results.jsonl of the experiment; name other data with --data, or where it is with --root"
        ) from error


def _as_known(source: Source, known: dict[str, Any]) -> Source:
    """Fill in what is not asked for by what the run says of its data; experiments say less than dcs fit."""
    noise, seed, reading = source.noise, source.seed, source.reading
    if noise is None and known.get("noise"):
        noise, seed = known["noise"], (known.get("seed") or 0) if seed is None else seed
        if not isinstance(noise, str):  # as experiments write it
            noise = f"gaussian:{noise}"
    if reading.mixed is Mixed.error:
        reading = reading._replace(mixed=Mixed(known.get("mixed") or "error"))
    if reading.size is None:
        reading = reading._replace(size=known.get("size"))
    reading = reading._replace(skip_bad=reading.skip_bad or bool(known.get("skipped")))
    root = Path(known["root"]) if source.root is None and known.get("root") else source.root
    label = known.get("label") if source.label is None else source.label
    return Source(known.get("source"), root, noise, seed, label, reading)


def _about(run: Path) -> dict[str, Any]:
    """What a line of results says of the training."""
    config = json.loads((run / "config.json").read_bytes())
    training = config.get("training") or config["parameters"]
    options = training.get("objective_options") or {}
    told = options.get("regulariser_options", options)
    seed = training.get("seed", training.get("random_state"))
    return {
        "experiment": None,
        "method": config.get("method") or training.get("objective"),  # of an experiment, or of dcs fit
        "variant": config.get("variant") or told.get("variant", "default"),
        "trial": seed if "method" in config else 0,  # an experiment's trials are numbered by their seeds
        "seed": seed,
        "settings": {"training": training},
    }


def _line(about: dict[str, Any], result: "Result", scored_on: dict[str, Any]) -> dict[str, Any]:
    evaluation = {**result.settings, "seed": result.seed, "data": scored_on}
    settings = {**about["settings"], "evaluation": evaluation}
    return {**json.loads(result.to_json()), **about, "settings": settings}


def _splits(
    loaded: "Dataset", labels: Path | None, test_share: float, seed: int
) -> tuple["Split", "Split", dict[str, float] | None]:
    """What to train a classifier on, what to score it on, and how that was held out, if it was."""
    import torch

    from dcs.data import Samples, Split, read_labels

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
        return train, test, None
    # Windows of one recording stay together: a classifier may know a recording, not its class.
    of: list[Any] = list(range(len(train)) if train.starts is None else train.names)
    things = sorted(set(of))
    if len(things) < 2:
        thing = "sample" if train.starts is None else "recording"
        raise ValueError(f"{loaded.name} holds one {thing}, of which nothing can be held out: name more")
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

    return rows(order[held_out:]), rows(order[:held_out]), {"share": test_share, "seed": seed}


def _range_of(split: "Split") -> float:
    """Largest minus smallest value of the clean samples."""
    assert split.clean is not None  # noqa: S101
    low, high = split.clean.aminmax()
    return float(high - low) or 1.0


def _score(name: str, features: list[Any], head: str, seed: int, k: int | None) -> "Result":
    from dcs import evaluation

    if name == "clustering":
        import numpy as np

        everything = tuple(np.concatenate(parts) for parts in zip(*features, strict=True))
        return evaluation.clustering(everything, seed=seed)
    train, held_out = features
    if name == "linear":
        return evaluation.linear(train, held_out, head=str(head), seed=seed)
    return evaluation.knn(train, held_out, k=k or max(1, min(_MOST_VOTERS, len(train[1]) // 5)))

"""`dcs evaluate`: scores of the features of a run."""

import json
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcs.cli.options import AsJson, Reading, RunFolder, assignments, load, reads_data, words

if TYPE_CHECKING:
    from dcs.data import Dataset, Source, Split
    from dcs.evaluation import Result
    from dcs.runs import Predictor


Head = StrEnum("Head", ["lbfgs", "sgd"])


@reads_data
def evaluate(
    run: RunFolder,
    reading: Reading,
    data: Annotated[
        str | None, typer.Option(help="Data to score on.  [default: what the run was trained on]")
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="A .npy file, or a text file with one label per line, of the training samples; a share of "
            "these is then held out, in place of any test split."
        ),
    ] = None,
    protocol: Annotated[str, typer.Option(help="Protocols: {protocols}.")] = "linear,knn",
    head: Annotated[
        Head,
        typer.Option(
            help="Classifier of linear: lbfgs, logistic regression on standardised features; or sgd, "
            "SimSiam's recipe."
        ),
    ] = Head.lbfgs,
    k: Annotated[
        int | None,
        typer.Option(
            "--k",
            min=1,
            help="Number of neighbours of knn.  [default: 200, or a fifth of the samples if fewer]",
        ),
    ] = None,
    test_share: Annotated[
        float,
        typer.Option(
            min=0.01, max=0.99, help="Share held out for testing, without a test split or with --labels."
        ),
    ] = 0.2,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed of the held-out share, of clustering and of --head sgd.")
    ] = 0,
    noise: Annotated[
        str | None,
        typer.Option(help="Noise to add, e.g. gaussian:0.5.  [default: as in training; none with --data]"),
    ] = None,
    data_range: Annotated[
        float | None,
        typer.Option(
            min=1e-30,
            help="Range of possible values, for denoising.  [default: that of the clean samples]",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other option of a protocol."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Score the features of a run; the results are added to RUN/results.jsonl."""
    from dcs import evaluation, runs
    from dcs._optional import require
    from dcs.training.checkpoint import cut_unfinished_line

    wanted = words(protocol) or []
    if not wanted:
        raise ValueError(f"--protocol is empty: give some of {', '.join(evaluation.PROTOCOLS)}")
    entries = {name: evaluation.PROTOCOLS[name] for name in wanted}
    further = assignments(settings)
    evaluation.check_options(wanted, further)
    predictor = runs.load(run)
    needs = {entry.traits.get("needs", "labels") for entry in entries.values()}
    if "clean" in needs:
        predictor.check_predicts("the denoising protocol")
    for name, entry in entries.items():
        if "extra" in entry.traits:
            module, extra = entry.traits["extra"]
            require(module, extra, f"the {name} protocol")
    given = reading if noise is None else Reading({**reading.given, "noise": noise})
    trained = predictor.record.source
    if data is not None:
        source = given.like(data, trained, predictor.shape)
    elif trained is not None:
        source = Reading({**trained.model_dump(exclude={"data"}), **given.given}).source(trained.data)
    else:
        raise ValueError(f"{run} does not record what it was trained on: give it with --data")
    loaded = load(source, predictor)
    train, test, held_out = _splits(loaded, labels, test_share, seed)
    if "labels" in needs and train.y is None:
        other = "" if test.clean is None else ", or score --protocol denoising"
        raise ValueError(f"{source.data} has no labels: give them with --labels{other}")
    if "labels" in needs and data is None and trained is not None and trained.part == "all":
        typer.echo(
            f"dcs: {run} has learned from the test split, too (without labels), to cluster it: no score is "
            f"on samples that are new to it",
            err=True,
        )
    # Denoising needs no labels, which a test split may lack.
    own_test = loaded.test if labels is None else None
    noisy = test if own_test is None else own_test
    if "clean" in needs and noisy.clean is None:
        raise ValueError("the denoising protocol needs clean data: use a data set with --noise")
    material = evaluation.Material(noisy=noisy, model=predictor)
    if "labels" in needs:
        seen, unseen = ((evaluation.features_of(predictor, split), split.y) for split in (train, test))
        material = replace(material, train=seen, test=unseen)
    options = {"head": str(head), "seed": seed, "k": k, "data_range": data_range} | further
    cut_unfinished_line(run / runs.RESULTS)
    scored_on = source.model_dump(mode="json") | {"labels": labels and str(labels.absolute())}
    for name in wanted:
        result = evaluation.score(name, material, **options)
        share = held_out if noisy is test or "labels" in str(entries[name].traits.get("needs")) else None
        line = json.dumps(_line(predictor, loaded.name, source, result, {**scored_on, "held_out": share}))
        measured = "".join(f", {name} {value:.4g}" for name, value in result.metrics.items())
        typer.echo(line if as_json else f"{result.protocol}: {result.score:.2f} %{measured}")
        with (run / runs.RESULTS).open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def _line(
    predictor: "Predictor", dataset: str, source: "Source", result: "Result", scored_on: dict[str, Any]
) -> dict[str, Any]:
    """Return the line of a result."""
    training, trial = predictor.record.training, predictor.record.trial or {}
    options = training.objective_options
    inner = options.get("regulariser_options", options)
    evaluation = {**result.settings, "seed": result.seed, "data": scored_on}
    return {
        **json.loads(result.to_json()),
        "experiment": None,
        "method": trial.get("method") or training.objective,
        "variant": trial.get("variant") or inner.get("variant", "default"),
        "trial": training.seed if trial else 0,  # the trials of an experiment are numbered by their seeds
        "seed": training.seed,
        "dataset": dataset,
        "noise": None if source.noise is None else str(source.noise),
        "epochs": len(predictor.history),
        "settings": {"training": training.model_dump(mode="json"), "evaluation": evaluation},
    }


def _splits(
    loaded: "Dataset", labels: Path | None, test_share: float, seed: int
) -> tuple["Split", "Split", dict[str, float] | None]:
    """Return what to train a classifier on, what to score it on, and how that was held out, if it was."""
    import torch

    from dcs.data import read_labels

    train, test = loaded.train, loaded.test
    if labels is not None:
        y, classes = read_labels(labels)
        if len(y) != len(train):
            raise ValueError(f"{labels} has {len(y)} labels, but the data has {len(train)} training samples")
        if len(classes) == 1:
            raise ValueError(f"{labels} has one class only, {classes[0]}: at least two are needed")
        # Labels of a test split may be of other classes, or the same in another order: they cannot be mixed.
        if test is not None:
            typer.echo(
                f"dcs: {labels} has the labels of the training samples: a share of these is held out for "
                f"testing, and the test split of {loaded.name} is not used",
                err=True,
            )
        train, test = replace(train, y=y), None
    if test is not None and (test.y is not None or train.y is None):
        return train, test, None
    if len(train) < 2:
        raise ValueError(f"{loaded.name} holds one sample, so that nothing can be held out: give more")
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))
    count = min(max(1, round(test_share * len(train))), len(train) - 1)
    return train.take(order[count:]), train.take(order[:count]), {"share": test_share, "seed": seed}

"""One trial of Expt2: a backbone learns from views of images, and a linear classifier reads its features."""

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn

from dcs import augmentation, data, evaluation, objectives, training
from dcs.experiments._trial import Outcome, Part, Trial, subset, train_once
from dcs.models import device_named
from dcs.objectives.self_supervised import encode

METHODS = ("simsiam", "simsiam+bsm", "simsiam-n2v", "simsiam-dcs")
FURTHER = tuple(
    name for name in objectives.names() if name not in METHODS and not objectives.parse(name).kind.predicts
)
MASKED = tuple(name for name in (*METHODS, *FURTHER) if name.endswith(("-n2v", "-dcs")))
ORIENTATION = ("untrained", "supervised")
WEIGHTS = {"cifar10": 0.01, "cifar100": 0.01, "tiny-imagenet": 0.02, "digits": 0.01}  # λ of the paper
_COLOURS = {
    "cifar10": augmentation.CIFAR10,
    "cifar100": augmentation.CIFAR100,
    "tiny-imagenet": augmentation.IMAGENET,
    "digits": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
}
_SHIFT = 4  # pixels, of the supervised row's crops
_SUPERVISED_RATE = 0.1
_WATCHED, _WATCHED_EVERY = 5_000, 25  # images, and epochs from one look at their neighbours to the next


class Recipe(NamedTuple):
    """The network and how it is trained."""

    network: str
    options: dict[str, Any]  # of the network
    heads: dict[str, dict[str, Any]]  # options of simsiam, simclr and byol
    batch_size: int
    learning_rate: float  # for batches of 256
    weight_decay: float
    fixed_predictor_rate: bool = False


_CIFAR = Recipe("resnet18", {}, {"simsiam": {"projector": (2048, 2048)}}, 512, 0.03, 5e-4)
_SMALL_HEADS: dict[str, dict[str, Any]] = {
    "simsiam": {"projector": (256, 256), "predictor": 64},
    "simclr": {"projector": (256, 64)},
    "byol": {"projector": (256, 64), "predictor": 256, "momentum": 0.99},
}
RECIPES = {
    "paper": _CIFAR,
    "quick": _CIFAR._replace(options={"width": 16}, heads=_SMALL_HEADS, batch_size=64, learning_rate=0.5),
    "smoke": _CIFAR._replace(options={"width": 4}, heads=_SMALL_HEADS, batch_size=64),
}
_TINY_IMAGENET = _CIFAR._replace(
    network="resnet50",
    heads={"simsiam": {"projector": (2048, 2048, 2048)}},
    learning_rate=0.05,
    weight_decay=1e-4,
    fixed_predictor_rate=True,
)


def regularised(method: str) -> bool:
    """Whether a method has a regulariser, and with it λ."""
    return "-" in method and method in (*METHODS, *FURTHER)


def run(trial: Trial, out: Path, root: str | None, threads: int | None) -> Outcome:
    """Carry out a trial."""
    part = load(trial, root)
    x, y = part.train.x, part.train.y
    assert y is not None  # noqa: S101
    shape, config = tuple(x.shape[1:]), _config(trial, threads)
    network = training.make_network(config, shape)
    options: dict[str, Any] = {}
    if trial.method == "supervised":
        views = augmentation.Views(**_views(trial))
        objective: objectives.Objective = Supervised(views, network.encoder.features, y, trial.seed)
        # The loop hands over rows of a pair: each image's label, as if it were an image.
        options["pair"] = y.float().reshape(-1, *[1] * len(shape)).expand(x.shape)
    else:
        objective = training.make_objective(config, shape)
    settings: dict[str, Any] = config.model_dump(include={"network", "network_options"})
    metrics: dict[str, float] = {}
    if trial.method == "untrained":
        network.to(device_named(config.device))
    else:
        watched = [subset(split, _WATCHED) for split in part]
        options["monitor"] = evaluation.KNNMonitor(*watched, every=_WATCHED_EVERY, inputs=objective.inputs)
        settings, metrics = train_once(trial, network, objective, x, config, out, root, **options)
    seen = Seen(network, objective)
    train, test = ((evaluation.features_of(seen, split.x), split.y) for split in part)
    metrics["knn"] = evaluation.knn(train, test).score
    # SimSiam's classifier, SGD with rate 30, is made for much data: with little it ends far from the best.
    head = "sgd" if trial.scale == "paper" else "lbfgs"
    return Outcome(evaluation.linear(train, test, head=head, seed=trial.seed), settings, metrics)


def load(trial: Trial, root: str | None) -> Part:
    """Colour images in [0, 1]."""
    whole = trial.train_size >= data.CATALOGUE[trial.dataset].train
    found = _load(trial.dataset, root, None if whole else False)
    assert found.test is not None  # noqa: S101
    if trial.dataset == "digits":
        return Part(*(_coloured(subset(split, trial.train_size)) for split in (found.train, found.test)))
    return Part(subset(found.train, trial.train_size), found.test)


@lru_cache(maxsize=1)
def _load(name: str, root: str | None, resident: bool | None) -> data.Dataset:
    return data.load(name, root=root, resident=resident)


def _coloured(split: data.Split) -> data.Split:
    """Grey digits of 8 x 8 pixels as colour images of 16 x 16."""
    x = torch.as_tensor(split.x)[:, None].repeat_interleave(2, 2).repeat_interleave(2, 3)
    return data.Split(x.expand(-1, 3, -1, -1).contiguous(), split.y)


class Supervised(objectives.Objective):
    """Cross-entropy of a linear classifier on the features, trained with the backbone: for orientation.

    Images are shifted by up to four pixels and mirrored at random, as is usual for CIFAR. Labels take the
    place of the pair, in all entries of each image.

    Args:
        views: How images are normalised.
        features: Of the backbone.
        y: The labels of the training images.
        seed: Of the classifier's weights.
    """

    full_batches, predicts = True, False

    def __init__(self, views: augmentation.Views, features: int, y: Tensor, seed: int) -> None:
        super().__init__()
        self.views = views
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            self.classifier = nn.Linear(features, int(y.max()) + 1)

    def inputs(self, x: Tensor) -> Tensor:
        """Normalise images."""
        return self.views.normalise(x)

    def compute(self, model: objectives.base.Model, batch: objectives.Batch) -> Tensor:
        """Compute the cross-entropy."""
        assert batch.pair is not None  # noqa: S101
        seen = self.inputs(shifted(batch.x, batch.generator))
        labels = batch.pair.flatten(1)[:, 0].long()
        return nn.functional.cross_entropy(self.classifier(encode(model, seen)), labels)


def shifted(x: Tensor, generator: Generator | None) -> Tensor:
    """Images shifted at random, with black beyond their borders, and half of them mirrored."""
    n, channels, height, width = x.shape

    def draw(most: int) -> Tensor:
        return torch.randint(most + 1, (n, 1), generator=generator, device=x.device)

    rows = draw(2 * _SHIFT) + torch.arange(height, device=x.device)
    columns = draw(2 * _SHIFT) + torch.arange(width, device=x.device)
    columns = columns.where(draw(1).bool(), columns.flip(1))
    image = torch.arange(n, device=x.device)[:, None, None, None]
    channel = torch.arange(channels, device=x.device)[:, None, None]
    padded = nn.functional.pad(x, [_SHIFT] * 4)
    return padded[image, channel, rows[:, None, :, None], columns[:, None, None, :]]


class Seen(nn.Module):
    """The backbone with what is to be done to images before it."""

    def __init__(self, network: nn.Module, objective: objectives.Objective) -> None:
        super().__init__()
        self.network, self.objective = network, objective

    def encode(self, x: Tensor) -> Tensor:
        """Compute the features of images in [0, 1]."""
        return encode(self.network, self.objective.inputs(x))


def _views(trial: Trial) -> dict[str, Any]:
    mean, std = _COLOURS[trial.dataset]
    return {"mean": mean, "std": std}  # and, as in the paper, no blur, not even of Tiny-ImageNet


def _config(trial: Trial, threads: int | None) -> training.TrainingConfig:
    large = trial.dataset == "tiny-imagenet" and trial.scale == "paper"
    recipe = _TINY_IMAGENET if large else RECIPES[trial.scale]
    method = trial.method if trial.method not in ORIENTATION else "simsiam"
    options = {"augment": _views(trial), **recipe.heads.get(method.replace("+", "-").split("-")[0], {})}
    paper = trial.variant == "paper"
    if regularised(method):
        options |= {"weight": trial.weight, "how": trial.how}
        if paper and method.endswith("-dcs"):
            options["regulariser_options"] = {"variant": "paper"}
    return training.read_config(
        {
            "objective": method,
            "objective_options": options,
            "masking": {"rho": 0.1, "min_masked": 0} if paper and method.endswith("-n2v") else {},
            "network": recipe.network,
            "network_options": recipe.options,
            "max_epochs": trial.epochs,
            "batch_size": recipe.batch_size,
            "optimizer": "sgd",
            "learning_rate": _SUPERVISED_RATE if trial.method == "supervised" else recipe.learning_rate,
            "weight_decay": recipe.weight_decay,
            "schedule": "cosine",
            "fixed_predictor_rate": recipe.fixed_predictor_rate and trial.method != "supervised",
            "validation": 0.0,
            "seed": trial.seed,
            "threads": threads,
            "precision": trial.precision,
        }
    )

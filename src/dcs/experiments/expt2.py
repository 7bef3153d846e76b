"""Expt2: self-supervised learning on colour images, with a regulariser."""

from typing import Any

import torch
from torch import Generator, Tensor, nn

from dcs import augmentation, data, evaluation, objectives
from dcs.experiments.experiment import UNTRAINED, Experiment, Preset, Trial
from dcs.runs import Parts
from dcs.training import CUSTOM, TrainingConfig, make_network

METHODS = ("simsiam", "simsiam+bsm", "simsiam-n2v", "simsiam-dcs")
FURTHER = tuple(
    name for name in objectives.names() if name not in METHODS and not objectives.parse(name).kind.predicts
)
SUPERVISED = "supervised"
_COLOURS = {
    "cifar10": augmentation.CIFAR10,
    "cifar100": augmentation.CIFAR100,
    "tiny-imagenet": augmentation.IMAGENET,
    "digits": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
}
_SHIFT = 4  # largest shift of images in supervised training, in pixels
_WATCHED, _WATCHED_EVERY = 5_000, 25  # images and epochs of the nearest-neighbour monitor
_CIFAR: dict[str, Any] = {
    "network": "resnet18",
    "batch_size": 512,
    "optimizer": "sgd",
    "learning_rate": 0.03,  # for batches of 256
    "weight_decay": 5e-4,
    "schedule": "cosine",
}
_LARGE = {"network": "resnet50", "learning_rate": 0.05, "weight_decay": 1e-4, "fixed_predictor_rate": True}
_RECIPES: dict[str, dict[str, Any]] = {
    "paper": _CIFAR,
    "quick": {**_CIFAR, "network_options": {"width": 16}, "batch_size": 64, "learning_rate": 0.5},
    "smoke": {**_CIFAR, "network_options": {"width": 4}, "batch_size": 64},
}
_SMALL_HEADS: dict[str, dict[str, Any]] = {
    "simsiam": {"projector": (256, 256), "predictor": 64},
    "simclr": {"projector": (256, 64)},
    "byol": {"projector": (256, 64), "predictor": 256, "momentum": 0.99},
}


def settings(trial: Trial) -> dict[str, Any]:
    """Return the training settings of a trial."""
    small, large = trial.scale != "paper", trial.scale == "paper" and trial.dataset == "tiny-imagenet"
    recipe = {**_RECIPES[trial.scale], **(_LARGE if large else {})}
    options: dict[str, Any] = {"augment": _augment(trial)}
    if trial.method == SUPERVISED:
        own = {"objective": CUSTOM, "learning_rate": 0.1, "fixed_predictor_rate": False}
        return {**recipe, **own, "objective_options": options}
    objective = "simsiam" if trial.method == UNTRAINED else trial.method
    name = objectives.parse(objective)
    if small:
        options |= _SMALL_HEADS.get(name.base, {})
    elif name.base == "simsiam":
        options["projector"] = (2048, 2048, 2048) if large else (2048, 2048)
    masking: dict[str, Any] = {}
    paper = trial.variant == "paper"
    if name.regulariser is not None:
        options |= {"weight": trial.weight, "how": trial.how}
    if name.regulariser == "dcs" and paper:
        options["regulariser_options"] = {"variant": "paper"}
    if name.regulariser in ("n2v", "dcs"):
        masking = {"rho": 0.1, "min_masked": 0} if paper else {"rho": 0.3}
    return {**recipe, "objective": objective, "objective_options": options, "masking": masking}


def parts(trial: Trial, found: data.Dataset, config: TrainingConfig) -> Parts:
    """Return the monitor of nearest neighbours and, for the supervised row, classifier and labels."""
    views = augmentation.Views(**_augment(trial))
    x, y = found.train.x, found.train.y
    assert found.test is not None  # noqa: S101
    assert y is not None  # noqa: S101
    watched = (split.subset(_WATCHED) for split in (found.train, found.test))
    monitor = evaluation.KNNMonitor(*watched, every=_WATCHED_EVERY, inputs=views.normalise)
    if trial.method != SUPERVISED:
        return Parts(monitor=monitor)
    network = make_network(config, found.shape)
    objective = Supervised(views, network.encoder.features, int(y.max()) + 1, trial.seed)  # type: ignore[union-attr,arg-type]
    # The loop passes rows of a pair: the label of each image, as if it were an image.
    pair = y.float().reshape(-1, *[1] * len(found.shape)).expand(x.shape)
    return Parts(network, objective, monitor, pair)


class Supervised(objectives.Objective):
    """Cross-entropy of a linear classifier on the features, trained with the backbone.

    Images are shifted by up to four pixels and mirrored at random, as is usual for CIFAR. The pair holds the
    labels, in all entries of each image.

    Args:
        views: Views whose normalisation is used.
        features: Number of features of the backbone.
        classes: Number of classes.
        seed: Random seed of the classifier's weights.
    """

    full_batches, predicts = True, False

    def __init__(self, views: augmentation.Views, features: int, classes: int, seed: int) -> None:
        super().__init__()
        self.views = views
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            self.classifier = nn.Linear(features, classes)

    def inputs(self, x: Tensor) -> Tensor:
        """Normalise images."""
        return self.views.normalise(x)

    def compute(self, model: objectives.Model, batch: objectives.Batch) -> Tensor:
        """Compute the cross-entropy."""
        assert batch.pair is not None  # noqa: S101
        seen = self.inputs(shift(batch.x, batch.generator))
        labels = batch.pair.flatten(1)[:, 0].long()
        return nn.functional.cross_entropy(self.classifier(objectives.encode(model, seen)), labels)


def shift(x: Tensor, generator: Generator | None) -> Tensor:
    """Shift images at random, with black beyond their borders, and mirror half of them."""
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


def _augment(trial: Trial) -> dict[str, Any]:
    mean, std = _COLOURS[trial.dataset]
    return {"mean": list(mean), "std": list(std)}  # without blur, as in the paper, also for Tiny-ImageNet


EXPT2 = Experiment(
    title="Expt2: SimSiam with a regulariser",
    datasets=("cifar10", "cifar100", "tiny-imagenet"),
    methods=METHODS,
    orientation=(UNTRAINED, SUPERVISED),
    masked=tuple(name for name in (*METHODS, *FURTHER) if name.endswith(("-n2v", "-dcs"))),
    presets={
        "paper": Preset({"linear": 1}, 800),
        "quick": Preset({"linear": 2}, 20, 5_000, ("cifar10",), scale="quick"),
        "smoke": Preset({"linear": 1}, 2, 256, ("digits",), scale="smoke"),
    },
    settings=settings,
    parts=parts,
    # SimSiam's classifier, SGD with rate 30, needs much data: with little it ends far from the best.
    head=lambda trial: {"head": "sgd" if trial.scale == "paper" else "lbfgs"},
    neighbours=True,
    prepare=lambda trial: "rgb" if trial.dataset == "digits" else None,
    further=FURTHER,
    stand_ins=("digits",),
    protocols=("linear",),
    weights={"cifar10": 0.01, "cifar100": 0.01, "tiny-imagenet": 0.02, "digits": 0.01},
)

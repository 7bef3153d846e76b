"""The tour: noisy digits, every objective, one table. Offline, in about two minutes."""

import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from dcs import functional as F
from dcs import models, noise, objectives, training

COMPONENTS = 10
BATCH = 240  # of the 1,200 training digits: five steps an epoch
ORACLES = ("dcs (true k)", "clean target")  # they know what no user does


class Digits(NamedTuple):
    """Noisy digits, the clean ones behind them, and what they are."""

    noisy: Tensor  # (n, 8, 8)
    clean: Tensor
    labels: Tensor


class Result(NamedTuple):
    """How well one method did on the test digits."""

    method: str
    accuracy: float  # of a linear classifier on the representation, in percent
    cosine: float | None = None  # mean cosine between the prediction from noisy digits and the clean ones
    predicted: Tensor | None = None  # (n, 8, 8)


def load(sigma: float, seed: int) -> tuple[Digits, Digits]:
    """Return training and test digits (1,200 and 597) with Gaussian noise of deviation sigma."""
    data = load_digits()
    clean = torch.tensor(data.images / 16, dtype=torch.float32)
    noisy = noise.add(clean, "gaussian", sigma, seed)
    order = torch.randperm(len(clean), generator=torch.Generator().manual_seed(seed))
    labels = torch.tensor(data.target)
    train, test = (Digits(noisy[i], clean[i], labels[i]) for i in (order[:1200], order[1200:]))
    return train, test


def methods(sigma: float) -> dict[str, objectives.Objective]:
    """The objectives of the table, by name; the last two know more than the noisy digits."""
    known, clean = ORACLES
    return {
        **{name: objectives.get(name) for name in ("mse", "cosine", "dae", "sure", "n2v", "dcs")},
        "dcs (paper)": objectives.DenoisingCosine(variant="paper"),
        known: objectives.DenoisingCosineOracle(sigma),
        clean: objectives.CosineOracle(),
    }


def run(
    sigma: float = 0.3, epochs: int = 120, seed: int = 0, progress: Callable[[str], None] = lambda _: None
) -> Iterator[Result]:
    """Train every objective for the same number of epochs from the same start; yield a result for each."""
    train, test = load(sigma, seed)
    pca = PCA(COMPONENTS, random_state=seed).fit(train.noisy.flatten(1))
    yield Result("PCA", accuracy(lambda x: torch.from_numpy(pca.transform(x.flatten(1))), train, test))
    yield Result("untrained", accuracy(autoencoder(seed).encode, train, test))
    for name, objective in methods(sigma).items():
        progress(name)
        network = fit(objective, train, epochs, seed)
        with torch.no_grad():
            predicted = network(test.noisy)
        cosine = -F.cosine_loss(test.clean, predicted).item()
        yield Result(name, accuracy(network.encode, train, test), cosine, predicted)


def autoencoder(seed: int) -> models.Autoencoder:
    """A small autoencoder of 8 x 8 images, the same for the same seed."""
    network = models.build("mlp", (8, 8), COMPONENTS, seed=seed, hidden=(256, 256))
    assert isinstance(network, models.Autoencoder)  # noqa: S101
    return network


def fit(objective: objectives.Objective, train: Digits, epochs: int, seed: int) -> models.Autoencoder:
    """Train the autoencoder; an oracle is given the clean digits."""
    network = autoencoder(seed)
    settings = {"max_epochs": epochs, "batch_size": BATCH, "validation": 0.0, "seed": seed, "device": "cpu"}
    with warnings.catch_warnings():
        # That the literal algorithm breaks down here is for the table to show.
        warnings.simplefilter("ignore", training.TrainingWarning)
        training.train(
            network,
            objective,
            train.noisy,
            training.read_config(settings),
            pair=train.clean if objective.needs_pair else None,
        )
    return network


def accuracy(encode: Callable[[Tensor], Tensor], train: Digits, test: Digits) -> float:
    """Test accuracy, in percent, of logistic regression on standardised features."""
    with torch.no_grad():
        features, held_out = encode(train.noisy), encode(test.noisy)
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    classifier.fit(features, train.labels)
    return 100 * float(classifier.score(held_out, test.labels))

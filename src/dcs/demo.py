"""The tour: noisy digits, every objective, one table. Offline, in about two minutes."""

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from dcs import functional as F
from dcs import noise, objectives

COMPONENTS = 10


class Digits(NamedTuple):
    """Noisy digits, the clean ones behind them, and what they are."""

    noisy: Tensor  # (n, 8, 8)
    clean: Tensor
    labels: Tensor


class Row(NamedTuple):
    """How well one method did on the test digits."""

    method: str
    accuracy: float  # of a linear classifier on the representation, in percent
    cosine: float | None  # mean cosine between the prediction from noisy digits and the clean ones


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
    """The objectives of the table, by name; the last knows the clean digits."""
    return {
        **{name: objectives.get(name) for name in ("mse", "cosine", "dae", "sure", "n2v", "dcs")},
        "dcs (paper)": objectives.DenoisingCosine(variant="paper"),
        "dcs (true k)": objectives.DenoisingCosineOracle(sigma),
        "clean target": objectives.CosineOracle(),
    }


def run(
    sigma: float = 0.3, steps: int = 600, seed: int = 0, progress: Callable[[str], None] = lambda _: None
) -> Iterator[Row]:
    """Train every objective for the same number of steps from the same start; yield a row for each."""
    train, test = load(sigma, seed)
    pca = PCA(COMPONENTS, random_state=seed).fit(train.noisy.flatten(1))
    yield Row("PCA", accuracy(lambda x: torch.from_numpy(pca.transform(x.flatten(1))), train, test), None)
    encoder, decoder = autoencoder(seed)
    yield Row("untrained", accuracy(encoder, train, test), None)
    for name, objective in methods(sigma).items():
        progress(name)
        encoder, decoder = autoencoder(seed)
        fit(nn.Sequential(encoder, decoder), objective, train, steps, seed)
        with torch.no_grad():
            cosine = -F.cosine_loss(test.clean, decoder(encoder(test.noisy))).item()
            yield Row(name, accuracy(encoder, train, test), cosine)


def autoencoder(seed: int) -> tuple[nn.Sequential, nn.Sequential]:
    """A small encoder and decoder of 8 x 8 images, the same for the same seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = nn.Sequential(nn.Flatten(), *_layers(64, 256, 256, COMPONENTS))
        decoder = nn.Sequential(*_layers(COMPONENTS, 256, 256, 64), nn.Unflatten(1, (8, 8)))
    return encoder, decoder


def _layers(*widths: int) -> list[nn.Module]:
    """Linear layers of these widths with ReLU between them."""
    layers: list[nn.Module] = []
    for width, next_width in itertools.pairwise(widths):
        layers += [nn.Linear(width, next_width), nn.ReLU()]
    return layers[:-1]


def fit(model: nn.Module, objective: objectives.Objective, train: Digits, steps: int, seed: int) -> None:
    """Minimise an objective with Adam on random batches of 256."""
    generator = torch.Generator().manual_seed(seed)
    if isinstance(objective, objectives.SURE):
        objective.estimate(train.noisy)
    oracle = isinstance(objective, objectives.CosineOracle | objectives.DenoisingCosineOracle)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        batch = torch.randint(len(train.noisy), (256,), generator=generator)
        loss = objective(model, train.noisy[batch], generator, pair=train.clean[batch] if oracle else None)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def accuracy(encoder: Callable[[Tensor], Tensor], train: Digits, test: Digits) -> float:
    """Test accuracy, in percent, of logistic regression on standardised features."""
    with torch.no_grad():
        features, held_out = encoder(train.noisy), encoder(test.noisy)
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    classifier.fit(features, train.labels)
    return 100 * float(classifier.score(held_out, test.labels))

"""What each remedy does to the minimiser. Prints a table of docs/robust.md.

A linear predictor of noisy digits stands in for the network, so that minimisers can be found, from 24,000
draws of digits, noise and views. Bias: the mean angle between its predictions and those of the predictor that
the cosine loss to the clean digits leads to, with the same views. Spread: the mean angle between the
predictions of two predictors, each from one half of the draws.
"""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from sklearn.datasets import load_digits
from torch import Generator, Tensor

from dcs import functional as F
from dcs import noise
from dcs.masking import BlindSpot

DRAWS = 24_000


class Views(NamedTuple):
    """All draws: what is seen, what is compared with, where, and the true clean digits."""

    x: Tensor
    x_tilde: Tensor
    target: Tensor
    b: Tensor
    clean: Tensor
    snr: Tensor  # estimated
    true_snr: Tensor


def draw(sigma: float, rho: float | None, known_sigma: bool) -> Views:
    """Noisy digits, masked or, without rho, split; with ĉ from the masked entries, or from σ."""
    digits = torch.tensor(load_digits().images / 16, dtype=torch.float32)
    rows = torch.randint(len(digits), (DRAWS,), generator=Generator().manual_seed(0))
    clean = digits[rows]
    x = noise.add(clean, "gaussian", sigma, 1)
    generator, deviation = Generator().manual_seed(2), sigma
    if rho is None:
        split = noise.GaussianSplit(sigma)
        x_tilde, target = split(x, generator)
        b, deviation = torch.ones_like(x, dtype=torch.bool), sigma * math.sqrt(1 + split.alpha**-2)
        snr = split.snr(x)
    else:
        (x_tilde, b), target = BlindSpot(rho)(x, generator), x
        snr = F.snr(x, x_tilde, b.bool())
    b = b.bool().flatten(1)
    x, x_tilde, target, clean = (part.flatten(1).double() for part in (x, x_tilde, target, clean))
    entries = b.sum(1)
    if known_sigma and rho is not None:
        signal2 = target.where(b, 0).square().sum(1) - entries * sigma**2
        snr = (signal2.clamp(min=0) / entries).sqrt() / sigma
    true = clean.where(b, 0).norm(dim=1) / (deviation * entries.sqrt())
    return Views(x, x_tilde, target, b, clean, snr.double(), true)


def losses(matrix: Tensor, views: Views, compared: Tensor, weight: Tensor | float) -> Tensor:
    """The weighted cosine loss of each draw."""
    prediction = (views.x_tilde @ matrix).where(views.b, 0)
    cosine = torch.nn.functional.cosine_similarity(prediction, compared.where(views.b, 0), dim=1, eps=1e-12)
    return -weight * cosine


def minimise(matrix: Tensor, views: Views, compared: Tensor, weight: Tensor | float) -> Tensor:
    """The linear predictor with the least loss."""
    matrix = matrix.clone().requires_grad_()
    optimizer = torch.optim.LBFGS([matrix], max_iter=150, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = losses(matrix, views, compared, weight).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return matrix.detach()


def angle(one: Tensor, other: Tensor) -> float:
    """In degrees, on average over rows."""
    cosine = torch.nn.functional.cosine_similarity(one, other, dim=-1).clamp(-1, 1)
    return float(cosine.arccos().mean()) * 180 / math.pi


def rows_of(views: Views, rows: slice) -> Views:
    """Some of the draws."""
    return Views(*(part[rows] for part in views))


def measure(views: Views) -> Iterator[tuple[str, str]]:
    """For each weight: bias and spread of the minimiser, and its cosine to the clean digits."""
    start = torch.eye(views.x.shape[1], dtype=torch.float64)  # predicts what it sees
    ideal = minimise(start, views, views.clean, 1.0)
    halves = slice(None, DRAWS // 2), slice(DRAWS // 2, None)
    for name, weigh in {"clean target": None, **WEIGHTS}.items():
        weight = weigh(views) if weigh else torch.ones(DRAWS, dtype=torch.float64)
        compared = views.target if weigh else views.clean
        found = minimise(start, views, compared, weight)
        one, two = (minimise(start, rows_of(views, rows), compared[rows], weight[rows]) for rows in halves)
        cosine = torch.nn.functional.cosine_similarity(views.x @ found, views.clean, dim=1).mean()
        bias, spread = angle(views.x @ found, views.x @ ideal), angle(views.x @ one, views.x @ two)
        yield name, f"{bias:.1f}° | {spread:.1f}° | {cosine:.3f}"


def by(power: float = 1.0, floor: float = 0.2, *, true: bool = False) -> Callable[[Views], Tensor]:
    """The weight 1/max(k, floor)^power."""
    return lambda v: F.denoising_weight(
        v.true_snr if true else v.snr, v.b.sum(1).double().clamp(min=1), power=power, floor=floor
    )


def literal(views: Views) -> Tensor:
    """Algorithm 1's: 1/k̂ by 100 draws, of any size and sign."""
    entries, generator = views.b.sum(1).double().clamp(min=1), Generator().manual_seed(3)
    return F.denoising_weight(views.snr, entries, variant="paper", generator=generator)


def soft(views: Views) -> Tensor:
    """Remark 3's."""
    return F.denoising_weight(views.snr, views.b.sum(1).double(), eta=0.2)


WEIGHTS = {
    "Algorithm 1": literal,
    "1/k, floor 0.05": by(floor=0.05),
    "1/k, floor 0.2": by(),
    "soft, eta 0.2": soft,
    "1": by(0.0),
    "k": by(-1.0),
    "1/k, true k": by(floor=1e-3, true=True),
}


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    kinds = {
        "rho 0.1": (0.1, False),
        "rho 0.3": (0.3, False),
        "rho 0.3, c by σ": (0.3, True),
        "split": (None, True),
    }
    for sigma in (0.3, 0.5):
        print(f"\nsigma = {sigma}:\n\n| views | weight | bias | spread | cosine to clean |")
        print("|---|---|---|---|---|")
        for kind, (rho, known_sigma) in kinds.items():
            for name, cells in measure(draw(sigma, rho, known_sigma)):
                print(f"| {kind} | {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()

"""How often is `dcs inspect` right? Prints the table of docs/inspect.md."""

import math

import numpy as np
import torch
from sklearn.datasets import load_digits

from dcs import noise
from dcs.inspection import FAILS, HOLDS, Inspection, inspect

DRAWS = 20
WRONG = {"poisson": "isotropy", "correlated": "independence", "student": "light_tails"}
DIGITS = torch.tensor(load_digits().images / 16).float()


def waves(seed: int, n: int = 30, side: int = 64) -> torch.Tensor:
    """Smooth images: slow waves of random frequency and phase, in 0…1."""
    y, x = torch.meshgrid(torch.linspace(0, 1, side), torch.linspace(0, 1, side), indexing="ij")
    a = 6 * torch.rand(n, 4, 1, 1, generator=torch.Generator().manual_seed(seed))
    return 0.5 + 0.25 * torch.sin(a[:, 0] * x + a[:, 1]) + 0.25 * torch.cos(a[:, 2] * y + a[:, 3])


def digits(seed: int, n: int = 1400) -> torch.Tensor:
    """Some of the digits of 8 x 8."""
    return DIGITS[torch.randperm(len(DIGITS), generator=torch.Generator().manual_seed(seed))[:n]]


def make_noisy(x: torch.Tensor, kind: str, sigma: float, seed: int) -> torch.Tensor:
    """Add noise; `student` has three degrees of freedom."""
    if kind == "none":
        return x
    if kind == "student":
        draw = np.random.default_rng(seed).standard_t(3, tuple(x.shape)) / math.sqrt(3)
        return x + sigma * torch.tensor(draw).float()
    return noise.add(x, kind, sigma, seed)


def is_right(kind: str, found: Inspection) -> bool:
    """Whether what is wrong with the noise was found, and nothing else."""
    if kind == "none":
        return found.state == "clean"
    if found.state not in ("slight", "noisy"):
        return False
    if kind == "gaussian":
        return all(check.verdict == HOLDS for check in found.checks)
    return [check.name for check in found.checks if check.verdict == FAILS] == [WRONG[kind]]


def main() -> None:
    """Print how many draws are judged right, the largest error of σ, and how often its interval holds it."""
    print("| data | noise | sigma | right | largest error of sigma | interval holds sigma |")
    print("|---|---|---|---|---|---|")
    for name, images, strengths in (
        ("waves, 64 x 64", waves, (0.1, 0.3)),
        ("digits, 8 x 8", digits, (0.3, 0.5)),
    ):
        for kind in ("none", "gaussian", *WRONG):
            for sigma in (0.0,) if kind == "none" else strengths:
                found = [inspect(make_noisy(images(d), kind, sigma, d + 1000)) for d in range(DRAWS)]
                right = sum(is_right(kind, one) for one in found)
                error = max(abs((one.sigma.value or 0) / (sigma or 1) - 1) for one in found)
                shown = f"{100 * error:.1f} %" if kind == "gaussian" else ""
                held = sum((one.sigma.low or 0) <= sigma <= (one.sigma.high or 0) for one in found)
                covered = f"{held} of {DRAWS}" if kind == "gaussian" else ""
                print(
                    f"| {name} | {kind} | {sigma:g} | {right} of {DRAWS} | {shown} | {covered} |", flush=True
                )


if __name__ == "__main__":
    main()

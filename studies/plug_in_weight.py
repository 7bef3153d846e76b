"""What the estimated weight does to the dCS loss: its mean and spread, relative to the loss it stands for.

A clean vector s of dimension D and a prediction h with cos(s, h) = 0.9 are fixed; x and x_tilde are s plus
independent Gaussian noise at the SNR c. Each sample's cos(x, h)/k is divided by cos(s, h), so that the ideal
is 1.00 ± 0.00. By Theorem 1 the mean is 1 with the true k; with k̂ from the same x it need not be.

Run `python studies/plug_in_weight.py`: it prints a Markdown table, mean ± standard deviation in each cell.
"""

import torch
from torch import Tensor

import dcs.functional as F

COSINE = 0.9
FLOORS = (0.05, 0.1, 0.2)
CASES = ((6, 0.5), (20, 0.5), (78, 0.2), (78, 0.5), (78, 1.0), (784, 0.2), (784, 0.5), (784, 1.0))
SAMPLES = 40_000
CHUNK = 2**20  # entries of x at a time


def simulate(dim: int, c: float, generator: torch.Generator) -> tuple[list[Tensor], float]:
    """Draw the relative losses, with the true k and then with k̂ for each floor, and the share of ĉ = 0."""
    s, h = torch.zeros(2, dim, dtype=torch.float64)
    s[0] = c * dim**0.5
    h[0], h[1] = COSINE, (1 - COSINE**2) ** 0.5
    chunks: list[list[Tensor]] = [[] for _ in (None, *FLOORS)]
    zeros = 0
    for rows in torch.arange(SAMPLES).split(max(1, CHUNK // dim)):
        noises = torch.randn((2, len(rows), dim), dtype=torch.float64, generator=generator)
        x, x_tilde = s + noises
        known = torch.full((len(rows),), c, dtype=torch.float64)
        settings = [(known, 1e-6), *((None, floor) for floor in FLOORS)]
        for chunk, (snr, floor) in zip(chunks, settings, strict=True):
            loss = F.denoising_cosine_loss(
                h.expand_as(x), x, x_tilde, None, snr=snr, floor=floor, reduction="none"
            )
            chunk.append(-loss / COSINE)
        zeros += int((F.snr(x, x_tilde) == 0).sum())
    return [torch.cat(chunk) for chunk in chunks], zeros / SAMPLES


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)  # chunks this small do not gain from more
    generator = torch.Generator().manual_seed(0)
    head = ["D", "c", "k", "true k", *(f"k̂, floor {floor}" for floor in FLOORS), "share of ĉ = 0"]
    print("| " + " | ".join(head) + " |")
    print("|" + " ---: |" * len(head))
    for dim, c in CASES:
        losses, zero_share = simulate(dim, c, generator)
        k = float(F.expected_cosine(c, dim))
        cells = [f"{float(loss.mean()):.2f} ± {float(loss.std()):.2f}" for loss in losses]
        print("| " + " | ".join([f"{dim}", f"{c}", f"{k:.3f}", *cells, f"{zero_share:.1%}"]) + " |")


if __name__ == "__main__":
    main()

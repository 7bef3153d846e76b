"""Which mask ratio, and which power of k? Prints the table of docs/weight.md.

Noisy digits and the network of the demo. Every cell is the mean over four seeds, which share noise, split,
network and batches across methods. About ten minutes on one core.
"""

from collections.abc import Callable

import torch

from dcs import demo, objectives
from dcs import functional as F
from dcs.masking import BlindSpot

EPOCHS, SEEDS = 120, 4
POWERS = {"1/k": 1.0, "1": 0.0, "k": -1.0}


def measure(make: Callable[[], objectives.Objective], sigma: float) -> str:
    """Linear accuracy in percent, its deviation over seeds, and cosine to clean."""
    accuracies, cosines = [], []
    for seed in range(SEEDS):
        train, test = demo.load(sigma, seed)
        network = demo.fit(make(), train, EPOCHS, seed)
        accuracies.append(demo.accuracy(network.encode, train, test))
        with torch.no_grad():
            cosines.append(-F.cosine_loss(test.clean, network(test.noisy)).item())
    spread = torch.tensor(accuracies).std().item()
    return f"{sum(accuracies) / SEEDS:.1f} ± {spread:.1f} / {sum(cosines) / SEEDS:.3f}"


def main() -> None:
    """Print a row for each method and mask ratio."""
    torch.set_num_threads(1)
    print("| objective | weight | rho | sigma = 0.3 | sigma = 0.5 |")
    print("|---|---|---|---|---|")
    for rho in (0.1, 0.3, 0.5):
        methods = {("n2v", ""): lambda rho=rho: objectives.Noise2Void(BlindSpot(rho))}
        for weight, power in POWERS.items():
            methods["dcs", weight] = lambda rho=rho, power=power: objectives.DenoisingCosine(
                BlindSpot(rho), power=power
            )
        for (name, weight), make in methods.items():
            cells = " | ".join(measure(make, sigma) for sigma in (0.3, 0.5))
            print(f"| {name} | {weight} | {rho} | {cells} |", flush=True)


if __name__ == "__main__":
    main()

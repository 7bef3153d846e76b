"""Why does the literal loss collapse? Prints the tables of docs/robust.md.

Noisy digits and the network of the demo, four seeds. One change at a time leads from Algorithm 1 to the
default. Before training: what its weights are like. After it: what has become of the network.
"""

import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from dcs import demo, objectives, training
from dcs import functional as F
from dcs.masking import BlindSpot
from dcs.objectives import DenoisingCosine
from dcs.training.meters import feature_spread

EPOCHS, SEEDS = 120, 4
STEPS: dict[str, Callable[[], DenoisingCosine]] = {
    "Algorithm 1 (rho 0.1, 1/k)": lambda: DenoisingCosine(variant="paper"),
    "the same, two entries or more": lambda: DenoisingCosine(BlindSpot(0.1), variant="paper"),
    "exact k, at least 0.2": lambda: DenoisingCosine(BlindSpot(0.1), power=1),
    "weight k in place of 1/k": lambda: DenoisingCosine(BlindSpot(0.1)),
    "rho 0.3": lambda: DenoisingCosine(BlindSpot(0.3)),
    "split samples: the default": DenoisingCosine,
}


def of_weights(make: Callable[[], DenoisingCosine], sigma: float) -> list[float]:
    """Share of ĉ = 0, of negative weights, of masks without signal, and how many of a batch of 240 count."""
    rows = []
    for seed in range(SEEDS):
        train, _ = demo.load(sigma, seed)
        objective, generator = make(), torch.Generator().manual_seed(seed)
        objective.prepare(nn.Identity(), train.noisy)
        x, clean = train.noisy[: demo.BATCH], train.clean[: demo.BATCH]
        view = objective.own_view(objectives.Batch(x, generator, None, None))
        b = torch.ones_like(x, dtype=torch.bool) if view.b is None else view.b
        entries = b.flatten(1).sum(1)
        snr = F.snr(view.x, view.x_tilde, view.b) if view.snr is None else view.snr
        weight = F.denoising_weight(
            snr, entries.clamp(min=1).float(), generator=generator, **objective.weighting
        )
        weight = weight.where(entries > 0, 0)
        nothing = clean.where(b, 0).flatten(1).norm(dim=1) < 0.05 * clean.flatten(1).norm(dim=1)
        count = float(weight.abs().sum() ** 2 / weight.square().sum())
        rows.append([100 * float(m.float().mean()) for m in (snr == 0, weight < 0, nothing)] + [count])
    return torch.tensor(rows).mean(0).tolist()


def of_training(make: Callable[[], DenoisingCosine], sigma: float) -> list[str]:
    """Gradients, dead units, spread of the features, accuracy and cosine to clean."""
    rows = []
    for seed in range(SEEDS):
        train, test = demo.load(sigma, seed)
        network = demo.autoencoder(seed)
        settings = {"max_epochs": EPOCHS, "batch_size": demo.BATCH, "validation": 0.0, "seed": seed}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", training.TrainingWarning)
            history = training.train(network, make(), train.noisy, training.read_config(settings))
        norms = torch.tensor([metrics["gradient_norm"] for metrics in history])
        accuracy = demo.accuracy(network.encode, train, test)
        with torch.no_grad():
            cosine = -F.cosine_loss(test.clean, network(test.noisy)).item()
        spread = feature_spread(network, test.noisy)
        rows.append(
            [float(norms.max() / norms.median()), dead(network, test.noisy), spread, accuracy, cosine]
        )
    table = torch.tensor(rows, dtype=torch.float64)
    largest, without, spread, accuracy, cosine = table.mean(0).tolist()
    return [
        f"{largest:.0f}",
        f"{without:.0f} %",
        f"{spread:.2f}",
        f"{accuracy:.1f} ± {table[:, 3].std():.1f}",
        f"{cosine:.3f}",
    ]


def dead(network: nn.Module, x: Tensor) -> float:
    """Percentage of the ReLUs that are 0 for every sample."""
    active: list[Tensor] = []
    hooks = [
        module.register_forward_hook(lambda _, __, output: active.append((output > 0).any(0)))
        for module in network.modules()
        if isinstance(module, nn.ReLU)
    ]
    with torch.no_grad():
        network(x)
    for hook in hooks:
        hook.remove()
    return 100 * (1 - float(torch.cat(active).float().mean()))


def main() -> None:
    """Print two tables for each noise level."""
    torch.set_num_threads(1)
    for sigma in (0.3, 0.5):
        print(f"\nsigma = {sigma}, weights:\n")
        print("| objective | ĉ = 0 | negative weights | masks without signal | samples of 240 that count |")
        print("|---|---|---|---|---|")
        for name, make in STEPS.items():
            zero, negative, nothing, count = of_weights(make, sigma)
            print(f"| {name} | {zero:.0f} % | {negative:.0f} % | {nothing:.0f} % | {count:.0f} |")
        print(f"\nsigma = {sigma}, after {EPOCHS} epochs:\n")
        print(
            "| objective | largest / median gradient | dead units | spread | accuracy, % | cosine to clean |"
        )
        print("|---|---|---|---|---|---|")
        for name, make in STEPS.items():
            print(f"| {name} | {' | '.join(of_training(make, sigma))} |", flush=True)


if __name__ == "__main__":
    main()

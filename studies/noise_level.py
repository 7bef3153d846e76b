"""How good are the noise-level estimators? Prints the tables of docs/noise-level.md."""

import torch
from sklearn.datasets import load_digits, load_sample_image

from dcs import noise


def waves(n: int = 20, side: int = 64) -> torch.Tensor:
    """Smooth images: slow waves of random frequency and phase, in 0…1."""
    y, x = torch.meshgrid(torch.linspace(0, 1, side), torch.linspace(0, 1, side), indexing="ij")
    a = 6 * torch.rand(n, 4, 1, 1, generator=torch.Generator().manual_seed(5))
    return 0.5 + 0.25 * torch.sin(a[:, 0] * x + a[:, 1]) + 0.25 * torch.cos(a[:, 2] * y + a[:, 3])


def photographs(side: int = 64) -> torch.Tensor:
    """Windows of two photographs, grey, in 0…1."""
    grey = [torch.tensor(load_sample_image(f"{name}.jpg").mean(2) / 255) for name in ("china", "flower")]
    windows = [one.unfold(0, side, side).unfold(1, side, side).flatten(0, 1) for one in grey]
    return torch.cat(windows).float()


def main() -> None:
    """Print estimates beside the true sigma."""
    digits = torch.tensor(load_digits().images / 16, dtype=torch.float32)
    print("| data | true sigma | chen2015 | chen2015, 5 x 5, stride 1 | mad | flat |")
    print("|---|---|---|---|---|---|")
    data = {"smooth waves, 64 x 64": waves(), "digits, 8 x 8": digits, "photographs": photographs()}
    for name, clean in data.items():
        for sigma in (0.0, 0.01, 0.1, 0.3, 0.5):
            x = noise.add(clean, "gaussian", sigma, seed=0)
            estimates = (
                noise.estimate_sigma(x),
                noise.estimate_sigma(x, patch=5, stride=1),
                noise.estimate_sigma(x, "mad"),
            )
            flat = "–" if clean is digits else f"{noise.estimate_sigma(x, 'flat'):.3f}"
            print(f"| {name} | {sigma:g} | " + " | ".join(f"{e:.3f}" for e in estimates) + f" | {flat} |")


def by_brightness() -> None:
    """Print estimates for dark, medium and bright parts of photographs."""
    print("\n| noise of photographs | dark | medium | bright | largest / smallest |")
    print("|---|---|---|---|---|")
    clean, generator = photographs(), torch.Generator().manual_seed(0)
    noisy = {f"white, σ = {s:g}": noise.add(clean, "gaussian", s, seed=0) for s in (0.01, 0.1, 0.3)}
    for count in (10, 100, 1000):
        noisy[f"photon counts, {count} at white"] = torch.poisson(clean * count, generator) / count
    for name, x in noisy.items():
        found = noise.sigma_by_brightness(x)
        cells = " | ".join(f"{sigma:.3f}" for sigma in found.tolist())
        print(f"| {name} | {cells} | {float(found.max() / found.min()):.1f} |")


if __name__ == "__main__":
    main()
    by_brightness()

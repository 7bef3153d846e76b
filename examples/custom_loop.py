"""Custom training loop: any torch module, any optimiser, and an objective of dcs.

python examples/custom_loop.py [--steps 400] [--objective dcs]
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn

import dcs
from dcs import functional as F


def main() -> None:
    """Train a small autoencoder on noisy digits, and compare its predictions with the clean digits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--objective", default="dcs", choices=["mse", "cosine", "dae", "sure", "n2v", "dcs"])
    wanted = parser.parse_args()

    torch.manual_seed(0)
    clean = torch.tensor(load_digits().images / 16).float()
    noisy = dcs.noise.add(clean, "gaussian", 0.3, seed=0)
    train, test, test_clean = noisy[:1500], noisy[1500:], clean[1500:]

    encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    decoder = nn.Sequential(nn.Linear(10, 256), nn.ReLU(), nn.Linear(256, 64), nn.Unflatten(1, (8, 8)))
    model = nn.Sequential(encoder, decoder)
    objective = dcs.objectives.get(wanted.objective)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(0)  # the only source of randomness of masks

    for step in range(wanted.steps):
        batch = train[torch.randint(len(train), (256,), generator=generator)]
        loss = objective(model, batch, generator)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % max(1, wanted.steps // 4) == 0:
            print(f"step {step}: loss {loss.item():.3f}")

    with torch.no_grad():
        before = -F.cosine_loss(test_clean, test)
        after = -F.cosine_loss(test_clean, model(test))
    print(f"cosine to the clean digits, {len(test)} test samples: noisy {before:.3f}, predicted {after:.3f}")


if __name__ == "__main__":
    main()

"""Features and a denoised copy of an array; the encoder is saved and loaded.

The array is synthetic: noisy signals (n, t) of sine and square waves.

    python examples/own_arrays.py [--epochs 60] [--samples 600]
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

import dcs


def make_signals(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Make noisy waves and their clean originals, (n, 64) each."""
    random = np.random.default_rng(seed)
    time = np.linspace(0, 1, 64)
    phase = 2 * np.pi * (random.integers(1, 5, (n, 1)) * time + random.random((n, 1)))
    wave = np.where(random.random((n, 1)) < 0.5, np.sin(phase), np.sign(np.sin(phase)))
    clean = random.uniform(0.5, 2, (n, 1)) * wave
    return clean + 0.7 * random.normal(size=clean.shape), clean


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Compute the mean cosine between the rows of two arrays."""
    return float(np.mean((a * b).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))))


def main() -> None:
    """Fit, transform, denoise, save, load."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--samples", type=int, default=600)
    wanted = parser.parse_args()

    noisy, _ = make_signals(wanted.samples)
    encoder = dcs.DenoisingEncoder(
        n_components=8, max_epochs=wanted.epochs, network_options={"hidden": (256, 256)}, random_state=0
    )
    features = encoder.fit_transform(noisy)
    print(f"{len(noisy)} signals of {noisy.shape[1]} values -> {features.shape[1]} features each")
    print(f"loss {encoder.history_[0]['loss']:.3f} -> {encoder.history_[-1]['loss']:.3f}")

    fresh, fresh_clean = make_signals(200, seed=1)
    denoised = encoder.denoise(fresh)
    print(f"cosine to clean, new signals: noisy {cosine(fresh, fresh_clean):.3f}, ", end="")
    print(f"denoised {cosine(denoised, fresh_clean):.3f}")

    with tempfile.TemporaryDirectory() as folder:
        encoder.save(Path(folder) / "encoder")
        again = dcs.load(Path(folder) / "encoder")
        same = np.array_equal(again.transform(fresh), encoder.transform(fresh))
        print(f"saved, loaded, same features: {same}")


if __name__ == "__main__":
    main()

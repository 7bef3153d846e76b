"""Learn from a folder of noisy images, find similar ones, and write denoised copies.

Without --folder, noisy PNG files of digits are written to a temporary folder. Images may be of any size.

    python examples/own_images.py [--folder PHOTOS] [--epochs 20] [--out DENOISED]
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

import dcs


def make_pictures(folder: Path, count: int) -> None:
    """Write noisy digits as PNG files, with the digit in the name."""
    digits = load_digits()
    clean = torch.tensor(digits.images[:count] / 16, dtype=torch.float32)
    noisy = dcs.noise.add(clean, "gaussian", 0.25, seed=0).clamp(0, 1)
    for number, (picture, label) in enumerate(zip(noisy, digits.target[:count], strict=True)):
        pixels = (255 * picture).round().to(torch.uint8).numpy()
        Image.fromarray(pixels).save(folder / f"{number:04d}-shows-{label}.png")


def learn(folder: Path, out: Path | None, epochs: int) -> None:
    """Fit an encoder to the images of a folder, and use it."""
    pictures = dcs.data.load(folder).train
    encoder = dcs.DenoisingEncoder(max_epochs=epochs, random_state=0)
    features = encoder.fit(pictures).transform(pictures)
    print(f"{len(pictures)} images of shape {encoder.shape_} -> {features.shape[1]} features each")

    nearest = NearestNeighbors(n_neighbors=min(4, len(features)), metric="cosine").fit(features)
    _, rows = nearest.kneighbors(features[:3])
    for first, *others in rows:
        similar = ", ".join(Path(pictures.names[row]).name for row in others)
        print(f"most similar to {Path(pictures.names[first]).name}: {similar}")

    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for name, picture in zip(pictures.names, encoder.denoise(pictures), strict=True):
            pixels = np.moveaxis(picture, 0, -1) if picture.ndim == 3 else picture
            shown = (255 * pixels.clip(0, 1)).round().astype(np.uint8)
            Image.fromarray(shown).save(out / f"{Path(name).stem}.png")
        print(f"denoised copies are in {out}")


def main() -> None:
    """Parse the options, and make images if none are given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", type=Path, help="folder of images")
    parser.add_argument("--out", type=Path, help="folder of denoised copies")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--pictures", type=int, default=400, help="number of images to make without --folder")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        if wanted.folder is None:
            make_pictures(Path(made), wanted.pictures)
        learn(wanted.folder or Path(made), wanted.out, wanted.epochs)


if __name__ == "__main__":
    main()

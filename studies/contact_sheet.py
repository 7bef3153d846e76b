"""A contact sheet of random views: each row is an image, some views of it, and one of them masked.

python studies/contact_sheet.py FOLDER --out views.png [--blur 0.5]
"""

import argparse
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import interpolate, pad

from dcs import data
from dcs.augmentation import Views
from dcs.masking import BlindSpot


def sheet(x: Tensor, views: Views, columns: int, seed: int) -> Tensor:
    """Images (n, 3, h, w) to one picture (3, H, W) in [0, 1]."""
    generator = torch.Generator().manual_seed(seed)
    shown = [x, *(views.denormalise(views(x, generator)) for _ in range(columns))]
    shown.append(BlindSpot(rho=0.1)(shown[1], generator)[0])
    tiles = interpolate(torch.stack(shown, 1).flatten(0, 1), scale_factor=2)
    tiles = pad(tiles, (1, 1, 1, 1), value=1.0).unflatten(0, (len(x), -1))
    return torch.cat([torch.cat([*row], dim=2) for row in tiles], dim=1).clamp(0, 1)


def main() -> None:
    """Write the sheet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, help="of images of one size")
    parser.add_argument("--out", type=Path, default=Path("views.png"))
    parser.add_argument("--images", type=int, default=12)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--blur", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    wanted = parser.parse_args()
    samples = data.load(wanted.folder).train.x
    step = max(1, samples.shape[0] // wanted.images)
    rows = list(range(0, samples.shape[0], step))[: wanted.images]
    x = samples[rows] if isinstance(samples, Tensor) else samples.read(rows)
    picture = sheet(x, Views(blur=wanted.blur), wanted.columns, wanted.seed)
    Image.fromarray(picture.mul(255).round().byte().permute(1, 2, 0).numpy()).save(wanted.out)
    print(f"{wanted.out}: {len(x)} images, {wanted.columns} views of each, and the first one masked")


if __name__ == "__main__":
    main()

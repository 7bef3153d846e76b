"""Decoders from the features of a backbone, (n, features), to images."""

import math
from collections.abc import Sequence

from torch import nn

from dcs._checks import check_choice, check_integer

DECODERS = ("linear", "pixel_shuffle")


def make_decoder(name: str, features: int, shape: Sequence[int], *, width: int = 64) -> nn.Sequential:
    """Make a decoder of Expt2.

    Args:
        name: Kind of decoder: `linear`, one layer, as for CIFAR; or `pixel_shuffle`, the five layers for
            Tiny-ImageNet (Appendix D), for images whose sides are multiples of 16.
        features: Number of features of the backbone.
        shape: Shape of one image, (h, w) or (c, h, w).
        width: Width of the pixel-shuffle decoder; 64 in the paper.

    Example:
        >>> import torch
        >>> make_decoder("pixel_shuffle", 2048, (3, 64, 64), width=4)(torch.zeros(5, 2048)).shape
        torch.Size([5, 3, 64, 64])
    """
    check_choice("name", name, DECODERS)
    check_integer("features", features, at_least=1)
    check_integer("width", width, at_least=1)
    if name == "linear":
        return nn.Sequential(nn.Linear(features, math.prod(shape)), nn.Unflatten(1, tuple(shape)))
    if len(shape) not in (2, 3) or shape[-1] % 16 or shape[-2] % 16:
        raise ValueError(
            f"shape must be (h, w) or (c, h, w) with sides that are multiples of 16 for the pixel_shuffle "
            f"decoder, got {tuple(shape)}: use the linear one"
        )
    if width % 4:
        raise ValueError(f"width must be a multiple of 4 for the pixel_shuffle decoder, got {width}")
    channels = shape[0] if len(shape) == 3 else 1
    grid = (2 * width, shape[-2] // 16, shape[-1] // 16)
    layers: list[nn.Module] = [nn.Linear(features, math.prod(grid)), nn.ReLU(), nn.Unflatten(1, grid)]
    before = 2 * width
    for after, scaling in ((16 * width, 2), (8 * width, 2), (4 * width, 4)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
        layers += [nn.PixelShuffle(scaling)]
        before = after // scaling**2
    layers += [nn.Conv2d(before, channels, 3, padding=1)]
    if len(shape) == 2:
        layers += [nn.Flatten(1, 2)]
    return nn.Sequential(*layers)

"""Random augmentation of images for self-supervised objectives, batched and on the device of x."""

import math
import warnings
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Generator, Tensor
from torch.nn import functional

from dcs._checks import check_batch, check_finite, check_generator, check_number
from dcs._optional import require

# Mean and deviation of the colours of a data set's training images.
IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CIFAR10 = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
CIFAR100 = (0.5071, 0.4866, 0.4409), (0.2673, 0.2564, 0.2762)
_TRIES = 10  # attempts to find a crop that fits into the image, as in torchvision
_LARGEST = 10.0  # noise may leave [0, 1], but pixels up to 255 are a mistake
_OUTSIDE = 0.1  # share of all values that may be clipped without a warning
_TUPLES: dict[str, tuple[tuple[int, ...], dict[str, float]]] = {  # allowed lengths, and range of the values
    "scale": ((2,), {"above": 0, "at_most": 1}),
    "ratio": ((2,), {"above": 0}),
    "jitter": ((4,), {}),
    "mean": ((1, 3), {}),
    "std": ((1, 3), {"above": 0}),
}


class Augment(Protocol):
    """Any callable that makes random views of images.

    If it also has methods `normalise` and `denormalise`, as `Views` has, they convert images to network
    inputs and back.
    """

    def __call__(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Make one view of each image."""
        ...


@dataclass(frozen=True)
class Views:
    """SimSiam's random views: crop and resize, flip, colour jitter, grey, optional blur; then normalise.

    Chen & He, CVPR 2021. Random numbers are drawn per image, except for the order in which brightness,
    contrast, saturation and hue are changed, which is drawn per batch. Crops are not rounded to whole pixels.
    Saturation and hue of grey images, (n, h, w) or (n, 1, h, w), are left alone. Colour jitter clips values
    to [0, 1], with a warning if many lie outside. Colour jitter and blur need kornia: pip install
    'dcs-learn[ssl]'.

    Args:
        scale: Smallest and largest share of the image's area in a crop, in (0, 1].
        ratio: Smallest and largest ratio of width to height of a crop; log-uniform between them.
        flip: Probability of a horizontal flip.
        jitter: Largest change of brightness, contrast and saturation, as factors 1 ± value, and of hue, in
            turns.
        jitter_share: Probability of colour jitter.
        grey: Probability of conversion to grey.
        blur: Probability of a Gaussian blur of 0.1 to 2 pixels, cut off at a tenth of the image; 0 for CIFAR,
            0.5 for larger images.
        mean: Mean of each colour, subtracted from views: by default that of ImageNet, as in SimSiam's code;
            `CIFAR10` and `CIFAR100` hold others. Grey images use the average over the colours.
        std: Standard deviation of each colour, by which views are divided; mean (0,) with std (1,) leaves
            values unchanged.

    Example:
        >>> x = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
        >>> Views()(x, torch.Generator().manual_seed(0)).shape
        torch.Size([4, 3, 32, 32])
    """

    scale: tuple[float, float] = (0.2, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.5
    jitter: tuple[float, float, float, float] = (0.4, 0.4, 0.4, 0.1)
    jitter_share: float = 0.8
    grey: float = 0.2
    blur: float = 0.0
    mean: tuple[float, ...] = IMAGENET[0]
    std: tuple[float, ...] = IMAGENET[1]

    def __post_init__(self) -> None:
        for name, (lengths, limits) in _TUPLES.items():
            values = getattr(self, name)
            if not isinstance(values, tuple | list) or len(values) not in lengths:
                count = " or ".join(map(str, lengths))
                raise TypeError(f"{name} must be a tuple of {count} numbers, got {values!r}")
            for value in values:
                check_number(name, value, **limits)
            object.__setattr__(self, name, tuple(values))  # JSON has no tuples
        for value, most in zip(self.jitter, (1, 1, 1, 0.5), strict=True):
            check_number("jitter", value, at_least=0, at_most=most)
        for name in ("flip", "jitter_share", "grey", "blur"):
            check_number(name, getattr(self, name), at_least=0, at_most=1)
        for name in ("scale", "ratio"):
            low, high = getattr(self, name)
            if low > high:
                raise ValueError(f"{name} must be (smallest, largest), got {(low, high)}: swap them")
        if len(self.mean) != len(self.std):
            raise ValueError(
                f"std must have as many numbers as mean, {len(self.mean)}, got {len(self.std)}: give one each"
            )

    def __call__(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Make one view of each image.

        Args:
            x: Images (n, c, h, w) in [0, 1], of one or three channels; or grey ones, (n, h, w).
            generator: Random generator.

        Returns:
            A new tensor like x, normalised.
        """
        self._check(x)
        check_generator(generator, x.device)
        if x.ndim == 3:
            return self(x[:, None], generator)[:, 0]
        # Mixed precision would be too coarse for the positions of crops.
        with torch.autocast(x.device.type, enabled=False):
            view = self.recolour(self.crop(x, generator), generator)
            if self.blur:
                view = self._blurred(view, generator)
            return self.normalise(view)

    def normalise(self, x: Tensor) -> Tensor:
        """Subtract the mean and divide by the standard deviation: what the network sees of an image."""
        mean, std = self._statistics(x)
        return (x - mean) / std

    def denormalise(self, x: Tensor) -> Tensor:
        """Invert `normalise`."""
        mean, std = self._statistics(x)
        return x * std + mean

    def crop(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Crop a random box of each image, flip it at random, and resize it to the size of the image."""
        n, _, height, width = x.shape
        low, high = self.scale
        area = low + (high - low) * _uniform((_TRIES, n), x, generator)
        low, high = (math.log(value) for value in self.ratio)
        ratio = torch.exp(low + (high - low) * _uniform((_TRIES, n), x, generator))
        # Sides of the box relative to the image: the first that fits, else the whole image.
        sides = torch.stack([(area * ratio * height / width).sqrt(), (area / ratio * width / height).sqrt()])
        fits = (sides <= 1).all(0)
        first = fits.to(torch.uint8).argmax(0)
        sides = sides.gather(1, first.expand(2, 1, n)).squeeze(1).where(fits.any(0), 1.0)
        place = (2 * _uniform((2, n), x, generator) - 1) * (1 - sides)
        flipped = 1 - 2 * _chosen(self.flip, x, generator)
        zero = torch.zeros_like(flipped)
        rows = [sides[0] * flipped, zero, place[0], zero, sides[1], place[1]]
        theta = torch.stack(rows, dim=1).reshape(n, 2, 3)
        grid = functional.affine_grid(theta, list(x.shape), align_corners=False)
        return functional.grid_sample(x, grid, padding_mode="border", align_corners=False)

    def recolour(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Change brightness, contrast, saturation and hue in random order; then convert to grey at random."""
        n, channels = x.shape[:2]
        chosen = _chosen(self.jitter_share, x, generator)
        change = (2 * _uniform((4, n), x, generator) - 1) * chosen * x.new_tensor(self.jitter)[:, None]
        factors = [
            ("adjust_brightness_accumulative", 1 + change[0]),
            ("adjust_contrast_with_mean_subtraction", 1 + change[1]),
            ("adjust_saturation_with_gray_subtraction", 1 + change[2]),
            ("adjust_hue", 2 * math.pi * change[3]),
        ]
        order = torch.randperm(4, generator=generator, device=x.device).tolist()
        if self.jitter_share and any(self.jitter):
            enhance = require("kornia.enhance", "ssl", "changing the colours of images")
            for index in order:
                name, factor = factors[index]
                if self.jitter[index] and (channels == 3 or index < 2):
                    x = getattr(enhance, name)(x, factor)
        grey = _chosen(self.grey, x, generator).reshape(n, 1, 1, 1)
        if channels == 1:
            return x
        weights = x.new_tensor([0.299, 0.587, 0.114]).reshape(1, 3, 1, 1)
        return x.lerp((x * weights).sum(1, keepdim=True).expand_as(x), grey)

    def _blurred(self, x: Tensor, generator: Generator | None) -> Tensor:
        filters = require("kornia.filters", "ssl", "blurring images")
        sigma = (0.1 + 1.9 * _uniform((len(x), 1), x, generator)).expand(-1, 2)
        size = max(3, min(x.shape[-2:]) // 10 | 1)  # a tenth of the image, odd
        blurred = filters.gaussian_blur2d(x, (size, size), sigma)
        return x.lerp(blurred, _chosen(self.blur, x, generator).reshape(-1, 1, 1, 1))

    def _statistics(self, x: Tensor) -> tuple[Tensor, Tensor]:
        _check_images(x)
        mean, std = (x.new_tensor(values) for values in (self.mean, self.std))
        if x.ndim == 3 or x.shape[1] == 1:
            return mean.mean(), std.mean()
        return mean.reshape(1, -1, 1, 1), std.reshape(1, -1, 1, 1)

    def _check(self, x: Tensor) -> None:
        check_batch("x", x)
        _check_images(x)
        low, high = torch.aminmax(x)
        largest = torch.maximum(low.abs(), high.abs())
        check_finite(largest, x=x)
        if float(largest) > _LARGEST:
            raise ValueError(f"x must hold values in [0, 1], got {float(largest):g}: divide pixels by 255")
        clips = self.jitter_share and any(self.jitter)
        if not clips or (float(low) >= 0 and float(high) <= 1):
            return
        outside = float(((x < 0) | (x > 1)).float().mean())
        if outside > _OUTSIDE:
            # No numbers of the batch in the message, so that it is shown once.
            warnings.warn(
                f"more than {_OUTSIDE:.0%} of the values of images lie outside [0, 1], to which views are "
                f"clipped: rescale them first, e.g. by (x - x.min()) / (x.max() - x.min()), or use "
                f"jitter_share=0, which clips nothing",
                ViewsWarning,
                stacklevel=2,
            )


class ViewsWarning(UserWarning):
    """Views clip many values of the images."""


def _check_images(x: Tensor) -> None:
    if x.ndim == 3 or (x.ndim == 4 and x.shape[1] in (1, 3)):
        return
    remedy = "reshape x, or give your own augmentation"
    if x.ndim == 4 and x.shape[-1] in (1, 3):
        remedy = "put channels first, x.permute(0, 3, 1, 2)"
    raise ValueError(
        f"x must be images (n, h, w), or (n, c, h, w) of one or three channels, got shape {tuple(x.shape)}: "
        f"{remedy}"
    )


def _uniform(shape: tuple[int, ...], x: Tensor, generator: Generator | None) -> Tensor:
    return torch.rand(shape, dtype=x.dtype, device=x.device, generator=generator)


def _chosen(share: float, x: Tensor, generator: Generator | None) -> Tensor:
    """Draw 1 with a probability, and 0 otherwise, for each image."""
    return (_uniform((len(x),), x, generator) < share).to(x.dtype)


__all__ = ["CIFAR10", "CIFAR100", "IMAGENET", "Augment", "Views", "ViewsWarning"]

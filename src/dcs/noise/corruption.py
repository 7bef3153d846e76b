"""Generation of noisy data: Gaussian noise as in Expt0, and other kinds that violate assumptions."""

from typing import TypeVar

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn import functional

from dcs._checks import check_bool, check_choice, check_finite, check_integer, check_number, read_batch
from dcs.noise.isotropic import IsotropicNoise

Array = TypeVar("Array", Tensor, "np.ndarray[tuple[int, ...], np.dtype[np.floating]]")
KINDS = ("gaussian", "poisson", "salt_and_pepper", "speckle", "correlated")


def add(
    x: Array,
    kind: str | IsotropicNoise,
    sigma: float,
    seed: int = 0,
    *,
    length: float = 2.0,
    clip: bool = False,
) -> Array:
    """Return a noisy copy of clean data; the same seed gives the same noise on every device.

    Kinds, with the meaning of σ and the assumption that is violated:

    - `gaussian`: x + N(0, σ²), as in Expt0; satisfies (A2).
    - an `IsotropicNoise`: x + σ·ε with ε drawn for each sample; satisfies (A2).
    - `poisson`: photon counts of variance σ²·x, so that σ is the deviation at x = 1; needs x >= 0. The
      variance depends on the signal.
    - `salt_and_pepper`: a share σ of all entries is set to 0 or 1, either equally likely. The mean is not 0.
    - `speckle`: x·(1 + N(0, σ²)). The variance depends on the signal.
    - `correlated`: Gaussian of deviation σ, smoothed over `length` entries along the last axis, and along
      the one before it for data of three or more axes. Neighbours' noises are not independent.

    Args:
        x: Clean data (n, ...), a floating-point NumPy array or tensor.
        kind: Kind of noise, as listed above.
        sigma: Strength of the noise.
        seed: Random seed of the noise.
        length: Standard deviation of the smoothing kernel for `correlated`, in entries.
        clip: Whether to clip noisy values to [0, 1], as files of images do; the noise then no longer has mean
            0 near both ends.

    Returns:
        A new array of the type, shape and precision of `x`.

    Example:
        >>> add(torch.zeros(1, 3), "gaussian", 0.5, seed=0)
        tensor([[ 0.7705, -0.1467, -1.0894]])
    """
    clean = read_batch("x", x)
    check_number("sigma", sigma, at_least=0, at_most=1e30)
    check_integer("seed", seed, at_least=0)
    check_number("length", length, at_least=0.01, at_most=1e6)
    check_bool("clip", clip)
    check_finite(clean.sum(dtype=torch.float64), x=clean)
    noisy = _add(clean, kind, sigma, torch.Generator().manual_seed(int(seed)), length)
    if not bool(noisy.isfinite().all()):
        raise ValueError(f"sigma is {sigma:g}, too much for {clean.dtype}: some noisy entries overflow")
    noisy = noisy.clamp(0, 1) if clip else noisy
    return noisy.numpy() if isinstance(x, np.ndarray) else noisy


def _add(x: Tensor, kind: str | IsotropicNoise, sigma: float, generator: Generator, length: float) -> Tensor:
    precise = torch.promote_types(x.dtype, torch.float32)
    if isinstance(kind, IsotropicNoise):
        return x + (sigma * kind.sample(x.shape, generator, dtype=precise)).to(x)
    check_choice("kind", kind, KINDS)
    if kind == "poisson":
        return _poisson(x, sigma, generator)
    if kind == "salt_and_pepper":
        check_number("sigma", sigma, at_least=0, at_most=1)
        uniform = torch.rand(x.shape, generator=generator).to(x.device)
        return x.masked_fill(uniform < sigma, 1).masked_fill(uniform < sigma / 2, 0)
    noise = sigma * torch.randn(x.shape, dtype=precise, generator=generator)
    if kind == "correlated":
        noise = _smooth(noise, length)
    return x * (1 + noise.to(x)) if kind == "speckle" else x + noise.to(x)


def _poisson(x: Tensor, sigma: float, generator: Generator) -> Tensor:
    if bool((x < 0).any()):
        raise ValueError("x must not be negative for kind='poisson': it is a rate of counts")
    mean = x.detach().cpu().double()
    if float(mean.max()) >= 1e12 * float(sigma) ** 2:  # such counts are Gaussian, and too large to draw
        noise = torch.randn(x.shape, dtype=torch.float64, generator=generator)
        return (mean + sigma * mean.sqrt() * noise).to(x)
    return (torch.poisson(mean / sigma**2, generator=generator) * sigma**2).to(x)


def _smooth(noise: Tensor, length: float) -> Tensor:
    """Smooth white noise with a Gaussian kernel, keeping its variance; borders wrap around."""
    if noise.ndim == 1:
        raise ValueError("x must have an axis after the batch for kind='correlated', got shape (n,)")
    for axis in range(max(1, noise.ndim - 2), noise.ndim):
        reach = min(int(4 * length) + 1, (noise.shape[axis] - 1) // 2)
        kernel = torch.exp(-0.5 * (torch.arange(-reach, reach + 1, dtype=noise.dtype) / length).square())
        kernel = kernel / torch.linalg.vector_norm(kernel)
        moved = noise.movedim(axis, -1)
        rows = functional.pad(moved.reshape(-1, 1, moved.shape[-1]), (reach, reach), mode="circular")
        noise = functional.conv1d(rows, kernel[None, None]).reshape(moved.shape).movedim(-1, axis)
    return noise

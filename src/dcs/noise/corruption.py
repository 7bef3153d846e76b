"""Makers of noisy data: Gaussian noise as in Expt0, and others for studying violated assumptions."""

from typing import TypeVar

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn import functional

from dcs._checks import check_batch, check_choice, check_finite, check_integer, check_number
from dcs.noise.isotropic import IsotropicNoise

Array = TypeVar("Array", Tensor, "np.ndarray[tuple[int, ...], np.dtype[np.floating]]")
KINDS = ("gaussian", "poisson", "salt_and_pepper", "speckle", "correlated")


def add(x: Array, kind: str | IsotropicNoise, sigma: float, seed: int = 0, *, length: float = 2.0) -> Array:
    """Return a noisy copy of clean data; the same seed gives the same noise on every device.

    The noise is drawn once and not clipped. What `sigma` means, and which assumption breaks:

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
        kind: One of the above.
        sigma: Strength of the noise.
        seed: Where the noise starts.
        length: Standard deviation of the smoothing kernel for `correlated`, in entries.

    Returns:
        A new array of the type, shape and precision of `x`.

    Example:
        >>> add(torch.zeros(1, 3), "gaussian", 0.5, seed=0)
        tensor([[ 0.7705, -0.1467, -1.0894]])
    """
    if isinstance(x, np.ndarray):
        if not np.issubdtype(x.dtype, np.floating):
            raise TypeError(
                f"x must be a floating-point array, got {x.dtype}: convert it with x.astype(float)"
            )
        return add(torch.from_numpy(np.ascontiguousarray(x)), kind, sigma, seed, length=length).numpy()
    check_batch("x", x)
    check_number("sigma", sigma, at_least=0)
    check_integer("seed", seed, at_least=0)
    check_number("length", length, above=0)
    check_finite(x.sum(dtype=torch.float64), x=x)
    generator = torch.Generator().manual_seed(seed)
    if isinstance(kind, IsotropicNoise):
        noise = kind.sample(x.shape, generator, dtype=torch.promote_types(x.dtype, torch.float32))
        return x + (sigma * noise).to(x)
    check_choice("kind", kind, KINDS)
    if kind == "poisson":
        return _poisson(x, sigma, generator)
    if kind == "salt_and_pepper":
        return _salt_and_pepper(x, sigma, generator)
    noise = sigma * torch.randn(
        x.shape, dtype=torch.promote_types(x.dtype, torch.float32), generator=generator
    )
    if kind == "correlated":
        noise = _smooth(noise, length)
    noise = noise.to(x)
    return x * (1 + noise) if kind == "speckle" else x + noise


def _poisson(x: Tensor, sigma: float, generator: Generator) -> Tensor:
    if bool((x < 0).any()):
        raise ValueError("x must not be negative for kind='poisson': it is a rate of counts")
    if sigma == 0:
        return x.clone()
    rate = x.detach().cpu().double() / sigma**2
    return (torch.poisson(rate, generator=generator) * sigma**2).to(x)


def _salt_and_pepper(x: Tensor, share: float, generator: Generator) -> Tensor:
    check_number("sigma", share, at_least=0, at_most=1)
    uniform = torch.rand(x.shape, generator=generator).to(x.device)
    return x.masked_fill(uniform < share, 1).masked_fill(uniform < share / 2, 0)


def _smooth(noise: Tensor, length: float) -> Tensor:
    """Smooth white noise with a Gaussian kernel, keeping its variance; borders wrap around."""
    axes = [noise.ndim - 1] if noise.ndim == 2 else [noise.ndim - 2, noise.ndim - 1]
    for axis in axes:
        reach = min(int(4 * length) + 1, (noise.shape[axis] - 1) // 2)
        kernel = torch.exp(-0.5 * (torch.arange(-reach, reach + 1, dtype=noise.dtype) / length).square())
        kernel = kernel / torch.linalg.vector_norm(kernel)
        moved = noise.movedim(axis, -1)
        rows = functional.pad(moved.reshape(-1, 1, moved.shape[-1]), (reach, reach), mode="circular")
        noise = functional.conv1d(rows, kernel[None, None]).reshape(moved.shape).movedim(-1, axis)
    return noise

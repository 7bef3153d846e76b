"""The weight of the dCS loss: the SNR c, the expected cosine k, and 1/k (Section 3.3 of the paper)."""

import math
from collections.abc import Sequence
from functools import cache
from numbers import Real
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from dcs._checks import (
    check_batch,
    check_choice,
    check_finite,
    check_generator,
    check_integer,
    check_mask,
    check_number,
    check_same_shape,
    check_tensor,
)
from dcs.functional.rows import as_rows, compared_entries, dot, norm

# Beyond this SNR k is 1 to the last digit of float64 (1 - k < 1/(2c²)); cutting there avoids overflow.
_HUGE_SNR = 1e9
_MOST_DIM = 10**15


class RadialLaw(Protocol):
    """Isotropic noise of unit variance per entry, such as `dcs.noise.IsotropicNoise`."""

    def radius(self, dim: Tensor, generator: torch.Generator | None) -> Tensor:
        """Draw one length ‖ε‖ for each element of `dim`, with E‖ε‖² = dim."""
        ...

    def gaussian_scales(self) -> tuple[Sequence[float], Sequence[float]] | None:
        """Return scales and probabilities if the law is a finite mixture of Gaussians, else None."""
        ...


def snr(x: Tensor, x_tilde: Tensor, mask: Tensor | None = None, *, valid: Tensor | None = None) -> Tensor:
    """Estimate the SNR c = ‖s‖/(σ√D) of each sample from two noisy views of it (Section 3.3).

    ĉ = √(2[xᵀx̃]₊) / ‖x − x̃‖, on the masked entries. Assumes zero-mean noises of equal variance that
    are independent of each other (A3), and a clean signal that is the same in both views: where
    neighbours differ in signal, ĉ is biased low.

    Args:
        x: Noisy samples (n, ...).
        x_tilde: Second view, of the same shape.
        mask: True (or 1) where entries count; all entries if None.
        valid: False on padding, which never counts.

    Returns:
        ĉ for each sample, (n,): 0 where xᵀx̃ <= 0, inf where x equals x_tilde.

    Example:
        >>> x = torch.tensor([[3.0, 1.0], [2.0, 2.0]])
        >>> snr(x, torch.tensor([[1.0, 3.0], [2.0, 2.0]]))
        tensor([1.2247,    inf])
    """
    check_batch("x", x)
    check_batch("x_tilde", x_tilde)
    check_same_shape("x_tilde", x_tilde, "x", x)
    valid = None if valid is None else check_mask("valid", valid, x)
    b = compared_entries(mask, valid, x)
    u, u_tilde = as_rows(x, b, valid), as_rows(x_tilde, None, valid)
    estimate, distance = snr_of_rows(u, u_tilde, b)
    check_finite(distance.sum(), x=u, x_tilde=u_tilde)
    return estimate


def snr_of_rows(u: Tensor, u_tilde: Tensor, b: Tensor | None) -> tuple[Tensor, Tensor]:
    """ĉ and ‖u − b⊙ũ‖ of checked rows, of which u is 0 where b is."""
    difference = u - u_tilde if b is None else torch.addcmul(u, u_tilde, b, value=-1)
    distance = norm(difference)
    equal = distance == 0
    if bool(equal.any()) and bool(difference[equal].any()):
        raise ValueError("x is too small: the square of x - x_tilde underflows; rescale the data")
    estimate = (2 * dot(u, u_tilde).clamp(min=0)).sqrt() / distance
    return estimate.masked_fill(equal, math.inf), distance


def expected_cosine(
    snr: Tensor | float,
    dim: Tensor | int,
    *,
    method: str = "exact",
    noise: str | RadialLaw = "gaussian",
    full_dim: Tensor | int | None = None,
    samples: int = 100,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Compute k, the mean cosine between a noisy vector and the clean one (Eq. 3).

    k = E[cos∠(s + ε, s)] depends on the SNR c = ‖s‖/(σ√D) and the dimension D only: 0 at c = 0, 1 at
    c = ∞, increasing between. Assumes isotropic noise (A2).

    Args:
        snr: SNR c >= 0, of any shape; inf is allowed.
        dim: Dimension D >= 1, broadcast against `snr`; the number of masked entries, ‖b‖₁, in the dCS loss.
        method: Way to compute k. `exact` is a deterministic quadrature, accurate to rounding error, for
            Gaussian noise and mixtures of it. `monte_carlo` is the paper's estimator: Eq. 8 for Gaussian
            noise, Eq. 7 for any other isotropic law. `asymptotic` is c/√(c² + 1), the limit of large D
            (Theorem 3).
        noise: Law of the noise: `gaussian` or an isotropic law such as `dcs.noise.Sphere()`.
        full_dim: Dimension of the whole noise vector of which `dim` entries are seen; by default `dim`.
            Masked entries of non-Gaussian noise follow a marginal of the full law, which is
            another law; for Gaussian noise it makes no difference.
        samples: Number of Monte Carlo draws n_s for each element.
        generator: Random generator of the draws.

    Returns:
        k in the broadcast shape of `snr` and `dim`; float64 if `snr` is a Python number. A Monte
        Carlo estimate is unbiased and may therefore be negative at small c and few draws.

    Example:
        >>> expected_cosine(torch.tensor([0.0, 0.5, float("inf")]), 78)
        tensor([0.0000, 0.4467, 1.0000])
    """
    _check_method(method, noise, samples)
    if not isinstance(snr, Tensor) and isinstance(snr, Real):
        check_number("snr", snr if snr != math.inf else 0.0, at_least=0)
        snr = torch.tensor(float(snr), dtype=torch.float64)
    c, d, full = _check_snr_and_dims(snr, dim, full_dim, generator)
    k = _expected_cosine(c, d, method, noise, full, samples, generator)
    return k.where(c > 0, 0).where(c < math.inf, 1)


def denoising_weight(
    snr: Tensor,
    dim: Tensor,
    *,
    method: str = "exact",
    noise: str | RadialLaw = "gaussian",
    full_dim: Tensor | None = None,
    samples: int = 100,
    floor: float = 0.2,
    power: float = 1.0,
    eta: float | None = None,
    variant: str = "default",
    generator: torch.Generator | None = None,
) -> Tensor:
    """Turn the SNR of each sample into its weight in the dCS loss, 1/max(k, floor)^power.

    A sample whose k̂ is near zero would outweigh all others, and a Monte Carlo k̂ below zero would
    reverse its gradient: the floor rules out both.

    Args:
        snr: Estimated SNR ĉ per sample, (n,).
        dim: Number of masked entries ‖b‖₁ per sample, (n,); at least 1.
        method: Way to compute k; see `expected_cosine`.
        noise: Law of the noise; see `expected_cosine`.
        full_dim: Dimension of the whole noise vector; see `expected_cosine`.
        samples: Number of Monte Carlo draws per sample.
        floor: Lower bound of k, in (0, 1].
        power: Exponent p, from -4 to 4: 1 is Theorem 1's weight 1/k, 0 no weight, -1 the inverse-variance
            weight k.
        eta: Offset η of Remark 3's soft weight √(ĉ² + 1)/(ĉ + η), raised to `power`, which replaces a
            floored k; `method`, `noise`, `samples` and `floor` are then not used.
        variant: `default`, or `paper` for the literal Algorithm 1: the Gaussian Monte Carlo k̂ with neither
            floor nor power, of either sign (a sample whose k̂ is exactly zero gets weight 0).
        generator: Random generator of the Monte Carlo draws.

    Returns:
        One weight per sample, (n,).

    Example:
        >>> denoising_weight(torch.tensor([0.0, 1.0, float("inf")]), torch.tensor([78.0] * 3))
        tensor([5.0000, 1.4131, 1.0000])
    """
    _check_method(method, noise, samples)
    c, d, full = _check_snr_and_dims(snr, dim, full_dim, generator)
    return weight_of(c, d, full, method, noise, samples, floor, power, eta, variant, generator)


def weight_of(
    c: Tensor,
    dim: Tensor,
    full_dim: Tensor,
    method: str,
    noise: str | RadialLaw,
    samples: int,
    floor: float,
    power: float,
    eta: float | None,
    variant: str,
    generator: torch.Generator | None,
) -> Tensor:
    """Compute `denoising_weight` of checked tensors."""
    check_choice("variant", variant, ("default", "paper"))
    check_number("floor", floor, above=0, at_most=1)
    check_number("power", power, at_least=-4, at_most=4)
    if variant == "paper":
        k = _expected_cosine(c, dim, "monte_carlo", "gaussian", full_dim, samples, generator)
        return k.reciprocal().where(k != 0, 0)
    if eta is not None:
        check_number("eta", eta, above=0, at_most=1000)
        _check_largest_weight("eta", eta, power)
        c = c.clamp(max=_HUGE_SNR)
        k = (c + eta) / torch.hypot(c, torch.ones_like(c))
    else:
        _check_method(method, noise, samples)
        _check_largest_weight("floor", floor, power)
        k = _expected_cosine(c, dim, method, noise, full_dim, samples, generator).clamp(min=floor)
    return k if power == -1 else k.pow(-power)


def _check_largest_weight(name: str, smallest_k: float, power: float) -> None:
    if -power * math.log10(smallest_k) > 30:
        raise ValueError(
            f"{name} must be larger: {smallest_k:g} with power {power:g} makes weights beyond 1e30"
        )


def _check_method(method: str, noise: object, samples: int) -> None:
    check_choice("method", method, ("exact", "monte_carlo", "asymptotic"))
    check_integer("samples", samples, at_least=1)
    is_law = callable(getattr(noise, "radius", None)) and not isinstance(noise, type)
    if not is_law and not (isinstance(noise, str) and noise == "gaussian"):
        raise ValueError(f"noise must be 'gaussian' or a law such as dcs.noise.Sphere(), got {noise!r}")


def _check_snr_and_dims(
    snr: Tensor | float, dim: Tensor | int, full_dim: Tensor | int | None, generator: torch.Generator | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return c, D and the full D as tensors of one shape, in float32 or better."""
    check_tensor("snr", snr)
    assert isinstance(snr, Tensor)  # noqa: S101  (tells the type checker what was just checked)
    check_generator(generator, snr.device)
    c = snr.to(torch.promote_types(snr.dtype, torch.float32))
    dims = []
    for name, value in (("dim", dim), ("full_dim", dim if full_dim is None else full_dim)):
        if not isinstance(value, Tensor):
            check_number(name, value, at_least=1, at_most=_MOST_DIM)
        dims.append(torch.as_tensor(value, dtype=c.dtype, device=c.device))
    d, full = dims
    if not bool((c >= 0).all()):
        raise ValueError("snr must be >= 0 and not NaN: it is a ratio of norms")
    if not bool(((d >= 1) & (d <= _MOST_DIM)).all()):
        raise ValueError(f"dim must be from 1 to {_MOST_DIM:g}: k is not defined for an empty vector")
    try:
        shape = (c + d + full).shape
    except RuntimeError:
        shapes = ", ".join(str(tuple(t.shape)) for t in (c, d, full))
        raise ValueError(f"snr, dim and full_dim must broadcast, got shapes {shapes}") from None
    if not bool(((full >= d) & (full <= _MOST_DIM)).all()):
        raise ValueError("full_dim must be at least dim: the masked entries are some of all entries")
    return c.expand(shape), d.expand(shape), full.expand(shape)


def _expected_cosine(
    c: Tensor,
    dim: Tensor,
    method: str,
    noise: str | RadialLaw,
    full_dim: Tensor,
    samples: int,
    generator: torch.Generator | None,
) -> Tensor:
    c = c.clamp(max=_HUGE_SNR)
    if method == "asymptotic":
        return c / torch.hypot(c, torch.ones_like(c))
    if method == "monte_carlo":
        return _monte_carlo(c, dim, noise, full_dim, samples, generator)
    if isinstance(noise, str):
        return _gaussian_quadrature(c, dim)
    scales_of = getattr(noise, "gaussian_scales", lambda: None)
    mixture: tuple[Sequence[float], Sequence[float]] | None = scales_of()
    if mixture is None:
        raise ValueError(f"method='exact' is not available for noise={noise!r}: use method='monte_carlo'")
    # A marginal of a scale mixture is the same mixture, so full_dim has no effect.
    scales, probabilities = (torch.tensor(values, dtype=c.dtype, device=c.device) for values in mixture)
    return (_gaussian_quadrature(c[..., None] / scales, dim[..., None]) * probabilities).sum(-1)


@cache
def _legendre(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Gauss-Legendre nodes and weights on [0, 1]."""
    t, w = np.polynomial.legendre.leggauss(nodes)
    return (t + 1) / 2, w / 2


def _gaussian_quadrature(c: Tensor, dim: Tensor) -> Tensor:
    """Compute k = √(2/π)·μ·∫ exp(−μ² sin²θ / 2)·cos^D θ dθ over [0, π/2], μ = c√D.

    The integrand falls like exp(−(μ² + D)θ²/2): 32 nodes up to nine of its widths resolve it to the
    rounding error of float64 for every c and D, and 16 up to five to that of float32. cos^D θ is computed
    through log1p(−sin²θ): log(cos θ) loses all digits at the small angles that matter for large D.
    """
    nodes, widths = (32, 9) if c.dtype == torch.float64 else (16, 5)
    t, w = (torch.as_tensor(values, dtype=c.dtype, device=c.device) for values in _legendre(nodes))
    half_dim = dim / 2
    half_mu2 = c.square() * half_dim
    end = (widths / (half_mu2 + half_dim).sqrt()).clamp(max=math.pi / 2)
    sin2 = (end[..., None] * t).sin().square()
    exponent = half_dim[..., None] * torch.log1p(-sin2) - half_mu2[..., None] * sin2
    integral = end * (exponent.exp() * w).sum(-1)  # no matrix product: autocast would round it
    return (2 / math.sqrt(math.pi) * c * half_dim.sqrt() * integral).clamp(max=1)


def _monte_carlo(
    c: Tensor,
    dim: Tensor,
    noise: str | RadialLaw,
    full_dim: Tensor,
    samples: int,
    generator: torch.Generator | None,
) -> Tensor:
    """Average n_s cosines: Eq. 8 for Gaussian noise, Eq. 7 otherwise.

    A vector of Gaussian noise is κ along s and √ν across it, κ ~ N(0, 1) and ν ~ χ²(D − 1). Any other
    isotropic noise in `full_dim` dimensions is such a vector, of squared length κ² + ν + χ²(rest),
    rescaled to a length drawn from its radial law; only κ and ν are seen through the mask.
    """
    shape = (samples, *c.shape)
    along = torch.randn(shape, dtype=c.dtype, device=c.device, generator=generator)
    across2 = _chi_squared(dim - 1, shape, generator)
    if not isinstance(noise, str):
        length2 = along.square() + across2 + _chi_squared(full_dim - dim, shape, generator)
        rescale2 = noise.radius(full_dim.expand(shape), generator).square() / length2
        along, across2 = along * rescale2.sqrt(), across2 * rescale2
    along = along + c * dim.sqrt()
    length = (along.square() + across2).sqrt()
    return (along / length.clamp(min=torch.finfo(c.dtype).tiny)).mean(0).clamp(max=1)


def _chi_squared(degrees: Tensor, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
    # The only gamma sampler of torch that takes a generator; torch.distributions calls it as well.
    half = (degrees / 2).expand(shape).contiguous()
    draws = 2 * torch._standard_gamma(half.clamp(min=0.5), generator=generator)
    return draws.where(half > 0, 0)

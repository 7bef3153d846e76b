"""The losses: cosine (Eq. 1), dCS (Eq. 9 and 10), Noise2Void (Eq. 11) and SURE."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from dcs._checks import (
    check_batch,
    check_finite,
    check_generator,
    check_mask,
    check_number,
    check_same_shape,
    check_tensor,
)
from dcs.functional._cosine import cosine_of_rows
from dcs.functional.rows import as_rows, compared_entries, count_entries, dot, norm, reduce, spread_sigma
from dcs.functional.weight import RadialLaw, snr_of_rows, weight_of


def cosine_loss(
    target: Tensor,
    prediction: Tensor,
    mask: Tensor | None = None,
    *,
    valid: Tensor | None = None,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """Compute minus the cosine between target and prediction, −⟨u, v⟩/max(‖u‖‖v‖, eps) (Eq. 1).

    Assumes nothing about the noise; with a noisy target, the noise is learned, too. Invariant to the
    scale of both arguments. A sample with ‖u‖‖v‖ <= eps has no direction: it gets the finite value
    of the formula and no gradient.

    Args:
        target: Target samples (n, ...).
        prediction: Predicted samples of the same shape; the gradient flows to them.
        mask: True (or 1) where entries count; all entries if None.
        valid: False on padding, which never counts.
        eps: Smallest product of norms that is divided by.
        reduction: `mean` or `sum` over the samples, or `none` for one value each.

    Returns:
        A scalar, or (n,) with `reduction="none"`.

    Example:
        >>> cosine_loss(torch.tensor([[3.0, 4.0]]), torch.tensor([[4.0, 3.0]]))
        tensor(-0.9600)
    """
    check_number("eps", eps, above=0, at_most=1)
    valid = _check_pair("target", target, "prediction", prediction, valid)
    b = compared_entries(mask, valid, target)
    u, v = as_rows(target, b, valid), as_rows(prediction, None, valid)
    cosine, norms = cosine_of_rows(u, v, b, eps)
    check_finite(norms.sum(), target=u, prediction=v)
    return reduce(-cosine, reduction)


def denoising_cosine_loss(
    prediction: Tensor,
    x: Tensor,
    x_tilde: Tensor,
    mask: Tensor | None,
    *,
    method: str = "exact",
    floor: float = 0.2,
    power: float = 1.0,
    reduction: str = "mean",
    noise: str | RadialLaw = "gaussian",
    samples: int = 100,
    eta: float | None = None,
    variant: str = "default",
    snr: Tensor | None = None,
    valid: Tensor | None = None,
    eps: float = 1e-20,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Compute the denoising Cosine-Similarity (dCS) loss, ℓ_CS(b⊙x, b⊙ŝ)/k̂ (Eq. 9, 10, Algorithm 1).

    Assumes zero-mean isotropic noise (A2) that is independent between x and x_tilde (A3). Then, by
    Theorem 1, the loss with the true k has the mean of the cosine loss to the clean data; k̂ is
    estimated from x and x_tilde and treated as a constant. A sample without a direction (an empty
    mask, constant data) gets a finite value and no gradient.

    Args:
        prediction: ŝ = h(x_tilde), (n, ...); the gradient flows to it alone.
        x: Noisy samples.
        x_tilde: Masked samples that the model saw, or a second observation of the same samples.
        mask: b, True (or 1) where x was replaced. None compares all entries, for a real second
            observation.
        method: Way to compute k from ĉ: `exact`, `monte_carlo` or `asymptotic`; see
            `expected_cosine`, as for `noise` and `samples`.
        floor: Lower bound of k; see `denoising_weight`, as for `power` and `eta`.
        power: Exponent of the weight 1/k^power.
        reduction: `mean` or `sum` over the samples, or `none` for one value each.
        noise: Law of the noise: `gaussian` or an isotropic law.
        samples: Number of Monte Carlo draws per sample.
        eta: Offset of Remark 3's soft weight, which replaces a floored k.
        variant: `default`, or `paper` for the literal Algorithm 1, which ignores `method`, `floor`, `power`,
            `noise` and `eta`.
        snr: SNR c per sample, (n,); by default estimated from x and x_tilde.
        valid: False on padding, which never counts.
        eps: Smallest product of norms that is divided by; far below that of ordinary data.
        generator: Random generator of the Monte Carlo draws.

    Returns:
        A scalar, or (n,) with `reduction="none"`.

    Example:
        >>> x = torch.tensor([[1.0, 2.0, 0.5, 1.5]])
        >>> x_tilde, b = torch.tensor([[1.0, 1.0, 0.5, 0.5]]), torch.tensor([[0, 1, 0, 1]])
        >>> denoising_cosine_loss(torch.ones(1, 4), x, x_tilde, b)
        tensor(-1.1125)
    """
    check_number("eps", eps, above=0, at_most=1)
    valid = _check_pair("x", x, "prediction", prediction, valid)
    _check_pair("x", x, "x_tilde", x_tilde)
    check_generator(generator, x.device)
    b = compared_entries(mask, valid, x)
    u, v = as_rows(x.detach(), b, valid), as_rows(prediction, None, valid)
    cosine, norms = cosine_of_rows(u, v, b, eps)
    with torch.no_grad():
        u_tilde = as_rows(x_tilde, None, valid)
        estimate, distance = snr_of_rows(u, u_tilde, b)
        check_finite((norms + distance).sum(), x=u, prediction=v, x_tilde=u_tilde)
        c = estimate if snr is None else _check_snr(snr, u)
        dim = count_entries(b, u).clamp(min=1)
        full_dim = count_entries(compared_entries(None, valid, x), u).clamp(min=1)
        weight = weight_of(c, dim, full_dim, method, noise, samples, floor, power, eta, variant, generator)
        directionless = distance == 0  # constant data, and few other cases
        if bool(directionless.any()):
            directionless &= _is_constant(x, valid)
    return reduce(-weight * cosine.detach().where(directionless, cosine), reduction)


def length_loss(
    prediction: Tensor,
    x: Tensor,
    mask: Tensor | None = None,
    *,
    valid: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Compute the squared error of the length of a prediction, relative to ‖x‖, whatever its direction.

    A cosine leaves the length ‖ŝ‖ open. The length at which ŝ is nearest to x is ⟨x, ŝ⟩/‖ŝ‖, whose mean is
    that for the clean data if noise and prediction are independent. Gradients change the length only.

    Args:
        prediction: ŝ = h(x_tilde), (n, ...).
        x: Noisy samples.
        mask: b, True (or 1) where samples are compared. None compares all entries.
        valid: False on padding, which never counts.
        reduction: `mean` or `sum` over the samples, or `none` for one value each.

    Returns:
        A scalar, or (n,) with `reduction="none"`; a sample of zeros adds 0.

    Example:
        >>> length_loss(torch.tensor([[2.0, 0.0]]), torch.tensor([[1.0, 0.0]]))
        tensor(1.)
    """
    valid = _check_pair("x", x, "prediction", prediction, valid)
    b = compared_entries(mask, valid, x)
    u, v = as_rows(x.detach(), b, valid), as_rows(prediction, b, valid)
    length, whole = norm(v), norm(u)
    nearest = (dot(u, v) / length.clamp(min=1e-20)).detach()
    check_finite((length + whole).sum(), x=u, prediction=v)
    error = (length - nearest) / whole.clamp(min=1e-20)
    return reduce(error.square().where((length > 0) & (whole > 0), 0), reduction)


def noise2void_loss(
    prediction: Tensor,
    x: Tensor,
    mask: Tensor | None,
    *,
    valid: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Compute the mean squared error on the masked entries, ‖b⊙(ŝ − x)‖²/‖b‖₁ (Eq. 11).

    Assumes zero-mean noise that is independent between x and x_tilde, given the clean data (A7): the
    minimiser is then that of the squared error to the clean data (Proposition 2).

    Args:
        prediction: ŝ = h(x_tilde), (n, ...).
        x: Noisy samples.
        mask: b, True (or 1) where x was replaced. None compares all entries: the plain mean squared
            error, and the Noise2Noise loss if the prediction was made from a second observation.
        valid: False on padding, which never counts.
        reduction: `mean` or `sum` over the samples, or `none` for one value each.

    Returns:
        A scalar, or (n,) with `reduction="none"`; a sample with an empty mask adds 0.

    Example:
        >>> noise2void_loss(torch.zeros(1, 3), torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[1, 0, 1]]))
        tensor(5.)
    """
    valid = _check_pair("x", x, "prediction", prediction, valid)
    b = compared_entries(mask, valid, x)
    u, v = as_rows(x, b, valid), as_rows(prediction, b, valid)
    difference = v - u
    error2 = dot(difference, difference)
    check_finite(error2.sum(), x=u, prediction=v)
    return reduce(error2 / count_entries(b, u).clamp(min=1), reduction)


def sure_loss(
    model: Callable[[Tensor], Tensor],
    x: Tensor,
    sigma: Tensor | float,
    *,
    step: float = 1e-3,
    valid: Tensor | None = None,
    generator: torch.Generator | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Compute Stein's unbiased risk estimate with a Monte Carlo divergence (MC-SURE).

    Assumes Gaussian noise of known standard deviation, independent from entry to entry. The mean over
    the entries of (h(x) − x)² − σ² + (2σ²/ε)·n·(h(x + εn) − h(x)), n ~ N(0, I), then has the mean of
    the squared error to the clean data. A wrong σ biases it; both passes are differentiated.

    Args:
        model: h; called twice, the second time on a slightly perturbed input. It must be deterministic,
            hence without dropout.
        x: Noisy samples (n, ...).
        sigma: Standard deviation of the noise: a number, one value per sample (n,), or a tensor that
            broadcasts against `x`.
        step: Step ε of the finite difference, for data of about unit range: smaller values increase the
            rounding error, larger ones the bias.
        valid: False on padding, which never counts.
        generator: Random generator of n.
        reduction: `mean` or `sum` over the samples, or `none` for one value each.

    Returns:
        A scalar, or (n,) with `reduction="none"`; it may be negative.

    Example:
        >>> x = torch.tensor([[1.0, 2.0]])
        >>> sure_loss(lambda x: torch.zeros_like(x), x, 0.5)  # E‖0 − s‖²/D is estimated by mean(x²) − σ²
        tensor(2.2500)
    """
    if not callable(model):
        raise TypeError(f"model must be callable, got {type(model).__name__}")
    check_batch("x", x)
    check_generator(generator, x.device)
    valid = None if valid is None else check_mask("valid", valid, x)
    check_number("step", step, above=0)
    largest = float(as_rows(x.detach(), None, valid).abs().amax())
    resolution = 4 * torch.finfo(x.dtype).eps * max(largest, 1)
    if math.isfinite(largest) and step < resolution:
        raise ValueError(
            f"step {step:g} is lost in the rounding of {x.dtype} data as large as {largest:.3g}: rescale x "
            f"to about 1, or use a step of at least {resolution:.1g}"
        )
    sigma2 = _check_sigma(sigma, x).square()
    if not bool(sigma2.isfinite().all()):
        raise ValueError(f"sigma is too large: its square overflows {sigma2.dtype}; rescale the data")
    probe = torch.randn(x.shape, dtype=x.dtype, device=x.device, generator=generator)
    if valid is not None:
        probe = probe * valid
    # Mixed precision would round away the small difference of the two passes.
    with torch.autocast(x.device.type, enabled=False):
        prediction = model(x)
        perturbed = model(x + step * probe)
    _check_pair("x", x, "model(x)", prediction)
    _check_pair("x", x, "model(x)", perturbed)
    h_x = as_rows(prediction, None, valid)
    slope = as_rows(probe) * (as_rows(perturbed, None, valid) - h_x)
    risk = (h_x - as_rows(x, None, valid)).square() + sigma2 * (slope * (2 / step) - 1)
    b = compared_entries(None, valid, x)
    total = (risk if b is None else risk * b).sum(1)
    check_finite(total.sum(), x=as_rows(x, None, valid), **{"model(x)": h_x})
    return reduce(total / count_entries(b, risk).clamp(min=1), reduction)


def _check_pair(
    name: str, value: Tensor, other_name: str, other: Tensor, valid: Tensor | None = None
) -> Tensor | None:
    """Check two batches of one shape; return the validity mask in that shape."""
    check_batch(name, value)
    check_batch(other_name, other)
    check_same_shape(other_name, other, name, value)
    return None if valid is None else check_mask("valid", valid, value)


def _check_snr(snr: Tensor, rows: Tensor) -> Tensor:
    check_tensor("snr", snr)
    if snr.shape != rows.shape[:1]:
        raise ValueError(f"snr must have one value per sample, ({len(rows)},), got {tuple(snr.shape)}")
    if not bool((snr >= 0).all()):
        raise ValueError("snr must be >= 0 and not NaN: it is a ratio of norms")
    return snr.to(rows)


def _check_sigma(sigma: Tensor | float, x: Tensor) -> Tensor:
    """Return σ as rows that broadcast against those of x."""
    if not isinstance(sigma, Tensor):
        check_number("sigma", sigma, at_least=0, at_most=1e150)
        return torch.tensor([[float(sigma)]], dtype=torch.promote_types(x.dtype, torch.float32)).to(x.device)
    check_tensor("sigma", sigma)
    if not bool(((sigma >= 0) & sigma.isfinite()).all()):
        raise ValueError("sigma must be finite and not negative: it is a standard deviation")
    sigma = sigma.to(x.device, torch.promote_types(x.dtype, torch.float32))
    return as_rows(spread_sigma(sigma, x).expand(x.shape))


def _is_constant(x: Tensor, valid: Tensor | None) -> Tensor:
    """Return whether all valid entries of each sample are equal, (n,)."""
    rows = x.reshape(len(x), -1)
    if valid is None:
        return (rows == rows[:, :1]).all(1)
    valid = valid.reshape(rows.shape)
    return rows.where(valid, math.inf).amin(1) >= rows.where(valid, -math.inf).amax(1)

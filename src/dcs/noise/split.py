"""Splitting one noisy observation into two with independent noise."""

import math

import torch
from torch import Generator, Tensor, nn

from dcs._checks import check_batch, check_finite, check_generator, check_mask, check_number, check_tensor
from dcs.functional.rows import as_rows, compared_entries, count_entries, norm, spread_sigma
from dcs.masking import VIEWS, View
from dcs.noise.level import estimate_sigma


class HoldsSigma(nn.Module):
    """Hold the noise level σ: as given, or estimated once from noisy data.

    Args:
        sigma: Number, or tensor that broadcasts against a batch. None: not yet estimated.
    """

    sigma: Tensor

    def __init__(self, sigma: Tensor | float | None = None) -> None:
        super().__init__()
        if isinstance(sigma, Tensor):
            check_tensor("sigma", sigma)
            if not bool(((sigma >= 0) & sigma.isfinite()).all()):
                raise ValueError("sigma must be finite and not negative: it is a standard deviation")
        elif sigma is not None:
            check_number("sigma", sigma, at_least=0)
            sigma = torch.tensor(float(sigma))
        self.register_buffer("sigma", torch.tensor(math.nan) if sigma is None else sigma)

    @property
    def is_known(self) -> bool:
        """Whether σ was given or estimated."""
        return self.sigma.ndim > 0 or not bool(self.sigma.isnan())

    def estimate(self, x: Tensor, valid: Tensor | None = None) -> None:
        """Set σ to its estimate from noisy data, the more the better; padded data is refused."""
        name = type(self).__name__
        if valid is not None:
            raise ValueError(f"sigma cannot be estimated from padded data: pass sigma to {name}")
        try:
            self.sigma.fill_(estimate_sigma(x, "auto"))
        except ValueError as error:
            raise ValueError(
                f"sigma cannot be estimated from this x ({error}); pass sigma to {name}"
            ) from None

    def sigma_for(self, x: Tensor, valid: Tensor | None) -> Tensor:
        """Return σ as it broadcasts against a batch; if it is not known yet, estimate it from this batch."""
        if not self.is_known:
            self.estimate(x, valid)
        return spread_sigma(self.sigma.to(x), x)

    def extra_repr(self) -> str:
        """Show sigma, if it is one number."""
        if self.sigma.ndim:
            return f"sigma of shape {tuple(self.sigma.shape)}"
        return f"sigma={self.sigma.item():g}" if self.is_known else "sigma=None"


@VIEWS.register("split")
class GaussianSplit(HoldsSigma):
    """Split x into two noisy views: x_tilde = x + α·z, which the model sees, and the target x − z/α.

    Assumes Gaussian noise of deviation σ, independent from entry to entry, and draws z from the same law: the
    two views' noises are then independent (A3), with deviations σ√(1 + α²) and σ√(1 + 1/α²). All entries
    can be compared, no neighbours are needed, and every step draws new noise. For noise of another
    law the noises are only uncorrelated; if σ is too small, some noise is treated as signal.
    Known as recorrupted-to-recorrupted (Pang et al., CVPR 2021) and data fission (Leiner et al., JASA 2023).

    Args:
        sigma: Standard deviation of the noise: a number, or a tensor that broadcasts against a batch. If
            None, it is estimated with `dcs.noise.estimate_sigma`: from the data passed to `estimate`, as
            training does, or else from the first batch.
        alpha: Strength α, from 0.01 to 100: larger values make x_tilde noisier and the target less noisy.

    Example:
        >>> x = torch.randn(1000, 4, generator=torch.Generator().manual_seed(0))
        >>> x_tilde, target = GaussianSplit(1.0)(x, torch.Generator().manual_seed(1))
        >>> round(float((x_tilde * target).mean()), 2)  # pure noise, and independent
        -0.02
    """

    def __init__(self, sigma: Tensor | float | None = None, *, alpha: float = 1.5) -> None:
        super().__init__(sigma)
        check_number("alpha", alpha, at_least=0.01, at_most=100)
        self.alpha = alpha

    def forward(
        self, x: Tensor, generator: Generator | None = None, *, valid: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Split a batch.

        Args:
            x: Noisy samples (n, ...).
            generator: Random generator of z. If the noise of x was drawn with a generator, use another seed
                here: with the same one, z would equal the noise in x.
            valid: False on padding, which is left unchanged.

        Returns:
            x_tilde and the target, new tensors like x.
        """
        check_batch("x", x)
        check_generator(generator, x.device)
        valid = None if valid is None else check_mask("valid", valid, x)
        sigma = self.sigma_for(x, valid)
        z = sigma * torch.randn(x.shape, dtype=x.dtype, device=x.device, generator=generator)
        if valid is not None:
            z = z.where(valid, 0)
        x_tilde, target = x + self.alpha * z, x - z / self.alpha
        check_finite(as_rows(x_tilde - target, None, valid).sum(), x=as_rows(x, None, valid), sigma=z)
        return x_tilde, target

    def view(self, x: Tensor, generator: Generator | None = None, valid: Tensor | None = None) -> View:
        """Split a batch: all entries are compared, and σ gives the SNR."""
        x_tilde, target = self(x, generator, valid=valid)
        return View(x_tilde, target, None, self.snr(x, valid))

    def snr(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        """Estimate the SNR c of the target, (n,), from σ, with ‖x‖² − σ²D for ‖s‖²."""
        b = compared_entries(None, valid, x)
        rows = as_rows(x, b, valid)
        count, sigma2 = count_entries(b, rows), self.sigma_for(x, valid).to(rows).square()
        noise2 = count * sigma2 if sigma2.ndim == 0 else as_rows(sigma2.expand(x.shape), b, valid).sum(1)
        signal2 = (norm(rows).square() - noise2).clamp(min=0)
        c = (signal2 / (noise2 * (1 + self.alpha**-2))).sqrt()
        return c.where(noise2 > 0, math.inf).where(count > 0, 0)

    @property
    def added(self) -> float:
        """Standard deviation of the noise that is added to what the model sees, where σ is one number."""
        return self.alpha * float(self.sigma) if self.sigma.ndim == 0 and self.is_known else 0.0

    def describe(self) -> dict[str, object]:
        """Describe the split as plain values."""
        return {"kind": "split", "sigma": plain_sigma(self.sigma), "alpha": self.alpha}

    def extra_repr(self) -> str:
        """Show sigma and alpha."""
        return f"{super().extra_repr()}, alpha={self.alpha:g}"


def plain_sigma(sigma: Tensor) -> float | str:
    """Return σ as a plain value: a number, or the shape of one that differs from entry to entry."""
    return float(sigma) if sigma.ndim == 0 else f"of shape {tuple(sigma.shape)}"

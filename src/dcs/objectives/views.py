"""Automatic choice of views: split samples where the noise allows it, mask entries elsewhere."""

import contextlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Generator, Tensor

from dcs._checks import check_number
from dcs.masking import VIEWS, BlindSpot, View, ViewMaker
from dcs.noise import GaussianSplit, estimate_sigma, quiet_share, sigma_by_brightness
from dcs.noise.level import default_ndim, has_flat_blocks
from dcs.noise.split import HoldsSigma

WINDOW_ALPHA = 0.5  # strength of the split of windows, which should stay about as noisy as pictures are
MOST_QUIET = 0.15  # white noise leaves 0.05 or less; photon counts and speckle on pictures 0.4 and more
UNEVEN = 1.3  # ratio of noise levels; white noise on pictures leaves 1.1 or less, photon counts 3 and more
LEAST_NOISE = 0.05  # relative to the deviation of the data; weaker noise can be ignored


@VIEWS.register("automatic")
class AutomaticViews(HoldsSigma):
    """Split samples if their noise is equally strong everywhere, and mask entries otherwise.

    A split (`GaussianSplit`) compares all entries and adds no blind spots, but needs σ; a mask needs none.
    `estimate`, which training calls, chooses for the data at hand. Pictures of at least 48 x 48 are split if
    the noise in their dark, medium and bright parts differs by less than a factor of 1.3
    (`dcs.noise.sigma_by_brightness`). In other data, entries are masked if `dcs.noise.quiet_share` finds more
    than 15 % of all windows too quiet for white noise of the estimated σ, if σ is below a twentieth of the
    data's deviation, if there is too little data, and before `estimate` is called.

    Args:
        alpha: Strength of the split; see `GaussianSplit`.

    Example:
        >>> x = 0.3 * torch.randn(100, 16, 16, generator=torch.Generator().manual_seed(0))
        >>> white, uneven = AutomaticViews(), AutomaticViews()
        >>> white.estimate(x)
        >>> uneven.estimate(x * torch.linspace(0, 1, 16))
        >>> white.splits, uneven.splits
        (True, False)
    """

    def __init__(self, *, alpha: float = 1.5) -> None:
        super().__init__()
        check_number("alpha", alpha, at_least=0.01, at_most=100)
        self.alpha = alpha

    @property
    def splits(self) -> bool:
        """Whether samples are split; otherwise entries are masked."""
        return bool(self.sigma > 0)

    @property
    def added(self) -> float:
        """Standard deviation of the noise that is added to what the model sees; 0 if entries are masked."""
        return self.alpha * float(self.sigma) if self.splits else 0.0

    def delegate(self, shape: tuple[int, ...]) -> ViewMaker:
        """Return the view maker that was chosen, for samples of a shape."""
        if self.splits:
            return GaussianSplit(self.sigma, alpha=self.alpha)
        return BlindSpot(rho=0.3, ndim=default_ndim(shape))

    def view(self, x: Tensor, generator: Generator | None = None, valid: Tensor | None = None) -> View:
        """Make a view with the chosen view maker."""
        return self.delegate(tuple(x.shape[1:])).view(x, generator, valid)

    def estimate(self, x: Tensor, valid: Tensor | None = None) -> None:
        """Choose for noisy data, the more the better; padded data is masked."""
        sigma = 0.0
        if valid is None and has_flat_blocks(x.shape[1:]):
            by_brightness = sigma_by_brightness(x)
            even = bool(by_brightness.max() < UNEVEN * by_brightness.min())
            self.sigma.fill_(estimate_sigma(x, "flat") if even else 0.0)
            return
        if valid is None:
            with contextlib.suppress(ValueError):  # too little data
                sigma = estimate_sigma(x)
        noisy = sigma > 0 and sigma > LEAST_NOISE * float(x.std())
        self.sigma.fill_(sigma if noisy and quiet_share(x, sigma) <= MOST_QUIET else 0.0)

    def describe(self) -> dict[str, object]:
        """Describe the choice as plain values; the kind is `automatic` before `estimate` was called."""
        if not self.is_known:
            return {"kind": "automatic"}
        if self.splits:
            return {"kind": "split", "sigma": float(self.sigma), "alpha": self.alpha, "chosen": True}
        return {"kind": "blind_spot", "rho": 0.3, "chosen": True}

    def extra_repr(self) -> str:
        """Show sigma and alpha."""
        return f"{super().extra_repr()}, alpha={self.alpha:g}"

    def _load_from_state_dict(self, state: Mapping[str, Any], prefix: str, *others: Any) -> None:
        # Models that were trained before views were chosen automatically were masked.
        given = {f"{prefix}sigma": torch.zeros(())} | dict(state)
        super()._load_from_state_dict(given, prefix, *others)

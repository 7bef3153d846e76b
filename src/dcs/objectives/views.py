"""How dCS makes its second view, if nobody says: as the noise of the data allows."""

import contextlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Generator, Tensor

from dcs.noise import GaussianSplit, estimate_sigma, quiet_share

MOST_QUIET = 0.15  # white noise leaves 0.05 or less; photon counts and speckle on pictures 0.4 and more
LEAST_NOISE = 0.05  # of the deviation of the data: less is no noise to speak of


class ChosenViews(GaussianSplit):
    """Splits samples if their noise is equally strong everywhere; says to mask entries if it is not.

    A split (`GaussianSplit`) compares all entries and adds no blind spots, but needs σ; a mask needs none.
    `estimate` looks at the data: where `dcs.noise.quiet_share` finds more than 15 % of all windows too quiet
    for white noise of the estimated σ, where σ is below a twentieth of the data's deviation, or where data is
    too little to tell, sigma is 0, for masks. Before `estimate` was called, which training does, entries are
    masked, too.

    Args:
        alpha: See `GaussianSplit`.

    Example:
        >>> x = 0.3 * torch.randn(100, 16, 16, generator=torch.Generator().manual_seed(0))
        >>> white, uneven = ChosenViews(), ChosenViews()
        >>> white.estimate(x)
        >>> uneven.estimate(x * torch.linspace(0, 1, 16))
        >>> white.splits, uneven.splits
        (True, False)
    """

    def __init__(self, *, alpha: float = 1.5) -> None:
        super().__init__(alpha=alpha)

    @property
    def splits(self) -> bool:
        """Whether samples are split; otherwise entries are to be masked."""
        return bool(self.sigma > 0)

    def describe(self) -> str:
        """Say in words what was chosen."""
        if self.splits:
            level = f"{self.sigma.item():.3g}"
            return f"samples are split, as for noise of deviation {level} that is equally strong everywhere"
        return "entries are masked: no noise was found that is equally strong everywhere"

    def estimate(self, x: Tensor, valid: Tensor | None = None) -> None:
        """Look at noisy data, the more the better; padded data is masked."""
        sigma = 0.0
        if valid is None:
            with contextlib.suppress(ValueError):  # too little to tell
                sigma = estimate_sigma(x)
            if sigma > 0 and not (
                sigma > LEAST_NOISE * float(x.std()) and quiet_share(x, sigma) <= MOST_QUIET
            ):
                sigma = 0.0
        self.sigma.fill_(sigma)

    def forward(
        self, x: Tensor, generator: Generator | None = None, *, valid: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Split a batch; see `GaussianSplit`."""
        if not self.splits:
            raise ValueError("x is to be masked, not split: use a BlindSpot, or a GaussianSplit with sigma")
        return super().forward(x, generator, valid=valid)

    def _load_from_state_dict(self, state: Mapping[str, Any], prefix: str, *others: Any) -> None:
        # What was trained before views were chosen was masked.
        given = {f"{prefix}sigma": torch.zeros(())} | dict(state)
        super()._load_from_state_dict(given, prefix, *others)

"""Oracles: what the objectives would be if the clean data were known. For measuring, never for users' data.

They are called like any objective, with the clean data as `pair`.
"""

import math
from typing import Any

import torch
from torch import Tensor

from dcs import functional as F
from dcs._checks import check_number
from dcs.masking import Masker
from dcs.noise import GaussianSplit
from dcs.objectives.base import Batch, Model, Objective, apply_masker, check_masker, predict
from dcs.objectives.denoising_cosine import DenoisingCosine


class CosineOracle(Objective):
    """Knows the clean data: minus the cosine to them, what the dCS loss aims at.

    Args:
        masker: If given, the model sees x_tilde and the masked entries are compared: the left-hand side of
            Theorem 1. Otherwise the model sees x and all entries are compared.
    """

    def __init__(self, masker: Masker | GaussianSplit | None = None) -> None:
        super().__init__()
        check_masker(masker)
        self.masker = masker

    def compute(self, model: Model, batch: Batch) -> Tensor:
        """Compute −cos(s, h(x)), with the clean data s as `pair`."""
        clean = _clean(batch)
        if self.masker is None:
            return F.cosine_loss(clean, predict(model, batch.x), valid=batch.valid)
        view = apply_masker(self.masker, batch)
        return F.cosine_loss(clean, predict(model, view.x_tilde), view.b, valid=batch.valid)

    def extra_repr(self) -> str:
        """Show a masker; torch shows a split, which is a module."""
        return "" if isinstance(self.masker, torch.nn.Module) else f"masker={self.masker}"


class DenoisingCosineOracle(DenoisingCosine):
    """Knows σ and the clean data, and uses them for nothing but the true k of the dCS loss.

    Args:
        sigma: The true standard deviation of the noise.
        masker: See `DenoisingCosine`, as for the further options.
        **options: As above; `power` is 1 here by default.
    """

    def __init__(self, sigma: float, masker: Masker | GaussianSplit | None = None, **options: Any) -> None:
        check_number("sigma", sigma, above=0)
        super().__init__(masker, **{"power": 1.0, **options})
        self.sigma = sigma

    def compute(self, model: Model, batch: Batch) -> Tensor:
        """Compute the dCS loss with the true c = ‖b⊙s‖/(σ√‖b‖₁), the clean data s being `pair`."""
        view = self.own_view(batch)
        signal, sigma = _clean(batch), self.sigma
        if view.snr is not None and isinstance(self.masker, GaussianSplit):
            sigma *= math.sqrt(1 + self.masker.alpha**-2)
        b = torch.ones_like(signal, dtype=torch.bool) if view.b is None else view.b
        length = torch.linalg.vector_norm(signal.where(b, 0).flatten(1), dim=1)
        snr = length / (sigma * b.flatten(1).sum(1).clamp(min=1).sqrt())
        return self.loss(model, batch, view._replace(snr=snr))


def _clean(batch: Batch) -> Tensor:
    if batch.pair is None:
        raise ValueError("pair is needed by an oracle: the clean data")
    return batch.pair

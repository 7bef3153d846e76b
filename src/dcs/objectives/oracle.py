"""Oracles: what the objectives would be if the clean data were known. For measuring, never for users' data.

They are called like any objective, with the clean data as `pair`.
"""

from typing import Any

import torch
from torch import Generator, Tensor

from dcs import functional as F
from dcs._checks import check_number
from dcs.masking import Masker
from dcs.objectives.base import Model, Objective, check_pair, predict
from dcs.objectives.denoising_cosine import DenoisingCosine


class CosineOracle(Objective):
    """Knows the clean data: minus the cosine to them, what the dCS loss aims at.

    Args:
        masker: If given, the model sees x_tilde and the masked entries are compared: the left-hand side of
            Theorem 1. Otherwise the model sees x and all entries are compared.
    """

    def __init__(self, masker: Masker | None = None) -> None:
        super().__init__()
        self.masker = masker

    def forward(
        self,
        model: Model,
        x: Tensor,
        generator: Generator | None = None,
        pair: Tensor | None = None,
        *,
        valid: Tensor | None = None,
    ) -> Tensor:
        """Compute −cos(s, h(x)), with the clean data s as `pair`."""
        clean = _clean(pair, x)
        if self.masker is None:
            return F.cosine_loss(clean, predict(model, x), valid=valid)
        x_tilde, b = self.masker(x, generator, valid=valid)
        return F.cosine_loss(clean, predict(model, x_tilde), b, valid=valid)


class DenoisingCosineOracle(DenoisingCosine):
    """Knows σ and the clean data, and uses them for nothing but the true k of the dCS loss.

    Args:
        sigma: The true standard deviation of the noise.
        masker: See `DenoisingCosine`, as for the further options.
        **options: As above; `power` is 1 here by default.
    """

    def __init__(self, sigma: float, masker: Masker | None = None, **options: Any) -> None:
        check_number("sigma", sigma, above=0)
        super().__init__(masker, **{"power": 1.0, **options})
        self.sigma = sigma

    def forward(
        self,
        model: Model,
        x: Tensor,
        generator: Generator | None = None,
        pair: Tensor | None = None,
        *,
        valid: Tensor | None = None,
    ) -> Tensor:
        """Compute the dCS loss with the true c = ‖b⊙s‖/(σ√‖b‖₁), the clean data s being `pair`."""
        clean = _clean(pair, x)
        x_tilde, b = self.second_view(x, generator, None, valid)
        assert b is not None  # noqa: S101  (a mask comes from every masker; this tells the type checker)
        signal = clean.where(b, 0).flatten(1)
        snr = torch.linalg.vector_norm(signal, dim=1) / (self.sigma * b.flatten(1).sum(1).clamp(min=1).sqrt())
        prediction = predict(model, x_tilde)
        return F.denoising_cosine_loss(
            prediction, x, x_tilde, b, snr=snr, valid=valid, generator=generator, **self.weighting
        )


def _clean(pair: Tensor | None, x: Tensor) -> Tensor:
    if pair is None:
        raise ValueError("pair is needed by an oracle: the clean data")
    check_pair(pair, x)
    return pair

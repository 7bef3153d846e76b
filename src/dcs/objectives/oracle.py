"""Oracles: objectives that know the clean data, passed as `pair`. For measurements only."""

import math
from typing import Any

import torch
from torch import Tensor

from dcs import functional as F
from dcs._checks import check_number
from dcs.masking import Masker, View, ViewMaker, as_view_maker
from dcs.objectives.base import Batch, Model, Objective, describe_views, predict
from dcs.objectives.denoising_cosine import DenoisingCosine


class CosineOracle(Objective):
    """Knows the clean data: minus the cosine to it, which the dCS loss estimates.

    Args:
        masker: View maker; the model sees x_tilde and the masked entries are compared, as on the left-hand
            side of Theorem 1. If None, the model sees x and all entries are compared.
    """

    scale_free = True
    needs_pair = True

    def __init__(self, masker: Masker | ViewMaker | None = None) -> None:
        super().__init__()
        self.masker = None if masker is None else as_view_maker(masker)

    def compute(self, model: Model, batch: Batch) -> Tensor:
        """Compute −cos(s, h(x)), with the clean data s as `pair`."""
        view = View(batch.x, batch.x)
        if self.masker is not None:
            view = self.masker.view(batch.x, batch.generator, batch.valid)
        return F.cosine_loss(_clean(batch), predict(model, view.seen), view.mask, valid=batch.valid)

    def describe(self) -> dict[str, Any]:
        """Describe the objective and its view maker."""
        return {**super().describe(), "view": describe_views(self.masker)}

    def extra_repr(self) -> str:
        """Show a masker; torch shows a split, which is a module."""
        return "" if isinstance(self.masker, torch.nn.Module) else f"masker={self.masker}"


class DenoisingCosineOracle(DenoisingCosine):
    """Knows σ and the clean data, and uses them only for the true k of the dCS loss.

    Args:
        sigma: True standard deviation of the noise.
        masker: View maker; see `DenoisingCosine`.
        **options: Further options of `DenoisingCosine`; `power` is 1 here by default.
    """

    needs_pair = True

    def __init__(self, sigma: float, masker: Masker | ViewMaker | None = None, **options: Any) -> None:
        check_number("sigma", sigma, above=0)
        super().__init__(masker, **{"power": 1.0, **options})
        self.sigma = sigma

    def compute(self, model: Model, batch: Batch) -> Tensor:
        """Compute the dCS loss with the true c = ‖b⊙s‖/(σ√‖b‖₁), the clean data s being `pair`."""
        view = self.own_view(batch)
        signal, sigma = _clean(batch), self.sigma
        if view.mask is None:  # a split, which adds noise to the target
            sigma *= math.sqrt(1 + float(getattr(self.masker, "alpha", math.inf)) ** -2)
        b = torch.ones_like(signal, dtype=torch.bool) if view.mask is None else view.mask
        length = torch.linalg.vector_norm(signal.where(b, 0).flatten(1), dim=1)
        snr = length / (sigma * b.flatten(1).sum(1).clamp(min=1).sqrt())
        return self.loss(model, batch, view._replace(snr=snr))


def _clean(batch: Batch) -> Tensor:
    if batch.pair is None:
        raise ValueError("pair must be given for an oracle: the clean data")
    return batch.pair

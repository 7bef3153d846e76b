"""The dCS objective (Algorithm 1), and oracles for measurements: they know the clean data, the `pair`."""

import math
from typing import Any

import torch
from torch import Tensor

from dcs import functional as F
from dcs._checks import check_bool, check_number
from dcs.functional.rows import compared_entries, count_entries
from dcs.masking import BlindSpot, Masker, View, ViewMaker, as_view_maker
from dcs.objectives.base import OBJECTIVES, Batch, MaskedObjective, Model, Objective, predict
from dcs.objectives.views import AutomaticViews


@OBJECTIVES.register(
    "dcs",
    summary="Denoising cosine similarity (dCS); zero-mean isotropic noise, independent between entries.",
)
class DenoisingCosine(MaskedObjective):
    """Assumes zero-mean isotropic noise, independent from entry to entry (A2, A3): the dCS loss (Eq. 10).

    Minus the cosine between x and the prediction on the masked entries, weighted by 1/k^power, where k is the
    expected cosine between noisy and clean data. With the true k and power 1, its mean is that of the cosine
    loss to the clean data (Theorem 1).

    Args:
        masker: View maker; see `MaskedObjective`. The default is `AutomaticViews()`: once `prepare` has found
            noise that is equally strong everywhere, samples are split; otherwise entries are masked by
            `BlindSpot(rho=0.3)`. With `variant="paper"` it is `BlindSpot(rho=0.1)`.
        method: Way to compute k: `exact`, `monte_carlo` or `asymptotic`; see
            `dcs.functional.expected_cosine`, as for `noise` and `samples`.
        floor: Lower bound of k; see `dcs.functional.denoising_weight`, as for `power` and `eta`.
        power: Power of the weight 1/k^power: 1 is Theorem 1's weight; the default, -1, is the
            inverse-variance weight, which keeps the few samples with tiny k from dominating the others.
            docs/weight.md describes the trade-off.
        noise: Law of the noise: `gaussian`, or an isotropic law from `dcs.noise`.
        samples: Number of Monte Carlo draws per sample.
        eta: Offset of Remark 3's soft weight, which replaces a floored k.
        variant: `default`, or `paper` for the literal Algorithm 1, which ignores `method`, `floor`,
            `power`, `noise` and `eta`.
        whole_snr: Whether ĉ is estimated from all entries, as Section 3.3 is written, and not from the masked
            ones (Remark 3). It is then larger, as most entries of the two views are equal.
        centre: Whether to compare samples without their mean: a cosine sees little but the brightness of a
            bright picture otherwise.
        length: Weight of `dcs.functional.length_loss`, which teaches the length of predictions, too; with 0
            only their direction is learned.

    Example:
        >>> noisy = torch.randn(8, 16, 16, generator=torch.Generator().manual_seed(0))
        >>> objective = DenoisingCosine()
        >>> objective(lambda x: x, noisy, torch.Generator().manual_seed(0)).shape
        torch.Size([])
    """

    scale_free = True

    def __init__(
        self,
        masker: Masker | ViewMaker | None = None,
        *,
        method: str = "exact",
        floor: float = 0.2,
        power: float = -1.0,
        noise: str | F.RadialLaw = "gaussian",
        samples: int = 100,
        eta: float | None = None,
        variant: str = "default",
        whole_snr: bool = False,
        centre: bool = False,
        length: float = 0.0,
    ) -> None:
        super().__init__(AutomaticViews() if masker is None and variant != "paper" else masker)
        check_bool("whole_snr", whole_snr)
        check_bool("centre", centre)
        check_number("length", length, at_least=0)
        self.variant, self.whole_snr, self.centre, self.length = variant, whole_snr, centre, length
        self.scale_free = not length
        self.weighting: dict[str, Any] = {
            "method": method,
            "floor": floor,
            "power": power,
            "noise": noise,
            "samples": samples,
            "eta": eta,
            "variant": variant,
        }
        # Refuse wrong options here rather than in the first step.
        F.denoising_weight(torch.ones(1), torch.ones(1), generator=torch.Generator(), **self.weighting)

    def default_masker(self, ndim: int) -> Masker:
        """Return the paper's masker for its variant, `BlindSpot(rho=0.3)` otherwise."""
        if self.variant == "paper":
            return BlindSpot(rho=0.1, ndim=ndim, min_masked=0)
        return super().default_masker(ndim)

    def compute(self, model: Model, batch: Batch) -> Tensor:
        """Compute the dCS loss of a batch."""
        batch, mean = self._centred(batch)
        shifted = model if mean is None else lambda x: model(x + mean) - mean
        return self.loss(shifted, batch, self.view(batch))

    def loss(self, model: Model, batch: Batch, view: View) -> Tensor:
        """Compute the weighted cosine loss of the prediction from a view."""
        prediction = predict(model, view.seen)
        loss = F.denoising_cosine_loss(
            prediction,
            view.target,
            view.seen,
            view.mask,
            snr=self._snr(view, batch.valid) if self.whole_snr else view.snr,
            valid=batch.valid,
            generator=batch.generator,
            **self.weighting,
        )
        if not self.length:
            return loss
        return loss + self.length * F.length_loss(prediction, view.target, view.mask, valid=batch.valid)

    def _snr(self, view: View, valid: Tensor | None) -> Tensor:
        """Return the SNR of a view: its own, or an estimate from the entries that the objective looks at."""
        if view.snr is not None:
            return view.snr
        return F.snr(view.target, view.seen, None if self.whole_snr else view.mask, valid=valid)

    def _centred(self, batch: Batch) -> tuple[Batch, Tensor | None]:
        """Return a batch without the mean of each sample, and the means; as it is if it is not centred."""
        if not self.centre:
            return batch, None
        axes, inside = tuple(range(1, batch.x.ndim)), batch.valid
        if inside is None:
            mean = batch.x.mean(axes, keepdim=True)
        else:  # padding holds zeros, and the model must see them
            inside = inside.expand(batch.x.shape)
            count = inside.sum(axes, keepdim=True).clamp(min=1)
            mean = (batch.x.where(inside, 0).sum(axes, keepdim=True) / count) * inside
        pair = None if batch.pair is None else batch.pair - mean
        return batch._replace(x=batch.x - mean, pair=pair), mean

    def weights(
        self,
        x: Tensor,
        generator: torch.Generator | None = None,
        pair: Tensor | None = None,
        valid: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return ĉ, k and whether k is at or below the floor for each sample, as in one step of training.

        Where no floor is used (`eta`, or the variant `paper`), none is.
        """
        batch, _ = self._centred(Batch(x, generator, pair, valid))
        view = self.view(batch)
        snr = self._snr(view, valid)
        inside = None if valid is None else valid.expand(x.shape)
        parts = (compared_entries(part, inside, x) for part in (None, view.mask))
        entries, dim = (count_entries(part, x.flatten(1)) for part in parts)
        settings = {name: self.weighting[name] for name in ("method", "noise", "samples")}
        if self.variant == "paper":
            settings |= {"method": "monte_carlo", "noise": "gaussian"}
        k = F.expected_cosine(
            snr, dim.clamp(min=1), full_dim=entries.clamp(min=1), generator=generator, **settings
        )
        floors = self.variant != "paper" and self.weighting["eta"] is None
        return snr, k, (k <= self.weighting["floor"]) & floors

    @torch.no_grad()
    def statistics(
        self,
        model: Model,  # noqa: ARG002
        x: Tensor,
        generator: torch.Generator | None = None,
        pair: Tensor | None = None,
        valid: Tensor | None = None,
    ) -> dict[str, float]:
        """Return mean and deviation of ĉ and k over a batch, and the share of samples at the floor."""
        snr, k, floored = self.weights(x, generator, pair, valid)
        finite = snr[snr.isfinite()]
        return {
            "snr": float(finite.mean()) if len(finite) else float("inf"),
            "snr_deviation": float(finite.std()) if len(finite) > 1 else 0.0,
            "k": float(k.mean()),
            "k_deviation": float(k.std()) if len(k) > 1 else 0.0,
            "floored": float(floored.float().mean()),
        }

    def describe(self) -> dict[str, Any]:
        """Describe the objective, its views and its weight."""
        noise = self.weighting["noise"]
        law = noise if isinstance(noise, str) else repr(noise)
        further = {"centre": self.centre, "length": self.length}
        return {**super().describe(), **self.weighting, "noise": law, **further}

    def extra_repr(self) -> str:
        """Show the view maker and how samples are weighted."""
        shown = ("samples", "variant") if self.variant == "paper" else self.weighting
        weighting = [f"{name}={self.weighting[name]!r}" for name in shown]
        weighting += ["centre=True"] * self.centre + [f"length={self.length}"] * bool(self.length)
        return ", ".join([super().extra_repr(), *weighting])


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
        if self.centre:
            raise ValueError("centre must be False for an oracle, which knows the clean data as it is")
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

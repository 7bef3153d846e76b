"""The objectives that dCS is compared with."""

from typing import Any

import torch
from torch import Tensor

from dcs import functional as F
from dcs._checks import check_number
from dcs.masking import Masker, ViewMaker
from dcs.noise.split import HoldsSigma, plain_sigma
from dcs.objectives.base import OBJECTIVES, Batch, MaskedObjective, Model, Objective, predict
from dcs.objectives.views import AutomaticViews


@OBJECTIVES.register("mse", summary="Squared error to the noisy sample itself; assumes no noise.")
class MSE(Objective):
    """Assumes no noise: the mean squared error to x itself, so that noise is learned like signal."""

    def compute(self, model: Model, batch: Batch) -> Tensor:
        """Compute mean (h(x) − x)²; with a pair, mean (h(pair) − x)²."""
        return F.noise2void_loss(predict(model, batch.view), batch.x, None, valid=batch.valid)


@OBJECTIVES.register("cosine", summary="Cosine to the noisy sample itself; assumes no noise.")
class Cosine(Objective):
    """Assumes no noise: minus the cosine to x itself (Eq. 1), so that noise is learned like signal."""

    scale_free = True

    def compute(self, model: Model, batch: Batch) -> Tensor:
        """Compute −cos(x, h(x)); with a pair, −cos(x, h(pair))."""
        return F.cosine_loss(batch.x, predict(model, batch.view), valid=batch.valid, eps=1e-20)


@OBJECTIVES.register(
    "n2v",
    summary="Noise2Void: squared error on masked entries; zero-mean noise, independent between entries.",
)
class Noise2Void(MaskedObjective):
    """Assumes zero-mean noise, independent from entry to entry (A7): squared error on masked entries.

    Krull et al., CVPR 2019. The minimiser is that of the squared error to the clean data (Proposition 2).
    """

    def compute(self, model: Model, batch: Batch) -> Tensor:
        """Compute mean (h(x_tilde) − x)² over the masked entries (Eq. 11)."""
        view = self.view(batch)
        return F.noise2void_loss(predict(model, view.seen), view.target, view.mask, valid=batch.valid)


@OBJECTIVES.register(
    "r2r",
    summary="Squared error between the two views of dcs, which are split where the noise allows it.",
)
class Recorrupted(Noise2Void):
    """Assumes what `dcs` does; squared error to the target of a split (Pang et al., CVPR 2021).

    The minimiser is that of the squared error to the clean data, from a noisier view of it. Where samples
    cannot be split, this is `n2v`.

    Args:
        masker: View maker; `AutomaticViews()` by default.
    """

    def __init__(self, masker: Masker | ViewMaker | None = None) -> None:
        super().__init__(AutomaticViews() if masker is None else masker)


@OBJECTIVES.register(
    "n2n", summary="Noise2Noise: squared error between two noisy observations of the same sample."
)
class Noise2Noise(MSE):
    """Assumes two observations with independent zero-mean noises of any law: squared error between them.

    Lehtinen et al., ICML 2018. The minimiser is that of the squared error to the clean data.
    """

    needs_pair = True

    def compute(self, model: Model, batch: Batch) -> Tensor:
        """Compute mean (h(pair) − x)²."""
        if batch.pair is None:
            raise ValueError(
                "pair must be given for n2n: a second noisy observation of x; without one use n2v"
            )
        return super().compute(model, batch)


@OBJECTIVES.register(
    "sure", summary="Stein's unbiased risk estimate; Gaussian noise of known or estimated deviation."
)
class SURE(HoldsSigma, Objective):
    """Assumes Gaussian noise of known deviation, independent from entry to entry: Stein's risk estimate.

    Zhussip et al., NeurIPS 2019 (their Eq. 6). A wrong sigma biases it.

    Args:
        sigma: Standard deviation of the noise: a number, or a tensor that broadcasts against a batch. If
            None, it is estimated once with `dcs.noise.estimate_sigma`: from the data passed to `estimate`, or
            else from the first batch.
        step: Step of the finite difference; see `dcs.functional.sure_loss`.
    """

    def __init__(self, sigma: Tensor | float | None = None, *, step: float = 1e-3) -> None:
        super().__init__(sigma)
        check_number("step", step, above=0)
        self.step = step

    def compute(self, model: Model, batch: Batch) -> Tensor:
        """Compute the risk estimate; with a pair no probe is needed: it is mean (h(pair) − x)² − σ²."""
        x = batch.x
        sigma = self.sigma_for(x, batch.valid)
        if batch.pair is not None:
            error = F.noise2void_loss(predict(model, batch.pair), x, None, valid=batch.valid)
            noise = F.noise2void_loss(sigma.expand(x.shape), torch.zeros_like(x), None, valid=batch.valid)
            return error - noise
        return F.sure_loss(model, x, sigma, step=self.step, valid=batch.valid, generator=batch.generator)

    def describe(self) -> dict[str, Any]:
        """Describe the objective and σ."""
        return {**super().describe(), "sigma": plain_sigma(self.sigma)}


@OBJECTIVES.register(
    "dae", summary="Denoising autoencoder: noise is added to the input; assumes nearly clean data."
)
class DenoisingAutoencoder(Objective):
    """Assumes nearly clean data: squared error to x of a prediction from x with added noise.

    Vincent et al., JMLR 2010. The noise that is in x is learned as signal.

    Args:
        sigma: Standard deviation of the Gaussian noise added to the model's input.
    """

    def __init__(self, sigma: float = 0.1) -> None:
        super().__init__()
        check_number("sigma", sigma, above=0)
        self.sigma = sigma

    def compute(self, model: Model, batch: Batch) -> Tensor:
        """Compute mean (h(x + noise) − x)²; with a pair, mean (h(pair + noise) − x)²."""
        x = batch.x
        noise = torch.randn(x.shape, dtype=x.dtype, device=x.device, generator=batch.generator)
        if batch.valid is not None:
            noise = noise * batch.valid
        return F.noise2void_loss(predict(model, batch.view + self.sigma * noise), x, None, valid=batch.valid)

    def extra_repr(self) -> str:
        """Show sigma."""
        return f"sigma={self.sigma}"

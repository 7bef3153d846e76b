"""SimSiam, SimCLR and BYOL, each with or without a regulariser."""

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dcs import functional as F
from dcs._checks import check_integer, check_number
from dcs.augmentation import Augment
from dcs.objectives.base import OBJECTIVES, Model, Objective
from dcs.objectives.self_supervised import SelfSupervised, encode, unwrapped


@OBJECTIVES.register("simsiam", summary="SimSiam: one augmented image predicts the other.")
class SimSiam(SelfSupervised):
    """Assumes that augmentations preserve the content: one view predicts the projection of the other (Eq. 2).

    Chen & He, CVPR 2021: minus the cosine between them, without a gradient through the projection, which
    prevents collapse. With `DenoisingCosine()` as the regulariser it is SimSiam-dCS, with
    `Noise2Void()` SimSiam-N2V (Expt2), with `DenoisingAutoencoder()` SidAE (Baier et al., 2023).

    Args:
        augment: Function that makes a view; see `SelfSupervised`.
        regulariser: Objective that is added; see `SelfSupervised`.
        weight: Weight λ of the regulariser: 0.01 for CIFAR and 0.02 for Tiny-ImageNet in the paper.
        projector: Widths of the projector: two layers, as for CIFAR; (2048, 2048, 2048) for larger networks.
        predictor: Hidden width of the predictor.
        **options: Further options of `SelfSupervised`.

    Example:
        >>> from dcs import augmentation, models, objectives
        >>> views = augmentation.Views(jitter_share=0)  # no colour jitter: kornia is not needed
        >>> model = models.build("resnet18", (3, 32, 32), width=4)
        >>> objective = SimSiam(views, objectives.DenoisingCosine(), weight=0.01, features=32)
        >>> images = torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
        >>> objective(model, images, torch.Generator().manual_seed(0)).shape
        torch.Size([])
    """

    last_norm = True

    def __init__(
        self,
        augment: Augment | None = None,
        regulariser: Objective | None = None,
        weight: float = 0.01,
        *,
        projector: Sequence[int] = (2048, 2048),
        predictor: int = 512,
        **options: Any,
    ) -> None:
        check_integer("predictor", predictor, at_least=1)
        super().__init__(augment, regulariser, weight, projector=projector, predictor=predictor, **options)

    def compare(self, model: Model, views: Sequence[Tensor], features: Sequence[Tensor]) -> Tensor:  # noqa: ARG002
        """Compute Eq. 2, the mean over both directions."""
        # One view after the other, so that each has its own batch statistics.
        z1, z2 = (self.projector(each) for each in features)
        p1, p2 = (self.predictor(z) for z in (z1, z2))
        return (F.cosine_loss(z2.detach(), p1) + F.cosine_loss(z1.detach(), p2)) / 2


@OBJECTIVES.register(
    "simclr", summary="SimCLR: two augmentations of an image are identified among all others of the batch."
)
class SimCLR(SelfSupervised):
    """Assumes that augmentations preserve the content: views of an image are identified within the batch.

    Chen et al., ICML 2020: cross-entropy of selecting the other view of the same image by the cosine of
    projections. Needs large batches, which provide the negatives.

    Args:
        augment: Function that makes a view; see `SelfSupervised`.
        regulariser: Objective that is added; see `SelfSupervised`.
        weight: Weight λ of the regulariser.
        temperature: Divisor of the cosines; 0.5 for CIFAR.
        projector: Widths of the projector.
        **options: Further options of `SelfSupervised`; there is no predictor.
    """

    def __init__(
        self,
        augment: Augment | None = None,
        regulariser: Objective | None = None,
        weight: float = 0.01,
        *,
        temperature: float = 0.5,
        projector: Sequence[int] = (2048, 128),
        **options: Any,
    ) -> None:
        if "predictor" in options:
            raise TypeError("predictor must be left out: SimCLR has none")
        super().__init__(augment, regulariser, weight, projector=projector, **options)
        check_number("temperature", temperature, above=0)
        self.temperature = temperature

    def compare(self, model: Model, views: Sequence[Tensor], features: Sequence[Tensor]) -> Tensor:  # noqa: ARG002
        """Compute the normalised, temperature-scaled cross-entropy over both views of all images."""
        n = len(features[0])
        z = nn.functional.normalize(torch.cat([self.projector(each).float() for each in features]), dim=1)
        similarity = z @ z.T / self.temperature
        similarity = similarity.masked_fill(torch.eye(2 * n, dtype=torch.bool, device=z.device), -math.inf)
        other = torch.arange(2 * n, device=z.device).roll(n)
        return nn.functional.cross_entropy(similarity, other)


@OBJECTIVES.register(
    "byol", summary="BYOL: one augmented image predicts the projection of the other by a slowly updated copy."
)
class BYOL(SelfSupervised):
    """Assumes that augmentations preserve the content: one view predicts a slow copy's projection of another.

    Grill et al., NeurIPS 2020: squared distance between unit vectors, 2 − 2 cos, summed over both directions.
    The target network is a running average of model and projector. It is updated at the start
    of each call that computes gradients, i.e. after the previous step.

    Args:
        augment: Function that makes a view; see `SelfSupervised`.
        regulariser: Objective that is added; see `SelfSupervised`.
        weight: Weight λ of the regulariser.
        momentum: Momentum of the average.
        steps: Number of steps, epochs times batches per epoch, over which the momentum rises to 1 along a
            cosine, as in the paper; None keeps it constant.
        projector: Widths of the projector.
        predictor: Hidden width of the predictor.
        **options: Further options of `SelfSupervised`.
    """

    step: Tensor

    def __init__(
        self,
        augment: Augment | None = None,
        regulariser: Objective | None = None,
        weight: float = 0.01,
        *,
        momentum: float = 0.996,
        steps: int | None = None,
        projector: Sequence[int] = (4096, 256),
        predictor: int = 4096,
        **options: Any,
    ) -> None:
        check_integer("predictor", predictor, at_least=1)
        super().__init__(augment, regulariser, weight, projector=projector, predictor=predictor, **options)
        check_number("momentum", momentum, at_least=0, at_most=1)
        if steps is not None:
            check_integer("steps", steps, at_least=1)
        self.momentum, self.steps = momentum, steps
        self.target: Any = None
        self.target_projector: Any = None
        self.register_buffer("step", torch.zeros((), dtype=torch.long))

    def prepare(self, model: Model, x: Tensor, valid: Tensor | None = None) -> None:
        """Make the heads and the target network."""
        super().prepare(model, x, valid)
        self._make_target(unwrapped(model))

    def _make_target(self, network: object) -> None:
        if self.target is not None:
            return
        if not isinstance(network, nn.Module):
            raise TypeError(f"model must be a torch module for BYOL, which copies it, got {network!r}")
        self.target = copy.deepcopy(network).requires_grad_(False)
        self.target_projector = copy.deepcopy(self.projector).requires_grad_(False)
        if isinstance(getattr(self.target, "decoder", None), nn.Module):
            self.target.decoder = nn.Identity()  # only features are compared
        for part in (self.target, self.target_projector):
            part.train(self.training)  # regardless of the mode of the model

    def compare(self, model: Model, views: Sequence[Tensor], features: Sequence[Tensor]) -> Tensor:
        """Compute 2 − 2 cos, summed over both directions."""
        self._make_target(unwrapped(model))
        if torch.is_grad_enabled():
            self._follow(unwrapped(model))
        p1, p2 = (self.predictor(self.projector(each)) for each in features)
        with torch.no_grad():
            z1, z2 = (self.target_projector(encode(self.target, view)) for view in views)
        return 4 + 2 * F.cosine_loss(z2, p1) + 2 * F.cosine_loss(z1, p2)

    @torch.no_grad()
    def _follow(self, model: nn.Module) -> None:
        """Update the target: a step of the running average."""
        momentum = self.momentum
        if self.steps is not None:
            done = min(1.0, float(self.step) / self.steps)
            momentum = 1 - (1 - momentum) * (math.cos(math.pi * done) + 1) / 2
        self.step += 1
        for slow, quick in ((self.target, model), (self.target_projector, self.projector)):
            weights = dict(quick.named_parameters())
            for name, weight in slow.named_parameters():
                weight.lerp_(weights[name], 1 - momentum)

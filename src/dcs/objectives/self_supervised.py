"""Base class of self-supervised objectives: two augmented images, heads on features, a regulariser."""

import contextlib
import itertools
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor, nn

from dcs._checks import check_bool, check_choice, check_integer, check_number
from dcs.augmentation import Augment, Views
from dcs.masking import BlindSpot, Masker, ViewMaker, as_view_maker
from dcs.noise.split import HoldsSigma
from dcs.objectives.base import Batch, MaskedObjective, Model, Objective
from dcs.objectives.views import AutomaticViews

_NO_PADDING = "valid must be None: images of self-supervised objectives have no padding"


class SelfSupervised(Objective):
    """Compare the features of two random views of each image, optionally with a regulariser.

    L = L_SSL + λ L_reg, as in Expt2: any objective of `dcs.objectives` can be the regulariser. The model
    needs `encode(x)`, or a module `encoder`, that returns features (n, k). With a regulariser, model(x) must
    be a prediction of the shape of x, and `how="shared"` needs `decode`. `dcs.models.Autoencoder(encoder,
    decoder)` has all of these. Heads belong to the objective: train `objective.parameters()` along with those
    of the model. After training, pass `objective.inputs(image)` to the network.

    Args:
        augment: Function augment(x, generator) that makes a view; by default `dcs.augmentation.Views()`,
            which needs images in [0, 1].
        regulariser: Objective that is added, such as `DenoisingCosine()`. `AutomaticViews` are replaced by
            masks of 30 % of the entries: the texture of nearly clean images is easily mistaken for noise.
        weight: Weight λ of the regulariser.
        how: Input of the regulariser. `separate`, as in the paper: x_tilde is made of the raw image, in a
            separate pass through the backbone. `shared`: x_tilde is made of the first view and replaces it,
            so that one pass serves both losses and the regulariser only costs a decoder.
        masker: View maker that masks both views, "with BSM" in Expt2.
        normalised: Whether the regulariser compares normalised images, as in views, or images in [0, 1].
        projector: Widths of the layers of the projector, the head on the features.
        predictor: Hidden width of the predictor, the head on the projections.
        features: Number of features of the model. If None, it is measured by `prepare`, or else in the first
            call.
        seed: Random seed of the weights of the heads; torch's global random state is not changed.
    """

    predicts = False
    full_batches = True  # statistics of a few images would be too noisy
    recipe: ClassVar[dict[str, Any]] = {  # SimSiam's for CIFAR; a held-out loss says little about features
        "network": "resnet18",
        "optimizer": "sgd",
        "learning_rate": 0.03,
        "weight_decay": 5e-4,
        "schedule": "cosine",
        "validation": 0.0,
        "max_epochs": 100,
    }
    last_norm = False  # whether projections are normalised over the batch

    def __init__(
        self,
        augment: Augment | None = None,
        regulariser: Objective | None = None,
        weight: float = 0.01,
        *,
        how: str = "separate",
        masker: Masker | None = None,
        normalised: bool = True,
        projector: Sequence[int] = (2048, 2048),
        predictor: int | None = None,
        features: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if augment is not None and (not callable(augment) or isinstance(augment, type)):
            raise TypeError(f"augment must be a function of (x, generator) such as Views(), got {augment!r}")
        if regulariser is not None and (
            not isinstance(regulariser, Objective) or isinstance(regulariser, SelfSupervised)
        ):
            raise TypeError(
                f"regulariser must be an objective such as DenoisingCosine(), or None, got {regulariser!r}"
            )
        check_number("weight", weight, at_least=0)
        check_choice("how", how, ("separate", "shared"))
        if regulariser is not None:
            _require_masks(regulariser, how)
        if how == "shared" and masker is not None:
            raise ValueError("masker must be None with how='shared', where the regulariser masks a view")
        check_bool("normalised", normalised)
        if not isinstance(projector, Sequence) or not projector:
            raise TypeError(f"projector must be a sequence of widths such as (2048, 2048), got {projector!r}")
        for width in projector:
            check_integer("projector", width, at_least=1)
        check_integer("seed", seed, at_least=0)
        self.augment: Augment = Views() if augment is None else augment
        self.regulariser, self.weight, self.how = regulariser, weight, how
        self.masker: ViewMaker | None = None if masker is None else as_view_maker(masker)
        self.normalised, self.seed = normalised, seed
        self.widths, self.hidden = tuple(projector), predictor
        self.projector: Any = None  # made once the number of features is known
        self.predictor: Any = None
        if predictor is not None:
            check_integer("predictor", predictor, at_least=1)
        if features is not None:
            check_integer("features", features, at_least=1)
            self._make_heads(features)

    def compare(self, model: Model, views: Sequence[Tensor], features: Sequence[Tensor]) -> Tensor:
        """Compute L_SSL of two views and their features."""
        raise NotImplementedError

    def inputs(self, x: Tensor) -> Tensor:
        """Normalise images as in views, for the network."""
        images: Tensor = getattr(self.augment, "normalise", nn.Identity())(x)
        return images

    def compared(self, x: Tensor) -> Tensor:
        """Return images as the regulariser compares them."""
        return self.inputs(x) if self.normalised else x

    def project(self, model: Model, x: Tensor) -> Tensor:
        """Compute the projections of normalised images, without augmentation."""
        projections: Tensor = self.projector(encode(model, self.inputs(x)))
        return projections

    def wanted_samples(self) -> int:
        """Return the number of samples that `prepare` needs."""
        return max(2, self.regulariser.wanted_samples() if self.regulariser is not None else 0)

    def prepare(self, model: Model, x: Tensor, valid: Tensor | None = None) -> None:
        """Make the heads, if `features` was not given; call it before making an optimiser."""
        if valid is not None:
            raise ValueError(_NO_PADDING)
        if self.projector is None:
            with _evaluating(model):
                self._make_heads(encode(model, self.inputs(x[:2])).shape[1])
            for part in (self.projector, self.predictor):
                if part is not None:
                    part.to(x)
        if self.regulariser is not None:
            self.regulariser.prepare(model, self.compared(x))

    def compute(self, model: Model, batch: Batch) -> Tensor:
        """Compute L_SSL + λ L_reg."""
        if batch.valid is not None:
            raise ValueError(_NO_PADDING)
        if len(batch.x) < 2 and self.training:
            raise ValueError("x must hold at least two images, got one: use more images, or larger batches")
        if self.projector is None:
            if torch.is_grad_enabled():
                warnings.warn(
                    "the heads are made in this call, so that an optimiser made before does not train them: "
                    "pass features=..., or call objective.prepare(model, x) first",
                    stacklevel=5,
                )
            self.prepare(model, batch.x)
        views = [self._view(source, batch) for source in (batch.x, batch.view)]
        if self.regulariser is None or self.how == "separate":
            loss = self.compare(model, views, [encode(model, view) for view in views])
            if self.regulariser is None:
                return loss
            x, pair = (None if raw is None else self.compared(raw) for raw in (batch.x, batch.pair))
            whole = model if self.normalised else lambda x: model(self.inputs(x))
            return loss + self.weight * self.regulariser(whole, x, batch.generator, pair)
        return self._shared(self.regulariser, model, views, batch.generator)

    def _shared(
        self, regulariser: Objective, model: Model, views: list[Tensor], generator: Generator | None
    ) -> Tensor:
        """Compute both losses with x_tilde of the regulariser as the first view: its features serve both."""
        if not callable(getattr(unwrapped(model), "decode", None)):
            raise TypeError(
                "model must have decode(features) for how='shared': use dcs.models.Autoencoder(encoder, "
                "decoder), or how='separate'"
            )
        seen: list[tuple[Tensor, Tensor]] = []  # input and features of each call

        def predict(x_tilde: Tensor) -> Any:
            x_tilde = x_tilde if self.normalised else self.inputs(x_tilde)
            seen.append((x_tilde, encode(model, x_tilde)))
            return model.decode(seen[-1][1])  # type: ignore[attr-defined]  # as was just checked

        first, second = views
        if not self.normalised:
            first = getattr(self.augment, "denormalise", nn.Identity())(first)
        penalty = regulariser(predict, first, generator)
        if len(seen) != 1:
            raise ValueError(
                f"regulariser must call the model once for how='shared', {type(regulariser).__name__} "
                f"did so {len(seen)} times: use how='separate'"
            )
        x_tilde, features = seen[0]
        loss = self.compare(model, (x_tilde, second), (features, encode(model, second)))
        return loss + self.weight * penalty

    @torch.no_grad()
    def statistics(
        self,
        model: Model,
        x: Tensor,
        generator: Generator | None = None,
        pair: Tensor | None = None,
        valid: Tensor | None = None,  # noqa: ARG002
    ) -> dict[str, float]:
        """Return the spread of projections, which reveals collapse, and the regulariser's statistics."""
        found = {} if len(x) < 2 else {"projection_spread": direction_spread(self.project(model, x))}
        if self.regulariser is not None:
            second = None if pair is None else self.compared(pair)
            found |= self.regulariser.statistics(model, self.compared(x), generator, second)
        return found

    def describe(self) -> dict[str, Any]:
        """Describe the objective and its parts."""
        described = {**super().describe(), **self._settings()}
        del described["masker"]  # the view
        if self.regulariser is not None:
            described["regulariser"] = self.regulariser.describe()
        return {**described, "augment": repr(self.augment), "projector": list(self.widths)}

    def _settings(self) -> dict[str, Any]:
        return {
            "augment": self.augment,
            "regulariser": self.regulariser,
            "weight": self.weight,
            "how": self.how,
            "masker": self.masker,
            "normalised": self.normalised,
            "projector": self.widths,
            "predictor": self.hidden,
        }

    def _view(self, x: Tensor, batch: Batch) -> Tensor:
        view = self.augment(x, batch.generator)
        return view if self.masker is None else self.masker.view(view, batch.generator).seen

    def load_state_dict(self, state_dict: Mapping[str, Any], *arguments: Any, **options: Any) -> Any:
        """Load a state; the heads, and the target of BYOL, must exist already."""
        parts = sorted({key.partition(".")[0] for key in state_dict})
        made_later = [name for name in parts if getattr(self, name, self) is None]
        if made_later:
            raise RuntimeError(
                f"state_dict holds {', '.join(made_later)}, which the objective does not have yet: call "
                f"objective.prepare(model, x) first"
            )
        return super().load_state_dict(state_dict, *arguments, **options)

    def _make_heads(self, features: int) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.seed)  # torch.manual_seed would seed the GPUs too
            self.projector = _head((features, *self.widths), last_norm=self.last_norm)
            if self.hidden is not None:
                self.predictor = _head((self.widths[-1], self.hidden, self.widths[-1]), last_bias=True)

    def __repr__(self) -> str:
        # One line, without the layers of the heads.
        shown = ", ".join(f"{name}={value!r}" for name, value in self._settings().items())
        return f"{type(self).__name__}({shown})"


def _require_masks(regulariser: Objective, how: str) -> None:
    """Replace automatic views of a regulariser by masks, and refuse to split augmented images."""
    if not isinstance(regulariser, MaskedObjective):
        return
    if isinstance(regulariser.masker, AutomaticViews):
        regulariser.set_masker(BlindSpot(rho=0.3))
    elif isinstance(regulariser.masker, HoldsSigma) and how == "shared":
        raise ValueError(
            "regulariser must mask for how='shared': the noise of raw images, by which it splits, is not "
            "that of augmented ones; use BlindSpot(rho=0.3), or how='separate'"
        )


def _head(widths: Sequence[int], *, last_norm: bool = False, last_bias: bool = False) -> nn.Sequential:
    """Make linear layers with batch normalisation and ReLU between them; only the last may have a bias."""
    layers: list[nn.Module] = []
    *hidden, last = itertools.pairwise(widths)
    for width, next_width in hidden:
        layers += [nn.Linear(width, next_width, bias=False), nn.BatchNorm1d(next_width)]
        layers += [nn.ReLU(inplace=True)]
    layers.append(nn.Linear(*last, bias=last_bias))
    if last_norm:
        layers.append(nn.BatchNorm1d(last[1], affine=False))
    return nn.Sequential(*layers)


def direction_spread(features: Tensor) -> float:
    """Measure how far the directions of features differ between samples, relative to random directions.

    The deviation of z/‖z‖ over the samples, averaged over its d entries, times √d: 1 if the features point
    everywhere, 0 if all point alike; nan for one feature.
    """
    features = features.flatten(1).float()
    if features.shape[1] < 2:
        return float("nan")
    directions = nn.functional.normalize(features, dim=1)
    return float(directions.std(0).mean() * directions.shape[1] ** 0.5)


def encode(model: Any, x: Tensor) -> Tensor:
    """Compute the features of a model, (n, k), by its method `encode` or its module `encoder`."""
    call = getattr(model, "encode", None) or getattr(model, "encoder", None)
    if not callable(call):
        raise TypeError(
            f"model must have encode(x), or a module encoder, that returns features; {type(model).__name__} "
            f"has neither: use dcs.models.Autoencoder(encoder, decoder)"
        )
    features = call(x)
    if not isinstance(features, Tensor) or features.ndim < 2 or len(features) != len(x):
        got = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise ValueError(f"model.encode(x) must be a tensor ({len(x)}, k), got {got}: reshape it")
    return features.flatten(1)


def unwrapped(model: Any) -> Any:
    """Return the model without the wrappers that distribute or compile it."""
    for name in ("module", "_orig_mod"):
        model = getattr(model, name, model)
    return model


@contextlib.contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Use a model in evaluation mode and without gradients."""
    modes = {part: part.training for part in model.modules()} if isinstance(model, nn.Module) else {}
    try:
        for part in modes:
            part.training = False
        with torch.no_grad():
            yield
    finally:
        for part, training in modes.items():
            part.training = training

"""Objectives: losses bound to maskers, all called as objective(model, x, generator=None, pair=None)."""

import difflib
from collections.abc import Mapping
from typing import Any

from dcs.augmentation import Views
from dcs.masking import BlindSpot, Masker
from dcs.objectives.base import Batch, MaskedObjective, Objective
from dcs.objectives.baselines import MSE, SURE, Cosine, DenoisingAutoencoder, Noise2Noise, Noise2Void
from dcs.objectives.denoising_cosine import DenoisingCosine
from dcs.objectives.oracle import CosineOracle, DenoisingCosineOracle
from dcs.objectives.self_supervised import SelfSupervised
from dcs.objectives.siamese import BYOL, SimCLR, SimSiam
from dcs.objectives.views import ChosenViews

REGISTRY: dict[str, type[Objective]] = {
    "mse": MSE,
    "cosine": Cosine,
    "n2v": Noise2Void,
    "n2n": Noise2Noise,
    "sure": SURE,
    "dae": DenoisingAutoencoder,
    "dcs": DenoisingCosine,
}


# Self-supervised objectives, with what a name may add: masked views, or a regulariser.
SELF_SUPERVISED: dict[str, type[SelfSupervised]] = {"simsiam": SimSiam, "simclr": SimCLR, "byol": BYOL}
_REGULARISERS = ("n2v", "dae", "dcs")
_ADDED = ("", "+bsm", *(f"-{name}" for name in _REGULARISERS))
NAMES = (*REGISTRY, *(name + added for name in SELF_SUPERVISED for added in _ADDED))


def get(name: str, **options: Any) -> Objective:
    """Make an objective by its name, with the options of its class.

    Names are those in `REGISTRY`, and `simsiam`, `simclr` and `byol`, each alone or followed by `+bsm` (both
    views are masked) or by the name of a regulariser: `-n2v`, `-dae`, `-dcs`. There `masker` is what masks
    the views or the regulariser's samples, `regulariser_options` are those of the regulariser, and `augment`
    may be a dictionary of options of `dcs.augmentation.Views`.

    Example:
        >>> get("dae", sigma=0.2)
        DenoisingAutoencoder(sigma=0.2)
        >>> get("simsiam-dcs", weight=0.02, features=512).regulariser.masker.rho
        0.3
    """
    if name not in NAMES:
        near = difflib.get_close_matches(str(name).lower(), NAMES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(NAMES)}"
        raise ValueError(f"name must be that of an objective, got {name!r}: {hint}")
    if name in REGISTRY:
        return REGISTRY[name](**options)
    return _self_supervised(name, **options)


def masks(name: str) -> bool:
    """Whether the objective of a name takes a masker."""
    known = REGISTRY.get(name.partition("-")[2] or name)
    return name.endswith("+bsm") or (known is not None and issubclass(known, MaskedObjective))


def _self_supervised(
    name: str,
    *,
    augment: Any = None,
    masker: Masker | None = None,
    regulariser_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> SelfSupervised:
    if isinstance(augment, Mapping):
        augment = Views(**augment)
    base, _, added = name.partition("-")
    inner = dict(regulariser_options or {})
    if added:
        if masker is not None:
            inner["masker"] = masker
        options["regulariser"] = REGISTRY[added](**inner)
    elif inner:
        raise ValueError(f"regulariser_options must be left out: objective {name!r} has no regulariser")
    elif name.endswith("+bsm"):
        options["masker"] = BlindSpot(rho=0.1) if masker is None else masker
    elif masker is not None:
        options["masker"] = masker
    return SELF_SUPERVISED[base.removesuffix("+bsm")](augment, **options)


__all__ = [
    "BYOL",
    "MSE",
    "NAMES",
    "REGISTRY",
    "SELF_SUPERVISED",
    "SURE",
    "Batch",
    "ChosenViews",
    "Cosine",
    "CosineOracle",
    "DenoisingAutoencoder",
    "DenoisingCosine",
    "DenoisingCosineOracle",
    "MaskedObjective",
    "Noise2Noise",
    "Noise2Void",
    "Objective",
    "SelfSupervised",
    "SimCLR",
    "SimSiam",
    "get",
    "masks",
]

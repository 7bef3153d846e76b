"""Objectives: losses bound to maskers, all called as objective(model, x, generator=None, pair=None)."""

import difflib
from typing import Any

from dcs.objectives.base import Batch, MaskedObjective, Objective
from dcs.objectives.baselines import MSE, SURE, Cosine, DenoisingAutoencoder, Noise2Noise, Noise2Void
from dcs.objectives.denoising_cosine import DenoisingCosine
from dcs.objectives.oracle import CosineOracle, DenoisingCosineOracle

REGISTRY: dict[str, type[Objective]] = {
    "mse": MSE,
    "cosine": Cosine,
    "n2v": Noise2Void,
    "n2n": Noise2Noise,
    "sure": SURE,
    "dae": DenoisingAutoencoder,
    "dcs": DenoisingCosine,
}


def get(name: str, **options: Any) -> Objective:
    """Make an objective by its name in `REGISTRY`, with the options of its class.

    Example:
        >>> get("dae", sigma=0.2)
        DenoisingAutoencoder(sigma=0.2)
    """
    if name not in REGISTRY:
        near = difflib.get_close_matches(str(name).lower(), REGISTRY, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(REGISTRY)}"
        raise ValueError(f"name must be that of an objective, got {name!r}: {hint}")
    return REGISTRY[name](**options)


__all__ = [
    "MSE",
    "REGISTRY",
    "SURE",
    "Batch",
    "Cosine",
    "CosineOracle",
    "DenoisingAutoencoder",
    "DenoisingCosine",
    "DenoisingCosineOracle",
    "MaskedObjective",
    "Noise2Noise",
    "Noise2Void",
    "Objective",
    "get",
]

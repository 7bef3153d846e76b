"""Registry of protocols, each of which scores features or predictions, given as `Material`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dcs._registry import Registry, known
from dcs.evaluation._clustering import clustering
from dcs.evaluation._denoising import denoising
from dcs.evaluation._knn import knn
from dcs.evaluation._linear import linear
from dcs.evaluation._result import Result

_MOST_VOTERS = 200  # as in SimSiam


@dataclass(frozen=True)
class Material:
    """What a protocol scores.

    Args:
        train: Features and labels of the training samples; None without labels.
        test: Features and labels of the test samples.
        noisy: `dcs.data.Split` of noisy samples whose clean originals are known; None if there are none.
        model: Model that predicts clean samples.
    """

    train: Any = None
    test: Any = None
    noisy: Any = None
    model: Any = None


_GIVEN = ("material", "train", "test", "part", "encoder", "noisy", "clean", "model")
PROTOCOLS: Registry[Result] = Registry("protocol", given=_GIVEN)
"""Protocols by name, called as protocol(material, **options).

Traits: `needs`, either `labels` or `clean`; `extra`, an optional package that is needed, as (module, extra).
"""


@PROTOCOLS.register(
    "linear",
    summary="Accuracy of a linear classifier trained on the features with labels.",
    like=linear,
    needs="labels",
)
def _linear(material: Material, **options: Any) -> Result:
    return linear(material.train, material.test, **options)


@PROTOCOLS.register(
    "clustering",
    summary="Accuracy of clusters that are found without labels and matched to classes.",
    like=clustering,
    needs="labels",
    extra=("umap", "clustering"),
)
def _clustering(material: Material, **options: Any) -> Result:
    both = zip(material.train, material.test, strict=True)
    return clustering(tuple(np.concatenate(parts) for parts in both), **options)


@PROTOCOLS.register(
    "knn", summary="Accuracy of a vote of the nearest labelled samples.", like=knn, needs="labels"
)
def _knn(material: Material, **options: Any) -> Result:
    voters = max(1, min(_MOST_VOTERS, len(material.train[1]) // 5))
    return knn(material.train, material.test, **{"k": voters, **options})


@PROTOCOLS.register(
    "denoising",
    summary="Mean cosine between predictions and clean samples, times 100.",
    like=denoising,
    needs="clean",
)
def _denoising(material: Material, **options: Any) -> Result:
    low, high = material.noisy.clean.aminmax()
    options = {"data_range": float(high - low) or 1.0, **options}
    return denoising(material.noisy, model=material.model, **options)


def check_options(names: Iterable[str], options: Mapping[str, Any]) -> None:
    """Refuse an option that none of some protocols has, and values of the wrong type."""
    names = list(names)
    fields = dict.fromkeys(option for name in names for option in PROTOCOLS[name].options.model_fields)
    for option in options:
        if option not in fields:
            raise ValueError(f"option of {', '.join(names)} must be {known(option, fields)}")
    for name in names:
        PROTOCOLS.check(name, _own(name, options))


def score(name: str, material: Material, **options: Any) -> Result:
    """Score by the protocol of a name, with those of the options that it has and that are not None."""
    return PROTOCOLS.make(name, _own(name, options), material)


def _own(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    fields = PROTOCOLS[name].options.model_fields
    return {option: value for option, value in options.items() if option in fields and value is not None}

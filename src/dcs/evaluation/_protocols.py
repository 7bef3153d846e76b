"""Registry of protocols, each of which scores features or predictions, given as `Material`."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dcs._registry import Registry, known
from dcs.data import Split
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
        noisy: Noisy samples whose clean originals are known; None if there are none.
        model: Model that predicts clean samples.
    """

    train: tuple[Any, Any] | None = None
    test: tuple[Any, Any] | None = None
    noisy: Split | None = None
    model: Any = None


PROTOCOLS: Registry[Result] = Registry("protocol", given=("material",))
"""Protocols by name, called as protocol(material, **options).

Traits: `needs`, either `labels` or `clean`; `extra`, an optional package that is needed, as (module, extra).
"""


@PROTOCOLS.register(
    "linear", summary="Accuracy of a linear classifier trained on the features with labels.", needs="labels"
)
def _linear(material: Material, *, head: str = "lbfgs", seed: int = 0) -> Result:
    return linear(material.train, material.test, head=head, seed=seed)


@PROTOCOLS.register(
    "clustering",
    summary="Accuracy of clusters that are found without labels and matched to classes.",
    needs="labels",
    extra=("umap", "clustering"),
)
def _clustering(material: Material, *, seed: int = 0) -> Result:
    assert material.train is not None  # noqa: S101
    assert material.test is not None  # noqa: S101
    both = zip(material.train, material.test, strict=True)
    return clustering(tuple(np.concatenate(parts) for parts in both), seed=seed)


@PROTOCOLS.register("knn", summary="Accuracy of a vote of the nearest labelled samples.", needs="labels")
def _knn(material: Material, *, k: int | None = None) -> Result:
    assert material.train is not None  # noqa: S101
    voters = k or max(1, min(_MOST_VOTERS, len(material.train[1]) // 5))
    return knn(material.train, material.test, k=voters)


@PROTOCOLS.register(
    "denoising", summary="Mean cosine between predictions and clean samples, times 100.", needs="clean"
)
def _denoising(material: Material, *, data_range: float | None = None) -> Result:
    noisy = material.noisy
    assert noisy is not None  # noqa: S101
    assert noisy.clean is not None  # noqa: S101
    low, high = noisy.clean.aminmax()
    return denoising(noisy, model=material.model, data_range=data_range or float(high - low) or 1.0)


def check_options(names: Iterable[str], options: Iterable[str]) -> None:
    """Refuse an option that none of some protocols has, with the nearest right name."""
    names = list(names)
    fields = [option for name in names for option in PROTOCOLS[name].options.model_fields]
    for option in options:
        if option not in fields:
            raise ValueError(f"option of {', '.join(names)} must be {known(option, dict.fromkeys(fields))}")


def score(name: str, material: Material, **options: Any) -> Result:
    """Score by the protocol of a name, with those of the options that it has and that are not None."""
    fields = PROTOCOLS[name].options.model_fields
    given = {option: value for option, value in options.items() if option in fields and value is not None}
    return PROTOCOLS.make(name, given, material)

"""What a protocol returns: a score and all that produced it."""

import importlib.metadata
import json
import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import dcs

_ALWAYS = ("torch", "numpy", "scipy", "scikit-learn")


@dataclass(frozen=True)
class Result:
    """A score and all that produced it; one line of JSON.

    Args:
        protocol: linear, clustering, knn or denoising.
        score: In percent: of samples that were classified right or, for denoising, of the cosine.
        metrics: What else was measured.
        settings: Of the protocol, complete, with the numbers of samples, features and classes.
        seed: Of all that was drawn; None if nothing was.
        seconds: That it took, features included.
        versions: Of what decides the score.
    """

    protocol: str
    score: float
    metrics: dict[str, float]
    settings: dict[str, Any]
    seed: int | None
    seconds: float
    versions: dict[str, str]

    @classmethod
    def of(
        cls,
        protocol: str,
        score: float,
        *,
        metrics: dict[str, float] | None = None,
        settings: dict[str, Any] | None = None,
        seed: int | None = None,
        seconds: float = 0.0,
    ) -> "Result":
        """Make a result with the versions of this installation."""
        return cls(protocol, score, metrics or {}, settings or {}, seed, seconds, versions())

    def to_json(self) -> str:
        """Write it in one line; infinities and NaN, which JSON does not have, as null."""
        return json.dumps(_plain(asdict(self)), allow_nan=False)


def versions(*packages: str) -> dict[str, str]:
    """The versions of dcs-learn, of what protocols and encoders compute with, and of further packages."""
    return {
        "dcs-learn": dcs.__version__,
        **{package: importlib.metadata.version(package) for package in (*_ALWAYS, *packages)},
    }


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, np.generic):  # as loops over np.arange hand over
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value

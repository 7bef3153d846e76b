"""Result of a protocol: a score and everything that produced it."""

import importlib.metadata
from dataclasses import asdict, dataclass
from typing import Any

import dcs

_ALWAYS = ("torch", "numpy", "scipy", "scikit-learn")


@dataclass(frozen=True)
class Result:
    """A score and everything that produced it; one line of JSON.

    Args:
        protocol: Name of the protocol.
        score: Score in percent: of correctly classified samples or, for denoising, the cosine times 100.
        metrics: Further measurements.
        settings: Complete settings of the protocol, with the numbers of samples, features and classes.
        seed: Random seed; None if nothing is random.
        seconds: Time taken, including that of features.
        versions: Versions of the packages that determine the score.
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
        """Return the result as one line of JSON; infinities and NaN become null."""
        from pydantic_core import to_json

        # Numbers of NumPy come e.g. from loops over np.arange.
        return to_json(asdict(self), inf_nan_mode="null", fallback=lambda number: number.item()).decode()


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of dcs-learn, of the packages it computes with, and of further packages."""
    return {
        "dcs-learn": dcs.__version__,
        **{package: importlib.metadata.version(package) for package in (*_ALWAYS, *packages)},
    }

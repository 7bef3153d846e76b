"""Result of a protocol: a score and everything that produced it."""

import importlib.metadata
from dataclasses import asdict, dataclass, field
from typing import Any

import dcs

_ALWAYS = ("torch", "numpy", "scipy", "scikit-learn")


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of dcs-learn, of the packages it computes with, and of further packages."""
    return {
        "dcs-learn": dcs.__version__,
        **{package: importlib.metadata.version(package) for package in (*_ALWAYS, *packages)},
    }


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
        versions: Versions of the packages that determine the score; by default those of this installation.
    """

    protocol: str
    score: float
    metrics: dict[str, float] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    seconds: float = 0.0
    versions: dict[str, str] = field(default_factory=versions)

    @classmethod
    def of(cls, protocol: str, score: float, **fields: Any) -> "Result":
        """Make a result with the versions of this installation."""
        return cls(protocol, score, **fields)

    def to_json(self) -> str:
        """Return the result as one line of JSON; infinities and NaN become null."""
        from pydantic_core import to_json

        # Numbers of NumPy come e.g. from loops over np.arange.
        return to_json(asdict(self), inf_nan_mode="null", fallback=lambda number: number.item()).decode()

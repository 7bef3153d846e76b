"""Result of an inspection: numbers, verdicts, and advice; and how its numbers are written."""

import json
import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from torch import Tensor

HOLDS, FAILS, UNKNOWN = "holds", "does not hold", "cannot tell"


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval, approximately, over the choice of samples."""

    value: float
    low: float
    high: float


def estimate(value: float, error: float) -> Estimate:
    """Return an estimate of a number that is not negative, with an interval of so much to each side."""
    return Estimate(value, max(0.0, value - error), value + error)


@dataclass(frozen=True)
class Sigma:
    """Noise level: the standard deviation of the noise, in the units of the data.

    Args:
        value: Best estimate; None if there is none.
        low: Lower end of its interval, which covers the disagreement of the estimators.
        high: Upper end of its interval.
        chen2015: Estimate from the smallest variances of patches; see `dcs.noise.estimate_sigma`.
        mad: Estimate from the median of the finest detail.
        calm: Estimate from the residuals in flat regions.
        agree: Whether the estimates agree within 15 %.
        why: Explanation in words.
        at_least: Whether `value` is a lower bound, as neighbours share noise that no estimate fully covers.
    """

    value: float | None
    low: float | None
    high: float | None
    chen2015: Estimate | None
    mad: Estimate | None
    calm: Estimate | None
    agree: bool
    why: str
    at_least: bool = False


@dataclass(frozen=True)
class Check:
    """An assumption of the loss about the noise.

    Args:
        name: `zero_mean`, `isotropy`, `light_tails` or `independence`.
        title: The assumption in words.
        verdict: `holds`, `does not hold` or `cannot tell`.
        because: Evidence in words.
        meaning: Consequence for the user.
        numbers: Numbers on which the verdict rests.
    """

    name: str
    title: str
    verdict: str
    because: str
    meaning: str
    numbers: dict[str, float]


@dataclass(frozen=True)
class Distribution:
    """Distribution of a quantity over the samples.

    Args:
        quantiles: Quantiles by percentage: 5, 25, 50, 75 and 95.
        edges: Edges of the bars of a histogram, one more than there are bars.
        counts: Number of samples in each bar.
        infinite: Number of samples for which it is infinite, as both views are equal.
    """

    quantiles: dict[str, float]
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    infinite: int = 0


@dataclass(frozen=True)
class Advice:
    """Recommended training.

    Args:
        objective: Name of the objective.
        views: Kind of view: `split`, `blind_spot`, `amplitude` or `none`.
        rho: Share of the entries to mask; None without masking.
        window: Largest distance of the value that replaces a masked one; None without masking.
        arguments: Arguments of `dcs fit`, after the data and --out.
        why: Reason in words.
        warnings: Caveats in words.
        ready: Whether the data is ready for training; if not, `why` says what to do first.
    """

    objective: str
    views: str
    rho: float | None
    window: int | None
    arguments: tuple[str, ...]
    why: str
    warnings: tuple[str, ...]
    ready: bool = True


@dataclass(frozen=True, eq=False)
class Inspection:
    """How noisy data is, which assumptions of the loss hold, and which training is recommended.

    Args:
        state: `clean`, `slight`, `noisy` or `unknown`.
        summary: The answer in one or two sentences.
        shape: Shape of one sample, as it was inspected.
        samples: Number of samples.
        inspected: Number of samples that were inspected.
        ordered: Whether neighbouring entries are more similar than others; otherwise little can be known.
        notes: What was left out or changed before the inspection.
        signal: Estimated standard deviation of the data without the noise, around the mean.
        snr: Estimated ratio of signal to noise; None if unknown.
        sigma: Noise level.
        noise_by_brightness: Pairs of brightness and noise level in flat regions.
        quiet_share: See `dcs.noise.quiet_share`; None without an estimate of σ, or if samples are too small.
        checks: Verdicts on the assumptions.
        c: Distribution of ĉ for the recommended views; None if they cannot be made.
        k: Distribution of the expected cosine.
        dim: Number of entries that are compared.
        advice: Recommended training.
        domain: `spectrogram` or `waveform`, for recordings.
        offset: Mean of all values, if it is large compared with their deviation; subtract it before training.
        examples: Some samples and their residuals, (m, ...) each; not in JSON.
    """

    state: str
    summary: str
    shape: tuple[int, ...]
    samples: int
    inspected: int
    ordered: bool
    notes: tuple[str, ...]
    signal: float
    snr: float | None
    sigma: Sigma
    noise_by_brightness: tuple[tuple[float, float], ...]
    quiet_share: float | None
    checks: tuple[Check, ...]
    c: Distribution | None
    k: Distribution | None
    dim: float | None
    advice: Advice
    domain: str | None = None
    offset: float | None = None
    examples: tuple[Tensor, Tensor] | None = field(default=None, repr=False)

    def __getitem__(self, name: str) -> Check:
        checks = {check.name: check for check in self.checks}
        if name not in checks:
            raise KeyError(f"{name!r} is none of {', '.join(checks)}")
        return checks[name]

    def as_dict(self) -> dict[str, Any]:
        """Return all but the examples as plain values, with None for NaN and infinities."""
        values = asdict(replace(self, examples=None))
        del values["examples"]
        plain: dict[str, Any] = json.loads(json.dumps(values), parse_constant=lambda _: None)
        return plain

    def to_json(self) -> str:
        """Return the result as one line of JSON."""
        return json.dumps(self.as_dict(), allow_nan=False)


def number(value: float | None) -> str:
    """Write a number with three digits; "–" stands for one that is unknown."""
    if value is None or not math.isfinite(value):
        return "–"
    return "0" if abs(value) < 1e-300 else f"{value:.3g}"


def size(found: Inspection, times: str = "x") -> str:
    """Write the size of a sample."""
    if found.domain == "spectrogram" and len(found.shape) == 2:
        return f"{found.shape[0]} frames {times} {found.shape[1]} bands"
    return f" {times} ".join(map(str, found.shape)) + (" values" if times == "×" else "")


def strength(sigma: Sigma) -> str:
    """Write the noise level and its interval, as far as they are known."""
    if sigma.value is None or sigma.low is None or sigma.high is None:
        return "unknown"
    if number(sigma.high) == "0":
        return "too small to be measured"
    if sigma.value < 0.01 * sigma.high:
        return f"close to 0, at most {number(sigma.high)}"
    if sigma.at_least:
        return f"at least {number(sigma.value)}, and at most {number(sigma.high)}"
    if sigma.low == 0:
        return f"at most {number(sigma.high)}"
    return f"{number(sigma.value)}, most likely between {number(sigma.low)} and {number(sigma.high)}"

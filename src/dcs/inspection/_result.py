"""What an inspection finds: plain numbers, verdicts in words, and advice."""

import json
import math
from dataclasses import asdict, dataclass, field
from typing import Any

from torch import Tensor

HOLDS, FAILS, UNKNOWN = "holds", "does not hold", "cannot tell"


@dataclass(frozen=True)
class Estimate:
    """A number with its interval of about 95 %, as it varies with the samples looked at."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Sigma:
    """The strength of the noise, as a standard deviation in the units of the data.

    Args:
        value: The best there is; None if nothing can be said.
        low: Its interval, which covers where the estimators disagree.
        high: The same.
        chen2015: By the smallest variances of patches; see `dcs.noise.estimate_sigma`.
        mad: By the median of the finest detail.
        calm: By what calm places leave unexplained.
        agree: Whether they agree, to 15 %.
        why: In words.
        at_least: Whether `value` is a lower bound: neighbours share noise, and no estimate sees all of it.
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
    """One thing that the loss assumes of the noise.

    Args:
        name: zero_mean, isotropy, light_tails or independence.
        title: In words.
        verdict: `holds`, `does not hold` or `cannot tell`.
        because: What was seen.
        meaning: What it means for the user.
        numbers: What the verdict rests on.
    """

    name: str
    title: str
    verdict: str
    because: str
    meaning: str
    numbers: dict[str, float]


@dataclass(frozen=True)
class Distribution:
    """How a quantity is spread over the samples.

    Args:
        quantiles: By the share of samples below, in percent: 5, 25, 50, 75 and 95.
        edges: Of the bars of the histogram, one more than there are bars.
        counts: Samples in each.
        infinite: Samples where it has no bound: both views are the same.
    """

    quantiles: dict[str, float]
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    infinite: int = 0


@dataclass(frozen=True)
class Advice:
    """What to do with this data.

    Args:
        objective: The name of what to minimise.
        views: How the second view is made: split, blind_spot, amplitude or none.
        rho: Share of the entries to mask, where they are.
        window: Reach of the window that masked entries are replaced from, where they are.
        arguments: For `dcs fit`, after the data and --out.
        why: In words.
        warnings: What to know beforehand.
        ready: Whether training can begin; if not, `why` says what to do before.
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
    """How noisy data is, what of the loss's assumptions holds, and what to do.

    Args:
        state: clean, slight, noisy or unknown.
        summary: The answer in a sentence or two.
        shape: Of one sample, as it was looked at.
        samples: That there are.
        inspected: That were looked at.
        ordered: Whether neighbouring entries are more alike than others; without that little can be said.
        notes: What was left out or changed before looking.
        signal: Deviation of the data around its mean without the noise, as far as it is known.
        snr: About how many times stronger the signal is than the noise; None if unknown.
        sigma: The strength of the noise.
        noise_by_brightness: Of calm places: the brightness, and the noise's deviation there.
        quiet_share: See `dcs.noise.quiet_share`; None without an estimate of σ, or if samples are too small.
        checks: The assumptions.
        c: ĉ of the samples, for the recommended views; None if they cannot be made.
        k: The expected cosine that belongs to it.
        dim: Entries that are compared, for k.
        advice: What to do.
        domain: `spectrogram` or `waveform`, for recordings.
        offset: The mean of all values, if it dwarfs how they differ; it should be taken out before training.
        examples: Some samples and what their neighbours do not foretell, (m, ...) each; not in JSON.
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
        for check in self.checks:
            if check.name == name:
                return check
        raise KeyError(f"{name!r} is none of {', '.join(check.name for check in self.checks)}")

    def as_dict(self) -> dict[str, Any]:
        """All but the examples as plain values; NaN and infinities, which JSON does not have, as None."""
        parts = {name: value for name, value in self.__dict__.items() if name != "examples"}
        plain: dict[str, Any] = _plain({name: _open(value) for name, value in parts.items()})
        return plain

    def to_json(self) -> str:
        """Write it in one line."""
        return json.dumps(self.as_dict(), allow_nan=False)


def _open(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_open(inner) for inner in value]
    return asdict(value) if hasattr(value, "__dataclass_fields__") else value


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

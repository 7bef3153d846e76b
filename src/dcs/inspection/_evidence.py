"""Measurements of the data, on which the verdicts rest."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from dcs.inspection._residuals import (
    LARGE,
    Level,
    NoiseSpread,
    NoisyPart,
    Residuals,
    correlation_at,
    find_noisy_part,
    levels,
    pool,
    residuals,
    spread_over_positions,
    spread_over_samples,
)
from dcs.inspection._result import Estimate, estimate
from dcs.noise import estimate_sigma, quiet_share
from dcs.noise.level import as_images
from dcs.objectives.views import MOST_QUIET

VISIBLE = 0.05  # share of the data's deviation below which noise is like rounding and fine detail
_GROUPS = 4
_T = 3.18  # Student's t for 95 % and that many groups
_SAME = 1.2  # largest ratio of far to near residuals of noise
_OFFSET = 5  # times the deviation of the data: all else then changes cosines by at most 4 %


@dataclass(frozen=True, eq=False)
class Evidence:
    """Measurements of the data."""

    deviation: float  # standard deviation of all entries
    square: float  # mean square of all entries
    mean: float  # mean of all entries
    at_ends: float  # share of the entries at an end of the range, if they are many
    clipped: float  # share of the entries that were clipped at an end of the range
    ordered: bool = False  # whether entries have neighbours; if not, nothing below is known
    chen2015: Estimate | None = None  # estimate of σ; None if it is not applicable
    mad: Estimate | None = None  # estimate of σ; None if it is not applicable
    quiet: float | None = None  # `quiet_share` for the estimate by chen2015
    near: Residuals | None = None  # of predictions from all neighbours; None if samples are too few or small
    by_position: bool = False  # whether each position has its own prediction
    levels: Sequence[Level] = ()  # of the residuals in flat regions, from dark to bright
    correlations: tuple[float, ...] = (math.nan,) * 3  # of far residuals 1, 2 and 3 entries apart
    is_noise: bool = False  # whether these are certainly noise, as near and far residuals agree about it
    correlated: bool = False  # whether there is noise, or texture, that neighbours share
    part: NoisyPart | None = None  # part of the data that is, or may be, much noisier than the rest

    @property
    def offset(self) -> float | None:
        """Mean of all values, if it is large compared with their standard deviation."""
        return self.mean if abs(self.mean) > _OFFSET * self.deviation > 0 else None

    @property
    def floor(self) -> Level | None:
        """Weakest level, pooled with those that are not significantly stronger."""
        if not self.levels:
            return None
        first, *others = sorted(self.levels, key=_deviation)
        floor = first  # too low by chance if it has few places
        for number, at in enumerate(others, 1):
            if at.deviation - floor.deviation > 3 * math.hypot(at.error, floor.error):
                break
            floor = pool([first, *others[:number]])
        return floor

    @property
    def for_tails(self) -> Level | None:
        """Level at which extreme values are counted.

        If the noise is uneven, that is the stronger end; otherwise the weak levels, which hold no signal.
        """
        floor = self.floor
        if floor is None:
            return None
        if self.correlated:  # residuals hold some signal, which makes tails heavier
            alike = [at for at in self.levels if at.deviation <= 1.2 * floor.deviation]
            return min(alike, key=lambda at: at.kurtosis)
        if self.noisier:
            return self.noisier.at
        strength = max(map(_deviation, self.ends_of_range)) if self.is_uneven else floor.deviation
        alike = [at for at in self.levels if abs(at.deviation - strength) <= 0.1 * strength + 2 * at.error]
        return pool(alike or [floor])

    @property
    def ends_of_range(self) -> tuple[Level, ...]:
        """Weakest level among the dark ones, and among the bright ones; none if there are too few levels."""
        if len(self.levels) < 2:
            return ()
        low, high = self.levels[0].brightness, self.levels[-1].brightness
        dark = [at for at in self.levels if at.brightness <= low + 0.4 * (high - low)]
        bright = [at for at in self.levels if at.brightness >= low + 0.6 * (high - low)]
        return min(dark, key=_deviation), min(bright, key=_deviation)

    @property
    def evenness(self) -> float | None:
        """Ratio of the weakest level to the stronger one of the two ends of the range of brightness."""
        if not self.ends_of_range:
            return None
        weakest, strongest = min(self.levels, key=_deviation), max(self.ends_of_range, key=_deviation)
        ratio = weakest.deviation / strongest.deviation if strongest.deviation > 0 else 1.0
        chance = 4 * math.hypot(weakest.error, strongest.error)
        return max(ratio, 0.8) if strongest.deviation - weakest.deviation < chance else ratio

    @property
    def is_uneven(self) -> bool:
        """Whether the noise is clearly stronger at some brightness than at another."""
        known = not self.noisier and not self.correlated
        return known and self.evenness is not None and self.evenness < 0.6

    @cached_property
    def spreads(self) -> dict[str, NoiseSpread]:
        """Noise in flat regions, compared by sample and by position, as far as that is possible."""
        if self.near is None or self.correlated:
            return {}
        by_sample = None if self.by_position else spread_over_samples(self.near)
        found = {"sample": by_sample, "position": spread_over_positions(self.near, VISIBLE * self.deviation)}
        return {name: spread for name, spread in found.items() if spread is not None}

    @property
    def differing(self) -> dict[str, NoiseSpread]:
        """Those of the spreads that show that the noise differs."""
        return {name: spread for name, spread in self.spreads.items() if spread.differs}

    @property
    def noisier(self) -> NoisyPart | None:
        """Samples, or a part of each, that are certainly much noisier than the rest."""
        return self.part if self.part and self.part.sure else None

    @property
    def perhaps_noisier(self) -> NoisyPart | None:
        """Samples, or a part of each, that are much noisier than the rest, or have fine detail."""
        return self.part if self.part and not self.part.sure else None

    @property
    def varies(self) -> bool:
        """Whether the noise differs by brightness, sample or position."""
        return self.is_uneven or bool(self.differing or self.noisier)

    @property
    def too_quiet(self) -> bool:
        """Whether too many windows are quiet for noise of one level, by the rule that training applies."""
        return self.quiet is not None and self.quiet > MOST_QUIET

    @property
    def noise(self) -> float | None:
        """Noise level over all entries, as flat regions show it; None if there are none."""
        floor, part = self.floor, self.noisier
        if floor is None:
            return None
        found = [floor.deviation]
        if self.correlated:  # each estimate covers only a part of it
            return max(found + [one.value for one in (self.chen2015, self.mad) if one])
        if part:
            found.append(math.sqrt(part.share * part.at.deviation**2 + (1 - part.share) * floor.deviation**2))
        found += [spread.mean for spread in self.differing.values()]
        if self.is_uneven:
            dark, bright = self.ends_of_range
            width = bright.brightness - dark.brightness
            place = min(1.0, max(0.0, (self.mean - dark.brightness) / width)) if width > 0 else 0.5
            square = dark.deviation**2 + place * (bright.deviation**2 - dark.deviation**2)
            found[0] = math.sqrt(square)
        return max(found)

    def signal(self, noise: float) -> float:
        """Return the standard deviation of the data without its noise."""
        return math.sqrt(max(0.0, self.deviation**2 - noise**2))


def _deviation(at: Level) -> float:
    return at.deviation


def gather(x: Tensor, ndim: int | None) -> Evidence:
    """Measure data (n, ...) whose last `ndim` axes have neighbours; None if entries have no order."""
    entries = x.double()
    deviation, square, mean = float(entries.std()), float(entries.square().mean()), float(entries.mean())
    if ndim is None:
        return Evidence(deviation, square, mean, *_at_ends(x, deviation / 10))
    images, visible = as_images(x, ndim), VISIBLE * deviation
    chen, mad = (_estimate(x, method, ndim) for method in ("chen2015", "mad"))
    sigma = chen.value if chen else 0.0
    share = quiet_share(x, sigma, ndim=ndim) if sigma > 0 else math.nan
    near, far, by_position = residuals(images)
    flat, far_levels = levels(near), levels(far)
    found = Evidence(deviation, square, mean, *_at_ends(x, sigma or deviation / 10), ordered=True)
    quiet = None if math.isnan(share) else share
    found = replace(
        found, chen2015=chen, mad=mad, quiet=quiet, near=near, by_position=by_position, levels=flat
    )
    if near is None or not flat:
        return found
    if far is not None and far_levels:
        found = _with_correlations(found, far, far_levels, by_position or min(images.shape[2:]) >= LARGE)
    part = None if by_position else find_noisy_part(images, near, min(map(_deviation, flat)), visible)
    if part is None or (part.by_brightness and found.is_uneven):  # the better explanation
        return found
    found = replace(found, part=part)
    if part.sure:  # its residuals are compared with their neighbours instead of flat regions
        is_noise, correlations = abs(part.correlations[0]) < 0.15, part.correlations
        found = replace(found, correlations=correlations, is_noise=is_noise, correlated=False, levels=flat)
    return found


def _with_correlations(found: Evidence, far: Residuals, far_levels: list[Level], flat: bool) -> Evidence:
    """Add the correlations of neighbours; `flat` is whether flat regions are found in such data."""
    visible, least = VISIBLE * found.deviation, min(map(_deviation, found.levels))
    at, is_noise = _where_to_compare(far, found.levels, far_levels, visible)
    correlations = tuple(correlation_at(far, at.places, lag) for lag in (1, 2, 3))
    correlated = False
    if is_noise:
        # Stronger levels may be signal, which neighbours share, too.
        correlated = abs(correlations[0]) > 0.25 and at.deviation <= 1.5 * least
    elif flat:
        # Sparse signal has heavy tails, unlike noise, which is everywhere; weak residuals prove nothing.
        strong = at.deviation > 0.12 * found.deviation and at.kurtosis < 4
        # Of white noise, three estimates agree closely.
        three = [least, *(one.value for one in (found.chen2015, found.mad) if one)]
        white = len(three) == 3 and min(three) > max(visible, 0.92 * max(three))
        correlated = strong and correlations[0] > 0.3 and not white
    levels = far_levels if correlated else found.levels  # near entries predict noise that they share
    return replace(found, correlations=correlations, is_noise=is_noise, correlated=correlated, levels=levels)


def _where_to_compare(
    source: Residuals, near: Sequence[Level], far: list[Level], visible: float
) -> tuple[Level, bool]:
    """Return the far level at which to compare neighbours, and whether it is certainly noise.

    It is one at which near and far residuals agree about the strength of the noise, with the smallest
    correlation, as signal adds to that; or the weakest level, if they agree nowhere.
    """
    found = {}
    for at in far:
        beside = min(near, key=lambda other: abs(other.brightness - at.brightness))
        if visible < at.deviation <= _SAME * beside.deviation:
            correlation = abs(correlation_at(source, at.places, 1))
            if not math.isnan(correlation):
                found[correlation] = at
    return (found[min(found)], True) if found else (min(far, key=_deviation), False)


def _estimate(x: Tensor, method: str, ndim: int) -> Estimate | None:
    """Return an estimate with an interval by the jackknife over a few groups of samples."""
    try:
        value = estimate_sigma(x, method, ndim=ndim)
    except ValueError:  # too few or too small samples
        return None
    group = torch.arange(len(x), device=x.device) % _GROUPS
    try:
        without = [estimate_sigma(x[group != number], method, ndim=ndim) for number in range(_GROUPS)]
    except (ValueError, RuntimeError):
        return estimate(value, math.inf)
    variance = float(torch.tensor(without).double().var(correction=0))
    return estimate(value, _T * math.sqrt((_GROUPS - 1) * variance))


def _at_ends(x: Tensor, sigma: float) -> tuple[float, float]:
    """Return the shares of the entries at an end of the range, if they are many, and of those clipped there.

    Clipped values accumulate at the end, with many others up to σ/2 beside it. Photon counts have as many
    values at 1 as at 0, and a background without noise has hardly any values beside it.
    """
    at_ends = clipped = 0.0
    for values in (x.reshape(-1), -x.reshape(-1)):
        above = values - values.min()
        count = int((above == 0).sum())
        share = count / len(values)
        if share > 0.01:
            at_ends += share
            beside = above[(above > 0) & (above <= sigma / 2)]
            if len(beside) > 0.2 * count and count > 8 * int((beside == beside.min()).sum()):
                clipped += share
    return at_ends, clipped

"""Measurements of the data, on which the verdicts rest."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from dcs.inspection._noisy_part import NoisyPart, find_noisy_part
from dcs.inspection._residuals import (
    LARGE,
    Level,
    NoiseSpread,
    Residuals,
    correlation_at,
    levels,
    pool,
    residuals,
    spread_over_positions,
    spread_over_samples,
    tiles_of,
)
from dcs.inspection._result import Estimate
from dcs.noise import estimate_sigma, quiet_share
from dcs.noise.level import as_images
from dcs.objectives.views import MOST_QUIET

Triple = tuple[float, float, float]
_GROUPS = 4
_T = 3.18  # Student's t for 95 % and that many groups
_SAME = 1.2  # largest ratio of far to near residuals of noise


@dataclass(frozen=True, eq=False)
class Evidence:
    """Measurements of the data."""

    deviation: float  # standard deviation of all entries
    square: float  # mean square of all entries
    mean: float  # mean of all entries
    ends: tuple[Triple, Triple]  # what `_ends` counts at the smallest and at the largest value
    ordered: bool = True  # whether entries have neighbours
    chen2015: Estimate | None = None  # estimate of σ; None if it is not applicable
    mad: Estimate | None = None  # estimate of σ; None if it is not applicable
    quiet: float | None = None  # `quiet_share` for the estimate by chen2015
    near: Residuals | None = None  # of predictions from all neighbours; None if samples are too few or small
    far: Residuals | None = None  # of predictions from distant entries only
    near_levels: list[Level] = field(default_factory=list)  # levels of the near residuals in flat regions
    far_levels: list[Level] = field(default_factory=list)  # levels of the far residuals in flat regions
    by_position: bool = False  # whether each position has its own prediction
    correlations: Triple = (math.nan,) * 3  # of the far residuals 1, 2 and 3 entries apart, at `compared_at`
    compared_at: Level | None = None  # level of the far residuals at which they were compared
    is_noise: bool = False  # whether that level is certainly noise, as near and far residuals agree about it
    correlated: bool = False  # whether there is noise, or texture, that neighbours share
    part: NoisyPart | None = None  # part of the data that is, or may be, much noisier than the rest

    @property
    def levels(self) -> list[Level]:
        """Levels of the noise: far ones if neighbours share it, as near entries then predict it."""
        return self.far_levels if self.correlated else self.near_levels

    @property
    def floor(self) -> Level | None:
        """Weakest level, pooled with those that are not significantly stronger."""
        if not self.levels:
            return None
        first, *others = sorted(self.levels, key=lambda at: at.deviation)
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
        ends, floor = self.ends_of_range, self.floor
        if floor is None:
            return None
        if self.correlated:  # residuals hold some signal, which makes tails heavier
            alike = [at for at in self.levels if at.deviation <= 1.2 * floor.deviation]
            return min(alike, key=lambda at: at.kurtosis)
        if self.part is not None and self.part.sure:
            return self.part.at
        strength = floor.deviation
        if ends is not None and self.is_uneven:
            strength = max(end.deviation for end in ends)
        alike = [at for at in self.levels if abs(at.deviation - strength) <= 0.1 * strength + 2 * at.error]
        return pool(alike or [floor])

    @property
    def evenness(self) -> float | None:
        """Ratio of the weakest level to the stronger one of the two ends of the range of brightness."""
        ends = self.ends_of_range
        if ends is None:
            return None
        weakest = min(self.levels, key=lambda at: at.deviation)
        strongest = max(ends, key=lambda at: at.deviation)
        ratio = weakest.deviation / strongest.deviation if strongest.deviation > 0 else 1.0
        chance = 4 * math.hypot(weakest.error, strongest.error)
        return max(ratio, 0.8) if strongest.deviation - weakest.deviation < chance else ratio

    @property
    def is_uneven(self) -> bool:
        """Whether the noise is clearly stronger at some brightness than at another."""
        if self.partly_noisy:
            return False
        return self.evenness is not None and self.evenness < 0.6 and not self.correlated

    @property
    def ends_of_range(self) -> tuple[Level, Level] | None:
        """Weakest level among the dark ones, and among the bright ones."""
        if len(self.levels) < 2:
            return None
        low, high = self.levels[0].brightness, self.levels[-1].brightness
        dark = [at for at in self.levels if at.brightness <= low + 0.4 * (high - low)]
        bright = [at for at in self.levels if at.brightness >= low + 0.6 * (high - low)]
        return min(dark, key=lambda at: at.deviation), min(bright, key=lambda at: at.deviation)

    @property
    def clipped(self) -> float:
        """Share of the values that were clipped at an end of the range.

        Clipped values accumulate at the end, with many others just beside it. Photon counts have as many
        values at 1 as at 0, and a background without noise has hardly any values beside it.
        """
        return sum(
            share
            for share, beside, following in self.ends
            if share > 0.01 and beside > 0.2 * share and share > 8 * following
        )

    @cached_property
    def between_samples(self) -> NoiseSpread | None:
        """Noise in the flat regions of each sample, compared between samples."""
        if self.near is None or self.correlated or self.by_position:
            return None
        return spread_over_samples(self.near)

    @cached_property
    def between_positions(self) -> NoiseSpread | None:
        """Noise in the flat regions of each cell of a grid, compared between cells."""
        return None if self.near is None or self.correlated else spread_over_positions(self.near)

    @property
    def samples_differ(self) -> bool:
        """Whether some samples are clearly less noisy than the median one."""
        found = self.between_samples
        if found is None:
            return False
        # The mean of N squares of normal numbers is below 1 - 1.64 √(2/N) once in twenty times, or further
        # below with outliers. Of few samples, the least noisy one is compared, with a stricter limit.
        share = 0.75 if found.samples >= 20 else 0.5
        chance = 1.64 * math.sqrt(max(2.0, found.kurtosis + 2) / found.places)
        return found.least < share * found.typical * math.sqrt(max(0.0, 1 - chance))

    @property
    def partly_noisy(self) -> bool:
        """Whether some samples, or a part of each, are certainly much noisier than the rest."""
        return self.part is not None and self.part.sure

    @property
    def may_be_partly_noisy(self) -> bool:
        """Whether they may be noisier, or have fine detail."""
        return self.part is not None and not self.part.sure

    @property
    def too_quiet(self) -> bool:
        """Whether too many windows are quiet for noise of one level, by the rule that training applies."""
        return self.quiet is not None and self.quiet > MOST_QUIET

    @property
    def positions_differ(self) -> bool:
        """Whether the noise is weaker at some positions, by more than signal could explain."""
        found = self.between_positions
        if found is None or not found.least > 0.05 * self.deviation:  # otherwise it may not be noise
            return False
        return found.least < 0.45 * found.typical

    @property
    def varies(self) -> bool:
        """Whether the noise differs by brightness, sample or position."""
        return self.is_uneven or self.samples_differ or self.positions_differ or self.partly_noisy


def gather(x: Tensor, ndim: int | None) -> Evidence:
    """Measure data (n, ...)."""
    images = as_images(x, ndim)
    ndim = images.ndim - 2
    deviation = float(x.double().std())
    chen = _estimate(x, lambda some: estimate_sigma(some, ndim=ndim))
    mad = _estimate(x, lambda some: estimate_sigma(some, "mad", ndim=ndim))
    quiet = None if chen is None or not chen.value > 0 else quiet_share(x, chen.value, ndim=ndim)
    quiet = None if quiet is None or math.isnan(quiet) else quiet
    try:
        near, far, by_position = residuals(images)
    except ValueError:
        near, far, by_position = None, None, False
    near_levels = [] if near is None else levels(near)
    far_levels = [] if far is None else levels(far)
    correlations, compared_at, is_noise, correlated = (math.nan,) * 3, None, False, False
    if far is not None and near_levels and far_levels:
        compared_at, is_noise = _where_to_compare(far, near_levels, far_levels, 0.05 * deviation)
        correlations = tuple(correlation_at(far, compared_at.places, lag) for lag in (1, 2, 3))  # type: ignore[assignment]
        if is_noise:
            # Stronger levels may be signal, which neighbours share, too.
            weak = compared_at.deviation <= 1.5 * min(at.deviation for at in near_levels)
            correlated = abs(correlations[0]) > 0.25 and weak
        elif by_position or min(images.shape[2:]) >= LARGE:
            # Sparse signal has heavy tails, unlike noise, which is everywhere; weak residuals prove nothing.
            strong = compared_at.deviation > 0.12 * deviation and compared_at.kurtosis < 4
            shared = correlations[0] > 0.3
            correlated = strong and shared and not _is_white(near_levels, chen, mad, 0.05 * deviation)
    found = replace(
        gather_unordered(x, (chen.value if chen else 0.0) or deviation / 10),
        ordered=True,
        chen2015=chen,
        mad=mad,
        quiet=quiet,
        near=near,
        far=far,
        near_levels=near_levels,
        far_levels=far_levels,
        by_position=by_position,
        correlations=correlations,
        compared_at=compared_at,
        is_noise=is_noise,
        correlated=correlated,
    )
    return _with_part(images, found)


def _with_part(images: Tensor, found: Evidence) -> Evidence:
    """Add the noisier part; its residuals are compared with their neighbours instead of flat regions."""
    if found.near is None or not found.near_levels or found.by_position:
        return found
    tiles, flat = tiles_of(images), min(at.deviation for at in found.near_levels)
    whole = tiles.shape[1:] == images.shape[2:]
    part = find_noisy_part(tiles, found.near.value, found.near.predicted, flat, 0.05 * found.deviation, whole)
    if part is None or (part.by_brightness and found.is_uneven):  # the better explanation
        return found
    found = replace(found, part=part)
    if not part.sure:
        return found
    is_noise, correlations = abs(part.correlations[0]) < 0.15, part.correlations
    return replace(found, correlations=correlations, compared_at=part.at, is_noise=is_noise, correlated=False)


def gather_unordered(x: Tensor, sigma: float | None = None) -> Evidence:
    """Measure what does not depend on neighbours; `sigma` is the noise level, if it is known."""
    entries = x.double()
    deviation, square, mean = float(entries.std()), float(entries.square().mean()), float(entries.mean())
    return Evidence(deviation, square, mean, _ends(x, sigma or deviation / 10), ordered=False)


def _where_to_compare(
    source: Residuals, near: list[Level], far: list[Level], visible: float
) -> tuple[Level, bool]:
    """Return the far level at which to compare neighbours, and whether it is certainly noise.

    It is one at which near and far residuals agree about the strength of the noise, with the smallest
    correlation, as signal adds to that; or the weakest level, if they agree nowhere.
    """

    def beside(at: Level) -> Level:
        return min(near, key=lambda other: abs(other.brightness - at.brightness))

    noise = [at for at in far if visible < at.deviation <= _SAME * beside(at).deviation]
    found = {abs(correlation_at(source, at.places, 1)): at for at in noise}
    found = {correlation: at for correlation, at in found.items() if not math.isnan(correlation)}
    if found:
        return found[min(found)], True
    return min(far, key=lambda at: at.deviation), False


def _is_white(near: list[Level], chen: Estimate | None, mad: Estimate | None, visible: float) -> bool:
    """Return whether three estimates agree closely, as they do for white noise."""
    least = min(at.deviation for at in near)
    strengths = [least, *(one.value for one in (chen, mad) if one is not None)]
    return len(strengths) == 3 and min(strengths) > max(visible, 0.92 * max(strengths))


def _estimate(x: Tensor, function: Callable[[Tensor], float]) -> Estimate | None:
    """Return an estimate with an interval by the jackknife over a few groups of samples."""
    try:
        value = function(x)
    except ValueError:  # too few or too small samples
        return None
    group = torch.arange(len(x), device=x.device) % _GROUPS
    try:
        without = torch.tensor([function(x[group != number]) for number in range(_GROUPS)])
        error = math.sqrt((_GROUPS - 1) * float(without.double().var(correction=0)))
    except (ValueError, RuntimeError):
        return Estimate(value, 0.0, math.inf)
    return Estimate(value, max(0.0, value - _T * error), value + _T * error)


def _ends(x: Tensor, sigma: float) -> tuple[Triple, Triple]:
    """Return shares of the entries at the smallest value, up to σ/2 above it, and at the next value.

    The second triple is the same for the largest value.
    """
    found = []
    for values in (x.reshape(-1), -x.reshape(-1)):
        above = values - values.min()
        beside = above[(above > 0) & (above <= sigma / 2)]
        following = int((beside == beside.min()).sum()) if len(beside) else 0
        n = values.numel()
        found.append((int((above == 0).sum()) / n, len(beside) / n, following / n))
    return found[0], found[1]

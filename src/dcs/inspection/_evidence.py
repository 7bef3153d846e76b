"""What is measured of the data; the verdicts are drawn from it."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from dcs.inspection._parts import Part, noisier_part
from dcs.inspection._residuals import (
    LARGE,
    Level,
    Residuals,
    Spread,
    levels,
    likeness,
    pieces_of,
    residuals,
    spread_of_positions,
    spread_of_samples,
    together,
)
from dcs.inspection._result import Estimate
from dcs.noise import estimate_sigma, quiet_share
from dcs.noise.level import as_images
from dcs.objectives.views import MOST_QUIET

_GROUPS = 4
_T = 3.18  # Student's t of 95 % for as many groups
_SAME = 1.2  # far residuals may be so much larger than near ones and still be noise


@dataclass(frozen=True, eq=False)
class Evidence:
    """Numbers about the data.

    Args:
        deviation: Of all entries.
        square: Their mean square.
        mean: Their mean.
        chen2015: σ̂, where it can be had.
        mad: The same.
        quiet: `quiet_share` for the first of them.
        near: Residuals from all around, or None where samples are too small or too few.
        far: Residuals from further off.
        near_levels: Of their calm places.
        far_levels: The same.
        by_position: Whether positions were kept apart.
        like: Correlations of the far residuals of neighbours 1, 2 and 3 entries apart, at `like_at`.
        like_at: The level of the far residuals at which they were looked at.
        is_noise: Whether what is there is surely noise: near and far agree about its strength.
        correlated: Whether there is noise, or texture, that neighbours share.
        ends: Values that lie exactly at the smallest and at the largest, as shares of all, and the shares of
            those up to σ/2 from there, and of the next value, for each.
        ordered: Whether entries have neighbours.
        part: A part of the data that is much noisier than the rest, or may be.
    """

    deviation: float
    square: float
    mean: float
    chen2015: Estimate | None
    mad: Estimate | None
    quiet: float | None
    near: Residuals | None
    far: Residuals | None
    near_levels: list[Level]
    far_levels: list[Level]
    by_position: bool
    like: tuple[float, float, float]
    like_at: Level | None
    is_noise: bool
    correlated: bool
    ends: tuple[tuple[float, float, float], tuple[float, float, float]]
    ordered: bool = True
    part: Part | None = None

    @property
    def levels(self) -> list[Level]:
        """Of the noise: where neighbours share it, only what lies further off does not foretell it."""
        return self.far_levels if self.correlated else self.near_levels

    @property
    def floor(self) -> Level | None:
        """The weakest level, over all brightnesses where it is about as weak."""
        if not self.levels:
            return None
        first, *others = sorted(self.levels, key=lambda at: at.deviation)
        floor = first  # by chance too low, if it is of few places; what may be the same is taken together
        for number, at in enumerate(others, 1):
            if at.deviation - floor.deviation > 3 * math.hypot(at.error, floor.error):
                break
            floor = together([first, *others[:number]])
        return floor

    @property
    def for_tails(self) -> Level | None:
        """Where extreme values are looked for.

        Where the noise is uneven, that is the end where it is strong; else where it is weak, and surely no
        signal.
        """
        ends, floor = self.ends_of_range, self.floor
        if floor is None:
            return None
        if self.correlated:  # signal leaks in, here and there; where it does not, the tails are lightest
            alike = [at for at in self.levels if at.deviation <= 1.2 * floor.deviation]
            return min(alike, key=lambda at: at.kurtosis)
        if self.part is not None and self.part.sure:
            return self.part.at
        strength = floor.deviation
        if ends is not None and self.is_uneven:
            strength = max(end.deviation for end in ends)
        alike = [at for at in self.levels if abs(at.deviation - strength) <= 0.1 * strength + 2 * at.error]
        return together(alike or [floor])

    @property
    def evenness(self) -> float | None:
        """The weakest level over the stronger one of the two ends of the range of brightness."""
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
        """The weakest level among the dark ones, and among the bright ones."""
        if len(self.levels) < 2:
            return None
        low, high = self.levels[0].brightness, self.levels[-1].brightness
        dark = [at for at in self.levels if at.brightness <= low + 0.4 * (high - low)]
        bright = [at for at in self.levels if at.brightness >= low + 0.6 * (high - low)]
        return min(dark, key=lambda at: at.deviation), min(bright, key=lambda at: at.deviation)

    @property
    def cut_off(self) -> float:
        """The share of values that lie at an end of the range because they were cut off there.

        They pile up: many at the end, and hardly fewer just beside it. Counts of photons have as many at 1
        as at 0; a background without noise has hardly any beside it.
        """
        return sum(
            share
            for share, beside, following in self.ends
            if share > 0.01 and beside > 0.2 * share and share > 8 * following
        )

    @cached_property
    def between_samples(self) -> Spread | None:
        """The noise in calm places of samples."""
        if self.near is None or self.correlated or self.by_position:
            return None
        return spread_of_samples(self.near)

    @cached_property
    def between_positions(self) -> Spread | None:
        """The noise in calm places of the cells of a grid laid over all samples."""
        return None if self.near is None or self.correlated else spread_of_positions(self.near)

    @property
    def samples_differ(self) -> bool:
        """Whether some samples are clearly quieter than the usual one."""
        found = self.between_samples
        if found is None:
            return False
        # Of N squares of normal numbers, one mean in twenty is below 1 - 1.64 √(2/N), and further below if
        # they have outliers. Of few samples the quietest is looked at, which these alone can set apart.
        share = 0.75 if found.samples >= 20 else 0.5
        chance = 1.64 * math.sqrt(max(2.0, found.kurtosis + 2) / found.places)
        return found.least < share * found.usual * math.sqrt(max(0.0, 1 - chance))

    @property
    def partly_noisy(self) -> bool:
        """Whether some samples, or a part of each, are surely much noisier than the rest."""
        return self.part is not None and self.part.sure

    @property
    def may_be_partly_noisy(self) -> bool:
        """Whether they may be: what is there may also be fine detail."""
        return self.part is not None and not self.part.sure

    @property
    def too_quiet(self) -> bool:
        """Whether more windows are quiet than one strength of noise leaves: the rule of training."""
        return self.quiet is not None and self.quiet > MOST_QUIET

    @property
    def positions_differ(self) -> bool:
        """Whether the noise is clearly weaker at some positions; signal adds less than that."""
        found = self.between_positions
        if found is None or not found.least > 0.05 * self.deviation:  # else it may be no noise at all
            return False
        return found.least < 0.45 * found.usual

    @property
    def varies(self) -> bool:
        """Whether the noise differs by brightness, sample or position."""
        return self.is_uneven or self.samples_differ or self.positions_differ or self.partly_noisy


def gather(x: Tensor, ndim: int | None) -> Evidence:
    """Measure data (n, ...)."""
    images = as_images(x, ndim)
    ndim = images.ndim - 2
    entries = x.double()
    deviation, mean = float(entries.std()), float(entries.mean())
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
    like, like_at, is_noise, correlated = (math.nan,) * 3, None, False, False
    if far is not None and near_levels and far_levels:
        like_at, is_noise = _where_to_compare(far, near_levels, far_levels, 0.05 * deviation)
        like = tuple(likeness(far, like_at.places, lag) for lag in (1, 2, 3))  # type: ignore[assignment]
        if is_noise:
            # Stronger levels may be signal, which neighbours share as well.
            weak = like_at.deviation <= 1.5 * min(at.deviation for at in near_levels)
            correlated = abs(like[0]) > 0.25 and weak
        elif by_position or min(images.shape[2:]) >= LARGE:
            # Signal that is rarely there has heavy tails; noise is there always, and little of it is too.
            strong = like_at.deviation > 0.12 * deviation and like_at.kurtosis < 4
            correlated = strong and like[0] > 0.3 and not _is_white(near_levels, chen, mad, 0.05 * deviation)
    found = Evidence(
        deviation=deviation,
        square=float(entries.square().mean()),
        mean=mean,
        chen2015=chen,
        mad=mad,
        quiet=quiet,
        near=near,
        far=far,
        near_levels=near_levels,
        far_levels=far_levels,
        by_position=by_position,
        like=like,
        like_at=like_at,
        is_noise=is_noise,
        correlated=correlated,
        ends=_ends(x, (chen.value if chen else 0.0) or deviation / 10),
    )
    return _with_part(images, found)


def _with_part(images: Tensor, found: Evidence) -> Evidence:
    """Add the part that is noisier; what it shows of neighbours, calm places do not."""
    if found.near is None or not found.near_levels or found.by_position:
        return found
    pieces, calm = pieces_of(images), min(at.deviation for at in found.near_levels)
    whole = pieces.shape[1:] == images.shape[2:]
    part = noisier_part(pieces, found.near.left, found.near.foretold, calm, 0.05 * found.deviation, whole)
    if part is None or (part.by_brightness and found.is_uneven):  # which says it better
        return found
    if not part.sure:
        return replace(found, part=part)
    is_noise = abs(part.like[0]) < 0.15
    return replace(found, part=part, like=part.like, like_at=part.at, is_noise=is_noise, correlated=False)


def without_neighbours(x: Tensor) -> Evidence:
    """What can be said of columns in no order: hardly anything."""
    nothing = (math.nan, math.nan, math.nan)
    entries = x.double()
    deviation, square, mean = float(entries.std()), float(entries.square().mean()), float(entries.mean())
    plain = Evidence(
        *(deviation, square, mean, None, None, None, None, None, [], [], False, nothing, None, False, False),
        _ends(x, deviation / 10),
    )
    return replace(plain, ordered=False)


def _where_to_compare(
    source: Residuals, near: list[Level], far: list[Level], visible: float
) -> tuple[Level, bool]:
    """The far level at which to compare neighbours, and whether it is surely noise.

    It is where near and far agree about the strength of the noise; of several the one where neighbours are
    least alike, since signal makes them more so. If they agree nowhere, it is the weakest level.
    """

    def beside(at: Level) -> Level:
        return min(near, key=lambda other: abs(other.brightness - at.brightness))

    noise = [at for at in far if visible < at.deviation <= _SAME * beside(at).deviation]
    found = {abs(likeness(source, at.places, 1)): at for at in noise}
    found = {like: at for like, at in found.items() if not math.isnan(like)}
    if found:
        return found[min(found)], True
    return min(far, key=lambda at: at.deviation), False


def _is_white(near: list[Level], chen: Estimate | None, mad: Estimate | None, visible: float) -> bool:
    """Whether three estimates agree closely: they do so for noise that differs from entry to entry only."""
    least = min(at.deviation for at in near)
    strengths = [least, *(one.value for one in (chen, mad) if one is not None)]
    return len(strengths) == 3 and min(strengths) > max(visible, 0.92 * max(strengths))


def _estimate(x: Tensor, function: Callable[[Tensor], float]) -> Estimate | None:
    """An estimate with an interval from leaving out each of a few groups of samples (the jackknife)."""
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


def _ends(x: Tensor, sigma: float) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """How entries pile up at the smallest and at the largest value."""
    found = []
    for values in (x.reshape(-1), -x.reshape(-1)):
        above = values - values.min()
        beside = above[(above > 0) & (above <= sigma / 2)]
        following = int((beside == beside.min()).sum()) if len(beside) else 0
        n = values.numel()
        found.append((int((above == 0).sum()) / n, len(beside) / n, following / n))
    return found[0], found[1]

"""From numbers to words: does what the loss assumes of the noise hold?"""

import math

from dcs.inspection._evidence import Evidence
from dcs.inspection._result import FAILS, HOLDS, UNKNOWN, Check, Estimate, Sigma

CLEAN, SLIGHT, NOISY, NO_ANSWER = "clean", "slight", "noisy", "unknown"
_VISIBLE = 0.05  # noise below this share of the data's deviation is not told from rounding and fine detail
_ENOUGH = 500  # places, to judge a kurtosis
_TITLES = {
    "zero_mean": "The noise is zero on average",
    "isotropy": "The noise is equally strong everywhere",
    "light_tails": "The noise has no extreme outliers",
    "independence": "Neighbouring entries have noises of their own",
}


def noise_level(evidence: Evidence) -> float | None:
    """The deviation of the noise on average over the entries, as calm places show it; None if they do not."""
    floor, ends = evidence.floor, evidence.ends_of_range
    if floor is None:
        return None
    if evidence.correlated:
        return floor.deviation
    between = evidence.between_samples
    usual = between[0] if between is not None and between[2] else 0.0
    if ends is None:
        return max(usual, floor.deviation)
    dark, bright = ends
    width = bright.brightness - dark.brightness
    place = min(1.0, max(0.0, (evidence.mean - dark.brightness) / width)) if width > 0 else 0.5
    square = dark.deviation**2 + place * (bright.deviation**2 - dark.deviation**2)
    return max(usual, math.sqrt(square) if evidence.is_uneven else floor.deviation)


def state_of(evidence: Evidence) -> tuple[str, float | None]:
    """Whether the data is clean, slightly noisy or noisy, and about its signal-to-noise ratio."""
    noise = noise_level(evidence)
    if noise is None or evidence.floor is None or not evidence.deviation > 0:
        return NO_ANSWER, None
    signal = math.sqrt(max(0.0, evidence.square - noise**2))
    ratio = signal / noise if noise > 0 else math.inf
    unseen = evidence.floor.deviation < _VISIBLE * evidence.deviation
    # Where calm places show no noise, what others show may be fine detail, unless it is too strong for that.
    if not evidence.correlated and (ratio > 10 or (unseen and ratio > 5)):
        return CLEAN, ratio
    return (SLIGHT if ratio > 4 else NOISY), ratio


def checks(evidence: Evidence, state: str) -> tuple[Check, ...]:
    """Judge all assumptions."""
    if state in (CLEAN, NO_ANSWER):
        because, meaning = _untested(evidence, state)
        return tuple(Check(name, title, UNKNOWN, because, meaning, {}) for name, title in _TITLES.items())
    return (_zero_mean(evidence), _isotropy(evidence), _light_tails(evidence), _independence(evidence))


def _untested(evidence: Evidence, state: str) -> tuple[str, str]:
    if state == CLEAN:
        return "There is too little noise to test it.", "It hardly matters for this data."
    if not evidence.ordered:
        return (
            "Columns in no order have no neighbours to compare.",
            "Masking by neighbours means nothing here.",
        )
    return (
        "The samples are too few or too small to tell noise from signal.",
        "Look at more or larger samples.",
    )


def _check(name: str, verdict: str, because: str, meanings: dict[str, str], **numbers: float) -> Check:
    return Check(name, _TITLES[name], verdict, because, meanings[verdict], numbers)


def _zero_mean(evidence: Evidence) -> Check:
    meanings = {
        HOLDS: "Averaging over the noise gives the signal, which is what training relies on. (An offset "
        "that is the same everywhere cannot be seen, and counts as signal.)",
        FAILS: "Near these values the noise can only go one way, so the prediction is pulled away from "
        "them: use data as it was before it was cut off, if there is such.",
        UNKNOWN: "If those values were cut off, predictions near them are pulled towards the middle.",
    }
    clipped = evidence.cut_off
    at_ends = sum(share for share, _, _ in evidence.ends if share > 0.01)
    numbers = {"cut_off": clipped, "at_the_ends": at_ends}
    if clipped:
        because = f"{clipped:.0%} of all values lie exactly at the end of the range: they seem to be cut off."
        return _check("zero_mean", FAILS, because, meanings, **numbers)
    if at_ends and not evidence.is_uneven:
        because = f"{at_ends:.0%} of all values lie exactly at the end of the range, for no plain reason."
        return _check("zero_mean", UNKNOWN, because, meanings, **numbers)
    because = "No values are cut off at the ends of their range."
    return _check("zero_mean", HOLDS, because, meanings, **numbers)


def _isotropy(evidence: Evidence) -> Check:
    meanings = {
        HOLDS: "One strength of noise describes all of the data, as the weight of the loss assumes.",
        FAILS: "The weight of the loss is then only roughly right. If the noise grows with brightness "
        "(photon counts), the square root of the data has noise that is nearly even.",
        UNKNOWN: "The weight of the loss may be only roughly right; training works all the same.",
    }
    ratio, ends = evidence.evenness, evidence.ends_of_range
    between = evidence.between_samples
    if ratio is None or ends is None:
        because = "There are too few calm places of different brightness."
        return _check("isotropy", UNKNOWN, because, meanings)
    low, high = ends
    weakest = min(evidence.levels, key=lambda at: at.deviation)
    numbers = {"low": low.deviation, "high": high.deviation, "weakest": weakest.deviation, "ratio": ratio}
    because = (
        f"In calm places the noise has a deviation of {low.deviation:.3g} where values are low (around "
        f"{low.brightness:.2g}), and of {high.deviation:.3g} where they are high (around "
        f"{high.brightness:.2g})."
    )
    verdict = HOLDS if ratio >= 0.8 else FAILS if ratio < 0.6 and not evidence.correlated else UNKNOWN
    if between is not None and verdict != FAILS:
        usual, least, differ = between
        numbers["quietest_samples"] = least / usual if usual > 0 else 1.0
        if differ:
            verdict = FAILS
            because += f" But some samples are much quieter ({least:.3g}) than the usual one ({usual:.3g})."
    return _check("isotropy", verdict, because, meanings, **numbers)


def _light_tails(evidence: Evidence) -> Check:
    meanings = {
        HOLDS: "Gaussian noise is a fair description, and so is the weight computed for it.",
        FAILS: "A few extreme values can rule a step of training: clip or mend them first (dead pixels, "
        "dropouts), or let k be that of another law (the option noise of DenoisingCosine).",
        UNKNOWN: "If training is unsteady, look for outliers.",
    }
    at = evidence.for_tails
    if at is None:
        return _check("light_tails", UNKNOWN, "There are too few calm places.", meanings)
    kurtosis, count = at.kurtosis, len(at.places)
    # Values that neighbours share say the same thing several times.
    error = math.sqrt(24 / count) * (5 if evidence.correlated else 1)
    because = f"The excess kurtosis of the noise is {kurtosis:.2g} ± {2 * error:.1g} (0 is Gaussian)."
    verdict = UNKNOWN
    # Signal that leaks in has heavy tails as well, and leaks in more where less is sure.
    limit = 2 if evidence.correlated or evidence.is_uneven else 1
    if count >= _ENOUGH and kurtosis > limit + 2 * error:
        verdict = FAILS
    elif kurtosis < 0.7 and error < 0.2:
        verdict = HOLDS
    numbers = {"kurtosis": kurtosis, "error": error, "places": float(count)}
    return _check("light_tails", verdict, because, meanings, **numbers)


def _independence(evidence: Evidence) -> Check:
    meanings = {
        HOLDS: "What is hidden cannot be guessed from the noise around it, which is what masking relies on.",
        FAILS: "Masked entries can be guessed from the noise beside them, and a split takes it for signal: "
        "no views made from one observation remove all of it. Use a wider window, average entries together "
        "(make the pictures smaller), or give two observations of each thing, if you have them.",
        UNKNOWN: "If predictions look blotchy, the noise is shared by neighbours: use a wider window.",
    }
    first, second, third = evidence.like
    numbers = {"one_apart": first, "two_apart": second, "three_apart": third}
    if evidence.like_at is None or math.isnan(first):
        because = "There are too few calm places, or the samples are too small, to compare neighbours."
        return _check("independence", UNKNOWN, because, meanings)
    because = f"In calm places the noises of neighbours have a correlation of {first:.2f}."
    if evidence.correlated:
        if not evidence.is_noise:
            because += " Fine texture that is there everywhere looks the same, and cannot be told apart."
        return _check("independence", FAILS, because, meanings, **numbers)
    if evidence.is_noise and abs(first) < 0.15:
        return _check("independence", HOLDS, because, meanings, **numbers)
    because = "No places are calm enough to tell noise that neighbours share from signal that they share."
    return _check("independence", UNKNOWN, because, meanings, **numbers)


def sigma_of(evidence: Evidence, state: str) -> Sigma:
    """Bring the estimators together."""
    chen, mad, floor = evidence.chen2015, evidence.mad, evidence.floor
    calm = None
    if floor is not None:
        calm = Estimate(
            floor.deviation, max(0.0, floor.deviation - 2 * floor.error), floor.deviation + 2 * floor.error
        )
    known = [one for one in (chen, mad, calm) if one is not None]
    if not known:
        why = "The samples are too few or too small for any estimate."
        return Sigma(None, None, None, chen, mad, calm, False, why)
    low, high = min(one.low for one in known), max(one.high for one in known)
    agree, why = _agreement(evidence, state)
    if evidence.correlated and calm is not None:
        return Sigma(calm.value, calm.low, max(calm.high, evidence.deviation), chen, mad, calm, agree, why)
    if state == CLEAN:
        least = min(one.value for one in known)
        most = max(least, noise_level(evidence) or 0.0)
        return Sigma(least, 0.0, most, chen, mad, calm, agree, why)
    if evidence.is_uneven:
        mean = noise_level(evidence) or 0.0
        return Sigma(mean, min(low, mean), max(high, mean), chen, mad, calm, agree, why)
    # Calm places are often where values are cut off, and the noise with them.
    best = (chen or mad or calm) if evidence.cut_off else (calm or chen or mad)
    assert best is not None  # noqa: S101  (some estimate is known)
    if agree:
        values = [one.value for one in known]
        low, high = min(best.low, *values), max(best.high, *values)
    return Sigma(best.value, low, high, chen, mad, calm, agree, why)


def _agreement(evidence: Evidence, state: str) -> tuple[bool, str]:
    chen, mad = evidence.chen2015, evidence.mad
    if chen is None or mad is None:
        return False, "Only one estimator can be used on samples so few or so small."
    if state == CLEAN and max(chen.value, mad.value) < _VISIBLE * evidence.deviation:
        return True, "Both find next to no noise."
    if evidence.correlated:
        return False, (
            "chen2015 and mad see only what differs from entry to entry, and miss noise that neighbours "
            "share: it is stronger than they say."
        )
    if abs(chen.value - mad.value) <= 0.15 * max(chen.value, mad.value):
        return True, "Both estimators agree to 15 %."
    if evidence.is_uneven and state != CLEAN:
        return (
            False,
            "They disagree because the noise is not equally strong everywhere: no one number describes it.",
        )
    if state == CLEAN or chen.value < mad.value:
        return False, "They disagree because detail as fine as one entry looks like noise to them."
    return False, (
        "They disagree: chen2015 counts fine detail and outliers as noise, mad looks at the middle of the "
        "range of values only."
    )

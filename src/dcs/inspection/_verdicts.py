"""From numbers to words: does what the loss assumes of the noise hold?"""

import math

from dcs.inspection._evidence import Evidence
from dcs.inspection._result import FAILS, HOLDS, UNKNOWN, Check, Estimate, Sigma

CLEAN, SLIGHT, NOISY, NO_ANSWER = "clean", "slight", "noisy", "unknown"
_VISIBLE = 0.05  # noise below this share of the data's deviation is not told from rounding and fine detail
_SYSTEMATIC = 0.05  # as far as estimates were off where all agreed; see benchmarks/inspection.py
_ENOUGH = 500  # places, to judge a kurtosis
_TITLES = {
    "zero_mean": "The noise is zero on average",
    "isotropy": "The noise is equally strong everywhere",
    "light_tails": "The noise has no extreme outliers",
    "independence": "Neighbouring values have noises of their own",
}


def noise_level(evidence: Evidence) -> float | None:
    """The deviation of the noise on average over the entries, as calm places show it; None if they do not."""
    floor, ends = evidence.floor, evidence.ends_of_range
    if floor is None:
        return None
    if evidence.correlated:  # every estimate sees a part of it only
        seen = (one.value for one in (evidence.chen2015, evidence.mad) if one is not None)
        return max([floor.deviation, *seen])
    usual = 0.0
    if evidence.samples_differ and evidence.between_samples is not None:
        usual = evidence.between_samples.mean
    if evidence.positions_differ and evidence.between_positions is not None:
        usual = max(usual, evidence.between_positions.mean)
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
    if not evidence.deviation > 0:
        return "All values are the same.", "There is nothing to learn from this data."
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
        HOLDS: "One strength of noise describes all of the data. dCS relies on it when it weighs samples: "
        "noisier ones count less.",
        FAILS: "dCS gives noisier samples less weight, and this weight is then only roughly right. If the "
        "noise grows with brightness (photon counts), the square root of the data has noise that is nearly "
        "even.",
        UNKNOWN: "dCS gives noisier samples less weight, and this weight may be only roughly right; training "
        "works all the same.",
    }
    ratio, ends = evidence.evenness, evidence.ends_of_range
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
    more, differ = _by_sample_and_position(evidence, numbers)
    if differ:
        verdict = FAILS
    elif evidence.too_quiet and not evidence.correlated and verdict == HOLDS:
        verdict = UNKNOWN
        more = (
            f" But {evidence.quiet:.0%} of all small windows are quieter than noise of one strength would "
            "leave them (5 %)."
        )
    return _check("isotropy", verdict, because + more, meanings, **numbers)


def _by_sample_and_position(evidence: Evidence, numbers: dict[str, float]) -> tuple[str, bool]:
    """What differs between samples and between positions, in words, and whether anything does."""
    said = ""
    samples, places = evidence.between_samples, evidence.between_positions
    if evidence.quiet is not None:
        numbers["quiet_share"] = evidence.quiet
    if samples is not None:
        numbers["quietest_samples"] = samples.least / samples.usual if samples.usual > 0 else 1.0
        if evidence.samples_differ:
            said += (
                f" But some samples are much quieter ({samples.least:.3g}) than the usual one "
                f"({samples.usual:.3g})."
            )
    if places is not None:
        numbers["quietest_positions"] = places.least / places.usual if places.usual > 0 else 1.0
        if evidence.positions_differ:
            said += (
                f" But it depends on the position: from {places.least:.3g} to {places.usual:.3g}, in the "
                "cells of a grid laid over all samples."
            )
    return said, bool(said)


def _light_tails(evidence: Evidence) -> Check:
    meanings = {
        HOLDS: "Gaussian noise is a fair description, and so is the weight computed for it.",
        FAILS: "A few extreme values can rule a step of training: clip or mend them first (dead pixels, "
        "dropouts). In Python, DenoisingCosine(noise=...) can be told of a law with heavier tails.",
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
        if evidence.samples_differ or evidence.positions_differ:
            verdict = UNKNOWN
            because += " Noise of several strengths has outliers as well, when it is looked at together."
    elif kurtosis < 0.7 and error < 0.2:
        verdict = HOLDS
    numbers = {"kurtosis": kurtosis, "error": error, "places": float(count)}
    return _check("light_tails", verdict, because, meanings, **numbers)


def _independence(evidence: Evidence) -> Check:
    meanings = {
        HOLDS: "What is hidden cannot be guessed from the noise around it, which is what masking relies on.",
        FAILS: "The noise of a value can be guessed from the values beside it, so that a network learns it "
        "as if it were signal: training on single observations cannot remove all of it. Copy from further "
        "away when masking (radius), average neighbours (make the pictures smaller), or give two "
        "observations of each thing, if you have them.",
        UNKNOWN: "If predictions look blotchy, neighbours share noise: copy from further away when masking "
        "(radius).",
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
    if not known or not evidence.deviation > 0:
        why = "The samples are too few or too small for any estimate."
        if not evidence.deviation > 0:
            why = "All values are the same."
        return Sigma(None, None, None, chen, mad, calm, False, why)
    agree, why = _agreement(evidence, state)
    value = _headline(evidence, state)
    # What is systematic shows in how estimators differ, and is never known to be less than a few percent.
    ends = [end for one in known for end in (one.value, one.low, one.high) if math.isfinite(end)]
    low, high = min((1 - _SYSTEMATIC) * value, *ends), max((1 + _SYSTEMATIC) * value, *ends)
    if evidence.correlated:
        high = max(high, evidence.deviation)
    if evidence.positions_differ and evidence.between_positions is not None:
        high = max(high, evidence.between_positions.usual)  # rims are not seen
    if state == CLEAN:
        low, high = 0.0, max(high, noise_level(evidence) or 0.0)
    return Sigma(value, low, high, chen, mad, calm, agree, why)


def _headline(evidence: Evidence, state: str) -> float:
    """The best of the estimates, of which there is one at least."""
    chen, mad, floor = evidence.chen2015, evidence.mad, evidence.floor
    values = [one.value for one in (chen, mad) if one is not None]
    values += [] if floor is None else [floor.deviation]
    if floor is None:
        return values[0]
    if state == CLEAN:
        return min(values)
    if evidence.correlated or evidence.varies:
        return noise_level(evidence) or 0.0
    if chen is None:
        return floor.deviation
    # Calm places are often where values are cut off, and the noise with them.
    if evidence.cut_off:
        return chen.value
    # Detail adds to both; where they hardly differ, the one that has less of it is nearer.
    close = chen.value > 0.85 * floor.deviation
    return min(chen.value, floor.deviation) if close else floor.deviation


def _agreement(evidence: Evidence, state: str) -> tuple[bool, str]:
    chen, mad, floor = evidence.chen2015, evidence.mad, evidence.floor
    if chen is None or mad is None or floor is None:
        return False, "Not all three estimates can be made from samples so few or so small."
    values = [chen.value, mad.value, floor.deviation]
    if state == CLEAN and max(values) < _VISIBLE * evidence.deviation:
        return True, "All three estimates find next to no noise."
    if evidence.correlated:
        if floor.deviation >= max(chen.value, mad.value):
            return False, (
                "chen2015 and mad see only what differs from one value to the next, and miss noise that "
                "neighbours share: it is stronger than they say."
            )
        return False, (
            "The estimates differ: where neighbours share noise each sees a part of it, and calm places are "
            "quieter here than the rest. The largest is given."
        )
    if max(values) - min(values) <= 0.15 * max(values):
        return True, "All three estimates agree to 15 %."
    if state != CLEAN and evidence.varies:
        where = [
            word
            for word, so in (
                ("brightness", evidence.is_uneven),
                ("sample", evidence.samples_differ),
                ("position", evidence.positions_differ),
            )
            if so
        ]
        return False, (
            "The three estimates differ because the noise is not equally strong everywhere (it differs by "
            f"{' and '.join(where)}): no one number describes it, and about its root mean square is given."
        )
    if state == CLEAN or floor.deviation <= min(chen.value, mad.value):
        return False, (
            "The three estimates differ: to chen2015 and mad, detail as fine as a single value looks like "
            "noise; calm places have least of it."
        )
    return False, (
        "The three estimates differ: fine detail and outliers raise chen2015, while mad, a median, hardly "
        "sees outliers."
    )

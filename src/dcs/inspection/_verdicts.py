"""Verdicts: how noisy is the data, and which assumptions of the loss about the noise hold?"""

import math

from dcs.inspection._evidence import VISIBLE, Evidence
from dcs.inspection._result import FAILS, HOLDS, UNKNOWN, Check, Sigma, estimate

CLEAN, SLIGHT, NOISY, NO_ANSWER = "clean", "slight", "noisy", "unknown"
_ENOUGH = 500  # places for a verdict on the kurtosis
_SYSTEMATIC = 0.05  # largest error where all estimates agreed; see studies/inspection.py
_HARDLY = 0.3  # times the noise: less signal is invisible in a single sample
_TITLES = {
    "zero_mean": "The noise has zero mean",
    "isotropy": "The noise is equally strong everywhere",
    "light_tails": "The noise has no extreme outliers",
    "independence": "The noise of neighbouring values is independent",
}
_MEANINGS = {
    "zero_mean": {
        HOLDS: "Training relies on it. (A constant offset cannot be detected, and counts as signal.)",
        FAILS: "Predictions near these values are biased: use the data before clipping, if you have it.",
        UNKNOWN: "If those values were clipped, predictions near them are biased.",
    },
    "isotropy": {
        HOLDS: "dCS relies on one noise level for all of the data to give noisier samples less weight.",
        FAILS: "dCS gives noisier samples less weight, and these weights are only approximate here.",
        UNKNOWN: "The weights of noisier samples may be only approximate; training still works.",
    },
    "light_tails": {
        HOLDS: "The noise is close to Gaussian, for which the weights of samples are computed.",
        FAILS: "A few extreme values can dominate a training step: clip or repair them first (dead pixels, "
        "dropouts). In Python, DenoisingCosine(noise=...) takes a law with heavier tails.",
        UNKNOWN: "If training is unstable, look for outliers.",
    },
    "independence": {
        HOLDS: "Masked values cannot be predicted from the noise around them, on which masking relies.",
        FAILS: "A network learns noise that neighbours share as if it were signal, and cannot remove all of "
        "it. Increase the radius of the masks, average neighbours (reduce the images), or use two "
        "observations of each sample, if you have them.",
        UNKNOWN: "If predictions look blotchy, neighbours share noise: increase the radius of the masks.",
    },
}
_COUNTS = (
    " If the noise grows with brightness (photon counts), train on the square root of the data, whose noise "
    "is nearly uniform."
)
_DIFFER = {
    "sample": " But some samples have much less noise ({0.least:.3g}) than the median one ({0.typical:.3g}).",
    "position": " But it depends on the position: from {0.least:.3g} to {0.typical:.3g} in the cells of a "
    "grid over all samples.",
}
Finding = tuple[str, str, dict[str, float]]  # verdict, evidence in words and in numbers


def state_of(evidence: Evidence) -> tuple[str, float | None]:
    """Return whether the data is clean, slightly noisy or noisy, and its approximate signal-to-noise ratio.

    The signal is measured around the mean of all values, as a constant offset is not hidden by noise; not
    around the mean of each entry, as a mean image is signal.
    """
    noise = evidence.noise
    if noise is None or evidence.floor is None or not evidence.deviation > 0:
        return NO_ANSWER, None
    ratio = evidence.signal(noise) / noise if noise > 0 else math.inf
    invisible = evidence.floor.deviation < VISIBLE * evidence.deviation and not evidence.noisier
    # If flat regions are clean, residuals elsewhere may be fine detail, unless they are too strong for that.
    if not evidence.correlated and (ratio > 10 or (invisible and ratio > 5)):
        if evidence.perhaps_noisier:
            return NO_ANSWER, ratio
        return (SLIGHT if evidence.noisier else CLEAN), ratio
    return (SLIGHT if ratio > 4 else NOISY), ratio


def summarise(state: str, ratio: float | None, evidence: Evidence) -> str:
    """Return how noisy the data is, and whether it has a large offset."""
    offset = " Signal and noise are small compared with a constant offset: subtract the mean first."
    return _how_noisy(state, ratio, evidence) + offset * (evidence.offset is not None)


def _how_noisy(state: str, ratio: float | None, evidence: Evidence) -> str:
    if not evidence.ordered:
        return "Cannot tell: columns are not similar to their neighbours, so they seem to have no order."
    if not evidence.deviation > 0:
        return "Cannot tell: all values are equal."
    if evidence.perhaps_noisier and state == NO_ANSWER:
        share = f"{evidence.perhaps_noisier.share:.0%}"
        return f"Cannot tell: flat regions are clean, but about {share} has noise or very fine detail."
    if state == NO_ANSWER or ratio is None:
        return "Cannot tell: the samples are too few or too small."
    if state == CLEAN:
        noise = evidence.noise or 0.0
        strength = "No noise was found in flat regions"
        if ratio <= 1000:
            strength = (
                f"The signal (standard deviation {evidence.signal(noise):.2g}) is about {ratio:.0f} times "
                f"as strong as the noise could be in flat regions ({noise:.2g})"
            )
        return (
            f"Clean: dCS will not help much. {strength}; elsewhere, faint noise cannot be distinguished from "
            "fine detail, nor stripes from signal."
        )
    times = f"about {ratio:.{int(ratio < 10)}f} times as strong as the noise"
    about = f"the signal is {times}"
    if evidence.correlated:
        begin = "Slightly noisy or more" if state == SLIGHT else "Noisy"
        return (
            f"{begin}, and neighbours share the noise: dCS can remove some (the signal is at most {times})."
        )
    if evidence.noisier:
        which = {True: "some samples are", False: "a part of each sample is", None: "some regions are"}
        return (
            f"Partly noisy: {which[evidence.noisier.of_samples]} much noisier than the rest, unless this is "
            f"detail as fine as single values, such as foliage. dCS can help there (on average {about})."
        )
    if ratio < _HARDLY:
        return f"Nearly all noise: there is hardly any signal ({about}), and training may learn nothing."
    if state == SLIGHT:
        return f"Slightly noisy: dCS may help a little ({about})."
    uneven = ", which is not equally strong everywhere" if evidence.varies else ""
    return f"Noisy: dCS can help ({about}{uneven})."


def sigma_of(evidence: Evidence, state: str, recordings: bool = False) -> Sigma:
    """Combine the estimates of the noise level."""
    chen, mad, floor = evidence.chen2015, evidence.mad, evidence.floor
    flat = None if floor is None else estimate(floor.deviation, 2 * floor.error)
    known = [one for one in (chen, mad, flat) if one is not None]
    equal = not evidence.deviation > 0
    if equal or not known:
        why = "All values are equal." if equal else "The samples are too few or too small for any estimate."
        return Sigma(None, None, None, chen, mad, flat, False, why)
    values = [one.value for one in known]
    if flat is None:
        value = values[0]
    elif state == CLEAN:
        value = min(values)
    elif evidence.correlated or evidence.varies:
        value = evidence.noise or 0.0
    elif chen is not None and evidence.clipped:  # flat regions are often where the noise is clipped
        value = chen.value
    elif chen is not None and chen.value > 0.85 * flat.value:  # detail adds to both
        value = min(chen.value, flat.value)
    else:
        value = flat.value
    # Systematic errors show in how estimates differ, and are never known to be below a few percent. An
    # interval without an upper end says nothing, not even that it starts at 0.
    ends = values + [end for one in known if math.isfinite(one.high) for end in (one.low, one.high)]
    # If there is no answer, the data may be all noise, or none.
    low = 0.0 if state in (CLEAN, NO_ANSWER) else min((1 - _SYSTEMATIC) * value, *ends)
    ends.append((1 + _SYSTEMATIC) * value)
    if evidence.correlated or state == NO_ANSWER:
        ends.append(evidence.deviation)
    if "position" in evidence.differing:
        ends.append(evidence.differing["position"].typical)  # borders have no residuals
    if evidence.part:
        ends.append(evidence.part.at.deviation)
    if state == CLEAN:
        ends.append(evidence.noise or 0.0)
    agree, why = False, "Too few or too small samples for all three estimates; others may include detail."
    if chen and mad and flat:
        agree, why = _agreement(evidence, state, (chen.value, mad.value, flat.value), recordings)
    at_least = evidence.correlated and state != CLEAN
    return Sigma(value, low, max(ends), chen, mad, flat, agree, why, at_least)


def _agreement(
    evidence: Evidence, state: str, values: tuple[float, float, float], recordings: bool
) -> tuple[bool, str]:
    """Return whether the estimates by chen2015, mad and from flat regions agree, and why, or why not."""
    chen, mad, flat = values
    differ = "The three estimates differ"
    if state == CLEAN and max(values) < VISIBLE * evidence.deviation:
        return True, "All three estimates are close to 0."
    if evidence.correlated and flat >= max(chen, mad):
        return False, "chen2015 and mad miss noise that neighbours share: it is stronger than they say."
    if evidence.correlated:
        return False, "Each estimate covers only a part of noise that neighbours share: the largest is given."
    if evidence.perhaps_noisier:
        return False, f"{differ}: some regions hold noise or fine detail, which look the same here."
    if max(values) - min(values) <= 0.15 * max(values):
        return True, "All three estimates agree within 15 %."
    if state != CLEAN and evidence.varies:
        part = evidence.part
        by = {
            "loudness" if recordings else "brightness": evidence.is_uneven,
            "sample": "sample" in evidence.differing or (part and part.of_samples is not False),
            "position": "position" in evidence.differing or (part and not part.of_samples),
        }
        where = " and ".join(word for word in by if by[word])
        return False, f"{differ}: the noise is uneven (it differs by {where}); its root mean square is given."
    if state == CLEAN or flat <= min(chen, mad):
        return False, (
            f"{differ}: chen2015 and mad also count detail as fine as single values, of which flat regions "
            "have least."
        )
    if chen == min(values):
        return False, f"{differ}: chen2015 is small if neighbours share noise (in spectrograms they do)."
    return False, f"{differ}: fine detail and outliers raise chen2015; mad is robust to outliers."


def checks(evidence: Evidence, state: str, recordings: bool = False) -> tuple[Check, ...]:
    """Return the verdicts on all assumptions."""
    if state in (CLEAN, NO_ANSWER):
        because, meaning = _untested(evidence, state)
        return tuple(Check(name, title, UNKNOWN, because, meaning, {}) for name, title in _TITLES.items())
    found = (
        _zero_mean(evidence),
        _isotropy(evidence, recordings),
        _light_tails(evidence),
        _independence(evidence),
    )
    judged = []
    for (name, title), (verdict, because, numbers) in zip(_TITLES.items(), found, strict=True):
        meaning = _MEANINGS[name][verdict]
        if (name, verdict) == ("isotropy", FAILS) and evidence.is_uneven and not recordings:
            meaning += _COUNTS
        judged.append(Check(name, title, verdict, because, meaning, numbers))
    return tuple(judged)


def _untested(evidence: Evidence, state: str) -> tuple[str, str]:
    if state == CLEAN:
        return "There is too little noise to test it.", "It hardly matters for this data."
    if not evidence.deviation > 0:
        return "All values are equal.", "There is nothing to learn from this data."
    if not evidence.ordered:
        return "Unordered columns have no neighbours to compare.", "Masking by neighbours is not applicable."
    if evidence.perhaps_noisier:
        meaning = "Look at some samples: are regions grainy that should be uniform?"
        return "It is not clear whether there is noise.", meaning
    because = "The samples are too few or too small to distinguish noise from signal."
    return because, "Inspect more or larger samples."


def _zero_mean(evidence: Evidence) -> Finding:
    clipped, at_ends = evidence.clipped, evidence.at_ends
    numbers = {"cut_off": clipped, "at_the_ends": at_ends}
    at = "of all values are exactly at an end of the range: they"
    if clipped:
        return FAILS, f"{clipped:.0%} {at} seem to be clipped.", numbers
    if at_ends and not evidence.is_uneven:
        return UNKNOWN, f"{at_ends:.0%} {at} may be clipped, or a uniform background.", numbers
    return HOLDS, "No values are clipped at the ends of their range.", numbers


def _isotropy(evidence: Evidence, recordings: bool) -> Finding:
    numbers = {"noisier_part": evidence.part.share} if evidence.part else {}
    part, floor, ratio = evidence.noisier, evidence.floor, evidence.evenness
    if part and floor:
        numbers |= {"high": part.at.deviation, "low": floor.deviation}
        kind = "recording" if recordings else "sample"
        where = f"each {kind}" if part.of_samples is False else "the data"
        some = f" (some {kind}s are much noisier than others)" if part.of_samples else ""
        share = f"{part.share:.0%}" if part.share >= 0.1 else f"{part.share:.1%}"
        because = (
            f"About {share} of {where} has a noise level of about {part.at.deviation:.3g}{some}; in flat "
            f"regions elsewhere it is {floor.deviation:.2g}. Detail as fine as single values, such as "
            "foliage, looks the same."
        )
        return FAILS, because, numbers
    if ratio is None:
        levels = "loudness" if recordings else "brightness"
        return UNKNOWN, f"There are too few flat regions of different {levels}.", {}
    low, high = evidence.ends_of_range
    weakest = min(at.deviation for at in evidence.levels)
    numbers |= {"low": low.deviation, "high": high.deviation, "weakest": weakest, "ratio": ratio}
    because = (
        f"In flat regions the noise level is {low.deviation:.3g} where values are low (around "
        f"{low.brightness:.4g}) and {high.deviation:.3g} where they are high (around {high.brightness:.4g})."
    )
    verdict = HOLDS if ratio >= 0.8 else FAILS if ratio < 0.6 and not evidence.correlated else UNKNOWN
    if evidence.quiet is not None:
        numbers["quiet_share"] = evidence.quiet
    for name, spread in evidence.spreads.items():
        numbers[f"quietest_{name}s"] = spread.least / spread.typical if spread.typical > 0 else 1.0
    if evidence.differing:
        because += "".join(_DIFFER[name].format(spread) for name, spread in evidence.differing.items())
        return FAILS, because, numbers
    if verdict == HOLDS and evidence.perhaps_noisier:
        return UNKNOWN, because + " But some regions hold more noise, or fine detail.", numbers
    if verdict == HOLDS and evidence.too_quiet and not evidence.correlated:
        verdict = UNKNOWN
        because += (
            f" But {evidence.quiet:.0%} of all small patches have less noise than the rest of the data "
            "suggests; with a single noise level it would be about 5 %."
        )
    return verdict, because, numbers


def _light_tails(evidence: Evidence) -> Finding:
    at = evidence.for_tails
    if at is None:
        return UNKNOWN, "There are too few flat regions.", {}
    kurtosis, count = at.kurtosis, len(at.places)
    # Correlated residuals are fewer independent observations.
    error = math.sqrt(24 / count) * (5 if evidence.correlated else 1)
    because = (
        f"Excess kurtosis, a measure of extreme values: {kurtosis:.2g} ± {2 * error:.1g}; it is 0 for "
        "Gaussian noise, and above 1 for many more extreme values."
    )
    verdict = HOLDS if kurtosis < 0.7 and error < 0.2 else UNKNOWN
    # Residuals hold some signal, which has heavy tails, too; more of it in these cases.
    limit = 2 if evidence.correlated or evidence.is_uneven else 1
    if count >= _ENOUGH and kurtosis > limit + 2 * error:
        verdict = FAILS
        if evidence.differing or evidence.noisier:
            verdict = UNKNOWN
            because += " A mixture of several noise levels has a large kurtosis, too."
    return verdict, because, {"kurtosis": kurtosis, "error": error, "places": float(count)}


def _independence(evidence: Evidence) -> Finding:
    numbers = dict(zip(("one_apart", "two_apart", "three_apart"), evidence.correlations, strict=True))
    first = evidence.correlations[0]
    if math.isnan(first):
        because = "There are too few flat regions, or the samples are too small, to compare neighbours."
        return UNKNOWN, because, {}
    because = f"In flat regions the noise of neighbours has a correlation of {first:.2f}."
    if evidence.correlated:
        if not evidence.is_noise:
            because += " Fine texture that is present everywhere looks the same, and cannot be distinguished."
        return FAILS, because, numbers
    if evidence.is_noise and abs(first) < 0.15:
        return HOLDS, because, numbers
    because = "No region is flat enough to distinguish shared noise from shared signal of neighbours."
    return UNKNOWN, because, numbers

"""Verdicts: which assumptions of the loss about the noise hold?"""

import math

from dcs.inspection._evidence import Evidence
from dcs.inspection._result import FAILS, HOLDS, UNKNOWN, Check

CLEAN, SLIGHT, NOISY, NO_ANSWER = "clean", "slight", "noisy", "unknown"
VISIBLE = 0.05  # share of the data's deviation below which noise is like rounding and fine detail
_ENOUGH = 500  # places for a verdict on the kurtosis
_TITLES = {
    "zero_mean": "The noise has zero mean",
    "isotropy": "The noise is equally strong everywhere",
    "light_tails": "The noise has no extreme outliers",
    "independence": "The noise of neighbouring values is independent",
}


def noise_level(evidence: Evidence) -> float | None:
    """Return the noise level over all entries, as flat regions show it; None if there are none."""
    floor, ends = evidence.floor, evidence.ends_of_range
    if floor is None:
        return None
    if evidence.correlated:  # each estimate covers only a part of it
        others = (one.value for one in (evidence.chen2015, evidence.mad) if one is not None)
        return max([floor.deviation, *others])
    overall = 0.0
    if evidence.part is not None and evidence.part.sure:
        part = evidence.part
        overall = math.sqrt(part.share * part.at.deviation**2 + (1 - part.share) * floor.deviation**2)
    if evidence.samples_differ and evidence.between_samples is not None:
        overall = max(overall, evidence.between_samples.mean)
    if evidence.positions_differ and evidence.between_positions is not None:
        overall = max(overall, evidence.between_positions.mean)
    if ends is None:
        return max(overall, floor.deviation)
    dark, bright = ends
    width = bright.brightness - dark.brightness
    place = min(1.0, max(0.0, (evidence.mean - dark.brightness) / width)) if width > 0 else 0.5
    square = dark.deviation**2 + place * (bright.deviation**2 - dark.deviation**2)
    return max(overall, math.sqrt(square) if evidence.is_uneven else floor.deviation)


def state_of(evidence: Evidence) -> tuple[str, float | None]:
    """Return whether the data is clean, slightly noisy or noisy, and its approximate signal-to-noise ratio.

    The signal is measured around the mean of all values, as a constant offset is not hidden by noise; not
    around the mean of each entry, as a mean image is signal.
    """
    noise = noise_level(evidence)
    if noise is None or evidence.floor is None or not evidence.deviation > 0:
        return NO_ANSWER, None
    ratio = signal_of(evidence, noise) / noise if noise > 0 else math.inf
    invisible = evidence.floor.deviation < VISIBLE * evidence.deviation and not evidence.partly_noisy
    # If flat regions are clean, residuals elsewhere may be fine detail, unless they are too strong for that.
    if not evidence.correlated and (ratio > 10 or (invisible and ratio > 5)):
        if evidence.may_be_partly_noisy:
            return NO_ANSWER, ratio
        return (SLIGHT if evidence.partly_noisy else CLEAN), ratio
    return (SLIGHT if ratio > 4 else NOISY), ratio


def signal_of(evidence: Evidence, noise: float) -> float:
    """Return the standard deviation of the data without its noise."""
    return math.sqrt(max(0.0, evidence.deviation**2 - noise**2))


def checks(evidence: Evidence, state: str, recordings: bool = False) -> tuple[Check, ...]:
    """Return the verdicts on all assumptions."""
    if state in (CLEAN, NO_ANSWER):
        because, meaning = _untested(evidence, state)
        return tuple(Check(name, title, UNKNOWN, because, meaning, {}) for name, title in _TITLES.items())
    return (
        _zero_mean(evidence),
        _isotropy(evidence, recordings),
        _light_tails(evidence),
        _independence(evidence),
    )


def _untested(evidence: Evidence, state: str) -> tuple[str, str]:
    if state == CLEAN:
        return "There is too little noise to test it.", "It hardly matters for this data."
    if not evidence.deviation > 0:
        return "All values are equal.", "There is nothing to learn from this data."
    if not evidence.ordered:
        return "Unordered columns have no neighbours to compare.", "Masking by neighbours is not applicable."
    if evidence.may_be_partly_noisy:
        return (
            "It is not clear whether there is noise.",
            "Look at some samples: are regions grainy that should be uniform?",
        )
    because = "The samples are too few or too small to distinguish noise from signal."
    return because, "Inspect more or larger samples."


def _check(name: str, verdict: str, because: str, meanings: dict[str, str], **numbers: float) -> Check:
    return Check(name, _TITLES[name], verdict, because, meanings[verdict], numbers)


def _zero_mean(evidence: Evidence) -> Check:
    meanings = {
        HOLDS: "The mean over the noise is the signal, on which training relies. (A constant offset cannot "
        "be detected, and counts as signal.)",
        FAILS: "Near these values the noise is one-sided, which biases predictions: use the data before it "
        "was clipped, if you have it.",
        UNKNOWN: "If those values were clipped, predictions near them are biased.",
    }
    clipped = evidence.clipped
    at_ends = sum(share for share, _, _ in evidence.ends if share > 0.01)
    numbers = {"cut_off": clipped, "at_the_ends": at_ends}
    if clipped:
        because = f"{clipped:.0%} of all values are exactly at an end of the range: they seem to be clipped."
        return _check("zero_mean", FAILS, because, meanings, **numbers)
    if at_ends and not evidence.is_uneven:
        because = (
            f"{at_ends:.0%} of all values are exactly at an end of the range: they may be clipped, or a "
            "uniform background."
        )
        return _check("zero_mean", UNKNOWN, because, meanings, **numbers)
    because = "No values are clipped at the ends of their range."
    return _check("zero_mean", HOLDS, because, meanings, **numbers)


def _isotropy(evidence: Evidence, recordings: bool) -> Check:
    counts = (
        " If the noise grows with brightness (photon counts), the square root of the data has nearly uniform "
        "noise."
    )
    meanings = {
        HOLDS: "One noise level describes all of the data. dCS relies on it to give noisier samples less "
        "weight.",
        FAILS: "dCS gives noisier samples less weight, and these weights are only approximate here."
        + counts * (evidence.is_uneven and not recordings),
        UNKNOWN: "dCS gives noisier samples less weight, and these weights may be only approximate; training "
        "still works.",
    }
    numbers = {} if evidence.part is None else {"noisier_part": evidence.part.share}
    if evidence.part is not None and evidence.part.sure:
        numbers |= {
            "high": evidence.part.at.deviation,
            "low": evidence.floor.deviation if evidence.floor else 0,
        }
        return _check("isotropy", FAILS, describe_noisy_part(evidence, recordings), meanings, **numbers)
    ratio, ends = evidence.evenness, evidence.ends_of_range
    if ratio is None or ends is None:
        levels = "loudness" if recordings else "brightness"
        return _check("isotropy", UNKNOWN, f"There are too few flat regions of different {levels}.", meanings)
    low, high = ends
    weakest = min(evidence.levels, key=lambda at: at.deviation)
    numbers |= {"low": low.deviation, "high": high.deviation, "weakest": weakest.deviation, "ratio": ratio}
    because = (
        f"In flat regions the noise level is {low.deviation:.3g} where values are low (around "
        f"{low.brightness:.4g}) and {high.deviation:.3g} where they are high (around {high.brightness:.4g})."
    )
    verdict = HOLDS if ratio >= 0.8 else FAILS if ratio < 0.6 and not evidence.correlated else UNKNOWN
    more, differ = _by_sample_and_position(evidence, numbers)
    if differ:
        verdict = FAILS
    elif verdict == HOLDS and evidence.may_be_partly_noisy:
        verdict, more = UNKNOWN, " But some regions hold more noise, or fine detail."
    elif evidence.too_quiet and not evidence.correlated and verdict == HOLDS:
        verdict = UNKNOWN
        more = (
            f" But {evidence.quiet:.0%} of all small patches have less noise than the rest of the data "
            "suggests; with a single noise level it would be about 5 %."
        )
    return _check("isotropy", verdict, because + more, meanings, **numbers)


def describe_noisy_part(evidence: Evidence, recordings: bool) -> str:
    """Describe the part of the data that is noisier."""
    part, floor = evidence.part, evidence.floor
    if part is None or floor is None:
        return ""
    whole, of_each = ("recordings", "recording") if recordings else ("samples", "sample")
    share = f"{part.share:.0%}" if part.share >= 0.1 else f"{part.share:.1%}"
    where = f"About {share} of each {of_each}" if part.of_samples is False else f"About {share} of the data"
    some = f" (some {whole} are much noisier than others)" if part.of_samples else ""
    return (
        f"{where} has a noise level of about {part.at.deviation:.3g}{some}; in flat regions elsewhere it is "
        f"{floor.deviation:.2g}. Detail as fine as single values, such as foliage, looks the same."
    )


def _by_sample_and_position(evidence: Evidence, numbers: dict[str, float]) -> tuple[str, bool]:
    """Describe how the noise differs between samples and positions; return whether it does, too."""
    text = ""
    samples, places = evidence.between_samples, evidence.between_positions
    if evidence.quiet is not None:
        numbers["quiet_share"] = evidence.quiet
    if samples is not None:
        numbers["quietest_samples"] = samples.least / samples.typical if samples.typical > 0 else 1.0
        if evidence.samples_differ:
            text += (
                f" But some samples have much less noise ({samples.least:.3g}) than the median one "
                f"({samples.typical:.3g})."
            )
    if places is not None:
        numbers["quietest_positions"] = places.least / places.typical if places.typical > 0 else 1.0
        if evidence.positions_differ:
            text += (
                f" But it depends on the position: from {places.least:.3g} to {places.typical:.3g} in the "
                "cells of a grid over all samples."
            )
    return text, bool(text)


def _light_tails(evidence: Evidence) -> Check:
    meanings = {
        HOLDS: "The noise is close to Gaussian, for which the weights of samples are computed.",
        FAILS: "A few extreme values can dominate a training step: clip or repair them first (dead pixels, "
        "dropouts). In Python, DenoisingCosine(noise=...) takes a law with heavier tails.",
        UNKNOWN: "If training is unstable, look for outliers.",
    }
    at = evidence.for_tails
    if at is None:
        return _check("light_tails", UNKNOWN, "There are too few flat regions.", meanings)
    kurtosis, count = at.kurtosis, len(at.places)
    # Correlated residuals are fewer independent observations.
    error = math.sqrt(24 / count) * (5 if evidence.correlated else 1)
    because = (
        f"Excess kurtosis, a measure of extreme values: {kurtosis:.2g} ± {2 * error:.1g}; it is 0 for "
        "Gaussian noise, and above 1 for many more extreme values."
    )
    verdict = UNKNOWN
    # Residuals hold some signal, which has heavy tails, too; more of it in these cases.
    limit = 2 if evidence.correlated or evidence.is_uneven else 1
    if count >= _ENOUGH and kurtosis > limit + 2 * error:
        verdict = FAILS
        if evidence.samples_differ or evidence.positions_differ or evidence.partly_noisy:
            verdict = UNKNOWN
            because += " A mixture of several noise levels has a large kurtosis, too."
    elif kurtosis < 0.7 and error < 0.2:
        verdict = HOLDS
    numbers = {"kurtosis": kurtosis, "error": error, "places": float(count)}
    return _check("light_tails", verdict, because, meanings, **numbers)


def _independence(evidence: Evidence) -> Check:
    meanings = {
        HOLDS: "Masked values cannot be predicted from the noise around them, on which masking relies.",
        FAILS: "The noise of a value can be predicted from its neighbours, so that a network learns it as if "
        "it were signal: training on single observations cannot remove all of it. Increase the radius of the "
        "masks, average neighbours (reduce the images), or use two observations of each sample, if you have "
        "them.",
        UNKNOWN: "If predictions look blotchy, neighbours share noise: increase the radius of the masks.",
    }
    first, second, third = evidence.correlations
    numbers = {"one_apart": first, "two_apart": second, "three_apart": third}
    if evidence.compared_at is None or math.isnan(first):
        because = "There are too few flat regions, or the samples are too small, to compare neighbours."
        return _check("independence", UNKNOWN, because, meanings)
    because = f"In flat regions the noise of neighbours has a correlation of {first:.2f}."
    if evidence.correlated:
        if not evidence.is_noise:
            because += " Fine texture that is present everywhere looks the same, and cannot be distinguished."
        return _check("independence", FAILS, because, meanings, **numbers)
    if evidence.is_noise and abs(first) < 0.15:
        return _check("independence", HOLDS, because, meanings, **numbers)
    because = "No region is flat enough to distinguish shared noise from shared signal of neighbours."
    return _check("independence", UNKNOWN, because, meanings, **numbers)

"""From numbers to words: does what the loss assumes of the noise hold?"""

import math

from dcs.inspection._evidence import Evidence
from dcs.inspection._result import FAILS, HOLDS, UNKNOWN, Check

CLEAN, SLIGHT, NOISY, NO_ANSWER = "clean", "slight", "noisy", "unknown"
VISIBLE = 0.05  # noise below this share of the data's deviation is not told from rounding and fine detail
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
    if evidence.part is not None and evidence.part.sure:
        part = evidence.part
        usual = math.sqrt(part.share * part.at.deviation**2 + (1 - part.share) * floor.deviation**2)
    if evidence.samples_differ and evidence.between_samples is not None:
        usual = max(usual, evidence.between_samples.mean)
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
    """Whether the data is clean, slightly noisy or noisy, and about its signal-to-noise ratio.

    The signal is measured around the mean of all values: an offset says nothing of what the noise hides. Not
    around the mean of each entry, since a mean picture is signal too.
    """
    noise = noise_level(evidence)
    if noise is None or evidence.floor is None or not evidence.deviation > 0:
        return NO_ANSWER, None
    ratio = signal_of(evidence, noise) / noise if noise > 0 else math.inf
    unseen = evidence.floor.deviation < VISIBLE * evidence.deviation and not evidence.partly_noisy
    # Where calm places show no noise, what others show may be fine detail, unless it is too strong for that.
    if not evidence.correlated and (ratio > 10 or (unseen and ratio > 5)):
        if evidence.may_be_partly_noisy:
            return NO_ANSWER, ratio
        return (SLIGHT if evidence.partly_noisy else CLEAN), ratio
    return (SLIGHT if ratio > 4 else NOISY), ratio


def signal_of(evidence: Evidence, noise: float) -> float:
    """The deviation of the data without its noise."""
    return math.sqrt(max(0.0, evidence.deviation**2 - noise**2))


def checks(evidence: Evidence, state: str, recordings: bool = False) -> tuple[Check, ...]:
    """Judge all assumptions."""
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
        return "All values are the same.", "There is nothing to learn from this data."
    if not evidence.ordered:
        return (
            "Columns in no order have no neighbours to compare.",
            "Masking by neighbours means nothing here.",
        )
    if evidence.may_be_partly_noisy:
        return (
            "It cannot be told whether there is noise.",
            "Look at some samples yourself: is there grain in what should be even?",
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
        because = (
            f"{at_ends:.0%} of all values lie exactly at the end of the range: they may have been cut off, "
            "or be a plain ground."
        )
        return _check("zero_mean", UNKNOWN, because, meanings, **numbers)
    because = "No values are cut off at the ends of their range."
    return _check("zero_mean", HOLDS, because, meanings, **numbers)


def _isotropy(evidence: Evidence, recordings: bool) -> Check:
    counts = (
        " If the noise grows with brightness (photon counts), the square root of the data has noise that is "
        "nearly even."
    )
    meanings = {
        HOLDS: "One strength of noise describes all of the data. dCS relies on it when it weighs samples: "
        "noisier ones count less.",
        FAILS: "dCS gives noisier samples less weight, and this weight is then only roughly right."
        + counts * (evidence.is_uneven and not recordings),
        UNKNOWN: "dCS gives noisier samples less weight, and this weight may be only roughly right; training "
        "works all the same.",
    }
    numbers = {} if evidence.part is None else {"noisier_part": evidence.part.share}
    if evidence.part is not None and evidence.part.sure:
        numbers |= {
            "high": evidence.part.at.deviation,
            "low": evidence.floor.deviation if evidence.floor else 0,
        }
        return _check("isotropy", FAILS, partly(evidence, recordings), meanings, **numbers)
    ratio, ends = evidence.evenness, evidence.ends_of_range
    if ratio is None or ends is None:
        levels = "loudness" if recordings else "brightness"
        return _check("isotropy", UNKNOWN, f"There are too few calm places of different {levels}.", meanings)
    low, high = ends
    weakest = min(evidence.levels, key=lambda at: at.deviation)
    numbers |= {"low": low.deviation, "high": high.deviation, "weakest": weakest.deviation, "ratio": ratio}
    because = (
        f"In calm places the noise has a deviation of {low.deviation:.3g} where values are low (around "
        f"{low.brightness:.4g}), and of {high.deviation:.3g} where they are high (around "
        f"{high.brightness:.4g})."
    )
    verdict = HOLDS if ratio >= 0.8 else FAILS if ratio < 0.6 and not evidence.correlated else UNKNOWN
    more, differ = _by_sample_and_position(evidence, numbers)
    if differ:
        verdict = FAILS
    elif verdict == HOLDS and evidence.may_be_partly_noisy:
        verdict, more = UNKNOWN, " But some places are busier: with noise, or with fine detail."
    elif evidence.too_quiet and not evidence.correlated and verdict == HOLDS:
        verdict = UNKNOWN
        more = (
            f" But {evidence.quiet:.0%} of all small patches are quieter than the rest of the data lets "
            "expect; with noise of one strength about 5 % would be."
        )
    return _check("isotropy", verdict, because + more, meanings, **numbers)


def partly(evidence: Evidence, recordings: bool) -> str:
    """Which part of the data is noisier, in words."""
    part, floor = evidence.part, evidence.floor
    if part is None or floor is None:
        return ""
    whole, of_each = ("recordings", "recording") if recordings else ("samples", "sample")
    share = f"{part.share:.0%}" if part.share >= 0.1 else f"{part.share:.1%}"
    where = f"About {share} of each {of_each}" if part.of_samples is False else f"About {share} of the data"
    some = f" (some {whole} are much noisier than others)" if part.of_samples else ""
    return (
        f"{where} has noise of a deviation of about {part.at.deviation:.3g}{some}; in calm places elsewhere "
        f"it is {floor.deviation:.2g}. Detail as fine as single values, such as foliage, looks the same."
    )


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
    because = (
        f"How often extreme values occur (excess kurtosis): {kurtosis:.2g} ± {2 * error:.1g}; 0 is as in "
        "Gaussian noise, above 1 many more."
    )
    verdict = UNKNOWN
    # Signal that leaks in has heavy tails as well, and leaks in more where less is sure.
    limit = 2 if evidence.correlated or evidence.is_uneven else 1
    if count >= _ENOUGH and kurtosis > limit + 2 * error:
        verdict = FAILS
        if evidence.samples_differ or evidence.positions_differ or evidence.partly_noisy:
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

"""The answer in one or two sentences."""

from dcs.inspection._evidence import Evidence
from dcs.inspection._verdicts import CLEAN, NO_ANSWER, SLIGHT, noise_level, signal_of

_OFFSET = 5  # times the deviation of the data: all else then changes cosines by at most 4 %
_HARDLY = 0.3  # times the noise: less signal is invisible in a single sample


def has_offset(evidence: Evidence) -> bool:
    """Return whether the mean of all values is large compared with their standard deviation."""
    return abs(evidence.mean) > _OFFSET * evidence.deviation > 0


def note_offset(evidence: Evidence) -> str:
    """Return a note on the offset."""
    return (
        f"The mean of all values, {evidence.mean:.4g}, is large compared with their standard deviation, "
        f"{evidence.deviation:.2g}. The results on the noise do not depend on this offset, but the cosines "
        "in training do: for any such data c is large and k is close to 1, and little would be learned. "
        "Subtract the mean first: x - x.mean()."
    )


def summarise(state: str, ratio: float | None, evidence: Evidence) -> str:
    """Return how noisy the data is, and whether it has a large offset."""
    offset = " Signal and noise are small compared with a constant offset: subtract the mean first."
    return _how_noisy(state, ratio, evidence) + offset * has_offset(evidence)


def _how_noisy(state: str, ratio: float | None, evidence: Evidence) -> str:
    if not evidence.ordered:
        return (
            "Cannot tell: neighbouring columns are no more similar than others, so they seem to have no "
            "order, and comparing neighbours cannot distinguish noise from signal."
        )
    if not evidence.deviation > 0:
        return "Cannot tell: all values are equal."
    if evidence.may_be_partly_noisy and state == NO_ANSWER and evidence.part is not None:
        return (
            f"Cannot tell: flat regions are clean, but about {evidence.part.share:.0%} of the data has noise "
            "or very fine detail."
        )
    if state == NO_ANSWER or ratio is None:
        return "Cannot tell: the samples are too few or too small."
    if state == CLEAN:
        return _clean(ratio, evidence)
    times = f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}"
    about = f"the signal is about {times} times as strong as the noise"
    if evidence.correlated:
        begin = "Slightly noisy or more" if state == SLIGHT else "Noisy"
        most = f"the signal is at most about {times} times as strong as the noise"
        return f"{begin}, and neighbours share the noise: dCS can remove some of it ({most})."
    if evidence.part is not None and evidence.part.sure:
        which = "some samples are" if evidence.part.of_samples else "a part of each sample is"
        which = "some regions are" if evidence.part.of_samples is None else which
        return (
            f"Partly noisy: {which} much noisier than the rest, unless this is detail as fine as single "
            f"values, such as foliage. dCS can help there (on average {about})."
        )
    if ratio < _HARDLY:
        return (
            f"Nearly all noise: there is hardly any signal (it is about {times} times as strong as the "
            "noise), and training may learn nothing."
        )
    if state == SLIGHT:
        return f"Slightly noisy: dCS may help a little ({about})."
    uneven = ", which is not equally strong everywhere" if evidence.varies else ""
    return f"Noisy: dCS can help ({about}{uneven})."


def _clean(ratio: float, evidence: Evidence) -> str:
    noise = noise_level(evidence) or 0.0
    strength = (
        "No noise was found in flat regions"
        if ratio > 1000
        else f"The signal (standard deviation {signal_of(evidence, noise):.2g}) is about {ratio:.0f} times "
        f"as strong as the noise could be in flat regions ({noise:.2g})"
    )
    return (
        f"Clean: dCS will not help much. {strength}; elsewhere, faint noise cannot be distinguished from "
        "fine detail, nor stripes from signal."
    )

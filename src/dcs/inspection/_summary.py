"""The answer in a sentence or two."""

from dcs.inspection._evidence import Evidence
from dcs.inspection._verdicts import CLEAN, NO_ANSWER, SLIGHT, noise_level, signal_of

_OFFSET = 5  # times the deviation of the data: of a cosine hardly 4 % is left to all else
_HARDLY = 0.3  # times the noise: less signal cannot be seen in a single sample


def has_offset(evidence: Evidence) -> bool:
    """Whether the mean of all values dwarfs how they differ."""
    return abs(evidence.mean) > _OFFSET * evidence.deviation > 0


def note_offset(evidence: Evidence) -> str:
    """What to say of it."""
    return (
        f"All values lie around {evidence.mean:.4g} and differ by {evidence.deviation:.2g} only: this "
        "offset dwarfs signal and noise. It is left out of what is said of the noise here, but training "
        "compares by cosines, which see it: c is large and k near 1 for any such data, and little would be "
        "learnt. Subtract the mean first: x - x.mean()."
    )


def summarise(state: str, ratio: float | None, evidence: Evidence) -> str:
    """Say how noisy the data is, and whether an offset hides it."""
    offset = " A large constant offset dwarfs both: subtract the mean first." * has_offset(evidence)
    return _how_noisy(state, ratio, evidence) + offset


def _how_noisy(state: str, ratio: float | None, evidence: Evidence) -> str:
    if not evidence.ordered:
        return (
            "Cannot tell: neighbouring columns are no more alike than others, so they seem to have no "
            "order, and noise cannot be told from signal by comparing neighbours."
        )
    if not evidence.deviation > 0:
        return "Cannot tell: all values are the same."
    if evidence.may_be_partly_noisy and state == NO_ANSWER and evidence.part is not None:
        return (
            f"Cannot tell: calm places are clean, but about {evidence.part.share:.0%} of the data has noise, "
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
        which = "some places are" if evidence.part.of_samples is None else which
        return (
            f"Partly noisy: {which} much noisier than the rest, unless detail as fine as single values, such "
            f"as foliage, looks like it. dCS can help there (on average {about})."
        )
    if ratio < _HARDLY:
        return (
            f"Nearly all noise: hardly any signal can be seen (it is about {times} times as strong as the "
            "noise). dCS has little to go by; a run on so much noise may learn nothing."
        )
    if state == SLIGHT:
        return f"Slightly noisy: dCS may help a little ({about})."
    uneven = ", which is not equally strong everywhere" if evidence.varies else ""
    return f"Noisy: dCS can help ({about}{uneven})."


def _clean(ratio: float, evidence: Evidence) -> str:
    noise = noise_level(evidence) or 0.0
    strength = (
        "none was found"
        if ratio > 1000
        else f"the signal (deviation {signal_of(evidence, noise):.2g}) is about {ratio:.0f} times as strong "
        f"as what noise could be there ({noise:.2g})"
    )
    return (
        f"Clean: dCS will not help much. Noise was looked for in calm places, and {strength}; elsewhere, "
        "faint noise cannot be told from fine detail, nor can stripes from signal."
    )

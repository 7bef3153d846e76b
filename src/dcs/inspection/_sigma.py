"""One strength of the noise from several estimates of it."""

import math

from dcs.inspection._evidence import Evidence
from dcs.inspection._result import Estimate, Sigma
from dcs.inspection._verdicts import CLEAN, NO_ANSWER, VISIBLE, noise_level

_SYSTEMATIC = 0.05  # as far as estimates were off where all agreed; see studies/inspection.py


def sigma_of(evidence: Evidence, state: str, recordings: bool = False) -> Sigma:
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
    agree, why = _agreement(evidence, state, recordings)
    value = _headline(evidence, state)
    # What is systematic shows in how estimators differ, and is never known to be less than a few percent. Of
    # an interval without an upper end nothing is known, not even that it begins at 0.
    sure = [one for one in known if math.isfinite(one.high)]
    ends = [one.value for one in known] + [end for one in sure for end in (one.low, one.high)]
    low, high = min((1 - _SYSTEMATIC) * value, *ends), max((1 + _SYSTEMATIC) * value, *ends)
    if evidence.correlated:
        high = max(high, evidence.deviation)
    if evidence.positions_differ and evidence.between_positions is not None:
        high = max(high, evidence.between_positions.usual)  # rims are not seen
    if evidence.part is not None:
        high = max(high, evidence.part.at.deviation)
    if state == CLEAN:
        low, high = 0.0, max(high, noise_level(evidence) or 0.0)
    if state == NO_ANSWER:  # all of it may be noise, or none
        low, high = 0.0, max(high, evidence.deviation)
    at_least = evidence.correlated and state != CLEAN
    return Sigma(value, low, high, chen, mad, calm, agree, why, at_least)


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


def _agreement(evidence: Evidence, state: str, recordings: bool) -> tuple[bool, str]:
    chen, mad, floor = evidence.chen2015, evidence.mad, evidence.floor
    if chen is None or mad is None or floor is None:
        return False, (
            "Not all three estimates can be made from samples so few or so small, and those that can may be "
            "of fine detail."
        )
    values = [chen.value, mad.value, floor.deviation]
    if state == CLEAN and max(values) < VISIBLE * evidence.deviation:
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
    if evidence.may_be_partly_noisy:
        return False, (
            "The three estimates differ: some places are much busier than calm ones, with noise or with fine "
            "detail, which cannot be told apart here."
        )
    if max(values) - min(values) <= 0.15 * max(values):
        return True, "All three estimates agree to 15 %."
    if state != CLEAN and evidence.varies:
        part = evidence.part
        where = [
            word
            for word, so in (
                ("loudness" if recordings else "brightness", evidence.is_uneven),
                ("sample", evidence.samples_differ or (part is not None and part.of_samples is not False)),
                ("position", evidence.positions_differ or (part is not None and not part.of_samples)),
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
    if chen.value == min(values):
        return False, (
            "The three estimates differ: chen2015 is the smallest, as it is where neighbours share a part of "
            "the noise (in spectrograms they do) or where some places are quieter."
        )
    return False, (
        "The three estimates differ: fine detail and outliers raise chen2015, while mad, a median, hardly "
        "sees outliers."
    )

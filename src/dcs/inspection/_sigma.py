"""One noise level from several estimates."""

import math

from dcs.inspection._evidence import Evidence
from dcs.inspection._result import Estimate, Sigma
from dcs.inspection._verdicts import CLEAN, NO_ANSWER, VISIBLE, noise_level

_SYSTEMATIC = 0.05  # largest error where all estimates agreed; see studies/inspection.py


def sigma_of(evidence: Evidence, state: str, recordings: bool = False) -> Sigma:
    """Combine the estimates of the noise level."""
    chen, mad, floor = evidence.chen2015, evidence.mad, evidence.floor
    flat = None
    if floor is not None:
        flat = Estimate(
            floor.deviation, max(0.0, floor.deviation - 2 * floor.error), floor.deviation + 2 * floor.error
        )
    known = [one for one in (chen, mad, flat) if one is not None]
    if not known or not evidence.deviation > 0:
        why = "The samples are too few or too small for any estimate."
        if not evidence.deviation > 0:
            why = "All values are equal."
        return Sigma(None, None, None, chen, mad, flat, False, why)
    agree, why = _agreement(evidence, state, recordings)
    value = _headline(evidence, state)
    # Systematic errors show in how estimates differ, and are never known to be below a few percent. An
    # interval without an upper end says nothing, not even that it starts at 0.
    sure = [one for one in known if math.isfinite(one.high)]
    ends = [one.value for one in known] + [end for one in sure for end in (one.low, one.high)]
    low, high = min((1 - _SYSTEMATIC) * value, *ends), max((1 + _SYSTEMATIC) * value, *ends)
    if evidence.correlated:
        high = max(high, evidence.deviation)
    if evidence.positions_differ and evidence.between_positions is not None:
        high = max(high, evidence.between_positions.typical)  # borders have no residuals
    if evidence.part is not None:
        high = max(high, evidence.part.at.deviation)
    if state == CLEAN:
        low, high = 0.0, max(high, noise_level(evidence) or 0.0)
    if state == NO_ANSWER:  # the data may be all noise, or none
        low, high = 0.0, max(high, evidence.deviation)
    at_least = evidence.correlated and state != CLEAN
    return Sigma(value, low, high, chen, mad, flat, agree, why, at_least)


def _headline(evidence: Evidence, state: str) -> float:
    """Return the best of the estimates, of which there is at least one."""
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
    # Flat regions are often where values, and thereby the noise, are clipped.
    if evidence.clipped:
        return chen.value
    # Detail adds to both; if they hardly differ, the smaller one is the better.
    close = chen.value > 0.85 * floor.deviation
    return min(chen.value, floor.deviation) if close else floor.deviation


def _agreement(evidence: Evidence, state: str, recordings: bool) -> tuple[bool, str]:
    chen, mad, floor = evidence.chen2015, evidence.mad, evidence.floor
    if chen is None or mad is None or floor is None:
        return False, (
            "The samples are too few or too small for all three estimates; the others may include fine "
            "detail."
        )
    values = [chen.value, mad.value, floor.deviation]
    if state == CLEAN and max(values) < VISIBLE * evidence.deviation:
        return True, "All three estimates are close to 0."
    if evidence.correlated:
        if floor.deviation >= max(chen.value, mad.value):
            return False, (
                "chen2015 and mad cover only noise that differs between adjacent values, not noise that "
                "neighbours share: the noise is stronger than they say."
            )
        return False, (
            "The estimates differ: if neighbours share noise, each estimate covers only a part of it, and "
            "flat regions have less noise here than the rest. The largest estimate is given."
        )
    if evidence.may_be_partly_noisy:
        return False, (
            "The three estimates differ: some regions hold noise or fine detail, which cannot be "
            "distinguished here."
        )
    if max(values) - min(values) <= 0.15 * max(values):
        return True, "All three estimates agree within 15 %."
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
            f"{' and '.join(where)}): no single number describes it, and its approximate root mean square is "
            "given."
        )
    if state == CLEAN or floor.deviation <= min(chen.value, mad.value):
        return False, (
            "The three estimates differ: chen2015 and mad also count detail as fine as single values, of "
            "which flat regions have least."
        )
    if chen.value == min(values):
        return False, (
            "The three estimates differ: chen2015 is the smallest, as it is if neighbours share a part of "
            "the noise (in spectrograms they do) or if some regions have less noise."
        )
    return False, (
        "The three estimates differ: fine detail and outliers raise chen2015, while mad, a median, is robust "
        "to outliers."
    )

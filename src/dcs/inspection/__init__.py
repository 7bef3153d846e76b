"""How noisy is data, does what the loss assumes hold, and what is to be done? `dcs inspect` in Python."""

import math
from typing import Any

from torch import Tensor

from dcs._checks import check_choice, check_integer
from dcs.inspection._advice import advise, for_small, weights
from dcs.inspection._evidence import Evidence, gather, without_neighbours
from dcs.inspection._reading import as_split, choose, in_order, middle
from dcs.inspection._result import (
    FAILS,
    HOLDS,
    UNKNOWN,
    Advice,
    Check,
    Distribution,
    Estimate,
    Inspection,
    Sigma,
)
from dcs.inspection._verdicts import CLEAN, NO_ANSWER, SLIGHT, checks, sigma_of, state_of

__all__ = [
    "FAILS",
    "HOLDS",
    "UNKNOWN",
    "Advice",
    "Check",
    "Distribution",
    "Estimate",
    "Inspection",
    "Sigma",
    "inspect",
]

_EXAMPLES = 6


def inspect(x: Any, *, samples: int = 4096, domain: str | None = None, seed: int = 0) -> Inspection:
    """Find out how noisy data is, and whether the dCS loss would help.

    No clean data is needed: entries are predicted from others, never from themselves, and what calm places
    leave unexplained is noise. docs/inspect.md says how, and how often it is right.

    Args:
        x: Noisy samples (n, d), (n, t), (n, h, w) or (n, c, h, w): an array, tensor, `dcs.data.Samples`,
            `Split` or `Dataset` (of which `train` is looked at), or anything else that `dcs.data.load` takes.
            Data on disk is not read as a whole.
        samples: Look at so many at most, evenly spread; fewer where they are large.
        domain: For recordings: `spectrogram` (n, time, bands) or `waveform`, which are masked along time.
        seed: Of the masks for ĉ and k.

    Returns:
        All numbers and verdicts.

    Example:
        >>> import dcs
        >>> digits = dcs.data.load("digits", noise=("gaussian", 0.3)).train
        >>> found = inspect(digits)
        >>> found.state, round(found.sigma.value, 1), found.advice.views
        ('noisy', 0.3, 'split')
        >>> found["independence"].verdict
        'holds'
    """
    check_integer("samples", samples, at_least=1)
    check_integer("seed", seed, at_least=0)
    if domain is not None:
        check_choice("domain", domain, ("spectrogram", "waveform"))
    split = as_split(x)
    if domain == "spectrogram" and len(split.x.shape) < 3:
        raise ValueError(f"x must be spectrograms (n, time, bands), got shape {tuple(split.x.shape)}")
    chosen, notes = choose(split, samples)
    ndim = 1 if domain == "waveform" or not (chosen.ndim > 2 and chosen.shape[-2] > 2) else 2
    chosen, cut = middle(chosen, ndim)
    ordered = domain is not None or in_order(chosen)
    evidence = gather(chosen, ndim) if ordered else without_neighbours(chosen)
    state, ratio = state_of(evidence)
    judged = checks(evidence, state)
    sigma = sigma_of(evidence, state)
    advice = advise(evidence, state, judged, sigma, chosen[0].numel(), domain)
    spread = weights(chosen, advice, sigma, ndim, domain, seed) if ordered and advice.ready else None
    if spread is None and advice.views in ("blind_spot", "amplitude"):
        advice = for_small(chosen[0].numel())
    noise = sigma.value or 0.0
    return Inspection(
        state=state,
        summary=_summary(state, ratio, evidence),
        shape=tuple(split.x.shape[1:]),
        samples=len(split),
        inspected=len(chosen),
        ordered=ordered,
        notes=(*notes, *cut),
        signal=math.sqrt(max(0.0, evidence.square - noise**2)),
        snr=ratio,
        sigma=sigma,
        noise_by_brightness=tuple((at.brightness, at.deviation) for at in evidence.levels),
        quiet_share=evidence.quiet,
        checks=judged,
        c=None if spread is None else spread[0],
        k=None if spread is None else spread[1],
        dim=None if spread is None else spread[2],
        advice=advice,
        examples=_examples(evidence),
    )


def _summary(state: str, ratio: float | None, evidence: Evidence) -> str:
    if not evidence.ordered:
        return (
            "Cannot tell: neighbouring columns are no more alike than others, so they seem to have no "
            "order, and noise cannot be told from signal by comparing neighbours."
        )
    if not evidence.deviation > 0:
        return "Cannot tell: all values are the same."
    if state == NO_ANSWER or ratio is None:
        return "Cannot tell: the samples are too few or too small."
    if state == CLEAN:
        strength = (
            "none was found"
            if ratio > 1000
            else f"the signal is about {ratio:.0f} times as strong as what noise could be there"
        )
        return (
            f"Clean: dCS will not help much. Noise was looked for in calm places, and {strength}; elsewhere, "
            "faint noise cannot be told from fine detail, nor can stripes from signal."
        )
    times = f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}"
    about = f"the signal is about {times} times as strong as the noise"
    if evidence.correlated:
        begin = "Slightly noisy" if state == SLIGHT else "Noisy"
        return f"{begin}, and neighbours share the noise: dCS can remove some of it ({about}, or less)."
    if state == SLIGHT:
        return f"Slightly noisy: dCS may help a little ({about})."
    uneven = ", which is not equally strong everywhere" if evidence.varies else ""
    return f"Noisy: dCS can help ({about}{uneven})."


def _examples(evidence: Evidence) -> tuple[Tensor, Tensor] | None:
    """Some samples, and what their neighbours do not foretell of them."""
    near = evidence.near
    if near is None or near.left.shape[0] == 0:
        return None
    count = min(_EXAMPLES, len(near.left))
    rows = [(number * len(near.left)) // count for number in range(count)]
    noisy = (near.foretold + near.left)[rows]
    return noisy.float().cpu(), near.left[rows].float().cpu()

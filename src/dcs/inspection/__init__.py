"""How noisy is data, which assumptions of the loss hold, and which training fits? `dcs inspect` in Python."""

from dataclasses import replace
from typing import Any

from dcs._checks import check_choice, check_integer
from dcs.data import Dataset, is_large
from dcs.inspection._advice import advise, advise_small, snr_distributions
from dcs.inspection._evidence import gather
from dcs.inspection._reading import (
    as_split,
    choose_samples,
    is_ordered,
    spectrograms,
    spread_rows,
    windows_of,
)
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
    number,
    size,
    strength,
)
from dcs.inspection._verdicts import checks, sigma_of, state_of, summarise
from dcs.noise.level import has_flat_blocks
from dcs.objectives import AutomaticViews

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
    "number",
    "size",
    "strength",
]

_EXAMPLES = 6


def inspect(x: Any, *, samples: int = 4096, domain: str | None = None, seed: int = 0) -> Inspection:
    """Measure how noisy data is, and whether the dCS loss would help.

    No clean data is needed: entries are predicted from others, never from themselves, and the residuals in
    flat regions are noise. docs/inspect.md describes the method and how often it is right.

    Args:
        x: Noisy samples (n, d), (n, t), (n, h, w) or (n, c, h, w): an array, tensor, `dcs.data.Samples`,
            `Split` or `Dataset` (whose training split is inspected), or anything else that `dcs.data.load`
            takes. Data on disk is not read as a whole.
        samples: Largest number of samples to inspect, evenly spread; fewer if they are large.
        domain: What is inspected of recordings: `spectrogram`, given as (n, time, bands) or computed from a
            `Dataset` of recordings, or `waveform`. Both are masked along time.
        seed: Random seed of the masks for ĉ and k.

    Returns:
        All numbers and verdicts, and advice.

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
    whole = as_split(x)
    split, about = windows_of(whole)
    if domain == "spectrogram" and isinstance(x, Dataset) and x.rate and len(x.shape) == 1:
        split = spectrograms(replace(x, train=split), samples)
    if domain == "spectrogram" and len(split.x.shape) < 3:
        raise ValueError(f"x must be spectrograms (n, time, bands), got shape {tuple(split.x.shape)}")
    chosen, ndim, notes = choose_samples(split, samples, domain)
    notes = about + notes
    entries = chosen[0].numel()
    ordered = domain is not None or is_ordered(chosen)
    evidence = gather(chosen, ndim if ordered else None)
    state, ratio = state_of(evidence)
    judged = checks(evidence, state, domain is not None)
    sigma = sigma_of(evidence, state, domain is not None)
    windows = domain is None and (whole.items is not None or is_large(whole.x.shape[1:]))
    splits = None
    if domain is None and ordered and has_flat_blocks(chosen.shape[1:]):
        views = AutomaticViews()
        views.estimate(chosen)
        splits = views.splits
    advice = advise(evidence, state, judged, sigma, entries, domain, windows, splits)
    spread = None
    if ordered and advice.ready:
        spread = snr_distributions(chosen, advice, sigma, ndim, domain, seed, windows)
    if spread is None and advice.views in ("blind_spot", "amplitude"):
        advice = advise_small(entries)
    c, k, dim = spread or (None, None, None)
    if evidence.offset is not None and not windows:  # which are standardised in training
        notes += (
            f"The mean of all values, {evidence.mean:.4g}, is large compared with their standard deviation, "
            f"{evidence.deviation:.2g}. The results on the noise do not depend on this offset, but the "
            "cosines in training do: for any such data c is large and k is close to 1, and little would be "
            "learned. Subtract the mean first: x - x.mean().",
        )
    examples = None
    if evidence.near is not None:
        rows = spread_rows(len(evidence.near.value), _EXAMPLES)
        value, predicted = evidence.near.value[rows], evidence.near.predicted[rows]
        examples = (predicted + value).float().cpu(), value.float().cpu()
    return Inspection(
        state=state,
        summary=summarise(state, ratio, evidence),
        shape=tuple(split.x.shape[1:]),
        samples=len(whole),
        inspected=len(chosen),
        ordered=ordered,
        notes=notes,
        signal=evidence.signal(sigma.value or 0.0),
        snr=ratio,
        sigma=sigma,
        noise_by_brightness=tuple((at.brightness, at.deviation) for at in evidence.levels),
        quiet_share=evidence.quiet,
        checks=judged,
        c=c,
        k=k,
        dim=dim,
        advice=advice,
        domain=domain,
        offset=None if windows else evidence.offset,
        examples=examples,
    )

"""Advice: the training that fits the data."""

import json

import torch
from torch import Tensor

from dcs.inspection._evidence import Evidence
from dcs.inspection._result import FAILS, UNKNOWN, Advice, Check, Distribution, Sigma
from dcs.inspection._verdicts import CLEAN, NO_ANSWER
from dcs.masking import AmplitudeNeighbors, BlindSpot, Masker
from dcs.noise import GaussianSplit
from dcs.objectives import DenoisingCosine
from dcs.objectives.views import LEAST_NOISE

_SHARES = (5, 25, 50, 75, 95)
_BARS = 24
_SMALLEST = 1e-12  # deviation; the squares of smaller values, and of those above 1 / this, leave float32


def advise(
    evidence: Evidence, state: str, checks: tuple[Check, ...], sigma: Sigma, entries: int, domain: str | None
) -> Advice:
    """Choose an objective and its views.

    Args:
        evidence: Measurements of the data.
        state: `clean`, `slight`, `noisy` or `unknown`.
        checks: Verdicts on the assumptions.
        sigma: Noise level.
        entries: Number of entries of a sample.
        domain: `spectrogram` or `waveform`, for recordings.
    """
    verdicts = {check.name: check.verdict for check in checks}
    unready = _unready(evidence)
    if unready is not None:
        return Advice("none", "none", None, None, (), unready, (), ready=False)
    arguments = ["--domain", "waveform"] if domain == "waveform" else []
    if state == CLEAN:
        why = "There is hardly any noise to remove: a plain autoencoder is as good."
        return Advice("mse", "none", None, None, ("--objective", "mse", *arguments), why, ())
    if not evidence.ordered:
        why = (
            "Masking needs neighbours, which unordered columns do not have; dae, a denoising autoencoder, "
            "needs none."
        )
        known = (
            "If you know the noise level σ, dcs with the setting "
            'masking={"kind": "split", "sigma": σ} needs no neighbours.'
        )
        return Advice("dae", "none", None, None, ("--objective", "dae"), why, (known,))
    warnings = _warnings(evidence, verdicts, state)
    if domain is not None:
        why = "Recordings are masked along time: values are replaced by others up to 2 steps away."
        return Advice("dcs", "amplitude", 0.3, 2, tuple(arguments), why, warnings)
    rho = 0.3 if 0.3 * entries >= 10 else 0.5
    if _can_be_split(evidence, state):
        estimate = sigma.value if sigma.value and verdicts["isotropy"] != FAILS else _chen(evidence)
        level = float(f"{estimate:.3g}")
        arguments = ["--set", "masking=" + json.dumps({"kind": "split", "sigma": level})]
        reason = "One noise level describes the data"
        if verdicts["isotropy"] == FAILS:
            reason = "The noise is not equally strong everywhere, but hardly any region has much less noise"
        why = f"{reason}, so samples can be split into two noisy versions that are compared in all values."
        if level != float(f"{sigma.value or 0:.3g}"):
            why += f" (The command has {level:g}: the estimate by chen2015, which training uses.)"
        return Advice("dcs", "split", None, None, tuple(arguments), why, warnings)
    window = 1
    if evidence.correlated:
        window = next((lag for lag, r in enumerate(evidence.correlations, 1) if lag > 1 and r < 0.3), 3)
        why = (
            f"Neighbours share noise: masks of radius {window} also copy from more distant values, whose "
            "noise is less correlated."
        )
    elif evidence.part is not None and evidence.part.sure:
        why = "Only a part of the data is noisy, and masking needs to know neither which nor how noisy it is."
    elif state == NO_ANSWER:
        why = (
            "Masking does not need the noise level. (By default, dcs fit decides by itself: it splits "
            "samples if it finds noise that is equally strong everywhere, and masks otherwise.)"
        )
    elif verdicts["isotropy"] == FAILS:
        why = "The noise is not equally strong everywhere, and masking does not need the noise level."
    elif evidence.too_quiet:
        why = (
            "It is not certain that the noise is equally strong everywhere, and masking does not need the "
            "noise level."
        )
    else:
        why = "The noise level is too uncertain to split samples, and masking does not need it."
    masking = {"kind": "blind_spot", "rho": rho, "radius": window}
    arguments += ["--set", "masking=" + json.dumps(masking)]
    return Advice("dcs", "blind_spot", rho, window, tuple(arguments), why, warnings)


def _unready(evidence: Evidence) -> str | None:
    """Return what to do first, if training would fail or be useless."""
    if not evidence.deviation > 0:
        return "There is nothing to learn: all values are equal."
    if evidence.deviation < _SMALLEST or evidence.square > _SMALLEST**-2:
        return (
            "Rescale your data first, to values around 1: its standard deviation is "
            f"{evidence.deviation:.1g}, and squares of such numbers exceed the range of float32."
        )
    return None


def advise_small(entries: int) -> Advice:
    """Return the advice for samples that are too small to be masked."""
    why = "The samples are too small to be masked; dae, a denoising autoencoder, needs no masks."
    if entries < 2:
        why = (
            "A sample of one value has no neighbours and no direction: dCS is not applicable, nor are masks."
        )
    return Advice("dae", "none", None, None, ("--objective", "dae"), why, ())


def _can_be_split(evidence: Evidence, state: str) -> bool:
    """Return whether one σ > 0 describes the noise, by the rule that training applies."""
    visible = _chen(evidence) > LEAST_NOISE * evidence.deviation
    usable = state != NO_ANSWER and not evidence.correlated and visible
    return usable and evidence.quiet is not None and not evidence.too_quiet


def _chen(evidence: Evidence) -> float:
    return 0.0 if evidence.chen2015 is None else evidence.chen2015.value


def _warnings(evidence: Evidence, verdicts: dict[str, str], state: str) -> tuple[str, ...]:
    found = []
    if state == NO_ANSWER and evidence.may_be_partly_noisy:
        found.append("If this is detail and not noise, the objective mse is as good: compare with it.")
    elif state == NO_ANSWER:
        found.append("There is too little evidence: take this as a starting point, not as a result.")
    if verdicts["isotropy"] == FAILS:
        found.append("The objective n2v assumes less (zero mean and independence only): compare with it.")
    if state != NO_ANSWER and all(verdict == UNKNOWN for verdict in verdicts.values()):
        found.append("None of the assumptions could be tested.")
    return tuple(found)


def snr_distributions(
    x: Tensor, advice: Advice, sigma: Sigma, ndim: int, domain: str | None, seed: int
) -> tuple[Distribution, Distribution, float] | None:
    """Return the distributions of ĉ and k for the recommended views, and the number of compared entries.

    If no views are recommended, they are those of masking. None if samples are too small to be masked.
    """
    masker: Masker | GaussianSplit
    if advice.views == "split" and sigma.value:
        masker, dim = GaussianSplit(sigma.value), float(x[0].numel())
    else:
        rho = advice.rho or 0.3
        dim = rho * x[0].numel()
        masker = BlindSpot(rho, radius=advice.window or 1, ndim=ndim)
        if domain is not None:
            masker = AmplitudeNeighbors(rho, axis=-2 if domain == "spectrogram" else -1)
    objective = DenoisingCosine(masker)
    generator = torch.Generator(x.device).manual_seed(seed)
    parts = x.split(max(1, 2**20 // x[0].numel()))
    try:
        found = [objective.weights(part, generator)[:2] for part in parts]
    except ValueError:  # samples too small to be masked
        return None
    c, k = (torch.cat(values) for values in zip(*found, strict=True))
    return _spread(c), _spread(k, (0.0, 1.0)), dim


def _spread(values: Tensor, ends: tuple[float, float] | None = None) -> Distribution:
    finite = values[values.isfinite()].double()
    infinite = len(values) - len(finite)
    if not len(finite):
        return Distribution({}, (), (), infinite)
    shares = torch.tensor(_SHARES, dtype=torch.float64) / 100
    quantiles = torch.quantile(finite, shares.to(finite.device)).tolist()
    low, high = ends or (0.0, max(1e-9, 1.3 * quantiles[-1]))
    counts = torch.histc(finite.clamp(low, high), _BARS, low, high)
    edges = torch.linspace(low, high, _BARS + 1, dtype=torch.float64)
    named = {str(share): value for share, value in zip(_SHARES, quantiles, strict=True)}
    return Distribution(named, tuple(edges.tolist()), tuple(int(count) for count in counts), infinite)

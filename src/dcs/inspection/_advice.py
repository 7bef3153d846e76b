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
from dcs.objectives.views import LEAST_NOISE, WINDOW_ALPHA

_SHARES = (5, 25, 50, 75, 95)
_BARS = 24
_SMALLEST = 1e-12  # deviation; the squares of smaller values, and of those above 1 / this, leave float32


def advise(
    evidence: Evidence,
    state: str,
    checks: tuple[Check, ...],
    sigma: Sigma,
    entries: int,
    domain: str | None,
    windows: bool = False,
    splits: bool | None = None,
) -> Advice:
    """Choose an objective and its views for samples of so many entries, which may be windows of pictures.

    `splits` is what training chooses by the noise of dark and bright parts, for pictures that are large
    enough.
    """
    unready = _unready(evidence)
    if unready is not None:
        return Advice("none", "none", None, None, (), unready, (), ready=False)
    arguments = ("--domain", "waveform") if domain == "waveform" else ()
    if state == CLEAN:
        why = "There is hardly any noise to remove: a plain autoencoder is as good."
        return Advice("mse", "none", None, None, ("--objective", "mse", *arguments), why, ())
    if not evidence.ordered:
        return _dae(
            "Unordered columns have no neighbours to mask by; dae, a denoising autoencoder, needs none.",
            'If you know the noise level σ, use dcs with the setting masking={"kind": "split", "sigma": σ}.',
        )
    verdicts = {check.name: check.verdict for check in checks}
    even = verdicts["isotropy"] != FAILS
    warnings = _warnings(evidence, verdicts, state)
    if domain is not None:
        why = "Recordings are masked along time: values are replaced by others up to 2 steps away."
        return Advice("dcs", "amplitude", 0.3, 2, arguments, why, warnings)
    chen = evidence.chen2015.value if evidence.chen2015 else 0.0
    # The rule that training applies: one σ > 0 describes the noise.
    usable = state != NO_ANSWER and not evidence.correlated
    if splits is None:
        splits = chen > LEAST_NOISE * evidence.deviation and evidence.quiet is not None
        splits = splits and not evidence.too_quiet
    if usable and splits:
        level = float(f"{sigma.value if sigma.value and even else chen:.3g}")
        reason = "One noise level describes the data"
        if not even:
            reason = "The noise is not equally strong everywhere, but hardly any region has much less noise"
        why = f"{reason}, so samples can be split into two noisy versions that are compared in all values."
        if windows:  # which training splits by itself, less strongly than the view `split` does
            return Advice("dcs", "split", None, None, (), why, warnings)
        if level != float(f"{sigma.value or 0:.3g}"):
            why += f" (The command has {level:g}: the estimate by chen2015, which training uses.)"
        return Advice("dcs", "split", None, None, _masking(kind="split", sigma=level), why, warnings)
    window = 1
    if evidence.correlated:
        window = 2 if evidence.correlations[1] < 0.3 else 3
        why = f"Neighbours share noise: masks of radius {window} also copy values that share less of it."
    elif evidence.noisier:
        why = "Only a part of the data is noisy, and masking needs to know neither which nor how noisy it is."
    elif state == NO_ANSWER:
        why = (
            "Masking does not need the noise level. (By default, dcs fit decides by itself: it splits "
            "samples if it finds noise that is equally strong everywhere, and masks otherwise.)"
        )
    elif not even:
        why = "The noise is not equally strong everywhere, and masking does not need the noise level."
    elif evidence.too_quiet:
        why = "The noise may not be equally strong everywhere, and masking does not need the noise level."
    else:
        why = "The noise level is too uncertain to split samples, and masking does not need it."
    rho = 0.3 if 0.3 * entries >= 10 else 0.5
    masking = _masking(kind="blind_spot", rho=rho, radius=window)
    return Advice("dcs", "blind_spot", rho, window, masking, why, warnings)


def advise_small(entries: int) -> Advice:
    """Return the advice for samples that are too small to be masked."""
    if entries < 2:
        return _dae("A sample of one value has no neighbours and no direction: neither dCS nor masks apply.")
    return _dae("The samples are too small to be masked; dae, a denoising autoencoder, needs no masks.")


def _dae(why: str, *warnings: str) -> Advice:
    return Advice("dae", "none", None, None, ("--objective", "dae"), why, warnings)


def _masking(**setting: object) -> tuple[str, ...]:
    return "--set", "masking=" + json.dumps(setting)


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


def _warnings(evidence: Evidence, verdicts: dict[str, str], state: str) -> tuple[str, ...]:
    found = []
    if state == NO_ANSWER and evidence.perhaps_noisier:
        found.append("If this is detail and not noise, the objective mse is as good: compare with it.")
    elif state == NO_ANSWER:
        found.append("There is too little evidence: take this as a starting point, not as a result.")
    elif set(verdicts.values()) == {UNKNOWN}:
        found.append("None of the assumptions could be tested.")
    if verdicts["isotropy"] == FAILS:
        found.append("The objective n2v assumes less (zero mean and independence only): compare with it.")
    return tuple(found)


def snr_distributions(
    x: Tensor, advice: Advice, sigma: Sigma, ndim: int, domain: str | None, seed: int, windows: bool
) -> tuple[Distribution, Distribution, float] | None:
    """Return the distributions of ĉ and k for the recommended views, and the number of compared entries.

    If no views are recommended, they are those of masking. None if samples are too small to be masked.
    """
    masker: Masker | GaussianSplit
    if advice.views == "split" and sigma.value:
        masker = GaussianSplit(sigma.value, alpha=WINDOW_ALPHA) if windows else GaussianSplit(sigma.value)
        dim = float(x[0].numel())
    else:
        rho = advice.rho or 0.3
        dim = rho * x[0].numel()
        masker = BlindSpot(rho, radius=advice.window or 1, ndim=ndim)
        if domain is not None:
            masker = AmplitudeNeighbors(rho, axis=-2 if domain == "spectrogram" else -1)
    objective = DenoisingCosine(masker, centre=windows)
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
    quantiles = torch.quantile(finite, finite.new_tensor(_SHARES) / 100).tolist()
    low, high = ends or (0.0, max(1e-9, 1.3 * quantiles[-1]))
    counts = torch.histc(finite.clamp(low, high), _BARS, low, high)
    edges = torch.linspace(low, high, _BARS + 1, dtype=torch.float64)
    named = dict(zip(map(str, _SHARES), quantiles, strict=True))
    return Distribution(named, tuple(edges.tolist()), tuple(counts.int().tolist()), infinite)

"""What to do with data that is so."""

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
_SMALLEST = (
    1e-12  # deviation; the squares of smaller values, and of larger than 1 / this, are lost in float32
)


def advise(
    evidence: Evidence, state: str, checks: tuple[Check, ...], sigma: Sigma, entries: int, domain: str | None
) -> Advice:
    """Choose an objective and its views.

    Args:
        evidence: What was measured.
        state: clean, slight, noisy or unknown.
        checks: What holds.
        sigma: The strength of the noise.
        entries: Of one sample.
        domain: spectrogram or waveform, for recordings.
    """
    verdicts = {check.name: check.verdict for check in checks}
    unready = _unready(evidence)
    if unready is not None:
        return Advice("none", "none", None, None, (), unready, (), ready=False)
    arguments = ["--domain", "waveform"] if domain == "waveform" else []
    if state == CLEAN:
        why = "There is next to no noise to remove: a plain autoencoder does as well."
        return Advice("mse", "none", None, None, ("--objective", "mse", *arguments), why, ())
    if not evidence.ordered:
        why = (
            "Masking copies from neighbours, which columns in no order do not have; dae, a denoising "
            "autoencoder, needs none."
        )
        known = (
            "If you know the strength σ of the noise, dcs with the setting "
            'masking={"kind": "split", "sigma": σ} needs no neighbours.'
        )
        return Advice("dae", "none", None, None, ("--objective", "dae"), why, (known,))
    warnings = _warnings(evidence, verdicts, state)
    if domain is not None:
        why = "Recordings are masked along time: a value is replaced by one up to 2 steps away."
        return Advice("dcs", "amplitude", 0.3, 2, tuple(arguments), why, warnings)
    rho = 0.3 if 0.3 * entries >= 10 else 0.5
    if _can_be_split(evidence, state):
        estimate = sigma.value if sigma.value and verdicts["isotropy"] != FAILS else _chen(evidence)
        level = float(f"{estimate:.3g}")
        arguments = ["--set", "masking=" + json.dumps({"kind": "split", "sigma": level})]
        begin = "One strength of noise describes the data"
        if verdicts["isotropy"] == FAILS:
            begin = (
                "The noise is not equally strong everywhere, but hardly any place has much less of it than "
                "the rest"
            )
        why = (
            f"{begin}, so each sample can be split into two noisy versions that are compared in all their "
            "values."
        )
        if level != float(f"{sigma.value or 0:.3g}"):
            why += f" (The command has {level:g}: the estimate of chen2015, which training goes by.)"
        return Advice("dcs", "split", None, None, tuple(arguments), why, warnings)
    window = 1
    if evidence.correlated:
        window = next((lag for lag, like in enumerate(evidence.like, 1) if lag > 1 and like < 0.3), 3)
        why = (
            f"Neighbours share noise: masking with radius {window} also copies from further away, where the "
            "noise is less alike."
        )
    elif evidence.part is not None and evidence.part.sure:
        why = (
            "Only a part of the data is noisy, and masking does not need to know which, nor how strong it is."
        )
    elif state == NO_ANSWER:
        why = (
            "Masking does not need the strength of the noise. (Plain dcs fit looks for itself: it splits "
            "samples if it finds noise that is equally strong everywhere, and masks if not.)"
        )
    elif verdicts["isotropy"] == FAILS:
        why = (
            "The noise is not equally strong everywhere, and masking does not need to know how strong it is."
        )
    elif evidence.too_quiet:
        why = (
            "It is not sure that the noise is equally strong everywhere, and masking does not need to know "
            "how strong it is."
        )
    else:
        why = "No strength of the noise is sure enough to split samples by, and masking does not need it."
    masking = {"kind": "blind_spot", "rho": rho, "radius": window}
    arguments += ["--set", "masking=" + json.dumps(masking)]
    return Advice("dcs", "blind_spot", rho, window, tuple(arguments), why, warnings)


def _unready(evidence: Evidence) -> str | None:
    """What to do before training, if it would fail or be of no use."""
    if not evidence.deviation > 0:
        return "There is nothing to learn: all values are the same."
    if evidence.deviation < _SMALLEST or evidence.square > _SMALLEST**-2:
        return (
            f"Rescale your data first, to values around 1: its deviation is {evidence.deviation:.1g}, and "
            "training computes with squares, for which numbers so small or so large have no room."
        )
    return None


def for_small(entries: int) -> Advice:
    """What to do with samples too small to be masked."""
    why = "The samples are too small to be masked; dae, a denoising autoencoder, needs no masks."
    if entries < 2:
        why = "A sample of one value has no neighbours and no direction: dCS cannot be used, nor can masks."
    return Advice("dae", "none", None, None, ("--objective", "dae"), why, ())


def _can_be_split(evidence: Evidence, state: str) -> bool:
    """Whether one σ describes the noise, by the rule of training, and that σ is more than nothing."""
    visible = _chen(evidence) > LEAST_NOISE * evidence.deviation
    usable = state != NO_ANSWER and not evidence.correlated and visible
    return usable and evidence.quiet is not None and not evidence.too_quiet


def _chen(evidence: Evidence) -> float:
    return 0.0 if evidence.chen2015 is None else evidence.chen2015.value


def _warnings(evidence: Evidence, verdicts: dict[str, str], state: str) -> tuple[str, ...]:
    found = []
    if state == NO_ANSWER and evidence.may_be_partly_noisy:
        found.append("If what looks like noise is detail, the objective mse does as well: compare with it.")
    elif state == NO_ANSWER:
        found.append("There was too little to see: take this as a start, not as a finding.")
    if verdicts["isotropy"] == FAILS:
        found.append("The objective n2v assumes less (zero mean and independence only): compare with it.")
    if state != NO_ANSWER and all(verdict == UNKNOWN for verdict in verdicts.values()):
        found.append("None of the assumptions could be tested.")
    return tuple(found)


def weights(
    x: Tensor, advice: Advice, sigma: Sigma, ndim: int, domain: str | None, seed: int
) -> tuple[Distribution, Distribution, float] | None:
    """ĉ and k of samples for the recommended views, and how many entries are compared, if there are any.

    For data on which no views are advised, they are those of masking, to show how little there is to gain.
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

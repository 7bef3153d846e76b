"""Descriptions of objectives, networks and protocols, from their registries, and of the views in use."""

from collections.abc import Mapping
from typing import Any

from dcs import evaluation, models, objectives

_ONLY_SIGNAL = "Only the signal can be predicted in this way, the noise cannot."
_SPLIT = (
    "Each sample is split into two noisier versions with independent noise, and the network predicts one "
    f"from the other. {_ONLY_SIGNAL}"
)
_MASKED = (
    f"Some values of each sample are masked, and the network predicts them from the others. {_ONLY_SIGNAL}"
)
_ANY_SCALE = "The overall brightness or loudness of a prediction does not count."
_CHOSEN = "The split uses a noise level of σ = {:.3g}, estimated from {}."


def describe_objective(name: str, described: Mapping[str, Any] | None = None) -> str:
    """Describe an objective and its views in sentences; empty if nothing is known.

    Args:
        name: Name of the objective.
        described: What `Objective.describe` returned after training, if known.
    """
    if name not in objectives.names():
        return _describe_views(described, scale_free=False)
    parts = objectives.parse(name)
    compares = objectives.OBJECTIVES[parts.regulariser or parts.base].factory
    views = _describe_views(described, scale_free=getattr(compares, "scale_free", False))
    return " ".join(filter(None, [_sentence(parts.summary), views]))


def is_split(described: Mapping[str, Any] | None) -> bool:
    """Return whether an objective, or its regulariser, splits samples into two noisier versions."""
    return (_comparing(described).get("view") or {}).get("kind") == "split"


def describe_network(name: str) -> str:
    """Describe a network in a few words, with its name."""
    if name not in models.NETWORKS:
        return f"The network {name}" if name != "custom" else "A custom network"
    return f"The network {name} ({models.NETWORKS[name].summary.rstrip('.')})"


def describe_protocol(name: str) -> str:
    """Describe a protocol in a sentence; empty if it is unknown."""
    return _sentence(evaluation.PROTOCOLS[name].summary) if name in evaluation.PROTOCOLS else ""


def _describe_views(described: Mapping[str, Any] | None, *, scale_free: bool) -> str:
    part = _comparing(described)
    view = part.get("view") or {}
    masks = "view" in part and (not view or "rho" in view)
    if not masks and not is_split(described):  # neither, or not recorded
        return ""
    sentences = [_MASKED if masks else _SPLIT, *([_ANY_SCALE] if scale_free else [])]
    if not masks and view.get("chosen"):
        normalised = bool(described and described.get("normalised"))
        data = "the images after colour normalisation" if normalised else "the data"
        sentences.append(_CHOSEN.format(view["sigma"], data))
    return " ".join(sentences)


def _comparing(described: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the description of what compares samples: the objective, or the regulariser of another one."""
    described = described or {}
    return described.get("regulariser", described) or {}


def _sentence(text: str) -> str:
    return text and f"{text.rstrip('.')}."

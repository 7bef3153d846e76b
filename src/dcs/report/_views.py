"""What an objective made of each sample: two noisy ones, or one with hidden entries."""

import re
from typing import Any, NamedTuple

from dcs.noise import GaussianSplit
from dcs.objectives import ChosenViews, Objective
from dcs.training.run import OBJECTIVE

_MADE = re.compile(r"\b(ChosenViews|GaussianSplit)\((?:sigma=([^,)]*))?")


class Views(NamedTuple):
    """How samples were made into what the network sees and what its predictions are compared with."""

    split: bool  # whether noise was added in two ways; otherwise entries were hidden
    sigma: float | None = None  # the deviation of the noise, if it was found by looking at the data


def views_of(config: dict[str, Any], objective: Objective | None) -> Views | None:
    """What was done in training, as far as it is known.

    Args:
        config: Of the run; one that is finished says what its objective was made of.
        objective: That of the network, if it could be read.
    """
    made_of = config.get("made_of")
    if isinstance(made_of, str):
        found = _MADE.search(made_of)
        if found is None:
            return Views(split=False) if "masker=" in made_of else None
        kind, written = found.groups()
        try:
            sigma = float(written)
        except (TypeError, ValueError):  # one for each entry, or none
            return Views(split=kind == "GaussianSplit")
        return _views(sigma, chosen=kind == "ChosenViews")
    masker = getattr(objective, "masker", None)
    if not isinstance(masker, GaussianSplit):
        return None if objective is None or masker is None else Views(split=False)
    if isinstance(masker, ChosenViews) and OBJECTIVE not in config.get("sha256", {}):
        return None  # what was chosen was not kept
    sigma = float(masker.sigma) if masker.sigma.numel() == 1 else 1.0
    return _views(sigma, chosen=isinstance(masker, ChosenViews))


def _views(sigma: float, *, chosen: bool) -> Views:
    if not chosen:
        return Views(split=True)
    return Views(split=True, sigma=sigma) if sigma > 0 else Views(split=False)

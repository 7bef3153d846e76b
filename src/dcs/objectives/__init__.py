"""Objectives: losses bound to views, all called as objective(model, x, generator=None, pair=None)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from dcs._registry import explain, known, options_of
from dcs.augmentation import Views
from dcs.masking import BlindSpot, Masker, ViewMaker
from dcs.objectives.base import OBJECTIVES, Batch, MaskedObjective, Model, Objective
from dcs.objectives.baselines import (
    MSE,
    SURE,
    Cosine,
    DenoisingAutoencoder,
    Noise2Noise,
    Noise2Void,
    Recorrupted,
)
from dcs.objectives.denoising_cosine import CosineOracle, DenoisingCosine, DenoisingCosineOracle
from dcs.objectives.self_supervised import SelfSupervised, direction_spread, encode
from dcs.objectives.siamese import BYOL, SimCLR, SimSiam
from dcs.objectives.views import AutomaticViews

_REGULARISERS = ("n2v", "dae", "dcs")


class Name(NamedTuple):
    """Parts of an objective's name, such as `dcs`, `simsiam+bsm` or `simsiam-dcs`."""

    base: str
    masked_views: bool = False
    regulariser: str | None = None

    @property
    def kind(self) -> type[Objective]:
        """Class of the objective."""
        return OBJECTIVES[self.base].factory  # type: ignore[return-value]

    @property
    def masks(self) -> bool:
        """Whether the objective makes views with a masker or a split."""
        maker = self.kind if self.regulariser is None else OBJECTIVES[self.regulariser].factory
        return self.masked_views or (isinstance(maker, type) and issubclass(maker, MaskedObjective))

    @property
    def summary(self) -> str:
        """What the objective does, in one line."""
        text = OBJECTIVES[self.base].summary
        if self.masked_views:
            return f"{text} Both augmented images are masked."
        return text if self.regulariser is None else f"{text} Regularised by {self.regulariser}."


def names() -> list[str]:
    """List the names of all objectives.

    Those in `OBJECTIVES`; self-supervised ones also followed by `+bsm` (both augmented images are masked) or
    by the name of a regulariser: `-n2v`, `-dae`, `-dcs`.
    """
    return list(_by_name())


def parse(name: str) -> Name:
    """Split the name of an objective into its parts; an unknown one is a ValueError."""
    found = _by_name()
    if name not in found:
        raise ValueError(f"objective must be {known(name, found)}")
    return found[name]


def _by_name() -> dict[str, Name]:
    """Return the parts of all names, those of self-supervised objectives last."""
    kinds = {name: entry.factory for name, entry in OBJECTIVES.items()}
    views = [n for n, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, SelfSupervised)]
    found = {name: Name(name) for name in kinds if name not in views}
    for name in views:
        found |= {name: Name(name), f"{name}+bsm": Name(name, masked_views=True)}
        found |= {f"{name}-{added}": Name(name, regulariser=added) for added in _REGULARISERS}
    return found


def check_options(name: str, options: Mapping[str, Any], where: str = "objective_options") -> dict[str, Any]:
    """Validate the options of an objective by its name, and return those that were given.

    Args:
        name: Name of the objective.
        options: Options of its class; for a self-supervised objective also `augment`, options of
            `dcs.augmentation.Views`, and `regulariser_options`.
        where: Setting that holds the options, for the error message.
    """
    parts, own = parse(name), dict(options)
    inner = own.pop("regulariser_options", None)
    checked = OBJECTIVES.check(parts.base, own, where)
    if isinstance(checked.get("augment"), Mapping):
        model = options_of(Views, (), "AugmentOptions")
        try:
            model(**checked["augment"])
        except ValueError as error:
            raise ValueError(explain(error, model, "augment", f"{where}.augment".lstrip("."))) from None  # type: ignore[arg-type]
    if inner is not None:
        if parts.regulariser is None:
            raise ValueError(f"{where}.regulariser_options must be left out: {name!r} has no regulariser")
        place = f"{where}.regulariser_options".lstrip(".")
        checked["regulariser_options"] = OBJECTIVES.check(parts.regulariser, inner, place)
    return checked


def get(name: str, masker: Masker | ViewMaker | None = None, **options: Any) -> Objective:
    """Make an objective by its name.

    Args:
        name: Name of the objective; see `names`.
        masker: View maker of the objective, of its regulariser, or, with `+bsm`, of both augmented images.
        **options: Options of its class. For a self-supervised objective `augment` may be a dictionary of
            options of `dcs.augmentation.Views`, and `regulariser_options` are those of the regulariser.

    Example:
        >>> get("dae", sigma=0.2)
        DenoisingAutoencoder(sigma=0.2)
        >>> get("simsiam-dcs", weight=0.02, features=512).regulariser.masker.rho
        0.3
    """
    parts, checked = parse(name), check_options(name, options, "")
    given: dict[str, Any] = {} if masker is None else {"masker": masker}
    if masker is not None and not parts.masks:
        raise ValueError(f"masker must be left out: objective {name!r} masks nothing")
    inner = checked.pop("regulariser_options", {})
    if isinstance(checked.get("augment"), Mapping):
        checked["augment"] = Views(**checked["augment"])
    if parts.regulariser is not None:
        given = {"regulariser": OBJECTIVES[parts.regulariser].factory(**inner, **given)}
    elif parts.masked_views:
        given = {"masker": BlindSpot(rho=0.1), **given}
    return OBJECTIVES[parts.base].factory(**checked, **given)


__all__ = [
    "BYOL",
    "MSE",
    "OBJECTIVES",
    "SURE",
    "AutomaticViews",
    "Batch",
    "Cosine",
    "CosineOracle",
    "DenoisingAutoencoder",
    "DenoisingCosine",
    "DenoisingCosineOracle",
    "MaskedObjective",
    "Model",
    "Name",
    "Noise2Noise",
    "Noise2Void",
    "Objective",
    "Recorrupted",
    "SelfSupervised",
    "SimCLR",
    "SimSiam",
    "check_options",
    "direction_spread",
    "encode",
    "get",
    "names",
    "parse",
]

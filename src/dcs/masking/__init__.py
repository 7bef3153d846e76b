"""Views of noisy samples, and maskers: x -> (x_tilde, b), where b marks the replaced entries."""

from dcs.masking._maskers import (
    VIEWS,
    AmplitudeNeighbors,
    BlindSpot,
    FunctionMasker,
    Masker,
    View,
    ViewMaker,
    as_view_maker,
)

__all__ = [
    "VIEWS",
    "AmplitudeNeighbors",
    "BlindSpot",
    "FunctionMasker",
    "Masker",
    "View",
    "ViewMaker",
    "as_view_maker",
]

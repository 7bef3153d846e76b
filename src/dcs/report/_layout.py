"""Layout of features in a plane, and clusters of features."""

import io
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from dcs._optional import require
from dcs._progress import progress

Array = NDArray[Any]
MAPS = ("umap", "pca")
_NEIGHBOURS = 15
_EPOCHS = 200


def lay_out(features: Array, kind: str | None, seed: int) -> tuple[Array, str, str]:
    """Return positions in a plane, (n, 2) from 0 to 1, the kind of map, and a remark if it was not chosen.

    Args:
        features: Features (n, d).
        kind: `umap` or `pca`; by default UMAP if it is installed.
        seed: Random seed for UMAP.
    """
    remark = ""
    if kind is None:
        try:
            require("umap", "clustering", "a map by UMAP")
            kind = "umap"
        except ImportError:
            kind, remark = "pca", "UMAP, which shows groups better, is not installed"
    if kind == "umap" and len(features) <= _NEIGHBOURS + 1:
        kind, remark = "pca", f"{len(features)} samples are too few for UMAP"
    places = _umap(features, seed) if kind == "umap" else _pca(features)
    places = places - places.min(0)
    return places / max(float(places.max()), 1e-30), kind, remark


def cluster(features: Array, count: int, seed: int) -> Array:
    """Return the cluster of each sample, by k-means on standardised features; 0 is the largest."""
    deviation = features.std(0)
    scaled = (features - features.mean(0)) / np.where(deviation > 0, deviation, 1)
    count = min(count, len(np.unique(scaled, axis=0)))
    found = KMeans(count, n_init=4, random_state=seed).fit_predict(scaled)
    order = np.argsort(-np.bincount(found, minlength=count), kind="stable")
    numbers: Array = np.argsort(order)[found]
    return numbers


def _pca(features: Array) -> Array:
    """Project on the two directions of largest variance; a single feature is padded with zeros."""
    centred = features.astype(np.float64) - features.mean(0, dtype=np.float64)
    directions = np.linalg.eigh(centred.T @ centred).eigenvectors[:, :-3:-1]
    largest = np.abs(directions).argmax(0)[None]
    directions = directions * np.sign(np.take_along_axis(directions, largest, 0))  # as the sign is arbitrary
    places: Array = np.pad(centred @ directions, ((0, 0), (0, 2 - directions.shape[1])))
    return places


def _umap(features: Array, seed: int) -> Array:
    umap = require("umap", "clustering", "a map by UMAP")
    with progress("making the map (UMAP)", _EPOCHS) as advance, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a failed spectral start, which UMAP replaces by a random one
        shown = {"disable": False, "file": _Bar(advance), "bar_format": "{n_fmt} ", "mininterval": 0.2}
        made = umap.UMAP(
            n_neighbors=_NEIGHBOURS, n_epochs=_EPOCHS, random_state=seed, n_jobs=1, tqdm_kwds=shown
        )
        places: Array = made.fit_transform(features)
    return places


class _Bar(io.TextIOBase):
    """File to which UMAP writes its progress, as numbers."""

    def __init__(self, advance: Callable[[float], None]) -> None:
        self.advance, self.done = advance, 0

    def write(self, text: str) -> int:
        for number in map(int, re.findall(r"\d+", text)):
            self.advance(max(0, number - self.done))
            self.done = max(self.done, number)
        return len(text)

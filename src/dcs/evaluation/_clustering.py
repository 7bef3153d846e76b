"""Clustering protocol of Expt0 and Expt1: UMAP, a Gaussian mixture, and the best matching to classes."""

import time
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix
from sklearn.mixture import GaussianMixture

from dcs._checks import check_integer, check_number
from dcs._optional import require
from dcs.evaluation._features import Array, check_labels, features_of, labelled, numbered
from dcs.evaluation._result import Result, versions


def clustering(
    part: Any,
    encoder: Any = None,
    *,
    n_clusters: int | None = None,
    n_components: int | None = None,
    n_neighbors: int = 20,
    min_dist: float = 0.0,
    seed: int = 0,
) -> Result:
    """Cluster features without labels, and compare the clusters with the classes.

    UMAP reduces the features to as many dimensions as there are clusters, a Gaussian mixture with full
    covariances clusters them there, and clusters are matched to classes so that most samples are correct.
    The score is bimodal over seeds because of UMAP: use several.

    Args:
        part: Labelled `dcs.data.Split`, or (x, y).
        encoder: Encoder of x; see `linear`.
        n_clusters: Number of clusters; by default that of the classes.
        n_components: Dimension to which UMAP reduces; by default n_clusters.
        n_neighbors: Number of neighbours in UMAP.
        min_dist: Minimum distance in UMAP.
        seed: Random seed of UMAP and the mixture.

    Returns:
        The accuracy in percent; `metrics` has NMI and ARI, also in percent, and the seconds of UMAP and of
        the mixture.
    """
    start = time.perf_counter()
    check_integer("n_neighbors", n_neighbors, at_least=2)
    check_number("min_dist", min_dist, at_least=0, at_most=1)
    check_integer("seed", seed, at_least=0, at_most=2**32 - 1)
    for name, value in (("n_clusters", n_clusters), ("n_components", n_components)):
        if value is not None:
            check_integer(name, value, at_least=1)
    x, y = labelled(part, "part")
    classes, (targets,) = numbered(y)
    y = targets.numpy()
    clusters = len(classes) if n_clusters is None else n_clusters
    umap = require("umap", "clustering", "the clustering protocol")
    z = features_of(encoder, x, "part")
    if z.dtype == np.float64:
        z = z - z.mean(0)  # UMAP computes in float32
    components = clusters if n_components is None else n_components
    # UMAP starts from one eigenvector more than components, and needs more samples than eigenvectors.
    needs = (("n_neighbors", n_neighbors, 1), ("n_clusters", clusters, 1), ("n_components", components, 2))
    for name, value, more in needs:
        if len(z) < value + more:
            raise ValueError(
                f"part has {len(z)} samples: at least {value + more} are needed for {name} {value}; use "
                f"more samples or a lower {name}"
            )
    reduction = {"n_components": components, "n_neighbors": n_neighbors, "min_dist": min_dist}
    mixture = {"covariance_type": "full", "n_init": 1, "reg_covar": 1e-6}
    before = time.perf_counter()
    # A seed requires a single job.
    reduced = umap.UMAP(**reduction, metric="euclidean", random_state=seed, n_jobs=1).fit_transform(z)
    between = time.perf_counter()
    found = GaussianMixture(clusters, **mixture, random_state=seed).fit_predict(reduced.astype(np.float64))
    after = time.perf_counter()
    sizes = {"samples": len(z), "features": z.shape[1], "classes": len(classes)}
    return Result(
        "clustering",
        cluster_accuracy(y, found),
        {
            "nmi": 100 * float(normalized_mutual_info_score(y, found)),
            "ari": 100 * float(adjusted_rand_score(y, found)),
            "umap_seconds": between - before,
            "mixture_seconds": after - between,
        },
        {**reduction, "metric": "euclidean", "n_clusters": clusters, **mixture, **sizes},
        seed,
        time.perf_counter() - start,
        versions("umap-learn", "numba", "pynndescent"),
    )


def cluster_accuracy(labels: Array, clusters: Array) -> float:
    """Compute the percentage of samples whose cluster is matched to their class, in the best matching.

    Example:
        >>> cluster_accuracy(np.array([0, 0, 1, 1]), np.array([5, 5, 3, 5]))
        75.0
    """
    if len(labels) != len(clusters) or not len(labels):
        raise ValueError(f"clusters must be as many as labels, {len(labels)}, got {len(clusters)}")
    check_labels("labels", labels)
    check_labels("clusters", clusters)
    table = contingency_matrix(labels, clusters)
    return 100 * float(table[linear_sum_assignment(table, maximize=True)].sum()) / len(labels)

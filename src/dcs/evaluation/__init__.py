"""Protocols that score a representation. Each returns a `Result`: the score and everything that produced it.

The encoder is frozen, used in evaluation mode, and checked to be unchanged afterwards. To score one encoder
by several protocols, compute the features once and pass them without an encoder.
"""

from dcs.evaluation._clustering import cluster_accuracy, clustering
from dcs.evaluation._denoising import denoising
from dcs.evaluation._features import features_of
from dcs.evaluation._knn import KNNMonitor, knn
from dcs.evaluation._linear import linear
from dcs.evaluation._protocols import PROTOCOLS, Material, check_options, score
from dcs.evaluation._result import Result

__all__ = [
    "PROTOCOLS",
    "KNNMonitor",
    "Material",
    "Result",
    "check_options",
    "cluster_accuracy",
    "clustering",
    "denoising",
    "features_of",
    "knn",
    "linear",
    "score",
]

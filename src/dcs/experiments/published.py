"""The paper's tables, in percent: mean and standard deviation over 20 trials of clustering, 10 of linear.

Expt2 is one trial, without a deviation; Expt3 is six.
"""

Score = tuple[float, float | None]

_AUTOENCODERS = ("mse", "cosine", "n2v", "dcs")
_METHODS = {
    "expt0": ("mse", "cosine", "n2v", "sure", "dcs"),
    "expt1": _AUTOENCODERS,
    "expt2": ("simsiam", "simsiam+bsm", "simsiam-n2v", "simsiam-dcs"),
    "expt3": _AUTOENCODERS,
}
# experiment and protocol -> deviation of the noise, or data set -> one score for each method
_SCORES: dict[tuple[str, str], dict[float | str, list[Score]]] = {
    ("expt0", "clustering"): {
        0.01: [(96.83, 2.74), (95.13, 4.83), (93.12, 5.75), (89.24, 6.48), (96.27, 4.15)],
        0.1: [(97.21, 0.14), (96.45, 2.92), (92.20, 6.08), (90.73, 7.15), (94.96, 5.23)],
        0.3: [(94.25, 3.38), (94.45, 3.08), (89.94, 6.13), (83.28, 5.74), (96.22, 2.91)],
        0.5: [(81.39, 4.00), (76.05, 6.42), (82.20, 7.19), (74.86, 4.78), (91.41, 5.47)],
        0.7: [(68.85, 4.63), (59.64, 4.74), (72.42, 5.51), (66.72, 3.77), (78.76, 4.91)],
    },
    ("expt0", "linear"): {
        0.01: [(94.67, 0.25), (94.11, 0.33), (92.96, 0.51), (82.15, 2.63), (94.89, 0.29)],
        0.1: [(93.63, 0.12), (93.69, 0.13), (91.88, 0.25), (89.04, 0.25), (94.73, 0.12)],
        0.3: [(89.07, 0.41), (90.04, 0.35), (88.48, 0.70), (85.15, 0.57), (92.99, 0.25)],
        0.5: [(82.86, 0.51), (84.44, 0.72), (85.22, 0.48), (79.98, 0.57), (89.13, 0.48)],
        0.7: [(75.88, 0.40), (77.30, 0.99), (80.15, 0.57), (74.17, 0.69), (82.03, 0.45)],
    },
    ("expt1", "clustering"): {
        "mnist": [(96.78, 2.88), (95.12, 4.86), (93.28, 5.56), (94.79, 5.45)],
        "usps": [(84.31, 6.49), (85.24, 8.46), (82.78, 10.2), (86.94, 8.72)],
        "pendigits": [(85.71, 3.89), (85.84, 3.81), (85.59, 2.99), (82.22, 4.71)],
        "fashion-mnist": [(60.70, 3.29), (59.60, 3.79), (60.66, 2.97), (62.64, 4.50)],
    },
    ("expt1", "linear"): {
        "mnist": [(94.53, 0.33), (94.09, 0.43), (93.05, 0.33), (95.07, 0.29)],
        "usps": [(87.63, 0.47), (87.19, 0.35), (86.58, 0.51), (88.08, 0.40)],
        "pendigits": [(82.50, 1.21), (82.82, 0.85), (86.09, 1.89), (81.84, 1.30)],
        "fashion-mnist": [(78.11, 0.56), (75.53, 0.98), (76.29, 0.69), (76.70, 0.49)],
    },
    ("expt2", "linear"): {
        "cifar10": [(91.55, None), (91.24, None), (91.68, None), (91.73, None)],
        "cifar100": [(63.72, None), (64.30, None), (64.59, None), (65.20, None)],
        "tiny-imagenet": [(53.61, None), (53.21, None), (53.72, None), (53.77, None)],
    },
    ("expt3", "linear"): {"esc50": [(22.83, 0.55), (27.92, 2.34), (21.21, 2.05), (30.29, 2.21)]},
}
# data set -> λ, of simsiam-dcs
_LAMBDA_SCORES: dict[str, dict[float, float]] = {
    "cifar10": {0.0001: 91.54, 0.001: 91.30, 0.01: 91.73, 0.05: 91.46},
    "cifar100": {0.0001: 64.19, 0.001: 63.98, 0.01: 65.20, 0.05: 65.05},
    "tiny-imagenet": {0.0001: 53.37, 0.001: 53.58, 0.01: 52.71, 0.02: 53.77},
}
# data set -> training time in the paper
HOURS = {
    "cifar10": "15 hours for simsiam, 15 to 16 for simsiam-dcs",
    "tiny-imagenet": "45 hours for simsiam, 45 to 46 for simsiam-dcs",
}
# Listed on ESC-50's own page, means over its five folds.
ESC50_BASELINES = {
    "k-NN on MFCC": 32.2,
    "SVM on MFCC": 39.6,
    "random forest on MFCC": 44.3,
    "convolutional autoencoder": 39.9,
    "auDeep": 64.3,
}


def published(
    experiment: str, dataset: str, noise: float, method: str, protocol: str, weight: float | None = None
) -> Score | None:
    """Return the score that the paper reports, if it does.

    Args:
        experiment: Experiment, e.g. `expt0`.
        dataset: Data set, e.g. `mnist`.
        noise: Standard deviation of the added noise.
        method: Method, e.g. `dcs`.
        protocol: `linear` or `clustering`.
        weight: λ, for the table of Expt2 in which it varies; None otherwise.
    """
    if weight is not None:
        score = _LAMBDA_SCORES.get(dataset, {}).get(weight) if method == "simsiam-dcs" else None
        return None if score is None else (score, None)
    if experiment == "expt0" and dataset != "mnist":
        return None
    scores = _SCORES[experiment, protocol].get(noise or dataset, [])
    return dict(zip(_METHODS[experiment], scores, strict=False)).get(method)

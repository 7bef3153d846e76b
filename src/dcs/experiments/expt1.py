"""Expt1: the autoencoders of Expt0 on data with noise of its own."""

from dcs.experiments.experiment import UNTRAINED, Experiment
from dcs.experiments.expt0 import PRESETS, SHARED

EXPT1 = Experiment(
    title="Expt1: data with noise of its own",
    datasets=("mnist", "usps", "pendigits", "fashion-mnist"),
    methods=("mse", "cosine", "n2v", "dcs"),
    orientation=("pca", UNTRAINED),  # no oracle, as the clean data is unknown
    presets=PRESETS,
    **SHARED,
)

"""What things on the page mean, in plain words."""

from typing import NamedTuple

from dcs.objectives import SELF_SUPERVISED
from dcs.report._views import Views


class Chart(NamedTuple):
    """Metrics that are drawn together."""

    title: str
    meaning: str
    lines: tuple[tuple[str, str], ...]  # metric, and what it is called in the chart
    deviation: str | None = None  # the metric that makes a band around the first line


CHARTS = (
    Chart(
        "Loss",
        "What training makes small. It should fall and then level off; if the line of held-out samples turns "
        "up while the other still falls, the network learns its samples by heart.",
        (("loss", "training"), ("validation_loss", "held out")),
    ),
    Chart("Learning rate", "How large the steps of training are.", (("learning_rate", "rate"),)),
    Chart(
        "Expected cosine k",
        "How alike what predictions are compared with and the clean sample behind it are: 1 without noise, 0 "
        "if there is nothing but noise. Where samples are split into two, noise was added to what is "
        "compared with, so that k is smaller than for the samples themselves. The band is the deviation from "
        "sample to sample.",
        (("k", "k"),),
        "k_deviation",
    ),
    Chart(
        "Signal-to-noise ratio",
        "How strong the signal is beside the noise, as estimated from the data alone: at 1 they are equal.",
        (("snr", "SNR"),),
        "snr_deviation",
    ),
    Chart(
        "Spread of the features (collapse)",
        "1 if the features of samples point everywhere, 0 if they are all alike. Early in training it is "
        "always small. If it stays near 0, the network has collapsed: it answers the same to everything, and "
        "has learnt nothing.",
        (("feature_spread", "features"), ("projection_spread", "projections")),
    ),
    Chart(
        "Share of very noisy samples",
        "In the loss a sample counts by its expected cosine k, which is never taken to be less than a fixed "
        "value, the floor. This is the share of samples so noisy that their k would be below it: near 1, "
        "there is little but noise in the data.",
        (("floored", "share"),),
    ),
    Chart(
        "Norm of the gradient",
        "How steep the loss is; sudden peaks are a bad sign.",
        (("gradient_norm", "norm"),),
    ),
    Chart("Speed", "Samples a second.", (("samples_per_second", "samples/s"),)),
)

OBJECTIVES = {
    "dcs": "of each sample two are made whose noises have nothing to do with each other, and the network "
    "predicts one from the other, but for a common factor; the signal can be predicted, noise cannot",
    "n2v": "Noise2Void: some entries are hidden, and the network predicts their values from the others",
    "n2n": "Noise2Noise: the network predicts one noisy observation from another",
    "sure": "SURE: an estimate, from noisy data alone, of the squared error to the clean data",
    "dae": "denoising autoencoder: noise is added, and the network takes it out again",
    "mse": "the squared difference to the noisy sample itself",
    "cosine": "the angle to the noisy sample itself",
}

PROTOCOLS = {
    "linear": "a linear classifier learns from the features with labels, and is scored on other samples",
    "clustering": "features are grouped without labels, and groups are matched to classes",
    "knn": "the nearest samples with labels vote",
    "denoising": "100 times the mean cosine between predictions and clean samples",
}

ROWS = {
    "pca": "the directions of largest variance",
    "untrained": "the network with its first, random weights",
    "oracle": "trained with the clean samples, which no method has",
    "supervised": "trained with labels",
    "log-mel statistics": "means and deviations of the spectrogram",
}

NETWORKS = {
    "mlp": "fully connected network",
    "conv": "convolutional network",
    "conv1d": "convolutional network along time",
    "unet": "U-Net",
    "resnet18": "ResNet of 18 layers",
    "resnet50": "ResNet of 50 layers",
    "vit": "vision transformer",
    "waveunet": "U-Net for waveforms",
}

_SPLIT = (
    "to each sample noise is added in two ways that make the noises of the two results independent, and the "
    "network predicts one of them from the other, but for a common factor; the signal can be predicted, "
    "noise cannot"
)
_MASKED = (
    "some entries of each sample are hidden, and the network predicts them from the others, but for a common "
    "factor; the signal can be predicted, noise cannot"
)
_SELF_SUPERVISED = (
    "each image is cropped and recoloured twice at random, and the network learns to give both the same "
    "features"
)
_FROM_OTHERS = " and those of other images different ones"  # what simclr asks for besides


def describe_objective(name: str, views: Views | None) -> str:
    """What an objective does, in a clause; empty if it is not known."""
    base, dash, beside = name.partition("-")
    base, plus, _ = base.partition("+")
    if base in SELF_SUPERVISED:
        meaning = _SELF_SUPERVISED + (_FROM_OTHERS if base == "simclr" else "")
        meaning += "; entries of both are hidden" if plus else ""
        return f"{meaning}; beside it {beside}: {describe_objective(beside, views)}" if dash else meaning
    if name != "dcs" or views is None:
        return OBJECTIVES.get(name, "")
    if not views.split:
        return _MASKED
    if views.sigma is None:
        return _SPLIT
    return f"{_SPLIT} (noise of deviation {views.sigma:.3g} was found, equally strong everywhere)"

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
        "Signal left under the noise (k)",
        "How nearly a noisy sample still points to the clean one behind it, as estimated from the data "
        "alone: 1 without noise, 0 if there is nothing but noise. Where each sample is made into two noisier "
        "versions, it is k of such a version, which is smaller than that of the sample itself. It is "
        "measured on the same samples after each epoch, so the line is often level. The band is the "
        "deviation from sample to sample.",
        (("k", "k"),),
        "k_deviation",
    ),
    Chart(
        "Signal-to-noise ratio",
        "How many times stronger the signal is than the noise, as estimated from the data alone: at 1 they "
        "are equal, above 10 noise hardly matters. Where each sample is made into two noisier versions, it "
        "is that of such a version, which is smaller than that of the sample itself.",
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
        "In the loss a sample counts by its k, which is never taken to be less than a fixed value. This is "
        "the share of samples so noisy that their k would be below it: near 1, there is little but noise in "
        "the data.",
        (("floored", "share"),),
    ),
    Chart(
        "Norm of the gradient",
        "How steep the loss is; sudden peaks are a bad sign.",
        (("gradient_norm", "norm"),),
    ),
    Chart("Speed", "Samples a second.", (("samples_per_second", "samples/s"),)),
)

_SIGNAL = (
    "It can only predict what they share, the signal, and not the noise. How bright or loud a prediction is "
    "as a whole does not count"
)
OBJECTIVES = {
    "dcs": "of each sample two versions are made, so that the noise of one says nothing about the noise of "
    f"the other, and the network predicts one from the other. {_SIGNAL}",
    "n2v": "Noise2Void: some entries are hidden, and the network predicts their values from the others",
    "n2n": "Noise2Noise: the network predicts one noisy observation from another",
    "sure": "SURE: an estimate, from noisy data alone, of the squared error to the clean data",
    "dae": "denoising autoencoder: noise is added, and the network takes it out again",
    "mse": "the squared difference to the noisy sample itself",
    "cosine": "the angle to the noisy sample itself",
}

MEASURES = {
    "train_accuracy": "on the samples the classifier learnt from, %:",
    "nmi": "shared information of groups and classes (NMI), %:",
    "ari": "pairs that are rightly together or apart (ARI), %:",
    "psnr": "PSNR, dB:",
    "si_snr": "SI-SNR, dB:",
    "ssim": "SSIM:",
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
    "each sample is made into two noisier versions, so that the noise of one says nothing about the noise of "
    f"the other, and the network predicts one from the other. {_SIGNAL}"
)
_MASKED = f"some values of each sample are hidden, and the network predicts them from the others. {_SIGNAL}"
_SELF_SUPERVISED = (
    "each image is cropped and recoloured twice at random, and the network learns to give both the same "
    "features"
)
_FROM_OTHERS = " and those of other images different ones"  # what simclr asks for besides


def describe_objective(name: str, views: Views | None, seen: str = "the data") -> str:
    """What an objective does, in words without an end; empty if it is not known.

    Args:
        name: Of the objective.
        views: What it made of samples, if that is known.
        seen: What it looked at.
    """
    base, dash, beside = name.partition("-")
    base, plus, _ = base.partition("+")
    if base in SELF_SUPERVISED:
        meaning = _SELF_SUPERVISED + (_FROM_OTHERS if base == "simclr" else "")
        meaning += "; entries of both are hidden" if plus else ""
        normalised = "the images after their colours were normalised"
        also = f"; beside it {beside}: {describe_objective(beside, views, normalised)}"
        return meaning + also if dash else meaning
    if name != "dcs" or views is None:
        return OBJECTIVES.get(name, "")
    if not views.split:
        return _MASKED
    if views.sigma is None:
        return _SPLIT
    return (
        f"{_SPLIT}. For this, noise of standard deviation {views.sigma:.3g}, equally strong everywhere, was "
        f"found in {seen}"
    )


WORDS = {
    "noise": "What a measurement adds by chance to what is measured: grain, hiss, counting errors.",
    "signal-to-noise ratio (SNR)": "How many times stronger the signal, which is what is meant to be "
    "measured, is than the noise. At 1 both are equally strong; above 10 noise hardly matters.",
    "cosine": "How alike two samples are, whatever their strength: 1 if one is the other made brighter or "
    "louder, 0 if they have nothing in common.",
    "k": "The cosine between a noisy sample and the clean one behind it that is to be expected from its SNR. "
    "The paper calls it the expected cosine. Samples of small k teach little, so dCS gives them less weight.",
    "dCS": "The denoising Cosine-Similarity loss: it trains a network on noisy data alone, so that it acts "
    "as if it had seen the clean data.",
    "loss, objective": "What training makes small, and how it is computed.",
    "epoch": "One pass of training through all samples.",
    "held out": "Samples that are kept from training, to see whether it works for others, too.",
    "features": "The few numbers that the network makes of a sample, and from which it predicts.",
    "spread, collapse": "How much features differ from sample to sample. A network whose features are all "
    "alike is said to have collapsed.",
    "label": "What kind of thing a sample is, as people say. Training never sees it.",
    "cluster": "A group of samples with similar features, found by k-means without labels.",
    "UMAP, PCA": "Two ways to draw many features on a plane, see the map.",
}

"""What things on the page mean, in plain words."""

from typing import NamedTuple


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
        "How alike a noisy sample and the clean one behind it are: 1 without noise, 0 if there is nothing "
        "but noise. The band is the deviation from sample to sample.",
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
        "1 if the features of samples point everywhere, 0 if they are all alike. Near 0 the network has "
        "collapsed: it answers the same to everything, and has learnt nothing.",
        (("feature_spread", "features"), ("projection_spread", "projections")),
    ),
    Chart(
        "Share of samples at the floor",
        "Samples so noisy that their weight is at its lower bound: near 1, the loss sees little but noise.",
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
    "dcs": "some entries of each sample are hidden, and the network predicts their direction from the "
    "others: the signal can be predicted, noise cannot",
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

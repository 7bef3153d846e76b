"""Descriptions of objectives, networks and protocols."""

from dcs.objectives import SELF_SUPERVISED
from dcs.report._views import Views

_ONLY_SIGNAL = (
    "Only the signal can be predicted in this way, the noise cannot. The overall brightness or loudness of a "
    "prediction does not count"
)
_PREDICTED = f"independent noise, and the network predicts one from the other. {_ONLY_SIGNAL}"
_SPLIT = f"each sample is split into two noisier versions with {_PREDICTED}"
_MASKED = (
    f"some values of each sample are masked, and the network predicts them from the others. {_ONLY_SIGNAL}"
)
_OBJECTIVES = {
    "dcs": f"two versions of each sample are made with {_PREDICTED}",
    "n2v": "Noise2Void: some values are masked, and the network predicts them from the others",
    "n2n": "Noise2Noise: the network predicts one noisy observation from another",
    "sure": "SURE: an estimate of the squared error to the clean data, computed from noisy data alone",
    "dae": "denoising autoencoder: noise is added, and the network removes it",
    "mse": "the mean squared error to the noisy sample itself",
    "cosine": "the negative cosine similarity to the noisy sample itself",
}
_TWO_CROPS = (
    "each image is randomly cropped and recoloured twice, and the network learns to map both versions to the "
    "same features"
)
_NETWORKS = {
    "mlp": "fully connected network",
    "conv": "convolutional network",
    "conv1d": "convolutional network along time",
    "unet": "U-Net",
    "resnet18": "ResNet with 18 layers",
    "resnet50": "ResNet with 50 layers",
    "vit": "vision transformer",
    "waveunet": "U-Net for waveforms",
}
_PROTOCOLS = {
    "linear": "a linear classifier is trained on the features with labels, and scored on other samples",
    "clustering": "the features are clustered without labels, and clusters are matched to classes",
    "knn": "the nearest samples with labels vote on the class",
    "denoising": "100 times the mean cosine similarity between predictions and clean samples",
}


def describe_objective(name: str, views: Views | None, data: str = "the data") -> str:
    """Describe an objective in words without a full stop; empty if it is unknown.

    Args:
        name: Name of the objective.
        views: Views that it made of the samples, if known.
        data: What the noise level was estimated from.
    """
    base, dash, added = name.partition("-")
    base, masked, _ = base.partition("+")
    if base in SELF_SUPERVISED:
        meaning = _TWO_CROPS + (" and other images to different ones" if base == "simclr" else "")
        meaning += "; values of both versions are masked" if masked else ""
        further = describe_objective(added, views, "the images after colour normalisation")
        return f"{meaning}; combined with {added}: {further}" if dash else meaning
    if name != "dcs" or views is None:
        return _OBJECTIVES.get(name, "")
    if not views.split or views.sigma is None:
        return _SPLIT if views.split else _MASKED
    return f"{_SPLIT}. The split uses a noise level of σ = {views.sigma:.3g}, estimated from {data}"


def describe_network(name: str) -> str:
    """Describe a network in a few words: `network` if it is unknown."""
    return _NETWORKS.get(name, "network")


def describe_protocol(name: str) -> str:
    """Describe a protocol in words without a full stop; empty if it is unknown."""
    return _PROTOCOLS.get(name, "")

"""Networks on the Hugging Face Hub, or in a folder of the same layout."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, cast

from torch import Tensor, nn

from dcs import models
from dcs._optional import require
from dcs.augmentation import Views
from dcs.export import parts_of
from dcs.training import CUSTOM

if TYPE_CHECKING:
    from huggingface_hub import PyTorchModelHubMixin

    from dcs.estimator import DenoisingEncoder
else:
    PyTorchModelHubMixin = require("huggingface_hub", "hub", "dcs.hub").PyTorchModelHubMixin


class HubAutoencoder(
    nn.Module,
    PyTorchModelHubMixin,
    library_name="dcs-learn",
    tags=["representation-learning", "denoising"],
):
    """A network of `dcs.models` with `save_pretrained`, `from_pretrained` and `push_to_hub`.

    Its files are model.safetensors and config.json; loading runs no code.

    Args:
        network: Name of the network, such as `mlp`.
        shape: Shape of one sample.
        n_components: Number of features.
        options: Options of the network.
        mean: Mean of each colour, subtracted from images before the network sees them, as for self-supervised
            objectives; None leaves samples unchanged.
        std: Standard deviation of each colour, by which images are divided; given if `mean` is.

    Example:
        >>> import torch
        >>> model = HubAutoencoder("mlp", [8, 8], 10, {"hidden": [32]})
        >>> model.encode(torch.ones(1, 8, 8)).shape
        torch.Size([1, 10])
    """

    def __init__(
        self,
        network: str,
        shape: Sequence[int],
        n_components: int | None,
        options: Mapping[str, Any] | None = None,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        if (mean is None) != (std is None):
            raise ValueError(f"mean and std must be given together, got {mean} and {std}")
        self.network = models.build(network, tuple(shape), n_components, **(options or {}))
        self.views = None if mean is None or std is None else Views(mean=tuple(mean), std=tuple(std))

    @classmethod
    def of(cls, encoder: "DenoisingEncoder") -> Self:
        """Convert a fitted encoder: `encode` returns the same features as its `transform`."""
        network, _ = parts_of(encoder, getattr(encoder, "shape_", ()))
        training = encoder.predictor_.record.training
        if training.network == CUSTOM:
            raise ValueError(
                "encoder must have a network of dcs.models, given by name: others cannot be exported"
            )
        augment = getattr(encoder.objective_, "augment", None)
        statistics = {}
        if isinstance(augment, Views):
            statistics = {"mean": list(augment.mean), "std": list(augment.std)}
        elif hasattr(augment, "normalise"):
            raise ValueError(
                "encoder must normalise by dcs.augmentation.Views: other augmentations cannot be exported"
            )
        parts = (training.network, list(encoder.shape_), training.n_components, training.network_options)
        made = cls(*parts, **statistics)
        made.network.load_state_dict(network.state_dict())
        return made.eval()

    def encode(self, x: Tensor) -> Tensor:
        """Compute the features."""
        features: Tensor = cast(Any, self.network).encode(self._seen(x))
        return features

    def forward(self, x: Tensor) -> Tensor:
        """Predict x; for a network of normalised images, the prediction is normalised, too."""
        prediction: Tensor = self.network(self._seen(x))
        return prediction

    def _seen(self, x: Tensor) -> Tensor:
        return x if self.views is None else self.views.normalise(x)

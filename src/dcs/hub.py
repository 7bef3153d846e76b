"""Networks on the Hugging Face Hub, or in a folder laid out like it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, cast

from huggingface_hub import PyTorchModelHubMixin
from torch import Tensor, nn

from dcs import models
from dcs.augmentation import Views
from dcs.export import parts_of
from dcs.training import CUSTOM

if TYPE_CHECKING:
    from dcs.estimator import DenoisingEncoder


class HubAutoencoder(
    nn.Module,
    PyTorchModelHubMixin,
    library_name="dcs-learn",
    tags=["representation-learning", "denoising"],
):
    """A network of `dcs.models` with `save_pretrained`, `from_pretrained` and `push_to_hub`.

    Its files are model.safetensors and config.json; loading runs no code.

    Args:
        network: Its name, such as `mlp`.
        shape: Of one sample.
        n_components: Features.
        options: Of the network.
        mean: Of each colour, and
        std: its deviation, by which images are normalised before the network sees them, as for SimSiam and
            the like; None leaves samples as they are.

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
            raise ValueError(f"mean and std must be given both or not at all, got {mean} and {std}")
        self.network = models.build(network, tuple(shape), n_components, **(options or {}))
        self.views = None if mean is None or std is None else Views(mean=tuple(mean), std=tuple(std))

    @classmethod
    def of(cls, encoder: "DenoisingEncoder") -> Self:
        """Make one of a fitted encoder: `encode` then gives what the encoder's `transform` gives."""
        network, _ = parts_of(encoder, getattr(encoder, "shape_", ()))
        config = encoder.config_
        if config.network == CUSTOM:
            raise ValueError(
                "encoder must have a network of dcs.models, by its name: others cannot be written"
            )
        augment = getattr(encoder.objective_, "augment", None)
        statistics = {}
        if isinstance(augment, Views):
            statistics = {"mean": list(augment.mean), "std": list(augment.std)}
        elif hasattr(augment, "normalise"):
            raise ValueError("encoder must normalise by dcs.augmentation.Views: others cannot be written")
        made = cls(
            config.network, list(encoder.shape_), config.n_components, config.network_options, **statistics
        )
        made.network.load_state_dict(network.state_dict())
        return made.eval()

    def encode(self, x: Tensor) -> Tensor:
        """Compute the features."""
        features: Tensor = cast(Any, self.network).encode(self._seen(x))
        return features

    def forward(self, x: Tensor) -> Tensor:
        """Predict x from x; where images are normalised, the prediction is of normalised ones."""
        prediction: Tensor = self.network(self._seen(x))
        return prediction

    def _seen(self, x: Tensor) -> Tensor:
        return x if self.views is None else self.views.normalise(x)

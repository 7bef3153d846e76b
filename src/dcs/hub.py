"""Networks on the Hugging Face Hub, or in a folder laid out like it."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from huggingface_hub import PyTorchModelHubMixin
from torch import Tensor, nn

from dcs import models


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

    Example:
        >>> import torch
        >>> model = HubAutoencoder("mlp", [8, 8], 10, {"hidden": [32]})
        >>> model.encode(torch.ones(1, 8, 8)).shape
        torch.Size([1, 10])
    """

    def __init__(
        self, network: str, shape: Sequence[int], n_components: int, options: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__()
        self.network = models.build(network, tuple(shape), n_components, **(options or {}))

    def encode(self, x: Tensor) -> Tensor:
        """Compute the features."""
        features: Tensor = cast(Any, self.network).encode(x)
        return features

    def forward(self, x: Tensor) -> Tensor:
        """Predict x from x."""
        prediction: Tensor = self.network(x)
        return prediction

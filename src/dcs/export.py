"""Networks for other programs: ONNX files."""

import os
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from dcs._checks import check_choice
from dcs._optional import require


def to_onnx(
    network: nn.Module,
    shape: Sequence[int],
    path: str | os.PathLike[str],
    *,
    part: str = "autoencoder",
    overwrite: bool = False,
) -> Path:
    """Write a network as an ONNX file, for batches of any size.

    Args:
        network: Such as `dcs.models.build` makes, or the `network_` of a fitted `DenoisingEncoder`.
        shape: Of one sample.
        path: The file.
        part: `autoencoder`, from x to a prediction of x; or `encoder`, from x to its features.
        overwrite: Whether a file that exists is replaced.

    Returns:
        The path. The file's input is called x, its output prediction or features.
    """
    require("onnxscript", "onnx", "writing ONNX")
    check_choice("part", part, ("autoencoder", "encoder"))
    path = Path(path)
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists: pass overwrite=True to replace it")
    parameter = next(network.parameters(), torch.empty(0))
    module = _Encoder(network) if part == "encoder" else network
    example = torch.zeros(2, *shape, dtype=parameter.dtype, device=parameter.device)
    training = network.training
    # Beside its place, so that it can be moved there at once.
    with tempfile.TemporaryDirectory(dir=path.absolute().parent, prefix=".onnx-") as folder:
        temporary = Path(folder) / path.name
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the exporter's own making
                torch.onnx.export(
                    module.eval(),
                    (example,),
                    temporary,
                    input_names=["x"],
                    output_names=["features" if part == "encoder" else "prediction"],
                    dynamic_shapes=({0: torch.export.Dim("batch")},),
                    dynamo=True,
                    external_data=False,
                    verbose=False,
                )
        finally:
            network.train(training)
        os.replace(temporary, path)
    return path


class _Encoder(nn.Module):
    """The way to the features as a module of its own."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        if not callable(getattr(network, "encode", None)):
            raise ValueError(
                f"network has no encode: {type(network).__name__} cannot be written as an encoder"
            )
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        """Compute the features."""
        features: Tensor = cast(Any, self.network).encode(x)
        return features

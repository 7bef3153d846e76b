"""Export of networks as ONNX files."""

import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from dcs._checks import check_choice
from dcs._optional import require
from dcs.models import inferring

if TYPE_CHECKING:
    from dcs.estimator import DenoisingEncoder


def to_onnx(
    network: "nn.Module | DenoisingEncoder",
    shape: Sequence[int],
    path: str | os.PathLike[str],
    *,
    part: str = "autoencoder",
    overwrite: bool = False,
) -> Path:
    """Write a network as an ONNX file, for batches of any size.

    Args:
        network: Network, e.g. from `dcs.models.build`; or a fitted `DenoisingEncoder`, whose file takes the
            same input as its `transform`: for self-supervised objectives, images that are not yet normalised.
        shape: Shape of one sample.
        path: Path of the file.
        part: Part to write: `autoencoder`, from x to a prediction of x; or `encoder`, from x to its features.
        overwrite: Whether to replace an existing file.

    Returns:
        The path. The file's input is named x, its output prediction or features. Predictions of scale-free
        objectives (`dcs`, `cosine`) have no scale; `DenoisingEncoder.denoise` restores it.
    """
    require("onnxscript", "onnx", "writing ONNX")
    check_choice("part", part, ("autoencoder", "encoder"))
    path = Path(path)
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists: pass overwrite=True to replace it")
    inputs: Callable[[Tensor], Tensor] | None = None
    if not isinstance(network, nn.Module):
        predictor = getattr(network, "predictor_", None)
        network, inputs = parts_of(network, shape)
        if predictor is not None and not predictor.predicts and part == "autoencoder":
            raise ValueError("part must be 'encoder' for an encoder that learns features only")
    parameter = next(network.parameters(), torch.empty(0))
    module = _Encoder(network, inputs) if part == "encoder" else network
    example = torch.zeros(2, *shape, dtype=parameter.dtype, device=parameter.device)
    # In the same folder, so that it can be moved atomically.
    with tempfile.TemporaryDirectory(dir=path.absolute().parent, prefix=".onnx-") as folder:
        temporary = Path(folder) / path.name
        with inferring(module, parameter.device), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # caused by the exporter itself
            torch.onnx.export(
                module,
                (example,),
                temporary,
                input_names=["x"],
                output_names=["features" if part == "encoder" else "prediction"],
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                dynamo=True,
                external_data=False,
                verbose=False,
            )
        os.replace(temporary, path)
    return path


def parts_of(
    encoder: "DenoisingEncoder", shape: Sequence[int]
) -> tuple[nn.Module, Callable[[Tensor], Tensor] | None]:
    """Return the network of a fitted encoder, and the function that prepares its input, if there is one."""
    if not hasattr(encoder, "network_"):
        raise TypeError(
            f"network must be a torch.nn.Module or a fitted DenoisingEncoder, got {type(encoder).__name__}"
        )
    if encoder.front_end_ is not None:
        raise ValueError(
            "network has a front end, which makes spectrograms and cannot be exported: pass "
            "encoder.network_ and the shape of a spectrogram"
        )
    if tuple(shape) != tuple(encoder.shape_):
        raise ValueError(f"shape must be that of the fitted samples, {encoder.shape_}, got {tuple(shape)}")
    objective = encoder.objective_
    return encoder.network_, None if objective is None or objective.predicts else objective.inputs


class _Encoder(nn.Module):
    """Module from samples to features."""

    def __init__(self, network: nn.Module, inputs: Callable[[Tensor], Tensor] | None) -> None:
        super().__init__()
        if not callable(getattr(network, "encode", None)):
            raise ValueError(
                f"network has no encode: {type(network).__name__} cannot be exported as an encoder"
            )
        self.network, self.inputs = network, inputs

    def forward(self, x: Tensor) -> Tensor:
        """Compute the features."""
        x = x if self.inputs is None else self.inputs(x)
        features: Tensor = cast(Any, self.network).encode(x)
        return features

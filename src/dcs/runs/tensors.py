"""Tensor files: safetensors with checksums, read without running code."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from dcs.training import RunError


def as_files(tensors: Mapping[str, Mapping[str, Tensor] | None]) -> dict[str, bytes]:
    """Return the content of tensor files by name; empty ones are left out."""
    # Copies, as tensors that share memory (tied weights) are refused.
    return {
        name: save_tensors({k: v.detach().cpu().contiguous().clone() for k, v in state.items()})
        for name, state in tensors.items()
        if state
    }


def digest(content: bytes) -> str:
    """Return the checksum of a file's content."""
    return hashlib.sha256(content).hexdigest()


def restore(module: nn.Module, path: Path, digests: Mapping[str, str]) -> None:
    """Load a module's tensors from a file, whose checksum must be as recorded."""
    content = path.read_bytes()
    if digests.get(path.name, digest(content)) != digest(content):
        raise RunError(f"{path} is damaged, its checksum differs: copy or save it again")
    try:
        tensors = load_tensors(content)
    except Exception as error:  # noqa: BLE001  (damage can take any form)
        raise RunError(f"{path} is damaged ({error}): copy or save it again") from None
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:300]
        raise RunError(f"{path} does not fit the network ({reason}): use the one it was made with") from None

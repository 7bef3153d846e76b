"""The directory of a fitted encoder, as `DenoisingEncoder.save` and `dcs fit` write it."""

import contextlib
import hashlib
import json
import math
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import nn

from dcs.data import LogMel
from dcs.training import RunError
from dcs.training.checkpoint import write_atomically
from dcs.training.run import CONFIG, METRICS, MODEL, OBJECTIVE

FORMAT, FORMAT_VERSION = "dcs.DenoisingEncoder", 1
_SAVED = {CONFIG, METRICS, MODEL, OBJECTIVE}


class Description(NamedTuple):
    """What a directory says of the encoder in it."""

    parameters: dict[str, Any]
    left_out: set[str]
    shape: tuple[int, ...]
    scale: float | None
    scale_free: bool
    features_only: bool
    largest: float | None
    feature_names: list[str]
    front_end: LogMel | None
    digests: dict[str, str]


def read_description(folder: Path, names: Collection[str]) -> Description:
    """Read config.json, of either kind."""
    if not (folder / CONFIG).is_file():
        raise RunError(
            f"{folder / CONFIG} does not exist: name a directory that DenoisingEncoder.save or dcs fit wrote"
        )
    with damaged(folder / CONFIG):
        config = json.loads((folder / CONFIG).read_bytes())
        if config.get("format", FORMAT) != FORMAT or not {"parameters", "training"} & set(config):
            raise RunError(
                f"{folder / CONFIG} describes no encoder: fit one with DenoisingEncoder or dcs fit"
            )
        if config.get("format_version", 1) > FORMAT_VERSION:
            raise RunError(f"{folder / CONFIG} is of a newer version: pip install --upgrade dcs-learn")
        if not (folder / MODEL).is_file():
            resume = "dcs reproduce, called as before," if "method" in config else "dcs fit ... --resume"
            resumed = f"so the run is not finished: {resume} goes on with it"
            remedy = resumed if "training" in config else "save the encoder again"
            raise RunError(f"{folder / MODEL} does not exist, {remedy}")
        if "training" in config:
            parameters = {k: v for k, v in config["training"].items() if k in names}
            parameters["random_state"] = config["training"].get("seed", 0)
        else:
            parameters = dict(config["parameters"])
        scale, largest = (
            None if config.get(name) is None else float(config[name]) for name in ("scale", "largest")
        )
        if scale is not None and not 0 < scale < math.inf:
            raise ValueError(f"its scale is {scale}")
        shape = tuple(int(length) for length in config["shape"])
        if not shape or min(shape) < 1:
            raise ValueError(f"its shape is {shape}")
        return Description(
            parameters,
            set(config.get("left_out", ())),
            shape,
            scale,
            bool(config.get("scale_free", False)),
            bool(config.get("features_only", False)),
            largest,
            list(config.get("feature_names", ())),
            LogMel(**config["front_end"]) if config.get("front_end") else None,
            dict(config.get("sha256", {})),
        )


def restore(module: nn.Module, path: Path, digests: dict[str, str]) -> None:
    """Load a module's tensors."""
    content = path.read_bytes()
    if digests.get(path.name, _digest(content)) != _digest(content):
        raise RunError(f"{path} is damaged, its checksum differs: copy or save it again")
    try:
        tensors = load_tensors(content)
    except Exception as error:  # noqa: BLE001  (damage can take any form)
        raise RunError(f"{path} cannot be read ({error}): it is damaged; copy or save it again") from None
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:300]
        raise RunError(f"{path} does not fit the network ({reason}): use the one it was made with") from None


def read_history(path: Path) -> list[dict[str, float]]:
    if not path.exists():
        return []
    with damaged(path):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return [{k: math.nan if v is None else v for k, v in line.items()} for line in lines]


def check_target(folder: Path, overwrite: bool) -> None:
    """Require a directory that `save` may write."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    try:
        ours = json.loads((folder / CONFIG).read_bytes())["format"] == FORMAT
    except (OSError, ValueError, TypeError, KeyError):
        ours = False
    if not ours or not {path.name for path in folder.iterdir()} <= _SAVED:
        raise FileExistsError(f"{folder} exists and holds more than a saved encoder: name a new directory")
    if not overwrite:
        raise FileExistsError(f"{folder} holds a saved encoder: pass overwrite=True to replace it")


def write_folder(
    folder: Path, modules: Mapping[str, nn.Module], described: dict[str, Any], history: list[dict[str, float]]
) -> None:
    """Write the directory, whole or not at all.

    Args:
        folder: One that `check_target` accepts.
        modules: The file of each module's tensors.
        described: For config.json.
        history: For metrics.jsonl.
    """
    files = {name: _tensor_file(module) for name, module in modules.items()}
    config = {**described, "sha256": {name: _digest(content) for name, content in files.items()}}
    files[METRICS] = "".join(_as_line(metrics) for metrics in history).encode()
    files[CONFIG] = json.dumps(config, indent=1).encode()
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent))
    try:
        new = beside / "new"
        new.mkdir()
        for name, content in files.items():
            write_atomically(new / name, content)
        if folder.exists():
            folder.rename(beside / "old")
        new.rename(folder)
    finally:
        if not folder.exists() and (beside / "old").exists():
            (beside / "old").rename(folder)
        shutil.rmtree(beside, ignore_errors=True)


@contextlib.contextmanager
def damaged(path: Path) -> Iterator[None]:
    """Turn whatever a damaged file leads to into one error that names it."""
    try:
        yield
    except RunError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:300]
        raise RunError(f"{path} cannot be used ({reason}): restore it, or fit and save again") from error


def _tensor_file(module: nn.Module) -> bytes:
    # Cloned, since tensors that share memory (tied weights) are refused.
    return save_tensors({k: v.detach().cpu().contiguous().clone() for k, v in module.state_dict().items()})


def _as_line(metrics: dict[str, float]) -> str:
    """As in a run directory: NaN and infinities are no JSON."""
    return json.dumps({k: v if math.isfinite(v) else None for k, v in metrics.items()}) + "\n"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()

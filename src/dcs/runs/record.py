"""The record of a run: one file, config.json, that holds all there is to know about it but its tensors."""

import contextlib
import json
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field

import dcs
from dcs.data import Source, Units
from dcs.training import CUSTOM, Facts, RunError, TrainingConfig, complete
from dcs.training.config import validated

CONFIG, METRICS, MODEL, CHECKPOINTS = "config.json", "metrics.jsonl", "model.safetensors", "checkpoint"
OBJECTIVE = "objective.safetensors"  # what the objective itself has learned, such as the noise level
RESULTS, REPORT = "results.jsonl", "report.html"
VERSION = 2
# Settings that may differ when a run is resumed: they do not change its result, except for threads, which
# change its last digits.
_FREE = {"checkpoint_seconds", "keep_checkpoints", "max_epochs", "threads"}


class Learned(BaseModel):
    """What training has found, beside the weights.

    Args:
        scale: Factor that takes predictions to the scale of the data, where an objective leaves it open.
        largest: Largest absolute value in the training data.
        feature_names: Names of the columns of the training data, if it had any.
        front_end: Front end with the statistics of the training data.
        objective: Description of the objective as it was used, views and estimates included.
        predicts: Whether the network predicts samples.
        scale_free: Whether only the direction of its predictions counts.
        units: Offset and scale that are taken out of windows, where they are standardised.
        paired: Whether the network has seen a second observation of the samples, in place of views.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    largest: float | None = None
    feature_names: tuple[str, ...] = ()
    front_end: dict[str, Any] | None = None
    objective: dict[str, Any] | None = None
    predicts: bool = True
    scale_free: bool = False
    units: Units = Units()
    paired: bool = False


class RunRecord(BaseModel):
    """Everything needed to repeat, resume and use a run.

    Args:
        source: Where the data came from; None for data that was passed in Python.
        samples: Number of training samples.
        fingerprint: Fingerprint of the training samples.
        shape: Shape of one sample, as it was read.
        training: Complete training configuration.
        skipped: Files that could not be read and were left out.
        left_out: Parameters that are objects and cannot be written, by name.
        trial: Trial of an experiment that the run belongs to.
        versions: Versions of what decides the result.
        learned: What training has found; None before it has finished.
        sha256: Checksums of the tensor files.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["dcs.Run"] = "dcs.Run"
    format_version: int = VERSION
    source: Source | None = None
    samples: int | None = None
    fingerprint: str | None = None
    shape: tuple[int, ...] = Field(min_length=1)
    training: TrainingConfig
    skipped: tuple[str, ...] = ()
    left_out: dict[str, str] = {}
    trial: dict[str, Any] | None = None
    versions: dict[str, str] = Field(default_factory=lambda: versions())
    learned: Learned | None = None
    sha256: dict[str, str] = {}

    def plain(self) -> dict[str, Any]:
        """Return the record as plain values, as JSON gives them back."""
        return self.model_dump(mode="json")

    def deciding(self) -> dict[str, Any]:
        """Return the settings that decide a result, flat."""
        training = self.plain()["training"]
        free = _FREE - {"max_epochs"} if self.training.schedule != "constant" else _FREE
        kept = {name: value for name, value in training.items() if name not in free}
        # The fingerprint says more than where the data is.
        data = self.fingerprint or self.plain()["source"]
        return {"data": data, "shape": list(self.shape), "left_out": self.left_out, **kept}

    def to_json(self) -> bytes:
        """Return the content of config.json."""
        return json.dumps(self.plain(), indent=1, allow_nan=False).encode()


def versions() -> dict[str, str]:
    """Return the versions of what decides a result."""
    return {"dcs-learn": dcs.__version__, "torch": torch.__version__, "python": platform.python_version()}


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Say in which settings two configurations differ."""
    return "; ".join(
        f"{name} was {old.get(name)!r}, is now {new.get(name)!r}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    )


def read_record(folder: Path) -> RunRecord:
    """Read the record of a run, or of an encoder that was saved, of this or an earlier version."""
    path = folder / CONFIG
    if not path.is_file():
        raise RunError(f"{path} does not exist: give a directory that dcs fit or DenoisingEncoder.save wrote")
    with readable(path):
        written = json.loads(path.read_bytes())
        if not isinstance(written, dict) or not {"training", "parameters"} & written.keys():
            raise RunError(f"{path} is not the record of a run: fit one with DenoisingEncoder or dcs fit")
        if written.get("format_version", 1) > VERSION:
            raise RunError(f"{path} was written by a newer version: pip install --upgrade dcs-learn")
        return parse_record(written)


def parse_record(written: Mapping[str, Any]) -> RunRecord:
    """Make a record of plain values, of this or an earlier version."""
    # What `dcs fit` wrote before version 2 named no version; an encoder that was saved had version 1.
    current = written.get("format") == "dcs.Run"
    return validated(RunRecord, _without_hop(written) if current else _from_version_1(written))


def _without_hop(written: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leave out an option of reading that recordings had before their windows were drawn at random."""
    source = written.get("source")
    if not isinstance(source, Mapping) or "hop" not in source:
        return written
    return {**written, "source": {name: value for name, value in source.items() if name != "hop"}}


@contextlib.contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn whatever a damaged file leads to into one error that names it."""
    try:
        yield
    except RunError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:300]
        raise RunError(f"{path} is damaged ({reason}): restore it, or fit and save again") from error


def _from_version_1(written: Mapping[str, Any]) -> dict[str, Any]:
    """Translate what version 0.1 wrote: `dcs fit` and `dcs reproduce`, or `DenoisingEncoder.save`."""
    shape = tuple(int(length) for length in written["shape"])
    data, left_out = written.get("data") or {}, dict(written.get("left_out") or {})
    settings = dict(written.get("training") or _parameters(written["parameters"], left_out))
    front_end = written.get("front_end")
    if front_end is None and settings.get("front_end") and len(shape) > 1:
        settings["front_end"] = None  # an experiment's run, which was trained on spectrograms as samples
    objective = settings.get("objective")
    if objective not in (None, CUSTOM) and written.get("method", objective) != objective:
        settings["objective"] = CUSTOM  # an oracle, or a supervised network
        options = settings.get("objective_options") or {}
        settings["objective_options"] = {k: v for k, v in options.items() if k == "augment"}  # normalises
    facts = Facts(shape, int(data.get("samples") or 1), data.get("rate"))
    learned = {
        "scale": written.get("scale"),
        "largest": written.get("largest"),
        "feature_names": written.get("feature_names", ()),
        "front_end": front_end,
        "scale_free": written.get("scale_free", False),
        "predicts": not written.get("features_only", False),
    }
    trial = {name: written[name] for name in ("method", "variant") if name in written}
    return {
        "source": Source.from_version_1(data, shape) if data else None,
        "samples": data.get("samples"),
        "fingerprint": data.get("fingerprint"),
        "shape": shape,
        "training": complete(settings, facts),
        "skipped": data.get("skipped") or (),
        "left_out": left_out,
        "trial": trial or None,
        "versions": written.get("versions", {}),
        "learned": learned if "sha256" in written else None,
        "sha256": written.get("sha256", {}),
    }


def _parameters(parameters: Mapping[str, Any], left_out: Mapping[str, str]) -> dict[str, Any]:
    """Translate the parameters of a `DenoisingEncoder` of version 0.1 to settings."""
    known = {name: value for name, value in parameters.items() if name in TrainingConfig.model_fields}
    for name in ("objective", "network"):
        if known.get(name) is None:
            known[name] = CUSTOM
    if left_out.keys() & {"objective", "objective_options", "masking"}:
        known |= {"objective": CUSTOM, "objective_options": None, "masking": None}
    if left_out.keys() & {"network", "network_options"}:
        known |= {"network": CUSTOM, "network_options": None}
    return {**known, "seed": parameters.get("random_state") or 0}

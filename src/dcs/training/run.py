"""A run directory: config.json, metrics.jsonl, model.safetensors and checkpoint/, plain files all."""

import hashlib
import json
import math
import os
import platform
import re
import shutil
import signal
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import torch
from filelock import FileLock, Timeout
from torch import Tensor, nn

import dcs
from dcs.data import Samples
from dcs.objectives import Objective, SelfSupervised
from dcs.training import checkpoint
from dcs.training.checkpoint import RunError, write_atomically
from dcs.training.config import differences, read_config

CONFIG, METRICS, MODEL, CHECKPOINTS = "config.json", "metrics.jsonl", "model.safetensors", "checkpoint"
OBJECTIVE = "objective.safetensors"  # what the objective itself has learned, such as SURE's sigma
LOCK = ".lock"
# Settings that may differ when a run is resumed: they do not change its result, but for threads, which change
# its last digits: of those a warning tells.
_FREE = {"checkpoint_seconds", "keep_checkpoints", "max_epochs", "threads"}


class Stopped(Exception):  # noqa: N818  (it is not an error)
    """A signal asked the training to stop; it was saved."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message, signal_number)  # both, so that it can pass between processes
        self.signal_number = signal_number

    def __str__(self) -> str:
        return str(self.args[0])


class Run:
    """A run directory that is being written; use it as a context.

    Args:
        folder: The directory; made if need be.
        config: All that decides the result, as plain values.
        resume: Go on from the newest checkpoint, if there is one.
        overwrite: Remove what another run left there.
        main: Whether this process writes (one of several does).
    """

    def __init__(
        self,
        folder: Path,
        config: dict[str, Any],
        *,
        resume: bool = False,
        overwrite: bool = False,
        main: bool = True,
    ) -> None:
        # As it will be read back: a tuple is a list there.
        self.folder, self.config, self.main = folder, json.loads(json.dumps(config)), main
        self.resume, self.overwrite = resume, overwrite
        self.lock = FileLock(folder / LOCK, blocking=False)
        self.asked_to_stop = 0
        self.last_saved = time.monotonic()
        self.step = 0
        self.began = False  # whether there was nothing before
        self._handlers: dict[int, Any] = {}

    @property
    def finished(self) -> bool:
        """Whether the run has its model."""
        return (self.folder / MODEL).exists()

    def __enter__(self) -> "Run":
        if self.main:
            try:
                self._claim()
            except BaseException:
                self.lock.release()
                raise
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._handlers[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        if self.main and error is not None and self.step == 0 and self.began:
            (self.folder / CONFIG).unlink(missing_ok=True)  # nothing was trained: the directory is free again
        self.lock.release()

    def description(self) -> dict[str, Any]:
        """What a finished run says of itself; it must have been made with the same settings."""
        told: dict[str, Any] = json.loads((self.folder / CONFIG).read_bytes())
        known = {name: value for name, value in told.items() if name in self.config}
        changed = differences(_deciding(known), _deciding(self.config))
        if changed:
            raise RunError(
                f"{self.folder} was finished with other settings ({'; '.join(changed)}): use the same, or "
                f"another directory"
            )
        return told

    def restore(self) -> dict[str, Any] | None:
        """The state of the newest checkpoint, if the run is resumed and has one."""
        if not self.resume:
            return None
        if self.finished:
            raise RunError(f"{self.folder} holds a finished run: start anew with --overwrite")
        found = checkpoint.load_newest(self.folder / CHECKPOINTS)
        if found is None:
            if not self.began:
                warnings.warn(
                    f"{self.folder} has no checkpoint: the run begins anew",
                    checkpoint.CheckpointWarning,
                    stacklevel=3,
                )
            self._describe(epoch=0)
            return None
        self.step, state, about = found
        changed = differences(_deciding(about["config"]), _deciding(self.config))
        if changed:
            raise RunError(
                f"the checkpoint in {self.folder} was made with other settings ({'; '.join(changed)}): use "
                f"the same, or start anew with --overwrite"
            )
        epoch, wanted = state["position"]["epoch"], self.config["training"]["max_epochs"]
        if epoch >= wanted:
            raise RunError(
                f"the checkpoint in {self.folder} is in epoch {epoch}, past max_epochs {wanted}: ask "
                f"for more, or start anew with --overwrite"
            )
        changed = differences(about["environment"], _environment())
        if changed:
            warnings.warn(
                f"the run will not end with the very weights it would have had: {'; '.join(changed)}",
                checkpoint.CheckpointWarning,
                stacklevel=3,
            )
        self._describe(epoch)
        return state

    def after_step(self, state: Callable[[], dict[str, Any]]) -> bool:
        """Save the state if it is time to; whether a signal asked to stop."""
        self.step += 1
        if self.main and time.monotonic() - self.last_saved >= self.config["training"]["checkpoint_seconds"]:
            self.save(state())
        return bool(self.asked_to_stop)

    def after_epoch(self, metrics: dict[str, float]) -> None:
        """Append a line to the metrics."""
        if self.main:
            # NaN and infinities are no JSON.
            line = {name: value if math.isfinite(value) else None for name, value in metrics.items()}
            with (self.folder / METRICS).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
                file.flush()
                os.fsync(file.fileno())

    def stop(self, state: dict[str, Any]) -> None:
        """Save, and leave by `Stopped`."""
        position = state["position"]
        if self.main:
            self.save(state)
        raise Stopped(
            f"stopped in epoch {position['epoch'] + 1} after batch {position['batch']}, and saved: go on "
            f"with --resume",
            self.asked_to_stop or signal.SIGTERM,
        )

    def save(self, state: dict[str, Any]) -> None:
        """Write a checkpoint."""
        position = {name: state["position"][name] for name in ("epoch", "batch")}
        about = {"config": self.config, "environment": _environment(), "position": position}
        keep = self.config["training"]["keep_checkpoints"]
        checkpoint.save(self.folder / CHECKPOINTS, self.step, state, about, keep)
        self.last_saved = time.monotonic()

    def finish(
        self,
        weights: Mapping[str, torch.Tensor],
        own: Mapping[str, torch.Tensor] | None = None,
        **learned: Any,
    ) -> None:
        """Write the model: the run is then finished, and its checkpoints are no longer needed.

        Args:
            weights: Of the network.
            own: What the objective itself has learned, if it is to be kept.
            **learned: What else was learned, as plain values, for config.json.
        """
        from safetensors.torch import save

        if self.main:
            tensors = {OBJECTIVE: own, MODEL: weights}  # the model last: the run is finished when it is there
            files = {}
            for name, kept in tensors.items():
                if kept:  # copies, for tensors that share memory are refused
                    copies = {key: value.detach().cpu().clone().contiguous() for key, value in kept.items()}
                    files[name] = save(copies)
            digest = {
                "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
            }
            described = json.loads((self.folder / CONFIG).read_bytes()) | learned | digest
            write_atomically(self.folder / CONFIG, json.dumps(described, indent=1).encode())
            for name, content in files.items():
                write_atomically(self.folder / name, content)
            shutil.rmtree(self.folder / CHECKPOINTS, ignore_errors=True)

    def finish_training(
        self, network: nn.Module, objective: Objective, *, own: bool = True, **learned: Any
    ) -> None:
        """Write what training has left: the network, and what the objective was made of.

        Args:
            network: Trained.
            objective: What it was trained with.
            own: Whether what the objective itself has learned is kept: not of one that the settings do not
                name, which nobody could restore.
            **learned: See `finish`.
        """
        # Heads of self-supervised objectives serve training alone.
        kept = objective.state_dict() if own and not isinstance(objective, SelfSupervised) else None
        self.finish(network.state_dict(), kept, made_of=repr(objective), **learned)

    def _claim(self) -> None:
        """Take the directory, or say why not."""
        if self.folder.exists() and not self.folder.is_dir():
            raise RunError(f"{self.folder} is a file: name a directory for the run")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not (self.folder / LOCK).exists():
                self._refuse()  # before anything is written into a directory that is not ours
            self.lock.acquire()
        except Timeout:
            raise RunError(f"{self.folder} is in use by another process: wait, or name another") from None
        except OSError as error:
            raise RunError(f"{self.folder} cannot be written ({error.strerror}): name another") from error
        self._refuse()
        for path in [*self.folder.glob(".*"), *(self.folder / CHECKPOINTS).glob(".*")]:
            if _TEMPORARY.fullmatch(path.name):
                path.unlink()  # of a process that was killed
        if self.overwrite:
            for name in reversed(_OURS):  # config.json last: without it, the rest is not known as a run
                path = self.folder / name
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        self.began = not (self.folder / CONFIG).exists()
        if self.began:
            self._describe(epoch=0)

    def _refuse(self) -> None:
        """Raise if the directory holds what is not to be touched."""
        names = sorted(path.name for path in self.folder.iterdir())
        free = (LOCK, *_LOGS)  # which may be there before config.json, or without it
        found = [name for name in names if name not in free and not _TEMPORARY.fullmatch(name)]
        if found and not _is_config(self.folder / CONFIG):
            raise RunError(f"{self.folder} holds other files, such as {found[0]}: name a new directory")
        if found and not self.overwrite and not self.resume:
            remedy = "name another directory" if self.finished else "go on with --resume"
            state = "a finished run" if self.finished else "an unfinished run"
            raise RunError(f"{self.folder} holds {state}: {remedy}, or begin anew with --overwrite")

    def _describe(self, epoch: int) -> None:
        """Write the configuration, and drop the metrics of epochs that will be run again."""
        described = {**self.config, "versions": versions()}
        write_atomically(self.folder / CONFIG, json.dumps(described, indent=1).encode())
        metrics = self.folder / METRICS
        if metrics.exists():
            lines = metrics.read_text(encoding="utf-8").splitlines(keepends=True)[:epoch]
            write_atomically(metrics, "".join(lines).encode())

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self.asked_to_stop:  # a second time: at once
            raise KeyboardInterrupt
        self.asked_to_stop = number


_TEMPORARY = re.compile(r"\..+\.\d+\.tmp")  # as write_atomically names it
_LOGS = ("tensorboard", "wandb")
_OURS = (CONFIG, METRICS, MODEL, OBJECTIVE, CHECKPOINTS, "results.jsonl", "report.html", *_LOGS)


def versions() -> dict[str, str]:
    """Of what decides a result."""
    return {"dcs-learn": dcs.__version__, "torch": torch.__version__, "python": platform.python_version()}


def _environment() -> dict[str, str]:
    """What else decides a result to the last bit."""
    return {**versions(), "threads": str(torch.get_num_threads())}


def _is_config(path: Path) -> bool:
    """Whether it is the config.json of a run, and not of something else."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and {"training", "versions"} <= content.keys()


def _deciding(config: dict[str, Any]) -> dict[str, Any]:
    """The settings that decide a result, flat; one that is newer than the run has its default."""
    training = {**read_config({}).model_dump(mode="json"), **config["training"]}
    free = _FREE - {"max_epochs"} if training["schedule"] != "constant" else _FREE
    rest = {name: value for name, value in config.items() if name != "training"}
    if "fingerprint" in rest.get("data", {}):  # which says more than where the data is
        rest["data"] = {name: value for name, value in rest["data"].items() if name not in ("source", "root")}
    return {**rest, **{name: value for name, value in training.items() if name not in free}}


def fingerprint(x: Tensor | Samples) -> str:
    """Tells one set of data from another: by all of it or, where it is not in memory, by 256 samples."""
    if isinstance(x, Samples):
        x = x.read(range(0, x.shape[0], -(-x.shape[0] // 256)))
    return hashlib.sha256(x.contiguous().cpu().float().numpy().data).hexdigest()[:16]

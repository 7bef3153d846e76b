"""A run directory: config.json, metrics.jsonl, model.safetensors and checkpoint/, plain files all."""

import json
import platform
import shutil
import signal
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import torch
from filelock import FileLock, Timeout

import dcs
from dcs.training import checkpoint
from dcs.training.checkpoint import write_atomically
from dcs.training.config import differences

CONFIG, METRICS, MODEL, CHECKPOINTS = "config.json", "metrics.jsonl", "model.safetensors", "checkpoint"
# Settings that may differ when a run is resumed: they do not change its result.
_FREE = {"checkpoint_seconds", "keep_checkpoints", "max_epochs"}


class Stopped(Exception):  # noqa: N818  (it is not an error)
    """A signal asked the training to stop; it was saved."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.signal_number = signal_number


class RunError(RuntimeError):
    """The run directory cannot be used as asked; the message says what to do."""


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
        self.folder, self.config, self.main = folder, config, main
        self.resume, self.overwrite = resume, overwrite
        self.lock = FileLock(folder / ".lock", blocking=False)
        self.asked_to_stop = 0
        self.last_saved = time.monotonic()
        self.step = 0
        self._handlers: dict[int, Any] = {}

    @property
    def finished(self) -> bool:
        """Whether the run has its model."""
        return (self.folder / MODEL).exists()

    def __enter__(self) -> "Run":
        if self.main:
            self._claim()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._handlers[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self.lock.release()

    def restore(self) -> dict[str, Any] | None:
        """The state of the newest checkpoint, if the run is resumed and has one."""
        if not self.resume:
            return None
        found = checkpoint.load_newest(self.folder / CHECKPOINTS)
        if found is None:
            return None
        self.step, state, about = found
        changed = differences(_deciding(about["config"]), _deciding(self.config))
        if changed:
            raise RunError(
                f"the checkpoint in {self.folder} was made with other settings ({'; '.join(changed)}): use "
                f"the same, or start anew with --overwrite"
            )
        if about["versions"] != versions():
            changed = differences(about["versions"], versions())
            warnings.warn(f"resumed with other versions: {'; '.join(changed)}", stacklevel=2)
        self._cut_metrics(state["position"]["epoch"])
        if state["position"]["epoch"] < self.config["training"]["max_epochs"]:
            state["position"]["finished"] = False
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
            with (self.folder / METRICS).open("a", encoding="utf-8") as file:
                file.write(json.dumps(metrics) + "\n")

    def stop(self, state: dict[str, Any]) -> None:
        """Save, and leave by `Stopped`."""
        position = state["position"]
        if self.main:
            self.save(state)
        raise Stopped(
            f"stopped in epoch {position['epoch']} after batch {position['batch']}, and saved: go on with "
            f"--resume",
            self.asked_to_stop or signal.SIGTERM,
        )

    def save(self, state: dict[str, Any]) -> None:
        """Write a checkpoint."""
        about = {"config": self.config, "versions": versions(), "position": state["position"]}
        keep = self.config["training"]["keep_checkpoints"]
        checkpoint.save(self.folder / CHECKPOINTS, self.step, state, about, keep)
        self.last_saved = time.monotonic()

    def finish(self, weights: dict[str, torch.Tensor]) -> None:
        """Write the model: the run is then finished, and its checkpoints are no longer needed."""
        from safetensors.torch import save

        if self.main:
            write_atomically(self.folder / MODEL, save({k: v.contiguous().cpu() for k, v in weights.items()}))
            shutil.rmtree(self.folder / CHECKPOINTS, ignore_errors=True)

    def _claim(self) -> None:
        """Take the directory, or say why not."""
        if self.folder.exists() and not self.folder.is_dir():
            raise RunError(f"{self.folder} is a file: name a directory for the run")
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self.lock.acquire()
        except Timeout:
            raise RunError(f"{self.folder} is in use by another process: wait, or name another") from None
        theirs = [path.name for path in self.folder.iterdir() if path.name not in (".lock", *_OURS)]
        used = [name for name in _OURS if (self.folder / name).exists()]
        if theirs and not used:
            self.lock.release()
            raise RunError(f"{self.folder} holds other files, such as {theirs[0]}: name a new directory")
        if used and self.overwrite:
            for name in used:
                path = self.folder / name
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        elif used and not self.resume:
            state = "a finished run" if self.finished else "an unfinished run"
            self.lock.release()
            raise RunError(f"{self.folder} holds {state}: go on with --resume, or anew with --overwrite")
        if not self.finished:
            described = {**self.config, "versions": versions()}
            write_atomically(self.folder / CONFIG, json.dumps(described, indent=1).encode())

    def _cut_metrics(self, epoch: int) -> None:
        """Drop the lines of epochs that will be run again."""
        path = self.folder / METRICS
        if self.main and path.exists():
            lines = path.read_text(encoding="utf-8").splitlines()[:epoch]
            write_atomically(path, "".join(f"{line}\n" for line in lines).encode())

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self.asked_to_stop:  # a second time: at once
            raise KeyboardInterrupt
        self.asked_to_stop = number


_OURS = (CONFIG, METRICS, MODEL, CHECKPOINTS, "results.jsonl", "report.html")


def versions() -> dict[str, str]:
    """Of what decides a result."""
    return {"dcs-learn": dcs.__version__, "torch": torch.__version__, "python": platform.python_version()}


def _deciding(config: dict[str, Any]) -> dict[str, Any]:
    """The settings that decide a result, flat."""
    training = config["training"]
    free = _FREE - {"max_epochs"} if training["schedule"] != "constant" else _FREE
    rest = {name: value for name, value in config.items() if name != "training"}
    return {**rest, **{name: value for name, value in training.items() if name not in free}}

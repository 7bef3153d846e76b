"""A run directory: config.json, metrics.jsonl, model.safetensors and checkpoint/, all plain files."""

import contextlib
import json
import math
import os
import re
import shutil
import signal
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Protocol

import torch
from filelock import FileLock, Timeout

from dcs.runs.record import (
    CHECKPOINTS,
    CONFIG,
    METRICS,
    MODEL,
    OBJECTIVE,
    REPORT,
    RESULTS,
    Learned,
    RunRecord,
    parse_record,
    read_record,
    versions,
)
from dcs.runs.tensors import as_files, digest
from dcs.training import RunError, checkpoint
from dcs.training.checkpoint import write_atomically
from dcs.training.config import TrainingConfig, differences

LOCK = ".lock"
# Settings that may differ when a run is resumed: they do not change its result, except for threads, which
# change its last digits.
_FREE = {"checkpoint_seconds", "keep_checkpoints", "max_epochs", "threads"}
_TEMPORARY = re.compile(r"\..+\.\d+\.tmp")  # as write_atomically names it
_LOGS = ("tensorboard", "wandb")
_OURS = (CONFIG, METRICS, MODEL, OBJECTIVE, CHECKPOINTS, RESULTS, REPORT, *_LOGS)


class Stopped(Exception):  # noqa: N818  (it is not an error)
    """Training was stopped by a signal, and saved."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message, signal_number)  # both, so that it can pass between processes
        self.signal_number = signal_number

    def __str__(self) -> str:
        return str(self.args[0])


class Display(Protocol):
    """Shows or logs the metrics of a training, as a context."""

    def __enter__(self) -> Any: ...

    def __exit__(self, *error: Any) -> Any: ...

    def epoch(self, metrics: dict[str, float]) -> None:
        """Show the metrics of an epoch."""
        ...


class Run:
    """A run directory that is being written; use it as a context.

    Args:
        folder: Directory of the run; made if need be.
        record: What decides the result.
        resume: Whether to resume from the newest checkpoint, if there is one.
        overwrite: Whether to remove what another run left there.
        main: Whether this process writes; one of several does.
        displays: What shows or logs the metrics of each epoch.
    """

    def __init__(
        self,
        folder: Path,
        record: RunRecord,
        *,
        resume: bool = False,
        overwrite: bool = False,
        main: bool = True,
        displays: Sequence[Display] = (),
    ) -> None:
        self.displays, self.shown = displays, contextlib.ExitStack()
        self.folder, self.record, self.main = folder, record, main
        self.resume, self.overwrite = resume, overwrite
        self.lock = FileLock(folder / LOCK, blocking=False)
        self.asked_to_stop = 0
        self.last_saved = time.monotonic()
        self.step = 0
        self.began = False  # whether the directory held no run before
        self._handlers: dict[int, Any] = {}

    @property
    def settings(self) -> TrainingConfig:
        """Settings of the training."""
        return self.record.training

    @property
    def finished(self) -> bool:
        """Whether the run has its model."""
        return (self.folder / MODEL).exists()

    def __enter__(self) -> "Run":
        if self.main:
            try:
                self._claim()
                if not self.finished:
                    for display in self.displays:
                        self.shown.enter_context(display)
            except BaseException:
                self.shown.close()
                self.lock.release()
                raise
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._handlers[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.shown.close()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        if self.main and error is not None and self.step == 0 and self.began:
            (self.folder / CONFIG).unlink(missing_ok=True)  # nothing was trained: the directory is free again
        self.lock.release()

    def read(self) -> RunRecord:
        """Read the record of a finished run, which must have been made with the same settings."""
        found = read_record(self.folder)
        changed = differences(_deciding(found), _deciding(self.record))
        if changed:
            raise RunError(
                f"{self.folder} was finished with other settings ({'; '.join(changed)}): use the same, or "
                f"another directory"
            )
        return found

    def restore(self) -> dict[str, Any] | None:
        """The state of the newest checkpoint, if the run is resumed and has one."""
        if not self.resume:
            return None
        if self.finished:
            raise RunError(f"{self.folder} holds a finished run: start over with --overwrite")
        found = checkpoint.load_newest(self.folder / CHECKPOINTS)
        if found is None:
            if not self.began:
                warnings.warn(
                    f"{self.folder} has no checkpoint: the run starts over",
                    checkpoint.CheckpointWarning,
                    stacklevel=3,
                )
            self._describe(epoch=0)
            return None
        self.step, state, about = found
        changed = differences(_deciding(parse_record(about["config"])), _deciding(self.record))
        if changed:
            raise RunError(
                f"the checkpoint in {self.folder} was made with other settings ({'; '.join(changed)}): use "
                f"the same, or start over with --overwrite"
            )
        epoch, wanted = state["position"]["epoch"], self.settings.max_epochs
        if epoch >= wanted:
            raise RunError(
                f"the checkpoint in {self.folder} is in epoch {epoch}, past max_epochs {wanted}: "
                f"raise it, or start over with --overwrite"
            )
        changed = differences(about["environment"], _environment())
        if changed:
            warnings.warn(
                f"the resumed run will not be bit-identical to an uninterrupted one: {'; '.join(changed)}",
                checkpoint.CheckpointWarning,
                stacklevel=3,
            )
        self._describe(epoch)
        return state

    def after_step(self, state: Callable[[], dict[str, Any]]) -> bool:
        """Save the state if it is time to; return whether a signal asked to stop."""
        self.step += 1
        if self.main and time.monotonic() - self.last_saved >= self.settings.checkpoint_seconds:
            self.save(state())
        return bool(self.asked_to_stop)

    def after_epoch(self, metrics: dict[str, float]) -> None:
        """Record and show the metrics of an epoch."""
        if self.main:
            # JSON has no NaN and no infinities.
            line = {name: value if math.isfinite(value) else None for name, value in metrics.items()}
            with (self.folder / METRICS).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
                file.flush()
                os.fsync(file.fileno())
            for display in self.displays:
                display.epoch(metrics)

    def stop(self, state: dict[str, Any]) -> None:
        """Save, and leave by `Stopped`."""
        position = state["position"]
        if self.main:
            self.save(state)
        raise Stopped(
            f"stopped in epoch {position['epoch'] + 1} after batch {position['batch']}, and saved: "
            f"resume with --resume",
            self.asked_to_stop or signal.SIGTERM,
        )

    def save(self, state: dict[str, Any]) -> None:
        """Write a checkpoint."""
        position = {name: state["position"][name] for name in ("epoch", "batch")}
        about = {"config": self.record.plain(), "environment": _environment(), "position": position}
        keep = self.settings.keep_checkpoints
        checkpoint.save(self.folder / CHECKPOINTS, self.step, state, about, keep)
        self.last_saved = time.monotonic()

    def finish(
        self,
        weights: Mapping[str, torch.Tensor],
        own: Mapping[str, torch.Tensor] | None = None,
        learned: Learned | None = None,
    ) -> None:
        """Write the model: the run is then finished, and its checkpoints are removed.

        Args:
            weights: Weights of the network.
            own: What the objective itself has learned, if it is to be kept.
            learned: What training has found, for the record.
        """
        if not self.main:
            return
        files = as_files({OBJECTIVE: own, MODEL: weights})  # the model last: it marks the run as finished
        sha256 = {name: digest(content) for name, content in files.items()}
        found = read_record(self.folder)
        self.record = found.model_copy(update={"learned": learned or Learned(), "sha256": sha256})
        write_atomically(self.folder / CONFIG, self.record.to_json())
        for name, content in files.items():
            write_atomically(self.folder / name, content)
        shutil.rmtree(self.folder / CHECKPOINTS, ignore_errors=True)

    def _claim(self) -> None:
        """Claim the directory, or raise."""
        if self.folder.exists() and not self.folder.is_dir():
            raise RunError(f"{self.folder} is a file: give a directory for the run")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not (self.folder / LOCK).exists():
                self._refuse()  # before anything is written into a directory that is not ours
            self.lock.acquire()
        except Timeout:
            raise RunError(
                f"{self.folder} is in use by another process: wait, or give another directory"
            ) from None
        except OSError as error:
            raise RunError(
                f"{self.folder} cannot be written ({error.strerror}): give another directory"
            ) from error
        self._refuse()
        for path in [*self.folder.glob(".*"), *(self.folder / CHECKPOINTS).glob(".*")]:
            if _TEMPORARY.fullmatch(path.name):
                path.unlink()  # left by a process that was killed
        if self.overwrite:
            for name in reversed(_OURS):  # config.json last: it marks the rest as a run
                path = self.folder / name
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        self.began = not (self.folder / CONFIG).exists()
        if self.began:
            self._describe(epoch=0)

    def _refuse(self) -> None:
        """Raise if the directory holds anything that must not be touched."""
        names = sorted(path.name for path in self.folder.iterdir())
        free = (LOCK, *_LOGS)  # which may be there before config.json, or without it
        found = [name for name in names if name not in free and not _TEMPORARY.fullmatch(name)]
        if found and not _is_config(self.folder / CONFIG):
            raise RunError(f"{self.folder} holds other files, such as {found[0]}: give a new directory")
        if found and not self.overwrite and not self.resume:
            remedy = "give another directory" if self.finished else "resume with --resume"
            state = "a finished run" if self.finished else "an unfinished run"
            raise RunError(f"{self.folder} holds {state}: {remedy}, or start over with --overwrite")

    def _describe(self, epoch: int) -> None:
        """Write the record, and drop the metrics of epochs that will be run again."""
        write_atomically(self.folder / CONFIG, self.record.to_json())
        metrics = self.folder / METRICS
        if metrics.exists():
            lines = metrics.read_text(encoding="utf-8").splitlines(keepends=True)[:epoch]
            write_atomically(metrics, "".join(lines).encode())

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self.asked_to_stop:  # a second time: at once
            raise KeyboardInterrupt
        self.asked_to_stop = number


def _environment() -> dict[str, str]:
    """Return what else decides a result to the last bit."""
    return {**versions(), "threads": str(torch.get_num_threads())}


def _is_config(path: Path) -> bool:
    """Return whether a file is the config.json of a run, and not of something else."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and {"training", "versions"} <= content.keys()


def _deciding(record: RunRecord) -> dict[str, Any]:
    """Return the settings that decide a result, flat."""
    training = record.training.model_dump(mode="json")
    free = _FREE - {"max_epochs"} if record.training.schedule != "constant" else _FREE
    kept = {name: value for name, value in training.items() if name not in free}
    # The fingerprint says more than where the data is.
    data = record.fingerprint or (None if record.source is None else record.source.model_dump(mode="json"))
    return {"data": data, "shape": list(record.shape), "left_out": record.left_out, **kept}

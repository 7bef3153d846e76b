"""A run directory: config.json, metrics.jsonl, model.safetensors and checkpoint/, all plain files.

It is written while a network is trained, or by `save`, and read by `load`. No code in a file is ever run.
"""

import contextlib
import json
import math
import os
import re
import shutil
import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from filelock import FileLock, Timeout
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from dcs.data import LogMel
from dcs.objectives import Objective
from dcs.runs.predictor import Predictor
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
    differences,
    parse_record,
    read_record,
    readable,
    versions,
)
from dcs.training import CUSTOM, CheckpointWarning, RunError, checkpoint, make_network, make_objective
from dcs.training.checkpoint import digest, write_atomically
from dcs.training.loggers import Display

LOCK = ".lock"
_TEMPORARY = re.compile(r"\..+\.\d+\.tmp")  # as write_atomically names it
_LOGS = ("tensorboard", "wandb")
_SAVED = (CONFIG, METRICS, MODEL, OBJECTIVE)
_OURS = (*_SAVED, CHECKPOINTS, RESULTS, REPORT, *_LOGS)


class Stopped(Exception):  # noqa: N818  (it is not an error)
    """Training was stopped by a signal, and saved."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message, signal_number)  # both, so that it can pass between processes
        self.signal_number = signal_number

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(eq=False)
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

    folder: Path
    record: RunRecord
    _: KW_ONLY
    resume: bool = False
    overwrite: bool = False
    main: bool = True
    displays: Sequence[Display] = ()

    def __post_init__(self) -> None:
        self.lock = FileLock(self.folder / LOCK, blocking=False)
        self.asked_to_stop = self.step = 0
        self.last_saved = time.monotonic()
        self.began = False  # whether the directory held no run before
        self._entered = contextlib.ExitStack()

    @property
    def finished(self) -> bool:
        """Whether the run has its model."""
        return (self.folder / MODEL).exists()

    def __enter__(self) -> "Run":
        with contextlib.ExitStack() as stack:
            if self.main:
                stack.callback(self.lock.release)
                self._claim()
                for display in () if self.finished else self.displays:
                    stack.enter_context(display)
            if threading.current_thread() is threading.main_thread():
                for number in (signal.SIGINT, signal.SIGTERM):
                    stack.callback(signal.signal, number, signal.signal(number, self._on_signal))
            self._entered = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._entered:
            if self.main and kind is not None and self.step == 0 and self.began:
                (self.folder / CONFIG).unlink(missing_ok=True)  # nothing was trained: it is free again

    def read(self) -> RunRecord:
        """Read the record of a finished run, which must have been made with the same settings."""
        found = read_record(self.folder)
        self._check_same(found, f"{self.folder} was finished", "another directory")
        return found

    def _check_same(self, found: RunRecord, what: str, remedy: str) -> None:
        if changed := differences(found.deciding(), self.record.deciding()):
            raise RunError(f"{what} with other settings ({changed}): use the same, or {remedy}")

    def restore(self) -> dict[str, Any] | None:
        """The state of the newest checkpoint, if the run is resumed and has one."""
        if not self.resume:
            return None
        if self.finished:
            raise RunError(f"{self.folder} holds a finished run: start over with --overwrite")
        found = checkpoint.load_newest(self.folder / CHECKPOINTS)
        if found is None:
            if not self.began:
                text = f"{self.folder} has no checkpoint: the run starts over"
                warnings.warn(text, CheckpointWarning, stacklevel=3)
            self._describe(epoch=0)
            return None
        self.step, state, about = found
        what = f"the checkpoint in {self.folder}"
        self._check_same(parse_record(about["config"]), f"{what} was made", "start over with --overwrite")
        epoch, wanted = state["position"]["epoch"], self.record.training.max_epochs
        if epoch >= wanted:
            raise RunError(
                f"{what} is in epoch {epoch}, past max_epochs {wanted}: raise it, or start over with "
                f"--overwrite"
            )
        if changed := differences(about["environment"], _environment()):
            text = f"the resumed run will not be bit-identical to an uninterrupted one: {changed}"
            warnings.warn(text, CheckpointWarning, stacklevel=3)
        self._describe(epoch)
        return state

    def after_step(self, state: Callable[[], dict[str, Any]]) -> bool:
        """Save the state if it is time to; return whether a signal asked to stop."""
        self.step += 1
        if self.main and time.monotonic() - self.last_saved >= self.record.training.checkpoint_seconds:
            self.save(state())
        return bool(self.asked_to_stop)

    def after_epoch(self, metrics: dict[str, float]) -> None:
        """Record and show the metrics of an epoch."""
        if self.main:
            with (self.folder / METRICS).open("a", encoding="utf-8") as file:
                file.write(_metrics_line(metrics))
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
        keep = self.record.training.keep_checkpoints
        checkpoint.save(self.folder / CHECKPOINTS, self.step, state, about, keep)
        self.last_saved = time.monotonic()

    def finish(
        self,
        weights: Mapping[str, Tensor],
        own: Mapping[str, Tensor] | None = None,
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
        # The model last: it marks the run as finished.
        files, sha256 = _as_files({OBJECTIVE: own, MODEL: weights})
        self.record = self.record.model_copy(update={"learned": learned or Learned(), "sha256": sha256})
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
        if found and not {"training", "versions"} <= _written_keys(self.folder):
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


def load(
    folder: Path,
    network: nn.Module | Callable[..., nn.Module] | None = None,
    objective: Objective | None = None,
    *,
    history: bool = True,
) -> Predictor:
    """Load a finished run.

    Args:
        folder: Directory that `dcs fit` or `DenoisingEncoder.save` wrote.
        network: Module, or callable (shape, n_components) that makes it, where the run was fitted with one.
        objective: Objective, where the run was fitted with one given as an object; without it all but the
            score can be computed.
        history: Whether to read the metrics of the epochs, too.

    Raises:
        RunError: A file is missing, damaged or of another kind.
    """
    record = read_record(folder)
    if not (folder / MODEL).is_file():
        resume = "dcs reproduce, called as before," if record.trial else "dcs fit ... --resume"
        raise RunError(f"{folder / MODEL} does not exist, so the run has not finished: {resume} resumes it")
    config, learned = record.training, record.learned
    lost = {re.split("[_.]", name)[0] for name in record.left_out}  # parts with options that were objects
    with readable(folder / CONFIG):
        front_end = LogMel(**learned.front_end) if learned and learned.front_end else None
        shape = record.shape if front_end is None else front_end.shape(*record.shape)
        if network is None:
            if config.network == CUSTOM or "network" in lost:
                raise RunError(
                    f"{folder} was fitted with a network of your own: pass it, as load(path, network=...)"
                )
            network = make_network(config, shape)
        elif not isinstance(network, nn.Module):
            network = network(shape, config.n_components, **config.network_options)
        network = network.cpu().eval()
        if objective is None and config.objective != CUSTOM and not lost & {"objective", "masking"}:
            objective = make_objective(config)
    _restore(network, folder / MODEL, record.sha256)
    if objective is not None and objective.predicts and (folder / OBJECTIVE).exists():
        _restore(objective, folder / OBJECTIVE, record.sha256)
    return Predictor(network, objective, record, front_end, read_history(folder / METRICS) if history else [])


def save(predictor: Predictor, folder: Path, *, overwrite: bool = False) -> None:
    """Save a trained network as a run directory, which appears whole or not at all.

    Args:
        predictor: Trained network.
        folder: Directory; an existing one is replaced only if it holds what `save` wrote.
        overwrite: Whether to replace it.
    """
    if folder.is_file() or (folder.exists() and any(folder.iterdir())):
        ours = {"format", "versions"} <= _written_keys(folder)
        if not ours or not {path.name for path in folder.iterdir()} <= {*_SAVED}:
            raise FileExistsError(
                f"{folder} exists and holds more than a saved encoder: give a new directory"
            )
        if not overwrite:
            raise FileExistsError(f"{folder} holds a saved encoder: pass overwrite=True to replace it")
    objective = predictor.objective
    own = objective.state_dict() if objective is not None and objective.predicts else None
    files, sha256 = _as_files({MODEL: predictor.network.state_dict(), OBJECTIVE: own})
    files[METRICS] = "".join(map(_metrics_line, predictor.history)).encode()
    files[CONFIG] = predictor.record.model_copy(update={"sha256": sha256}).to_json()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent, ignore_cleanup_errors=True
    ) as beside:
        new, old = Path(beside, "new"), Path(beside, "old")
        new.mkdir()
        for name, content in files.items():
            write_atomically(new / name, content)
        try:
            if folder.exists():
                folder.rename(old)
            new.rename(folder)
        finally:
            if old.exists() and not folder.exists():
                old.rename(folder)


def read_history(path: Path) -> list[dict[str, float]]:
    """Read the metrics of each epoch."""
    if not path.exists():
        return []
    with readable(path):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return [{k: math.nan if v is None else v for k, v in line.items()} for line in lines]


def _as_files(
    tensors: Mapping[str, Mapping[str, Tensor] | None],
) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return the contents of tensor files by name, and their checksums; empty ones are left out."""
    # Copies, as tensors that share memory (tied weights) are refused.
    files = {
        name: save_tensors({k: v.detach().cpu().contiguous().clone() for k, v in state.items()})
        for name, state in tensors.items()
        if state
    }
    return files, {name: digest(content) for name, content in files.items()}


def _restore(module: nn.Module, path: Path, digests: Mapping[str, str]) -> None:
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


def _written_keys(folder: Path) -> set[str]:
    """Return the keys of a directory's config.json; none if there is no such file, or something else."""
    try:
        return set(json.loads((folder / CONFIG).read_bytes()).keys())
    except (OSError, ValueError, AttributeError):
        return set()


def _metrics_line(metrics: Mapping[str, float]) -> str:
    """Return the metrics of an epoch as a line of JSON, which has no NaN and no infinities."""
    return json.dumps({k: v if math.isfinite(v) else None for k, v in metrics.items()}) + "\n"


def _environment() -> dict[str, str]:
    """Return what else decides a result to the last bit."""
    return {**versions(), "threads": str(torch.get_num_threads())}

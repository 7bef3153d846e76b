"""Checkpoints: numbered, written whole or not at all, checked when read, and never run."""

import hashlib
import io
import json
import os
import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import torch


class CheckpointWarning(UserWarning):
    """A checkpoint could not be used, or not be continued exactly."""


class RunError(ValueError):
    """The run cannot start or continue as requested; the message names the remedy."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that it is either the old or the new one at every moment, also if the power fails."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(error.errno, f"cannot write: {error.strerror}", str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def digest(content: bytes) -> str:
    """Return the checksum of a file's content."""
    return hashlib.sha256(content).hexdigest()


def whole_lines(content: bytes) -> bytes:
    """Lines of JSON without a last one that was still being written when a process was ended."""
    end = content.rfind(b"\n") + 1
    try:
        json.loads(content[end:])
    except (ValueError, RecursionError):
        return content[:end]
    return content + b"\n"  # which an editor left out


def cut_unfinished_line(path: Path) -> None:
    """Let a file, if it is there, end with a whole line, so that another can be added."""
    if path.exists():
        content = path.read_bytes()
        whole = whole_lines(content)
        if whole != content:
            write_atomically(path, whole)


def save(folder: Path, number: int, state: dict[str, Any], about: dict[str, Any], keep: int) -> None:
    """Write checkpoint `number`, then remove all but it and those just before it, `keep` in all.

    Larger numbers are of a course that was given up, and are removed too. The state holds tensors, numbers,
    strings, and lists and dictionaries of them; `about` is written as JSON, for people.
    """
    folder.mkdir(exist_ok=True)
    buffer = io.BytesIO()
    torch.save(state, buffer)
    content, path = buffer.getvalue(), folder / f"{number:09d}.pt"
    write_atomically(path, content)
    # It counts from the moment that its description is there.
    described = {**about, "sha256": digest(content)}
    write_atomically(path.with_suffix(".json"), json.dumps(described, indent=1).encode())
    kept = [old for old in numbers(folder) if old <= number][-keep:]
    # The description goes first, so that what is left of a checkpoint never counts as one.
    for path in sorted(folder.glob("[0-9]*.*")):
        if path.stem not in {f"{old:09d}" for old in kept}:
            path.unlink(missing_ok=True)


def load_newest(folder: Path) -> tuple[int, dict[str, Any], dict[str, Any]] | None:
    """The newest checkpoint that is whole: its number, state and description; None if there is none.

    Reading never runs code: only tensors and plain values are accepted.
    """
    for number in reversed(numbers(folder)):
        path = folder / f"{number:09d}.pt"
        try:
            about = json.loads(path.with_suffix(".json").read_bytes())
            content = path.read_bytes()
            if digest(content) != about["sha256"]:
                raise ValueError("its checksum differs")
            return number, torch.load(io.BytesIO(content), map_location="cpu", weights_only=True), about
        except Exception as error:  # noqa: BLE001  (damage can take any form)
            # What torch says of a file that it refuses is advice to run the code in it.
            refused = isinstance(error, pickle.UnpicklingError)
            reason = "it holds more than tensors" if refused else " ".join(str(error).split())[:200]
            warnings.warn(
                f"checkpoint {path} is damaged or not one of ours ({reason}): it is left out",
                CheckpointWarning,
                stacklevel=4,
            )
    return None


def numbers(folder: Path) -> list[int]:
    """The numbers of the checkpoints in a folder, ascending."""
    found = (re.fullmatch(r"(\d{9})\.json", path.name) for path in folder.glob("*.json"))
    return sorted(int(match[1]) for match in found if match)

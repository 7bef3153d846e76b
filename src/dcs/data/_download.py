"""Fetch a published file once: mirrors, resumed downloads, checksums, and a lock against a second process."""

import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from dcs._progress import progress

if TYPE_CHECKING:
    import requests

CONNECT_TIMEOUT = 10.0  # seconds
READ_TIMEOUT = 30.0  # seconds without a single byte
_CHUNK = 64 * 1024


class DownloadError(OSError):
    """A file could not be downloaded or saved; the message says why, and where to put it by hand."""


class _FailedError(Exception):
    """One mirror cannot send the file; the message says why."""


class _InterruptedError(_FailedError):
    """The mirror sent a part of the file, from which the download can resume."""


@dataclass(frozen=True)
class Remote:
    """A published file.

    Args:
        file: Name on disk.
        urls: Mirrors (http or https), tried in order.
        md5: Checksum; None if none is published.
        size: Size in bytes, for the progress display; 0 if unknown.
    """

    file: str
    urls: tuple[str, ...]
    md5: str | None
    size: int = 0


def fetch(remote: Remote, folder: Path) -> Path:
    """Return the file's path in the folder, after downloading it if it is not there.

    A file that is there is trusted. A download that was cut short, even by a crash, is resumed.

    Raises:
        DownloadError: No mirror gives the file, or it cannot be saved.
    """
    target = folder / remote.file
    try:
        if target.exists():
            return target
        folder.mkdir(parents=True, exist_ok=True)
        with locked(target, f"downloading {remote.file}"):
            if not target.exists():
                _download(remote, target)
    except DownloadError:
        raise
    except OSError as error:
        raise DownloadError(f"cannot save {target}: {error.strerror or error}") from error
    return target


@contextmanager
def locked(target: Path, doing: str) -> Iterator[None]:
    """Allow one process at a time to make a file or folder; the others print one line to stderr and wait.

    Args:
        target: File or folder to make; the body must check whether it exists already.
        doing: Task of the other process, for the message.
    """
    lock = FileLock(f"{target}.lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        print(f"waiting for another process that is {doing}", file=sys.stderr)
        lock.acquire()
    try:
        yield
        # Only after success: whoever still waits for the removed lock, or makes a new one, finds the target.
        with suppress(OSError):
            os.unlink(lock.lock_file)
    finally:
        lock.release()


def _download(remote: Remote, target: Path) -> None:
    failures = []
    for url in remote.urls:
        for may_resume in (True, False):
            try:
                _retrieve(url, remote, target)
            except _FailedError as error:
                if may_resume and isinstance(error, _InterruptedError):
                    continue
                failures.append(f"  {url}: {error}")
                break
            return
    raise DownloadError(
        "\n".join(
            [f"cannot download {remote.file}:", *failures, f"download it by hand and put it at {target}"]
        )
    )


def _retrieve(url: str, remote: Remote, target: Path) -> None:
    """Download from one mirror; pooch checks the sum and gives the file its name."""
    import pooch

    part = target.with_name(f"{target.name}.part")

    def stream(url: str, output: str, _: object) -> None:
        os.unlink(output)  # empty, made by pooch: a killed process would leave it behind
        _stream(url, part, remote)
        os.replace(part, output)
        _memory(part).unlink(missing_ok=True)

    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        pooch.retrieve(
            url,
            known_hash=f"md5:{remote.md5}" if remote.md5 else None,
            fname=target.name,
            path=target.parent,
            downloader=stream,
        )
    except ValueError as error:  # pooch has removed the file by now
        sums = re.findall(r"\b[0-9a-f]{32}\b", str(error))
        got = sums[-1] if sums else "another"
        raise _FailedError(f"checksum differs (expected {remote.md5}, got {got})") from error
    finally:
        logger.setLevel(level)


def _stream(url: str, part: Path, remote: Remote) -> None:
    """Append to the part what it lacks, or rewrite it where it cannot be continued."""
    import requests
    import urllib3

    if not url.lower().startswith(("http://", "https://")):
        raise _FailedError("only http and https are supported")
    try:
        response, done = _open(url, part)
    except requests.RequestException as error:
        raise _FailedError(_reason(error)) from error
    cut = ""
    with response:
        if response.status_code not in (200, 206):
            raise _FailedError(f"{response.status_code} {response.reason}")
        length = response.raw.length_remaining
        total = None if length is None else done + length
        with (
            part.open("ab" if done else "wb") as file,
            progress(f"downloading {remote.file}", total or remote.size or None) as advance,
        ):
            if not done:  # the old part is gone by now: a part never goes with another's memory
                memory = {"url": url, "validator": _validator(response)}
                _memory(part).write_text(json.dumps(memory), "utf-8")
            advance(done)
            try:
                # Not decoded, as some servers declare a .gz file to be a gzip-encoded answer.
                for chunk in response.raw.stream(_CHUNK, decode_content=False):
                    file.write(chunk)
                    done += len(chunk)
                    advance(len(chunk))
            except urllib3.exceptions.HTTPError as error:
                cut = "timed out" if isinstance(error, urllib3.exceptions.TimeoutError) else "closed"
    if cut or total not in (None, done):
        raise _InterruptedError(f"{cut or 'closed'} after {done}{f' of {total}' if total else ''} bytes")


def _open(url: str, part: Path) -> tuple["requests.Response", int]:
    """Ask for what the part lacks; return the answer and the byte of the file it begins with."""
    validator = _remembered(part, url)
    offset = part.stat().st_size if validator and part.exists() else 0
    response = _get(url, offset, validator)
    if offset and not _continues(response, offset, validator):
        response.close()
        offset, response = 0, _get(url, 0, "")
    return response, offset if response.status_code == 206 else 0


def _get(url: str, offset: int, validator: str) -> "requests.Response":
    import requests

    headers = {"Accept-Encoding": "identity"}  # a range of a compressed answer would not fit
    if offset:
        headers |= {"Range": f"bytes={offset}-", "If-Range": validator}
    return requests.get(url, headers=headers, stream=True, timeout=(CONNECT_TIMEOUT, READ_TIMEOUT))


def _continues(response: "requests.Response", offset: int, validator: str) -> bool:
    """Return whether an answer to a range request can be used: the range, the whole file, or an error."""
    if response.status_code != 206:
        return response.status_code != 416
    start = response.headers.get("Content-Range", "").startswith(f"bytes {offset}-")
    return start and _validator(response) in ("", validator)


def _validator(response: "requests.Response") -> str:
    """Return what identifies this version of the file: a strong ETag, else the date of the last change."""
    etag = response.headers.get("ETag", "")
    return etag if etag.startswith('"') else response.headers.get("Last-Modified", "")


def _memory(part: Path) -> Path:
    """Return the path of the file that records where a part came from."""
    return part.with_name(f"{part.name}.json")


def _remembered(part: Path, url: str) -> str:
    """Return the validator of the part, if it came from this URL and had one; else an empty string."""
    try:
        memory = json.loads(_memory(part).read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return ""
    return str(memory["validator"]) if memory["url"] == url else ""


def _reason(error: BaseException) -> str:
    """Return the message of the first cause in a chain of errors."""
    while deeper := error.__cause__ or error.__context__:
        error = deeper
    return str(getattr(error, "strerror", None) or error).lower()

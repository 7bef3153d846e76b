"""Unpack an untrusted archive: all of it, inside its folder, or nothing.

tarfile's `data` filter and zipfile's `extract` promise less: they strip leading slashes, allow one member to
overwrite another and links inside the folder, and do not bound sizes, counts or headers. So the standard
library reads the members, and they are checked and written here.
"""

import bz2
import errno
import gzip
import io
import os
import re
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from dcs._progress import progress
from dcs.data._dataset import DataError
from dcs.data._download import locked

_MEMBERS = 1_000_000
_DEPTH = 100  # folders within folders
_CHUNK = 1024 * 1024  # also the longest header a tar may have
_DAMAGE = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error),
    *(EOFError, ValueError, RuntimeError),  # raised by tarfile and zipfile for wrong bytes
)


class _Member(NamedTuple):
    name: str
    problem: str  # why it is refused; empty if it is not
    source: IO[bytes] | None  # None for a folder, and for what is refused


def unpack(archive: Path, folder: Path, *, limit: int) -> Path:
    """Unpack a .zip, .tar, .tar.gz, .tgz or .tar.bz2 into a new folder; one that exists is left as it is.

    The folder appears when it is complete. Links, special files, encrypted members and names that lead
    outside are refused, as is an archive with two members for one path.

    Args:
        archive: File to unpack.
        folder: Folder to make, with its parents.
        limit: Largest total size of the files, in bytes.

    Raises:
        DataError: The archive is corrupted, or refused.
        OSError: The archive cannot be read or the folder not written.
    """
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder, f"unpacking {archive.name}"):
        if not folder.exists():
            _unpack(archive, folder, limit)
    return folder


def _unpack(archive: Path, folder: Path, limit: int) -> None:
    corrupted = f"{archive} is corrupted or incomplete: delete it and load it again"
    temporary = folder.with_name(f"{folder.name}.unpacking")
    shutil.rmtree(temporary, ignore_errors=True)  # of a process that was killed: we hold the lock
    try:
        temporary.mkdir()
        temporary.chmod(0o755)
        _write_all(archive, temporary, limit)
        os.rename(temporary, folder)
    except DataError:
        raise
    except _DAMAGE as error:
        raise DataError(corrupted) from error
    except OSError as error:
        if error.errno in (None, errno.EINVAL):  # gzip and bz2 have no number; seeking to nowhere is invalid
            raise DataError(corrupted) from error
        raise OSError(error.errno, f"cannot unpack {archive}: {error.strerror}", str(folder)) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write_all(archive: Path, root: Path, limit: int) -> None:
    folders = {root}
    written = shown = 0
    size = archive.stat().st_size
    with archive.open("rb") as raw, progress(f"unpacking {archive.name}", size) as advance:
        for count, member in enumerate(_members(archive, raw, limit), 1):
            refused = f"{archive} is refused: its member {member.name[:200]!r}"
            parts = [part for part in member.name.split("/") if part not in ("", ".")]
            if problem := member.problem or _problem(member.name, parts, member.source is None):
                raise DataError(f"{refused} {problem}")
            if max(count, len(folders)) > _MEMBERS:
                raise DataError(f"{refused} is one of more than {_MEMBERS} files or folders")
            try:
                _make_folders(root, parts if member.source is None else parts[:-1], folders)
                if member.source is None:
                    continue
                file = root.joinpath(*parts).open("xb")
            except (FileExistsError, NotADirectoryError) as error:
                raise DataError(f"{refused} is there twice, or both a file and a folder") from error
            except OSError as error:
                if error.errno == errno.ENAMETOOLONG:
                    raise DataError(f"{refused} has too long a name") from error
                raise
            with file, member.source:
                os.chmod(file.name, 0o644)
                while chunk := member.source.read(_CHUNK):
                    written += len(chunk)
                    if written > limit:
                        raise DataError(f"{refused} goes beyond the {limit} bytes it may unpack to")
                    file.write(chunk)
                    if (position := raw.tell()) > shown:
                        advance(position - shown)
                        shown = position


def _problem(name: str, parts: list[str], folder: bool) -> str:
    if "\\" in name or "\0" in name:
        return "has a backslash or a null character in its name"
    if name.startswith("/") or any(re.match("[A-Za-z]:", part) for part in parts):
        return "has an absolute path"
    if ".." in parts:
        return 'has ".." in its path'
    if len(parts) > _DEPTH:
        return f"is more than {_DEPTH} folders deep"
    return "" if parts or folder else "has no name"


def _make_folders(root: Path, parts: list[str], made: set[Path]) -> None:
    folder = root
    for part in parts:
        folder = folder / part
        if folder not in made:
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
            made.add(folder)


def _members(archive: Path, raw: io.BufferedReader, limit: int) -> Iterator[_Member]:
    name = archive.name.lower()
    if name.endswith(".zip"):
        return _zip_members(raw)
    if name.endswith(".tar"):
        return _tar_members(raw, limit)
    if name.endswith((".tar.gz", ".tgz")):
        return _tar_members(gzip.GzipFile(fileobj=raw), limit)
    if name.endswith(".tar.bz2"):
        return _tar_members(bz2.BZ2File(raw), limit)
    raise DataError(f"{archive} is not a .zip, .tar, .tar.gz, .tgz or .tar.bz2 file: unpack it by hand")


def _zip_members(raw: io.BufferedReader) -> Iterator[_Member]:
    with zipfile.ZipFile(raw) as archive:
        for info in archive.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            problem = ""
            if kind == stat.S_IFLNK:
                problem = "is a link"
            elif kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                problem = "is neither a file nor a folder"
            elif info.flag_bits & 1:
                problem = "is encrypted"
            elif info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                # Python unpacks the others without a bound on memory, or not at all.
                problem = f"is packed with method {info.compress_type}, not by deflate: unpack it by hand"
            folder = info.filename.endswith("/")
            yield _Member(info.filename, problem, None if problem or folder else archive.open(info))


def _tar_members(stream: io.BufferedIOBase, limit: int) -> Iterator[_Member]:
    blocks = _Blocks(stream)
    with tarfile.open(fileobj=blocks, mode="r:") as archive:
        while info := archive.next():
            # tarfile keeps them all, for a random access nobody needs; its stubs leave the list out.
            archive.members.clear()  # type: ignore[attr-defined]
            if info.size < 0:
                raise tarfile.ReadError("negative size")
            problem = ""
            if info.issym() or info.islnk():
                problem = "is a link"
            elif not (info.isreg() or info.isdir()):
                problem = "is neither a file nor a folder"
            yield _Member(info.name, problem, archive.extractfile(info) if info.isreg() else None)
    # An archive ends with a block of zeros; tarfile also stops, silently, at a wrong header or none.
    if blocks.last != bytes(tarfile.BLOCKSIZE):
        raise tarfile.ReadError("no end of archive")
    for _ in range(limit // _CHUNK + 2):  # gzip and bz2 compare their checksum at the end of the stream
        if not stream.read(_CHUNK):
            return
    raise tarfile.ReadError("too much after the end of the archive")


class _Blocks(io.BufferedIOBase):
    """Stream for tarfile that keeps the last block and refuses a header that would fill the memory."""

    def __init__(self, stream: io.BufferedIOBase) -> None:
        self._stream = stream
        self.last = b""

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or not 0 <= size <= _CHUNK:
            raise tarfile.ReadError(f"a header of {size} bytes")
        self.last = self._stream.read(size)
        return self.last

"""Find the files of a known data set on disk, or download them."""

import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from dcs.data._archives import unpack
from dcs.data._catalogue import Entry
from dcs.data._dataset import DataError
from dcs.data._download import DownloadError, fetch
from dcs.data._layouts import Files, Layout


class Found(NamedTuple):
    """A data set on disk."""

    folder: Path
    layout: Layout
    files: Files


def search_folders(root: str | os.PathLike[str] | None) -> list[Path]:
    """Return the folders that may hold data sets: an explicit root alone, else the usual ones.

    The first is also where downloads go: the root, else what DCS_DATA names, else the user's cache.
    """
    if root is not None:
        return [own_folder("root", root)]
    import pooch  # takes a tenth of a second

    cache = Path(pooch.os_cache("dcs-learn"))
    named = os.environ.get("DCS_DATA")
    first = [own_folder("DCS_DATA", named)] if named else []
    return [*first, cache, Path("data"), Path("/usr/share/datasets")]


def own_folder(name: str, given: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a folder that a user named; it need not exist yet."""
    if not isinstance(given, str | os.PathLike):
        raise TypeError(f"{name} must be a path, got {type(given).__name__}")
    try:
        path = Path(given).expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(f"{name} {given!r} cannot be used: {error}") from error
    if path.exists() and not path.is_dir():
        raise ValueError(f"{name} is {path}, which is a file: name the folder that holds data sets")
    return path


def find(entry: Entry, root: str | os.PathLike[str] | None = None) -> Found | None:
    """Find a data set on disk; None if it is not there."""
    for base in search_folders(root):
        for folder in entry.folders or ("",):
            for layout in entry.layouts:
                files = layout.find(base / folder)
                if files is not None:
                    return Found(base / folder, layout, files)
    return None


def obtain(entry: Entry, root: str | os.PathLike[str] | None, download: bool) -> Found:
    """Find a data set on disk, or unpack an archive of it, or download it."""
    found = find(entry, root)
    if found is not None:
        return found
    bases = search_folders(root)
    if entry.unpacked_size:
        archive = _archive_on_disk(entry, bases)
        if archive is not None:
            return _unpack(entry, archive, archive.parent, root)
    target = bases[0] / entry.name
    names = ", ".join(remote.file for remote in entry.remotes)
    if not download:
        looked = ", ".join(str(base / folder) for base in bases for folder in entry.folders)
        raise DataError(
            f"{entry.name} is not on disk (looked in {looked}): put {names} into {target}, or allow "
            f"download=True{_hint(entry, bases)}"
        )
    try:
        files = [fetch(remote, target) for remote in entry.remotes]
    except DownloadError as error:
        causes = str(error).rpartition("\n")[0] or str(error)
        raise DownloadError(
            f"{entry.name}: {causes}\ndownload {names} by hand, and put it into {target}{_hint(entry, bases)}"
        ) from error
    if entry.unpacked_size:
        return _unpack(entry, files[0], target, root)
    return _expect(entry, root)


def _archive_on_disk(entry: Entry, bases: Iterable[Path]) -> Path | None:
    name = entry.remotes[0].file
    places = (folder / name for base in bases for folder in (base / entry.name, base))
    return next((place for place in places if place.is_file()), None)


def _unpack(entry: Entry, archive: Path, folder: Path, root: str | os.PathLike[str] | None) -> Found:
    """Unpack into root/NAME/unpacked, where root is the archive's or, if that is read-only, the first."""
    if folder.name != entry.name:
        folder = folder / entry.name
    if not os.access(folder if folder.exists() else folder.parent, os.W_OK):
        folder = search_folders(root)[0] / entry.name
    unpacked = unpack(archive, folder / "unpacked", limit=entry.unpacked_size)
    found = find(entry, root)
    if found is None or (
        entry.unpacked_md5 and unpacked in found.folder.parents and _md5(found) != entry.unpacked_md5
    ):
        shutil.rmtree(unpacked)
        raise DataError(f"{archive} does not hold the files of {entry.title}: delete it and load it again")
    return found


def _expect(entry: Entry, root: str | os.PathLike[str] | None) -> Found:
    found = find(entry, root)
    if found is None:
        raise DataError(
            f"{entry.name} is not complete, although it was downloaded or unpacked: delete the folder "
            f"{search_folders(root)[0] / entry.name} and load it again"
        )
    return found


def _hint(entry: Entry, bases: Iterable[Path]) -> str:
    """Return a hint for a root that is the folder of the files instead of its parent."""
    for base in bases:
        if any(layout.find(base) for layout in entry.layouts):
            return f" ({base} itself looks like it: move its files into {base / entry.name})"
    return ""


def _md5(found: Found) -> str:
    """Return the checksum of the names and contents of all files."""
    digest = hashlib.md5(usedforsecurity=False)
    for path in found.files.values():
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            digest.update(file.relative_to(found.folder).as_posix().encode() + b"\0")
            digest.update(file.read_bytes())
    return digest.hexdigest()

"""A folder of images or recordings as a data set."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dcs._naming import argument
from dcs.data._dataset import DataError, Dataset, DataWarning, Samples, Split
from dcs.data._files import FileSamples, no_file, quote, scan_files, sort_out
from dcs.data._images import IMAGE_SUFFIXES, check_image, plan_images
from dcs.data._recordings import (
    AUDIO_SUFFIXES,
    Plan,
    check_recording,
    plan_recordings,
    rate_of,
    scan_recording,
)
from dcs.data.windows import CentralWindows, WholeItems

if TYPE_CHECKING:
    from dcs.data._reading import Reading  # imports pydantic, which takes a while

_SPLIT_NAMES = {"train", "training", "test", "testing", "val", "valid", "validation", "eval"}
_OF_NO_INTEREST = ("thumbs.db", "desktop.ini")


def read_folder(folder: Path, reading: "Reading", resident: bool | None = None) -> Dataset:
    """Read all images, or all recordings, below a folder; or one file.

    Files are read in the order of their paths. Hidden files and folders are skipped, and so, with a warning,
    are files of other kinds. The layout tells splits and labels:

    - `folder/train/…` and `folder/test/…`, or `folder/train/…` alone: splits, of samples of one shape.
    - `folder/CLASS/…`: if all files of a folder (or split) are in sub-folders, at least two, the names of
      these are the labels.
    - Files directly in the folder, alone or beside sub-folders: no labels.

    Several pictures in one TIFF file are named `file.tif#0`, `file.tif#1`, ….

    Args:
        folder: Folder to read with all its sub-folders; or a file.
        reading: Options of reading.
        resident: Whether to hold all in memory; None decides by their size.

    Raises:
        DataError: If the folder or a file in it cannot be used.
    """
    if folder.is_file():
        return read_paths([folder], reading, resident, str(folder))
    names, is_images = _find(folder, reading.skip_bad)
    return _read_named(folder, names, is_images, reading, resident)


def read_paths(
    files: Sequence[Path], reading: "Reading", resident: bool | None = None, name: str = ""
) -> Dataset:
    """Read some images, or some recordings, in the order given; there are no splits and no labels.

    Args:
        files: Their paths.
        reading: Options of reading.
        resident: Whether to hold all in memory; None decides by their size.
        name: Name of the data set; by default the folder that they have in common.
    """
    kinds: dict[tuple[str, ...], list[Path]] = {IMAGE_SUFFIXES: [], AUDIO_SUFFIXES: []}
    for file in files:
        if not file.is_file() and not reading.skip_bad:
            raise no_file(file) if file.exists() else FileNotFoundError(f"{quote(file)} does not exist")
        kind = next((kind for kind in kinds if file.suffix.lower() in kind), None)
        if kind is None:
            raise DataError(
                f"{quote(file)} is neither an image ({', '.join(IMAGE_SUFFIXES)}) nor a recording "
                f"({', '.join(AUDIO_SUFFIXES)}): leave it out, or convert it"
            )
        kinds[kind].append(file)
    images, recordings = kinds.values()
    if images and recordings:
        raise DataError(
            f"{quote(images[0])} is an image and {quote(recordings[0])} a recording: give one kind"
        )
    root = Path(os.path.commonpath([file.parent for file in files]))
    names = [file.relative_to(root).as_posix() for file in files]
    data = _read_named(root, names, bool(images), reading, resident, flat=True)
    return replace(data, name=name or str(root), location=files[0] if len(files) == 1 else root)


def _read_named(
    root: Path,
    names: list[str],
    is_images: bool,
    reading: "Reading",
    resident: bool | None,
    flat: bool = False,
) -> Dataset:
    """Read files below a folder; unless `flat`, their folders tell splits and labels."""
    skipped = {}
    if reading.axes and not is_images:
        raise ValueError(f"{argument('axes')} is for TIFF files and arrays: leave it out")
    if reading.skip_bad:
        check = partial(check_image, axes=reading.axes) if is_images else check_recording
        good, bad = sort_out([root / name for name in names], check, "checking files")
        skipped = {file.relative_to(root).as_posix(): reason for file, reason in bad.items()}
        names = [file.relative_to(root).as_posix() for file in good]
    splits = {"": names} if flat else _divide(root, names)
    files = [root / name for part in splits.values() for name in part]
    of = {root / name: (split, name) for split, part in splits.items() for name in part}
    x: Tensor | Samples
    plan = None
    if is_images:
        pictures = plan_images(files, reading)
        x = pictures.read(resident)
        found = [(*of[picture.file], picture.mark) for picture in pictures.pictures]
    else:
        plan = plan_recordings(files, reading)
        x = plan.read(resident)
        found = [(*of[section.file], "") for section in plan.sections]
    # A name for each page of a file.
    splits = {split: [name + mark for other, name, mark in found if other == split] for split in splits}

    labels = {top: [] if flat else _sub_folders(part, top) for top, part in splits.items()}
    classes = tuple(sorted({label for part in labels.values() for label in part}))
    classes = classes if len(classes) > 1 else ()
    parts = _make_splits(x, splits, labels, classes, plan)
    test = parts[1] if len(parts) > 1 else None
    rate = plan.rate if plan else None
    return Dataset(str(root), parts[0], test, classes, location=root, rate=rate, skipped=skipped)


def scan_recordings(path: Path, *, skip_bad: bool = False) -> dict[Path, int]:
    """Read one recording, or all below a folder, and return the sample rate of each, sorted by path.

    Args:
        path: File of a recording, or a folder.
        skip_bad: Whether to leave out recordings of a folder that cannot be read, with a warning.

    Raises:
        DataError: If a recording cannot be read, or the folder contains none.
    """
    rates: dict[Path, int] = {}

    def read(file: Path) -> None:
        scan_recording(file)
        rates[file] = rate_of(file)

    if path.is_file():
        read(path)
        return rates
    names, is_images = _find(path, skip_bad)
    if is_images:
        raise DataError(f"{quote(path)} holds images, not recordings: name a folder of recordings")
    files = [path / name for name in names]
    if skip_bad:
        sort_out(files, read, "checking recordings")
    else:
        scan_files(files, read, "checking recordings")
    return rates


def _make_splits(
    x: Tensor | Samples,
    splits: dict[str, list[str]],
    labels: dict[str, list[str]],
    classes: tuple[str, ...],
    plan: Plan | None,
) -> list[Split]:
    number = {label: y for y, label in enumerate(classes)}
    lengths = plan.lengths if plan else None
    parts, start = [], 0
    for root, part in splits.items():
        stop = start + len(part)
        y = torch.tensor([number[label] for label in labels[root]]) if labels[root] and classes else None
        its_lengths = None if lengths is None else lengths[start:stop]
        its_x = _slice(x, start, stop)
        items = its_x.items if isinstance(its_x, CentralWindows) else None
        parts.append(Split(its_x, y, names=part, lengths=its_lengths, items=items))
        start = stop
    return parts


def _find(folder: Path, skip_bad: bool) -> tuple[list[str], bool]:
    """Return the sorted relative paths of images or recordings, and whether they are images."""
    if not folder.is_dir():
        found = "a file" if folder.exists() else "nothing"
        raise DataError(f"{quote(folder)} must be a folder, but there is {found} there: check the path")
    images: list[str] = []
    recordings: list[str] = []
    others: list[str] = []
    above: dict[str, set[str]] = {}
    for directory, folders, files in os.walk(folder, onerror=_refuse, followlinks=True):
        real, outer = os.path.realpath(directory), above.get(os.path.dirname(directory), set())
        if real in outer:  # a link that leads back
            folders.clear()
            continue
        above[directory] = outer | {real}
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for file in (Path(directory, name) for name in files if not name.startswith(".")):
            if file.suffix.lower() not in IMAGE_SUFFIXES + AUDIO_SUFFIXES:
                others += [file.name] if file.name.lower() not in _OF_NO_INTEREST else []
                continue
            if not skip_bad and not file.is_file():
                raise no_file(file)
            found_in = images if file.suffix.lower() in IMAGE_SUFFIXES else recordings
            found_in.append(file.relative_to(folder).as_posix())
    if images and recordings:
        raise DataError(
            f"{quote(folder)} holds {len(images)} images and {len(recordings)} recordings, such as "
            f"{min(images)!r} and {min(recordings)!r}: put them in folders of their own"
        )
    if not images and not recordings:
        others_ = f"but {len(others)} other file{'s' * (len(others) > 1)}" if others else "nor anything else"
        raise DataError(
            f"{quote(folder)} holds no images ({', '.join(IMAGE_SUFFIXES)}) and no recordings "
            f"({', '.join(AUDIO_SUFFIXES)}), {others_}: check the path, or convert them"
        )
    if others:
        some = (
            "1 file of another kind was" if len(others) == 1 else f"{len(others)} files of other kinds were"
        )
        message = f"{quote(folder)}: {some} skipped, such as {others[0]!r}"
        warnings.warn(message, DataWarning, stacklevel=4)
    return sorted(images or recordings), bool(images)


def _refuse(error: OSError) -> None:
    raise DataError(
        f"the folder {error.filename!r} cannot be listed ({error.strerror}): make it readable or remove it"
    ) from error


def _divide(folder: Path, names: list[str]) -> dict[str, list[str]]:
    """Return the files of each split, training first, by its folder; "" where there are no splits."""
    tops = sorted({name.partition("/")[0] for name in names})
    roots = {top.lower(): top for top in tops}
    if set(roots) in ({"train", "test"}, {"train"}) and len(tops) == len(roots):
        return {
            roots[split]: [name for name in names if name.startswith(f"{roots[split]}/")]
            for split in ("train", "test")
            if split in roots
        }
    splits = _SPLIT_NAMES & set(roots)
    if len(splits) > 1 or (splits and len(tops) == 1):
        raise DataError(
            f"{quote(folder)} holds {', '.join(tops[:5])}: for splits, keep only train/ and test/ in it; or "
            f"give one of its sub-folders instead"
        )
    return {"": names}


def _sub_folders(names: list[str], root: str) -> list[str]:
    """Return the sub-folder of `root` of each file; none if some file is in no sub-folder."""
    parts = [name.split("/")[1 if root else 0 :] for name in names]
    return [part[0] for part in parts] if all(len(part) > 1 for part in parts) else []


def _slice(x: Tensor | Samples, start: int, stop: int) -> Tensor | Samples:
    if isinstance(x, FileSamples):
        return FileSamples(x.files[start:stop], x.decode, x.shape[1:])
    if isinstance(x, WholeItems):
        return WholeItems(x.items.take(range(start, stop)))
    if isinstance(x, CentralWindows):
        return CentralWindows(x.items.take(range(start, stop)), x.window)
    assert isinstance(x, Tensor)  # noqa: S101
    return x[start:stop]

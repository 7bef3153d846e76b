"""A folder of images or recordings as a data set."""

import os
import warnings
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from dcs._checks import check_choice
from dcs.data._dataset import DataError, Dataset, DataWarning, Split
from dcs.data._files import FileSamples, quote
from dcs.data._images import IMAGE_SUFFIXES, read_images
from dcs.data._recordings import AUDIO_SUFFIXES, read_recordings

_SPLIT_NAMES = {"train", "training", "test", "testing", "val", "valid", "validation", "eval"}
_OF_NO_INTEREST = ("thumbs.db", "desktop.ini")


def read_folder(
    folder: Path,
    *,
    mixed: str = "error",
    size: int | tuple[int, int] | None = None,
    resident: bool | None = None,
) -> Dataset:
    """Read all images, or all recordings, below a folder.

    Files are taken in the order of their paths; hidden ones and those in hidden folders are
    skipped, and so, with a warning, are those of other kinds. The layout says what is known of them:

    - `folder/train/…` and `folder/test/…`, or one of them, and nothing beside: splits, of samples of one
      shape.
    - `folder/CLASS/…`: in a folder (or split) whose files are all in sub-folders, the names of these are
      the labels, if there are at least two.
    - Files directly in the folder, alone or beside sub-folders: no labels.

    Args:
        folder: Where to look, with all folders below.
        mixed: What to do with samples of different sizes: `error`, `resize` (images only) or `crop`; see
            `read_images` and `read_recordings`.
        size: Of images (height, width), or one number for both; of recordings the length in samples.
        resident: Whether to hold all in memory; None decides by their size.

    Raises:
        DataError: If the folder or a file in it cannot be used.
    """
    check_choice("mixed", mixed, ("error", "resize", "crop"))
    folder = Path(folder)
    names, is_images = _find(folder)
    splits = _divide(folder, names)
    ordered = [name for part in splits.values() for name in part]
    files = [folder / name for name in ordered]
    x: Tensor | FileSamples
    rate = None
    if is_images:
        image_size = (
            (int(size), int(size)) if isinstance(size, Integral) else cast("tuple[int, int] | None", size)
        )
        x = read_images(files, mixed=mixed, size=image_size, resident=resident)
    elif isinstance(size, Sequence):
        raise ValueError(f"size must be one number of samples for recordings, got {size!r}")
    else:
        x, rate = read_recordings(files, mixed=mixed, size=size, resident=resident)

    labels = {root: _sub_folders(part, root) for root, part in splits.items()}
    found = sorted({label for part in labels.values() for label in part})
    classes = tuple(found) if len(found) > 1 else ()
    number = {label: y for y, label in enumerate(classes)}
    parts, start = [], 0
    for root, part in splits.items():
        y = torch.tensor([number[label] for label in labels[root]]) if labels[root] and classes else None
        parts.append(Split(_slice(x, start, start + len(part)), y, names=part))
        start += len(part)
    test = parts[1] if len(parts) > 1 else None
    return Dataset(str(folder), parts[0], test, classes, location=folder, rate=rate)


def _find(folder: Path) -> tuple[list[str], bool]:
    """The paths of images or recordings, relative to the folder and sorted; and whether they are images."""
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
            if not file.is_file():  # to open a pipe would wait for ever
                raise DataError(f"{quote(file)} is a broken link or no regular file: remove it or restore it")
            found_in = images if file.suffix.lower() in IMAGE_SUFFIXES else recordings
            found_in.append(file.relative_to(folder).as_posix())
    if images and recordings:
        raise DataError(
            f"{quote(folder)} holds {len(images)} images and {len(recordings)} recordings, such as "
            f"{min(images)!r} and {min(recordings)!r}: put them in folders of their own"
        )
    if not images and not recordings:
        raise DataError(
            f"{quote(folder)} holds no images ({', '.join(IMAGE_SUFFIXES)}) and no recordings "
            f"({', '.join(AUDIO_SUFFIXES)}), but {len(others)} other files: check the path, or convert them"
        )
    if others:
        message = f"{quote(folder)}: {len(others)} files of other kinds were skipped, such as {others[0]!r}"
        warnings.warn(message, DataWarning, stacklevel=4)
    return sorted(images or recordings), bool(images)


def _refuse(error: OSError) -> None:
    raise DataError(
        f"the folder {error.filename!r} cannot be listed ({error.strerror}): make it readable or remove it"
    ) from error


def _divide(folder: Path, names: list[str]) -> dict[str, list[str]]:
    """The files of each split, training first, by the folder that holds it; "" where there are no splits."""
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
    """The sub-folder of `root` that each file is in; none if some file is in no sub-folder."""
    parts = [name.split("/")[1 if root else 0 :] for name in names]
    return [part[0] for part in parts] if all(len(part) > 1 for part in parts) else []


def _slice(x: Tensor | FileSamples, start: int, stop: int) -> Tensor | FileSamples:
    if isinstance(x, FileSamples):
        return FileSamples(x.files[start:stop], x.decode, x.shape[1:])
    return x[start:stop]

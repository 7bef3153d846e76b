"""Readers of the known data sets, for each layout in which their files are found."""

import csv
import math
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from dcs.data._cifar import read_cifar, read_cifar_classes
from dcs.data._dataset import DataError, Split, to_labels
from dcs.data._digits import read_usps_hdf5
from dcs.data._idx import read_idx_images, read_idx_labels
from dcs.data._images import IMAGE_SUFFIXES, read_images
from dcs.data._recordings import plan_recordings

if TYPE_CHECKING:
    from dcs.data._reading import Reading  # imports pydantic, which takes a while

Files = Mapping[str, Path]


class Loaded(NamedTuple):
    """Splits, class names and sample rate that a reader returns."""

    train: Split
    test: Split
    classes: tuple[str, ...]
    rate: int | None = None


@dataclass(frozen=True)
class Layout:
    """Files of a data set in one of the layouts in which it is found."""

    files: Mapping[str, tuple[str, ...]]  # role of each, and its possible names
    read: "Callable[[Files, Reading, bool | None], Loaded]"

    def find(self, folder: Path) -> Files | None:
        """Return the files in a folder, or None unless all exist."""
        found = {}
        for role, names in self.files.items():
            path = next((folder / name for name in names if _is_there(folder / name)), None)
            if path is None:
                return None
            found[role] = path
        return found


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # no permission to look into the folder
        return False


TEN_DIGITS = tuple(str(digit) for digit in range(10))
FASHION = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def read_digits_layout(_: Files, __: "Reading", ___: bool | None) -> Loaded:
    """Read the 8x8 digits of scikit-learn: the first 1,200 to train."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    x = torch.tensor(digits.images / 16, dtype=torch.float32)
    y = to_labels(digits.target, 10, "digits")
    return Loaded(Split(x[:1200], y[:1200]), Split(x[1200:], y[1200:]), TEN_DIGITS)


def read_idx_layout(files: Files, classes: tuple[str, ...]) -> Loaded:
    """Read MNIST or Fashion-MNIST, two files at a time: unpacking releases the interpreter's lock."""
    with ThreadPoolExecutor(2) as pool:
        images = [pool.submit(read_idx_images, files[f"{split} images"]) for split in ("train", "test")]
        labels = [read_idx_labels(files[f"{split} labels"]) for split in ("train", "test")]
        x = [future.result() for future in images]
    splits = []
    for split, pixels, numbers in zip(("train", "test"), x, labels, strict=True):
        where = files[f"{split} labels"]
        if len(pixels) != len(numbers) or pixels.shape[1:] != (28, 28):
            raise DataError(
                f"{files[f'{split} images']} holds images of shape {tuple(pixels.shape)} and {where} "
                f"{len(numbers)} labels: they do not belong together; replace them"
            )
        splits.append(Split(pixels, to_labels(numbers, 10, str(where))))
    return Loaded(splits[0], splits[1], classes)


def read_usps_hdf5_layout(files: Files, _: "Reading", __: bool | None) -> Loaded:
    splits = [
        Split(x, to_labels(y, 10, str(files["both"]))) for x, y in read_usps_hdf5(files["both"]).values()
    ]
    return Loaded(splits[0], splits[1], TEN_DIGITS)


def read_pair_layout(read: Callable[[Path], tuple[Tensor, Tensor]], files: Files) -> Loaded:
    splits = []
    for split in ("train", "test"):
        x, y = read(files[split])
        splits.append(Split(x, to_labels(y, 10, str(files[split]))))
    return Loaded(splits[0], splits[1], TEN_DIGITS)


def read_cifar_layout(files: Files, meta: str, classes_key: bytes, label_key: bytes) -> Loaded:
    classes = read_cifar_classes(files[meta], classes_key)
    splits = []
    for split in ("train", "test"):
        batches = [path for role, path in files.items() if role.startswith(split)]
        x, y = read_cifar(batches, label_key)
        splits.append(Split(x, to_labels(y, len(classes), str(batches[0].parent))))
    return Loaded(splits[0], splits[1], classes)


def read_image_classes_layout(files: Files, reading: "Reading", resident: bool | None) -> Loaded:
    """Read CIFAR-10 from train/CLASS/*.jpg and test/CLASS/*.jpg."""
    splits = []
    for split in ("train", "test"):
        paths = sorted(path for path in files[split].glob("*/*") if path.suffix.lower() in IMAGE_SUFFIXES)
        numbers = {name: index for index, name in enumerate(CIFAR10)}
        unknown = sorted({path.parent.name for path in paths} - set(numbers))
        if unknown or not paths:
            raise DataError(
                f"{files[split]} holds {len(paths)} images and the folders {unknown}: CIFAR-10's classes are "
                f"{', '.join(CIFAR10)}"
            )
        names = [path.relative_to(files[split].parent).as_posix() for path in paths]
        x = read_images(paths, reading.model_copy(update={"size": (32, 32), "mixed": "error"}), resident)
        splits.append(Split(x, torch.tensor([numbers[path.parent.name] for path in paths]), names=names))
    return Loaded(splits[0], splits[1], CIFAR10)


def read_tiny_imagenet_layout(files: Files, reading: "Reading", resident: bool | None) -> Loaded:
    """Read the official layout; the validation images are the test split, as in the paper."""
    ids = sorted(_text(files["ids"]).split())
    numbers = {wordnet: index for index, wordnet in enumerate(ids)}
    words = _text(files["words"]).splitlines()
    titles = dict(line.split("\t", 1) for line in words if "\t" in line)
    folder = files["train"].parent
    train = sorted(path for wordnet in ids for path in (files["train"] / wordnet).glob("images/*.JPEG"))
    annotations = [line.split("\t") for line in _text(files["annotations"]).splitlines()]
    test = [files["validation"] / line[0] for line in annotations]
    splits = []
    for paths, wordnets in (
        (train, [path.parent.parent.name for path in train]),
        (test, [line[1] if len(line) > 1 else "" for line in annotations]),
    ):
        unknown = next((wordnet for wordnet in wordnets if wordnet not in numbers), None)
        if unknown is not None or not paths:
            raise DataError(
                f"{folder} is not complete: {len(paths)} images and the unknown class {unknown!r}; delete "
                f"it and load it again"
            )
        # A few of its images are grey: as colours, their three channels are equal.
        cropped = reading.model_copy(update={"mixed": "crop", "size": (64, 64)})
        x = read_images(paths, cropped, resident)
        names = [path.relative_to(folder).as_posix() for path in paths]
        splits.append(Split(x, torch.tensor([numbers[wordnet] for wordnet in wordnets]), names=names))
    return Loaded(splits[0], splits[1], tuple(titles.get(wordnet, wordnet) for wordnet in ids))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is corrupted ({error}): delete it and load it again") from error


def read_esc50_layout(files: Files, reading: "Reading", resident: bool | None) -> Loaded:
    """Read recordings of 5 s; one of the five official folds is the test split."""
    try:
        with files["table"].open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        labels = to_labels([int(row["target"]) for row in rows], 50, str(files["table"]))
        folds = torch.tensor([int(row["fold"]) for row in rows])
        names = {int(row["target"]): row["category"] for row in rows}
        paths = [files["audio"] / row["filename"] for row in rows]
    except DataError:
        raise
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise DataError(f"{files['table']} is corrupted ({error}): delete it and load it again") from error
    rate = 0

    def read(chosen: Tensor) -> Split:
        nonlocal rate
        places = chosen.nonzero().squeeze(1).tolist()
        plan = plan_recordings([paths[place] for place in places], reading)
        rate = plan.rate
        return Split(plan.read(resident), labels[chosen], names=[paths[place].name for place in places])

    train, test = (read(chosen) for chosen in _fold(folds, reading, str(files["table"])))
    return Loaded(train, test, tuple(names.get(label, str(label)) for label in range(50)), rate)


def _fold(folds: Tensor, reading: "Reading", where: str) -> tuple[Tensor, Tensor]:
    """Return masks of the training and the test samples."""
    test = folds == (reading.fold or 5)
    if not test.any() or test.all():
        known = ", ".join(str(fold) for fold in folds.unique().tolist())
        raise DataError(f"fold must be one of the folds of {where} ({known}), got {reading.fold or 5}")
    return ~test, test


TONES, TONES_RATE = 300, 8_000
_PITCHES = 6


def make_tones(_: Files, reading: "Reading", __: bool | None) -> Loaded:
    """Make fading tones of six pitches, half a second each, in white noise of equal power."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(TONES) % _PITCHES
    begin, phase, length = torch.rand(3, TONES, 1, generator=generator)
    seconds = torch.arange(TONES_RATE // 2) / TONES_RATE - 0.25 * begin
    pitch = 300 * 1.5 ** y[:, None]
    fading = (-seconds / (0.05 + 0.2 * length)).clamp(max=0).exp() * (seconds > 0)
    tones = fading * torch.sin(2 * math.pi * (pitch * seconds + phase))
    tones = tones / tones.square().mean(1, keepdim=True).sqrt()
    x = tones + torch.randn(tones.shape, generator=generator)
    everything = Split(x, y, names=[f"tone {number}" for number in range(TONES)])
    folds = torch.arange(TONES) // _PITCHES % 5 + 1
    train, test = (everything.take(rows) for rows in _fold(folds, reading, "tones"))
    return Loaded(train, test, tuple(f"{300 * 1.5**number:.0f} Hz" for number in range(_PITCHES)), TONES_RATE)

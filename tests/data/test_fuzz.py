"""10,000 damaged files: the readers give data that keeps their promises, or our own error; nothing else."""

import bz2
import gzip
import random
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from dcs.data import DataError, load
from dcs.data._cifar import read_cifar, read_cifar_classes
from dcs.data._digits import read_usps_libsvm
from dcs.data._idx import read_idx_images, read_idx_labels
from tests.official_files import idx_bytes, libsvm_text, pickled, some_images

IMAGES, LABELS = some_images((4, 4))["train"]
PHOTOS, KINDS = some_images((3, 32, 32))["test"]
TABLE = "a;b;kind\n" + "".join(f"{i};{i / 7:.4f};c{i % 3}\n" for i in range(20))


def mutate(content: bytes, rng: random.Random) -> bytes:
    """One to four changes: of bits, bytes, numbers, order, length."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        # Headers and separators are where a reader can go wrong: go there often.
        if rng.random() < 0.5:
            at = min(at, rng.randrange(24))
        span = rng.randint(1, 8)
        change = rng.randrange(8)
        if change == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif change == 1:
            data[at : at + span] = rng.randbytes(span)
        elif change == 2:
            del data[at : at + span]
        elif change == 3:
            data[at:at] = rng.choice(
                [b"\0", b"\xff" * 4, b"-1", b"1e999", b"nan", b"\n", b":", b";;", b'"', b"."]
            )
        elif change == 4:
            del data[at:]
        elif change == 5:
            source = rng.randrange(len(data) + 1)
            data[at:at] = data[source : source + 4 * span]
        elif change == 6:
            data[at : at + 4] = rng.choice([2**31 - 1, 2**32 - 1, 0, 2**24]).to_bytes(
                4, rng.choice(["big", "little"])
            )
        else:
            data[at : at + 1] = bytes([rng.choice(b"0123456789:,;\n \x80.")])
        if not data:
            break
    return bytes(data)


def idx(path: Path) -> None:
    x = read_idx_images(path)
    assert x.dtype == torch.float32
    assert x.ndim == 3
    assert 0 <= float(x.min()) <= float(x.max()) <= 1


def idx_labels(path: Path) -> None:
    assert read_idx_labels(path).ndim == 1


def libsvm(path: Path) -> None:
    x, y = read_usps_libsvm(path)
    assert x.shape == (len(y), 16, 16)
    assert 0 <= float(x.min()) <= float(x.max()) <= 1


def csv_table(path: Path) -> None:
    data = load(path, label=-1)
    assert bool(data.train.x.isfinite().all())
    assert int(data.train.y.max()) < len(data.classes)


def cifar(path: Path) -> None:
    x, y = read_cifar([path], b"labels")
    assert x.shape == (len(y), 3, 32, 32)
    assert all(isinstance(label, int) for label in y)


def cifar_classes(path: Path) -> None:
    assert all(isinstance(name, str) for name in read_cifar_classes(path, b"label_names"))


WIDE = np.linspace(-1, 1, 8 * 256).reshape(8, 256)
BATCH = pickled(
    {b"labels": KINDS.tolist(), b"data": PHOTOS.reshape(len(PHOTOS), -1), b"filenames": [b"a", b"b"]}
)
META = pickled({b"label_names": [b"cat", b"dog"], b"num_vis": 3072, b"num_cases_per_batch": 10000})


@pytest.mark.parametrize(
    ("name", "content", "read", "count"),
    [
        ("idx3", idx_bytes(IMAGES), idx, 1500),
        ("idx3.gz", gzip.compress(idx_bytes(IMAGES)), idx, 1000),
        ("idx1", idx_bytes(LABELS), idx_labels, 500),
        ("usps", libsvm_text(WIDE, np.arange(8)).encode(), libsvm, 1500),
        ("usps.bz2", bz2.compress(libsvm_text(WIDE, np.arange(8)).encode()), libsvm, 500),
        ("a.csv", TABLE.encode(), csv_table, 2500),
        ("batch", BATCH, cifar, 1500),
        ("meta", META, cifar_classes, 1000),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_mutations(
    tmp_path: Path, name: str, content: bytes, read: Callable[[Path], None], count: int
) -> None:
    rng = random.Random(name)  # noqa: S311
    path = tmp_path / name
    path.write_bytes(content)
    read(path)  # the original is good
    refusals = []
    for _ in range(count):
        path.write_bytes(mutate(content, rng))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                read(path)
        except DataError as error:
            refusals.append(str(error))
    assert all(str(path) in message for message in refusals)
    assert len(refusals) > count // 10  # the mutations do reach the readers
    assert [p.name for p in tmp_path.iterdir()] == [name]  # nothing is left behind

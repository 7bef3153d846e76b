"""The real files: `DCS_DATA=folder pytest -m realdata`, where folder/NAME holds those to be checked."""

import hashlib
import os
from pathlib import Path

import pytest
import torch

from dcs.data import CATALOGUE, find, load

pytestmark = [
    pytest.mark.realdata,
    pytest.mark.skipif(
        "DCS_DATA" not in os.environ, reason="DCS_DATA names no folder with the real data sets"
    ),
]

# md5 of x and y of both splits, as little-endian float32 and int64.
DECODED = {
    "mnist": (
        ("b2729eb00932bc19cebaf4c17889f191", "d849aedd957fadafb3445f388b0b1004"),
        ("1f64b2b2cf7c3bf471d6fcb375e031fb", "c68af35e960ed5d39dce3477a31a5da0"),
    ),
    "usps": (
        ("33d7058fdc73b5a760636833e958dc22", "e52a19e1751dab93ff0ca6ceca82a781"),
        ("61ca08e958b911fb115cfc06ead515fc", "572d4bcd98b580fdf0fa391505048b69"),
    ),
    "pendigits": (
        ("d5efcb3908f2e355eaea7f6f5b785da3", "621dfc7862f8d72d5cde442d88f41cb5"),
        ("d710a7d639095bcff590a1804c0d1dd5", "cce29c5c50e74fe52bf3593318f601d5"),
    ),
    "fashion-mnist": (
        ("68ace6b685d8b27b45c0018636a6420c", "7f04740598b02edfb94aa0e6fa814fe4"),
        ("5df43fd449a61ed9eed8e0044b3a49ae", "13513839c730787e1e9b9aa9b84d6f53"),
    ),
    "esc50": (
        ("a5a10e3ab0086b1dcfc05d064f9630b2", "bb7945bb891466d4529950114cff5b85"),
        ("b002f6a2c5b5ad6f6daf78af55ec2cd3", "d140dd6976600d24933287e187901470"),
    ),
}
PER_CLASS = {
    "mnist": (
        [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
        [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
    ),
    "usps": (
        [1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644],
        [359, 264, 198, 166, 200, 160, 170, 147, 166, 177],
    ),
    "pendigits": (
        [780, 779, 780, 719, 780, 720, 720, 778, 719, 719],
        [363, 364, 364, 336, 364, 335, 336, 364, 336, 336],
    ),
    "fashion-mnist": ([6000] * 10, [1000] * 10),
    "cifar10": ([5000] * 10, [1000] * 10),
    "cifar100": ([500] * 100, [100] * 100),
    "tiny-imagenet": ([500] * 200, [50] * 200),
    "esc50": ([32] * 50, [8] * 50),
}


@pytest.mark.parametrize("name", PER_CLASS)
def test_real(name: str) -> None:
    entry = CATALOGUE[name]
    root = Path(os.environ["DCS_DATA"])
    if find(entry, root) is None:
        pytest.skip(f"{name} is not in DCS_DATA")
    data = load(name, root=root, download=False, resident=True)
    for split, count, per_class in zip(
        (data.train, data.test), (entry.train, entry.test), PER_CLASS[name], strict=True
    ):
        assert split.x.shape == (count, *entry.shape)
        assert split.y.bincount().tolist() == per_class
        assert float(split.x.min()) >= (-1 if name == "esc50" else 0)
        assert float(split.x.max()) <= 1
    assert len(data.classes) == entry.classes
    if name in DECODED:
        for split, (x, y) in zip((data.train, data.test), DECODED[name], strict=True):
            assert hashlib.md5(split.x.numpy().data).hexdigest() == x  # noqa: S324
            assert hashlib.md5(split.y.numpy().data).hexdigest() == y  # noqa: S324
    if name == "cifar10":  # exact for the official batches; JPEG files are a little off
        mean = data.train.x.mean((0, 2, 3))
        torch.testing.assert_close(mean, torch.tensor([0.4914, 0.4822, 0.4465]), atol=2e-3, rtol=0)

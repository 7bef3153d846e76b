"""Items of any size, and windows of them."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import dcs
from dcs.data import (
    Batches,
    CentralWindows,
    DataError,
    ListItems,
    RandomWindows,
    Split,
    Units,
    count_windows,
    load,
    measure_units,
    windowed,
)
from tests.helpers import seeded

SIZES = [(5, 9), (20, 30), (64, 64), (1, 40), (33, 7)]


def pictures(sizes=SIZES, channels=None):
    """Items whose every value tells its item and place."""
    shapes = [size if channels is None else (channels, *size) for size in sizes]
    values = (torch.arange(np.prod(shape), dtype=torch.float32).reshape(shape) for shape in shapes)
    return ListItems([one + 1e5 * number for number, one in enumerate(values)], 2)


def save(folder, name, pixels):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return path


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(st.integers(1, 40), st.integers(1, 40)),
    st.tuples(st.integers(1, 24), st.integers(1, 24)),
    st.sampled_from([None, 1, 3]),
    st.integers(0, 2**62),
)
def test_windows_are_parts_of_their_items(size, window, channels, seed):
    """Inside an item a window, turned back, is a slice of it; beyond its end the item is mirrored."""
    items = pictures([size], channels)
    windows = RandomWindows(items, window, seed=seed)
    x = windows.read(range(len(windows)))
    assert x.shape == windows.shape == (len(windows), *items.shape(window))
    whole = items.whole(0)
    assert set(x.flatten().tolist()) <= set(whole.flatten().tolist())
    if all(w <= s for w, s in zip(window, size, strict=True)):
        for one in x:
            turned = [one, one.flip(-1), one.flip(-2), one.flip((-1, -2))]
            turned += [t.transpose(-1, -2) for t in turned] if window[0] == window[1] else []
            first = [t for t in turned if bool((t.flatten().diff() > 0).all())]
            assert len(first) >= 1
            top, left = divmod(int(first[0].reshape(-1)[0] % (size[0] * size[1])), size[1])
            assert torch.equal(first[0], whole[..., top : top + window[0], left : left + window[1]])


def test_small_items_are_mirrored():
    item = ListItems([torch.tensor([[1.0, 2.0, 3.0]])], 2)
    assert item.padded(0, (0, 0), (2, 5)).tolist() == [[1, 2, 3, 3, 2], [1, 2, 3, 3, 2]]


def test_places_differ_between_epochs_and_rows_but_not_between_reads():
    windows = RandomWindows(pictures([(200, 200)]), (16, 16))
    first, second = windows.for_epoch(1), windows.for_epoch(2)
    assert torch.equal(first.read([3, 5]), first.read([3, 5]))
    assert torch.equal(first.read([5])[0], first.read([3, 5])[1])
    assert not torch.equal(first.read([3]), second.read([3]))
    corners = {float(x.min()) for x in first.read(range(len(first)))}
    assert len(corners) > 0.9 * len(first)


def test_places_are_uniform():
    """Every entry but those near the border is equally often in a window."""
    items, counts = pictures([(48, 48)]), torch.zeros(48 * 48)
    for seed in range(400):
        values = RandomWindows(items, (8, 8), seed=seed).read(range(36)).flatten().long()
        counts += torch.bincount(values, minlength=48 * 48)
    inner = counts.reshape(48, 48)[8:-8, 8:-8]
    assert abs(float(inner.mean()) / (400 * 36 * 64 / 41**2) - 1) < 0.02
    assert float(inner.std() / inner.mean()) < 0.15


def test_items_get_windows_by_their_size():
    windows = RandomWindows(pictures([(64, 64), (128, 64), (8, 8)]), (32, 32))
    assert len(windows) == count_windows([(64, 64), (128, 64), (8, 8)], (32, 32)) == 4 + 8 + 1
    assert torch.bincount(windows.groups()).tolist() == [4, 8, 1]
    items = (windows.read(range(13)).amin((1, 2)) // 1e5).long()
    assert items.tolist() == windows.groups().tolist()


def test_an_epoch_is_bounded():
    sizes = [(20_000, 20_000)] * 3
    assert count_windows(sizes, (64, 64)) == 2**14


def test_centres():
    x = CentralWindows(pictures([(10, 10), (4, 20)]), (4, 4)).read([0, 1])
    assert x[0, 0, 0] == 33
    assert x[1, 0, 0] == 1e5 + 8


def test_batches_draw_other_windows_in_each_epoch_and_resume():
    batches = Batches(RandomWindows(pictures([(100, 100)]), (16, 16)), 8)
    generator = seeded()
    one, two = ([b.x for b in batches.epoch(generator)] for _ in range(2))
    assert not torch.equal(torch.cat(one).sort(0).values, torch.cat(two).sort(0).values)
    again = [b.x for b in batches.epoch(seeded(), start=2)]
    assert all(torch.equal(a, b) for a, b in zip(one[2:], again, strict=True))


def test_windows_of_a_pair_are_at_the_same_places():
    items = pictures()
    windows, other = (
        RandomWindows(items, (8, 8)),
        RandomWindows(ListItems([2 * x for x in items.tensors], 2), (8, 8)),
    )
    batches = Batches(windows, 5, pair=other)
    for generator in (None, seeded(1)):
        for batch in batches.epoch(generator):
            assert torch.equal(batch.pair, 2 * batch.x)


def test_files_that_must_be_decoded_are_visited_a_few_windows_at_a_time(tmp_path):
    for number in range(4):
        save(tmp_path, f"{number}.png", np.full((64 + number, 80), 40 * number, np.uint8))
    items = load(tmp_path, resident=False).train.items
    windows = pickle.loads(pickle.dumps(RandomWindows(items, (16, 16))))  # noqa: S301
    order = windows.groups()[windows.shuffled(torch.arange(len(windows)), seeded())]
    changes = int((order.diff() != 0).sum())
    assert changes <= -(-len(windows) // 8) + 4
    assert sorted(order.tolist()) == windows.groups().tolist()


def test_units_ignore_outliers():
    x = torch.randn(1, 512, 512, generator=seeded()) * 3 + 100
    x[0, :8, :8] = 1e6
    units = measure_units(RandomWindows(ListItems(list(x), 2), (64, 64)))
    assert abs(units.offset - 100) < 0.2
    assert abs(units.scale - 3) < 0.2
    assert torch.allclose(units.undo(units.apply(x)), x, rtol=1e-5)
    assert Units().apply(x) is x


def test_folder_of_pictures_of_different_sizes(tmp_path):
    rng = np.random.default_rng(0)
    shapes = {"b.png": (80, 100), "a.png": (100, 80), "c/d.jpg": (70, 70)}
    for name, shape in shapes.items():
        save(tmp_path, name, rng.integers(0, 256, shape, np.uint8))
    data = load(tmp_path)
    assert data.shape == (64, 64)
    assert list(data.train.names) == ["a.png", "b.png", "c/d.jpg"]
    assert [tuple(size) for size in data.train.items.sizes] == [(100, 80), (80, 100), (70, 70)]
    pixels = np.asarray(Image.open(tmp_path / "b.png"), np.float32) / 255
    assert np.allclose(data.train.items.whole(1), pixels)
    lazy = load(tmp_path, resident=False).train
    assert np.allclose(lazy.items.region(1, (10, 20), (5, 6)), pixels[10:15, 20:26])
    assert torch.equal(lazy.read([0, 2]), data.train.read([0, 2]))
    assert load(tmp_path, size=32).shape == (32, 32)
    with pytest.raises(DataError, match="one size"):
        load(tmp_path, mixed="error")


def test_grey_among_colour_is_repeated(tmp_path):
    save(tmp_path, "a.png", np.full((70, 90), 51, np.uint8))
    save(tmp_path, "b.png", np.full((90, 70, 3), 102, np.uint8))
    items = load(tmp_path).train.items
    assert items.channels == 3
    assert torch.allclose(items.whole(0), torch.tensor(0.2))


def test_one_file_a_pattern_and_a_list_of_paths(tmp_path):
    paths = [save(tmp_path, f"{n}.png", np.full((20 + n, 20), n, np.uint8)) for n in range(3)]
    assert load(paths[0]).shape == (20, 20)
    assert len(load(paths[:2]).train) == 2
    found = load(str(tmp_path / "[12].png"))
    assert list(found.train.names) == ["1.png", "2.png"]
    with pytest.raises(FileNotFoundError, match=r"none\.png"):
        load([tmp_path / "none.png"])
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(DataError, match="neither an image"):
        load([tmp_path / "a.txt"])


def test_arrays_of_different_sizes():
    data = load([np.zeros((20, 30), np.float32), torch.ones(70, 80)])
    assert data.shape == (64, 64)
    assert data.train.items.sizes == [(20, 30), (70, 80)]
    with pytest.raises(DataError, match="different numbers of axes"):
        load([np.zeros((20, 30)), np.zeros((3, 20, 30))])
    with pytest.raises(DataError, match=r"x\[1\] has 1 NaN"):
        load([np.zeros((20, 30)), np.full((2, 2), np.nan)[:1, :1]])


def test_split_of_one_size_becomes_windows():
    x = torch.rand(3, 2, 40, 50, generator=seeded())
    split = windowed(Split(x), (16, 16))
    assert split.x.shape == (3, 2, 16, 16)
    assert torch.equal(split.items.whole(2), x[2])
    assert len(split.take([1]).items) == 1
    with pytest.raises(ValueError, match="window has 3 sizes"):
        windowed(Split(torch.rand(3, 40)), (4, 4, 4))


def test_noise_is_added_to_pictures_of_different_sizes(tmp_path):
    for n in range(3):
        save(tmp_path, f"{n}.png", np.full((200 + n, 210), 128, np.uint8))
    noisy = load(tmp_path, noise="gaussian:0.1").train
    for index in range(3):
        assert abs(float(noisy.items.whole(index).std()) - 0.1) < 0.005
    assert not torch.allclose(noisy.items.whole(0)[:, :5], noisy.items.whole(1)[:200, :5])
    assert dcs.noise.estimate_sigma(noisy.read([0, 1, 2])) == pytest.approx(0.1, rel=0.1)


def test_constant_data_has_no_units():
    with pytest.raises(DataError, match="all values of the 2 windows looked at are 7: nothing"):
        measure_units(RandomWindows(ListItems([torch.full((20, 20), 7.0)], 2), (16, 16)))

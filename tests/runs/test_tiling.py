"""Windows that cover an item, and what is joined of them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dcs import models
from dcs.data import ListItems
from dcs.runs.tiling import Cover, Tiling, noise_at, places, predict_item
from tests.helpers import seeded

PRIMES = [1, 2, 3, 5, 7, 13, 61, 127, 509, 997, 1999]


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 2000), st.integers(1, 40), st.sampled_from([1, 2, 8]), st.integers(0, 3))
def test_weights_sum_to_one(length, sides, stride, margin):
    window = sides * stride
    for used in (None, margin * stride if 2 * margin < sides else 0):
        cover = Cover(length, window, used, stride)
        starts, weights = cover.starts, [cover.weights(row) for row in range(len(cover.starts))]
        total = np.zeros(starts[-1] + window)
        for start, weight in zip(starts, weights, strict=True):
            total[start : start + window] += weight
        assert np.allclose(total[:length], 1)
        assert not total[length:].any()
        assert all(start % stride == 0 for start in starts)
        assert starts[-1] + window >= length
        if used is not None:
            assert set(np.ravel(weights).tolist()) <= {0.0, 1.0}


def test_a_long_axis_is_covered_in_little_memory():
    cover = Cover(635_040_000, 16_384, None)  # four hours of sound
    assert len(cover.starts) == 77_519
    middle = cover.weights(40_000) + np.roll(cover.weights(40_001), 8_192)
    assert cover.weights(40_000).shape == (16_384,)
    assert np.allclose(middle[8_192:], 1)


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (300, 1), (7, 997), (64, 64), (65, 63), (130, 257)])
@pytest.mark.parametrize("tiling", [Tiling((32, 48)), Tiling((64, 64), 16, 8)])
def test_a_prediction_that_is_the_input_is_the_item(size, tiling):
    item = torch.rand(size, generator=seeded())
    out = np.zeros(size, np.float32)
    predict_item(lambda seen, _: seen, ListItems([item], 2), 0, tiling, out)
    assert np.allclose(out, item, atol=1e-6)


@pytest.mark.parametrize(("ndim", "size"), [(1, (1999,)), (2, (127, 193)), (3, (9, 61, 40))])
def test_tiles_agree_with_one_pass(ndim, size):
    network = models.build("resunet", (8,) * ndim, 6, width=4, depth=2, ndim=ndim, seed=0)
    torch.nn.init.normal_(network.head.weight, generator=seeded())
    item = torch.randn(size, generator=seeded())
    margin = -(-network.context // network.stride) * network.stride
    tiling = Tiling((2 * margin + 8 * network.stride,) * ndim, margin, network.stride)
    out = np.zeros(size, np.float32)
    with torch.no_grad():
        predict_item(lambda seen, _: network(seen), ListItems([item], ndim), 0, tiling, out)
        once = network(item[None])[0].numpy()
    assert np.abs(once - item.numpy()).max() > 0.1
    assert np.abs(out - once).max() < 1e-4


@pytest.mark.parametrize("t", [1, 7, 10, 11, 14, 15, 16, 100, 103])
@pytest.mark.parametrize("length", [1, 2, 9, 10])
def test_a_signal_survives_being_cut_and_faded(t, length):
    signal, out = torch.randn(t, generator=seeded()), np.zeros(t, np.float32)
    predict_item(lambda seen, _: seen, ListItems([signal], 1), 0, Tiling((length,)), out)
    assert np.allclose(out, signal, atol=1e-6)


def test_windows_fade_into_each_other():
    """Two windows that disagree meet in a smooth ramp, not in a step."""
    joined = np.zeros(150, np.float32)

    def disagree(_, starts):
        assert starts == [(0,), (50,)]
        return torch.stack([torch.zeros(100), torch.ones(100)])

    predict_item(disagree, ListItems([torch.zeros(150)], 1), 0, Tiling((100,)), joined)
    assert not joined[:50].any()
    assert np.allclose(joined[100:], 1)
    assert np.diff(joined).max() < 0.05
    assert np.diff(joined).min() >= -1e-6
    assert joined[75] == pytest.approx(0.5, abs=0.03)


def test_scaled_prediction():
    item = torch.arange(40.0 * 56).reshape(40, 56)
    out = np.zeros((1, 5, 7), np.float32)
    tiling = Tiling((24, 24), 8, 8)
    predict_item(lambda seen, _: seen[:, None, ::8, ::8], ListItems([item], 2), 0, tiling, out, scale=8)
    assert np.allclose(out[0], item[::8, ::8])


def test_places_cover_all_items():
    items = ListItems([torch.zeros(10, 25), torch.zeros(3, 3)], 2)
    assert list(places(items, (10, 10))) == [(0, (0, 0)), (0, (0, 10)), (0, (0, 15)), (1, (0, 0))]


@pytest.mark.parametrize("start", [(0,), (5000,), (63, 64), (3, 17, 40)])
def test_noise_depends_on_its_place_alone(start):
    shape = (2, *(70,) * len(start))
    whole = noise_at(3, 1, (0,) * len(start), (2, *(s + 70 for s in start)))
    part = noise_at(3, 1, start, shape)
    assert torch.equal(part, whole[(..., *(slice(s, s + 70) for s in start))])
    large = noise_at(3, 1, start, (8, *(40,) * len(start)))
    assert abs(float(large.mean())) < 5 / large.numel() ** 0.5
    assert abs(float(large.std()) - 1) < 5 / large.numel() ** 0.5
    assert not torch.equal(part, noise_at(3, 2, start, shape))
    assert not torch.equal(part, noise_at(4, 1, start, shape))

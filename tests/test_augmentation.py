"""Random views: statistics, seeds, and that each step does what it says."""

import colorsys
import math
import sys
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dcs.augmentation import CIFAR10, Views, ViewsWarning
from tests.helpers import seeded

pytest.importorskip("kornia")

PLAIN = Views(scale=(1, 1), ratio=(1, 1), flip=0, jitter_share=0, grey=0, mean=(0,), std=(1,))


def images(n=64, channels=3, size=16):
    return torch.rand(n, channels, size, size, generator=seeded(9))


def ramp(n, size=32):
    """Images whose first channel is the column and second the row of a pixel's centre, in [0, 1]."""
    place = (torch.arange(size) + 0.5) / size
    return torch.stack([place.expand(size, size), place[:, None].expand(size, size)]).repeat(n, 1, 1, 1)


def boxes(view):
    """Width, height and centre of the crops of ramps, in shares of the image."""
    inner = view[:, :, 1:-1, 1:-1]  # at the border values are cut off
    size = view.shape[-1]
    width = (inner[:, 0, 0, -1] - inner[:, 0, 0, 0]) / (size - 3) * size
    height = (inner[:, 1, -1, 0] - inner[:, 1, 0, 0]) / (size - 3) * size
    return width, height, inner.mean((2, 3))


def test_nothing_happens_where_nothing_is_asked_for():
    x = images()
    torch.testing.assert_close(PLAIN(x, seeded()), x, rtol=0, atol=1e-5)


def test_the_area_of_crops_is_uniform_and_their_ratio_log_uniform():
    """With small crops none is refused, so that the laws are exact."""
    view = replace(PLAIN, scale=(0.2, 0.5), ratio=(3 / 4, 4 / 3)).crop(ramp(20_000), seeded())
    width, height, centre = boxes(view)
    area, ratio = width * height, (width / height).log() / math.log(4 / 3)
    for value, low, high in ((area, 0.2, 0.5), (ratio, -1, 1)):
        assert low - 0.01 <= float(value.min())
        assert float(value.max()) <= high + 0.01
        for share in (0.1, 0.5, 0.9):
            assert float(value.quantile(share)) == pytest.approx(low + share * (high - low), abs=0.015)
    # Every place within the image is as likely as any other.
    room = (centre[:, 0] - width / 2) / (1 - width)
    assert float(room.min()) > -0.01
    assert float(room.max()) < 1.01
    assert float(room.std()) == pytest.approx(1 / math.sqrt(12), abs=0.01)


def test_crops_are_those_of_a_plain_loop_that_draws_until_one_fits():
    """The mean area of SimSiam's crops, of which the largest often do not fit."""
    width, height, _ = boxes(
        replace(PLAIN, scale=(0.2, 1), ratio=(3 / 4, 4 / 3)).crop(ramp(20_000), seeded())
    )
    random, areas = seeded(1), []
    for _ in range(20_000):
        for _ in range(10):
            area = 0.2 + 0.8 * float(torch.rand((), generator=random))
            ratio = math.exp(math.log(4 / 3) * (2 * float(torch.rand((), generator=random)) - 1))
            if area * ratio <= 1 and area / ratio <= 1:
                areas.append(area)
                break
    assert float((width * height).mean()) == pytest.approx(sum(areas) / len(areas), abs=0.006)
    assert float(width.max()) <= 1.01
    assert float((width * height).min()) >= 0.19


def test_half_are_flipped_exactly():
    x = images(4000, size=4)
    view = replace(PLAIN, flip=0.5).crop(x, seeded())
    flipped = (view - x.flip(3)).abs().amax((1, 2, 3)) < 1e-5
    same = (view - x).abs().amax((1, 2, 3)) < 1e-5
    assert bool((flipped ^ same).all())
    assert float(flipped.float().mean()) == pytest.approx(0.5, abs=0.03)


def test_a_fifth_loses_its_colours():
    view = replace(PLAIN, grey=0.2)(images(5000, size=4), seeded())
    grey = view.std(1).amax((1, 2)) < 1e-6
    assert float(grey.float().mean()) == pytest.approx(0.2, abs=0.02)
    assert float((view - images(5000, size=4)).abs().amax((1, 2, 3))[~grey].max()) < 1e-5
    weights = torch.tensor([0.299, 0.587, 0.114])
    expected = (images(5000, size=4) * weights[:, None, None]).sum(1)
    torch.testing.assert_close(view[grey][:, 0], expected[grey])


def test_four_fifths_change_their_colours():
    x = images(5000, size=4)
    view = replace(PLAIN, jitter_share=0.8)(x, seeded())
    changed = (view - x).abs().amax((1, 2, 3)) > 1e-3
    assert float(changed.float().mean()) == pytest.approx(0.8, abs=0.02)
    assert float(view.min()) >= 0
    assert float(view.max()) <= 1


def adjusted(pixels, brightness, contrast, saturation, hue):
    """One image, pixel by pixel, in the order of the arguments: as PIL and torchvision define them."""

    def cut(value):
        return min(max(value, 0.0), 1.0)

    def luma(pixel):
        return 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2]

    pixels = [[cut(brightness * v) for v in pixel] for pixel in pixels]
    mean = sum(luma(pixel) for pixel in pixels) / len(pixels)
    pixels = [[cut(contrast * v + (1 - contrast) * mean) for v in pixel] for pixel in pixels]
    pixels = [[cut(saturation * v + (1 - saturation) * luma(pixel)) for v in pixel] for pixel in pixels]
    turned = []
    for pixel in pixels:
        h, s, v = colorsys.rgb_to_hsv(*pixel)
        turned.append(colorsys.hsv_to_rgb((h + hue) % 1, s, v))
    return turned


def test_colours_change_as_a_plain_loop_changes_them(monkeypatch):
    x = images(6, size=3)
    views = replace(PLAIN, jitter_share=1, jitter=(0.4, 0.4, 0.4, 0.1))
    monkeypatch.setattr(torch, "randperm", lambda n, **_: torch.arange(n))
    view = views.recolour(x, seeded())
    generator = seeded()
    torch.rand(6, generator=generator)  # which images change
    change = (2 * torch.rand((4, 6), generator=generator) - 1) * torch.tensor([0.4, 0.4, 0.4, 0.1])[:, None]
    for i in range(6):
        factors = (1 + change[:3, i]).tolist()
        expected = adjusted(x[i].flatten(1).T.tolist(), *factors, float(change[3, i]))
        torch.testing.assert_close(view[i].flatten(1).T, torch.tensor(expected), rtol=0, atol=2e-5)


def test_the_order_of_the_changes_varies():
    views, x = replace(PLAIN, jitter_share=1), images(2)
    orders = set()
    for seed in range(40):
        generator = seeded(seed)
        views.recolour(x, generator)
        again = seeded(seed)
        torch.rand(2, generator=again), torch.rand((4, 2), generator=again)
        orders.add(tuple(torch.randperm(4, generator=again).tolist()))
    assert len(orders) > 10


def test_blur_smooths_the_share_asked_for():
    x = images(2000, size=16)
    view = replace(PLAIN, blur=0.5)(x, seeded())
    smoother = (view - x).abs().amax((1, 2, 3)) > 1e-3
    assert float(smoother.float().mean()) == pytest.approx(0.5, abs=0.06)  # the least blur does nothing
    assert float(view[smoother].var((2, 3)).mean()) < float(x.var((2, 3)).mean())
    torch.testing.assert_close(view.mean(), x.mean(), rtol=0, atol=0.01)


def test_mixed_precision_changes_no_view():
    views, x = Views(blur=0.5), images()
    with torch.autocast("cpu", torch.bfloat16):
        mixed = views(x, seeded(1))
    torch.testing.assert_close(mixed, views(x, seeded(1)), rtol=0, atol=0)


def test_views_are_normalised_and_back():
    x, views = images(), Views(mean=CIFAR10[0], std=CIFAR10[1])
    normal = views.normalise(x)
    for channel, (mean, std) in enumerate(zip(*CIFAR10, strict=True)):
        torch.testing.assert_close(normal[:, channel], (x[:, channel] - mean) / std)
    torch.testing.assert_close(views.denormalise(normal), x)
    plain = replace(views, mean=(0,), std=(1,))
    torch.testing.assert_close(views(x, seeded()), views.normalise(plain(x, seeded())))


@settings(max_examples=20, derandomize=True, database=None)
@given(st.integers(0, 2**31), st.integers(1, 5), st.sampled_from([(1, 8, 8), (3, 9, 16), (3, 32, 32)]))
def test_the_generator_decides_and_the_global_state_is_left_alone(seed, n, shape):
    x = torch.rand(n, *shape, generator=seeded(1))
    views = Views(blur=0.5, mean=(0.5,), std=(0.25,))
    before, kept = torch.get_rng_state(), x.clone()
    first, again = (views(x, seeded(seed)) for _ in range(2))
    assert torch.equal(first, again)
    assert first.shape == x.shape
    assert bool(first.isfinite().all())
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(x, kept)


def test_views_differ_between_images_and_calls():
    x, generator = images(1).repeat(8, 1, 1, 1), seeded()
    first, second = Views()(x, generator), Views()(x, generator)
    assert len({tuple(view.flatten().tolist()) for view in [*first, *second]}) == 16


def test_an_image_does_not_depend_on_those_beside_it_but_for_the_numbers_drawn():
    x = images(8)
    other = x.clone()
    other[1:] = 0.5
    assert torch.equal(Views()(x, seeded())[0], Views()(other, seeded())[0])


def test_kornia_is_asked_for_only_where_it_is_needed(monkeypatch):
    for part in ("enhance", "filters"):
        monkeypatch.setitem(sys.modules, f"kornia.{part}", None)
    assert replace(Views(), jitter_share=0)(images(), seeded()).shape == (64, 3, 16, 16)
    for views in (Views(), replace(PLAIN, blur=0.5)):
        with pytest.raises(ImportError, match=r"pip install 'dcs-learn\[ssl\]'"):
            views(images(), seeded())


def test_lists_will_do():
    assert Views(scale=[0.2, 1.0], mean=[0.5], std=[0.2]) == Views(scale=(0.2, 1.0), mean=(0.5,), std=(0.2,))


def test_grey_images_need_no_channel_axis():
    x = images(channels=1)
    for views in (Views(), replace(Views(), mean=(0.4,), std=(0.2,))):
        with_axis = views(x, seeded())
        assert torch.equal(views(x[:, 0], seeded()), with_axis[:, 0])
        mean, std = (sum(values) / len(values) for values in (views.mean, views.std))
        torch.testing.assert_close(views.normalise(x[:, 0]), (x[:, 0] - mean) / std)
        torch.testing.assert_close(views.denormalise(views.normalise(x)), x)


def test_channels_that_come_last_are_refused_with_the_remedy():
    last = images().permute(0, 2, 3, 1)
    for call in (Views(), Views().normalise):
        with pytest.raises(ValueError, match=r"got shape \(64, 16, 16, 3\): put channels first, x\.permute"):
            call(last)


def test_clipping_is_warned_of_where_it_is_much():
    x = images()
    with pytest.warns(ViewsWarning, match=r"more than 10% .* outside \[0, 1\], to which views are clipped"):
        clipped = replace(PLAIN, jitter_share=1.0, jitter=(0.4, 0, 0, 0))(2 * x - 1, seeded())
    assert float((clipped == 0).float().mean()) > 0.2
    Views()(1.05 * x, seeded())  # a little is not
    kept = replace(PLAIN, jitter_share=0)(2 * x - 1, seeded())  # nothing is clipped
    assert float(kept.min()) < -0.9

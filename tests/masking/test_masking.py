"""Maskers against plain-Python definitions, by enumeration and by their statistics."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dcs.masking import AmplitudeNeighbors, BlindSpot
from dcs.masking._positions import _geometric, bernoulli_positions, longest_gap
from tests.helpers import seeded


def numbered(*shape):
    """Data in which every value is its own position."""
    return torch.arange(math.prod(shape), dtype=torch.float64).reshape(shape)


def legal_sources(shape, radii, index, centre=False):
    """The neighbours of one entry of a sample, by the definition: a plain-Python loop."""
    found = set()
    for delta in itertools.product(*(range(-r, r + 1) for r in radii)):
        place = tuple(i + d for i, d in zip(index, delta, strict=True))
        inside = all(0 <= p < s for p, s in zip(place, shape, strict=True))
        if inside and (centre or any(delta)):
            found.add(place)
    return found


def check_by_loop(x, x_tilde, b, radii, centre=False, valid=None):
    """x must be numbered: each masked entry holds a legal neighbour's value, the others their own."""
    shape = x.shape[1:]
    for n in range(len(x)):
        for index in itertools.product(*map(range, shape)):
            value = int(x_tilde[n][index])
            if not b[n][index]:
                assert value == int(x[n][index])
                continue
            assert valid is None or valid[n][index]
            sources = legal_sources(shape, radii, index, centre)
            if valid is not None:
                sources = {s for s in sources if valid[n][s]}
            assert value in {int(x[n][s]) for s in sources}


@settings(max_examples=60)
@given(
    shape=st.lists(st.integers(2, 6), min_size=1, max_size=3),
    channels=st.lists(st.integers(1, 3), max_size=2),
    n=st.integers(1, 3),
    rho=st.sampled_from([0.01, 0.1, 0.5, 1.0]),
    centre=st.booleans(),
    stratified=st.booleans(),
    shared=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_blind_spot_follows_its_definition(shape, channels, n, rho, centre, stratified, shared, seed):
    x = numbered(n, *channels, *shape)
    masker = BlindSpot(
        rho, ndim=len(shape), centre=centre, stratified=stratified, shared_channels=shared, min_masked=1
    )
    x_tilde, b = masker(x, seeded(seed))
    assert b.dtype == torch.bool
    assert b.shape == x_tilde.shape == x.shape
    assert bool((b.flatten(1).sum(1) >= 1).all())
    check_by_loop(x, x_tilde, b, (0,) * len(channels) + (1,) * len(shape), centre)
    if shared and channels:
        grid = b.flatten(1, len(channels))
        assert torch.equal(grid, grid[:, :1].expand(grid.shape))


@pytest.mark.parametrize("radius", [2, 3, (1, 2)])
def test_larger_windows(radius):
    x = numbered(3, 2, 6, 7)
    radii = (radius, radius) if isinstance(radius, int) else radius
    x_tilde, b = BlindSpot(0.5, radius=radius)(x, seeded())
    check_by_loop(x, x_tilde, b, (0, *radii))


@pytest.mark.parametrize("axis", [-1, 1, 2, -2])
@pytest.mark.parametrize("whole_frames", [False, True])
def test_amplitude_neighbors_follows_its_definition(axis, whole_frames):
    x = numbered(3, 7, 8)
    x_tilde, b = AmplitudeNeighbors(axis=axis, whole_frames=whole_frames)(x, seeded())
    check_by_loop(x, x_tilde, b, (2, 0) if axis in (1, -2) else (0, 2))
    if whole_frames:
        frames = b if axis in (-1, 2) else b.mT
        assert torch.equal(frames, frames[:, :1].expand(frames.shape))


@pytest.mark.parametrize("whole_frames", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((11,), -1), ((9, 4), -2)])
def test_amplitude_neighbors_of_waveforms_and_spectrograms_with_padding(shape, axis, whole_frames):
    x = numbered(4, *shape)
    valid = torch.arange(shape[0]) < torch.tensor([shape[0], 6, 3, 2])[:, None]
    valid = valid.reshape(4, -1, *[1] * (len(shape) - 1)).expand(x.shape)
    masker = AmplitudeNeighbors(rho=0.8, axis=axis, whole_frames=whole_frames)
    x_tilde, b = masker(x.where(valid, math.nan), seeded(), valid=valid)
    check_by_loop(x, x_tilde.where(valid, x), b, (2, *[0] * (len(shape) - 1)), valid=valid)
    assert bool(b.any())


@pytest.mark.parametrize("place", [0, 1, 5, 8, 9])
@pytest.mark.parametrize("frames", [False, True])
def test_amplitude_neighbors_are_drawn_uniformly_at_the_ends_and_inside(place, frames):
    """τ-AMN: each of the up to 2Δ entries around, inside the signal, never the entry itself."""
    x = numbered(1, 10).expand(20_000, 10)
    x = x[:, :, None].expand(20_000, 10, 2) if frames else x
    x_tilde, b = AmplitudeNeighbors(rho=1.0, axis=1, whole_frames=frames)(x.contiguous(), seeded())
    assert bool(b.all())
    drawn = x_tilde[:, place] if not frames else x_tilde[:, place, 1]
    counts = torch.bincount(drawn.long(), minlength=10)
    legal = [other for other in range(10) if 0 < abs(other - place) <= 2]
    assert counts.nonzero().squeeze(1).tolist() == legal
    assert stats.chisquare(counts[counts > 0]).pvalue > 1e-4


def test_shared_channels_move_together():
    x = numbered(2, 3, 5, 5)
    x_tilde, _ = BlindSpot(0.5, shared_channels=True)(x, seeded())
    step = x_tilde - x
    assert torch.equal(step, step[:, :1].expand(step.shape))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_precision_and_input_are_kept(dtype):
    x = torch.randn(4, 3, 8, 8, dtype=dtype, generator=seeded())
    before = x.clone()
    x_tilde, _ = BlindSpot(0.3)(x, seeded())
    assert x_tilde.dtype == dtype
    assert torch.equal(x, before)


def test_memory_layout_does_not_matter():
    x = torch.randn(4, 3, 8, 9, generator=seeded())
    strided = x.to(memory_format=torch.channels_last)
    for a, b in zip(BlindSpot()(x, seeded(1)), BlindSpot()(strided, seeded(1)), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    "masker", [BlindSpot(), BlindSpot(stratified=True), BlindSpot(0.001), BlindSpot(radius=2)]
)
def test_same_state_same_result(masker):
    x = torch.randn(5, 1, 9, 9, generator=seeded())
    first, again, other = (masker(x, seeded(s)) for s in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])


@pytest.mark.parametrize("stratified", [False, True])
@pytest.mark.parametrize("rho", [0.003, 0.1, 0.37, 0.9])
def test_share_of_masked_entries_is_rho(rho, stratified):
    x = torch.zeros(200, 1, 40, 40)
    _, b = BlindSpot(rho, stratified=stratified, min_masked=0)(x, seeded())
    share, spread = float(b.double().mean()), math.sqrt(rho * (1 - rho) / b.numel())
    assert share == pytest.approx(rho, abs=5 * spread)


def test_entries_are_masked_independently():
    _, b = BlindSpot(0.2, min_masked=0)(torch.zeros(20_000, 1, 3, 3), seeded())
    b = b.flatten(1).double()
    correlation = torch.corrcoef(b.T)
    assert float((correlation - torch.eye(9)).abs().max()) < 5 / math.sqrt(len(b))
    expected = stats.binom.pmf(range(10), 9, 0.2) * len(b)
    counts = torch.bincount(b.sum(1).long(), minlength=10).double().numpy()
    few = expected < 5
    observed = [*counts[~few], counts[few].sum()]
    assert stats.chisquare(observed, [*expected[~few], expected[few].sum()]).pvalue > 1e-4


@pytest.mark.parametrize("rho", [0.5, 0.1, 0.005])
def test_gaps_are_geometric_and_choices_uniform_and_independent(rho):
    position, choice = bernoulli_positions(int(2e5 / rho), rho, 120, seeded(), torch.device("cpu"))
    gaps = position.diff()
    assert int(gaps.min()) >= 1
    assert int(gaps.max()) <= longest_gap(rho)
    edges = stats.geom.ppf([0.1, 0.3, 0.5, 0.7, 0.9], rho)
    bins = torch.bucketize(gaps.double(), torch.tensor(edges)).numpy()
    cdf = [0, *stats.geom.cdf(edges, rho), 1]
    chances = [b - a for a, b in itertools.pairwise(cdf)]
    counts = torch.bincount(torch.from_numpy(bins), minlength=6).numpy()
    kept = [i for i, p in enumerate(chances) if p > 0]
    assert stats.chisquare(counts[kept], [chances[i] * len(gaps) for i in kept]).pvalue > 1e-4
    choice = choice.long()
    assert int(choice.min()) >= 0
    assert int(choice.max()) < 120
    assert stats.chisquare(torch.bincount(choice, minlength=120)).pvalue > 1e-4
    joint = torch.zeros(6, 8)
    joint.index_put_((torch.from_numpy(bins), choice[1:] // 15), torch.ones(len(gaps)), accumulate=True)
    assert stats.chi2_contingency(joint[kept].numpy()).pvalue > 1e-4


@pytest.mark.parametrize("rho", [0.999, 0.954, 0.612, 0.5, 0.4785, 0.337, 0.1, 0.011, 0.01, 1e-4])
def test_extreme_words_give_legal_gaps(rho):
    words = torch.tensor([0, 1, 255, 256, 2**31 - 1, -(2**31), *range(-300, 0)], dtype=torch.int32)
    gaps = _geometric(words.view(torch.uint32), rho, 10**9)
    assert int(gaps.min()) >= 1
    assert int(gaps.max()) <= longest_gap(rho)
    assert int(gaps[0]) == int(gaps.max())
    assert int(gaps[-1]) == 1


def test_more_draws_are_made_when_the_first_do_not_reach_the_end(monkeypatch):
    """A tenth of the words at a time must give the same law."""
    monkeypatch.setattr(math, "sqrt", lambda value: -0.3 * value)
    position, choice = bernoulli_positions(200_000, 0.1, 8, seeded(), torch.device("cpu"))
    monkeypatch.undo()
    assert len(choice) == len(position)
    assert bool((position.diff() > 0).all())
    assert int(position[0]) >= 0
    assert int(position[-1]) < 200_000
    assert len(position) == pytest.approx(20_000, abs=5 * math.sqrt(20_000 * 0.9))


@pytest.mark.parametrize(
    "masker", [BlindSpot(1.0), BlindSpot(1.0, radius=2), BlindSpot(1.0, stratified=True)]
)
@pytest.mark.parametrize("place", [(0, 0), (0, 2), (2, 2), (4, 3)])
def test_neighbours_are_drawn_uniformly_at_corners_edges_and_inside(masker, place):
    x = numbered(1, 5, 5).expand(20_000, 5, 5).contiguous()
    x_tilde, b = masker(x, seeded())
    assert bool(b.all())
    drawn = x_tilde[:, place[0], place[1]].long()
    radius = masker.radius
    legal = {int(x[0][s]) for s in legal_sources((5, 5), (radius, radius), place)}
    counts = torch.bincount(drawn, minlength=25)
    assert {int(v) for v in counts.nonzero()} == legal
    assert stats.chisquare(counts[counts > 0]).pvalue > 1e-4


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_neighbours_are_drawn_uniformly_where_the_window_is_wider_than_the_data(place):
    x = numbered(1, 4).expand(20_000, 4).contiguous()
    drawn = BlindSpot(1.0, radius=2, ndim=1)(x, seeded())[0][:, place].long()
    counts = torch.bincount(drawn, minlength=4)
    assert {(int(v),) for v in counts.nonzero()} == legal_sources((4,), (2,), (place,))
    assert stats.chisquare(counts[counts > 0]).pvalue > 1e-4


def test_two_columns_take_each_others_values():
    x = numbered(50, 2)
    x_tilde, b = BlindSpot(0.5, ndim=1, min_masked=0)(x, seeded())
    assert bool(b.any())
    assert not bool(b.all())
    assert torch.equal(x_tilde, x.flip(1).where(b, x))


def test_stratified_positions_are_spread_evenly():
    x = torch.zeros(500, 1, 30, 30)
    spread = {}
    for stratified in (False, True):
        _, b = BlindSpot(0.1, stratified=stratified)(x, seeded())
        quarters = b[:, 0].unfold(1, 15, 15).unfold(2, 15, 15).sum((-1, -2)).double()
        spread[stratified] = float(quarters.var() / quarters.mean())
    assert spread[True] < 0.5 * spread[False]
    assert spread[False] == pytest.approx(0.9, abs=0.1)  # of a binomial count: 1 − rho


@pytest.mark.parametrize("least", [0, 1, 2, 5])
@pytest.mark.parametrize("rho", [1e-4, 0.1])
def test_at_least_min_masked(least, rho):
    x = torch.randn(300, 16, generator=seeded())
    _, b = BlindSpot(rho, ndim=1, min_masked=least)(x, seeded())
    counts = b.sum(1)
    assert int(counts.min()) >= least
    if rho == 1e-4:
        assert float((counts == least).double().mean()) > 0.95


def test_added_positions_are_uniform():
    _, b = BlindSpot(1e-6, ndim=1, min_masked=1)(torch.zeros(16_000, 16), seeded())
    assert stats.chisquare(b.sum(0)).pvalue > 1e-4


@settings(max_examples=40)
@given(seed=st.integers(0, 1000), rho=st.sampled_from([0.05, 0.3, 1.0]), stratified=st.booleans())
def test_padding_is_neither_masked_nor_copied(seed, rho, stratified):
    x = numbered(4, 2, 6, 7)
    valid = torch.zeros(4, 1, 6, 7, dtype=torch.bool)
    for i, (h, w) in enumerate([(6, 7), (3, 4), (1, 7), (2, 2)]):
        valid[i, :, :h, :w] = True
    valid = valid.expand(x.shape)
    padded = x.where(valid, math.nan)
    x_tilde, b = BlindSpot(rho, stratified=stratified)(padded, seeded(seed), valid=valid)
    check_by_loop(x, x_tilde.where(valid, x), b, (0, 1, 1), valid=valid)
    assert bool((b.flatten(1).sum(1) >= 2).all())


def test_neighbours_are_uniform_beside_padding():
    x = numbered(1, 4, 4).expand(20_000, 4, 4).contiguous()
    valid = torch.ones(1, 4, 4, dtype=torch.bool)
    valid[:, 2:] = False
    x_tilde, _ = BlindSpot(1.0)(x, seeded(), valid=valid.expand(x.shape))
    counts = torch.bincount(x_tilde[:, 1, 1].long())
    assert {int(v) for v in counts.nonzero()} == {0, 1, 2, 4, 6}
    assert stats.chisquare(counts[counts > 0]).pvalue > 1e-4


def test_entries_without_a_valid_neighbour_are_left_alone():
    x = numbered(1, 5, 5)
    valid = torch.zeros(1, 5, 5, dtype=torch.bool)
    valid[0, 0, 0] = valid[0, 4, 3] = valid[0, 4, 4] = True
    x_tilde, b = BlindSpot(1.0)(x, seeded(), valid=valid)
    assert b.nonzero().tolist() == [[0, 4, 3], [0, 4, 4]]
    assert float(x_tilde[0, 4, 3]) == float(x[0, 4, 4])


def test_shared_channels_with_padding():
    x = numbered(2, 3, 6, 6)
    valid = torch.ones(2, 1, 6, 6, dtype=torch.bool)
    valid[1, :, 3:] = False
    x_tilde, b = BlindSpot(0.5, shared_channels=True)(x, seeded(), valid=valid)
    check_by_loop(x, x_tilde, b, (0, 1, 1), valid=valid.expand(x.shape))


def test_large_batches_use_the_same_law():
    """Past the size for which the places of a whole batch are tabulated."""
    x = numbered(5, 1, 256, 256)
    x_tilde, b = BlindSpot(0.1)(x, seeded())
    row, column = ((x_tilde - x)[b] % 65536 % 256).unique(), b.double().mean()
    assert set(row.tolist()) == {0, 1, 255}
    assert float(column) == pytest.approx(0.1, abs=0.003)
    distance = (x_tilde - x)[b].abs()
    assert set(distance.unique().tolist()) == {1, 255, 256, 257}
    away = (x_tilde // 256 % 256 - x // 256 % 256)[b].abs(), (x_tilde % 256 - x % 256)[b].abs()
    assert max(float(a.max()) for a in away) == 1


def test_min_masked_counts_only_what_can_be_masked():
    """Isolated valid entries have no neighbour; the others must make up the number."""
    valid = torch.zeros(500, 20, dtype=torch.bool)
    valid[:, :3] = True
    valid[:, 5::2] = True
    x = numbered(500, 20)
    x_tilde, b = BlindSpot(0.05, ndim=1)(x, seeded(), valid=valid)
    assert bool((b.sum(1) >= 2).all())
    assert not bool(b[:, 3:].any())
    check_by_loop(x, x_tilde, b, (1,), valid=valid)


def test_too_large_a_window_is_refused():
    with pytest.raises(ValueError, match="delta"):
        AmplitudeNeighbors(delta=10_000)(torch.randn(1, 50_000))

"""Which weights are kept: the latest that are not clearly worse than the best."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dcs.training.meters import Stopping


def follow(stopping, losses, start=0):
    """Let it see epochs until it stops; the number of epochs seen."""
    for epoch, each in enumerate(losses[start:], start):
        if stopping.after_epoch(epoch, each, lambda epoch=epoch: [{"epoch": torch.tensor(epoch)}]):
            return epoch + 1
    return len(losses)


def noisy(means, parts=30, common=1.0, own=0.01, seed=0):
    """Losses of parts that differ much from each other, and a little from epoch to epoch."""
    generator = torch.Generator().manual_seed(seed)
    level = common * torch.randn(parts, generator=generator)
    return [mean + level + own * torch.randn(parts, generator=generator) for mean in means]


def test_a_plateau_is_not_stopped_on():
    """Forty epochs in which nothing but luck moves the loss, then it falls; the lowest is not waited for."""
    means = [0.0] * 40 + [-0.001 * epoch for epoch in range(40)]
    strict, stopping = Stopping(10), Stopping(10)
    assert follow(strict, [losses.mean()[None] for losses in noisy(means)]) < 40
    assert follow(stopping, noisy(means)) == 80
    assert stopping.kept_epoch == int(stopping.weights[0]["epoch"]) >= 75


def test_what_is_clearly_worse_is_not_kept():
    means = [-0.01 * epoch for epoch in range(20)] + [0.05 * epoch - 0.15 for epoch in range(40)]
    stopping = Stopping(10)
    assert follow(stopping, noisy(means)) == 30
    assert stopping.best_epoch == stopping.kept_epoch == int(stopping.weights[0]["epoch"]) == 19


def test_the_latest_is_kept_up_to_two_standard_errors():
    """Two losses of 30 apart by what makes the mean difference 1.9 or 2.1 standard errors, and no more."""
    pattern = torch.linspace(-1, 1, 30, dtype=torch.float64)
    error = float(pattern.std()) / math.sqrt(30)
    for factor, kept in ((1.9, 1), (2.1, 0)):
        stopping = Stopping(5)
        follow(stopping, [torch.zeros(30, dtype=torch.float64), pattern + factor * error])
        assert (stopping.best_epoch, stopping.kept_epoch) == (0, kept)


def test_one_loss_has_to_get_lower():
    stopping = Stopping(3)
    assert follow(stopping, torch.tensor([[3.0], [2.0], [2.0], [2.1], [2.0], [1.0]])) == 5
    assert stopping.kept_epoch == 1


def test_without_patience_it_only_looks():
    stopping = Stopping(None)
    assert follow(stopping, noisy([0.1 * epoch for epoch in range(20)])) == 20
    assert stopping.weights is None
    assert stopping.best_epoch == 0


@given(
    st.lists(
        st.lists(st.floats(-1, 1, width=32), min_size=4, max_size=4).map(torch.tensor),
        min_size=1,
        max_size=20,
    ),
    st.integers(1, 5),
    st.data(),
)
def test_it_goes_on_from_a_state_as_if_nothing_had_happened(losses, patience, data):
    whole, first, second = Stopping(patience), Stopping(patience), Stopping(patience)
    ended = follow(whole, losses)
    assert 0 <= whole.best_epoch <= whole.kept_epoch < ended
    assert float(whole.losses.mean()) == min(float(each.mean()) for each in losses[:ended])
    cut = data.draw(st.integers(0, ended - 1))
    follow(first, losses[:cut])
    second.load_state(first.state(), torch.device("cpu"))
    assert follow(second, losses, cut) == ended
    assert (second.best_epoch, second.kept_epoch) == (whole.best_epoch, whole.kept_epoch)
    assert second.weights == whole.weights


def test_weights_that_are_kept_do_not_change_with_the_model():
    stopping, weights = Stopping(2), {"w": torch.zeros(2)}
    stopping.after_epoch(0, torch.zeros(3), lambda: [weights])
    weights["w"] += 1
    assert stopping.weights[0]["w"].tolist() == pytest.approx([0, 0])

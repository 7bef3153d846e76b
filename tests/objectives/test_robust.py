"""The default dCS on noisy digits: it does not collapse, and is not worse than its rivals at equal steps."""

import functools

import pytest
from scipy import stats

from dcs import DenoisingEncoder, demo, objectives
from dcs.training.meters import feature_spread

SEEDS, EPOCHS = 4, 120  # 600 steps


@functools.cache
def fitted(make, sigma):
    """Accuracies, one per seed, and the smallest spread of the features."""
    accuracies, spreads = [], []
    for seed in range(SEEDS):
        train, test = demo.load(sigma, seed)
        network = demo.fit(make(), train, EPOCHS, seed)
        accuracies.append(demo.accuracy(network.encode, train, test))
        spreads.append(feature_spread(network, test.noisy))
    return accuracies, min(spreads)


def noise2void():
    return objectives.Noise2Void(objectives.AutomaticViews())


def literal():
    return objectives.DenoisingCosine(variant="paper")


def is_worse(ours, theirs):
    """Whether a paired test is sure that ours are lower."""
    return stats.ttest_rel(ours, theirs, alternative="less").pvalue < 0.05


@pytest.mark.parametrize(("sigma", "at_least"), [(0.3, 80), (0.5, 55)])
def test_the_default_holds_its_ground(sigma, at_least):
    ours, spread = fitted(objectives.DenoisingCosine, sigma)
    assert spread > 0.2
    assert min(ours) > at_least
    for make in (objectives.Cosine, noise2void):
        theirs, _ = fitted(make, sigma)
        assert not is_worse(ours, theirs)


def test_early_stopping_waits_for_features():
    """Settings of `dcs fit`. The loss is level for long before features form; the lowest of it came early."""
    train, test = demo.load(0.7, 0)
    settings = {"max_epochs": 600, "patience": 40, "validation": 0.1, "random_state": 0}
    encoder = DenoisingEncoder(network_options={"hidden": (128, 128, 128)}, **settings).fit(train.noisy)
    assert demo.accuracy(encoder.network_.encode, train, test) > 40
    assert feature_spread(encoder.network_, test.noisy) > 0.4


def test_the_literal_algorithm_would_be_found_out():
    """The guard above has teeth: Algorithm 1 does collapse here."""
    ours, _ = fitted(literal, 0.3)
    cosine, _ = fitted(objectives.Cosine, 0.3)
    assert max(ours) < 65
    assert is_worse(ours, cosine)

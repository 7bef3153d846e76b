"""KNNMonitor: a score of the features every few epochs of a training."""

import pytest
import torch

from dcs import models, objectives
from dcs.evaluation import KNNMonitor
from dcs.training import read_config, train


def test_neighbours_are_asked_every_few_epochs():
    x = torch.eye(4).repeat(8, 1)
    parts = (x, [0, 1, 2, 3] * 8), (x, [0, 1, 2, 3] * 8)
    model, modes = models.build("mlp", (4,), 3, hidden=(8,)), []
    watch = KNNMonitor(*parts, every=2, inputs=lambda v: 2 * v, k=3)

    def monitor(network, epoch):
        modes.append((network.training, epoch))
        return watch(network, epoch)

    config = read_config({"batch_size": 8, "max_epochs": 5, "device": "cpu", "threads": 1, "validation": 0.0})
    history = train(model, objectives.MSE(), x, config, monitor=monitor)
    assert ["knn" in metrics for metrics in history] == [False, True, False, True, False]
    assert history[1]["knn"] == 100
    assert modes == [(False, epoch) for epoch in range(5)]
    assert torch.equal(watch.train[0], 2 * x)
    with pytest.raises(ValueError, match="every must be at least 1"):
        KNNMonitor(*parts, every=0)

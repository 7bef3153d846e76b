"""The automatic choice of views: split samples, or mask entries."""

import math

import pytest
import torch

from dcs import masking, models, noise, objectives, training
from dcs.objectives import AutomaticViews, Batch
from tests.helpers import seeded


def waves(n=64, side=16):
    """Smooth images with dark parts, in 0…1."""
    grid = torch.linspace(0, 3, side)
    shift = 6 * torch.rand(n, 2, 1, 1, generator=seeded())
    return (torch.sin(grid + shift[:, 0]) * torch.cos(grid[:, None] + shift[:, 1])).clamp(min=0)


@pytest.mark.parametrize(
    ("kind", "level", "splits"),
    [
        ("gaussian", 0.3, True),
        ("gaussian", 0.7, True),
        (noise.Sphere(), 0.3, True),
        ("poisson", 0.3, False),
        ("speckle", 0.5, False),
    ],
)
def test_even_noise_is_split_and_uneven_noise_is_masked(kind, level, splits):
    x = noise.add(waves(), kind, level)
    objective = objectives.DenoisingCosine()
    objective.prepare(None, x)
    assert objective.masker.splits == splits
    view = objective.own_view(Batch(x[:8], seeded(), None, None))
    if splits:
        assert float(objective.masker.sigma) == pytest.approx(level, rel=0.1)
        expected = noise.GaussianSplit(float(objective.masker.sigma))(x[:8], seeded())
        assert torch.equal(view.seen, expected[0])
        assert torch.equal(view.target, expected[1])
        assert view.mask is None
    else:
        expected = masking.BlindSpot(0.3)(x[:8], seeded())
        assert torch.equal(view.seen, expected[0])
        assert torch.equal(view.mask, expected[1].bool())


@pytest.mark.parametrize(
    "x",
    [
        waves(),  # clean
        torch.zeros(9, 12, 12),
        torch.ones(3, 2, 2),
        noise.add(waves(), "gaussian", 0.3)[:1, :3, :3],
    ],
    ids=["clean", "constant", "tiny", "one"],
)
def test_data_that_cannot_be_judged_is_masked(x):
    views = AutomaticViews()
    assert not views.splits  # nothing was estimated
    views.estimate(x)
    assert views.is_known
    assert not views.splits
    masker = views.delegate(tuple(x.shape[1:]))
    assert masker == masking.BlindSpot(0.3, ndim=1 if x.shape[1:] == (2, 2) else 2)
    seen, target, b, snr = views.view(x, seeded())
    x_tilde, masked = masker(x, seeded())
    assert torch.equal(seen, x_tilde)
    assert torch.equal(b, masked)
    assert target is x
    assert snr is None


def test_padding_is_masked():
    x = noise.add(waves(), "gaussian", 0.3)
    views = AutomaticViews()
    views.estimate(x, torch.ones_like(x, dtype=torch.bool))
    assert not views.splits


def test_a_masker_that_was_given_is_kept():
    x = noise.add(waves(), "gaussian", 0.3)
    for objective in (
        objectives.DenoisingCosine(masking.BlindSpot(0.2)),
        objectives.DenoisingCosine(variant="paper"),
        objectives.Noise2Void(),
    ):
        before = repr(objective)
        assert objective.wanted_samples() == 0
        objective.prepare(None, x)
        assert repr(objective) == before


def test_training_chooses_once_and_keeps_the_choice():
    """A state holds the choice; one from before there was a choice means masking."""
    x = noise.add(waves(), "gaussian", 0.3)
    config = training.read_config({"max_epochs": 1, "seed": 0, "batch_size": 16})
    objective = objectives.DenoisingCosine()
    training.train(models.build("mlp", (16, 16), 4, hidden=(8,)), objective, x, config)
    assert objective.masker.splits
    again = objectives.DenoisingCosine()
    again.load_state_dict(objective.state_dict())
    assert again.masker.sigma == objective.masker.sigma
    old = objectives.DenoisingCosine()
    old.load_state_dict({})
    assert old.masker.is_known
    assert not old.masker.splits


def test_training_looks_at_few_samples_if_they_are_large(monkeypatch):
    seen = []
    monkeypatch.setattr(AutomaticViews, "estimate", lambda _, x, valid=None: seen.append(x.shape[0]))
    config = training.read_config({"max_epochs": 0})
    for side, expected in ((4, 100), (256, 16), (512, 16)):
        x = torch.zeros(1, side, side).expand(100, side, side)
        training.train(torch.nn.Linear(side, side), objectives.DenoisingCosine(), x, config)
        assert seen[-1] == expected


def test_training_looks_at_samples_from_all_over_the_data(monkeypatch):
    seen = []
    monkeypatch.setattr(AutomaticViews, "estimate", lambda _, x, valid=None: seen.append(x[:, 0, 0]))
    x = torch.arange(10_000.0).reshape(-1, 1, 1).expand(-1, 2, 2)  # sorted, as by class
    config = training.read_config({"max_epochs": 0})
    training.train(torch.nn.Linear(2, 2), objectives.DenoisingCosine(), x, config)
    (rows,) = seen
    assert len(rows.unique()) == 4096
    assert rows[0] == 0
    assert rows[-1] == 9_999
    assert rows.diff().max() <= 3


def test_theorem_one_holds_for_the_views_that_were_chosen():
    """With the true k, the mean of the loss is that of the cosine loss to the clean samples."""
    clean = waves(1).expand(20_000, -1, -1).double()
    sigma = 0.5
    x = noise.add(clean, "gaussian", sigma)
    dcs_loss = objectives.DenoisingCosineOracle(sigma, floor=1e-6)
    dcs_loss.masker.sigma.fill_(sigma)
    target = objectives.CosineOracle(dcs_loss.masker)

    def model(x_tilde):
        return torch.tanh(x_tilde.roll(1, -1)) + 0.2 * x_tilde

    ours = float(dcs_loss(model, x, seeded(1), clean))
    theirs = float(target(model, x, seeded(1), clean))
    assert ours == pytest.approx(theirs, abs=5 * 0.5 / math.sqrt(20_000))

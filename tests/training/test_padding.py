"""Padding never leaks into a training, whatever it holds."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from dcs import DenoisingEncoder
from dcs.data import Split
from dcs.objectives import MSE, SURE, DenoisingAutoencoder, DenoisingCosine, Noise2Void
from dcs.runs import nearest
from dcs.runs.scale import prediction_scale
from dcs.training import Facts, complete, make_objective, read_config, train
from tests.helpers import seeded

LENGTHS = torch.tensor([20, 12, 9, 20, 15, 7, 20, 11] * 8)


class Entrywise(nn.Module):
    """What it predicts for an entry depends on that entry alone: so all that can leak is a loss."""

    def __init__(self):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.tensor(0.5)), nn.Parameter(torch.tensor(0.1))

    def encode(self, x):
        return x.flatten(1)[:, :3] * self.scale

    def forward(self, x):
        return torch.tanh(x * self.scale) + self.shift


def padded(shape, filling):
    x = 1 + torch.randn(64, *shape, generator=seeded())
    outside = torch.arange(shape[0]) >= LENGTHS[:, None]
    x[outside] = filling(x[outside])
    return x


FILLINGS = [torch.zeros_like, lambda x: 1000 * torch.ones_like(x), lambda x: x * 5]


@pytest.mark.parametrize("shape", [(20,), (20, 5)])
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, kind) for name in ("dcs", "n2v") for kind in ("amplitude", "blind_spot")),
        *((name, None) for name in ("mse", "cosine", "dae", "sure")),
    ],
)
def test_padding_changes_nothing(shape, name, kind):
    settings = {"objective": name, "max_epochs": 3, "batch_size": 16, "patience": 2, "device": "cpu"}
    if kind is not None:
        settings["masking"] = {"kind": kind, **({"axis": 1} if kind == "amplitude" else {})}
    if name == "sure":
        settings["objective_options"] = {"sigma": 0.3}
    config = complete(settings, Facts(shape, len(LENGTHS)))
    results = []
    for filling in FILLINGS:
        model = Entrywise()
        objective = make_objective(config)
        history = train(model, objective, padded(shape, filling), config, lengths=LENGTHS)
        kept = ("loss", "validation_loss", "gradient_norm", "k", "snr", "floored")
        results.append(
            [
                *(float(p.detach()) for p in model.parameters()),
                *(line[key] for line in history for key in kept if key in line),
            ]
        )
    assert results[0] == results[1] == results[2]
    other = Entrywise()
    train(other, make_objective(config), padded(shape, FILLINGS[1]), config)
    assert [float(p.detach()) for p in other.parameters()] != results[1][:2]  # without lengths it would count


def test_without_padding_lengths_change_nothing():
    config = read_config({"max_epochs": 2, "batch_size": 16, "objective": "mse", "device": "cpu"})
    x = padded((20,), torch.zeros_like)
    found = []
    for lengths in (None, torch.full((64,), 20)):
        model = Entrywise()
        train(model, make_objective(config), x, config, lengths=lengths)
        found.append([float(p.detach()) for p in model.parameters()])
    assert found[0] == pytest.approx(found[1], rel=1e-6)


@pytest.mark.parametrize(
    ("lengths", "says"),
    [
        (LENGTHS[:-1], "lengths must be 64 integers"),
        (LENGTHS.float(), "lengths must be 64 integers"),
        (LENGTHS.tolist(), "lengths must be 64 integers"),
        (LENGTHS * 0, "lengths must be from 1 to 20"),
        (LENGTHS + 1, "lengths must be from 1 to 20"),
    ],
)
def test_wrong_lengths_are_refused(lengths, says):
    config = read_config({"max_epochs": 1, "objective": "mse"})
    x = padded((20,), torch.zeros_like)
    with pytest.raises(ValueError, match=says):
        train(Entrywise(), make_objective(config), x, config, lengths=lengths)


def test_sigma_is_not_estimated_from_padding():
    config = read_config({"max_epochs": 1, "objective": "sure"})
    with pytest.raises(ValueError, match="sigma cannot be estimated from padded data"):
        train(Entrywise(), SURE(), padded((20,), torch.zeros_like), config, lengths=LENGTHS)


def test_the_scale_of_predictions_does_not_see_padding():
    inside = torch.arange(20) < LENGTHS[:, None]
    x = padded((20,), torch.zeros_like)
    model = Entrywise()
    scale = prediction_scale(model, DenoisingCosine(), x, lengths=LENGTHS)
    with torch.no_grad():
        prediction = model(x)
    a, b = x[inside].double(), prediction[inside].double()
    assert scale == pytest.approx(float(a @ b / (b @ b)), rel=1e-6)
    near = nearest(x, prediction, inside)
    for row in range(8):
        a, b = x[row, : LENGTHS[row]].double(), prediction[row, : LENGTHS[row]].double()
        expected = float(a @ b / (b @ b)) * b
        torch.testing.assert_close(near[row, : LENGTHS[row]], expected)


def test_a_split_brings_its_lengths_to_the_encoder():
    x = padded((20,), torch.zeros_like)
    encoder = DenoisingEncoder(network=Entrywise(), objective="dcs", max_epochs=2, random_state=0)
    split = Split(x, lengths=LENGTHS)
    fitted = encoder.fit(split)
    one = [float(p.detach()) for p in fitted.network_.parameters()]
    score, denoised = fitted.score(split), fitted.denoise(split)
    again = encoder.fit(Split(padded((20,), FILLINGS[2]), lengths=LENGTHS))
    assert [float(p.detach()) for p in again.network_.parameters()] == one
    assert again.score(Split(padded((20,), FILLINGS[2]), lengths=LENGTHS)) == score
    assert not denoised[torch.arange(20) >= LENGTHS[:, None]].any()


class Watcher(nn.Module):
    """Predicts from all of a sample, its padding too."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(20, 20)

    def encode(self, x):
        return self.layer(x)[:, :3]

    def forward(self, x):
        return self.layer(x)


@pytest.mark.parametrize("objective", ["dcs", "n2v", "mse", "dae"])
def test_a_network_never_sees_what_is_in_the_padding(objective):
    torch.manual_seed(0)
    network, found = Watcher(), []
    for filling in FILLINGS:
        split = Split(padded((20,), filling), lengths=LENGTHS)
        encoder = DenoisingEncoder(network=network, objective=objective, max_epochs=2, random_state=0)
        encoder.fit(split)
        losses = [line[name] for line in encoder.history_ for name in ("loss", "validation_loss")]
        found.append([losses, encoder.scale_, encoder.score(split)])
        found[-1] += [encoder.transform(split).tolist(), encoder.denoise(split).tolist()]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("objective", [DenoisingAutoencoder(), SURE(0.3), Noise2Void(), DenoisingCosine()])
def test_a_network_sees_zeros_in_the_padding(objective):
    inside, seen = torch.arange(20) < LENGTHS[:, None], []
    objective(lambda x: seen.append(x) or x * 0.5, padded((20,), FILLINGS[1]), seeded(), valid=inside)
    assert seen
    assert not any(x[~inside].any() for x in seen)


def test_a_pair_is_not_seen_in_the_padding_either():
    inside, model = torch.arange(20) < LENGTHS[:, None], Watcher()
    x = padded((20,), torch.zeros_like)
    losses = [MSE()(model, x, pair=padded((20,), filling), valid=inside).item() for filling in FILLINGS]
    assert losses[0] == losses[1] == losses[2]


# Long signals


def test_any_signal_is_denoised_in_its_shape():
    rng = np.random.default_rng(0)
    time = np.arange(64 * 40) / 40
    clean = np.sin(2 * math.pi * time)
    x = (clean + rng.normal(0, 0.5, clean.shape)).reshape(40, 64).astype(np.float32)
    encoder = DenoisingEncoder(
        network="waveunet",
        network_options={"width": 4, "depth": 2},
        masking={"kind": "amplitude"},
        max_epochs=3,
        random_state=0,
    ).fit(x)
    for shape in ((5,), (64,), (1000,), (2, 777)):
        signal = rng.normal(size=shape).astype(np.float32)
        denoised = encoder.denoise_signal(signal)
        assert denoised.shape == shape
        assert denoised.dtype == np.float32
        # A direction at its best length is never longer than what it is nearest to, in any window.
        assert np.square(denoised).sum() <= 1.05 * np.square(signal).sum()
    torch.testing.assert_close(encoder.denoise_signal(x[3]), encoder.denoise(x[3:4])[0])
    with pytest.raises(ValueError, match="NaN"):
        encoder.denoise_signal([0.0, math.nan, 1.0])

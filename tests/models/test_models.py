"""Networks: shapes, initial weights, seeds, and parts that can be replaced."""

import math

import pytest
import torch
from torch import nn

from dcs import models
from dcs.training import make_network, read_config

SHAPES = [
    ("mlp", (7,)),
    ("mlp", (3, 5)),
    ("mlp", (2, 3, 5)),
    ("conv", (8, 8)),
    ("conv", (13, 9)),
    ("conv", (3, 17, 11)),
    ("conv1d", (33,)),
    ("conv1d", (2, 101)),
    ("unet", (9, 7)),
    ("unet", (3, 13, 21)),
    ("vit", (9, 12)),
    ("vit", (3, 13, 21)),
    ("waveunet", (33,)),
    ("waveunet", (2, 101)),
]
SMALL = {
    "mlp": {"hidden": (20, 30)},
    "conv": {"width": 4, "depth": 2},
    "conv1d": {"width": 4},
    "unet": {"width": 4},
    "vit": {"width": 12, "depth": 2},
    "waveunet": {"width": 4},
}
SIGNALS = ("conv1d", "waveunet")


def make(name, shape, n_components=6, **options):
    return models.build(name, shape, n_components, **{**SMALL[name], **options})


@pytest.mark.parametrize(("name", "shape"), SHAPES)
@pytest.mark.parametrize("n", [1, 3])
def test_shapes(name, shape, n):
    network = make(name, shape)
    x = torch.rand(n, *shape, generator=torch.Generator().manual_seed(0))
    features = network.encode(x)
    assert features.shape == (n, 6)
    assert network(x).shape == x.shape
    if isinstance(network, models.Autoencoder):
        assert torch.equal(network.decode(features), network(x))


@pytest.mark.parametrize(("name", "shape"), SHAPES)
def test_gradient_reaches_every_parameter(name, shape):
    network = make(name, shape)
    x = torch.rand(4, *shape, generator=torch.Generator().manual_seed(0))
    network(x).square().sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())
    assert all(bool(p.grad.abs().sum() > 0) for k, p in network.named_parameters() if k.endswith("weight"))


def test_perceptron_is_that_of_the_paper():
    network = models.build("mlp", (8, 8), 10)
    linear = [m for m in network.modules() if isinstance(m, nn.Linear)]
    assert [m.in_features for m in linear] == [64, 500, 500, 2000, 10, 2000, 500, 500]
    assert linear[-1].out_features == 64
    for part in (network.encoder, network.decoder):
        kinds = [type(m) for m in part if not isinstance(m, nn.Flatten | nn.Unflatten)]
        assert kinds == [nn.Linear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear]


@pytest.mark.parametrize("name", list(SMALL))
def test_initial_weights_are_those_of_keras(name):
    """Glorot-uniform: within ±√(6 / (fan in + fan out)), with that law's deviation; biases are 0."""
    shape = (256,) if name in SIGNALS else (16, 16)
    network = models.build(name, shape, 10)
    checked = 0
    for module in network.modules():
        if isinstance(module, nn.Linear | nn.Conv1d | nn.Conv2d):
            weight = module.weight.detach()
            outputs, inputs, *field = weight.shape
            bound = math.sqrt(6 / ((inputs + outputs) * math.prod(field)))
            assert float(weight.abs().max()) <= bound
            assert not module.bias.any()
            if weight.numel() > 2000:
                checked += 1
                assert float(weight.abs().max()) > 0.99 * bound
                assert float(weight.std()) == pytest.approx(bound / math.sqrt(3), rel=0.05)
                assert abs(float(weight.mean())) < 0.1 * bound
    assert checked >= 2


@pytest.mark.parametrize("name", list(SMALL))
def test_seed_decides_and_the_global_state_is_left_alone(name):
    shape = (64,) if name in SIGNALS else (16, 16)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first, again, other = (make(name, shape, seed=seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not all(torch.equal(first[key], other[key]) for key in first)


def test_parts_may_be_any_module():
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = nn.Parameter(torch.ones(()))

        def forward(self, x):
            return self.factor * x.flatten(1)

    network = models.build("mlp", (2, 3), 6, hidden=(5,))
    x = torch.rand(4, 2, 3)
    network.encoder = Scale()
    assert torch.equal(network.encode(x), x.flatten(1))
    assert network(x).shape == x.shape
    network.decoder = nn.Unflatten(1, (2, 3))
    assert torch.equal(network(x), x)
    assert [name for name, _ in network.named_parameters()] == ["encoder.factor"]


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (
            lambda: models.build("abc", (8, 8)),
            "network must be one of mlp, conv, conv1d, unet, resunet, resnet18, resnet50, vit, waveunet, "
            "got 'abc'",
        ),
        (lambda: models.build("mlp", (8, 8), 0), "n_components must be at least 1"),
        (lambda: models.build("mlp", (8, 8), hidden=(0,)), "hidden must be at least 1"),
        (lambda: models.build("conv", (64,)), r"shape must be of images \(h, w\) or \(c, h, w\).*\(64,\)"),
        (lambda: models.build("conv1d", (3, 8, 8)), r"shape must be of signals"),
        (lambda: models.build("unet", (8, 8), depth=0), "depth must be at least 1"),
        (lambda: models.build("conv", (8, 8), width=0), "width must be at least 1"),
        (lambda: models.build("unet", (8, 8), width=0), "width must be at least 1"),
        (lambda: models.build("conv", (8, 8), depth=4), "depth 4 is too large for samples of size"),
        (lambda: models.build("vit", (64,)), "shape must be of images"),
        (lambda: models.build("vit", (8, 8), patch=9), "patch must be at least 1 and at most 8"),
        (
            lambda: models.build("vit", (8, 8), patch=(2, 2, 2)),
            "patch must be one number or ",
        ),
        (lambda: models.build("vit", (8, 8), heads=5), "heads must divide width, 192, got 5"),
        (lambda: models.build("vit", (8, 8), heads=0), "heads must be at least 1"),
        (lambda: models.build("vit", (8, 8), width=0), "width must be at least 1"),
        (lambda: models.build("vit", (8, 8), depth=0), "depth must be at least 1"),
        (lambda: models.build("vit", (8, 8), expansion=0), "expansion must be at least 1"),
        (lambda: models.build("vit", (8, 8), decoder_depth=-1), "decoder_depth must be at least 0"),
        (lambda: models.build("vit", (8, 8), pooling="max"), "pooling must be one of mean, statistics, flat"),
        (lambda: models.build("waveunet", (8, 8, 8)), "shape must be of signals"),
        (lambda: models.build("waveunet", (8,), depth=4), "depth must be at least 1 and at most 2, got 4"),
        (lambda: models.build("waveunet", (8,), width=0), "width must be at least 1"),
        (lambda: models.build("waveunet", (8,), kernel=4), "kernel must be odd"),
        (
            lambda: make_network(read_config({"network_options": {"widht": 3}}), (8, 8)),
            "unknown option 'network_options.widht' of network 'mlp': known are hidden",
        ),
        (
            lambda: make_network(read_config({"network": "mpl"}), (8, 8)),
            "network must be a known name, got 'mpl': did you mean 'mlp'",
        ),
    ],
)
def test_what_is_wrong_is_said(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_the_transformer_is_that_of_the_paper():
    network = models.build("vit", (440, 60), 192)
    assert (network.patch, network.grid) == ((20, 20), (22, 3))
    assert network.positions.shape == (66, 192)
    blocks = [m for m in network.modules() if type(m).__name__ == "Block"]
    assert [block.heads for block in blocks] == [3] * 6
    assert blocks[0].perceptron[0].out_features == 4 * 192
    assert [type(m) for m in network.decoder] == [nn.Linear]
    assert network.decoder[0].out_features == 400
    x = torch.randn(2, 440, 60, generator=torch.Generator().manual_seed(0))
    assert network.tokens(x).shape == (2, 66, 192)
    assert torch.equal(network.encode(x), network.tokens(x).mean(1))


def test_patches_are_cut_by_a_loop_s_rule_and_pasted_back():
    network = make("vit", (2, 9, 11), patch=(4, 3))
    x = torch.randn(3, 2, 9, 11, generator=torch.Generator().manual_seed(0))
    patches = network._cut(x)
    padded = torch.zeros(3, 2, 12, 12)
    padded[:, :, :9, :11] = x
    for row in range(3):
        for column in range(4):
            expected = padded[:, :, 4 * row : 4 * row + 4, 3 * column : 3 * column + 3].flatten(1)
            assert torch.equal(patches[:, 4 * row + column], expected)
    assert torch.equal(network._paste(patches), x)


def test_a_block_is_torch_s_own_encoder_layer():
    block = make("vit", (9, 12), width=12, heads=3).blocks[0]
    theirs = nn.TransformerEncoderLayer(
        12, 3, 48, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    names = {
        "self_attn.in_proj_weight": block.attend.weight,
        "self_attn.in_proj_bias": block.attend.bias,
        "self_attn.out_proj.weight": block.join.weight,
        "self_attn.out_proj.bias": block.join.bias,
        "linear1.weight": block.perceptron[0].weight,
        "linear1.bias": block.perceptron[0].bias,
        "linear2.weight": block.perceptron[2].weight,
        "linear2.bias": block.perceptron[2].bias,
        "norm1.weight": block.norm.weight,
        "norm1.bias": block.norm.bias,
        "norm2.weight": block.norm_again.weight,
        "norm2.bias": block.norm_again.bias,
    }
    theirs.load_state_dict(names)
    tokens = torch.randn(4, 7, 12, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(block(tokens), theirs(tokens))


@pytest.mark.parametrize("decoder_depth", [0, 2])
@pytest.mark.parametrize("n_components", [6, 12])
def test_pooling_and_decoders_of_the_transformer(decoder_depth, n_components):
    x = torch.randn(3, 9, 12, generator=torch.Generator().manual_seed(0))
    mean, statistics, flat = (
        make("vit", (9, 12), n_components, pooling=pooling, decoder_depth=decoder_depth)
        for pooling in ("mean", "statistics", "flat")
    )
    assert mean.encode(x).shape == (3, n_components)
    tokens = flat.encode(x).unflatten(1, (-1, n_components))
    assert tokens.shape[1] == math.prod(flat.grid)
    torch.testing.assert_close(tokens.mean(1), mean.encode(x))
    deviation = (tokens - tokens.mean(1, keepdim=True)).square().mean(1).sqrt()
    torch.testing.assert_close(statistics.encode(x), torch.cat([tokens.mean(1), deviation], 1))
    assert mean(x).shape == x.shape


def test_the_wave_unet_takes_any_length_and_loudness():
    network = make("waveunet", (256,))
    for length in (1, 2, 37, 256, 1000):
        x = torch.randn(2, length, generator=torch.Generator().manual_seed(0))
        assert network(x).shape == x.shape
    torch.testing.assert_close(network(1e-3 * x), 1e-3 * network(x))
    torch.testing.assert_close(network.encode(100 * x), network.encode(x))
    assert not network(torch.zeros(1, 64)).any()

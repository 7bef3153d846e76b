"""ResNets and their decoders: layers and sizes of the paper, initial weights, gradients."""

import math

import pytest
import torch
from torch import nn

from dcs import models
from dcs.training import make_network, read_config


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_resnet18_has_the_parameters_of_the_one_for_cifar():
    network = models.build("resnet18", (3, 32, 32))
    assert network.encoder.features == 512
    assert count(network.encoder) + count(nn.Linear(512, 10)) == 11_173_962
    assert count(network.decoder) == 512 * 3072 + 3072


def test_resnet50_has_the_parameters_of_the_usual_one_without_its_head():
    network = models.build("resnet50", (3, 64, 64))
    assert network.encoder.features == 2048
    assert count(network.encoder) == 25_557_032 - count(nn.Linear(2048, 1000))


def maps(network, x):
    """The shapes of the maps after the stem and after each block."""
    shapes = []
    for module in (network.stem, *network.stages):
        x = module(x)
        shapes.append(tuple(x.shape[1:]))
    return shapes


def test_maps_have_the_sizes_of_the_paper():
    with torch.no_grad():
        small = maps(models.build("resnet18", (3, 32, 32), width=2).encoder, torch.zeros(1, 3, 32, 32))
        large = maps(models.build("resnet50", (3, 64, 64), width=4).encoder, torch.zeros(1, 3, 64, 64))
    assert small == [(2, 32, 32)] * 3 + [(4, 16, 16)] * 2 + [(8, 8, 8)] * 2 + [(16, 4, 4)] * 2
    blocks = [(16, 32, 32)] * 3 + [(32, 16, 16)] * 4 + [(64, 8, 8)] * 6 + [(128, 4, 4)] * 3
    assert large == [(4, 32, 32), *blocks]


def test_pixel_shuffle_decoder_is_that_of_the_paper_layer_by_layer():
    """Appendix D: what stands in the table's column `output shape`."""
    decoder = models.make_decoder("pixel_shuffle", 2048, (3, 64, 64))
    x, shapes = torch.zeros(2, 2048), []
    with torch.no_grad():
        for layer in decoder:
            x = layer(x)
            if not isinstance(layer, nn.BatchNorm2d | nn.ReLU):
                shapes.append((type(layer), tuple(x.shape)))
    assert shapes == [
        (nn.Linear, (2, 2048)),
        (nn.Unflatten, (2, 128, 4, 4)),
        (nn.Conv2d, (2, 1024, 4, 4)),
        (nn.PixelShuffle, (2, 256, 8, 8)),
        (nn.Conv2d, (2, 512, 8, 8)),
        (nn.PixelShuffle, (2, 128, 16, 16)),
        (nn.Conv2d, (2, 256, 16, 16)),
        (nn.PixelShuffle, (2, 16, 64, 64)),
        (nn.Conv2d, (2, 3, 64, 64)),
    ]
    assert [m.kernel_size for m in decoder if isinstance(m, nn.Conv2d)] == [(3, 3)] * 4
    follows = [type(layer) for layer in decoder][3:6]
    assert follows == [nn.Conv2d, nn.BatchNorm2d, nn.ReLU]


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
@pytest.mark.parametrize("decoder", ["linear", "pixel_shuffle"])
@pytest.mark.parametrize("shape", [(32, 32), (1, 16, 32), (3, 32, 16)])
def test_shapes(name, decoder, shape):
    network = models.build(name, shape, width=4, decoder=decoder)
    x = torch.rand(2, *shape)
    features = network.encode(x)
    assert features.shape == (2, 32 if name == "resnet18" else 128)
    assert network.decode(features).shape == network(x).shape == x.shape


def test_gradient_reaches_every_parameter():
    network = models.build("resnet18", (3, 16, 16), width=4, decoder="pixel_shuffle")
    x = torch.rand(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    network(x).square().sum().backward()
    assert all(bool(p.grad.abs().sum() > 0) for k, p in network.named_parameters() if k.endswith("weight"))


def test_convolutions_begin_as_he_et_al_have_them():
    """Normal with variance 2 / (outputs · field); normalisations begin as identities."""
    network = models.build("resnet18", (3, 32, 32), seed=3).encoder
    for module in network.modules():
        if isinstance(module, nn.Conv2d) and module.weight.numel() > 20_000:
            outputs, _, *field = module.weight.shape
            assert float(module.weight.detach().std()) == pytest.approx(
                math.sqrt(2 / (outputs * math.prod(field))), rel=0.03
            )
        if isinstance(module, nn.BatchNorm2d):
            assert bool((module.weight == 1).all())
            assert not bool(module.bias.any())


def test_zero_init_makes_blocks_identities():
    network = models.build("resnet50", (3, 32, 32), width=4).encoder
    x = torch.rand(2, 16, 8, 8)
    assert torch.equal(network.stages[1](x), x)
    plain = models.build("resnet50", (3, 32, 32), width=4, zero_init=False).encoder
    assert not torch.equal(plain.stages[1](x), x)


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_seed_decides_and_the_global_state_is_left_alone(name):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first, again, other = (
        models.build(name, (3, 16, 16), width=4, seed=seed).state_dict() for seed in (1, 1, 2)
    )
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not all(torch.equal(first[key], other[key]) for key in first)


def test_a_configuration_can_ask_for_one():
    config = read_config({"network": "resnet18", "network_options": {"width": 4, "zero_init": True}})
    assert make_network(config, (3, 16, 16)).encoder.features == 32


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: models.build("resnet18", (64,)), r"shape must be of images"),
        (lambda: models.build("resnet18", (3, 8, 8), width=0), "width must be at least 1"),
        (lambda: models.build("resnet18", (3, 8, 8), stem="tiny"), "stem must be one of small, large"),
        (lambda: models.build("resnet18", (3, 8, 8), decoder="mlp"), "decoder must be one of linear, pixel"),
        (lambda: models.build("resnet50", (3, 40, 40)), r"multiples of 16 .* got \(3, 40, 40\): use the lin"),
        (lambda: models.make_decoder("linear", 0, (3, 8, 8)), "features must be at least 1"),
        (lambda: models.make_decoder("pixel_shuffle", 8, (16, 16), width=6), "width must be a multiple of 4"),
        (lambda: models.ResNet((1, 0), bottleneck=False), "blocks must be at least 1"),
        (lambda: models.ResNet((1,), bottleneck=True, channels=0), "channels must be at least 1"),
    ],
)
def test_what_is_wrong_is_said(call, match):
    with pytest.raises(ValueError, match=match):
        call()

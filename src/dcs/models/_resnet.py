"""Residual networks for small images, as SimSiam uses them (He et al., CVPR 2016)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dcs._checks import check_bool, check_choice, check_integer
from dcs.models._autoencoder import DECODERS, NETWORKS, Autoencoder, make_decoder
from dcs.models._convolutional import with_channels


class ResNet(nn.Module):
    """Residual network from images (n, c, h, w) or (n, h, w) to features (n, `features`).

    Features are the spatial means of the last maps. Weights are He-normal by fan-out, drawn from torch's
    global random state, which `dcs.models.build` seeds.

    Args:
        blocks: Number of blocks in each stage; every stage but the first halves the image.
        bottleneck: Whether blocks are 1x1-3x3-1x1 convolutions with four times the channels at the end
            (ResNet-50) or two 3x3 convolutions (ResNet-18).
        channels: Channels of the images.
        width: Channels of the first stage; doubled by each further one.
        stem: First layer. `small` is a 3x3 convolution that keeps the size of the image, as for CIFAR;
            `large` is one of 7x7 with stride 2. There is no max-pooling after it, since images are small.
        zero_init: Whether residual branches are 0 at first, so that blocks start as identities.

    Example:
        >>> network = ResNet((1, 1, 1, 1), bottleneck=False, width=4)
        >>> network(torch.zeros(2, 3, 32, 32)).shape, network.features
        (torch.Size([2, 32]), 32)
    """

    def __init__(
        self,
        blocks: Sequence[int],
        *,
        bottleneck: bool,
        channels: int = 3,
        width: int = 64,
        stem: str = "small",
        zero_init: bool = False,
    ) -> None:
        super().__init__()
        for count in blocks:
            check_integer("blocks", count, at_least=1)
        check_bool("bottleneck", bottleneck)
        check_integer("channels", channels, at_least=1)
        check_integer("width", width, at_least=1)
        check_choice("stem", stem, ("small", "large"))
        check_bool("zero_init", zero_init)
        self.channels = channels
        kernel, stride = (3, 1) if stem == "small" else (7, 2)
        self.stem = nn.Sequential(*_convolution(channels, width, kernel, stride), nn.ReLU(inplace=True))
        stages, before = [], width
        for level, count in enumerate(blocks):
            inner = width * 2**level
            after = 4 * inner if bottleneck else inner
            for index in range(count):
                stride = 2 if level > 0 and index == 0 else 1
                stages.append(_Block(before, inner, after, stride, bottleneck))
                before = after
        self.stages = nn.Sequential(*stages)
        self.features = before
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if isinstance(module, _Block) and zero_init:
                last = module.branch[-1]
                assert isinstance(last, nn.BatchNorm2d)  # noqa: S101  (for the type checker)
                nn.init.zeros_(last.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Compute the features."""
        if (x.shape[1] if x.ndim == 4 else 1) != self.channels:
            raise ValueError(
                f"x must be images of {self.channels} channels, got shape {tuple(x.shape)}: "
                f"build the network for the shape of one image"
            )
        # Not len(x), which an exported graph would keep as a number.
        images = x.reshape(x.shape[0], self.channels, *x.shape[-2:])
        return torch.mean(self.stages(self.stem(images)), (2, 3))


class _Block(nn.Module):
    """Compute x + branch(x), with x projected where its shape changes."""

    def __init__(self, before: int, inner: int, after: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        first, *further = (
            [(before, inner, 1, 1), (inner, inner, 3, stride), (inner, after, 1, 1)]
            if bottleneck
            else [(before, inner, 3, stride), (inner, after, 3, 1)]
        )
        self.branch = nn.Sequential(*_convolution(*first))
        for each in further:
            self.branch.extend([nn.ReLU(inplace=True), *_convolution(*each)])
        same = before == after and stride == 1
        self.shortcut = nn.Identity() if same else nn.Sequential(*_convolution(before, after, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu_(self.branch(x) + self.shortcut(x))


@NETWORKS.register(
    "resnet18", summary="ResNet-18 for small images, with a decoder.", own_weights=True, fixed_features=True
)
def resnet18(
    shape: Sequence[int],
    n_components: int | None = None,  # noqa: ARG001  (all networks have the same signature)
    *,
    width: int = 64,
    stem: str = "small",
    zero_init: bool = False,
    decoder: str = "linear",
) -> Autoencoder:
    """Make the ResNet-18 for CIFAR of Expt2, followed by a decoder; it has 8·width features.

    Args:
        shape: Shape of one image, (h, w) or (c, h, w).
        n_components: Not used: the number of features follows from the width.
        width: Channels of the first stage.
        stem: First layer, `small` or `large`; see `ResNet`.
        zero_init: Whether residual branches are 0 at first.
        decoder: Kind of decoder, `linear` or `pixel_shuffle`.
    """
    return _with_decoder(
        shape, decoder, (2, 2, 2, 2), bottleneck=False, width=width, stem=stem, zero_init=zero_init
    )


@NETWORKS.register("resnet50", summary="ResNet-50, with a decoder.", own_weights=True, fixed_features=True)
def resnet50(
    shape: Sequence[int],
    n_components: int | None = None,  # noqa: ARG001  (all networks have the same signature)
    *,
    width: int = 64,
    stem: str = "large",
    zero_init: bool = True,
    decoder: str = "pixel_shuffle",
) -> Autoencoder:
    """Make the ResNet-50 for Tiny-ImageNet of Expt2, without max-pooling, followed by a decoder.

    It has 32·width features.

    Args:
        shape: Shape of one image, (h, w) or (c, h, w).
        n_components: Not used: the number of features follows from the width.
        width: Channels of the first stage.
        stem: First layer, `small` or `large`; see `ResNet`.
        zero_init: Whether residual branches are 0 at first.
        decoder: Kind of decoder, `pixel_shuffle` or `linear`.
    """
    return _with_decoder(
        shape, decoder, (3, 4, 6, 3), bottleneck=True, width=width, stem=stem, zero_init=zero_init
    )


def _with_decoder(shape: Sequence[int], decoder: str, blocks: Sequence[int], **options: Any) -> Autoencoder:
    channels = with_channels(shape, 2)[0]
    check_choice("decoder", decoder, DECODERS)
    encoder = ResNet(blocks, channels=channels, **options)
    return Autoencoder(encoder, make_decoder(decoder, encoder.features, shape))


def _convolution(before: int, after: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(before, after, kernel, stride, padding=kernel // 2, bias=False)
    return [convolution, nn.BatchNorm2d(after)]

"""The Vision-Transformer autoencoder of Expt3, for spectrograms and images."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention

from dcs._checks import check_choice, check_integer
from dcs.models._autoencoder import NETWORKS
from dcs.models._convolutional import with_channels

_PATCH, _HEAD = 20, 64  # default side of a patch, and default width of a head


@NETWORKS.register("vit", summary="Transformer on patches of images or spectrograms.")
class ViT(nn.Module):
    """Transformer over patches, with a decoder from its tokens back to patches.

    Each patch becomes a token, to which a learned position is added; blocks of attention and a multilayer
    perceptron follow, each after a layer norm. The decoder works on the tokens, of which features are a
    summary, so that there is no `decode`. Dosovitskiy et al., ICLR 2021.

    Args:
        shape: Shape of one sample, (h, w) or (c, h, w); padded with zeros to a multiple of the patch.
        n_components: Number of features per token; a linear layer is added if it is not `width`.
        patch: Height and width of a patch, or one number for both; by default 20, less for small samples.
        width: Width of the tokens.
        depth: Number of blocks.
        heads: Number of attention heads; by default width / 64.
        expansion: Width of a block's perceptron, as a multiple of the width of the tokens.
        pooling: Features of a sample. `mean` is the mean over the tokens, (n, n_components); `statistics`
            adds their standard deviation, (n, 2·n_components), which separates steady from short sounds;
            `flat` is all tokens, (n, tokens·n_components).
        decoder_depth: Number of blocks of the decoder before its linear layer; 0 is a linear decoder.

    Example:
        >>> network = ViT((440, 60), 192, depth=1)
        >>> network.grid, network.encode(torch.zeros(2, 440, 60)).shape
        ((22, 3), torch.Size([2, 192]))
    """

    def __init__(
        self,
        shape: Sequence[int],
        n_components: int = 192,
        *,
        patch: int | Sequence[int] | None = None,
        width: int = 192,
        depth: int = 6,
        heads: int | None = None,
        expansion: int = 4,
        pooling: str = "mean",
        decoder_depth: int = 0,
    ) -> None:
        super().__init__()
        for name, value in (("width", width), ("depth", depth), ("expansion", expansion)):
            check_integer(name, value, at_least=1)
        check_integer("decoder_depth", decoder_depth, at_least=0)
        check_choice("pooling", pooling, ("mean", "statistics", "flat"))
        self.shape, self.pooling = tuple(shape), pooling
        self.inner_shape = channels, *size = with_channels(shape, 2)
        self.patch = _patch(patch, size)
        self.grid = tuple(-(-length // side) for length, side in zip(size, self.patch, strict=True))
        tokens, entries = math.prod(self.grid), channels * math.prod(self.patch)
        heads = _heads(heads, width)

        def blocks(count: int) -> list[nn.Module]:
            return [Block(width, heads, expansion) for _ in range(count)]

        self.embed = nn.Linear(entries, width)
        self.positions = nn.Parameter(0.02 * torch.randn(tokens, width))
        self.blocks = nn.Sequential(*blocks(depth), nn.LayerNorm(width))
        self.bottleneck = nn.Identity() if n_components == width else nn.Linear(width, n_components)
        decoder: list[nn.Module] = []
        if decoder_depth:
            widen = nn.Identity() if n_components == width else nn.Linear(n_components, width)
            decoder = [widen, _Positions(tokens, width), *blocks(decoder_depth), nn.LayerNorm(width)]
        self.decoder = nn.Sequential(*decoder, nn.Linear(width if decoder else n_components, entries))

    def tokens(self, x: Tensor) -> Tensor:
        """Compute the features of every patch, (n, tokens, n_components)."""
        tokens: Tensor = self.bottleneck(self.blocks(self.embed(self._cut(x)) + self.positions))
        return tokens

    def encode(self, x: Tensor) -> Tensor:
        """Compute the features."""
        tokens = self.tokens(x)
        if self.pooling == "flat":
            return tokens.flatten(1)
        mean = tokens.mean(1)
        if self.pooling == "mean":
            return mean
        return torch.cat([mean, tokens.std(1, correction=0)], dim=1)

    def forward(self, x: Tensor) -> Tensor:
        """Predict x."""
        return self._paste(self.decoder(self.tokens(x)))

    def _cut(self, x: Tensor) -> Tensor:
        """Cut samples into patches, (n, tokens, c·height·width)."""
        (rows, columns), (height, width) = self.grid, self.patch
        x = x.reshape(-1, *self.inner_shape)
        missing = columns * width - x.shape[-1], rows * height - x.shape[-2]
        x = pad(x, (0, missing[0], 0, missing[1])) if any(missing) else x
        x = x.unflatten(3, (columns, width)).unflatten(2, (rows, height))
        patches: Tensor = x.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
        return patches

    def _paste(self, patches: Tensor) -> Tensor:
        (rows, columns), (height, width) = self.grid, self.patch
        channels, *size = self.inner_shape
        x = patches.unflatten(2, (channels, height, width)).unflatten(1, (rows, columns))
        x = x.permute(0, 3, 1, 4, 2, 5).flatten(4).flatten(2, 3)
        whole: Tensor = x[:, :, : size[0], : size[1]].reshape(-1, *self.shape)
        return whole


class Block(nn.Module):
    """Attention and a perceptron, each after a layer norm and with a residual connection."""

    def __init__(self, width: int, heads: int, expansion: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.norm_again = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        inner = expansion * width
        self.perceptron = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))

    def forward(self, tokens: Tensor) -> Tensor:
        """Transform tokens (n, tokens, width)."""
        query, key, value = (
            self.attend(self.norm(tokens)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        )
        seen = scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        tokens = tokens + self.join(seen)
        result: Tensor = tokens + self.perceptron(self.norm_again(tokens))
        return result


class _Positions(nn.Module):
    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.positions = nn.Parameter(0.02 * torch.randn(tokens, width))

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens + self.positions


def _patch(patch: int | Sequence[int] | None, size: Sequence[int]) -> tuple[int, ...]:
    if patch is None:
        return tuple(_side(length) for length in size)
    sides = tuple(patch) if isinstance(patch, Sequence) else (patch, patch)
    if len(sides) != 2:
        raise ValueError(f"patch must be one number or (height, width), got {patch!r}")
    for side, length in zip(sides, size, strict=True):
        check_integer("patch", side, at_least=1, at_most=length)
    return sides


def _side(length: int) -> int:
    """Return the largest divisor up to 20 and a third of the length; that limit if divisors are tiny."""
    most = min(_PATCH, -(-length // 3))
    divisor = next(side for side in range(most, 0, -1) if length % side == 0)
    return divisor if 2 * divisor >= most else most


def _heads(heads: int | None, width: int) -> int:
    if heads is None:
        return next(count for count in range(max(1, width // _HEAD), 0, -1) if width % count == 0)
    check_integer("heads", heads, at_least=1)
    if width % heads:
        raise ValueError(f"heads must divide width, {width}, got {heads}")
    return heads

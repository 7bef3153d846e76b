"""Positions to mask, ascending, in a flat batch."""

import math
from functools import cache

import torch
from torch import Generator, Tensor

_GOLDEN = -1640531527  # the odd 32-bit integer (here signed) nearest to 2³² times the golden ratio


def bernoulli_positions(
    total: int, rho: float, choices: int, generator: Generator | None, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Draw where `total` iid Bernoulli(rho) variables are 1, and a uniform choice below `choices` for each.

    Positions are sums of geometric gaps, so that the cost is proportional to their number: a gap is
    ⌊log((1 − rho)·U)/log(1 − rho)⌋ with U uniform, since that is >= g with probability (1 − rho)^(g − 1).
    One random word of 32 bits gives both: its leading bits are U, and its trailing ones, brought to the front
    by a multiplication with the golden ratio (Fibonacci hashing), the choice. The words of one gap are
    consecutive numbers, whose multiples of the golden ratio are spread evenly: every choice is equally likely
    whatever the gap.
    """
    expected = total * rho
    draws = int(expected + 3 * math.sqrt(expected)) + 16  # enough in all but one of a thousand calls
    positions, chosen, start = [], [], 0
    while True:
        random = torch.empty((draws + 1) // 2, dtype=torch.int64, device=device)
        random.random_(-(2**63), None, generator=generator)
        words, signed_words = random.view(torch.uint32), random.view(torch.int32)
        gap = _geometric(words, rho, total + 1) if rho < 1 else torch.ones_like(signed_words)
        gap[0].sub_(1)
        position = gap.cumsum(0)
        if start:
            position += start
        end = int(torch.searchsorted(position, total))
        positions.append(position[:end])
        signed_words *= _GOLDEN  # and so the words, which share their memory
        # The factor, one step of a float below 1, keeps the largest word inside.
        chosen.append(words.float().mul_(choices * (1 - 2**-23) / 2**32).int()[:end])
        if end < position.numel():
            break
        start = int(position[-1]) + 1
    if len(positions) == 1:
        return positions[0], chosen[0]
    return torch.cat(positions), torch.cat(chosen)


def _margin(rho: float) -> int:
    """Return the distance of U·2³² from 0 and 2³²: one step of the precision needed, 24 bits or more."""
    return 2**8 if rho > 0.01 else 1


def _geometric(words: Tensor, rho: float, most: int) -> Tensor:
    """Turn random words, read as U in (0, 1), into gaps from 1 to `most`."""
    frequent = rho > 0.01
    uniform = words.to(torch.float32 if frequent else torch.float64)
    scale = (1 - rho) / (2**32 + 2 * _margin(rho))
    gap = uniform.mul_(scale).add_(scale * _margin(rho)).log_().mul_(1 / math.log1p(-rho))
    # A quotient may be rounded to less than 1.
    return gap.int().clamp_(min=1) if frequent else gap.clamp_(1, most).long()


@cache
def longest_gap(rho: float) -> float:
    """Return an upper bound of the gaps that `bernoulli_positions` draws."""
    return 2 - math.log(2**32 / _margin(rho)) / math.log1p(-rho) if rho < 1 else 1


def stratified_positions(
    n: int,
    grid: tuple[int, ...],
    radii: tuple[int, ...],
    rho: float,
    generator: Generator | None,
    device: torch.device,
) -> Tensor:
    """Draw at most one position in each box along the axes with a radius; each entry with probability rho.

    The boxes are cubes of the largest whole side for which a box of volume V has rho·V <= 1; a position is
    drawn in a box with probability rho·V, and dropped where the box reaches outside.
    """
    space = sum(radius > 0 for radius in radii)
    side = max(1, int(min((1 / rho) ** (1 / space) + 1e-9, max(grid))))
    boxes = [-(-length // side) if radius else length for length, radius in zip(grid, radii, strict=True)]
    kept = torch.rand((n, *boxes), device=device, generator=generator) < rho * side**space
    position = torch.arange(n, device=device).reshape(-1, *[1] * len(grid))
    for axis, (length, radius, count) in enumerate(zip(grid, radii, boxes, strict=True)):
        coordinate = torch.arange(count, device=device).reshape(-1, *[1] * (len(grid) - 1 - axis))
        if radius:
            offset = torch.rand((n, *boxes), device=device, generator=generator).mul_(side).long()
            coordinate = coordinate * side + offset
            kept &= coordinate < length
        position = position * length + coordinate
    return position[kept].sort().values


def top_up(
    masked: Tensor, position: Tensor, least: int, maskable: Tensor | None, generator: Generator | None
) -> Tensor:
    """Draw further positions uniformly for samples in which fewer than `least` are masked.

    Args:
        masked: Mask (n, entries), True at `position`; set at the added positions, too.
        position: Positions so far, ascending.
        least: Minimum number of positions per sample; a sample with fewer maskable entries gets them all.
        maskable: Entries (n, entries) that may be masked; None for all.
        generator: Random generator.
    """
    n, size = masked.shape
    bounds = torch.searchsorted(position, torch.arange(0, (n + 1) * size, size, device=position.device))
    short = (bounds.diff() < least).nonzero().squeeze(1)
    if not len(short):
        return short
    rank = torch.rand((len(short), size), device=position.device, generator=generator)
    rank = rank.masked_fill(masked[short], 2.0)  # masked entries come first
    if maskable is not None:
        rank = rank.masked_fill(~maskable[short], -1.0)
    top = rank.topk(least, dim=1)
    added = (short[:, None] * size + top.indices)[(top.values >= 0) & (top.values < 1.5)]
    masked.view(-1).index_fill_(0, added, True)
    return added

"""The one masking procedure behind all maskers, and the choice of the neighbour to copy."""

import itertools
import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from dcs._checks import check_finite, check_generator, check_mask
from dcs.masking._positions import bernoulli_positions, longest_gap, stratified_positions, top_up

# Largest tables for a quick choice: larger ones would not stay in the CPU cache.
_MOST_CHOICES = 4096
_MOST_ENTRIES = 2**18
_LARGEST_TABLE = 2**24


def replace_by_neighbours(
    x: Tensor,
    radii: tuple[int, ...],
    rho: float,
    min_masked: int,
    valid: Tensor | None,
    generator: Generator | None,
    *,
    centre: bool = False,
    stratified: bool = False,
    shared: bool = False,
) -> tuple[Tensor, Tensor]:
    """Replace random entries by neighbours at most `radii` away, one radius for each axis after the batch.

    Axes of radius 0 (channels) hold no neighbours. Where they share a mask, it is drawn on a grid in which
    they have length 1, and then copied along them.
    """
    check_generator(generator, x.device)
    n, grid, size, copies, near, quick, true = _plan(x.shape, radii, centre, shared, x.device)
    least = -(-min_masked // copies)
    if least > size:
        raise ValueError(f"min_masked is {min_masked}, but a sample of x has only {size * copies} entries")
    data, maskable = x, None
    if valid is not None:
        valid = check_mask("valid", valid, x)
        data = x.where(valid, 0)
        if copies > 1:
            valid = valid.amin([axis + 1 for axis, length in enumerate(grid) if length == 1], keepdim=True)
        maskable = (valid & has_valid_neighbour(valid, radii, centre)).reshape(n, size)
    check_finite(data.sum(dtype=torch.promote_types(x.dtype, torch.float32)), x=data)
    flat = x.reshape(-1)
    x_tilde = flat.clone()  # now, while x is in the cache

    pairs = []  # (source, position)
    remaining = []  # positions without a source yet
    if stratified:
        position = stratified_positions(n, grid, radii, rho, generator, x.device)
    else:
        choices = quick.choices if quick else 1
        position, choice = bernoulli_positions(n * size, rho, choices, generator, x.device)
    if maskable is not None:
        position = position[maskable.view(-1)[position]]
    if quick and valid is None and not stratified:
        pairs.append((quick.sources(position, choice, n * size), position))
        may_be_short = longest_gap(rho) * least > size
    else:
        remaining.append(position)
        may_be_short = least > 0
    masked = torch.zeros(n * size, dtype=torch.bool, device=x.device)
    masked.scatter_(0, position, true[: position.numel()])
    if may_be_short:
        remaining.append(top_up(masked.view(n, size), position, least, maskable, generator))
    if remaining:
        position = torch.cat(remaining)
        pairs.append((draw_sources(position, near, valid, generator), position))
    for pair in pairs:
        source, position = pair if copies == 1 else (_along_channels(p, x.shape[1:], grid) for p in pair)
        x_tilde.scatter_(0, position, flat.index_select(0, source))
    if copies > 1:
        masked = masked.view(n, *grid).expand(x.shape).contiguous()
    return x_tilde.view(x.shape), masked.view(x.shape)


class Neighbourhood(NamedTuple):
    """The legal neighbours of each entry, which depend only on how near it is to which borders."""

    kind: Tensor  # (entries of a sample,): kind of place of each entry
    legal: Tensor  # (kinds,): number of legal neighbours
    step: Tensor  # (kinds, window): offsets to them in flat memory; legal ones first


def neighbourhood(
    shape: tuple[int, ...], radii: tuple[int, ...], centre: bool, device: torch.device
) -> Neighbourhood:
    """Tabulate the neighbours within `radii` in a sample of the given shape.

    Along one axis there are 2r + 1 kinds of places: r at either end, numbered inwards from 0 and outwards
    to 2r, and the interior, number r, where all of −r…r is inside; with 2r entries there is no interior.
    Kinds combine over the axes.
    """
    window = math.prod(2 * radius + 1 for radius in radii)
    if window**2 > _LARGEST_TABLE:
        raise ValueError(f"radius or delta makes a window of {window} entries, too many: use a smaller one")
    kind = torch.zeros((), dtype=torch.int64)
    step = torch.zeros(1, dtype=torch.int64)
    legal = torch.ones((1, 1), dtype=torch.uint8)
    for axis, (size, radius) in enumerate(zip(shape, radii, strict=True)):
        entry, place = torch.arange(size), torch.arange(2 * radius + 1)[:, None]
        before, after = entry.clamp(max=radius), (size - 1 - entry).clamp(max=radius)
        kind = kind[..., None] * (2 * radius + 1) + (before + radius - after)
        delta = torch.arange(-radius, radius + 1)
        step = (step[:, None] + delta * math.prod(shape[axis + 1 :])).flatten()
        legal = torch.kron(legal, ((-place <= delta) & (delta <= 2 * radius - place)).byte())
    if not centre:
        middle = len(step) // 2
        step = torch.cat([step[:middle], step[middle + 1 :]])
        legal = torch.cat([legal[:, :middle], legal[:, middle + 1 :]], dim=1)
    order = legal.argsort(dim=1, descending=True, stable=True)
    return Neighbourhood(*(table.to(device) for table in (kind.flatten(), legal.sum(1), step[order])))


class QuickChoice(NamedTuple):
    """`Neighbourhood` laid out so that one number below `choices` picks any entry's neighbour."""

    choices: int  # a common multiple of the numbers of neighbours
    first: Tensor  # index in `step` of the first choice, for the entries of one or several samples
    step: Tensor  # (kinds · choices,): each legal neighbour equally often

    def sources(self, position: Tensor, choice: Tensor, total: int) -> Tensor:
        """Return the chosen neighbours of positions in a flat batch of `total` entries."""
        size = self.first.numel()
        if size == total:
            entry = position
        else:
            entry = position & (size - 1) if size.bit_count() == 1 else position % size
        return self.step.index_select(0, self.first.index_select(0, entry).add_(choice)).add_(position)


def quick_choice(near: Neighbourhood, n: int) -> QuickChoice | None:
    """Make the tables for batches of n samples, or None where they would be too large."""
    counts = near.legal.tolist()
    choices = math.lcm(*counts)
    if choices > _MOST_CHOICES:
        return None
    step = [near.step[kind, :count].repeat_interleave(choices // count) for kind, count in enumerate(counts)]
    # Tabulating the entries of the whole batch, if it is not too large, spares a division.
    samples = n if n * len(near.kind) <= _MOST_ENTRIES else 1
    first = (near.kind * choices).int().repeat(samples)
    return QuickChoice(choices, first, torch.cat(step))


def draw_sources(
    position: Tensor, near: Neighbourhood, valid: Tensor | None, generator: Generator | None
) -> Tensor:
    """Draw a legal neighbour for each position; if `valid` is given, each must have one that is valid."""
    kind = near.kind.index_select(0, position % len(near.kind))
    count = near.legal.index_select(0, kind)
    # U·count rounds to less than count for every float32 U < 1: the choice is always legal.
    choice = torch.rand(position.shape, device=position.device, generator=generator).mul_(count).long()
    window = near.step.shape[1]
    source = position + near.step.view(-1).index_select(0, choice.add_(kind, alpha=window))
    if valid is None:
        return source
    # A draw that fell on padding is repeated among the valid neighbours: uniform on them, overall.
    valid = valid.reshape(-1)
    padded = (~valid[source]).nonzero().squeeze(1)
    candidate = position[padded, None] + near.step[kind[padded]]
    legal = torch.arange(window, device=position.device) < count[padded, None]
    legal &= valid[candidate.where(legal, 0)]
    rank = torch.rand(legal.shape, device=position.device, generator=generator).masked_fill(~legal, -1.0)
    source[padded] = candidate.gather(1, rank.argmax(dim=1, keepdim=True)).squeeze(1)
    return source


def has_valid_neighbour(valid: Tensor, radii: tuple[int, ...], centre: bool) -> Tensor:
    """Return which entries of (n, *grid) have a valid entry in their window."""
    found = valid.clone() if centre else torch.zeros_like(valid)
    for delta in itertools.product(*(range(-radius, radius + 1) for radius in radii)):
        if any(delta):
            here = tuple(slice(max(0, -d), -d if d > 0 else None) for d in delta)
            there = tuple(slice(max(0, d), d if d < 0 else None) for d in delta)
            found[:, *here] |= valid[:, *there]
    return found


class _Plan(NamedTuple):
    """What masking needs to know about a shape; cached."""

    n: int
    grid: tuple[int, ...]  # shape of a sample on which positions are drawn
    size: int  # number of entries of the grid
    copies: int  # number of entries of x per entry of the grid
    near: Neighbourhood
    quick: QuickChoice | None
    true: Tensor  # one True per position in a batch


@lru_cache(maxsize=16)
def _plan(
    shape: torch.Size, radii: tuple[int, ...], centre: bool, shared: bool, device: torch.device
) -> _Plan:
    n, *lengths = shape
    for length, radius in zip(lengths, radii, strict=True):
        if 2 * radius > length:
            raise ValueError(
                f"the window of radius {radius} ({2 * radius + 1} entries) is larger than the data: x has "
                f"{length} entries along that axis (shape {tuple(shape)}); use a smaller radius or delta, or "
                f"fewer axes: BlindSpot(ndim=1) for signals"
            )
    grid = tuple(
        1 if shared and not radius else length for length, radius in zip(lengths, radii, strict=True)
    )
    size = math.prod(grid)
    near = neighbourhood(grid, radii, centre, device)
    true = torch.ones(n * size, dtype=torch.bool, device=device)
    return _Plan(n, grid, size, math.prod(lengths) // size, near, quick_choice(near, n), true)


def _along_channels(position: Tensor, shape: torch.Size, grid: tuple[int, ...]) -> Tensor:
    """Turn positions on the grid into positions in x, one for each channel."""
    entry = torch.arange(shape.numel(), device=position.device).reshape(shape)
    channels = [axis for axis, length in enumerate(grid) if length == 1]
    space = [axis for axis in range(len(shape)) if axis not in channels]
    entry = entry.permute(*space, *channels).reshape(math.prod(grid), -1)
    sample, place = position // len(entry), position % len(entry)
    return (sample[:, None] * entry.numel() + entry[place]).flatten()

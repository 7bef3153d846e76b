"""Choice of the neighbour to copy: uniform among those inside the data, or inside its valid part."""

import itertools
import math
from typing import NamedTuple

import torch
from torch import Generator, Tensor

# Largest tables for a quick choice: larger ones would not stay in the CPU cache.
_MOST_CHOICES = 4096
_MOST_ENTRIES = 2**18
_LARGEST_TABLE = 2**24


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

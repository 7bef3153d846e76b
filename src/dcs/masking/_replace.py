"""The one masking procedure behind all maskers."""

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from dcs._checks import check_finite, check_generator, check_mask
from dcs.masking._neighbours import (
    Neighbourhood,
    QuickChoice,
    draw_sources,
    has_valid_neighbour,
    neighbourhood,
    quick_choice,
)
from dcs.masking._positions import bernoulli_positions, longest_gap, stratified_positions, top_up


def replace_by_neighbours(
    x: Tensor,
    radii: tuple[int, ...],
    *,
    rho: float,
    min_masked: int,
    centre: bool = False,
    stratified: bool = False,
    shared: bool = False,
    valid: Tensor | None = None,
    generator: Generator | None = None,
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

"""Samples as rows: the one layout in which every function of this package computes."""

import torch
from torch import Tensor

from dcs._checks import check_choice, check_mask


def compared_entries(mask: Tensor | None, valid: Tensor | None, x: Tensor) -> Tensor | None:
    """The entries that count as rows of 0.0 and 1.0, or None where all of them do."""
    counted = valid
    if mask is not None:
        counted = check_mask("mask", mask, x)
        if valid is not None:
            counted = counted & valid
    if counted is None:
        return None
    rows = counted.reshape(len(x), -1).view(torch.uint8)  # bytes convert many times faster than bools
    return rows.to(torch.promote_types(x.dtype, torch.float32))


def as_rows(x: Tensor, b: Tensor | None = None, valid: Tensor | None = None) -> Tensor:
    """(n, ...) as (n, D) in float32 or better, zero where `b` is 0 and on padding.

    What `b` leaves out is multiplied by zero rather than overwritten: a NaN there still shows in a sum, so
    that data can be checked by norms that are needed anyway. Padding may hold anything.
    """
    rows = x.reshape(len(x), -1).to(torch.promote_types(x.dtype, torch.float32))
    if valid is not None:
        rows = rows.where(valid.reshape(rows.shape), 0)
    return rows if b is None else rows * b


def count_entries(b: Tensor | None, rows: Tensor) -> Tensor:
    """How many entries count, (n,)."""
    return rows.new_full((len(rows),), rows.shape[1]) if b is None else b.sum(1)


def spread_sigma(sigma: Tensor, x: Tensor) -> Tensor:
    """The deviation σ of the noise in x as it broadcasts against it: a number, (n,), or what does already."""
    n = len(x)
    if sigma.shape == x.shape[:1] and x.ndim > 1:
        if n == x.shape[-1] > 1:
            raise ValueError(
                f"sigma of shape ({n},) may be one a sample or one an entry, for x has shape "
                f"{tuple(x.shape)}: reshape it to ({', '.join([str(n), *'1' * (x.ndim - 1)])}) or (1, {n})"
            )
        sigma = sigma.reshape(-1, *[1] * (x.ndim - 1))
    try:
        sigma.expand(x.shape)
    except RuntimeError:
        raise ValueError(
            f"sigma must be a number, one a sample ({n},), or broadcast against x {tuple(x.shape)}, "
            f"got shape {tuple(sigma.shape)}"
        ) from None
    return sigma


def dot(u: Tensor, v: Tensor) -> Tensor:
    """⟨u, v⟩ of each pair of rows, (n,); not a product of matrices, which autocast would round."""
    return (u * v).sum(1)


def norm(u: Tensor) -> Tensor:
    """‖u‖ of each row, (n,); its gradient at a row of zeros is zero."""
    length: Tensor = torch.linalg.vector_norm(u, dim=1)
    return length


def reduce(values: Tensor, reduction: str) -> Tensor:
    """Per-sample values (n,) as they are ("none"), averaged ("mean") or added up ("sum")."""
    check_choice("reduction", reduction, ("mean", "sum", "none"))
    if reduction == "none":
        return values
    return values.mean() if reduction == "mean" else values.sum()

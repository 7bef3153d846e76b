"""Samples as rows (n, D), the layout in which all functions of this package compute."""

import torch
from torch import Tensor

from dcs._checks import check_choice, check_mask


def compared_entries(mask: Tensor | None, valid: Tensor | None, x: Tensor) -> Tensor | None:
    """Return the entries that count, as rows of 0.0 and 1.0; None if all count."""
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
    """Reshape (n, ...) to (n, D), in float32 or better, with zeros where `b` is 0 and on padding.

    Entries that `b` leaves out are multiplied by zero rather than overwritten, so that a NaN there still
    appears in a sum and data can be checked by norms that are needed anyway. Padding may hold anything.
    """
    rows = x.reshape(len(x), -1).to(torch.promote_types(x.dtype, torch.float32))
    if valid is not None:
        rows = rows.where(valid.reshape(rows.shape), 0)
    return rows if b is None else rows * b


def count_entries(b: Tensor | None, rows: Tensor) -> Tensor:
    """Count the entries that count in each row, (n,)."""
    return rows.new_full((len(rows),), rows.shape[1]) if b is None else b.sum(1)


def spread_sigma(sigma: Tensor, x: Tensor) -> Tensor:
    """Reshape σ so that it broadcasts against x: a number, (n,), or a tensor that broadcasts already."""
    n = len(x)
    if sigma.shape == x.shape[:1] and x.ndim > 1:
        if n == x.shape[-1] > 1:
            raise ValueError(
                f"sigma of shape ({n},) may be one value per sample or one per entry, as x has shape "
                f"{tuple(x.shape)}: reshape it to ({', '.join([str(n), *'1' * (x.ndim - 1)])}) or (1, {n})"
            )
        sigma = sigma.reshape(-1, *[1] * (x.ndim - 1))
    try:
        sigma.expand(x.shape)
    except RuntimeError:
        raise ValueError(
            f"sigma must be a number, one value per sample ({n},), or broadcast against x {tuple(x.shape)}, "
            f"got shape {tuple(sigma.shape)}"
        ) from None
    return sigma


def dot(u: Tensor, v: Tensor) -> Tensor:
    """Compute ⟨u, v⟩ of each pair of rows, (n,); no matrix product, which autocast would round."""
    return (u * v).sum(1)


def norm(u: Tensor) -> Tensor:
    """Compute ‖u‖ of each row, (n,); its gradient at a row of zeros is zero."""
    length: Tensor = torch.linalg.vector_norm(u, dim=1)
    return length


def reduce(values: Tensor, reduction: str) -> Tensor:
    """Reduce values per sample, (n,): to their `mean`, their `sum`, or not at all (`none`)."""
    check_choice("reduction", reduction, ("mean", "sum", "none"))
    if reduction == "none":
        return values
    return values.mean() if reduction == "mean" else values.sum()

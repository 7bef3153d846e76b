"""Samples as rows: the one layout in which every function of this package computes."""

import torch
from torch import Tensor

from dcs._checks import check_choice, check_mask


def as_rows(x: Tensor, valid: Tensor | None = None) -> Tensor:
    """(n, ...) as (n, D) in float32 or better, with padding (where `valid` is false) set to zero."""
    rows = x.reshape(len(x), -1).to(torch.promote_types(x.dtype, torch.float32))
    return rows if valid is None else rows.where(valid.reshape(len(x), -1), 0)


def compared_entries(mask: Tensor | None, valid: Tensor | None, x: Tensor) -> Tensor | None:
    """The entries that count as rows of 0.0 and 1.0, or None where all of them do."""
    if mask is not None:
        mask = check_mask("mask", mask, x)
        if valid is not None:
            mask = mask & valid
    else:
        mask = valid
    if mask is None:
        return None
    return mask.reshape(len(x), -1).to(torch.promote_types(x.dtype, torch.float32))


def count_entries(b: Tensor | None, rows: Tensor) -> Tensor:
    """How many entries count, (n,)."""
    return rows.new_full((len(rows),), rows.shape[1]) if b is None else b.sum(1)


def masked_dot(u: Tensor, v: Tensor, b: Tensor | None) -> Tensor:
    """⟨b⊙u, b⊙v⟩ for each row, (n,).

    Entries outside of b are multiplied by zero rather than skipped: a NaN among them still shows,
    which is what lets the caller check its data at no cost.
    """
    dot: Tensor = torch.linalg.vecdot(u if b is None else u * b, v)
    return dot


def reduce(values: Tensor, reduction: str) -> Tensor:
    """Per-sample values (n,) as they are ("none"), averaged ("mean") or added up ("sum")."""
    check_choice("reduction", reduction, ("mean", "sum", "none"))
    if reduction == "none":
        return values
    return values.mean() if reduction == "mean" else values.sum()

"""Results of a function for all samples, batch by batch."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dcs.data._batches import Batches
from dcs.data._dataset import Samples, valid_entries

# Batches have one of two sizes (the last one is filled up), so that rounding, and with it the result of a
# sample, hardly depends on the samples beside it.
_FEW_ROWS, _ROWS = 64, 1024
_ENTRIES = 2**22  # in a batch, at most


def rows_per_batch(x: Tensor | Samples) -> int:
    """Return the number of samples per batch that `map_batches` uses by default."""
    wanted = _FEW_ROWS if x.shape[0] <= _FEW_ROWS else _ROWS
    return max(1, min(wanted, _ENTRIES // math.prod(x.shape[1:])))


def map_batches(
    call: Callable[..., Tensor],
    x: Tensor | Samples,
    *,
    rows: int | None = None,
    device: torch.device | str = "cpu",
    lengths: Tensor | None = None,
) -> NDArray[Any]:
    """Call a function on all samples, batch by batch and without gradients, and return its results in order.

    Every batch has the same number of rows: the last one is filled up by repeating its first sample.

    Args:
        call: Function of a batch, (rows, ...), and, if lengths are given, of a mask of its valid entries;
            returns one result per sample.
        x: Samples, (n, ...).
        rows: Samples per batch; by default `rows_per_batch(x)`.
        device: Device of the batches.
        lengths: Length of each sample without its padding, (n,); padding is replaced by zeros.

    Returns:
        Results, (n, ...) in float32.

    Example:
        >>> map_batches(lambda x: x.sum(1), torch.ones(3, 2)).tolist()
        [2.0, 2.0, 2.0]
    """
    rows, results = rows or rows_per_batch(x), np.empty(0, np.float32)
    with torch.no_grad():
        for batch in Batches(x, rows, device=device).epoch():
            given = [_filled(batch.x, rows)]
            if lengths is not None:
                some = _filled(lengths[batch.rows].to(device), rows)
                valid = valid_entries(some, x.shape[1:])
                given = [given[0].where(valid, 0), valid]
            result = call(*given)[: len(batch.x)].float().cpu().numpy()
            if not results.size:
                results = np.empty((x.shape[0], *result.shape[1:]), np.float32)
            results[batch.rows.numpy()] = result
    return results


def _filled(x: Tensor, rows: int) -> Tensor:
    return x if len(x) == rows else torch.cat([x, x[:1].expand(rows - len(x), *x.shape[1:])])

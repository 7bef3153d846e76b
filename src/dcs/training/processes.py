"""One joint batch over several processes, with the very gradients that one process would have."""

from typing import Any

import torch
from torch import Tensor, nn


class Joint(nn.Module):
    """A model that computes its process's share of a batch and is handed the rest by the other processes.

    Every process calls it with the same joint batch, computes the same objective on all of it (masks too are
    drawn once, for all samples), and differentiates its own share only: the sum of the processes' gradients
    is that of one process with the joint batch.

    Args:
        model: The model, wrapped for data-parallel training.
        rank: Of this process.
        count: Of processes.
    """

    def __init__(self, model: nn.Module, rank: int, count: int) -> None:
        super().__init__()
        self.model, self.rank, self.count = model, rank, count

    def forward(self, x: Tensor) -> Tensor:
        """Predict all of x."""
        n = len(x)
        share = -(-n // self.count)
        # The last shares may lack samples, and are filled up with others whose predictions are not used.
        rows = torch.arange(self.rank * share, (self.rank + 1) * share, device=x.device) % n
        own = self.model(x.index_select(0, rows))
        parts = [torch.empty_like(own) for _ in range(self.count)]
        torch.distributed.all_gather(parts, own.detach().contiguous())
        parts[self.rank] = own
        return torch.cat(parts)[:n]


def any_process(flag: bool, accelerator: Any) -> bool:
    """Whether the flag is set in any process; all must ask."""
    if accelerator.num_processes == 1:
        return flag
    flags = torch.tensor([float(flag)], device=accelerator.device)
    torch.distributed.all_reduce(flags, torch.distributed.ReduceOp.MAX)
    return bool(flags.item())

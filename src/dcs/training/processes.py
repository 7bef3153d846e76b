"""One joint batch over several processes, with the very gradients that one process would have."""

import contextlib
import gc
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from dcs.training.run import RunError

_T = TypeVar("_T")


class Joint(nn.Module):
    """A model that computes its process's share of a batch and is handed the rest by the other processes.

    Every process calls it with the same joint batch, computes the same objective on all of it (masks too are
    drawn once, for all samples), and differentiates its own share only: the sum of the processes' gradients
    is that of one process with the joint batch.

    Args:
        model: The model, on its device.
        accelerator: Accelerate's engine.
    """

    def __init__(self, model: nn.Module, accelerator: Any) -> None:
        super().__init__()
        device = accelerator.device
        here = [device] if device.type == "cuda" else None
        self.model = nn.parallel.DistributedDataParallel(model, device_ids=here)
        self.rank, self.count = accelerator.process_index, accelerator.num_processes

    def forward(self, x: Tensor) -> Tensor:
        """Predict all of x."""
        n = len(x)
        share = -(-n // self.count)
        # The last shares may lack samples, and are filled up with others whose predictions are not used.
        rows = torch.arange(self.rank * share, (self.rank + 1) * share, device=x.device) % n
        own = self.model(x.index_select(0, rows)).to(x.dtype)
        if own.requires_grad:
            # Gradients are averaged over processes, but theirs add up to that of the joint batch.
            own.register_hook(lambda gradient: gradient * self.count)
        parts = [torch.empty_like(own) for _ in range(self.count)]
        torch.distributed.all_gather(parts, own.detach().contiguous())
        parts[self.rank] = own
        return torch.cat(parts)[:n]


@contextlib.contextmanager
def together(accelerator: Any) -> Iterator[None]:
    """Say so where another process has ended, in place of what the network layer says."""
    try:
        yield
    except RuntimeError as error:
        if accelerator.num_processes > 1 and re.search("gloo|nccl", str(error), re.IGNORECASE):
            raise RunError(
                "another process of this training has ended, see what it said: start all again with --resume "
                "to go on from the last checkpoint"
            ) from error
        raise


def is_main() -> bool:
    """Whether this is the first, or only, of the processes that `torchrun` and the like have started."""
    return int(os.environ.get("RANK", "0")) == 0


def leave() -> None:
    """Part from the other processes, if there are any; a program does so before it ends."""
    if torch.distributed.is_initialized():
        gc.collect()  # what still holds on to the group would abort the process at its end
        torch.distributed.destroy_process_group()


def agree(module: nn.Module, accelerator: Any) -> None:
    """Give a module the main process's parameters and buffers in all processes."""
    if accelerator.num_processes > 1:
        for value in module.state_dict().values():
            torch.distributed.broadcast(value, src=0)


def average_gradients(parameters: Iterable[nn.Parameter], accelerator: Any) -> None:
    """Average the gradients of parameters that are not in a `Joint` model over the processes."""
    if accelerator.num_processes > 1:
        for parameter in parameters:
            if parameter.grad is not None:
                torch.distributed.all_reduce(parameter.grad)
                parameter.grad /= accelerator.num_processes


def from_main(value: _T, accelerator: Any) -> _T:
    """The value that the main process has; all must ask."""
    box = [value]
    if accelerator.num_processes > 1:
        torch.distributed.broadcast_object_list(box, src=0)
    return box[0]


def any_process(flag: bool, accelerator: Any) -> bool:
    """Whether the flag is set in any process; all must ask."""
    if accelerator.num_processes == 1:
        return flag
    flags = torch.tensor([float(flag)], device=accelerator.device)
    torch.distributed.all_reduce(flags, torch.distributed.ReduceOp.MAX)
    return bool(flags.item())

"""One joint batch over several processes, with the very gradients that one process would have."""

import contextlib
import gc
import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from dcs.objectives.self_supervised import encode
from dcs.training.run import RunError

_T = TypeVar("_T")


class Joint(nn.Module):
    """A model that computes its process's share of a batch and is handed the rest by the other processes.

    Every process calls it with the same joint batch, computes the same objective on all of it (masks too are
    drawn once, for all samples), and differentiates its own share only: the sum of the processes' gradients
    is that of one process with the joint batch.

    Gradients are left to `average_gradients`, for a self-supervised objective calls the parts of a model, and
    some of them never.

    Args:
        model: The model, on its device; it gets the main process's weights.
        accelerator: Accelerate's engine.
    """

    def __init__(self, model: nn.Module, accelerator: Any) -> None:
        super().__init__()
        agree(model, accelerator)
        self.module = model
        self.rank, self.count = accelerator.process_index, accelerator.num_processes

    def forward(self, x: Tensor) -> Tensor:
        """Predict all of x."""
        return self.share(self.module, x)

    def encode(self, x: Tensor) -> Tensor:
        """Compute the features of all of x."""
        return self.share(partial(encode, self.module), x)

    def decode(self, features: Tensor) -> Tensor:
        """Predict from all features, as `encode` gave them."""
        decode: Callable[[Tensor], Tensor] = self.module.decode  # type: ignore[assignment]
        return self.share(decode, features, shared=True)

    def share(self, call: Callable[[Tensor], Tensor], x: Tensor, *, shared: bool = False) -> Tensor:
        """Compute a call for this process's share of x, and have the rest from the other processes.

        Args:
            call: What to compute.
            x: The joint batch.
            shared: Whether x itself comes from `share`, which scales gradients already.
        """
        n = len(x)
        share = -(-n // self.count)
        first = min(self.rank * share, n - 1)  # a share without samples has one that is not used
        rows = slice(first, max(first + 1, min((self.rank + 1) * share, n)))
        given = x[rows]
        if shared and given.requires_grad:
            given.register_hook(lambda gradient: gradient / self.count)
        own = call(given).to(x.dtype)
        # Shares are gathered at one length; what the last ones lack is filled up, and left out below.
        if len(own) < share:
            own = torch.cat([own, own.new_zeros(share - len(own), *own.shape[1:])])
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


def agree_buffers(modules: Iterable[nn.Module], accelerator: Any) -> None:
    """Give modules the main process's buffers, such as running statistics, in all processes."""
    if accelerator.num_processes > 1:
        for module in modules:
            for buffer in module.buffers():
                torch.distributed.broadcast(buffer, src=0)


def average_gradients(parameters: Iterable[nn.Parameter], accelerator: Any) -> None:
    """Average the gradients of parameters over the processes, all of one type at once."""
    if accelerator.num_processes == 1:
        return
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    for dtype in dict.fromkeys(gradient.dtype for gradient in gradients):
        of_type = [gradient for gradient in gradients if gradient.dtype == dtype]
        flat = torch.cat([gradient.flatten() for gradient in of_type])
        torch.distributed.all_reduce(flat)
        flat /= accelerator.num_processes
        parts = flat.split([gradient.numel() for gradient in of_type])
        for gradient, part in zip(of_type, parts, strict=True):
            gradient.copy_(part.view_as(gradient))


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

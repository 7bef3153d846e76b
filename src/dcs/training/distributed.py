"""Training in several processes, as `torchrun` starts them, by torch's DistributedDataParallel."""

import contextlib
import gc
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from dcs import models
from dcs.objectives import Objective
from dcs.training.checkpoint import RunError

_T = TypeVar("_T")


class Group(NamedTuple):
    """The processes of a training, seen from one of them. Every process must make the same calls.

    Args:
        device: Device of this process.
        rank: Number of this process; process 0 writes files and measures.
        world_size: Number of processes.
    """

    device: torch.device
    rank: int = 0
    world_size: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this is process 0."""
        return self.rank == 0

    def broadcast(self, value: _T) -> _T:
        """Return the value of process 0; that of the others is ignored."""
        box = [value]
        if self.world_size > 1:
            distributed.broadcast_object_list(box, src=0, device=self.device)
        return box[0]

    def broadcast_tensors(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite tensors with those of process 0."""
        for tensor in tensors if self.world_size > 1 else ():
            distributed.broadcast(tensor, src=0)

    def sum(self, value: float) -> float:
        """Return the sum of a number over all processes."""
        if self.world_size == 1:
            return value
        total = torch.tensor(value, dtype=torch.float64, device=self.device)
        distributed.all_reduce(total)
        return float(total)

    def gather(self, values: dict[int, float]) -> dict[int, float]:
        """Return the numbers of all processes by their keys, which differ between processes."""
        found: list[dict[int, float]] = [values] * self.world_size
        if self.world_size > 1:
            distributed.all_gather_object(found, values)
        return {key: value for each in found for key, value in each.items()}

    def seed(self, seed: int, step: int | None = None) -> int:
        """Return the seed of this process, in a step if one is given; process 0 without a step has `seed`."""
        if step is None and self.is_main:
            return seed
        key = (self.rank, 0 if step is None else step + 1)
        return int(np.random.SeedSequence(seed, spawn_key=key).generate_state(1, np.uint64)[0])

    def parallel(self, loss: "Loss", *, find_unused: bool) -> nn.Module:
        """Wrap a loss so that each backward pass averages gradients over the processes.

        All processes get the parameters and buffers of process 0. With `find_unused`, some parameters may
        take no part in the loss.
        """
        if self.world_size == 1:
            return loss
        parallel = DistributedDataParallel(loss, find_unused_parameters=find_unused)
        # After its first backward pass, DistributedDataParallel rearranges gradients in the order in which
        # they arrive, which changes the rounding of sums over three or more processes. Let it do so before
        # training, so that a resumed training has the same sums from its first step on.
        parallel(None).backward()
        loss.zero_grad()
        return parallel


class Loss(nn.Module):
    """A model and an objective, which may call any part of it, as one module that returns the loss."""

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, x: Tensor | None, *given: Any, **options: Any) -> Tensor:
        """Compute the loss; without samples 0, with a gradient of 0 for every parameter."""
        if x is None:
            zeros = [0 * parameter.sum() for parameter in self.parameters() if parameter.requires_grad]
            return torch.stack([zero.float() for zero in zeros]).sum()
        return self.objective(self.model, x, *given, **options)


def start(device: str) -> Group:
    """Join the other processes, if `torchrun` or a similar launcher has started several.

    A process group that the caller has initialised is used as it is.

    Args:
        device: `cpu`, or `auto` for the accelerator of this process, if there is one.
    """
    chosen, several = models.device_named(device), _is_started()
    if not several and int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return Group(chosen)
    if chosen.type == "cuda":
        local, found = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
        if local >= found:
            raise ValueError(f"there are {found} GPUs for more processes: start {found} per node")
        chosen = torch.device("cuda", local)
        torch.cuda.set_device(chosen)
    if not several:
        distributed.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    return Group(chosen, distributed.get_rank(), distributed.get_world_size())


def is_main() -> bool:
    """Whether this is process 0, or the only one."""
    return int(distributed.get_rank() if _is_started() else os.environ.get("RANK", "0")) == 0


def leave() -> None:
    """Leave the process group, if there is one; a program does so before it ends."""
    if _is_started():
        gc.collect()  # an object that still holds the group would abort the process at its end
        distributed.destroy_process_group()


def _is_started() -> bool:
    return bool(distributed.is_available() and distributed.is_initialized())


@contextlib.contextmanager
def explained_errors(group: Group) -> Iterator[None]:
    """Replace torch's errors of several processes by one that names the cause and the remedy."""
    try:
        yield
    except RuntimeError as error:
        if group.world_size == 1:
            raise
        if re.search("gloo|nccl", str(error), re.IGNORECASE):
            raise RunError(
                "another process of this training has ended, see its message: start all processes again "
                "with --resume to continue from the last checkpoint"
            ) from error
        if "finished reduction in the prior iteration" in str(error):
            raise ValueError(
                "some parameters take no part in the loss, which several processes do not support: freeze "
                "them with requires_grad_(False), or set predicts = False on the objective"
            ) from error
        raise

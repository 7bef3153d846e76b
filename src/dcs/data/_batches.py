"""Batches: by index from memory, or through a DataLoader from disk."""

import signal
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from dcs._checks import check_bool, check_generator, check_integer
from dcs.data._dataset import DataError, Samples


class Batch(NamedTuple):
    """Some samples, and which they are."""

    x: Tensor
    rows: Tensor  # on the CPU
    joint_size: int  # of the batch over all ranks, of which these are a slice
    pair: Tensor | None = None


class Batches:
    """Iterate over samples in batches, epoch by epoch.

    A tensor is moved to the device once, and batches are gathered there by index, without worker processes.
    `Samples` are read by a DataLoader, ahead of time if it has workers.

    Args:
        x: (n, ...), a tensor or `Samples`, such as the `x` of a `Split`.
        batch_size: Samples per batch, over all ranks; the last batch of an epoch may have fewer.
        device: Device of the batches.
        drop_last: Whether to leave out a last batch that is not full, unless it is the only one.
        workers: Processes that read `Samples` ahead; 0 reads when a batch is requested. None: as many as the
            machine has processors, at most 4; 0 for a torch data set, which may not be safe to fork.
        rows: Indices of the samples to use, (m,), if not all.
        rank: Number of this process, which gets its slice of each batch and reads nothing else.
        world_size: Number of processes. Slices differ by one sample at most; a last batch with fewer samples
            than processes is left out.
        pair: Second observation of the same samples, of x's shape, that is read beside them.

    Example:
        >>> batches = Batches(torch.arange(5.0)[:, None], 2)
        >>> [batch.rows.tolist() for batch in batches.epoch()]
        [[0, 1], [2, 3], [4]]
        >>> [batch.rows.tolist() for batch in batches.epoch(torch.Generator().manual_seed(0), start=1)]
        [[1, 3], [2]]
    """

    def __init__(
        self,
        x: Tensor | Samples,
        batch_size: int = 256,
        *,
        device: torch.device | str = "cpu",
        drop_last: bool = False,
        workers: int | None = None,
        rows: Tensor | None = None,
        rank: int = 0,
        world_size: int = 1,
        pair: Tensor | Samples | None = None,
    ) -> None:
        check_integer("batch_size", batch_size, at_least=1)
        check_integer("world_size", world_size, at_least=1)
        check_integer("rank", rank, at_least=0, at_most=world_size - 1)
        if workers is not None:
            check_integer("workers", workers, at_least=0)
        if not isinstance(x, Tensor | Samples):
            raise TypeError(
                f"x must be a tensor or Samples, got {type(x).__name__}: use dcs.data.load(x).train.x"
            )
        if not x.shape or not x.shape[0]:
            raise ValueError(f"x must be (n, ...) with at least one sample, got shape {tuple(x.shape)}")
        check_bool("drop_last", drop_last)
        try:
            self.device = torch.empty(0, device=device).device
        except (RuntimeError, TypeError, AssertionError) as error:
            raise ValueError(f"device {device!r} cannot be used: {str(error).splitlines()[0]}") from error
        self.x = x.to(self.device) if isinstance(x, Tensor) else x
        self.pair = pair.to(self.device) if isinstance(pair, Tensor) else pair
        self.rows = torch.arange(x.shape[0]) if rows is None else rows
        if not len(self.rows):
            raise ValueError("rows is empty: at least one sample is needed")
        self.batch_size = min(batch_size, len(self.rows))
        if self.batch_size < world_size:
            raise ValueError(
                f"a batch of {self.batch_size} samples is too small for {world_size} processes: use a larger "
                f"batch_size, more samples, or fewer processes"
            )
        self.rank, self.world_size = rank, world_size
        self.drop_last = drop_last
        self.workers = workers

    def __len__(self) -> int:
        """Batches per epoch."""
        full, rest = divmod(len(self.rows), self.batch_size)
        return full + (rest >= self.world_size and not self.drop_last)

    def epoch(self, generator: Generator | None = None, *, start: int = 0) -> Iterator[Batch]:
        """Yield the batches of one epoch.

        Args:
            generator: Generator of the order and of a seed for workers; None keeps the order of the data.
            start: Number of batches to skip, as when a run is resumed; the others are the same.
        """
        check_generator(generator, torch.device("cpu"))
        check_integer("start", start, at_least=0, at_most=len(self))
        return self._epoch(generator, start)

    def _epoch(self, generator: Generator | None, start: int) -> Iterator[Batch]:
        n = len(self.rows)
        order, seed = self.rows, None
        if generator is not None:
            if isinstance(self.x, Samples):
                order = self.x.shuffled(order, generator)
            else:
                order = order[torch.randperm(n, generator=generator)]
            # Drawn in any case, so that what follows does not depend on where the data is.
            seed = int(torch.randint(2**62, (), generator=generator))
        index = self._slices(order, start)
        read = [
            map(partial(one.index_select, 0), self._slices(order.to(self.device), start))
            if isinstance(one, Tensor)
            else self._streamed(one, index, seed)
            for one in (self.x, self.pair)
            if one is not None
        ]
        for number, (rows, x, *pair) in enumerate(zip(index, *read, strict=True), start):
            yield Batch(x, rows, min(self.batch_size, n - number * self.batch_size), *pair)

    def _slices(self, order: Tensor, start: int) -> list[Tensor]:
        """The rows of this rank in each batch."""
        batches = order.split(self.batch_size)[start : len(self)]
        return [rows.tensor_split(self.world_size)[self.rank] for rows in batches]

    def _streamed(self, samples: Samples, index: list[Tensor], seed: int | None) -> Iterator[Tensor]:
        """Read samples; with a seed, those of an epoch."""
        samples = samples if seed is None else samples.for_epoch(seed)
        workers = samples.default_workers() if self.workers is None else self.workers
        loader: DataLoader[Any] = DataLoader(
            _Reader(samples),
            batch_sampler=[rows.tolist() for rows in index],
            num_workers=min(workers, len(index)),
            collate_fn=_as_it_is,
            pin_memory=self.device.type == "cuda",
            worker_init_fn=_leave_signals_to_the_parent,
            generator=torch.Generator().manual_seed(seed or 0),
        )
        for x in loader:
            if isinstance(x, Exception):
                raise x
            yield x.to(self.device, non_blocking=True)


class _Reader(TorchDataset[Tensor]):
    """Reads whole batches; an error comes back as it is, not wrapped in the worker's traceback."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples

    def __getitems__(self, indices: list[int]) -> Tensor | Exception:
        try:
            return self.samples.read(indices)
        except (DataError, OSError) as error:
            return error


def _leave_signals_to_the_parent(_: int) -> None:
    """Ctrl-C and the like go to all processes of a group; the parent ends its workers when it is done."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _as_it_is(batch: Any) -> Any:
    """What `_Reader` returned is a batch already."""
    return batch

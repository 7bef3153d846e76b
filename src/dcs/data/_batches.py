"""Batches: by index from memory, or through a DataLoader from disk."""

import signal
from collections.abc import Iterator
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


class Batches:
    """The batches of some samples, epoch by epoch.

    A tensor is moved to the device once, and batches are gathered there by index: no copies from sample to
    sample, no worker processes. `Samples` are read by a DataLoader, ahead of time if it has workers.

    Args:
        x: (n, ...), a tensor or `Samples`, such as the `x` of a `Split`.
        batch_size: Samples a batch; the last one of an epoch may have fewer.
        device: Where batches are wanted.
        drop_last: Leave out a last batch that is not full, unless it is the only one.
        workers: Processes that read `Samples` ahead; 0 reads when a batch is asked for. None: as many as the
            machine has processors, at most 4; 0 for a data set of torch's, which may not bear being forked.
        rows: Which samples to use, (m,), if not all.

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
    ) -> None:
        check_integer("batch_size", batch_size, at_least=1)
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
        self.rows = torch.arange(x.shape[0]) if rows is None else rows
        if not len(self.rows):
            raise ValueError("rows is empty: at least one sample is needed")
        self.batch_size = min(batch_size, len(self.rows))
        self.drop_last = drop_last
        self.workers = workers

    def __len__(self) -> int:
        """Batches an epoch."""
        full, rest = divmod(len(self.rows), self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    def epoch(self, generator: Generator | None = None, *, start: int = 0) -> Iterator[Batch]:
        """Yield the batches of one epoch.

        Args:
            generator: Draws the order, and a seed for workers; None keeps the order of the data.
            start: How many batches to leave out, as when a run is resumed; the others are the same.
        """
        check_generator(generator, torch.device("cpu"))
        check_integer("start", start, at_least=0, at_most=len(self))
        return self._epoch(generator, start)

    def _epoch(self, generator: Generator | None, start: int) -> Iterator[Batch]:
        n = len(self.rows)
        order = self.rows if generator is None else self.rows[torch.randperm(n, generator=generator)]
        # Drawn in any case, so that what follows does not depend on where the data is.
        seed = 0 if generator is None else int(torch.randint(2**62, (), generator=generator))
        index = order.split(self.batch_size)[start : len(self)]
        if isinstance(self.x, Samples):
            yield from self._streamed(self.x, index, seed)
        else:
            there = order.to(self.device).split(self.batch_size)[start : len(self)]
            for rows, rows_there in zip(index, there, strict=True):
                yield Batch(self.x.index_select(0, rows_there), rows)

    def _streamed(self, samples: Samples, index: tuple[Tensor, ...], seed: int) -> Iterator[Batch]:
        workers = samples.default_workers() if self.workers is None else self.workers
        loader: DataLoader[Any] = DataLoader(
            _Reader(samples),
            batch_sampler=[rows.tolist() for rows in index],
            num_workers=min(workers, len(index)),
            collate_fn=_as_it_is,
            pin_memory=self.device.type == "cuda",
            worker_init_fn=_leave_signals_to_the_parent,
            generator=torch.Generator().manual_seed(seed),
        )
        for rows, x in zip(index, loader, strict=True):
            if isinstance(x, Exception):
                raise x
            yield Batch(x.to(self.device, non_blocking=True), rows)


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

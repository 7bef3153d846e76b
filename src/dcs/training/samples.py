"""The samples of a training: batches to train on, held-out batches, and one batch to measure."""

import operator
from collections.abc import Iterator, Mapping

import torch
from torch import Generator, Tensor

from dcs.data import Batch, Batches, Samples, check_lengths, valid_entries
from dcs.training.config import TrainingConfig
from dcs.training.distributed import Group
from dcs.training.meters import PARTS
from dcs.training.optimizer import held_out_samples

_MEASURED = 512
_FEWEST_GROUPS = 10
Inputs = tuple[Tensor, Tensor | None, Tensor | None]  # samples, pairs, and which entries are not padding


class TrainingSamples:
    """Split samples into training and held-out ones, and give each process its share of both.

    With `full_batches`, an epoch's last batch is left out if it is not full, and held-out batches are as
    large as training batches.
    """

    def __init__(
        self,
        x: Tensor | Samples,
        pair: Tensor | Samples | None,
        lengths: Tensor | None,
        config: TrainingConfig,
        group: Group,
        *,
        full_batches: bool,
    ) -> None:
        if pair is not None and tuple(pair.shape) != tuple(x.shape):
            raise ValueError(f"pair must have the shape of x, {tuple(x.shape)}, got {tuple(pair.shape)}")
        if lengths is not None:
            check_lengths(lengths, x.shape)
        self.lengths, self.group = lengths, group
        # All processes draw the same order.
        self.order = Generator().manual_seed(config.seed)
        rows = torch.randperm(x.shape[0], generator=self.order)
        groups = x.groups() if isinstance(x, Samples) else None
        if groups is not None and int(groups.max()) >= _FEWEST_GROUPS:  # whole groups are held out
            draw = torch.randperm(int(groups.max()) + 1, generator=self.order)
            rows = rows[draw[groups[rows]].argsort(stable=True)]
        held_out = held_out_samples(config, x.shape[0])
        self.batches = Batches(
            x,
            config.batch_size,
            device=group.device,
            rows=rows[held_out:],
            drop_last=full_batches,
            rank=group.rank,
            world_size=group.world_size,
            pair=pair,
        )
        self.x, self.pair = self.batches.x, self.batches.pair
        self.held_out = rows[:held_out]
        self.held_out_size = config.batch_size
        if config.patience is not None and not full_batches:  # `Stopping` compares the losses of parts
            self.held_out_size = min(config.batch_size, -(-held_out // PARTS))
        self._measured = rows[:_MEASURED] if held_out >= 2 else rows[held_out:][:_MEASURED]

    @property
    def trained(self) -> int:
        """Number of samples in an epoch, over all processes."""
        return min(len(self.batches.rows), len(self.batches) * self.batches.batch_size)

    def inputs(self, batch: Batch) -> Inputs:
        """Return the arguments of an objective for a batch."""
        return batch.x, batch.pair, self._valid(batch.rows)

    def measured(self) -> Inputs:
        """Return the arguments of an objective for the batch that is measured after each epoch."""
        rows = self._measured
        (batch,) = Batches(
            self.x, len(rows), device=self.group.device, rows=rows, workers=0, pair=self.pair
        ).epoch()
        return self.inputs(batch)

    def spread(self, count: int) -> tuple[Tensor, Tensor | None]:
        """Return some samples, spread over all, since data is often sorted by class, and what is not padding.

        Process 0 reads them for all processes.
        """
        n = self.x.shape[0]
        rows = torch.linspace(0, n - 1, min(n, count), dtype=torch.float64).long()
        if not isinstance(self.x, Samples):
            return self.x.index_select(0, rows.to(self.x.device)), self._valid(rows)
        x = self.group.broadcast(self.x.read(rows.tolist()) if self.group.is_main else torch.empty(0))
        return x.to(self.group.device), self._valid(rows)

    def held_out_batches(self) -> Iterator[tuple[int, Inputs]]:
        """Yield the held-out batches of this process, which are its share, each with its number."""
        parts = self.held_out.split(self.held_out_size)[self.group.rank :: self.group.world_size]
        if not parts:
            return
        batches = Batches(
            self.x, len(parts[0]), device=self.group.device, rows=torch.cat(parts), pair=self.pair
        )
        for index, batch in enumerate(batches.epoch()):
            yield self.group.rank + index * self.group.world_size, self.inputs(batch)

    def held_out_mean(self, losses: Mapping[int, float]) -> tuple[float, Tensor]:
        """Return the mean of the losses of all held-out batches, by number, and the losses of full ones."""
        ordered = [losses[number] for number in range(len(losses))]
        sizes = [len(part) for part in self.held_out.split(self.held_out_size)]
        full = sizes.count(sizes[0])  # a last, smaller batch would weigh too much
        return sum(map(operator.mul, ordered, sizes)) / sum(sizes), torch.tensor(ordered[:full])

    def _valid(self, rows: Tensor) -> Tensor | None:
        """Which entries of some samples are not padding; None if there is no padding."""
        if self.lengths is None:
            return None
        lengths = self.lengths[rows.to(self.lengths.device)].to(self.group.device)
        return valid_entries(lengths, self.x.shape[1:])

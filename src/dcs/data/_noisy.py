"""Noise on top of clean data: drawn once, or anew in each epoch."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from torch import Tensor

from dcs._checks import check_number
from dcs.data._dataset import DataError, Dataset, Samples, Split
from dcs.data.windows import CentralWindows, ListItems
from dcs.noise import IsotropicNoise, add

if TYPE_CHECKING:
    from dcs.data._reading import NoiseSpec

Noise = str | tuple[str | IsotropicNoise, float]


class Law(NamedTuple):
    """Noise to add; see `dcs.noise.add`."""

    kind: str | IsotropicNoise
    strength: float
    clip: bool = False
    fresh: bool = False

    @classmethod
    def of(cls, noise: Noise) -> "Law":
        """Check noise before anything is read or downloaded."""
        if isinstance(noise, tuple) and len(noise) == 2 and isinstance(noise[0], IsotropicNoise):
            check_number("strength of noise", noise[1], at_least=0)
            return cls(*noise)
        from dcs.data._reading import NoiseSpec

        spec = NoiseSpec.of(noise)  # type: ignore[arg-type]
        return cls(spec.kind, spec.strength, spec.clip, spec.fresh)

    def add(self, x: Tensor, seed: int) -> Tensor:
        """Return a noisy copy."""
        return add(x, self.kind, self.strength, seed, clip=self.clip)


def with_noise(data: Dataset, law: Law, seed: int) -> Dataset:
    """Return data with noise, drawn once, in both splits."""

    def noisy(split: Split, number: int) -> Split:
        own_seed = int(np.random.SeedSequence(seed, spawn_key=(number,)).generate_state(1, np.uint64)[0] >> 1)
        if isinstance(split.x, CentralWindows) and isinstance(split.items, ListItems):
            each = enumerate(split.items.tensors)
            items = ListItems([law.add(one[None], own_seed + row)[0] for row, one in each], split.items.ndim)
            return replace(split, x=CentralWindows(items, split.x.window), items=items)
        if not isinstance(split.x, Tensor):
            raise DataError(
                f"noise is added in memory, but {data.name} is read from disk batch by batch: pass "
                f"resident=True if it fits, or add the noise to the files"
            )
        return replace(split, x=law.add(split.x, own_seed), clean=split.x)

    test = None if data.test is None else noisy(data.test, 1)
    return replace(data, train=noisy(data.train, 0), test=test)


class FreshNoise(Samples):
    """Samples whose noise is drawn anew in each epoch; outside of epochs, that which was drawn once.

    Args:
        x: Noisy samples.
        clean: The same samples without noise.
        add: Function of clean samples and a seed that returns noisy ones.
        epoch: Seed of the epoch; None for the noise that was drawn once.
    """

    def __init__(
        self, x: Tensor, clean: Tensor, add: Callable[[Tensor, int], Tensor], epoch: int | None = None
    ) -> None:
        self.x, self.clean, self.add, self.epoch = x, clean, add, epoch
        self.shape = tuple(x.shape)

    def default_workers(self) -> int:
        """Return 0: drawing noise is quick."""
        return 0

    def for_epoch(self, seed: int) -> "FreshNoise":
        """Return the samples with other noise."""
        return FreshNoise(self.x, self.clean, self.add, seed)

    def read(self, indices: Sequence[int]) -> Tensor:
        """Return some samples; the noise of a batch depends on the epoch and on its first sample."""
        if self.epoch is None or not len(indices):
            return self.x[list(indices)]
        return self.add(self.clean[list(indices)], (self.epoch + int(indices[0])) % 2**63)


def freshened(split: Split, noise: "Law | NoiseSpec") -> Split:
    """Return a split whose noise is drawn anew in each epoch of a training."""
    if not isinstance(split.x, Tensor) or split.clean is None:
        raise DataError("fresh noise is for samples of one size in memory: leave out :fresh")
    law = noise if isinstance(noise, Law) else Law(noise.kind, noise.strength, noise.clip)
    return replace(split, x=FreshNoise(split.x, split.clean, law.add))

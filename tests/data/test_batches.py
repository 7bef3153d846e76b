"""Batches from memory and from disk: each sample once an epoch, the same either way, and resumable."""

import os
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dcs.data import Batches, DataError, load


def rows_of(batches, **how):
    return [batch.rows.tolist() for batch in batches.epoch(**how)]


@given(n=st.integers(1, 40), size=st.integers(1, 50), drop=st.booleans(), seed=st.none() | st.integers(0, 99))
@settings(max_examples=60)
def test_each_sample_once(n, size, drop, seed):
    x = torch.arange(float(n))[:, None] * torch.ones(3)
    batches = Batches(x, size, drop_last=drop)
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    seen = []
    count = 0
    for batch in batches.epoch(generator):
        assert torch.equal(batch.x, x[batch.rows])
        assert len(batch.x) == min(size, n) or (count == len(batches) - 1 and not drop)
        seen += batch.rows.tolist()
        count += 1
    assert count == len(batches) > 0
    kept = n // min(size, n) * min(size, n) if drop else n
    assert len(seen) == len(set(seen)) == kept
    if seed is None:
        assert seen == list(range(kept))


@given(n=st.integers(1, 40), size=st.integers(1, 50), world_size=st.integers(1, 5), drop=st.booleans())
@settings(max_examples=60)
def test_ranks_share_each_batch(n, size, world_size, drop):
    x = torch.arange(float(n))[:, None]
    if min(n, size) < world_size:
        with pytest.raises(
            ValueError, match=f"too small for {world_size} processes: use a larger batch_size"
        ):
            Batches(x, size, rank=world_size - 1, world_size=world_size)
        return
    whole = rows_of(Batches(x, size, drop_last=drop), generator=torch.Generator().manual_seed(1))
    ranks = []
    for rank in range(world_size):
        batches = Batches(x, size, drop_last=drop, rank=rank, world_size=world_size)
        ranks.append(list(batches.epoch(torch.Generator().manual_seed(1))))
        assert len(batches) == len(ranks[-1])
        assert all(torch.equal(batch.x, x[batch.rows]) for batch in ranks[-1])
        rest = list(batches.epoch(torch.Generator().manual_seed(1), start=len(batches) - 1))
        assert torch.equal(rest[0].rows, ranks[-1][-1].rows)
        assert rest[0].joint_size == ranks[-1][-1].joint_size
    joint = [[row for part in parts for row in part.rows.tolist()] for parts in zip(*ranks, strict=True)]
    assert joint == [rows for rows in whole if len(rows) >= world_size]
    for rows, parts in zip(joint, zip(*ranks, strict=True), strict=True):
        sizes = [len(part.rows) for part in parts]
        assert min(sizes) >= max(1, max(sizes) - 1)
        assert {part.joint_size for part in parts} == {len(rows)}


def test_order_comes_from_the_generator():
    batches = Batches(torch.rand(100, 2), 10)
    one, two = (rows_of(batches, generator=torch.Generator().manual_seed(1)) for _ in range(2))
    assert one == two
    generator = torch.Generator().manual_seed(1)
    assert rows_of(batches, generator=generator) == one
    assert rows_of(batches, generator=generator) != one  # the next epoch has another order


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("shuffled", [False, True])
def test_memory_and_disk_agree(tmp_path, workers, shuffled):
    array = np.random.default_rng(0).integers(0, 256, (50, 3, 4)).astype(np.uint8)
    np.save(tmp_path / "a.npy", array)
    epochs = []
    for resident in (True, False):
        batches = Batches(load(tmp_path / "a.npy", resident=resident).train.x, 8, workers=workers)
        generator = torch.Generator().manual_seed(5) if shuffled else None
        epochs.append([list(batches.epoch(generator)), list(batches.epoch(generator, start=3))])
        if generator is not None:
            epochs[-1].append(generator.get_state())  # what comes after does not depend on where the data is
    for here, there in zip(*(epoch[0] + epoch[1] for epoch in epochs), strict=True):
        assert torch.equal(here.x, there.x)
        assert torch.equal(here.rows, there.rows)
    if shuffled:
        assert torch.equal(epochs[0][2], epochs[1][2])


def test_a_resumed_epoch_goes_on_as_it_would_have(tmp_path):
    batches = Batches(torch.rand(20, 2), 3)
    whole = rows_of(batches, generator=torch.Generator().manual_seed(0))
    for start in range(len(batches) + 1):
        assert rows_of(batches, generator=torch.Generator().manual_seed(0), start=start) == whole[start:]


def test_one_of_several_processes_reads_for_itself(tmp_path):
    """joblib's processes cannot start further ones: trials side by side would end with their first file."""
    np.save(tmp_path / "a.npy", np.arange(12, dtype=np.float32).reshape(6, 2))

    def total(path):
        samples = load(path, resident=False).train.x
        return samples.default_workers(), sum(float(batch.x.sum()) for batch in Batches(samples, 4).epoch())

    assert joblib.Parallel(n_jobs=2)([joblib.delayed(total)(tmp_path / "a.npy")] * 2) == [(0, 66.0)] * 2
    assert load(tmp_path / "a.npy", resident=False).train.x.default_workers() == min(4, os.cpu_count())


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_in_a_worker_is_one_line(tmp_path, workers):
    array = np.zeros((10, 2))
    array[4, 0] = np.nan
    np.save(tmp_path / "a.npy", array)
    batches = Batches(load(tmp_path / "a.npy", resident=False).train.x, 2, workers=workers)
    with pytest.raises(
        DataError, match=r"^\S+a\.npy has 1 NaN, infinite or too large values in row 4"
    ) as caught:
        list(batches.epoch())
    assert "\n" not in str(caught.value)


def test_torch_s_own_state_is_left_alone(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((10, 2)))
    state = torch.get_rng_state()
    for resident in (True, False):
        batches = Batches(load(tmp_path / "a.npy", resident=resident).train.x, 2, workers=1)
        list(batches.epoch(torch.Generator().manual_seed(0)))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"x": [1, 2]}, TypeError, "x must be a tensor or Samples"),
        ({"x": torch.zeros(0, 2)}, ValueError, "at least one sample"),
        ({"x": torch.tensor(1.0)}, ValueError, "at least one sample"),
        ({"drop_last": "no"}, TypeError, "drop_last"),
        ({"device": "nope"}, ValueError, "device 'nope' cannot be used"),
        ({"rows": torch.arange(0)}, ValueError, "rows is empty"),
        ({"batch_size": 0}, ValueError, "batch_size"),
        ({"batch_size": 1.5}, TypeError, "batch_size"),
        ({"workers": -1}, ValueError, "workers"),
        ({"world_size": 0}, ValueError, "world_size"),
        ({"rank": 2, "world_size": 2}, ValueError, "rank"),
    ],
)
def test_bad_arguments(arguments, error, says):
    with pytest.raises(error, match=says):
        Batches(**{"x": torch.zeros(4, 2), **arguments})


def test_bad_epoch_arguments():
    batches = Batches(torch.zeros(4, 2))
    with pytest.raises(TypeError, match="generator"):
        batches.epoch(3)
    for start in (-1, 2):
        with pytest.raises(ValueError, match="start"):
            batches.epoch(start=start)


def test_some_rows_only():
    x = torch.arange(10.0)[:, None]
    batches = Batches(x, 2, rows=torch.tensor([7, 1, 4]))
    assert rows_of(batches) == [[7, 1], [4]]
    shuffled = rows_of(batches, generator=torch.Generator().manual_seed(0))
    assert sorted(row for rows in shuffled for row in rows) == [1, 4, 7]
    for batch in batches.epoch(torch.Generator().manual_seed(1)):
        assert batch.x[:, 0].tolist() == batch.rows.tolist()


def test_a_batch_is_a_copy():
    x = torch.ones(4, 2)
    for batch in Batches(x, 2).epoch():
        batch.x.zero_()
    assert (x == 1).all()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the memory in use from /proc")
@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_mapped_file_does_not_fill_the_memory(tmp_path, workers):
    """An epoch over 1 GiB (a file with a hole, so that little is written): few anonymous pages."""
    code = """
import os, re, sys, torch
from pathlib import Path
from dcs.data import Batches, load
def anonymous():
    workers = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    statuses = [Path(f"/proc/{process}/status").read_text() for process in ("self", *workers)]
    return [int(re.search(r"RssAnon:\\s+(\\d+)", status)[1]) / 1024 for status in statuses]
most, (before,) = 0.0, anonymous()
x = load(sys.argv[1], resident=False).train.x
batches = Batches(x, 256, workers=int(sys.argv[2]))
for number, batch in enumerate(batches.epoch(torch.Generator().manual_seed(0))):
    if number % 16 == 15:
        most = max(most, *anonymous())
print(len(x), most - before)
"""
    array = np.lib.format.open_memmap(tmp_path / "a.npy", mode="w+", dtype=np.float32, shape=(2**16, 2**12))
    del array
    path = str(tmp_path / "a.npy")
    result = subprocess.run(
        [sys.executable, "-c", code, path, workers], capture_output=True, text=True, check=True
    )
    count, growth = result.stdout.split()
    assert int(count) == 2**16
    assert float(growth) < 100, "MiB, for batches of 4 MiB"

import json
import pickle

import h5py
import numpy as np
import pytest
import torch
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from dcs.data import CentralWindows, DataError, Source, load, windowed
from dcs.data._arrays import ArraySamples
from dcs.data.windows import WholeItems

RNG = np.random.default_rng(0)


def store(path, **arrays):
    """Write arrays to a file, with / for __ in their names, and return its path."""
    named = {name.replace("__", "/"): array for name, array in arrays.items()}
    if path.suffix == ".npy":
        np.save(path, next(iter(named.values())))
    elif path.suffix == ".zarr":
        root = zarr.open_group(str(path), mode="w")
        for name, array in named.items():
            root.create_array(name, data=array, chunks=tuple(min(n, 4) for n in array.shape))
    else:
        with h5py.File(path, "w") as file:
            for name, array in named.items():
                file.create_dataset(name, data=array, compression="gzip")
    return path


def fails(function, *needles):
    with pytest.raises(DataError) as caught:
        function()
    for needle in needles:
        assert str(needle) in str(caught.value)


KINDS = [".h5", ".hdf5", ".zarr"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(9, 5), (9, 5, 6), (9, 3, 5, 6), (9, 2, 4, 5, 6)])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "float32", "float64", ">f4"])
def test_arrays_are_read_as_npy_files_are(tmp_path, kind, shape, dtype):
    array = (RNG.random(shape) * 200).astype(dtype)
    file = store(tmp_path / f"a{kind}", data=array)
    expected = load(store(tmp_path / "a.npy", data=array)).train.read(range(9))
    for name in (file, f"{file}::data", f"{file}::/data"):
        assert torch.equal(load(name).train.read(range(9)), expected)
    on_disk = load(file, resident=False).train.x
    assert isinstance(on_disk, ArraySamples if len(shape) < 5 else CentralWindows)  # volumes are items
    rows = [7, 0, 7, 3]
    assert torch.equal(on_disk.read(rows), expected[rows])
    assert on_disk.read([]).shape == (0, *shape[1:])
    again = pickle.loads(pickle.dumps(on_disk))  # noqa: S301
    assert torch.equal(again.read(range(9)), expected)


def stack(batch):
    return torch.stack(tuple(batch))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")  # Python 3.12 and later
@pytest.mark.parametrize("kind", KINDS)
def test_workers_open_the_file_themselves(tmp_path, kind):
    array = RNG.random((12, 5, 6)).astype(np.float32)
    samples = load(store(tmp_path / f"a{kind}", data=array), resident=False).train.x
    samples.read([0])
    loader = DataLoader(samples, batch_size=4, num_workers=2, collate_fn=stack)
    assert np.array_equal(torch.cat(list(loader)), array)


@pytest.mark.parametrize("kind", KINDS)
def test_windows_are_read_alone(tmp_path, kind):
    array = RNG.integers(0, 65536, (2, 3, 90, 80), dtype=np.uint16)
    split = load(store(tmp_path / f"a{kind}", data=array), resident=False).train
    found = pickle.loads(pickle.dumps(windowed(split, (16, 16)).items))  # noqa: S301
    assert (found.sizes, found.channels, found.costly) == ([(90, 80)] * 2, 3, False)
    expected = array[1, :, 10:30, 20:50].astype(np.float32) / np.float32(65535)
    assert np.array_equal(found.region(1, (10, 20), (20, 30)), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_which_array(tmp_path, kind):
    one, two = RNG.random((4, 5)), RNG.random((4, 5, 6))
    file = store(tmp_path / f"a{kind}", raw__noisy=one, raw__clean=two, times=np.arange(4.0))
    fails(
        lambda: load(file),
        file,
        "2 arrays",
        f"a{kind}::raw/clean (4, 5, 6) float64",
        "::raw/noisy",
        "::times",
    )
    assert load(f"{file}::raw/clean").shape == (5, 6)
    fails(lambda: load(f"{file}::raw"), "raw is a group", f"a{kind}::raw/clean (4, 5, 6)")
    fails(lambda: load(f"{file}::raw/other"), file, "no array 'raw/other'", "::raw/noisy")
    fails(lambda: load(f"{file}::times"), f"{file}::times", "shape (4,)")
    only = store(tmp_path / f"b{kind}", deep__est__data=one, times=np.arange(4.0))
    data = load(only)
    assert (data.shape, data.location) == ((5,), only)
    fails(lambda: load(store(tmp_path / f"c{kind}", t=np.arange(3))), "no arrays of numbers", "::t (3,)")


def test_an_array_as_a_store(tmp_path):
    array = RNG.random((4, 5, 6))
    zarr.save_array(str(tmp_path / "a.zarr"), array)
    assert np.array_equal(load(tmp_path / "a.zarr").train.x, array.astype(np.float32))
    assert np.array_equal(load(tmp_path / "a.zarr", axes="ZYX").train.items.whole(0), np.float32(array))


@pytest.mark.parametrize("version", [2, 3])
def test_ome_zarr(tmp_path, version):
    array = RNG.integers(0, 65536, (2, 3, 1, 40, 50), dtype=np.uint16)
    root = zarr.open_group(str(tmp_path / "a.ome.zarr"), mode="w", zarr_format=version)
    root.create_array("0", data=array)
    root.create_array("1", data=array[..., ::2, ::2])
    axes = [{"name": name} for name in "tczyx"]
    image = {"multiscales": [{"axes": axes, "datasets": [{"path": "0"}, {"path": "1"}]}]}
    root.attrs.update({"ome": image} if version == 3 else image)
    found = load(tmp_path / "a.ome.zarr")
    assert found.shape == (3, 40, 50)  # a single plane is a picture
    assert np.array_equal(found.train.x, array[:, :, 0].astype(np.float32) / np.float32(65535))
    assert load(f"{tmp_path / 'a.ome.zarr'}::1", axes="TCZYX").train.items.sizes == [(1, 20, 25)] * 2


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.permutations("STCZYX"), st.integers(2, 6), st.sampled_from([".npy", *KINDS]), st.booleans())
def test_any_order_of_axes(tmp_path, letters, count, kind, resident):
    """Reading with axes is NumPy's transpose, whatever the order and the file."""
    others = [axis for axis in letters if axis not in "YX"][: count - 2]
    axes = "".join(axis for axis in letters if axis in {*others, "Y", "X"})
    lengths = {"S": 2, "T": 3, "C": 2, "Z": 3, "Y": 5, "X": 4}
    array = np.arange(np.prod([lengths[a] for a in axes]), dtype=np.float32)
    array = array.reshape([lengths[axis] for axis in axes])
    first = [axis for axis in axes if axis in "ST"]
    expected = array.transpose([axes.index(axis) for axis in (*first, *"CZYX") if axis in axes])
    expected = expected.reshape(-1, *expected.shape[len(first) :])
    split = load(store(tmp_path / f"a{kind}", data=array), axes=axes, resident=resident).train
    split = pickle.loads(pickle.dumps(split))  # noqa: S301
    if "Z" in axes:
        assert isinstance(split.x, CentralWindows)
        assert split.items.ndim == 3
        found = [split.items.whole(row) for row in range(len(split))]
    else:
        assert isinstance(split.x, torch.Tensor if resident else WholeItems)
        found = list(split.read(range(len(split))))
    assert np.array_equal(np.stack(found), expected)


def test_axes_of_arrays(tmp_path):
    array = RNG.random((5, 6, 7, 3)).astype(np.float32)
    assert np.array_equal(load(array, axes="SYXC").train.x, array.transpose(0, 3, 1, 2))
    assert np.array_equal(load(torch.from_numpy(array), axes="SYXC").train.x, array.transpose(0, 3, 1, 2))
    file = store(tmp_path / "a.h5", data=array)
    fails(lambda: load(file, axes="ZYX"), f"{file}::data", "4 axes", "(5, 6, 7, 3)", 'axes="ZYX" names 3')
    with pytest.raises(ValueError, match="not applicable"):
        load(file, size=4)
    source = Source.of(f"{file}::/data", axes="SYXC")
    assert Source.model_validate_json(source.model_dump_json()).load().shape == (3, 6, 7)


def test_noise_is_added_in_memory(tmp_path):
    file = store(tmp_path / "a.h5", data=np.zeros((4, 20, 30), np.float32))
    for axes in ("SYX", "ZYX"):
        noisy = load(file, axes=axes, noise=("gaussian", 0.5)).train
        found = noisy.x if axes == "SYX" else noisy.items.whole(0)
        assert 0.4 < float(found.std()) < 0.6


@pytest.mark.parametrize("kind", KINDS)
def test_unusable_stores(tmp_path, kind):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load(tmp_path / f"none{kind}::x")
    broken = tmp_path / f"broken{kind}"
    broken.write_bytes(b"not a store")
    fails(lambda: load(broken), broken, "cannot be read as", "intact copy")
    file = store(tmp_path / f"a{kind}", data=np.ones((3, 4), np.complex64))
    fails(lambda: load(f"{file}::data"), f"{file}::data", "complex64", "not real numbers")
    nan = np.ones((3, 4))
    nan[1, 2] = np.nan
    fails(lambda: load(store(tmp_path / f"b{kind}", data=nan)), "row 1", "NaN")
    fails(lambda: load(f"{tmp_path}/c.npz::x"), "c.npz", ".zarr")


def test_a_truncated_file(tmp_path):
    file = store(tmp_path / "a.h5", data=RNG.random((200, 50)))
    file.write_bytes(file.read_bytes()[:-5000])
    fails(lambda: load(file), file, "truncated")


def test_damaged_metadata(tmp_path):
    file = store(tmp_path / "a.zarr", data=RNG.random((9, 5)))
    for found in file.rglob("zarr.json"):
        if "shape" in json.loads(found.read_text()):
            found.write_text("{")
    fails(lambda: load(file), file)

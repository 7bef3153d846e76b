"""Denoised arrays are written as the arrays that were read."""

import h5py
import numpy as np
import pytest
import zarr

from dcs.data import DataError
from dcs.data.array_output import ArrayOutput

RNG = np.random.default_rng(0)


def read(path, key="data"):
    if path.suffix == ".npy":
        return np.load(path)
    if path.suffix == ".zarr":
        return np.asarray(zarr.open(str(path), mode="r"))
    with h5py.File(path) as file:
        return file[key][()]


@pytest.mark.parametrize("suffix", [".npy", ".h5", ".zarr"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "float32", "float64"])
def test_what_is_written_back_is_what_was_read(tmp_path, suffix, dtype):
    values = RNG.integers(0, 100, (3, 21, 34)).astype(dtype)
    np.save(tmp_path / "a.npy", values)
    full = {"uint8": 255, "uint16": 65535}.get(dtype, 1)
    with ArrayOutput(tmp_path / "a.npy", tmp_path / f"b{suffix}", suffix) as output:
        for number, item in enumerate(values):
            for top in (0, 10):
                part = item[top : top + 10 + top].astype(np.float32) / full
                output.write(number, (top, 0), part)
    found = read(tmp_path / f"b{suffix}")
    assert found.dtype == values.dtype
    assert np.array_equal(found, values)


def test_integers_are_rounded_and_clipped(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((1, 1, 4), np.uint8))
    with ArrayOutput(tmp_path / "a.npy", tmp_path / "b.npy", ".npy") as output:
        output.write(0, (0, 0), np.array([[-0.5, 0.5, 0.9999, 7]], np.float32))
        assert np.array(output.array).tolist() == [[[0, 128, 255, 255]]]
        output.write(0, (0, 0), np.stack([np.zeros((1, 4)), np.ones((1, 4))]).astype(np.float32))  # colours
    assert np.load(tmp_path / "b.npy").tolist() == [[[128] * 4]]


def test_axes_of_any_order_and_the_name_of_the_array_are_kept(tmp_path):
    values = RNG.normal(size=(2, 20, 30, 3)).astype(np.float32)  # time, y, x, channels
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["raw/film"] = values
    with ArrayOutput(tmp_path / "a.h5::/raw/film", tmp_path / "b.h5", ".h5", "TYXC") as output:
        assert output.layout.channels == 3
        for number, item in enumerate(values):
            output.write(number, (0, 0), np.moveaxis(item, -1, 0))
    assert np.array_equal(read(tmp_path / "b.h5", "raw/film"), values)


def test_axes_that_do_not_fit_are_named(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((1, 2, 3, 4, 5, 6), np.uint8))
    with pytest.raises(ValueError, match=r"a\.npy has 6 axes: name them with axes="):
        ArrayOutput(tmp_path / "a.npy", tmp_path / "b.npy", ".npy")
    with pytest.raises(DataError, match=r"has 6 axes of lengths .* names 3"):
        ArrayOutput(tmp_path / "a.npy", tmp_path / "b.npy", ".npy", "ZYX")

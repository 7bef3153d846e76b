"""Known data sets in their official layouts, own arrays and tables, noise, and where files are found."""

import gzip
import io
import os
import pickle
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

import dcs
from dcs.data import CATALOGUE, DataError, DataWarning, DownloadError, Samples, load
from tests.official_files import (
    idx_bytes,
    pickled,
    some_images,
    write_cifar10,
    write_cifar100,
    write_esc50,
    write_idx,
    write_pendigits,
    write_tiny_imagenet,
    write_usps_hdf5,
    write_usps_libsvm,
)

CIFAR10 = [b"airplane", b"automobile", b"bird", b"cat", b"deer", b"dog", b"frog", b"horse", b"ship", b"truck"]


@pytest.fixture(autouse=True)
def _no_network(monkeypatch, tmp_path):
    """Nothing outside the test's folder is found or downloaded."""
    monkeypatch.delenv("DCS_DATA", raising=False)
    monkeypatch.setattr("dcs.data._locate.search_folders", _only_given(tmp_path / "nowhere"))


def _only_given(default):
    def search(root):
        named = os.environ.get("DCS_DATA")
        return [Path(root)] if root is not None else [Path(named) if named else default]

    return search


def same(split, x, y, tolerance=0.0):
    assert split.x.dtype == torch.float32
    assert split.y.dtype == torch.int64
    np.testing.assert_allclose(split.x.numpy(), x, rtol=0, atol=tolerance)
    np.testing.assert_array_equal(split.y.numpy(), y)
    assert len(split) == len(x)


class TestKnown:
    @pytest.mark.parametrize("folder", ["mnist", "MNIST/raw"])
    @pytest.mark.parametrize(("packed", "dotted"), [(True, False), (False, False), (False, True)])
    def test_mnist(self, tmp_path, folder, packed, dotted):
        arrays = some_images((28, 28))
        write_idx(tmp_path / folder, arrays, packed, dotted)
        data = load("mnist", root=tmp_path)
        for split in ("train", "test"):
            pixels, labels = arrays[split]
            same(getattr(data, split), pixels.astype(np.float32) / np.float32(255), labels)
        assert data.classes == tuple("0123456789")
        assert "LeCun" in data.citation
        assert data.location == tmp_path / folder

    def test_fashion_is_not_taken_for_mnist(self, tmp_path):
        arrays = some_images((28, 28))
        write_idx(tmp_path / "fashion-mnist", arrays)
        assert load("fashion-mnist", root=tmp_path).classes[9] == "Ankle boot"
        with pytest.raises(DataError, match="mnist is not on disk"):
            load("mnist", root=tmp_path, download=False)
        with pytest.raises(DataError, match="mnist is not on disk"):
            load("mnist", root=tmp_path / "fashion-mnist", download=False)

    def test_usps_libsvm_and_hdf5_agree(self, tmp_path):
        arrays = some_images((16, 16))
        write_usps_libsvm(tmp_path / "a" / "usps", arrays)
        write_usps_hdf5(tmp_path / "b", arrays)
        for root in ("a", "b"):
            data = load("usps", root=tmp_path / root)
            for split in ("train", "test"):
                same(getattr(data, split), arrays[split][0] / 255, arrays[split][1], tolerance=1e-5)

    def test_pendigits_are_two_channels_of_eight_points(self, tmp_path):
        rng = np.random.default_rng(0)
        arrays = {
            s: (rng.integers(0, 101, (n, 16)), np.arange(n) % 10) for s, n in (("train", 12), ("test", 5))
        }
        write_pendigits(tmp_path / "pendigits", arrays)
        data = load("pendigits", root=tmp_path)
        for split in ("train", "test"):
            rows, labels = arrays[split]
            loop = np.array([[[row[2 * p + c] / 100 for p in range(8)] for c in range(2)] for row in rows])
            same(getattr(data, split), loop.astype(np.float32), labels, tolerance=1e-7)
        flat = data.train.x.transpose(1, 2).flatten(1)
        np.testing.assert_allclose(flat.numpy() * 100, arrays["train"][0], rtol=1e-6)

    @pytest.mark.parametrize("folder", ["cifar10/cifar-10-batches-py", "cifar-10-batches-py", "cifar10"])
    def test_cifar10(self, tmp_path, folder):
        arrays = some_images((3, 32, 32))
        write_cifar10(tmp_path / folder, arrays, CIFAR10)
        data = load("cifar10", root=tmp_path)
        for split in ("train", "test"):
            same(
                getattr(data, split), arrays[split][0].astype(np.float32) / np.float32(255), arrays[split][1]
            )
        assert data.classes[-1] == "truck"

    def test_cifar10_as_images(self, tmp_path):
        from PIL import Image

        arrays = some_images((3, 32, 32))
        for split in ("train", "test"):
            for number, (image, label) in enumerate(zip(*arrays[split], strict=True)):
                path = tmp_path / "cifar10" / split / CIFAR10[label].decode() / f"{number:04d}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(image.transpose(1, 2, 0)).save(path)
        data = load("cifar10", root=tmp_path)
        for split in ("train", "test"):
            order = np.argsort(arrays[split][1], kind="stable")
            pixels, labels = arrays[split][0][order], arrays[split][1][order]
            same(getattr(data, split), pixels.astype(np.float32) / np.float32(255), labels)
        assert data.train.names[0] == "train/airplane/0000.png"

    def test_cifar100_fine_labels(self, tmp_path):
        arrays = some_images((3, 32, 32), classes=100)
        names = [f"thing{i}".encode() for i in range(100)]
        write_cifar100(tmp_path / "cifar100/cifar-100-python", arrays, names)
        data = load("cifar100", root=tmp_path)
        same(data.train, arrays["train"][0].astype(np.float32) / np.float32(255), arrays["train"][1])
        assert data.classes[42] == "thing42"

    def test_cifar_written_by_python_3(self, tmp_path):
        arrays = some_images((3, 32, 32))
        folder = tmp_path / "cifar10"
        write_cifar10(folder, arrays, CIFAR10)
        x, y = arrays["test"]
        for protocol in (2, 3, 4):
            batch = {"data": x.reshape(len(x), -1), "labels": y.tolist()}
            (folder / "test_batch").write_bytes(pickle.dumps(batch, protocol=protocol))
            same(load("cifar10", root=tmp_path).test, x.astype(np.float32) / np.float32(255), y)

    def test_tiny_imagenet(self, tmp_path):
        arrays = some_images((3, 64, 64), classes=4)
        ids = ["n01443537", "n01629819", "n02124075", "n09999999"]
        write_tiny_imagenet(tmp_path / "tiny-imagenet-200", arrays, ids)
        data = load("tiny-imagenet", root=tmp_path)
        same(data.test, arrays["test"][0].astype(np.float32) / np.float32(255), arrays["test"][1])
        order = np.argsort(arrays["train"][1], kind="stable")
        same(
            data.train,
            arrays["train"][0][order].astype(np.float32) / np.float32(255),
            arrays["train"][1][order],
        )
        assert data.classes[1] == "thing n01629819, item"

    def test_esc50_folds(self, tmp_path):
        clips = np.random.default_rng(0).integers(-(2**15), 2**15, (50, 300)).astype(np.int16)
        write_esc50(tmp_path / "ESC-50-master", clips)
        for fold in (5, 2):
            data = load("esc50", root=tmp_path, fold=fold)
            chosen = np.arange(50) % 5 == fold - 1
            same(data.test, clips[chosen] / np.float32(2**15), np.arange(50)[chosen])
            same(data.train, clips[~chosen] / np.float32(2**15), np.arange(50)[~chosen])
        assert data.classes[7] == "sound_7"
        assert data.rate == 44100
        with pytest.raises(DataError, match="fold must be one of the folds"):
            load("esc50", root=tmp_path, fold=6)

    def test_digits_need_no_file(self):
        data = load("digits")
        assert data.shape == (8, 8)
        assert (len(data.train), len(data.test)) == (1200, 597)
        assert float(data.train.x.max()) == 1.0
        assert data.location is None

    def test_resident_or_not_gives_the_same(self, tmp_path):
        arrays = some_images((3, 64, 64), classes=2)
        write_tiny_imagenet(tmp_path / "tiny-imagenet-200", arrays, ["n1", "n2"])
        here, there = (load("tiny-imagenet", root=tmp_path, resident=resident) for resident in (True, False))
        assert isinstance(there.train.x, Samples)
        assert torch.equal(there.train.x.read(range(len(there.train))), here.train.x)
        assert torch.equal(there.train.x[-1], here.train.x[-1])

    def test_each_entry_says_all_that_is_promised(self):
        assert list(CATALOGUE) == [
            *("digits", "mnist", "usps", "pendigits", "fashion-mnist"),
            *("cifar10", "cifar100", "tiny-imagenet", "esc50", "tones"),
        ]
        for entry in CATALOGUE.values():
            assert all((entry.title, entry.citation, entry.licence, entry.scaling, entry.note))
            assert bool(entry.homepage) == (entry.name != "tones")
            assert bool(entry.remotes) == (entry.name not in ("digits", "tones"))
            assert bool(entry.remotes) != bool(entry.shipped_with)
            for remote in entry.remotes:
                assert remote.md5 or entry.unpacked_md5
                assert all(url.startswith("http") for url in remote.urls)


class TestWhere:
    def test_root_then_environment(self, tmp_path, monkeypatch):
        ones, twos = some_images((28, 28), seed=1), some_images((28, 28), seed=2)
        write_idx(tmp_path / "one/mnist", ones)
        write_idx(tmp_path / "two/mnist", twos)
        monkeypatch.setenv("DCS_DATA", str(tmp_path / "one"))
        assert load("mnist").location == tmp_path / "one/mnist"
        assert load("mnist", root=tmp_path / "two").location == tmp_path / "two/mnist"
        with pytest.raises(DataError, match="not on disk"):
            load("mnist", root=tmp_path / "three", download=False)

    def test_search_order(self, monkeypatch, tmp_path):
        monkeypatch.undo()
        monkeypatch.delenv("DCS_DATA", raising=False)
        from dcs.data._locate import search_folders

        default = search_folders(None)
        assert Path("data") in default
        assert Path("/usr/share/datasets") in default
        monkeypatch.setenv("DCS_DATA", str(tmp_path))
        assert search_folders(None) == [tmp_path, *default]
        assert search_folders(tmp_path / "x") == [tmp_path / "x"]

    def test_without_files_and_download_it_says_what_to_put_where(self, tmp_path):
        with pytest.raises(DataError) as caught:
            load("mnist", root=tmp_path, download=False)
        for name in ("train-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz", str(tmp_path / "mnist")):
            assert name in str(caught.value)

    def test_without_network_it_says_what_to_put_where(self, tmp_path, monkeypatch):
        def refuse(remote, folder):
            raise DownloadError(f"{remote.file}: no network")

        monkeypatch.setattr("dcs.data._locate.fetch", refuse)
        with pytest.raises(DownloadError) as caught:
            load("pendigits", root=tmp_path)
        for name in ("no network", "pendigits.tra, pendigits.tes", str(tmp_path / "pendigits")):
            assert name in str(caught.value)

    def test_what_is_missing_is_fetched(self, tmp_path, monkeypatch):
        arrays = some_images((28, 28))
        write_idx(tmp_path / "server", arrays)
        asked = []

        def fetch(remote, folder):
            asked.append(remote.file)
            folder.mkdir(parents=True, exist_ok=True)
            return (folder / remote.file).write_bytes((tmp_path / "server" / remote.file).read_bytes())

        monkeypatch.setattr("dcs.data._locate.fetch", fetch)
        data = load("mnist", root=tmp_path / "root")
        assert data.location == tmp_path / "root/mnist"
        assert len(asked) == 4
        load("mnist", root=tmp_path / "root")
        assert len(asked) == 4

    @pytest.mark.parametrize("place", ["cifar10", "."])
    def test_an_archive_on_disk_is_unpacked(self, tmp_path, place):
        arrays = some_images((3, 32, 32))
        write_cifar10(tmp_path / "made/cifar-10-batches-py", arrays, CIFAR10)
        (tmp_path / "root" / place).mkdir(parents=True, exist_ok=True)
        with tarfile.open(tmp_path / "root" / place / "cifar-10-python.tar.gz", "w:gz") as archive:
            archive.add(tmp_path / "made/cifar-10-batches-py", "cifar-10-batches-py")
        data = load("cifar10", root=tmp_path / "root", download=False)
        same(data.test, arrays["test"][0].astype(np.float32) / np.float32(255), arrays["test"][1])
        assert data.location == tmp_path / "root/cifar10/unpacked/cifar-10-batches-py"
        assert load("cifar10", root=tmp_path / "root", download=False).location == data.location

    def test_an_archive_with_other_files_is_refused_and_removed(self, tmp_path):
        clips = np.zeros((50, 300), np.int16)
        write_esc50(tmp_path / "made/ESC-50-master", clips)
        (tmp_path / "esc50").mkdir()
        with zipfile.ZipFile(tmp_path / "esc50/ESC-50-master.zip", "w") as archive:
            for path in (tmp_path / "made").rglob("*.*"):
                archive.write(path, path.relative_to(tmp_path / "made"))
        for _ in range(2):
            with pytest.raises(DataError, match=r"ESC-50-master.zip does not hold the files of ESC-50"):
                load("esc50", root=tmp_path, download=False)
        assert not (tmp_path / "esc50/unpacked").exists()

    def test_an_archive_without_the_files(self, tmp_path):
        (tmp_path / "cifar10").mkdir()
        with tarfile.open(tmp_path / "cifar10/cifar-10-python.tar.gz", "w:gz"):
            pass
        with pytest.raises(DataError, match=r"cifar-10-python\.tar\.gz does not hold the files"):
            load("cifar10", root=tmp_path, download=False)
        assert not (tmp_path / "cifar10/unpacked").exists()

    def test_an_incomplete_data_set_is_warned_of(self, tmp_path):
        write_idx(tmp_path / "mnist", some_images((28, 28)))
        with pytest.warns(DataWarning, match=r"holds 23 \+ 11 samples, but MNIST .* has 60000 \+ 10000"):
            load("mnist", root=tmp_path)

    def test_the_folder_itself_as_root_gets_a_hint(self, tmp_path):
        write_idx(tmp_path / "mnist", some_images((28, 28)))
        with pytest.raises(DataError, match=f"{tmp_path / 'mnist'} itself looks like it"):
            load("mnist", root=tmp_path / "mnist", download=False)

    def test_places_that_are_no_folders(self, tmp_path, monkeypatch):
        monkeypatch.undo()
        (tmp_path / "file").touch()
        with pytest.raises(ValueError, match=r"root is .* which is a file"):
            load("mnist", root=tmp_path / "file")
        monkeypatch.setenv("DCS_DATA", str(tmp_path / "file"))
        with pytest.raises(ValueError, match=r"DCS_DATA is .* which is a file"):
            load("mnist")
        with pytest.raises(TypeError, match="root must be a path, got int"):
            load("mnist", root=3)
        with pytest.raises(ValueError, match="root '~nobody-at-all/x' cannot be used"):
            load("mnist", root="~nobody-at-all/x")


class TestDamage:
    """Each damage names the file and what to do."""

    @pytest.mark.parametrize(
        ("damage", "says"),
        [
            (lambda raw: gzip.compress(b"\0\0\x09\x03" + raw[4:]), "does not start like an IDX file"),
            (lambda raw: gzip.compress(raw[:-1]), "ends after"),
            (lambda raw: gzip.compress(raw + b"\0"), "longer than"),
            (lambda raw: gzip.compress(raw)[:-20], "gzip stream ends too early"),
            (lambda raw: gzip.compress(raw)[:-6] + b"\0\0\0\0\0\0", "gzip stream is broken"),
            (lambda raw: gzip.compress(raw) + b"more", "gzip stream"),
            (lambda raw: raw[:9], "ends in its header"),
            (lambda raw: raw[:4] + b"\xff" * 12 + raw[16:], "its header promises"),
            (lambda raw: raw[:4] + b"\0" * 4 + raw[8:], "its header promises"),
            (lambda raw: b"", "does not start like an IDX file"),
        ],
    )
    def test_idx(self, tmp_path, damage, says):
        arrays = some_images((28, 28))
        write_idx(tmp_path / "mnist", arrays)
        path = tmp_path / "mnist/train-images-idx3-ubyte.gz"
        path.write_bytes(damage(idx_bytes(arrays["train"][0])))
        with pytest.raises(DataError, match=says) as caught:
            load("mnist", root=tmp_path)
        assert str(path) in str(caught.value)
        assert "delete it" in str(caught.value)

    def test_idx_counts_and_labels(self, tmp_path):
        arrays = some_images((28, 28))
        x, y = arrays["train"]
        write_idx(tmp_path / "mnist", {**arrays, "train": (x, y[:-1])})
        with pytest.raises(DataError, match="do not belong together"):
            load("mnist", root=tmp_path)
        write_idx(tmp_path / "mnist", {**arrays, "train": (x, y + 1)})
        with pytest.raises(DataError, match=r"train-labels.*label 10, but there are 10 classes"):
            load("mnist", root=tmp_path)
        write_idx(tmp_path / "mnist", {**arrays, "train": (x[:, :27], y)})
        with pytest.raises(DataError, match="do not belong together"):
            load("mnist", root=tmp_path)

    @pytest.mark.parametrize(
        "text", ["1 1:0.5 300:1\n", "1 1:2\n", "12 1:0.5\n", "x 1:0.5\n", "", "1 0:0.5\n", "1 1:nan\n"]
    )
    def test_libsvm(self, tmp_path, text):
        import bz2

        write_usps_libsvm(tmp_path / "usps", some_images((16, 16)))
        (tmp_path / "usps/usps.bz2").write_bytes(bz2.compress(text.encode()))
        with pytest.raises(DataError, match=r"usps\.bz2"):
            load("usps", root=tmp_path)

    def test_truncated_bzip2(self, tmp_path):
        write_usps_libsvm(tmp_path / "usps", some_images((16, 16)))
        path = tmp_path / "usps/usps.t.bz2"
        path.write_bytes(path.read_bytes()[:-10])
        with pytest.raises(DataError, match=r"usps\.t\.bz2"):
            load("usps", root=tmp_path)

    def test_hdf5(self, tmp_path):
        write_usps_hdf5(tmp_path, some_images((16, 16)))
        path = tmp_path / "usps.h5"
        path.write_bytes(path.read_bytes()[:3000])
        with pytest.raises(DataError, match=r"usps\.h5"):
            load("usps", root=tmp_path)

    @pytest.mark.parametrize(
        "text", ["1,2,3\n", "", "a,b\n", ",".join(["101"] * 16 + ["3"]), ",".join(["1"] * 16 + ["10"])]
    )
    def test_pendigits(self, tmp_path, text):
        arrays = {s: (np.zeros((3, 16), int), np.arange(3)) for s in ("train", "test")}
        write_pendigits(tmp_path, arrays)
        (tmp_path / "pendigits.tes").write_text(text)
        with pytest.raises(DataError, match=r"pendigits\.tes"):
            load("pendigits", root=tmp_path)

    @pytest.mark.parametrize(
        "batch",
        [
            {b"data": np.zeros((2, 3072), np.uint8), b"labels": [1]},
            {b"data": np.zeros((2, 3071), np.uint8), b"labels": [1, 2]},
            {b"data": np.zeros((2, 3072), np.float32), b"labels": [1, 2]},
            {b"data": np.zeros((0, 3072), np.uint8), b"labels": []},
            {b"data": np.asfortranarray(np.zeros((2, 3072), np.uint8)), b"labels": [1, 2]},
            {b"data": b"no array", b"labels": [1, 2]},
            {b"data": np.zeros((1, 3072), np.uint8), b"labels": ["x"]},
            {b"data": np.zeros((1, 3072), np.uint8)},
            {b"data": np.zeros((1, 3072), np.uint8), b"labels": [10]},
            {b"data": np.zeros((1, 3072), np.uint8), b"labels": [-1]},
            [1, 2],
        ],
        ids=range(11),
    )
    def test_cifar(self, tmp_path, batch):
        write_cifar10(tmp_path / "cifar10", some_images((3, 32, 32)), CIFAR10)
        (tmp_path / "cifar10/data_batch_3").write_bytes(pickled(batch))
        with pytest.raises(DataError, match="cifar10"):
            load("cifar10", root=tmp_path)

    def test_a_hostile_pickle_runs_nothing(self, tmp_path):
        write_cifar10(tmp_path / "cifar10", some_images((3, 32, 32)), CIFAR10)
        trace = tmp_path / "it ran"

        class Hostile:
            def __reduce__(self):
                return os.mkdir, (str(trace),)

        for name in ("data_batch_1", "batches.meta"):
            path = tmp_path / "cifar10" / name
            content = path.read_bytes()
            path.write_bytes(pickle.dumps({b"data": Hostile(), b"labels": [1]}))
            with pytest.raises(DataError, match=rf"{name}.*it asks for posix\.mkdir"):
                load("cifar10", root=tmp_path)
            path.write_bytes(content)
        assert not trace.exists()

    def test_a_pickle_that_asks_for_memory_gets_none(self, tmp_path):
        write_cifar10(tmp_path / "cifar10", some_images((3, 32, 32)), CIFAR10)
        path = tmp_path / "cifar10/test_batch"
        for content in (
            b"\x80\x04N" + b"r" + (2**31).to_bytes(4, "little") + b".",  # a memo of 2³¹ places
            b"\x80\x04\x8e" + (2**60).to_bytes(8, "little") + b".",  # 2⁶⁰ bytes, it says
        ):
            path.write_bytes(content)
            with pytest.raises(DataError, match="test_batch"):
                load("cifar10", root=tmp_path)

    def test_tiny_imagenet_with_an_unknown_class(self, tmp_path):
        write_tiny_imagenet(tmp_path / "tiny-imagenet-200", some_images((3, 64, 64), classes=2), ["n1", "n2"])
        path = tmp_path / "tiny-imagenet-200/val/val_annotations.txt"
        path.write_text(path.read_text().replace("n2", "n3"))
        with pytest.raises(DataError, match="unknown class 'n3'"):
            load("tiny-imagenet", root=tmp_path)

    def test_esc50_table(self, tmp_path):
        write_esc50(tmp_path / "esc50", np.zeros((50, 300), np.int16))
        table = tmp_path / "esc50/meta/esc50.csv"
        good = table.read_text()
        for bad in (
            good.replace(",49,", ",50,"),
            good.replace("target", "tango"),
            good.replace(",3,47,", ",x,47,"),
        ):
            assert bad != good
            table.write_text(bad)
            with pytest.raises(DataError, match=r"esc50\.csv"):
                load("esc50", root=tmp_path)


class TestArrays:
    @pytest.mark.parametrize(
        ("array", "expected"),
        [
            (np.array([[0, 255, 51]], np.uint8), [[0, 1, 0.2]]),
            (np.array([[0, 65535, 13107]], np.uint16), [[0, 1, 0.2]]),
            (np.array([[0, 65535, 13107]], ">u2"), [[0, 1, 0.2]]),
            (np.array([[-3, 70000]], np.int32), [[-3, 70000]]),
            (np.array([[0.25, -1.5]], ">f8"), [[0.25, -1.5]]),
            (np.array([[True, False]]), [[1, 0]]),
            (np.array([[0.5, 2]], np.float16), [[0.5, 2]]),
            (torch.tensor([[1.5, 2.5]], dtype=torch.bfloat16), [[1.5, 2.5]]),
            ([[1, 2.5], [3, 4]], [[1, 2.5], [3, 4]]),
        ],
    )
    def test_types(self, array, expected):
        for resident in (True, False):
            x = load(array, resident=resident).train.x
            values = x if resident else x.read(range(len(x)))
            assert values.dtype == torch.float32
            np.testing.assert_allclose(values, np.array(expected, np.float32), rtol=1e-7)

    def test_float32_is_not_copied(self):
        array = np.zeros((4, 3), np.float32)
        array[0, 0] = 7
        assert load(array).train.x.data_ptr() == array.ctypes.data

    def test_input_is_left_alone(self):
        array = np.full((2, 2), 255, np.uint8)
        load(array)
        assert (array == 255).all()
        tensor = torch.full((2, 2), 255, dtype=torch.uint8)
        load(tensor)
        assert (tensor == 255).all()

    @pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, np.int16])
    def test_npy(self, tmp_path, dtype):
        array = (np.random.default_rng(0).random((20, 3, 4)) * 100).astype(dtype)
        np.save(tmp_path / "a.npy", array)
        resident = load(tmp_path / "a.npy", resident=True).train.x
        mapped = load(str(tmp_path / "a.npy"), resident=False).train.x
        assert isinstance(mapped, Samples)
        assert isinstance(mapped.array, np.memmap)
        rows = [3, 3, 19, 0]
        assert torch.equal(mapped.read(rows), resident[rows])
        scale = 255 if dtype == np.uint8 else 1
        np.testing.assert_array_equal(resident.numpy(), array.astype(np.float32) / np.float32(scale))
        again = pickle.loads(pickle.dumps(mapped))  # noqa: S301
        assert isinstance(again.array, np.memmap)
        assert torch.equal(again.read(rows), resident[rows])

    def test_size_decides(self, tmp_path, monkeypatch):
        np.save(tmp_path / "a.npy", np.zeros((10, 10), np.uint8))
        monkeypatch.setattr("dcs.data._dataset._physical_memory", lambda: 1600)
        assert isinstance(load(tmp_path / "a.npy").train.x, torch.Tensor)
        monkeypatch.setattr("dcs.data._dataset._physical_memory", lambda: 1599)
        assert isinstance(load(tmp_path / "a.npy").train.x, Samples)

    def test_npz(self, tmp_path):
        x, y = np.random.default_rng(0).random((6, 2)), np.array(["b", "a", "b", "c", "a", "b"])
        np.savez(tmp_path / "a.npz", x=x, y=y)
        data = load(tmp_path / "a.npz")
        assert data.classes == ("a", "b", "c")
        assert data.train.y.tolist() == [1, 0, 1, 2, 0, 1]
        assert load(tmp_path / "a.npz", label=False).train.y is None
        np.savez(tmp_path / "b.npz", features=x, truth=y)
        assert load(tmp_path / "b.npz", label="truth").train.y.tolist() == data.train.y.tolist()
        np.savez(tmp_path / "d.npz", x=x, labels=y)
        with pytest.warns(DataWarning, match="labels is not used"):
            load(tmp_path / "d.npz")
        np.savez_compressed(
            tmp_path / "c.npz", x_train=x, y_train=[1, 2, 1, 2, 1, 7], x_test=x[:2], y_test=[7, 2]
        )
        data = load(tmp_path / "c.npz")
        assert data.classes == ("1", "2", "7")
        assert data.test.y.tolist() == [2, 1]

    @pytest.mark.parametrize(
        ("arrays", "label", "says"),
        [
            ({"a": np.zeros((2, 2)), "b": np.zeros((2, 2))}, None, "has the arrays a, b"),
            ({"x": np.zeros((2, 2)), "y": np.zeros(3)}, None, "one label per sample"),
            ({"x": np.zeros((2, 2))}, "z", "label must be an array"),
            ({"x": np.zeros(2)}, None, "must be .samples"),
            ({}, None, "none"),
            ({"x": np.zeros((2, 2)), "y": np.arange(2)}, 3, "label must be an array"),
            ({"x_train": np.zeros((2, 2)), "x_test": np.zeros((2, 3))}, None, "of one kind and shape"),
            (
                {"x_train": np.zeros((2, 2)), "x_test": np.zeros((2, 2), np.uint8)},
                None,
                "of one kind and shape",
            ),
            ({"x": np.zeros((3, 2)), "y": np.array([0, np.nan, 1])}, None, "1 missing labels"),
        ],
    )
    def test_bad_npz(self, tmp_path, arrays, label, says):
        np.savez(tmp_path / "a.npz", **arrays)
        with pytest.raises(DataError, match=says) as caught:
            load(tmp_path / "a.npz", label=label)
        assert "a.npz" in str(caught.value)

    @pytest.mark.parametrize(
        ("array", "says"),
        [
            (np.array([[1.0, np.nan], [0, 0]]), "row 0"),
            (np.array([[0, 0], [np.inf, 1.0]]), "row 1"),
            (np.array([[1e300, 0]]), "too large"),
            (np.zeros(3), "must be .samples"),
            (np.zeros((0, 3)), "empty"),
            (np.zeros((3, 0)), "empty"),
            (np.array([["a"]]), "not real numbers"),
            (np.array([[1j]]), "not real numbers"),
            (np.array([[object()]]), "not real numbers"),
            ([[1, 2], [3]], "one length"),
            (np.ma.masked_array([[1.0, 2.0]], mask=[[0, 1]]), "masked"),
            (torch.eye(3).to_sparse(), "cannot be converted to an array"),
            (torch.zeros(2, 2, device="meta"), "cannot be converted to an array"),
            ([torch.zeros(2, requires_grad=True)], "cannot be converted to an array"),
        ],
    )
    def test_bad_arrays(self, array, says):
        with pytest.raises(DataError, match=says):
            load(array)

    def test_large_values_are_finite(self):
        x = np.full((3, 2), 3e38, np.float32)  # whose sum is not
        assert torch.equal(load(x).train.x, torch.from_numpy(x))

    def test_sparse(self):
        from scipy.sparse import csr_matrix

        with pytest.raises(DataError, match="toarray"):
            load(csr_matrix(np.eye(3)))

    def test_bad_values_are_found_when_streamed(self, tmp_path):
        array = np.zeros((9, 2))
        array[7, 1] = np.nan
        np.save(tmp_path / "a.npy", array)
        samples = load(tmp_path / "a.npy", resident=False).train.x
        samples.read([0, 1, 2])
        with pytest.raises(DataError, match=r"a\.npy.* row 7"):
            samples.read([1, 7, 2])

    @pytest.mark.parametrize("content", [b"", b"no numpy file", b"\x93NUMPY\x01\0v\0{'descr': '|O', }"])
    def test_bad_npy(self, tmp_path, content):
        (tmp_path / "a.npy").write_bytes(content)
        with pytest.raises(DataError, match=r"a\.npy"):
            load(tmp_path / "a.npy")

    def test_truncated_and_pickled_npy(self, tmp_path):
        np.save(tmp_path / "a.npy", np.zeros((100, 100)))
        (tmp_path / "a.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:5000])
        with pytest.raises(DataError, match=r"a\.npy"):
            load(tmp_path / "a.npy")
        np.save(tmp_path / "b.npy", np.array([[{}]], object))
        with pytest.raises(DataError, match=r"b\.npy"):
            load(tmp_path / "b.npy")

    def test_unknown_things(self, tmp_path):
        (tmp_path / "a.xyz").write_text("")
        with pytest.raises(DataError, match=r"a\.xyz is not of a kind that can be read \(\.npy"):
            load(tmp_path / "a.xyz")
        with pytest.raises(FileNotFoundError, match="did you mean 'mnist'"):
            load("minst")
        for wrong in (None, {}, b"mnist", load("digits")):
            with pytest.raises(TypeError, match="name must be a known data set, a path"):
                load(wrong)
        for options in ({"resident": "no"}, {"download": "no"}):
            with pytest.raises(TypeError, match=f"{next(iter(options))} must be True"):
                load("digits", **options)
        with pytest.raises(ValueError, match="fold is not applicable to digits"):
            load("digits", fold=3)
        with pytest.raises(ValueError, match="root is not applicable to a ndarray"):
            load(np.zeros((2, 2)), root=tmp_path)
        for option in ({"size": 3}, {"mixed": "crop"}, {"label": "y"}):
            with pytest.raises(ValueError, match="is not applicable to digits"):
                load("digits", **option)
        with pytest.raises(ValueError, match="is not applicable to a ndarray"):
            load(np.zeros((2, 2)), size=3)


class TestTables:
    def test_csv(self, tmp_path):
        (tmp_path / "a.csv").write_text("a,b,kind\n1,2.5,cat\n3,-4e1,dog\n5,0,cat\n")
        data = load(tmp_path / "a.csv", label="kind")
        np.testing.assert_array_equal(data.train.x, [[1, 2.5], [3, -40], [5, 0]])
        assert data.train.y.tolist() == [0, 1, 0]
        assert data.classes == ("cat", "dog")

    @pytest.mark.parametrize("separator", [",", ";", "\t"])
    @pytest.mark.parametrize("mark", ["", "\ufeff"])
    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    def test_dialects(self, tmp_path, separator, mark, end):
        lines = ['a b|"b"|c', "1|2|10", "3|4|9", "5|6|10"]
        text = mark + end.join(line.replace("|", separator) for line in lines) + end
        (tmp_path / "a.csv").write_bytes(text.encode())
        data = load(tmp_path / "a.csv", label=-1)
        np.testing.assert_array_equal(data.train.x, [[1, 2], [3, 4], [5, 6]])
        assert data.classes == ("9", "10")  # in the order of numbers
        assert load(tmp_path / "a.csv", label="b").classes == ("2", "4", "6")

    def test_without_header(self, tmp_path):
        (tmp_path / "a.csv").write_text("1,2\n3,4\n")
        np.testing.assert_array_equal(load(tmp_path / "a.csv").train.x, [[1, 2], [3, 4]])
        assert load(tmp_path / "a.csv", label=0).train.y.tolist() == [0, 1]

    def test_a_column_like_a_label_is_not_learned_from_silently(self, tmp_path):
        (tmp_path / "a.csv").write_text("u,Target\n1,2\n3,4\n")
        with pytest.raises(DataError, match='label="Target"'):
            load(tmp_path / "a.csv")
        assert load(tmp_path / "a.csv", label=False).shape == (2,)
        assert load(tmp_path / "a.csv", label="Target").shape == (1,)

    @pytest.mark.parametrize(
        ("text", "label"),
        [
            ("a,b\n1,2\n3\n", None),
            ("a,b\n1,\n", None),
            ("a,b\n1,x\n", None),
            ("a,b\n1,nan\n", None),
            ("a,b\n1,1e99\n", None),
            ("a,b\n", None),
            ("", None),
            ("a,b\n1,2\n", "c"),
            ("a,b\n1,2\n", 2),
            ("a,b\n1,2\n", True),
            ("a,a\n1,2\n", "a"),
            ("a\n1\n", "a"),
            ("\xff\xfe", None),
        ],
    )
    def test_bad_csv(self, tmp_path, text, label):
        (tmp_path / "a.csv").write_bytes(text.encode("latin1"))
        with pytest.raises(DataError, match=r"a\.csv"):
            load(tmp_path / "a.csv", label=label)

    def test_a_first_line_of_data_is_not_lost(self, tmp_path):
        (tmp_path / "iris.csv").write_text("5.1,3.5,setosa\n4.9,3.0,setosa\n6.0,2.2,virginica\n")
        data = load(tmp_path / "iris.csv", label=2)
        np.testing.assert_allclose(data.train.x, np.float32([[5.1, 3.5], [4.9, 3.0], [6.0, 2.2]]))
        assert data.train.y.tolist() == [0, 0, 1]
        for gap in ("", "NA", "nan", "?"):
            (tmp_path / "a.csv").write_text(f"1,{gap},3\n4,5,6\n7,8,9\n")
            with pytest.raises(DataError, match=r"a\.csv"):
                load(tmp_path / "a.csv")
        for first in ("0,1,2", "ERR,0.3,0.5", "0.3,1.2.3,0.5"):
            (tmp_path / "a.csv").write_text(f"{first}\n0.5,0.25,0.125\n1,2,3\n")
            with pytest.raises(DataError, match="is that a sample, or a header"):
                load(tmp_path / "a.csv")
        (tmp_path / "a.csv").write_text(",a,b\n0,0.1,0.2\n1,0.3,0.4\n")
        with pytest.raises(DataError, match="a column without a name"):
            load(tmp_path / "a.csv")
        (tmp_path / "a.csv").write_text("# label,a\n0,0.1\n1,0.3\n")
        with pytest.raises(DataError, match='label="label"'):
            load(tmp_path / "a.csv")

    def test_rows_with_more_fields_than_the_others(self, tmp_path):
        (tmp_path / "a.csv").write_text("name,a,b\nSmith,1,2\nDoe, 3,4,5\n")
        with pytest.raises(DataError, match=r"a\.csv has 4 fields in row 3, not 3"):
            load(tmp_path / "a.csv", label="name")

    def test_labels_have_one_order(self, tmp_path):
        from dcs.data._tables import number_labels

        assert number_labels(["1", "1.0", "01", "2"], "x")[1] == ("01", "1", "1.0", "2")
        assert number_labels([b"dog", "cat"], "x")[1] == ("cat", "dog")
        for missing in ("", "NaN", None, float("nan")):
            with pytest.raises(DataError, match="1 missing labels of 3"):
                number_labels(["a", missing, "b"], "x")
        with pytest.raises(DataError, match="not a set of classes"):
            number_labels([i / 10 for i in range(1, 40)] * 4, "x")
        with pytest.raises(DataError, match="neither text nor numbers"):
            number_labels([[1], [2]], "x")

    def test_frames(self, tmp_path):
        class Frame:
            """What is used of a pandas DataFrame."""

            def __init__(self, columns):
                self.data = columns
                self.columns = list(columns)
                self.iloc = self

            def __getitem__(self, key):
                _, chosen = key
                values = list(self.data.values())
                if isinstance(chosen, int):
                    return np.array(values[chosen], object)
                return np.array([values[i] for i in chosen]).T

        frame = Frame({"a": [1.5, 2.5], "label": ["x", "y"], "b": [3, 4]})
        with pytest.raises(DataError, match='label="label"'):
            load(frame)
        data = load(frame, label="label")
        np.testing.assert_array_equal(data.train.x, [[1.5, 3], [2.5, 4]])
        assert (data.classes, data.train.y.tolist()) == (("x", "y"), [0, 1])

    def test_labels_that_are_no_classes(self, tmp_path):
        (tmp_path / "a.csv").write_text("a,b\n" + "".join(f"{i},{i / 7}\n" for i in range(300)))
        with pytest.raises(DataError, match="not a set of classes"):
            load(tmp_path / "a.csv", label="b")

    def test_parquet(self, tmp_path):
        import pyarrow as pa
        from pyarrow import parquet

        table = pa.table(
            {"a": [1, 2, 3], "kind": ["x", "y", "x"], "b": [0.5, 1.5, 2.5], "c": [True, False, True]}
        )
        parquet.write_table(table, tmp_path / "a.parquet")
        data = load(tmp_path / "a.parquet", label="kind")
        np.testing.assert_array_equal(data.train.x, [[1, 0.5, 1], [2, 1.5, 0], [3, 2.5, 1]])
        assert data.train.y.tolist() == [0, 1, 0]
        with pytest.raises(DataError, match=r"a\.parquet has string in column 'kind'"):
            load(tmp_path / "a.parquet")
        parquet.write_table(pa.table({"a": [1, None]}), tmp_path / "b.parquet")
        with pytest.raises(DataError, match=r"b\.parquet has 1 missing values in column 'a'"):
            load(tmp_path / "b.parquet")
        (tmp_path / "c.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-9])
        with pytest.raises(DataError, match=r"c\.parquet"):
            load(tmp_path / "c.parquet")


class TestTorchDatasets:
    def test_tensor_dataset(self):
        x, y = torch.rand(5, 3), torch.tensor([0, 1, 2, 1, 0])
        data = load(torch.utils.data.TensorDataset(x, y))
        assert data.train.x is x or data.train.x.data_ptr() == x.data_ptr()
        assert torch.equal(data.train.y, y)
        assert torch.equal(load(torch.utils.data.TensorDataset(x, y), resident=False).train.y, y)
        assert load(torch.utils.data.TensorDataset(x, y - 7)).classes == ("-7", "-6", "-5")

        with pytest.warns(DataWarning, match="they are left out"):
            assert load(torch.utils.data.TensorDataset(torch.rand(30, 2), torch.arange(30))).train.y is None

    def test_an_item_that_fails(self):
        class Broken(torch.utils.data.Dataset):
            def __len__(self):
                return 9

            def __getitem__(self, index):
                return torch.zeros(2) if index < 5 else {}["boom"]

        samples = load(Broken()).train.x
        for workers in (0, 1):
            with pytest.raises(DataError, match=r"^Broken failed at 5: KeyError: 'boom'"):
                list(dcs.data.Batches(samples, 2, workers=workers).epoch())

    def test_map_style(self):
        class Squares(torch.utils.data.Dataset):
            def __len__(self):
                return 6

            def __getitem__(self, index):
                return np.full((2, 2), index * index, np.uint8), index

        streamed, resident = (load(Squares(), resident=resident).train.x for resident in (None, True))
        assert isinstance(streamed, Samples)
        assert streamed.shape == (6, 2, 2)
        assert torch.equal(
            streamed.read([5, 0]), torch.full((2, 2, 2), 25 / 255) * torch.tensor([1, 0])[:, None, None]
        )
        assert torch.equal(streamed.read(range(6)), resident)

    @pytest.mark.parametrize(
        ("items", "says"),
        [
            ([], "empty"),
            (["text"], "gives str"),
            ([np.zeros(2), np.zeros(3)], r"at 1, \(3,\)"),
            ([np.array(["a"])], "numbers"),
            ([np.zeros(2, np.uint8), np.zeros(2)], "has float64 at 1, unlike before"),
            ([np.zeros(2), np.array([1, np.nan])], r"Items\[1\]"),
        ],
    )
    def test_bad_items(self, items, says):
        class Items(torch.utils.data.Dataset):
            def __len__(self):
                return len(items)

            def __getitem__(self, index):
                return items[index]

        with pytest.raises(DataError, match=says):
            load(Items(), resident=True)

    def test_iterable(self):
        class Endless(torch.utils.data.IterableDataset):
            def __iter__(self):
                yield torch.zeros(1)

        with pytest.raises(DataError, match="map-style"):
            load(Endless())


class TestNoise:
    def test_added_once_and_reproducibly(self, tmp_path):
        clean = load("digits")
        one, again = (load("digits", noise=("gaussian", 0.5), seed=3) for _ in range(2))
        other = load("digits", noise=("gaussian", 0.5), seed=4)
        for split in ("train", "test"):
            a, b, c = (getattr(data, split) for data in (one, again, other))
            assert torch.equal(a.x, b.x)
            assert not torch.equal(a.x, c.x)
            assert torch.equal(a.clean, getattr(clean, split).x)
            assert torch.equal(a.y, getattr(clean, split).y)
            noise = a.x - a.clean
            assert abs(float(noise.std()) - 0.5) < 0.01
            assert abs(float(noise.mean())) < 0.01
        far = load("digits", noise=("gaussian", 0.5), seed=2**32 + 3)
        assert not torch.equal((far.train.x - far.train.clean)[:597], one.test.x - one.test.clean)
        n = len(one.test)
        train, test = (one.train.x - one.train.clean)[:n], one.test.x - one.test.clean
        correlation = torch.corrcoef(torch.stack([train.flatten(), test.flatten()]))[0, 1]
        assert abs(float(correlation)) < 0.03  # the splits' noises are independent

    def test_other_kinds_and_bad_ones(self, tmp_path):
        assert load("digits", noise=(dcs.noise.Sphere(), 0.1)).train.clean is not None
        with pytest.raises(ValueError, match=r"noise must be one of .*, got 'pink'"):
            load("tiny-imagenet", noise=("pink", 0.5))  # seen before anything is looked for
        with pytest.raises(ValueError, match="strength of noise must be"):
            load("tiny-imagenet", noise=("gaussian", -1))
        for bad in ("gaussian", 0.5, ("gaussian",)):
            with pytest.raises(ValueError, match=r"noise must be KIND:STRENGTH, e\.g\. gaussian:0\.5, got"):
                load("digits", noise=bad)
        np.save(tmp_path / "a.npy", np.zeros((4, 4)))
        with pytest.raises(DataError, match="resident=True"):
            load(tmp_path / "a.npy", noise=("gaussian", 0.5), resident=False)


def test_a_missing_package_is_named_with_its_command(tmp_path, monkeypatch):
    import sys

    write_usps_hdf5(tmp_path, some_images((16, 16)))
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r"pip install 'dcs-learn\[hdf5\]'"):
        load("usps", root=tmp_path)


def test_in_memory_bytes_are_no_data():
    with pytest.raises(DataError):
        load(io.BytesIO(b"x"))


class TestTones:
    def test_they_are_always_the_same_recordings_in_five_folds(self):
        data = load("tones")
        assert (data.shape, data.rate, len(data.train), len(data.test)) == ((4000,), 8000, 240, 60)
        assert torch.equal(data.train.x, load("tones", fold=5).train.x)
        assert data.classes[:2] == ("300 Hz", "450 Hz")
        folds = [load("tones", fold=fold).test for fold in range(1, 6)]
        assert sorted(name for fold in folds for name in fold.names) == sorted(
            [*data.train.names, *data.test.names]
        )
        assert all(torch.bincount(fold.y).tolist() == [10] * 6 for fold in folds)

    def test_the_strongest_frequency_is_that_of_the_class(self):
        train = load("tones").train
        for number in range(6):
            power = torch.fft.rfft(train.x[train.y == number]).abs().square().mean(0)
            assert int(power.argmax()) * 2 == pytest.approx(300 * 1.5**number, abs=4)

    def test_wrong_folds(self, tmp_path):
        with pytest.raises(DataError, match=r"one of the folds of tones \(1, 2, 3, 4, 5\), got 6"):
            load("tones", fold=6)
        with pytest.raises(ValueError, match="rate is not applicable to tones"):
            load("tones", rate=4000)

"""Small files in the official layouts of the known data sets, for the tests."""

import bz2
import gzip
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]


def some_images(shape: tuple[int, ...], classes: int = 10, seed: int = 0) -> Arrays:
    rng = np.random.default_rng(seed)
    sizes = {"train": 2 * classes + 3, "test": classes + 1}
    return {
        split: (rng.integers(0, 256, (n, *shape), np.uint8), np.arange(n) % classes)
        for split, n in sizes.items()
    }


def idx_bytes(array: np.ndarray[Any, Any]) -> bytes:
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    return header + array.astype(np.uint8).tobytes()


def write_idx(folder: Path, arrays: Arrays, packed: bool = True, dotted: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for split, stem in (("train", "train"), ("test", "t10k")):
        for what, array in zip(("images", "labels"), arrays[split], strict=True):
            name = f"{stem}-{what}{'.' if dotted else '-'}idx{array.ndim}-ubyte"
            content = idx_bytes(array)
            if packed:
                (folder / f"{name}.gz").write_bytes(gzip.compress(content))
            else:
                (folder / name).write_bytes(content)


def libsvm_text(values: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> str:
    lines = (
        f"{label + 1} " + " ".join(f"{i + 1}:{v:.6g}" for i, v in enumerate(row) if v)
        for row, label in zip(values, labels, strict=True)
    )
    return "\n".join(lines) + "\n"


def write_usps_libsvm(folder: Path, arrays: Arrays) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for split, name in (("train", "usps.bz2"), ("test", "usps.t.bz2")):
        pixels, labels = arrays[split]
        text = libsvm_text(pixels.reshape(len(pixels), -1) / 127.5 - 1, labels)
        (folder / name).write_bytes(bz2.compress(text.encode()))


def write_usps_hdf5(folder: Path, arrays: Arrays) -> None:
    import h5py

    folder.mkdir(parents=True, exist_ok=True)
    with h5py.File(folder / "usps.h5", "w") as file:
        for split, (pixels, labels) in arrays.items():
            file[f"{split}/data"] = (pixels.reshape(len(pixels), -1) / 255).astype(np.float32)
            file[f"{split}/target"] = labels.astype(np.int32)


def write_pendigits(folder: Path, arrays: Arrays) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for split, name in (("train", "pendigits.tra"), ("test", "pendigits.tes")):
        lines = []
        for row, label in zip(*arrays[split], strict=True):
            lines.append(", ".join(f"{value:3d}" for value in [*row, label]) + "\n")
        (folder / name).write_text("".join(lines))


def pickled(batch: object) -> bytes:
    """As Python 2 wrote it: protocol 2."""
    return pickle.dumps(batch, protocol=2)


def write_cifar10(folder: Path, arrays: Arrays, classes: list[bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "batches.meta").write_bytes(pickled({b"label_names": classes, b"num_vis": 3072}))
    x, y = arrays["train"]
    for number, rows in enumerate(np.array_split(np.arange(len(x)), 5), start=1):
        batch = {b"data": x[rows].reshape(len(rows), -1), b"labels": y[rows].tolist()}
        (folder / f"data_batch_{number}").write_bytes(pickled({**batch, b"filenames": [b"a.png"]}))
    x, y = arrays["test"]
    (folder / "test_batch").write_bytes(pickled({b"data": x.reshape(len(x), -1), b"labels": y.tolist()}))


def write_cifar100(folder: Path, arrays: Arrays, classes: list[bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "meta").write_bytes(pickled({b"fine_label_names": classes, b"coarse_label_names": [b"c"]}))
    for split in ("train", "test"):
        x, y = arrays[split]
        labels = {b"fine_labels": y.tolist(), b"coarse_labels": (y // 5).tolist()}
        (folder / split).write_bytes(pickled({b"data": x.reshape(len(x), -1), **labels}))


def write_tiny_imagenet(folder: Path, arrays: Arrays, ids: list[str]) -> None:
    """PNG content under the official .JPEG names, so that it can be read back exactly."""
    from PIL import Image

    (folder / "val/images").mkdir(parents=True)
    (folder / "wnids.txt").write_text("\n".join(reversed(ids)) + "\n")
    (folder / "words.txt").write_text("".join(f"{wordnet}\tthing {wordnet}, item\n" for wordnet in ids))
    for number, (image, label) in enumerate(zip(*arrays["train"], strict=True)):
        path = folder / "train" / ids[label] / "images" / f"{ids[label]}_{number:03d}.JPEG"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.transpose(1, 2, 0)).save(path, "PNG")
    lines = []
    for number, (image, label) in enumerate(zip(*arrays["test"], strict=True)):
        Image.fromarray(image.transpose(1, 2, 0)).save(folder / f"val/images/val_{number}.JPEG", "PNG")
        lines.append(f"val_{number}.JPEG\t{ids[label]}\t0\t0\t62\t62\n")
    (folder / "val/val_annotations.txt").write_text("".join(lines))


def write_esc50(folder: Path, clips: np.ndarray[Any, Any], rate: int = 44100) -> list[dict[str, Any]]:
    """Clip i has target i % 50; the first 50 have fold 1 + i % 5, each further 50 the next ones."""
    import soundfile

    (folder / "audio").mkdir(parents=True)
    (folder / "meta").mkdir()
    rows = []
    for number, clip in enumerate(clips):
        fold = 1 + (number + number // 50) % 5
        name = f"{fold}-{number:06d}-A-{number % 50}.wav"
        soundfile.write(folder / "audio" / name, clip, rate, subtype="PCM_16")
        rows.append(
            {
                "filename": name,
                "fold": fold,
                "target": number % 50,
                "category": f"sound_{number % 50}",
            }
        )
    text = "filename,fold,target,category,esc10,src_file,take\n"
    text += "".join(f"{r['filename']},{r['fold']},{r['target']},{r['category']},False,1,A\n" for r in rows)
    (folder / "meta/esc50.csv").write_text(text)
    return rows

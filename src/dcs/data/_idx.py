"""The IDX format of MNIST and Fashion-MNIST, plain or gzipped."""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from dcs.data._dataset import DataError

_CHUNK = 2**20
_PACKED_CHUNK = 2**16
_LONGEST_HEADER = 16


def read_idx_images(path: Path) -> Tensor:
    """Read (n, rows, columns) in float32, divided by 255.

    Bytes become numbers chunk by chunk while they are in the processor's cache, into memory that NumPy asks
    for in large pages: that costs little beside unpacking.
    """
    chunks = _chunks(path)
    shape = _header(path, chunks, 3)
    images = np.empty(shape, np.float32)
    _fill(path, chunks, images.reshape(-1))
    return torch.from_numpy(images)


def read_idx_labels(path: Path) -> Tensor:
    """Read (n,) in int64."""
    chunks = _chunks(path)
    labels = np.empty(_header(path, chunks, 1), np.int64)
    _fill(path, chunks, labels)
    return torch.from_numpy(labels)


def _fill(path: Path, chunks: Iterator[bytes], out: np.ndarray[Any, np.dtype[Any]]) -> None:
    """Write the remaining bytes to `out`; pixels, which are to be floats, divided by 255."""
    done = 0
    for chunk in chunks:
        end = done + len(chunk)
        if end > len(out):
            raise _corrupted(path, f"it is longer than the {len(out)} entries that its header promises")
        values = np.frombuffer(chunk, np.uint8)
        if out.dtype == np.float32:
            np.divide(values, np.float32(255), out=out[done:end])
        else:
            out[done:end] = values
        done = end
    if done < len(out):
        raise _corrupted(path, f"it ends after {done} of {len(out)} entries")


def _header(path: Path, chunks: Iterator[bytes], ndim: int) -> tuple[int, ...]:
    """Read the magic number and the shape; _chunks gives the 4 + 4·ndim bytes of a header first."""
    header = next(chunks, b"")
    if header[:3] != b"\0\0\x08" or header[3:4] != bytes([ndim]):
        raise _corrupted(path, f"it does not start like an IDX file of bytes with {ndim} axes")
    if len(header) < 4 + 4 * ndim:
        raise _corrupted(path, "it ends in its header")
    shape = struct.unpack(f">{ndim}I", header[4:])
    size = int(np.prod(shape, dtype=object))
    if not 0 < size <= path.stat().st_size * 1100:  # deflate packs at most 1032 to 1
        raise _corrupted(path, f"its header promises the shape {shape}")
    return shape


def _chunks(path: Path) -> Iterator[bytes]:
    """Yield the header, then the rest in pieces, unpacked if it is gzipped."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        pieces = _unpacked(path, file) if packed else iter(lambda: file.read(_CHUNK), b"")
        start = next(pieces, b"")
        while len(start) < _LONGEST_HEADER and (more := next(pieces, b"")):
            start += more
        end = 4 + 4 * start[3] if len(start) > 3 else 0
        yield start[:end]
        yield start[end:]
        yield from pieces


def _unpacked(path: Path, file: BinaryIO) -> Iterator[bytes]:
    stream = zlib.decompressobj(wbits=31)
    try:
        while piece := stream.unconsumed_tail or file.read(_PACKED_CHUNK):
            if stream.eof:
                raise _corrupted(path, "something follows its gzip stream")
            yield stream.decompress(piece, _CHUNK)
        while not stream.eof and (rest := stream.decompress(b"", _CHUNK)):  # what it still holds back
            yield rest
    except zlib.error as error:
        raise _corrupted(path, f"its gzip stream is broken ({error})") from error
    if not stream.eof or stream.unused_data:
        raise _corrupted(path, f"its gzip stream {'has a tail' if stream.eof else 'ends too early'}")


def _corrupted(path: Path, what: str) -> DataError:
    return DataError(f"{path} is corrupted: {what}; delete it and load it again")

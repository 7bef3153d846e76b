"""`Source`: where data comes from and how it is read, as one value that can be written down."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import torch
from torch import Tensor

from dcs.data._catalogue import CATALOGUE
from dcs.data._dataset import DataError, Dataset, Split
from dcs.data._load import load
from dcs.data._noisy import freshened
from dcs.data._reading import Integer, NoiseSpec, Reading, parse_label
from dcs.data._recordings import AUDIO_SUFFIXES


class Source(Reading):
    """Data by name or path, the noise added to it, how it is read, and which samples of it are used.

    Args:
        data: Name of a known data set, or a path.
        root: Folder in which root/NAME holds the files of a known data set.
        noise: Noise to add to both splits, e.g. "gaussian:0.5", see `dcs.data.load`.
        seed: Random seed of the noise.
        part: `train` to learn from the training split, or `all` to learn from both splits joined, which are
            the test split too.
        subset: Number of training samples to keep, drawn at random, the same every time; by default all.
        prepare: `flat` interleaves the channels of points, x₁, y₁, x₂, …; `rgb` makes colour images of twice
            the size of grey ones; None leaves samples as they are.

    The other options are those of `Reading`. The order is: read, add noise, choose the part, prepare, subset.

    Example:
        >>> source = Source.of("digits", noise="gaussian:0.3", subset=100)
        >>> source.load()
        Dataset('digits', shape=(8, 8), train=100, test=597, classes=10)
        >>> Source.model_validate_json(source.model_dump_json()) == source
        True
        >>> source.as_options()
        ['--noise=gaussian:0.3']
    """

    data: str
    root: str | None = None
    noise: NoiseSpec | None = None
    seed: Integer = 0
    part: Literal["train", "all"] = "train"
    subset: Integer | None = None
    prepare: Literal["flat", "rgb"] | None = None

    @classmethod
    def of(cls, data: str | os.PathLike[str], **options: Any) -> Self:
        """Make a source of a name or a path, with paths made absolute."""
        root = options.pop("root", None)
        place = None if root is None else str(Path(root).expanduser().absolute())
        return cls(data=_absolute(data), root=place, **options)

    @classmethod
    def from_version_1(cls, described: Mapping[str, Any], shape: Sequence[int] = ()) -> Self | None:
        """Read what version 0.1 wrote of a run's data; None if that names no source.

        Args:
            described: `data` in the run's config.json, by `dcs fit` or `dcs reproduce`.
            shape: `shape` in the same file, which tells how an experiment prepared its samples.
        """
        data = described.get("source")
        if not isinstance(data, str):
            return None
        options: dict[str, Any] = {"data": data, "root": described.get("root")}
        noise = described.get("noise")
        if "part" in described:  # an experiment, which gives the deviation of Gaussian noise
            part, samples = described["part"], described.get("samples")
            entry = CATALOGUE.get(data)
            total = 0 if entry is None else entry.train + (entry.test if part == "all" else 0)
            prepared: dict[Any, Any] = {("digits", (3, 16, 16)): "rgb", ("pendigits", (16,)): "flat"}
            return cls(
                **options,
                noise=NoiseSpec(kind="gaussian", strength=noise) if noise else None,
                part=part,
                fold=described.get("fold"),
                subset=samples if samples is not None and samples < total else None,
                prepare=prepared.get((data, tuple(shape))),
            )
        label = described.get("label")
        if data not in CATALOGUE:
            options["rate"] = described.get("rate")
        return cls(
            **options,
            noise=noise,
            seed=described.get("seed") or 0,
            label=parse_label(label) if isinstance(label, str) else label,
            mixed="auto" if described.get("mixed") in (None, "error") else described["mixed"],
            size=described.get("size"),
            skip_bad=bool(described.get("skipped")),
        )

    def load(self, *, resident: bool | None = None, download: bool = True) -> Dataset:
        """Read the data.

        Args:
            resident: Whether to hold it in memory, see `dcs.data.load`.
            download: Whether to download what is not on disk.
        """
        whole = self.subset is None or (self.data in CATALOGUE and self.subset >= CATALOGUE[self.data].train)
        plain = self.noise is None and self.part == "train" and self.prepare is None
        if resident is None and plain and not whole:
            resident = False  # only the subset is read
        noise = None if self.noise is None else str(self.noise.model_copy(update={"fresh": False}))
        options = {name: getattr(self, name) for name in Reading.model_fields}
        data = load(self.data, self.root, download, noise=noise, seed=self.seed, resident=resident, **options)
        if self.part == "all":
            both = data.train if data.test is None else _join(data.train, data.test)
            data = replace(data, train=both, test=both)
        if self.prepare is not None:
            prepare = _PREPARE[self.prepare]
            train, test = (None if part is None else _map(part, prepare) for part in (data.train, data.test))
            assert train is not None  # noqa: S101
            data = replace(data, train=train, test=train if data.test is data.train else test)
        if self.subset is not None:
            data = replace(data, train=data.train.subset(self.subset))
        if self.noise is None or not self.noise.fresh:
            return data
        return replace(data, train=freshened(data.train, self.noise))

    def as_options(self) -> list[str]:
        """Return the command-line options that repeat the reading, without those left at their defaults."""
        size = "x".join(map(str, self.size)) if isinstance(self.size, tuple) else self.size
        values = {
            "noise": self.noise,
            "data-seed": self.seed or None,
            "root": self.root,
            "label": "none" if self.label is False else self.label,
            "mixed": None if self.mixed == "auto" else self.mixed,
            "size": size,
            "axes": self.axes,
            "rate": self.rate,
        }
        options = [f"--{name}={value}" for name, value in values.items() if value is not None]
        return [*options, "--skip-bad"] if self.skip_bad else options

    def as_read(self, data: Dataset) -> Self:
        """Return the source with the sample rate and the windows that its recordings were found to have."""
        if data.rate is None or not self._has_recordings():
            return self
        windows = {} if data.train.items is None else {"mixed": "windows", "size": data.shape[0]}
        return self.model_copy(update={"rate": data.rate, **windows})

    def reading_as(self, trained: "Source", length: int | None) -> Self:
        """Return the source, read as that of a training where no option says otherwise: axes, and recordings.

        Args:
            trained: Source that a run was trained on.
            length: Length of its samples.
        """
        entry = CATALOGUE.get(trained.data)
        rate = trained.rate if entry is None else entry.rate
        if not trained.has_rate or not self._has_recordings():
            plain = self.data in CATALOGUE or Path(self.data).suffix in (".csv", ".tsv", ".parquet", ".npz")
            return self if plain else self.model_copy(update={"axes": self.axes or trained.axes})
        mixed = trained.mixed if self.mixed == "auto" and self.size is None else self.mixed
        size = length if self.size is None else self.size
        return self.model_copy(update={"rate": self.rate or rate, "mixed": mixed, "size": size})

    @property
    def has_rate(self) -> bool:
        """Whether it is known to hold recordings; see `as_read`."""
        entry = CATALOGUE.get(self.data)
        return (self.rate if entry is None else entry.rate) is not None

    def _has_recordings(self) -> bool:
        """Whether these are one's own recordings."""
        path = Path(self.data).expanduser()
        files = path.rglob("*") if path.is_dir() else [path]
        return self.data not in CATALOGUE and any(file.suffix.lower() in AUDIO_SUFFIXES for file in files)


def _absolute(data: str | os.PathLike[str]) -> str:
    """Make a path absolute; a bare word that is no file is a known data set, or meant to be one."""
    if isinstance(data, str) and data in CATALOGUE:
        return data
    path = Path(data).expanduser()
    bare = isinstance(data, str) and path.name == data and not path.suffix and not path.exists()
    return data if bare and isinstance(data, str) else str(path.absolute())


def _join(one: Split, other: Split) -> Split:
    def both(name: str) -> Any:
        parts = [getattr(part, name) for part in (one, other)]
        return None if any(part is None for part in parts) else torch.cat(parts)

    x = torch.cat([_in_memory(one, "part='all'"), _in_memory(other, "part='all'")])
    lengths = None
    if one.lengths is not None or other.lengths is not None:
        full = [
            torch.full((len(part),), x.shape[1]) if part.lengths is None else part.lengths
            for part in (one, other)
        ]
        lengths = torch.cat(full)
    return Split(x, both("y"), both("clean"), [*one.names, *other.names], lengths)


def _map(split: Split, prepare: Callable[[Tensor], Tensor]) -> Split:
    clean = None if split.clean is None else prepare(split.clean)
    return replace(split, x=prepare(_in_memory(split, "prepare")), clean=clean)


def _in_memory(split: Split, option: str) -> Tensor:
    if not isinstance(split.x, Tensor):
        raise DataError(
            f"{option} needs data in memory, but it is read from disk: pass resident=True if it fits"
        )
    return split.x


def _flat(x: Tensor) -> Tensor:
    if x.ndim != 3:
        raise DataError(f"prepare='flat' is for samples (channels, points), got shape {tuple(x.shape[1:])}")
    return x.transpose(1, 2).flatten(1).contiguous()


def _rgb(x: Tensor) -> Tensor:
    if x.ndim != 3:
        raise DataError(f"prepare='rgb' is for grey images (height, width), got shape {tuple(x.shape[1:])}")
    large = x[:, None].repeat_interleave(2, 2).repeat_interleave(2, 3)
    return large.expand(-1, 3, -1, -1).contiguous()


_PREPARE = {"flat": _flat, "rgb": _rgb}

"""What a finished run makes of data: features, denoised samples, and signals of any length."""

import contextlib
import copy
import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor, nn

from dcs import models, objectives
from dcs._progress import progress
from dcs.augmentation import Views
from dcs.data import (
    DataWarning,
    Items,
    ListItems,
    LogMel,
    RandomWindows,
    Samples,
    Spectrograms,
    Split,
    map_batches,
    windowed,
)
from dcs.runs.record import Learned, RunRecord
from dcs.runs.scale import Array, Numbers, batches, largest_value, match, nearest
from dcs.runs.tiling import Tiling, noise_at, places, predict_item

_OTHER_UNITS = 100  # pixels as integers and as fractions of one differ by 255
# Seed of the masks that data is scored with. Not one that people choose: with it, `dcs.noise.add` would have
# drawn the very noise that a split draws.
_SCORE_SEED = 0x5C07E_DA7A
_WINDOW_ENTRIES = 2**17  # encoded at once
_TILES = {1: (2**17,), 2: (1536, 1536), 3: (48, 192, 192)}  # for networks that take samples of any size
_DRAWS = 4


@dataclass(eq=False)
class Predictor:
    """A trained network with all that is needed to use it.

    Args:
        network: Trained network, on the CPU.
        objective: Objective it was trained with; None if that is not known.
        record: Record of the run.
        front_end: Front end with the statistics of the training data, for spectrograms.
        history: Metrics of each epoch.
    """

    network: nn.Module
    objective: objectives.Objective | None
    record: RunRecord
    front_end: LogMel | None = None
    history: list[dict[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.network.eval()
        self.device = models.device_named(self.record.training.device)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return self.record.shape

    @property
    def learned(self) -> Learned:
        """What training has found."""
        return self.record.learned or Learned()

    @property
    def predicts(self) -> bool:
        """Whether the network predicts samples; otherwise only its features are of use."""
        return self.learned.predicts if self.objective is None else self.objective.predicts

    @property
    def scale_free(self) -> bool:
        """Whether only the direction of a prediction counts."""
        return self.learned.scale_free if self.objective is None else self.objective.scale_free

    def name_features(self, names: tuple[str, ...]) -> None:
        """Record the names of the columns of the training data."""
        learned = self.learned.model_copy(update={"feature_names": names})
        self.record = self.record.model_copy(update={"learned": learned})

    @property
    def window(self) -> tuple[int, ...] | None:
        """Size of the windows that the network was trained on; None if it takes samples as a whole."""
        return self.record.training.window

    def takes_windows(self, data: Split | Numbers) -> bool:
        """Return whether features and predictions are those of windows of data.

        Runs of version 0.1 have learned from windows of recordings without saying so.
        """
        return self.window is not None or (isinstance(data, Split) and data.items is not None)

    def transform(self, data: Split | Numbers) -> Array:
        """Compute the features of samples, (n, k) in float32.

        Of items that are larger than a window, these are the mean and the deviation over its windows of each
        feature, (n, 2k).
        """
        if not self.takes_windows(data):
            return self.encode(*self._seen(data))
        found = [(features, numbers) for features, numbers, _ in self.encode_windows(self.items_of(data))]
        features, numbers = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return pooled(features, numbers)

    def encode_windows(
        self, items: Items, hop: int | None = None
    ) -> Iterator[tuple[Array, list[int], list[tuple[int, ...]]]]:
        """Yield the features of windows that cover all items, (m, k), with their items and places.

        Args:
            items: Items of any size.
            hop: Distance between windows along each axis; by default they are side by side.
        """
        encode, inputs = models.encoder_of(self.network), self._inputs()
        for x, found in self._windows(items, "encoding", hop):
            numbers, starts = zip(*found, strict=True)
            yield encode(inputs(x)).float().cpu().numpy(), list(numbers), list(starts)

    def _windows(
        self, items: Items, what: str, hop: int | None = None
    ) -> Iterator[tuple[Tensor, list[tuple[int, tuple[int, ...]]]]]:
        """Yield what the network sees of the windows that cover items, with their items and places."""
        window = self.window or self.shape
        found, done = places(items, window, hop), 0
        with models.inferring(self.network, self.device), progress(what, len(items)) as advance:
            while some := list(itertools.islice(found, max(1, _WINDOW_ENTRIES // math.prod(window)))):
                x = torch.stack([items.padded(index, place, window) for index, place in some])
                x = self.learned.units.apply(x).to(self.device)
                yield x if self.front_end is None else self.front_end(x), some
                advance(some[-1][0] - done)
                done = some[-1][0]

    def encode(self, x: Numbers, lengths: Tensor | None = None) -> Array:
        """Compute the features of what the network sees of samples: these, or their spectrograms."""
        encode, inputs = models.encoder_of(self.network), self._inputs()
        return self._map(lambda x, _=None: encode(inputs(x)), x, lengths)

    def feature_map(self, items: Items, index: int) -> Array:
        """Compute features for every place of an item, (k, ...), one for each `stride` entries along an axis.

        The network must have a method `map`, as `ResidualUNet` has.
        """
        self.check_maps()
        compute: Any = self.network.map
        tiling, units = self._tiling(), self.learned.units
        with models.inferring(self.network, self.device):
            channels = compute(torch.zeros(1, *self.shape, device=self.device)).shape[1]
            size = (-(-length // tiling.stride) for length in items.sizes[index])
            result = np.zeros((channels, *size), np.float32)
            predict_item(
                lambda seen, _: compute(units.apply(seen).to(self.device)).float().cpu(),
                items,
                index,
                tiling,
                result,
                scale=tiling.stride,
            )
        return result

    def denoise(self, data: Split | Numbers) -> Any:
        """Predict the clean samples behind noisy ones, in their shape and float32.

        An objective that sees directions only leaves the length of a prediction s_hat open; it is then
        a s_hat with a = ⟨x, s_hat⟩/‖s_hat‖², the nearest to x in that direction. With a front end, the
        spectrogram in dB is predicted, for windows of recordings one after the other. Items of different
        sizes are a list of arrays.
        """
        self.check_predicts("denoise")
        if self.takes_windows(data):
            items = self.items_of(data)
            if self.front_end is not None:
                seen = self._windows(items, "denoising")
                return np.concatenate([self._undone(self._predict(x)).float().cpu().numpy() for x, _ in seen])
            whole = [self.denoise_item(items, index) for index in range(len(items))]
            return np.stack(whole) if len(set(items.sizes)) == 1 else whole
        x, lengths = self._seen(data)
        return self._map(lambda x, valid=None: self._undone(self._predict(x, valid)), x, lengths)

    @property
    def added(self) -> float:
        """Standard deviation of the noise that was added to what the network has seen."""
        if self.learned.paired:
            return 0.0
        return float(getattr(getattr(self.objective, "masker", None), "added", 0.0))

    def denoise_item(
        self,
        items: Items,
        index: int,
        *,
        out: Array | None = None,
        draws: int | None = None,
        advance: Callable[[float], object] = lambda _: None,
    ) -> Array:
        """Predict the clean item behind a noisy one of any size, in bounded memory.

        Args:
            items: Items, of which one is denoised.
            index: Its number.
            out: Array of zeros of its shape, in float32, that the result is written to, such as a file that
                is mapped into memory; by default a new one.
            draws: Number of predictions to average, each from the item with other noise added, as in
                training; 0 predicts from the item as it is. By default 4 for pictures and volumes, where
                training has split samples.
            advance: Function that is told how many more entries, without channels, are denoised.
        """
        self.check_predicts("denoise")
        added = self.added
        draws = (0 if items.ndim == 1 else _DRAWS) if draws is None else draws
        # The length of a prediction, where it is open, follows the loudness of each window, or the brightness
        # and contrast of the whole picture.
        by_window = self.scale_free and items.ndim == 1
        result = np.zeros(items.shape(items.sizes[index]), np.float32) if out is None else out
        units, key = self.learned.units, self.record.training.seed
        precise: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
        if self.record.training.precision == "bf16":
            precise = torch.autocast(self.device.type, torch.bfloat16)

        def predict(seen: Tensor, starts: list[tuple[int, ...]]) -> Tensor:
            x, total = units.apply(seen).to(self.device), None
            for draw in range(draws if added else 0):
                noise = [noise_at(key, draw, start, seen.shape[1:]) for start in starts]
                with precise:
                    part = self.network(x + added * torch.stack(noise).to(self.device)).float()
                total = part if total is None else total + part
            if total is None:
                with precise:
                    total = self.network(x).float() * max(1, draws)
            mean = total / max(1, draws)
            return units.undo((nearest(x, mean) if by_window else mean).float().cpu())

        with models.inferring(self.network, self.device):
            predict_item(predict, items, index, self._tiling(), result, advance=advance)
        if self.scale_free and not by_window:
            match(result, items, index)
        return result

    def _tiling(self) -> Tiling:
        """Return how items are covered: by overlapping windows, or by tiles if the network takes any size."""
        window, stride = self.window or self.shape, int(getattr(self.network, "stride", 0))
        if not stride or not hasattr(self.network, "context"):
            return Tiling(window)
        margin = -(-int(self.network.context) // stride) * stride  # type: ignore[arg-type]
        return Tiling(_TILES[len(window)], margin, stride)

    def items_of(self, data: Split | Numbers) -> Items:
        """Return data as items, which must have the channels of the training data.

        Grey pictures are repeated in three channels for a run on colour.
        """
        split = data if isinstance(data, Split) else Split(data)
        window = self.window or self.shape
        items = windowed(split, window).items
        assert items is not None  # noqa: S101
        if items.channels is None and items.repeated(3).shape(window) == self.shape:
            items = items.repeated(3)
        if items.shape(window) != self.shape:
            channels = {None: "one channel (grey)", 3: "3 channels (colour)"}
            have, want = (
                channels.get(count, f"{count} channels")
                for count in (items.channels, self.shape[0] if len(self.shape) > items.ndim else None)
            )
            raise ValueError(
                f"the data has {have}, but the run was trained on data with {want}: convert it first"
            )
        return items

    def denoise_signal(self, signal: Tensor) -> Tensor:
        """Predict the clean signals behind noisy ones of any length, (channels, t).

        They are cut into overlapping windows of the length the network was trained on, whose predictions are
        cross-faded.
        """
        if len(self.shape) != 1 or self.front_end is not None:
            raise ValueError(
                "denoise_signal needs a network that was trained on waveforms (n, t), without a front end: "
                "use network='waveunet'"
            )
        self.check_predicts("denoise_signal")
        items = ListItems(list(signal), 1)
        return torch.from_numpy(np.stack([self.denoise_item(items, index) for index in range(len(items))]))

    def decode(self, features: Tensor) -> Array:
        """Predict samples from features, (n, k)."""
        self.check_predicts("inverse_transform")
        decode = getattr(self.network, "decode", None) or getattr(self.network, "decoder", None)
        if decode is None:
            raise ValueError(
                f"inverse_transform needs a network with decode, which {type(self.network).__name__} lacks: "
                f"its features alone do not determine a sample; use denoise, or another network"
            )
        scale = self.learned.scale if self.scale_free else 1.0
        if scale is None:
            raise ValueError("inverse_transform needs a scale, which this run was saved without: use denoise")
        return self._map(lambda z: self._undone(scale * decode(z)), features)

    def loss(self, data: Split | Numbers, pair: Split | Numbers | None = None) -> float:
        """Compute the objective on samples, with the same masks every time."""
        self.check_predicts("score")
        if self.objective is None:
            raise ValueError("score needs the objective, which was not saved: use load(path, objective=...)")
        x, lengths = self._seen(data)
        objective = copy.deepcopy(self.objective).to(self.device)
        generator, total, pairs = Generator(self.device).manual_seed(_SCORE_SEED), 0.0, None
        if pair is not None:
            second, _ = self._seen(pair)
            if tuple(second.shape) != tuple(x.shape):
                raise ValueError("pair must be a second observation of X, item by item, got other sizes")
            pairs = batches(second, None, self.device)
        with models.inferring(self.network, self.device):
            for some, valid in batches(x, lengths, self.device):
                other = None if pairs is None else next(pairs)[0]
                total += float(objective(self.network, some, generator, other, valid=valid)) * len(some)
        return total / len(x)

    def check_predicts(self, method: str) -> None:
        """Raise if the network gives features only."""
        if not self.predicts:
            raise ValueError(
                f"{method} needs an objective that predicts samples, such as 'dcs': "
                f"{self.record.training.objective} learns features only, which transform returns"
            )

    def check_maps(self) -> None:
        """Raise if the network has no feature maps."""
        if not hasattr(self.network, "map"):
            name = type(self.network).__name__
            raise ValueError(f"feature maps need a network with map, such as resunet, which {name} lacks")

    def check_data(self, x: Numbers) -> None:
        """Raise if samples have another shape than in training; warn if their units seem to differ."""
        if tuple(x.shape[1:]) != self.shape:
            raise ValueError(
                f"X must have samples of shape {self.shape}, as fitted, got {tuple(x.shape[1:])}"
            )
        here, fitted = 0.0 if isinstance(x, Samples) else largest_value(x), self.learned.largest
        if fitted and here and not 1 / _OTHER_UNITS < here / fitted < _OTHER_UNITS:
            warnings.warn(
                f"X has values up to {here:.3g}, the training data up to {fitted:.3g}: are the units the "
                f"same? 8- and 16-bit unsigned integers are scaled to 0…1, other numbers are not",
                DataWarning,
                stacklevel=5,
            )

    def _inputs(self) -> Callable[[Tensor], Tensor]:
        """Return what makes network inputs of samples."""
        if self.objective is not None:
            return self.objective.inputs
        # An objective that was given as an object, and normalised images.
        augment = self.record.training.objective_options.get("augment")
        return Views(**augment).normalise if isinstance(augment, Mapping) else lambda x: x

    def _predict(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        prediction: Tensor = self.network(x)
        return nearest(x, prediction, valid) if self.scale_free else prediction

    def _undone(self, prediction: Tensor) -> Tensor:
        """Return a prediction in the units of the data, or of its spectrogram in dB."""
        return prediction if self.front_end is None else self.front_end.undo(prediction)

    def _seen(self, data: Split | Numbers) -> tuple[Numbers, Tensor | None]:
        """Return what the network sees of data, and the lengths of samples without padding."""
        if self.takes_windows(data):
            windows = RandomWindows(self.items_of(data), self.window or self.shape, self.learned.units)
            return windows if self.front_end is None else Spectrograms(windows, self.front_end), None
        x, lengths = (data.x, data.lengths) if isinstance(data, Split) else (data, None)
        self.check_data(x)
        if self.front_end is None:
            return x, lengths
        return self.front_end.of(x, lengths), None if lengths is None else self.front_end.frames_of(lengths)

    def _map(
        self,
        call: Callable[..., Tensor],
        x: Numbers,
        lengths: Tensor | None = None,
        rows: int | None = None,
    ) -> Array:
        with models.inferring(self.network, self.device):
            return map_batches(call, x, rows=rows, device=self.device, lengths=lengths)


def pooled(features: Array, numbers: Array) -> Array:
    """Return the mean and the deviation over windows of each feature, (n, 2k).

    Args:
        features: Features of windows, (m, k).
        numbers: Number of the item that each window belongs to, from 0, (m,).
    """
    sums = np.zeros((3, int(numbers.max()) + 1, features.shape[1]))
    values = features.astype(np.float64)
    for total, part in zip(sums, (np.ones_like(values), values, values**2), strict=True):
        np.add.at(total, numbers, part)
    mean = sums[1] / sums[0]
    deviation = np.sqrt(np.maximum(0, sums[2] / sums[0] - mean**2))
    return np.concatenate([mean, deviation], axis=1).astype(np.float32)

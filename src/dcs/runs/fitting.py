"""One way to fit: from data and settings to a trained network, in a run directory or in memory."""

import contextlib
import copy
import json
import math
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn

from dcs import models
from dcs._registry import named
from dcs.data import (
    Items,
    LogMel,
    RandomWindows,
    Samples,
    Source,
    Spectrograms,
    Split,
    Units,
    fingerprint,
    measure_units,
    paired_items,
    windowed,
)
from dcs.noise.split import HoldsSigma
from dcs.objectives import AutomaticViews, MaskedObjective, Objective
from dcs.runs.directory import Run, load
from dcs.runs.predictor import Predictor
from dcs.runs.record import Learned, RunRecord
from dcs.runs.scale import Numbers, largest_value, prediction_scale
from dcs.training import Monitor, TrainingConfig, make_front_end, make_network, make_objective, train
from dcs.training.distributed import start
from dcs.training.loggers import Display
from dcs.training.loop import seeded, threaded


class Seen(NamedTuple):
    """What the network sees of data."""

    x: Numbers
    lengths: Tensor | None
    pair: Numbers | None
    front_end: LogMel | None
    units: Units = Units()

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return tuple(self.x.shape[1:])


class Parts(NamedTuple):
    """Parts of a training that are given as objects, in place of names in the configuration."""

    network: nn.Module | None = None
    objective: Objective | None = None
    monitor: Monitor | None = None
    pair: Split | Numbers | None = None
    seen: Seen | None = None  # what `see` returned for the data, to save computing it again


def fit(
    data: Split,
    config: TrainingConfig,
    out: Path | None = None,
    *,
    parts: Parts | None = None,
    source: Source | None = None,
    trial: Mapping[str, Any] | None = None,
    feature_names: Sequence[str] = (),
    skipped: Sequence[str] = (),
    resume: bool = False,
    overwrite: bool = False,
    displays: Sequence[Display] = (),
) -> Predictor:
    """Train a network, or load it if the run has already finished.

    Args:
        data: Samples to learn from.
        config: Complete configuration; see `dcs.training.complete`.
        out: Directory of the run; None keeps the result in memory.
        parts: Parts that are given as objects.
        source: Where the data came from, for the record.
        trial: Trial of an experiment that the run belongs to, for the record.
        feature_names: Names of the columns of the data.
        skipped: Files that could not be read and were left out, for the record.
        resume: Whether to resume the run in `out`, or to load it if it has finished.
        overwrite: Whether to remove the run in `out`.
        displays: What shows or logs the metrics of each epoch.
    """
    parts = parts or Parts()
    if config.window is not None:
        data = windowed(data, config.window)
    if parts.seen is None:
        seen = see(data, config, parts.pair)
    else:
        seen = parts.seen._replace(pair=_numbers(parts.pair))
    x, lengths, pair, front_end, units = seen
    objective = make_objective(config) if parts.objective is None else parts.objective
    with seeded(config.seed):  # dropout and other layers draw from torch's own random state
        network = make_network(config, seen.shape) if parts.network is None else parts.network
    count_features(network.cpu(), seen.shape)
    if parts.pair is None:
        check_views(objective, seen.shape)
    for part in objective.modules():  # a noise level is given in the units of the data
        if isinstance(part, HoldsSigma) and part.is_known and units.scale != 1:
            part.sigma.div_(units.scale)
    plain, left_out = _plain(config)
    record = RunRecord(
        source=source,
        samples=len(data),
        fingerprint=fingerprint(data.x),
        shape=tuple(data.x.shape[1:]),
        training=plain,
        skipped=tuple(skipped),
        left_out=left_out,
        trial=None if trial is None else dict(trial),
    )
    with contextlib.ExitStack() as stack:
        run = None
        if out is not None:
            group = start(config.device)
            run = stack.enter_context(
                Run(out, record, resume=resume, overwrite=overwrite, main=group.is_main, displays=displays)
            )
            if group.broadcast(run.finished):  # process 0 may just have removed what was there
                run.read()
                return load(out, parts.network, parts.objective if objective.predicts else None)
        trained = copy.deepcopy(network).train()  # the loop moves and wraps what it trains
        history = train(
            trained, objective, x, config, pair=pair, lengths=lengths, recorder=run, monitor=parts.monitor
        )
        network.load_state_dict(trained.state_dict())
        with threaded(config.threads):
            scale = prediction_scale(network, objective, x, lengths, models.device_named(config.device))
        learned = Learned(
            scale=scale,
            units=units,
            largest=largest_value(data.x),
            feature_names=tuple(feature_names),
            front_end=None if front_end is None else front_end.describe(),
            objective=_in_data_units(objective.describe(), units),
            paired=pair is not None,
            predicts=objective.predicts,
            scale_free=objective.scale_free,
        )
        record = record.model_copy(update={"learned": learned})
        if run is not None:
            # Heads of self-supervised objectives are only used in training, as is one without a name.
            kept = objective.state_dict() if objective.predicts and parts.objective is None else None
            run.finish(network.state_dict(), kept, learned)
            record = run.record
        return Predictor(network, objective.cpu(), record, front_end, history)


def _in_data_units(described: dict[str, Any], units: Units) -> dict[str, Any]:
    """Return the description of an objective with noise levels in the units of the data."""
    return {
        name: _in_data_units(value, units)
        if isinstance(value, dict)
        else value * units.scale
        if name == "sigma" and isinstance(value, float)
        else value
        for name, value in described.items()
    }


def see(data: Split, config: TrainingConfig, pair: Split | Numbers | None = None) -> Seen:
    """Return what the network sees of data: samples, or standardised spectrograms of recordings."""
    if config.window is not None:
        return _see_windows(data, config, pair)
    pair = _numbers(pair)
    front_end = make_front_end(config)
    if front_end is None:
        return Seen(data.x, data.lengths, pair, None)
    with named("front_end"):
        front_end = front_end.fit(data.x, data.lengths)
    x = front_end.of(data.x, data.lengths)
    second = None if pair is None else front_end.of(pair, data.lengths)
    lengths = None if data.lengths is None else front_end.frames_of(data.lengths)
    return Seen(x, lengths, second, front_end)


def _numbers(pair: Split | Numbers | None) -> Numbers | None:
    return pair.x if isinstance(pair, Split) else pair


def _see_windows(data: Split, config: TrainingConfig, pair: Split | Numbers | None) -> Seen:
    """Return random windows of data, or their spectrograms; those of a pair are at the same places."""
    window = config.window or ()
    items = windowed(data, window).items
    assert items is not None  # noqa: S101
    largest = tuple(max(lengths) for lengths in zip(*items.sizes, strict=True))
    if any(side > length for side, length in zip(window, largest, strict=True)):
        raise ValueError(f"window must be at most {largest}, the size of the largest sample, got {window}")
    windows = RandomWindows(items, window)
    front_end, units = make_front_end(config), Units()
    if front_end is not None:
        with named("front_end"):
            front_end = front_end.fit(windows)
    elif config.standardise:
        units = measure_units(windows)

    def view(items: Items) -> Samples:
        windows = RandomWindows(items, window, units)
        return windows if front_end is None else Spectrograms(windows, front_end)

    second = None if pair is None else view(paired_items(items, pair, window))
    return Seen(view(items), None, second, front_end, units)


def see_shape(config: TrainingConfig, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of what the network sees of samples of a shape."""
    if config.window is not None:
        shape = (*shape[: -len(config.window)], *config.window)
    front_end = make_front_end(config)
    with named("front_end"):
        return shape if front_end is None else front_end.shape(*shape)


def estimate(data: Split, config: TrainingConfig) -> dict[str, float]:
    """Estimate how long a training would take, by a few steps, and how much memory it needs."""
    x = see(data, config).x
    n = x.shape[0]
    some = x.read(range(min(n, config.batch_size))) if isinstance(x, Samples) else x[: config.batch_size]
    steps = -(-round(n * (1 - config.validation)) // config.batch_size) * config.max_epochs
    network = make_network(config, tuple(x.shape[1:]))
    trial = config.model_copy(update={"max_epochs": 3, "validation": 0.0, "patience": None, "compile": False})
    train(network, make_objective(config), some, trial.model_copy(update={"max_epochs": 1}))
    began = time.perf_counter()
    train(network, make_objective(config), some, trial)
    seconds = (time.perf_counter() - began) / 3 * steps
    unit = 1 if sys.platform == "darwin" else 1024
    return {
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "about_seconds": round(seconds, 1),
        # The steps above have used what a training uses: data, weights, averages of Adam and activations.
        "about_megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6),
    }


def count_features(network: nn.Module, shape: tuple[int, ...]) -> int:
    """Return the number of features of a network, by trying it on two samples."""
    encode, probe = models.encoder_of(network), torch.zeros(2, *shape)
    with models.inferring(network, torch.device("cpu")):
        try:
            features, prediction = encode(probe), network(probe)
        except (RuntimeError, ValueError, IndexError) as error:
            raise ValueError(f"network cannot take samples of shape {shape}: {error}") from error
    if len(features) != 2 or prediction.shape != probe.shape:
        raise ValueError(
            f"network must return x's shape, {tuple(probe.shape)}, and (2, k) features of it; got "
            f"{tuple(prediction.shape)} and {tuple(features.shape)}"
        )
    return int(features.shape[1])


def check_views(objective: Objective, shape: tuple[int, ...]) -> None:
    """Try the view maker on two samples, so that data too small for it is refused with a remedy."""
    if not isinstance(objective, MaskedObjective):
        return
    maker = objective.views_for(shape)
    if isinstance(maker, HoldsSigma) and not isinstance(maker, AutomaticViews):
        return  # a split takes samples of any shape
    probe, generator = torch.zeros(2, *shape), Generator().manual_seed(0)
    try:
        maker.view(probe, generator)
    except ValueError as error:
        raise ValueError(
            f"samples of shape {shape} (n_features = {math.prod(shape)}) cannot be masked: {error}; or use "
            f"an objective without masks, such as 'mse' or 'dae'"
        ) from error


def _plain(config: TrainingConfig) -> tuple[TrainingConfig, dict[str, str]]:
    """Return the configuration without options that are objects, and those by name."""
    kept: dict[str, dict[str, Any]] = {}
    left_out = {}
    for setting in ("objective_options", "masking", "network_options"):
        kept[setting] = dict(getattr(config, setting))
        for name, value in getattr(config, setting).items():
            try:
                json.dumps(value, allow_nan=False)
            except (TypeError, ValueError):
                left_out[f"{setting}.{name}"] = repr(kept[setting].pop(name))[:1000]
    return config.model_copy(update=kept), left_out

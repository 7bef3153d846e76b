"""`DenoisingEncoder`: the whole of dcs-learn as one scikit-learn transformer."""

import contextlib
import copy
import dataclasses
import json
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from torch import Generator, Tensor, nn
from torch.utils.data import Dataset as TorchDataset

from dcs import data, models, objectives
from dcs._checks import check_choice, check_integer
from dcs._given import at_once, check_nd, lengths_of, ndim_of, source_of, stream
from dcs._long_signals import cross_fade, cut
from dcs._predicting import (
    SCALE_FREE,
    Array,
    Numbers,
    check_units,
    collect,
    device_named,
    encoder_of,
    largest_value,
    nearest,
    predicting,
    prediction_scale,
    rows_of,
)
from dcs._saved import FORMAT, FORMAT_VERSION, check_target, write_folder
from dcs.augmentation import Views
from dcs.noise import GaussianSplit
from dcs.training import TrainingConfig, make_front_end, make_network, make_objective, read_config, train
from dcs.training.config import with_recipe
from dcs.training.run import MODEL, OBJECTIVE, versions

# Where these are None, they are as the objective is trained.
_AS_TRAINED = ("optimizer", "learning_rate", "schedule", "weight_decay", "validation")
# Of the masks that data is scored with. Not a seed that people choose: with it, `dcs.noise.add` would have
# drawn the very noise that a split draws.
_SCORE_SEED = 0x5C07E_DA7A
_SIGNAL_ENTRIES = 2**17  # of windows of a long signal at once: with more, a U-Net's maps leave the cache


class DenoisingEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Learns features from noisy, unlabelled data; a scikit-learn transformer.

    Data, called X below, is an array, list, data frame, tensor, memory map, `torch.utils.data.Dataset`,
    `dcs.data.Samples` or `dcs.data.Split` of samples (n, d), (n, t), (n, h, w) or (n, c, h, w). 8- and 16-bit
    unsigned integers are pixel values and scaled to 0…1, as by `dcs.data.load`; other numbers are taken as
    they are. Neighbouring entries are used for masking: for columns without an order see `objective`.

    Args:
        objective: What is minimised: `dcs`, `n2v`, `sure`, `dae`, `n2n`, `mse`, `cosine`, or an
            `dcs.objectives.Objective`. For columns without an order: `mse`, `dae`, or a masker of one's own
            in `objective_options={"masker": ...}`.
        objective_options: Of the objective, if it is a name, such as {"power": 1}.
        masking: Of the masker, if the objective is a name, such as {"rho": 0.2, "radius": 2}, or
            {"kind": "amplitude"} for signals.
        front_end: For waveforms, (n, t): options of `dcs.data.LogMel`, such as {"rate": 16000}; the network
            then sees standardised log-mel spectrograms, masked along time. None: X as it is.
        network: `mlp`, `conv`, `conv1d`, `unet`, `vit`, `waveunet`, or `resnet18` and `resnet50`, which
            `simsiam` and the like are made for; or a module, of which a copy is trained; or a callable
            (shape, n_components) that makes one. A module returns x's shape and has `encode` or `encoder` for
            the features; with `decode` or `decoder` there is a way back from them.
        network_options: Of the network, such as {"hidden": (256, 256)}.
        n_components: Features, unless the network is a module or a ResNet, whose features follow from width.
        max_epochs: Epochs, unless stopped early. With little data an epoch is few steps: some thousands of
            those are needed.
        batch_size: Samples a step.
        optimizer: `adam`, or `sgd` with momentum. Where this and the next are None, they are as the objective
            is trained: adam, 0.001, `constant`, 0 and 0.1; for `simsiam` and the like as on CIFAR, by sgd,
            0.03, `cosine`, 5e-4 and nothing held out, as by `dcs fit`.
        learning_rate: Of Adam; of SGD for batches of 256.
        momentum: Of SGD.
        schedule: Of the learning rate: `constant` or `cosine`.
        fixed_predictor_rate: Whether the schedule leaves out the predictor of SimSiam and BYOL.
        warmup_epochs: In which the learning rate rises linearly from 0.
        weight_decay: Of AdamW (0 is plain Adam), or of SGD.
        clip_norm: Largest norm of the gradient.
        validation: Share of the samples held out.
        patience: Epochs of a clearly higher held-out loss before stopping; the latest weights that are not
            clearly worse than the best are kept.
        ema: Decay of the average of weights that is kept, over fewer steps at first.
        precision: Of training: `no` (float32), `fp16` or `bf16`. Predictions are made in float32.
        compile: Whether to compile the network for training; not with `simsiam` and the like.
        device: `auto` (the best there is) or `cpu`.
        resident: Whether to hold data in memory or to read it batch by batch; None decides by its size.
        random_state: Of weights, order, masks and the held-out share: an integer, a numpy RandomState, or
            None for another each time.

    Attributes:
        network_: The trained network, on the CPU.
        objective_: What was minimised.
        front_end_: What makes spectrograms, with the statistics of what was fitted; or None.
        history_: The metrics of each epoch.
        n_iter_: Epochs run.
        shape_: Of one sample.
        scale_: What `inverse_transform` multiplies by, where the objective sees directions only; 1 elsewhere.
        largest_: Largest absolute value of what was fitted; data in other units is warned of.
        n_features_in_: Entries of a sample.
        feature_names_in_: Names of the columns, if X had any.

    Example:
        >>> X = np.random.RandomState(0).normal(size=(60, 16))
        >>> encoder = DenoisingEncoder(n_components=3, max_epochs=2, objective="n2v", random_state=0)
        >>> encoder.fit_transform(X).shape
        (60, 3)
    """

    network_: nn.Module
    objective_: objectives.Objective | None
    front_end_: data.LogMel | None
    scale_: float | None
    largest_: float | None
    _scale_free: bool
    _features_only: bool

    def __init__(
        self,
        *,
        objective: str | objectives.Objective = "dcs",
        objective_options: dict[str, Any] | None = None,
        masking: dict[str, Any] | None = None,
        front_end: dict[str, Any] | None = None,
        network: str | nn.Module | Callable[..., nn.Module] = "mlp",
        network_options: dict[str, Any] | None = None,
        n_components: int = 10,
        max_epochs: int = 100,
        batch_size: int = 256,
        optimizer: str | None = None,
        learning_rate: float | None = None,
        momentum: float = 0.9,
        schedule: str | None = None,
        fixed_predictor_rate: bool = False,
        warmup_epochs: float = 0,
        weight_decay: float | None = None,
        clip_norm: float | None = None,
        validation: float | None = None,
        patience: int | None = None,
        ema: float | None = None,
        precision: str = "no",
        compile: bool = False,  # noqa: A002  (as the setting of a run is called)
        device: str = "auto",
        resident: bool | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.objective = objective
        self.objective_options = objective_options
        self.masking = masking
        self.front_end = front_end
        self.network = network
        self.network_options = network_options
        self.n_components = n_components
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.schedule = schedule
        self.fixed_predictor_rate = fixed_predictor_rate
        self.warmup_epochs = warmup_epochs
        self.weight_decay = weight_decay
        self.clip_norm = clip_norm
        self.validation = validation
        self.patience = patience
        self.ema = ema
        self.precision = precision
        self.compile = compile
        self.device = device
        self.resident = resident
        self.random_state = random_state

    def fit(self, X: Any, y: object = None, pair: Any = None) -> Self:  # noqa: N803, ARG002
        """Learn from noisy samples.

        Args:
            X: Noisy samples.
            y: Ignored.
            pair: A second noisy observation of the same things, of X's shape; the network then sees it in
                place of a masked X.
        """
        config = self._config()
        self.__dict__.pop("network_", None)  # what was fitted before goes as a whole
        waves = self._read(X, fitting=True)
        second = self._read_pair(pair, waves)
        self.shape_, self.largest_ = tuple(waves.shape[1:]), largest_value(waves)
        with _naming("front_end"):
            front_end = make_front_end(config)
            self.front_end_ = None if front_end is None else front_end.fit(waves, lengths_of(X))
        (x, lengths), second = self._seen(waves, lengths_of(X)), self._seen(second, lengths_of(X))[0]
        shape = tuple(x.shape[1:])
        objective = self._make_objective(config, shape)
        with seeded(config.seed):  # dropout and the like draw from torch's own random state
            network = self._make_network(config, shape).cpu()
            features = count_features(network, shape)
            if second is None:
                _check_masking(objective, shape)
            trained = copy.deepcopy(network).train()  # the loop moves and wraps what it trains
            history = train(trained, objective, x, config, pair=second, lengths=lengths)
        network.load_state_dict(trained.state_dict())
        self.network_, self.objective_ = network.eval(), objective.cpu()
        self.history_, self.n_iter_ = history, len(history)
        self._n_features_out = features
        self._scale_free = isinstance(objective, SCALE_FREE)
        self._features_only = isinstance(objective, objectives.SelfSupervised)
        self.scale_ = prediction_scale(network, objective, x, device_named(self.device), lengths)
        return self

    def transform(self, X: Any) -> Array:  # noqa: N803
        """Return the features of samples, (n, n_components) in float32."""
        check_is_fitted(self)
        x, lengths = self._seen(self._read(X), lengths_of(X))
        encode, objective = encoder_of(self.network_), self.objective_
        # A self-supervised objective's network takes normalised images.
        normalise = objective.inputs if isinstance(objective, objectives.SelfSupervised) else None

        def features(x: Tensor, _valid: Tensor | None = None) -> Tensor:
            return encode(x if normalise is None else normalise(x))

        return collect(self.network_, features, x, device_named(self.device), lengths)

    def denoise(self, X: Any) -> Array:  # noqa: N803
        """Predict the clean samples behind noisy ones, in X's shape and float32.

        An objective that sees directions only (`dcs`, `cosine`) leaves the length of a prediction s_hat open;
        it is then a s_hat with a = ⟨x, s_hat⟩/‖s_hat‖², the nearest to x in that direction. With a front end,
        it is the spectrogram in dB that is predicted.
        """
        check_is_fitted(self)
        self._check_predicts("denoise")
        x, lengths = self._seen(self._read(X), lengths_of(X))

        def predict(x: Tensor, valid: Tensor | None = None) -> Tensor:
            prediction: Tensor = self.network_(x)
            prediction = nearest(x, prediction, valid) if self._scale_free else prediction
            return prediction if self.front_end_ is None else self.front_end_.undo(prediction)

        return collect(self.network_, predict, x, device_named(self.device), lengths)

    def denoise_signal(self, signal: Any) -> Array:
        """Predict the clean signal behind a noisy one of any length, (t,) or (channels, t), in float32.

        It is cut into overlapping windows of the length that was fitted, and their predictions are faded into
        each other; see `denoise` for their scale.
        """
        check_is_fitted(self)
        if len(self.shape_) != 1 or self.front_end_ is not None:
            raise ValueError(
                "denoise_signal needs an encoder that was fitted to waveforms (n, t), without a front end: "
                "use network='waveunet'"
            )
        noisy = check_array(np.atleast_2d(signal), dtype=np.float32, input_name="signal")
        windows, starts = cut(torch.from_numpy(noisy), self.shape_[0])
        inside = min(noisy.shape[1], self.shape_[0])
        lengths = torch.full((len(windows),), inside)

        def predict(x: Tensor, valid: Tensor) -> Tensor:
            prediction: Tensor = self.network_(x)
            return nearest(x, prediction, valid) if self._scale_free else prediction

        rows = min(len(windows), -(-_SIGNAL_ENTRIES // self.shape_[0]))
        pieces = torch.from_numpy(
            collect(self.network_, predict, windows, device_named(self.device), lengths, rows)
        )
        clean: Array = cross_fade(pieces[:, :inside], starts, noisy.shape[1]).numpy()
        return clean.reshape(np.shape(signal))

    def inverse_transform(self, Z: Any) -> Array:  # noqa: N803
        """Decode features, (n, n_components), to samples; see `scale_`."""
        check_is_fitted(self)
        self._check_predicts("inverse_transform")
        decode = getattr(self.network_, "decode", None) or getattr(self.network_, "decoder", None)
        if decode is None:
            raise ValueError(
                f"inverse_transform needs a network with decode, and {type(self.network_).__name__} has "
                f"none: its features alone do not determine a sample; use denoise, or another network"
            )
        if self.scale_ is None:
            raise ValueError("inverse_transform needs a scale, which this run was saved without: use denoise")
        scale = self.scale_
        z = check_array(Z, dtype=np.float32, input_name="Z")
        if z.shape[1] != self._n_features_out:
            raise ValueError(f"Z must have {self._n_features_out} columns, one a feature, got {z.shape[1]}")

        def predict(z: Tensor) -> Tensor:
            prediction: Tensor = scale * decode(z)
            return prediction if self.front_end_ is None else self.front_end_.undo(prediction)

        return collect(self.network_, predict, torch.tensor(z), device_named(self.device))

    def score(self, X: Any, y: object = None, pair: Any = None) -> float:  # noqa: N803, ARG002
        """Minus the objective on samples, with the same masks every time; higher is better.

        It compares settings of one objective. Different objectives are in different units: compare those by
        what the features are for.

        Args:
            X: Noisy samples.
            y: Ignored.
            pair: A second noisy observation of them.
        """
        check_is_fitted(self)
        self._check_predicts("score")
        if self.objective_ is None:
            raise ValueError("score needs the objective, which was not saved: use load(path, objective=...)")
        waves, device = self._read(X), device_named(self.device)
        second, _ = self._seen(self._read_pair(pair, waves), lengths_of(X))
        x, lengths = self._seen(waves, lengths_of(X))
        objective, rows = copy.deepcopy(self.objective_).to(device), rows_of(x)
        generator, total = Generator(device).manual_seed(_SCORE_SEED), 0.0
        pairs = None if second is None else data.Batches(second, rows, device=device).epoch()
        with predicting(self.network_, device):
            for batch in data.Batches(x, rows, device=device).epoch():
                other = None if pairs is None else next(pairs).x
                valid = {}
                if lengths is not None:
                    valid["valid"] = data.valid_entries(lengths[batch.rows].to(device), x.shape[1:])
                total += float(objective(self.network_, batch.x, generator, other, **valid)) * len(batch.x)
        return -total / len(x)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write a directory that `dcs.load` reads: config.json, model.safetensors and metrics.jsonl.

        Parameters that are no plain values (modules, functions, objects) are left out: pass them to
        `dcs.load` again.

        Args:
            path: The directory; it appears whole or not at all.
            overwrite: Replace what `save` wrote there before; nothing else is ever replaced.
        """
        check_is_fitted(self)
        folder = Path(path).expanduser().absolute()
        check_target(folder, overwrite)
        modules = {MODEL: self.network_}
        heads = isinstance(self.objective_, objectives.SelfSupervised)  # which are for the training only
        if self.objective_ is not None and self.objective_.state_dict() and not heads:
            modules[OBJECTIVE] = self.objective_
        write_folder(folder, modules, self._described(), self.history_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "network_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def _config(self) -> TrainingConfig:
        """The parameters as settings of a training, checked."""
        settings = {k: v for k, v in self.get_params(deep=False).items() if k in TrainingConfig.model_fields}
        for name in _AS_TRAINED:
            if settings[name] is None:
                del settings[name]
        for name in ("objective_options", "masking", "network_options"):
            if settings[name] is None:
                settings[name] = {}
        if isinstance(self.objective, str):
            check_choice("objective", self.objective, objectives.NAMES)
            if self.masking and not objectives.masks(self.objective):
                raise ValueError(f"masking means nothing for objective {self.objective!r}: leave it out")
        elif isinstance(self.objective, objectives.SelfSupervised):
            raise TypeError(
                "objective must be given by its name, such as 'simsiam-dcs', if it is a self-supervised one: "
                "its options go into objective_options"
            )
        elif isinstance(self.objective, objectives.Objective):
            del settings["objective"]
            for name in ("objective_options", "masking"):
                if settings[name]:
                    raise ValueError(f"{name} is for an objective given by name: set it in your objective")
        else:
            raise TypeError(
                f"objective must be one of {', '.join(objectives.NAMES)}, or a dcs.objectives.Objective, "
                f"got {self.objective!r}"
            )
        if isinstance(self.network, str):
            check_choice("network", self.network, models.REGISTRY)
        else:
            del settings["network"]
            if not callable(self.network):
                raise TypeError(
                    f"network must be one of {', '.join(models.REGISTRY)}, a torch.nn.Module, or a callable "
                    f"(shape, n_components) that makes one, got {self.network!r}"
                )
            if isinstance(self.network, nn.Module) and settings["network_options"]:
                raise ValueError("network_options is for a network that is made: set it in your module")
        if self.resident not in (None, True, False):
            raise ValueError(f"resident must be True, False or None, got {self.resident!r}")
        return read_config(with_recipe({**settings, "seed": _seed(self.random_state)}))

    def _make_objective(self, config: TrainingConfig, shape: tuple[int, ...]) -> objectives.Objective:
        if isinstance(self.objective, objectives.Objective):
            return copy.deepcopy(self.objective)
        with _naming("objective_options" if config.objective_options else "masking"):
            return make_objective(config, shape)

    def _make_network(self, config: TrainingConfig, shape: tuple[int, ...]) -> nn.Module:
        if isinstance(self.network, nn.Module):
            return copy.deepcopy(self.network)
        if isinstance(self.network, str):
            with _naming("network_options" if config.network_options else "network"):
                made = make_network(config, shape)
        else:
            made = self.network(shape, config.n_components, **config.network_options)
        if not isinstance(made, nn.Module):
            raise TypeError(f"network must make a torch.nn.Module, got {type(made).__name__}")
        return made

    def _check_predicts(self, method: str) -> None:
        if self._features_only:
            raise ValueError(
                f"{method} needs an objective that predicts X, such as 'dcs': {self.objective or 'this one'} "
                f"learns features only, which transform returns"
            )

    def _read(self, X: Any, *, fitting: bool = False) -> Numbers:  # noqa: N803
        """Data as a tensor or `Samples`, of the shape that was fitted."""
        source = source_of(X, "X")
        if isinstance(source, TorchDataset):
            x = stream(source, self.resident)
        elif ndim_of(source) <= 2:
            x = self._load(
                validate_data(self, source, reset=fitting, dtype="numeric", ensure_all_finite=at_once(source))
            )
        else:
            x = self._load(check_nd(source, "X"))
        shape = tuple(x.shape[1:])
        if not fitting:
            if shape != self.shape_:
                raise ValueError(f"X must have samples of shape {self.shape_}, as fitted, got {shape}")
            check_units(x, self.largest_)
        elif isinstance(source, TorchDataset) or len(shape) > 1:
            self.n_features_in_ = math.prod(shape)
            self.__dict__.pop("feature_names_in_", None)
        return x

    def _read_pair(self, pair: Any, x: Numbers) -> Numbers | None:
        if pair is None:
            return None
        source = source_of(pair, "pair")
        if isinstance(source, TorchDataset):
            second = stream(source, self.resident)
        else:
            second = self._load(check_nd(source, "pair"))
        if tuple(second.shape) != tuple(x.shape):
            raise ValueError(
                f"pair must have the shape of X, {tuple(x.shape)}, got {tuple(second.shape)}: it is a second "
                f"observation of the same things, row by row"
            )
        return second

    def _seen(self, x: Any, lengths: Tensor | None) -> tuple[Any, Tensor | None]:
        """What the network sees of data, and how much of it is no padding."""
        if self.front_end_ is None or x is None:
            return x, lengths
        frames = None if lengths is None else self.front_end_.frames_of(lengths)
        return self.front_end_.of(x, lengths), frames

    def _load(self, array: Array) -> Numbers:
        return data.load(array, resident=self.resident).train.x

    def _described(self) -> dict[str, Any]:
        """All of a fitted encoder but its tensors, as plain values."""
        given = self.get_params(deep=False)
        if isinstance(self.objective_, objectives.SelfSupervised):
            options = self.objective_options or {}
            plain = {name: value for name, value in options.items() if _is_plain(value)}
            if "augment" not in options.keys() - plain.keys():
                given["objective_options"] = plain  # what else there is, training alone needs
            elif hasattr(options["augment"], "normalise"):
                raise ValueError(
                    "objective_options has an augment of your own, whose normalise would be lost: normalise "
                    "images before fit, or use dcs.augmentation.Views"
                )
        parameters = {name: _as_plain(value) for name, value in given.items() if _is_plain(value)}
        left_out = {name: repr(value)[:1000] for name, value in given.items() if name not in parameters}
        dropped = (self.objective_options or {}).items() if "objective_options" in parameters else ()
        left_out |= {
            f"objective_options.{name}": repr(value)[:1000] for name, value in dropped if not _is_plain(value)
        }
        if self.objective is None:  # of an encoder that was loaded without it
            left_out["objective"] = parameters.pop("objective")
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "parameters": parameters,
            "left_out": left_out,
            "shape": list(self.shape_),
            "scale": self.scale_,
            "scale_free": self._scale_free,
            "features_only": self._features_only,
            "largest": self.largest_,
            "feature_names": [str(name) for name in getattr(self, "feature_names_in_", [])],
            "front_end": None if self.front_end_ is None else self.front_end_.describe(),
            "versions": versions(),
        }


def _as_plain(value: object) -> Any:
    """A value as JSON gives it back."""
    return json.loads(json.dumps(value, default=_plain, allow_nan=False))


def _is_plain(value: object) -> bool:
    try:
        _as_plain(value)
    except (TypeError, ValueError):
        return False
    return True


def _plain(value: object) -> object:
    """For JSON: NumPy's numbers and arrays, views by their options; a random state is drawn anew."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Views):
        return dataclasses.asdict(value)
    if isinstance(value, np.random.RandomState):
        return None
    raise TypeError


def _seed(random_state: object) -> int:
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> 1)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    check_integer("random_state", random_state, at_least=0)
    return int(random_state)  # type: ignore[call-overload,no-any-return]


@contextlib.contextmanager
def _naming(parameter: str) -> Iterator[None]:
    """See to it that an error names the parameter that it comes from."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if parameter in str(error):
            raise
        raise type(error)(f"{parameter}: {error}") from error


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's own random state, and put it back afterwards."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield


def count_features(network: nn.Module, shape: tuple[int, ...]) -> int:
    """Try the network on two samples: how many features it gives."""
    encode, probe = encoder_of(network), torch.zeros(2, *shape)
    with predicting(network, torch.device("cpu")):
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


def _check_masking(objective: objectives.Objective, shape: tuple[int, ...]) -> None:
    """Try the masker on two samples, so that data too small for it is refused with a remedy."""
    splits = isinstance(getattr(objective, "masker", None), GaussianSplit)
    chosen = isinstance(getattr(objective, "masker", None), objectives.ChosenViews)
    if not isinstance(objective, objectives.MaskedObjective) or (splits and not chosen):
        return
    probe, generator = torch.zeros(2, *shape), Generator().manual_seed(0)
    try:
        objective.own_view(objectives.Batch(probe, generator, None, None))
    except ValueError as error:
        raise ValueError(
            f"samples of shape {shape} (n_features = {math.prod(shape)}) cannot be masked: {error}; or use "
            f"an objective that masks nothing, such as 'mse' or 'dae'"
        ) from error

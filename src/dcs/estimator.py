"""`DenoisingEncoder`: the scikit-learn face of dcs-learn."""

import copy
import math
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from torch import Tensor, nn
from torch.utils.data import Dataset as TorchDataset

from dcs import data, models, objectives, runs
from dcs._checks import check_integer
from dcs.augmentation import Views
from dcs.training import CUSTOM, Facts, TrainingConfig, complete

Array = NDArray[Any]
Numbers = Tensor | data.Samples


class DenoisingEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Learn features from noisy, unlabelled data; a scikit-learn transformer.

    Data, called X below, is an array, list, data frame, tensor, memory map, `torch.utils.data.Dataset`,
    `dcs.data.Samples` or `dcs.data.Split` of samples (n, d), (n, t), (n, h, w) or (n, c, h, w); a list of
    images or signals of different sizes; or a path, or a list of them. 8- and 16-bit unsigned integers are
    pixel values and scaled to 0…1, as by `dcs.data.load`; other numbers are used as they are. Neighbouring
    entries are used for masking: for columns without an order see `objective`.

    Parameters that are None are completed for the data at hand, exactly as by `dcs fit`: with the same data
    and seed, both give the same weights.

    Args:
        objective: Objective to minimise: a name of `dcs.objectives.names()`, or an
            `dcs.objectives.Objective`. For columns without an order: `mse`, `dae`, or an objective with a
            masker of your own, such as `DenoisingCosine(masker=...)`.
        objective_options: Options of the objective, if it is a name, e.g. {"power": 1}.
        masking: View maker, if the objective is a name: its name as `kind` and its options, e.g.
            {"rho": 0.2, "radius": 2}, or {"kind": "amplitude"} for signals.
        window: Size of windows to learn from, e.g. (64, 64); by default whole samples, unless these are
            images of more than 64 pixels, or of different sizes. Features are then the mean and the deviation
            over windows, and images of any size are denoised.
        front_end: Options of `dcs.data.LogMel` for waveforms (n, t), e.g. {"rate": 16000}; the network then
            sees standardised log-mel spectrograms, masked along time. None: X as it is.
        network: Network to train: a name in `dcs.models.NETWORKS`; or a module, of which a copy is trained;
            or a callable (shape, n_components) that makes one. A module returns x's shape and has `encode` or
            `encoder` for the features; with `decode` or `decoder` features can be decoded.
        network_options: Options of the network, e.g. {"hidden": (256, 256)}.
        n_components: Number of features; by default 10, or the network's own. Those of a ResNet follow from
            its width.
        max_epochs: Maximum number of epochs; by default at least 100, and enough for 3,000 steps, with early
            stopping.
        batch_size: Samples per step; by default 256, or 64 for spectrograms.
        optimizer: `adam`, or `sgd` with momentum; by default as the objective is usually trained, as for
            `learning_rate`, `schedule`, `weight_decay` and `validation`: with adam, 0.001, `constant`, 0 and
            0.1; self-supervised objectives with sgd, 0.03, `cosine`, 5e-4 and nothing held out.
        learning_rate: Learning rate; that of SGD is for batches of 256.
        momentum: Momentum of SGD.
        schedule: Learning-rate schedule: `constant` or `cosine`.
        fixed_predictor_rate: Whether the predictor of SimSiam and BYOL keeps its learning rate.
        warmup_epochs: Epochs over which the learning rate rises linearly from 0.
        weight_decay: Weight decay.
        clip_norm: Maximum norm of the gradient.
        validation: Share of the samples held out.
        patience: Epochs of a clearly higher held-out loss before stopping; the latest weights that are not
            clearly worse than the best are kept.
        ema: Decay of the moving average of weights that is kept.
        precision: Precision of training: `no` (float32), `fp16` or `bf16`; by default `no`, or `bf16` for
            windows where the CPU computes in it. Predictions from whole samples are made in float32.
        compile: Whether to compile the network for training; not with self-supervised objectives.
        device: `auto` (the best one available) or `cpu`.
        resident: Whether to hold data in memory or to read it batch by batch; None decides by its size.
        random_state: Random seed for weights, sample order, masks and the held-out share: an integer, a NumPy
            RandomState, or None for a new one each time.

    Attributes:
        network_: Trained network, on the CPU.
        objective_: Objective that was minimised.
        front_end_: Front end with the statistics of the training data; or None.
        config_: Complete configuration of the training.
        history_: Metrics of each epoch.
        n_iter_: Number of epochs run.
        shape_: Shape of one sample.
        scale_: Factor of `inverse_transform`, where the objective sees directions only; 1 elsewhere.
        largest_: Largest absolute value of the training data.
        n_features_in_: Entries of a sample.
        feature_names_in_: Names of the columns, if X had any.

    Example:
        >>> X = np.random.RandomState(0).normal(size=(60, 16))
        >>> encoder = DenoisingEncoder(n_components=3, max_epochs=2, objective="n2v", random_state=0)
        >>> encoder.fit_transform(X).shape
        (60, 3)
    """

    predictor_: runs.Predictor

    def __init__(
        self,
        *,
        objective: str | objectives.Objective = "dcs",
        objective_options: dict[str, Any] | None = None,
        masking: dict[str, Any] | None = None,
        window: tuple[int, ...] | None = None,
        front_end: dict[str, Any] | None = None,
        network: str | nn.Module | Callable[..., nn.Module] | None = None,
        network_options: dict[str, Any] | None = None,
        n_components: int | None = None,
        max_epochs: int | None = None,
        batch_size: int | None = None,
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
        precision: str | None = None,
        compile: bool = False,  # noqa: A002  (as the setting of a run is called)
        device: str = "auto",
        resident: bool | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.objective = objective
        self.objective_options = objective_options
        self.masking = masking
        self.window = window
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
            pair: Second noisy observation of the same things, of X's shape or sizes; the network then sees it
                in place of a masked X.
        """
        self.__dict__.pop("predictor_", None)  # what was fitted before is dropped as a whole
        self._check_parameters()
        split = self._read(X, fitting=True)
        second = None if pair is None else self._read_pair(pair, split)
        shape = tuple(split.x.shape[1:])
        config = self._config(Facts.of(split))
        objective = None if isinstance(self.objective, str) else copy.deepcopy(self.objective)
        parts = runs.Parts(self._network(config, shape), objective, pair=second)
        names = [str(name) for name in getattr(self, "feature_names_in_", ())]
        self._adopt(runs.fit(split, config, parts=parts, feature_names=names))
        return self

    def transform(self, X: Any) -> Array:  # noqa: N803
        """Return the features of samples, (n, n_components) in float32."""
        check_is_fitted(self)
        return self.predictor_.transform(self._read(X))

    def denoise(self, X: Any) -> Any:  # noqa: N803
        """Predict the clean samples behind noisy ones, in X's shape and float32.

        An objective that sees directions only (`dcs`, `cosine`) leaves the length of a prediction s_hat open;
        it is then a s_hat with a = ⟨x, s_hat⟩/‖s_hat‖², the nearest to x in that direction. With a front end,
        the spectrogram in dB is predicted.
        """
        check_is_fitted(self)
        self.predictor_.check_predicts("denoise")
        return self.predictor_.denoise(self._read(X))

    def denoise_signal(self, signal: Any) -> Array:
        """Predict the clean signal behind a noisy one of any length, (t,) or (channels, t), in float32.

        It is cut into overlapping windows of the length that was fitted, whose predictions are cross-faded;
        see `denoise` for their scale.
        """
        check_is_fitted(self)
        noisy = check_array(np.atleast_2d(signal), dtype=np.float32, input_name="signal")
        clean: Array = self.predictor_.denoise_signal(torch.from_numpy(noisy)).numpy()
        return clean.reshape(np.shape(signal))

    def inverse_transform(self, Z: Any) -> Array:  # noqa: N803
        """Decode features, (n, n_components), to samples; see `scale_`."""
        check_is_fitted(self)
        self.predictor_.check_predicts("inverse_transform")
        z = check_array(Z, dtype=np.float32, input_name="Z")
        if z.shape[1] != self._n_features_out:
            raise ValueError(f"Z must have {self._n_features_out} columns, one per feature, got {z.shape[1]}")
        return self.predictor_.decode(torch.tensor(z))

    def score(self, X: Any, y: object = None, pair: Any = None) -> float:  # noqa: N803, ARG002
        """Return minus the objective on samples, with the same masks every time; higher is better.

        It compares settings of one objective. Different objectives are in different units: compare those by
        what the features are for.

        Args:
            X: Noisy samples.
            y: Ignored.
            pair: Second noisy observation of them.
        """
        check_is_fitted(self)
        self.predictor_.check_predicts("score")
        split = self._read(X)
        second = None if pair is None else self._read_pair(pair, split)
        return -self.predictor_.loss(split, second)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write a run directory that `dcs.load` and the command read.

        Parameters that are objects (modules, functions) are left out: pass them to `dcs.load` again.

        Args:
            path: Directory; it appears whole or not at all.
            overwrite: Whether to replace what `save` wrote there before; nothing else is ever replaced.
        """
        check_is_fitted(self)
        lost = self.predictor_.record.left_out.get("objective_options.augment")
        augment = (self.objective_options or {}).get("augment")
        if lost and hasattr(augment, "normalise"):
            raise ValueError(
                "objective_options has an augment of your own, whose normalise would be lost: normalise "
                "images before fit, or use dcs.augmentation.Views"
            )
        names = tuple(str(name) for name in getattr(self, "feature_names_in_", ()))
        self.predictor_.name_features(names)
        runs.save(self.predictor_, Path(path).expanduser().absolute(), overwrite=overwrite)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "predictor_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def _adopt(self, predictor: runs.Predictor) -> None:
        """Take over a trained network, and show it as scikit-learn's attributes."""
        self.predictor_, learned = predictor, predictor.learned
        self.network_, self.objective_ = predictor.network, predictor.objective
        self.front_end_, self.config_ = predictor.front_end, predictor.record.training
        self.history_, self.n_iter_ = predictor.history, len(predictor.history)
        self.shape_, self.largest_ = predictor.shape, learned.largest
        self.scale_ = learned.scale if predictor.scale_free else 1.0
        self.n_features_in_ = math.prod(self.shape_)
        if learned.feature_names:
            self.feature_names_in_ = np.array(learned.feature_names, dtype=object)
        seen = runs.see_shape(self.config_, self.shape_)
        self._n_features_out = runs.count_features(self.network_, seen) * (2 if predictor.window else 1)

    def _check_parameters(self) -> None:
        """Check what the configuration does not hold."""
        if isinstance(self.objective, objectives.SelfSupervised):
            raise TypeError(
                "objective must be given by name, such as 'simsiam-dcs', if it is a self-supervised one: "
                "its options go into objective_options"
            )
        if not isinstance(self.objective, str | objectives.Objective):
            raise TypeError(
                f"objective must be one of {', '.join(objectives.names())}, or a dcs.objectives.Objective, "
                f"got {self.objective!r}"
            )
        if not isinstance(self.objective, str):
            for name in ("objective_options", "masking"):
                if getattr(self, name):
                    raise ValueError(f"{name} is for an objective given by name: set it in your objective")
        if self.network is not None and not isinstance(self.network, str) and not callable(self.network):
            raise TypeError(
                f"network must be one of {', '.join(models.NETWORKS)}, a torch.nn.Module, or a callable "
                f"(shape, n_components) that makes one, got {self.network!r}"
            )
        if isinstance(self.network, nn.Module) and self.network_options:
            raise ValueError("network_options is for a network that is made: set it in your module")
        if self.resident not in (None, True, False):
            raise ValueError(f"resident must be True, False or None, got {self.resident!r}")

    def _config(self, facts: Facts) -> TrainingConfig:
        """Return the parameters as a complete training configuration."""
        settings = {k: v for k, v in self.get_params(deep=False).items() if k in TrainingConfig.model_fields}
        for name in ("objective", "network"):
            if settings[name] is not None and not isinstance(settings[name], str):
                settings[name] = CUSTOM
        options = self.objective_options
        if isinstance(options, dict) and isinstance(options.get("augment"), Views):
            settings["objective_options"] = {**options, "augment": asdict(options["augment"])}
        return complete({**settings, "seed": _seed(self.random_state)}, facts)

    def _network(self, config: TrainingConfig, shape: tuple[int, ...]) -> nn.Module | None:
        """Return a copy of the network that was given, or one that a given callable makes."""
        if self.network is None or isinstance(self.network, str):
            return None
        if isinstance(self.network, nn.Module):
            return copy.deepcopy(self.network)
        seen = runs.see_shape(config, shape)
        with runs.seeded(config.seed):
            made = self.network(seen, config.n_components, **config.network_options)
        if not isinstance(made, nn.Module):
            raise TypeError(f"network must make a torch.nn.Module, got {type(made).__name__}")
        return made

    def _read(self, X: Any, *, fitting: bool = False) -> data.Split:  # noqa: N803
        """Return data as a split in memory or on disk, with the lengths of samples if they are known."""
        if isinstance(X, str | os.PathLike) or (isinstance(X, data.Split) and X.items is not None):
            return self._read_split(X, fitting)
        if isinstance(X, list | tuple) and X:
            differ = len({np.shape(one) for one in X if hasattr(one, "shape")}) > 1
            if differ or isinstance(X[0], str | os.PathLike):
                return self._read_split(X, fitting)
        source = _source_of(X, "X")
        if not isinstance(source, TorchDataset) and _ndim(source) == 5:  # volumes
            return self._read_split(source, fitting)
        if (
            not fitting
            and self.predictor_.window is not None
            and _ndim(source) == len(self.predictor_.window)
        ):
            raise ValueError(
                f"X must have an axis of samples before those of space, got shape {tuple(np.shape(source))}: "
                f"pass X[None] for one"
            )
        if isinstance(source, TorchDataset) or _ndim(source) > 2:
            x = self._samples(source, "X")
        else:
            array = source.numpy() if isinstance(source, Tensor) else source  # over the same memory
            array = validate_data(
                self, array, reset=fitting, dtype="numeric", ensure_all_finite=_at_once(source)
            )
            x = data.load(array, resident=self.resident).train.x
        if fitting and (isinstance(source, TorchDataset) or len(x.shape) > 2):
            self.n_features_in_ = math.prod(x.shape[1:])
            self.__dict__.pop("feature_names_in_", None)
        if not fitting and self.predictor_.window is None and tuple(x.shape[1:]) != self.shape_:
            raise ValueError(
                f"X must have samples of shape {self.shape_}, as fitted, got {tuple(x.shape[1:])}"
            )
        return data.Split(x, lengths=X.lengths if isinstance(X, data.Split) else None)

    def _read_split(self, source: Any, fitting: bool) -> data.Split:
        """Return files, a list of arrays of different sizes, or a split of items of any size, as a split."""
        split: data.Split = source
        if not isinstance(source, data.Split):
            split = data.load(source, resident=self.resident).train
        if fitting:
            self.n_features_in_ = math.prod(split.x.shape[1:])
            self.__dict__.pop("feature_names_in_", None)
        elif self.predictor_.window is None and tuple(split.x.shape[1:]) != self.shape_:
            raise ValueError(
                f"X must have samples of shape {self.shape_}, as fitted, got {tuple(split.x.shape[1:])}"
            )
        return split

    def _read_pair(self, pair: Any, split: data.Split) -> data.Split | Numbers:
        if isinstance(pair, str | os.PathLike) or (
            split.items is not None and isinstance(pair, list | tuple)
        ):
            pair = data.load(pair, resident=self.resident).train
        if split.items is not None and isinstance(pair, data.Split):
            return pair
        second = self._samples(_source_of(pair, "pair"), "pair")
        if tuple(second.shape) != tuple(split.x.shape):
            raise ValueError(
                f"pair must have the shape of X, {tuple(split.x.shape)}, got {tuple(second.shape)}: it is a "
                f"second observation of the same things, row by row"
            )
        return second

    def _samples(self, source: Any, name: str) -> Numbers:
        """Return samples with any number of axes, read as they are needed or held in memory."""
        if isinstance(source, data.Samples):
            return source
        if not isinstance(source, Tensor | TorchDataset):
            finite = _at_once(source)
            source = check_array(
                source, dtype="numeric", allow_nd=True, ensure_all_finite=finite, input_name=name
            )
        return data.load(source, resident=self.resident).train.x


def load(
    path: str | os.PathLike[str],
    network: nn.Module | Callable[..., nn.Module] | None = None,
    objective: objectives.Objective | None = None,
) -> DenoisingEncoder:
    """Load a fitted encoder that `DenoisingEncoder.save` or `dcs fit` wrote. No code in it is run.

    Args:
        path: Directory.
        network: Module, or callable that makes it, if the encoder was fitted with one given as an object.
        objective: Objective, likewise; without it all but `score` works.

    Raises:
        RunError: A file is missing, damaged or of another kind; the message says which and what to do.
    """
    if objective is not None and not (isinstance(objective, objectives.Objective) and objective.predicts):
        raise TypeError(
            "objective must be an object that predicted samples in training, such as Noise2Void(...): a "
            "self-supervised one is not needed again"
        )
    predictor = runs.load(Path(path).expanduser(), network, objective)
    config = predictor.record.training
    names = DenoisingEncoder._get_param_names()
    parameters: dict[str, Any] = {k: v for k, v in config.model_dump().items() if k in names}
    parameters["random_state"] = config.seed
    if config.objective == CUSTOM or objective is not None:
        parameters |= {"objective": objective, "objective_options": None, "masking": None}
    if config.network == CUSTOM or network is not None:
        parameters["network"] = network
        if isinstance(network, nn.Module):
            parameters["network_options"] = None
    for name in ("objective_options", "masking", "network_options"):
        parameters[name] = parameters[name] or None
    encoder = DenoisingEncoder(**parameters)
    encoder._adopt(predictor)
    return encoder


def _source_of(X: Any, name: str) -> Any:  # noqa: N803
    """Return what a caller passed as data as something array-like or a `torch.utils.data.Dataset`."""
    if isinstance(X, data.Dataset):
        raise TypeError(f"{name} is a whole data set: pass one of its splits, such as ds.train")
    if isinstance(X, str | os.PathLike):
        raise TypeError(f"{name} must hold numbers, got a path: pass dcs.data.load({str(X)!r}).train")
    if isinstance(X, data.Split):
        X = X.x  # noqa: N806
    if isinstance(X, Tensor):
        X = X.detach().cpu()  # noqa: N806
        return X.float() if X.dtype == torch.bfloat16 else X
    return X


def _ndim(source: Any) -> int:
    """Return the number of axes of something array-like."""
    if hasattr(source, "ndim"):
        return int(source.ndim)
    return 2 if hasattr(source, "__dataframe__") else np.ndim(np.asarray(source))


def _at_once(source: Any) -> bool:
    """Return whether all values are checked at once; those of a memory map are when they are read."""
    return not isinstance(source, np.memmap)


def _seed(random_state: object) -> int:
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> 1)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    check_integer("random_state", random_state, at_least=0)
    return int(random_state)  # type: ignore[call-overload,no-any-return]

"""`DenoisingEncoder`: the whole of dcs-learn as one scikit-learn transformer, and `load` to have it back."""

import contextlib
import copy
import hashlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from torch import Generator, Tensor, nn
from torch.utils.data import Dataset as TorchDataset

from dcs import data, models, objectives
from dcs._checks import check_choice, check_integer
from dcs.masking import BlindSpot
from dcs.training import RunError, TrainingConfig, make_network, make_objective, read_config, train
from dcs.training.checkpoint import write_atomically
from dcs.training.run import CONFIG, METRICS, MODEL, versions

FORMAT, FORMAT_VERSION = "dcs.DenoisingEncoder", 1
OBJECTIVE = "objective.safetensors"  # what the objective itself has learned, such as SURE's sigma
_SAVED = {CONFIG, METRICS, MODEL, OBJECTIVE}

# Objectives that compare directions only: a prediction's length means nothing.
_SCALE_FREE = (objectives.Cosine, objectives.DenoisingCosine, objectives.CosineOracle)
_SCALE_SAMPLES = 16_384
# Predictions are made in batches of one of two sizes (the last is filled up), so that rounding, and with it a
# row's result, hardly depends on the rows beside it.
_FEW_ROWS, _ROWS = 64, 512
_ENTRIES = 2**22  # of a batch at most

Array = NDArray[Any]
Numbers = Tensor | data.Samples


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
        network: `mlp`, `conv`, `conv1d` or `unet`; or a module, of which a copy is trained; or a callable
            (shape, n_components) that makes one. A module returns x's shape and has `encode` or `encoder`
            for the features; with `decode` or `decoder` there is a way back from them.
        network_options: Of the network, such as {"hidden": (256, 256)}.
        n_components: Features, unless the network is a module.
        max_epochs: Epochs, unless stopped early.
        batch_size: Samples a step.
        learning_rate: Of Adam.
        schedule: Of the learning rate: `constant` or `cosine`.
        warmup_epochs: In which the learning rate rises linearly from 0.
        weight_decay: Of AdamW; 0 is plain Adam.
        clip_norm: Largest norm of the gradient.
        validation: Share of the samples held out.
        patience: Epochs without a better held-out loss before stopping; the best weights are kept.
        ema: Decay of the average of weights that is kept.
        precision: Of training: `no` (float32), `fp16` or `bf16`. Predictions are made in float32.
        compile: Whether to compile the network for training.
        device: `auto` (the best there is) or `cpu`.
        resident: Whether to hold data in memory or to read it batch by batch; None decides by its size.
        random_state: Of weights, order, masks and the held-out share: an integer, a numpy RandomState, or
            None for another each time.

    Attributes:
        network_: The trained network, on the CPU.
        objective_: What was minimised.
        history_: The metrics of each epoch.
        n_iter_: Epochs run.
        shape_: Of one sample.
        scale_: What `inverse_transform` multiplies by, where the objective sees directions only; 1 elsewhere.
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
    scale_: float | None
    _scale_free: bool

    def __init__(
        self,
        *,
        objective: str | objectives.Objective = "dcs",
        objective_options: dict[str, Any] | None = None,
        masking: dict[str, Any] | None = None,
        network: str | nn.Module | Callable[..., nn.Module] = "mlp",
        network_options: dict[str, Any] | None = None,
        n_components: int = 10,
        max_epochs: int = 100,
        batch_size: int = 256,
        learning_rate: float = 1e-3,
        schedule: str = "constant",
        warmup_epochs: float = 0,
        weight_decay: float = 0,
        clip_norm: float | None = None,
        validation: float = 0.1,
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
        self.network = network
        self.network_options = network_options
        self.n_components = n_components
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.schedule = schedule
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
        x = self._read(X, fitting=True)
        second = self._read_pair(pair, x)
        shape = tuple(x.shape[1:])
        objective = self._make_objective(config, shape)
        with _seeded(config.seed):  # dropout and the like draw from torch's own random state
            network = self._make_network(config, shape).cpu()
            features = _count_features(network, shape)
            if second is None:
                _check_masking(objective, shape)
            trained = copy.deepcopy(network).train()  # the loop moves and wraps what it trains
            history = train(trained, objective, x, config, pair=second)
        network.load_state_dict(trained.state_dict())
        self.network_, self.objective_ = network.eval(), objective.cpu()
        self.history_, self.n_iter_ = history, len(history)
        self.shape_, self._n_features_out = shape, features
        self._scale_free = isinstance(objective, _SCALE_FREE)
        self.scale_ = prediction_scale(network, objective, x, self._device())
        return self

    def transform(self, X: Any) -> Array:  # noqa: N803
        """Return the features of samples, (n, n_components) in float32."""
        check_is_fitted(self)
        return _collect(self.network_, encoder_of(self.network_), self._read(X), self._device())

    def denoise(self, X: Any) -> Array:  # noqa: N803
        """Predict the clean samples behind noisy ones, in X's shape and float32.

        An objective that sees directions only (`dcs`, `cosine`) leaves the length of a prediction s_hat open;
        it is then a s_hat with a = ⟨x, s_hat⟩/‖s_hat‖², the nearest to x in that direction.
        """
        check_is_fitted(self)

        def predict(x: Tensor) -> Tensor:
            prediction: Tensor = self.network_(x)
            return _nearest(x, prediction) if self._scale_free else prediction

        return _collect(self.network_, predict, self._read(X), self._device())

    def inverse_transform(self, Z: Any) -> Array:  # noqa: N803
        """Decode features, (n, n_components), to samples; see `scale_`."""
        check_is_fitted(self)
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
        return _collect(self.network_, lambda z: scale * decode(z), torch.tensor(z), self._device())

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
        if self.objective_ is None:
            raise ValueError("score needs the objective, which was not saved: use load(path, objective=...)")
        x, device = self._read(X), self._device()
        second = self._read_pair(pair, x)
        objective, rows = copy.deepcopy(self.objective_).to(device), _rows(x)
        generator, total = Generator(device).manual_seed(0), 0.0
        pairs = None if second is None else data.Batches(second, rows, device=device).epoch()
        with _predicting(self.network_, device):
            for batch in data.Batches(x, rows, device=device).epoch():
                other = None if pairs is None else next(pairs).x
                total += float(objective(self.network_, batch.x, generator, other)) * len(batch.x)
        return -total / x.shape[0]

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
        _check_target(folder, overwrite)
        files = {MODEL: _tensor_file(self.network_)}
        if self.objective_ is not None and self.objective_.state_dict():
            files[OBJECTIVE] = _tensor_file(self.objective_)
        config = {**self._described(), "sha256": {name: _digest(content) for name, content in files.items()}}
        files[METRICS] = "".join(_as_line(metrics) for metrics in self.history_).encode()
        files[CONFIG] = json.dumps(config, indent=1).encode()
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent))
        try:
            new = beside / "new"
            new.mkdir()
            for name, content in files.items():
                write_atomically(new / name, content)
            if folder.exists():
                folder.rename(beside / "old")
            new.rename(folder)
        finally:
            if not folder.exists() and (beside / "old").exists():
                (beside / "old").rename(folder)
            shutil.rmtree(beside, ignore_errors=True)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def _config(self) -> TrainingConfig:
        """The parameters as settings of a training, checked."""
        settings = {k: v for k, v in self.get_params(deep=False).items() if k in TrainingConfig.model_fields}
        for name in ("objective_options", "masking", "network_options"):
            if settings[name] is None:
                settings[name] = {}
        if isinstance(self.objective, str):
            check_choice("objective", self.objective, objectives.REGISTRY)
            masked = issubclass(objectives.REGISTRY[self.objective], objectives.MaskedObjective)
            if self.masking and not masked:
                raise ValueError(f"masking means nothing for objective {self.objective!r}: leave it out")
        elif isinstance(self.objective, objectives.Objective):
            del settings["objective"]
            for name in ("objective_options", "masking"):
                if settings[name]:
                    raise ValueError(f"{name} is for an objective given by name: set it in your objective")
        else:
            raise TypeError(
                f"objective must be one of {', '.join(objectives.REGISTRY)}, or a dcs.objectives.Objective, "
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
        return read_config({**settings, "seed": _seed(self.random_state)})

    def _make_objective(self, config: TrainingConfig, shape: tuple[int, ...]) -> objectives.Objective:
        if isinstance(self.objective, objectives.Objective):
            return copy.deepcopy(self.objective)
        with _naming("objective_options" if config.objective_options else "masking"):
            made = make_objective(config, shape)
        if shape == (2,) and isinstance(made, objectives.MaskedObjective):
            masker = made.default_masker(1) if made.masker is None else made.masker
            made.masker = _Padded(masker) if isinstance(masker, BlindSpot) else masker
        return made

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

    def _device(self) -> torch.device:
        best = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return torch.device("cpu") if self.device == "cpu" or best is None else best

    def _read(self, X: Any, *, fitting: bool = False) -> Numbers:  # noqa: N803
        """Data as a tensor or `Samples`, of the shape that was fitted."""
        source = _source(X, "X")
        if isinstance(source, TorchDataset):
            x = _stream(source, self.resident)
        elif _ndim(source) <= 2:
            x = self._load(
                validate_data(
                    self, source, reset=fitting, dtype="numeric", ensure_all_finite=_at_once(source)
                )
            )
        else:
            x = self._load(_check_nd(source, "X"))
        shape = tuple(x.shape[1:])
        if not fitting:
            if shape != self.shape_:
                raise ValueError(f"X must have samples of shape {self.shape_}, as fitted, got {shape}")
        elif isinstance(source, TorchDataset) or len(shape) > 1:
            self.n_features_in_ = math.prod(shape)
            self.__dict__.pop("feature_names_in_", None)
        return x

    def _read_pair(self, pair: Any, x: Numbers) -> Numbers | None:
        if pair is None:
            return None
        source = _source(pair, "pair")
        if isinstance(source, TorchDataset):
            second = _stream(source, self.resident)
        else:
            second = self._load(_check_nd(source, "pair"))
        if tuple(second.shape) != tuple(x.shape):
            raise ValueError(
                f"pair must have the shape of X, {tuple(x.shape)}, got {tuple(second.shape)}: it is a second "
                f"observation of the same things, row by row"
            )
        return second

    def _load(self, array: Array) -> Numbers:
        return data.load(array, resident=self.resident).train.x

    def _described(self) -> dict[str, Any]:
        """All of a fitted encoder but its tensors, as plain values."""
        parameters, left_out = {}, {}
        for name, value in self.get_params(deep=False).items():
            try:
                parameters[name] = json.loads(json.dumps(value, default=_plain, allow_nan=False))
            except (TypeError, ValueError):
                left_out[name] = repr(value)[:1000]
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "parameters": parameters,
            "left_out": left_out,
            "shape": list(self.shape_),
            "scale": self.scale_,
            "scale_free": self._scale_free,
            "feature_names": [str(name) for name in getattr(self, "feature_names_in_", [])],
            "versions": versions(),
        }


def load(
    path: str | os.PathLike[str],
    network: nn.Module | Callable[..., nn.Module] | None = None,
    objective: objectives.Objective | None = None,
) -> DenoisingEncoder:
    """Read a fitted encoder from what `DenoisingEncoder.save` or `dcs fit` wrote. No code in it is run.

    Args:
        path: The directory.
        network: The module, or the callable that makes it, if the encoder was fitted with one of one's own.
        objective: The same for the objective; without it all but `score` works.

    Raises:
        RunError: A file is missing, damaged or of another kind; the message says which and what to do.
    """
    folder = Path(path).expanduser()
    about = _read_description(folder)
    if network is None and about.left_out & {"network", "network_options"}:
        raise RunError(f"{folder} was fitted with a network of your own: pass it, as load(path, network=...)")
    given: dict[str, Any] = {} if network is None else {"network": network}
    if isinstance(network, nn.Module):
        given["network_options"] = None
    custom = bool(about.left_out & {"objective", "objective_options", "masking"})
    if objective is not None or custom:
        given |= {"objective": objective, "objective_options": None, "masking": None}
    with _damaged(folder / CONFIG):
        encoder = DenoisingEncoder(**{**about.parameters, **given})
        known = objective is not None or not custom
        # With an objective that is not known, the other parameters are checked beside a stand-in.
        checked = (
            encoder if known else DenoisingEncoder(**{**encoder.get_params(deep=False), "objective": "dcs"})
        )
        config = checked._config()
        encoder.objective_ = checked._make_objective(config, about.shape) if known else None
        with _seeded(config.seed):
            encoder.network_ = checked._make_network(config, about.shape).cpu().eval()
        encoder._n_features_out = _count_features(encoder.network_, about.shape)
        _restore(encoder.network_, folder / MODEL, about.digests)
    if encoder.objective_ is not None and (folder / OBJECTIVE).exists():
        _restore(encoder.objective_, folder / OBJECTIVE, about.digests)
    encoder._scale_free = isinstance(encoder.objective_, _SCALE_FREE) if known else about.scale_free
    encoder.scale_ = about.scale if encoder._scale_free else 1.0
    encoder.history_ = _read_history(folder / METRICS)
    encoder.shape_, encoder.n_iter_ = about.shape, len(encoder.history_)
    encoder.n_features_in_ = math.prod(about.shape)
    if about.feature_names:
        encoder.feature_names_in_ = np.array(about.feature_names, dtype=object)
    return encoder


def encoder_of(network: nn.Module) -> Callable[[Tensor], Tensor]:
    """What computes a network's features, (n, k): its method `encode`, or its module `encoder`."""
    encode = getattr(network, "encode", None) or getattr(network, "encoder", None)
    if not callable(encode):
        raise ValueError(
            f"network must have a method encode(x), or a module encoder, that gives the features; "
            f"{type(network).__name__} has neither"
        )
    return lambda x: encode(x).flatten(1)


def prediction_scale(
    network: nn.Module, objective: objectives.Objective, x: Numbers, device: torch.device | None = None
) -> float:
    """The positive number a for which a s_hat is nearest to x, over all samples: Σ⟨x, s_hat⟩/Σ‖s_hat‖².

    It is 1 for an objective that sees the data's scale. At most 16,384 samples, evenly spread, are used.
    Where predictions point away from the data (nothing was learned), it is the ratio of the norms.

    Args:
        network: Trained.
        objective: What it was trained with.
        x: The samples it was trained on.
        device: Where to predict; by default where the network is.
    """
    if not isinstance(objective, _SCALE_FREE):
        return 1.0
    device = _whereabouts(network) if device is None else device
    rows = torch.arange(0, x.shape[0], -(-x.shape[0] // _SCALE_SAMPLES))
    products = torch.zeros(3, dtype=torch.float64)
    with _predicting(network, device):
        for batch in data.Batches(x, _rows(x), device=device, rows=rows).epoch():
            a, b = (part.flatten().cpu().double() for part in (batch.x, network(batch.x)))
            products += torch.stack([a @ b, b @ b, a @ a])
    inner, predicted, given = products.tolist()
    if predicted <= 0:
        return 1.0
    scale = inner / predicted if inner > 0 else math.sqrt(given / predicted)
    return scale if 0 < scale < math.inf else 1.0


@dataclass(frozen=True)
class _Padded:
    """Lets a window of three stand over two entries, by a third that is never masked nor copied from."""

    masker: BlindSpot

    def __call__(
        self, x: Tensor, generator: Generator | None = None, *, valid: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        inside = torch.ones_like(x, dtype=torch.bool) if valid is None else valid
        x_tilde, b = self.masker(
            nn.functional.pad(x, (0, 1)), generator, valid=nn.functional.pad(inside, (0, 1))
        )
        return x_tilde[..., :-1].contiguous(), b[..., :-1].contiguous()


class _Description(NamedTuple):
    """What a directory says of the encoder in it."""

    parameters: dict[str, Any]
    left_out: set[str]
    shape: tuple[int, ...]
    scale: float | None
    scale_free: bool
    feature_names: list[str]
    digests: dict[str, str]


def _read_description(folder: Path) -> _Description:
    """Read config.json, of either kind."""
    if not (folder / CONFIG).is_file():
        raise RunError(
            f"{folder / CONFIG} does not exist: name a directory that DenoisingEncoder.save or dcs fit wrote"
        )
    with _damaged(folder / CONFIG):
        config = json.loads((folder / CONFIG).read_bytes())
        if config.get("format", FORMAT) != FORMAT or not {"parameters", "training"} & set(config):
            raise RunError(
                f"{folder / CONFIG} describes no encoder: fit one with DenoisingEncoder or dcs fit"
            )
        if config.get("format_version", 1) > FORMAT_VERSION:
            raise RunError(f"{folder / CONFIG} is of a newer version: pip install --upgrade dcs-learn")
        if not (folder / MODEL).is_file():
            resumed = "so the run is not finished: dcs fit ... --resume goes on with it"
            remedy = resumed if "training" in config else "save the encoder again"
            raise RunError(f"{folder / MODEL} does not exist, {remedy}")
        if "training" in config:
            parameters = {k: v for k, v in config["training"].items() if k in _parameter_names()}
            parameters["random_state"] = config["training"].get("seed", 0)
        else:
            parameters = dict(config["parameters"])
        scale = config.get("scale")
        if scale is not None and not 0 < float(scale) < math.inf:
            raise ValueError(f"its scale is {scale}")
        shape = tuple(int(length) for length in config["shape"])
        if not shape or min(shape) < 1:
            raise ValueError(f"its shape is {shape}")
        return _Description(
            parameters,
            set(config.get("left_out", ())),
            shape,
            None if scale is None else float(scale),
            bool(config.get("scale_free", False)),
            list(config.get("feature_names", ())),
            dict(config.get("sha256", {})),
        )


def _parameter_names() -> list[str]:
    return list(DenoisingEncoder._get_param_names())


def _restore(module: nn.Module, path: Path, digests: dict[str, str]) -> None:
    """Load a module's tensors."""
    content = path.read_bytes()
    if digests.get(path.name, _digest(content)) != _digest(content):
        raise RunError(f"{path} is damaged, its checksum differs: copy or save it again")
    try:
        tensors = load_tensors(content)
    except Exception as error:  # noqa: BLE001  (damage can take any form)
        raise RunError(f"{path} cannot be read ({error}): it is damaged; copy or save it again") from None
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:300]
        raise RunError(f"{path} does not fit the network ({reason}): use the one it was made with") from None


def _read_history(path: Path) -> list[dict[str, float]]:
    if not path.exists():
        return []
    with _damaged(path):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return [{k: math.nan if v is None else v for k, v in line.items()} for line in lines]


@contextlib.contextmanager
def _damaged(path: Path) -> Iterator[None]:
    """Turn whatever a damaged file leads to into one error that names it."""
    try:
        yield
    except RunError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:300]
        raise RunError(f"{path} cannot be used ({reason}): restore it, or fit and save again") from error


def _check_target(folder: Path, overwrite: bool) -> None:
    """Require a directory that `save` may write."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    try:
        ours = json.loads((folder / CONFIG).read_bytes())["format"] == FORMAT
    except (OSError, ValueError, TypeError, KeyError):
        ours = False
    if not ours or not {path.name for path in folder.iterdir()} <= _SAVED:
        raise FileExistsError(f"{folder} exists and holds more than a saved encoder: name a new directory")
    if not overwrite:
        raise FileExistsError(f"{folder} holds a saved encoder: pass overwrite=True to replace it")


def _tensor_file(module: nn.Module) -> bytes:
    # Cloned, since tensors that share memory (tied weights) are refused.
    return save_tensors({k: v.detach().cpu().contiguous().clone() for k, v in module.state_dict().items()})


def _as_line(metrics: dict[str, float]) -> str:
    """As in a run directory: NaN and infinities are no JSON."""
    return json.dumps({k: v if math.isfinite(v) else None for k, v in metrics.items()}) + "\n"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _plain(value: object) -> object:
    """For JSON: NumPy's numbers and arrays; a random state is not kept, the next fit draws anew."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, np.random.RandomState):
        return None
    raise TypeError


def _source(X: Any, name: str) -> Any:  # noqa: N803
    """What a caller passed as data, as something array-like or a `torch.utils.data.Dataset`."""
    if isinstance(X, data.Split):
        X = X.x  # noqa: N806
    if isinstance(X, data.Dataset):
        raise TypeError(f"{name} is a whole data set: pass one of its splits, such as ds.train")
    if isinstance(X, str | os.PathLike):
        raise TypeError(f"{name} must hold numbers, got a path: pass dcs.data.load({str(X)!r}).train")
    if isinstance(X, Tensor):
        X = X.detach().cpu()  # noqa: N806
        X = (X.float() if X.dtype == torch.bfloat16 else X).numpy()  # noqa: N806
    return X


def _stream(source: Any, resident: bool | None) -> Numbers:
    return source if isinstance(source, data.Samples) else data.load(source, resident=resident).train.x


def _ndim(source: Any) -> int:
    if hasattr(source, "ndim"):
        return int(source.ndim)
    return 2 if hasattr(source, "__dataframe__") else np.ndim(np.asarray(source))


def _at_once(source: Any) -> bool:
    """Whether all values are checked at once; those of a memory map are when they are read."""
    return not isinstance(source, np.memmap)


def _check_nd(source: Any, name: str) -> Array:
    checked: Array = check_array(
        source, dtype="numeric", allow_nd=True, ensure_all_finite=_at_once(source), input_name=name
    )
    return checked


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
def _seeded(seed: int) -> Iterator[None]:
    """Seed torch's own random state, and put it back afterwards."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield


@contextlib.contextmanager
def _predicting(network: nn.Module, device: torch.device) -> Iterator[None]:
    """Evaluation mode without gradients on a device; all is as before afterwards."""
    training, before = {module: module.training for module in network.modules()}, _whereabouts(network)
    network.eval().to(device)
    try:
        with torch.no_grad():
            yield
    finally:
        network.to(before)
        for module, flag in training.items():
            module.training = flag


def _whereabouts(network: nn.Module) -> torch.device:
    return next((parameter.device for parameter in network.parameters()), torch.device("cpu"))


def _rows(x: Numbers) -> int:
    """Samples a batch for predictions."""
    wanted = _FEW_ROWS if x.shape[0] <= _FEW_ROWS else _ROWS
    return max(1, min(wanted, _ENTRIES // math.prod(x.shape[1:])))


def _collect(network: nn.Module, call: Callable[[Tensor], Tensor], x: Numbers, device: torch.device) -> Array:
    """The results of a call for all samples, in their order."""
    rows, results = _rows(x), np.empty(0, np.float32)
    with _predicting(network, device):
        for batch in data.Batches(x, rows, device=device).epoch():
            filling = batch.x[:1].expand(rows - len(batch.x), *batch.x.shape[1:])
            result = call(torch.cat([batch.x, filling]))[: len(batch.x)].float().cpu().numpy()
            if not results.size:
                results = np.empty((x.shape[0], *result.shape[1:]), np.float32)
            results[batch.rows.numpy()] = result
    return results


def _nearest(x: Tensor, prediction: Tensor) -> Tensor:
    """Each prediction times the number that takes it nearest to x."""
    a, b = x.flatten(1).cpu().double(), prediction.flatten(1).cpu().double()
    factor = (a * b).sum(1) / (b * b).sum(1).clamp(min=torch.finfo(torch.float64).tiny)
    return (b * factor[:, None]).reshape(x.shape)


def _count_features(network: nn.Module, shape: tuple[int, ...]) -> int:
    """Try the network on two samples: how many features it gives."""
    encode, probe = encoder_of(network), torch.zeros(2, *shape)
    with _predicting(network, torch.device("cpu")):
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
    if not isinstance(objective, objectives.MaskedObjective):
        return
    probe, generator = torch.zeros(2, *shape), Generator().manual_seed(0)
    try:
        objective.mask(objectives.Batch(probe, generator, None, None))
    except ValueError as error:
        raise ValueError(
            f"samples of shape {shape} (n_features = {math.prod(shape)}) cannot be masked: {error}; or use "
            f"an objective that masks nothing, such as 'mse' or 'dae'"
        ) from error

"""Training configuration: all settings, typed, checked, and completed for the data at hand."""

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from torch import nn

from dcs import models, objectives
from dcs._registry import explain, named, options_of
from dcs.augmentation import CIFAR10, CIFAR100
from dcs.data import LogMel, Split, count_windows, default_window, is_large, recording_window
from dcs.masking import VIEWS
from dcs.noise.level import default_ndim
from dcs.objectives.views import WINDOW_ALPHA

CUSTOM = "custom"  # in place of the name of an objective or network that was given as an object
_STEPS, _FEWEST_EPOCHS = 3000, 100
_COLOURS = {"cifar10": CIFAR10, "cifar100": CIFAR100}
_RECORDING_BATCH, _WAVEFORM_ENTRIES = 64, 2**22  # spectrograms, and samples of waveforms, in a batch
_WAVEFORM_WINDOW, _WINDOWS_OF_WAVEFORMS = 2**14, 2**18  # samples in a window, and in a batch of windows
_WINDOW_STEPS, _WINDOW_ENTRIES = 6000, 2**16  # of a training on windows: steps, and entries in a batch
FrontEndOptions = options_of(LogMel, (), "FrontEndOptions")
_Model = TypeVar("_Model", bound=BaseModel)


class TrainingConfig(BaseModel):
    """All settings of a training; unknown ones are refused.

    The same settings, data, machine and number of threads give the same weights, bit for bit.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    objective: str = Field("dcs", description="Objective to minimise.")
    objective_options: dict[str, Any] = Field({}, description="Options of the objective, e.g. power.")
    masking: dict[str, Any] = Field(
        {}, description="View maker: its name as `kind` (default: blind_spot) and its options, e.g. rho."
    )
    front_end: dict[str, Any] | None = Field(
        None,
        description="Options of log-mel spectrograms for recordings; None trains on samples as they are.",
    )
    window: tuple[int, ...] | None = Field(
        None,
        min_length=1,
        max_length=3,
        description="Size of the windows that are drawn from samples; None takes samples as a whole.",
    )
    standardise: bool = Field(
        False,
        description="Whether the mean of windows is subtracted, and they are divided by their deviation.",
    )
    network: str = Field("mlp", description="Network to train.")
    network_options: dict[str, Any] = Field({}, description="Options of the network, e.g. hidden or width.")
    n_components: int | None = Field(10, ge=1, description="Number of features.")
    max_epochs: int = Field(100, ge=0, description="Maximum number of epochs.")
    batch_size: int = Field(256, ge=1, description="Samples per step, over all processes.")
    optimizer: Literal["adam", "sgd"] = Field("adam", description="Adam, or SGD with momentum.")
    learning_rate: float = Field(
        1e-3, gt=0, allow_inf_nan=False, description="Learning rate; that of SGD is for batches of 256."
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="Momentum of SGD.")
    schedule: Literal["constant", "cosine"] = Field("constant", description="Learning-rate schedule.")
    warmup_epochs: float = Field(
        0, ge=0, allow_inf_nan=False, description="Epochs over which the learning rate rises from 0."
    )
    fixed_predictor_rate: bool = Field(
        False, description="Whether the predictor of SimSiam and BYOL keeps its learning rate."
    )
    weight_decay: float = Field(0, ge=0, allow_inf_nan=False, description="Weight decay.")
    clip_norm: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="Maximum norm of the gradient."
    )
    validation: float = Field(0.1, ge=0, lt=1, description="Share of the samples held out.")
    patience: int | None = Field(
        None, ge=1, description="Epochs of a clearly higher held-out loss before training stops early."
    )
    ema: float | None = Field(
        None, gt=0, lt=1, description="Decay of the moving average of weights that is kept."
    )
    sync_batchnorm: bool = Field(True, description="Whether GPUs share batch-norm statistics.")
    precision: Literal["no", "fp16", "bf16"] = Field("no", description="Mixed precision.")
    compile: bool = Field(False, description="Whether to compile the network.")
    device: Literal["auto", "cpu"] = Field("auto", description="Best device available, or the CPU.")
    seed: int = Field(0, ge=0, le=2**63 - 1, description="Random seed for weights, sample order and masks.")
    threads: int | None = Field(None, ge=1, description="Number of CPU threads; None leaves torch's own.")
    checkpoint_seconds: float = Field(
        60, ge=0, allow_inf_nan=False, description="Seconds between checkpoints."
    )
    keep_checkpoints: int = Field(2, ge=1, description="Number of checkpoints that are kept.")

    @model_validator(mode="after")
    def _check_parts(self) -> "TrainingConfig":
        """Check names and options of all parts against their registries."""
        predicts = True
        if self.objective != CUSTOM:
            name = objectives.parse(self.objective)
            predicts = name.kind.predicts
            objectives.check_options(self.objective, self.objective_options)
            if self.masking and not name.masks:
                raise ValueError(f"masking is not applicable to objective {self.objective!r}: leave it out")
        if self.masking:
            kind, options = _view_options(self.masking)
            with named("masking"):
                VIEWS.check(kind, options, "masking")
        if self.network != CUSTOM:
            models.NETWORKS.check(self.network, self.network_options, "network_options")
        if self.patience is not None and not predicts and not self.validation:
            raise ValueError(
                f"patience must be left out for objective {self.objective!r} without held-out samples, as "
                f"its training loss says nothing about its features; or set validation, e.g. to 0.1"
            )
        if self.window is not None and min(self.window) < 1:
            raise ValueError(f"window must be positive sizes, e.g. [64, 64], got {list(self.window)}")
        if self.standardise and self.window is None:
            raise ValueError("standardise is only applicable to windows: set window, or scale the data")
        if self.front_end is not None:
            if "rate" not in self.front_end:
                raise ValueError(
                    'front_end must give the sampling rate of the recordings, e.g. {"rate": 44100}'
                )
            validated(FrontEndOptions, self.front_end, "front_end")
        return self


class Facts(NamedTuple):
    """What is known about data before training.

    Args:
        shape: Shape of one sample as it is read.
        samples: Number of samples.
        rate: Sampling rate in Hz, for recordings.
        name: Name of a known data set, or anything else.
        sizes: Size of each item, where samples are windows of items.
    """

    shape: tuple[int, ...]
    samples: int
    rate: int | None = None
    name: str = ""
    sizes: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def of(cls, split: Split, rate: int | None = None, name: str = "") -> "Facts":
        """Return what is known about a split."""
        sizes = () if split.items is None else tuple(split.items.sizes)
        return cls(tuple(split.x.shape[1:]), len(split), rate, name, sizes)


def read_config(settings: Mapping[str, Any]) -> TrainingConfig:
    """Check settings; all that is wrong becomes one ValueError that names each setting and the remedy."""
    return validated(TrainingConfig, settings)


def validated(model: type[_Model], settings: Mapping[str, Any], where: str = "") -> _Model:
    """Make a model of settings, or raise a ValueError that explains what is wrong with them."""
    try:
        return model(**settings)
    except ValidationError as error:
        raise ValueError(explain(error, model, where, where)) from None


def complete(settings: Mapping[str, Any], facts: Facts, domain: str | None = None) -> TrainingConfig:
    """Complete settings for the data at hand: the one place where defaults are decided.

    Args:
        settings: Settings that were given; None stands for a setting that was not.
        facts: What is known about the data.
        domain: What the network sees of recordings: `spectrogram` or `waveform`; None decides by the network.
    """
    given = {k: v for k, v in settings.items() if v is not None or k == "front_end"}
    check_mappings(given)
    objective = given.get("objective", "dcs")
    name = None if objective == CUSTOM else objectives.parse(objective)
    if name is not None:  # the settings by which it is usually trained; those of SGD only where it is used
        recipe = dict(name.kind.recipe)
        if given.get("optimizer", recipe.get("optimizer")) != recipe.get("optimizer"):
            recipe = {k: v for k, v in recipe.items() if k not in ("learning_rate", "weight_decay")}
        given = {**recipe, **given}
    given = _for_recordings(given, facts, domain)
    given = _for_windows(given, facts, name)
    network = given.setdefault("network", "mlp")
    if "n_components" not in given:
        given["n_components"] = 10 if network == CUSTOM else models.default_components(network)
    if name is not None and not name.kind.predicts:
        given["objective_options"] = _with_colours(given.get("objective_options", {}), facts.name)
    given["masking"] = _masking(given, facts, name)
    checked = read_config(given)
    if "max_epochs" in given:
        return checked
    samples = facts.samples
    if checked.window is not None:
        sizes = facts.sizes or (facts.shape[-len(checked.window) :],) * facts.samples
        samples = count_windows(sizes, checked.window)
    learning = max(1, round(samples * (1 - checked.validation)))
    steps = math.ceil(learning / checked.batch_size)
    if checked.window is not None and facts.rate is None:
        return checked.model_copy(update={"max_epochs": max(1, math.ceil(_WINDOW_STEPS / steps))})
    epochs = max(_FEWEST_EPOCHS, math.ceil(_STEPS / steps))
    # Enough for any data is too much for some: little data is soon overfitted.
    patience = checked.patience or (max(10, epochs // 15) if checked.validation else None)
    return checked.model_copy(update={"max_epochs": epochs, "patience": patience})


def check_mappings(settings: Mapping[str, Any]) -> None:
    """Refuse settings that must be options by name, and are something else."""
    for name in ("objective_options", "masking", "network_options", "front_end"):
        value = settings.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise ValueError(f"{name} must be a mapping of option names to values, got {value!r}")


def make_objective(config: TrainingConfig) -> objectives.Objective:
    """Make the objective of a complete configuration."""
    options, masker = dict(config.objective_options), None
    if config.masking:
        kind, wanted = _view_options(config.masking)
        with named("masking"):
            masker = VIEWS.make(kind, wanted)
    if not objectives.parse(config.objective).kind.predicts:
        options.setdefault("seed", config.seed)  # of the heads
    with named("objective_options"):
        return objectives.get(config.objective, masker, **options)


def make_front_end(config: TrainingConfig) -> LogMel | None:
    """Make the front end of a configuration, if it has one."""
    with named("front_end"):
        return None if config.front_end is None else LogMel(**config.front_end)


def make_network(config: TrainingConfig, shape: tuple[int, ...]) -> nn.Module:
    """Make the network of a configuration, for samples of the shape that it sees."""
    with named("network_options" if config.network_options else "network"):
        return models.build(
            config.network, shape, config.n_components, seed=config.seed, **config.network_options
        )


def _for_recordings(given: dict[str, Any], facts: Facts, domain: str | None) -> dict[str, Any]:
    """Complete settings for recordings: a transformer on spectrograms, or a U-Net on waveforms."""
    if facts.rate is None:
        if domain is not None:
            raise ValueError("domain is only applicable to recordings: leave it out")
        return given
    if domain is None:
        takes_waves = given.get("network") in ("conv1d", "waveunet")
        plain = not given["front_end"] if "front_end" in given else takes_waves
        domain = "waveform" if plain else "spectrogram"
    if domain == "spectrogram":
        front_end = {**(given.get("front_end") or {}), "rate": facts.rate}
        usual = {"network": "vit", "batch_size": _RECORDING_BATCH}
        return {**usual, **given, "front_end": front_end}
    if given.get("front_end"):
        raise ValueError("front_end makes spectrograms: leave it out where the domain is waveform")
    if facts.sizes and facts.shape == (recording_window(max(facts.sizes)[0], facts.rate),):
        given = {"window": (min(_WAVEFORM_WINDOW, *facts.shape),), **given}  # no other size was asked for
    length = math.prod(given.get("window") or facts.shape[-1:])
    entries = _WINDOWS_OF_WAVEFORMS if facts.sizes else _WAVEFORM_ENTRIES
    size = max(4, min(256, entries // max(1, length)))
    given = {"network": "waveunet", "batch_size": size, **given}
    network = given["network"]
    if network != CUSTOM and not models.NETWORKS[network].traits.get("waveforms"):
        fitting = [name for name, entry in models.NETWORKS.items() if entry.traits.get("waveforms")]
        raise ValueError(
            f"network {network!r} does not take waveforms: leave the domain out, so that it sees "
            f"spectrograms, or use one of {', '.join(fitting)}"
        )
    return given


def _for_windows(given: dict[str, Any], facts: Facts, name: objectives.Name | None) -> dict[str, Any]:
    """Complete settings for samples that are learned window by window.

    A U-Net learns from standardised windows of pictures and volumes; recordings are learned from as always.
    """
    if "window" not in given:
        ndim = len(facts.sizes[0]) if facts.sizes else 2
        if facts.sizes:
            given = {**given, "window": facts.shape[-ndim:]}
        elif "network" not in given and facts.rate is None and is_large(facts.shape):
            given = {**given, "window": default_window(2, [facts.shape[-2:]])}
    window = given.get("window")
    if window is None or facts.rate is not None:
        return given
    if not isinstance(window, tuple | list):
        raise ValueError(f"window must be a list of sizes, one for each axis, e.g. [64, 64], got {window!r}")
    usual: dict[str, Any] = {}
    if name is None or name.kind.predicts:  # others augment images in 0 … 1
        size = max(4, min(256, _WINDOW_ENTRIES // max(1, math.prod(window))))
        usual = {"network": "resunet", "batch_size": size, "standardise": True}
        usual |= {"schedule": "cosine", "precision": fast_precision(len(window))}
    given = {**usual, **given}
    if given.get("network") == "resunet" and len(window) != 2:
        given["network_options"] = {"ndim": len(window), **(given.get("network_options") or {})}
    options = given.get("objective_options") or {}
    if name is not None and name.base == "dcs" and options.get("variant") != "paper":
        given["objective_options"] = {"centre": True, "length": 1.0, **options}
    if name is not None and name.base in ("dcs", "r2r") and not given.get("masking"):
        given["masking"] = {"kind": "automatic", "alpha": WINDOW_ALPHA}
    return given


def fast_precision(ndim: int) -> str:
    """Return the precision in which convolutions over so many axes are fastest on this machine's CPU."""
    if ndim == 3:  # gradients of torch's convolutions of volumes in bfloat16 are not reliable
        return "no"
    known = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return "bf16" if any(getattr(torch.cpu, name, bool)() for name in known) else "no"


def _with_colours(options: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Add the colour statistics of a known data set to the options of its augmentation."""
    known, augment = _COLOURS.get(name), options.get("augment", {})
    if known is None or not isinstance(augment, Mapping) or {"mean", "std"} & set(augment):
        return dict(options)
    own = {**augment, "mean": list(known[0]), "std": list(known[1])}
    return {**options, "augment": own}


def _masking(given: Mapping[str, Any], facts: Facts, name: objectives.Name | None) -> dict[str, Any]:
    """Complete the settings of the view maker; none where the objective's own default is meant."""
    wanted = dict(given.get("masking") or {})
    if name is None or not name.masks:
        return wanted
    spectrograms = given.get("front_end") is not None
    if spectrograms or facts.rate is not None:  # the paper masks recordings along time
        wanted = {"kind": "amplitude", **wanted}
    if not wanted:
        return {}
    options = given.get("objective_options", {})
    inner = options.get("regulariser_options", options)
    paper = (isinstance(inner, Mapping) and inner.get("variant") == "paper") or name.masked_views
    kind, rest = _view_options(wanted)
    defaults: dict[str, Any] = {"min_masked": 0} if paper and kind in ("blind_spot", "amplitude") else {}
    if kind == "blind_spot":
        shape = LogMel(**given["front_end"]).shape(*facts.shape) if spectrograms else facts.shape
        defaults |= {"ndim": default_ndim(shape), "rho": 0.1 if paper else 0.3}
    elif kind == "amplitude" and spectrograms:
        defaults["axis"] = -2
    return {"kind": kind, **defaults, **rest}


def _view_options(masking: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Split the setting `masking` into the name of a view maker and its options."""
    options = dict(masking)
    return str(options.pop("kind", "blind_spot")), options

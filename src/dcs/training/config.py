"""What a training is told, complete and checked."""

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Generator, Tensor, nn

from dcs import masking, models, noise, objectives
from dcs.data import LogMel
from dcs.noise.level import default_ndim


class TrainingConfig(BaseModel):
    """All settings of a training; unknown ones are refused.

    The same settings, data, machine and number of threads give the same weights, bit for bit.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    objective: str = Field(
        "dcs",
        description="What is minimised: mse, cosine, n2v, n2n, sure, dae, dcs, or simsiam and the like.",
    )
    objective_options: dict[str, Any] = Field({}, description="Of the objective, such as power or sigma.")
    masking: dict[str, Any] = Field(
        {}, description="Of the masker, such as rho and radius; kind: blind_spot, amplitude or split."
    )
    front_end: dict[str, Any] | None = Field(
        None,
        description="Of recordings: log-mel spectrograms, by options such as rate and mels; or as they are.",
    )
    network: str = Field("mlp", description="mlp, conv, conv1d, unet, vit, waveunet, resnet18 or resnet50.")
    network_options: dict[str, Any] = Field({}, description="Of the network, such as hidden or width.")
    n_components: int = Field(10, ge=1, description="Features; those of a ResNet follow from its width.")
    max_epochs: int = Field(100, ge=0, description="Epochs, unless stopped early.")
    batch_size: int = Field(256, ge=1, description="Samples a step, over all processes.")
    optimizer: Literal["adam", "sgd"] = Field("adam", description="Adam, or SGD with momentum.")
    learning_rate: float = Field(
        1e-3, gt=0, allow_inf_nan=False, description="Of Adam; of SGD times batch_size/256."
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="Of SGD.")
    schedule: Literal["constant", "cosine"] = Field("constant", description="Of the learning rate.")
    warmup_epochs: float = Field(
        0, ge=0, allow_inf_nan=False, description="In which the learning rate rises linearly from 0."
    )
    fixed_predictor_rate: bool = Field(
        False, description="Whether the schedule leaves out the predictor of SimSiam and BYOL."
    )
    weight_decay: float = Field(
        0, ge=0, allow_inf_nan=False, description="Of AdamW (0 is plain Adam), or of SGD."
    )
    clip_norm: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="Largest norm of the gradient."
    )
    validation: float = Field(0.1, ge=0, lt=1, description="Share of the samples held out.")
    patience: int | None = Field(
        None,
        ge=1,
        description="Epochs of clearly higher held-out loss before stopping; the latest without it is kept.",
    )
    ema: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="Decay of the average of weights that is kept, over fewer steps at first.",
    )
    sync_batchnorm: bool = Field(
        True, description="Whether several processes share the statistics of batch normalisation."
    )
    precision: Literal["no", "fp16", "bf16"] = Field("no", description="Mixed precision.")
    compile: bool = Field(False, description="Whether to compile the network; not with simsiam and the like.")
    device: Literal["auto", "cpu"] = Field("auto", description="The best there is, or cpu.")
    seed: int = Field(0, ge=0, le=2**63 - 1, description="Of weights, order, masks and the held-out share.")
    threads: int | None = Field(None, ge=1, description="Of the processor; by default as torch chooses.")
    checkpoint_seconds: float = Field(60, ge=0, allow_inf_nan=False, description="Between checkpoints.")
    keep_checkpoints: int = Field(2, ge=1, description="How many of them are kept.")


def read_config(settings: Mapping[str, Any]) -> TrainingConfig:
    """Check settings; what is wrong is one ValueError that names each setting and what to do."""
    try:
        return TrainingConfig(**settings)
    except ValidationError as error:
        raise ValueError("; ".join(_explain(problem) for problem in error.errors())) from None


def with_recipe(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings, completed as their objective is trained where nobody says: SimSiam and its kind as on CIFAR.

    Held-out losses say little of the features of those, so that nothing is held out.
    """
    objective = settings.get("objective", "dcs")
    if objective not in objectives.NAMES or objective in objectives.REGISTRY:
        return dict(settings)
    recipe = {"network": "resnet18", "optimizer": "sgd", "schedule": "cosine", "validation": 0.0}
    if settings.get("optimizer", "sgd") == "sgd":
        recipe |= {"learning_rate": 0.03, "weight_decay": 5e-4}
    return {**recipe, **settings}


def enough_epochs(samples: int, batch_size: int) -> int:
    """As many epochs as make 3,000 steps, at least 100: what the command line trains for if nobody says."""
    return max(100, math.ceil(3000 / math.ceil(samples / batch_size)))


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The settings in which two configurations differ, as text."""
    return [
        f"{name} was {old.get(name)!r}, is now {new.get(name)!r}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]


def make_objective(config: TrainingConfig, shape: tuple[int, ...]) -> objectives.Objective:
    """The objective of a configuration, with its masker, for samples of a shape that the network sees."""
    options, wanted = dict(config.objective_options), dict(config.masking)
    if config.patience is not None and not config.validation and config.objective not in objectives.REGISTRY:
        raise ValueError(
            f"patience must be left out for objective {config.objective!r} without held-out samples, whose "
            f"loss of training says nothing of its features: or set validation, such as 0.1"
        )
    masked = config.objective not in objectives.NAMES or objectives.masks(config.objective)
    if wanted and not masked:
        raise ValueError(f"masking must be left out: objective {config.objective!r} masks nothing")
    if config.front_end is not None and masked and "masker" not in options:
        wanted = {"kind": "amplitude", **wanted}  # along time, as the paper masks spectrograms
    if wanted:
        kind: dict[str, Any] = {
            "blind_spot": masking.BlindSpot,
            "amplitude": masking.AmplitudeNeighbors,
            "split": noise.GaussianSplit,
        }
        name = wanted.pop("kind", "blind_spot")
        if name not in kind:
            raise ValueError(f"masking.kind must be one of {', '.join(kind)}, got {name!r}")
        inner = options.get("regulariser_options", options)
        paper = inner.get("variant") == "paper" or config.objective.endswith("+bsm")
        defaults: dict[str, Any] = {"min_masked": 0} if paper and name != "split" else {}
        if name == "blind_spot":
            defaults |= {"ndim": default_ndim(shape), "rho": 0.1 if paper else 0.3}
        elif name == "amplitude" and config.front_end is not None:
            defaults["axis"] = -2
        options["masker"] = _make("masking", kind[name], {**defaults, **wanted})
    if config.objective not in objectives.REGISTRY:
        options.setdefault("seed", config.seed)  # of the heads
    made: objectives.Objective = _make(
        "objective_options", lambda **given: objectives.get(config.objective, **given), options
    )
    if shape == (2,) and isinstance(made, objectives.MaskedObjective):
        own = made.masker is None or isinstance(made.masker, objectives.ChosenViews)
        masker = made.default_masker(1) if own else made.masker
        del made.masker  # a module's place takes modules only
        made.masker = _Padded(masker) if isinstance(masker, masking.BlindSpot) else masker
    return made


def make_front_end(config: TrainingConfig) -> LogMel | None:
    """What makes spectrograms of recordings, if a configuration asks for them."""
    if config.front_end is None:
        return None
    if "rate" not in config.front_end:
        raise ValueError('front_end must name the rate of the recordings, such as {"rate": 44100}')
    made: LogMel = _make("front_end", LogMel, dict(config.front_end))
    return made


def make_network(config: TrainingConfig, shape: tuple[int, ...]) -> Any:
    """The network of a configuration for samples of a shape."""

    def build(**options: Any) -> object:
        return models.build(config.network, shape, config.n_components, seed=config.seed, **options)

    return _make("network_options", build, dict(config.network_options))


@dataclass(frozen=True)
class _Padded:
    """Lets a window of three stand over two entries, by a third that is never masked nor copied from."""

    masker: masking.BlindSpot

    def __call__(
        self, x: Tensor, generator: Generator | None = None, *, valid: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        inside = torch.ones_like(x, dtype=torch.bool) if valid is None else valid
        x_tilde, b = self.masker(
            nn.functional.pad(x, (0, 1)), generator, valid=nn.functional.pad(inside, (0, 1))
        )
        return x_tilde[..., :-1].contiguous(), b[..., :-1].contiguous()


def _make(setting: str, make: Any, options: dict[str, Any]) -> Any:
    try:
        return make(**options)
    except TypeError as error:
        if "unexpected keyword" in str(error):
            raise ValueError(f"{setting} holds an unknown name: {error}") from None
        raise


def _explain(problem: Any) -> str:
    name = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        near = difflib.get_close_matches(name, TrainingConfig.model_fields, n=1)
        return f"unknown setting {name!r}: " + (
            f"did you mean {near[0]!r}?" if near else f"known are {', '.join(TrainingConfig.model_fields)}"
        )
    return f"{name}: {problem['msg'].lower()}, got {problem['input']!r}"

"""The optimiser of a training, and the learning rate that it starts from."""

import logging
from collections.abc import Iterable

import torch
from torch import nn

from dcs.objectives import Objective
from dcs.training.config import TrainingConfig

_LOG = logging.getLogger(__name__)
BASE_BATCH = 256  # for which SGD's learning rate is given


def held_out_samples(config: TrainingConfig, samples: int) -> int:
    """How many of all samples are held out."""
    return min(round(config.validation * samples), samples - 1)


def batch_used(config: TrainingConfig, samples: int) -> int:
    """Samples a step: those of a batch, or all that are not held out, if they are fewer."""
    return min(config.batch_size, samples - held_out_samples(config, samples))


def peak_rate(config: TrainingConfig) -> float:
    """The learning rate before the schedule: of SGD it grows with the batch, as in SimSiam's recipe."""
    if config.optimizer == "adam":
        return config.learning_rate
    return config.learning_rate * config.batch_size / BASE_BATCH


def describe_rate(config: TrainingConfig) -> str:
    """SGD's learning rate, and how it came about."""
    made_of = f"{config.learning_rate:g} x batch {config.batch_size} / {BASE_BATCH}"
    return f"learning rate {peak_rate(config):g} = {made_of}"


def make_optimizer(model: nn.Module, objective: Objective, config: TrainingConfig) -> torch.optim.Optimizer:
    """Make the optimiser of a model's and an objective's parameters.

    With `fixed_predictor_rate`, the predictor's are in a group that is marked `fixed`.
    """
    parameters = [*model.parameters(), *objective.parameters()]
    groups = [{"params": parameters}]
    if config.fixed_predictor_rate:
        predictor = getattr(objective, "predictor", None)
        if predictor is None:
            raise ValueError("fixed_predictor_rate must be False: the objective has no predictor")
        fixed = {id(parameter) for parameter in predictor.parameters()}
        groups = [
            {"params": [p for p in parameters if id(p) not in fixed]},
            {"params": list(predictor.parameters()), "fixed": True},  # type: ignore[dict-item]
        ]
    rate = peak_rate(config)
    if config.optimizer == "adam":
        # AdamW, which without weight decay is Adam, in one kernel where there is one: a tenth of a step less.
        return torch.optim.AdamW(
            groups, lr=rate, weight_decay=config.weight_decay, fused=_fusable(parameters) or None
        )
    _LOG.info(describe_rate(config))
    return torch.optim.SGD(
        groups,
        lr=rate,
        momentum=config.momentum,
        weight_decay=config.weight_decay,
        fused=_fusable(parameters) or None,
    )


def _fusable(parameters: Iterable[nn.Parameter]) -> bool:
    return all(p.is_floating_point() and p.device.type in ("cpu", "cuda") for p in parameters)

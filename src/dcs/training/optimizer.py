"""The optimiser of a training and its learning rate."""

import logging
import math
from typing import Any

import torch
from torch import nn

from dcs.objectives import Objective
from dcs.training.config import TrainingConfig

_LOG = logging.getLogger(__name__)
BASE_BATCH = 256  # for which SGD's learning rate is given


def held_out_samples(config: TrainingConfig, samples: int) -> int:
    """Return the number of held-out samples."""
    return min(round(config.validation * samples), samples - 1)


def batch_used(config: TrainingConfig, samples: int) -> int:
    """Return the samples per step: a batch, or all that are not held out if they are fewer."""
    return min(config.batch_size, samples - held_out_samples(config, samples))


def peak_rate(config: TrainingConfig) -> float:
    """Return the learning rate before the schedule; for SGD it grows with the batch, as SimSiam has it."""
    if config.optimizer == "adam":
        return config.learning_rate
    return config.learning_rate * config.batch_size / BASE_BATCH


def scheduled_rate(config: TrainingConfig, done: float, steps_per_epoch: int) -> float:
    """Return the learning rate of a step, after `done` epochs: a linear warm-up, then the schedule."""
    factor = 1.0
    if done < config.warmup_epochs:
        factor = min(1.0, (done + 1 / steps_per_epoch) / config.warmup_epochs)
    elif config.schedule == "cosine":
        rest = config.max_epochs - config.warmup_epochs
        factor = 0.5 * (1 + math.cos(math.pi * (done - config.warmup_epochs) / max(rest, 1e-9)))
    return peak_rate(config) * factor


def describe_rate(config: TrainingConfig) -> str:
    """Describe the learning rate of SGD and how it was computed."""
    made_of = f"{config.learning_rate:g} x batch {config.batch_size} / {BASE_BATCH}"
    return f"learning rate {peak_rate(config):g} = {made_of}"


def make_optimizer(model: nn.Module, objective: Objective, config: TrainingConfig) -> torch.optim.Optimizer:
    """Make the optimiser of a model's and an objective's parameters.

    With `fixed_predictor_rate`, those of the predictor form a group that is marked `fixed`.
    """
    parameters = [*model.parameters(), *objective.parameters()]
    groups: list[dict[str, Any]] = [{"params": parameters}]
    if config.fixed_predictor_rate:
        predictor = getattr(objective, "predictor", None)
        if predictor is None:
            raise ValueError("fixed_predictor_rate must be False: the objective has no predictor")
        own = list(predictor.parameters())
        others = [p for p in parameters if all(p is not fixed for fixed in own)]
        groups = [{"params": others}, {"params": own, "fixed": True}]
    fusable = all(p.is_floating_point() and p.device.type in ("cpu", "cuda") for p in parameters)
    shared: Any = {"lr": peak_rate(config), "weight_decay": config.weight_decay, "fused": fusable or None}
    if config.optimizer == "adam":
        # AdamW, which without weight decay is Adam, in one kernel where there is one: a tenth of a step less.
        return torch.optim.AdamW(groups, **shared)
    _LOG.info(describe_rate(config))
    return torch.optim.SGD(groups, momentum=config.momentum, **shared)

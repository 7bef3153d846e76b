"""`dcs.load`: a fitted `DenoisingEncoder` from the directory it was saved in."""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from dcs import objectives
from dcs._predicting import SCALE_FREE
from dcs._saved import damaged, read_description, read_history, restore
from dcs.estimator import DenoisingEncoder, count_features, seeded
from dcs.training import RunError
from dcs.training.run import CONFIG, METRICS, MODEL, OBJECTIVE


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
    encoder = load_without_history(path, network, objective)
    encoder.history_ = read_history(Path(path).expanduser() / METRICS)
    encoder.n_iter_ = len(encoder.history_)
    return encoder


def load_without_history(
    path: str | os.PathLike[str],
    network: nn.Module | Callable[..., nn.Module] | None = None,
    objective: objectives.Objective | None = None,
) -> DenoisingEncoder:
    """As `load`, but for what was measured in training, which may be damaged where the network is not."""
    folder = Path(path).expanduser()
    about = read_description(folder, DenoisingEncoder._get_param_names())
    if network is None and about.left_out & {"network", "network_options"}:
        raise RunError(f"{folder} was fitted with a network of your own: pass it, as load(path, network=...)")
    if isinstance(objective, str | objectives.SelfSupervised):
        raise TypeError(
            "objective must be what predicted samples in training, an object such as Noise2Void(...): one "
            "that learns features only is not needed again"
        )
    given: dict[str, Any] = {} if network is None else {"network": network}
    if isinstance(network, nn.Module):
        given["network_options"] = None
    custom = bool(about.left_out & {"objective", "objective_options", "masking"})
    if objective is not None or custom:
        given |= {"objective": objective, "objective_options": None, "masking": None}
    with damaged(folder / CONFIG):
        encoder = DenoisingEncoder(**{**about.parameters, **given})
        known = objective is not None or not custom
        # With an objective that is not known, the other parameters are checked beside a stand-in.
        checked = (
            encoder if known else DenoisingEncoder(**{**encoder.get_params(deep=False), "objective": "dcs"})
        )
        config = checked._config()
        encoder.front_end_, shape = about.front_end, about.shape
        if about.front_end is not None:
            shape = about.front_end.shape(*shape)
        encoder.objective_ = checked._make_objective(config, shape) if known else None
        with seeded(config.seed):
            encoder.network_ = checked._make_network(config, shape).cpu().eval()
        encoder._n_features_out = count_features(encoder.network_, shape)
        restore(encoder.network_, folder / MODEL, about.digests)
    if encoder.objective_ is not None and (folder / OBJECTIVE).exists():
        restore(encoder.objective_, folder / OBJECTIVE, about.digests)
    encoder._scale_free = isinstance(encoder.objective_, SCALE_FREE) if known else about.scale_free
    learned = isinstance(encoder.objective_, objectives.SelfSupervised)
    encoder._features_only = learned if known else about.features_only
    encoder.scale_ = about.scale if encoder._scale_free else 1.0
    encoder.largest_ = about.largest
    encoder.shape_ = about.shape
    encoder.n_features_in_ = math.prod(about.shape)
    if about.feature_names:
        encoder.feature_names_in_ = np.array(about.feature_names, dtype=object)
    return encoder

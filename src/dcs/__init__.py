"""Representations from noisy, unlabelled data: the denoising Cosine-Similarity (dCS) loss.

The parts, from the bottom up (each is imported when it is first used, so that `import dcs` is quick):

- `dcs.functional`: the paper's equations as pure functions on tensors;
- `dcs.masking` and `dcs.noise`: x -> (x_tilde, b); noise models and noise-level estimators;
- `dcs.augmentation`: random views of images;
- `dcs.objectives`: losses bound to maskers, called with a model and a batch;
- `dcs.data` and `dcs.models`: data sets and people's own data; networks;
- `dcs.training` and `dcs.evaluation`: the loop, checkpoints, run directories; how a representation is scored;
- `dcs.DenoisingEncoder`: all of it as one scikit-learn transformer, and `dcs.load` to read a saved one;
- `dcs.export` and `dcs.hub`: networks for other programs;
- `dcs.experiments`: the paper's own;
- `dcs.inspection`: how noisy is data, and would the loss help? `dcs.inspect` in short;
- `dcs.report`: one page that shows what a run learnt.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"
__all__ = [
    "DenoisingEncoder",
    "__version__",
    "augmentation",
    "data",
    "evaluation",
    "experiments",
    "export",
    "functional",
    "hub",
    "inspect",
    "inspection",
    "load",
    "masking",
    "models",
    "noise",
    "objectives",
    "report",
    "runs",
    "training",
]
_HOMES = {"DenoisingEncoder": "estimator", "inspect": "inspection", "load": "estimator"}

if TYPE_CHECKING:
    from dcs import (
        augmentation,
        data,
        evaluation,
        experiments,
        export,
        functional,
        hub,
        inspection,
        masking,
        models,
        noise,
        objectives,
        report,
        runs,
        training,
    )
    from dcs.estimator import DenoisingEncoder, load
    from dcs.inspection import inspect


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name not in __all__:
        raise AttributeError(f"module 'dcs' has no attribute {name!r}")
    if name in _HOMES:
        return getattr(importlib.import_module(f"dcs.{_HOMES[name]}"), name)
    return importlib.import_module(f"dcs.{name}")


def __dir__() -> list[str]:
    return __all__

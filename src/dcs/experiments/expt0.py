"""Expt0: autoencoders on MNIST with Gaussian noise; Expt1 trains the same on other data."""

from dataclasses import replace
from typing import Any, Literal

from sklearn.decomposition import PCA
from torch import Tensor

from dcs import data, objectives
from dcs.experiments.curve import Curve
from dcs.experiments.experiment import UNTRAINED, Encode, Experiment, Preset, Trial
from dcs.experiments.readings import SOFT_ETA
from dcs.runs import Parts
from dcs.training import CUSTOM, TrainingConfig

METHODS = ("mse", "cosine", "n2v", "sure", "dcs")
MASKED = ("n2v", "dcs", "oracle")
PRESETS = {
    "paper": Preset({"linear": 10, "clustering": 20}, 800),
    "quick": Preset({"linear": 3, "clustering": 3}, None, 12_800),
    "smoke": Preset({"linear": 1, "clustering": 1}, 20, 1024, ("digits",)),
}


def settings(trial: Trial) -> dict[str, Any]:
    """Return the training settings of a trial."""
    paper = trial.variant == "paper"
    named = {"oracle": CUSTOM, UNTRAINED: "cosine", "pca": "cosine"}
    chosen: dict[str, Any] = {
        "objective": named.get(trial.method, trial.method),
        "n_components": data.CATALOGUE[trial.dataset].classes,
    }
    if trial.method == "dcs" and paper:
        soft = {"method": "asymptotic", "power": 1.0, "eta": SOFT_ETA}
        chosen["objective_options"] = soft if "soft" in trial.switches else {"variant": "paper"}
        if "whole" in trial.switches:
            chosen["objective_options"]["whole_snr"] = True
    if trial.method == "n2v" or (trial.method == "dcs" and paper):  # otherwise dcs chooses its views
        chosen["masking"] = _masks(trial) if paper else {"rho": 0.3}
    return chosen


def _masks(trial: Trial) -> dict[str, Any]:
    """Return the options of the paper's masks."""
    options: dict[str, Any] = {"rho": 0.1, "min_masked": 0}
    return {**options, "centre": True} if "centre" in trial.switches else options


def head(trial: Trial) -> dict[str, Any]:
    """Return the classifier of the linear protocol."""
    # SimSiam's rate, 30, is for features that are far smaller.
    return {"head": "sgd", "learning_rate": 0.1} if "sgd" in trial.switches else {"head": "lbfgs"}


def parts(trial: Trial, found: data.Dataset, config: TrainingConfig) -> Parts:
    """Return a learning curve, and the oracle, which sees the views of dcs in the same variant."""
    monitor = Curve(found, config, head(trial)) if trial.protocol == "linear" else None
    if trial.method != "oracle":
        return Parts(monitor=monitor)
    views: Any = objectives.DenoisingCosine(variant=trial.variant).views_for(found.shape)
    if "centre" in trial.switches:
        views = replace(views, centre=True)
    return Parts(objective=objectives.CosineOracle(views), pair=found.train.clean, monitor=monitor)


def pca(trial: Trial, x: Tensor | data.Samples) -> Encode:
    """Return principal components, as many as there are classes."""
    fitted = PCA(data.CATALOGUE[trial.dataset].classes, random_state=trial.seed).fit(_rows(x))
    return lambda x: fitted.transform(_rows(x))


def prepare(trial: Trial) -> Literal["flat"] | None:
    """Return the preparation of samples: in the paper's variant the points of a pen are one vector."""
    return "flat" if trial.dataset == "pendigits" and trial.variant == "paper" else None


def _rows(x: Tensor | data.Samples) -> Any:
    return data.Split(x).read(range(x.shape[0])).flatten(1).numpy()


SHARED: dict[str, Any] = {
    "masked": MASKED,
    "settings": settings,
    "parts": parts,
    "baselines": {"pca": pca},
    "prepare": prepare,
    "head": head,
    "has_readings": True,
    "resident": True,
    "stand_ins": tuple(data.CATALOGUE),
}
EXPT0 = Experiment(
    title="Expt0: MNIST with Gaussian noise",
    datasets=("mnist",),
    methods=METHODS,
    orientation=("pca", UNTRAINED, "oracle"),
    presets={
        **PRESETS,
        "quick": PRESETS["quick"]._replace(noises=(0.3, 0.5, 0.7)),
        "smoke": PRESETS["smoke"]._replace(noises=(0.3,)),
    },
    noises=(0.01, 0.1, 0.3, 0.5, 0.7),
    **SHARED,
)

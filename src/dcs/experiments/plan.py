"""The experiments, and the trials that each is made of."""

import math
from collections.abc import Sequence
from typing import Any

from dcs._checks import check_choice, check_integer
from dcs.data import CATALOGUE
from dcs.experiments.experiment import BOTH, FOLDS, HOWS, UNTRAINED, VARIANTS, Experiment, Preset, Trial
from dcs.experiments.expt0 import EXPT0
from dcs.experiments.expt1 import EXPT1
from dcs.experiments.expt2 import EXPT2
from dcs.experiments.expt3 import EXPT3

EXPERIMENTS: dict[str, Experiment] = {"expt0": EXPT0, "expt1": EXPT1, "expt2": EXPT2, "expt3": EXPT3}
PRESETS = ("paper", "quick", "smoke")
QUICK_STEPS = 4_000
# Options that one experiment alone has, and why the others do not.
_OWN = {
    "noises": ("expt0", "adds none"),
    "folds": ("expt3", "has none"),
    "lambdas": ("expt2", "has no regulariser"),
    "hows": ("expt2", "has no regulariser"),
}


def plan(
    experiment: str,
    preset: str = "quick",
    *,
    variants: Sequence[str] = ("default",),
    protocols: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    noises: Sequence[float] | None = None,
    folds: Sequence[int] | None = None,
    methods: Sequence[str] | None = None,
    lambdas: Sequence[float] | None = None,
    hows: Sequence[str] | None = None,
    trials: int | None = None,
    epochs: int | None = None,
    train_size: int | None = None,
    precision: str = "no",
) -> list[Trial]:
    """List the trials of an experiment; the first seed of all methods comes first.

    Args:
        experiment: Name of the experiment, `expt0` to `expt3`.
        preset: Amount: `paper` is the paper's, `quick` takes an evening, `smoke` two minutes.
        variants: Variants of methods that mask: `default`, `paper`, or both.
        protocols: `linear`, `clustering`, or both; by default all that the experiment has.
        datasets: Data sets; by default those of the preset.
        noises: Standard deviations of the noise, for Expt0; by default those of the preset.
        folds: Test folds, for Expt3; by default 5.
        methods: Methods; by default the paper's. The rows for orientation are always included.
        lambdas: Weights of the regulariser to compare, for Expt2: only methods with a regulariser are run,
            with each of these, and by default only `simsiam-dcs`. Otherwise the paper's weight is used.
        hows: `separate`, `shared`, or both, for the regularisers of Expt2; see
            `dcs.objectives.SelfSupervised`.
        trials: Number of trials per protocol.
        epochs: Number of epochs.
        train_size: Maximum number of training samples.
        precision: `no`, or `bf16` for mixed precision, which is faster on some processors.
    """
    check_choice("experiment", experiment, EXPERIMENTS)
    check_choice("preset", preset, PRESETS)
    check_choice("precision", precision, ("no", "bf16"))
    _check_own(experiment, {"noises": noises, "folds": folds, "lambdas": lambdas, "hows": hows})
    described = EXPERIMENTS[experiment]
    for name, value in (("trials", trials), ("epochs", epochs), ("train_size", train_size)):
        if value is not None:
            check_integer(name, value, at_least=1)
    amount = described.presets[preset]
    amount = amount._replace(epochs=epochs or amount.epochs, train_size=train_size or amount.train_size)
    if lambdas is not None and methods is None:
        methods = ["simsiam-dcs"]
    chosen: dict[str, Sequence[str]] = {
        "variants": variants,
        "protocols": described.protocols if protocols is None else protocols,
        "datasets": (amount.datasets or described.datasets) if datasets is None else datasets,
        "methods": described.methods if methods is None else methods,
        "hows": HOWS[:1] if hows is None else hows,
    }
    _check_known(described, chosen, regularised=lambdas is not None)
    rows = [row for row in (*described.methods, *described.further) if row in chosen["methods"]]
    rows += described.orientation if lambdas is None else ()
    base = Trial(experiment, "", 0.0, "", BOTH, "", 0, 0, 0, precision, scale=amount.scale)
    planned = [
        _completed(trial, described, amount)
        for protocol in chosen["protocols"]
        for dataset in chosen["datasets"]
        for level in noises or amount.noises or described.noises
        for fold in folds or described.folds
        for number in range(trials or amount.trials[protocol])
        for method in rows
        for trial in _variations(
            base._replace(
                dataset=dataset,
                noise=float(level),
                method=method,
                protocol=protocol,
                trial=number,
                fold=int(fold),
            ),
            chosen["variants"] if method in described.masked else (BOTH,),
            chosen["hows"],
            lambdas,
        )
    ]
    return list(dict.fromkeys(planned))


def available_samples(trial: Trial) -> int:
    """Return the number of samples that a trial could learn from."""
    entry = CATALOGUE[trial.dataset]
    return entry.train if trial.part == "train" else entry.train + entry.test


def _check_known(described: Experiment, chosen: dict[str, Sequence[str]], *, regularised: bool) -> None:
    """Raise if an experiment does not know a name."""
    methods = [
        method
        for method in (*described.methods, *described.further)
        if described.regularises(method) or not regularised
    ]
    known: dict[str, Sequence[str]] = {
        "variants": VARIANTS,
        "protocols": described.protocols,
        "datasets": tuple(dict.fromkeys((*described.datasets, *described.stand_ins))),
        "methods": methods,
        "hows": HOWS,
    }
    for name, values in chosen.items():
        if not values:
            raise ValueError(f"{name} is empty: give some of {', '.join(known[name])}")
        shown = f"{name} with lambdas" if regularised and name == "methods" else name
        for value in values:
            check_choice(shown, value, known[name])


def _check_own(experiment: str, given: dict[str, Sequence[Any] | None]) -> None:
    """Raise if an option is not applicable to an experiment, or out of range."""
    for name, values in given.items():
        owner, why = _OWN[name]
        if values is not None and experiment != owner:
            raise ValueError(f"{name} are for {owner}: {experiment} {why}")
        if values is not None and not values:
            raise ValueError(f"{name} is empty: give some, or leave it out")
    for name, largest in (("noises", "10"), ("lambdas", "1e6")):
        values = given[name] or ()
        if any(not 0 < value <= float(largest) for value in values):
            raise ValueError(f"{name} must be above 0 and at most {largest}, got {list(values)}")
    for fold in given["folds"] or ():
        check_choice("folds", str(fold), [str(known) for known in FOLDS])


def _variations(
    trial: Trial, variants: Sequence[str], hows: Sequence[str], lambdas: Sequence[float] | None
) -> list[Trial]:
    """Return the trial in each variant, and with each regulariser if its method has one."""
    described = EXPERIMENTS[trial.experiment]
    if not described.regularises(trial.method):
        return [trial._replace(variant=variant) for variant in variants]
    return [
        trial._replace(variant=variant, how=how, weight=float(weight))
        for variant in variants
        for how in hows
        for weight in lambdas or (described.weights[trial.dataset],)
    ]


def _completed(trial: Trial, described: Experiment, amount: Preset) -> Trial:
    """Return the trial with the number of samples and epochs of a preset."""
    there = available_samples(trial)
    size = min(there, amount.train_size or there)
    if trial.method == UNTRAINED or trial.method in described.baselines:
        return trial._replace(train_size=size, precision="no")
    epochs = amount.epochs or math.ceil(QUICK_STEPS / math.ceil(size / described.batch_size))
    return trial._replace(train_size=size, epochs=epochs)

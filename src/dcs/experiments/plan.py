"""The experiments, and the trials that each is made of."""

import math
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from dcs._checks import check_choice, check_integer
from dcs.data import CATALOGUE
from dcs.experiments.experiment import BOTH, FOLDS, HOWS, UNTRAINED, VARIANTS, Experiment, Trial
from dcs.experiments.expt0 import EXPT0
from dcs.experiments.expt1 import EXPT1
from dcs.experiments.expt2 import EXPT2
from dcs.experiments.expt3 import EXPT3
from dcs.experiments.readings import applied, parse_reading

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
    readings: Sequence[str] = ("plain",),
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
        readings: Readings of the paper, for Expt0 and Expt1: `plain`, or names in `SWITCHES` joined by +.
    """
    check_choice("experiment", experiment, EXPERIMENTS)
    check_choice("preset", preset, PRESETS)
    check_choice("precision", precision, ("no", "bf16"))
    described = EXPERIMENTS[experiment]
    amount = described.presets[preset]
    for name, value in (("trials", trials), ("epochs", epochs), ("train_size", train_size)):
        if value is not None:
            check_integer(name, value, at_least=1)
    switches = [parse_reading(reading) for reading in readings]
    if any(switches) and not described.has_readings:
        raise ValueError(f"readings are for expt0 and expt1: {experiment} has none")
    _check_own(experiment, {"noises": noises, "folds": folds, "lambdas": lambdas, "hows": hows})
    variable = [*described.methods, *described.further]
    if lambdas is not None:
        variable = [method for method in variable if described.regularises(method)]
        methods = ["simsiam-dcs"] if methods is None else methods
    protocols = described.protocols if protocols is None else protocols
    datasets = (amount.datasets or described.datasets) if datasets is None else datasets
    methods = described.methods if methods is None else methods
    hows = HOWS[:1] if hows is None else hows
    _check_names("variants", variants, VARIANTS)
    _check_names("protocols", protocols, described.protocols)
    _check_names("datasets", datasets, dict.fromkeys((*described.datasets, *described.stand_ins)))
    _check_names("methods" if lambdas is None else "methods with lambdas", methods, variable)
    _check_names("hows", hows, HOWS)
    rows = [row for row in variable if row in methods]
    rows += described.orientation if lambdas is None else ()
    levels, test_folds = noises or amount.noises or described.noises, folds or described.folds
    planned = []
    for protocol, dataset, noise, fold in product(protocols, datasets, levels, test_folds):
        there = available_samples(dataset, protocol)
        size = min(there, train_size or amount.train_size or there)
        length = epochs or amount.epochs or math.ceil(QUICK_STEPS / math.ceil(size / described.batch_size))
        place = Trial(experiment, dataset, float(noise), "", BOTH, protocol, 0, 0, size, fold=int(fold))
        place = place._replace(scale=amount.scale)
        for number, method in product(range(trials or amount.trials[protocol]), rows):
            trial = place._replace(method=method, trial=number)
            if method != UNTRAINED and method not in described.baselines:
                trial = trial._replace(epochs=length, precision=precision)
            masks = variants if method in described.masked else (BOTH,)
            options = product(masks, HOWS[:1], (0.0,))
            if described.regularises(method):
                options = product(masks, hows, map(float, lambdas or (described.weights[dataset],)))
            for (v, how, weight), reading in product(options, switches):
                text = applied(reading, method, v)
                planned.append(trial._replace(variant=v, how=how, weight=weight, reading=text))
    return list(dict.fromkeys(planned))


def available_samples(dataset: str, protocol: str) -> int:
    """Return the number of samples that a trial could learn from."""
    entry = CATALOGUE[dataset]
    return entry.train if protocol == "linear" else entry.train + entry.test


def _check_names(name: str, given: Sequence[str], known: Iterable[str]) -> None:
    if not given:
        raise ValueError(f"{name} is empty: give some of {', '.join(known)}")
    for value in given:
        check_choice(name, value, known)


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

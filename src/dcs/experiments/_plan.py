"""Which trials an experiment is made of."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from dcs._checks import check_choice, check_integer
from dcs.data import CATALOGUE
from dcs.experiments._trial import BOTH, MASKED, METHODS, ORIENTATION, Trial, epochs_for

PROTOCOLS = ("linear", "clustering")
VARIANTS = ("default", "paper")


class Experiment(NamedTuple):
    """What the paper did."""

    title: str
    datasets: tuple[str, ...]
    noises: tuple[float, ...]
    methods: tuple[str, ...]


EXPERIMENTS = {
    "expt0": Experiment(
        "Expt0: MNIST with Gaussian noise",
        ("mnist",),
        (0.01, 0.1, 0.3, 0.5, 0.7),
        ("mse", "cosine", "n2v", "sure", "dcs"),
    ),
    "expt1": Experiment(
        "Expt1: data with noise of its own",
        ("mnist", "usps", "pendigits", "fashion-mnist"),
        (0.0,),
        ("mse", "cosine", "n2v", "dcs"),
    ),
}


class Preset(NamedTuple):
    """How much of it is run."""

    trials: dict[str, int]  # of each protocol
    epochs: int | None  # or as many as make 4,000 steps
    train_size: int | None  # or all
    datasets: tuple[str, ...] | None = None  # or the paper's
    noises: tuple[float, ...] | None = None


PRESETS = {
    "paper": Preset({"linear": 10, "clustering": 20}, 800, None),
    "quick": Preset({"linear": 3, "clustering": 3}, None, 12_800, noises=(0.3, 0.5, 0.7)),
    "smoke": Preset({"linear": 1, "clustering": 1}, 20, 1024, ("digits",), (0.3,)),
}
QUICK_STEPS = 4_000


def plan(
    experiment: str,
    preset: str = "quick",
    *,
    variants: Sequence[str] = ("default",),
    protocols: Sequence[str] = PROTOCOLS,
    datasets: Sequence[str] | None = None,
    noises: Sequence[float] | None = None,
    methods: Sequence[str] | None = None,
    trials: int | None = None,
    epochs: int | None = None,
    train_size: int | None = None,
    precision: str = "no",
) -> list[Trial]:
    """List the trials of an experiment, those of all methods with the first seed first.

    Args:
        experiment: `expt0` or `expt1`.
        preset: `paper` is the paper's amount, `quick` an evening's, `smoke` two minutes'.
        variants: Of dCS and Noise2Void: `default`, `paper`, or both.
        protocols: `linear`, `clustering`, or both.
        datasets: Other than the preset's.
        noises: Deviations other than the preset's; of Expt0.
        methods: Other than the paper's. The rows for orientation are always there.
        trials: Of each protocol.
        epochs: Of each training.
        train_size: Samples to learn from at most.
        precision: `no`, or `bf16` for mixed precision: quicker where the processor has it.
    """
    check_choice("experiment", experiment, EXPERIMENTS)
    check_choice("preset", preset, PRESETS)
    check_choice("precision", precision, ("no", "bf16"))
    described, amount = EXPERIMENTS[experiment], PRESETS[preset]
    for name, value in (("trials", trials), ("epochs", epochs), ("train_size", train_size)):
        if value is not None:
            check_integer(name, value, at_least=1)
    if noises is not None and experiment != "expt0":
        raise ValueError("noises are for expt0: expt1 adds none")
    chosen: dict[str, Sequence[Any]] = {
        "variants": variants,
        "protocols": protocols,
        "datasets": datasets or amount.datasets or described.datasets,
        "methods": methods or described.methods,
    }
    known = {
        "variants": VARIANTS,
        "protocols": PROTOCOLS,
        "datasets": tuple(CATALOGUE),
        "methods": described.methods,
    }
    for name, values in chosen.items():
        if not values:
            raise ValueError(f"{name} is empty: name some of {', '.join(known[name])}")
        for value in values:
            check_choice(name, value, known[name])
    levels = noises or (amount.noises if experiment == "expt0" and amount.noises else described.noises)
    if any(not 0 < level <= 10 for level in levels) and experiment == "expt0":
        raise ValueError(f"noises must be above 0 and at most 10, got {list(levels)}")
    rows = [row for row in ORIENTATION if row != "oracle" or experiment == "expt0"]
    planned = [
        _trial(
            experiment,
            dataset,
            level,
            method,
            variant,
            protocol,
            number,
            amount,
            epochs,
            train_size,
            precision,
        )
        for protocol in chosen["protocols"]
        for dataset in chosen["datasets"]
        for level in levels
        for number in range(amount.trials[protocol] if trials is None else trials)
        for method in [*(m for m in METHODS if m in chosen["methods"]), *rows]
        for variant in (chosen["variants"] if method in MASKED else (BOTH,))
    ]
    return list(dict.fromkeys(planned))


def _trial(
    experiment: str,
    dataset: str,
    noise: float,
    method: str,
    variant: str,
    protocol: str,
    number: int,
    amount: Preset,
    epochs: int | None,
    train_size: int | None,
    precision: str,
) -> Trial:
    entry = CATALOGUE[dataset]
    there = entry.train if protocol == "linear" else entry.train + entry.test
    size = min(there, train_size or amount.train_size or there)
    long = epochs or amount.epochs or epochs_for(QUICK_STEPS, size)
    if method in ("pca", "untrained"):
        long, precision = 0, "no"
    return Trial(experiment, dataset, float(noise), method, variant, protocol, number, long, size, precision)

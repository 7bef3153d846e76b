"""Which trials an experiment is made of."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from dcs._checks import check_choice, check_integer
from dcs.data import CATALOGUE
from dcs.experiments import _audio, _autoencoding, _siamese
from dcs.experiments._sounds import FOLDS, TONES
from dcs.experiments._trial import BOTH, Trial

PROTOCOLS = ("linear", "clustering")
VARIANTS = ("default", "paper")
HOWS = ("separate", "shared")


class Preset(NamedTuple):
    """How much of an experiment is run."""

    trials: dict[str, int]  # of each protocol
    epochs: int | None  # or as many as make 4,000 steps
    train_size: int | None = None  # or all
    datasets: tuple[str, ...] | None = None  # or the paper's
    noises: tuple[float, ...] | None = None
    scale: str = "paper"  # of the network


class Experiment(NamedTuple):
    """What the paper did, and how much of it the presets do."""

    title: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    orientation: tuple[str, ...]  # rows that are in every table, beside the methods
    masked: tuple[str, ...]  # methods that the variants differ in
    presets: dict[str, Preset]
    untrained: tuple[str, ...] = ("untrained",)  # rows that need no training
    further: tuple[str, ...] = ()  # methods that are run if asked for
    stand_ins: tuple[str, ...] = ()  # other data sets that it can be run on
    noises: tuple[float, ...] = (0.0,)
    folds: tuple[int, ...] = (0,)
    protocols: tuple[str, ...] = PROTOCOLS


_AUTOENCODING = {
    "paper": Preset({"linear": 10, "clustering": 20}, 800),
    "quick": Preset({"linear": 3, "clustering": 3}, None, 12_800),
    "smoke": Preset({"linear": 1, "clustering": 1}, 20, 1024, ("digits",)),
}
EXPERIMENTS = {
    "expt0": Experiment(
        "Expt0: MNIST with Gaussian noise",
        ("mnist",),
        ("mse", "cosine", "n2v", "sure", "dcs"),
        ("pca", "untrained", "oracle"),
        _autoencoding.MASKED,
        {
            **_AUTOENCODING,
            "quick": _AUTOENCODING["quick"]._replace(noises=(0.3, 0.5, 0.7)),
            "smoke": _AUTOENCODING["smoke"]._replace(noises=(0.3,)),
        },
        untrained=("pca", "untrained"),
        stand_ins=tuple(CATALOGUE),
        noises=(0.01, 0.1, 0.3, 0.5, 0.7),
    ),
    "expt1": Experiment(
        "Expt1: data with noise of its own",
        ("mnist", "usps", "pendigits", "fashion-mnist"),
        ("mse", "cosine", "n2v", "dcs"),
        ("pca", "untrained"),  # no oracle, for nobody knows the clean data
        _autoencoding.MASKED,
        _AUTOENCODING,
        untrained=("pca", "untrained"),
        stand_ins=tuple(CATALOGUE),
    ),
    "expt2": Experiment(
        "Expt2: SimSiam with a regulariser",
        ("cifar10", "cifar100", "tiny-imagenet"),
        _siamese.METHODS,
        _siamese.ORIENTATION,
        _siamese.MASKED,
        {
            "paper": Preset({"linear": 1}, 800),
            "quick": Preset({"linear": 2}, 20, 5_000, ("cifar10",), scale="quick"),
            "smoke": Preset({"linear": 1}, 2, 256, ("digits",), scale="smoke"),
        },
        further=_siamese.FURTHER,
        stand_ins=("digits",),
        protocols=("linear",),
    ),
    "expt3": Experiment(
        "Expt3: environmental sounds",
        ("esc50",),
        _audio.METHODS,
        _audio.ORIENTATION,
        _audio.MASKED,
        {
            "paper": Preset({"linear": 6}, 4_000),
            "quick": Preset({"linear": 2}, 150, scale="quick"),
            "smoke": Preset({"linear": 1}, 20, None, ("tones",), scale="smoke"),
        },
        untrained=_audio.ORIENTATION,
        stand_ins=("tones",),
        folds=(5,),
        protocols=("linear",),
    ),
}
PRESETS = ("paper", "quick", "smoke")
QUICK_STEPS = 4_000


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
    """List the trials of an experiment, those of all methods with the first seed first.

    Args:
        experiment: `expt0`, `expt1`, `expt2` or `expt3`.
        preset: `paper` is the paper's amount, `quick` an evening's, `smoke` two minutes'.
        variants: Of methods that mask: `default`, `paper`, or both.
        protocols: `linear`, `clustering`, or both; by default all that the experiment has.
        datasets: Other than the preset's.
        noises: Deviations other than the preset's; of Expt0.
        folds: To test on, of Expt3; by default 5.
        methods: Other than the paper's. The rows for orientation are always there.
        lambdas: Weights of the regulariser, of Expt2: then only methods with one are run, with each of these,
            and by default only `simsiam-dcs`. Otherwise the paper's weight is used.
        hows: `separate`, `shared`, or both, of regularisers in Expt2; see `dcs.objectives.SelfSupervised`.
        trials: Of each protocol.
        epochs: Of each training.
        train_size: Samples to learn from at most.
        precision: `no`, or `bf16` for mixed precision: quicker where the processor has it.
    """
    check_choice("experiment", experiment, EXPERIMENTS)
    check_choice("preset", preset, PRESETS)
    check_choice("precision", precision, ("no", "bf16"))
    _check_own(experiment, {"noises": noises, "folds": folds, "lambdas": lambdas, "hows": hows})
    described = EXPERIMENTS[experiment]
    amount = _amount(described.presets[preset], trials, epochs, train_size)
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
    rows = described.orientation if lambdas is None else ()
    order = [m for m in (*described.methods, *described.further) if m in chosen["methods"]]
    base = Trial(experiment, "", 0.0, "", BOTH, "", 0, 0, 0, precision, scale=amount.scale)
    planned = [
        _completed(trial, described, amount)
        for protocol in chosen["protocols"]
        for dataset in chosen["datasets"]
        for level in noises or amount.noises or described.noises
        for fold in folds or described.folds
        for number in range(amount.trials[protocol])
        for method in [*order, *rows]
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


def _amount(preset: Preset, trials: int | None, epochs: int | None, train_size: int | None) -> Preset:
    """A preset with what is asked for in place of its own numbers."""
    for name, value in (("trials", trials), ("epochs", epochs), ("train_size", train_size)):
        if value is not None:
            check_integer(name, value, at_least=1)
    return preset._replace(
        trials={protocol: trials or number for protocol, number in preset.trials.items()},
        epochs=epochs or preset.epochs,
        train_size=train_size or preset.train_size,
    )


def _check_known(described: Experiment, chosen: dict[str, Sequence[str]], *, regularised: bool) -> None:
    """Refuse names that an experiment does not know."""
    methods: Sequence[str] = (*described.methods, *described.further)
    if regularised:
        methods = [method for method in methods if _siamese.regularised(method)]
    known: dict[str, Sequence[str]] = {
        "variants": VARIANTS,
        "protocols": described.protocols,
        "datasets": tuple(dict.fromkeys((*described.datasets, *described.stand_ins))),
        "methods": methods,
        "hows": HOWS,
    }
    for name, values in chosen.items():
        if not values:
            raise ValueError(f"{name} is empty: name some of {', '.join(known[name])}")
        for value in values:
            check_choice(
                f"{name} with lambdas" if regularised and name == "methods" else name, value, known[name]
            )


def _check_own(experiment: str, given: dict[str, Sequence[Any] | None]) -> None:
    """Refuse what an experiment does not have."""
    owners = {
        "noises": ("expt0", "adds none"),
        "folds": ("expt3", "has none"),
        "lambdas": ("expt2", "has no regulariser"),
        "hows": ("expt2", "has no regulariser"),
    }
    for name, values in given.items():
        owner, why = owners[name]
        if values is not None and experiment != owner:
            raise ValueError(f"{name} are for {owner}: {experiment} {why}")
        if values is not None and not values:
            raise ValueError(f"{name} is empty: name some, or leave it out")
    noises, lambdas, folds = (given[name] or () for name in ("noises", "lambdas", "folds"))
    if any(not 0 < level <= 10 for level in noises):
        raise ValueError(f"noises must be above 0 and at most 10, got {list(noises)}")
    if any(not 0 < weight <= 1e6 for weight in lambdas):
        raise ValueError(f"lambdas must be above 0 and at most 1e6, got {list(lambdas)}")
    for fold in folds:
        check_choice("folds", str(fold), FOLDS)


def _variations(
    trial: Trial, variants: Sequence[str], hows: Sequence[str], lambdas: Sequence[float] | None
) -> list[Trial]:
    """The trial in each of its variants, and with each regulariser if its method has one."""
    if not _siamese.regularised(trial.method):
        return [trial._replace(variant=variant) for variant in variants]
    return [
        trial._replace(variant=variant, how=how, weight=float(weight))
        for variant in variants
        for how in hows
        for weight in lambdas or (_siamese.WEIGHTS[trial.dataset],)
    ]


def _completed(trial: Trial, described: Experiment, amount: Preset) -> Trial:
    """The trial with as many samples and epochs as the preset says."""
    if trial.dataset == "tones":
        there = TONES - TONES // len(FOLDS)
    else:
        entry = CATALOGUE[trial.dataset]
        there = entry.train if trial.protocol == "linear" else entry.train + entry.test
    size = min(there, amount.train_size or there)
    if trial.method in described.untrained:
        return trial._replace(train_size=size, precision="no")
    long = amount.epochs or _autoencoding.epochs_for(QUICK_STEPS, size)
    return trial._replace(train_size=size, epochs=long)

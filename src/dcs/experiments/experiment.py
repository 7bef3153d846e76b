"""What an experiment is: its trials, how much of it a preset runs, and how a trial is trained and scored."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from numpy.typing import NDArray
from torch import Tensor

from dcs.data import Dataset, Samples
from dcs.runs import Parts
from dcs.training import TrainingConfig

PROTOCOLS = ("linear", "clustering")
VARIANTS = ("default", "paper")
BOTH = "both"  # the variant of a method that is the same in both
HOWS = ("separate", "shared")
FOLDS = (1, 2, 3, 4, 5)
UNTRAINED = "untrained"  # the network with its initial weights
Encode = Callable[[Tensor | Samples], NDArray[Any]]


class Trial(NamedTuple):
    """One method with one seed, scored by one protocol.

    Equal trials have the same result, bit for bit with the same number of threads.
    """

    experiment: str
    dataset: str
    noise: float  # standard deviation of the Gaussian noise that is added once; 0 for none
    method: str
    variant: str  # default, paper or both
    protocol: str  # linear or clustering
    trial: int
    epochs: int
    train_size: int  # samples the encoder learns from
    precision: str = "no"  # bf16 for mixed precision
    # Fields below are newer than some results, which have their defaults.
    fold: int = 0  # test fold, of data that comes in folds
    weight: float = 0.0  # λ of a regulariser
    how: str = HOWS[0]  # pass of a regulariser through the backbone: its own (separate) or not (shared)
    scale: str = "paper"  # size of network and heads: the paper's, or that of a smaller preset
    reading: str = ""  # switches for what the paper leaves open, e.g. clip+centre; see readings.py

    @property
    def switches(self) -> tuple[str, ...]:
        """Switches of the reading."""
        return tuple(self.reading.split("+")) if self.reading else ()

    @property
    def seed(self) -> int:
        """Random seed for weights, sample order, masks and clusters; noise and subset are fixed."""
        return self.trial

    @property
    def part(self) -> Literal["train", "all"]:
        """Part of the data that the encoder learns from; clustering is on all of it."""
        return "train" if self.protocol == "linear" else "all"

    @property
    def name(self) -> str:
        """Name of the run: all that the encoder depends on."""
        noise = f"-{self.noise:.15g}" if self.noise else ""
        method = self.method if self.variant == BOTH else f"{self.method}-{self.variant}"
        size = f"{self.part}{self.train_size}-{self.epochs}epochs"
        further = {
            f"-{self.precision}": self.precision != "no",
            f"-fold{self.fold}": self.fold,
            f"-lambda{self.weight:.15g}": self.weight,
            f"-{self.how}": self.how != HOWS[0],
            f"-{self.scale}": self.scale != "paper",
            f"-{self.reading}": self.reading,
        }
        size += "".join(text for text, there in further.items() if there)
        return f"{self.dataset}{noise}-{method}-{size}-{self.trial}"


class Preset(NamedTuple):
    """How much of an experiment is run."""

    trials: dict[str, int]  # by protocol
    epochs: int | None  # None for 4,000 steps
    train_size: int | None = None  # None for all
    datasets: tuple[str, ...] | None = None  # None for the paper's
    noises: tuple[float, ...] | None = None  # None for the paper's
    scale: str = "paper"  # size of the network


@dataclass(frozen=True)
class Experiment:
    """An experiment of the paper.

    Args:
        title: Heading of its tables.
        datasets: Data sets of the paper.
        methods: Methods of the paper.
        orientation: Rows for orientation, which are in every table and not ranked.
        masked: Methods that the variants differ in.
        presets: How much is run, by preset.
        settings: Training settings of a trial, without those that all experiments share.
        parts: Parts of a training that are objects.
        baselines: Methods without training: from a trial and what a network would see of the training
            samples to a function that returns features.
        batch_size: Samples per step, by which a preset counts epochs.
        head: Classifier of the linear protocol, as options of `dcs.evaluation.linear`.
        neighbours: Whether the accuracy of nearest neighbours is measured, too.
        prepare: Preparation of samples, see `dcs.data.Source`.
        resident: Whether the data is held in memory, see `dcs.data.load`.
        further: Methods that are run on request.
        stand_ins: Other data sets that it can be run on.
        noises: Standard deviations of the added noise.
        folds: Test folds.
        protocols: Protocols that score a trial.
        weights: λ of the paper by data set, if there is a regulariser.
        has_readings: Whether the switches of readings.py apply.
    """

    title: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    orientation: tuple[str, ...]
    masked: tuple[str, ...]
    presets: dict[str, Preset]
    settings: Callable[[Trial], dict[str, Any]]
    parts: Callable[[Trial, Dataset, TrainingConfig], Parts] = lambda *_: Parts()
    baselines: Mapping[str, Callable[[Trial, Tensor | Samples], Encode]] = field(default_factory=dict)
    batch_size: int = 256
    head: Callable[[Trial], dict[str, Any]] = lambda _: {"head": "lbfgs"}
    neighbours: bool = False
    prepare: Callable[[Trial], Literal["flat", "rgb"] | None] = lambda _: None
    resident: bool | None = None
    further: tuple[str, ...] = ()
    stand_ins: tuple[str, ...] = ()
    noises: tuple[float, ...] = (0.0,)
    folds: tuple[int, ...] = (0,)
    protocols: tuple[str, ...] = PROTOCOLS
    weights: Mapping[str, float] = field(default_factory=dict)
    has_readings: bool = False

    @property
    def rows(self) -> tuple[str, ...]:
        """All methods and rows for orientation, in the order of a table."""
        return (*self.methods, *self.further, *self.orientation)

    def regularises(self, method: str) -> bool:
        """Return whether a method has a regulariser, and with it λ."""
        return bool(self.weights) and "-" in method and method in (*self.methods, *self.further)

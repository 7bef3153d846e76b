"""Results of trials: lines of JSON, read with their types checked."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from dcs._checks import check_choice
from dcs._registry import explain
from dcs.experiments.experiment import BOTH, HOWS, VARIANTS, Trial
from dcs.experiments.plan import EXPERIMENTS
from dcs.experiments.readings import parse_reading
from dcs.training import RunError
from dcs.training.checkpoint import whole_lines

Line = dict[str, Any]
Number = Annotated[float, Field(allow_inf_nan=False)]


class ResultLine(BaseModel):
    """A line of results.jsonl: the fields of `Trial`, the score, and what produced it.

    Fields with a default are newer than some results.
    """

    model_config = ConfigDict(strict=True, frozen=True)

    experiment: str
    dataset: str
    noise: Number
    method: str
    variant: str
    protocol: str
    trial: int
    epochs: int
    train_size: int
    precision: str = "no"
    fold: int = 0
    weight: Number = 0.0
    how: str = HOWS[0]
    scale: str = "paper"
    reading: str = ""
    score: Number
    metrics: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    versions: dict[str, Any] = {}

    @classmethod
    def of(cls, line: "ResultLine | Mapping[str, Any]") -> "ResultLine":
        """Check a line; all that is wrong is one ValueError that names the fields."""
        if isinstance(line, ResultLine):
            return line
        if not isinstance(line, Mapping):
            raise ValueError(f"it must be an object with named fields, got {line!r:.60}")
        if line.get("experiment", "") is None:
            raise ValueError("experiment is null: dcs evaluate writes such lines to the directory of a run")
        try:
            return cls(**line)
        except ValidationError as error:
            raise ValueError(explain(error, cls)) from None

    @property
    def key(self) -> Trial:
        """The trial that the result is of."""
        return Trial(*(getattr(self, name) for name in Trial._fields))

    @model_validator(mode="after")
    def _check_names(self) -> "ResultLine":
        check_choice("experiment", self.experiment, EXPERIMENTS)
        described = EXPERIMENTS[self.experiment]
        check_choice("method", self.method, described.rows)
        check_choice("protocol", self.protocol, described.protocols)
        check_choice("variant", self.variant, (*VARIANTS, BOTH))
        check_choice("how", self.how, HOWS)
        if self.reading != "+".join(parse_reading(self.reading)):
            raise ValueError(f"reading must be names joined by + in their usual order, got {self.reading!r}")
        return self


def key_of(line: Mapping[str, Any]) -> Trial:
    """Return the trial that a result is of."""
    return ResultLine.of(line).key


def read_results(out: Path) -> list[Line]:
    """Read the results in a directory, of all shards; of a trial that is there twice, the first.

    Raises:
        RunError: A line is damaged, or not a result; the message names the file, the line and the field.
    """
    found: dict[Trial, Line] = {}
    for path in sorted(out.glob("results*.jsonl")):
        for row, text in enumerate(whole_lines(path.read_bytes()).splitlines(), 1):
            try:
                line = json.loads(text)
                found.setdefault(key_of(line), line)
            except (ValueError, RecursionError) as error:
                raise RunError(f"{path}, line {row}, is not a result ({error}): fix or remove it") from None
    return list(found.values())

"""Options of reading data: noise to add, and how files become samples of one shape."""

import contextlib
import difflib
from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    ValidationInfo,
    model_serializer,
    model_validator,
)

from dcs._checks import check_integer, check_number
from dcs.data._axes import check_axes
from dcs.noise.corruption import KINDS

Mixed = Literal["auto", "windows", "crop", "resize", "pad", "error"]


class Options(BaseModel):
    """Typed options: unknown names are refused, and a wrong value is one ValueError that names its field."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            problems = [_explain(problem, type(self).model_fields) for problem in error.errors()]
            raise ValueError("; ".join(problems)) from None


def _explain(problem: Any, known: Mapping[str, Any]) -> str:
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    name = str(problem["loc"][0]) if problem["loc"] else "value"
    if problem["type"] == "extra_forbidden":
        return f"unknown option {name!r}: {suggest(name, known)}"
    if problem["type"] == "literal_error":
        choices = problem["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
        return f"{name} must be one of {choices}, got {problem['input']!r:.60}"
    if problem["type"] == "bool_type":
        return f"{name} must be True or False, got {problem['input']!r:.60}"
    if problem["type"] == "missing":
        return f"{name} is missing"
    return f"{name} {problem['msg'].replace('Input should be', 'must be')}, got {problem['input']!r:.60}"


def suggest(name: str, known: Iterable[str]) -> str:
    """Name the nearest known name, or all of them."""
    near = difflib.get_close_matches(name.lower(), list(known), n=1)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"


class NoiseSpec(Options):
    """Added noise; its text and JSON form is KIND:STRENGTH, with :clip and :fresh where they are True.

    Args:
        kind: Kind of noise, see `dcs.noise.add`.
        strength: Strength of the noise.
        clip: Whether noisy values are clipped to [0, 1].
        fresh: Whether the noise of training samples is drawn anew in each epoch, not once.

    Example:
        >>> str(NoiseSpec.of(("gaussian", 0.5))), NoiseSpec.of("gaussian:0.5:clip").clip
        ('gaussian:0.5', True)
    """

    kind: str
    strength: float
    clip: bool = False
    fresh: bool = False

    @classmethod
    def of(cls, noise: "str | tuple[str, float] | NoiseSpec") -> Self:
        """Parse "gaussian:0.5" or ("gaussian", 0.5)."""
        return noise if isinstance(noise, cls) else cls(**_split_noise(noise))

    @model_validator(mode="before")
    @classmethod
    def _parse(cls, value: object) -> object:
        return value if isinstance(value, NoiseSpec | dict) else _split_noise(value)

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_noise(self.kind, self.strength)
        return self

    @model_serializer
    def _as_text(self) -> str:
        return str(self)

    def __str__(self) -> str:
        short = f"{self.strength:g}"
        strength = short if float(short) == self.strength else repr(self.strength)
        switches = [name for name in _SWITCHES if getattr(self, name)]
        return ":".join([self.kind, strength, *switches])


_SWITCHES = ("clip", "fresh")


def _split_noise(noise: object) -> dict[str, Any]:
    """Return the fields of noise given as text or as a pair."""
    parts = noise.split(":") if isinstance(noise, str) else noise
    if isinstance(parts, tuple | list) and len(parts) >= 2:
        kind, strength, *switches = parts
        with contextlib.suppress(TypeError, ValueError):
            if set(switches) <= set(_SWITCHES) and not isinstance(strength, bool):
                return {"kind": kind, "strength": float(strength), **dict.fromkeys(switches, True)}
    raise ValueError(
        f"noise must be KIND:STRENGTH, e.g. gaussian:0.5, got {noise!r:.60}; :clip and :fresh may follow it"
    )


def check_noise(kind: object, strength: float) -> None:
    """Raise ValueError if there is no such noise."""
    if kind not in KINDS:
        raise ValueError(
            f"noise must be one of {', '.join(KINDS)}, got {kind!r:.60}: {suggest(str(kind), KINDS)}"
        )
    check_number("strength of noise", strength, at_least=0)


def parse_label(text: str) -> str | int | bool:
    """Parse the label column given as text: its name, its number, or `none`."""
    return False if text == "none" else int(text) if text.lstrip("-").isdigit() else text


def _integer(value: object, info: ValidationInfo) -> object:
    """Accept integers of any type, NumPy's too, from 1 (the seed: from 0)."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError(f"{info.field_name} must be an integer, got {value!r:.60}")
    check_integer(str(info.field_name), value, at_least=0 if info.field_name == "seed" else 1)
    return int(value)


def _size(value: object) -> object:
    """Parse 64, (48, 64), (16, 48, 64), "64", "48x64" and "16x48x64"."""
    if value is None:
        return None
    text = isinstance(value, str)
    parts: list[Any] = value.lower().split("x") if isinstance(value, str) else [value]
    parts = list(value) if isinstance(value, tuple | list) else parts
    numbers = [int(part) for part in parts if (part.isdigit() if text else isinstance(part, Integral))]
    count = (2, 3) if isinstance(value, tuple | list) else (1, 2, 3)
    if len(numbers) != len(parts) or len(parts) not in count or any(part is True for part in parts):
        raise ValueError(f"size must be a number or (height, width), e.g. 64 or 48x64, got {value!r:.60}")
    for number in numbers:
        check_integer("size", number, at_least=1)
    return numbers[0] if len(numbers) == 1 else tuple(numbers)


def _label(value: object) -> object:
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else value


Integer = Annotated[int, BeforeValidator(_integer)]
Label = Annotated[StrictBool | StrictInt | StrictStr | None, BeforeValidator(_label)]
Size = Annotated[int | tuple[int, int] | tuple[int, int, int] | None, BeforeValidator(_size)]
Axes = Annotated[StrictStr | None, BeforeValidator(check_axes)]


class Reading(Options):
    """Options of reading files.

    Args:
        label: Label column of a table, by name or number, or array of an .npz; False if there is none
            although a column is named like one.
        mixed: What to do with files of different sizes: `windows` (learn from windows of `size`, whatever the
            size of a file), `crop` (to the centre), `resize` (images), `pad` (recordings, with zeros, which
            are never learned from), or `error`. `auto` is `windows` where sizes differ.
        size: Target size: (height, width), (depth, height, width) for windows of volumes, or one number for
            all, or the length of recordings in samples; by default the smallest found, the largest to pad to,
            and for windows 64 x 64 pixels, or at most 5 seconds.
        axes: Meaning of the axes of TIFF files and arrays, in order: letters from STCZYX, where Z, Y and X
            are space, C channels, and S and T count samples; by default as the file says.
        rate: Target sample rate of recordings in Hz; by default the one that all have.
        skip_bad: Whether to leave out files that cannot be used, with a warning that lists them.
        fold: Test fold of data that comes in folds; by default 5.
    """

    label: Label = None
    mixed: Mixed = "auto"
    size: Size = None
    axes: Axes = None
    rate: Integer | None = None
    skip_bad: StrictBool = False
    fold: Integer | None = None

    def given(self) -> list[str]:
        """Names of the options that differ from their defaults."""
        fields = Reading.model_fields
        return [name for name in fields if getattr(self, name) != fields[name].default]

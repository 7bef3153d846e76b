"""Registries of named parts: objectives, views, networks and protocols.

A part is registered once, where it is defined. Its options are read from its signature, so that help texts,
error messages, documentation tables and typed settings all follow from that one definition.
"""

import contextlib
import difflib
import inspect
import re
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

if TYPE_CHECKING:  # pydantic takes a while to import, and is needed when options are first looked at
    from pydantic import BaseModel, ValidationError

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
_VARIABLE = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
_PLAIN = (str, int, float, bool, type(None), Any, list, tuple, dict)


@contextlib.contextmanager
def named(setting: str) -> Iterator[None]:
    """Let errors name the setting that they come from."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if setting in str(error):
            raise
        raise type(error)(f"{setting}: {error}") from error


@dataclass(frozen=True)
class Entry(Generic[T]):
    """A registered part.

    Args:
        name: Name by which settings and the command line refer to it.
        factory: Class or function that makes the part.
        summary: What the part does, in one line.
        like: Function or class that defines the options, most often the factory itself.
        given: Parameters of the factory that are not options.
        traits: What else is known of parts of this kind.
    """

    name: str
    factory: Callable[..., T]
    summary: str
    like: Callable[..., Any]
    given: frozenset[str] = frozenset()
    traits: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def options(self) -> "type[BaseModel]":
        """Typed options of the factory that settings may give."""
        return options_of(self.like, self.given, f"{self.name.title()}Options")

    def reference(self) -> str:
        """Return the options as a Markdown list: name, default and description."""
        lines = []
        for name, option in self.options.model_fields.items():
            default = "required" if option.is_required() else f"default `{option.default!r}`"
            lines.append(f"- `{name}` ({default}): {option.description}")
        return "\n".join([f"**`{self.name}`**: {self.summary}", "", *lines]) + "\n"


class Registry(dict[str, Entry[T]]):
    """Parts of one kind by name.

    Args:
        kind: What the parts are, e.g. `objective`; used in messages.
        given: Parameters of the factories that the caller passes, and settings cannot.

    Example:
        >>> shapes = Registry("shape")
        >>> @shapes.register("square", summary="Four equal sides.")
        ... def square(side: float = 1.0) -> float:
        ...     return side**2
        >>> shapes.make("square", {"side": 3})
        9.0
        >>> shapes.make("square", {"sied": 3})
        Traceback (most recent call last):
        ValueError: unknown option 'sied' of shape 'square': did you mean 'side'?
    """

    def __init__(self, kind: str, given: Collection[str] = ()) -> None:
        super().__init__()
        self.kind, self.given = kind, frozenset(given)

    def register(
        self, name: str, *, summary: str = "", like: Callable[..., Any] | None = None, **traits: Any
    ) -> Callable[[F], F]:
        """Register a class or function under a name, as a decorator.

        Args:
            name: Its name; one that is taken is replaced.
            summary: What it does in one line; by default the first line of its docstring.
            like: Function whose options it takes, if it passes them on.
            **traits: What else is known of it; see the registry's own documentation.
        """

        def add(factory: F) -> F:
            text = summary or (inspect.getdoc(factory) or "").partition("\n")[0]
            self[name] = Entry(name, factory, text, like or factory, self.given, traits)
            return factory

        return add

    def unregister(self, name: str) -> None:
        """Remove a part, e.g. at the end of a test that registered it."""
        del self[self[name].name]

    def __getitem__(self, name: str) -> Entry[T]:
        """Return the part of a name; an unknown one is a ValueError with the nearest known name."""
        if not isinstance(name, str) or name not in self:
            raise ValueError(f"{self.kind} must be {known(name, self)}")
        return super().__getitem__(name)

    def check(self, name: str, options: Mapping[str, Any], where: str = "") -> dict[str, Any]:
        """Validate the options of a part, and return those that were given, converted to their types.

        Args:
            name: Name of the part.
            options: Options by name.
            where: Setting that holds the options, for the error message.
        """
        from pydantic import ValidationError

        entry = self[name]
        try:
            checked = entry.options(**options)
        except ValidationError as error:
            raise ValueError(explain(error, entry.options, f"{self.kind} {name!r}", where)) from None
        return {option: getattr(checked, option) for option in checked.model_fields_set}

    def make(self, name: str, options: Mapping[str, Any], /, *positional: Any, **given: Any) -> T:
        """Make a part.

        Args:
            name: Name of the part.
            options: Options from settings; validated.
            *positional: Further arguments of the factory.
            **given: Further keyword arguments of the factory.
        """
        return self[name].factory(*positional, **self.check(name, options), **given)

    def table(self) -> str:
        """Return the parts as a Markdown table: name, summary and options."""
        lines = [f"| {self.kind} | summary | options |", "|---|---|---|"]
        for entry in self.values():
            shown = ", ".join(f"`{option}`" for option in entry.options.model_fields)
            lines.append(f"| `{entry.name}` | {entry.summary} | {shown} |")
        return "\n".join(lines) + "\n"


def known(name: object, names: Iterable[str]) -> str:
    """Complete "x must be ..." for a wrong name: with the nearest known one, or with all of them."""
    names = list(names)
    near = difflib.get_close_matches(str(name).lower(), names, n=1)
    if near:
        return f"a known name, got {name!r}: did you mean {near[0]!r}?"
    return f"one of {', '.join(names)}, got {name!r}"


def explain(error: "ValidationError", model: "type[BaseModel]", kind: str = "", where: str = "") -> str:
    """Say in one line what is wrong with settings, and what to do.

    Args:
        error: What pydantic raised.
        model: The model that was validated.
        kind: What the settings belong to, e.g. `objective 'dcs'`; empty for top-level settings.
        where: Setting that holds them.
    """
    return "; ".join(_problem(problem, model, kind, where) for problem in error.errors())


def _problem(problem: Any, model: "type[BaseModel]", kind: str, where: str) -> str:
    from pydantic import BaseModel

    *outer, name = [str(part) for part in problem["loc"]] or [""]
    for part in outer:
        inner = model.model_fields[part].annotation if part in model.model_fields else None
        model = inner if isinstance(inner, type) and issubclass(inner, BaseModel) else model
    full = ".".join(part for part in (where, *outer, name) if part)
    of = f" of {kind}" if kind else ""
    noun = "option" if kind else "setting"
    if problem["type"] == "extra_forbidden":
        near = difflib.get_close_matches(name, model.model_fields, n=1)
        listed = ", ".join(model.model_fields) or "none"
        hint = f"did you mean {near[0]!r}?" if near else f"known are {listed}"
        return f"unknown {noun} {full!r}{of}: {hint}"
    if problem["type"] == "missing":
        return f"{full}{of} must be given"
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    return f"{full}: {problem['msg'].lower()}, got {problem['input']!r}{of and f' ({kind})'}"


def options_of(factory: Callable[..., Any], given: Collection[str], name: str) -> "type[BaseModel]":
    """Make a model of the options that a factory takes, from its signature and docstring.

    Args:
        factory: Class or function. Where a class takes **options, those of its base class are meant.
        given: Parameters that are not options.
        name: Name of the model.
    """
    from pydantic import ConfigDict, Field, create_model

    fields: dict[str, Any] = {}
    for made in inspect.getmro(factory) if inspect.isclass(factory) else (factory,):
        called = made.__dict__.get("__init__") if inspect.isclass(made) else made
        if called is None:
            continue
        hints, described = typing.get_type_hints(called), argument_docs(inspect.getdoc(made) or "")
        parameters = list(inspect.signature(called).parameters.values())
        for parameter in parameters:
            if parameter.name in (*given, "self") or parameter.kind in _VARIABLE:
                continue
            default = ... if parameter.default is parameter.empty else parameter.default
            text = described.get(parameter.name, "")
            kind = _plain(hints.get(parameter.name, Any))
            fields.setdefault(parameter.name, (kind, Field(default, description=text)))
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            break
    config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)
    return create_model(name, __config__=config, **fields)


def argument_docs(docstring: str) -> dict[str, str]:
    """Read the descriptions of arguments from a Google-style docstring."""
    _, _, rest = docstring.partition("Args:\n")
    section = re.split(r"\n(?=\S)", rest)[0]
    found = re.findall(r"^    (\w+): (.*(?:\n(?:     .*|))*)", section, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


def _plain(hint: Any) -> Any:
    """Return a type hint as far as JSON can hold it; objects that only Python can pass are not validated."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        members = tuple(_plain(member) for member in typing.get_args(hint))
        return typing.Union[members]  # noqa: UP007  (the members are known at run time only)
    if origin is Literal or hint in _PLAIN or origin in (list, tuple, dict):
        return hint
    if origin is Sequence:
        return tuple[typing.get_args(hint)[0], ...]  # type: ignore[misc]
    return Any

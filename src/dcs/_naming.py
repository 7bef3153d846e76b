"""How messages name arguments: as Python does, or as options where the command `dcs` runs."""

import contextlib
import shlex
from collections.abc import Iterator
from contextvars import ContextVar

_as_options: ContextVar[bool] = ContextVar("as_options", default=False)


@contextlib.contextmanager
def naming_options() -> Iterator[None]:
    """Let messages name arguments as command-line options."""
    token = _as_options.set(True)
    try:
        yield
    finally:
        _as_options.reset(token)


def argument(name: str, value: object = None) -> str:
    """Return an argument as the user would write it.

    Args:
        name: Name of the argument in Python.
        value: Value to suggest; True for a switch, False for "none", None to suggest none.

    Example:
        >>> argument("mixed", "crop"), argument("label")
        ('mixed="crop"', 'label')
    """
    if not _as_options.get():
        shown = f'"{value}"' if isinstance(value, str) else repr(value)
        return name if value is None else f"{name}={shown}"
    option = f"--{name.replace('_', '-')}"
    if value is None or value is True:
        return option
    return f"{option} {'none' if value is False else shlex.quote(str(value))}"

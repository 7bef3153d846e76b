"""How messages name arguments: as Python does, or as options where the command `dcs` runs."""

import shlex
from contextvars import ContextVar

_as_options: ContextVar[bool] = ContextVar("as_options", default=False)


def name_options() -> None:
    """Let messages name arguments as command-line options from now on."""
    _as_options.set(True)


def argument(name: str, value: object = None) -> str:
    """Return an argument as the user would write it.

    Args:
        name: Name of the argument in Python.
        value: Value to suggest; True for a switch, False for "none", None to suggest none.

    Example:
        >>> argument("mixed", "crop"), argument("label")
        ("mixed='crop'", 'label')
    """
    if not _as_options.get():
        return name if value is None else f"{name}={value!r}"
    option = f"--{name.replace('_', '-')}"
    if value is None or value is True:
        return option
    return f"{option} {'none' if value is False else shlex.quote(str(value))}"

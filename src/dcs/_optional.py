"""Packages that only some parts need."""

import importlib
from typing import Any


def require(module: str, extra: str, purpose: str) -> Any:
    """Import a package of an optional extra, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{purpose} needs the package {module.partition('.')[0]}, which is not installed: "
            f"pip install 'dcs-learn[{extra}]'"
        ) from error

"""Jinja2 templates of the report and inspect pages, and the frame that both share."""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined


class PageTable(NamedTuple):
    """A table of a page.

    Args:
        caption: Title of the table.
        head: Column names.
        rows: Cells; the first cell of each row is its heading. A `RankedCell` is marked.
        numbers_from: First column of right-aligned numbers.
        notes: Remarks below the table: a term, which may be empty, and its explanation.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[object]]
    numbers_from: int | None = None
    notes: Sequence[tuple[str, str]] = ()


class RankedCell(NamedTuple):
    """A table cell that is bold if its rank is 1 and underlined if it is 2."""

    text: str
    rank: int | None


def render(template: str, *, generator: str, scripts: Sequence[str] = (), **context: object) -> str:
    """Render a self-contained page; all text in the context is escaped.

    The content security policy of the page allows its own style and scripts only, identified by their hashes,
    and no request at all. Characters that cannot be encoded, as in file names that are not valid text, are
    replaced by question marks.

    Args:
        template: File name in `templates`.
        generator: Name of the program that writes the page.
        scripts: File names in `assets`.
        **context: Variables of the template.
    """
    found = _environment().get_template(template)
    script = "\n".join(map(_asset, scripts))
    page = found.render(generator=generator, style=_asset("page.css"), script=script, **context)
    return page.encode("utf-8", "replace").decode()


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("dcs.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["sha256"] = _sha256
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment


def _asset(name: str) -> str:
    return files("dcs.report").joinpath("assets", name).read_text(encoding="utf-8")


def _sha256(text: str) -> str:
    """Return the hash of a style or script for a content security policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"

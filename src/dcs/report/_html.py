"""HTML in which all that is not markup is escaped: text from data can never become anything else."""

import html
import json
from typing import Any


class Markup(str):
    """Text that is HTML already; only `tag` and `join` make it."""

    __slots__ = ()


def tag(name: str, *inside: object, **attributes: object) -> Markup:
    """An element; what is inside is escaped unless it is markup, and None is left out.

    Args:
        name: Of the element.
        *inside: Its content.
        **attributes: Of the element; `class_` is class, `aria_label` is aria-label; True has no value, and
            those that are None or False are left out.

    Example:
        >>> tag("p", "<b> & ", tag("b", "bold"), class_='a"b')
        '<p class="a&quot;b">&lt;b&gt; &amp; <b>bold</b></p>'
    """
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{_text(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in ("meta", "link"):
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(*inside)}</{name}>")


def join(*parts: object) -> Markup:
    """One after the other."""
    return Markup(
        "".join(str(part) if isinstance(part, Markup) else _text(part) for part in parts if part is not None)
    )


def table(
    head: list[str], rows: list[list[object]], *, caption: str, numbers_from: int | None = None
) -> Markup:
    """A table that can be scrolled on a narrow screen, by keyboard too.

    Args:
        head: Of the columns.
        rows: Cells; the first of a row is its heading.
        caption: What it shows.
        numbers_from: The first column of numbers, which are aligned to the right.
    """

    def kind(column: int) -> str | None:
        return "number" if numbers_from is not None and column >= numbers_from else None

    body = [
        tag(
            "tr",
            tag("th", row[0], scope="row"),
            *(tag("td", cell, class_=kind(column)) for column, cell in enumerate(row[1:], 1)),
        )
        for row in rows
    ]
    top = tag("tr", *(tag("th", name, scope="col", class_=kind(column)) for column, name in enumerate(head)))
    whole = tag("table", tag("caption", caption), tag("thead", top), tag("tbody", *body))
    return tag("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


def embed_json(value: Any) -> str:
    """JSON that is safe inside a script element: nothing in it can end the element or a line."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "replace").decode()


def _text(value: object) -> str:
    # Names of files may hold bytes that are no text.
    return html.escape(str(value).encode("utf-8", "replace").decode())

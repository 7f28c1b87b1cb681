"""Elements of HTML and SVG that escape what they hold, as messages about untrusted schemas go into a report.

Invariant: only what this module made is markup (`Markup`); any other string becomes text, with what is not printable
shown as an escape, so that it can neither act nor hide. Attributes are escaped, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from structgen.notebook import plain

__all__ = ["Markup", "element", "joined", "table", "text"]

Value = str | int | float | bool | None
Cell = str | tuple[str, str]
"""What a cell holds, or that and its class."""


class Markup(str):
    """HTML or SVG, ready to be put into a page."""

    __slots__ = ()


def element(_name: str, *inner: str, **attributes: Value) -> Markup:
    """Return an element.

    Names of attributes have ``-`` for ``_``, and lose one at their end (``class_``). None and False are left out, True
    is an attribute without a value.
    """
    written = "".join(
        f" {name.removesuffix('_').replace('_', '-')}"
        + ("" if value is True else f'="{escape(_printable(_number(value)))}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    return Markup(f"<{_name}{written}>{joined(inner)}</{_name}>")


def text(value: str, most: int = 300) -> Markup:
    """Return text, escaped, cut after `most` characters."""
    return Markup(plain(value, most))


def joined(inner: Iterable[str]) -> Markup:
    """Return one after the other; what is no markup becomes text."""
    return Markup("".join(element if isinstance(element, Markup) else text(element) for element in inner))


def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[Cell]], named: int = 1) -> Markup:
    """Return a table that scrolls within itself if it is too wide.

    The first `named` cells of a row are its heads. The head of a column has the class of its cells.
    """
    cells = [[(cell, "") if isinstance(cell, str) else cell for cell in row] for row in rows]
    classes = [class_ for _, class_ in cells[0]] if cells else [""] * len(heads)
    top = [
        element("th", head, scope="col", class_=class_ or None)
        for head, class_ in zip(heads, classes, strict=True)
    ]
    body = [
        element(
            "tr",
            *(
                element("th", cell, scope="row", class_=class_ or None)
                if at < named
                else element("td", cell, class_=class_ or None)
                for at, (cell, class_) in enumerate(row)
            ),
        )
        for row in cells
    ]
    inner = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *top)),
        element("tbody", *body),
    )
    return element("div", inner, class_="table", role="region", aria_label=str(caption), tabindex=0)


def _number(value: Value) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _printable(value: str) -> str:
    if value.isprintable():
        return value
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in value
    )

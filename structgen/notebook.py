"""HTML of small tables and texts, for what notebooks show of constraints, results and posteriors (`_repr_html_`).

Why: a notebook shows the last value of a cell; the weights of draws or where the time went are read in a table.
Invariant: what is written is one element without scripts, style sheets or anything from elsewhere; texts are escaped,
what is not printable is shown as an escape, so that a model's output can neither act nor hide; colours are those of
the page, with transparency, so that it is readable on dark pages, too. Long texts and tables are cut, and say so.
Cost: linear in what is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["bar", "card", "code", "pairs", "plain", "table"]

_MOST_CHARACTERS = 4_000
_MOST_LINES = 60
_LINE = "1px solid rgba(128,128,128,.35)"
_CELL = f"padding:.15em .8em .15em 0;text-align:left;vertical-align:top;border:0;border-bottom:{_LINE};background:none"
_MONO = "font-family:ui-monospace,Menlo,Consolas,monospace"


def plain(text: str, most: int = _MOST_CHARACTERS) -> str:
    """Return the text escaped, and cut after `most` characters."""
    cut = text[:most]
    if not cut.isprintable():
        cut = "".join(
            c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in cut
        )
    left = len(text) - most
    return escape(cut) + (f"<i>… {left:,} more characters</i>" if left > 0 else "")


def code(text: str) -> str:
    """Return a text of several lines as it is written, in a box; long texts are cut."""
    lines = text.split("\n")
    more = f"\n… {len(lines) - _MOST_LINES:,} more lines" if len(lines) > _MOST_LINES else ""
    style = f"{_MONO};margin:.3em 0;padding:.4em .6em;border:{_LINE};border-radius:4px;white-space:pre-wrap"
    style += ";background:rgba(128,128,128,.08);color:inherit;overflow-wrap:anywhere"
    return f'<pre style="{style}">{plain(chr(10).join(lines[:_MOST_LINES]))}{more}</pre>'


def bar(share: float) -> str:
    """Return a bar as long as `share` (0 to 1) of the width of its cell."""
    width = 100 * min(1.0, max(0.0, share))
    inner = f"width:{width:.1f}%;height:.7em;background:rgba(66,133,244,.7);border-radius:2px"
    return f'<div style="width:8em;padding-top:.35em"><div style="{inner}"></div></div>'


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; heads are texts, the cells are HTML already."""
    top = "".join(f'<th style="{_CELL};font-weight:600">{plain(head)}</th>' for head in heads)
    body = "".join(
        '<tr style="background:none">' + "".join(f'<td style="{_CELL}">{cell}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    head = f'<thead><tr style="background:none">{top}</tr></thead>' if heads else ""
    return f'<table style="border-collapse:collapse;margin:.3em 0;color:inherit">{head}<tbody>{body}</tbody></table>'


def pairs(given: Iterable[tuple[str, str]]) -> str:
    """Return a table of names and values, both texts."""
    return table((), ((f"<b>{plain(name)}</b>", plain(value)) for name, value in given))


def card(title: str, about: str, *parts: str) -> str:
    """Return a card: a title, a phrase after it (both texts), and parts that are HTML already."""
    head = f'<div><b>{plain(title)}</b> <span style="opacity:.75">{plain(about, 400)}</span></div>'
    return f'<div style="color:inherit;max-width:60em;line-height:1.45">{head}{"".join(parts)}</div>'

"""The support tables of the documentation, written from the declarations in the code.

Invariant: every keyword and format has one row; nothing is stated here that the declarations do not say.
"""

from __future__ import annotations

from .drafts import DRAFTS
from .formats import FORMATS
from .keywords import KEYWORDS

__all__ = ["format_table", "keyword_table"]

_NAMES = {draft.number: draft.name.removeprefix("draft ") for draft in DRAFTS}


def _drafts(first: int, last: int) -> str:
    if (first, last) == (DRAFTS[0].number, DRAFTS[-1].number):
        return "all"
    if last == DRAFTS[-1].number:
        return f"from {_NAMES[first]}"
    if first == DRAFTS[0].number:
        return f"up to {_NAMES[last]}"
    return _NAMES[first] if first == last else f"{_NAMES[first]} to {_NAMES[last]}"


def keyword_table() -> str:
    """Markdown: every keyword, its drafts, its support."""
    lines = ["| keyword | drafts | support | note |", "|---|---|---|---|"]
    for name, keyword in KEYWORDS.items():
        drafts = _drafts(keyword.first, keyword.last)
        lines.append(f"| `{name}` | {drafts} | {keyword.support.value} | {keyword.note} |")
    return "\n".join(lines) + "\n"


def format_table() -> str:
    """Markdown: every format, its drafts, its support."""
    lines = ["| format | drafts | support | note |", "|---|---|---|---|"]
    for name, found in FORMATS.items():
        note = found.note
        if found.older is not None:
            note += f"; {found.older.support.value} in drafts 4 and 6"
        lines.append(
            f"| `{name}` | {_drafts(found.first, DRAFTS[-1].number)} | {found.support.value} | {note} |"
        )
    return "\n".join(lines) + "\n"

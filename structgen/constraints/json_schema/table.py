"""The support tables of the documentation, written from the declarations in the code.

    python -m structgen.constraints.json_schema.table docs/json-schema.md

rewrites the tables of that page in place, between their markers.
Invariant: every keyword and format has one row; nothing is stated here that the declarations do not say.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from .drafts import DRAFTS
from .formats import FORMATS
from .keywords import KEYWORDS

__all__ = ["format_table", "keyword_table", "with_tables"]

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
    lines = ["| format | defined in | support | note |", "|---|---|---|---|"]
    for name, found in FORMATS.items():
        note = found.note
        if found.older is not None:
            note += f"; {found.older.support.value} in drafts 4 and 6"
        lines.append(
            f"| `{name}` | {_drafts(found.first, DRAFTS[-1].number)} | {found.support.value} | {note} |"
        )
    return "\n".join(lines) + "\n"


def with_tables(page: str) -> str:
    """The page with its tables as the code declares them now."""
    for name, table in (("keywords", keyword_table()), ("formats", format_table())):
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        page = re.sub(f"(?s)(?<={start}).*?(?={end})", table.replace("\\", r"\\"), page)
    return page


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_tables(path.read_text("utf-8")), "utf-8")

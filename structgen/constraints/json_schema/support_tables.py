"""Generate the tables of supported keywords and formats for the documentation.

    python -m structgen.constraints.json_schema.support_tables docs/json-schema.md

rewrites the tables of that page in place, between their markers. The counts come from `bench.suite`, which wrote
them to json-schema-suite.json in the folder of the page.

Invariant: every keyword and format has one row, and the tables contain only declarations and measured counts.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .drafts import DRAFTS
from .formats import FORMATS
from .keywords import KEYWORDS

__all__ = ["MEASURED", "format_table", "keyword_table", "with_tables"]

MEASURED = "json-schema-suite.json"
"""File name of the measured counts, in the folder of the page."""
_ENGINES = ("structgen", "llguidance", "xgrammar")
_FILES = {
    **dict.fromkeys(("if", "then", "else"), ("if-then-else",)),
    **dict.fromkeys(("contentEncoding", "contentMediaType", "contentSchema"), ("content",)),
    "$ref": ("ref", "refRemote"),
    "$dynamicRef": ("dynamicRef",),
    "$recursiveRef": ("recursiveRef",),
    "$anchor": ("anchor",),
    "$defs": ("defs",),
    "$vocabulary": ("vocabulary",),
}
"""Files of the suite that are not named after their keyword."""

_NAMES = {draft.number: draft.name.removeprefix("draft ") for draft in DRAFTS}


def _drafts(first: int, last: int) -> str:
    if (first, last) == (DRAFTS[0].number, DRAFTS[-1].number):
        return "all"
    if last == DRAFTS[-1].number:
        return f"from {_NAMES[first]}"
    if first == DRAFTS[0].number:
        return f"up to {_NAMES[last]}"
    return _NAMES[first] if first == last else f"{_NAMES[first]} to {_NAMES[last]}"


def _counts(measured: dict[str, Any], files: Iterable[str]) -> list[str]:
    """Return, for each engine, the number of correct groups of these files, of all."""
    found = [measured["files"][file] for file in files if file in measured["files"]]
    total = sum(one["groups"] for one in found)
    return [f"{sum(one[engine] for one in found)}/{total}" if found else "" for engine in _ENGINES]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def keyword_table(measured: dict[str, Any]) -> str:
    """Return Markdown with every keyword, its drafts, its support, and the correct groups of the official suite."""
    lines = [_row(("keyword", "drafts", "support", *_ENGINES, "note")), "|---|---|---|--:|--:|--:|---|"]
    for name, keyword in KEYWORDS.items():
        counts = _counts(measured, _FILES.get(name, (name,)))
        drafts = _drafts(keyword.first, keyword.last)
        lines.append(_row((f"`{name}`", drafts, keyword.support.value, *counts, keyword.note)))
    required = [file for file in measured["files"] if "/" not in file]
    optional = [file for file in measured["files"] if re.fullmatch("optional/[^/]*", file)]
    lines.append(_row(("all required groups", "", "", *_counts(measured, required), "")))
    lines.append(_row(("all optional groups", "", "", *_counts(measured, optional), "formats apart")))
    return "\n".join(lines) + "\n"


def format_table(measured: dict[str, Any]) -> str:
    """Return Markdown with every format, its drafts, its support, and the correct groups of the official suite."""
    lines = [_row(("format", "defined in", "support", *_ENGINES, "note")), "|---|---|---|--:|--:|--:|---|"]
    for name, found in FORMATS.items():
        note = found.note
        if found.older is not None:
            note += f"; {found.older.support.value} in drafts 4 and 6"
        drafts = _drafts(found.first, DRAFTS[-1].number)
        counts = _counts(measured, (f"optional/format/{name}",))
        lines.append(_row((f"`{name}`", drafts, found.support.value, *counts, note)))
    return "\n".join(lines) + "\n"


def _versions(measured: dict[str, Any]) -> str:
    """Return Markdown that says what was measured, and with which command."""
    peers = " and ".join(f"{name} {number}" for name, number in measured["versions"].items())
    return f"Counted for {peers} by `{measured['command']}`.\n"


def with_tables(page: str, measured: dict[str, Any]) -> str:
    """Return the page with the tables of these declarations and counts."""
    for name, table in (
        ("keywords", keyword_table(measured)),
        ("formats", format_table(measured)),
        ("versions", _versions(measured)),
    ):
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        page = re.sub(f"(?s)(?<={start}).*?(?={end})", table.replace("\\", r"\\"), page)
    return page


if __name__ == "__main__":
    path = Path(sys.argv[1])
    counted = json.loads(path.with_name(MEASURED).read_text("utf-8"))
    path.write_text(with_tables(path.read_text("utf-8"), counted), "utf-8")

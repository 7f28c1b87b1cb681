"""What a run of the tests skipped, grouped by reason, and the command that gets what was missing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

__all__ = ["lines", "remedy"]

_REMEDIES: tuple[tuple[str, str], ...] = (
    (r"vllm", "make test-vllm"),
    (r"sglang", "pip install sglang, in an environment of its own"),
    (r"fetches the compiler|pyright|typescript|tsgo|mona\b|MONA", "make programs"),
    (r"node is not installed", "install Node.js with npm"),
    (r"shared data", ""),  # the reason itself says what to set
    (r"Python 3\.12", "install Python 3.12 or later beside this one"),
    (r"could not import|is not installed|are not installed|needs the package", "make develop"),
)
"""Patterns of reasons, and what to do; the first that is found counts."""


def remedy(reason: str) -> str:
    """Return the command that makes these tests run; empty where nothing can be installed."""
    return next((do for pattern, do in _REMEDIES if re.search(pattern, reason, re.IGNORECASE)), "")


def _short(reason: str) -> str:
    reason = reason.removeprefix("Skipped: ")
    if named := re.match(r"could not import '([\w.]+)'", reason):
        return f"{named[1]} is not installed"
    return reason


def lines(reasons: Iterable[str]) -> list[str]:
    """Return one line for each reason, the most frequent first: how many were skipped, why, and what to do."""
    counts = Counter(map(_short, reasons))
    found = []
    for reason, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        do = remedy(reason)
        tests = "test" if count == 1 else "tests"
        found.append(f"{count} {tests}: {reason}" + (f": {do}" if do and do not in reason else ""))
    return found

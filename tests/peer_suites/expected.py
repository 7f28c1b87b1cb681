"""The differences that are known: for each suite and reason the numbers of the cases, and how many verdicts differ.

The tests hold the suites against them, so that a verdict that changes is noticed either way.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from .reasons import reason_of
from .running import Difference

__all__ = ["by_reason", "expected", "record"]

_FILE = Path(__file__).with_name("expected.json")
_Known = dict[str, dict[int, int]]


def by_reason(differences: Iterable[Difference]) -> _Known:
    """For each reason, in the words of `reasons.py`, the numbers of the cases with the number of verdicts."""
    found: defaultdict[str, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
    for one in differences:
        reason = reason_of(one)
        found[f"{reason.kind.value}: {reason.text}" if reason else "unexplained"][one.case.line] += (
            one.verdicts
        )
    return {text: dict(lines) for text, lines in found.items()}


def expected(peer: str) -> _Known:
    """What is known of a suite."""
    known = json.loads(_FILE.read_text("utf-8")).get(peer, {})
    return {text: {int(line): number for line, number in lines.items()} for text, lines in known.items()}


def record(peer: str, differences: Iterable[Difference]) -> None:
    """Make these differences of a whole suite the expected ones."""
    known = json.loads(_FILE.read_text("utf-8")) if _FILE.exists() else {}
    known[peer] = by_reason(differences)
    lines = [
        f" {json.dumps(peer)}: {{\n"
        + ",\n".join(f"  {json.dumps(text)}: {json.dumps(known[peer][text])}" for text in sorted(known[peer]))
        + "\n }"
        for peer in sorted(known)
    ]
    _FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")

"""Constraints, matchers and processes that the tests of isolated constraints share."""

from __future__ import annotations

import pickle
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from structgen.serving.isolated_matcher import open_isolated_matcher
from structgen.serving.matcher_processes import MatcherProcesses
from structgen.serving.requests import constraint_of
from structgen.vocabulary import Vocabulary
from tests.unhurried import HANG_SECONDS

__all__ = [
    "EXPLODING",
    "LARGE",
    "SPECS",
    "UNLIMITED",
    "VOCABULARY",
    "children",
    "gone",
    "lives",
    "open_matcher",
    "read_letters",
    "until",
]

VOCABULARY = Vocabulary.from_tokens(
    [*(bytes([byte]) for byte in range(256)), b'{"', b'": ', b'", "', b"tr", b"ue", b"11", b"aa"],
    [263],
    size=264,
)


UNLIMITED = VOCABULARY.with_limits(call_steps=1 << 40)


SPECS: tuple[tuple[Any, Any], ...] = (
    (
        "json",
        {
            "type": "object",
            "properties": {"a": {"type": "boolean"}, "bcd": {"enum": [1, "x"]}},
            "required": ["a"],
        },
    ),
    ("regex", "a{2,7}(true|11)+b?"),
    ("choice", ["aaab", "aaac", "true"]),
    ("grammar", 'root ::= "(" root ")" | "a" root | "11"'),
)


# As large as some schemas of users: building its automaton takes longer than other requests may wait.
LARGE = {
    "type": "object",
    "properties": {f"key{i}": {"type": "array", "items": {"enum": [f"{i}", i, None]}} for i in range(8_000)},
    "required": ["key7"],
    "additionalProperties": False,
}


# The number of its states doubles with each letter.
EXPLODING = {
    "type": "string",
    "allOf": [{"pattern": f"^(.*a.{{{i + 5}}}b|.*c.{{{i + 7}}}d)$"} for i in range(30)],
}


def until(condition: Callable[[], Any], seconds: float = HANG_SECONDS) -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition never held"
        time.sleep(0.002)


def read_letters(matcher: Any) -> None:
    draw = random.Random(3)
    assert matcher.advance(ord('"'))
    while True:
        assert matcher.advance(draw.choice(b"abcd"))


def open_matcher(processes: MatcherProcesses, kind: Any, spec: Any) -> Any:
    matcher = open_isolated_matcher(processes.start(pickle.dumps(constraint_of(kind, spec))))
    assert matcher is not None
    return matcher


def lives(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def gone(pid: int) -> None:
    until(lambda: not lives(pid))


def children(pid: int, name: str) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        for child in map(int, (task / "children").read_text().split()):
            if name in Path(f"/proc/{child}/cmdline").read_text():
                found.append(child)
    return found

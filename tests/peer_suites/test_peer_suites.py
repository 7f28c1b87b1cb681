"""The test suites of nine peers: each verdict is the peer's, or differs for a reason that is known.

Each part of a suite is held against `expected.json`. No difference may be structgen's fault or unexplained.
"""

from __future__ import annotations

import pytest

from .expected import by_reason, expected
from .running import run

# Suites in parts, which several processes read at a time.
_PARTS = {
    "xgrammar": 12,
    "llguidance": 3,
    "outlines-core": 1,
    "lm-format-enforcer": 1,
    "llama.cpp": 1,
    "guidance": 2,
    "syncode": 1,
    "formatron+kbnf": 1,
    "vllm": 2,
}
_REAL = 10
"""Each so many case is read in the tokens of SmolLM2 too."""


@pytest.mark.parametrize(
    ("peer", "part"), [(peer, part) for peer, parts in _PARTS.items() for part in range(parts)]
)
def test_verdicts(peer: str, part: int) -> None:
    parts = _PARTS[peer]
    found = by_reason(run(peer, every=parts, first=part, real=_REAL).differences)
    known = {
        text: lines
        for text, all_lines in expected(peer).items()
        if (lines := {line: number for line, number in all_lines.items() if line % parts == part})
    }
    assert found == known, f"python -m tests.peer_suites {peer} shows what changed"


@pytest.mark.parametrize("peer", _PARTS)
def test_no_verdict_is_wrong(peer: str) -> None:
    faults = [text for text in expected(peer) if text.startswith(("wrong", "unexplained"))]
    assert not faults


def test_few_verdicts_are_lacking() -> None:
    lacking = [
        number
        for peer in _PARTS
        for text, lines in expected(peer).items()
        if text.startswith("lacks")
        for number in lines.values()
    ]
    assert sum(lacking) <= 400

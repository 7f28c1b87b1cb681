"""Slow, obvious twins of grammars in the core's form, over a small alphabet.

A production is its rule and its symbols; a symbol >= 0 is a rule, ~i the terminal i. Terminals are given as
patterns of `re`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["derives", "lexemes", "texts_of"]


def texts_of(
    productions: Sequence[tuple[int, ...]], start: int, terminals: Sequence[frozenset[str]], longest: int
) -> frozenset[str]:
    """All texts of rule `start` of at most `longest` characters, where terminal i is any of ``terminals[i]``."""
    known: dict[int, set[str]] = {symbol: set() for one in productions for symbol in one if symbol >= 0}
    changed = True
    while changed:
        changed = False
        for head, *body in productions:
            found = {""}
            for symbol in body:
                nexts = known[symbol] if symbol >= 0 else terminals[~symbol]
                found = {a + b for a in found for b in nexts if len(a) + len(b) <= longest}
            if not found <= known[head]:
                known[head] |= found
                changed = True
    return frozenset(known.get(start, ()))


def lexemes(text: str, terminals: Sequence[str], rule: str) -> list[int] | None:
    """The terminals that `text` is cut into; under "ordered" each terminal is its own scanner."""
    found = []
    at = 0
    while at < len(text):
        ends = range(len(text), at, -1)
        matches = [
            (end, i)
            for i, pattern in enumerate(terminals)
            for end in ends
            if re.fullmatch(pattern, text[at:end])
        ]
        if not matches:
            return None
        if rule == "longest":
            end, terminal = max(matches, key=lambda match: (match[0], -match[1]))
        else:
            end, terminal = max(matches, key=lambda match: (-match[1], match[0]))
        found.append(terminal)
        at = end
    return found


def derives(productions: Sequence[tuple[int, ...]], start: int, terminals: Sequence[int]) -> bool:
    """Is this sequence of terminals one of rule `start`?"""
    count = len(terminals)
    spans: dict[int, set[tuple[int, int]]] = {
        symbol: set() for one in productions for symbol in one if symbol >= 0
    }
    changed = True
    while changed:
        changed = False
        for head, *body in productions:
            found = {(i, i) for i in range(count + 1)}
            for symbol in body:
                if symbol >= 0:
                    found = {(i, k) for i, j in found for begin, k in spans[symbol] if begin == j}
                else:
                    found = {(i, j + 1) for i, j in found if j < count and terminals[j] == ~symbol}
            if not found <= spans[head]:
                spans[head] |= found
                changed = True
    return (0, count) in spans.get(start, ())

"""The slow, obvious matcher for the RE part of the IR: sets of end positions, straight from the definitions.

An expression means a set of spans of a text. Look-around sees the whole text, except inside an operand of an
intersection or complement, or a scope, where it sees the span of that operand. Nothing is simplified and nothing
is compiled, so that it can be read and believed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

RE = tuple[Any, ...]


def accepts(expression: RE, text: str) -> bool:
    """Is the whole text in the language?"""

    @cache
    def ends(node: RE, start: int) -> frozenset[int]:
        kind = node[0]
        if kind == "class":
            point = ord(text[start]) if start < len(text) else -1
            return frozenset([start + 1] if any(low <= point <= high for low, high in node[1]) else [])
        if kind == "any":
            return frozenset([start + 1] if start < len(text) else [])
        if kind == "text":
            return frozenset(range(start, len(text) + 1))
        if kind == "empty":
            return frozenset()
        if kind == "literal":
            return frozenset([start + len(node[1])] if text.startswith(node[1], start) else [])
        if kind == "literals":
            return frozenset(start + len(word) for word in node[1] if text.startswith(word, start))
        if kind == "substring":
            return frozenset(
                start + len(run)
                for i in range(len(node[1]))
                for j in range(i, len(node[1]) + 1)
                for run in ["".join(node[1][i:j])]
                if (run or node[2]) and text.startswith(run, start)
            )
        if kind == "concat":
            return frozenset(follow(node[1], start))
        if kind == "alternate":
            return frozenset().union(*(ends(part, start) for part in node[1]))
        if kind == "intersect":
            return spans(start, lambda span: all(accepts(part, span) for part in node[1]))
        if kind == "complement":
            return spans(start, lambda span: not accepts(node[1], span))
        if kind == "scope":
            return spans(start, lambda span: accepts(node[1], span))
        if kind == "repeat":
            return frozenset(repeated(node[1], start, node[2], node[3]))
        if kind == "look":
            _, ahead, negative, body = node
            if ahead:
                found = bool(ends(body, start))
            else:
                found = any(start in ends(body, before) for before in range(start + 1))
            return frozenset([start] if found != negative else [])
        raise AssertionError(f"no such node: {kind}")

    def spans(start: int, holds: Callable[[str], bool]) -> frozenset[int]:
        return frozenset(end for end in range(start, len(text) + 1) if holds(text[start:end]))

    def follow(parts: tuple[RE, ...], start: int) -> set[int]:
        current = {start}
        for part in parts:
            current = {end for place in current for end in ends(part, place)}
        return current

    def repeated(body: RE, start: int, low: int, high: int | None) -> set[int]:
        current, seen = {start}, set()
        accepted = {start} if low == 0 else set()
        # A round that begins where an earlier one began, once enough rounds are done, finds nothing new.
        rounds = 0
        while current and (high is None or rounds < high):
            current = {end for place in current for end in ends(body, place)}
            rounds += 1
            if rounds >= low:
                current -= seen
                seen |= current
                accepted |= current
            elif rounds > len(text) + 1 and low > rounds:
                rounds = low - 1  # rounds without text can go on for ever; the set is stable by now
        return accepted

    return len(text) in ends(expression, 0)

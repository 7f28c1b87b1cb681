"""Small words for writing regular languages as IR, so that a format reads like its RFC's grammar.

Invariant: every function returns a node of the regex IR; a plain string stands for its literal text. Shared
parts are shared objects, so a language is a small graph even where its text would be long.
"""

from __future__ import annotations

from functools import cache
from typing import Any

__all__ = ["EMPTY", "TEXT", "alt", "both", "chars", "cut", "many", "maybe", "no", "seq", "some"]

Language = tuple[Any, ...]
Part = Language | str

EMPTY: Language = ("literal", "")
TEXT: Language = ("text",)


def _part(part: Part) -> Language:
    return ("literal", part) if isinstance(part, str) else part


def seq(*parts: Part) -> Language:
    """One part after the other."""
    return ("concat", tuple([_part(part) for part in parts]))


def alt(*parts: Part) -> Language:
    """Any one of the parts."""
    return ("alternate", tuple([_part(part) for part in parts]))


def both(*parts: Part) -> Language:
    """What is in every one of the parts."""
    return ("intersect", tuple([_part(part) for part in parts]))


def no(part: Part) -> Language:
    """Every text but these."""
    return ("complement", _part(part))


def many(part: Part, low: int = 0, high: int | None = None) -> Language:
    """The part repeated."""
    return ("repeat", _part(part), low, high)


def some(part: Part) -> Language:
    """The part once or more."""
    return many(part, 1)


def maybe(part: Part) -> Language:
    return many(part, 0, 1)


def cut(part: Part, longest: int) -> Language:
    """The texts of the part with at most `longest` characters."""
    return both(part, many(("any",), 0, longest))


@cache
def chars(listed: str) -> Language:
    """One character of a list with ranges, as ``a-z0-9_-``; a hyphen at either end is itself."""
    ranges: list[tuple[int, int]] = []
    i = 0
    while i < len(listed):
        if i + 2 < len(listed) and listed[i + 1] == "-":
            ranges.append((ord(listed[i]), ord(listed[i + 2])))
            i += 3
        else:
            ranges.append((ord(listed[i]), ord(listed[i])))
            i += 1
    return ("class", tuple(sorted(ranges)))

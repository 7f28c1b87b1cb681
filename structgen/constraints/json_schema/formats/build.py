"""Short functions for regular languages, so that a format reads like the grammar of its RFC.

Invariant: a plain string stands for its literal text; everything else is what `structgen.constraints.expressions`
builds. Shared parts stay shared objects, so a language is a small graph even if its text would be long.
"""

from __future__ import annotations

from functools import cache

from structgen.constraints import expressions
from structgen.constraints.expressions import ANY, RE, TEXT

__all__ = ["ANY", "RE", "TEXT", "alt", "both", "chars", "cut", "many", "maybe", "no", "seq", "some"]

Part = RE | str


def _part(part: Part) -> RE:
    return ("literal", part) if isinstance(part, str) else part


def seq(*parts: Part) -> RE:
    """Return one part after the other."""
    return expressions.concat([_part(part) for part in parts])


def alt(*parts: Part) -> RE:
    """Return any one of the parts."""
    return expressions.alternate([_part(part) for part in parts])


def both(*parts: Part) -> RE:
    """Return what is in every one of the parts."""
    return expressions.intersect([_part(part) for part in parts])


def no(part: Part) -> RE:
    """Return every text except these."""
    return expressions.complement(_part(part))


def many(part: Part, low: int = 0, high: int | None = None) -> RE:
    """Return the part repeated."""
    return expressions.repeat(_part(part), low, high)


def some(part: Part) -> RE:
    """Return the part once or more."""
    return many(part, 1)


def maybe(part: Part) -> RE:
    """Return the part or nothing."""
    return many(part, 0, 1)


def cut(part: Part, longest: int) -> RE:
    """Return the texts of the part with at most `longest` characters."""
    return both(part, many(ANY, 0, longest))


@cache
def chars(listed: str) -> RE:
    """Return one character of a list with ranges, such as ``a-z0-9_-``; a hyphen at either end is itself."""
    ranges: list[tuple[int, int]] = []
    i = 0
    while i < len(listed):
        if i + 2 < len(listed) and listed[i + 1] == "-":
            ranges.append((ord(listed[i]), ord(listed[i + 2])))
            i += 3
        else:
            ranges.append((ord(listed[i]), ord(listed[i])))
            i += 1
    return expressions.character_class(expressions.normalise_ranges(ranges))

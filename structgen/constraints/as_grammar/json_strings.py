"""Languages of characters as languages of JSON strings, quotes included.

What: a character is written as it is, and where JSON forbids that as `json.dumps(..., ensure_ascii=False)` writes it.
Invariant: writing is one-to-one and no character's writing begins another's, so it commutes with union, concatenation,
repetition and intersection, and with complement (relative to what is some string's writing).
Cost: linear in the expression; shared parts are written once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from structgen.constraints.expressions import RE, alternate, complement, concat, intersect, literal, repeat

__all__ = ["quoted", "quoted_text"]

_LAST = 0x10FFFF
_ESCAPED = {code: json.dumps(chr(code), ensure_ascii=False)[1:-1] for code in (*range(0x20), 0x22, 0x5C)}
_PLAIN = ((0x20, 0x21), (0x23, 0x5B), (0x5D, _LAST))


def quoted(parts: Sequence[RE]) -> RE:
    """The strings whose characters are in all of these languages."""
    writer = _Writer()
    inside = intersect([writer.write(part) for part in parts]) if parts else writer.every
    return concat((literal('"'), ("scope", inside), literal('"')))


def quoted_text(text: str) -> str:
    """One string."""
    return json.dumps(text, ensure_ascii=False)


class _Writer:
    def __init__(self) -> None:
        self.any = self._class(((0, _LAST),))
        self.every = repeat(self.any, 0, None)
        self._known: dict[int, tuple[RE, RE]] = {}

    def write(self, given: RE) -> RE:
        # subtle: equal parts are mostly the same object, and are written once
        known = self._known.get(id(given))
        if known is None:
            known = self._known[id(given)] = given, self._write(given)
        return known[1]

    def _write(self, given: RE) -> RE:
        kind, *content = given
        match kind:
            case "literal":
                return literal(_inside(content[0]))
            case "literals":
                return ("literals", tuple(map(_inside, content[0])))
            case "class":
                return self._class(content[0])
            case "any":
                return self.any
            case "text":
                return self.every
            case "concat":
                return concat([self.write(one) for one in content[0]])
            case "alternate":
                return alternate([self.write(one) for one in content[0]])
            case "repeat":
                return repeat(self.write(content[0]), content[1], content[2])
            case "intersect":
                return intersect([self.write(one) for one in content[0]])
            case "complement":
                return intersect([self.every, complement(self.write(content[0]))])
            case "scope":
                return ("scope", self.write(content[0]))
            case "look":
                return ("look", content[0], content[1], self.write(content[2]))
            case "empty":
                return given
        raise AssertionError(kind)

    @staticmethod
    def _class(ranges: Sequence[tuple[int, int]]) -> RE:
        plain = [
            (max(low, first), min(high, last))
            for low, high in ranges
            for first, last in _PLAIN
            if max(low, first) <= min(high, last)
        ]
        escaped = tuple(
            text for code, text in _ESCAPED.items() if any(low <= code <= high for low, high in ranges)
        )
        ways: list[RE] = []
        if plain:
            ways.append(("class", tuple(plain)))
        if escaped:
            ways.append(("literals", escaped))
        return alternate(ways) if ways else ("empty",)


def _inside(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]

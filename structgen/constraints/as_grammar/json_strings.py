"""Translate languages of characters into languages of JSON strings, including their quotes.

A character is written as itself, and if JSON forbids that, as `json.dumps(..., ensure_ascii=False)` writes it.

Invariant: the translation is one-to-one, and no translated character is a prefix of another. So it commutes with
union, concatenation, repetition and intersection, and with complement relative to the translations of all strings.

Cost: linear in the expression; shared parts are translated once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from structgen.constraints.expressions import (
    RE,
    alternate,
    complement,
    concat,
    intersect,
    literal,
    repeat,
    substring,
)
from structgen.errors import CombinationError

__all__ = ["StringTranslator", "json_string", "json_strings"]

_LAST = 0x10FFFF
_ESCAPED = {code: json.dumps(chr(code), ensure_ascii=False)[1:-1] for code in (*range(0x20), 0x22, 0x5C)}
_PLAIN = ((0x20, 0x21), (0x23, 0x5B), (0x5D, _LAST))


def json_strings(parts: Sequence[RE]) -> RE:
    """Return the JSON strings whose characters are in all of these languages."""
    translator = StringTranslator()
    inside = intersect([translator.translate(part) for part in parts]) if parts else translator.every
    return concat((literal('"'), ("scope", inside), literal('"')))


def json_string(text: str) -> str:
    """Return the JSON of one string."""
    return json.dumps(text, ensure_ascii=False)


class StringTranslator:
    """Translates expressions over characters into expressions over their JSON, without quotation marks."""

    def __init__(self) -> None:
        self.any = self._class(((0, _LAST),))
        self.every = repeat(self.any, 0, None)
        self._known: dict[int, tuple[RE, RE]] = {}

    def translate(self, given: RE) -> RE:
        """Return the translation. Raises `CombinationError` for the automaton of a plan."""
        # subtle: equal parts are mostly the same object, so a cache by identity is enough
        known = self._known.get(id(given))
        if known is None:
            known = self._known[id(given)] = given, self._translate(given)
        return known[1]

    def _translate(self, given: RE) -> RE:
        kind, *content = given
        match kind:
            case "literal":
                return literal(_contents(content[0]))
            case "literals":
                return ("literals", tuple(map(_contents, content[0])))
            case "class":
                return self._class(content[0])
            case "any":
                return self.any
            case "text":
                return self.every
            case "concat":
                return concat([self.translate(one) for one in content[0]])
            case "alternate":
                return alternate([self.translate(one) for one in content[0]])
            case "repeat":
                return repeat(self.translate(content[0]), content[1], content[2])
            case "intersect":
                return intersect([self.translate(one) for one in content[0]])
            case "complement":
                return intersect([self.every, complement(self.translate(content[0]))])
            case "scope":
                return ("scope", self.translate(content[0]))
            case "look":
                return ("look", content[0], content[1], self.translate(content[2]))
            case "substring":
                pieces, is_empty = content
                return substring(map(_contents, pieces), empty=is_empty)
            case "empty" | "host_names":  # no character of a host name has an escape
                return given
        raise CombinationError(
            "a plan cannot be written inside a JSON string", hint="Use a grammar or a regular expression."
        )

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
        branches: list[RE] = []
        if plain:
            branches.append(("class", tuple(plain)))
        if escaped:
            branches.append(("literals", escaped))
        return alternate(branches) if branches else ("empty",)


def _contents(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]

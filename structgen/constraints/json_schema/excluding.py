"""Schemas whose JSON texts do not hold given texts.

Why: servers forbid the special texts of a chat template inside tool calls, and the product of a schema with any regular
language is not what the core reads. A forbidden text that can only stand inside one string of the JSON is a condition
on strings, and that is a schema.
What: `excluding` joins the schema with one whose strings and keys, at every depth, are not written with such a text.
Invariant: exact. A text that could stand outside strings, or reach over a quotation mark, is refused.
Cost: one recursive sub-schema more; its expression is linear in the texts.
Source: RFC 8259, sections 2 and 7.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from structgen.constraints.expressions import (
    NOTHING,
    RE,
    TEXT,
    alternate,
    character_class,
    complement,
    concat,
    literal,
    normalise_ranges,
)
from structgen.errors import CombinationError
from structgen.ir.schema import SchemaIR

from .constraint import JsonSchemaConstraint
from .merging import combine

__all__ = ["check_excludable", "excluding"]

_OUTSIDE = frozenset(" \t\n\r{}[]:,-+.0123456789eEtrufalsn")
"""Characters of JSON outside strings, without the quotation mark."""
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED = {**{chr(code): f"\\u{code:04x}" for code in range(0x20)}, **_SHORT}
"""How the option ``escapes="canonical"`` writes what must be escaped."""


def excluding(constraint: JsonSchemaConstraint, texts: Iterable[str]) -> JsonSchemaConstraint:
    """Return the constraint of the JSON texts of `constraint` in which none of `texts` occurs.

    Args:
        constraint: a schema with the option ``escapes="canonical"``.
        texts: what must not occur.

    Raises:
        CombinationError: a text may occur outside strings, or the strings have other escapes.
    """
    texts = tuple(texts)
    if not texts:
        return constraint
    if constraint.options.escapes != "canonical":
        raise CombinationError(
            "texts cannot be excluded from JSON whose strings may be escaped in any way",
            hint='Use the option escapes="canonical".',
        )
    clean = _clean(texts)
    if clean == TEXT:
        return constraint
    shown = {"text of pattern": "none of " + ", ".join(map(repr, texts[:4]))}
    everywhere = {
        "pointer": "#",
        "pattern": clean,
        "items": 0,
        "additionalProperties": 0,
        "propertyNames": 1,
    }
    nodes = (everywhere, {"pointer": "#", "pattern": clean})
    other = SchemaIR(nodes=nodes, root=0, options=constraint._ir["options"], spelled={0: shown, 1: shown})
    return JsonSchemaConstraint(combine("allOf", constraint._ir, other), constraint.options)


@lru_cache(maxsize=256)
def _clean(texts: tuple[str, ...]) -> RE:
    """Return the strings whose JSON holds none of the texts."""
    written = alternate([_writing(text) for text in texts])
    return TEXT if written == NOTHING else complement(concat([TEXT, written, TEXT]))


def check_excludable(text: str) -> None:
    """Raise `CombinationError` where a text may occur in JSON outside strings."""
    if '"' in text or set(text) <= _OUTSIDE:
        raise CombinationError(
            f"{text!r:.60} cannot be excluded from JSON: it may stand outside of strings",
            hint="Exclude texts that hold a character such as <, | or a letter that JSON itself is not made of, and "
            "no quotation mark.",
        )


def _writing(text: str) -> RE:
    """Return what a string holds wherever its JSON holds this text."""
    check_excludable(text)
    found = [_from_start(text)]
    for character, code in _ESCAPED.items():  # the text may begin inside an escape
        for place in range(1, len(code)):
            rest = code[place:]
            if rest.startswith(text):
                found.append(literal(character))
            elif text.startswith(rest):
                found.append(concat([literal(character), _from_start(text[len(rest) :])]))
    return alternate(found)


def _from_start(text: str) -> RE:
    """Return the strings whose JSON begins with `text`, up to the character that its end falls into."""
    parts: list[RE] = []
    place = 0
    while place < len(text):
        character = text[place]
        if character == "\\":
            whole, partial = _escapes(text[place:])
            if partial:  # the text ends inside an escape
                return concat([*parts, _one_of(partial)])
            if whole is None:
                return NOTHING
            parts.append(literal(whole))
            place += len(_ESCAPED[whole])
        elif character in _ESCAPED:
            return NOTHING
        else:
            parts.append(literal(character))
            place += 1
    return concat(parts)


def _escapes(text: str) -> tuple[str | None, list[str]]:
    """Return the character whose escape begins `text`, and those whose escapes go on after its end."""
    whole = next((one for one, code in _ESCAPED.items() if text.startswith(code)), None)
    return whole, [one for one, code in _ESCAPED.items() if code.startswith(text) and code != text]


def _one_of(characters: Iterable[str]) -> RE:
    return character_class(normalise_ranges(_codes(characters)))


def _codes(characters: Iterable[str]) -> Iterator[tuple[int, int]]:
    for character in characters:
        yield ord(character), ord(character)

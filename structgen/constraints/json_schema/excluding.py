"""Build schemas whose JSON texts do not contain given texts.

Why: servers forbid the special texts of a chat template inside tool calls, and the core does not support the
product of a schema with any regular language. A forbidden text that can occur only inside one string of the JSON is
a condition on strings, and that can be a schema.

What: `excluding` joins the schema with one that forbids the text in strings and keys at every depth.

Invariant: exact. A text that could occur outside strings, or across a quotation mark, is refused.

Cost: one more recursive sub-schema; its expression is linear in the texts.

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
        constraint: A schema with the option ``escapes="canonical"``.
        texts: The texts that must not occur.

    Raises:
        CombinationError: A text may occur outside strings, or strings may have other escapes.
    """
    texts = tuple(texts)
    if not texts:
        return constraint
    if constraint.options.escapes != "canonical":
        raise CombinationError(
            "texts cannot be excluded from JSON whose strings may be escaped in any way",
            hint='Use the option escapes="canonical".',
        )
    allowed = _strings_without(texts)
    if allowed == TEXT:
        return constraint
    shown = {"text of pattern": "none of " + ", ".join(map(repr, texts[:4]))}
    everywhere = {
        "pointer": "#",
        "pattern": allowed,
        "items": 0,
        "additionalProperties": 0,
        "propertyNames": 1,
    }
    nodes = (everywhere, {"pointer": "#", "pattern": allowed})
    other = SchemaIR(nodes=nodes, root=0, options=constraint._ir["options"], spelled={0: shown, 1: shown})
    return JsonSchemaConstraint(combine("allOf", constraint._ir, other), constraint.options)


@lru_cache(maxsize=256)
def _strings_without(texts: tuple[str, ...]) -> RE:
    """Return the strings whose JSON contains none of the texts."""
    written = alternate([_strings_containing(text) for text in texts])
    return TEXT if written == NOTHING else complement(concat([TEXT, written, TEXT]))


def check_excludable(text: str) -> None:
    """Raise `CombinationError` if a text may occur in JSON outside strings."""
    if '"' in text or set(text) <= _OUTSIDE:
        raise CombinationError(
            f"{text!r:.60} cannot be excluded from JSON: it may occur outside strings",
            hint="Exclude texts without quotation marks that have a character such as <, | or a letter that JSON "
            "uses only in strings.",
        )


def _strings_containing(text: str) -> RE:
    """Return what a string contains wherever its JSON contains this text."""
    check_excludable(text)
    found = [_strings_starting_with(text)]
    for character, code in _ESCAPED.items():  # the text may begin inside an escape
        for position in range(1, len(code)):
            rest = code[position:]
            if rest.startswith(text):
                found.append(literal(character))
            elif text.startswith(rest):
                found.append(concat([literal(character), _strings_starting_with(text[len(rest) :])]))
    return alternate(found)


def _strings_starting_with(text: str) -> RE:
    """Return the strings whose JSON starts with `text`, up to the character in which the text ends."""
    parts: list[RE] = []
    position = 0
    while position < len(text):
        character = text[position]
        if character == "\\":
            whole, partial = _escapes(text[position:])
            if partial:  # the text ends inside an escape
                return concat([*parts, _one_of(partial)])
            if whole is None:
                return NOTHING
            parts.append(literal(whole))
            position += len(_ESCAPED[whole])
        elif character in _ESCAPED:
            return NOTHING
        else:
            parts.append(literal(character))
            position += 1
    return concat(parts)


def _escapes(text: str) -> tuple[str | None, list[str]]:
    """Return the character whose escape starts `text`, and those whose escapes continue after its end."""
    whole = next((one for one, code in _ESCAPED.items() if text.startswith(code)), None)
    return whole, [one for one, code in _ESCAPED.items() if code.startswith(text) and code != text]


def _one_of(characters: Iterable[str]) -> RE:
    return character_class(normalise_ranges(_codes(characters)))


def _codes(characters: Iterable[str]) -> Iterator[tuple[int, int]]:
    for character in characters:
        yield ord(character), ord(character)

"""Texts of XML elements as regular expressions: names, white space, strings without quotes.

Invariant: an expression that occurs in many places is one object, which is measured and lowered once.
Source: names of XML are those of XML 1.0, fifth edition, production 5, without the colon.
"""

from __future__ import annotations

import re
from functools import lru_cache

from structgen.constraints.expressions import (
    RE,
    TEXT,
    alternate,
    character_class,
    complement,
    concat,
    intersect,
    negate_ranges,
    normalise_ranges,
    repeat,
)
from structgen.constraints.grammar.bodies import EMPTY
from structgen.constraints.occurrences import without
from structgen.ir.grammar import Body

__all__ = [
    "PLAIN_NAME",
    "XML_NAME",
    "any_string",
    "is_name",
    "lacks",
    "padded",
    "template_pieces",
    "unquoted",
    "white_space",
]

_BREAKS = '<>"'
"""Characters that no name of an element contains, in addition to control characters."""
_PIECES = re.compile(r"(\$(?:name|type|value|gap))")
_START = (
    (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A), (0xC0, 0xD6), (0xD8, 0xF6), (0xF8, 0x2FF), (0x370, 0x37D),
    (0x37F, 0x1FFF), (0x200C, 0x200D), (0x2070, 0x218F), (0x2C00, 0x2FEF), (0x3001, 0xD7FF), (0xF900, 0xFDCF),
    (0xFDF0, 0xFFFD), (0x10000, 0xEFFFF),
)  # fmt: skip
_MORE = ((0x2D, 0x2E), (0x30, 0x39), (0xB7, 0xB7), (0x300, 0x36F), (0x203F, 0x2040))
XML_NAME = concat(
    [
        character_class(normalise_ranges(_START)),
        repeat(character_class(normalise_ranges((*_START, *_MORE))), 0, None),
    ]
)
PLAIN_NAME = repeat(
    character_class(
        negate_ranges(normalise_ranges([(0, 0x1F), *((ord(letter), ord(letter)) for letter in _BREAKS)]))
    ),
    1,
    None,
)


def is_name(text: str) -> bool:
    """Return whether a declared key may be the name of an element."""
    return bool(text) and not any(letter in _BREAKS or letter < " " for letter in text)


def template_pieces(template: str, name: str | None, shown: str) -> list[tuple[str, str]]:
    """Return the template in pieces: ``text`` and what it is, ``value``, ``gap``, and ``name`` where none is given."""
    pieces: list[tuple[str, str]] = []
    text = ""
    for piece in _PIECES.split(template):
        if piece == "$type":
            text += shown
        elif piece == "$name" and name is not None:
            text += name
        elif piece in ("$name", "$value", "$gap"):
            pieces += [("text", text), (piece[1:], "")]
            text = ""
        else:
            text += piece
    return [piece for piece in (*pieces, ("text", text)) if piece != ("text", "")]


@lru_cache(maxsize=64)
def white_space(most_blanks: int) -> Body:
    """Return white space of at most so many characters."""
    blank = character_class(normalise_ranges([(9, 10), (13, 13), (32, 32)]))
    return ("text", repeat(blank, 0, most_blanks)) if most_blanks else EMPTY


@lru_cache(maxsize=64)
def any_string(never: tuple[str, ...]) -> Body:
    """Return all texts that contain none of these."""
    return ("text", without(never))


def lacks(expression: RE, character: str) -> bool:
    """Return whether it is clear from the parts of an expression that none of its texts contains a character."""
    known: dict[int, bool] = {}  # by id, since expressions share their parts

    def clear(node: RE) -> bool:
        found = known.get(id(node))
        if found is None:
            found = known[id(node)] = new(node)
        return found

    def new(node: RE) -> bool:
        match node[0]:
            case "literal":
                return character not in node[1]
            case "literals":
                return not any(character in text for text in node[1])
            case "class":
                code = ord(character)
                return not any(low <= code <= high for low, high in node[1])
            case "concat" | "alternate":
                return all(map(clear, node[1]))
            case "intersect":
                return any(map(clear, node[1]))
            case "repeat" | "scope":
                return clear(node[1])
            case "empty":
                return True
        return False

    try:
        return clear(expression)
    except RecursionError:
        return False


def padded(strings: RE) -> RE:
    """Return `strings`, each with an optional line end before and after it."""
    line = ("literal", "\n")
    if lacks(strings, "\n"):
        optional = repeat(line, 0, 1)
        return concat([optional, strings, optional])
    no_line_before, no_line_after = complement(concat([line, TEXT])), complement(concat([TEXT, line]))
    return alternate(
        [
            concat([line, strings, line]),
            concat([line, intersect([strings, no_line_after])]),
            concat([intersect([strings, no_line_before]), line]),
            intersect([strings, no_line_before, no_line_after]),
        ]
    )


def unquoted(strings: RE, never: tuple[str, ...]) -> RE:
    """Return those of `strings` that contain none of the texts `never`."""
    first = {text[:1] for text in never}
    missing = {character for character in first if character and lacks(strings, character)}
    left = tuple([text for text in never if text[:1] not in missing])
    return intersect([strings, any_string(left)[1]]) if left else strings

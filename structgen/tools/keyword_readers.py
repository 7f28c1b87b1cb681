"""Read keyword arguments while they are written, and pass them on as JSON, piece by piece.

What: the constraint writes values in one way. Models that write these formats also know others, which parsers of model
servers take, so they are read, too: true, false and null as in JSON or as in Python, strings in single or double
quotes with the escapes of both languages, and other white space around names and commas.
Invariant: what the constraint allows is JSON except for three words, and is read as it is.
"""

from __future__ import annotations

import json
import re

from .text_source import Grow, Steps, TextSource

__all__ = ["read_keywords"]

_VALUE = re.compile(r"""["'{}\[\](),TFN]""")
_WORDS = {"True": "true", "False": "false", "None": "null"}
_MARKS = {quote: re.compile(rf"[{quote}\\]") for quote in "\"'"}
"""What ends a piece of a string, for each quote."""
_BLANKS = " \t\n\r"
_JSON_ESCAPES = frozenset('"\\/bfnrtu')
_OTHER_ESCAPES = {"'": "'", "\n": "", "a": "\\u0007", "v": "\\u000b"}
"""Escapes that only Python has, as text of a JSON string."""
_HEXADECIMAL = {"x": 2, "u": 4, "U": 8}
"""The number of digits of escapes."""
_DIGITS = re.compile(r"[0-9A-Fa-f]*")
_OCTAL = re.compile(r"[0-7]{1,3}")


def read_keywords(source: TextSource, grow: Grow) -> Steps:
    """Read keyword arguments, up to the closing parenthesis.

    Args:
        source: The text, at the first character of the arguments.
        grow: Called with each piece of their JSON.
    """
    separator = "{"
    yield from source.characters(_BLANKS, _ignore)
    while not (yield from source.is_next(")")):
        name: list[str] = []
        yield from source.through("=", name.append)
        grow(f"{separator}{json.dumps(''.join(name).strip(), ensure_ascii=False)}: ")
        separator = ", "
        yield from source.characters(_BLANKS, _ignore)
        yield from _value(source, grow)
        if (yield from source.one_of(",")) is not None:
            yield from source.characters(_BLANKS, _ignore)
    grow("{}" if separator == "{" else "}")


def _ignore(_: str) -> None:
    """Ignore white space between arguments."""


def _value(source: TextSource, grow: Grow) -> Steps:
    """Read a value up to the comma or parenthesis after it."""
    depth = 0
    while True:
        found = yield from source.up_to_mark(_VALUE, grow)
        if found in _MARKS:
            yield from _string(source, found, grow)
        elif found in "TFN":
            word = yield from source.one_of(*_WORDS)
            if word is None:
                raise source.missing(*_WORDS)
            grow(_WORDS[word])
        elif found in ",)" and depth == 0:
            return
        else:
            depth += {"{": 1, "[": 1, "(": 1, ",": 0}.get(found, -1)
            source.pass_on(source.position + 1, grow)


def _string(source: TextSource, quote: str, grow: Grow) -> Steps:
    """Read a string, and pass it on as one of JSON."""
    source.position += 1
    grow('"')
    while True:
        found = yield from source.up_to_mark(
            _MARKS[quote], lambda piece: grow(json.dumps(piece, ensure_ascii=False)[1:-1])
        )
        if found == quote:
            source.position += 1
            grow('"')
            return
        yield from _escape(source, grow)


def _escape(source: TextSource, grow: Grow) -> Steps:
    r"""Read an escape once it is complete. One that neither language has is two characters, as in Python.

    One exception: ``\N{...}``, a character by its name in Python, also stays as it is written.
    """
    while len(source.text) < source.position + 2:
        yield from source.more()
    letter = source.text[source.position + 1]
    digits = _HEXADECIMAL.get(letter, 0)
    while len(source.text) < source.position + 2 + digits:
        yield from source.more()
    written = source.text[source.position + 2 : source.position + 2 + digits]
    if not _DIGITS.fullmatch(written):
        raise source.invalid("there is no character with this escape")
    if letter in _OTHER_ESCAPES:
        source.position += 2
        grow(_OTHER_ESCAPES[letter])
    elif letter in _JSON_ESCAPES:
        source.pass_on(source.position + 2 + digits, grow)
    elif digits:
        shown = _character(source, written, 16)
        source.position += 2 + digits
        grow(shown)
    elif letter in "01234567":
        while len(source.text) < source.position + 4 and not source.ends:
            yield
        found = _OCTAL.match(source.text, source.position + 1)
        assert found is not None
        source.position = found.end()
        grow(_character(source, found[0], 8))
    else:
        source.position += 1
        grow("\\\\")  # the letter follows


def _character(source: TextSource, digits: str, base: int) -> str:
    """Return the character of a code in JSON."""
    try:
        return json.dumps(chr(int(digits, base)))[1:-1]
    except (ValueError, OverflowError):
        raise source.invalid("there is no character with this escape") from None

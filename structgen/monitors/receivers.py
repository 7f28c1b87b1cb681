"""The expression before a dot or a bracket, found by reading backwards.

Why: answers are kept by what they are about; ``self.items`` has the same members anywhere in a statement.
Invariant: the result is a suffix of the text; it is empty where the expression's beginning is not certain.
Cost: linear in the expression.
"""

from __future__ import annotations

import re

__all__ = ["arguments_before", "callee_before", "opening_before", "receiver_before"]

_CLOSERS = {")": "(", "]": "[", "}": "{"}
_MOST = 2_000
_SUFFIXES = "?!"
_HIDES = re.compile(r"\"\"\"|'''|#|//|/\*")
"""What may begin a comment or a long string, whose commas and brackets do not count; unknown when read backwards."""


def receiver_before(text: str) -> str:
    """Return the operand that ends before the dot which `text` ends with."""
    end = len(text.rstrip())
    if not text[:end].endswith("."):
        return ""
    end -= 1
    return text[_operand(text, end) : end].strip()


def callee_before(text: str, *, closed: bool = False) -> str:
    """Return the operand before the innermost bracket that is open at the end, or, if `closed`, was closed there."""
    end = len(text) - 1 if closed else len(text)
    opened = _opening(text, end)
    return "" if opened is None else text[_operand(text, opened) : opened].strip()


def opening_before(text: str, *, closed: bool = False) -> int:
    """Return the offset of that bracket; -1 if there is no such bracket."""
    opened = _opening(text, len(text) - 1 if closed else len(text))
    return -1 if opened is None else opened


def arguments_before(text: str, *, closed: bool = False) -> list[str]:
    """Return the text between that bracket and the end, cut at its commas.

    The result is empty if the text may hold a comment or a long string.
    """
    end = len(text) - 1 if closed else len(text)
    opened = _opening(text, end)
    if opened is None:
        return []
    if _HIDES.search(text, opened, end):
        return []
    arguments, offset, last = [], end - 1, end
    while offset > opened:
        character = text[offset]
        if character in "\"'`":
            offset = _string(text, offset)
            continue
        if character in _CLOSERS:
            start = _matching(text, offset)
            offset = opened if start is None else start
        elif character == ",":
            arguments.append(text[offset + 1 : last].strip())
            last = offset
        offset -= 1
    arguments.append(text[opened + 1 : last].strip())
    return arguments[::-1]


def _opening(text: str, end: int) -> int | None:
    """Return where the innermost round bracket that is open at `end` stands."""
    depth, offset = 0, end - 1
    while offset >= max(0, end - _MOST * 10):
        character = text[offset]
        if character in "\"'`":
            offset = _string(text, offset)
            continue
        if character in _CLOSERS:
            depth += 1
        elif character in "([{":
            if not depth:
                return offset if character == "(" else None
            depth -= 1
        offset -= 1
    return None


def _operand(text: str, end: int) -> int:
    """Return where the operand that ends at `end` begins."""
    offset = end
    while True:
        start = _atom(text, offset)
        if start == offset:
            return end  # nothing stands before the dot: the expression is unknown
        before = start
        while before and text[before - 1] in " \t":
            before -= 1
        if before and text[before - 1] == ".":
            offset = before - 1
            while offset and text[offset - 1] in _SUFFIXES:
                offset -= 1
            continue
        return start


def _atom(text: str, end: int) -> int:
    """Return a name, a string, or a bracketed part with what it belongs to."""
    offset = end
    while offset and text[offset - 1] in " \t\r\n" and offset > end - 80:  # a dot may begin a line of a chain
        offset -= 1
    while offset and text[offset - 1] in _SUFFIXES:
        offset -= 1
    while offset and text[offset - 1] in _CLOSERS:
        opened = _matching(text, offset - 1)
        if opened is None:
            return end
        offset = opened
    if offset and text[offset - 1] in "\"'`":
        offset = _string(text, offset - 1) + 1
    while offset and (
        text[offset - 1].isalnum() or text[offset - 1] in "_$#@" or not text[offset - 1].isascii()
    ):
        offset -= 1
    return offset


def _matching(text: str, offset: int) -> int | None:
    """Return where the bracket that is closed at `offset` was opened."""
    depth, least = 0, max(0, offset - _MOST)
    while offset >= least:
        character = text[offset]
        if character in "\"'`":
            offset = _string(text, offset)
            continue
        if character in _CLOSERS:
            depth += 1
        elif character in "([{":
            depth -= 1
            if not depth:
                return offset
        offset -= 1
    return None


def _string(text: str, offset: int) -> int:
    """Return the offset before the string whose last quote stands at `offset`."""
    quote, opening = text[offset], offset - 1
    while opening >= 0 and text[opening] != "\n":
        if text[opening] == quote and (opening == 0 or text[opening - 1] != "\\"):
            return opening - 1
        opening -= 1
    return offset - 1

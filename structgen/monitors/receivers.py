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
    found, place, last = [], end - 1, end
    while place > opened:
        one = text[place]
        if one in "\"'`":
            place = _string(text, place)
            continue
        if one in _CLOSERS:
            start = _matching(text, place)
            place = opened if start is None else start
        elif one == ",":
            found.append(text[place + 1 : last].strip())
            last = place
        place -= 1
    found.append(text[opened + 1 : last].strip())
    return found[::-1]


def _opening(text: str, end: int) -> int | None:
    """Return where the innermost round bracket that is open at `end` stands."""
    depth, place = 0, end - 1
    while place >= max(0, end - _MOST * 10):
        one = text[place]
        if one in "\"'`":
            place = _string(text, place)
            continue
        if one in _CLOSERS:
            depth += 1
        elif one in "([{":
            if not depth:
                return place if one == "(" else None
            depth -= 1
        place -= 1
    return None


def _operand(text: str, end: int) -> int:
    """Return where the operand that ends at `end` begins."""
    place = end
    while True:
        start = _atom(text, place)
        if start == place:
            return end  # nothing stands before the dot: the expression is unknown
        before = start
        while before and text[before - 1] in " \t":
            before -= 1
        if before and text[before - 1] == ".":
            place = before - 1
            while place and text[place - 1] in _SUFFIXES:
                place -= 1
            continue
        return start


def _atom(text: str, end: int) -> int:
    """Return a name, a string, or a bracketed part with what it belongs to."""
    place = end
    while place and text[place - 1] in " \t\r\n" and place > end - 80:  # a dot may begin a line of a chain
        place -= 1
    while place and text[place - 1] in _SUFFIXES:
        place -= 1
    while place and text[place - 1] in _CLOSERS:
        opened = _matching(text, place - 1)
        if opened is None:
            return end
        place = opened
    if place and text[place - 1] in "\"'`":
        place = _string(text, place - 1) + 1
    while place and (text[place - 1].isalnum() or text[place - 1] in "_$#@" or not text[place - 1].isascii()):
        place -= 1
    return place


def _matching(text: str, place: int) -> int | None:
    """Return where the bracket that is closed at `place` was opened."""
    depth, least = 0, max(0, place - _MOST)
    while place >= least:
        one = text[place]
        if one in "\"'`":
            place = _string(text, place)
            continue
        if one in _CLOSERS:
            depth += 1
        elif one in "([{":
            depth -= 1
            if not depth:
                return place
        place -= 1
    return None


def _string(text: str, place: int) -> int:
    """Return the place before the string whose last quote stands at `place`."""
    quote, at = text[place], place - 1
    while at >= 0 and text[at] != "\n":
        if text[at] == quote and (at == 0 or text[at - 1] != "\\"):
            return at - 1
        at -= 1
    return place - 1

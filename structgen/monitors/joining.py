"""What stands between an unfinished text and the document behind it, so that an analyser reads each for what it is.

Why: behind ``f(self.`` the document's next line would be read as more of that expression, and what it has in it
would be taken for what is written here. Servers recover from a statement that ends too early, less so from two that run
into one another: of 240 places in real Python ty listed members at 83 with nothing between, at 182 with an end of line,
and at 227 with what is put there now.
What: an end of line; before it a semicolon, or where statements end with their line, the ends of those brackets and
strings of the statement that what follows does not close, and a comma where others are still open. In a language of
which so much is not known, nothing.
Approximate: brackets are paired as characters, and at most `_MOST` characters of what follows are looked at.
Cost: linear in the statement and in what is looked at.
"""

from __future__ import annotations

import re

from .languages import Language

__all__ = ["joint"]

_MOST = 2_000
_SEMICOLONS = {"typescript", "javascript"}
_CLOSERS = {"(": ")", "[": "]", "{": "}"}
_PIECES = re.compile(
    r"\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'"
    r"|#[^\n]*|\"\"\"|'''|[\"'()\[\]{}]|\n",
    re.DOTALL,
)
"""Strings and comments as wholes, quotes that do not end, brackets, ends of lines."""


def joint(text: str, statement: int, after: str, language: Language) -> str:
    """Return what is to stand between `text`, whose last statement begins at an offset, and what follows it."""
    if not after or not (language.line_statements or language.name in _SEMICOLONS):
        return ""
    line = "" if after.startswith(("\n", "\r")) else "\n"
    if not language.line_statements:
        return ";" + line
    ends = _open(text[statement:])
    if not ends:
        return line
    closed = _closed(after[:_MOST], _indentation(text, statement))
    kept = max(0, len(ends) - closed)
    return "".join(reversed(ends[len(ends) - kept :])) + ("," if closed else "") + line


def _open(text: str) -> list[str]:
    """Return what ends the brackets and strings that are open, the innermost last."""
    ends: list[str] = []
    for piece in _PIECES.findall(text):
        if piece in _CLOSERS:
            ends.append(_CLOSERS[piece])
        elif ends and piece == ends[-1]:
            ends.pop()
        elif piece in ('"', "'", '"""', "'''"):
            ends.append(piece)
    return ends


def _closed(text: str, indentation: int) -> int:
    """Return how many brackets are closed that were open before, until the statement must have ended."""
    depth = least = 0
    for found in _PIECES.finditer(text):
        piece = found[0]
        if piece in _CLOSERS:
            depth += 1
        elif piece in ")]}":
            depth -= 1
            least = min(least, depth)
        elif piece == "\n" and depth == least and _begins(text, found.end(), indentation):
            break
    return -least


def _begins(text: str, offset: int, indentation: int) -> bool:
    """Does the line at an offset begin a statement beside one of this indentation, or outside of it?"""
    line = text[offset:].partition("\n")[0]
    found = line.strip()
    return bool(found) and len(line) - len(line.lstrip()) <= indentation and found[0] not in ")]}#"


def _indentation(text: str, statement: int) -> int:
    line = text[text.rfind("\n", 0, statement) + 1 :]
    return len(line) - len(line.lstrip(" \t"))

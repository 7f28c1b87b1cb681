"""Compute lark's patterns and names of the texts and patterns in a Lark grammar.

Why: readers that do without lark need them. Escapes and names have many special cases.
Invariant: the pattern and the name are lark's. Where that is not simple, lark's own function is called.
Cost: about two microseconds for each text.
Source: lark 1.3, load_grammar (`eval_escaping`, `_literal_to_pattern`, `PrepareAnonTerminals`).
"""

from __future__ import annotations

import re

from lark.lexer import Pattern, PatternRE, PatternStr, TerminalDef, Token
from lark.load_grammar import _TERMINAL_NAMES, _literal_to_pattern, eval_escaping
from lark.utils import is_id_continue, is_id_start

__all__ = ["Names", "literal_pattern", "name_from_text"]

_RANGE = re.compile(r'"([^"\\\n])"\.\."([^"\\\n])"')
_ESCAPED_RANGE = re.compile(r'"((?:[^"\\\n]|\\[^\n])+)"\.\."((?:[^"\\\n]|\\[^\n])+)"')
_PLAIN = re.compile(r'(?:[^\\]|\\\\(?!")|\\[^Uux\\])*+')
"""No numeric escapes, and no quote after an escaped backslash, which lark reads in an unusual way."""
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", '"': '"'}


class Names:
    """The names that lark gives to texts and patterns in rules, in the order in which it visits them."""

    def __init__(self, terminals: list[TerminalDef]) -> None:
        self.terminals = terminals
        self.known: dict[str, str] = {}
        self.taken = {terminal.name for terminal in terminals}
        self.by_pattern = {terminal.pattern: terminal.name for terminal in terminals}
        self.number = 0

    def add(self, text: str) -> None:
        """Name a text or pattern that lark visits next."""
        pattern = literal_pattern(text)
        name = self.by_pattern.get(pattern)
        if name is None:
            name = name_from_text(pattern)
            if name is None or name in self.taken:
                name = f"__ANON_{self.number}"
                self.number += 1
            self.by_pattern[pattern] = name
            self.taken.add(name)
            self.terminals.append(TerminalDef(name, pattern))
        self.known[text] = name


def name_from_text(pattern: Pattern) -> str | None:
    """Return the name that a text suggests; None if it suggests none."""
    value = pattern.value
    if not isinstance(pattern, PatternStr):
        return None
    if value in _TERMINAL_NAMES:
        return _TERMINAL_NAMES[value]
    if value.isascii():
        return value.upper() if value.isidentifier() else None
    return value.upper() if is_id_continue(value) and is_id_start(value[0]) else None


def literal_pattern(text: str) -> Pattern:
    """Return lark's pattern of a text in quotes, a pattern in slashes or a range."""
    if text[0] == "/":
        end = text.rindex("/")
        value = _unescaped(text[1:end])
        if value is None:
            return _by_lark("REGEXP", text)
        return PatternRE(value, text[end + 1 :], raw=text)
    if '"..' in text and (ends := _RANGE.fullmatch(text)):
        return PatternRE(f"[{ends[1]}-{ends[2]}]")
    if '"..' in text and (ends := _ESCAPED_RANGE.fullmatch(text)):
        if any(len(eval_escaping(end)) != 1 for end in ends.groups()):  # type: ignore[no-untyped-call]
            raise ValueError("the ends of a range must be single characters")
        return PatternRE(f"[{ends[1]}-{ends[2]}]")
    if "\\" not in text and text[-1] == '"' and len(text) > 2 and text.isprintable():
        return PatternStr(text[1:-1], "", raw=text)
    end = text.rindex('"')
    value = _unescaped(text[1:end])
    if value is None:
        return _by_lark("STRING", text)
    if "\\" in value:
        value = value.replace("\\\\", "\\")
    return PatternStr(value, text[end + 1 :], raw=text)


def _by_lark(kind: str, text: str) -> Pattern:
    return _literal_to_pattern(Token(kind, text))  # type: ignore[no-any-return,no-untyped-call]


def _unescaped(text: str) -> str | None:
    """Return the result of lark's `eval_escaping`; None if it is not simple."""
    if not text or not text.isprintable():
        return None
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_escaped, text) if _PLAIN.fullmatch(text) else None


def _escaped(match: re.Match[str]) -> str:
    return _ESCAPED.get(match[1], match[0])

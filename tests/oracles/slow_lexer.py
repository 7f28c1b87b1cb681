"""The slow twin of lexers: the rules of `ir.grammar.Lexer` by trying every prefix of the remaining text.

A lexeme is never empty. The lexer does not handle indentation. With a contextual lexer, the caller passes the allowed
terminals (`allowed`) for each lexeme, and of the terminals of one keyword only the one that competes there.
"""

from __future__ import annotations

from collections.abc import Collection

from structgen.ir.grammar import Lexer
from tests.oracles.regex_twin import accepts

__all__ = ["lexeme", "lexemes", "significant"]


def lexemes(lexer: Lexer, text: str) -> list[tuple[str, str]] | None:
    """Return the lexemes of a text as (terminal, text), ignored ones included; None if there is a lexical error."""
    result = []
    start = 0
    while start < len(text):
        found = lexeme(lexer, text[start:])
        if found is None:
            return None
        result.append(found)
        start += len(found[1])
    return result


def significant(lexer: Lexer, found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the lexemes without ignored ones."""
    return [one for one in found if one[0] not in lexer.ignore]


def lexeme(lexer: Lexer, text: str, allowed: Collection[str] | None = None) -> tuple[str, str] | None:
    """Return the first lexeme of a text; `allowed`, if given, are the only terminals that compete."""
    terminals = [one for one in lexer.terminals if allowed is None or one.name in allowed]
    prefixes = [text[:length] for length in range(len(text), 0, -1)]  # the longest one first
    for prefix in reversed(prefixes):
        for terminal in terminals:
            if terminal.lazy and accepts(terminal.language, prefix):
                return terminal.name, prefix  # as are other lazy terminals that match there
    terminals = [one for one in terminals if not one.lazy]
    if lexer.rule == "longest":
        for prefix in prefixes:
            for terminal in terminals:
                if accepts(terminal.language, prefix):
                    return terminal.name, prefix
        return None
    for number, scanner in enumerate(lexer.scanners):
        kinds = [one for one in terminals if one.scanner == number]
        if allowed is not None and not kinds:
            continue
        for prefix in prefixes:
            if accepts(scanner, prefix):
                return next(((one.name, prefix) for one in kinds if accepts(one.language, prefix)), None)
    return None

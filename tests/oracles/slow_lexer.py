"""The slow, obvious lexer: the rules of `ir.Lexer` by trying every prefix of what is left of the text.

A lexeme is never empty. Indentation, and which terminals a grammar allows at a place, are not the lexer's own
business: with a contextual lexer, the caller says what is allowed (`allowed`) for each lexeme, and of the terminals of
one keyword only the one that competes there.
"""

from __future__ import annotations

from collections.abc import Collection

from structgen.ir.grammar import Lexer
from tests.oracles.regex_twin import accepts

__all__ = ["lexeme", "lexemes", "significant"]


def lexemes(lexer: Lexer, text: str) -> list[tuple[str, str]] | None:
    """The text cut into (terminal, text), those to ignore included; None if it cannot be cut."""
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
    """Without the lexemes to ignore."""
    return [one for one in found if one[0] not in lexer.ignore]


def lexeme(lexer: Lexer, text: str, allowed: Collection[str] | None = None) -> tuple[str, str] | None:
    """The first lexeme of a text; `allowed`, if given, are the only terminals that compete."""
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

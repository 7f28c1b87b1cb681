"""Regular languages whose texts end as early as they can, from some length on.

Why: rules that are lazy, or have a budget of characters, end at the first place where they may.
Invariant: a text of the result has no shorter text of the language at its beginning that has at least `least`
characters. So up to that length nothing is left out, and the first end from there on is the last one.
Cost: linear in the expression; one difference in the core, where structure does not show the result.
Source: XGrammar 0.2.6, "EBNF Grammar", Character Budgets and Committed-Shortest Matching.
"""

from __future__ import annotations

from .expressions import ANY, EPSILON, RE, TEXT, complement, concat, intersect, nullable, repeat

__all__ = ["earliest_end"]


def earliest_end(language: RE, least: int = 0) -> RE:
    """The texts of a language that end at the first place where they may, of those after `least` characters.

    Args:
        language: The language; looks in it must be in a scope.
        least: Characters up to which a text may end where it likes.
    """
    if least == 0 and nullable(language):
        return EPSILON
    low, high, character = 0, None, ANY
    if language[0] == "repeat":
        _, character, low, high = language
    if language == TEXT or _is_character(character) and language[0] == "repeat":
        most = max(low, least)
        return repeat(character, low, most if high is None else min(high, most))
    ended = intersect([language, repeat(ANY, least, None)]) if least else language
    return intersect([language, complement(concat([ended, ANY, TEXT]))])


def _is_character(expression: RE) -> bool:
    """Is each of its texts one character?"""
    return expression[0] in ("any", "class") or (expression[0] == "literal" and len(expression[1]) == 1)

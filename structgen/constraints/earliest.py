"""Regular languages whose texts end as early as they can, from some length on.

Why: lazy rules, and rules with a budget of characters, end at the first position at which they may.

Invariant: no text of the result has a proper prefix that is in the language and has at least `min_length`
characters. So up to that length nothing is left out, and the first end after it is the last one.

Cost: linear in the expression; one difference in the core if the structure does not determine the result.

Source: XGrammar 0.2.6, "EBNF Grammar", Character Budgets and Committed-Shortest Matching.
"""

from __future__ import annotations

from .expressions import ANY, EPSILON, RE, TEXT, complement, concat, intersect, nullable, repeat

__all__ = ["earliest_end"]


def earliest_end(language: RE, min_length: int = 0) -> RE:
    """Return the texts of a language that end at the first possible position after `min_length` characters.

    Args:
        language: The language; looks in it must be in a scope.
        min_length: Number of characters up to which a text may end anywhere.
    """
    if min_length == 0 and nullable(language):
        return EPSILON
    low, high, character = 0, None, ANY
    if language[0] == "repeat":
        _, character, low, high = language
    if language == TEXT or _is_character(character) and language[0] == "repeat":
        max_length = max(low, min_length)
        return repeat(character, low, max_length if high is None else min(high, max_length))
    ended = intersect([language, repeat(ANY, min_length, None)]) if min_length else language
    return intersect([language, complement(concat([ended, ANY, TEXT]))])


def _is_character(expression: RE) -> bool:
    """Return whether each of its texts is one character."""
    return expression[0] in ("any", "class") or (expression[0] == "literal" and len(expression[1]) == 1)

"""The slow twin of grammars: accepted texts straight from the definitions.

A body denotes a set of spans of a text. The spans of all rules are the least fixed point of their equations: start with
none, and add what follows until nothing is new. So left recursion and rules that derive themselves need no special
care. Texts are strings, or sequences in which a special token is one item. Grammars must have no lexer and no nested
constraints.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from functools import lru_cache

from structgen.ir.grammar import Body, Grammar
from tests.oracles import regex_twin

_matches = lru_cache(maxsize=200_000)(regex_twin.accepts)


def accepts(grammar: Grammar, text: Sequence[str]) -> bool:
    """Return whether the whole text is in the language."""
    rules = {rule.name: rule.body for rule in grammar.rules}
    places = range(len(text) + 1)
    known: dict[tuple[str, int], set[int]] = {(name, start): set() for name in rules for start in places}

    def ends(body: Body, start: int) -> set[int]:
        kind = body[0]
        if kind == "rule":
            return known[body[1], start]
        if kind == "text":
            return {
                end for end in places[start:] if is_text(start, end) and _matches(body[1], joined(start, end))
            }
        if kind == "special":
            return {start + 1} if start < len(text) and text[start] == body[1] else set()
        if kind == "tokens":  # one that is named by its text
            ((name,), _, _, _) = body[1]
            return {start + 1} if start < len(text) and text[start] == name else set()
        if kind == "choice":
            return set().union(*(ends(part, start) for part in body[1]))
        if kind == "sequence":
            current = {start}
            for part in body[1]:
                current = {end for place in current for end in ends(part, place)}
            return current
        if kind == "repeat":
            return repeated(body[1], start, body[2], body[3])
        raise AssertionError(f"no such body: {kind}")

    def repeated(body: Body, start: int, low: int, high: int | None) -> set[int]:
        current, result = {start}, {start} if low == 0 else set()
        # After as many rounds as there are positions, rounds without text make no difference.
        most = low + len(text) + 1 if high is None else high
        for turn in range(1, most + 1):
            current = {end for place in current for end in ends(body, place)}
            if turn >= low:
                if current <= result:
                    break
                result |= current
            elif turn > len(text) + 1 and current == {end for place in current for end in ends(body, place)}:
                result |= current
                break
        return result

    def is_text(start: int, end: int) -> bool:
        return all(len(item) == 1 for item in text[start:end])

    def joined(start: int, end: int) -> str:
        return "".join(text[start:end])

    changed = True
    while changed:
        changed = False
        for (name, start), found in known.items():
            new = ends(rules[name], start) - found
            if new:
                found |= new
                changed = True
    return len(text) in known[grammar.start, 0]


def words(alphabet: str, longest: int) -> Iterable[str]:
    """Return every text over an alphabet, up to a length."""
    for length in range(longest + 1):
        yield from map("".join, itertools.product(alphabet, repeat=length))


def language(grammar: Grammar, alphabet: str, longest: int) -> set[str]:
    """Return the accepted texts."""
    return {word for word in words(alphabet, longest) if accepts(grammar, word)}

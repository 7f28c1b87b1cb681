"""Productions told apart by how many brackets are open, where an indentation reads brackets.

Why: under an indentation a bracket closes only what is open, and between brackets newlines mean nothing. The core
keeps count while a text is read; that a rule can *never* be written at a place (`")"` where none is open, a block
between brackets) has to be known before its first symbol is offered, as it is of a rule without a text.
Invariant: the texts stay the same. A rule is told apart by how many brackets are open before it and by how many more
there are after it, and is left where it has a text there. Grammars that open or close brackets one after the other
without a bound stay as they are, and so do those in which nothing is found that can never be written.
Cost: linear in the productions for each count that matters; in most grammars these are none and some.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Brackets", "with_brackets"]

Production = tuple[int, ...]
"""A rule, then what it is: rules, and terminals, which are negative."""
Place = tuple[int, int, int]
"""A rule, how many brackets are open where it begins, and how many more where it ends."""
Body = tuple["Place | int", ...]

_MOST = 8
"""Brackets by which a rule may change the count, or that it may close without having opened them."""
_MOST_PLACED = 4
"""Productions at places, to one as it was written."""


@dataclass(frozen=True, slots=True)
class Brackets:
    """The terminals that an indentation tells apart."""

    opening: frozenset[int]
    closing: frozenset[int]
    outside: frozenset[int]
    """These are read only where no bracket is open."""

    def change(self, terminal: int) -> int:
        return (terminal in self.opening) - (terminal in self.closing)


def with_brackets(
    start: int, rules: Sequence[str], productions: Sequence[Production], brackets: Brackets
) -> tuple[int, tuple[str, ...], tuple[Production, ...]]:
    """The start, the names of the rules and the productions: as they are, or of rules at their places."""
    unchanged = start, tuple(rules), tuple(productions)
    used = _used(start, productions)
    changes = _changes(used, brackets)
    if changes is None:
        return unchanged
    places = _Places(used, brackets, changes, _most_closed(used, brackets, changes))
    starts = [(start, 0, change) for change in sorted(changes.get(start, ()))]
    if not places.find(starts):
        return unchanged
    kept = _useful(starts, places.bodies)
    if all(place in kept for place in starts) and all(
        len(bodies) == places.tried[place] for place, bodies in kept.items()
    ):
        return unchanged
    number = {place: i for i, place in enumerate(kept, 1)}
    numbered = tuple(
        (number[place], *(s if isinstance(s, int) else number[s] for s in body))
        for place, bodies in kept.items()
        for body in bodies
    )
    begin = tuple((0, number[place]) for place in starts if place in kept)
    return 0, (rules[start], *(rules[place[0]] for place in kept)), begin + numbered


def _used(start: int, productions: Sequence[Production]) -> dict[int, list[Production]]:
    """By rule, those that are part of some sequence of terminals."""
    bodies: dict[Place, list[Body]] = {}
    for head, *body in productions:
        bodies.setdefault((head, 0, 0), []).append(tuple((s, 0, 0) if s >= 0 else s for s in body))
    return {
        rule: [(rule, *(s if isinstance(s, int) else s[0] for s in body)) for body in kept]
        for (rule, _, _), kept in _useful([(start, 0, 0)], bodies).items()
    }


def _changes(used: dict[int, list[Production]], brackets: Brackets) -> dict[int, frozenset[int]] | None:
    """By how much each rule may change the number of open brackets; None where that has no bound."""
    known: dict[int, frozenset[int]] = dict.fromkeys(used, frozenset())
    changed = True
    while changed:
        changed = False
        for rule, productions in used.items():
            found = set(known[rule])
            for _, *body in productions:
                totals = {0}
                for symbol in body:
                    changes = known[symbol] if symbol >= 0 else (brackets.change(symbol),)
                    totals = {total + change for total in totals for change in changes}
                found |= totals
            if len(found) > len(known[rule]):
                if max(map(abs, found)) > _MOST:
                    return None
                known[rule] = frozenset(found)
                changed = True
    return known


def _most_closed(
    used: dict[int, list[Production]], brackets: Brackets, changes: dict[int, frozenset[int]]
) -> int:
    """How many brackets that it has not opened any rule closes; more than `_MOST` where it may be any number."""
    closed = dict.fromkeys(used, 0)
    changed = True
    while changed:
        changed = False
        for rule, productions in used.items():
            for _, *body in productions:
                least_open = 0  # beyond those at the beginning
                for symbol in body:
                    if symbol < 0:
                        least_open += brackets.change(symbol)
                        needed = -least_open
                    else:
                        needed = closed[symbol] - least_open
                        least_open += min(changes[symbol])
                    if needed > closed[rule]:
                        if needed > _MOST:
                            return needed
                        closed[rule] = needed
                        changed = True
    return max(closed.values(), default=0)


class _Places:
    """The productions at all places that can be reached, but those with a terminal that cannot be read there.

    What is more than any rule closes is not counted, nor is what is more than `_MOST`.
    """

    def __init__(
        self,
        used: dict[int, list[Production]],
        brackets: Brackets,
        changes: dict[int, frozenset[int]],
        most_closed: int,
    ) -> None:
        self._used = used
        self._brackets = brackets
        self._changes = changes
        self._many = min(most_closed, _MOST) + 1
        self._all_closed = most_closed > _MOST  # may those that are not counted all be closed?
        self.bodies: dict[Place, list[Body]] = {}
        self.tried: dict[Place, int] = {}
        """How many there would be if all terminals could be read."""

    def find(self, starts: Sequence[Place]) -> bool:
        """False where there are too many."""
        room = _MOST_PLACED * sum(map(len, self._used.values())) + 100
        pending = list(starts)
        while pending:
            place = pending.pop()
            if place in self.bodies:
                continue
            bodies = self.bodies[place] = []
            self.tried[place] = 0
            for _, *symbols in self._used[place[0]]:
                if math.prod(len(self._changes[symbol]) for symbol in symbols if symbol >= 0) > room:
                    return False
                for body in self._at(place, symbols):
                    room -= 1
                    self.tried[place] += 1
                    if body is not None:
                        bodies.append(body)
                        pending += (symbol for symbol in body if not isinstance(symbol, int))
        return True

    def _at(self, place: Place, symbols: Sequence[int]) -> Iterator[Body | None]:
        """All ways for these to change the count as the place says; None: one that cannot be read there."""
        _, before, change = place
        ways: list[tuple[int, Body | None]] = [(0, ())]
        for symbol in symbols:
            changes = sorted(self._changes[symbol]) if symbol >= 0 else [self._brackets.change(symbol)]
            ways = [
                (so_far + more, self._read(before, so_far, body, symbol, more))
                for so_far, body in ways
                for more in changes
            ]
        return (body for so_far, body in ways if so_far == change)

    def _read(self, before: int, so_far: int, body: Body | None, symbol: int, more: int) -> Body | None:
        counted = before < self._many
        here = before + so_far
        if body is None or (counted and here + more < 0):
            return None
        if symbol < 0:
            at_zero = here == 0 if counted else self._all_closed
            return None if symbol in self._brackets.outside and not at_zero else (*body, symbol)
        return (*body, (symbol, min(here, self._many) if counted else self._many, more))


def _useful(starts: Sequence[Place], bodies: dict[Place, list[Body]]) -> dict[Place, list[Body]]:
    """The places that are part of some sequence of terminals, with those of their bodies that are."""
    uses: dict[Place, list[tuple[Place, int]]] = {}
    missing: dict[tuple[Place, int], int] = {}
    for place, alternatives in bodies.items():
        for i, body in enumerate(alternatives):
            needed = [symbol for symbol in body if not isinstance(symbol, int)]
            missing[place, i] = len(needed)
            for symbol in needed:
                uses.setdefault(symbol, []).append((place, i))
    good = {place for (place, _), count in missing.items() if count == 0}
    pending = list(good)
    while pending:
        for use in uses.get(pending.pop(), ()):
            missing[use] -= 1
            if missing[use] == 0 and use[0] not in good:
                good.add(use[0])
                pending.append(use[0])
    kept: dict[Place, list[Body]] = {}
    pending = [place for place in reversed(starts) if place in good]
    while pending:
        place = pending.pop()
        if place in kept:
            continue
        kept[place] = [body for i, body in enumerate(bodies[place]) if missing[place, i] == 0]
        pending += (symbol for body in kept[place] for symbol in body if not isinstance(symbol, int))
    return kept

"""Copies of productions by the number of open brackets, for grammars that read indentation.

Why: with indentation, newlines between brackets are ignored, and a bracket closes only one that is open. The core
counts brackets while it reads. But a rule may have no text in a context: `")"` where no bracket is open, or a block
between brackets. The parser must know that before it offers the rule's first symbol, as for any rule without a text.
Invariant: the language stays the same. A rule is copied for each number of brackets open before it and each change of
that number, and kept where it has a text. A grammar stays as it is if a rule may open or close any number of brackets,
or if no rule is impossible in a context.
Cost: linear in the productions for each count that matters. In most grammars the only counts are "none" and "some".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Brackets", "with_brackets"]

Production = tuple[int, ...]
"""A rule, then its symbols: rules, and terminals as negative numbers."""
RuleContext = tuple[int, int, int]
"""A rule, the number of open brackets where it begins, and the change of that number by its text."""
Body = tuple["RuleContext | int", ...]

_MOST = 8
"""The most brackets by which a rule may change the count, or that it may close without having opened them."""
_MOST_GROWTH = 4
"""The most copies of productions, as a multiple of the productions as written."""


@dataclass(frozen=True, slots=True)
class Brackets:
    """The terminals that matter to indentation."""

    opening: frozenset[int]
    closing: frozenset[int]
    outside: frozenset[int]
    """Terminals that are read only where no bracket is open."""

    def change(self, terminal: int) -> int:
        """Return by how much a terminal changes the number of open brackets."""
        return (terminal in self.opening) - (terminal in self.closing)


def with_brackets(
    start: int, rules: Sequence[str], productions: Sequence[Production], brackets: Brackets
) -> tuple[int, tuple[str, ...], tuple[Production, ...]]:
    """Return the start, the names of the rules, and the productions, copied by context where that matters."""
    unchanged = start, tuple(rules), tuple(productions)
    used = _useful_by_rule(start, productions)
    changes = _changes(used, brackets)
    if changes is None:
        return unchanged
    contexts = _ContextProductions(used, brackets, changes, _most_closed(used, brackets, changes))
    starts = [(start, 0, change) for change in sorted(changes.get(start, ()))]
    if not contexts.find(starts):
        return unchanged
    kept = _useful(starts, contexts.bodies)
    if all(context in kept for context in starts) and all(
        len(bodies) == contexts.tried[context] for context, bodies in kept.items()
    ):
        return unchanged
    number = {context: i for i, context in enumerate(kept, 1)}
    numbered = tuple(
        (number[context], *(s if isinstance(s, int) else number[s] for s in body))
        for context, bodies in kept.items()
        for body in bodies
    )
    begin = tuple((0, number[context]) for context in starts if context in kept)
    return 0, (rules[start], *(rules[context[0]] for context in kept)), begin + numbered


def _useful_by_rule(start: int, productions: Sequence[Production]) -> dict[int, list[Production]]:
    """Return the productions of each rule that take part in the derivation of some text."""
    bodies: dict[RuleContext, list[Body]] = {}
    for head, *body in productions:
        bodies.setdefault((head, 0, 0), []).append(tuple((s, 0, 0) if s >= 0 else s for s in body))
    return {
        rule: [(rule, *(s if isinstance(s, int) else s[0] for s in body)) for body in kept]
        for (rule, _, _), kept in _useful([(start, 0, 0)], bodies).items()
    }


def _changes(used: dict[int, list[Production]], brackets: Brackets) -> dict[int, frozenset[int]] | None:
    """Return by how much each rule may change the number of open brackets; None if that has no bound."""
    known: dict[int, frozenset[int]] = dict.fromkeys(used, frozenset())
    changed = True
    while changed:
        changed = False
        for rule, productions in used.items():
            sums = set(known[rule])
            for _, *body in productions:
                totals = {0}
                for symbol in body:
                    changes = known[symbol] if symbol >= 0 else (brackets.change(symbol),)
                    totals = {total + change for total in totals for change in changes}
                sums |= totals
            if len(sums) > len(known[rule]):
                if max(map(abs, sums)) > _MOST:
                    return None
                known[rule] = frozenset(sums)
                changed = True
    return known


def _most_closed(
    used: dict[int, list[Production]], brackets: Brackets, changes: dict[int, frozenset[int]]
) -> int:
    """Return how many brackets a rule closes at most that it has not opened; more than `_MOST` for any number."""
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


class _ContextProductions:
    """The productions in all reachable contexts, without those that need a terminal that cannot be read there.

    Open brackets are counted up to the most that any rule closes, and at most up to `_MOST`.
    """

    def __init__(
        self,
        used: dict[int, list[Production]],
        brackets: Brackets,
        changes: dict[int, frozenset[int]],
        most_closed: int,
    ) -> None:
        self._useful_by_rule = used
        self._brackets = brackets
        self._changes = changes
        self._many = min(most_closed, _MOST) + 1
        self._all_closed = most_closed > _MOST  # whether the brackets beyond the count may all be closed
        self.bodies: dict[RuleContext, list[Body]] = {}
        self.tried: dict[RuleContext, int] = {}
        """How many productions there would be if every terminal could be read."""

    def find(self, starts: Sequence[RuleContext]) -> bool:
        """Find the productions from the starts on. Return False if there are too many."""
        room = _MOST_GROWTH * sum(map(len, self._useful_by_rule.values())) + 100
        pending = list(starts)
        while pending:
            context = pending.pop()
            if context in self.bodies:
                continue
            bodies = self.bodies[context] = []
            self.tried[context] = 0
            for _, *symbols in self._useful_by_rule[context[0]]:
                if math.prod(len(self._changes[symbol]) for symbol in symbols if symbol >= 0) > room:
                    return False
                for body in self._at(context, symbols):
                    room -= 1
                    self.tried[context] += 1
                    if body is not None:
                        bodies.append(body)
                        pending += (symbol for symbol in body if not isinstance(symbol, int))
        return True

    def _at(self, context: RuleContext, symbols: Sequence[int]) -> Iterator[Body | None]:
        """Yield the bodies whose symbols change the count as the context says; None for one that cannot be read."""
        _, before, change = context
        partial: list[tuple[int, Body | None]] = [(0, ())]
        for symbol in symbols:
            changes = sorted(self._changes[symbol]) if symbol >= 0 else [self._brackets.change(symbol)]
            partial = [
                (so_far + more, self._read(before, so_far, body, symbol, more))
                for so_far, body in partial
                for more in changes
            ]
        return (body for so_far, body in partial if so_far == change)

    def _read(self, before: int, so_far: int, body: Body | None, symbol: int, more: int) -> Body | None:
        counted = before < self._many
        here = before + so_far
        if body is None or (counted and here + more < 0):
            return None
        if symbol < 0:
            at_zero = here == 0 if counted else self._all_closed
            return None if symbol in self._brackets.outside and not at_zero else (*body, symbol)
        return (*body, (symbol, min(here, self._many) if counted else self._many, more))


def _useful(
    starts: Sequence[RuleContext], bodies: dict[RuleContext, list[Body]]
) -> dict[RuleContext, list[Body]]:
    """Return the contexts that take part in the derivation of some text, with their bodies that do."""
    uses: dict[RuleContext, list[tuple[RuleContext, int]]] = {}
    missing: dict[tuple[RuleContext, int], int] = {}
    for context, alternatives in bodies.items():
        for i, body in enumerate(alternatives):
            needed = [symbol for symbol in body if not isinstance(symbol, int)]
            missing[context, i] = len(needed)
            for symbol in needed:
                uses.setdefault(symbol, []).append((context, i))
    good = {context for (context, _), count in missing.items() if count == 0}
    pending = list(good)
    while pending:
        for use in uses.get(pending.pop(), ()):
            missing[use] -= 1
            if missing[use] == 0 and use[0] not in good:
                good.add(use[0])
                pending.append(use[0])
    kept: dict[RuleContext, list[Body]] = {}
    pending = [context for context in reversed(starts) if context in good]
    while pending:
        context = pending.pop()
        if context in kept:
            continue
        kept[context] = [body for i, body in enumerate(bodies[context]) if missing[context, i] == 0]
        pending += (symbol for body in kept[context] for symbol in body if not isinstance(symbol, int))
    return kept

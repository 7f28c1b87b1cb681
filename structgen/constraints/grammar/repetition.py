"""Repetitions of repetitions as one: each text of it is then counted in one way.

Why: `(x*)*` says no more than `x*`, but lowered as written every text of it can be cut in as many ways as there are
places between its parts, and a parser keeps all of them open.
Invariant: the body stays the same language.
Cost: linear in the body and in the rules that are taken apart, which are not many for one repetition. Which rules have
the empty text is found out when it is first asked.

Follows the star normal form of Brüggemann-Klein, "Regular expressions into finite automata" (1993), with rules seen
through where they have the empty text.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from structgen.constraints.expressions import nullable

from .bodies import EMPTY
from .ir import Body, Grammar
from .regular import used_rules

__all__ = ["Repetitions"]

_NO_TEXT: Body = ("choice", ())
_MOST_PARTS = 100
"""More are not looked for: rules that are met then stay as they are."""


class Repetitions:
    """Of one grammar."""

    def __init__(self, grammar: Grammar) -> None:
        self._bodies = {rule.name: rule.body for rule in grammar.rules}
        self._settled: set[str] = set()
        self._empty_rules: set[str] = set()
        """Of those that are settled, the ones that have the empty text."""

    def simplified(self, body: Body) -> Body:
        """A repetition as a body that does not repeat what is a repetition itself, as far as that goes."""
        inner, low, high = _counted(body)
        if high is not None and high < low:
            return _NO_TEXT
        if inner[0] == "terminal" and (low, high) != (1, 1):
            return body
        while (inner := _alone(inner))[0] == "repeat":
            repeated, inner_low, inner_high = _counted(inner)
            counts = _product(inner_low, inner_high, low, high)
            if counts is None:
                break
            inner, (low, high) = repeated, counts
        if high is None and (low <= 1 or self._has_empty(inner)):
            return self._without_bound(inner, low)
        # subtle: not where a rule is why `inner` has the empty text, since that may be because of this option.
        if (low, high) == (1, 1) or ((low, high) == (0, 1) and self._is_empty(inner, set())):
            return inner
        return ("repeat", inner, low, high)

    def _without_bound(self, inner: Body, low: int) -> Body:
        if self._has_empty(inner):
            low = 0
        parts = tuple(self._parts(inner))
        if not parts:
            return EMPTY if low == 0 else _NO_TEXT
        return ("repeat", parts[0] if len(parts) == 1 else ("choice", parts), low, None)

    def _parts(self, body: Body) -> dict[Body, None]:
        """Bodies of which any number, one after the other, are as much as any number of `body`.

        Where every part of a sequence has the empty text, each of them can be written alone.
        """
        parts: dict[Body, None] = {}
        taken_apart: set[str] = set()
        pending = [body]
        while pending:
            one = _alone(pending.pop())
            kind = one[0]
            if kind == "choice" or (kind == "sequence" and self._has_empty(one)):
                pending += reversed(one[1])
            elif kind == "repeat" and one[3] is not None and one[3] < max(one[2], 1):
                continue  # the empty text, or none
            elif kind == "repeat" and one[2] <= 1:
                pending.append(one[1])
            elif kind == "rule" and one[1] in taken_apart:
                continue
            elif (
                kind == "rule"
                and len(parts) + len(pending) + len(taken_apart) < _MOST_PARTS
                and self._has_empty(one)
            ):
                taken_apart.add(one[1])
                pending.append(self._bodies[one[1]])
            else:
                parts[one] = None
        return parts

    def _has_empty(self, body: Body) -> bool:
        """Is the empty text known to be one of its texts?"""
        if not self._is_empty(body, _EVERY):
            return False
        self._settle(used_rules(body))
        return self._is_empty(body, self._empty_rules)

    def _is_empty(self, body: Body, rules: Container[str]) -> bool:
        kind = body[0]
        if kind == "terminal":
            return False
        if kind == "rule":
            return body[1] in rules
        if kind == "text":
            return nullable(body[1]) is True
        if kind == "sequence":
            return all(part[0] != "terminal" and self._is_empty(part, rules) for part in body[1])
        if kind == "choice":
            return any(self._is_empty(part, rules) for part in body[1])
        if kind != "repeat" or (body[3] is not None and body[3] < body[2]):
            return False
        return body[2] == 0 or self._is_empty(body[1], rules)

    def _settle(self, names: Iterable[str]) -> None:
        """Finds out which of these rules have the empty text."""
        # Most rules have a terminal in each alternative: there the search ends.
        open_rules: dict[str, Body] = {}
        users: dict[str, list[str]] = {}
        pending = list(names)
        while pending:
            name = pending.pop()
            if name in self._settled or name in open_rules:
                continue
            body = self._bodies.get(name, _NO_TEXT)
            if not self._is_empty(body, _EVERY):
                self._settled.add(name)
                continue
            open_rules[name] = body
            for used in used_rules(body):
                users.setdefault(used, []).append(name)
                pending.append(used)
        self._settled.update(open_rules)
        pending = list(open_rules)
        while pending:
            name = pending.pop()
            if name not in self._empty_rules and self._is_empty(open_rules[name], self._empty_rules):
                self._empty_rules.add(name)
                pending += users.get(name, ())


class _Every:
    """All rules."""

    def __contains__(self, name: object) -> bool:
        return True


_EVERY = _Every()


def _counted(body: Body) -> tuple[Body, int, int | None]:
    """What a repetition repeats, and how often."""
    return body[1], body[2], body[3]


def _alone(body: Body) -> Body:
    """Without sequences and choices of one."""
    while body[0] in ("sequence", "choice") and len(body[1]) == 1:
        body = body[1][0]
    return body


def _product(
    inner_low: int, inner_high: int | None, low: int, high: int | None
) -> tuple[int, int | None] | None:
    """The counts of `low` to `high` rounds of `inner_low` to `inner_high`; None where there are gaps between them."""
    if inner_high is not None and inner_high < inner_low:
        return None
    if low == high:
        touch = True
    elif inner_high is None:
        touch = low > 0 or inner_low <= 1
    else:
        touch = (low + 1) * inner_low <= low * inner_high + 1
    if not touch:
        return None
    if high == 0 or inner_high == 0:
        return low * inner_low, 0
    return low * inner_low, None if high is None or inner_high is None else high * inner_high

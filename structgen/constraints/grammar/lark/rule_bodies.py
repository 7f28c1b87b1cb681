"""Convert the bodies of a Lark grammar's rules, and compute which terminals may follow one another.

Why: bodies over lark's terminals become bodies over those of the IR. Which terminals may follow decides whether a
look-ahead matters (`lookahead`).
Invariant: a body keeps lark's meaning. `Following` may contain too many terminals, never too few.
Cost: linear in the grammar; `Following` is linear in the grammar times the number of terminals, since a rule is visited
again only after one that it uses has grown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from structgen.ir.grammar import Body

from ..bodies import EMPTY, choice_of, sequence_of
from ..regular import used_rules
from .lark_loader import Loaded

__all__ = ["Following", "optional", "rule_bodies"]


def optional(body: Body) -> Body:
    """Return the body, or nothing."""
    return ("repeat", body, 0, 1)


def rule_bodies(
    loaded: Loaded, terminals: Mapping[str, Body], placeholders: Mapping[str, Body]
) -> dict[str, Body]:
    """Return the body of each rule.

    Args:
        loaded: The grammar.
        terminals: The body of each of lark's terminals.
        placeholders: The bodies of rules that replace extensions.
    """
    known = {
        **terminals,
        **{text: terminals[name] for text, name in loaded.literals.items() if name in terminals},
    }

    def body(part: Body) -> Body:
        kind = part[0]
        if kind == "sequence":  # a fast path, since most items are terminals
            return sequence_of([known[item[1]] if item[0] == "terminal" else body(item) for item in part[1]])
        if kind == "terminal":
            return known[part[1]]
        if kind == "rule":
            return placeholders.get(part[1]) or part
        if kind == "choice":
            return choice_of([body(item) for item in part[1]])
        low, high = part[2], part[3]
        if high == 0:
            return EMPTY
        return body(part[1]) if (low, high) == (1, 1) else ("repeat", body(part[1]), low, high)

    return {name: body(inner) for name, inner in loaded.rules.items()}


@dataclass
class _Ends:
    """The first and last terminals of a body, and whether it may be empty."""

    first: set[str] = field(default_factory=set)
    last: set[str] = field(default_factory=set)
    empty: bool = False

    def size(self) -> int:
        """Return a number that grows whenever the sets do."""
        return len(self.first) + len(self.last) + self.empty


OTHER = ""
"""Represents a text of another constraint, which may begin with any character."""


class Following:
    """The terminals that may follow one another; `silent` are those that may occur without being in a rule."""

    def __init__(self, bodies: Mapping[str, Body], silent: Iterable[str]) -> None:
        self.silent = frozenset(silent)
        self.rules = {name: _Ends() for name in bodies}
        users: dict[str, list[str]] = {name: [] for name in bodies}
        for name, body in bodies.items():
            for used in used_rules(body) & users.keys():
                users[used].append(name)
        pending = dict.fromkeys(bodies)
        while pending:
            name, _ = pending.popitem()
            now = self._ends(bodies[name], None)
            if now.size() != self.rules[name].size():
                self.rules[name] = now
                pending.update(dict.fromkeys(users[name]))
        self.pairs: dict[str, set[str]] = {}
        for body in bodies.values():
            self._ends(body, self._note)

    def after(self, names: Iterable[str]) -> frozenset[str] | None:
        """Return the terminals that may follow any of these; None if any text may."""
        terminals: set[str] = set(self.silent)
        for name in names:
            if name in self.silent:
                return None
            terminals |= self.pairs.get(name, set())
        return None if OTHER in terminals else frozenset(terminals)

    def _note(self, before: set[str], after: set[str]) -> None:
        for name in before:
            self.pairs.setdefault(name, set()).update(after)

    def _ends(self, body: Body, note: Callable[[set[str], set[str]], None] | None) -> _Ends:
        kind = body[0]
        if kind == "rule":
            return self.rules[body[1]]
        if kind == "terminal":
            return _Ends({body[1]}, {body[1]})
        if kind in ("special", "tokens"):  # they separate lexemes, so nothing follows across them
            return _Ends()
        if kind == "constraint":
            return _Ends({OTHER}, {OTHER}, True)
        if kind == "repeat":
            inner = self._ends(body[1], note)
            if note and (body[3] is None or body[3] > 1):
                note(inner.last, inner.first)
            return _Ends(inner.first, inner.last, inner.empty or body[2] == 0)
        parts = [self._ends(part, note) for part in body[1]]
        if kind == "choice":
            first = set[str]().union(*(part.first for part in parts))
            last = set[str]().union(*(part.last for part in parts))
            return _Ends(first, last, any(part.empty for part in parts))
        result = _Ends(empty=True)
        for part in parts:
            if note:
                note(result.last, part.first)
            if result.empty:
                result.first = result.first | part.first
            result.last = result.last | part.last if part.empty else part.last
            result.empty = result.empty and part.empty
        return result

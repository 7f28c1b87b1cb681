r"""Atomic groups and possessive quantifiers, as look-arounds.

Why: ``(?>B)`` takes the match of B that a backtracking engine finds first, and never another one. Which one that is
depends on the text after it, but only by conditions that a look-ahead can state: an alternative is taken where the
ones before it, followed by the rest of the group, do not match; a greedy loop ends where no further round matches.
Invariant: the result holds exactly for the texts that ``re.fullmatch`` matches. What cannot be stated exactly is
refused: loops whose rounds may be empty, and counts that would have to be written out too often.
Cost: each alternative and each loop inside an atomic group copies what follows it there; `_SIZE` bounds the result.
Source: J. Friedl, "Mastering Regular Expressions", chapter 4 (atomic grouping); CPython 3.11, Modules/_sre/sre_lib.h.

    Node = RE without "alternate" and "repeat", and
           ("ordered", (Node, ...)) | ("quantified", Node, lo, hi or None, mode, position, end)
                                      where `mode` is "", "?" or "+"
         | ("group", number, Node) | ("atomic", Node, position, end)
         | ("cases", (Node, ...)) | ("reference", ...)                             of `references`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from structgen import _core
from structgen.constraints.expressions import (
    ANY,
    EPSILON,
    NOTHING,
    RE,
    TEXT,
    alternate,
    concat,
    has_look,
    nullable,
    repeat,
    tree_size,
)

__all__ = ["Node", "Resolver", "plain_language", "same_language"]

Node = tuple[Any, ...]

_SIZE = 20_000
"""Nodes of the expression of an atomic group."""
_ROUNDS = 64
"""Counts up to which the rounds of a loop are written out."""
_STATES = 2_000
"""States that are visited to find that atomic groups change nothing."""

Refuse = Callable[[Node, str], Exception]
"""Makes the error for an atomic group that is refused for a reason."""


class Resolver:
    """Makes an expression of the nodes of one pattern."""

    def __init__(self, refuse: Refuse) -> None:
        self._refusal = refuse
        self._atomic: list[Node] = []  # those that are open, the innermost last
        self._known: dict[int, tuple[Node, RE]] = {}
        self._sizes: dict[int, int] = {}
        self._kept: list[RE] = []  # whose ids are keys of `_sizes`
        self._is_code: dict[int, tuple[RE, bool]] = {}

    def resolve(self, node: Node) -> RE:
        """All texts of the node, where atomic groups take their first match."""
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = node, self._resolved(node)
        return known[1]

    def _resolved(self, node: Node) -> RE:
        kind = node[0]
        if kind == "concat":
            return concat(map(self.resolve, node[1]))
        if kind in ("ordered", "cases"):
            return alternate(list(map(self.resolve, node[1])))
        if kind == "group":
            return self.resolve(node[2])
        if kind == "atomic":
            return self._taken(node, lambda: self._first(node[1], EPSILON))
        if kind == "look":
            return (*node[:3], self.resolve(node[3]))
        if kind != "quantified":
            return node
        _, body, low, high, mode, *_ = node
        if mode == "+":
            return self._taken(node, lambda: self._possessive(body, low, high))
        return repeat(self.resolve(body), low, high)

    def _taken(self, node: Node, make: Callable[[], RE]) -> RE:
        self._atomic.append(node)
        made = self._measured(make())
        self._atomic.pop()
        return made

    def _refuse(self, reason: str) -> Exception:
        return self._refusal(self._atomic[-1], reason)

    def _possessive(self, body: Node, low: int, high: int | None) -> RE:
        """``(?>body{low,high})``.

        subtle: CPython matches each round by itself and for good. Its documentation makes the rounds one atomic group,
        in which an early round may match otherwise so that enough rounds match. The two differ only where a round has
        several matches and more than one round is needed.
        """
        inner = self.resolve(body)
        if low > 1 and not self._has_one_match(inner):
            raise self._refuse("its rounds have several matches, and at least two are needed")
        return self._first(("quantified", body, low, high, ""), EPSILON)

    # -- the first match

    def _first(self, node: Node, after: RE) -> RE:
        """The first match of the node after which `after` matches, the rest of the atomic group."""
        kind = node[0]
        if kind == "concat":
            return self._first_of_sequence(node[1], after)
        if kind in ("ordered", "cases"):
            return self._first_of_alternatives(node[1], after)
        if kind == "group":
            return self._first(node[2], after)
        if kind == "quantified" and node[4] != "+":
            return self._first_of_rounds(*node[1:4], lazy=node[4] == "?", after=after)
        return self.resolve(node)

    def _first_of_sequence(self, parts: Sequence[Node], after: RE) -> RE:
        made: list[RE] = []
        for part in reversed(parts):
            made.append(self._first(part, after))
            after = self._measured(concat([self.resolve(part), after]))
        return concat(reversed(made))

    def _first_of_alternatives(self, branches: Sequence[Node], after: RE) -> RE:
        ways: list[RE] = []
        earlier: list[RE] = []
        for branch in branches:
            way = self._first(branch, after)
            if earlier:
                way = concat([_never(concat([alternate(list(earlier)), after])), way])
            ways.append(way)
            earlier.append(self.resolve(branch))
        return self._measured(alternate(ways))

    def _first_of_rounds(self, body: Node, low: int, high: int | None, *, lazy: bool, after: RE) -> RE:
        if low == 0 and high == 1:
            choices = (EPSILON, body) if lazy else (body, EPSILON)
            return self._first_of_alternatives(choices, after)
        inner = self.resolve(body)
        if low == high == 0:
            return EPSILON
        if nullable(inner) is not False:
            raise self._refuse("a round of a loop in it may be empty")
        one_match = self._has_one_match(inner)
        rounds = repeat(inner, 0, None if high is None else high - low)
        required = self._required(body, inner, low, concat([rounds, after]), one_match)
        if high is None:
            again = concat([inner, rounds, after])
            step = inner if one_match else self._first(body, concat([rounds, after]))
            if lazy:
                optional = repeat(concat([_never(after), step]), 0, None)
            else:
                optional = concat([repeat(step, 0, None), _never(again)])
        elif one_match and after == EPSILON:
            most = high - low
            full, short = (
                repeat(inner, most, most),
                concat([repeat(inner, 0, max(most - 1, 0)), _never(inner)]),
            )
            optional = EPSILON if lazy or not most else alternate([full, short])
        else:
            optional = self._optional(body, inner, high - low, after, lazy)
        return self._measured(concat([required, optional]))

    def _required(self, body: Node, inner: RE, count: int, after: RE, one_match: bool) -> RE:
        """The first `count` rounds, which are not optional."""
        if one_match or not count:
            return repeat(inner, count, count)
        self._check_rounds(count)
        parts: list[RE] = []
        for _ in range(count):
            parts.append(self._first(body, after))
            after = self._measured(concat([inner, after]))
        return concat(reversed(parts))

    def _optional(self, body: Node, inner: RE, count: int, after: RE, lazy: bool) -> RE:
        """Up to `count` rounds, written out from the last one."""
        self._check_rounds(count)
        made = EPSILON
        for left in range(count):
            rest = concat([repeat(inner, 0, left), after])
            step = self._first(body, rest)
            if lazy:
                made = alternate([EPSILON, concat([_never(after), step, made])])
            else:
                made = alternate([concat([step, made]), _never(concat([inner, rest]))])
            self._measured(made)
        return made

    def _check_rounds(self, count: int) -> None:
        if count > _ROUNDS:
            raise self._refuse(f"a loop in it has more than {_ROUNDS} rounds that depend on one another")

    def _has_one_match(self, inner: RE) -> bool:
        """Does no text of it begin with another one? Then a place has one match at most."""
        known = self._is_code.get(id(inner))
        if known is None:
            longer = concat([inner, ANY, TEXT])
            known = self._is_code[id(inner)] = inner, not has_look(inner) and _are_apart(inner, longer)
        return known[1]

    def _measured(self, made: RE) -> RE:
        # subtle: each object is measured once, or shared parts would be walked exponentially often.
        self._kept.append(made)
        if tree_size(made, self._sizes) > _SIZE:
            raise self._refuse("it has too many alternatives and loops that depend on one another")
        return made


def _never(what: RE) -> RE:
    """What follows does not begin so."""
    return NOTHING if nullable(what) is True else ("look", True, True, what)


def _are_apart(one: RE, other: RE) -> bool:
    """Have they surely no text in common?"""
    try:
        space = _core.RegexSpace(emptiness_budget=_STATES)
        return not space.alive(space.intersect(space.compile(one), space.compile(other)))
    except _core.LimitError:
        return False


def plain_language(node: Node) -> RE:
    """The texts of a node where atomic groups are ordinary ones."""
    kind = node[0]
    if kind == "concat":
        return concat(map(plain_language, node[1]))
    if kind in ("ordered", "cases"):
        return alternate(list(map(plain_language, node[1])))
    if kind == "group":
        return plain_language(node[2])
    if kind == "atomic":
        return plain_language(node[1])
    if kind == "look":
        return (*node[:3], plain_language(node[3]))
    return repeat(plain_language(node[1]), node[2], node[3]) if kind == "quantified" else node


def same_language(one: RE, other: RE) -> bool:
    """Have they surely the same texts?"""
    try:
        space = _core.RegexSpace(emptiness_budget=_STATES)
        first, second = space.compile(one), space.compile(other)
        return not space.alive(space.intersect(first, space.complement(second))) and not space.alive(
            space.intersect(second, space.complement(first))
        )
    except _core.LimitError:
        return False

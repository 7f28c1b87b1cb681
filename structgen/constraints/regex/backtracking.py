"""Translate atomic groups and possessive quantifiers into look-arounds.

Why: ``(?>B)`` matches the first match of B that a backtracking engine finds, and no other. Which one that is
depends on the following text, but only by conditions that a look-ahead can express. An alternative is taken if the
earlier ones, followed by the rest of the group, do not match. A greedy loop ends if no further round matches.

Invariant: the result holds exactly for the texts that ``re.fullmatch`` matches. What cannot be expressed exactly is
refused: loops whose rounds may be empty, and counts that would have to be unrolled too often.

Cost: each alternative and each loop inside an atomic group copies what follows it there; `_MAX_NODES` bounds the
result.

Source: J. Friedl, "Mastering Regular Expressions", chapter 4 (atomic grouping); CPython 3.11,
Modules/_sre/sre_lib.h.

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

_MAX_NODES = 20_000
"""Limit on the nodes of the expression of an atomic group."""
_MAX_UNROLLED_ROUNDS = 64
"""Limit on the count of a loop whose rounds are unrolled."""
_MAX_STATES = 2_000
"""Limit on the states that are visited to prove that atomic groups change nothing."""

Refuse = Callable[[Node, str], Exception]
"""Makes the error for an atomic group that is refused, with the reason."""


class Resolver:
    """Translates the nodes of one pattern into an expression."""

    def __init__(self, refuse: Refuse) -> None:
        self._refusal = refuse
        self._atomic: list[Node] = []  # the open ones, the innermost last
        self._known: dict[int, tuple[Node, RE]] = {}
        self._sizes: dict[int, int] = {}
        self._keep_alive: list[RE] = []  # expressions whose ids are keys of `_sizes`
        self._one_match_cache: dict[int, tuple[RE, bool]] = {}

    def resolve(self, node: Node) -> RE:
        """Return all texts of the node, with atomic groups restricted to their first match."""
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = node, self._resolve_new(node)
        return known[1]

    def _resolve_new(self, node: Node) -> RE:
        kind = node[0]
        if kind == "concat":
            return concat(map(self.resolve, node[1]))
        if kind in ("ordered", "cases"):
            return alternate(list(map(self.resolve, node[1])))
        if kind == "group":
            return self.resolve(node[2])
        if kind == "atomic":
            return self._resolve_atomic(node, lambda: self._first_match(node[1], EPSILON))
        if kind == "look":
            return (*node[:3], self.resolve(node[3]))
        if kind != "quantified":
            return node
        _, body, low, high, mode, *_ = node
        if mode == "+":
            return self._resolve_atomic(node, lambda: self._possessive(body, low, high))
        return repeat(self.resolve(body), low, high)

    def _resolve_atomic(self, node: Node, make: Callable[[], RE]) -> RE:
        self._atomic.append(node)
        result = self._check_size(make())
        self._atomic.pop()
        return result

    def _refuse(self, reason: str) -> Exception:
        return self._refusal(self._atomic[-1], reason)

    def _possessive(self, body: Node, low: int, high: int | None) -> RE:
        """Return ``(?>body{low,high})``.

        subtle: CPython matches each round by itself and does not backtrack into it. Its documentation describes the
        rounds as one atomic group, in which an early round may match differently so that enough rounds match. The
        two differ only if a round has several matches and more than one round is required.
        """
        inner = self.resolve(body)
        if low > 1 and not self._has_one_match(inner):
            raise self._refuse("its rounds have several matches, and at least two rounds are required")
        return self._first_match(("quantified", body, low, high, ""), EPSILON)

    # -- the first match

    def _first_match(self, node: Node, after: RE) -> RE:
        """Return the first match of the node that is followed by `after`, the rest of the atomic group."""
        kind = node[0]
        if kind == "concat":
            return self._first_of_sequence(node[1], after)
        if kind in ("ordered", "cases"):
            return self._first_of_alternatives(node[1], after)
        if kind == "group":
            return self._first_match(node[2], after)
        if kind == "quantified" and node[4] != "+":
            return self._first_of_rounds(*node[1:4], lazy=node[4] == "?", after=after)
        return self.resolve(node)

    def _first_of_sequence(self, parts: Sequence[Node], after: RE) -> RE:
        result: list[RE] = []
        for part in reversed(parts):
            result.append(self._first_match(part, after))
            after = self._check_size(concat([self.resolve(part), after]))
        return concat(reversed(result))

    def _first_of_alternatives(self, branches: Sequence[Node], after: RE) -> RE:
        alternatives: list[RE] = []
        earlier: list[RE] = []
        for branch in branches:
            branch_match = self._first_match(branch, after)
            if earlier:
                branch_match = concat(
                    [_not_followed_by(concat([alternate(list(earlier)), after])), branch_match]
                )
            alternatives.append(branch_match)
            earlier.append(self.resolve(branch))
        return self._check_size(alternate(alternatives))

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
        required = self._required_rounds(body, inner, low, concat([rounds, after]), one_match)
        if high is None:
            again = concat([inner, rounds, after])
            step = inner if one_match else self._first_match(body, concat([rounds, after]))
            if lazy:
                optional = repeat(concat([_not_followed_by(after), step]), 0, None)
            else:
                optional = concat([repeat(step, 0, None), _not_followed_by(again)])
        elif one_match and after == EPSILON:
            most = high - low
            full, short = (
                repeat(inner, most, most),
                concat([repeat(inner, 0, max(most - 1, 0)), _not_followed_by(inner)]),
            )
            optional = EPSILON if lazy or not most else alternate([full, short])
        else:
            optional = self._optional_rounds(body, inner, high - low, after, lazy)
        return self._check_size(concat([required, optional]))

    def _required_rounds(self, body: Node, inner: RE, count: int, after: RE, one_match: bool) -> RE:
        """Return the first `count` rounds, which are not optional."""
        if one_match or not count:
            return repeat(inner, count, count)
        self._check_rounds(count)
        parts: list[RE] = []
        for _ in range(count):
            parts.append(self._first_match(body, after))
            after = self._check_size(concat([inner, after]))
        return concat(reversed(parts))

    def _optional_rounds(self, body: Node, inner: RE, count: int, after: RE, lazy: bool) -> RE:
        """Return up to `count` rounds, unrolled from the last one."""
        self._check_rounds(count)
        result = EPSILON
        for left in range(count):
            rest = concat([repeat(inner, 0, left), after])
            step = self._first_match(body, rest)
            if lazy:
                result = alternate([EPSILON, concat([_not_followed_by(after), step, result])])
            else:
                result = alternate([concat([step, result]), _not_followed_by(concat([inner, rest]))])
            self._check_size(result)
        return result

    def _check_rounds(self, count: int) -> None:
        if count > _MAX_UNROLLED_ROUNDS:
            raise self._refuse(
                f"a loop in it has more than {_MAX_UNROLLED_ROUNDS} rounds that depend on one another"
            )

    def _has_one_match(self, inner: RE) -> bool:
        """Return whether no text of it is a prefix of another one, so that a position has at most one match."""
        known = self._one_match_cache.get(id(inner))
        if known is None:
            longer = concat([inner, ANY, TEXT])
            known = self._one_match_cache[id(inner)] = (
                inner,
                not has_look(inner) and _are_disjoint(inner, longer),
            )
        return known[1]

    def _check_size(self, result: RE) -> RE:
        # subtle: each object is measured once; otherwise shared parts would be visited exponentially often.
        self._keep_alive.append(result)
        if tree_size(result, self._sizes) > _MAX_NODES:
            raise self._refuse("it has too many alternatives and loops that depend on one another")
        return result


def _not_followed_by(what: RE) -> RE:
    """Return the condition that the following text does not start with a match."""
    return NOTHING if nullable(what) is True else ("look", True, True, what)


def _are_disjoint(first: RE, second: RE) -> bool:
    """Return whether it is proven that the languages have no text in common."""
    try:
        space = _core.RegexSpace(emptiness_budget=_MAX_STATES)
        return not space.alive(space.intersect(space.compile(first), space.compile(second)))
    except _core.LimitError:
        return False


def plain_language(node: Node) -> RE:
    """Return the texts of a node if atomic groups were ordinary ones."""
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
    """Return whether it is proven that the languages are equal."""
    try:
        space = _core.RegexSpace(emptiness_budget=_MAX_STATES)
        first, second = space.compile(one), space.compile(other)
        return not space.alive(space.intersect(first, space.complement(second))) and not space.alive(
            space.intersect(second, space.complement(first))
        )
    except _core.LimitError:
        return False

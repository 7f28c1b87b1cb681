"""Recognise patterns whose automata have few states, without building them.

Why: a specification that needs no compile probe (`simple_specs`) must have cheap masks for every text, and an automaton
of a pattern may have exponentially many states (``[ab]*a[ab]{30}``).
What: the positions of a pattern are its characters and character classes; `follow` says which position may come after
which (Glushkov's automaton). A state of the deterministic automaton is a set of positions: those that the same text
reaches. A counted class is one position with a counter. If it must repeat at least twice, it must never be entered
again while it is active, since each entry would be one more counter value. (Otherwise one value stands for all.)
Invariant: the deterministic automaton of a simple pattern has at most `_MOST_SETS` sets of positions, with one counter
value for each counted position.
Cost: linear in the pattern; if positions overlap, linear in the sets. Cached by pattern.
Source: V. M. Glushkov, "The abstract theory of automata", 1961.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import prod

from structgen.constraints.expressions import RE
from structgen.constraints.regex import pattern_language
from structgen.errors import LimitExceeded, StructgenError

__all__ = ["simple_pattern_states"]

_LONGEST = 256
"""Characters of a simple pattern."""
_MOST_POSITIONS = 64
_MOST_SETS = 128
_MOST_WORK = 20_000
"""Pairs of characters and positions that are compared to find the sets: some milliseconds."""
_MOST_UNROLLED = 3
"""A class that repeats at most so often is written out, so that it needs no counter."""
_HIGHEST_COUNT = 4_096
_ASCII = 128
_NON_ASCII = 1 << _ASCII
"""The bit that stands for all characters after ASCII."""
_ALL_CHARACTERS = (_NON_ASCII << 1) - 1


class _NotSimple(Exception):
    """The expression has a part that no simple pattern has."""


@lru_cache(maxsize=8192)
def simple_pattern_states(pattern: str) -> int | None:
    """Return a bound on the states of the automaton of a simple pattern; None if the pattern is not simple.

    Args:
        pattern: A pattern of ECMA-262. The automaton accepts the texts in which it is found.

    Raises:
        LimitExceeded: Reading the pattern met a limit of the caller.
    """
    if len(pattern) > _LONGEST:
        return None
    try:
        # subtle: called as the reader of schemas calls it, so both share one cache.
        return _Positions(pattern_language(pattern, "ecma")).states()
    except LimitExceeded:
        raise  # says nothing about the pattern, so it must not be cached
    except (_NotSimple, StructgenError):
        return None


class _Positions:
    """The positions of one expression. Sets of positions are integers: bit i is position i."""

    def __init__(self, expression: RE) -> None:
        self.masks: list[int] = []
        """The characters of each position: a bit for each character of ASCII, and `_NON_ASCII`."""
        self.follow: list[int] = []
        self.counted = 0
        """Positions that must not be entered again while they are active."""
        self.counts: dict[int, int] = {}
        """The highest counter value of each counted position."""
        self._work = 0
        first, _, _ = self._read(expression)
        self.first = first

    def _add(self, mask: int) -> int:
        """Add a position and return it as a set."""
        if len(self.masks) >= _MOST_POSITIONS:
            raise _NotSimple
        self.masks.append(mask)
        self.follow.append(0)
        return 1 << (len(self.masks) - 1)

    def _link(self, sources: int, targets: int) -> None:
        follow = self.follow
        while sources:
            low = sources & -sources
            follow[low.bit_length() - 1] |= targets
            sources ^= low

    def _read(self, node: RE) -> tuple[int, int, bool]:
        """Return the first and the last positions, and whether the empty text matches."""
        kind = node[0]
        if kind == "literal":
            return self._text(node[1])
        if kind == "class":
            own = self._add(_mask(node[1]))
            return own, own, False
        if kind == "any":
            own = self._add(_ALL_CHARACTERS)
            return own, own, False
        if kind == "text":
            own = self._add(_ALL_CHARACTERS)
            self._link(own, own)
            return own, own, True
        if kind == "repeat":
            return self._repeated(node[1], node[2], node[3])
        if kind == "concat":
            return self._concat(node[1])
        if kind in ("alternate", "literals"):
            first = last = 0
            empty = False
            for part in node[1]:
                one = self._text(part) if kind == "literals" else self._read(part)
                first, last, empty = first | one[0], last | one[1], empty or one[2]
            return first, last, empty
        raise _NotSimple

    def _text(self, text: str) -> tuple[int, int, bool]:
        first = last = 0
        for character in text:
            own = self._add(1 << min(ord(character), _ASCII))
            if last:
                self._link(last, own)
            else:
                first = own
            last = own
        return first, last, not text

    def _concat(self, parts: tuple[RE, ...]) -> tuple[int, int, bool]:
        first, last, empty = 0, 0, True
        for part in parts:
            own_first, own_last, own_empty = self._read(part)
            self._link(last, own_first)
            if empty:
                first |= own_first
            last = own_last | last if own_empty else own_last
            empty = empty and own_empty
        return first, last, empty

    def _repeated(self, body: RE, low: int, high: int | None) -> tuple[int, int, bool]:
        if high is None and low <= 1:
            first, last, empty = self._read(body)
            self._link(last, first)
            return first, last, empty or not low
        if high == 1:
            first, last, empty = self._read(body)
            return first, last, empty or not low
        if body[0] not in ("class", "any") and not (body[0] == "literal" and len(body[1]) == 1):
            raise _NotSimple
        if high is not None and high <= _MOST_UNROLLED:
            return self._concat((body,) * low + (("repeat", body, 0, 1),) * (high - low))
        if (high or low) > _HIGHEST_COUNT:
            raise _NotSimple
        own, _, _ = self._read(body)
        self._link(own, own)
        self.counts[len(self.masks) - 1] = high or low
        if low > 1:
            self.counted |= own
        return own, own, not low

    def states(self) -> int:
        """Return a bound on the states. Raises `_NotSimple` if a counter may have several values at a time."""
        if all(map(self._are_disjoint, (self.first, *self.follow))):
            return len(self.masks) + sum(self.counts.values())  # every set has one member
        known_sets: set[int] = set()
        pending = [0]
        while pending:
            active = pending.pop()
            after = 0 if active else self.first  # no position is active before the first character
            for position in _members(active):
                after |= self.follow[position]
            for reached in self._split(after):
                if self._enters_again(active, reached):
                    raise _NotSimple
                if reached not in known_sets:
                    if len(known_sets) >= _MOST_SETS:
                        raise _NotSimple
                    known_sets.add(reached)
                    pending.append(reached)
        return sum(
            prod(self.counts.get(position, 1) for position in _members(active)) for active in known_sets
        )

    def _are_disjoint(self, positions: int) -> bool:
        """Return whether no character belongs to two of these positions."""
        seen = 0
        for position in _members(positions):
            mask = self.masks[position]
            if mask & seen:
                return False
            seen |= mask
        return True

    def _split(self, positions: int) -> set[int]:
        """Return the sets of these positions that have a character in common which no other of them has."""
        parts = [(_ALL_CHARACTERS, 0)]
        for position in _members(positions):
            self._work += len(parts)
            if self._work > _MOST_WORK:
                raise _NotSimple
            mask, own = self.masks[position], 1 << position
            parts = [
                (common, reached | mine)
                for characters, reached in parts
                for common, mine in ((characters & mask, own), (characters & ~mask, 0))
                if common
            ]
        return {reached for _, reached in parts if reached}

    def _enters_again(self, active: int, reached: int) -> bool:
        """Return whether a counted position that is active is entered again from another one."""
        return any(
            self.follow[position] >> counted & 1
            for counted in _members(active & reached & self.counted)
            for position in _members(active)
            if position != counted
        )


def _members(positions: int) -> Iterator[int]:
    while positions:
        low = positions & -positions
        yield low.bit_length() - 1
        positions ^= low


@lru_cache(maxsize=1024)
def _mask(ranges: tuple[tuple[int, int], ...]) -> int:
    found = 0
    for low, high in ranges:
        if high >= _ASCII:
            found |= _NON_ASCII
        if low < _ASCII:
            found |= (1 << (min(high, _ASCII - 1) + 1)) - (1 << low)
    return found

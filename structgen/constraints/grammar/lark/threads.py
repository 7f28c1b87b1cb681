r"""Run the program of a pattern on ordered lists of threads: all continuations from a position, in preference order.

Why: `preferred_match` builds an automaton whose states are such lists. This module defines a list and its step by one
character.
Invariant: a list contains what backtracking would try, in that order and once each. Look-behinds are decided by the
lexeme's own text, and refused if that does not decide them. Look-aheads are obligations until further text decides
them.
Cost: a step is linear in the program; all steps together are limited to `STEPS` threads.
Source: R. Cox, "Regular Expression Matching: the Virtual Machine Approach".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import NamedTuple

from structgen.constraints.expressions import ALL_RANGES, Ranges
from structgen.errors import LimitExceeded, RegexUnsupported

from .pattern_program import Instruction, Program

__all__ = ["FREE", "STEPS", "Node", "Obligations", "Thread", "Threads"]

STEPS = 400_000
"""The most threads that are followed for one pattern."""

_LOOKS, _CALL = 2, 3
"""Costs relative to following a thread: that many tests whether a thread reads a character equal one; a list has this
fixed cost."""

Obligations = frozenset[tuple[bool, frozenset[int]]]
"""Undecided look-aheads: whether each is negative, and the possible positions in its body."""
Thread = tuple[int, Obligations]
LookbehindState = tuple[frozenset[int], frozenset[int]]
"""The positions in the body of a lookbehind that the text before certainly, and possibly, leads to."""
Context = tuple[int | None, tuple[LookbehindState, ...]]
"""The previous character, if a boundary needs it, and the states of the lookbehinds."""

FREE: Obligations = frozenset()


class Node(NamedTuple):
    """A list of threads up to its first match. `end` is the obligations of that match; None if nothing matches."""

    threads: tuple[Thread, ...]
    context: Context
    end: Obligations | None


class Threads:
    """The steps of one program."""

    def __init__(self, program: Program, pattern: str) -> None:
        self.code = list(program.code)
        self.lookbehinds = program.lookbehinds
        self.bounded = any(instruction[0] == "boundary" for instruction in program.code)
        self.pattern = pattern
        self.steps = 0
        self.finders: dict[int, int] = {}
        self.atoms, self.masks = _atoms(program.sets)
        self.contexts: dict[tuple[Context, int], Context] = {}
        first = tuple(
            (self._inside([body]), self._inside(self._everywhere(body))) for body in self.lookbehinds
        )
        self.context: Context = (None, first)
        self.first = self._reach([(program.start, FREE)], self.context)

    # -- lists

    def cut(self, threads: list[Thread], context: Context) -> Node:
        """Return the list up to its first match, since `re` does not try threads after it."""
        for index, (place, obligations) in enumerate(threads):
            if self.code[place][0] == "match":
                return Node(tuple(threads[:index]), context if index else self.context, obligations)
        return Node(tuple(threads), context if threads else self.context, None)

    def split(self, threads: list[Thread]) -> tuple[frozenset[Thread], frozenset[Obligations]]:
        """Return all threads that read on, and the obligations of each match."""
        going = frozenset(thread for thread in threads if self.code[thread[0]][0] == "char")
        return going, frozenset(
            obligations for place, obligations in threads if self.code[place][0] == "match"
        )

    def moved(self, threads: Collection[Thread], before: Context, atom: int) -> tuple[list[Thread], Context]:
        """Return the list after one more character, not cut, and its context."""
        roots: list[Thread] = []
        self._spend(_CALL + len(threads) // _LOOKS)
        for place, obligations in threads:
            _, members, after = self.code[place]
            if self.masks[members] >> atom & 1:
                remaining = self.advance_obligations(obligations, atom) if obligations else obligations
                if remaining is not None:
                    roots.append((after, remaining))
        if not roots:
            return [], self.context
        context = self._context_after(before, atom)
        return self._reach(roots, context), context

    def next(self, node: Node, atom: int) -> Node:
        """Return the node after one more character."""
        return self.cut(*self.moved(node.threads, node.context, atom))

    def advance_obligations(self, obligations: Obligations, atom: int) -> Obligations | None:
        """Return the obligations after one more character; None if it violates one."""
        remaining = FREE
        for negative, places in obligations:
            now = self._add_obligation(remaining, negative, self._inside(self._after(places, atom)))
            if now is None:
                return None
            remaining = now
        return remaining

    # -- one step

    def _spend(self, amount: int) -> None:
        self.steps += amount
        if self.steps > STEPS:
            raise LimitExceeded(
                "determining which match of the pattern re prefers takes too long",
                limit="preference_steps",
                pattern=self.pattern,
                hint="Use smaller counts and fewer alternatives that begin alike, or split the terminal.",
            )

    def _reach(self, roots: Iterable[Thread], context: Context) -> list[Thread]:
        """Return the positions that wait for a character, and matches, in the order in which `re` reaches them."""
        code = self.code
        result: dict[Thread, None] = {}
        seen: set[tuple[int, Obligations, frozenset[int]]] = set()
        for root in roots:
            stack = [(*root, frozenset[int]())]
            while stack:
                state = stack.pop()
                if state in seen:
                    continue
                seen.add(state)
                place, obligations, fresh = state
                instruction = code[place]
                kind = instruction[0]
                if kind == "char" or kind == "match":
                    result.setdefault((place, obligations))
                elif kind == "split":
                    stack.extend((after, obligations, fresh) for after in reversed(instruction[1]))
                elif kind == "enter":
                    stack.append((instruction[2], obligations, fresh - {instruction[1]}))
                elif kind == "again":
                    _, loop, body, after, lazy = instruction
                    leave = (after, obligations, fresh - {loop})
                    if loop in fresh:  # the round read no text
                        stack.append(leave)
                    else:
                        again = (body, obligations, fresh | {loop})
                        stack.extend((again, leave) if lazy else (leave, again))
                else:
                    now = self._condition(instruction, obligations, context)
                    if now is not None:
                        stack.append((instruction[3], now, fresh))
        self._spend(len(seen) + 1)
        return list(result)

    def _condition(
        self, instruction: Instruction, obligations: Obligations, context: Context
    ) -> Obligations | None:
        """Return the obligations after a condition on this position; None if the condition does not hold."""
        kind = instruction[0]
        if kind == "ahead":
            return self._add_obligation(obligations, instruction[1], self._inside([instruction[2]]))
        if kind == "lookbehind":
            surely, possibly = (self._found(places) for places in context[1][instruction[1]])
            if surely != possibly:
                raise self._refused("depends on the text before the lexeme")
            return obligations if surely != instruction[2] else None
        last = context[0]
        if last is None:
            raise self._refused("depends on the character before the lexeme")
        word = instruction[2]
        before = bool(self.masks[word] >> last & 1)
        # At a boundary exactly one side is a word, so the character before determines the one after.
        return self._add_obligation(obligations, before != instruction[1], self._inside([self._finder(word)]))

    def _refused(self, what: str) -> RegexUnsupported:
        return RegexUnsupported(
            f"a condition of this pattern {what}",
            pattern=self.pattern,
            hint="A terminal is matched by its own text only. State in the rules, or by other terminals, what may "
            "surround it.",
        )

    def _finder(self, word: int) -> int:
        if word not in self.finders:
            self.code.append(("found",))
            self.code.append(("char", word, len(self.code) - 1))
            self.finders[word] = len(self.code) - 1
        return self.finders[word]

    def _inside(self, places: Iterable[int]) -> frozenset[int]:
        """Return where the body of a look-around waits for a character or has matched, from these positions on."""
        pending, seen = list(places), set[int]()
        while pending:
            place = pending.pop()
            if place in seen:
                continue
            seen.add(place)
            instruction = self.code[place]
            kind = instruction[0]
            if kind == "split":
                pending.extend(instruction[1])
            elif kind == "enter":
                pending.append(instruction[2])
            elif kind == "again":
                pending.extend(instruction[2:4])
        self._spend(len(seen))
        return frozenset(place for place in seen if self.code[place][0] in ("char", "found"))

    def _everywhere(self, body: int) -> set[int]:
        """Return all positions of a lookbehind's body, since the text before the lexeme may lead to any of them."""
        reached, pending = set[int](), [body]
        while pending:
            for place in self._inside([pending.pop()]) - reached:
                reached.add(place)
                if self.code[place][0] == "char":
                    pending.append(self.code[place][2])
        return reached | {body}

    def _found(self, places: frozenset[int]) -> bool:
        return any(self.code[place][0] == "found" for place in places)

    def _after(self, places: Iterable[int], atom: int) -> list[int]:
        """Return the positions after one more character."""
        waiting = (self.code[place] for place in places)
        return [
            instruction[2]
            for instruction in waiting
            if instruction[0] == "char" and self.masks[instruction[1]] >> atom & 1
        ]

    def _add_obligation(
        self, obligations: Obligations, negative: bool, places: frozenset[int]
    ) -> Obligations | None:
        if self._found(places):
            return None if negative else obligations
        if not places:
            return obligations if negative else None
        return obligations | {(negative, places)}

    def _context_after(self, context: Context, atom: int) -> Context:
        key = (context, atom)
        if key not in self.contexts:
            lookbehinds = tuple(
                (
                    self._inside([body, *self._after(surely, atom)]),
                    self._inside([body, *self._after(possibly, atom)]),
                )
                for body, (surely, possibly) in zip(self.lookbehinds, context[1], strict=True)
            )
            self.contexts[key] = (atom if self.bounded else None, lookbehinds)
        return self.contexts[key]


def _atoms(sets: list[Ranges]) -> tuple[list[Ranges], list[int]]:
    """Return the classes of characters that no set distinguishes, and the members of each set as bits."""
    changes: dict[int, int] = {}
    for number, ranges in enumerate([ALL_RANGES, *sets]):
        for low, high in ranges:
            changes[low] = changes.get(low, 0) ^ 1 << number
            changes[high + 1] = changes.get(high + 1, 0) ^ 1 << number
    pieces: dict[int, list[tuple[int, int]]] = {}
    members = 0
    places = sorted(changes)
    for low, after in pairwise(places):
        members ^= changes[low]
        if members & 1:
            pieces.setdefault(members, []).append((low, after - 1))
    masks = [0] * len(sets)
    for atom, signature in enumerate(pieces):
        for number in range(len(sets)):
            masks[number] |= (signature >> number + 1 & 1) << atom
    return [tuple(ranges) for ranges in pieces.values()], masks

r"""A pattern's program run as lists of threads: all ways to go on from a place, best first.

Why: one step of `preferred_match`, which walks these lists; here is what a list is, and how it takes a character.
Invariant: a list holds what backtracking would try, in that order and once each; looks behind are answered from
the lexeme's own text, and refused where that does not answer them; looks ahead are owed until text has decided
them.
Cost: a step is linear in the program; all steps together are at most `STEPS` threads.
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
"""Threads that are followed for one pattern."""

_LOOKS, _CALL = 2, 3
"""So many looks at whether a thread takes a character cost as much as following one; a list by itself, as so many."""

Obligations = frozenset[tuple[bool, frozenset[int]]]
"""What is left of looks ahead: (negative, where in their bodies they may be)."""
Thread = tuple[int, Obligations]
Behind = tuple[frozenset[int], frozenset[int]]
"""Where in the body of a look behind the text before surely is, and possibly is."""
Context = tuple[int | None, tuple[Behind, ...]]
"""The character before, if a boundary may ask for it, and the looks behind."""

FREE: Obligations = frozenset()


class Node(NamedTuple):
    """A list, cut behind its first match; `end` is what that match still owes, None if nothing matches."""

    threads: tuple[Thread, ...]
    context: Context
    end: Obligations | None


class Threads:
    """Steps of one program."""

    def __init__(self, program: Program, pattern: str) -> None:
        self.code = list(program.code)
        self.behinds = program.behinds
        self.bounded = any(one[0] == "boundary" for one in program.code)
        self.pattern = pattern
        self.steps = 0
        self.finders: dict[int, int] = {}
        self.atoms, self.masks = _atoms(program.sets)
        self.contexts: dict[tuple[Context, int], Context] = {}
        first = tuple((self._inside([body]), self._inside(self._everywhere(body))) for body in self.behinds)
        self.context: Context = (None, first)
        self.first = self._reach([(program.start, FREE)], self.context)

    # -- lists

    def cut(self, threads: list[Thread], context: Context) -> Node:
        """What comes after the first match would not be tried any more."""
        for index, (place, owed) in enumerate(threads):
            if self.code[place][0] == "match":
                return Node(tuple(threads[:index]), context if index else self.context, owed)
        return Node(tuple(threads), context if threads else self.context, None)

    def split(self, threads: list[Thread]) -> tuple[frozenset[Thread], frozenset[Obligations]]:
        """All threads that go on, and what each match owes."""
        going = frozenset(thread for thread in threads if self.code[thread[0]][0] == "char")
        return going, frozenset(owed for place, owed in threads if self.code[place][0] == "match")

    def moved(self, threads: Collection[Thread], before: Context, atom: int) -> tuple[list[Thread], Context]:
        """The list after one more character, not cut, and its context."""
        roots: list[Thread] = []
        self._spend(_CALL + len(threads) // _LOOKS)
        for place, owed in threads:
            _, members, after = self.code[place]
            if self.masks[members] >> atom & 1:
                left = self.pay(owed, atom) if owed else owed
                if left is not None:
                    roots.append((after, left))
        if not roots:
            return [], self.context
        context = self._context_after(before, atom)
        return self._reach(roots, context), context

    def next(self, node: Node, atom: int) -> Node:
        """The node after one more character."""
        return self.cut(*self.moved(node.threads, node.context, atom))

    def pay(self, owed: Obligations, atom: int) -> Obligations | None:
        """What is owed after one more character; None if that breaks a promise."""
        left = FREE
        for negative, places in owed:
            now = self._owe(left, negative, self._inside(self._after(places, atom)))
            if now is None:
                return None
            left = now
        return left

    # -- one step

    def _spend(self, amount: int) -> None:
        self.steps += amount
        if self.steps > STEPS:
            raise LimitExceeded(
                "it takes too long to find out which match of the pattern re prefers",
                limit="preference_steps",
                pattern=self.pattern,
                hint="Use smaller counts and fewer alternatives that begin alike, or split the terminal.",
            )

    def _reach(self, roots: Iterable[Thread], context: Context) -> list[Thread]:
        """The places that wait for a character, and matches, in the order in which `re` comes to them."""
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
                place, owed, fresh = state
                instruction = code[place]
                kind = instruction[0]
                if kind == "char" or kind == "match":
                    result.setdefault((place, owed))
                elif kind == "split":
                    stack.extend((after, owed, fresh) for after in reversed(instruction[1]))
                elif kind == "enter":
                    stack.append((instruction[2], owed, fresh - {instruction[1]}))
                elif kind == "again":
                    _, loop, body, after, lazy = instruction
                    leave = (after, owed, fresh - {loop})
                    if loop in fresh:  # the round took nothing
                        stack.append(leave)
                    else:
                        again = (body, owed, fresh | {loop})
                        stack.extend((again, leave) if lazy else (leave, again))
                else:
                    now = self._condition(instruction, owed, context)
                    if now is not None:
                        stack.append((instruction[3], now, fresh))
        self._spend(len(seen) + 1)
        return list(result)

    def _condition(self, instruction: Instruction, owed: Obligations, context: Context) -> Obligations | None:
        """What is owed behind a condition on this place; None if the condition does not hold."""
        kind = instruction[0]
        if kind == "ahead":
            return self._owe(owed, instruction[1], self._inside([instruction[2]]))
        if kind == "behind":
            surely, possibly = (self._found(places) for places in context[1][instruction[1]])
            if surely != possibly:
                raise self._refused("looks at the text before the lexeme")
            return owed if surely != instruction[2] else None
        last = context[0]
        if last is None:
            raise self._refused("asks for the character before the lexeme")
        word = instruction[2]
        before = bool(self.masks[word] >> last & 1)
        # Of a boundary one side is a word; so what must follow is known from what is before.
        return self._owe(owed, before != instruction[1], self._inside([self._finder(word)]))

    def _refused(self, what: str) -> RegexUnsupported:
        return RegexUnsupported(
            f"a condition of this pattern {what}",
            pattern=self.pattern,
            hint="A terminal is matched by its own text only: say in the rules, or by the other terminals, "
            "what may stand around it.",
        )

    def _finder(self, word: int) -> int:
        if word not in self.finders:
            self.code.append(("found",))
            self.code.append(("char", word, len(self.code) - 1))
            self.finders[word] = len(self.code) - 1
        return self.finders[word]

    def _inside(self, places: Iterable[int]) -> frozenset[int]:
        """From places in the body of a look: where it waits for a character, or is found."""
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
        """All places of a look's body: the text before the lexeme may have led to any of them."""
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
        """Where places that wait for a character are after this one."""
        waiting = (self.code[place] for place in places)
        return [one[2] for one in waiting if one[0] == "char" and self.masks[one[1]] >> atom & 1]

    def _owe(self, owed: Obligations, negative: bool, places: frozenset[int]) -> Obligations | None:
        if self._found(places):
            return None if negative else owed
        if not places:
            return owed if negative else None
        return owed | {(negative, places)}

    def _context_after(self, context: Context, atom: int) -> Context:
        key = (context, atom)
        if key not in self.contexts:
            behinds = tuple(
                (
                    self._inside([body, *self._after(surely, atom)]),
                    self._inside([body, *self._after(possibly, atom)]),
                )
                for body, (surely, possibly) in zip(self.behinds, context[1], strict=True)
            )
            self.contexts[key] = (atom if self.bounded else None, behinds)
        return self.contexts[key]


def _atoms(sets: list[Ranges]) -> tuple[list[Ranges], list[int]]:
    """The classes of characters that no set tells apart, and for each set which of them it has (one bit each)."""
    turns: dict[int, int] = {}
    for number, ranges in enumerate([ALL_RANGES, *sets]):
        for low, high in ranges:
            turns[low] = turns.get(low, 0) ^ 1 << number
            turns[high + 1] = turns.get(high + 1, 0) ^ 1 << number
    pieces: dict[int, list[tuple[int, int]]] = {}
    members = 0
    places = sorted(turns)
    for low, after in pairwise(places):
        members ^= turns[low]
        if members & 1:
            pieces.setdefault(members, []).append((low, after - 1))
    masks = [0] * len(sets)
    for atom, signature in enumerate(pieces):
        for number in range(len(sets)):
            masks[number] |= (signature >> number + 1 & 1) << atom
    return [tuple(ranges) for ranges in pieces.values()], masks

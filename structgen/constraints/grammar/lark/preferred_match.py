r"""Determine which of its matches Python's `re` prefers, for all texts at once.

Why: lark's lexers take the match that `re` prefers, but a scanner takes the longest text of a language. For each
pattern there is a language whose longest match is the preferred one. The continuations from a position, in preference
order, are a list of threads (`threads`). When one matches, `re` does not try those after it, so they are cut. This
gives a deterministic automaton, and the last match that it passes on a text is the preferred one. So its language is
the one needed. It is mostly the set of all matches (the longest is preferred) or of all shortest ones.
Invariant: nothing is guessed: the automaton is explored completely, or a limit raises an error.
Cost: a few milliseconds for an ordinary pattern.
Source: R. Cox, "Regular Expression Matching in the Wild" (leftmost-first automata); J. Brzozowski and E. McCluskey,
"Signal Flow Graph Techniques for Sequential Circuit State Diagrams" (the elimination of states).

With look-around that reads text outside the lexeme, the pattern alone does not determine the match. Conditions on the
one character that follows (``\b``, ``(?![0-9])``) are returned in `Preference.conditions`, for `lookahead` to decide.
All others are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NoReturn

from structgen.constraints.expressions import (
    ANY,
    EPSILON,
    NOTHING,
    RE,
    TEXT,
    Ranges,
    alternate,
    character_class,
    complement,
    concat,
    intersect,
    normalise_ranges,
    repeat,
    scope,
)
from structgen.constraints.regex import regex
from structgen.errors import LimitExceeded, RegexUnsupported

from .pattern_program import compile_pattern
from .threads import FREE, Node, Obligations, Threads

__all__ = ["Condition", "Preference", "preference", "shortest"]

Kind = Literal["longest", "shortest", "other"]

_STATES = 200
"""The most states of an automaton that is converted to an expression."""

_SIZE = 50_000
"""The most nodes of such an expression."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a lexeme: a text of `language` is a lexeme only if no character of `excluded` follows."""

    language: RE
    excluded: Ranges


@dataclass(frozen=True, slots=True)
class Preference:
    """The preferred matches of a pattern: `re` prefers the longest text of `language`."""

    kind: Kind
    language: RE
    matches: RE
    """All texts that the pattern matches."""
    lazy: bool
    """Whether the pattern has a lazy quantifier."""
    conditions: tuple[Condition, ...] = ()
    steps: int = 0
    """The steps taken to determine it (see `threads.STEPS`)."""


@lru_cache(maxsize=1024)
def preference(pattern: str) -> Preference:
    """Return the preferred matches of a pattern, whose flags are written in it."""
    program = compile_pattern(pattern)
    matches = scope(regex(pattern).regular())
    walk = _Walk(Threads(program, pattern), program.looks)
    kind = walk.classify()
    if kind == "longest":
        language = matches
    elif kind == "shortest":
        language = shortest(matches)
    else:
        language = walk.language(lambda obligations: True)
    conditions = walk.conditions() if program.looks else ()
    return Preference(kind, language, matches, program.lazy, conditions, walk.threads.steps)


def shortest(language: RE) -> RE:
    """Return the texts of a language that do not begin with another text of it."""
    return intersect([language, complement(concat([language, ANY, TEXT]))])


class _Walk:
    """The automaton of one pattern."""

    def __init__(self, threads: Threads, looks: bool) -> None:
        self.threads = threads
        self.looks = looks
        self.atoms = range(len(threads.atoms))
        self.start = threads.cut(threads.first, threads.context)
        self.moves: dict[Node, list[Node]] = {}

    def next(self, node: Node) -> list[Node]:
        """Return the nodes after each class of characters."""
        if node not in self.moves:
            self.moves[node] = [self.threads.next(node, atom) for atom in self.atoms]
        return self.moves[node]

    def classify(self) -> Kind:
        """Return whether the preferred match is always the longest, always the shortest, or neither.

        The automaton runs in parallel with the one that is never cut. The longest match is always preferred if both
        match the same texts, and the shortest if the cut one never matches again after its first match.
        """
        threads = self.threads
        longest = shortest = True
        full = threads.split(threads.first)
        first = (self.start, full, threads.context, False)
        seen = {first}
        pending = [first]
        while pending:
            node, (going, ends), context, matched = pending.pop()
            if (node.end is not None) != bool(ends):
                longest = False
            if node.end is not None:
                shortest = shortest and not matched
                self._check_end(node.end, ends)
            if not longest and not shortest and not self.looks:
                return "other"
            after = matched or node.end is not None
            for atom, following in enumerate(self.next(node)):
                all_threads, new_context = threads.moved(going, context, atom)
                state = (following, threads.split(all_threads), new_context, after)
                if all_threads and state not in seen:
                    seen.add(state)
                    pending.append(state)
        return "longest" if longest else "shortest" if shortest else "other"

    def _check_end(self, obligations: Obligations, ends: frozenset[Obligations]) -> None:
        """Raise an error unless a match depends at most on the next character, in the same edge for all threads."""
        if ends == {FREE}:
            return
        if len(ends) > 1 or any(not negative for negative, _ in obligations):
            self._refuse("the text after the lexeme decides how it is matched")
        for atom in self.atoms:
            if self.threads.advance_obligations(obligations, atom):
                self._refuse("a condition depends on more than one character after the lexeme")

    def _refuse(self, message: str) -> NoReturn:
        raise RegexUnsupported(
            message,
            pattern=self.threads.pattern,
            hint="A terminal may only exclude the next character, as in (?![0-9]) or \\b. State in the rules, or by "
            "other terminals, what may follow it.",
        )

    def conditions(self) -> tuple[Condition, ...]:
        """Return the conditions of the matches on the next character."""
        result = []
        for obligations in {node.end for node in self._nodes() if node.end}:
            excluded = [
                atom for atom in self.atoms if self.threads.advance_obligations(obligations, atom) is None
            ]
            if excluded:
                ranges = normalise_ranges(piece for atom in excluded for piece in self.threads.atoms[atom])
                result.append(Condition(self.language(obligations.__eq__), ranges))
        return tuple(sorted(result, key=lambda condition: condition.excluded))

    def _nodes(self) -> list[Node]:
        """Return all nodes, the first one first."""
        seen = {self.start: None}
        pending = [self.start]
        while pending:
            for after in self.next(pending.pop()):
                if after not in seen:
                    seen[after] = None
                    pending.append(after)
        return list(seen)

    def language(self, wanted: Callable[[Obligations], object]) -> RE:
        """Return the texts at whose end the automaton matches with obligations that are `wanted`."""
        nodes = self._nodes()
        blocks = self._blocks(nodes, [node.end is not None and bool(wanted(node.end)) for node in nodes])
        if len(set(blocks.values())) > _STATES:
            self._too_large()
        last = len(nodes) + 1
        edges: dict[int, dict[int, RE]] = {0: {blocks[self.start]: EPSILON}}
        for node, block in blocks.items():
            if block in edges:
                continue
            pieces: dict[int, list[tuple[int, int]]] = {}
            for atom, after in enumerate(self.next(node)):
                pieces.setdefault(blocks[after], []).extend(self.threads.atoms[atom])
            edges[block] = {to: character_class(normalise_ranges(ranges)) for to, ranges in pieces.items()}
            if node.end is not None and wanted(node.end):
                edges[block][last] = EPSILON
        return _eliminate(_live_states(edges, last), last, self._too_large)

    def _blocks(self, nodes: list[Node], accepting: list[bool]) -> dict[Node, int]:
        """Number equivalent nodes from 1 on (Moore's partition refinement)."""
        blocks = {node: 1 + accepts for node, accepts in zip(nodes, accepting, strict=True)}
        count = 0
        while len(set(blocks.values())) > count:
            count = len(set(blocks.values()))
            seen: dict[tuple[int, ...], int] = {}
            blocks = {
                node: seen.setdefault(
                    (blocks[node], *(blocks[after] for after in self.next(node))), len(seen) + 1
                )
                for node in nodes
            }
        return blocks

    def _too_large(self) -> NoReturn:
        raise LimitExceeded(
            "re prefers neither the longest nor the shortest match of this pattern, and its preference is too complex",
            limit="preference_states",
            pattern=self.threads.pattern,
            hint="If alternatives begin alike, put the longest first, or split them into several terminals.",
        )


def _live_states(edges: dict[int, dict[int, RE]], last: int) -> dict[int, dict[int, RE]]:
    """Return the automaton without the states that do not lead to the last one."""
    reaching = {last}
    grown = True
    while grown:
        more = {
            state
            for state, edges_from in edges.items()
            if state not in reaching and not reaching.isdisjoint(edges_from)
        }
        grown = bool(more)
        reaching |= more
    return {
        state: {to: edge for to, edge in edges_from.items() if to in reaching}
        for state, edges_from in edges.items()
        if state in reaching or state == 0
    }


def _eliminate(edges: dict[int, dict[int, RE]], last: int, too_large: Callable[[], NoReturn]) -> RE:
    """Return the expression of the paths from state 0 to state `last`, by eliminating the other states one by one."""
    into: dict[int, set[int]] = {}
    for state, edges_from in edges.items():
        for to in edges_from:
            into.setdefault(to, set()).add(state)
    left = set(edges) - {0}
    while left:
        state = min(
            left, key=lambda candidate: (len(into.get(candidate, ())) * len(edges[candidate]), candidate)
        )
        left.remove(state)
        out = edges.pop(state)
        loop = repeat(out.pop(state, NOTHING), 0, None)
        sources = into.pop(state, set()) - {state}
        for to in out:
            into[to].discard(state)
        for source in sources:
            edges_from = edges[source]
            edge = edges_from.pop(state)
            for to, onward in out.items():
                joined = alternate([edges_from.get(to, NOTHING), concat([edge, loop, onward])])
                if _is_larger(joined, _SIZE):
                    too_large()
                edges_from[to] = joined
                into.setdefault(to, set()).add(source)
    return edges[0].get(last, NOTHING)


def _is_larger(expression: RE, limit: int) -> bool:
    pending, count = [expression], 0
    while pending and count <= limit:
        node = pending.pop()
        count += 1
        if node[0] in ("concat", "alternate"):
            pending.extend(node[1])
        elif node[0] == "repeat":
            pending.append(node[1])
    return count > limit

r"""Which of its matches does Python's `re` take: decided for every text at once.

Why: Lark's lexers take the match that `re` prefers, while a scanner of ours takes the longest text of a language.
For every pattern there is a language whose longest match is the preferred one. All ways to go on from a place, best
first, are a list of threads (`threads`); when one of them matches, those after it are cut off, as `re` would
not try them any more. That makes a deterministic automaton, and the last match that it passes on a text is the
preferred one; so its language is the one to have. Mostly it is simply all matches (the longest one is preferred) or
all shortest ones.
Invariant: nothing is guessed: the automaton is walked to its end, or a limit is an error.
Cost: a few milliseconds for an ordinary pattern.
Source: R. Cox, "Regular Expression Matching in the Wild" (leftmost-first automata); J. Brzozowski and E. McCluskey,
"Signal Flow Graph Techniques for Sequential Circuit State Diagrams" (the elimination of states).

A look-around that asks for text outside of the lexeme makes an answer that the pattern alone does not determine.
Conditions on the one character that follows (``\b``, ``(?![0-9])``) are handed out in `Preference.conditions`, for
`lookahead` to judge; all others are refused.
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
"""An automaton with more states than these is not written as an expression,"""

_SIZE = 50_000
"""nor does the expression get more nodes than these."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A lexeme of `language` is one only where no character of `excluded` follows."""

    language: RE
    excluded: Ranges


@dataclass(frozen=True, slots=True)
class Preference:
    """`language`: the longest text of it that a place begins with is the match that `re` prefers there."""

    kind: Kind
    language: RE
    matches: RE
    """All texts that the pattern matches."""
    lazy: bool
    """Has the pattern a quantifier that prefers less?"""
    conditions: tuple[Condition, ...] = ()
    steps: int = 0
    """That it took to find out (see `threads.STEPS`)."""


@lru_cache(maxsize=1024)
def preference(pattern: str) -> Preference:
    """Of a pattern whose modes are written in it."""
    program = compile_pattern(pattern)
    matches = scope(regex(pattern).regular())
    walk = _Walk(Threads(program, pattern), program.looks)
    kind = walk.classify()
    if kind == "longest":
        language = matches
    elif kind == "shortest":
        language = shortest(matches)
    else:
        language = walk.language(lambda owed: True)
    conditions = walk.conditions() if program.looks else ()
    return Preference(kind, language, matches, program.lazy, conditions, walk.threads.steps)


def shortest(language: RE) -> RE:
    """The texts of a language that begin with no other text of it."""
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
        """The nodes after each class of characters."""
        if node not in self.moves:
            self.moves[node] = [self.threads.next(node, atom) for atom in self.atoms]
        return self.moves[node]

    def classify(self) -> Kind:
        """Is the preferred match always the longest, always the shortest?

        The automaton runs beside the one that is never cut. The longest match is always preferred if the two match
        the same texts, and the shortest if the cut one matches no more once it has matched.
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

    def _check_end(self, owed: Obligations, ends: frozenset[Obligations]) -> None:
        """A match may only depend on the one character that follows, and whichever way it came about."""
        if ends == {FREE}:
            return
        if len(ends) > 1 or any(not negative for negative, _ in owed):
            self._refuse("what follows the lexeme decides how it is matched")
        for atom in self.atoms:
            if self.threads.pay(owed, atom):
                self._refuse("a condition looks at more than one character after the lexeme")

    def _refuse(self, message: str) -> NoReturn:
        raise RegexUnsupported(
            message,
            pattern=self.threads.pattern,
            hint="A terminal may only ask which character does not follow, as in (?![0-9]) or \\b. Say in the rules, "
            "or by the other terminals, what may stand after it.",
        )

    def conditions(self) -> tuple[Condition, ...]:
        """What the matches ask of the character after them."""
        result = []
        for owed in {node.end for node in self._nodes() if node.end}:
            excluded = [atom for atom in self.atoms if self.threads.pay(owed, atom) is None]
            if excluded:
                ranges = normalise_ranges(piece for atom in excluded for piece in self.threads.atoms[atom])
                result.append(Condition(self.language(owed.__eq__), ranges))
        return tuple(sorted(result, key=lambda condition: condition.excluded))

    def _nodes(self) -> list[Node]:
        """All nodes, the first one first."""
        seen = {self.start: None}
        pending = [self.start]
        while pending:
            for after in self.next(pending.pop()):
                if after not in seen:
                    seen[after] = None
                    pending.append(after)
        return list(seen)

    def language(self, wanted: Callable[[Obligations], object]) -> RE:
        """The texts at whose end the automaton matches with a debt that is `wanted`."""
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
        return _eliminate(_alive(edges, last), last, self._too_large)

    def _blocks(self, nodes: list[Node], accepting: list[bool]) -> dict[Node, int]:
        """Nodes with the same future have the same number, from 1 on (E. Moore's refinement)."""
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
            "re prefers neither the longest nor the shortest match of this pattern, and what it does prefer is too "
            "complicated",
            limit="preference_states",
            pattern=self.threads.pattern,
            hint="Put alternatives that begin with one another longest first, or make them terminals of their own.",
        )


def _alive(edges: dict[int, dict[int, RE]], last: int) -> dict[int, dict[int, RE]]:
    """Without the states from which the last one is out of reach."""
    reaching = {last}
    grown = True
    while grown:
        more = {
            state for state, ways in edges.items() if state not in reaching and not reaching.isdisjoint(ways)
        }
        grown = bool(more)
        reaching |= more
    return {
        state: {to: way for to, way in ways.items() if to in reaching}
        for state, ways in edges.items()
        if state in reaching or state == 0
    }


def _eliminate(edges: dict[int, dict[int, RE]], last: int, too_large: Callable[[], NoReturn]) -> RE:
    """The expression of an automaton from state 0 to state `last`: the other states are taken out one by one."""
    into: dict[int, set[int]] = {}
    for state, ways in edges.items():
        for to in ways:
            into.setdefault(to, set()).add(state)
    left = set(edges) - {0}
    while left:
        state = min(left, key=lambda one: (len(into.get(one, ())) * len(edges[one]), one))
        left.remove(state)
        out = edges.pop(state)
        loop = repeat(out.pop(state, NOTHING), 0, None)
        sources = into.pop(state, set()) - {state}
        for to in out:
            into[to].discard(state)
        for source in sources:
            ways = edges[source]
            way = ways.pop(state)
            for to, onward in out.items():
                joined = alternate([ways.get(to, NOTHING), concat([way, loop, onward])])
                if _larger(joined, _SIZE):
                    too_large()
                ways[to] = joined
                into.setdefault(to, set()).add(source)
    return edges[0].get(last, NOTHING)


def _larger(expression: RE, limit: int) -> bool:
    pending, count = [expression], 0
    while pending and count <= limit:
        node = pending.pop()
        count += 1
        if node[0] in ("concat", "alternate"):
            pending.extend(node[1])
        elif node[0] == "repeat":
            pending.append(node[1])
    return count > limit

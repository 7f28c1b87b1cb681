"""A grammar with indentation of one fixed unit per block, as a grammar without indentation.

Why: the lexer keeps indentation on a stack while it reads from left to right. Algorithms that look at both sides of a
hole cannot do that. If every block has the same unit and nesting is bounded, the column of a line is a small number,
and rules can be copied for each number. The result is context-free.
What: rules that read lines are copied by the depth where they begin, and by whether a newline was read whose column is
not known yet. That newline, with its column, is emitted before the next lexeme. Between brackets, a newline of any
column may follow each lexeme.
Invariant: the texts are those of the grammar whose blocks use the unit and are not nested deeper. There are two
exceptions: a last line that is blank, and lines that begin with a backslash (Python refuses these too, outside
brackets). With a backslash the lexeme of the newline is longer, and no rule takes it.
Cost: productions of statements once for each depth, all others twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from structgen.constraints.base import IR
from structgen.constraints.expressions import (
    RE,
    character_class,
    concat,
    intersect,
    literal,
    negate_ranges,
    repeat,
)
from structgen.errors import CombinationError
from structgen.ir.grammar import GrammarIR

from .lowered import Lowered

__all__ = ["Indented"]

_WITHIN_LINE, _AFTER_NEWLINE, _ENDED = range(3)
"""States: within a line; after a newline whose column is not known yet; after a block that ended on the last line."""

Key = tuple[object, ...]
Path = tuple[int, int, tuple[object, ...]]
"""A depth, a state, and the symbols that lead there; keys stand for rules, numbers for terminals."""


class Indented(Lowered):
    """The texts of a grammar whose blocks are indented by one unit. `GrammarConstraint.indented_by` builds it."""

    __slots__ = ("before", "deepest", "grammar", "unit")

    grammar: Lowered
    unit: str
    deepest: int
    before: str

    def __init__(self, grammar: Lowered, unit: str, deepest: int, before: str) -> None:
        ir: IR = ("grammar", _IndentationLowering(grammar._ir[1], unit, deepest, before).lowered())
        for name, value in (
            ("grammar", grammar), ("unit", unit), ("deepest", deepest), ("before", before), ("_ir", ir),
        ):  # fmt: skip
            object.__setattr__(self, name, value)

    def holds_captures(self) -> bool:
        """Return whether the grammar holds captures."""
        return self.grammar.holds_captures()

    def describe(self) -> str:
        """Return the phrase of the grammar, with the unit of indentation."""
        return f"{self.grammar.describe()}, indented by {self.unit!r}"

    def __repr__(self) -> str:
        return f"<{self.describe()}, {self.deepest} deep>"


class _IndentationLowering:
    """Copies the productions.

    The keys of copies are ("line", rule), ("bracket", rule), ("after", terminal), and for rules that read lines
    (rule, depth and state before, depth and state after).
    """

    def __init__(self, ir: GrammarIR, unit: str, deepest: int, before: str) -> None:
        self._ir = ir
        self._newline, self._indent, self._dedent, opening, closing, _ = ir["indentation"]
        self._opening, self._closing = frozenset(opening), frozenset(closing)
        self._unit, self._deepest, self._before = unit, deepest, before
        self._bodies: list[list[tuple[int, ...]]] = [[] for _ in ir["rules"]]
        for head, *body in ir["productions"]:
            self._bodies[head].append(tuple(body))
        marks = {~self._newline, ~self._indent, ~self._dedent}
        self._of_lines = _least_fixed_point(
            self._bodies, lambda body, found: any(s in marks or s in found for s in body)
        )
        self._nullable = _least_fixed_point(self._bodies, lambda body, found: all(s in found for s in body))
        self._has_new_starts = False
        self._ends = self._all_ends()

    # -- the copies of rules

    def lowered(self) -> GrammarIR:
        terminals, number = self._terminals()
        numbers: dict[Key, int] = {("start",): 0}
        names = [self._ir["rules"][self._ir["start"]]]
        productions: list[tuple[int, ...]] = []
        pending: list[Key] = [("start",)]
        while pending:
            key = pending.pop()
            for body in self._productions(key):
                symbols = [numbers[key]]
                for one in body:
                    if isinstance(one, int):
                        symbols.append(~number[one])
                        continue
                    assert isinstance(one, tuple)
                    if one not in numbers:
                        numbers[one] = len(names)
                        names.append(self._name(one))
                        pending.append(one)
                    symbols.append(numbers[one])
                productions.append(tuple(symbols))
        return GrammarIR(
            self._ir,
            start=0,
            rules=tuple(names),
            terminals=terminals,
            ignore=tuple(number[terminal] for terminal in self._ir["ignore"]),
            lazy=tuple(number[terminal] for terminal in self._ir["lazy"]),
            keywords=tuple(
                (number[own], tuple((number[found], number[by], replaces) for found, by, replaces in finders))
                for own, finders in self._ir["keywords"]
            ),
            indentation=None,
            productions=tuple(productions),
            **self._temperatures(numbers),
        )

    def _temperatures(self, numbers: Mapping[Key, int]) -> dict[str, object]:
        """Return the temperatures of the copies."""
        known = dict(self._ir.get("temperatures", ()))
        if not known:
            return {}
        return {
            "temperatures": tuple(
                (number, known[key[0]]) for key, number in numbers.items() if key and key[0] in known
            )
        }

    def _name(self, key: Key) -> str:
        rule = next((part for part in key if isinstance(part, int)), None)
        known: Sequence[str] = self._ir["rules"]
        return known[rule] if rule is not None and key[0] != "after" else ""

    def _productions(self, key: Key) -> Iterator[tuple[object, ...]]:
        match key:
            case ("start",):
                for depth, state in sorted(self._ends.get((self._ir["start"], 0, _WITHIN_LINE), ())):
                    if depth == 0:
                        whole = (self._ir["start"], 0, _WITHIN_LINE, depth, state)
                        yield (whole, ("last",)) if state == _AFTER_NEWLINE else (whole,)
            case ("last",):
                yield (self._line(0),)
                if self._before:
                    yield from ((self._line(depth),) for depth in range(1, self._deepest + 1))
                    yield (self._newline,)
            case ("any",):
                yield from ((self._line(depth),) for depth in range(self._deepest + 1))
                yield (self._newline,)
            case ("after", int(terminal)):
                yield (terminal,)
                yield (terminal, ("any",))
            case ("line" | "bracket", int(rule)):
                for body in self._bodies[rule]:
                    for _, _, symbols in self._paths(body, 0, _WITHIN_LINE, int(key[0] == "bracket")):
                        yield symbols
            case (int(rule), int(depth), int(state), int(), int()):
                for body in self._bodies[rule]:
                    for *end, symbols in self._paths(body, depth, state, 0):
                        if tuple(end) == key[3:]:
                            yield symbols

    def _all_ends(self) -> dict[tuple[int, int, int], set[tuple[int, int]]]:
        """Return where rules end that begin at a depth and in a state, for all that the start reaches."""
        self._ends = {(self._ir["start"], 0, _WITHIN_LINE): set()}
        grew = True
        while grew:
            grew = False
            for (rule, depth, state), known in list(self._ends.items()):
                for body in self._bodies[rule]:
                    ends = {way[:2] for way in self._paths(body, depth, state, 0)}
                    if not ends <= known:
                        known |= ends
                        grew = True
            grew |= self._has_new_starts
            self._has_new_starts = False
        return self._ends

    def _paths(self, body: Sequence[int], depth: int, state: int, brackets: int) -> list[Path]:
        """Return all paths through a body from a depth and a state, with this number of open brackets."""
        first = brackets
        paths: list[Path] = [(depth, state, ())]
        for symbol in body:
            if symbol < 0:
                terminal = ~symbol
                brackets += (terminal in self._opening) - (terminal in self._closing)
                if brackets < first:
                    raise _unbalanced(self._ir["terminals"][terminal][1])
                more = partial(self._read, terminal, brackets)
            else:
                more = partial(self._derive, symbol, brackets)
            paths = [
                (after, now, (*before, *symbols))
                for depth, state, before in paths
                for after, now, symbols in more(depth, state)
            ]
        if brackets != first:
            raise _unbalanced("a bracket")
        return paths

    def _read(self, terminal: int, brackets: int, depth: int, state: int) -> Iterator[Path]:
        if terminal in (self._newline, self._indent, self._dedent):
            if brackets:
                return
            if terminal == self._newline and state == _WITHIN_LINE:
                yield depth, _AFTER_NEWLINE, ()
            elif terminal == self._indent and state == _AFTER_NEWLINE and depth < self._deepest:
                yield depth + 1, _AFTER_NEWLINE, ()
            elif terminal == self._dedent and depth:
                # A block that ends within a line ends with the text.
                yield depth - 1, _AFTER_NEWLINE if state == _AFTER_NEWLINE else _ENDED, ()
        elif state != _ENDED:
            symbol: object = ("after", terminal) if brackets else terminal
            yield depth, _WITHIN_LINE, ((self._line(depth), symbol) if state == _AFTER_NEWLINE else (symbol,))

    def _derive(self, rule: int, brackets: int, depth: int, state: int) -> Iterator[Path]:
        if brackets:
            if rule not in self._of_lines:
                yield depth, state, (("bracket", rule),)
        elif rule not in self._of_lines and state == _WITHIN_LINE:
            yield depth, state, (("line", rule),)
        elif rule not in self._of_lines and state == _AFTER_NEWLINE and rule not in self._nullable:
            yield depth, _WITHIN_LINE, (self._line(depth), ("line", rule))
        else:
            entry = (rule, depth, state)
            if entry not in self._ends:
                self._ends[entry] = set()
                self._has_new_starts = True
            for end in sorted(self._ends[entry]):
                yield (*end, ((*entry, *end),))

    # -- lexemes

    def _line(self, depth: int) -> int:
        """Return the number of the terminal for a newline with the column of a depth, after the existing terminals."""
        return len(self._ir["terminals"]) + depth

    def _terminals(self) -> tuple[tuple[tuple[str, str, RE, int], ...], dict[int, int]]:
        """Return all terminals in order of preference, and their new indices. Newlines with a column come first."""
        terminals: list[tuple[str, str, RE, int]] = []
        number = {}
        for index, terminal in enumerate(self._ir["terminals"]):
            if index in (self._indent, self._dedent):
                continue
            if index == self._newline:
                _, _, language, scanner = terminal
                for depth in range(self._deepest + 1):
                    number[self._line(depth)] = len(terminals)
                    column = self._before + depth * self._unit
                    terminals.append(
                        ("text", f"a line indented by {len(column)}", _ending(language, column), scanner)
                    )
                joined = concat([language, literal("\\"), repeat(literal("\r"), 0, 1), literal("\n")])
                terminals.append(("text", "a joined line", joined, scanner))
            number[index] = len(terminals)
            terminals.append(terminal)
        return tuple(terminals), number


def _ending(newline: RE, column: str) -> RE:
    """Return the newlines whose last line break is followed by exactly this column."""
    anything = repeat(character_class(negate_ranges(())), 0, None)
    return intersect([newline, concat([anything, literal("\n" + column)])])


def _unbalanced(name: str) -> CombinationError:
    return CombinationError(
        f"a rule opens or closes {name} without its counterpart, so it is unknown which newlines are in brackets",
        hint="Put both brackets into one rule.",
    )


def _least_fixed_point(
    bodies: Sequence[Sequence[Sequence[int]]], holds: Callable[[Sequence[int], set[int]], bool]
) -> set[int]:
    """Return the least set of rules that have a body for which `holds`, given the set."""
    found: set[int] = set()
    grew = True
    while grew:
        more = {
            rule
            for rule, known in enumerate(bodies)
            if rule not in found and any(holds(body, found) for body in known)
        }
        grew = bool(more)
        found |= more
    return found

"""Constraints that lower to a grammar, and the intersection of one with a regular language.

Why: grammars of users and compositions of constraints lower to the same IR, so they share these methods. To explain
which rule of a nested schema a text breaks, the schema is replaced by variants of itself inside the grammar.
Invariant: a `GrammarIntersection` has exactly the texts that its grammar and its expression share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from structgen.constraints.base import IR, Constraint, RuleViolation, Stop, join_instructions
from structgen.constraints.expressions import RE, intersect
from structgen.errors import CombinationError
from structgen.ir.grammar import Body, GrammarIR, subbodies

__all__ = ["GrammarIntersection", "Lowered"]

_REASONS = {
    "special": "contains the special token {name}, which is not text",
    "tokens": "contains tokens that are read as a whole, {name}",
    "constraint": "contains {name}, a constraint that is not regular",
    "declared": "reads the indentation of lines",
}


class Lowered(Constraint):
    """A constraint with the IR of a grammar, or of a regular expression if all of it is regular."""

    __slots__ = ("_ir",)

    _ir: tuple[str, Any]

    def lower(self) -> IR:
        """Return the IR: a grammar, or a regular expression if all of it is regular."""
        return self._ir

    def regular(self) -> RE | None:
        """Return the regular expression; None where the IR is a grammar."""
        return self._ir[1] if self._ir[0] == "regex" else None

    def _bodies(self) -> Iterable[Body]:
        """Return the bodies of its rules."""
        return ()

    def holds_captures(self) -> bool:
        """Return whether a constraint nested in its rules holds captures."""
        return any(
            part[0] == "constraint" and part[1].holds_captures()
            for body in self._bodies()
            for part in subbodies(body)
        )

    def instructions(self) -> str:
        """Return the instructions of the nested constraints, joined."""
        return join_instructions(
            part[1] for body in self._bodies() for part in subbodies(body) if part[0] == "constraint"
        )

    def find_broken_rules(self, stop: Stop, checks: list[Callable[[IR], bool]]) -> list[RuleViolation]:
        """Return the broken rules of the nested constraint at which the text stops."""
        if self._ir[0] != "grammar":
            return []
        parts = {
            part[1]: None for body in self._bodies() for part in subbodies(body) if part[0] == "constraint"
        }
        if stop.place == "text":  # if nothing may begin there, blame the only constraint that could
            parts = {part: None for part in parts if stop.may_begin == (part.describe(),)}
            stop = stop._replace(place="value")
        return self._broken_parts(stop, checks, [(part, partial(self._with, part.lower())) for part in parts])

    def _with(self, part: IR, other: IR) -> IR:
        """Return the IR with `other` in place of the constraint whose IR is `part`."""
        terminals = tuple(
            (kind, name, other if kind == "constraint" and content == part else content, scanner)
            for kind, name, content, scanner in self._ir[1]["terminals"]
        )
        return ("grammar", GrammarIR(self._ir[1], terminals=terminals))

    def _within(self, expression: RE) -> Constraint:
        grammar = self._ir[1]
        reason = "is read with a contextual lexer" if grammar["contextual"] else _obstacle(grammar)
        if reason is not None:
            raise CombinationError(
                f"& cannot intersect {self.describe()} with a regular expression: the grammar {reason}",
                hint="Give its blocks one unit: grammar.indented_by('    ')."
                if grammar["indentation"] is not None
                else "Intersect the regular part alone, or put the expression into the grammar's terminals, which "
                "have & and ~ in Lark's notation.",
            )
        return GrammarIntersection(self, expression)


class GrammarIntersection(Lowered):
    """The texts of a grammar that a regular expression also matches."""

    __slots__ = ("expression", "grammar")

    grammar: Lowered
    expression: RE

    def __init__(self, grammar: Lowered, expression: RE) -> None:
        object.__setattr__(self, "grammar", grammar)
        object.__setattr__(self, "expression", expression)
        object.__setattr__(self, "_ir", ("grammar", GrammarIR(grammar._ir[1], within=expression)))

    def _within(self, expression: RE) -> Constraint:
        return GrammarIntersection(self.grammar, intersect([self.expression, expression]))

    def holds_captures(self) -> bool:
        """Return whether the grammar holds captures; the expression has none."""
        return self.grammar.holds_captures()

    def parsed(self, compose: Callable[[Constraint], Any]) -> Any:
        """Return the grammar's parser of captures, restricted to the expression."""
        parser = self.grammar.parsed(compose)
        return None if parser is None else parser.within(self.expression)

    def instructions(self) -> str:
        """Return the grammar's instructions."""
        return self.grammar.instructions()

    def describe(self) -> str:
        """Return the phrase of the grammar, with the expression unspelled."""
        return f"({self.grammar.describe()} & a regular expression)"

    def __repr__(self) -> str:
        return f"({self.grammar!r} & <regular expression>)"


def _obstacle(grammar: GrammarIR) -> str | None:
    """Return why the core cannot decide which texts have a completion in the intersection; None if it can."""
    for kind, name, content, _ in grammar["terminals"]:
        if kind in _REASONS:
            return _REASONS[kind].format(name=content if kind == "special" else name or "a constraint")
    return None

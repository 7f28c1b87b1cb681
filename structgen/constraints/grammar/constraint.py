"""The constraint "a text of this grammar", and the functions that make one of each format.

Why: a user brings a grammar in the format at hand; from there on it is a constraint like any other.
Invariant: what the grammar means is settled when the constraint is made; its mistakes show there, with their place.
"""

from __future__ import annotations

from typing import Any

from structgen.constraints.base import IR, Constraint
from structgen.constraints.expressions import RE

from .ebnf import read_ebnf
from .gbnf import read_gbnf
from .ir import Grammar
from .lowering import lower

__all__ = ["GrammarConstraint", "ebnf", "gbnf"]


class GrammarConstraint(Constraint):
    """Made by `gbnf`, `ebnf` and `lark`."""

    __slots__ = ("_ir", "format", "grammar")

    grammar: Grammar
    format: str
    _ir: tuple[str, Any]

    def __init__(self, grammar: Grammar, format: str) -> None:
        object.__setattr__(self, "grammar", grammar)
        object.__setattr__(self, "format", format)
        object.__setattr__(self, "_ir", lower(grammar))

    def lower(self) -> IR:
        return self._ir

    def regular(self) -> RE | None:
        return self._ir[1] if self._ir[0] == "regex" else None

    def describe(self) -> str:
        return f"the {self.format} grammar of `{self.grammar.start}`"

    def __repr__(self) -> str:
        rules = len(self.grammar.rules)
        return f"<{self.format} grammar, start {self.grammar.start!r}, {rules} rule{'s' * (rules != 1)}>"


def gbnf(source: str, *, start: str = "root") -> GrammarConstraint:
    """Texts of a grammar in llama.cpp's GBNF; `start` is the rule that a whole text must be."""
    return GrammarConstraint(read_gbnf(source, start), "GBNF")


def ebnf(source: str, *, start: str = "root") -> GrammarConstraint:
    """Texts of a grammar in XGrammar's EBNF; `start` is the rule that a whole text must be."""
    return GrammarConstraint(read_ebnf(source, start), "EBNF")

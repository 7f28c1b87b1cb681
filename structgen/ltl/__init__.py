"""Temporal logic on finite traces: formulas, questions about them, patterns, plans, and formulas from sentences.

from structgen import ltl

safe = ltl.parse("G (open -> F close) & !use W open")
ltl.satisfiable(safe), ltl.equivalent(safe, other), ltl.automaton(safe), ltl.english(safe)
ltl.patterns.precedence("backup", "delete")
ltl.translate(model, "Never delete anything before there is a backup.", ["backup", "delete"])
"""

from structgen.formulas import (
    FALSE,
    LAST,
    TRUE,
    Automaton,
    Formula,
    all_of,
    any_of,
    atom,
    automaton,
    conflict,
    difference,
    english,
    equivalent,
    example,
    parse,
    patterns,
    satisfiable,
    simplify,
)

from .translation import Reading, Translation, translate

__all__ = [
    "FALSE",
    "LAST",
    "TRUE",
    "Automaton",
    "Formula",
    "Reading",
    "Translation",
    "all_of",
    "any_of",
    "atom",
    "automaton",
    "conflict",
    "difference",
    "english",
    "equivalent",
    "example",
    "parse",
    "patterns",
    "satisfiable",
    "simplify",
    "translate",
]

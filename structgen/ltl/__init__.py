"""Linear temporal logic on finite traces, in one namespace: formulas, patterns, plans, and formulas from sentences.

    from structgen import ltl

    safe = ltl.parse("G (open -> F close) & !use W open")
    ltl.satisfiable(safe), ltl.equivalent(safe, other), ltl.automaton(safe), ltl.english(safe)
    ltl.patterns.precedence("backup", "delete")
    ltl.plan({"go": {"room": ["hall", "kitchen"]}}, "F go(kitchen)")
    ltl.translate(model, "Never delete anything before there is a backup.", ["backup", "delete"])

The logic itself is in `structgen.formulas`, which depends on no other package; plans are in
`structgen.constraints.plans`, and lists of constraints under a formula in `structgen.constraints.composition`.
"""

from structgen.constraints.composition import ltl_over
from structgen.constraints.plans import Action, PlanFormat, World, plan
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
    "Action",
    "Automaton",
    "Formula",
    "PlanFormat",
    "Reading",
    "Translation",
    "World",
    "all_of",
    "any_of",
    "atom",
    "automaton",
    "conflict",
    "difference",
    "english",
    "equivalent",
    "example",
    "ltl_over",
    "parse",
    "patterns",
    "plan",
    "satisfiable",
    "simplify",
    "translate",
]

"""Linear temporal logic on finite traces (LTLf): formulas, patterns, automata, and queries about formulas.

This package depends on no constraint and no model. `structgen.ltl` is the public namespace; plans
(`structgen.constraints.plans`), ordered lists (`structgen.constraints.composition`) and ordered tool calls
(`structgen.tools`) are built on it.
"""

from . import patterns
from .automaton import Alphabet, Automaton, automaton
from .conflicts import least_conflict
from .empty_trace import holds_on_empty
from .english import english
from .formula import FALSE, LAST, TRUE, Formula, all_of, any_of, atom
from .parsing import Dialect, parse
from .queries import conflict, difference, equivalent, example, satisfiable
from .simplify import simplify

__all__ = [
    "FALSE",
    "LAST",
    "TRUE",
    "Alphabet",
    "Automaton",
    "Dialect",
    "Formula",
    "all_of",
    "any_of",
    "atom",
    "automaton",
    "conflict",
    "difference",
    "english",
    "equivalent",
    "example",
    "holds_on_empty",
    "least_conflict",
    "parse",
    "patterns",
    "satisfiable",
    "simplify",
]

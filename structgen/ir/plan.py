"""A constraint as data: what `Constraint.lower` returns and the core compiles.

Why: the core has four engines (regular expressions, JSON, grammars, and the combination of these). A plan says which
one reads which part of a text.
Invariant: a plan is a pair of its type and its content, frozen and hashable. Equal constraints have equal plans, so
they share a compiled automaton.
Cost: one tuple a node. The core reads a plan as often as it occurs in its parents, so their number has a limit.
Read by: `PlanReader` in `structgen/_core/bind/schema_ir.cpp`.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from .grammar import GrammarIR
from .regex import RE
from .schema import SchemaIR

__all__ = ["IR", "CountedPlan", "GrammarPlan", "JsonPlan", "RegexPlan", "SequencePlan", "UnionPlan"]

IR: TypeAlias = tuple[Any, ...]
"""Any plan below. Consumers branch on its first item, which type checkers cannot follow through a variable."""

RegexPlan: TypeAlias = tuple[Literal["regex"], RE]
"""The texts of a regular expression."""
JsonPlan: TypeAlias = tuple[Literal["json"], SchemaIR]
"""The JSON texts whose values a schema accepts."""
GrammarPlan: TypeAlias = tuple[Literal["grammar"], GrammarIR]
"""The texts of a context-free grammar."""
SequencePlan: TypeAlias = tuple[Literal["sequence"], tuple[IR, ...]]
"""One plan after the other; at least one."""
UnionPlan: TypeAlias = tuple[Literal["union"], tuple[IR, ...]]
"""The texts of any of the plans; at least one."""
CountedPlan: TypeAlias = tuple[Literal["counted"], tuple[IR, int, bool, IR | None]]
"""A plan whose text has a bounded number of tokens.

The items: the plan; the most tokens; whether the text is cut after that many tokens, complete or not; and a plan whose
texts also count as complete when the tokens are used up, or None.
"""

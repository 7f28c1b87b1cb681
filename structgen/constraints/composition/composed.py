"""The constraint that a composition is: a body of the grammar IR, whose leaves are expressions and constraints.

Why: repetition, dispatch and tool calls are put together from the same few bodies, and what is put together can be
a part of the next thing without a border: a composition in a composition becomes a part of its body.
Invariant: the language of a body is that of the constraint that it was made of. A regular operand is an expression,
shut off from what is around it; what is regular as a whole lowers to one regular expression.
Cost: linear in the operands.
"""

from __future__ import annotations

from collections.abc import Iterable

from structgen.constraints.algebra import SequenceConstraint, Union
from structgen.constraints.base import Constraint
from structgen.constraints.expressions import literal, scope
from structgen.constraints.grammar.ir import Body, Grammar, Rule
from structgen.constraints.grammar.lowered import Lowered
from structgen.constraints.grammar.lowering import lower

from .emptiness import accepts_empty

__all__ = ["EMPTY", "Composition", "body_of", "choice_of", "sequence_of", "text_of"]

EMPTY: Body = ("sequence", ())


class Composition(Lowered):
    """A body and what it is called in messages."""

    __slots__ = ("body", "name")

    body: Body
    name: str

    def __init__(self, body: Body, name: str) -> None:
        object.__setattr__(self, "body", body)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "_ir", lower(Grammar((Rule(name, body),), name)))

    def _bodies(self) -> Iterable[Body]:
        return (self.body,)

    def describe(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<{self.name}>"


def body_of(constraint: Constraint) -> Body:
    """The same language as a body."""
    expression = constraint.regular()
    if expression is not None:
        return ("text", scope(expression))
    if isinstance(constraint, Composition):
        return constraint.body
    if isinstance(constraint, SequenceConstraint):
        return sequence_of(map(body_of, constraint.operands))
    if isinstance(constraint, Union):
        return choice_of(map(body_of, constraint.operands))
    whole: Body = ("constraint", constraint)
    return ("repeat", whole, 0, 1) if accepts_empty(constraint.lower()) else whole


def text_of(text: str) -> Body:
    """Exactly this text."""
    return ("text", literal(text))


def sequence_of(parts: Iterable[Body]) -> Body:
    """One after the other."""
    listed: list[Body] = []
    for part in parts:
        listed.extend(part[1] if part[0] == "sequence" else (part,))
    return listed[0] if len(listed) == 1 else ("sequence", tuple(listed))


def choice_of(parts: Iterable[Body]) -> Body:
    """Any of them."""
    listed = tuple(dict.fromkeys(parts))
    return listed[0] if len(listed) == 1 else ("choice", listed)

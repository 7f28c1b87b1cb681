"""Constraints made of constraints: `&`, `|` and `+`.

Why: regular operands are joined inside the regular expression, where union and intersection cost least and
emptiness is decided exactly; the others become a node of the core's IR.
Invariant: an operator either gives exactly the language it names, or raises `CombinationError` with the
reason; ``|`` and ``+`` are flat (no union in a union, no sequence in a sequence).
Cost: linear in the number of operands; their contents are shared, never copied. What reads a constraint later reads a
tree, in which a shared part stands as often as it is used, so that the size of the tree is bounded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from structgen.errors import CombinationError, LimitExceeded

from .base import IR, Broken, Constraint, Operators, Stop, install_operators, together
from .expressions import RE, alternate, concat, intersect, scope

__all__ = [
    "Intersection",
    "SequenceConstraint",
    "Union",
    "check_tree_size",
    "intersection",
    "sequence",
    "union",
]

_MOST_PARTS = 100_000
_DESCRIBED = 40
"""Parts of an operand that is described in full."""


def check_tree_size(size: int) -> None:
    """Raises `LimitExceeded` for a constraint that is made of very many parts."""
    if size > _MOST_PARTS:
        raise LimitExceeded(
            f"a constraint is made of more than {_MOST_PARTS} parts; "
            "a part that stands in several places counts in each",
            limit="constraint_parts",
            hint="Write a grammar (sg.lark, sg.gbnf), whose rules may stand in many places.",
        )


class _Combination(Constraint):
    """Operands under one operator; the regular expression is made once, if all of them have one."""

    __slots__ = ("_regular", "_size", "operands")

    _operator = ""
    operands: tuple[Constraint, ...]
    _regular: RE | None
    _size: int

    def __init__(self, operands: tuple[Constraint, ...], regular: RE | None) -> None:
        object.__setattr__(self, "operands", operands)
        object.__setattr__(self, "_regular", regular)
        object.__setattr__(self, "_size", 1 + sum(operand.tree_size() for operand in operands))

    def tree_size(self) -> int:
        return self._size

    def regular(self) -> RE | None:
        return self._regular

    def holds_captures(self) -> bool:
        return any(operand.holds_captures() for operand in self.operands)

    def broken(self, stop: Stop, questions: list[Callable[[IR], bool]]) -> list[Broken]:
        if self._regular is not None:
            return []
        kind, irs = self.lower()[0], [operand.lower() for operand in self.operands]
        parts = [
            (operand, partial(_replaced, kind, irs, place))
            for place, operand in enumerate(self.operands)
            if operand.regular() is None
        ]
        return self._broken_parts(stop, questions, parts)

    def describe(self) -> str:
        shown = f" {self._operator} ".join(
            operand.describe() if operand.tree_size() <= _DESCRIBED else "(...)"
            for operand in self.operands[:4]
        )
        more = f" {self._operator} ..." if len(self.operands) > 4 else ""
        return f"({shown}{more})"

    def instructions(self) -> str:
        return together(self.operands)

    def written(self) -> list[tuple[str, str]]:
        return [(self._operator if place else "", one.describe()) for place, one in enumerate(self.operands)]

    def __repr__(self) -> str:
        return "(" + f" {self._operator} ".join(map(repr, self.operands)) + ")"


class SequenceConstraint(_Combination):
    """One operand after the other."""

    __slots__ = ()
    _operator = "+"

    def parsed(self, compose: Callable[[Constraint], Any]) -> Any:
        return compose(self)

    def lower(self) -> IR:
        if self._regular is not None:
            return ("regex", self._regular)
        return ("sequence", tuple(_merged(self.operands)))


class Union(_Combination):
    """Any of the operands."""

    __slots__ = ()
    _operator = "|"

    def parsed(self, compose: Callable[[Constraint], Any]) -> Any:
        return compose(self)

    def lower(self) -> IR:
        if self._regular is not None:
            return ("regex", self._regular)
        known = [expression for operand in self.operands if (expression := operand.regular()) is not None]
        others = [operand.lower() for operand in self.operands if operand.regular() is None]
        return ("union", (("regex", alternate(known)), *others) if known else tuple(others))

    def _within(self, expression: RE) -> Constraint | None:
        parts: list[Constraint] = []
        for operand in self.operands:
            regular = operand.regular()
            part = (
                operand._within(expression)
                if regular is None
                else Intersection((operand,), intersect([regular, expression]))
            )
            if part is None:
                return None
            parts.append(part)
        return functools.reduce(union, parts)


class Intersection(_Combination):
    """All of the operands, which are all regular, or one operand within a regular expression."""

    __slots__ = ()
    _operator = "&"

    def lower(self) -> IR:
        return ("regex", self._regular)


def sequence(left: Constraint, right: Constraint) -> Constraint:
    """`left`, then `right`."""
    check_tree_size(left.tree_size() + right.tree_size())
    operands = _flat(SequenceConstraint, left, right)
    return SequenceConstraint(operands, _joined(operands, _concat_apart))


def union(left: Constraint, right: Constraint) -> Constraint:
    """`left` or `right`."""
    check_tree_size(left.tree_size() + right.tree_size())
    joined = left._or(right)
    if joined is not None:
        return joined
    operands = _flat(Union, left, right)
    return Union(operands, _joined(operands, alternate))


def intersection(left: Constraint, right: Constraint) -> Constraint:
    """What both `left` and `right` accept; refused where that cannot be decided exactly."""
    check_tree_size(left.tree_size() + right.tree_size())
    joined = left._and(right)
    if joined is None:
        joined = right._and(left)
    if joined is not None:
        return joined
    operands = _flat(Intersection, left, right)
    regular = _joined(operands, intersect)
    if regular is not None:
        return Intersection(operands, regular)
    strange = [operand for operand in operands if operand.regular() is None]
    if len(strange) > 1:
        raise CombinationError(
            f"& cannot join {left.describe()} and {right.describe()}: neither is regular, and whether two "
            "such languages share a text is undecidable in general",
            hint="Write one constraint that says both; two JSON schemas join under equal options.",
        )
    known = [expression for operand in operands if (expression := operand.regular()) is not None]
    within = strange[0]._within(intersect(known))
    if within is not None:
        return within
    raise CombinationError(
        f"& cannot join {left.describe()} and {right.describe()}: {strange[0].describe()} is not regular, "
        "and the product of such a constraint with a regular one is not supported yet",
        hint="Join the part that it is about: (part & pattern) + rest."
        if isinstance(strange[0], SequenceConstraint)
        else "Put the pattern into the schema instead, as the `pattern` of the strings that it is about.",
    )


def _flat(kind: type[_Combination], left: Constraint, right: Constraint) -> tuple[Constraint, ...]:
    operands: list[Constraint] = []
    for operand in (left, right):
        operands.extend(operand.operands if isinstance(operand, kind) else (operand,))
    return tuple(operands)


def _joined(operands: Sequence[Constraint], join: Callable[[list[RE]], RE]) -> RE | None:
    expressions = [operand.regular() for operand in operands]
    known = [expression for expression in expressions if expression is not None]
    return join(known) if len(known) == len(expressions) else None


def _concat_apart(parts: list[RE]) -> RE:
    """The concatenation of the languages; a look-around in one part must not see its neighbours."""
    return concat(map(scope, parts))


def _replaced(kind: str, irs: list[IR], place: int, part: IR) -> IR:
    return (kind, (*irs[:place], part, *irs[place + 1 :]))


def _merged(operands: Sequence[Constraint]) -> list[IR]:
    """The operands' IR, where neighbours that are regular are one."""
    result: list[IR] = []
    run: list[RE] = []
    for operand in operands:
        expression = operand.regular()
        if expression is not None:
            run.append(expression)
            continue
        if run:
            result.append(("regex", _concat_apart(run)))
            run = []
        result.append(operand.lower())
    if run:
        result.append(("regex", _concat_apart(run)))
    return result


install_operators(Operators(intersection, union, sequence))

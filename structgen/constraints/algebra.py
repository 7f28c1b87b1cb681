"""Constraints made of constraints: `&`, `|` and `+`.

Why: regular operands are combined inside the regular expression, where union and intersection cost least and
emptiness is decided exactly. The others become a node of the core's IR.

Invariant: an operator either returns exactly the language that it denotes, or raises `CombinationError` with the
reason. ``|`` and ``+`` are flat: a union contains no union, a sequence no sequence.

Cost: linear in the number of operands; their contents are shared, not copied. Later passes visit a tree, in which a
shared part occurs as often as it is used, so the size of the tree is bounded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from functools import partial

from structgen.errors import CombinationError, LimitExceeded

from .base import (
    IR,
    CaptureParser,
    Constraint,
    Operators,
    RuleViolation,
    Stop,
    install_operators,
    join_instructions,
)
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

_MAX_PARTS = 100_000
_MAX_DESCRIBED_PARTS = 40
"""An operand with more parts is not described in full."""


def check_tree_size(size: int) -> None:
    """Raise `LimitExceeded` if a constraint has too many parts."""
    if size > _MAX_PARTS:
        raise LimitExceeded(
            f"a constraint is made of more than {_MAX_PARTS} parts; "
            "a part that occurs several times counts each time",
            limit="constraint_parts",
            hint="Write a grammar (sg.lark, sg.gbnf), whose rules can be used many times.",
        )


class _Combination(Constraint):
    """Operands under one operator; if all are regular, their expression is built once."""

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

    def find_broken_rules(self, stop: Stop, checks: list[Callable[[IR], bool]]) -> list[RuleViolation]:
        if self._regular is not None:
            return []
        kind, irs = self.lower()[0], [operand.lower() for operand in self.operands]
        parts = [
            (operand, partial(_with_part, kind, irs, index))
            for index, operand in enumerate(self.operands)
            if operand.regular() is None
        ]
        return self._broken_parts(stop, checks, parts)

    def describe(self) -> str:
        shown = f" {self._operator} ".join(
            operand.describe() if operand.tree_size() <= _MAX_DESCRIBED_PARTS else "(...)"
            for operand in self.operands[:4]
        )
        more = f" {self._operator} ..." if len(self.operands) > 4 else ""
        return f"({shown}{more})"

    def instructions(self) -> str:
        return join_instructions(self.operands)

    def written(self) -> list[tuple[str, str]]:
        return [
            (self._operator if index else "", operand.describe())
            for index, operand in enumerate(self.operands)
        ]

    def __repr__(self) -> str:
        return "(" + f" {self._operator} ".join(map(repr, self.operands)) + ")"


class SequenceConstraint(_Combination):
    """One operand after the other."""

    __slots__ = ()
    _operator = "+"

    def parsed(self, compose: Callable[[Constraint], CaptureParser]) -> CaptureParser:
        """Return the grammar that `compose` makes of the operands."""
        return compose(self)

    def lower(self) -> IR:
        """Return one regular expression, or a sequence in which adjacent regular operands are merged."""
        if self._regular is not None:
            return ("regex", self._regular)
        return ("sequence", tuple(_merge_regular_neighbours(self.operands)))


class Union(_Combination):
    """Any of the operands."""

    __slots__ = ()
    _operator = "|"

    def parsed(self, compose: Callable[[Constraint], CaptureParser]) -> CaptureParser:
        """Return the grammar that `compose` makes of the operands."""
        return compose(self)

    def lower(self) -> IR:
        """Return one regular expression, or a union in which all regular operands are one branch."""
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
    """All of the operands, which are all regular, or one operand restricted to a regular expression."""

    __slots__ = ()
    _operator = "&"

    def lower(self) -> IR:
        """Return the product of the operands as one regular expression."""
        return ("regex", self._regular)


def sequence(left: Constraint, right: Constraint) -> Constraint:
    """Return the constraint of `left` followed by `right`."""
    check_tree_size(left.tree_size() + right.tree_size())
    operands = _flatten(SequenceConstraint, left, right)
    return SequenceConstraint(operands, _join_regular(operands, _concat_scoped))


def union(left: Constraint, right: Constraint) -> Constraint:
    """Return the constraint of `left` or `right`."""
    check_tree_size(left.tree_size() + right.tree_size())
    joined = left._or(right)
    if joined is not None:
        return joined
    operands = _flatten(Union, left, right)
    return Union(operands, _join_regular(operands, alternate))


def intersection(left: Constraint, right: Constraint) -> Constraint:
    """Return the constraint of the texts that satisfy both `left` and `right`.

    Raises:
        CombinationError: The intersection cannot be decided exactly.
    """
    check_tree_size(left.tree_size() + right.tree_size())
    joined = left._and(right)
    if joined is None:
        joined = right._and(left)
    if joined is not None:
        return joined
    operands = _flatten(Intersection, left, right)
    regular = _join_regular(operands, intersect)
    if regular is not None:
        return Intersection(operands, regular)
    irregular = [operand for operand in operands if operand.regular() is None]
    if len(irregular) > 1:
        raise CombinationError(
            f"& cannot join {left.describe()} and {right.describe()}: neither is regular, and whether two "
            "such languages share a text is undecidable in general",
            hint="Write one constraint for both; two JSON schemas can be joined if their options are equal.",
        )
    known = [expression for operand in operands if (expression := operand.regular()) is not None]
    within = irregular[0]._within(intersect(known))
    if within is not None:
        return within
    raise CombinationError(
        f"& cannot join {left.describe()} and {right.describe()}: {irregular[0].describe()} is not regular, "
        "and the product of such a constraint with a regular one is not supported yet",
        hint="Join the part that the pattern is about: (part & pattern) + rest."
        if isinstance(irregular[0], SequenceConstraint)
        else "Put the pattern into the schema instead, as the `pattern` of these strings.",
    )


def _flatten(kind: type[_Combination], left: Constraint, right: Constraint) -> tuple[Constraint, ...]:
    operands: list[Constraint] = []
    for operand in (left, right):
        operands.extend(operand.operands if isinstance(operand, kind) else (operand,))
    return tuple(operands)


def _join_regular(operands: Sequence[Constraint], join: Callable[[list[RE]], RE]) -> RE | None:
    expressions = [operand.regular() for operand in operands]
    known = [expression for expression in expressions if expression is not None]
    return join(known) if len(known) == len(expressions) else None


def _concat_scoped(parts: list[RE]) -> RE:
    """Return the concatenation of the languages; a look-around in one part must not see the others."""
    return concat(map(scope, parts))


def _with_part(kind: str, irs: list[IR], index: int, part: IR) -> IR:
    return (kind, (*irs[:index], part, *irs[index + 1 :]))


def _merge_regular_neighbours(operands: Sequence[Constraint]) -> list[IR]:
    """Return the IR of the operands, with adjacent regular ones merged."""
    result: list[IR] = []
    run: list[RE] = []
    for operand in operands:
        expression = operand.regular()
        if expression is not None:
            run.append(expression)
            continue
        if run:
            result.append(("regex", _concat_scoped(run)))
            run = []
        result.append(operand.lower())
    if run:
        result.append(("regex", _concat_scoped(run)))
    return result


install_operators(Operators(intersection, union, sequence))

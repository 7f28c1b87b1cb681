"""Rules with a parameter, as in llguidance: ``perm::_ : "a" perm::set_bit(0) %if bit_clear(0)``.

Why: permutations, selections and counts are short with a number that rules pass on, and long without it. The number has
64 bits. A rule is instantiated for each value that can reach it from the start.
Invariant: the grammar is the one in which each rule is instantiated for every value, without alternatives whose
condition fails. Only reachable values are instantiated.
Cost: linear in the instances times the size of their rules; both have limits (`INSTANCES`, `_PARTS`).
Source: llguidance, docs/parametric.md.

    Expression = ("number", n) | ("self",) | (function, n) | ("incr" or "decr", (first, end))
    Condition  = ("true",) | ("not", Condition) | ("and" or "or", Condition, Condition)
               | ("compare", operator, (first, end), n) | ("count", operator, (first, end), n)

Until `instantiate` is called, bodies contain ``("instance", rule, Expression)`` and ``("condition", Condition)``. A
reference is written as the rule followed by the instance, so that lark sees which rules are used.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NoReturn

from structgen.errors import LimitExceeded
from structgen.ir.grammar import Body

from ..bodies import EMPTY, choice_of, sequence_of
from .source import Source

__all__ = ["INSTANCES", "Parameters", "evaluate", "holds", "instantiate", "uses_parameter"]

INSTANCES = 20_000
"""The most instances of rules."""

_PARTS = 500_000
"""The most items of their bodies."""

_NESTING = 50
"""The most levels of conditions."""

BITS = 64
_ALL = (1 << BITS) - 1

Expression = tuple[Any, ...]
Condition = tuple[Any, ...]

_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
_TOKEN = re.compile(r"[ \t]*(?:(0[xX][0-9A-Fa-f]+|[0-9]+)|([A-Za-z_][A-Za-z0-9_]*)|([(),:\[\]]))")
_EXPRESSIONS = ("set_bit", "clear_bit", "bit_and", "bit_or", "incr", "decr")
_BIT_CONDITIONS = ("bit_clear", "bit_set", "is_ones", "is_zeros")
_CONDITIONS = (
    "true",
    *_BIT_CONDITIONS,
    *_COMPARISONS,
    *(f"bit_count_{name}" for name in _COMPARISONS),
    "and",
    "or",
    "not",
)


class Parameters:
    """Reads expressions and conditions in a source; `position` is the offset of the next token."""

    def __init__(self, source: Source, position: int) -> None:
        self.source = source
        self.position = position
        self._at = position
        self._end = position

    def expression(self) -> Expression:
        """Read the expression after ``::`` in a reference."""
        number, name, _ = self._take("a number, _ or a function such as set_bit(0)")
        if number:
            return ("number", self._value(number, _ALL))
        if name == "_":
            return ("self",)
        if name not in _EXPRESSIONS:
            self._fail(f"unknown function {name!r:.40}", f"The functions are {', '.join(_EXPRESSIONS)}.")
        self._sign("(")
        result: Expression
        if name in ("incr", "decr"):
            result = (name, self._range())
        else:
            result = (name, self._number(BITS - 1 if name.endswith("_bit") else _ALL))
        self._sign(")")
        return result

    def condition(self, depth: int = 0) -> Condition:
        """Read the condition after ``%if``."""
        _, name, _ = self._take("a condition such as bit_clear(0)")
        if name not in _CONDITIONS:
            self._fail(f"unknown condition {name!r:.40}", f"The conditions are {', '.join(_CONDITIONS)}.")
        if depth > _NESTING:
            self._fail(
                f"conditions are nested more than {_NESTING} deep",
                "Move some of them into rules of their own.",
            )
        if name == "true":
            if self._next() == "(":
                self._sign("(")
                self._sign(")")
            return ("true",)
        self._sign("(")
        result: Condition
        if name == "not":
            result = ("not", self.condition(depth + 1))
        elif name in ("and", "or"):
            first = self.condition(depth + 1)
            self._sign(",")
            result = (name, first, self.condition(depth + 1))
        elif name.startswith("bit_count_"):
            bits = self._range()
            self._sign(",")
            result = ("count", name.removeprefix("bit_count_"), bits, self._number(BITS))
        elif name in _COMPARISONS:
            bits = self._range()
            self._sign(",")
            result = ("compare", name, bits, self._number(_ALL))
        elif name in ("bit_clear", "bit_set"):
            bit = self._number(BITS - 1)
            result = ("compare", "eq", (bit, bit + 1), int(name == "bit_set"))
        else:
            first_bit, end = self._range()
            result = (
                "compare",
                "eq",
                (first_bit, end),
                (1 << (end - first_bit)) - 1 if name == "is_ones" else 0,
            )
        self._sign(")")
        return result

    # -- tokens

    def _next(self) -> str:
        match = _TOKEN.match(self.source.text, self.position)
        return "" if match is None else match[0].strip()

    def _take(self, kind: str) -> tuple[str, str, str]:
        match = _TOKEN.match(self.source.text, self.position)
        if match is None or match[3]:
            self._at = self._end = self.position if match is None else match.start(3)
            while self.source.text[self._at : self._at + 1] in (" ", "\t"):
                self._at += 1
            self._fail(f"{kind} is missing", "For example perm::set_bit(0) or %if lt([0:4], 10).")
        self._at, self._end = match.start(match.lastindex or 0), match.end()
        self.position = match.end()
        return match[1] or "", match[2] or "", match[3] or ""

    def _sign(self, sign: str) -> None:
        match = _TOKEN.match(self.source.text, self.position)
        if match is None or match[3] != sign:
            at = self.position
            while self.source.text[at : at + 1] in (" ", "\t"):
                at += 1
            self.source.fail(f"{sign!r} is missing", at, hint="For example bit_clear(0) or lt([0:4], 10).")
        self.position = match.end()

    def _number(self, most: int) -> int:
        number, _, _ = self._take("a number")
        if not number:
            self._fail("this is not a number", "Numbers are decimal, or hexadecimal with 0x.")
        return self._value(number, most)

    def _value(self, written: str, most: int) -> int:
        value = int(written, 0 if written[:2] in ("0x", "0X") else 10) if len(written) < 100 else most + 1
        if value > most:
            self._fail(
                "this number is too large", f"The largest one here is {most}: a parameter has 64 bits."
            )
        return value

    def _range(self) -> tuple[int, int]:
        if self._next() == "_":
            self._take("_")
            return 0, BITS
        start = self.position
        if self._next() != "[":
            self._take("a range of bits")
            self._fail("a range of bits is missing", "Write _ for all bits, or [first:end].")
        self._sign("[")
        first = self._number(BITS - 1)
        self._sign(":")
        end = self._number(BITS)
        self._sign("]")
        if first >= end:
            self._at, self._end = start, self.position
            self._fail("this range of bits is empty", "The second number is the bit after the last one.")
        return first, end

    def _fail(self, message: str, hint: str) -> NoReturn:
        self.source.fail(message, self._at, max(self._end - self._at, 1), hint)


def evaluate(expression: Expression, value: int) -> int:
    """Return the value that a reference passes on from a rule whose parameter is `value`."""
    kind = expression[0]
    if kind == "number":
        return int(expression[1])
    if kind == "self":
        return value
    if kind == "set_bit":
        return value | 1 << int(expression[1])
    if kind == "clear_bit":
        return value & ~(1 << int(expression[1]))
    if kind == "bit_and":
        return value & int(expression[1])
    if kind == "bit_or":
        return value | int(expression[1])
    first, end = expression[1]
    bits = _bits(value, first, end)
    if kind == "incr":
        return value if bits == (1 << (end - first)) - 1 else value + (1 << first)
    return value if bits == 0 else value - (1 << first)


def holds(condition: Condition, value: int) -> bool:
    """Return whether a condition holds for a value of the parameter."""
    kind = condition[0]
    if kind == "true":
        return True
    if kind == "not":
        return not holds(condition[1], value)
    if kind == "and":
        return holds(condition[1], value) and holds(condition[2], value)
    if kind == "or":
        return holds(condition[1], value) or holds(condition[2], value)
    bits = _bits(value, *condition[2])
    compare = _COMPARISONS[str(condition[1])]
    return bool(compare(bits.bit_count() if kind == "count" else bits, condition[3]))


def _bits(value: int, first: int, end: int) -> int:
    return value >> first & ((1 << (end - first)) - 1)


def uses_parameter(part: Body) -> bool:
    """Return whether a body is a condition, or a reference whose expression is not a number."""
    return bool(part[0] == "condition" or (part[0] == "instance" and part[2][0] != "number"))


def instantiate(bodies: Mapping[str, Body], parametric: frozenset[str]) -> dict[str, Body]:
    """Return the rules without a parameter, and the instances of the others for each value that reaches them.

    Args:
        bodies: All rules.
        parametric: The names of those that have a parameter.
    """
    instances = _Instances(parametric)
    result: dict[str, Body] = {}
    for name, body in bodies.items():
        if name not in parametric:
            result[name] = instances.body(body, 0) or ("choice", ())
    while instances.pending:
        name, value = instances.pending.pop()
        instance = instances.body(bodies[name], value)
        result[_instance_name(name, value)] = ("choice", ()) if instance is None else instance
    return result


class _Instances:
    """The instances of rules with parameters, which are requested while bodies are instantiated."""

    def __init__(self, parametric: frozenset[str]) -> None:
        self.pending: list[tuple[str, int]] = []
        """The rules and values that are referred to and whose bodies are not made yet."""
        self._parametric = {("rule", name) for name in parametric}
        self._references: dict[tuple[str, int], Body] = {}
        self._fixed: dict[int, bool] = {}
        self._size = 0

    def body(self, part: Body, value: int) -> Body | None:
        """Return a body for this value of the parameter; None if it has no text."""
        if self._is_fixed(part):
            return part
        self._size += 1
        if self._size > _PARTS:
            raise _too_many(f"the instances of rules with parameters have more than {_PARTS:,} parts")
        kind = part[0]
        if kind == "rule":
            return EMPTY  # the instance follows it
        if kind == "instance":
            return self._reference(part[1], evaluate(part[2], value))
        if kind == "condition":
            return EMPTY if holds(part[1], value) else None
        if kind == "repeat":
            inner = self.body(part[1], value)
            if inner is None:
                return EMPTY if part[2] == 0 else None
            return ("repeat", inner, part[2], part[3])
        if kind == "choice":
            possible = list(_present(self.body(inner, value) for inner in part[1]))
            return choice_of(possible) if possible else None
        # subtle: the condition is last but is tested first, since an alternative that is dropped needs no instances.
        for item in part[1]:
            if item[0] == "condition" and not holds(item[1], value):
                return None
        parts = [self.body(inner, value) for inner in part[1]]
        return None if None in parts else sequence_of(_present(parts))

    def _is_fixed(self, body: Body) -> bool:
        """Return whether a body contains neither conditions nor references to rules with a parameter."""
        if id(body) not in self._fixed:
            kind = body[0]
            if kind in ("sequence", "choice"):
                fixed = all(self._is_fixed(part) for part in body[1])
            elif kind == "repeat":
                fixed = self._is_fixed(body[1])
            else:
                fixed = kind not in ("instance", "condition") and body[:2] not in self._parametric
            self._fixed[id(body)] = fixed
        return self._fixed[id(body)]

    def _reference(self, name: str, value: int) -> Body:
        key = (name, value)
        if key not in self._references:
            if len(self._references) >= INSTANCES:
                raise _too_many(f"rules with parameters have more than {INSTANCES:,} instances")
            self._references[key] = ("rule", _instance_name(name, value))
            self.pending.append(key)
        return self._references[key]


def _instance_name(name: str, value: int) -> str:
    return f"{name}::{value:#x}"


def _present(parts: Iterable[Body | None]) -> Iterator[Body]:
    return (part for part in parts if part is not None)


def _too_many(message: str) -> LimitExceeded:
    return LimitExceeded(
        message,
        limit="parametric_instances",
        hint="Use fewer bits, or smaller bounds in the conditions. Each reachable combination of values becomes a "
        "rule.",
    )

"""Turn failures of the core into errors that a person can act on.

Why: matchers and the constraints themselves compile, and each must raise the same errors for an empty constraint
and for an exceeded limit.

Invariant: the error names the limit and how to raise it; for an empty constraint it names the smallest part that is
known to be the cause.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar

from structgen import _core
from structgen.errors import EmptyConstraint, LimitExceeded, UnsatisfiableSchema

from .base import IR, Constraint

__all__ = ["empty_constraint", "limit_exceeded", "translate_limits"]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_RAISE_LIMIT = "Raise it: vocabulary.with_limits({name}=...)."
_FIXED_HINTS = {
    "call_seconds": "Allow the calls more time, or simplify the constraint.",
    "capture_steps": "Use a shorter text, or make the grammar less ambiguous.",
    "constraint_depth": "Nest constraints less, or write a grammar whose rules refer to one another.",
    "constraint_parts": "Write a grammar (sg.lark, sg.gbnf), whose rules can be used many times.",
    "key_patterns": "Join patterns with equal schemas by |.",
    "literal_bytes": "Split the enum.",
    "look_depth": "Use fewer nested look-arounds.",
    "multiple_of_digits": "Use a divisor with fewer digits.",
    "nested_applicators": "Remove sub-schemas that only contain another one.",
    "number_digits": "Write the number with fewer digits.",
    "number_exponent": "Use a smaller exponent.",
    "production_symbols": "Turn repeated parts into rules.",
    "regex_depth": "Flatten the expression, or split it.",
    "repetition_count": "Omit the upper bound, or use a smaller one.",
    "substring_characters": "Use a part of the text.",
    "thread_stack": "Nest less, or call from a thread with a larger stack (threading.stack_size).",
}
"""Hints for limits that no option of a vocabulary raises."""


def translate_limits(
    hint: str = _RAISE_LIMIT,
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Return a decorator of methods that raises `LimitExceeded` for limits of the core.

    Args:
        hint: The hint of the error, with {name} for the name of the limit.
    """

    def decorate(method: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        @wraps(method)
        def limited(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            try:
                return method(*args, **kwargs)
            except _core.LimitError as error:
                raise limit_exceeded(error, hint=hint) from None

        return limited

    return decorate


def limit_exceeded(
    error: _core.LimitError, where: str | None = None, hint: str = _RAISE_LIMIT
) -> LimitExceeded:
    """Return the error for a limit of the core.

    Args:
        error: The core's error.
        where: What exceeded the limit.
        hint: How to raise the limit, with {name} for its name.
    """
    name = error.limit
    hint = _FIXED_HINTS.get(name, hint)
    return LimitExceeded(
        error.message, limit=name, where=where, hint=hint.format(name=name) if name else None
    )


def empty_constraint(
    constraint: Constraint, parts: Sequence[str], is_empty: Callable[[IR], bool]
) -> EmptyConstraint | UnsatisfiableSchema:
    """Return the error that nothing satisfies `constraint`.

    Args:
        constraint: The constraint.
        parts: Pointers of the empty sub-schemas; empty if the constraint is not a schema.
        is_empty: Returns whether it is proven that an IR has no text.
    """
    if parts:
        others = f" (and {len(parts) - 1} more)" if len(parts) > 1 else ""
        try:
            blame = constraint.blame(parts[0], is_empty)
        except _core.LimitError:
            blame = None
        return UnsatisfiableSchema(
            f"no value can satisfy this part of the schema{others}" + (f": {blame.reason}" if blame else ""),
            pointer=parts[0] or "#",
            hint=blame.hint
            if blame
            else "Its keywords contradict each other, or other rules for the same value.",
        )
    return EmptyConstraint(
        f"no text that the vocabulary can spell satisfies {constraint.describe()}",
        hint=constraint.empty_hint(),
    )

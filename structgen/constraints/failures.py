"""What the core says of a constraint, as errors that a person can act on.

Why: matchers and the constraints themselves compile, and whoever does must say the same of a constraint that
nothing satisfies and of a limit that is met.
Invariant: a limit is named, with how to raise it; an empty constraint names the smallest part that is known to be
to blame.
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

_RAISED = "Raise it: vocabulary.with_limits({name}=...)."
_FIXED_HINTS = {
    "call_seconds": "Allow the calls more time, or simplify the constraint.",
    "capture_steps": "Ask for the captures of a shorter text, or make the grammar less ambiguous.",
    "constraint_depth": "Nest constraints less, or write a grammar whose rules refer to one another.",
    "constraint_parts": "Write a grammar (sg.lark, sg.gbnf), whose rules may stand in many places.",
    "key_patterns": "Join the patterns that have equal schemas by |.",
    "literal_bytes": "Split the enum.",
    "look_depth": "Use fewer look-arounds inside one another.",
    "multiple_of_digits": "Use a divisor with fewer digits.",
    "nested_applicators": "Leave out sub-schemas that only hold another one.",
    "number_digits": "Write the number with fewer digits.",
    "number_exponent": "Use a smaller exponent.",
    "production_symbols": "Make rules of the parts that stand in several places.",
    "regex_depth": "Flatten the expression, or split it.",
    "repetition_count": "Leave the upper bound out, or write a smaller one.",
    "substring_characters": "Use a part of the text.",
    "thread_stack": "Nest less, or call from a thread with a larger stack (threading.stack_size).",
}
"""What to do where no option of a vocabulary raises the limit."""


def translate_limits(
    hint: str = _RAISED,
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Makes of a method one whose limits of the core are `LimitExceeded`."""

    def decorate(method: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        @wraps(method)
        def limited(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            try:
                return method(*args, **kwargs)
            except _core.LimitError as error:
                raise limit_exceeded(error, hint=hint) from None

        return limited

    return decorate


def limit_exceeded(error: _core.LimitError, where: str | None = None, hint: str = _RAISED) -> LimitExceeded:
    """What the core says of a limit, with its name and how to raise it: `hint`, with {name} in it."""
    name = error.limit
    hint = _FIXED_HINTS.get(name, hint)
    return LimitExceeded(
        error.message, limit=name, where=where, hint=hint.format(name=name) if name else None
    )


def empty_constraint(
    constraint: Constraint, parts: Sequence[str], is_empty: Callable[[IR], bool]
) -> EmptyConstraint | UnsatisfiableSchema:
    """Nothing satisfies `constraint`; `parts` are the pointers of the sub-schemas to blame, if there are any."""
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
            else "Its keywords contradict each other, or contradict what the value must be elsewhere.",
        )
    return EmptyConstraint(
        f"no text that the vocabulary can spell satisfies {constraint.describe()}",
        hint=constraint.empty_hint(),
    )

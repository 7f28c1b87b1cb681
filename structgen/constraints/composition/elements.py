"""The elements of compositions: free text, a special token, repetition, optional parts.

Invariant: `text` never contains the text that ends it. A special token is never text; a tokenizer without it spells its
name.
Cost: that of the operands. A count adds its logarithm, but bounded free text has a state for each length.
"""

from __future__ import annotations

from collections.abc import Iterable

from structgen.argument_names import checks_names
from structgen.constraints.base import Operand, as_constraint
from structgen.constraints.expressions import ANY, intersect
from structgen.constraints.expressions import repeat as repeat_expression
from structgen.constraints.grammar.bodies import EMPTY, sequence_of
from structgen.constraints.occurrences import without
from structgen.errors import ConstraintError, OptionError, with_kind

from .composed import Composition, body_of

__all__ = ["Special", "checked_count", "checked_texts", "optional", "repeat", "special", "text"]

_MOST_COUNT = (1 << 63) - 1
"""The largest count of the core."""


class Special(Composition):
    """One special token; `special` builds it."""

    __slots__ = ("token",)

    token: str

    def __init__(self, token: str) -> None:
        object.__setattr__(self, "token", token)
        super().__init__(("special", token), f"the special token {token!r}")

    def __repr__(self) -> str:
        return f"special({self.token!r})"


@checks_names
def special(token: str) -> Special:
    """Return the constraint of one special token, given by its text: ``special("<|im_end|>")``.

    A tokenizer without the token spells its text. So the same constraint works for models whose markers are tokens and
    for models whose markers are words.

    Args:
        token: The text of the token.

    Raises:
        ConstraintError: `token` is not a non-empty text.
    """
    (token,) = checked_texts(token, "special()")
    return Special(token)


@checks_names
def text(
    until: str | Iterable[str] | None = None, *, max_chars: int | None = None, min_chars: int = 0
) -> Composition:
    """Return the constraint of free text in which none of the texts in `until` occurs.

    The text that ends it is not included: write ``text("</think>") + "</think>"``.

    Args:
        until: One text or several that must not occur.
        max_chars: The most characters; None: any number.
        min_chars: The fewest characters.

    Raises:
        ConstraintError: `until` contains an empty text, or something else.
        OptionError: A count is wrong.
    """
    ends = () if until is None else checked_texts(until, "text()")
    low, high = checked_count(min_chars, "min_chars"), _checked_limit(max_chars, "max_chars", min_chars)
    parts = [without(ends)]
    if low or high is not None:
        parts.append(repeat_expression(ANY, low, high))
    shown = " or ".join(map(repr, ends))
    return Composition(("text", intersect(parts)), f"free text until {shown}" if ends else "free text")


@checks_names
def repeat(
    constraint: Operand,
    min: int = 0,
    max: int | None = None,
    separator: Operand | None = None,
) -> Composition:
    """Repeat a constraint, a type or a string from `min` to `max` times.

    Args:
        constraint: What is repeated.
        min: The fewest times.
        max: The most times; None: any number.
        separator: The constraint, type or string between two repetitions.

    Example:
        ``sg.repeat(int, 1, 3, separator=", ")``
    """
    operand = as_constraint(constraint)
    low, high = checked_count(min, "min"), _checked_limit(max, "max", min)
    name = f"{operand.describe()} {low} to {'any number of' if high is None else high} times"
    body = body_of(operand)
    if high == 0:
        return Composition(EMPTY, name)
    if separator is None:
        return Composition(("repeat", body, low, high), name, parts=[operand])
    following = sequence_of((body_of(as_constraint(separator)), body))
    least, most = (low - 1 if low else 0), None if high is None else high - 1
    nonempty = sequence_of((body, ("repeat", following, least, most)))
    return Composition(nonempty if low else ("repeat", nonempty, 0, 1), name, parts=[operand])


@checks_names
def optional(constraint: Operand) -> Composition:
    """Return the constraint that also accepts the empty text, for a constraint, a type or a string."""
    operand = as_constraint(constraint)
    name = f"optionally {operand.describe()}"
    return Composition(("repeat", body_of(operand), 0, 1), name, parts=[operand])


def checked_texts(texts_given: str | Iterable[str], where: str) -> tuple[str, ...]:
    """Return one text or several as a tuple without duplicates; raise an error for empty ones."""
    texts = (
        tuple(texts_given)
        if isinstance(texts_given, Iterable) and not isinstance(texts_given, str)
        else (texts_given,)
    )
    for text in texts:
        if not isinstance(text, str):
            raise ConstraintError(
                f"{where} needs texts, not {with_kind(text)}",
                hint='Pass one text or several: ["a", "b"].',
            )
        if not text:
            raise ConstraintError(
                f"{where} cannot search for the empty text, which occurs everywhere", hint="Remove it."
            )
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise ConstraintError(
                f"{text!r:.60} contains a lone surrogate, which has no UTF-8 form",
                hint="Decode the text correctly first.",
            )
    return tuple(dict.fromkeys(texts))


def checked_count(value: int, name: str) -> int:
    """Return a count; raise an error unless it is a whole number of 0 or more."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise OptionError(f"{name} is {value!r:.60}; it must be a whole number of 0 or more")
    if value > _MOST_COUNT:
        raise OptionError(f"{name} is {value!r:.60}; it must be at most {_MOST_COUNT:,}")
    return value


def _checked_limit(value: int | None, name: str, least: int) -> int | None:
    if value is None:
        return None
    if checked_count(value, name) < least:
        raise OptionError(f"{name} is {value}, below the minimum {least}", hint="Swap the two.")
    return value

"""Free text, one special token, and repetition: the small parts of compositions.

Invariant: `text` never holds what ends it; a special token is never text, and a tokenizer that lacks it spells the
text that names it.
Cost: that of the operands; a count adds its logarithm, but a bounded free text has a state for each length.
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
"""What the core counts to."""


class Special(Composition):
    """Made by `special`."""

    __slots__ = ("token",)

    token: str

    def __init__(self, token: str) -> None:
        object.__setattr__(self, "token", token)
        super().__init__(("special", token), f"the special token {token!r}")

    def __repr__(self) -> str:
        return f"special({self.token!r})"


@checks_names
def special(token: str) -> Special:
    """One special token of the tokenizer, by its text: ``special("<|im_end|>")``.

    A tokenizer without it reads that text as any other, so that the same constraint serves models whose markers
    are tokens and models whose markers are words.
    """
    (token,) = checked_texts(token, "special()")
    return Special(token)


@checks_names
def text(
    until: str | Iterable[str] | None = None, *, max_chars: int | None = None, min_chars: int = 0
) -> Composition:
    """Free text in which none of `until` occurs, of `min_chars` to `max_chars` characters.

    The text that ends it is not a part: ``text("</think>") + "</think>"``.
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
        separator: What stands between any two: a constraint, a type or a string.

    Example:
        ``sg.repeat(int, 1, 3, separator=", ")``
    """
    operand = as_constraint(constraint)
    low, high = checked_count(min, "min"), _checked_limit(max, "max", min)
    name = f"{operand.describe()} {low} to {'any number of' if high is None else high} times"
    one = body_of(operand)
    if high == 0:
        return Composition(EMPTY, name)
    if separator is None:
        return Composition(("repeat", one, low, high), name, parts=[operand])
    more = sequence_of((body_of(as_constraint(separator)), one))
    least, most = (low - 1 if low else 0), None if high is None else high - 1
    several = sequence_of((one, ("repeat", more, least, most)))
    return Composition(several if low else ("repeat", several, 0, 1), name, parts=[operand])


@checks_names
def optional(constraint: Operand) -> Composition:
    """Return the texts of a constraint, a type or a string, and the empty text."""
    operand = as_constraint(constraint)
    name = f"optionally {operand.describe()}"
    return Composition(("repeat", body_of(operand), 0, 1), name, parts=[operand])


def checked_texts(given: str | Iterable[str], where: str) -> tuple[str, ...]:
    """One text or several, none of them empty, each once."""
    texts = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    for one in texts:
        if not isinstance(one, str):
            raise ConstraintError(
                f"{where} looks for texts, not for {with_kind(one)}",
                hint='Give one text or several: ["a", "b"].',
            )
        if not one:
            raise ConstraintError(
                f"{where} cannot look for the empty text, which is everywhere", hint="Leave it out."
            )
        if any("\ud800" <= character <= "\udfff" for character in one):
            raise ConstraintError(
                f"{one!r:.60} holds a lone surrogate, which no UTF-8 text can spell",
                hint="Decode the text correctly first.",
            )
    return tuple(dict.fromkeys(texts))


def checked_count(value: int, name: str) -> int:
    """A whole number of 0 or more."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise OptionError(f"{name} is {value!r:.60}; it must be a whole number of 0 or more")
    if value > _MOST_COUNT:
        raise OptionError(f"{name} is {value!r:.60}; it must be at most {_MOST_COUNT:,}")
    return value


def _checked_limit(value: int | None, name: str, least: int) -> int | None:
    if value is None:
        return None
    if checked_count(value, name) < least:
        raise OptionError(
            f"{name} is {value}, below the least, {least}", hint="Nothing satisfies that; exchange the two."
        )
    return value

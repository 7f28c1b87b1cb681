"""Scalars of a schema: numbers as exact decimal texts, counts, and strings that UTF-8 can encode.

Why: the core compares decimals, never doubles.
"""

from __future__ import annotations

from decimal import Decimal
from math import isfinite

from structgen.errors import LimitExceeded, SchemaInvalid

__all__ = ["COUNT_LIMIT", "DIGIT_LIMIT", "check_spellable", "count_of", "number_text"]

DIGIT_LIMIT = 1_000
"""Limit on the digits of a number in a schema, the same as that of the core."""
COUNT_LIMIT = 2**53
"""No text has this many characters, items or properties."""
_EXPONENT_LIMIT = 10_000
_BITS_OF_DIGITS = DIGIT_LIMIT * 4


def number_text(value: object, pointer: str) -> str | None:
    """Return the decimal text of a number of the schema; None if `value` is not a number."""
    if type(value) is int:
        if value.bit_length() > _BITS_OF_DIGITS:
            raise _too_long(pointer)
        return str(value)
    if type(value) is Decimal:
        if not value.is_finite():
            raise SchemaInvalid(f"{value} is not a JSON number", pointer=pointer)
        if abs(value.adjusted()) > _EXPONENT_LIMIT:
            raise LimitExceeded(
                f"the number {value:.6E} has an exponent beyond {_EXPONENT_LIMIT}",
                limit="number_exponent",
                where=pointer,
                hint="The limit on the size of numbers cannot be raised.",
            )
        text = str(value)
    elif type(value) is float:
        if not isfinite(value):
            raise SchemaInvalid(f"{value} is not a JSON number", pointer=pointer)
        text = repr(value)
    elif isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return None
    else:
        # A subclass such as numpy.float64 or IntEnum is read as its base class.
        for base in (int, float, Decimal):
            if isinstance(value, base):
                return number_text(base(value), pointer)
        return None
    if len(text) > DIGIT_LIMIT:
        raise _too_long(pointer)
    return text


def _too_long(pointer: str) -> LimitExceeded:
    return LimitExceeded(
        f"a number has more than {DIGIT_LIMIT} digits",
        limit="number_digits",
        where=pointer,
        hint="The limit on the size of numbers cannot be raised.",
    )


def check_spellable(text: str, pointer: str) -> None:
    """Raise if `text` cannot be written in UTF-8, so that no output could contain it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SchemaInvalid(
            f"a string contains {text[error.start]!a}, half of a surrogate pair, which UTF-8 cannot encode",
            pointer=pointer,
        ) from None


def count_of(value: object) -> int | None:
    """Return a non-negative integer of the schema (2.0 is one); None if `value` is something else."""
    if type(value) is int:
        return value if value >= 0 else None
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return None
    if isinstance(value, float) and not value.is_integer():
        return None
    if isinstance(value, Decimal):
        if not value.is_finite():
            return None
        if value.adjusted() > DIGIT_LIMIT:
            return COUNT_LIMIT if value > 0 else None
        if value != value.to_integral_value():
            return None
    return int(value) if value >= 0 else None

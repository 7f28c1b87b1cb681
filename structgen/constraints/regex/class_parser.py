"""Parse the bracketed classes of a pattern, and make errors that point into it.

Why: a class is a small language inside patterns, which differs between the dialects only in its escapes.

Cost: linear in the text of a class and in the ranges of characters that it stands for.
"""

from __future__ import annotations

import re
from typing import ClassVar, NoReturn

from structgen._core import charge
from structgen.constraints.expressions import RE, Ranges, character_class, negate_ranges, normalise_ranges
from structgen.errors import LimitExceeded, RegexSyntaxError, RegexUnsupported

from .casing import close_ranges
from .foreign import ADVICE
from .settings import Flags, RegexLimits

__all__ = ["UNITS_PER_ITEM", "ClassParser"]

UNITS_PER_ITEM = 75
"""Units of work, of 20 ns each, for an item of a pattern or a range of a class."""


class ClassParser:
    """Parses the classes of one pattern."""

    dialect: ClassVar[str]
    class_text: ClassVar[re.Pattern[str]]
    """Matches a bracketed class up to its closing bracket."""
    class_cache: ClassVar[dict[tuple[str, Flags], RE]]

    def __init__(self, pattern: str, flags: Flags, limits: RegexLimits) -> None:
        self.pattern = pattern
        self.flags = flags
        self.limits = limits
        self.position = 0
        self.ranges = 0
        self.case_closures: dict[tuple[int, bool], tuple[Ranges, Ranges]] = {}
        """By the `id` of the ranges of an escape, which are shared: the ranges, and their closure under case."""

    def read_class(self, start: int, stop: int) -> RE:
        """Return the expression of the class between `start` and `stop`, brackets included."""
        pattern = self.pattern
        position = start + 1
        negated_class = pattern[position] == "^"
        position += negated_class
        ranges: list[tuple[int, int]] = []
        while position < stop - 1:
            first, after = self.class_atom(position)
            if pattern[after] != "-" or after + 1 >= stop - 1:
                ranges.extend(first if isinstance(first, tuple) else ((first, first),))
                position = after
                continue
            last, after_last = self.class_atom(after + 1)
            if isinstance(first, tuple) or isinstance(last, tuple):
                self.set_in_range(position, after_last)
                for end in (first, last):
                    ranges.extend(end if isinstance(end, tuple) else ((end, end),))
                ranges.append((0x2D, 0x2D))
            elif last < first:
                self.fail(
                    f"the range {pattern[position:after_last]!r} ends before it starts",
                    position,
                    after_last,
                    hint="Swap the ends, or write '\\-' for the character '-'.",
                )
            else:
                ranges.append((first, last))
            position = after_last
        self.count_ranges((5 if negated_class else 1) * len(ranges), start)  # negation takes longer
        result = normalise_ranges(ranges)
        if self.flags.ignore_case:
            self.count_ranges(4 * len(result), start)
            result = close_ranges(result, self.dialect, self.flags.ascii)
        return character_class(negate_ranges(result) if negated_class else result)

    def close_under_case(self, ranges: Ranges, position: int) -> Ranges:
        """Return the characters that an escape stands for, with their other cases."""
        key = (id(ranges), self.flags.ascii)
        if key not in self.case_closures:
            self.count_ranges(4 * len(ranges), position)
            self.case_closures[key] = ranges, close_ranges(ranges, self.dialect, self.flags.ascii)
        return self.case_closures[key][1]

    def count_ranges(self, ranges: int, position: int) -> None:
        """Count ranges of characters against the limit; a short escape can stand for hundreds of ranges."""
        charge(UNITS_PER_ITEM * ranges)
        self.ranges += ranges
        if self.ranges > self.limits.class_ranges:
            raise LimitExceeded(
                f"the classes of the pattern have more than {self.limits.class_ranges:,} ranges of characters",
                limit="class_ranges",
                hint="Use fewer different classes with \\w, \\W or \\p{...}, or narrower ones.",
                pattern=self.pattern,
                position=position,
            )

    def class_atom(self, position: int) -> tuple[int | Ranges, int]:
        """Return one member of a class, as a code point or a set, and the position after it."""
        if self.pattern[position] == "\\":
            return self.class_escape(position)
        return ord(self.pattern[position]), position + 1

    def class_escape(self, position: int) -> tuple[int | Ranges, int]:
        """Parse an escape inside a class."""
        raise self.error("the dialect has no escapes in classes", position)

    def set_in_range(self, start: int, stop: int) -> None:
        r"""Refuse a range with a set as one of its ends, such as ``[\w-z]``."""
        self.fail(
            f"the range {self.pattern[start:stop]!r} needs single characters at its ends",
            start,
            stop,
            hint="Write '\\-' for the character '-'.",
        )

    # -- errors

    def error(
        self, message: str, position: int, end: int | None = None, hint: str | None = None
    ) -> RegexSyntaxError:
        """Return a syntax error at a position of this pattern."""
        return RegexSyntaxError(message, pattern=self.pattern, position=position, end=end, hint=hint)

    def fail(self, message: str, position: int, end: int | None = None, hint: str | None = None) -> NoReturn:
        """Raise a syntax error."""
        raise self.error(message, position, end, hint)

    def unsupported(self, feature: str, position: int, end: int) -> RegexUnsupported:
        """Return the error for a feature that is recognised but not supported."""
        return RegexUnsupported(
            f"{feature} are not supported",
            pattern=self.pattern,
            position=position,
            end=end,
            hint=ADVICE.get(feature),
        )

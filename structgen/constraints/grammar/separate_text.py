"""A regular part of a grammar that stays a terminal of its own.

Why: the regular neighbours of a body become one expression, so that a table reads them. Where hundreds of alternatives
contain the same costly expression, such as that of a format, each of theirs would be compiled and searched alone.
What: in a body it is a constraint, which is not merged; the core gets a terminal that is a text.
"""

from __future__ import annotations

from structgen.constraints.base import IR, Constraint
from structgen.ir.regex import RE

__all__ = ["SeparateText"]


class SeparateText(Constraint):
    """The texts of a regular expression, as a terminal of their own."""

    __slots__ = ("_hash", "expression")

    expression: RE
    _hash: int

    def __init__(self, expression: RE) -> None:
        object.__setattr__(self, "expression", expression)

    def lower(self) -> IR:
        """Return the regular expression as IR."""
        return ("regex", self.expression)

    def regular(self) -> RE:
        """Return the regular expression."""
        return self.expression

    def describe(self) -> str:
        """Return a phrase for messages."""
        return "a text of a regular expression"

    def __repr__(self) -> str:
        return f"<{self.describe()}>"

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other)

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", hash(self.expression))
            return self._hash

    def __reduce__(self) -> tuple[type[SeparateText], tuple[RE]]:
        # subtle: the hash is left out, since it differs between processes.
        return SeparateText, (self.expression,)

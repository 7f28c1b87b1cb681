"""The constraint "a text that the pattern matches in full", and `regex`, which makes it.

Why: the pattern is parsed immediately, so that a mistake is reported, with its position, where the constraint is
written.

Invariant: `regex` has the meaning of ``fullmatch``, and `pattern_language` that of ``search``, which JSON Schema
specifies for ``pattern``.

Cost: 30 to 60 microseconds for an ordinary pattern; `pattern_language` caches its results.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from structgen.argument_names import checks_names
from structgen.constraints.base import IR, Constraint
from structgen.constraints.expressions import EPSILON, RE, TEXT, has_look
from structgen.errors import ConstraintError, OptionError, a_kind, with_kind

from .backtracking import same_language
from .ecma import EcmaParser, ecma_flags
from .looks import remove_looks
from .parser import DEFAULT_LIMITS, NO_FLAGS, Parser, RegexLimits
from .python import PythonParser, python_flags
from .rust import RustParser, rust_flags

__all__ = ["Dialect", "RegexConstraint", "pattern_language", "regex"]

Dialect = Literal["python", "ecma", "rust"]


class RegexConstraint(Constraint):
    """Texts that a regular expression matches in full; made by `regex`."""

    __slots__ = ("_expression", "dialect", "pattern")

    pattern: str
    dialect: Dialect
    _expression: RE

    def __init__(self, pattern: str, dialect: Dialect, expression: RE) -> None:
        object.__setattr__(self, "pattern", pattern)
        object.__setattr__(self, "dialect", dialect)
        object.__setattr__(self, "_expression", expression)

    def lower(self) -> IR:
        """Return the regular expression as IR."""
        return ("regex", self._expression)

    def regular(self) -> RE:
        """Return the regular expression."""
        return self._expression

    def tree_size(self) -> int:
        """Return an estimate of the expression's size: one part per 8 characters of the pattern."""
        return 1 + len(self.pattern) // 8

    def describe(self) -> str:
        """Return a phrase with at most 40 characters of the pattern."""
        shown = self.pattern if len(self.pattern) <= 40 else self.pattern[:37] + "..."
        return f"the pattern /{shown}/"

    def written(self) -> list[tuple[str, str]]:
        """Return the pattern and its dialect."""
        return [("pattern", self.pattern), ("dialect", self.dialect)]

    def __repr__(self) -> str:
        dialect = "" if self.dialect == "python" else f", dialect={self.dialect!r}"
        return f"regex({self.pattern!r}{dialect})"


@checks_names
def regex(
    pattern: str | re.Pattern[str],
    *,
    dialect: Dialect = "python",
    flags: int = 0,
    limits: RegexLimits = DEFAULT_LIMITS,
) -> RegexConstraint:
    r"""Return the constraint of the texts that a pattern matches in full.

    Args:
        pattern: The regular expression. A compiled pattern of `re` brings its own flags.
        dialect: ``"python"`` (the module `re`), ``"ecma"`` (JavaScript, as in JSON Schema) or ``"rust"`` (the crate
            `regex`, as in pydantic).
        flags: Flags of `re`, such as ``re.IGNORECASE``.
        limits: Limits on the size of the pattern.

    Raises:
        RegexSyntaxError: The pattern is malformed; the error has the position.
        RegexUnsupported: The pattern has a feature that is not regular, or is not supported.
        LimitExceeded: The pattern is too large.
        OptionError: A flag or dialect is unknown.

    Example:
        >>> import structgen as sg
        >>> version = sg.regex(r"\d+[.]\d+")
        >>> sg.Matcher(version, sg.Vocabulary.of_bytes()).explain("3.12").ok
        True
    """
    if isinstance(flags, bool) or not isinstance(flags, int):
        raise OptionError(
            f"flags is {with_kind(flags)}; pass flags of the module re",
            hint="For example flags=re.IGNORECASE.",
        )
    if isinstance(pattern, re.Pattern):
        flags |= pattern.flags & ~re.UNICODE
        pattern = pattern.pattern
    if not isinstance(pattern, str):
        raise ConstraintError(
            f"a pattern must be a str, not {a_kind(pattern)}",
            hint="Decode patterns of bytes: they cannot constrain text.",
        )
    return RegexConstraint(pattern, dialect, _language(_parser(pattern, dialect, flags, limits), EPSILON))


@lru_cache(maxsize=8192)
def pattern_language(pattern: str, dialect: Dialect = "ecma", flags: int = 0) -> RE:
    """Return the texts in which `pattern` is found anywhere.

    Args:
        pattern: The regular expression.
        dialect: Its dialect.
        flags: Flags of `re`.
    """
    return _language(_parser(pattern, dialect, flags, DEFAULT_LIMITS), TEXT)


def _parser(pattern: str, dialect: Dialect, flags: int, limits: RegexLimits) -> Parser:
    if dialect == "ecma":
        return EcmaParser(pattern, ecma_flags(flags) if flags else NO_FLAGS, limits)
    if dialect == "python":
        return PythonParser(pattern, python_flags(flags) if flags else NO_FLAGS, limits)
    if dialect == "rust":
        return RustParser(pattern, rust_flags(flags) if flags else NO_FLAGS, limits)
    raise OptionError(
        f"there is no regex dialect {dialect!r}", hint="The dialects are 'python', 'ecma' and 'rust'."
    )


def _language(parser: Parser, around: RE) -> RE:
    expression = parser.parse()
    without_looks = remove_looks(expression, around, parser.has_looks)
    if parser.plain is not None:
        plain = remove_looks(parser.plain, around, has_look(parser.plain))
        if same_language(plain, without_looks):
            return plain  # simpler than the look-arounds of atomic groups
    return without_looks

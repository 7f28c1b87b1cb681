"""The constraint "a part of this text": quotations, names and passages that a text contains word for word.

Why: an answer that quotes a document must occur in it; a pattern of all its parts would be quadratically large.

Invariant: a text of the constraint is one or more adjacent pieces of the given text, joined; with `empty`, also
none.

Cost: linear in the text to compile, about 0.2 s and 5 MB for 500,000 characters. States are built when they are
reached.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from structgen.argument_names import checks_names
from structgen.errors import ConstraintError, EmptyConstraint, OptionError, a_kind, with_kind

from . import expressions
from .base import IR, Constraint
from .expressions import RE

__all__ = ["WORDS", "SubstringConstraint", "substring"]

WORDS = re.compile(r"\s+|\w+|[^\s\w]+")
"""Pieces of a text in words: white space, letters and digits, and other characters."""
_LINES = re.compile(r"[^\n]*\n|[^\n]+")


class SubstringConstraint(Constraint):
    """A part of a text; made by `substring`."""

    __slots__ = ("_expression", "_source", "empty")

    empty: bool
    _source: str | tuple[str, ...]
    _expression: RE

    def __init__(self, source: str | tuple[str, ...], empty: bool) -> None:
        object.__setattr__(self, "_source", source)
        object.__setattr__(self, "empty", empty)
        object.__setattr__(self, "_expression", expressions.substring(source, empty=empty))

    def lower(self) -> IR:
        """Return the parts of the text as a regular expression."""
        return ("regex", self._expression)

    def regular(self) -> RE:
        """Return the expression that matches the parts; the core indexes the text once."""
        return self._expression

    def describe(self) -> str:
        """Return the beginning of the text, up to 40 characters."""
        start = "".join(self._source[:40])
        shown = start if len(start) <= 40 and len(self._source) <= 40 else start[:37] + "..."
        return f"a part of {shown!r}"

    def written(self) -> list[tuple[str, str]]:
        """Return the whole text."""
        return [("a part of", "".join(self._source))]

    def __repr__(self) -> str:
        shown = repr(self._source[:40])
        return f"substring({shown}{', ...' if len(self._source) > 40 else ''})"


@checks_names
def substring(
    source: str | Iterable[str],
    *,
    by: Literal["characters", "words", "lines"] = "characters",
    empty: bool = False,
) -> SubstringConstraint:
    """Return the constraint of a part of a text.

    Args:
        source: The text, or a list of its pieces from left to right. A part never divides a piece.
        by: How a text is divided into pieces: characters; words, which are runs of white space, of letters and
            digits, and of other characters; or lines with their ends.
        empty: Whether the empty text is a part.

    Returns:
        The constraint: one or more adjacent pieces, joined.

    Raises:
        EmptyConstraint: The text is empty, and `empty` is false.
        LimitExceeded: The text has more than 5,000,000 characters (limit `substring_characters`).
        ConstraintError: `source` is not a text or a list of texts.

    Example:
        >>> import structgen as sg
        >>> quotation = sg.substring("The cat sat on the mat.", by="words")
        >>> sg.Matcher(quotation, sg.Vocabulary.of_bytes()).explain("cat sat").ok
        True
    """
    if by not in ("characters", "words", "lines"):
        raise OptionError(f"by is {by!r:.40}", hint="Use 'characters', 'words' or 'lines'.")
    if not isinstance(empty, bool):
        raise OptionError(f"empty is {empty!r:.40}; it must be True or False")
    pieces: str | tuple[str, ...]
    if isinstance(source, str):
        pieces = source if by == "characters" else tuple((WORDS if by == "words" else _LINES).findall(source))
    else:
        pieces = _checked(source, by)
    for index, piece in enumerate(pieces if isinstance(pieces, tuple) else (pieces,)):
        if not piece.isascii() and any("\ud800" <= character <= "\udfff" for character in piece):
            raise ConstraintError(
                "the source of substring() contains a lone surrogate, which UTF-8 cannot encode",
                where=f"item {index}" if isinstance(pieces, tuple) else None,
                hint="Decode the text correctly first.",
            )
    if not empty and not any(pieces):
        raise EmptyConstraint(
            "substring() of an empty text has no part",
            hint="Pass a text, or empty=True for the empty text alone.",
        )
    return SubstringConstraint(pieces, empty)


def _checked(source: Iterable[str], by: str) -> tuple[str, ...]:
    if isinstance(source, bytes):
        raise ConstraintError("substring() needs a text, not bytes", hint="Decode it first.")
    if by != "characters":
        raise OptionError(f"by={by!r} applies to a text, not to a list of pieces", hint="Omit `by`.")
    try:
        pieces = tuple(source)
    except TypeError:
        raise ConstraintError(
            f"substring() needs a text or a list of texts, not {a_kind(source)}",
            hint='Write, for example, substring("The cat sat on the mat.").',
        ) from None
    for index, piece in enumerate(pieces):
        if not isinstance(piece, str):
            raise ConstraintError(f"substring() needs texts, not {with_kind(piece)}", where=f"item {index}")
    return pieces

"""The state that all readers of structural tags share: limits, special tokens in texts, the table of formats."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from structgen.constraints.base import Constraint, Literal, as_constraint
from structgen.constraints.composition import Special, Tokens, body_of, special
from structgen.constraints.composition.composed import Fragment
from structgen.constraints.grammar.bodies import choice_of, sequence_of
from structgen.errors import ConstraintError, LimitExceeded, a_kind
from structgen.ir.grammar import Body
from structgen.serving.limits import RequestLimits
from structgen.serving.structural_tags.fields import text as text_of
from structgen.tools.xml_values import SharedValues

from .marks import TokenMark, read_mark

__all__ = ["ReadFormat", "Reading", "either", "in_order"]

ReadFormat = Callable[["Reading", Any, tuple[str, ...], str, int], Constraint]
"""Reads a format. Arguments: the reading, the format, the texts that end free text, its path, its nesting depth."""


class Reading:
    """The state while one structural tag is read."""

    def __init__(
        self, limits: RequestLimits, specials: Collection[str], formats: Mapping[str, ReadFormat]
    ) -> None:
        self.limits = limits
        self.formats = formats
        self.count = 0
        names = sorted(filter(None, specials), key=len, reverse=True)
        self.values = SharedValues(shares_json=True)
        self._bodies: dict[str, Body] = {}
        self.specials = re.compile("|".join(map(re.escape, names))) if names else None

    def format(self, form: Any, ends: tuple[str, ...], where: str, depth: int) -> Constraint:
        """Return the constraint of a format; any of the texts `ends` ends it if it is free text."""
        if not isinstance(form, dict):
            raise ConstraintError(f"a format is an object, not {a_kind(form)}", where=where)
        self.count_format(depth)
        kind = form.get("type")
        read = self.formats.get(kind) if isinstance(kind, str) else None
        if read is None:
            raise ConstraintError(
                f"the format {kind!r:.60} of structural tags is not supported",
                where=where,
                hint=f"Supported are {', '.join(self.formats)}.",
            )
        return read(self, form, ends, where, depth + 1)

    def count_format(self, depth: int) -> None:
        """Count one more format. Raises `LimitExceeded` if there are too many or they nest too deep."""
        self.count += 1
        if self.count > self.limits.max_tags:
            raise LimitExceeded(
                f"more than {self.limits.max_tags:,} formats in one structural tag",
                limit="max_tags",
                hint="Send fewer; the operator of the server can raise max_tags.",
            )
        if depth > self.limits.max_depth:
            raise LimitExceeded(
                f"formats more than {self.limits.max_depth} deep inside one another",
                limit="max_depth",
                hint="Nest less; the operator of the server can raise max_depth.",
            )

    def marker(self, form: Mapping[str, Any], key: str, where: str) -> str:
        """Read the begin or an end of a tag: a text, or a special token."""
        given = form.get(key)
        if isinstance(given, dict) and given.get("type") == "token":
            return read_mark(given, f"{where}.{key}")
        return text_of(form, key, where)

    def split(self, text: str) -> list[str | Special | Tokens]:
        """Split a text at the special tokens that it contains."""
        if isinstance(text, TokenMark):
            return [text.constraint(self.specials)]
        if self.specials is None:
            return [text]
        parts: list[str | Special | Tokens] = []
        start = 0
        for match in self.specials.finditer(text):
            parts += [text[start : match.start()]] if match.start() > start else []
            parts.append(special(match[0]))
            start = match.end()
        return parts + ([text[start:]] if start < len(text) else []) or [text]

    def written(self, text: str) -> Constraint:
        """Return the constraint of exactly this text, in which special tokens stand for themselves."""
        return in_order([as_constraint(part) for part in self.split(text)])

    def body(self, text: str) -> Body:
        """Return a text as the body of a grammar rule. Equal texts share one body."""
        known = self._bodies.get(text)
        if known is None:
            known = self._bodies[text] = body_of(self.written(text))
        return known


def in_order(parts: Sequence[Constraint]) -> Constraint:
    """Return the sequence of the parts, without empty texts."""
    full = [part for part in parts if not (isinstance(part, Literal) and not part.text)]
    if not full:
        return Literal("")
    if len(full) == 1:
        return full[0]
    return Fragment(sequence_of(map(body_of, full)), " and then ".join(_names(full)))


def either(parts: Sequence[Constraint]) -> Constraint:
    """Return the union of constraints."""
    if len(parts) == 1:
        return parts[0]
    return Fragment(choice_of(map(body_of, parts)), "one of " + ", ".join(_names(parts)))


def _names(parts: Sequence[Constraint]) -> list[str]:
    names = [part.describe()[:60] for part in parts[:3]]
    return names + ([f"{len(parts) - 3} more"] if len(parts) > 3 else [])

"""A top-level string as plain text: the same language as in JSON, without quotes and escapes.

Why: if the output type is a date or a word, the model should write only that.
"""

from __future__ import annotations

from typing import Any

from structgen.constraints.base import IR, Constraint
from structgen.constraints.expressions import ANY, RE, TEXT, intersect, repeat
from structgen.constraints.json_schema import json_schema

__all__ = ["Text", "text_constraint"]

_KEYWORDS = frozenset({"type", "pattern", "x-pattern-dialect", "format", "minLength", "maxLength"})
_ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "deprecated", "writeOnly", "readOnly"}
)


class Text(Constraint):
    """The texts of one regular expression; by default every text."""

    __slots__ = ("_expression", "_name")

    _expression: RE
    _name: str

    def __init__(self, expression: RE = TEXT, name: str = "any text") -> None:
        object.__setattr__(self, "_expression", expression)
        object.__setattr__(self, "_name", name)

    def lower(self) -> IR:
        """Return the regular expression as IR."""
        return ("regex", self._expression)

    def regular(self) -> RE:
        """Return the regular expression."""
        return self._expression

    def describe(self) -> str:
        """Return the name that its maker gave it."""
        return self._name

    def __repr__(self) -> str:
        return f"<{self.describe()}>"


def text_constraint(schema: dict[str, Any], name: str) -> Text | None:
    """Return the constraint of a schema that only describes a string; None if it says more."""
    if schema.get("type") != "string" or not schema.keys() <= _KEYWORDS | _ANNOTATIONS:
        return None
    bare = {keyword: value for keyword, value in schema.items() if keyword in _KEYWORDS}
    (node,) = json_schema(bare).lower()[1]["nodes"]
    parts = [node[keyword] for keyword in ("pattern", "format") if keyword in node]
    shortest, longest = node.get("minLength", 0), node.get("maxLength")
    if shortest or longest is not None:
        parts.append(repeat(ANY, shortest, longest))
    return Text(intersect(parts) if parts else TEXT, name)

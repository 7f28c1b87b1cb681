"""JSON Schemas as data: what `structgen.constraints.json_schema.reader` builds.

Why: the core reads one table of nodes, in which sub-schemas refer to one another by index. So recursive schemas are
finite data.
Invariant: a schema never changes after it is built; equal ones have equal hashes. Compiled automata are remembered by
their constraint, alone or inside a combination.
Cost: the hash looks at little, since it is computed before the first mask; equality compares everything.
Read by: `structgen/_core/bind/schema_ir.cpp`.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypedDict

from .regex import RE

__all__ = ["JsonValue", "NodeIndex", "SchemaIR", "SchemaNode", "SchemaOptions", "WhitespaceIR"]

JsonValue: TypeAlias = Any
"""A decoded JSON value: None, a bool, a number, a str, or a list or dict of such values."""

NodeIndex: TypeAlias = int
"""The index of a node in ``SchemaIR["nodes"]``."""

SchemaNode = TypedDict(
    "SchemaNode",
    {
        "pointer": str,
        "types": int,
        "integer": bool,
        "digits": bool,
        "strings": "tuple[str, ...]",
        "numbers": "tuple[str, ...]",
        "literals": "tuple[str, ...]",
        "values": "tuple[NodeIndex, ...]",
        "minimum": str,
        "maximum": str,
        "exclusiveMinimum": str,
        "exclusiveMaximum": str,
        "multipleOf": str,
        "minLength": int,
        "maxLength": int,
        "pattern": RE,
        "format": RE,
        "prefixItems": "tuple[NodeIndex, ...]",
        "items": NodeIndex,
        "contains": NodeIndex,
        "minContains": int,
        "maxContains": int,
        "uniqueItems": bool,
        "minItems": int,
        "maxItems": int,
        "properties": "tuple[tuple[str, NodeIndex], ...]",
        "patternProperties": "tuple[tuple[RE, NodeIndex], ...]",
        "additionalProperties": NodeIndex,
        "propertyNames": NodeIndex,
        "required": "tuple[str, ...]",
        "minProperties": int,
        "maxProperties": int,
        "allOf": "tuple[NodeIndex, ...]",
        "anyOf": "tuple[tuple[NodeIndex, ...], ...]",
        "oneOf": "tuple[tuple[NodeIndex, ...], ...]",
        "not": "tuple[NodeIndex, ...]",
        "ref": "tuple[NodeIndex, ...]",
        "if": NodeIndex,
        "then": NodeIndex,
        "else": NodeIndex,
    },
    total=False,
)
"""One sub-schema: only the keywords that it has. The keys `docs/ir.md` explains; a node may also be True or False."""

WhitespaceIR: TypeAlias = (
    tuple[Literal["flexible"], int, int]
    | tuple[Literal["written"], str | None, int, int, int, int]
    | tuple[Literal["table"], tuple[int, ...], tuple[tuple[int, int, int, int, bool, bool], ...]]
)
"""How white space between JSON tokens is written.

``flexible``: the most blanks in a gap, and the most blanks after a line end in it.
``written``: the indentation of a level (None: no line ends), then the numbers of spaces before and after a comma, and
before and after a colon.
``table``: the states in which the six kinds of gaps start, then the rows of an automaton. A row has the states after a
space, a tab, a line feed and a carriage return (-1: none), and whether the next token or a closing bracket may follow.
"""


class SchemaOptions(TypedDict, total=False):
    """Options of a schema as a whole."""

    whitespace: WhitespaceIR
    escapes: Literal["all", "canonical"]
    """Whether a string may spell a character by any of its escapes, or as ``json.dumps`` does."""
    integers: Literal["any", "digits"]
    """Whether a whole number may be spelled ``7.0``, or by digits alone."""
    ordered: bool
    """Whether declared properties come in the order of the schema."""


class SchemaIR(dict[str, Any]):
    """A schema: ``nodes`` (a tuple of `SchemaNode` or bool), ``root`` (an index) and ``options`` (`SchemaOptions`)."""

    __slots__ = ("_hash", "spelled")

    spelled: dict[NodeIndex, dict[str, str]]
    """How the user's schema spells what a node says, for messages. No automaton depends on it. The keys of a node are a
    keyword that stands for another one (``enum`` for ``const``), ``text of pattern`` and ``text of format``."""

    def __init__(self, *, spelled: dict[NodeIndex, dict[str, str]] | None = None, **content: object) -> None:
        super().__init__(content)
        self.spelled = spelled or {}
        self._hash: int | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # subtle: the hash is left out, since it differs between processes.
        return _rebuilt, (dict(self), self.spelled)

    def __hash__(self) -> int:  # type: ignore[override]
        if self._hash is None:
            nodes = self["nodes"]
            first, last = (node if isinstance(node, dict) else {} for node in (nodes[0], nodes[-1]))
            self._hash = hash((len(nodes), *first, first.get("required"), *last, last.get("pointer")))
        return self._hash


def _rebuilt(content: dict[str, Any], spelled: dict[NodeIndex, dict[str, str]]) -> SchemaIR:
    """Return the schema that was pickled."""
    return SchemaIR(spelled=spelled, **content)

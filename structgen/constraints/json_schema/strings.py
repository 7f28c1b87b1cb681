"""The strings that satisfy a schema, as one regular language; and which types of values do.

Why: a notation that writes strings without quotes must know what they are, however the schema says it: by ``type``, a
list of types, ``allOf``, ``anyOf``, ``not``, ``if``, a reference, an ``enum``.
Invariant: `string_language` is exact. It is read off the IR, where every keyword that concerns strings is one of a few.
Cost: linear in the schema without what is shared. What is shared is written out, up to a limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from structgen.constraints.base import IR
from structgen.constraints.expressions import (
    ANY,
    NOTHING,
    RE,
    TEXT,
    alternate,
    complement,
    intersect,
    literals,
    repeat,
    scope,
)
from structgen.errors import LimitExceeded
from structgen.ir.schema import SchemaIR

__all__ = ["TYPES", "of_types", "string_language"]

TYPES = {"null": 1, "boolean": 2, "object": 4, "array": 8, "number": 16, "string": 32}
"""Bits of the types in the IR."""
_LISTS = ("strings", "numbers", "literals", "values")
_LARGEST = 50_000
"""Parts of the expression, shared ones as often as they occur."""


def of_types(schema: IR, types: Iterable[str]) -> IR:
    """Return the schema's values that have one of these types."""
    content: SchemaIR = schema[1]
    root = {
        "pointer": "#",
        "allOf": (content["root"],),
        "types": sum(TYPES[one] for one in types),
    }
    nodes = (*content["nodes"], root)
    return ("json", SchemaIR(nodes=nodes, root=len(nodes) - 1, options=content["options"]))


def string_language(schema: IR) -> RE:
    """Return the strings that satisfy the schema, as they are without quotes and escapes."""
    content: SchemaIR = schema[1]
    try:
        return _Strings(content["nodes"]).of(content["root"])[0]
    except RecursionError:
        raise LimitExceeded(
            "the sub-schemas that say what a string is are nested too deeply",
            limit="schema_depth",
            hint="Refer to fewer schemas one after another.",
        ) from None


class _Strings:
    """Expressions of nodes with their sizes, each made once."""

    def __init__(self, nodes: tuple[Any, ...]) -> None:
        self._nodes = nodes
        self._known: dict[int, tuple[RE, int]] = {}

    def of(self, place: int) -> tuple[RE, int]:
        known = self._known.get(place)
        if known is None:
            node = self._nodes[place]
            known = (TEXT if node else NOTHING, 1) if isinstance(node, bool) else self._of_node(node)
            if known[1] > _LARGEST:
                raise LimitExceeded(
                    f"the strings of the schema take an expression of more than {_LARGEST:,} parts",
                    limit="string_parts",
                    where=None if isinstance(node, bool) else node["pointer"],
                    hint="Say what a string is like in one place: a pattern, an enum.",
                )
            self._known[place] = known
        return known

    def _of_node(self, node: Mapping[str, Any]) -> tuple[RE, int]:
        parts: list[RE] = []
        size = 1

        def used(place: int) -> RE:
            nonlocal size
            expression, more = self.of(place)
            size += more
            return expression

        if not node.get("types", TYPES["string"]) & TYPES["string"]:
            return NOTHING, 1
        if any(one in node for one in _LISTS):
            parts.append(literals(node.get("strings", ())))
        parts += [scope(node[keyword]) for keyword in ("pattern", "format") if keyword in node]
        shortest, longest = node.get("minLength", 0), node.get("maxLength")
        if shortest or longest is not None:
            parts.append(repeat(ANY, shortest, longest))
        parts += [used(place) for keyword in ("ref", "allOf") for place in node.get(keyword, ())]
        parts += [alternate([used(one) for one in group]) for group in node.get("anyOf", ())]
        parts += [complement(used(place)) for place in node.get("not", ())]
        for group in node.get("oneOf", ()):
            parts.append(_exactly_one([used(one) for one in group]))
            size *= len(group)
        if "if" in node:
            test = used(node["if"])
            then, other = (used(node[one]) if one in node else TEXT for one in ("then", "else"))
            parts.append(alternate([intersect([test, then]), intersect([complement(test), other])]))
            size *= 2
        return intersect(parts), size


def _exactly_one(options: list[RE]) -> RE:
    return alternate(
        [
            intersect([one, *(complement(other) for place, other in enumerate(options) if place != number)])
            for number, one in enumerate(options)
        ]
    )

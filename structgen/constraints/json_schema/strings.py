"""Compute the strings that satisfy a schema, as one regular language.

Why: a notation that writes strings without quotes needs this language, however the schema describes it: by
``type``, a list of types, ``allOf``, ``anyOf``, ``not``, ``if``, a reference or an ``enum``.

Invariant: `string_language` is exact. It comes from the IR, in which every keyword about strings is one of a few.

Cost: linear in the schema without sharing. Shared parts are written out, up to a limit.
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

from .nodes import TYPES

__all__ = ["StringLanguages", "restrict_types", "string_language"]

_LISTS = ("strings", "numbers", "literals", "values")
_MAX_PARTS = 50_000
"""Limit on the parts of the expression; shared parts count as often as they occur."""


def restrict_types(schema: IR, types: Iterable[str]) -> IR:
    """Return the schema of the values that have one of these types."""
    content: SchemaIR = schema[1]
    root = {
        "pointer": "#",
        "allOf": (content["root"],),
        "types": sum(TYPES[kind] for kind in types),
    }
    nodes = (*content["nodes"], root)
    return ("json", SchemaIR(nodes=nodes, root=len(nodes) - 1, options=content["options"]))


def string_language(schema: IR) -> RE:
    """Return the strings that satisfy the schema, without quotes and escapes."""
    content: SchemaIR = schema[1]
    return StringLanguages(content["nodes"]).of_node(content["root"])


class StringLanguages:
    """The strings that satisfy the nodes of one schema. The expression of each node is built once."""

    def __init__(self, nodes: tuple[Any, ...]) -> None:
        self._nodes = nodes
        self._known: dict[int, tuple[RE, int]] = {}

    def of_node(self, node_id: int) -> RE:
        """Return the strings that satisfy a node, without quotes and escapes. Raises `LimitExceeded`."""
        try:
            return self._measured(node_id)[0]
        except RecursionError:
            raise LimitExceeded(
                "the sub-schemas that describe a string are nested too deeply",
                limit="schema_depth",
                hint="Use shorter chains of references.",
            ) from None

    def _measured(self, node_id: int) -> tuple[RE, int]:
        """Return the expression of a node, and its size."""
        known = self._known.get(node_id)
        if known is None:
            node = self._nodes[node_id]
            known = (TEXT if node else NOTHING, 1) if isinstance(node, bool) else self._of_node(node)
            if known[1] > _MAX_PARTS:
                raise LimitExceeded(
                    f"the strings of the schema need an expression of more than {_MAX_PARTS:,} parts",
                    limit="string_parts",
                    where=None if isinstance(node, bool) else node["pointer"],
                    hint="Describe the string in one place: a pattern or an enum.",
                )
            self._known[node_id] = known
        return known

    def _of_node(self, node: Mapping[str, Any]) -> tuple[RE, int]:
        parts: list[RE] = []
        size = 1

        def used(node_id: int) -> RE:
            nonlocal size
            expression, more = self._measured(node_id)
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
        parts += [used(node_id) for keyword in ("ref", "allOf") for node_id in node.get(keyword, ())]
        parts += [alternate([used(one) for one in group]) for group in node.get("anyOf", ())]
        parts += [complement(used(node_id)) for node_id in node.get("not", ())]
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
            intersect(
                [option, *(complement(other) for index, other in enumerate(options) if index != number)]
            )
            for number, option in enumerate(options)
        ]
    )

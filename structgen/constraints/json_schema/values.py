"""The values of ``enum`` and ``const`` as IR.

Why: the core has no JSON values. So scalars become texts, and objects and arrays become sub-schemas that exactly
one value satisfies.

Invariant: the node of a value accepts that value, under JSON's equality (1 and 1.0 are equal, 1 and true are not),
and no other.

Cost: linear in the values; there is no recursion, so depth does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from structgen.errors import SchemaInvalid

from .node_builder import NodeBuilder
from .nodes import ARRAY, OBJECT, Node
from .scalars import check_spellable, number_text

__all__ = ["enumerate_values"]

_SHARED_TYPES = frozenset((str, int, float, bool, type(None)))
"""Types whose equal values have equal texts in a schema."""

Pending = list[tuple[Any, int, int]]
"""Values to visit: the value, its node id, and how many containers it is nested in."""


def enumerate_values(builder: NodeBuilder, values: list[Any], node: Node, pointer: str) -> None:
    """Write `values` as the alternatives of `node`."""
    pending: Pending = []
    scalars: dict[tuple[type, Any], int] = {}
    """Nodes of scalar members and items; equal ones share a node."""
    path: list[int] = []
    """The containers around the current value, by identity. The last pending one is next, so they form a path."""
    around: set[int] = set()
    _write_values(builder, values, node, pointer, pending)
    while pending:
        value, node_id, depth = pending.pop()
        around.difference_update(path[depth:])
        del path[depth:]
        generated: dict[str, Any] = {"pointer": pointer}
        if id(value) in around:
            raise SchemaInvalid(
                "a value contains itself, so it has no JSON text",
                pointer=pointer,
                hint="Build it without the cycle.",
            )
        path.append(id(value))
        around.add(id(value))
        builder.note_depth(len(path), pointer)
        members = []
        for member in value.values() if isinstance(value, dict) else value:
            if isinstance(member, (dict, list, tuple)):
                members.append(builder.reserve())
                pending.append((member, members[-1], depth + 1))
            else:
                members.append(_scalar_node(builder, member, pointer, scalars))
        if isinstance(value, dict):
            _write_object(builder, value, members, generated, pointer)
        else:
            _write_array(builder, members, generated)
        builder.nodes[node_id] = generated


def _scalar_node(
    builder: NodeBuilder, value: object, pointer: str, known: dict[tuple[type, Any], int]
) -> int:
    """Return the node id of a scalar member or item."""
    kind = type(value)
    if kind in _SHARED_TYPES and (kind, value) in known:
        return known[kind, value]
    node: Node = {"pointer": pointer}
    _write_values(builder, [value], node, pointer, [])
    node_id = builder.add_node(node)
    if kind in _SHARED_TYPES:
        known[kind, value] = node_id
    return node_id


def _write_values(
    builder: NodeBuilder, values: Iterable[object], node: Node, pointer: str, pending: Pending
) -> None:
    strings: list[str] = []
    numbers: list[str] = []
    literals: list[str] = []
    containers: list[int] = []
    for value in values:
        if type(value) is str:
            strings.append(value)
        elif value is None:
            literals.append("null")
        elif value is True:
            literals.append("true")
        elif value is False:
            literals.append("false")
        elif isinstance(value, (dict, list, tuple)):
            containers.append(builder.reserve())
            pending.append((value, containers[-1], 0))
        elif isinstance(value, str):
            strings.append(str.__str__(value))
        else:
            text = number_text(value, pointer)
            if text is None:
                raise SchemaInvalid(f"a value of type {type(value).__name__} is not JSON", pointer=pointer)
            numbers.append(text)
    if strings and not (joined := "".join(strings)).isascii():
        check_spellable(joined, pointer)
    if strings or not (numbers or literals or containers):
        node["strings"] = tuple(strings)
    if numbers:
        node["numbers"] = tuple(numbers)
    if literals:
        node["literals"] = tuple(literals)
    if containers:
        node["values"] = tuple(containers)


def _write_object(
    builder: NodeBuilder, value: dict[str, Any], members: list[int], node: Node, pointer: str
) -> None:
    for name in value:
        if not isinstance(name, str):
            raise SchemaInvalid(f"the key {name!r} is not a string", pointer=pointer)
    if not (joined := "".join(value)).isascii():
        check_spellable(joined, pointer)
    node["types"] = OBJECT
    node["properties"] = tuple(zip(value, members, strict=True))
    node["required"] = tuple(value)
    node["additionalProperties"] = builder.false_node()


def _write_array(builder: NodeBuilder, members: list[int], node: Node) -> None:
    node["types"] = ARRAY
    node["prefixItems"] = tuple(members)
    node["items"] = builder.false_node()
    node["minItems"] = len(members)

"""Find schemas each of whose values would have to contain another one, without end.

``{"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#"}}}`` requires a value that no finite
text can spell, although no keyword of it contradicts another.

Invariant: each node of a reported cycle requires the next one, of the same value or of one that it must contain. So
no finite value satisfies any of them.

Cost: linear in the schema for each round of a least fixed point, at most `_MAX_VISITS` visits; few rounds in
practice. Only after a schema has failed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..nodes import ALL_TYPES, ARRAY, OBJECT, Node

__all__ = ["find_endless_cycle"]

_MAX_VISITS = 1_000_000
"""Visits of a sub-schema, in all rounds together."""
_LISTS = ("strings", "numbers", "literals", "values")

_Choice = tuple[int, ...]
"""Sub-schemas one of which must be satisfied, by the value itself or by one that it must contain."""


def find_endless_cycle(nodes: tuple[Any, ...], node_id: int) -> list[str] | None:
    """Return the pointers of a cycle that the node leads to; None if another reason makes it empty."""
    required = [() if isinstance(node, bool) else tuple(_requirements(nodes, node)) for node in nodes]
    finite = _finite(nodes, required)
    path = [node_id]
    while True:
        choice = next(
            (child for child in required[path[-1]] if not any(finite[other] for other in child)), None
        )
        following = (
            None if choice is None else next((child for child in choice if nodes[child] is not False), None)
        )
        if following is None:
            return None
        if following in path:
            pointers = [nodes[child]["pointer"] for child in path[path.index(following) :]]
            return [*dict.fromkeys(pointers), pointers[0]]
        path.append(following)


def _finite(nodes: tuple[Any, ...], required: list[tuple[_Choice, ...]]) -> list[bool]:
    """Return which nodes have no endless requirement."""
    finite = [False] * len(nodes)
    order = range(len(nodes))
    for round_number in range(max(2, _MAX_VISITS // len(nodes))):
        before = sum(finite)
        # In one of the two directions most references lead to nodes that were visited before.
        for node_id in order if round_number % 2 else reversed(order):
            if not finite[node_id] and nodes[node_id] is not False:
                finite[node_id] = all(any(finite[child] for child in choice) for choice in required[node_id])
        if sum(finite) == before:
            return finite
    return [True] * len(nodes)


def _requirements(nodes: tuple[Any, ...], node: Node) -> Iterator[_Choice]:
    """Yield the choices that this node requires."""
    for key in ("allOf", "ref"):
        yield from ((child,) for child in node.get(key, ()))
    for key in ("anyOf", "oneOf"):
        yield from node.get(key, ())
    types = _types(nodes, node)
    if types == OBJECT:
        declared = dict(node.get("properties", ()))
        for name in node.get("required", ()):
            if name in declared:
                yield (declared[name],)
            elif "additionalProperties" in node and not node.get("patternProperties"):
                yield (node["additionalProperties"],)
    if types == ARRAY:
        prefix = node.get("prefixItems", ())
        least = node.get("minItems", 0)
        yield from ((child,) for child in prefix[:least])
        if least > len(prefix) and "items" in node:
            yield (node["items"],)
        if "contains" in node and node.get("minContains", 1):
            yield (node["contains"],)


def _types(nodes: tuple[Any, ...], node: Node) -> int:
    """Return the type bits that a node and the nodes it refers to allow."""
    types, pending, seen = ALL_TYPES, [node], 0
    while pending and seen < 100:
        current = pending.pop()
        seen += 1
        types &= current.get("types", ALL_TYPES)
        if any(key in current for key in _LISTS):
            return 0
        pending += [
            nodes[other]
            for key in ("allOf", "ref")
            for other in current.get(key, ())
            if isinstance(nodes[other], dict)
        ]
    return int(types)

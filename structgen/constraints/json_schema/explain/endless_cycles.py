"""Schemas each value of which would have to hold another one, without end.

Why: ``{"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#"}}}`` asks for a value that no
text can spell; no keyword of it contradicts another.
Invariant: each node of a cycle that is named asks for the next one, of the same value or of one that it must hold;
so no value that ends satisfies any of them.
Cost: linear in the schema for each round of a least fixed point, at most `_STEPS`; few rounds in practice. Only where
a schema has failed already.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["endless_cycle"]

_OBJECT, _ARRAY = 1 << 2, 1 << 3
_ANY = (1 << 6) - 1
_STEPS = 1_000_000
"""Looks at a sub-schema, in all rounds together."""
_LISTS = ("strings", "numbers", "literals", "values")

_Node = dict[str, Any]
_Choice = tuple[int, ...]
"""Sub-schemas one of which must be satisfied, by the value itself or by one that it must hold."""


def endless_cycle(nodes: tuple[Any, ...], place: int) -> list[str] | None:
    """The pointers of a cycle that `place` leads to; None if it is not for one that nothing satisfies it."""
    asked = [() if isinstance(node, bool) else tuple(_asked_for(nodes, node)) for node in nodes]
    finite = _finite(nodes, asked)
    path = [place]
    while True:
        choice = next((one for one in asked[path[-1]] if not any(finite[other] for other in one)), None)
        following = None if choice is None else next((one for one in choice if nodes[one] is not False), None)
        if following is None:
            return None
        if following in path:
            pointers = [nodes[one]["pointer"] for one in path[path.index(following) :]]
            return [*dict.fromkeys(pointers), pointers[0]]
        path.append(following)


def _finite(nodes: tuple[Any, ...], asked: list[tuple[_Choice, ...]]) -> list[bool]:
    """Which sub-schemas do not ask for values without end."""
    finite = [False] * len(nodes)
    order = range(len(nodes))
    for turn in range(max(2, _STEPS // len(nodes))):
        before = sum(finite)
        # One way or the other most references lead ahead.
        for place in order if turn % 2 else reversed(order):
            if not finite[place] and nodes[place] is not False:
                finite[place] = all(any(finite[one] for one in choice) for choice in asked[place])
        if sum(finite) == before:
            return finite
    return [True] * len(nodes)


def _asked_for(nodes: tuple[Any, ...], node: _Node) -> Iterator[_Choice]:
    """What must be satisfied where this node is."""
    for key in ("allOf", "ref"):
        yield from ((one,) for one in node.get(key, ()))
    for key in ("anyOf", "oneOf"):
        yield from node.get(key, ())
    types = _types(nodes, node)
    if types == _OBJECT:
        declared = dict(node.get("properties", ()))
        for name in node.get("required", ()):
            if name in declared:
                yield (declared[name],)
            elif "additionalProperties" in node and not node.get("patternProperties"):
                yield (node["additionalProperties"],)
    if types == _ARRAY:
        first = node.get("prefixItems", ())
        least = node.get("minItems", 0)
        yield from ((one,) for one in first[:least])
        if least > len(first) and "items" in node:
            yield (node["items"],)
        if "contains" in node and node.get("minContains", 1):
            yield (node["contains"],)


def _types(nodes: tuple[Any, ...], node: _Node) -> int:
    """The types that a node leaves, with what it refers to."""
    found, pending, seen = _ANY, [node], 0
    while pending and seen < 100:
        one = pending.pop()
        seen += 1
        found &= one.get("types", _ANY)
        if any(key in one for key in _LISTS):
            return 0
        pending += [
            nodes[other]
            for key in ("allOf", "ref")
            for other in one.get(key, ())
            if isinstance(nodes[other], dict)
        ]
    return int(found)

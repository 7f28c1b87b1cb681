"""Keep approximate formats sound where a schema negates them.

Why: the language of an approximate format is narrower than the format, so a text outside it may still be valid. Its
complement, under ``not``, ``if`` or in the other branches of ``oneOf``, would be wider than the specification
allows.

What: a text is *decided* if it is in the language, or certainly not of the format (`Format.decided`). Each
sub-schema that is negated somewhere gets a *shadow*. It requires that every text which
the sub-schema may look at is decided for the formats there.

Invariant: sound, since decided texts are judged as the specification does. A schema without approximate formats
under a negation keeps its nodes. Values with undecided texts are lost, even if the format does not matter for them.

Cost: linear in the negated part of the schema if it has approximate formats; nothing otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .nodes import Node, nodes_leading_to, reachable_nodes

__all__ = ["restrict_denied_formats"]

_DENYING = frozenset(["not", "oneOf", "if", "maxContains"])


def restrict_denied_formats(nodes: list[Any], decided: Mapping[int, Any]) -> None:
    """Add shadows to `nodes` where a format is negated.

    Node ids stay the same; new nodes come last.

    Args:
        nodes: All nodes of the schema.
        decided: By node id: the language of decided texts of each node with an approximate format.
    """
    if not decided:
        return
    denying = [node for node in nodes if isinstance(node, dict) and not _DENYING.isdisjoint(node)]
    below = reachable_nodes(nodes, [child for node in denying for child in _denials(node)])
    if below.isdisjoint(decided):
        return
    leading = nodes_leading_to(nodes, decided, below)
    shadows = _Shadows(nodes, decided, leading)
    added = {}
    for node_id, node in enumerate(nodes[:]):
        if isinstance(node, dict):
            shadow_ids = [
                shadows.of(child) for child in dict.fromkeys(_denied_same_value(node)) if child in leading
            ]
            if "maxContains" in node and node.get("contains") in leading:
                shadow_ids.append(shadows.of_items(node, node["contains"]))
            if shadow_ids:
                added[node_id] = shadow_ids
    shadows.write_pending()
    for node_id, ids in added.items():
        nodes[node_id]["allOf"] = (*nodes[node_id].get("allOf", ()), *ids)


class _Shadows:
    def __init__(self, nodes: list[Any], decided: Mapping[int, Any], leading: set[int]) -> None:
        self._nodes = nodes
        self._decided = decided
        self._leading = leading
        self._known: dict[int, int] = {}
        self._pending: list[int] = []

    def of(self, node_id: int) -> int:
        """Return the id of the shadow of a node that leads to a format."""
        if node_id not in self._known:
            self._known[node_id] = len(self._nodes)
            self._nodes.append({})
            self._pending.append(node_id)
        return self._known[node_id]

    def of_items(self, node: Node, node_id: int) -> int:
        """Return the id of a node that applies the shadow to every item."""
        self._nodes.append({"pointer": node["pointer"], "items": self.of(node_id)})
        return len(self._nodes) - 1

    def write_pending(self) -> None:
        """Write all shadows that were requested, and those that they need."""
        while self._pending:
            node_id = self._pending.pop()
            self._nodes[self._known[node_id]].update(self._shadow(node_id))

    def _shadow(self, node_id: int) -> Node:
        node = self._nodes[node_id]
        shadow: Node = {"pointer": node["pointer"]}
        if node_id in self._decided:
            shadow["format"] = self._decided[node_id]
        self._restrict_members(node, shadow)
        same_value = [self.of(child) for child in dict.fromkeys(_same_value(node)) if child in self._leading]
        if node.get("contains") in self._leading:
            same_value.append(self.of_items(node, node["contains"]))
        if same_value:
            shadow["allOf"] = tuple(same_value)
        return shadow

    def _restrict_members(self, node: Node, shadow: Node) -> None:
        for keyword in ("properties", "patternProperties"):
            restricts_others = node.get("additionalProperties") in self._leading
            pairs = [
                (name, self.of(child) if child in self._leading else self._true())
                for name, child in node.get(keyword, ())
                if restricts_others or child in self._leading
            ]
            if pairs:
                shadow[keyword] = tuple(pairs)
        if any(child in self._leading for child in node.get("prefixItems", ())) or (
            "prefixItems" in node and node.get("items") in self._leading
        ):
            shadow["prefixItems"] = tuple(
                [self.of(child) if child in self._leading else self._true() for child in node["prefixItems"]]
            )
        for keyword in ("additionalProperties", "propertyNames", "items"):
            if node.get(keyword) in self._leading:
                shadow[keyword] = self.of(node[keyword])

    def _true(self) -> int:
        if -1 not in self._known:
            self._known[-1] = len(self._nodes)
            self._nodes.append(True)
        return self._known[-1]


def _denied_same_value(node: Node) -> Iterator[int]:
    """Yield the sub-schemas of the same value whose rejection may matter."""
    yield from node.get("not", ())
    for branches in node.get("oneOf", ()):
        if len(branches) > 1:
            yield from branches
    if "if" in node:
        yield node["if"]


def _denials(node: Node) -> Iterator[int]:
    """Yield those, and the sub-schema whose matching items are limited in number."""
    yield from _denied_same_value(node)
    if "maxContains" in node and "contains" in node:
        yield node["contains"]


def _same_value(node: Node) -> Iterator[int]:
    """Yield the sub-schemas that apply to the same value."""
    for keyword in ("allOf", "not", "ref"):
        yield from node.get(keyword, ())
    for keyword in ("anyOf", "oneOf"):
        for branches in node.get(keyword, ()):
            yield from branches
    for keyword in ("if", "then", "else"):
        if keyword in node:
            yield node[keyword]

"""Close objects that declare their keys: what ``closed=True`` does to a schema.

Why: the specification lets ``{"properties": {"name": …}}`` have any other key, and a small model writes such keys
until its token budget is spent. Authors who declare keys nearly always mean "only these keys".

What: each value whose schema declares `properties`, and does not mention other keys, gets ``unevaluatedProperties:
false`` at the root of the value's schema. So the keys that any schema of the same value declares (``allOf``,
``$ref``, valid branches of ``anyOf`` and ``if``) stay allowed, and the combination does not become unsatisfiable. A
union is closed branch by branch: a value of ``anyOf: [Cat, Dog]`` has the keys of one of them.

A schema mentions other keys by ``additionalProperties``, ``unevaluatedProperties``, ``patternProperties``,
``propertyNames``, listed values, or a `minProperties` above the number of declared keys. Keys in ``required`` count
as declared.

Invariant: the closed schema accepts nothing that the schema rejects. Sub-schemas under ``not``, ``if`` and
``contains``, and branches of ``oneOf`` that no tag distinguishes, stay as they are, and hold beside their closed
copies.

Cost: linear in the schema, plus that of ``unevaluatedProperties`` if several schemas of one value declare keys.

Source: JSON Schema 2020-12 core, section 11.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .exclusive import are_exclusive, nodes_of_value
from .node_builder import NodeBuilder
from .nodes import ALL_TYPES, OBJECT, Node, child_ids, renumber_node
from .unevaluated import Edge, Evaluated, ObjectKeys, apply_unevaluated, edges_of

__all__ = ["OpenObjects", "close_objects", "nodes_about_other_keys"]

_MENTIONING = ("additionalProperties", "patternProperties", "propertyNames", "unevaluatedProperties")
_LISTED = ("strings", "numbers", "literals", "values")
_UNTOUCHED = ("not", "if", "contains")
_VALUES = ("properties", "patternProperties")
_UNIONS = ("anyOf", "oneOf")


@dataclass(frozen=True)
class OpenObjects:
    """The objects that declare keys and do not mention others."""

    pointers: tuple[str, ...] = ()
    is_in_place: bool = True
    """Whether ``additionalProperties: false`` at each of these pointers closes them, and changes nothing else."""


def close_objects(builder: NodeBuilder, mentioning: set[int]) -> OpenObjects:
    """Close the objects of a schema that was read.

    Args:
        builder: All nodes of the schema.
        mentioning: The nodes that mention other keys, as `nodes_about_other_keys` found them before
            ``unevaluatedProperties`` was rewritten.

    Returns:
        The objects that were open.
    """
    before = len(builder.nodes)
    closing = _Closing(builder, mentioning)
    root = closing.copy_value(0)
    closing.finish()
    if closing.closed:
        _keep_reachable(builder, root)
    else:
        _drop_from(builder, before)
    return OpenObjects(tuple(dict.fromkeys(closing.closed)), closing.is_in_place)


def nodes_about_other_keys(builder: NodeBuilder) -> set[int]:
    """Return the nodes that say which undeclared keys are allowed."""
    return builder.notes.all_properties | {
        node_id
        for node_id, node in enumerate(builder.nodes)
        if isinstance(node, dict) and any(keyword in node for keyword in (*_MENTIONING, *_LISTED))
    }


class _DeclaredKeys(ObjectKeys):
    """Counts the keys that are declared, which are more than those that are evaluated."""

    def __init__(self, mentioning: set[int], hidden: set[int]) -> None:
        self._mentioning = mentioning
        self._hidden = hidden

    def own(self, builder: NodeBuilder, node_id: int, *, itself: bool) -> Evaluated:
        if node_id in self._mentioning:
            return Evaluated(everything=True)
        node = builder.nodes[node_id]
        keys: Node = node if isinstance(node, dict) else {}
        found = super().own(builder, node_id, itself=itself)
        found.names |= dict.fromkeys(keys.get("required", ()))
        return found

    def edges(self, builder: NodeBuilder, node_id: int) -> Iterator[Edge]:
        if node_id in self._hidden:
            return
        node = builder.nodes[node_id]
        if isinstance(node, dict) and "if" in node:
            yield Edge(node["if"])  # its keys count as declared, whether it is valid or not
        yield from edges_of(builder, node_id)


class _Closing:
    """Makes copies of nodes in which the objects are closed, each once."""

    def __init__(self, builder: NodeBuilder, mentioning: set[int]) -> None:
        self.closed: list[str] = []
        self.is_in_place = True
        """Whether ``additionalProperties: false`` at the pointers in `closed` has the same effect."""
        self._builder = builder
        self._mentioning = mentioning
        self._hidden: set[int] = set()
        self._value_copies: dict[int, int] = {}
        self._copies_inside: dict[int, int] = {}
        self._pending: list[tuple[int, int]] = []
        self._wrapped: list[int] = []

    def copy_value(self, node_id: int) -> int:
        """Return the closed copy of a node that is the whole schema of a value."""
        known = self._value_copies.get(node_id)
        if known is not None:
            return known
        if isinstance(self._builder.nodes[node_id], bool):
            return node_id
        copy_id = self._value_copies[node_id] = self._builder.reserve()
        self._pending.append((node_id, copy_id))
        return copy_id

    def finish(self) -> None:
        """Write all copies that are needed, and those that they refer to."""
        nodes = self._builder.nodes
        while self._pending:
            node_id, copy_id = self._pending.pop()
            node = nodes[node_id]
            assert isinstance(node, dict)
            is_value = self._value_copies.get(node_id) == copy_id
            if is_value and self._only_delegates(node_id, node):
                nodes[copy_id] = self._copy_node(node_id, node, copy_child=self.copy_value)
            elif is_value and self._is_open(node_id):
                nodes[copy_id] = {"pointer": node["pointer"], "allOf": (self._copy_inside(node_id),)}
                self._wrapped.append(copy_id)
            else:
                nodes[copy_id] = self._copy_node(node_id, node, copy_child=self._copy_inside)
            self._carry_over(node_id, copy_id)
        for copy_id in self._wrapped:
            self._close(copy_id)

    def _copy_inside(self, node_id: int) -> int:
        """Return the copy of a node that is one of several schemas of a value: only the values inside it are closed."""
        known = self._copies_inside.get(node_id)
        if known is not None:
            self.is_in_place = False
            return known
        if isinstance(self._builder.nodes[node_id], bool):
            return node_id
        copy_id = self._copies_inside[node_id] = self._builder.reserve()
        self._pending.append((node_id, copy_id))
        return copy_id

    def _carry_over(self, node_id: int, copy_id: int) -> None:
        """Copy what is recorded about a node to its copy."""
        builder = self._builder
        if node_id in self._mentioning:
            self._mentioning.add(copy_id)
        if node_id in builder.spelled:
            builder.spelled[copy_id] = dict(builder.spelled[node_id])
        if node_id in builder.decided:
            builder.decided[copy_id] = builder.decided[node_id]

    def _copy_node(self, node_id: int, node: Node, *, copy_child: Callable[[int], int]) -> Node:
        """Return the node with closed copies of the sub-schemas that may become narrower."""
        copy: Node = {}
        for key, value in node.items():
            if key in _VALUES:
                copy[key] = tuple([(name, self.copy_value(child)) for name, child in value])
            elif key in ("additionalProperties", "items"):
                copy[key] = self.copy_value(value)
            elif key == "prefixItems":
                copy[key] = tuple([self.copy_value(child) for child in value])
            elif key in ("allOf", "ref"):
                copy[key] = (*copy.get(key, ()), *[copy_child(child) for child in value])
            elif key in ("then", "else"):
                copy[key] = self._copy_inside(value)
            elif key == "anyOf":
                groups = tuple([tuple([copy_child(child) for child in group]) for group in value])
                copy[key] = (*copy.get(key, ()), *groups)
            elif key == "oneOf":
                self._one_of(node, value, copy, copy_child)
            else:
                self.is_in_place &= key not in _UNTOUCHED
                copy[key] = value
        return copy

    def _one_of(
        self, node: Node, groups: tuple[tuple[int, ...], ...], copy: Node, copy_child: Callable[[int], int]
    ) -> None:
        """Close branches that exclude each other in place; keep others unchanged beside closed copies."""
        exclusive: list[tuple[int, ...]] = []
        for group in groups:
            closed = tuple([copy_child(child) for child in group])
            if are_exclusive(self._builder, group):
                exclusive.append(closed)
                continue
            self.is_in_place = False
            untouched = self._builder.add_node({"pointer": node["pointer"], "oneOf": (group,)})
            self._hidden.add(untouched)
            copy["allOf"] = (*copy.get("allOf", ()), untouched)
            copy["anyOf"] = (*copy.get("anyOf", ()), closed)
        if exclusive:
            copy["oneOf"] = tuple(exclusive)

    def _only_delegates(self, node_id: int, node: Node) -> bool:
        """Return whether the node declares nothing itself, and leaves the value to one reference or union."""
        if node_id in self._mentioning or any(key in node for key in ("properties", "if", "required")):
            return False
        applied = [("allOf", child) for child in node.get("allOf", ())]
        applied += [("ref", child) for child in node.get("ref", ())]
        unions = [group for key in _UNIONS for group in node.get(key, ())]
        return len(applied) + len(unions) == 1

    def _is_open(self, node_id: int) -> bool:
        """Return whether the schemas of the value declare keys, and do not mention others."""
        nodes = self._builder.nodes
        declares, seen, pending, names, at_least = False, {node_id}, [node_id], set[str](), 0
        while pending:
            one = pending.pop()
            node = nodes[one]
            if not isinstance(node, dict):
                continue
            declares |= "properties" in node and bool(node.get("types", ALL_TYPES) & OBJECT)
            names.update(name for name, _ in node.get("properties", ()))
            names.update(node.get("required", ()))
            at_least = max(at_least, node.get("minProperties", 0))
            for edge in edges_of(self._builder, one):
                if edge.child not in seen:
                    seen.add(edge.child)
                    pending.append(edge.child)
        if not declares or at_least > len(names):
            return False
        return not self._mentioning.intersection(nodes_of_value(self._builder, node_id))

    def _close(self, copy_id: int) -> None:
        """Add ``unevaluatedProperties: false`` to a node, with all declared keys as evaluated ones."""
        builder = self._builder
        keys = _DeclaredKeys(self._mentioning, self._hidden)
        node = builder.nodes[copy_id]
        assert isinstance(node, dict)
        if not apply_unevaluated(builder, copy_id, "unevaluatedProperties", builder.false_node(), keys):
            return
        self.closed.append(node["pointer"])
        own, rest = builder.nodes[node["allOf"][0]], builder.nodes[node["allOf"][-1]]
        assert isinstance(own, dict) and isinstance(rest, dict)
        names = [name for name, _ in rest.get("properties", ())]
        # If nothing depends on branches, and the node itself declares all keys, one node is enough.
        if len(node["allOf"]) == 2 and "anyOf" not in node and {*names} <= {*dict(own.get("properties", ()))}:
            self._builder.nodes[copy_id] = {**own, "additionalProperties": rest["additionalProperties"]}
            self._builder.spelled.setdefault(copy_id, {})["additionalProperties"] = "closed=True"
        else:
            self.is_in_place = False


def _drop_from(builder: NodeBuilder, first: int) -> None:
    """Drop all nodes from this one on, which are copies."""
    del builder.nodes[first:]
    for known in (builder.spelled, builder.decided):
        for node_id in [node_id for node_id in known if node_id >= first]:
            del known[node_id]


def _keep_reachable(builder: NodeBuilder, root: int) -> None:
    """Drop the nodes that are no longer referenced; the root becomes the first node."""
    nodes = builder.nodes
    order: dict[int, int] = {root: 0}
    pending = [root]
    for node_id in pending:
        for child in child_ids(nodes[node_id]):
            if child not in order:
                order[child] = len(order)
                pending.append(child)
    builder.nodes = [renumber_node(nodes[node_id], order.__getitem__) for node_id in pending]
    records: tuple[dict[int, Any], ...] = (builder.spelled, builder.decided)
    for known in records:
        kept = {order[node_id]: value for node_id, value in known.items() if node_id in order}
        known.clear()
        known.update(kept)

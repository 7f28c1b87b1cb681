"""Find which values of a text each sub-schema applies to, and which branches of a union their tags choose.

Why: a message about a rule names the value that breaks it. And for ``anyOf: [cat, dog]``, a text that says it is a
cat breaks the rules of the cat, although without its tag it could be a dog.

Invariant: only the part of the text that has been read decides; where it does not decide, nothing is reported.

Cost: linear in the text near the position times the schemas that apply there, at most `_MAX_PAIRS`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from structgen.constraints.base import Stop
from structgen.ir.schema import SchemaIR

from ..nodes import ARRAY, OBJECT, Node
from ..partial_json import UNKNOWN, PartialValue, Path

__all__ = ["SchemaValues", "Tag"]

_MAX_PAIRS = 50_000
_MAX_ITEMS = 32
"""Items of a long array that are visited, in addition to the one that leads to the position."""
_SAME_VALUE_SINGLE = ("if", "then", "else", "propertyNames")
_SAME_VALUE_LISTS = ("allOf", "ref", "not")
_UNIONS = ("anyOf", "oneOf")
_OF_ARRAYS = frozenset(
    ["uniqueItems", "contains", "minContains", "maxContains", "minItems", "maxItems", "items"]
    + ["prefixItems", "additionalItems", "unevaluatedItems"]
)
_OF_OBJECTS = frozenset(
    ["required", "minProperties", "maxProperties", "additionalProperties", "properties", "propertyNames"]
    + ["unevaluatedProperties", "patternProperties", "closed=True"]
    + ["dependentRequired", "dependentSchemas", "dependencies"]
)
_LITERALS = {"null": None, "true": True, "false": False}


@dataclass(frozen=True)
class Tag:
    """A union whose branches are distinguished by the value at `path`, and the branches that this value allows.

    The value is that of a key, or an opening bracket; for a bracket `possible` is empty.
    """

    node_id: int
    key: str
    group: tuple[int, ...]
    chosen: tuple[int, ...]
    path: Path
    possible: tuple[str, ...]
    start: int


class SchemaValues:
    """The values that each sub-schema of `ir` applies to."""

    def __init__(self, ir: SchemaIR, root: PartialValue, stop: Stop) -> None:
        self.nodes: tuple[Any, ...] = ir["nodes"]
        self.stop = stop
        self._values: dict[int, list[PartialValue]] = {}
        seen: set[tuple[int, int]] = set()
        pending = [(ir["root"], root)]
        while pending and len(seen) < _MAX_PAIRS:
            node_id, value = pending.pop()
            if (node_id, id(value)) in seen or isinstance(self.nodes[node_id], bool):
                continue
            seen.add((node_id, id(value)))
            self._values.setdefault(node_id, []).append(value)
            pending += self._children(self.nodes[node_id], value)

    def value_of(self, node_id: int, keyword: str) -> PartialValue | None:
        """Return the value that this keyword is about: the one that leads to the position, or the last one."""
        kind = "[" if keyword in _OF_ARRAYS else "{" if keyword in _OF_OBJECTS else ""
        values = [value for value in self._values.get(node_id, ()) if value.kind.startswith(kind)]
        leading = [value for value in values if self._leads(value)]
        if leading:
            return max(leading, key=lambda value: len(value.path))
        return max(values, key=lambda value: value.start, default=None)

    def tags(self) -> Iterator[Tag]:
        """Yield the unions around the position whose branches one value distinguishes."""
        for node_id, values in self._values.items():
            node = self.nodes[node_id]
            for value in filter(self._leads, values):
                for key in _UNIONS:
                    for group in node.get(key, ()):
                        by_key = list(self._tag_by_key(node_id, key, group, value))
                        yield from by_key or self._tag_by_bracket(node_id, key, group, value)

    def _tag_by_bracket(
        self, node_id: int, key: str, group: tuple[int, ...], value: PartialValue
    ) -> Iterator[Tag]:
        """Yield a tag for a value that starts with a bracket, which excludes branches of other types."""
        kind = {"{": OBJECT, "[": ARRAY}.get(value.kind)
        if kind is None:
            return
        chosen = tuple([branch for branch in group if self._allows(self._same_value_nodes(branch), kind)])
        if 0 < len(chosen) < len(group):
            yield Tag(node_id, key, group, chosen, value.path, (), value.start)

    def _tag_by_key(
        self, node_id: int, key: str, group: tuple[int, ...], value: PartialValue
    ) -> Iterator[Tag]:
        if value.kind != "{" or len(group) < 2:
            return
        branches = [(branch, self._same_value_nodes(branch)) for branch in group]
        objects = [(branch, same) for branch, same in branches if self._allows(same, OBJECT)]
        listed = [(branch, self._listed_keys(same)) for branch, same in objects]
        if not listed:
            return
        for child in value.children:
            name = str(child.path[-1])
            if child.scalar is UNKNOWN or not all(name in keys for _, keys in listed):
                continue
            listed_scalars = [(branch, keys[name]) for branch, keys in listed]
            chosen = tuple(
                [branch for branch, values in listed_scalars if _comparable(child.scalar) in values]
            )
            distinct = len({frozenset(values) for _, values in listed_scalars}) == len(listed_scalars)
            if len(chosen) < len(group) and distinct:
                possible = dict.fromkeys(text for _, values in listed_scalars for text in values.values())
                yield Tag(node_id, key, group, chosen, child.path, tuple(possible), child.start)

    def _listed_keys(self, same: list[Node]) -> dict[str, dict[Any, str]]:
        """Return, by key, the scalars that it may have, and how they are written."""
        keys: dict[str, dict[Any, str]] = {}
        for node in same:
            for name, child in node.get("properties", ()):
                for listing in self._same_value_nodes(child):
                    values = _listed_scalars(listing)
                    if values:
                        keys[name] = values
        return keys

    def _same_value_nodes(self, node_id: int) -> list[Node]:
        """Return the sub-schema and those that it applies to the same value in any case."""
        nodes: dict[int, Node] = {}
        pending = [node_id]
        while pending:
            current = pending.pop()
            if current in nodes or isinstance(self.nodes[current], bool):
                continue
            nodes[current] = self.nodes[current]
            pending += [*self.nodes[current].get("allOf", ()), *self.nodes[current].get("ref", ())]
        return list(nodes.values())

    @staticmethod
    def _allows(same: list[Node], kind: int) -> bool:
        return all(node.get("types", kind) & kind and not _listed_scalars(node) for node in same)

    def _leads(self, value: PartialValue) -> bool:
        return self.stop.path[: len(value.path)] == value.path

    def _children(self, node: Node, value: PartialValue) -> Iterator[tuple[int, PartialValue]]:
        yield from ((node[key], value) for key in _SAME_VALUE_SINGLE if key in node)
        yield from ((one, value) for key in _SAME_VALUE_LISTS for one in node.get(key, ()))
        yield from ((one, value) for key in _UNIONS for group in node.get(key, ()) for one in group)
        children = value.children
        if len(children) > _MAX_ITEMS and value.kind == "[":
            children = [child for child in children if self._leads(child)] + children[-_MAX_ITEMS:]
        for child in children:
            step = child.path[-1]
            inside = _schemas_of_item(node, step) if isinstance(step, int) else _schemas_of_entry(node, step)
            yield from ((one, child) for one in inside)


def _schemas_of_item(node: Node, index: int) -> Iterator[int]:
    first = node.get("prefixItems", ())
    if index < len(first):
        yield first[index]
    elif "items" in node:
        yield node["items"]
    yield from (node[key] for key in ("contains", "unevaluatedItems") if key in node)


def _schemas_of_entry(node: Node, key: str) -> Iterator[int]:
    declared = [child for name, child in node.get("properties", ()) if name == key]
    yield from declared
    patterns = [child for _, child in node.get("patternProperties", ())]
    yield from patterns  # only the core knows which of them match
    if "additionalProperties" in node and not declared:
        yield node["additionalProperties"]
    if "unevaluatedProperties" in node:
        yield node["unevaluatedProperties"]


def _listed_scalars(node: Node) -> dict[Any, str]:
    """Return the scalars that a node lists, and how they are written; empty if it lists none, or containers too."""
    if "values" in node:
        return {}
    found = {_comparable(text): _quoted(text) for text in node.get("strings", ())}
    found.update({_comparable(float(number)): number for number in node.get("numbers", ())})
    found.update({_comparable(_LITERALS[name]): name for name in node.get("literals", ())})
    return found


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _comparable(scalar: object) -> tuple[str, Any]:
    """Return a key for comparison under which ``true`` is not 1."""
    return type(scalar).__name__, scalar

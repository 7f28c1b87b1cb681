"""Which values of a text each sub-schema is about, and which branches of a union their tags choose.

Why: a rule of a schema becomes a sentence about a value; and of ``anyOf: [cat, dog]`` a text that says it is a cat
breaks the rules of the cat, though without the tag of the dog it could be one.
Invariant: only what is read of the text decides; where it does not, nothing is said.
Cost: linear in the text near the place times the schemas that apply there, at most `_PAIRS`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from structgen.constraints.base import Stop
from structgen.ir.schema import SchemaIR

from ..partial_json import UNREAD, Path, Value
from .contradictions import Node

__all__ = ["Placing", "Tag"]

_PAIRS = 50_000
_ITEMS = 32
"""Items of a long array that are looked at, beside the one that leads to the place."""
_SAME_ONE = ("if", "then", "else", "propertyNames")
_SAME_MANY = ("allOf", "ref", "not")
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
_OBJECT, _ARRAY = 1 << 2, 1 << 3


@dataclass(frozen=True)
class Tag:
    """A union whose branches what is read at `path` tells apart, and the branches that take it: by the value of a
    key, or by an open bracket, which leaves `possible` empty."""

    place: int
    key: str
    group: tuple[int, ...]
    chosen: tuple[int, ...]
    path: Path
    possible: tuple[str, ...]
    start: int


class Placing:
    """The values that each sub-schema of `ir` applies to."""

    def __init__(self, ir: SchemaIR, root: Value, stop: Stop) -> None:
        self.nodes: tuple[Any, ...] = ir["nodes"]
        self.stop = stop
        self._values: dict[int, list[Value]] = {}
        seen: set[tuple[int, int]] = set()
        pending = [(ir["root"], root)]
        while pending and len(seen) < _PAIRS:
            place, value = pending.pop()
            if (place, id(value)) in seen or isinstance(self.nodes[place], bool):
                continue
            seen.add((place, id(value)))
            self._values.setdefault(place, []).append(value)
            pending += self._next(self.nodes[place], value)

    def value_of(self, place: int, keyword: str) -> Value | None:
        """The value that this keyword of the sub-schema is about: what leads to the place, or was read last."""
        kind = "[" if keyword in _OF_ARRAYS else "{" if keyword in _OF_OBJECTS else ""
        values = [value for value in self._values.get(place, ()) if value.kind.startswith(kind)]
        leading = [value for value in values if self._leads(value)]
        if leading:
            return max(leading, key=lambda value: len(value.path))
        return max(values, key=lambda value: value.start, default=None)

    def tags(self) -> Iterator[Tag]:
        """The unions around the place whose branches are told apart by what one key says."""
        for place, values in self._values.items():
            node = self.nodes[place]
            for value in filter(self._leads, values):
                for key in _UNIONS:
                    for group in node.get(key, ()):
                        told = list(self._tag(place, key, group, value))
                        yield from told or self._by_kind(place, key, group, value)

    def _by_kind(self, place: int, key: str, group: tuple[int, ...], value: Value) -> Iterator[Tag]:
        """A value that has begun with a bracket leaves out the branches of other types."""
        kind = {"{": _OBJECT, "[": _ARRAY}.get(value.kind)
        if kind is None:
            return
        chosen = tuple([one for one in group if self._takes(self._same(one), kind)])
        if 0 < len(chosen) < len(group):
            yield Tag(place, key, group, chosen, value.path, (), value.start)

    def _tag(self, place: int, key: str, group: tuple[int, ...], value: Value) -> Iterator[Tag]:
        if value.kind != "{" or len(group) < 2:
            return
        branches = [(branch, self._same(branch)) for branch in group]
        objects = [(branch, same) for branch, same in branches if self._takes(same, _OBJECT)]
        listed = [(branch, self._listed_keys(same)) for branch, same in objects]
        if not listed:
            return
        for child in value.children:
            name = str(child.path[-1])
            if child.scalar is UNREAD or not all(name in keys for _, keys in listed):
                continue
            wanted = [(branch, keys[name]) for branch, keys in listed]
            chosen = tuple([branch for branch, values in wanted if _said(child.scalar) in values])
            if len(chosen) < len(group) and len({frozenset(values) for _, values in wanted}) == len(wanted):
                possible = dict.fromkeys(text for _, values in wanted for text in values.values())
                yield Tag(place, key, group, chosen, child.path, tuple(possible), child.start)

    def _listed_keys(self, same: list[Node]) -> dict[str, dict[Any, str]]:
        """By key: the scalars that it may be, and how they are written."""
        found: dict[str, dict[Any, str]] = {}
        for node in same:
            for name, child in node.get("properties", ()):
                for listing in self._same(child):
                    values = _listed(listing)
                    if values:
                        found[name] = values
        return found

    def _same(self, place: int) -> list[Node]:
        """The sub-schema and those that it asks for of the same value."""
        found: dict[int, Node] = {}
        pending = [place]
        while pending:
            one = pending.pop()
            if one in found or isinstance(self.nodes[one], bool):
                continue
            found[one] = self.nodes[one]
            pending += [*self.nodes[one].get("allOf", ()), *self.nodes[one].get("ref", ())]
        return list(found.values())

    @staticmethod
    def _takes(same: list[Node], kind: int) -> bool:
        return all(node.get("types", kind) & kind and not _listed(node) for node in same)

    def _leads(self, value: Value) -> bool:
        return self.stop.path[: len(value.path)] == value.path

    def _next(self, node: Node, value: Value) -> Iterator[tuple[int, Value]]:
        yield from ((node[key], value) for key in _SAME_ONE if key in node)
        yield from ((one, value) for key in _SAME_MANY for one in node.get(key, ()))
        yield from ((one, value) for key in _UNIONS for group in node.get(key, ()) for one in group)
        children = value.children
        if len(children) > _ITEMS and value.kind == "[":
            children = [child for child in children if self._leads(child)] + children[-_ITEMS:]
        for child in children:
            step = child.path[-1]
            inside = _of_item(node, step) if isinstance(step, int) else _of_entry(node, step)
            yield from ((one, child) for one in inside)


def _of_item(node: Node, index: int) -> Iterator[int]:
    first = node.get("prefixItems", ())
    if index < len(first):
        yield first[index]
    elif "items" in node:
        yield node["items"]
    yield from (node[key] for key in ("contains", "unevaluatedItems") if key in node)


def _of_entry(node: Node, key: str) -> Iterator[int]:
    declared = [child for name, child in node.get("properties", ()) if name == key]
    yield from declared
    patterns = [child for _, child in node.get("patternProperties", ())]
    yield from patterns  # which of them match is for the engine to know
    if "additionalProperties" in node and not declared:
        yield node["additionalProperties"]
    if "unevaluatedProperties" in node:
        yield node["unevaluatedProperties"]


def _listed(node: Node) -> dict[Any, str]:
    """The scalars that a node lists, and how they are written; empty if it lists none, or others as well."""
    if "values" in node:
        return {}
    found = {_said(text): _quoted(text) for text in node.get("strings", ())}
    found.update({_said(float(number)): number for number in node.get("numbers", ())})
    found.update({_said(_LITERALS[name]): name for name in node.get("literals", ())})
    return found


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _said(scalar: Any) -> tuple[str, Any]:
    """Comparable, so that ``true`` is not 1."""
    return type(scalar).__name__, scalar

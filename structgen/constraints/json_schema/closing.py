"""Objects that declare their keys have no other keys: what ``closed=True`` does to a schema.

Why: by the specification ``{"properties": {"name": …}}`` allows every other key, and a small model invents them until
its budget is spent. People who declare keys nearly always mean "these keys".
What: every value whose schema declares `properties`, and says nothing of other keys, gets
``unevaluatedProperties: false`` where the value's schema begins. So the keys that any schema of the same value
declares (``allOf``, ``$ref``, valid branches of ``anyOf`` and ``if``) stay allowed, and the combination does not become
unsatisfiable. A union is closed branch by branch: a value of ``anyOf: [Cat, Dog]`` has the keys of one of them.
What counts as saying something: ``additionalProperties``, ``unevaluatedProperties``, ``patternProperties``,
``propertyNames``, listed values, a `minProperties` above the number of declared keys. Keys in ``required`` count as
declared.
Invariant: the closed schema accepts nothing that the schema refuses: sub-schemas under ``not``, ``if``, ``contains``
and those branches of ``oneOf`` that no tag distinguishes stay as they are, and hold beside their closed copies.
Cost: linear in the schema, and that of ``unevaluatedProperties`` where several schemas of one value declare keys.
Source: JSON Schema 2020-12 core, section 11.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .exclusive import demanded, exclude_each_other
from .unevaluated import Edge, Evaluated, ObjectKeys, demand_evaluated, edges_of
from .values import OBJECT

if TYPE_CHECKING:
    from .reader import Node, Reader

__all__ = ["OpenObjects", "close_objects", "speaking_nodes"]

_ALL_TYPES = 63
_SPEAKING = ("additionalProperties", "patternProperties", "propertyNames", "unevaluatedProperties")
_LISTED = ("strings", "numbers", "literals", "values")
_UNTOUCHED = ("not", "if", "contains")
_VALUES = ("properties", "patternProperties")
_UNIONS = ("anyOf", "oneOf")


@dataclass(frozen=True)
class OpenObjects:
    """The objects that declare keys and say nothing of others."""

    pointers: tuple[str, ...] = ()
    is_in_place: bool = True
    """Whether ``additionalProperties: false`` at each of these places closes them, and nothing else."""


def close_objects(reader: Reader, speaking: set[int]) -> OpenObjects:
    """Close the objects of a schema that was read; return which were open.

    `speaking` are the nodes that say something of other keys, as `speaking_nodes` found them before
    ``unevaluatedProperties`` was rewritten.
    """
    before = len(reader.nodes)
    closing = _Closing(reader, speaking)
    root = closing.value(0)
    closing.finish()
    if closing.closed:
        _keep_reachable(reader, root)
    else:
        _drop_from(reader, before)
    return OpenObjects(tuple(dict.fromkeys(closing.closed)), closing.is_in_place)


def speaking_nodes(reader: Reader) -> set[int]:
    """Return the nodes that say which other keys there may be."""
    return reader.notes.all_properties | {
        place
        for place, node in enumerate(reader.nodes)
        if isinstance(node, dict) and any(keyword in node for keyword in (*_SPEAKING, *_LISTED))
    }


class _DeclaredKeys(ObjectKeys):
    """What counts as declared where objects are closed; wider than what is evaluated."""

    def __init__(self, speaking: set[int], hidden: set[int]) -> None:
        self._speaking = speaking
        self._hidden = hidden

    def own(self, reader: Reader, place: int, *, itself: bool) -> Evaluated:
        if place in self._speaking:
            return Evaluated(everything=True)
        node = reader.nodes[place]
        keys: Node = node if isinstance(node, dict) else {}
        found = super().own(reader, place, itself=itself)
        found.names |= dict.fromkeys(keys.get("required", ()))
        return found

    def edges(self, reader: Reader, place: int) -> Iterator[Edge]:
        if place in self._hidden:
            return
        node = reader.nodes[place]
        if isinstance(node, dict) and "if" in node:
            yield Edge(node["if"])  # its keys are known ones, whether it is valid or not
        yield from edges_of(reader, place)


class _Closing:
    """Copies of nodes in which the objects are closed, each made once."""

    def __init__(self, reader: Reader, speaking: set[int]) -> None:
        self.closed: list[str] = []
        self.is_in_place = True
        """Whether ``additionalProperties: false`` at the pointers in `closed` says the same."""
        self._reader = reader
        self._speaking = speaking
        self._hidden: set[int] = set()
        self._values: dict[int, int] = {}
        self._inner: dict[int, int] = {}
        self._pending: list[tuple[int, int]] = []
        self._wrapped: list[int] = []

    def value(self, place: int) -> int:
        """The closed copy of the node, where it is all that is said of a value."""
        known = self._values.get(place)
        if known is not None:
            return known
        if isinstance(self._reader.nodes[place], bool):
            return place
        made = self._values[place] = self._reader.reserve()
        self._pending.append((place, made))
        return made

    def finish(self) -> None:
        """Write all copies that are needed, and those that they refer to."""
        nodes = self._reader.nodes
        while self._pending:
            place, made = self._pending.pop()
            node = nodes[place]
            assert isinstance(node, dict)
            is_value = self._values.get(place) == made
            if is_value and self._is_passing_on(place, node):
                nodes[made] = self._copy(place, node, beside=self.value)
            elif is_value and self._is_open(place):
                nodes[made] = {"pointer": node["pointer"], "allOf": (self._beside(place),)}
                self._wrapped.append(made)
            else:
                nodes[made] = self._copy(place, node, beside=self._beside)
            self._carry(place, made)
        for made in self._wrapped:
            self._close(made)

    def _beside(self, place: int) -> int:
        """The copy of a node that is one of several of its value: only the values inside it are closed."""
        known = self._inner.get(place)
        if known is not None:
            self.is_in_place = False
            return known
        if isinstance(self._reader.nodes[place], bool):
            return place
        made = self._inner[place] = self._reader.reserve()
        self._pending.append((place, made))
        return made

    def _carry(self, place: int, made: int) -> None:
        """What is known of a node holds for its copy."""
        reader = self._reader
        if place in self._speaking:
            self._speaking.add(made)
        if place in reader.spelled:
            reader.spelled[made] = dict(reader.spelled[place])
        if place in reader.decided:
            reader.decided[made] = reader.decided[place]

    def _copy(self, place: int, node: Node, *, beside: Callable[[int], int]) -> Node:
        """The node with closed copies of the sub-schemas that may be narrowed."""
        copy: Node = {}
        for key, value in node.items():
            if key in _VALUES:
                copy[key] = tuple([(name, self.value(child)) for name, child in value])
            elif key in ("additionalProperties", "items"):
                copy[key] = self.value(value)
            elif key == "prefixItems":
                copy[key] = tuple([self.value(child) for child in value])
            elif key in ("allOf", "ref"):
                copy[key] = (*copy.get(key, ()), *[beside(child) for child in value])
            elif key in ("then", "else"):
                copy[key] = self._beside(value)
            elif key == "anyOf":
                groups = tuple([tuple([beside(child) for child in group]) for group in value])
                copy[key] = (*copy.get(key, ()), *groups)
            elif key == "oneOf":
                self._one_of(node, value, copy, beside)
            else:
                self.is_in_place &= key not in _UNTOUCHED
                copy[key] = value
        return copy

    def _one_of(
        self, node: Node, groups: tuple[tuple[int, ...], ...], copy: Node, beside: Callable[[int], int]
    ) -> None:
        """Branches that exclude each other are closed in place; others hold as they are, beside closed copies."""
        exclusive: list[tuple[int, ...]] = []
        for group in groups:
            closed = tuple([beside(child) for child in group])
            if exclude_each_other(self._reader, group):
                exclusive.append(closed)
                continue
            self.is_in_place = False
            untouched = self._reader.generated({"pointer": node["pointer"], "oneOf": (group,)})
            self._hidden.add(untouched)
            copy["allOf"] = (*copy.get("allOf", ()), untouched)
            copy["anyOf"] = (*copy.get("anyOf", ()), closed)
        if exclusive:
            copy["oneOf"] = tuple(exclusive)

    def _is_passing_on(self, place: int, node: Node) -> bool:
        """Does the node itself declare nothing, and leave the value to one reference or to a union?"""
        if place in self._speaking or any(key in node for key in ("properties", "if", "required")):
            return False
        applied = [("allOf", child) for child in node.get("allOf", ())]
        applied += [("ref", child) for child in node.get("ref", ())]
        unions = [group for key in _UNIONS for group in node.get(key, ())]
        return len(applied) + len(unions) == 1

    def _is_open(self, place: int) -> bool:
        """Do the schemas of the value declare keys, and say nothing of others?"""
        nodes = self._reader.nodes
        declares, seen, pending, names, at_least = False, {place}, [place], set[str](), 0
        while pending:
            one = pending.pop()
            node = nodes[one]
            if not isinstance(node, dict):
                continue
            declares |= "properties" in node and bool(node.get("types", _ALL_TYPES) & OBJECT)
            names.update(name for name, _ in node.get("properties", ()))
            names.update(node.get("required", ()))
            at_least = max(at_least, node.get("minProperties", 0))
            for edge in edges_of(self._reader, one):
                if edge.child not in seen:
                    seen.add(edge.child)
                    pending.append(edge.child)
        if not declares or at_least > len(names):
            return False
        return not self._speaking.intersection(demanded(self._reader, place))

    def _close(self, made: int) -> None:
        """Add ``unevaluatedProperties: false`` to a node, counting what is declared."""
        reader = self._reader
        keys = _DeclaredKeys(self._speaking, self._hidden)
        node = reader.nodes[made]
        assert isinstance(node, dict)
        if not demand_evaluated(reader, made, "unevaluatedProperties", reader.false(), keys):
            return
        self.closed.append(node["pointer"])
        own, rest = reader.nodes[node["allOf"][0]], reader.nodes[node["allOf"][-1]]
        assert isinstance(own, dict) and isinstance(rest, dict)
        names = [name for name, _ in rest.get("properties", ())]
        # Where nothing depends on branches, and the node itself declares all keys, one node says it.
        if len(node["allOf"]) == 2 and "anyOf" not in node and {*names} <= {*dict(own.get("properties", ()))}:
            self._reader.nodes[made] = {**own, "additionalProperties": rest["additionalProperties"]}
            self._reader.spelled.setdefault(made, {})["additionalProperties"] = "closed=True"
        else:
            self.is_in_place = False


def _drop_from(reader: Reader, first: int) -> None:
    """Drop all nodes from this one on, which are copies of others."""
    del reader.nodes[first:]
    for known in (reader.spelled, reader.decided):
        for place in [place for place in known if place >= first]:
            del known[place]


def _keep_reachable(reader: Reader, root: int) -> None:
    """Drop the nodes that nothing refers to any more; the root is the first again."""
    nodes = reader.nodes
    order: dict[int, int] = {root: 0}
    pending = [root]
    for place in pending:
        for child in _children(nodes[place]):
            if child not in order:
                order[child] = len(order)
                pending.append(child)
    reader.nodes = [_renumbered(nodes[place], order) for place in pending]
    for known in (reader.spelled, reader.decided):
        kept = {order[place]: value for place, value in known.items() if place in order}
        known.clear()
        known.update(kept)


_ONE = ("additionalProperties", "items", "contains", "propertyNames", "if", "then", "else")
_MANY = ("values", "prefixItems", "allOf", "not", "ref")


def _children(node: Node | bool) -> Iterator[int]:
    if isinstance(node, bool):
        return
    for key, value in node.items():
        if key in _ONE:
            yield value
        elif key in _MANY:
            yield from value
        elif key in _UNIONS:
            for group in value:
                yield from group
        elif key in _VALUES:
            for _, child in value:
                yield child


def _renumbered(node: Node | bool, order: dict[int, int]) -> Any:
    if isinstance(node, bool):
        return node
    new: Node = {}
    for key, value in node.items():
        if key in _ONE:
            new[key] = order[value]
        elif key in _MANY:
            new[key] = tuple([order[child] for child in value])
        elif key in _UNIONS:
            new[key] = tuple([tuple([order[child] for child in group]) for group in value])
        elif key in _VALUES:
            new[key] = tuple([(name, order[child]) for name, child in value])
        else:
            new[key] = value
    return new

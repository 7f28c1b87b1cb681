"""What a schema says of objects and arrays, taken apart: which keys, in which order, with which values.

Why: a notation that is not JSON (one element for each parameter) must write the members itself, however the schema
says what they are: by ``properties``, a reference, ``allOf``, ``anyOf``, dependent keys, an ``enum`` of objects.
What: a value is described by a *conjunction*, a sorted tuple of node numbers that all hold for it. The objects of a
conjunction are those of one or more `ObjectShape`s, its arrays those of `ArrayShape`s; members are conjunctions again.
Invariant: exact; what has no such form (`not`, `if`, ``oneOf`` over objects that overlap, ``contains``) is refused.
Cost: alternatives of alternatives multiply, and patterns of keys that overlap do, both up to `_MOST_ALTERNATIVES`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from structgen import _core
from structgen.constraints.expressions import (
    NOTHING,
    RE,
    TEXT,
    complement,
    intersect,
    literals,
    scope,
)
from structgen.errors import LimitExceeded, UnsupportedKeyword

from .constraint import JsonSchemaConstraint
from .ir import SchemaIR
from .strings import TYPES, string_language

__all__ = ["ArrayShape", "Conjunction", "Member", "ObjectShape", "Shapes", "Undeclared"]

Conjunction = tuple[int, ...]
"""Nodes that all hold for a value, by number."""

_ALL = sum(TYPES.values())
_MOST_ALTERNATIVES = 64
_MOST_NAMES = 64
"""Names that a pattern lists are declared names, up to so many."""
_LITERALS = {"null": TYPES["null"], "true": TYPES["boolean"], "false": TYPES["boolean"]}


@dataclass(frozen=True)
class Member:
    """A key that the schema names."""

    name: str
    value: Conjunction
    is_required: bool


@dataclass(frozen=True)
class Undeclared:
    """Keys that the schema does not name, and the values under them."""

    names: RE
    value: Conjunction
    is_described: bool
    """Does a pattern or ``propertyNames`` say what the keys are like?"""


@dataclass(frozen=True)
class ObjectShape:
    """Objects with these keys."""

    members: tuple[Member, ...]
    """In the order in which they are declared."""
    undeclared: tuple[Undeclared, ...]
    fewest: int
    most: int | None


@dataclass(frozen=True)
class ArrayShape:
    """Arrays with these items."""

    first: tuple[Conjunction, ...]
    rest: Conjunction
    fewest: int
    most: int | None


class Shapes:
    """The shapes of one schema's values."""

    def __init__(self, constraint: JsonSchemaConstraint) -> None:
        self._constraint = constraint
        self._ir: SchemaIR = constraint.lower()[1]
        self._nodes: tuple[Any, ...] = self._ir["nodes"]
        self._types: dict[int, int] = {}
        self._space = _core.RegexSpace()

    @property
    def root(self) -> Conjunction:
        return (self._ir["root"],)

    def types(self, value: Conjunction) -> int:
        """Return the types that values may have, as bits; a type too many is possible, one too few is not."""
        bits = _ALL
        for place in value:
            bits &= self._types_of(place)
        return bits

    def _types_of(self, root: int) -> int:
        # subtle: references may lead in a circle through `anyOf`, where nothing more is known than all types.
        pending = [root]
        while pending:
            place = pending[-1]
            if place in self._types:
                pending.pop()
                continue
            node = self._nodes[place]
            inner = [] if isinstance(node, bool) else _beside(node)
            missing = [one for one in inner if one not in self._types and one not in pending]
            if missing:
                pending.append(missing[0])
                continue
            self._types[place] = self._bits(node)
            pending.pop()
        return self._types[root]

    def _bits(self, node: Any) -> int:
        if isinstance(node, bool):
            return _ALL if node else 0

        def known(place: int) -> int:
            return self._types.get(place, _ALL)

        bits: int = node.get("types", _ALL)
        if _is_listed(node):
            listed = TYPES["string"] * bool(node.get("strings")) | TYPES["number"] * bool(node.get("numbers"))
            for one in node.get("literals", ()):
                listed |= _LITERALS[one]
            for place in node.get("values", ()):
                listed |= known(place)
            bits &= listed
        for place in (*node.get("ref", ()), *node.get("allOf", ())):
            bits &= known(place)
        for group in (*node.get("anyOf", ()), *node.get("oneOf", ())):
            joined = 0
            for place in group:
                joined |= known(place)
            bits &= joined
        return bits

    def strings(self, value: Conjunction) -> RE:
        """Return the strings among the values, as they are without quotes and escapes."""
        if not self.types(value) & TYPES["string"]:
            return NOTHING
        return string_language(self._part(value, _ALL).lower())

    def json(self, value: Conjunction, types: Iterable[str]) -> JsonSchemaConstraint:
        """Return the JSON of the values of these types."""
        return self._part(value, sum(TYPES[one] for one in types))

    def _part(self, value: Conjunction, types: int) -> JsonSchemaConstraint:
        """A schema of its own for these values; only the nodes that it needs are in it."""
        root = value[0] if len(value) == 1 and not self.types(value) & ~types else len(self._nodes)
        extra: dict[str, Any] = {"pointer": "#", "allOf": value, "types": types}
        if not value:
            del extra["allOf"]
        numbers = {root: 0}
        order = [root]
        for place in order:
            for inner in _inner(extra if place == len(self._nodes) else self._nodes[place]):
                if inner not in numbers:
                    numbers[inner] = len(order)
                    order.append(inner)
        nodes = tuple(
            _renumbered(extra if place == len(self._nodes) else self._nodes[place], numbers)
            for place in order
        )
        spelled = {numbers[place]: names for place, names in self._ir.spelled.items() if place in numbers}
        ir = SchemaIR(nodes=nodes, root=0, options=self._ir["options"], spelled=spelled)
        return JsonSchemaConstraint(ir, self._constraint.options)

    # Objects.

    def objects(self, value: Conjunction) -> list[ObjectShape]:
        """Return shapes whose objects together are those among the values."""
        found = [self._object(nodes) for nodes in self._branches(value, "object")]
        return [one for one in found if one is not None]

    def _object(self, nodes: list[Mapping[str, Any]]) -> ObjectShape | None:
        """The shape of the objects for which all of these nodes hold; None where there are none."""
        required = dict.fromkeys(name for node in nodes for name in node.get("required", ()))
        names = [string_language(self._part((node["propertyNames"],), _ALL).lower())
                 for node in nodes if "propertyNames" in node]  # fmt: skip
        declared = dict.fromkeys(name for node in nodes for name, _ in node.get("properties", ()))
        declared |= required
        for node in nodes:
            for pattern, _ in node.get("patternProperties", ()):
                declared |= dict.fromkeys(_listed(pattern))
        for one in names:
            declared |= dict.fromkeys(_listed(one))
        if len(declared) > 100_000:
            raise self._too_many("names of keys")
        allowed = None if not names else self._space.compile(intersect(names))
        members = []
        tables = [dict(node.get("properties", ())) for node in nodes]
        for name in declared:
            inner = self._under(nodes, tables, name)
            possible = inner is not None and (
                allowed is None or self._space.matches(allowed, name.encode("utf-8", "surrogatepass"))
            )
            if not possible and name in required:
                return None
            if possible:
                assert inner is not None
                members.append(Member(name, inner, name in required))
        fewest = max((node.get("minProperties", 0) for node in nodes), default=0)
        most = min((node["maxProperties"] for node in nodes if "maxProperties" in node), default=None)
        undeclared = self._undeclared(nodes, names, declared)
        return ObjectShape(tuple(members), tuple(undeclared), fewest, most)

    def _under(
        self, nodes: list[Mapping[str, Any]], tables: list[dict[str, int]], name: str
    ) -> Conjunction | None:
        """What holds for the value under a key; None where the key is forbidden."""
        found = []
        for node, properties in zip(nodes, tables, strict=True):
            here = [properties[name]] if name in properties else []
            here += [
                place
                for pattern, place in node.get("patternProperties", ())
                if self._space.matches(
                    self._space.compile(scope(pattern)), name.encode("utf-8", "surrogatepass")
                )
            ]
            if not here and "additionalProperties" in node:
                here.append(node["additionalProperties"])
            found += here
        return self._conjunction(found)

    def _undeclared(
        self, nodes: list[Mapping[str, Any]], names: list[RE], declared: Iterable[str]
    ) -> Iterator[Undeclared]:
        """Keys that are not declared, by the patterns that they match."""
        patterns = [(number, scope(pattern), place)
                    for number, node in enumerate(nodes)
                    for pattern, place in node.get("patternProperties", ()) if not _listed(pattern)]  # fmt: skip
        others = complement(literals(declared)) if declared else TEXT
        regions: list[tuple[list[RE], list[tuple[int, int]]]] = [([others, *names], [])]
        for number, pattern, place in patterns:
            split = []
            for expressions, matched in regions:
                for parts, more in (
                    ([*expressions, pattern], [*matched, (number, place)]),
                    ([*expressions, complement(pattern)], matched),
                ):
                    if self._space.alive(self._space.compile(intersect(parts))):
                        split.append((parts, more))
            regions = split
            if len(regions) > _MOST_ALTERNATIVES:
                raise self._too_many("patterns of keys that overlap")
        for expressions, matched in regions:
            places = [place for _, place in matched]
            with_pattern = {number for number, _ in matched}
            places += [
                node["additionalProperties"]
                for number, node in enumerate(nodes)
                if number not in with_pattern and "additionalProperties" in node
            ]
            value = self._conjunction(places)
            if value is not None:
                expression = intersect(expressions)
                if not names or patterns or self._space.alive(self._space.compile(expression)):
                    yield Undeclared(expression, value, bool(matched or names))

    def _conjunction(self, places: Iterable[int]) -> Conjunction | None:
        """The nodes that say something; None where no value satisfies them by their types alone."""
        value = tuple(sorted({place for place in places if self._nodes[place] is not True}))
        return value if self.types(value) else None

    # Arrays.

    def arrays(self, value: Conjunction) -> list[ArrayShape]:
        """Return shapes whose arrays together are those among the values."""
        return [self._array(nodes) for nodes in self._branches(value, "array")]

    def _array(self, nodes: list[Mapping[str, Any]]) -> ArrayShape:
        for node in nodes:
            for keyword in ("contains", "uniqueItems"):
                if node.get(keyword):
                    raise _unsupported(node, keyword)
        most = min((node["maxItems"] for node in nodes if "maxItems" in node), default=None)
        fewest = max((node.get("minItems", 0) for node in nodes), default=0)
        longest = max((len(node.get("prefixItems", ())) for node in nodes), default=0)
        first: list[Conjunction] = []
        for place in range(longest + 1):
            found = []
            for node in nodes:
                prefix = node.get("prefixItems", ())
                if place < len(prefix):
                    found.append(prefix[place])
                elif "items" in node:
                    found.append(node["items"])
            value = self._conjunction(found)
            if value is None:
                most = place if most is None else min(most, place)
                return ArrayShape(tuple(first), (), fewest, most)
            first.append(value)
        return ArrayShape(tuple(first[:-1]), first[-1], fewest, most)

    # Alternatives.

    def _branches(self, value: Conjunction, kind: str) -> Iterator[list[Mapping[str, Any]]]:
        """Lists of nodes of which all hold, one list for each alternative; only for values of this type."""
        bit = TYPES[kind]
        pending: list[tuple[tuple[int, ...], dict[int, Mapping[str, Any]]]] = [(value, {})]
        made = 0
        while pending:
            todo, done = pending.pop()
            while todo:
                place, *rest = todo
                todo = tuple(rest)
                if not self.types((place,)) & bit:
                    break
                node = self._nodes[place]
                if node is True or place in done:
                    continue
                done = {**done, place: node}
                todo += (*node.get("ref", ()), *node.get("allOf", ()))
                groups = [self._options(node, group, bit) for group in node.get("anyOf", ())]
                groups += [self._disjoint(node, group, bit) for group in node.get("oneOf", ())]
                if _is_listed(node):
                    groups.append(self._options(node, node.get("values", ()), bit))
                self._check_rest(node, bit)
                ways: list[tuple[int, ...]] = [()]
                for group in groups:
                    ways = [(*way, one) for way in ways for one in group]
                    if len(ways) > _MOST_ALTERNATIVES:
                        raise self._too_many("alternatives")
                if len(ways) != 1:
                    pending += [(todo + way, done) for way in reversed(ways)]
                    break
                todo += ways[0]
            else:
                made += 1
                if made + len(pending) > _MOST_ALTERNATIVES:
                    raise self._too_many("alternatives")
                yield list(done.values())

    def _options(self, node: Mapping[str, Any], group: Iterable[int], bit: int) -> list[int]:
        return [place for place in group if self.types((place,)) & bit]

    def _disjoint(self, node: Mapping[str, Any], group: Iterable[int], bit: int) -> list[int]:
        """The options of ``oneOf`` for this type, where no value of it satisfies two of them."""
        options = self._options(node, group, bit)
        if len(options) > _MOST_ALTERNATIVES:
            raise self._too_many("alternatives")
        engine = None
        for place, one in enumerate(options):
            for other in options[:place]:
                from structgen.vocabulary import Vocabulary

                engine = engine or Vocabulary.of_bytes().engine
                both = self._part((*sorted((one, other)),), bit)
                try:
                    is_empty = engine.compile(both.lower()).empty_parts() is not None
                except _core.LimitError:
                    is_empty = False
                if not is_empty:
                    raise _unsupported(node, "oneOf")
        return options

    def _check_rest(self, node: Mapping[str, Any], bit: int) -> None:
        for place in node.get("not", ()):
            if self.types((place,)) & bit:
                raise _unsupported(node, "not")
        if "if" in node:
            raise _unsupported(node, "if")

    def _too_many(self, what: str) -> LimitExceeded:
        return LimitExceeded(
            f"the schema has more than {_MOST_ALTERNATIVES} {what}, each of which would be written out",
            limit="schema_alternatives",
            hint="Write the arguments as JSON, or give the schema fewer alternatives.",
        )


def _unsupported(node: Mapping[str, Any], keyword: str) -> UnsupportedKeyword:
    return UnsupportedKeyword(
        f"{keyword} cannot be followed where a value is written as elements and not as JSON",
        pointer=f"{node['pointer']}/{keyword}",
        keyword=keyword,
        hint="Write the arguments as JSON, or say it with properties, items, anyOf and references.",
    )


def _is_listed(node: Mapping[str, Any]) -> bool:
    return any(one in node for one in ("strings", "numbers", "literals", "values"))


def _listed(expression: RE) -> tuple[str, ...]:
    """The texts of an expression that lists a few."""
    if expression[0] == "literal":
        return (expression[1],)
    if expression[0] == "literals" and len(expression[1]) <= _MOST_NAMES:
        return tuple(expression[1])
    return ()


_ONE = ("additionalProperties", "items", "contains", "propertyNames", "if", "then", "else")
_MANY = ("values", "prefixItems", "allOf", "not", "ref")
_GROUPS = ("anyOf", "oneOf")
_NAMED = ("properties", "patternProperties")


def _beside(node: Mapping[str, Any]) -> list[int]:
    """The nodes that look at the same value."""
    found = [place for key in ("ref", "allOf", "values") for place in node.get(key, ())]
    return found + [place for key in _GROUPS for group in node.get(key, ()) for place in group]


def _inner(node: Any) -> list[int]:
    """The nodes that a node refers to."""
    if isinstance(node, bool):
        return []
    found = [node[key] for key in _ONE if key in node]
    found += [place for key in _MANY for place in node.get(key, ())]
    found += [place for key in _GROUPS for group in node.get(key, ()) for place in group]
    return found + [place for key in _NAMED for _, place in node.get(key, ())]


def _renumbered(node: Any, numbers: Mapping[int, int]) -> Any:
    if isinstance(node, bool):
        return node
    changed = dict(node)
    for key in _ONE:
        if key in node:
            changed[key] = numbers[node[key]]
    for key in _MANY:
        if key in node:
            changed[key] = tuple([numbers[place] for place in node[key]])
    for key in _GROUPS:
        if key in node:
            changed[key] = tuple([tuple([numbers[place] for place in group]) for group in node[key]])
    for key in _NAMED:
        if key in node:
            changed[key] = tuple([(name, numbers[place]) for name, place in node[key]])
    return changed

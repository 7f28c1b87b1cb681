"""What a schema says of objects and arrays, taken apart: which keys, in which order, with which values.

Why: a notation that is not JSON (one element for each parameter) must write the members itself, however the schema
says what they are: by ``properties``, a reference, ``allOf``, ``anyOf``, dependent keys, an ``enum`` of objects.
What: a value is described by a *conjunction*, a sorted tuple of node numbers that all hold for it. The objects of a
conjunction are those of one or more `ObjectShape`s, its arrays those of `ArrayShape`s; members are conjunctions again.
Invariant: exact; what has no such form (`not`, `if`, ``oneOf`` over objects that overlap, ``contains``) is refused.
Cost: alternatives of alternatives multiply, and patterns of keys that overlap do, both up to `_MOST_ALTERNATIVES`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from structgen import _core
from structgen.constraints.base import IR
from structgen.constraints.expressions import (
    NOTHING,
    RE,
    TEXT,
    complement,
    intersect,
    literals,
    scope,
)
from structgen.constraints.failures import limit_exceeded
from structgen.errors import LimitExceeded, UnsupportedKeyword
from structgen.ir.schema import SchemaIR

from .constraint import JsonSchemaConstraint
from .extracting import extract_part, nodes_of_same_value
from .strings import TYPES, string_language

__all__ = ["ArrayShape", "Conjunction", "Member", "ObjectShape", "Shapes", "Undeclared"]

Conjunction = tuple[int, ...]
"""Nodes that all hold for a value, by number."""

_ALL = sum(TYPES.values())
_MOST_ALTERNATIVES = 64
_MOST_MATCHES = 500_000
"""Keys, times patterns that each is compared with."""
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

    def __init__(
        self, constraint: JsonSchemaConstraint, is_empty: Callable[[IR], bool] = lambda _: False
    ) -> None:
        """`is_empty` says whether it is proven that a schema has no value, for branches of ``oneOf``."""
        self._constraint = constraint
        self._is_empty = is_empty
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
        if root in self._types:
            return self._types[root]
        pending = [(root, iter(self._beside(root)))]
        open_places = {root}
        while pending:
            place, inner = pending[-1]
            child = next((one for one in inner if one not in self._types and one not in open_places), None)
            if child is not None:
                pending.append((child, iter(self._beside(child))))
                open_places.add(child)
                continue
            self._types[place] = self._bits(self._nodes[place])
            open_places.discard(place)
            pending.pop()
        return self._types[root]

    def _beside(self, place: int) -> Iterable[int]:
        node = self._nodes[place]
        return () if isinstance(node, bool) else nodes_of_same_value(node)

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
        ir = extract_part(self._ir, root, extra)
        return JsonSchemaConstraint(ir, self._constraint.options)

    # Objects.

    def objects(self, value: Conjunction) -> list[ObjectShape]:
        """Return shapes whose objects together are those among the values."""
        try:
            found = [self._object(nodes) for nodes in self._branches(value, "object")]
        except _core.LimitError as error:
            raise limit_exceeded(error, "the keys of an object") from None
        return [one for one in found if one is not None]

    def _object(self, nodes: list[Mapping[str, Any]]) -> ObjectShape | None:
        """The shape of the objects for which all of these nodes hold; None if no object is possible."""
        keys = [_Keys(node, self._space) for node in nodes]
        required = dict.fromkeys(name for node in nodes for name in node.get("required", ()))
        names = [
            string_language(self._part((node["propertyNames"],), _ALL).lower())
            for node in nodes
            if "propertyNames" in node
        ]
        declared = dict.fromkeys(name for one in keys for name in one.declared)
        declared |= required
        for one in keys:
            declared |= dict.fromkeys(one.listed)
        for language in names:
            declared |= dict.fromkeys(_listed(language))
        undeclared = tuple(self._undeclared(keys, names, declared))
        by_name: dict[str, set[int]] = {}
        for number, one in enumerate(keys):
            for name in (*one.declared, *one.listed):
                by_name.setdefault(name, set()).add(number)
        speak_of_all = [n for n, one in enumerate(keys) if one.patterns or one.others is not None]
        if len(declared) * sum(1 + len(keys[n].patterns) for n in speak_of_all) > _MOST_MATCHES:
            raise self._too_many("patterns of keys for so many keys")
        allowed = None if not names else self._space.compile(intersect(names))
        members = []
        for name in declared:
            concerned = sorted(by_name.get(name, set()).union(speak_of_all))
            value = self._conjunction([place for n in concerned for place in keys[n].under(name)])
            possible = value is not None and (allowed is None or self._space.matches(allowed, _utf8(name)))
            if not possible and name in required:
                return None
            if possible:
                assert value is not None
                members.append(Member(name, value, name in required))
        fewest = max((node.get("minProperties", 0) for node in nodes), default=0)
        most = min((node["maxProperties"] for node in nodes if "maxProperties" in node), default=None)
        return ObjectShape(tuple(members), undeclared, fewest, most)

    def _undeclared(
        self, keys: list[_Keys], names: list[RE], declared: Iterable[str]
    ) -> Iterator[Undeclared]:
        """Keys that are not declared, by the patterns that they match."""
        patterns = [
            (number, pattern, place) for number, one in enumerate(keys) for pattern, _, place in one.patterns
        ]
        if len(patterns) > _MOST_ALTERNATIVES:
            raise self._too_many("patterns of keys")
        others = complement(literals(declared)) if declared else TEXT
        regions: list[tuple[list[RE], list[tuple[int, int]]]] = [([others, *names], [])]
        for number, pattern, place in patterns:
            split = []
            for expressions, matched in regions:
                for parts, more in (
                    ([*expressions, pattern], [*matched, (number, place)]),
                    ([*expressions, complement(pattern)], matched),
                ):
                    if self._is_alive(parts):
                        split.append((parts, more))
            regions = split
            if len(regions) > _MOST_ALTERNATIVES:
                raise self._too_many("patterns of keys that overlap")
        for expressions, matched in regions:
            places = [place for _, place in matched]
            with_pattern = {number for number, _ in matched}
            places += [
                one.others
                for number, one in enumerate(keys)
                if number not in with_pattern and one.others is not None
            ]
            value = self._conjunction(places)
            if value is not None and (not names or patterns or self._is_alive(expressions)):
                yield Undeclared(intersect(expressions), value, bool(matched or names))

    def _is_alive(self, expressions: list[RE]) -> bool:
        return self._space.alive(self._space.compile(intersect(expressions)))

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
        pending: list[tuple[deque[int], dict[int, Mapping[str, Any]]]] = [(deque(value), {})]
        made = 0
        while pending:
            todo, done = pending.pop()
            while todo:
                place = todo.popleft()
                if not self.types((place,)) & bit:
                    break
                node = self._nodes[place]
                if node is True or place in done:
                    continue
                done[place] = node
                todo.extend((*node.get("ref", ()), *node.get("allOf", ())))
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
                    pending += [(deque((*todo, *way)), dict(done)) for way in reversed(ways)]
                    break
                todo.extend(ways[0])
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
        for place, one in enumerate(options):
            for other in options[:place]:
                both = self._part((*sorted((one, other)),), bit)
                if not self._is_empty(both.lower()):
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


class _Keys:
    """What one node says of keys."""

    def __init__(self, node: Mapping[str, Any], space: _core.RegexSpace) -> None:
        self.declared: dict[str, int] = dict(node.get("properties", ()))
        self.others: int | None = node.get("additionalProperties")
        self.listed: dict[str, list[int]] = {}
        """By keys that patterns list."""
        self.patterns: list[tuple[RE, int, int]] = []
        """Other patterns: the expression, compiled, and the node of the values."""
        for pattern, place in node.get("patternProperties", ()):
            texts = _listed(pattern)
            for text in texts:
                self.listed.setdefault(text, []).append(place)
            if not texts:
                expression = scope(pattern)
                self.patterns.append((expression, space.compile(expression), place))
        self._space = space

    def under(self, name: str) -> list[int]:
        """The nodes that hold for the value under a key."""
        found = [self.declared[name]] if name in self.declared else []
        found += self.listed.get(name, ())
        text = _utf8(name)
        found += [place for _, compiled, place in self.patterns if self._space.matches(compiled, text)]
        return found or ([] if self.others is None else [self.others])


def _utf8(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


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

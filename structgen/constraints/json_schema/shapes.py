"""Decompose what a schema says of objects and arrays: which keys, in which order, with which values.

Why: a notation that is not JSON, such as one XML element for each parameter, must write the members itself. The
schema may describe them by ``properties``, a reference, ``allOf``, ``anyOf``, dependent keys or an ``enum`` of
objects.

What: a value is described by a *conjunction*, a sorted tuple of node ids that all hold for it. The objects of a
conjunction are those of one or more `ObjectShape`s, its arrays those of `ArrayShape`s; members are conjunctions
again.

Invariant: exact. A schema without such a form (`not`, `if`, ``oneOf`` over overlapping objects, ``contains``) is
refused.

Cost: alternatives inside alternatives multiply, and so do overlapping patterns of keys, both up to
`_MAX_ALTERNATIVES`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
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
from .extracting import extract_part
from .nodes import ALL_TYPES, TYPES, nodes_of_same_value
from .strings import StringLanguages, string_language

__all__ = ["ArrayShape", "Conjunction", "Member", "ObjectShape", "Shapes", "Undeclared"]

Conjunction = tuple[int, ...]
"""Ids of nodes that all hold for a value."""

_MAX_ALTERNATIVES = 64
_MAX_MATCHES = 500_000
"""Limit on the number of keys times the patterns that each is matched against."""
_MAX_LISTED_NAMES = 64
"""Up to this number, the names that a pattern lists count as declared."""
_MAX_COMPARED_NODES = 16
"""Values that take more nodes are not compared with others."""
_LITERALS = {"null": TYPES["null"], "true": TYPES["boolean"], "false": TYPES["boolean"]}


@dataclass(frozen=True)
class Member:
    """A key that the schema names."""

    name: str
    value: Conjunction
    is_required: bool


@dataclass(frozen=True)
class Undeclared:
    """Keys that the schema does not name, and their values."""

    names: RE
    value: Conjunction
    is_described: bool
    """Whether a pattern or ``propertyNames`` describes the keys."""


@dataclass(frozen=True)
class ObjectShape:
    """Objects with these keys."""

    members: tuple[Member, ...]
    """The declared keys, in the order of their declaration."""
    undeclared: tuple[Undeclared, ...]
    min_count: int
    max_count: int | None


@dataclass(frozen=True)
class ArrayShape:
    """Arrays with these items."""

    first: tuple[Conjunction, ...]
    rest: Conjunction
    min_count: int
    max_count: int | None


class Shapes:
    """The shapes of one schema's values."""

    def __init__(
        self, constraint: JsonSchemaConstraint, is_empty: Callable[[IR], bool] = lambda _: False
    ) -> None:
        """Decompose a schema.

        Args:
            constraint: The schema.
            is_empty: Returns whether it is proven that a schema has no value, for branches of ``oneOf``.
        """
        self.constraint = constraint
        self._is_empty = is_empty
        self._ir: SchemaIR = constraint.lower()[1]
        self._nodes: tuple[Any, ...] = self._ir["nodes"]
        self._types: dict[int, int] = {}
        self._languages = StringLanguages(self._nodes)

    @cached_property
    def _space(self) -> _core.RegexSpace:
        return _core.RegexSpace()

    @property
    def root(self) -> Conjunction:
        """The whole schema: a conjunction of one node."""
        return (self._ir["root"],)

    def types(self, value: Conjunction) -> int:
        """Return the bits of the types that values may have; there may be a type too many, but never one too few."""
        bits = ALL_TYPES
        for node_id in value:
            bits &= self._types_of(node_id)
        return bits

    def _types_of(self, root: int) -> int:
        # subtle: references may form a cycle through `anyOf`; a node on the path counts as having all types.
        if root in self._types:
            return self._types[root]
        pending = [(root, iter(self._same_value(root)))]
        open_node_ids = {root}
        while pending:
            node_id, inner = pending[-1]
            child = next(
                (other for other in inner if other not in self._types and other not in open_node_ids), None
            )
            if child is not None:
                pending.append((child, iter(self._same_value(child))))
                open_node_ids.add(child)
                continue
            self._types[node_id] = self._bits(self._nodes[node_id])
            open_node_ids.discard(node_id)
            pending.pop()
        return self._types[root]

    def _same_value(self, node_id: int) -> Iterable[int]:
        node = self._nodes[node_id]
        return () if isinstance(node, bool) else nodes_of_same_value(node)

    def _bits(self, node: Mapping[str, Any] | bool) -> int:
        if isinstance(node, bool):
            return ALL_TYPES if node else 0

        def known(node_id: int) -> int:
            return self._types.get(node_id, ALL_TYPES)

        bits: int = node.get("types", ALL_TYPES)
        if _is_listed(node):
            listed = TYPES["string"] * bool(node.get("strings")) | TYPES["number"] * bool(node.get("numbers"))
            for literal in node.get("literals", ()):
                listed |= _LITERALS[literal]
            for node_id in node.get("values", ()):
                listed |= known(node_id)
            bits &= listed
        for node_id in (*node.get("ref", ()), *node.get("allOf", ())):
            bits &= known(node_id)
        for group in (*node.get("anyOf", ()), *node.get("oneOf", ())):
            joined = 0
            for node_id in group:
                joined |= known(node_id)
            bits &= joined
        return bits

    def strings(self, value: Conjunction) -> RE:
        """Return the strings among the values, without quotes and escapes."""
        if not self.types(value) & TYPES["string"]:
            return NOTHING
        if len(value) == 1:
            return self._languages.of_node(value[0])
        return string_language(self._part(value, ALL_TYPES).lower())

    def content(self, value: Conjunction) -> Hashable | None:
        """Return what the schema says of the value, without where it says so; equal values have equal contents.

        Expressions are compared by identity, so the schema must live as long as the result. None for a value that
        several nodes describe, or many.
        """
        if len(value) != 1:
            return None
        nodes = extract_part(self._ir, value[0], {})["nodes"]
        if len(nodes) > _MAX_COMPARED_NODES:
            return None
        return tuple([node if isinstance(node, bool) else _content(node) for node in nodes])

    def json(self, value: Conjunction, types: Iterable[str]) -> JsonSchemaConstraint:
        """Return the constraint of the JSON of the values of these types."""
        return self._part(value, sum(TYPES[kind] for kind in types))

    def _part(self, value: Conjunction, types: int) -> JsonSchemaConstraint:
        """Return a schema of its own for these values, with only the nodes that it needs."""
        root = value[0] if len(value) == 1 and not self.types(value) & ~types else len(self._nodes)
        extra: dict[str, Any] = {"pointer": "#", "allOf": value, "types": types}
        if not value:
            del extra["allOf"]
        ir = extract_part(self._ir, root, extra)
        return JsonSchemaConstraint(ir, self.constraint.options)

    # Objects.

    def objects(self, value: Conjunction) -> list[ObjectShape]:
        """Return shapes whose objects together are the objects among the values."""
        try:
            shapes = [self._object(nodes) for nodes in self._branches(value, "object")]
        except _core.LimitError as error:
            raise limit_exceeded(error, "the keys of an object") from None
        return [shape for shape in shapes if shape is not None]

    def _object(self, nodes: list[Mapping[str, Any]]) -> ObjectShape | None:
        """Return the shape of the objects for which all of these nodes hold; None if no object is possible."""
        keys = [_KeyRules(node, self._space) for node in nodes]
        required = dict.fromkeys(name for node in nodes for name in node.get("required", ()))
        names = [
            string_language(self._part((node["propertyNames"],), ALL_TYPES).lower())
            for node in nodes
            if "propertyNames" in node
        ]
        declared = dict.fromkeys(name for rules in keys for name in rules.declared)
        declared |= required
        for rules in keys:
            declared |= dict.fromkeys(rules.listed)
        for language in names:
            declared |= dict.fromkeys(_listed(language))
        undeclared = tuple(self._undeclared(keys, names, declared))
        by_name: dict[str, set[int]] = {}
        for number, rules in enumerate(keys):
            for name in (*rules.declared, *rules.listed):
                by_name.setdefault(name, set()).add(number)
        general = [number for number, rules in enumerate(keys) if rules.patterns or rules.others is not None]
        if len(declared) * sum(1 + len(keys[number].patterns) for number in general) > _MAX_MATCHES:
            raise self._too_many("patterns of keys for so many keys")
        allowed = None if not names else self._space.compile(intersect(names))
        members = []
        for name in declared:
            concerned = sorted(by_name.get(name, set()).union(general))
            value = self._conjunction(
                [node_id for number in concerned for node_id in keys[number].nodes_for(name)]
            )
            possible = value is not None and (allowed is None or self._space.matches(allowed, _utf8(name)))
            if not possible and name in required:
                return None
            if possible:
                assert value is not None
                members.append(Member(name, value, name in required))
        min_count = max((node.get("minProperties", 0) for node in nodes), default=0)
        max_count = min((node["maxProperties"] for node in nodes if "maxProperties" in node), default=None)
        return ObjectShape(tuple(members), undeclared, min_count, max_count)

    def _undeclared(
        self, keys: list[_KeyRules], names: list[RE], declared: Iterable[str]
    ) -> Iterator[Undeclared]:
        """Yield the undeclared keys by the patterns that they match."""
        patterns = [
            (number, pattern, node_id)
            for number, rules in enumerate(keys)
            for pattern, _, node_id in rules.patterns
        ]
        if len(patterns) > _MAX_ALTERNATIVES:
            raise self._too_many("patterns of keys")
        others = complement(literals(declared)) if declared else TEXT
        regions: list[tuple[list[RE], list[tuple[int, int]]]] = [([others, *names], [])]
        for number, pattern, node_id in patterns:
            divided = []
            for expressions, matched in regions:
                for parts, matches in (
                    ([*expressions, pattern], [*matched, (number, node_id)]),
                    ([*expressions, complement(pattern)], matched),
                ):
                    if self._is_alive(parts):
                        divided.append((parts, matches))
            regions = divided
            if len(regions) > _MAX_ALTERNATIVES:
                raise self._too_many("patterns of keys that overlap")
        for expressions, matched in regions:
            node_ids = [node_id for _, node_id in matched]
            with_pattern = {number for number, _ in matched}
            node_ids += [
                rules.others
                for number, rules in enumerate(keys)
                if number not in with_pattern and rules.others is not None
            ]
            value = self._conjunction(node_ids)
            if value is not None and (not names or patterns or self._is_alive(expressions)):
                yield Undeclared(intersect(expressions), value, bool(matched or names))

    def _is_alive(self, expressions: list[RE]) -> bool:
        return self._space.alive(self._space.compile(intersect(expressions)))

    def _conjunction(self, node_ids: Iterable[int]) -> Conjunction | None:
        """Return the nodes with an effect; None if their types alone exclude every value."""
        value = tuple(sorted({node_id for node_id in node_ids if self._nodes[node_id] is not True}))
        return value if self.types(value) else None

    # Arrays.

    def arrays(self, value: Conjunction) -> list[ArrayShape]:
        """Return shapes whose arrays together are the arrays among the values."""
        return [self._array(nodes) for nodes in self._branches(value, "array")]

    def _array(self, nodes: list[Mapping[str, Any]]) -> ArrayShape:
        for node in nodes:
            for keyword in ("contains", "uniqueItems"):
                if node.get(keyword):
                    raise _unsupported(node, keyword)
        max_count = min((node["maxItems"] for node in nodes if "maxItems" in node), default=None)
        min_count = max((node.get("minItems", 0) for node in nodes), default=0)
        longest = max((len(node.get("prefixItems", ())) for node in nodes), default=0)
        first: list[Conjunction] = []
        for position in range(longest + 1):
            item_ids = []
            for node in nodes:
                prefix = node.get("prefixItems", ())
                if position < len(prefix):
                    item_ids.append(prefix[position])
                elif "items" in node:
                    item_ids.append(node["items"])
            value = self._conjunction(item_ids)
            if value is None:
                max_count = position if max_count is None else min(max_count, position)
                return ArrayShape(tuple(first), (), min_count, max_count)
            first.append(value)
        return ArrayShape(tuple(first[:-1]), first[-1], min_count, max_count)

    # Alternatives.

    def _branches(self, value: Conjunction, kind: str) -> Iterator[list[Mapping[str, Any]]]:
        """Yield a list of nodes that all hold, for each alternative; only for values of this type."""
        bit = TYPES[kind]
        pending: list[tuple[deque[int], dict[int, Mapping[str, Any]]]] = [(deque(value), {})]
        yielded = 0
        while pending:
            waiting, visited = pending.pop()
            while waiting:
                node_id = waiting.popleft()
                if not self.types((node_id,)) & bit:
                    break
                node = self._nodes[node_id]
                if node is True or node_id in visited:
                    continue
                visited[node_id] = node
                waiting.extend((*node.get("ref", ()), *node.get("allOf", ())))
                groups = [self._options(node, group, bit) for group in node.get("anyOf", ())]
                groups += [self._disjoint_options(node, group, bit) for group in node.get("oneOf", ())]
                if _is_listed(node):
                    groups.append(self._options(node, node.get("values", ()), bit))
                self._refuse_unsupported(node, bit)
                combinations: list[tuple[int, ...]] = [()]
                for group in groups:
                    combinations = [
                        (*combination, option) for combination in combinations for option in group
                    ]
                    if len(combinations) > _MAX_ALTERNATIVES:
                        raise self._too_many("alternatives")
                if len(combinations) != 1:
                    pending += [
                        (deque((*waiting, *combination)), dict(visited))
                        for combination in reversed(combinations)
                    ]
                    break
                waiting.extend(combinations[0])
            else:
                yielded += 1
                if yielded + len(pending) > _MAX_ALTERNATIVES:
                    raise self._too_many("alternatives")
                yield list(visited.values())

    def _options(self, node: Mapping[str, Any], group: Iterable[int], bit: int) -> list[int]:
        return [node_id for node_id in group if self.types((node_id,)) & bit]

    def _disjoint_options(self, node: Mapping[str, Any], group: Iterable[int], bit: int) -> list[int]:
        """Return the options of ``oneOf`` for this type, if no value of it satisfies two of them."""
        options = self._options(node, group, bit)
        if len(options) > _MAX_ALTERNATIVES:
            raise self._too_many("alternatives")
        for index, option in enumerate(options):
            for other in options[:index]:
                both = self._part((*sorted((option, other)),), bit)
                if not self._is_empty(both.lower()):
                    raise _unsupported(node, "oneOf")
        return options

    def _refuse_unsupported(self, node: Mapping[str, Any], bit: int) -> None:
        for node_id in node.get("not", ()):
            if self.types((node_id,)) & bit:
                raise _unsupported(node, "not")
        if "if" in node:
            raise _unsupported(node, "if")

    def _too_many(self, what: str) -> LimitExceeded:
        return LimitExceeded(
            f"the schema has more than {_MAX_ALTERNATIVES} {what}, which would have to be enumerated",
            limit="schema_alternatives",
            hint="Write the arguments as JSON, or give the schema fewer alternatives.",
        )


class _KeyRules:
    """What one node says about keys."""

    def __init__(self, node: Mapping[str, Any], space: _core.RegexSpace) -> None:
        self.declared: dict[str, int] = dict(node.get("properties", ()))
        self.others: int | None = node.get("additionalProperties")
        self.listed: dict[str, list[int]] = {}
        """Nodes by key, for patterns that list their keys."""
        self.patterns: list[tuple[RE, int, int]] = []
        """Other patterns: the expression, its compiled state, and the node of the values."""
        for pattern, node_id in node.get("patternProperties", ()):
            texts = _listed(pattern)
            for text in texts:
                self.listed.setdefault(text, []).append(node_id)
            if not texts:
                expression = scope(pattern)
                self.patterns.append((expression, space.compile(expression), node_id))
        self._space = space

    def nodes_for(self, name: str) -> list[int]:
        """Return the nodes that hold for the value of a key."""
        found = [self.declared[name]] if name in self.declared else []
        found += self.listed.get(name, ())
        text = _utf8(name)
        found += [node_id for _, compiled, node_id in self.patterns if self._space.matches(compiled, text)]
        return found or ([] if self.others is None else [self.others])


def _content(node: Mapping[str, Any]) -> Hashable:
    """Return the keywords of a node without its pointer, with the identities of its expressions."""
    found: list[Hashable] = []
    for key, value in node.items():
        if key in ("pattern", "format"):
            found.append((key, id(value)))
        elif key == "patternProperties":
            found.append((key, tuple([(id(pattern), node_id) for pattern, node_id in value])))
        elif key != "pointer":
            found.append((key, value))
    return tuple(found)


def _utf8(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def _unsupported(node: Mapping[str, Any], keyword: str) -> UnsupportedKeyword:
    return UnsupportedKeyword(
        f"{keyword} is not supported if a value is written as elements instead of JSON",
        pointer=f"{node['pointer']}/{keyword}",
        keyword=keyword,
        hint="Write the arguments as JSON, or use properties, items, anyOf and references.",
    )


def _is_listed(node: Mapping[str, Any]) -> bool:
    return any(key in node for key in ("strings", "numbers", "literals", "values"))


def _listed(expression: RE) -> tuple[str, ...]:
    """Return the texts of an expression that lists a few."""
    if expression[0] == "literal":
        return (expression[1],)
    if expression[0] == "literals" and len(expression[1]) <= _MAX_LISTED_NAMES:
        return tuple(expression[1])
    return ()

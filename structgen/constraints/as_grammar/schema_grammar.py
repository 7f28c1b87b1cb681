"""Translate JSON Schemas to context-free grammars.

Why: a canvas needs a context-free grammar, while the automaton of a schema keeps more state, such as the keys of an
object that are present.

What: a rule for each *requirement*, a set of sub-schemas that hold together. A rule has one alternative for each
combination of branches. An object whose keys may come in any order has a rule for each set of present keys.

Invariant: without a `Note` the texts are those of the schema's automaton. A note "narrowed" says that some of them
are missing. A note "repeats" says that an undeclared key may be repeated in a text that is otherwise valid (parsers
use the last one).

Schemas that are not context-free are refused, with the pointer: `not`, `if`, `contains`, `uniqueItems`, patterns of
keys, counts of undeclared keys, `oneOf` over branches that neither type nor constant distinguishes, JSON indented
by depth.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from structgen.constraints.base import IR
from structgen.constraints.expressions import RE, alternate, concat, intersect, literal, repeat
from structgen.constraints.grammar.bodies import choice_of, sequence_of
from structgen.constraints.grammar.lowering import lower
from structgen.constraints.json_schema.nodes import ALL_TYPES, TYPES
from structgen.errors import CombinationError, LimitExceeded
from structgen.ir.grammar import Body, Grammar, Rule

from .json_strings import json_string, json_strings

__all__ = ["Note", "grammar_of_schema"]

_NULL, _BOOLEAN, _OBJECT, _ARRAY, _NUMBER, _STRING = TYPES.values()
_MAX_COMBINATIONS = 256
_MAX_VISITED = 20_000
"""Limit on the branches that are visited, including those that turn out to have no value."""
_MAX_RULES = 20_000
_MAX_UNORDERED_KEYS = 5
"""Limit on the keys that may come in any order: each set of them has a rule."""
_FIELDS = frozenset(
    [
        *("pointer", "types", "integer", "digits", "strings", "numbers", "literals", "values"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "pattern", "format"),
        *("prefixItems", "items", "minItems", "maxItems", "uniqueItems"),
        *("properties", "additionalProperties", "required", "minProperties", "maxProperties"),
        *("allOf", "anyOf", "oneOf", "ref"),
        *("minContains", "maxContains"),  # without effect: `contains` is refused
    ]
)
"""Fields of a node that rules can express; any other field is refused."""
_EMPTY: Body = ("sequence", ())
_BLANK: RE = ("class", ((9, 9), (32, 32)))
_DIGITS = concat(
    (
        repeat(literal("-"), 0, 1),
        alternate([literal("0"), concat((("class", ((49, 57),)), repeat(("class", ((48, 57),)), 0, None)))]),
    )
)


class Note(NamedTuple):
    """A difference between the grammar and the schema."""

    pointer: str
    kind: Literal["narrowed", "repeats"]
    message: str


Requirement = frozenset[int]
"""Sub-schemas that hold together."""


def grammar_of_schema(ir: Mapping[str, Any]) -> tuple[IR, list[Note]]:
    """Return the IR of a grammar of the schema's texts, and its differences from the schema.

    Raises:
        CombinationError: The schema is not a context-free grammar.
        LimitExceeded: The grammar would have too many rules, or the schema is nested too deeply.
    """
    lowering = _Lowering(ir)
    try:
        start = lowering.rule(frozenset([ir["root"]]))
    except RecursionError:
        raise LimitExceeded(
            "the schema is nested too deeply to become a grammar",
            limit="schema_depth",
            hint="The limit of a canvas is a few hundred levels.",
        ) from None
    rules = tuple(Rule(name, body) for name, body in lowering.rules.items())
    return lower(Grammar((Rule("root", start), *rules), "root")), list(dict.fromkeys(lowering.notes))


class _Lowering:
    def __init__(self, ir: Mapping[str, Any]) -> None:
        self.nodes: Sequence[Any] = ir["nodes"]
        self.options: Mapping[str, Any] = ir["options"]
        self.rules: dict[str, Body] = {}
        self.notes: list[Note] = []
        self.names: dict[Hashable, str] = {}
        if self.options["escapes"] != "canonical":
            raise CombinationError(
                "a JSON Schema with escapes='all' cannot be put on a canvas", hint="Use canonical escapes."
            )
        self.gap, self.comma, self.colon = self._white_space()

    def _white_space(self) -> tuple[Body, Body, Body]:
        kind, *more = self.options["whitespace"]
        if kind == "flexible":
            inline, indentation = more
            line = concat((repeat(literal("\r"), 0, 1), literal("\n"), repeat(_BLANK, 0, indentation)))
            gap = concat((repeat(_BLANK, 0, inline), repeat(line, 0, 1)))
            return (
                ("text", gap),
                ("text", concat((gap, literal(","), gap))),
                ("text", concat((gap, literal(":"), gap))),
            )
        if kind == "table":
            raise CombinationError(
                "JSON whose white space is given by patterns cannot be put on a canvas",
                hint="Use whitespace='compact', 'json.dumps' or 'flexible'.",
            )
        indent, before_comma, after_comma, before_colon, after_colon = more
        if indent is not None:
            raise CombinationError(
                "JSON that is indented by depth cannot be put on a canvas",
                hint="Use whitespace='compact', 'json.dumps' or 'flexible'.",
            )
        comma = " " * before_comma + "," + " " * after_comma
        colon = " " * before_colon + ":" + " " * after_colon
        return ("sequence", ()), ("text", literal(comma)), ("text", literal(colon))

    # -- rules

    def _rule_name(self, key: Hashable, prefix: str) -> tuple[str, bool]:
        """Return the name of the rule of a key, and whether it is new."""
        if key in self.names:
            return self.names[key], False
        if len(self.names) >= _MAX_RULES:
            raise LimitExceeded(
                f"the grammar of the schema has more than {_MAX_RULES} rules",
                limit="canvas_rules",
                hint="Use a smaller schema for a canvas.",
            )
        self.names[key] = f"__{prefix} {len(self.names)}"
        return self.names[key], True

    def rule(self, requirement: Requirement) -> Body:
        """Return the values that satisfy the requirement."""
        name, fresh = self._rule_name(requirement, "value")
        if fresh:
            combinations = self._combinations(requirement)
            # Of all remaining branches, not of one alone.
            only_integers = all(map(_allows_only_integers, combinations))
            self.rules[name] = choice_of(
                [body for nodes in combinations for body in self._values(nodes, only_integers)]
            )
        return ("rule", name)

    def _combinations(self, requirement: Requirement) -> list[list[Mapping[str, Any]]]:
        """Return each combination of branches, as the sub-schemas whose own keywords then hold."""
        combinations: list[list[Mapping[str, Any]]] = []
        waiting: list[tuple[list[int], list[Mapping[str, Any]], frozenset[int]]] = [
            (sorted(requirement), [], frozenset())
        ]
        tried = 0
        while waiting:
            pending, chosen_nodes, visited = waiting.pop()
            tried += 1
            if len(combinations) > _MAX_COMBINATIONS or tried > _MAX_VISITED or len(waiting) > _MAX_VISITED:
                raise LimitExceeded(
                    f"a schema has more than {_MAX_COMBINATIONS} combinations of branches",
                    limit="canvas_branches",
                    hint="For a canvas, use fewer branches (anyOf, oneOf) in one position of a schema.",
                )
            if not pending:
                combinations.append(chosen_nodes)
                continue
            first, *rest = pending
            node = self.nodes[first]
            if first in visited or node is True:
                waiting.append((rest, chosen_nodes, visited))
                continue
            if node is False:
                continue
            self._check(node)
            more = [*node.get("allOf", ()), *node.get("ref", ())]
            branches: list[list[int]] = [[]]
            for group in [*node.get("anyOf", ()), *node.get("oneOf", ())]:
                branches = [[*chosen, branch] for chosen in branches for branch in group]
            waiting += [
                ([*more, *chosen, *rest], [*chosen_nodes, node], visited | {first})
                for chosen in reversed(branches)
            ]
        return combinations

    def _check(self, node: Mapping[str, Any]) -> None:
        for field in node:
            if field not in _FIELDS:
                raise _refusal(node, field)
        if node.get("uniqueItems") and node.get("maxItems", 2) > 1:
            raise _refusal(node, "uniqueItems")
        for group in node.get("oneOf", ()):
            seen = [self._types_and_texts(branch) for branch in group]
            for position, branch in enumerate(seen):
                if any(_may_overlap(branch, other) for other in seen[:position]):
                    raise _refusal(node, "oneOf over branches that neither type nor constant distinguishes")

    def _types_and_texts(self, schema: int, depth: int = 3) -> tuple[int, frozenset[str] | None]:
        """Return the types of a branch, and its texts if they are listed; `depth` limits the search."""
        node = self.nodes[schema]
        visited: set[int] = set()
        while isinstance(node, dict) and len(node.get("ref", ())) == 1 and schema not in visited:
            visited.add(schema)
            schema = node["ref"][0]
            node = self.nodes[schema]
        if not isinstance(node, dict):
            return (ALL_TYPES if node else 0), None
        listed = [("string", text) for text in node.get("strings", ())]
        has_values = any(key in node for key in ("strings", "numbers", "literals", "values"))
        if has_values and not (node.get("numbers") or node.get("literals") or node.get("values")):
            return _STRING, frozenset(f"{kind} {text}" for kind, text in listed)
        if depth and node.get("properties") and node.get("types", ALL_TYPES) == _OBJECT:
            for name, inner in node["properties"]:
                if name not in node.get("required", ()):
                    continue
                kind, texts = self._types_and_texts(inner, depth - 1)
                if texts is not None and kind == _STRING:
                    return _OBJECT, frozenset(f"{name}: {text}" for text in texts)
        if depth and node.get("anyOf") and "types" not in node:
            kinds = [self._types_and_texts(branch, depth - 1)[0] for branch in node["anyOf"][0]]
            return _union(kinds), None
        return node.get("types", ALL_TYPES), None

    # -- values of each type

    def _values(self, nodes: Sequence[Mapping[str, Any]], only_integers: bool) -> Iterator[Body]:
        types = ALL_TYPES
        for node in nodes:
            types &= node.get("types", ALL_TYPES)
        listed = [node for node in nodes if _lists(node)]
        for bit, texts in ((_NULL, ("null",)), (_BOOLEAN, ("true", "false"))):
            for text in texts:
                if types & bit and all(text in node.get("literals", ()) for node in listed):
                    yield ("text", literal(text))
        if types & _NUMBER:
            yield ("text", self._number(nodes, listed, only_integers))
        if types & _STRING:
            yield ("text", _string(nodes, listed))
        containers = [node_id for node in listed for node_id in node.get("values", ())]
        if listed and not containers:
            return
        if listed:
            (first, *rest) = listed
            if rest:
                raise _refusal(first, "enums of containers together with other enums")
            plain = [{key: value for key, value in node.items() if key not in _LISTING} for node in nodes]
            for node_id in first["values"]:
                for more in self._combinations(frozenset([node_id])):
                    yield from self._containers([*plain, *more], types)
            return
        yield from self._containers(nodes, types)

    def _containers(self, nodes: Sequence[Mapping[str, Any]], types: int) -> Iterator[Body]:
        for node in nodes:
            types &= node.get("types", ALL_TYPES)
        if types & _ARRAY:
            yield from self._array(nodes)
        if types & _OBJECT:
            yield from self._object(nodes)

    def _number(
        self, nodes: Sequence[Mapping[str, Any]], listed: Sequence[Mapping[str, Any]], only_integers: bool
    ) -> RE:
        parts: list[RE] = []
        for node in nodes:
            bounds = tuple(node.get(key) for key in _BOUNDS)
            if any(value is not None for value in bounds) or node.get("integer"):
                parts.append(("number", *bounds, bool(node.get("integer"))))
            if node.get("digits"):
                parts.append(_DIGITS)
        for node in listed:
            equal: list[RE] = [
                ("number", value, value, None, None, None, False) for value in node.get("numbers", ())
            ]
            parts.append(alternate(equal) if equal else ("empty",))
        if self.options["integers"] == "digits" and only_integers:
            parts.append(_DIGITS)
        return intersect(parts or [("number", None, None, None, None, None, False)])

    def _array(self, nodes: Sequence[Mapping[str, Any]]) -> Iterator[Body]:
        min_count = max((node.get("minItems", 0) for node in nodes), default=0)
        max_count = min((node["maxItems"] for node in nodes if "maxItems" in node), default=None)
        if max_count is not None and max_count < min_count:
            return
        prefix = max((len(node.get("prefixItems", ())) for node in nodes), default=0)
        items = self._items(nodes, 0, prefix, min_count, max_count)
        if items is not None:
            yield sequence_of((("text", literal("[")), self.gap, items, ("text", literal("]"))))

    def _item(self, nodes: Sequence[Mapping[str, Any]], position: int) -> Body:
        requirement = set()
        for node in nodes:
            if position < len(node.get("prefixItems", ())):
                requirement.add(node["prefixItems"][position])
            elif "items" in node:
                requirement.add(node["items"])
        return self.rule(frozenset(requirement))

    def _items(
        self,
        nodes: Sequence[Mapping[str, Any]],
        position: int,
        prefix: int,
        min_count: int,
        max_count: int | None,
    ) -> Body | None:
        """Return what may follow after this many items, with the space after the last; None if nothing may."""
        end = self.gap if position else _EMPTY
        if max_count is not None and position >= max_count:
            return end if position >= min_count else None
        before = self.comma if position else _EMPTY
        if position < prefix:
            rest = self._items(nodes, position + 1, prefix, min_count, max_count)
            if rest is None:
                return end if position >= min_count else None
            item = sequence_of((before, self._item(nodes, position), rest))
            return choice_of((item, end)) if position >= min_count else item
        item = self._item(nodes, position)
        left = None if max_count is None else max_count - position
        if position:
            return sequence_of(
                (("repeat", sequence_of((self.comma, item)), max(0, min_count - position), left), end)
            )
        more = (
            "repeat",
            sequence_of((self.comma, item)),
            max(0, min_count - 1),
            None if left is None else left - 1,
        )
        some = sequence_of((item, more, self.gap))
        return some if min_count else choice_of((some, _EMPTY))

    # -- objects

    def _object(self, nodes: Sequence[Mapping[str, Any]]) -> Iterator[Body]:
        names = list(dict.fromkeys(name for node in nodes for name, _ in node.get("properties", ())))
        required = list(dict.fromkeys(name for node in nodes for name in node.get("required", ())))
        names += [name for name in required if name not in names]
        min_count = max((node.get("minProperties", 0) for node in nodes), default=0)
        max_count = min((node["maxProperties"] for node in nodes if "maxProperties" in node), default=None)
        entries: dict[str, Body] = {}
        for name in names:
            requirement = self._requirement_of_key(nodes, name)
            if any(self.nodes[node_id] is False for node_id in requirement):
                if name in required:
                    return
                continue
            key = ("text", literal(json_string(name)))
            entries[name] = sequence_of((key, self.colon, self.rule(requirement)))
        pointer = next((node["pointer"] for node in nodes if "pointer" in node), "#")
        others = self._requirement_of_key(nodes, None)
        has_others = not any(self.nodes[node_id] is False for node_id in others)
        other: Body | None = None
        if has_others and not entries:
            if min_count > 1 or (max_count is not None and max_count > 1):
                raise CombinationError(
                    f"counts of undeclared keys cannot be put on a canvas (at {pointer})",
                    hint="Declare the keys, or leave out minProperties and maxProperties.",
                )
            key = ("text", json_strings([]))
            other = sequence_of((key, self.colon, self.rule(others)))
            if max_count is None:
                self.notes.append(Note(pointer, "repeats", "a key may occur twice"))
        elif has_others:
            self.notes.append(Note(pointer, "narrowed", "undeclared keys are not written"))
        in_order = self.options["ordered"] or len(entries) > _MAX_UNORDERED_KEYS
        if in_order and not self.options["ordered"] and len(entries) > 1:
            self.notes.append(Note(pointer, "narrowed", "keys come in the order in which they are declared"))
        members = _EntryRules(
            self, entries, frozenset(required), min_count, max_count, in_order, other
        ).rule()
        if members is not None:
            yield sequence_of((("text", literal("{")), self.gap, members, ("text", literal("}"))))

    def _requirement_of_key(self, nodes: Sequence[Mapping[str, Any]], name: str | None) -> Requirement:
        """Return what the value of a key must satisfy; None stands for an undeclared key."""
        requirement = set()
        for node in nodes:
            declared = dict(node.get("properties", ()))
            if name in declared:
                requirement.add(declared[name])
            elif "additionalProperties" in node:
                requirement.add(node["additionalProperties"])
        return frozenset(requirement)


class _EntryRules:
    """Rules for the remaining entries of one object."""

    def __init__(
        self,
        lowering: _Lowering,
        entries: Mapping[str, Body],
        required: frozenset[str],
        min_count: int,
        max_count: int | None,
        in_order: bool,
        other: Body | None,
    ) -> None:
        self.lowering, self.entries, self.required = lowering, entries, required
        self.min_count, self.max_count, self.in_order, self.other = min_count, max_count, in_order, other
        self.order = list(entries)
        self.known: dict[Any, Body | None] = {}

    def rule(self) -> Body | None:
        """Return all entries with the space after the last; None if there is no such object."""
        if self.other is not None:
            more: Body = _EMPTY
            if self.max_count is None:
                more = ("repeat", sequence_of((self.lowering.comma, self.other)), 0, None)
            entries = sequence_of((self.other, more, self.lowering.gap))
            if self.max_count == 0:
                return ("sequence", ()) if not self.min_count else None
            return entries if self.min_count else choice_of((entries, ("sequence", ())))
        return self._after(frozenset(), 0)

    def _after(self, present: frozenset[str], position: int) -> Body | None:
        """Return what may follow after these keys; in declared order from a position on."""
        # The number of present keys matters only as far as it is limited.
        counted = min(len(present), max(1, self.min_count, self.max_count or 0))
        key: Any = (counted, position, self.required <= present) if self.in_order else present
        if key in self.known:
            return self.known[key]
        count = len(present)
        alternatives: list[Body] = []
        if self.required <= present and count >= self.min_count:
            alternatives.append(self.lowering.gap if count else ("sequence", ()))
        if self.max_count is None or count < self.max_count:
            names = (
                self.order[position:]
                if self.in_order
                else [name for name in self.order if name not in present]
            )
            for name in names:
                rest = self._after(present | {name}, self.order.index(name) + 1 if self.in_order else 0)
                if rest is not None:
                    before: Body = self.lowering.comma if count else ("sequence", ())
                    alternatives.append(sequence_of((before, self.entries[name], rest)))
                if self.in_order and name in self.required:
                    break
        body: Body | None = None
        if alternatives:
            rule_name, _ = self.lowering._rule_name(object(), "keys")  # a rule of its own
            self.lowering.rules[rule_name] = choice_of(alternatives)
            body = ("rule", rule_name)
        self.known[key] = body
        return body


_LISTING = ("strings", "numbers", "literals", "values")
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")


def _lists(node: Mapping[str, Any]) -> bool:
    return any(key in node for key in _LISTING)


def _allows_only_integers(nodes: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether every number that satisfies the nodes is an integer."""
    return any(
        not node.get("types", ALL_TYPES) & _NUMBER
        or node.get("integer")
        or (_lists(node) and all(Decimal(number) % 1 == 0 for number in node.get("numbers", ())))
        for node in nodes
    )


def _string(nodes: Sequence[Mapping[str, Any]], listed: Sequence[Mapping[str, Any]]) -> RE:
    parts: list[RE] = []
    for node in nodes:
        parts += [node[key] for key in ("pattern", "format") if key in node]
        if "minLength" in node or "maxLength" in node:
            parts.append(repeat(("any",), node.get("minLength", 0), node.get("maxLength")))
    for node in listed:
        texts = node.get("strings", ())
        parts.append(("literals", tuple(texts)) if texts else ("empty",))
    return json_strings(parts)


def _union(kinds: Sequence[int]) -> int:
    bits = 0
    for kind in kinds:
        bits |= kind
    return bits


def _may_overlap(first: tuple[int, frozenset[str] | None], second: tuple[int, frozenset[str] | None]) -> bool:
    if not first[0] & second[0]:
        return False
    if first[1] is None or second[1] is None:
        return True
    names = {text.partition(": ")[0] for text in first[1] | second[1]} if first[0] == _OBJECT else {""}
    return bool(first[1] & second[1]) or len(names) > 1


def _refusal(node: Mapping[str, Any], keyword: str) -> CombinationError:
    return CombinationError(
        f"{keyword} cannot be put on a canvas (at {node.get('pointer', '#')})",
        hint="Left to right every keyword works: sg.generate, or a hole of sg.infill with this schema.",
    )

"""JSON Schemas as grammars, for canvases.

Why: a canvas needs a context-free grammar; the automaton of a schema keeps more, such as which keys were there.
What: a rule for each *requirement*, a set of sub-schemas that hold together, with one alternative for each way its
branches can be taken. An object whose keys may come in any order has a rule for each set of keys that were there.
Invariant: with no `Note` the texts are those of the schema's automaton. "narrowed": some of them are left out.
"repeats": a key that is not declared may come twice, in texts that are otherwise right (readers take the last).
What is not a grammar is refused, with its pointer: `not`, `if`, `contains`, `uniqueItems`, patterns of keys, counts of
undeclared keys, `oneOf` over branches that are not told apart by type or constant, JSON indented by depth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from structgen.constraints.base import IR
from structgen.constraints.expressions import RE, alternate, concat, intersect, literal, repeat
from structgen.constraints.grammar.bodies import choice_of, sequence_of
from structgen.constraints.grammar.lowering import lower
from structgen.errors import CombinationError, LimitExceeded
from structgen.ir.grammar import Body, Grammar, Rule

from .json_strings import quoted, quoted_text

__all__ = ["Note", "grammar_of_schema"]

_NULL, _BOOLEAN, _OBJECT, _ARRAY, _NUMBER, _STRING = (1 << bit for bit in range(6))
_ALL = 63
_MOST_WAYS = 256
_MOST_TRIED = 20_000
"""Branches that are looked at for them, with those that turn out to have no value."""
_MOST_RULES = 20_000
_ANY_ORDER = 5
"""Keys that may come in any order: each set of them has a rule."""
_REFUSED = {
    "nots": "not",
    "not": "not",
    "if": "if",
    "contains": "contains",
    "patternProperties": "patternProperties",
    "propertyNames": "propertyNames",
}
_EMPTY: Body = ("sequence", ())
_BLANK: RE = ("class", ((9, 9), (32, 32)))
_DIGITS = concat(
    (
        repeat(literal("-"), 0, 1),
        alternate([literal("0"), concat((("class", ((49, 57),)), repeat(("class", ((48, 57),)), 0, None)))]),
    )
)


class Note(NamedTuple):
    """Where the grammar is not just the schema."""

    pointer: str
    kind: Literal["narrowed", "repeats"]
    message: str


Needs = frozenset[int]
"""Sub-schemas that hold together."""


def grammar_of_schema(ir: Mapping[str, Any]) -> tuple[IR, list[Note]]:
    """The IR of a grammar of the schema's texts, with what is not exact about it."""
    made = _Lowering(ir)
    try:
        start = made.rule(frozenset([ir["root"]]))
    except RecursionError:
        raise LimitExceeded(
            "the schema is nested too deeply to become a grammar",
            limit="schema_depth",
            hint="A canvas takes schemas of a few hundred levels.",
        ) from None
    rules = tuple(Rule(name, body) for name, body in made.rules.items())
    return lower(Grammar((Rule("root", start), *rules), "root")), list(dict.fromkeys(made.notes))


class _Lowering:
    def __init__(self, ir: Mapping[str, Any]) -> None:
        self.nodes: Sequence[Any] = ir["nodes"]
        self.options: Mapping[str, Any] = ir["options"]
        self.rules: dict[str, Body] = {}
        self.notes: list[Note] = []
        self.names: dict[Any, str] = {}
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
                "JSON whose white space patterns describe cannot be put on a canvas",
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

    def _named(self, key: Any, prefix: str) -> tuple[str, bool]:
        """The name of the rule for something, and whether it is new."""
        if key in self.names:
            return self.names[key], False
        if len(self.names) >= _MOST_RULES:
            raise LimitExceeded(
                f"the schema takes more than {_MOST_RULES} rules as a grammar",
                limit="canvas_rules",
                hint="Use a smaller schema for a canvas.",
            )
        self.names[key] = f"__{prefix} {len(self.names)}"
        return self.names[key], True

    def rule(self, needs: Needs) -> Body:
        """The values that satisfy all of these."""
        name, fresh = self._named(needs, "value")
        if fresh:
            ways = self._ways(needs)
            # Of all that is left, not of one branch alone.
            is_whole = all(map(_is_whole, ways))
            self.rules[name] = choice_of([body for way in ways for body in self._values(way, is_whole)])
        return ("rule", name)

    def _ways(self, needs: Needs) -> list[list[Mapping[str, Any]]]:
        """Each way to take branches, as the sub-schemas whose own keywords hold then."""
        ways: list[list[Mapping[str, Any]]] = []
        todo: list[tuple[list[int], list[Mapping[str, Any]], frozenset[int]]] = [
            (sorted(needs), [], frozenset())
        ]
        tried = 0
        while todo:
            pending, own, met = todo.pop()
            tried += 1
            if len(ways) > _MOST_WAYS or tried > _MOST_TRIED or len(todo) > _MOST_TRIED:
                raise LimitExceeded(
                    f"branches can be taken in more than {_MOST_WAYS} ways",
                    limit="canvas_branches",
                    hint="Use fewer branches (anyOf, oneOf) in one place of a schema for a canvas.",
                )
            if not pending:
                ways.append(own)
                continue
            first, *rest = pending
            node = self.nodes[first]
            if first in met or node is True:
                todo.append((rest, own, met))
                continue
            if node is False:
                continue
            self._check(node)
            more = [*node.get("allOf", ()), *node.get("ref", ())]
            branches: list[list[int]] = [[]]
            for group in [*node.get("anyOf", ()), *node.get("oneOf", ())]:
                branches = [[*chosen, one] for chosen in branches for one in group]
            todo += [([*more, *chosen, *rest], [*own, node], met | {first}) for chosen in reversed(branches)]
        return ways

    def _check(self, node: Mapping[str, Any]) -> None:
        for key, keyword in _REFUSED.items():
            if key in node:
                raise _refusal(node, keyword)
        if node.get("uniqueItems") and node.get("maxItems", 2) > 1:
            raise _refusal(node, "uniqueItems")
        for group in node.get("oneOf", ()):
            seen = [self._kind_of(one) for one in group]
            for place, one in enumerate(seen):
                if any(_may_meet(one, other) for other in seen[:place]):
                    raise _refusal(node, "oneOf over branches that are not told apart by type or constant")

    def _kind_of(self, schema: int, depth: int = 3) -> tuple[int, frozenset[str] | None]:
        """The types that a branch may have, and its texts where they are listed; looked for so many schemas deep."""
        node = self.nodes[schema]
        met: set[int] = set()
        while isinstance(node, dict) and len(node.get("ref", ())) == 1 and schema not in met:
            met.add(schema)
            schema = node["ref"][0]
            node = self.nodes[schema]
        if not isinstance(node, dict):
            return (_ALL if node else 0), None
        listed = [("string", one) for one in node.get("strings", ())]
        has_values = any(key in node for key in ("strings", "numbers", "literals", "values"))
        if has_values and not (node.get("numbers") or node.get("literals") or node.get("values")):
            return _STRING, frozenset(f"{kind} {text}" for kind, text in listed)
        if depth and node.get("properties") and node.get("types", _ALL) == _OBJECT:
            for name, inner in node["properties"]:
                if name not in node.get("required", ()):
                    continue
                kind, texts = self._kind_of(inner, depth - 1)
                if texts is not None and kind == _STRING:
                    return _OBJECT, frozenset(f"{name}: {text}" for text in texts)
        if depth and node.get("anyOf") and "types" not in node:
            kinds = [self._kind_of(one, depth - 1)[0] for one in node["anyOf"][0]]
            return _union(kinds), None
        return node.get("types", _ALL), None

    # -- values of each type

    def _values(self, way: Sequence[Mapping[str, Any]], is_whole: bool) -> Iterator[Body]:
        types = _ALL
        for node in way:
            types &= node.get("types", _ALL)
        listed = [node for node in way if _lists(node)]
        for bit, texts in ((_NULL, ("null",)), (_BOOLEAN, ("true", "false"))):
            for text in texts:
                if types & bit and all(text in node.get("literals", ()) for node in listed):
                    yield ("text", literal(text))
        if types & _NUMBER:
            yield ("text", self._number(way, listed, is_whole))
        if types & _STRING:
            yield ("text", _string(way, listed))
        others = [one for node in listed for one in node.get("values", ())]
        if listed and not others:
            return
        if listed:
            (first, *rest) = listed
            if rest:
                raise _refusal(first, "enums of containers together with other enums")
            plain = [{key: value for key, value in node.items() if key not in _LISTING} for node in way]
            for one in first["values"]:
                for more in self._ways(frozenset([one])):
                    yield from self._containers([*plain, *more], types)
            return
        yield from self._containers(way, types)

    def _containers(self, way: Sequence[Mapping[str, Any]], types: int) -> Iterator[Body]:
        for node in way:
            types &= node.get("types", _ALL)
        if types & _ARRAY:
            yield from self._array(way)
        if types & _OBJECT:
            yield from self._object(way)

    def _number(
        self, way: Sequence[Mapping[str, Any]], listed: Sequence[Mapping[str, Any]], is_whole: bool
    ) -> RE:
        parts: list[RE] = []
        for node in way:
            bounds = tuple(node.get(key) for key in _BOUNDS)
            if any(one is not None for one in bounds) or node.get("integer"):
                parts.append(("number", *bounds, bool(node.get("integer"))))
            if node.get("digits"):
                parts.append(_DIGITS)
        for node in listed:
            equal: list[RE] = [
                ("number", one, one, None, None, None, False) for one in node.get("numbers", ())
            ]
            parts.append(alternate(equal) if equal else ("empty",))
        if self.options["integers"] == "digits" and is_whole:
            parts.append(_DIGITS)
        return intersect(parts or [("number", None, None, None, None, None, False)])

    def _array(self, way: Sequence[Mapping[str, Any]]) -> Iterator[Body]:
        least = max((node.get("minItems", 0) for node in way), default=0)
        most = min((node["maxItems"] for node in way if "maxItems" in node), default=None)
        if most is not None and most < least:
            return
        prefix = max((len(node.get("prefixItems", ())) for node in way), default=0)
        inside = self._items(way, 0, prefix, least, most)
        if inside is not None:
            yield sequence_of((("text", literal("[")), self.gap, inside, ("text", literal("]"))))

    def _item(self, way: Sequence[Mapping[str, Any]], place: int) -> Body:
        needs = set()
        for node in way:
            if place < len(node.get("prefixItems", ())):
                needs.add(node["prefixItems"][place])
            elif "items" in node:
                needs.add(node["items"])
        return self.rule(frozenset(needs))

    def _items(
        self, way: Sequence[Mapping[str, Any]], place: int, prefix: int, least: int, most: int | None
    ) -> Body | None:
        """What may come behind so many items, with the space behind the last; None: nothing does."""
        end = self.gap if place else _EMPTY
        if most is not None and place >= most:
            return end if place >= least else None
        before = self.comma if place else _EMPTY
        if place < prefix:
            rest = self._items(way, place + 1, prefix, least, most)
            if rest is None:
                return end if place >= least else None
            item = sequence_of((before, self._item(way, place), rest))
            return choice_of((item, end)) if place >= least else item
        item = self._item(way, place)
        left = None if most is None else most - place
        if place:
            return sequence_of(
                (("repeat", sequence_of((self.comma, item)), max(0, least - place), left), end)
            )
        more = (
            "repeat",
            sequence_of((self.comma, item)),
            max(0, least - 1),
            None if left is None else left - 1,
        )
        some = sequence_of((item, more, self.gap))
        return some if least else choice_of((some, _EMPTY))

    # -- objects

    def _object(self, way: Sequence[Mapping[str, Any]]) -> Iterator[Body]:
        names = list(dict.fromkeys(name for node in way for name, _ in node.get("properties", ())))
        required = list(dict.fromkeys(name for node in way for name in node.get("required", ())))
        names += [name for name in required if name not in names]
        least = max((node.get("minProperties", 0) for node in way), default=0)
        most = min((node["maxProperties"] for node in way if "maxProperties" in node), default=None)
        entries: dict[str, Body] = {}
        for name in names:
            needs = self._needs_of(way, name)
            if any(self.nodes[one] is False for one in needs):
                if name in required:
                    return
                continue
            key = ("text", literal(quoted_text(name)))
            entries[name] = sequence_of((key, self.colon, self.rule(needs)))
        pointer = next((node["pointer"] for node in way if "pointer" in node), "#")
        others = self._needs_of(way, None)
        has_others = not any(self.nodes[one] is False for one in others)
        other: Body | None = None
        if has_others and not entries:
            if least > 1 or (most is not None and most > 1):
                raise CombinationError(
                    f"counts of undeclared keys cannot be put on a canvas (at {pointer})",
                    hint="Declare the keys, or leave out minProperties and maxProperties.",
                )
            key = ("text", quoted([]))
            other = sequence_of((key, self.colon, self.rule(others)))
            if most is None:
                self.notes.append(Note(pointer, "repeats", "a key may come twice"))
        elif has_others:
            self.notes.append(Note(pointer, "narrowed", "other keys than the declared ones are not written"))
        in_order = self.options["ordered"] or len(entries) > _ANY_ORDER
        if in_order and not self.options["ordered"] and len(entries) > 1:
            self.notes.append(Note(pointer, "narrowed", "keys come in the order in which they are declared"))
        inside = _Keys(self, entries, frozenset(required), least, most, in_order, other).rule()
        if inside is not None:
            yield sequence_of((("text", literal("{")), self.gap, inside, ("text", literal("}"))))

    def _needs_of(self, way: Sequence[Mapping[str, Any]], name: str | None) -> Needs:
        """What the value of a key must satisfy; None: of one that is not declared."""
        needs = set()
        for node in way:
            declared = dict(node.get("properties", ()))
            if name in declared:
                needs.add(declared[name])
            elif "additionalProperties" in node:
                needs.add(node["additionalProperties"])
        return frozenset(needs)


class _Keys:
    """The entries of one object, as rules for what is still to come."""

    def __init__(
        self,
        lowering: _Lowering,
        entries: Mapping[str, Body],
        required: frozenset[str],
        least: int,
        most: int | None,
        in_order: bool,
        other: Body | None,
    ) -> None:
        self.lowering, self.entries, self.required = lowering, entries, required
        self.least, self.most, self.in_order, self.other = least, most, in_order, other
        self.order = list(entries)
        self.known: dict[Any, Body | None] = {}

    def rule(self) -> Body | None:
        """All entries with the space behind the last; None: there is no such object."""
        if self.other is not None:
            more: Body = _EMPTY
            if self.most is None:
                more = ("repeat", sequence_of((self.lowering.comma, self.other)), 0, None)
            some = sequence_of((self.other, more, self.lowering.gap))
            if self.most == 0:
                return ("sequence", ()) if not self.least else None
            return some if self.least else choice_of((some, ("sequence", ())))
        return self._after(frozenset(), 0)

    def _after(self, there: frozenset[str], place: int) -> Body | None:
        """What may come behind these keys; in declared order from a place on."""
        # How many there are is of interest as far as they are counted.
        counted = min(len(there), max(1, self.least, self.most or 0))
        key: Any = (counted, place, self.required <= there) if self.in_order else there
        if key in self.known:
            return self.known[key]
        count = len(there)
        ways: list[Body] = []
        if self.required <= there and count >= self.least:
            ways.append(self.lowering.gap if count else ("sequence", ()))
        if self.most is None or count < self.most:
            names = self.order[place:] if self.in_order else [one for one in self.order if one not in there]
            for name in names:
                rest = self._after(there | {name}, self.order.index(name) + 1 if self.in_order else 0)
                if rest is not None:
                    before: Body = self.lowering.comma if count else ("sequence", ())
                    ways.append(sequence_of((before, self.entries[name], rest)))
                if self.in_order and name in self.required:
                    break
        found: Body | None = None
        if ways:
            made, _ = self.lowering._named(object(), "keys")  # one of its own
            self.lowering.rules[made] = choice_of(ways)
            found = ("rule", made)
        self.known[key] = found
        return found


_LISTING = ("strings", "numbers", "literals", "values")
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")


def _lists(node: Mapping[str, Any]) -> bool:
    return any(key in node for key in _LISTING)


def _is_whole(way: Sequence[Mapping[str, Any]]) -> bool:
    """Is every number that satisfies it whole?"""
    return any(
        not node.get("types", _ALL) & _NUMBER
        or node.get("integer")
        or (_lists(node) and all(Decimal(one) % 1 == 0 for one in node.get("numbers", ())))
        for node in way
    )


def _string(way: Sequence[Mapping[str, Any]], listed: Sequence[Mapping[str, Any]]) -> RE:
    parts: list[RE] = []
    for node in way:
        parts += [node[key] for key in ("pattern", "format") if key in node]
        if "minLength" in node or "maxLength" in node:
            parts.append(repeat(("any",), node.get("minLength", 0), node.get("maxLength")))
    for node in listed:
        texts = node.get("strings", ())
        parts.append(("literals", tuple(texts)) if texts else ("empty",))
    return quoted(parts)


def _union(kinds: Sequence[int]) -> int:
    found = 0
    for one in kinds:
        found |= one
    return found


def _may_meet(one: tuple[int, frozenset[str] | None], other: tuple[int, frozenset[str] | None]) -> bool:
    if not one[0] & other[0]:
        return False
    if one[1] is None or other[1] is None:
        return True
    names = {text.partition(": ")[0] for text in one[1] | other[1]} if one[0] == _OBJECT else {""}
    return bool(one[1] & other[1]) or len(names) > 1


def _refusal(node: Mapping[str, Any], keyword: str) -> CombinationError:
    return CombinationError(
        f"{keyword} cannot be put on a canvas (at {node.get('pointer', '#')})",
        hint="From the left any keyword is obeyed: sg.generate, or a hole of sg.infill with this schema.",
    )

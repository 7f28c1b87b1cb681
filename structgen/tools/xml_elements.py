"""The arguments of a call as elements, in any style of `xml_styles`: the constraint of a schema's objects.

What: one element for each key, in the order in which keys are declared, then those that patterns list, then others. A
string is written as it is, without quotes and escapes; other values are JSON, or elements again where the style says
so. In a style without types a text that is the JSON of another value may be read as either; both satisfy the schema.
Invariant: every text reads back as an object that satisfies the schema, and every such object has a text, but for
these: no value holds what ends its element; a key is no text that ends the name of an element; a key that neither the
schema nor a pattern names is a name of XML. A key that is not declared may come again, and the last one counts.
Cost: linear in the schema with its alternatives written out. With `any_order` there is a state for each set of keys,
up to `_MOST_IN_ANY_ORDER` keys; where keys are counted, one for each count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from structgen import _core
from structgen.constraints.base import IR
from structgen.constraints.composition.composed import body_of, text_of
from structgen.constraints.expressions import (
    NOTHING,
    RE,
    TEXT,
    intersect,
)
from structgen.constraints.grammar.bodies import EMPTY, sequence_of
from structgen.constraints.json_schema.constraint import JsonSchemaConstraint
from structgen.constraints.json_schema.excluding import check_excludable, excluding
from structgen.constraints.json_schema.shapes import ArrayShape, Conjunction, Member, ObjectShape, Shapes
from structgen.constraints.json_schema.strings import TYPES
from structgen.constraints.occurrences import without
from structgen.errors import ConstraintError, LimitExceeded
from structgen.ir.grammar import Body, Rule
from structgen.vocabulary import Vocabulary

from .xml_styles import XmlStyle
from .xml_texts import PLAIN_NAME, XML_NAME, any_string, is_name, padded, template_pieces, white_space

__all__ = ["BLANKS", "xml_elements"]

BLANKS = 16
"""Most white space in one place, where nothing else is said."""
_MOST_IN_ANY_ORDER = 10
_MOST_STATES = 4_096
_MOST_CONTAINERS = 2_000
_CONTAINERS = TYPES["array"] | TYPES["object"]
_NO_TEXT: Body = ("choice", ())


def xml_elements(
    schema: JsonSchemaConstraint,
    style: XmlStyle,
    *,
    any_order: bool = False,
    most_blanks: int = BLANKS,
    excluded: Iterable[str] = (),
    write: Callable[[str], Body] = text_of,
) -> tuple[Body, tuple[Rule, ...]]:
    """Return the objects of `schema` in this style, as a body and the rules that it names.

    Args:
        schema: what the arguments satisfy; its options say how JSON is written.
        style: how elements are written.
        any_order: keys may come in any order.
        most_blanks: most white space in one place.
        excluded: texts that neither names nor values hold.
        write: the body of a text of the style, which may hold special tokens.

    Raises:
        ConstraintError: no object satisfies the schema, or a key cannot be the name of an element.
        UnsupportedKeyword: the schema says something of objects that elements cannot follow.
        LimitExceeded: too many keys in any order, or too many alternatives.
    """
    made = _Elements(Shapes(schema, _emptiness()), style, any_order, most_blanks, tuple(excluded), write)
    body = made.arguments()
    return body, tuple(Rule(name, content) for name, content in made.rules.items())


class _Keys(NamedTuple):
    """The keys of an object: those that are declared, an element for each, and how many there may be."""

    members: list[Member]
    elements: list[Body]
    other: Body | None
    """An element of a key that is not declared; None if there may be no such key."""
    fewest: int
    most: int | None


@dataclass
class _Elements:
    """Elements of one schema in one style; what comes again is a rule."""

    shapes: Shapes
    style: XmlStyle
    any_order: bool
    most_blanks: int
    excluded: tuple[str, ...]
    write: Callable[[str], Body]
    rules: dict[str, Body] = field(default_factory=dict)
    _containers: dict[tuple[str, Conjunction], Body] = field(default_factory=dict)
    _pending: list[tuple[str, str, Conjunction]] = field(default_factory=list)
    """Containers whose rules are not written yet."""

    def __post_init__(self) -> None:
        for text in self.excluded:
            check_excludable(text)
        self.gap = white_space(self.most_blanks)
        self.never = (self.style.end, *self.style.never, *self.excluded)
        unwritten = (*self.excluded, *self.style.escapes)
        self.unwritten = [without(unwritten)] if unwritten else []

    def arguments(self) -> Body:
        shapes = self.shapes.objects(self.shapes.root)
        if not shapes:
            raise ConstraintError(
                "no object satisfies the schema, but arguments are an object",
                hint='Write {"type": "object", "properties": {...}}.',
            )
        body = self._objects(shapes, "arguments")
        while self._pending:  # not by recursion: containers may be nested deep
            name, kind, value = self._pending.pop()
            if kind == "object":
                self.rules[name] = self._objects(self.shapes.objects(value), name)
            else:
                arrays = self.shapes.arrays(value)
                self.rules[name] = _either(
                    [self._array(one, f"{name}, {place}") for place, one in enumerate(arrays)]
                )
        return body

    # Values.

    def _element(self, template: str, name: str | Body, value: Conjunction) -> Body:
        """The element of a key or an item, after white space, for each type that its value may have."""
        types = self.shapes.types(value)
        found = []
        for shown, kinds in self.style.forms:
            if types & sum(TYPES[kind] for kind in kinds):
                content = self._value(value, kinds)
                if content is not None:
                    found.append(self._filled(template, name, shown, content))
        return sequence_of((self.gap, _either(found)))

    def _filled(self, template: str, name: str | Body, shown: str, content: Body) -> Body:
        """The template with these contents."""
        parts = {"value": content, "gap": self.gap}
        given = name if isinstance(name, str) else None
        if not isinstance(name, str):
            parts["name"] = name
        return sequence_of(
            self.write(text) if kind == "text" else parts[kind]
            for kind, text in template_pieces(template, given, shown)
        )

    def _value(self, value: Conjunction, kinds: tuple[str, ...]) -> Body | None:
        """The values of these types, which are written alike; None where others are written like all of them."""
        if kinds == ("string",):
            return self._string(self.shapes.strings(value))
        if kinds[0] in self.style.nested:
            return self._nested(kinds[0], value)
        if not self.style.types and self.shapes.strings(value) == TEXT:
            return None  # any text is a string
        json = self.shapes.json(value, kinds)
        if self.shapes.types(value) & _CONTAINERS & sum(TYPES[kind] for kind in kinds):
            json = excluding(json, self.never)
        return sequence_of((self.gap, body_of(json), self.gap))

    def _string(self, strings: RE) -> Body | None:
        if strings == NOTHING:
            return None
        if strings == TEXT:
            return any_string(self.never)
        if self.style.is_padded:
            strings = padded(strings)
        return ("text", intersect([strings, without(self.never)]))

    def _nested(self, kind: str, value: Conjunction) -> Body:
        """The rule of a container, which is written later."""
        known = self._containers.get((kind, value))
        if known is None:
            if len(self._containers) >= _MOST_CONTAINERS:
                raise LimitExceeded(
                    f"the schema has more than {_MOST_CONTAINERS:,} different objects and arrays",
                    limit="nested_elements",
                    hint="Write the arguments as JSON, or describe fewer objects.",
                )
            name = f"{kind} {len(self._containers) + 1}"
            known = self._containers[kind, value] = ("rule", name)
            self._pending.append((name, kind, value))
            self.rules[name] = EMPTY  # in its place among the rules
        return known

    def _array(self, shape: ArrayShape, name: str) -> Body:
        """The items; a rule for each place after which the array may end."""
        most, fewest = shape.max_count, shape.min_count
        if most is not None and fewest > most:
            return _NO_TEXT
        first = shape.first if most is None else shape.first[:most]
        items = [self._element(self.style.item, "", value) for value in first]
        after: Body = EMPTY
        if most is None or most > len(items):
            rest = self._element(self.style.item, "", shape.rest)
            high = None if most is None else most - len(items)
            after = ("repeat", rest, max(fewest - len(items), 0), high)
        for place in range(len(items) - 1, fewest - 1, -1):
            rule = f"{name}: from {place}"
            self.rules[rule] = ("repeat", sequence_of((items[place], after)), 0, 1)
            after = ("rule", rule)
        return sequence_of((*items[:fewest], after, self.gap))

    # Objects.

    def _objects(self, shapes: list[ObjectShape], name: str) -> Body:
        """Objects of any of these shapes; rules of each have a name of their own."""
        names = [f"{name}, {place}" if place else name for place in range(len(shapes))]
        return _either([self._object(*one) for one in zip(shapes, names, strict=True)])

    def _object(self, shape: ObjectShape, name: str) -> Body:
        members = [one for one in shape.members if self._is_possible(one)]
        if len(members) < len(shape.members) and any(
            one.is_required and not self._is_possible(one) for one in shape.members
        ):
            return _NO_TEXT
        elements = [self._member(one) for one in members]
        others = []
        for one in shape.undeclared:
            names = intersect([one.names, PLAIN_NAME if one.is_described else XML_NAME, *self.unwritten])
            others.append(self._element(self.style.element, ("text", names), one.value))
        other = _either(others) if others else None
        required = sum(one.is_required for one in members)
        fewest = shape.min_count if shape.min_count > required else 0
        most = shape.max_count
        if most is not None and other is None and most >= len(members):
            most = None
        if other is not None and fewest > required + 1:
            raise ConstraintError(
                f"minProperties is {shape.min_count}, and keys that are not declared could come again to make it up",
                hint="Forbid other keys (additionalProperties: false), or require the keys that are needed.",
            )
        keys = _Keys(members, elements, other, fewest, most)
        if self.any_order and len(members) > 1 - (other is not None):
            body = self._in_any_order(keys, name)
        elif fewest or most is not None:
            body = self._counted(keys, name)
        else:
            body = sequence_of(
                [
                    element if one.is_required else ("repeat", element, 0, 1)
                    for one, element in zip(members, elements, strict=True)
                ]
                + ([("repeat", other, 0, None)] if other is not None else [])
            )
        return sequence_of((body, self.gap))

    def _is_possible(self, member: Member) -> bool:
        return not any(text in self._written_name(member) for text in self.excluded)

    def _written_name(self, member: Member) -> str:
        return "".join([self.style.escapes.get(character, character) for character in member.name])

    def _member(self, member: Member) -> Body:
        name = self._written_name(member)
        if not is_name(name):
            raise ConstraintError(
                f"{member.name!r:.60} is no name of an element",
                hint="Use letters, digits, - and _ in the names of parameters, or write the arguments as JSON.",
            )
        return self._element(self.style.element, name, member.value)

    def _counted(self, keys: _Keys, name: str) -> Body:
        """Keys in order, as many as are allowed: a rule for each place and how many there are."""
        members, elements, other, fewest, most = keys
        bound = fewest if most is None else most

        def rule(place: int, count: int) -> Body:
            return ("rule", f"{name}: {count} of {place}")

        if (len(members) + 1) * (bound + 1) > _MOST_STATES:
            raise _too_many_states()
        for place, (member, element) in enumerate(zip(members, elements, strict=True)):
            for count in range(min(place, bound) + 1):
                more = min(count + 1, bound)
                options = []
                if count < bound or most is None:
                    options.append(sequence_of((element, rule(place + 1, more))))
                if not member.is_required:
                    options.append(rule(place + 1, count))
                self.rules[rule(place, count)[1]] = _either(options)
        for count in range(min(len(members), bound) + 1):
            low, high = max(fewest - count, 0), None if most is None else most - count
            tail: Body = EMPTY if not low else _NO_TEXT
            if other is not None and high != 0:
                tail = ("repeat", other, low, high)
            self.rules[rule(len(members), count)[1]] = tail
        return rule(0, 0)

    def _in_any_order(self, keys: _Keys, name: str) -> Body:
        """A rule for each set of keys that are there, and for how many undeclared ones, if that matters."""
        members, elements, other, fewest, most = keys
        if len(members) > _MOST_IN_ANY_ORDER:
            raise LimitExceeded(
                f"{len(members)} keys in any order, each as an element, more than {_MOST_IN_ANY_ORDER}",
                limit="keys_in_any_order",
                hint="Leave any_order out, write the arguments as JSON, or declare fewer keys.",
            )
        required = sum(1 << place for place, one in enumerate(members) if one.is_required)
        bound = 0 if other is None else most if most is not None else min(fewest, 1)
        if (bound + 1) << len(members) > _MOST_STATES:
            raise _too_many_states()

        def rule(there: int, others: int) -> Body:
            return ("rule", f"{name}: {there:b} and {others}")

        parts = []
        for place, element in enumerate(elements):
            self.rules[f"{name}: element {place}"] = element
            parts.append(("rule", f"{name}: element {place}"))
        for there in range(1 << len(members)):
            for others in range(bound + 1):
                count = there.bit_count() + others
                options: list[Body] = []
                if required & ~there == 0 and count >= fewest:
                    options.append(EMPTY)
                if most is None or count < most:
                    options += [
                        sequence_of((part, rule(there | 1 << place, others)))
                        for place, part in enumerate(parts)
                        if not there >> place & 1
                    ]
                    if other is not None:
                        options.append(sequence_of((other, rule(there, min(others + 1, bound)))))
                self.rules[rule(there, others)[1]] = _either(options)
        return rule(0, 0)


def _emptiness() -> Callable[[IR], bool]:
    """Return a function that says whether it is proven that no value satisfies a schema."""
    # A vocabulary of its own, made when it is needed: what it compiles would stay in a shared one.
    known: list[Vocabulary] = []

    def is_empty(schema: IR) -> bool:
        if not known:
            known.append(Vocabulary.of_bytes())
        try:
            return known[0].engine.compile(schema).empty_parts() is not None
        except _core.LimitError:
            return False

    return is_empty


def _either(bodies: list[Body]) -> Body:
    """Any of the bodies. They differ, so none is compared with the others, which would hash each again and again."""
    return bodies[0] if len(bodies) == 1 else ("choice", tuple(bodies))


def _too_many_states() -> LimitExceeded:
    return LimitExceeded(
        f"the keys of an object with a bound on their number take more than {_MOST_STATES:,} rules",
        limit="counted_keys",
        hint="Leave out minProperties and maxProperties, or write the arguments as JSON.",
    )

"""The arguments of a call as XML elements, in any style of `xml_styles`: the constraint of a schema's objects.

What: one element per key, in the order of declaration, then the keys that patterns list, then others. Strings are
written without quotes and escapes; other values are JSON, or nested elements if the style says so. In a style without
types, a text that is also the JSON of another value may be read as either; both satisfy the schema.
Invariant: every text reads back as an object that satisfies the schema, and every such object has a text, with these
exceptions: no value contains the end of its element; no key contains the end of an element's name; a key that neither
the schema nor a pattern names is an XML name. An undeclared key may repeat, and the last one counts.
Cost: linear in the schema with its alternatives expanded. With `any_order`, one state per set of keys, up to
`_MOST_IN_ANY_ORDER` keys; if keys are counted, one per count.
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
from structgen.constraints.json_schema.nodes import TYPES
from structgen.constraints.json_schema.shapes import ArrayShape, Conjunction, Member, ObjectShape, Shapes
from structgen.constraints.occurrences import without
from structgen.errors import ConstraintError, LimitExceeded
from structgen.ir.grammar import Body, Rule
from structgen.vocabulary import Vocabulary

from .container_rules import ContainerRules
from .xml_styles import XmlStyle
from .xml_texts import PLAIN_NAME, XML_NAME, any_string, is_name, template_pieces, white_space
from .xml_values import SharedValues, string_body

__all__ = ["BLANKS", "xml_elements"]

BLANKS = 16
"""The default bound of white space in one position."""
_MOST_IN_ANY_ORDER = 10
_MOST_STATES = 4_096
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
    shared: SharedValues | None = None,
) -> tuple[Body, tuple[Rule, ...]]:
    """Return the objects of `schema` in this style, as a body and the rules that it names.

    Args:
        schema: The schema of the arguments; its options say how JSON is written.
        style: How elements are written.
        any_order: Allow keys in any order, in a style without `between`.
        most_blanks: The most white space in one position.
        excluded: Texts that neither names nor values contain.
        write: Returns the body of a text of the style, which may contain special tokens.
        shared: Values that other arguments in the same text have, too. A message about a value that is JSON then
            points to the first schema that describes it.

    Raises:
        ConstraintError: No object satisfies the schema, or a key cannot be the name of an element.
        UnsupportedKeyword: Elements cannot express a keyword of the schema.
        LimitExceeded: There are too many keys in any order, or too many alternatives.
    """
    assert not (any_order and style.between)
    made = _Elements(
        Shapes(schema, _emptiness()), style, any_order, most_blanks, tuple(excluded), write, shared
    )
    body = made.arguments()
    return body, made.rules.all()


class _Keys(NamedTuple):
    """The declared keys of an object, the element of each, and the bounds on their number."""

    members: list[Member]
    elements: list[Body]
    other: Body | None
    """The element of an undeclared key; None if such keys are forbidden."""
    fewest: int
    most: int | None


@dataclass
class _Elements:
    """Elements of one schema in one style. Shared parts are rules."""

    shapes: Shapes
    style: XmlStyle
    any_order: bool
    most_blanks: int
    excluded: tuple[str, ...]
    write: Callable[[str], Body]
    shared: SharedValues | None
    rules: ContainerRules = field(default_factory=ContainerRules)

    def __post_init__(self) -> None:
        for text in self.excluded:
            check_excludable(text)
        self.gap = white_space(self.most_blanks)
        self.between = self.write(self.style.between)
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
        self.rules.write(self._container)
        return body

    def _container(self, name: str, kind: str, value: Conjunction) -> Body:
        if kind == "object":
            return self._objects(self.shapes.objects(value), name)
        arrays = enumerate(self.shapes.arrays(value))
        return _either([self._array(array, f"{name}, {index}") for index, array in arrays])

    # Values.

    def _element(self, template: str, name: str | Body, value: Conjunction) -> Body:
        """Return the element of a key or an item, after white space, for each type of its value."""
        types = self.shapes.types(value)
        found = []
        for shown, kinds in self.style.forms:
            if types & sum(TYPES[kind] for kind in kinds):
                content = self._value(value, kinds)
                if content is not None:
                    found.append(self._filled(template, name, shown, content))
        return sequence_of((self.gap, _either(found)))

    def _filled(self, template: str, name: str | Body, shown: str, content: Body) -> Body:
        """Return the template with these contents."""
        parts = {"value": content, "gap": self.gap}
        given = name if isinstance(name, str) else None
        if not isinstance(name, str):
            parts["name"] = name
        return sequence_of(
            self.write(text) if kind == "text" else parts[kind]
            for kind, text in template_pieces(template, given, shown)
        )

    def _value(self, value: Conjunction, kinds: tuple[str, ...]) -> Body | None:
        """Return the values of these types, which are written alike; None if other types are, too."""
        if kinds[0] in self.style.nested:
            return self.rules.name(kinds[0], value)
        if self.shared is None or not (kinds == ("string",) or self.shared.shares_json):
            return self._new_value(value, kinds)
        content = self.shapes.content(value)
        if content is not None:
            content = (
                content,
                kinds,
                self.style.name,
                self.excluded,
                self.most_blanks,
                self.shapes.constraint.options,
            )
        return self.shared.body(content, self.shapes, lambda: self._new_value(value, kinds))

    def _new_value(self, value: Conjunction, kinds: tuple[str, ...]) -> Body | None:
        if kinds == ("string",):
            return self._string(self.shapes.strings(value))
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
        return string_body(strings, self.never, is_padded=self.style.is_padded)

    def _array(self, shape: ArrayShape, name: str) -> Body:
        """Return the items: a rule for each position after which the array may end."""
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
        for index in range(len(items) - 1, fewest - 1, -1):
            rule = f"{name}: from {index}"
            self.rules.bodies[rule] = ("repeat", sequence_of((items[index], after)), 0, 1)
            after = ("rule", rule)
        return sequence_of((*items[:fewest], after, self.gap))

    # Objects.

    def _objects(self, shapes: list[ObjectShape], name: str) -> Body:
        """Return objects of any of these shapes. The rules of each have names of their own."""
        names = [f"{name}, {index}" if index else name for index in range(len(shapes))]
        return _either([self._object(*pair) for pair in zip(shapes, names, strict=True)])

    def _object(self, shape: ObjectShape, name: str) -> Body:
        members = [member for member in shape.members if self._is_possible(member)]
        if len(members) < len(shape.members) and any(
            member.is_required and not self._is_possible(member) for member in shape.members
        ):
            return _NO_TEXT
        elements = [self._member(member) for member in members]
        others = []
        for undeclared in shape.undeclared:
            names = intersect(
                [undeclared.names, PLAIN_NAME if undeclared.is_described else XML_NAME, *self.unwritten]
            )
            others.append(self._element(self.style.element, ("text", names), undeclared.value))
        other = _either(others) if others else None
        required = sum(member.is_required for member in members)
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
            body = self._in_order(keys, name)
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

    def _in_order(self, keys: _Keys, name: str) -> Body:
        """Return keys in order: a rule for what may follow each optional key that may be the first."""
        needs = [member.is_required for member in keys.members]
        if not self.style.between:
            parts = [
                element if need else ("repeat", element, 0, 1)
                for element, need in zip(keys.elements, needs, strict=True)
            ]
            return sequence_of(parts + ([("repeat", keys.other, 0, None)] if keys.other is not None else []))
        rest: Body = EMPTY if keys.other is None else ("repeat", self._later(keys.other), 0, None)
        beginnings = [EMPTY if keys.other is None else ("repeat", sequence_of((keys.other, rest)), 0, 1)]
        first = needs.index(True) if True in needs else len(needs)
        for index in range(len(needs) - 1, -1, -1):
            if index < first and rest != EMPTY:
                self.rules.bodies[f"{name}: after {index}"] = rest
                rest = ("rule", f"{name}: after {index}")
            begin, later = sequence_of((keys.elements[index], rest)), self._later(keys.elements[index])
            beginnings = [begin] if needs[index] else [begin, *beginnings]
            rest = sequence_of((later if needs[index] else ("repeat", later, 0, 1), rest))
        return _either(beginnings)

    def _later(self, element: Body, *, is_first: bool = False) -> Body:
        """Return an element with the text between it and the one before."""
        return element if is_first or not self.style.between else sequence_of((self.between, element))

    def _counted(self, keys: _Keys, name: str) -> Body:
        """Return keys in order: a rule for each position and number of keys so far."""
        members, elements, other, fewest, most = keys
        bound = fewest if most is None else most

        def rule(index: int, count: int) -> Body:
            return ("rule", f"{name}: {count} of {index}")

        if (len(members) + 1) * (bound + 1) > _MOST_STATES:
            raise _too_many_states()
        for index, (member, element) in enumerate(zip(members, elements, strict=True)):
            for count in range(min(index, bound) + 1):
                more = min(count + 1, bound)
                options = []
                if count < bound or most is None:
                    later = self._later(element, is_first=count == 0)
                    options.append(sequence_of((later, rule(index + 1, more))))
                if not member.is_required:
                    options.append(rule(index + 1, count))
                self.rules.bodies[rule(index, count)[1]] = _either(options)
        for count in range(min(len(members), bound) + 1):
            low, high = max(fewest - count, 0), None if most is None else most - count
            tail: Body = EMPTY if not low else _NO_TEXT
            if other is not None and high != 0:
                tail = ("repeat", self._later(other), low, high)
                if count == 0 and self.style.between:
                    rest = ("repeat", self._later(other), max(low - 1, 0), None if high is None else high - 1)
                    tail = ("repeat", sequence_of((other, rest)), min(low, 1), 1)
            self.rules.bodies[rule(len(members), count)[1]] = tail
        return rule(0, 0)

    def _in_any_order(self, keys: _Keys, name: str) -> Body:
        """Return keys in any order: a rule for each set of keys so far, and number of undeclared ones if they count."""
        members, elements, other, fewest, most = keys
        if len(members) > _MOST_IN_ANY_ORDER:
            raise LimitExceeded(
                f"{len(members)} keys in any order, each as an element, more than {_MOST_IN_ANY_ORDER}",
                limit="keys_in_any_order",
                hint="Leave any_order out, write the arguments as JSON, or declare fewer keys.",
            )
        required = sum(1 << index for index, member in enumerate(members) if member.is_required)
        bound = 0 if other is None else most if most is not None else min(fewest, 1)
        if (bound + 1) << len(members) > _MOST_STATES:
            raise _too_many_states()

        def rule(there: int, others: int) -> Body:
            return ("rule", f"{name}: {there:b} and {others}")

        parts = []
        for index, element in enumerate(elements):
            self.rules.bodies[f"{name}: element {index}"] = element
            parts.append(("rule", f"{name}: element {index}"))
        for there in range(1 << len(members)):
            for others in range(bound + 1):
                count = there.bit_count() + others
                options: list[Body] = []
                if required & ~there == 0 and count >= fewest:
                    options.append(EMPTY)
                if most is None or count < most:
                    options += [
                        sequence_of((part, rule(there | 1 << index, others)))
                        for index, part in enumerate(parts)
                        if not there >> index & 1
                    ]
                    if other is not None:
                        options.append(sequence_of((other, rule(there, min(others + 1, bound)))))
                self.rules.bodies[rule(there, others)[1]] = _either(options)
        return rule(0, 0)


def _emptiness() -> Callable[[IR], bool]:
    """Return a function that says whether it is proven that no value satisfies a schema."""
    # A vocabulary of its own, made when needed: what it compiles would stay in the caches of a shared one.
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
    """Return the choice of these bodies, without comparing them: they differ, and hashing each is slow."""
    return bodies[0] if len(bodies) == 1 else ("choice", tuple(bodies))


def _too_many_states() -> LimitExceeded:
    return LimitExceeded(
        f"the keys of an object with a bound on their number take more than {_MOST_STATES:,} rules",
        limit="counted_keys",
        hint="Leave out minProperties and maxProperties, or write the arguments as JSON.",
    )

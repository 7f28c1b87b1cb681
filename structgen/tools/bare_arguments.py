"""Arguments as an object whose keys have no quotes, as Gemma 4 writes them: ``{city:<|"|>Rome<|"|>,days:[1,2]}``.

What: strings stand between two marks, without escapes; other values are JSON without white space. The keys of nested
objects have no quotes, either.
Invariant: every text reads back as an object that satisfies the schema. It is narrower than the schema in four ways:
no string contains the mark; keys are those that are declared and required, or optional, or names of letters, digits,
``_`` and ``-``; a value that may be null and something else is never null; bounds on the number of keys are refused.
Cost: linear in the schema with its alternatives expanded, and quadratic in the number of optional keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from structgen.constraints.composition import Composition, body_of
from structgen.constraints.expressions import (
    NOTHING,
    RE,
    character_class,
    intersect,
    normalise_ranges,
    repeat,
)
from structgen.constraints.json_schema.constraint import part_of_schema
from structgen.constraints.json_schema.nodes import TYPES
from structgen.constraints.json_schema.shapes import ArrayShape, Conjunction, ObjectShape, Shapes
from structgen.constraints.occurrences import without
from structgen.errors import ConstraintError
from structgen.ir.grammar import Body

from .bodies import EMPTY, choice_of, listed, sequence_of, text_of
from .container_rules import ContainerRules
from .definitions import Tool

__all__ = ["bare_arguments"]

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_KEY = repeat(
    character_class(normalise_ranges([(0x2D, 0x2D), (0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])),
    1,
    None,
)
_PLAIN = ("number", "boolean")
_NO_TEXT: Body = ("choice", ())


def bare_arguments(tool: Tool, mark: str, write: Callable[[str], Body]) -> Body:
    """Return the body of the arguments, with their braces.

    Args:
        tool: The tool.
        mark: What stands before and after each string.
        write: Returns the body of a text, which may contain special tokens.

    Raises:
        ConstraintError: A key has characters that a key without quotes cannot have.
        UnsupportedKeyword: The notation cannot express a keyword of the schema.
        LimitExceeded: There are too many different objects and arrays.
    """
    schema = part_of_schema(tool.parameters, (), ordered=True, whitespace="compact", integers="digits")
    made = _Bare(Shapes(schema), write(mark), without([mark]))
    body = made.whole()
    rules = made.rules.all()
    return body_of(Composition(body, f"arguments of {tool.name}", rules)) if rules else body


@dataclass
class _Bare:
    """Builds the values of one schema."""

    shapes: Shapes
    mark: Body
    strings: RE
    rules: ContainerRules = field(default_factory=ContainerRules)

    def whole(self) -> Body:
        body = choice_of([self._object(shape) for shape in self.shapes.objects(self.shapes.root)])
        self.rules.write(self._container)
        return body

    def _container(self, _name: str, kind: str, value: Conjunction) -> Body:
        if kind == "object":
            return choice_of([self._object(shape) for shape in self.shapes.objects(value)])
        return choice_of([self._array(shape) for shape in self.shapes.arrays(value)])

    def _value(self, value: Conjunction) -> Body:
        types = self.shapes.types(value)
        found: list[Body] = []
        if types & TYPES["string"]:
            strings = self.shapes.strings(value)
            if strings != NOTHING:
                inside: Body = ("text", intersect([strings, self.strings]))
                found.append(sequence_of((self.mark, inside, self.mark)))
        if types & (TYPES["number"] | TYPES["boolean"]):
            found.append(body_of(self.shapes.json(value, _PLAIN)))
        found += [self.rules.name(kind, value) for kind in ("object", "array") if types & TYPES[kind]]
        if not found and types & TYPES["null"]:
            raise ConstraintError(
                "a value is always null, which this notation does not write",
                hint="Leave the parameter out, or use a format whose arguments are JSON.",
            )
        return choice_of(found)

    def _object(self, shape: ObjectShape) -> Body:
        required = sum(member.is_required for member in shape.members)
        if shape.min_count > required or shape.max_count is not None:
            raise ConstraintError(
                "the number of keys has a bound, which a notation without quotes does not count",
                hint="Leave out minProperties and maxProperties, or use a format whose arguments are JSON.",
            )
        items = []
        for member in shape.members:
            if not _NAME.fullmatch(member.name):
                raise ConstraintError(
                    f"{member.name!r:.60} is no key without quotes",
                    hint="Use letters, digits, - and _ in keys, or a format whose arguments are JSON.",
                )
            items.append(
                (sequence_of((text_of(f"{member.name}:"), self._value(member.value))), member.is_required)
            )
        comma = text_of(",")
        for undeclared in shape.undeclared:
            names: Body = ("text", intersect([undeclared.names, _KEY]))
            other = sequence_of((names, text_of(":"), self._value(undeclared.value)))
            items.append((sequence_of((other, ("repeat", sequence_of((comma, other)), 0, None))), False))
        return sequence_of((text_of("{"), listed(items, comma), text_of("}")))

    def _array(self, shape: ArrayShape) -> Body:
        most, fewest = shape.max_count, shape.min_count
        if most is not None and fewest > most:
            return _NO_TEXT
        comma = text_of(",")
        first = shape.first if most is None else shape.first[:most]
        items = [self._value(value) for value in first]
        after: Body = EMPTY  # what may follow the items before
        if most is None or most > len(items):
            rest = self._value(shape.rest)
            low, high = max(fewest - len(items), 0), None if most is None else most - len(items)
            after = ("repeat", sequence_of((comma, rest)), low, high)
            if not items:
                more: Body = (
                    "repeat",
                    sequence_of((comma, rest)),
                    max(low - 1, 0),
                    None if high is None else high - 1,
                )
                several = sequence_of((rest, more))
                after = several if low else choice_of((EMPTY, several))
        for index in range(len(items) - 1, -1, -1):
            here = sequence_of((comma, items[index], after) if index else (items[index], after))
            after = here if index < fewest else choice_of((EMPTY, here))
        return sequence_of((text_of("["), after, text_of("]")))

"""An exact JSON Schema validator over text, drafts 4 to 2020-12: slow, and meant to be obviously right.

`Validator(schema).accepts(text)` parses the text exactly (json_text.py) and evaluates one function
per keyword. A keyword function gets its place (the schema around it, what has been evaluated so
far), its argument and the instance, and answers whether the instance satisfies it. Applicators to
the *same* instance go through `place.apply`, which keeps the annotations of valid subschemas for
`unevaluated*`; applicators to children go through `place.check`.

1.0 is an integer since draft 6; draft 4 wants it written without a fraction or an exponent.
Formats are asserted only on request, those of later drafts only on a further one. `dependencies` is
honoured in every draft, boolean schemas in draft 4: schemas in use have them. References resolve
with the `referencing` package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import attrs
import referencing
import referencing.exceptions
import referencing.jsonschema
from jsonschema_specifications import REGISTRY as METASCHEMAS

from tests.oracles import ecma_regex
from tests.oracles.formats import FORMATS, SINCE
from tests.oracles.json_text import JSONTextError, Number, Value, exact, identity, parse

DRAFTS = {
    "http://json-schema.org/draft-04/schema": 4,
    "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-07/schema": 7,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "https://json-schema.org/draft/2020-12/schema": 2020,
}
_SPECIFICATIONS = {draft: referencing.jsonschema.specification_with(uri) for uri, draft in DRAFTS.items()}
# Boolean schemas are not of draft 4, but schemas that declare draft 4 contain them.
_DRAFT4 = _SPECIFICATIONS[4]
_SPECIFICATIONS[4] = attrs.evolve(  # type: ignore[misc]
    _DRAFT4, id_of=lambda schema: None if isinstance(schema, bool) else _DRAFT4.id_of(schema)
)
ALL = (4, 6, 7, 2019, 2020)
Keyword = Callable[["Place", Any, Value], bool]
KEYWORDS: dict[int, dict[str, Keyword]] = {draft: {} for draft in ALL}


class SchemaError(ValueError):
    """The schema cannot be evaluated: a wrong reference, a reference loop, a broken pattern."""


class Validator:
    def __init__(
        self,
        schema: object,
        *,
        draft: int = 2020,
        formats: bool = False,
        later_formats: bool = False,
        resources: Mapping[str, object] | None = None,
    ) -> None:
        self.formats = formats
        self.later_formats = later_formats
        self.active: set[tuple[int, int]] = set()  # (schema, instance) of the references being followed
        self.schema = exact(schema)
        self.draft = _declared(self.schema, draft)
        specification = _SPECIFICATIONS[self.draft]
        remote = [
            (uri, referencing.Resource.from_contents(exact(contents), default_specification=specification))
            for uri, contents in (resources or {}).items()
        ]
        self.registry = METASCHEMAS.with_resources(remote)
        resource = specification.create_resource(self.schema)
        self.resolver = self.registry.resolver_with_root(resource)

    def accepts(self, text: str | bytes) -> bool:
        try:
            value = parse(text)
        except JSONTextError:
            return False
        return self.accepts_value(value)

    def accepts_value(self, value: object) -> bool:
        """As `accepts`, for Python data; floats mean their shortest text."""
        place = Place(self, self.draft, self.schema, self.resolver)
        try:
            return place.evaluate(exact(value))
        except (referencing.exceptions.Unresolvable, ecma_regex.PatternError) as error:
            raise SchemaError(str(error)) from error

    def asserts(self, draft: int, schema: Value, keyword: str) -> bool:
        """False for keywords of a vocabulary that the schema's own metaschema leaves out."""
        if draft < 2019 or keyword not in _VALIDATION_VOCABULARY:
            return True
        metaschema = self.schema.get("$schema") if isinstance(self.schema, dict) else None
        if (
            not isinstance(metaschema, str)
            or metaschema.rstrip("#") in DRAFTS
            or metaschema not in self.registry
        ):
            return True
        vocabularies = self.registry.contents(metaschema).get("$vocabulary")
        return vocabularies is None or any(name.endswith("/vocab/validation") for name in vocabularies)


def _declared(schema: Value, default: int) -> int:
    uri = schema.get("$schema") if isinstance(schema, dict) else None
    return DRAFTS.get(uri.rstrip("#"), default) if isinstance(uri, str) else default


@dataclass
class Place:
    """One schema applied to one instance, and the children it has evaluated successfully."""

    validator: Validator
    draft: int
    schema: Value
    resolver: Any
    properties: set[str] = field(default_factory=set)
    items: set[int] = field(default_factory=set)

    def evaluate(self, value: Value) -> bool:
        if isinstance(self.schema, bool):
            return self.schema
        if "$id" in self.schema or "id" in self.schema:  # only a resource may declare another draft
            self.draft = _declared(self.schema, self.draft)
        if "$ref" in self.schema and self.draft <= 7:  # its siblings do not count there
            return ref(self, self.schema["$ref"], value)
        known = KEYWORDS[self.draft]
        last = [name for name in self.schema if name.startswith("unevaluated")]
        names = [name for name in self.schema if name not in last] + last
        return all(
            known[name](self, self.schema[name], value)
            for name in names
            if name in known and self.validator.asserts(self.draft, self.schema, name)
        )

    def child(self, schema: Value, resolver: Any = None) -> Place:
        if resolver is None:
            resolver = self.resolver
            if isinstance(schema, dict):
                resource = _SPECIFICATIONS[_declared(schema, self.draft)].create_resource(schema)
                resolver = resolver.in_subresource(resource)
        return Place(self.validator, self.draft, schema, resolver)

    def check(self, schema: Value, value: Value) -> bool:
        return self.child(schema).evaluate(value)

    def apply(self, schema: Value, value: Value, resolver: Any = None) -> bool:
        place = self.child(schema, resolver)
        if not place.evaluate(value):
            return False
        self.properties |= place.properties
        self.items |= place.items
        return True


def keyword(name: str, drafts: Iterable[int] = ALL) -> Callable[[Keyword], Keyword]:
    def register(function: Keyword) -> Keyword:
        for draft in drafts:
            KEYWORDS[draft][name] = function
        return function

    return register


# ------------------------------------------------------------------ any type


def has_type(value: Value, name: str, draft: int) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if isinstance(value, Number):
        integer = value.written_as_integer if draft == 4 else value.denominator == 1
        return name == "number" or (name == "integer" and integer)
    return name == {type(None): "null", str: "string", list: "array", dict: "object"}[type(value)]


@keyword("type")
def type_(place: Place, names: str | list[str], value: Value) -> bool:
    return any(has_type(value, name, place.draft) for name in ([names] if isinstance(names, str) else names))


@keyword("enum")
def enum(place: Place, values: list[Value], value: Value) -> bool:
    return identity(value) in {identity(candidate) for candidate in values}


@keyword("const", (6, 7, 2019, 2020))
def const(place: Place, constant: Value, value: Value) -> bool:
    return identity(value) == identity(constant)


# ------------------------------------------------------------------ numbers


def is_number(value: Value) -> bool:
    return isinstance(value, Number)


@keyword("multipleOf")
def multiple_of(place: Place, divisor: Fraction, value: Value) -> bool:
    return not is_number(value) or (value / divisor).denominator == 1


@keyword("minimum")
def minimum(place: Place, bound: Fraction, value: Value) -> bool:
    if place.draft == 4 and place.schema.get("exclusiveMinimum") is True:
        return exclusive_minimum(place, bound, value)
    return not is_number(value) or value >= bound


@keyword("maximum")
def maximum(place: Place, bound: Fraction, value: Value) -> bool:
    if place.draft == 4 and place.schema.get("exclusiveMaximum") is True:
        return exclusive_maximum(place, bound, value)
    return not is_number(value) or value <= bound


@keyword("exclusiveMinimum", (6, 7, 2019, 2020))
def exclusive_minimum(place: Place, bound: Fraction, value: Value) -> bool:
    return not is_number(value) or value > bound


@keyword("exclusiveMaximum", (6, 7, 2019, 2020))
def exclusive_maximum(place: Place, bound: Fraction, value: Value) -> bool:
    return not is_number(value) or value < bound


# ------------------------------------------------------------------ strings


@keyword("minLength")
def min_length(place: Place, bound: Fraction, value: Value) -> bool:
    return not isinstance(value, str) or len(value) >= bound


@keyword("maxLength")
def max_length(place: Place, bound: Fraction, value: Value) -> bool:
    return not isinstance(value, str) or len(value) <= bound


@keyword("pattern")
def pattern(place: Place, expression: str, value: Value) -> bool:
    return not isinstance(value, str) or ecma_regex.search(expression, value)


@keyword("format")
def format_(place: Place, name: str, value: Value) -> bool:
    if not place.validator.formats or not isinstance(value, str):
        return True
    if place.draft < SINCE.get(name, 4) and not place.validator.later_formats:
        return True
    return name not in FORMATS or FORMATS[name](value)


# ------------------------------------------------------------------ arrays


@keyword("minItems")
def min_items(place: Place, bound: Fraction, value: Value) -> bool:
    return not isinstance(value, list) or len(value) >= bound


@keyword("maxItems")
def max_items(place: Place, bound: Fraction, value: Value) -> bool:
    return not isinstance(value, list) or len(value) <= bound


@keyword("uniqueItems")
def unique_items(place: Place, wanted: bool, value: Value) -> bool:
    if not isinstance(value, list) or not wanted:
        return True
    return len({identity(item) for item in value}) == len(value)


def _rest(place: Place, schema: Value, value: list[Value], start: int) -> bool:
    place.items |= set(range(start, len(value)))
    return all(place.check(schema, item) for item in value[start:])


@keyword("prefixItems", (2020,))
def prefix_items(place: Place, schemas: list[Value], value: Value) -> bool:
    if not isinstance(value, list):
        return True
    place.items |= set(range(min(len(schemas), len(value))))
    return all(place.check(schema, item) for schema, item in zip(schemas, value, strict=False))


@keyword("items")
def items(place: Place, schema: Value, value: Value) -> bool:
    if not isinstance(value, list):
        return True
    if place.draft == 2020:
        return _rest(place, schema, value, len(place.schema.get("prefixItems", ())))
    if isinstance(schema, list):
        return prefix_items(place, schema, value)
    return _rest(place, schema, value, 0)


@keyword("additionalItems", (4, 6, 7, 2019))
def additional_items(place: Place, schema: Value, value: Value) -> bool:
    first = place.schema.get("items")
    if not isinstance(value, list) or not isinstance(first, list):
        return True
    return _rest(place, schema, value, len(first))


@keyword("contains", (6, 7, 2019, 2020))
def contains(place: Place, schema: Value, value: Value) -> bool:
    if not isinstance(value, list):
        return True
    found = {index for index, item in enumerate(value) if place.check(schema, item)}
    if place.draft == 2020:
        place.items |= found
    if place.draft < 2019:
        return bool(found)
    counts = place.validator.asserts(place.draft, place.schema, "minContains")
    least = place.schema.get("minContains", 1) if counts else 1
    most = place.schema.get("maxContains", len(value)) if counts else len(value)
    return bool(least <= len(found) <= most)


@keyword("unevaluatedItems", (2019, 2020))
def unevaluated_items(place: Place, schema: Value, value: Value) -> bool:
    if not isinstance(value, list):
        return True
    open_ = [index for index in range(len(value)) if index not in place.items]
    place.items |= set(open_)
    return all(place.check(schema, value[index]) for index in open_)


# ------------------------------------------------------------------ objects


@keyword("required")
def required(place: Place, names: list[str], value: Value) -> bool:
    return not isinstance(value, dict) or all(name in value for name in names)


@keyword("minProperties")
def min_properties(place: Place, bound: Fraction, value: Value) -> bool:
    return not isinstance(value, dict) or len(value) >= bound


@keyword("maxProperties")
def max_properties(place: Place, bound: Fraction, value: Value) -> bool:
    return not isinstance(value, dict) or len(value) <= bound


@keyword("propertyNames", (6, 7, 2019, 2020))
def property_names(place: Place, schema: Value, value: Value) -> bool:
    return not isinstance(value, dict) or all(place.check(schema, name) for name in value)


def _members(place: Place, schema: Value, value: dict[str, Value], names: Iterable[str]) -> bool:
    chosen = list(names)
    place.properties |= set(chosen)
    return all(place.check(schema, value[name]) for name in chosen)


@keyword("properties")
def properties(place: Place, schemas: dict[str, Value], value: Value) -> bool:
    if not isinstance(value, dict):
        return True
    return all(_members(place, schemas[name], value, [name]) for name in value if name in schemas)


@keyword("patternProperties")
def pattern_properties(place: Place, schemas: dict[str, Value], value: Value) -> bool:
    if not isinstance(value, dict):
        return True
    return all(
        _members(place, schema, value, [name for name in value if ecma_regex.search(expression, name)])
        for expression, schema in schemas.items()
    )


@keyword("additionalProperties")
def additional_properties(place: Place, schema: Value, value: Value) -> bool:
    if not isinstance(value, dict):
        return True
    named = place.schema.get("properties", {})
    patterns = place.schema.get("patternProperties", {})
    others = [
        name
        for name in value
        if name not in named and not any(ecma_regex.search(expression, name) for expression in patterns)
    ]
    return _members(place, schema, value, others)


@keyword("unevaluatedProperties", (2019, 2020))
def unevaluated_properties(place: Place, schema: Value, value: Value) -> bool:
    if not isinstance(value, dict):
        return True
    return _members(place, schema, value, [name for name in value if name not in place.properties])


@keyword("dependentRequired", (2019, 2020))
def dependent_required(place: Place, names: dict[str, list[str]], value: Value) -> bool:
    return not isinstance(value, dict) or all(
        required(place, needed, value) for name, needed in names.items() if name in value
    )


@keyword("dependentSchemas", (2019, 2020))
def dependent_schemas(place: Place, schemas: dict[str, Value], value: Value) -> bool:
    return not isinstance(value, dict) or all(
        place.apply(schema, value) for name, schema in schemas.items() if name in value
    )


@keyword("dependencies")
def dependencies(place: Place, needs: dict[str, Value], value: Value) -> bool:
    if not isinstance(value, dict):
        return True
    present = [need for name, need in needs.items() if name in value]
    return all(
        required(place, need, value) if isinstance(need, list) else place.apply(need, value)
        for need in present
    )


# ------------------------------------------------------------------ in place


@keyword("allOf")
def all_of(place: Place, schemas: list[Value], value: Value) -> bool:
    return all(place.apply(schema, value) for schema in schemas)


@keyword("anyOf")
def any_of(place: Place, schemas: list[Value], value: Value) -> bool:
    return sum(place.apply(schema, value) for schema in schemas) > 0  # all of them annotate


@keyword("oneOf")
def one_of(place: Place, schemas: list[Value], value: Value) -> bool:
    return sum(place.apply(schema, value) for schema in schemas) == 1


@keyword("not")
def not_(place: Place, schema: Value, value: Value) -> bool:
    return not place.check(schema, value)


@keyword("if", (7, 2019, 2020))
def if_(place: Place, schema: Value, value: Value) -> bool:
    branch = "then" if place.apply(schema, value) else "else"
    return place.apply(place.schema.get(branch, True), value)


# ------------------------------------------------------------------ references


@keyword("$ref")
def ref(place: Place, reference: str, value: Value) -> bool:
    return _follow(place, place.resolver.lookup(reference), value)


def _follow(place: Place, resolved: Any, value: Value) -> bool:
    step = (id(resolved.contents), id(value))
    if step in place.validator.active:
        raise SchemaError("the references of the schema loop without consuming the instance")
    place.validator.active.add(step)
    try:
        return place.apply(resolved.contents, value, resolved.resolver)
    finally:
        place.validator.active.remove(step)


@keyword("$dynamicRef", (2020,))
def dynamic_ref(place: Place, reference: str, value: Value) -> bool:
    return ref(place, reference, value)


@keyword("$recursiveRef", (2019,))
def recursive_ref(place: Place, reference: str, value: Value) -> bool:
    return _follow(place, referencing.jsonschema.lookup_recursive_ref(place.resolver), value)


_VALIDATION_VOCABULARY = frozenset(
    ("type", "enum", "const", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    + (
        "minLength",
        "maxLength",
        "pattern",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minContains",
        "maxContains",
    )
    + ("required", "minProperties", "maxProperties", "dependentRequired")
)

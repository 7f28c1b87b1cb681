"""Instances that are near a schema: mostly valid, and when not, then by little.

Random values hardly ever satisfy a random schema, so tests of a validator or a mask on random
values test only the first character. `instances(schema)` walks the schema, obeys most of what it
sees (it is no solver: `not` and contradictions are ignored), then may change one place.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from tests.strategies.json_schemas import NAMES, NUMBERS, STRINGS, TYPES, Schema, values

Instance = Any
_IN_PLACE = ("allOf", "anyOf", "oneOf")


def instances(schema: Schema, *, mutate: bool = True) -> SearchStrategy[Instance]:
    near = _near(schema, schema, 4)
    return st.one_of(near, near, near.flatmap(_mutated)) if mutate else near


@st.composite
def _near(draw: DrawFn, schema: Schema, root: Schema, depth: int) -> Instance:
    parts = _parts(draw, schema, root, depth)
    if depth <= 0:
        return draw(values)
    for part in parts:
        if "const" in part:
            return part["const"]
        if part.get("enum"):
            return draw(st.sampled_from(part["enum"]))
    return _OF_TYPE[_choose_type(draw, parts)](draw, parts, root, depth)


def _parts(draw: DrawFn, schema: Schema, root: Schema, depth: int) -> list[dict[str, Any]]:
    """The schemas that apply to the same instance: all of `allOf`, one of `anyOf` and `oneOf`."""
    if isinstance(schema, bool) or depth < -4:
        return []
    parts = [schema]
    for name in _IN_PLACE:
        branches = schema.get(name, [])
        if branches and name != "allOf":
            branches = [draw(st.sampled_from(branches))]
        for branch in branches:
            parts += _parts(draw, branch, root, depth - 1)
    if "$ref" in schema:
        parts += _parts(draw, _resolve(schema["$ref"], root), root, depth - 1)
    return parts


def _resolve(reference: str, root: Schema) -> Schema:
    for name in filter(None, reference.removeprefix("#").split("/")):
        root = root[name]
    return root


def _all(parts: list[dict[str, Any]], name: str) -> Iterator[Any]:
    return (part[name] for part in parts if name in part)


def _choose_type(draw: DrawFn, parts: list[dict[str, Any]]) -> str:
    allowed = list(TYPES)
    for wanted in _all(parts, "type"):
        wanted = [wanted] if isinstance(wanted, str) else wanted
        if "number" in wanted:
            wanted = [*wanted, "integer"]
        allowed = [name for name in allowed if name in wanted] or allowed
    spoken_of = [
        name for name in allowed if any(keyword in part for part in parts for keyword in _SPEAKS_OF[name])
    ]
    return draw(st.sampled_from(spoken_of or allowed))


_NUMERIC = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_SPEAKS_OF: dict[str, tuple[str, ...]] = {
    "null": (),
    "boolean": (),
    "number": _NUMERIC,
    "integer": _NUMERIC,
    "string": ("minLength", "maxLength", "pattern", "format"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "contains", "uniqueItems", "unevaluatedItems"),
    "object": ("properties", "required", "additionalProperties", "patternProperties", "minProperties")
    + ("maxProperties", "propertyNames", "dependentRequired", "dependentSchemas", "unevaluatedProperties"),
}

# ------------------------------------------------------------------ one function per type

Parts = list[dict[str, Any]]


def _null(draw: DrawFn, parts: Parts, root: Schema, depth: int) -> Instance:
    return None


def _boolean(draw: DrawFn, parts: Parts, root: Schema, depth: int) -> Instance:
    return draw(st.booleans())


def _number(draw: DrawFn, parts: Parts, root: Schema, depth: int, *, integer: bool = False) -> Instance:
    low = max([*_all(parts, "minimum"), *_all(parts, "exclusiveMinimum")], default=None)
    high = min([*_all(parts, "maximum"), *_all(parts, "exclusiveMaximum")], default=None)
    step = next(_all(parts, "multipleOf"), Decimal(1) if integer else Decimal("0.1"))
    near = [bound for bound in (low, high) if bound is not None]
    candidates = [base + step * times for base in (*near, *NUMBERS[:8]) for times in (-1, 0, 1)]
    candidates += [step * ((bound // step) + times) for bound in near for times in (-1, 0, 1, 2)]
    fitting = [
        number
        for number in candidates
        if (low is None or number >= low) and (high is None or number <= high) and number % step == 0
    ]
    return draw(st.sampled_from(fitting or candidates))


def _integer(draw: DrawFn, parts: Parts, root: Schema, depth: int) -> Instance:
    return _number(draw, parts, root, depth, integer=True)


_EXAMPLES = {
    "date": ["2024-02-29", "2023-02-29", "1999-12-31"],
    "time": ["12:00:00Z", "23:59:60Z", "12:00:00+01:30"],
    "date-time": ["2024-02-29T12:00:00Z", "2024-02-29t12:00:00.5+01:00"],
    "uuid": ["2eb8aa08-aa98-11ea-b4aa-73b441d16380"],
    "ipv4": ["127.0.0.1", "256.0.0.1"],
    "email": ["a@b.example", "@"],
    "uri": ["http://a/b?c#d", "a b"],
}


def _string(draw: DrawFn, parts: Parts, root: Schema, depth: int) -> Instance:
    low = max(_all(parts, "minLength"), default=0)
    high = min(_all(parts, "maxLength"), default=5)
    examples = [text for name in _all(parts, "format") for text in _EXAMPLES.get(name, [])]
    patterns = [pattern for pattern in _all(parts, "pattern") if "(?" not in pattern]
    kinds: list[SearchStrategy[str]] = [
        st.sampled_from(STRINGS),
        st.text("abc", min_size=low, max_size=max(low, high)),
    ]
    if examples:
        return draw(st.sampled_from(examples))
    if patterns:
        kinds += [st.from_regex(patterns[0], alphabet=st.sampled_from("abc01é"))] * 4
    text = draw(st.one_of(kinds))
    return text[:high] if len(text) > high else text + "b" * (low - len(text))


def _array(draw: DrawFn, parts: Parts, root: Schema, depth: int) -> Instance:
    low = max(_all(parts, "minItems"), default=0)
    high = max(low, min(_all(parts, "maxItems"), default=3))
    first = [schema for part in parts for schema in part.get("prefixItems", [])]
    rest = [*_all(parts, "items"), *_all(parts, "contains"), True]
    length = draw(st.integers(low, high))
    return [
        draw(_near(first[index] if index < len(first) else draw(st.sampled_from(rest)), root, depth - 1))
        for index in range(length)
    ]


def _object(draw: DrawFn, parts: Parts, root: Schema, depth: int) -> Instance:
    properties: dict[str, Schema] = {}
    for found in _all(parts, "properties"):
        properties.update(found)
    required = [name for names in _all(parts, "required") for name in names]
    low = max(_all(parts, "minProperties"), default=0)
    high = max(low, min(_all(parts, "maxProperties"), default=4))
    extra = draw(st.lists(st.sampled_from(NAMES), max_size=2, unique=True))
    closed = any(schema is False for schema in _all(parts, "additionalProperties"))
    optional = draw(st.lists(st.sampled_from(sorted(properties)), unique=True)) if properties else []
    wanted = dict.fromkeys([*required, *optional, *([] if closed else extra)])
    spare = [name for name in (*properties, *NAMES) if name not in wanted]
    chosen = [*wanted, *spare[: max(0, low - len(wanted))]][: max(high, len(required))]
    others = next(_all(parts, "additionalProperties"), True)
    return {name: draw(_near(properties.get(name, others), root, depth - 1)) for name in chosen}


_OF_TYPE = {
    "null": _null,
    "boolean": _boolean,
    "number": _number,
    "integer": _integer,
    "string": _string,
    "array": _array,
    "object": _object,
}

# ------------------------------------------------------------------ one change


@st.composite
def _mutated(draw: DrawFn, instance: Instance) -> Instance:
    """The instance with one place replaced, removed or added to."""
    if isinstance(instance, list) and draw(st.booleans()):
        at = draw(st.integers(0, len(instance)))
        inside = [draw(_mutated(item)) for item in instance[at : at + 1]]
        middle = draw(st.sampled_from([[], [draw(values)], inside]))
        return [*instance[:at], *middle, *instance[at + 1 :]]
    if isinstance(instance, dict) and draw(st.booleans()):
        name = draw(st.sampled_from([*instance, *NAMES]))
        rest = {key: value for key, value in instance.items() if key != name}
        return draw(st.sampled_from([rest, {**rest, name: draw(values)}]))
    if isinstance(instance, str) and draw(st.booleans()):
        return draw(st.sampled_from([instance + "a", instance[:-1], instance + "\n", "0" + instance]))
    if isinstance(instance, int | Decimal) and not isinstance(instance, bool) and draw(st.booleans()):
        return instance + draw(st.sampled_from([Decimal(1), Decimal(-1), Decimal("0.1")]))
    return draw(values)

"""Random valid instances of JSON Schemas, checked by jsonschema_rs.

The instances of a benchmark must come neither from the measured library nor from its peers. `instances` walks a schema
with a budget of values, takes branches and optional properties at random, and prefers texts that the schema itself
offers (`examples`, `default`). Then the oracle validates the instance. If it rejects a member, that member is removed,
or the whole draw is repeated with fewer optional properties.

Invariant: every instance is valid, with formats asserted. Members are in the order in which the schema declares them,
because engines with a fixed order of keys refuse others. Cost: milliseconds for an instance; a bounded number of draws
for a schema.
"""

from __future__ import annotations

import json
import math
import random
from typing import Any

import jsonschema_rs

from bench.schemas.merging import Impossible, branches, merged, resolved
from bench.schemas.strings import FORMATS, free_text, from_pattern, word

__all__ = ["NoInstance", "instances", "make_validator"]

_DRAWS = 40
"""Draws for a schema at most."""
_REPAIRS = 40
"""Members removed from one draw at most."""
_DEPTH = 40
_LONGEST = 6_000
"""Characters of an instance at most."""


class NoInstance(Exception):
    """No valid instance was found."""


def _refuse(address: str) -> Any:
    raise ValueError(f"{address} is another document")


def make_validator(schema: Any) -> Any:
    """Return the oracle for a schema; `ValueError` where the schema is invalid or refers to other documents."""
    return jsonschema_rs.validator_for(schema, validate_formats=True, retriever=_refuse)


def instances(schema: Any, count: int, source: random.Random, validator: Any = None) -> list[Any]:
    """Return up to `count` different valid instances, smaller ones where large ones are not valid.

    Args:
        schema: The schema.
        count: The number wanted.
        source: The source of randomness.
        validator: The schema's oracle, where it exists already.

    Raises:
        NoInstance: If all draws have failed.
        ValueError: If the oracle refuses the schema.
    """
    validator = make_validator(schema) if validator is None else validator
    by_text: dict[str, Any] = {}
    for attempt in range(_DRAWS):
        generosity = 1.0 - attempt / _DRAWS
        drawn = _Draw(schema, source, generosity)
        try:
            value = _repaired(drawn.value(schema, 0), validator)
        except (Impossible, RecursionError):
            continue
        if value is _INVALID:
            continue
        text = json.dumps(value, ensure_ascii=False)
        if len(text) <= _LONGEST and text not in by_text:
            by_text[text] = value
            if len(by_text) == count:
                break
    if not by_text:
        raise NoInstance
    return list(by_text.values())


_INVALID = object()


def _repaired(value: Any, validator: Any) -> Any:
    """The value without members to which the oracle objects, or `_INVALID`."""
    for _ in range(_REPAIRS):
        error = next(iter(validator.iter_errors(value)), None)
        if error is None:
            return value
        path = list(error.instance_path)
        if not path:
            return _INVALID
        holder = value
        for step in path[:-1]:
            holder = holder[step]
        del holder[path[-1]]
    return _INVALID


class _Draw:
    """One draw: a budget of values, and how many optional members are taken."""

    def __init__(self, root: Any, source: random.Random, generosity: float) -> None:
        self.root = root
        self.source = source
        self.generosity = generosity
        self.left = int(10 + 90 * generosity)

    def value(self, schema: Any, depth: int) -> Any:
        self.left -= 1
        if depth > _DEPTH:
            raise Impossible
        if schema is False:
            raise Impossible
        if schema is True or not schema:
            return free_text(self.source, 0, 20)
        offered = self._offered(schema)
        if offered is not None:
            return offered
        schema = self._without_branches(schema)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.source.choice(self._of_type(schema["enum"], schema) or schema["enum"])
        return self._typed(schema, depth)

    def _offered(self, schema: dict[str, Any]) -> Any:
        """A text that the schema itself offers; half of the time, more seldom for whole objects."""
        offered = list(schema["examples"]) if isinstance(schema.get("examples"), list) else []
        offered += [
            schema[name] for name in ("default", "example") if schema.get(name) not in (None, "", [], {})
        ]
        if not offered or self.source.random() > 0.5 * self.generosity:
            return None
        value = self.source.choice(offered)
        return json.loads(json.dumps(value))  # a copy, since members may be removed from it

    def _without_branches(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema with references resolved and branches chosen."""
        for _ in range(60):
            schema = self._dereferenced(schema)
            if "allOf" in schema:
                parts = schema["allOf"]
                schema = {k: v for k, v in schema.items() if k != "allOf"}
                for part in parts:
                    schema = merged(schema, self._dereferenced(part))
                continue
            name = branches(schema)
            if name is None:
                return schema
            rest = {k: v for k, v in schema.items() if k not in (name, *(_ARMS if name == "if" else ()))}
            if name != "if":
                schema = self._branch(rest, schema[name])
            elif self.source.random() < 0.5:
                schema = merged(merged(rest, schema["if"]), schema.get("then", True))
            else:
                schema = merged(rest, schema.get("else", True))
        raise Impossible

    def _dereferenced(self, schema: Any) -> Any:
        for _ in range(60):
            if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
                return schema
            rest = {k: v for k, v in schema.items() if k != "$ref"}
            schema = merged(resolved(self.root, schema["$ref"]), rest)
        raise Impossible

    def _branch(self, rest: dict[str, Any], options: list[Any]) -> dict[str, Any]:
        """A branch that does not contradict the rest at first sight."""
        order = list(options)
        self.source.shuffle(order)
        if self.left < 0:
            order.sort(key=lambda option: len(json.dumps(option)))
        for option in order:
            try:
                return merged(rest, self._dereferenced(option))
            except Impossible:
                continue
        raise Impossible

    def _typed(self, schema: dict[str, Any], depth: int) -> Any:
        kinds = schema.get("type")
        if isinstance(kinds, str):
            kinds = [kinds]
        if not kinds:
            kinds = [_implied_type(schema)]
        kind = self.source.choice([k for k in kinds if k != "null"] or kinds)
        if "null" in kinds and (self.left < 0 or self.source.random() < 0.15):
            kind = "null"
        match kind:
            case "null":
                return None
            case "boolean":
                return self.source.random() < 0.5
            case "integer" | "number":
                return self._number(schema, kind)
            case "string":
                return self._string(schema)
            case "array":
                return self._array(schema, depth)
            case "object":
                return self._object(schema, depth)
        raise Impossible

    def _of_type(self, values: list[Any], schema: dict[str, Any]) -> list[Any]:
        kinds = schema.get("type")
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if not kinds:
            return values
        return [v for v in values if jsonschema_rs.is_valid({"type": kinds}, v)]

    def _number(self, schema: dict[str, Any], kind: str) -> Any:
        low, high = schema.get("minimum"), schema.get("maximum")
        strict_low, strict_high = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
        step = schema.get("multipleOf") or (1 if kind == "integer" else 0.01)
        if strict_low is not None:  # draft 4 has booleans here
            low = (
                (low or 0) + step if strict_low is True else low if strict_low is False else strict_low + step
            )
        if strict_high is not None:
            high = (
                (high or 0) - step
                if strict_high is True
                else high
                if strict_high is False
                else strict_high - step
            )
        if low is None:
            low = 0 if high is None or high > 0 else high - 1_000
        if high is None:
            high = low + self.source.choice((10, 1_000, 1_000_000))
        first, last = math.ceil(low / step), math.floor(min(high, low + 1e9) / step)
        if first > last:
            raise Impossible
        number = self.source.randint(first, last) * step
        if kind == "integer" or (isinstance(step, int) or float(step).is_integer()):
            return int(number)
        return round(number, max(0, 2 - math.floor(math.log10(step))) if step < 0.01 else 2)

    def _string(self, schema: dict[str, Any]) -> str:
        least, most = schema.get("minLength", 0), schema.get("maxLength")
        if "pattern" not in schema and schema.get("format") not in FORMATS:
            return free_text(self.source, least, most)
        names = ("pattern", "format", "minLength", "maxLength")
        check = make_validator({"$schema": _DRAFT, **{k: schema[k] for k in names if k in schema}})
        for attempt in range(40):
            growth = (0.5, 2, 6, 15)[attempt % 4] + least / 4 * (attempt % 3)
            if "pattern" in schema and (attempt % 2 or schema.get("format") not in FORMATS):
                text = from_pattern(schema["pattern"], self.source, growth)
                if text is None:
                    text = word(self.source)
            else:
                text = FORMATS[schema["format"]](self.source)
                if len(text) < least and schema["format"].startswith(("uri", "iri")):
                    text += "/" + "-".join(word(self.source) for _ in range(1 + (least - len(text)) // 4))
            if check.is_valid(text):
                return text
            if most is not None and len(text) > most and check.is_valid(text[:most]):
                return text[:most]
        raise Impossible

    def _array(self, schema: dict[str, Any], depth: int) -> list[Any]:
        prefix = schema.get("prefixItems")
        rest = schema.get("items", True)
        if isinstance(rest, list):
            prefix, rest = rest, schema.get("additionalItems", True)
        prefix = prefix or []
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        goal = least
        if self.left > 0:
            goal += int(self.source.expovariate(1 / (0.3 + 2.2 * self.generosity)))
            goal = max(goal, len(prefix) if self.source.random() < 0.6 else 0)
        if rest is False:
            goal = min(goal, len(prefix))
        if rest is True and prefix:
            goal = max(least, min(goal, len(prefix)))
        goal = min(goal, most) if most is not None else goal
        if goal > 200:
            raise Impossible
        items: list[Any] = []
        if "contains" in schema and goal > 0:
            items += [self.value(schema["contains"], depth + 1) for _ in range(schema.get("minContains", 1))]
        misses = 0
        while len(items) < goal:
            index = len(items)
            try:
                item = self.value(prefix[index] if index < len(prefix) else rest, depth + 1)
            except Impossible:
                if len(items) >= least:
                    break
                raise
            if schema.get("uniqueItems") and item in items:
                misses += 1
                if misses > 20:
                    break
                continue
            items.append(item)
        return items

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        declared = schema.get("properties", {})
        required = [name for name in schema.get("required", []) if isinstance(name, str)]
        wanted = set(required)
        optional = [name for name in declared if name not in wanted and declared[name] is not False]
        least, most = schema.get("minProperties", 0), schema.get("maxProperties")
        share = self.generosity * (0.7 if depth == 0 else 0.4 if depth < 3 else 0.2)
        self.source.shuffle(optional)
        for name in optional[: 12 if depth == 0 else 5]:
            if len(wanted) < least or (self.left > 0 and self.source.random() < share):
                wanted.add(name)
                needed = (schema.get("dependentRequired") or schema.get("dependencies") or {}).get(name)
                wanted.update(n for n in needed if isinstance(n, str)) if isinstance(needed, list) else None
        members: dict[str, Any] = {}
        order = [name for name in declared if name in wanted] + [n for n in required if n not in declared]
        for name in order:
            if most is not None and len(members) >= most and name not in required:
                continue
            try:
                members[name] = self.value(self._schema_of_key(schema, name), depth + 1)
            except Impossible:
                if name in required:
                    raise
        self._free_keys(schema, members, depth, least, most)
        return members

    def _free_keys(
        self, schema: dict[str, Any], members: dict[str, Any], depth: int, least: int, most: int | None
    ) -> None:
        """Keys by pattern, and other keys where the schema says what their values are."""
        patterns = schema.get("patternProperties", {})
        others = schema.get("additionalProperties", True)
        goal = least
        if self.left > 0 and (patterns or isinstance(others, dict)):
            goal = max(goal, len(members) + self.source.choice((0, 1, 2)))
        goal = min(goal, most) if most is not None else goal
        for _ in range(goal * 3):
            if len(members) >= goal:
                return
            key: Any = word(self.source)
            if patterns and (others is False or self.source.random() < 0.6):
                key = from_pattern(self.source.choice(list(patterns)), self.source, 3)
            elif isinstance(schema.get("propertyNames"), dict):
                key = self.value({"type": "string", **schema["propertyNames"]}, depth + 1)
            if isinstance(key, str) and key not in members and key not in schema.get("properties", {}):
                try:
                    members[key] = self.value(self._schema_of_key(schema, key), depth + 1)
                except Impossible:
                    continue

    @staticmethod
    def _schema_of_key(schema: dict[str, Any], key: str) -> Any:
        declared = schema.get("properties", {})
        if key in declared:
            return declared[key]
        for pattern, value in schema.get("patternProperties", {}).items():
            if jsonschema_rs.is_valid({"pattern": pattern}, key):
                return value
        return schema.get("additionalProperties", True)


_DRAFT = "https://json-schema.org/draft/2020-12/schema"


_ARMS = ("then", "else")


def _implied_type(schema: dict[str, Any]) -> str:
    """The type that the keywords of a schema speak of; object where they speak of none."""
    for kind, names in _KEYWORDS.items():
        if any(name in schema for name in names):
            return kind
    return "string"


_KEYWORDS = {
    "object": (
        "properties",
        "required",
        "additionalProperties",
        "patternProperties",
        "minProperties",
        "propertyNames",
    ),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"),
    "number": ("minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum"),
    "string": ("pattern", "format", "minLength", "maxLength"),
}

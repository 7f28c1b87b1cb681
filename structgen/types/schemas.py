"""From a pydantic type adapter to the JSON Schema that generation follows.

Why: pydantic's own schema describes what an API accepts; a generator needs what validation accepts, closed and
exact. The differences are the methods below, one per kind of type.
Invariant: a text of the schema is accepted by the adapter, as far as JSON Schema can say it; what it cannot
say (validators written in Python, `now` constraints, keys that collide after conversion) is checked when the
text is there, and raises `OutputInvalid`. The annotated limits are listed in `structgen.types`.
Cost: one pass over pydantic's core schema.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import re
from typing import Any

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from . import patterns

__all__ = ["describing_schema", "generating_schema"]

Schema = dict[str, Any]

_MOST_INTEGER = 2**63 - 1024  # the largest below 2**63 that a float can be
_MOST_EXACT = 2**53
_MOST_FLOAT = 1e300
_MOST_PLACES = 30
_MOST_SUMS = 4096
_BOUNDS = (
    ("ge", "minimum"),
    ("gt", "exclusiveMinimum"),
    ("le", "maximum"),
    ("lt", "exclusiveMaximum"),
    ("multiple_of", "multipleOf"),
)

# Formats that pydantic emits and that JSON Schema does not know: what they mean here.
_IPV4: Schema = {"type": "string", "format": "ipv4"}
_IPV6: Schema = {"type": "string", "format": "ipv6"}
_FORMATS: dict[str, Schema] = {
    "ipvanyaddress": {"anyOf": [_IPV4, _IPV6]},
    # An address is a network of its own; prefix lengths are written for IPv4 alone.
    "ipv4network": {"type": "string", "pattern": patterns.ipv4_network()},
    "ipv4interface": {"type": "string", "pattern": patterns.ipv4_interface()},
    **{f"ipv6{kind}": _IPV6 for kind in ("network", "interface")},
    **{f"ipvany{kind}": {"anyOf": [_IPV4, _IPV6]} for kind in ("network", "interface")},
    "path": {"type": "string", "minLength": 1},
    **{f"uuid{version}": {"type": "string"} for version in (1, 3, 4, 5, 6, 7, 8)},
    "binary": {"type": "string"},
    "password": {"type": "string"},
    "base64url": {"type": "string", "pattern": "^(?:[A-Za-z0-9_-]{4})*(?:[A-Za-z0-9_-]{2}==|[A-Za-z0-9_-]{3}=)?$"},
    "base64": {"type": "string", "pattern": "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"},
}  # fmt: skip


def describing_schema(adapter: TypeAdapter[Any]) -> Schema:
    """Pydantic's own schema: short and readable, for prompts."""
    return adapter.json_schema(mode="validation", schema_generator=_Describer)


def generating_schema(adapter: TypeAdapter[Any]) -> Schema:
    """The schema that generation follows."""
    schema: Schema = _known_formats(adapter.json_schema(mode="validation", schema_generator=_Generator))
    return schema


class _Describer(GenerateJsonSchema):
    # What pydantic warns of (a default that JSON cannot state) changes nothing that is generated.
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012


class _Generator(_Describer):
    # Objects have the declared fields and no others, unless the type says that it takes others.

    def model_schema(self, schema: core_schema.ModelSchema) -> Schema:
        return _closed(super().model_schema(schema))

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> Schema:
        return _closed(super().typed_dict_schema(schema))

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> Schema:
        return _in_order(_closed(super().dataclass_schema(schema)), schema["cls"])

    # Named tuples are objects: their names are worth more to a model than their positions.

    def named_tuple_schema(self, schema: Any) -> Schema:
        """As pydantic from 2.14 on describes them."""
        fields = schema["fields"]
        return {
            "type": "object",
            "title": schema["cls"].__name__,
            "properties": {field["name"]: self.generate_inner(field["schema"]) for field in fields},
            "required": [field["name"] for field in fields if field["schema"]["type"] != "default"],
            "additionalProperties": False,
        }

    def arguments_schema(self, schema: core_schema.ArgumentsSchema) -> Schema:
        """As pydantic before 2.14 describes them."""
        by_name: Any = dict(schema)
        by_name["metadata"] = {
            key: value
            for key, value in schema.get("metadata", {}).items()
            if key != "pydantic_js_prefer_positional_arguments"
        }
        return super().arguments_schema(by_name)

    def call_schema(self, schema: core_schema.CallSchema) -> Schema:
        """Named tuples of pydantic before 2.14 are calls of their class. Validating any other call makes it."""
        if not isinstance(schema["function"], type):
            raise PydanticUserError(
                "a function can only be the whole output type, not a part of one", code=None
            )
        return super().call_schema(schema)

    def dict_schema(self, schema: core_schema.DictSchema) -> Schema:
        """Keys are texts that the key type accepts: `propertyNames` becomes a pattern."""
        result = super().dict_schema(schema)
        keys = self.generate_inner(schema["keys_schema"]) if "keys_schema" in schema else {}
        pattern = _key_pattern(self._resolved(keys))
        if pattern is not None:
            # Pydantic has put the values under a pattern already where the key schema is no more than that.
            (values,) = result.pop(
                "patternProperties", {pattern: result.get("additionalProperties", True)}
            ).values()
            result.pop("propertyNames", None)
            result["patternProperties"] = {pattern: values}
            result["additionalProperties"] = False
        return result

    def _resolved(self, schema: Schema) -> Schema:
        reference = schema.get("$ref")
        if reference is None:
            return schema
        found = self.get_schema_from_definitions(reference)
        return schema if found is None else found

    # Values with a text of their own.

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> Schema:
        return _text(patterns.date_time(schema.get("tz_constraint")))

    def time_schema(self, schema: core_schema.TimeSchema) -> Schema:
        return _text(patterns.time(schema.get("tz_constraint")))

    def date_schema(self, schema: core_schema.DateSchema) -> Schema:
        """Within its bounds, which are decided on the text."""
        day = datetime.timedelta(days=1)
        try:
            after = [schema["gt"] + day] if "gt" in schema else []
            before = [schema["lt"] - day] if "lt" in schema else []
        except OverflowError:
            return {"not": {}}
        first = [*after, schema["ge"]] if "ge" in schema else after
        last = [*before, schema["le"]] if "le" in schema else before
        return _text(patterns.date(max(first, default=None), min(last, default=None)))

    def timedelta_schema(self, schema: core_schema.TimedeltaSchema) -> Schema:
        return _text(patterns.DURATION)

    def uuid_schema(self, schema: core_schema.UuidSchema) -> Schema:
        return _text(patterns.uuid(schema.get("version")))

    def url_schema(self, schema: core_schema.UrlSchema) -> Schema:
        result = _text(patterns.url(schema.get("allowed_schemes")))
        if "max_length" in schema:
            result["maxLength"] = schema["max_length"]
        return result

    def int_schema(self, schema: core_schema.IntSchema) -> Schema:
        """Integers of 64 bits: beyond, pydantic takes `12` but neither `12.0` nor `1.2e1`."""
        # `9007199254740995.0` is a multiple of 5, but not as the float that pydantic reads it as.
        return _within(super().int_schema(schema), _MOST_EXACT if "multiple_of" in schema else _MOST_INTEGER)

    def float_schema(self, schema: core_schema.FloatSchema) -> Schema:
        """Where infinity is not a value, a number that reads as infinity is not a text."""
        result = super().float_schema(schema)
        return _within(result, _MOST_FLOAT) if schema.get("allow_inf_nan") is False else result

    def complex_schema(self, schema: core_schema.ComplexSchema) -> Schema:
        return _text(r"^-?[0-9]{1,12}(?:\.[0-9]{1,12})?[+-][0-9]{1,12}(?:\.[0-9]{1,12})?j$")

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> Schema:
        """A number within the bounds; a text as well where there are none, since only a text keeps every digit."""
        number: Schema = {"type": "number"}
        for name, keyword in _BOUNDS:
            if name in schema:
                number[keyword] = _number(schema[name])  # type: ignore[literal-required]
        digits, places = schema.get("max_digits"), schema.get("decimal_places")
        if digits is None and places is None:
            is_plain = number.keys() == {"type"}
            number = _within(number, _MOST_FLOAT)
            return {"anyOf": [number, _text(patterns.DECIMAL)]} if is_plain else number
        number = _within(number, _MOST_FLOAT)
        if digits is None:
            form: Schema = {"multipleOf": _number(f"1e-{min(places or 0, _MOST_PLACES)}")}
        elif places is None:  # any share of the digits may stand after the point
            most = min(digits, _MOST_PLACES)
            form = {"anyOf": [_digits(digits - after, after) for after in range(most + 1)]}
        else:  # `places` digits are kept for what stands after the point, used or not
            form = _digits(max(0, digits - places), min(places, digits, _MOST_PLACES))
        return {"type": "number", "allOf": [number, form]}

    def enum_schema(self, schema: core_schema.EnumSchema) -> Schema:
        """Flags are any of their members together; pydantic lists the members alone."""
        result = super().enum_schema(schema)
        if not issubclass(schema["cls"], enum.Flag):
            return result
        sums = {0}
        for member in schema["cls"]:
            if len(sums) > _MOST_SUMS // 2:
                return result
            sums |= {known | member.value for known in sums}
        return {**result, "enum": sorted(sums)}

    # Collections.

    def set_schema(self, schema: core_schema.SetSchema) -> Schema:
        return _as_list(super().set_schema(schema))

    def frozenset_schema(self, schema: core_schema.FrozenSetSchema) -> Schema:
        return _as_list(super().frozenset_schema(schema))


def _closed(schema: Schema) -> Schema:
    if schema.get("type") == "object" and "additionalProperties" not in schema:
        return {**schema, "additionalProperties": False}
    return schema


def _in_order(schema: Schema, kind: type) -> Schema:
    """Properties in the order of the dataclass's fields, which pydantic changes for keyword-only ones."""
    known = getattr(kind, "__pydantic_fields__", {})
    places = {}
    for place, field in enumerate(dataclasses.fields(kind)):
        alias = known[field.name].validation_alias if field.name in known else None
        places[alias if isinstance(alias, str) else field.name] = place
    properties = schema.get("properties", {})
    order = sorted(properties, key=lambda name: places.get(name, len(places)))
    return {**schema, "properties": {name: properties[name] for name in order}}


def _as_list(schema: Schema) -> Schema:
    """Uniqueness is asked for only where the engine enforces it; validation drops repeats anyway."""
    from structgen.constraints.json_schema import KEYWORDS, Support

    if KEYWORDS["uniqueItems"].support is Support.EXACT:
        return schema
    return {keyword: value for keyword, value in schema.items() if keyword != "uniqueItems"}


def _within(schema: Schema, most: int | float) -> Schema:
    """The schema with the bounds ``-most`` and ``most`` on the sides where it has none."""
    if not schema.keys() & {"minimum", "exclusiveMinimum"}:
        schema = {**schema, "minimum": -most}
    if not schema.keys() & {"maximum", "exclusiveMaximum"}:
        schema = {**schema, "maximum": most}
    return schema


def _digits(before: int, after: int) -> Schema:
    """Numbers with at most `before` digits before the point and `after` after it."""
    bound = 10**before
    form: Schema = {
        "multipleOf": _number(f"1e-{after}"),
        "exclusiveMinimum": -bound,
        "exclusiveMaximum": bound,
    }
    return form if before else {**form, "not": {"const": 0}}  # pydantic counts the 0 itself as a digit


def _text(pattern: str) -> Schema:
    return {"type": "string", "pattern": pattern}


def _number(value: Any) -> Any:
    """A bound as JSON reads it: an int where it is whole, so that no digit is lost."""
    number = float(value)
    return int(number) if number.is_integer() else number


def _key_pattern(keys: Schema) -> str | None:
    """The pattern of an object's keys, from the schema of the key type; None where every text is a key."""
    if "enum" in keys or "const" in keys:
        values = keys["enum"] if "enum" in keys else [keys["const"]]
        return f"^(?:{'|'.join(re.escape(_key(value)) for value in values)})$"
    if "anyOf" in keys:
        parts = [_key_pattern(part) for part in keys["anyOf"]]
        return None if None in parts else "|".join(f"(?:{part})" for part in parts)
    kind = keys.get("type")
    if kind == "integer":
        return "^(?:0|-?[1-9][0-9]{0,17})$"
    if kind == "number":
        return r"^-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,14})?$"
    if kind == "boolean":
        return "^(?:true|false)$"
    if kind == "string":
        if "pattern" in keys:
            return str(keys["pattern"])
        if "minLength" in keys or "maxLength" in keys:
            return rf"^[\s\S]{{{keys.get('minLength', 0)},{keys.get('maxLength', '')}}}$"
    return None


def _key(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _known_formats(schema: Any) -> Any:
    """Replace the formats of `_FORMATS`, everywhere in the schema."""
    if isinstance(schema, list):
        return [_known_formats(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    meaning = _FORMATS.get(schema["format"]) if isinstance(schema.get("format"), str) else None
    if meaning is not None and schema.get("type") == "string":
        return {**meaning, **{key: value for key, value in schema.items() if key not in ("format", "type")}}
    return {
        key: value if key in ("default", "examples", "const", "enum") else _known_formats(value)
        for key, value in schema.items()
    }

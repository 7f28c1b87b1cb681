"""Generate the JSON Schema that generation follows from a pydantic type adapter.

Why: pydantic's own schema describes what an API accepts. A generator needs what validation accepts, closed and
exact. The differences are the methods below, one per kind of type.

Invariant: the adapter accepts each text of the schema, as far as JSON Schema can express that. Validators written
in Python, `now` constraints and keys that collide after conversion are checked on the complete text, and raise
`OutputInvalid`. `docs/types.md` lists the limits.

Cost: one pass over pydantic's core schema.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import core_schema

from structgen.constraints.json_schema import KEYWORDS, Support

from . import patterns
from .dict_keys import key_schema
from .readable import Unreadable, check_hashable, other_names, with_plain_alias
from .scalar_schemas import Describer, ScalarSchemas

__all__ = ["describing_schema", "generating_schema"]

Schema = dict[str, Any]


# Formats that pydantic emits and that JSON Schema does not define, with their meaning here.
_IPV4: Schema = {"type": "string", "format": "ipv4"}
_IPV6: Schema = {"type": "string", "format": "ipv6"}
_FORMATS: dict[str, Schema] = {
    "ipvanyaddress": {"anyOf": [_IPV4, _IPV6]},
    # An address alone is a network; prefix lengths are written only for IPv4.
    "ipv4network": {"type": "string", "pattern": patterns.ipv4_network()},
    "ipv4interface": {"type": "string", "pattern": patterns.ipv4_interface()},
    **{f"ipv6{kind}": _IPV6 for kind in ("network", "interface")},
    **{f"ipvany{kind}": {"anyOf": [_IPV4, _IPV6]} for kind in ("network", "interface")},
    **{kind: {"type": "string", "minLength": 1} for kind in ("path", "file-path", "directory-path")},
    "zoneinfo": {"type": "string", "pattern": None},
    **{f"uuid{version}": {"type": "string"} for version in (1, 3, 4, 5, 6, 7, 8)},
    "binary": {"type": "string"},
    "password": {"type": "string"},
    "base64url": {"type": "string", "pattern": patterns.base64("A-Za-z0-9_-")},
    "base64": {"type": "string", "pattern": patterns.base64("A-Za-z0-9+/")},
    "fraction": {"type": "string", "pattern": "^-?[0-9]{1,18}(?:/[1-9][0-9]{0,17})?$"},
}  # fmt: skip


def describing_schema(adapter: TypeAdapter[Any]) -> Schema:
    """Return pydantic's own schema: short and readable, for prompts."""
    return adapter.json_schema(mode="validation", schema_generator=Describer)


def generating_schema(adapter: TypeAdapter[Any]) -> Schema:
    """Return the schema that generation follows."""
    schema: Schema = _known_formats(adapter.json_schema(mode="validation", schema_generator=_Generator))
    return schema


class _Generator(ScalarSchemas):
    # Objects have only the declared fields, unless the type allows others.

    def model_schema(self, schema: core_schema.ModelSchema) -> Schema:
        return _closed(super().model_schema(schema))

    def model_fields_schema(self, schema: core_schema.ModelFieldsSchema) -> Schema:
        fields = {name: with_plain_alias(name, field) for name, field in schema["fields"].items()}
        result = super().model_fields_schema({**schema, "fields": fields})
        keys = schema.get("extras_keys_schema")
        if keys is not None:
            names = key_schema(self._resolved(self.generate_inner(keys)), {"keys_schema": keys})
            if names is not None:
                declared = {"enum": list(result.get("properties", {}))}
                result["propertyNames"] = {"anyOf": [declared, names]}
        is_open = self._config.extra == "allow"
        others = other_names(schema["fields"], result.get("properties", {})) if is_open else []
        if others:  # keys of fields, which are not extras
            result["allOf"] = [*result.get("allOf", ()), {"propertyNames": {"not": {"enum": others}}}]
        return result

    def dataclass_args_schema(self, schema: core_schema.DataclassArgsSchema) -> Schema:
        fields = [with_plain_alias(field["name"], field) for field in schema["fields"]]
        return super().dataclass_args_schema({**schema, "fields": fields})

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> Schema:
        fields = {name: with_plain_alias(name, field) for name, field in schema["fields"].items()}
        return _closed(super().typed_dict_schema({**schema, "fields": fields}))

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> Schema:
        extra = (schema.get("config") or {}).get("extra_fields_behavior")
        if extra == "allow" and schema.get("slots"):
            raise Unreadable("a dataclass with slots has no place for extra keys", "Leave out slots=True.")
        return _in_order(_closed(super().dataclass_schema(schema)), schema["cls"])

    # Named tuples are objects, since names help a model more than positions.

    def named_tuple_schema(self, schema: Any) -> Schema:
        """Describe named tuples of pydantic 2.14 and later."""
        fields = schema["fields"]
        return {
            "type": "object",
            "title": schema["cls"].__name__,
            "properties": {field["name"]: self.generate_inner(field["schema"]) for field in fields},
            "required": [field["name"] for field in fields if field["schema"]["type"] != "default"],
            "additionalProperties": False,
        }

    def arguments_schema(self, schema: core_schema.ArgumentsSchema) -> Schema:
        """Describe named tuples of pydantic before 2.14."""
        by_name: Any = dict(schema)
        by_name["metadata"] = {
            key: value
            for key, value in schema.get("metadata", {}).items()
            if key != "pydantic_js_prefer_positional_arguments"
        }
        return super().arguments_schema(by_name)

    def call_schema(self, schema: core_schema.CallSchema) -> Schema:
        """Describe named tuples of pydantic before 2.14, which are calls of their class.

        Validating any other call runs it.
        """
        if not isinstance(schema["function"], type):
            raise Unreadable("a function can only be the whole output type, not a part of one")
        return super().call_schema(schema)

    def dict_schema(self, schema: core_schema.DictSchema) -> Schema:
        """Describe a dictionary whose keys are texts that the key type accepts."""
        return self._with_keys(super().dict_schema(schema), schema)

    def ordered_dict_schema(self, schema: Any) -> Schema:
        """Describe it as a dictionary."""
        return self._with_keys(super().ordered_dict_schema(schema), schema)

    def counter_schema(self, schema: Any) -> Schema:
        """Describe it as a dictionary."""
        return self._with_keys(super().counter_schema(schema), schema)

    def _with_keys(self, result: Schema, schema: Any) -> Schema:
        if "keys_schema" not in schema:
            return result
        keys = key_schema(self._resolved(_known_formats(self.generate_inner(schema["keys_schema"]))), schema)
        # If the key schema is only a pattern, pydantic has already put the values under it.
        (values,) = result.pop("patternProperties", {"": result.get("additionalProperties", True)}).values()
        result.pop("propertyNames", None)
        if keys is None:
            result["additionalProperties"] = values
        elif keys.keys() == {"type", "pattern"}:
            result["patternProperties"] = {keys["pattern"]: values}
            result["additionalProperties"] = False
        else:
            result["propertyNames"] = keys
            result["additionalProperties"] = values
        return result

    def _resolved(self, schema: Schema) -> Schema:
        reference = schema.get("$ref")
        if reference is None:
            return schema
        definition = self.get_schema_from_definitions(reference)
        return schema if definition is None else definition

    # Types that no JSON text is validated as.

    def json_schema(self, schema: core_schema.JsonSchema) -> Schema:
        """Refuse `pydantic.Json`."""
        raise Unreadable(
            "Json[...] is a string that contains JSON", "Use the type inside it; the output is JSON anyway."
        )

    def is_subclass_schema(self, schema: core_schema.IsSubclassSchema) -> Schema:
        """Refuse `type[...]`."""
        raise Unreadable("a class cannot be read from JSON", "Use a Literal of names, and look the class up.")

    def is_instance_schema(self, schema: core_schema.IsInstanceSchema) -> Schema:
        """Refuse a class of which pydantic only recognises instances."""
        raise Unreadable("pydantic cannot read it from JSON, it only recognises instances of the class")

    # Collections.

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> Schema:
        """Describe each branch with its tag, which the union needs even if the branch has a default for it."""
        result = super().tagged_union_schema(schema)
        name = result.get("discriminator", {}).get("propertyName")
        if not isinstance(name, str) or not isinstance(schema["discriminator"], str):
            return result
        branches = [
            branch
            if name in self._resolved(branch).get("required", ())
            else {"allOf": [branch, {"type": "object", "required": [name]}]}
            for branch in result["oneOf"]
        ]
        return {**result, "oneOf": branches}

    def set_schema(self, schema: core_schema.SetSchema) -> Schema:
        """Describe a set whose items have a hash."""
        check_hashable(schema.get("items_schema"))
        return _as_list(super().set_schema(schema))

    def frozenset_schema(self, schema: core_schema.FrozenSetSchema) -> Schema:
        """Describe a frozen set whose items have a hash."""
        check_hashable(schema.get("items_schema"))
        return _as_list(super().frozenset_schema(schema))


def _closed(schema: Schema) -> Schema:
    if schema.get("type") == "object" and "additionalProperties" not in schema:
        return {**schema, "additionalProperties": False}
    return schema


def _in_order(schema: Schema, kind: type) -> Schema:
    """Return the properties in the order of the dataclass's fields, which pydantic changes for keyword-only ones."""
    known = getattr(kind, "__pydantic_fields__", {})
    places = {}
    for index, field in enumerate(dataclasses.fields(kind)):
        alias = known[field.name].validation_alias if field.name in known else None
        places[alias if isinstance(alias, str) else field.name] = index
    properties = schema.get("properties", {})
    order = sorted(properties, key=lambda name: places.get(name, len(places)))
    return {**schema, "properties": {name: properties[name] for name in order}}


def _as_list(schema: Schema) -> Schema:
    """Keep uniqueness only if the core enforces it; validation removes duplicates anyway."""
    if KEYWORDS["uniqueItems"].support is Support.EXACT:
        return schema
    return {keyword: value for keyword, value in schema.items() if keyword != "uniqueItems"}


def _known_formats(schema: Any) -> Any:
    """Replace the formats of `_FORMATS`, everywhere in the schema."""
    if isinstance(schema, list):
        return [_known_formats(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    meaning = _FORMATS.get(schema["format"]) if isinstance(schema.get("format"), str) else None
    if meaning is not None and schema.get("type") == "string":
        if "pattern" in meaning and meaning["pattern"] is None:  # the time zones of this machine
            meaning = {**meaning, "pattern": patterns.time_zone()}
        return {**meaning, **{key: value for key, value in schema.items() if key not in ("format", "type")}}
    formats = {}
    for key, value in schema.items():
        if key in ("properties", "$defs", "patternProperties", "dependentSchemas"):  # schemas by names
            formats[key] = {name: _known_formats(part) for name, part in value.items()}
        else:
            formats[key] = value if key in ("default", "examples", "const", "enum") else _known_formats(value)
    return formats

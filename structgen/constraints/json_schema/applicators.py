"""The keywords that apply sub-schemas, one function each.

`reader.child` returns the node id of a sub-schema and queues it. Sub-schemas that apply to the same value as their
parent go through `reader.beside`, which also records them for `reference_cycles`.

Source: JSON Schema 2020-12 core, sections 10 and 11; older drafts if the name of the function says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .assertions import listed_names
from .pointers import escape
from .values import OBJECT

if TYPE_CHECKING:
    from .reader import Node, Reader

_EVALUATES_SINCE = 2020
"""First draft in which ``contains`` evaluates the items that it matches."""


def ref(reader: Reader, value: Any, node: Node) -> None:
    """Read ``$ref``: the value also satisfies the schema that it refers to."""
    if not isinstance(value, str):
        raise reader.invalid("$ref", "must be a string")
    node["ref"] = (*node.get("ref", ()), reader.reference(value))


def dynamic_ref(reader: Reader, value: Any, node: Node) -> None:
    """Read ``$dynamicRef``, whose target depends on the dynamic scope."""
    _scoped_ref(reader, "$dynamicRef", value, node)


def recursive_ref(reader: Reader, value: Any, node: Node) -> None:
    """Read ``$recursiveRef`` of draft 2019-09, the predecessor of ``$dynamicRef``."""
    _scoped_ref(reader, "$recursiveRef", value, node)


def _scoped_ref(reader: Reader, keyword: str, value: Any, node: Node) -> None:
    if not isinstance(value, str):
        raise reader.invalid(keyword, "must be a string")
    node["ref"] = (*node.get("ref", ()), reader.dynamic_reference(keyword, value))


def properties(reader: Reader, value: Any, node: Node) -> None:
    """Read ``properties``: the schemas of the values of named properties."""
    if not isinstance(value, dict):
        raise reader.invalid("properties", "must be an object")
    reader.check_names("properties", value)
    node["properties"] = reader.members(value, reader.pointer + "/properties/")


def pattern_properties(reader: Reader, value: Any, node: Node) -> None:
    """Read ``patternProperties``: the schemas of properties whose names match a pattern."""
    if not isinstance(value, dict):
        raise reader.invalid("patternProperties", "must be an object")
    prefix = reader.pointer + "/patternProperties/"
    if value:
        node["patternProperties"] = tuple(
            [
                (
                    reader.language("patternProperties", pattern),
                    reader.child(schema, prefix + escape(pattern)),
                )
                for pattern, schema in value.items()
            ]
        )


def additional_properties(reader: Reader, value: Any, node: Node) -> None:
    """Read ``additionalProperties``: the schema of properties that neither a name nor a pattern covers."""
    if value is True:
        reader.notes.all_properties.add(reader.node_id)
    else:
        node["additionalProperties"] = reader.child(value, reader.pointer + "/additionalProperties")


def property_names(reader: Reader, value: Any, node: Node) -> None:
    """Read ``propertyNames``: the schema of every property name."""
    if value is not True:
        node["propertyNames"] = reader.child(value, reader.pointer + "/propertyNames")


def _list(reader: Reader, keyword: str, value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise reader.not_an_array(keyword, "must be a non-empty array of schemas", value)
    return value


def _each(reader: Reader, keyword: str, value: Any) -> tuple[int, ...]:
    prefix = f"{reader.pointer}/{keyword}/"
    return tuple(
        [reader.beside(schema, prefix + str(i)) for i, schema in enumerate(_list(reader, keyword, value))]
    )


def prefix_items(reader: Reader, value: Any, node: Node) -> None:
    """Read ``prefixItems``: the schemas of the first items, by position."""
    prefix = reader.pointer + "/prefixItems/"
    node["prefixItems"] = tuple(
        [
            reader.child(schema, prefix + str(i))
            for i, schema in enumerate(_list(reader, "prefixItems", value))
        ]
    )


def items(reader: Reader, value: Any, node: Node) -> None:
    """Read ``items``: the schema of all items after those of ``prefixItems``."""
    if isinstance(value, list):
        raise reader.invalid(
            "items", "is one schema since draft 2020-12; use prefixItems for an array of schemas"
        )
    if value is True:
        reader.notes.all_items.add(reader.node_id)
    else:
        node["items"] = reader.child(value, reader.pointer + "/items")


def items_before_2020(reader: Reader, value: Any, node: Node) -> None:
    """Read ``items``, which before 2020-12 may be an array of schemas: ``prefixItems`` by another name."""
    if not isinstance(value, list):
        items(reader, value, node)
        return
    prefix = reader.pointer + "/items/"
    if value:
        node["prefixItems"] = tuple([reader.child(schema, prefix + str(i)) for i, schema in enumerate(value)])
    rest = reader.schema.get("additionalItems")
    if rest is True:
        reader.notes.all_items.add(reader.node_id)
    elif rest is not None:
        reader.spelled.setdefault(reader.node_id, {})["items"] = "additionalItems"
        node["items"] = reader.child(rest, reader.pointer + "/additionalItems")


def additional_items(reader: Reader, value: Any, node: Node) -> None:
    """Check the value. ``items`` reads it; without an array of schemas there it has no effect."""
    if not isinstance(value, (dict, bool)):
        raise reader.invalid("additionalItems", "must be a schema")


def contains(reader: Reader, value: Any, node: Node) -> None:
    """Read the sub-schema.

    ``minContains`` and ``maxContains`` limit the number of matches; the default is at least one.
    """
    node["contains"] = reader.child(value, reader.pointer + "/contains")
    if reader.resource.draft.number >= _EVALUATES_SINCE:
        reader.notes.contains[reader.node_id] = node["contains"]


def all_of(reader: Reader, value: Any, node: Node) -> None:
    """Read ``allOf``: the value satisfies every branch."""
    node["allOf"] = (*node.get("allOf", ()), *_each(reader, "allOf", value))


def any_of(reader: Reader, value: Any, node: Node) -> None:
    """Read ``anyOf``: the value satisfies at least one branch."""
    node["anyOf"] = (*node.get("anyOf", ()), _each(reader, "anyOf", value))


def one_of(reader: Reader, value: Any, node: Node) -> None:
    """Read ``oneOf``: the value satisfies exactly one branch."""
    node["oneOf"] = (_each(reader, "oneOf", value),)


def not_(reader: Reader, value: Any, node: Node) -> None:
    """Read ``not``: the value does not satisfy the schema."""
    node["not"] = (*node.get("not", ()), reader.beside(value, reader.pointer + "/not"))


def if_(reader: Reader, value: Any, node: Node) -> None:
    """Read ``if`` with ``then`` and ``else``. Without both, ``if`` only evaluates properties and items."""
    schema = reader.schema
    tested = reader.beside(value, reader.pointer + "/if")
    if "then" not in schema and "else" not in schema:
        reader.notes.lone_ifs[reader.node_id] = tested
        return
    node["if"] = tested
    for branch in ("then", "else"):
        if branch in schema:
            node[branch] = reader.beside(schema[branch], f"{reader.pointer}/{branch}")


def branch_of_if(reader: Reader, value: Any, node: Node) -> None:
    """Do nothing: ``if`` reads ``then`` and ``else``, which have no effect without it."""


def _when_present(reader: Reader, node: Node, pointer: str, name: str, demands: Node) -> None:
    """Add the condition that an object with this property satisfies `demands`: the property is absent, or they hold."""
    absent = reader.generated({"pointer": pointer, "properties": ((name, reader.false()),)})
    # subtle: `demands` may evaluate items or properties, and counts only for an object that has the property.
    # Without `types`, `required` would hold for every array.
    present = reader.generated({"pointer": pointer, "types": OBJECT, "required": (name,), **demands})
    node["anyOf"] = (*node.get("anyOf", ()), (absent, present))


def dependent_required(reader: Reader, value: Any, node: Node) -> None:
    """Read ``dependentRequired``: the names that a property requires if it is present."""
    _dependent(reader, "dependentRequired", value, node, schemas=False)


def dependent_schemas(reader: Reader, value: Any, node: Node) -> None:
    """Read ``dependentSchemas``: the schema that an object satisfies if a property is present."""
    _dependent(reader, "dependentSchemas", value, node, names_too=False)


def dependencies(reader: Reader, value: Any, node: Node) -> None:
    """Read a keyword of older drafts, which 2019-09 split into ``dependentRequired`` and ``dependentSchemas``."""
    _dependent(reader, "dependencies", value, node)


def _dependent(
    reader: Reader, keyword: str, value: Any, node: Node, *, names_too: bool = True, schemas: bool = True
) -> None:
    if not isinstance(value, dict):
        raise reader.invalid(keyword, "must be an object")
    reader.check_names(keyword, value)
    for name, entry in value.items():
        pointer = f"{reader.pointer}/{keyword}/{escape(name)}"
        if names_too and (isinstance(entry, list) or not schemas):
            listed = listed_names(reader, keyword, entry)
            if listed:
                _when_present(reader, node, pointer, name, {"required": (name, *listed)})
        elif entry is not True:
            _when_present(reader, node, pointer, name, {"allOf": (reader.beside(entry, pointer),)})


def unevaluated_items(reader: Reader, value: Any, node: Node) -> None:
    """Read ``unevaluatedItems``, and record the node for `rewrite_unevaluated`."""
    if value is True:
        reader.notes.all_items.add(reader.node_id)
        return
    node["unevaluatedItems"] = reader.child(value, reader.pointer + "/unevaluatedItems")
    reader.notes.node_ids.append(reader.node_id)


def unevaluated_properties(reader: Reader, value: Any, node: Node) -> None:
    """Read ``unevaluatedProperties``, and record the node for `rewrite_unevaluated`."""
    if value is True:
        reader.notes.all_properties.add(reader.node_id)
        return
    node["unevaluatedProperties"] = reader.child(value, reader.pointer + "/unevaluatedProperties")
    if reader.schema.get("unevaluatedItems", True) is True:  # otherwise `unevaluatedItems` records the node
        reader.notes.node_ids.append(reader.node_id)

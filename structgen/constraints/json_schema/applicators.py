"""The keywords that apply sub-schemas, one function each.

`builder.child` returns the node id of a sub-schema and queues it. Sub-schemas that apply to the same value as their
parent go through `builder.child_of_same_value`, which also records them for `reference_cycles`.

Source: JSON Schema 2020-12 core, sections 10 and 11; older drafts if the name of the function says so.
"""

from __future__ import annotations

from typing import Any

from .assertions import listed_names
from .node_builder import NodeBuilder
from .nodes import OBJECT, Node
from .pointers import escape

_EVALUATES_SINCE = 2020
"""First draft in which ``contains`` evaluates the items that it matches."""


def ref(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``$ref``: the value also satisfies the schema that it refers to."""
    if not isinstance(value, str):
        raise builder.invalid("$ref", "must be a string")
    node["ref"] = (*node.get("ref", ()), builder.reference(value))


def dynamic_ref(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``$dynamicRef``, whose target depends on the dynamic scope."""
    _scoped_ref(builder, "$dynamicRef", value, node)


def recursive_ref(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``$recursiveRef`` of draft 2019-09, the predecessor of ``$dynamicRef``."""
    _scoped_ref(builder, "$recursiveRef", value, node)


def _scoped_ref(builder: NodeBuilder, keyword: str, value: object, node: Node) -> None:
    if not isinstance(value, str):
        raise builder.invalid(keyword, "must be a string")
    node["ref"] = (*node.get("ref", ()), builder.dynamic_reference(keyword, value))


def properties(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``properties``: the schemas of the values of named properties."""
    if not isinstance(value, dict):
        raise builder.invalid("properties", "must be an object")
    builder.check_names("properties", value)
    node["properties"] = builder.members(value, builder.pointer + "/properties/")


def pattern_properties(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``patternProperties``: the schemas of properties whose names match a pattern."""
    if not isinstance(value, dict):
        raise builder.invalid("patternProperties", "must be an object")
    prefix = builder.pointer + "/patternProperties/"
    if value:
        node["patternProperties"] = tuple(
            [
                (
                    builder.language("patternProperties", pattern),
                    builder.child(schema, prefix + escape(pattern)),
                )
                for pattern, schema in value.items()
            ]
        )


def additional_properties(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``additionalProperties``: the schema of properties that neither a name nor a pattern covers."""
    if value is True:
        builder.notes.all_properties.add(builder.node_id)
    else:
        node["additionalProperties"] = builder.child(value, builder.pointer + "/additionalProperties")


def property_names(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``propertyNames``: the schema of every property name."""
    if value is not True:
        node["propertyNames"] = builder.child(value, builder.pointer + "/propertyNames")


def _check_schemas(builder: NodeBuilder, keyword: str, value: object) -> list[Any]:
    """Return the value if it is a non-empty array."""
    if not isinstance(value, list) or not value:
        raise builder.not_an_array(keyword, "must be a non-empty array of schemas", value)
    return value


def _branches(builder: NodeBuilder, keyword: str, value: object) -> tuple[int, ...]:
    prefix = f"{builder.pointer}/{keyword}/"
    schemas = _check_schemas(builder, keyword, value)
    return tuple([builder.child_of_same_value(schema, prefix + str(i)) for i, schema in enumerate(schemas)])


def prefix_items(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``prefixItems``: the schemas of the first items, by position."""
    prefix = builder.pointer + "/prefixItems/"
    schemas = _check_schemas(builder, "prefixItems", value)
    node["prefixItems"] = tuple([builder.child(schema, prefix + str(i)) for i, schema in enumerate(schemas)])


def items(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``items``: the schema of all items after those of ``prefixItems``."""
    if isinstance(value, list):
        raise builder.invalid(
            "items", "is one schema since draft 2020-12; use prefixItems for an array of schemas"
        )
    if value is True:
        builder.notes.all_items.add(builder.node_id)
    else:
        node["items"] = builder.child(value, builder.pointer + "/items")


def items_before_2020(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``items``, which before 2020-12 may be an array of schemas: ``prefixItems`` by another name."""
    if not isinstance(value, list):
        items(builder, value, node)
        return
    prefix = builder.pointer + "/items/"
    if value:
        node["prefixItems"] = tuple(
            [builder.child(schema, prefix + str(i)) for i, schema in enumerate(value)]
        )
    rest = builder.schema.get("additionalItems")
    if rest is True:
        builder.notes.all_items.add(builder.node_id)
    elif rest is not None:
        builder.spelled.setdefault(builder.node_id, {})["items"] = "additionalItems"
        node["items"] = builder.child(rest, builder.pointer + "/additionalItems")


def additional_items(builder: NodeBuilder, value: object, node: Node) -> None:
    """Check the value. ``items`` reads it; without an array of schemas there it has no effect."""
    if not isinstance(value, (dict, bool)):
        raise builder.invalid("additionalItems", "must be a schema")


def contains(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read the sub-schema.

    ``minContains`` and ``maxContains`` limit the number of matches; the default is at least one.
    """
    node["contains"] = builder.child(value, builder.pointer + "/contains")
    if builder.resource.draft.number >= _EVALUATES_SINCE:
        builder.notes.contains[builder.node_id] = node["contains"]


def all_of(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``allOf``: the value satisfies every branch."""
    node["allOf"] = (*node.get("allOf", ()), *_branches(builder, "allOf", value))


def any_of(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``anyOf``: the value satisfies at least one branch."""
    node["anyOf"] = (*node.get("anyOf", ()), _branches(builder, "anyOf", value))


def one_of(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``oneOf``: the value satisfies exactly one branch."""
    node["oneOf"] = (_branches(builder, "oneOf", value),)


def not_(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``not``: the value does not satisfy the schema."""
    node["not"] = (*node.get("not", ()), builder.child_of_same_value(value, builder.pointer + "/not"))


def if_(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``if`` with ``then`` and ``else``. Without both, ``if`` only evaluates properties and items."""
    schema = builder.schema
    tested = builder.child_of_same_value(value, builder.pointer + "/if")
    if "then" not in schema and "else" not in schema:
        builder.notes.lone_ifs[builder.node_id] = tested
        return
    node["if"] = tested
    for branch in ("then", "else"):
        if branch in schema:
            node[branch] = builder.child_of_same_value(schema[branch], f"{builder.pointer}/{branch}")


def branch_of_if(builder: NodeBuilder, value: object, node: Node) -> None:
    """Do nothing: ``if`` reads ``then`` and ``else``, which have no effect without it."""


def _when_present(builder: NodeBuilder, node: Node, pointer: str, name: str, demands: Node) -> None:
    """Add the condition that an object with this property satisfies `demands`: the property is absent, or they hold."""
    absent = builder.add_node({"pointer": pointer, "properties": ((name, builder.false_node()),)})
    # subtle: `demands` may evaluate items or properties, and counts only for an object that has the property.
    # Without `types`, `required` would hold for every array.
    present = builder.add_node({"pointer": pointer, "types": OBJECT, "required": (name,), **demands})
    node["anyOf"] = (*node.get("anyOf", ()), (absent, present))


def dependent_required(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``dependentRequired``: the names that a property requires if it is present."""
    _dependent(builder, "dependentRequired", value, node, schemas=False)


def dependent_schemas(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``dependentSchemas``: the schema that an object satisfies if a property is present."""
    _dependent(builder, "dependentSchemas", value, node, names_too=False)


def dependencies(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read a keyword of older drafts, which 2019-09 split into ``dependentRequired`` and ``dependentSchemas``."""
    _dependent(builder, "dependencies", value, node)


def _dependent(
    builder: NodeBuilder,
    keyword: str,
    value: object,
    node: Node,
    *,
    names_too: bool = True,
    schemas: bool = True,
) -> None:
    if not isinstance(value, dict):
        raise builder.invalid(keyword, "must be an object")
    builder.check_names(keyword, value)
    for name, entry in value.items():
        pointer = f"{builder.pointer}/{keyword}/{escape(name)}"
        if names_too and (isinstance(entry, list) or not schemas):
            listed = listed_names(builder, keyword, entry)
            if listed:
                _when_present(builder, node, pointer, name, {"required": (name, *listed)})
        elif entry is not True:
            _when_present(
                builder, node, pointer, name, {"allOf": (builder.child_of_same_value(entry, pointer),)}
            )


def unevaluated_items(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``unevaluatedItems``, and record the node for `rewrite_unevaluated`."""
    if value is True:
        builder.notes.all_items.add(builder.node_id)
        return
    node["unevaluatedItems"] = builder.child(value, builder.pointer + "/unevaluatedItems")
    builder.notes.unevaluated.append(builder.node_id)


def unevaluated_properties(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``unevaluatedProperties``, and record the node for `rewrite_unevaluated`."""
    if value is True:
        builder.notes.all_properties.add(builder.node_id)
        return
    node["unevaluatedProperties"] = builder.child(value, builder.pointer + "/unevaluatedProperties")
    if builder.schema.get("unevaluatedItems", True) is True:  # otherwise `unevaluatedItems` records the node
        builder.notes.unevaluated.append(builder.node_id)

"""The keywords that assert something about a value itself, one function each.

A function reads the keyword's `value`, checks its shape, and writes into `node`, the IR of the sub-schema. Other
keywords of the sub-schema are available from the builder.

Source: JSON Schema 2020-12 validation; older drafts if the name of the function says so.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from structgen.errors import LimitExceeded, SchemaInvalid

from .node_builder import NodeBuilder
from .nodes import TYPES, Node
from .pointers import suggestion
from .scalars import COUNT_LIMIT, check_spellable, count_of, number_text
from .values import enumerate_values

_TYPES_OF_OTHER_LANGUAGES = {
    **dict.fromkeys(("int", "long", "int32", "int64"), "integer"),
    **dict.fromkeys(("float", "double", "decimal"), "number"),
    **dict.fromkeys(("str", "text", "char", "date", "datetime"), "string"),
    **dict.fromkeys(("list", "tuple", "set"), "array"),
    **dict.fromkeys(("dict", "map", "struct"), "object"),
    **dict.fromkeys(("none", "nil"), "null"),
    "bool": "boolean",
}
"""Names of the types in other languages, in lower case."""
_TYPE_BITS = {
    name: TYPES["number" if name == "integer" else name]
    for name in ("null", "boolean", "object", "array", "number", "integer", "string")
}
"""The bits of each type, in the order in which messages list the types."""


def type_(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``type`` as bits, one for each type; ``integer`` is the bit of numbers and a flag."""
    if value.__class__ is str:
        bits = _TYPE_BITS.get(value)
        if bits is None:
            raise _unknown_type(builder, value)
        node["types"] = bits
        if value == "integer":
            node["integer"] = True
        return
    if not isinstance(value, list) or not value:
        raise builder.not_an_array("type", "must be the name of a type or a non-empty array of names", value)
    bits = 0
    for name in value:
        bit = _TYPE_BITS.get(name) if isinstance(name, str) else None
        if bit is None:
            raise _unknown_type(builder, name)
        bits |= bit
    node["types"] = bits
    if "integer" in value and "number" not in value:
        node["integer"] = True


def _unknown_type(builder: NodeBuilder, name: object) -> SchemaInvalid:
    message = f"{name!r:.60} is not a type; the types are {', '.join(_TYPE_BITS)}"
    if name is None:
        return builder.invalid("type", f"{message}; did you mean 'null'?")
    if not isinstance(name, str):
        return builder.invalid("type", message)
    known_as = _TYPES_OF_OTHER_LANGUAGES.get(name.lower())
    near = f"; did you mean {known_as!r}?" if known_as else suggestion(name.lower(), list(_TYPE_BITS))
    return builder.invalid("type", message + near)


def type_draft4(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``type`` of draft 4, in which an integer is a number without fraction or exponent: a rule of spelling."""
    type_(builder, value, node)
    if node.get("integer"):
        node["digits"] = True


def enum(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``enum``: the value equals one of these."""
    if not isinstance(value, list):
        raise builder.not_an_array("enum", "must be an array", value)
    try:
        # Fast path: nearly every enumeration is of strings.
        joined = "".join(value)
    except TypeError:
        enumerate_values(builder, value, node, builder.at("enum"))
        return
    if not joined.isascii():
        check_spellable(joined, builder.at("enum"))
    node["strings"] = tuple(value)


def const(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``const``: the value equals this one."""
    if "enum" in builder.schema:
        # `enum` already uses the alternatives of the node.
        constant: Node = {"pointer": builder.at("const")}
        node["allOf"] = (*node.get("allOf", ()), builder.add_node(constant))
        enumerate_values(builder, [value], constant, builder.at("const"))
        return
    builder.spelled.setdefault(builder.node_id, {})["enum"] = "const"
    enumerate_values(builder, [value], node, builder.at("const"))


def _number(builder: NodeBuilder, keyword: str, value: object) -> str:
    text = number_text(value, builder.at(keyword))
    if text is None:
        raise builder.invalid(keyword, "must be a number")
    return text


def minimum(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``minimum``: a number is at least this one."""
    node["minimum"] = _number(builder, "minimum", value)


def maximum(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``maximum``: a number is at most this one."""
    node["maximum"] = _number(builder, "maximum", value)


def exclusive_minimum(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``exclusiveMinimum``: a number is above this one."""
    if value is True or value is False:
        raise builder.invalid(
            "exclusiveMinimum", "must be a number (booleans are for draft 4: set its $schema)"
        )
    node["exclusiveMinimum"] = _number(builder, "exclusiveMinimum", value)


def exclusive_maximum(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``exclusiveMaximum``: a number is below this one."""
    if value is True or value is False:
        raise builder.invalid(
            "exclusiveMaximum", "must be a number (booleans are for draft 4: set its $schema)"
        )
    node["exclusiveMaximum"] = _number(builder, "exclusiveMaximum", value)


def minimum_draft4(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``minimum`` of draft 4, which ``exclusiveMinimum: true`` makes exclusive."""
    exclusive = builder.schema.get("exclusiveMinimum") is True
    node["exclusiveMinimum" if exclusive else "minimum"] = _number(builder, "minimum", value)


def maximum_draft4(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``maximum`` of draft 4, which ``exclusiveMaximum: true`` makes exclusive."""
    exclusive = builder.schema.get("exclusiveMaximum") is True
    node["exclusiveMaximum" if exclusive else "maximum"] = _number(builder, "maximum", value)


def exclusive_minimum_draft4(builder: NodeBuilder, value: object, node: Node) -> None:
    """Check ``exclusiveMinimum`` of draft 4, a flag that `minimum_draft4` reads."""
    _exclusive_draft4(builder, value, "exclusiveMinimum", "minimum")


def exclusive_maximum_draft4(builder: NodeBuilder, value: object, node: Node) -> None:
    """Check ``exclusiveMaximum`` of draft 4, a flag that `maximum_draft4` reads."""
    _exclusive_draft4(builder, value, "exclusiveMaximum", "maximum")


def _exclusive_draft4(builder: NodeBuilder, value: object, keyword: str, bound: str) -> None:
    if not isinstance(value, bool):
        raise builder.invalid(
            keyword, "must be a boolean in draft 4 (numbers are for later drafts: change $schema)"
        )
    if bound not in builder.schema:
        raise builder.invalid(keyword, f"needs {bound!r} in the same schema in draft 4")


def multiple_of(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``multipleOf``: a number divided by this one is an integer."""
    text = _number(builder, "multipleOf", value)
    if Decimal(text) <= 0:
        raise builder.invalid("multipleOf", f"must be above zero, not {text}")
    node["multipleOf"] = text


_REASON_OF_LIMIT = {
    "minLength": "no text is that long",
    "minItems": "no array has so many items",
    "minContains": "no array has so many items",
    "minProperties": "no object has so many properties",
}


def at_least(keyword: str) -> Callable[[NodeBuilder, object, Node], None]:
    """Return the function that reads ``minLength``, ``minItems``, ``minContains`` or ``minProperties``."""

    def read(builder: NodeBuilder, value: object, node: Node) -> None:
        count = _count(builder, keyword, value)
        if count >= COUNT_LIMIT:
            raise LimitExceeded(
                f"is above {COUNT_LIMIT:,}; {_REASON_OF_LIMIT[keyword]}",
                limit="keyword_count",
                where=builder.at(keyword),
                hint="Lower it.",
            )
        if count or keyword == "minContains":  # its default is 1
            node[keyword] = count

    return read


def at_most(keyword: str) -> Callable[[NodeBuilder, object, Node], None]:
    """Return the function that reads ``maxLength``, ``maxItems``, ``maxContains`` or ``maxProperties``."""

    def read(builder: NodeBuilder, value: object, node: Node) -> None:
        count = _count(builder, keyword, value)
        if count < COUNT_LIMIT:
            node[keyword] = count

    return read


def _count(builder: NodeBuilder, keyword: str, value: object) -> int:
    count = count_of(value)
    if count is None:
        raise builder.invalid(keyword, "must be a non-negative integer")
    return count


def unique_items(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``uniqueItems``: if it is true, no two items are equal."""
    if not isinstance(value, bool):
        raise builder.invalid("uniqueItems", "must be true or false")
    if value:
        node["uniqueItems"] = True


def pattern(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``pattern``: the expression matches somewhere in a string."""
    node["pattern"] = builder.language("pattern", value)
    assert isinstance(value, str)  # `language` refuses others
    builder.spelled.setdefault(builder.node_id, {})["text of pattern"] = value


def format_(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``format``: the language of a format, unless it is only an annotation in this dialect."""
    if not isinstance(value, str):
        raise builder.invalid("format", "must be the name of a format")
    language = builder.format_language(value)
    if language is not None:
        node["format"] = language
        builder.spelled.setdefault(builder.node_id, {})["text of format"] = value


def listed_names(builder: NodeBuilder, keyword: str, value: object) -> tuple[str, ...]:
    """Return a keyword's array of property names, each once."""
    if not isinstance(value, list):
        hint = (
            " (a boolean only up to draft 3: name the property in its parent)"
            if isinstance(value, bool)
            else ""
        )
        raise builder.not_an_array(keyword, "must be an array of property names" + hint, value)
    builder.check_names(keyword, value)
    return tuple(dict.fromkeys(value))


def required(builder: NodeBuilder, value: object, node: Node) -> None:
    """Read ``required``: the properties that an object has."""
    listed = listed_names(builder, "required", value)
    if listed:
        node["required"] = listed

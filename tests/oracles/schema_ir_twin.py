"""The meaning of SCHEMA_IR, in the obvious way: does a parsed JSON value satisfy a node?

Keys mean what the keywords of draft 2020-12 mean; numbers are `Decimal` or int.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

from tests.oracles.json_text import exact, identity
from tests.oracles.language_twin import matches

_TYPES = ((1, type(None)), (2, bool), (4, dict), (8, list), (32, str))


def valid(ir: dict[str, Any], value: Any) -> bool:
    return _Evaluation(ir["nodes"]).holds(ir["root"], value)


def _type_bit(value: Any) -> int:
    for bit, kind in _TYPES:
        if isinstance(value, kind):
            return bit
    return 16


def _is(value: Any, bit: int) -> bool:
    return _type_bit(value) == bit


class _Evaluation:
    def __init__(self, nodes: tuple[Any, ...]) -> None:
        self.nodes = nodes

    def holds(self, place: int, value: Any) -> bool:
        node = self.nodes[place]
        if isinstance(node, bool):
            return node
        return (
            self._type(node, value)
            and self._values(node, value)
            and (not _is(value, 16) or self._number(node, Decimal(value)))
            and (not _is(value, 32) or self._string(node, value))
            and (not _is(value, 8) or self._array(node, value))
            and (not _is(value, 4) or self._object(node, value))
            and self._others(node, value)
        )

    def _type(self, node: dict[str, Any], value: Any) -> bool:
        bit = _type_bit(value)
        if not node.get("types", 63) & bit:
            return False
        return not (bit == 16 and node.get("integer") and Fraction(value).denominator != 1)

    def _values(self, node: dict[str, Any], value: Any) -> bool:
        if not node.keys() & {"strings", "numbers", "literals", "values"}:
            return True
        if isinstance(value, str):
            return value in node.get("strings", ())
        if value is None or isinstance(value, bool):
            return {None: "null", True: "true", False: "false"}[value] in node.get("literals", ())
        if isinstance(value, (dict, list)):
            return any(self.holds(place, value) for place in node.get("values", ()))
        return any(Decimal(value) == Decimal(number) for number in node.get("numbers", ()))

    def _number(self, node: dict[str, Any], value: Decimal) -> bool:
        if "multipleOf" in node and (Fraction(value) / Fraction(node["multipleOf"])).denominator != 1:
            return False
        return (
            ("minimum" not in node or value >= Decimal(node["minimum"]))
            and ("maximum" not in node or value <= Decimal(node["maximum"]))
            and ("exclusiveMinimum" not in node or value > Decimal(node["exclusiveMinimum"]))
            and ("exclusiveMaximum" not in node or value < Decimal(node["exclusiveMaximum"]))
        )

    def _string(self, node: dict[str, Any], value: str) -> bool:
        return (
            node.get("minLength", 0) <= len(value) <= node.get("maxLength", len(value))
            and ("pattern" not in node or matches(node["pattern"], value))
            and ("format" not in node or matches(node["format"], value))
        )

    def _array(self, node: dict[str, Any], value: list[Any]) -> bool:
        prefix = node.get("prefixItems", ())
        if not node.get("minItems", 0) <= len(value) <= node.get("maxItems", len(value)):
            return False
        if not all(self.holds(place, item) for place, item in zip(prefix, value, strict=False)):
            return False
        if "contains" in node:
            count = sum(self.holds(node["contains"], item) for item in value)
            if not node.get("minContains", 1) <= count <= node.get("maxContains", count):
                return False
        if node.get("uniqueItems") and len({identity(exact(item)) for item in value}) < len(value):
            return False
        return "items" not in node or all(self.holds(node["items"], item) for item in value[len(prefix) :])

    def _object(self, node: dict[str, Any], value: dict[str, Any]) -> bool:
        if not node.get("minProperties", 0) <= len(value) <= node.get("maxProperties", len(value)):
            return False
        if not set(node.get("required", ())) <= value.keys():
            return False
        return all(self._member(node, name, member) for name, member in value.items())

    def _member(self, node: dict[str, Any], name: str, member: Any) -> bool:
        if "propertyNames" in node and not self.holds(node["propertyNames"], name):
            return False
        places = [place for known, place in node.get("properties", ()) if known == name]
        places += [place for pattern, place in node.get("patternProperties", ()) if matches(pattern, name)]
        if not places and "additionalProperties" in node:
            places = [node["additionalProperties"]]
        return all(self.holds(place, member) for place in places)

    def _others(self, node: dict[str, Any], value: Any) -> bool:
        def holds(place: int) -> bool:
            return self.holds(place, value)

        if "if" in node:
            branch = "then" if holds(node["if"]) else "else"
            if branch in node and not holds(node[branch]):
                return False
        return (
            all(map(holds, node.get("allOf", ())))
            and all(any(map(holds, group)) for group in node.get("anyOf", ()))
            and all(sum(map(holds, group)) == 1 for group in node.get("oneOf", ()))
            and not any(map(holds, node.get("not", ())))
            and all(map(holds, node.get("ref", ())))
        )

"""Numbers as exact decimal texts, and the values of ``enum`` and ``const`` as IR.

Why: the core compares decimals, never doubles, and has no JSON values. So scalars become texts, and objects and
arrays become sub-schemas that exactly one value satisfies.

Invariant: the node of a value accepts that value, under JSON's equality (1 and 1.0 are equal, 1 and true are not),
and no other.

Cost: linear in the values; there is no recursion, so depth does no harm.
"""

from __future__ import annotations

from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any

from structgen.errors import LimitExceeded, SchemaInvalid

if TYPE_CHECKING:
    from .reader import Node, Reader

__all__ = [
    "ARRAY",
    "COUNT_LIMIT",
    "DIGIT_LIMIT",
    "OBJECT",
    "check_spellable",
    "count_of",
    "enumerate_values",
    "number_text",
]

DIGIT_LIMIT = 1_000
"""Limit on the digits of a number in a schema, the same as that of the core."""
EXPONENT_LIMIT = 10_000
COUNT_LIMIT = 2**53
"""No text has this many characters, items or properties."""

_BITS_OF_DIGITS = DIGIT_LIMIT * 4
OBJECT, ARRAY = 4, 8
"""Bits of the types in a node."""
_SHARED_TYPES = frozenset((str, int, float, bool, type(None)))
"""Types whose equal values have equal texts in a schema."""


def number_text(value: Any, pointer: str) -> str | None:
    """Return the decimal text of a number of the schema; None if `value` is not a number."""
    kind = type(value)
    if kind is int:
        if value.bit_length() > _BITS_OF_DIGITS:
            raise _too_long(pointer)
        return str(value)
    if kind is Decimal:
        if not value.is_finite():
            raise SchemaInvalid(f"{value} is not a JSON number", pointer=pointer)
        if abs(value.adjusted()) > EXPONENT_LIMIT:
            raise LimitExceeded(
                f"the number {value:.6E} has an exponent beyond {EXPONENT_LIMIT}",
                limit="number_exponent",
                where=pointer,
                hint="The limit on the size of numbers cannot be raised.",
            )
        text = str(value)
    elif kind is float:
        if not isfinite(value):
            raise SchemaInvalid(f"{value} is not a JSON number", pointer=pointer)
        text = repr(value)
    elif isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return None
    else:
        # A subclass such as numpy.float64 or IntEnum is read as its base class.
        for base in (int, float, Decimal):
            if isinstance(value, base):
                return number_text(base(value), pointer)
        return None
    if len(text) > DIGIT_LIMIT:
        raise _too_long(pointer)
    return text


def _too_long(pointer: str) -> LimitExceeded:
    return LimitExceeded(
        f"a number has more than {DIGIT_LIMIT} digits",
        limit="number_digits",
        where=pointer,
        hint="The limit on the size of numbers cannot be raised.",
    )


def check_spellable(text: str, pointer: str) -> None:
    """Raise if `text` cannot be written in UTF-8, so that no output could contain it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SchemaInvalid(
            f"a string contains {text[error.start]!a}, half of a surrogate pair, which UTF-8 cannot encode",
            pointer=pointer,
        ) from None


def count_of(value: Any) -> int | None:
    """Return a non-negative integer of the schema (2.0 is one); None if `value` is something else."""
    if type(value) is int:
        return value if value >= 0 else None
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return None
    if isinstance(value, float) and not value.is_integer():
        return None
    if isinstance(value, Decimal):
        if not value.is_finite():
            return None
        if value.adjusted() > DIGIT_LIMIT:
            return COUNT_LIMIT if value > 0 else None
        if value != value.to_integral_value():
            return None
    return int(value) if value >= 0 else None


Pending = list[tuple[Any, int, int]]
"""Values to visit: the value, its node id, and how many containers it is nested in."""


def enumerate_values(reader: Reader, values: list[Any], node: Node, pointer: str) -> None:
    """Write `values` as the alternatives of `node`."""
    pending: Pending = []
    scalars: dict[tuple[type, Any], int] = {}
    """Nodes of scalar members and items; equal ones share a node."""
    path: list[int] = []
    """The containers around the current value, by identity. The last pending one is next, so they form a path."""
    around: set[int] = set()
    _write_values(reader, values, node, pointer, pending)
    while pending:
        value, place, depth = pending.pop()
        around.difference_update(path[depth:])
        del path[depth:]
        generated: dict[str, Any] = {"pointer": pointer}
        if id(value) in around:
            raise SchemaInvalid(
                "a value contains itself, so it has no JSON text",
                pointer=pointer,
                hint="Build it without the cycle.",
            )
        path.append(id(value))
        around.add(id(value))
        reader.note_depth(len(path), pointer)
        places = []
        for member in value.values() if isinstance(value, dict) else value:
            if isinstance(member, (dict, list, tuple)):
                places.append(reader.reserve())
                pending.append((member, places[-1], depth + 1))
            else:
                places.append(_scalar_node(reader, member, pointer, scalars))
        if isinstance(value, dict):
            _write_object(reader, value, places, generated, pointer)
        else:
            _write_array(reader, places, generated)
        reader.nodes[place] = generated


def _scalar_node(reader: Reader, value: Any, pointer: str, known: dict[tuple[type, Any], int]) -> int:
    """Return the node id of a scalar member or item."""
    kind = type(value)
    if kind in _SHARED_TYPES and (kind, value) in known:
        return known[kind, value]
    node: Node = {"pointer": pointer}
    _write_values(reader, [value], node, pointer, [])
    place = reader.generated(node)
    if kind in _SHARED_TYPES:
        known[kind, value] = place
    return place


def _write_values(reader: Reader, values: Any, node: Node, pointer: str, pending: Pending) -> None:
    strings, numbers, literals, containers = [], [], [], []
    for value in values:
        kind = type(value)
        if kind is str:
            strings.append(value)
        elif value is None:
            literals.append("null")
        elif value is True:
            literals.append("true")
        elif value is False:
            literals.append("false")
        elif isinstance(value, (dict, list, tuple)):
            containers.append(reader.reserve())
            pending.append((value, containers[-1], 0))
        elif isinstance(value, str):
            strings.append(str.__str__(value))
        else:
            text = number_text(value, pointer)
            if text is None:
                raise SchemaInvalid(f"a value of type {kind.__name__} is not JSON", pointer=pointer)
            numbers.append(text)
    if strings and not (joined := "".join(strings)).isascii():
        check_spellable(joined, pointer)
    if strings or not (numbers or literals or containers):
        node["strings"] = tuple(strings)
    if numbers:
        node["numbers"] = tuple(numbers)
    if literals:
        node["literals"] = tuple(literals)
    if containers:
        node["values"] = tuple(containers)


def _write_object(reader: Reader, value: dict[str, Any], places: list[int], node: Node, pointer: str) -> None:
    for name in value:
        if not isinstance(name, str):
            raise SchemaInvalid(f"the key {name!r} is not a string", pointer=pointer)
    if not (joined := "".join(value)).isascii():
        check_spellable(joined, pointer)
    node["types"] = OBJECT
    node["properties"] = tuple(zip(value, places, strict=True))
    node["required"] = tuple(value)
    node["additionalProperties"] = reader.false()


def _write_array(reader: Reader, places: list[int], node: Node) -> None:
    node["types"] = ARRAY
    node["prefixItems"] = tuple(places)
    node["items"] = reader.false()
    node["minItems"] = len(places)

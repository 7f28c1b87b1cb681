"""Where in a longer text the JSON value stands that the core's account of a place is about.

Why: a schema may be a part of a grammar, a tool call or a sequence; what is asked of the schema about a text then has
to be asked about its own part of it.
Invariant: what is found is JSON up to the place, with as many containers open there as the account says, and the
account's path in it. Where nothing is found, nothing is said.
Cost: linear in the text for each bracket that is tried, at most `_TRIED` of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from structgen.constraints.base import Stop
from structgen.ir.schema import SchemaIR

from ..partial_json import Path, Value, read_text

__all__ = ["value_at"]

_TRIED = 64
_CONTAINERS = ("array", "object", "key")
_PLACES = ("value", "string", "number", "literal", *_CONTAINERS)
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{\[]|[}\]]|[^"{}\[\]]+', re.DOTALL)
_SCALARS = {
    "string": re.compile(rb'"(?:[^"\\]|\\.)*\\?\Z', re.DOTALL),
    "number": re.compile(rb"[-+.eE0-9]*\Z"),
    "literal": re.compile(rb"[a-z]*\Z"),
}


def value_at(ir: SchemaIR, stop: Stop) -> Stop | None:
    """The same place in the value alone that holds it, if that can be a value of this schema."""
    pointers = {node["pointer"] for node in ir["nodes"] if isinstance(node, dict)}
    if stop.place not in _PLACES or not pointers.issuperset(stop.near):
        return None
    for begin in _beginnings(stop):
        text = stop.text[begin:]
        offset = stop.offset - begin
        reading = read_text(text[:offset])
        if reading.fault is None and _leads(reading.root, stop.path):
            return stop._replace(text=text[: _end(text, offset)], offset=offset, is_part=False)
    return None


def _beginnings(stop: Stop) -> Iterator[int]:
    """Where the value may begin, the nearest first."""
    depth = len(stop.path) + (stop.place in _CONTAINERS)
    before = stop.text[: stop.offset]
    if not depth:
        found = _SCALARS[stop.place].search(before) if stop.place in _SCALARS else None
        yield stop.offset if found is None else found.start()
        return
    brackets = [found.start() for found in re.finditer(rb"[{\[]", before)]
    for begin in reversed(brackets[-_TRIED:]):
        if _open_at_end(before[begin:]) == depth:
            yield begin


def _open_at_end(text: bytes) -> int:
    """How many containers are open where a text that begins with a bracket ends; 0: it has ended before."""
    depth = 0
    for token in _TOKEN.finditer(text):
        if token[0] in (b"{", b"["):
            depth += 1
        elif token[0] in (b"}", b"]"):
            depth -= 1
            if not depth:
                return 0
    return depth


def _leads(value: Value, path: Path) -> bool:
    for step in path:
        children = [child for child in value.children if child.path[-1] == step]
        if not children:
            return False
        value = children[-1]
    return True


def _end(text: bytes, offset: int) -> int:
    """Where the value ends, if it is whole; what comes after it is not the schema's."""
    try:
        characters = text.decode("utf-8", "surrogateescape")
        _, end = json.JSONDecoder().raw_decode(characters)
    except (ValueError, RecursionError):
        return len(text)
    return max(len(characters[:end].encode("utf-8", "surrogateescape")), offset)

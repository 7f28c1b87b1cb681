"""Find the JSON value inside a longer text that a rejected position belongs to.

Why: a schema may be a part of a grammar, of a tool call or of a sequence. Explanations then concern only the
schema's own part of the text.

Invariant: the result is JSON up to the position, with as many open containers there as the core reports, and it
contains the core's path. If no such part is found, nothing is reported.

Cost: linear in the text for each bracket that is tried, at most `_MAX_BRACKETS` of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from structgen.constraints.base import Stop
from structgen.ir.schema import SchemaIR

from ..partial_json import PartialValue, Path, parse_partial

__all__ = ["find_embedded_value"]

_MAX_BRACKETS = 64
_CONTAINERS = ("array", "object", "key")
_JSON_POSITIONS = ("value", "string", "number", "literal", *_CONTAINERS)
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{\[]|[}\]]|[^"{}\[\]]+', re.DOTALL)
_SCALARS = {
    "string": re.compile(rb'"(?:[^"\\]|\\.)*\\?\Z', re.DOTALL),
    "number": re.compile(rb"[-+.eE0-9]*\Z"),
    "literal": re.compile(rb"[a-z]*\Z"),
}


def find_embedded_value(ir: SchemaIR, stop: Stop) -> Stop | None:
    """Return the same position within the JSON value around it; None if that is not a value of this schema."""
    pointers = {node["pointer"] for node in ir["nodes"] if isinstance(node, dict)}
    if stop.place not in _JSON_POSITIONS or not pointers.issuperset(stop.near):
        return None
    for start in _possible_starts(stop):
        text = stop.text[start:]
        offset = stop.offset - start
        parsed = parse_partial(text[:offset])
        if parsed.fault is None and _has_path(parsed.root, stop.path):
            return stop._replace(text=text[: _end_of_value(text, offset)], offset=offset, is_part=False)
    return None


def _possible_starts(stop: Stop) -> Iterator[int]:
    """Yield the offsets at which the value may start, the nearest first."""
    depth = len(stop.path) + (stop.place in _CONTAINERS)
    before = stop.text[: stop.offset]
    if not depth:
        found = _SCALARS[stop.place].search(before) if stop.place in _SCALARS else None
        yield stop.offset if found is None else found.start()
        return
    brackets = [found.start() for found in re.finditer(rb"[{\[]", before)]
    for start in reversed(brackets[-_MAX_BRACKETS:]):
        if _open_containers(before[start:]) == depth:
            yield start


def _open_containers(text: bytes) -> int:
    """Return how many containers are open at the end of a text that starts with a bracket.

    The number is 0 if all were closed before the end.
    """
    depth = 0
    for token in _TOKEN.finditer(text):
        if token[0] in (b"{", b"["):
            depth += 1
        elif token[0] in (b"}", b"]"):
            depth -= 1
            if not depth:
                return 0
    return depth


def _has_path(value: PartialValue, path: Path) -> bool:
    for step in path:
        children = [child for child in value.children if child.path[-1] == step]
        if not children:
            return False
        value = children[-1]
    return True


def _end_of_value(text: bytes, offset: int) -> int:
    """Return where the value ends if it is complete; the schema does not cover what follows."""
    try:
        characters = text.decode("utf-8", "surrogateescape")
        _, end = json.JSONDecoder().raw_decode(characters)
    except (ValueError, RecursionError):
        return len(text)
    return max(len(characters[:end].encode("utf-8", "surrogateescape")), offset)

"""JSON text in which no object has a key twice.

Why: readers differ in which of two equal keys they take, so a schema that was reviewed may not be the schema that is
enforced (RFC 8259, section 4).
Invariant: what is returned is what `json.loads` returns; a text with a repeated key raises, and the message names the
key and the pointer of its object.
Cost: one call of the core for each object; the pointer is only computed for the error.
"""

from __future__ import annotations

import json
from typing import Any

from structgen._core import unique_object

from .pointers import escape, shorten
from .reading import read_text

__all__ = ["RepeatedKey", "found_in", "loads_unique"]


class RepeatedKey(ValueError):
    """An object of a JSON text has a key twice; `pointer` is the object's."""

    def __init__(self, key: str, pointer: str = "#") -> None:
        super().__init__(f"the key {shorten(key)!r} stands twice in the object at {pointer}")
        self.key = key
        self.pointer = pointer


def found_in(text: str | bytes, key: str) -> RepeatedKey:
    """The error about the first object of `text` in which a key stands twice; about `key` if none is found."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else bytes(text)
    pending = [read_text(data.removeprefix(b"\xef\xbb\xbf")).root]
    while pending:
        value = pending.pop()
        seen: set[str | int] = set()
        for child in value.children if value.kind == "{" else ():
            if child.path[-1] in seen:
                pointer = "".join(f"/{escape(str(step))}" for step in value.path)
                return RepeatedKey(str(child.path[-1]), shorten(f"#{pointer}"))
            seen.add(child.path[-1])
        pending.extend(reversed(value.children))
    return RepeatedKey(key)


def loads_unique(text: str | bytes | bytearray, **options: Any) -> Any:
    """`json.loads` of a text in which no object has a key twice; raises `RepeatedKey`, a `ValueError`."""
    try:
        return json.loads(text, object_pairs_hook=unique_object, **options)
    except KeyError as repeated:
        raise found_in(bytes(text) if isinstance(text, bytearray) else text, repeated.args[0]) from None

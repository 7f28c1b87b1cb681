"""JSON text in which no object has a key twice.

Why: readers differ in which of two equal keys they take, so a schema that was reviewed may not be the schema that is
enforced (RFC 8259, section 4).
Invariant: what is returned is what `json.loads` returns; a text with a repeated key raises, and the message names the
key and the pointer of its object.
Cost: the core counts the keys of the text and of what was decoded, a tenth of the time of decoding it; which key it is
is only looked for where the numbers differ.
"""

from __future__ import annotations

import json
from typing import Any

from structgen._core import has_repeated_keys

from .partial_json import read_text
from .pointers import escape, shorten

__all__ = ["RepeatedKey", "loads_unique", "repeated_key"]


class RepeatedKey(ValueError):
    """An object of a JSON text has a key twice; `pointer` is the object's."""

    def __init__(self, key: str, pointer: str = "#") -> None:
        super().__init__(f"the key {shorten(key)!r} stands twice in the object at {pointer}")
        self.key = key
        self.pointer = pointer


def repeated_key(text: str, decoded: Any) -> RepeatedKey | None:
    """Return the error about the first object of `text` that has a key twice, or None.

    Args:
        text: Well-formed JSON.
        decoded: What `json` made of it, without hooks for objects.
    """
    if not has_repeated_keys(text, decoded):
        return None
    pending = [read_text(text.encode("utf-8", "surrogatepass")).root]
    while pending:
        value = pending.pop()
        seen: set[str | int] = set()
        for child in value.children if value.kind == "{" else ():
            if child.path[-1] in seen:
                pointer = "".join(f"/{escape(str(step))}" for step in value.path)
                return RepeatedKey(str(child.path[-1]), shorten(f"#{pointer}"))
            seen.add(child.path[-1])
        pending.extend(reversed(value.children))
    # Such a text is not read to its end here: it is very deep, or has halves of surrogate pairs.
    try:
        json.loads(text, object_pairs_hook=_refuse_repeated)
    except RepeatedKey as error:
        return error
    raise AssertionError("no key stands twice, although there are fewer members than keys")


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise RepeatedKey(key)
        seen.add(key)


def loads_unique(text: str | bytes | bytearray, **options: Any) -> Any:
    """`json.loads` of a text in which no object has a key twice; raises `RepeatedKey`, a `ValueError`."""
    if not isinstance(text, str):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    decoded = json.loads(text, **options)
    if (error := repeated_key(text, decoded)) is not None:
        raise error
    return decoded

"""Refuse JSON texts in which an object has a key twice.

Why: parsers differ in which of two equal keys they use, so a schema that was reviewed may not be the schema that is
enforced (RFC 8259, section 4).

Invariant: the result is that of `json.loads`. A text with a repeated key raises, and the message has the key and
the pointer of its object.

Cost: the core counts the keys of the text and of the decoded value, in a tenth of the time of decoding. Only if the
numbers differ, the repeated key is searched for.
"""

from __future__ import annotations

import json
from typing import Any

from structgen._core import has_repeated_keys
from structgen.ir.schema import JsonValue

from .partial_json import parse_partial
from .pointers import escape, shorten

__all__ = ["RepeatedKey", "loads_unique", "repeated_key"]


class RepeatedKey(ValueError):
    """An object of a JSON text has a key twice; `pointer` is that of the object."""

    def __init__(self, key: str, pointer: str = "#") -> None:
        super().__init__(f"the key {shorten(key)!r} occurs twice in the object at {pointer}")
        self.key = key
        self.pointer = pointer


def repeated_key(text: str, decoded: object) -> RepeatedKey | None:
    """Return the error about the first object of `text` that has a key twice, or None.

    Args:
        text: Well-formed JSON.
        decoded: The value that `json` decoded from it, without hooks for objects.
    """
    if not has_repeated_keys(text, decoded):
        return None
    pending = [parse_partial(text.encode("utf-8", "surrogatepass")).root]
    while pending:
        value = pending.pop()
        seen: set[str | int] = set()
        for child in value.children if value.kind == "{" else ():
            if child.path[-1] in seen:
                pointer = "".join(f"/{escape(str(step))}" for step in value.path)
                return RepeatedKey(str(child.path[-1]), shorten(f"#{pointer}"))
            seen.add(child.path[-1])
        pending.extend(reversed(value.children))
    # `parse_partial` did not reach the end: the text is very deep, or has halves of surrogate pairs.
    try:
        json.loads(text, object_pairs_hook=_refuse_repeated)
    except RepeatedKey as error:
        return error
    raise AssertionError("no repeated key found, although there are fewer members than keys")


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise RepeatedKey(key)
        seen.add(key)


def loads_unique(text: str | bytes | bytearray, **options: Any) -> JsonValue:  # noqa: ANN401 — those of `json`
    """Decode JSON in which no object has a key twice.

    Args:
        text: The JSON text; bytes in UTF-8, UTF-16 or UTF-32.
        **options: Those of `json.loads`.

    Raises:
        RepeatedKey: An object has a key twice.
        ValueError: The text is not JSON.
    """
    if not isinstance(text, str):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    decoded = json.loads(text, **options)
    if (error := repeated_key(text, decoded)) is not None:
        raise error
    return decoded

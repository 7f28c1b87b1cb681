"""Messages from processes that run hostile input: JSON followed by raw bytes. None of it is unpickled.

Why: hostile input may take over the process that compiles it. It must not reach the serving process through a pickle.
The parent may send pickles to its children. What comes back is data and is checked when it is read.
What: a message is a kind, JSON content and a tail of raw bytes (masks). An error crosses by the name of its class and
its plain fields, and is rebuilt from `structgen.errors` alone. A tree (an IR) is written as lines of JSON. A line may
refer to earlier lines, so a shared subtree, such as the pattern of a format, is written once.
Invariant: `unpack`, `decode_error` and `load_tree` raise `Garbled` for anything that `pack`, `encode_error` and
`dump_tree` did not write.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from structgen import errors
from structgen.errors import LimitExceeded, StructgenError

__all__ = [
    "Garbled",
    "crash",
    "decode_error",
    "dump_tree",
    "encode_error",
    "load_tree",
    "pack",
    "pack_error",
    "unpack",
]

_LENGTH = struct.Struct(">I")
_KINDS: dict[str, type[StructgenError]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, StructgenError)
}
_SHARED = "\0"
"""The only key of an object that refers to an earlier line."""
_Plain = str | int | float | None
_CONTAINERS = (tuple, list, dict)
_LEAVES = frozenset({str, int, float, bool, type(None)})


class Garbled(Exception):
    """The bytes are not a message."""


def pack(kind: str, content: Any = None, tail: bytes = b"") -> bytes:
    """Return a message.

    Args:
        kind: Says how to read the message.
        content: Anything that JSON can hold.
        tail: Raw bytes.
    """
    head = json.dumps([kind, content]).encode()
    return b"".join((_LENGTH.pack(len(head)), head, tail))


def unpack(data: bytes) -> tuple[str, Any, bytes]:
    """Return the kind, content and tail of a message. Raises `Garbled`."""
    try:
        (length,) = _LENGTH.unpack_from(data)
        end = _LENGTH.size + length
        if end > len(data):
            raise Garbled("the message is cut off")
        kind, content = json.loads(data[_LENGTH.size : end])
    except (struct.error, ValueError, TypeError, RecursionError) as error:
        raise Garbled(f"not a message: {error!r:.80}") from None
    if not isinstance(kind, str):
        raise Garbled("the kind of a message must be a text")
    return kind, content, data[end:]


def pack_error(error: StructgenError) -> bytes:
    """Write a message of the kind ``error``."""
    return pack("error", encode_error(error))


def encode_error(error: StructgenError) -> dict[str, Any]:
    """Return the name of the error's class and its plain fields."""
    kind = next(one.__name__ for one in type(error).__mro__ if one.__name__ in _KINDS)
    fields = {name: value for name, value in vars(error).items() if _is_plain(value)}
    return {"kind": kind, "fields": fields}


def decode_error(content: Any) -> StructgenError:
    """Rebuild an encoded error. Raises `Garbled`."""
    name, fields = (content.get("kind"), content.get("fields")) if isinstance(content, dict) else (None, None)
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None or not isinstance(fields, dict) or not isinstance(fields.get("message"), str):
        raise Garbled("not an error")
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    # subtle: an error without its default fields fails when it is shown, so they are set first.
    error = kind(fields["message"])
    known = vars(error)
    if not all(name in known and _is_plain(value) for name, value in fields.items()):
        raise Garbled("not the fields of this error")
    known.update(fields)
    try:
        str(error)
    except Exception:  # noqa: BLE001 — fields of a wrong type may break the error's code anywhere
        raise Garbled("the fields of this error do not fit together") from None
    return error


def dump_tree(tree: Any) -> bytes | None:
    """Write nested tuples, lists and dicts with text keys. Returns None where JSON cannot hold a part of the tree."""
    lines: list[str] = []
    written: dict[int, dict[str, int]] = {}

    def line(value: Any) -> str:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)

    def plain(part: Any) -> Any:
        if not isinstance(part, _CONTAINERS):
            return part
        key = id(part)
        if (known := written.get(key)) is not None:
            return known
        content: Any = part
        if key in outer:
            content = (
                {name: plain(value) for name, value in part.items()}
                if isinstance(part, dict)
                else [plain(value) for value in part]
            )
        if key not in shared:
            return content
        written[key] = reference = {_SHARED: len(lines)}
        lines.append(line(content))
        return reference

    try:
        shared, outer = _shared_parts(tree)
        lines.append(line(plain(tree)))
    except (TypeError, ValueError, RecursionError):
        return None
    return "\n".join(lines).encode()


def _shared_parts(tree: Any) -> tuple[set[int], set[int]]:
    """Return which containers occur more than once in a tree, and which others contain one of these, by `id`.

    Most containers are neither, and are written as they are. Raises `TypeError` for a key that is not a text.
    """
    shared: set[int] = set()
    outer: set[int] = set()
    parents: dict[int, int] = {id(tree): 0}
    todo = [tree] if isinstance(tree, _CONTAINERS) else []
    while todo:
        part = todo.pop()
        own = id(part)
        if isinstance(part, dict) and not all(isinstance(key, str) for key in part):
            raise TypeError("a key must be a text")
        for value in part.values() if isinstance(part, dict) else part:
            if value.__class__ in _LEAVES or not isinstance(value, _CONTAINERS):
                continue
            key = id(value)
            if key not in parents:
                parents[key] = own
                todo.append(value)
                continue
            shared.add(key)
            for inside in (parents[key], own):
                while inside and inside not in outer:
                    outer.add(inside)
                    inside = parents[inside]
    return shared, outer


def load_tree(data: bytes) -> Any:
    """Read a tree. Tuples come back as lists, which the core reads in the same way. Raises `Garbled`."""
    shared: list[Any] = []

    def resolved(content: dict[str, Any]) -> Any:
        if len(content) != 1 or _SHARED not in content:
            return content
        at = content[_SHARED]
        if type(at) is not int or not 0 <= at < len(shared):
            raise Garbled("a reference to a later line")
        return shared[at]

    # subtle: one decoder for all lines, since `json.loads` would make one for each, which takes longer than most lines.
    decoder = json.JSONDecoder(object_hook=resolved, parse_constant=_not_a_number)
    try:
        for line in data.decode("ascii").split("\n"):
            shared.append(decoder.decode(line))  # noqa: PERF401  (`resolved` reads the list)
    except (ValueError, RecursionError) as error:
        raise Garbled(f"not a tree: {error!r:.80}") from None
    return shared[-1]


def _not_a_number(name: str) -> Any:
    raise Garbled(f"a tree cannot contain {name}")


def crash(error: BaseException, doing: str) -> LimitExceeded:
    """Return the error for an unexpected exception. It says that this program is at fault, not the request."""
    return LimitExceeded(
        f"an internal error while {doing}: {type(error).__name__}: {error!s:.200}",
        limit="internal",
        hint="Please report it with the constraint.",
    )


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(isinstance(part, _Plain) for part in value)
    return isinstance(value, _Plain)

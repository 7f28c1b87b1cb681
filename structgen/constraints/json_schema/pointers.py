"""JSON pointers: written into messages, read from references.

Why: every message about a schema names its place, and every ``$ref`` of the usual kind is a pointer.
Invariant: `escape` and `segments` undo each other for every key.
Source: RFC 6901 (pointers, ``~0`` and ``~1``), section 6 for percent-encoded fragments.
"""

from difflib import get_close_matches
from urllib.parse import unquote

__all__ = ["LABEL_LIMIT", "escape", "segments", "shorten", "spelled", "suggestion"]

LABEL_LIMIT = 512
"""Longest pointer kept for messages: a label, so a hostile schema cannot make it grow."""

_NAMES_LOOKED_AT = 10_000


def escape(key: str) -> str:
    """One reference token of a pointer."""
    if "~" in key or "/" in key:
        return key.replace("~", "~0").replace("/", "~1")
    return key


def segments(fragment: str) -> list[str]:
    """The keys of a pointer in a URI fragment (without ``#``), which is empty or begins with ``/``."""
    if "%" in fragment:
        fragment = unquote(fragment)
    if "~" not in fragment:
        return fragment.split("/")[1:]
    # subtle: ~1 before ~0, or "~01" would become "/" instead of "~1".
    return [part.replace("~1", "/").replace("~0", "~") for part in fragment.split("/")[1:]]


def shorten(pointer: str) -> str:
    """A pointer that can be shown, cut in the middle to `LABEL_LIMIT`."""
    if len(pointer) > LABEL_LIMIT:
        half = LABEL_LIMIT // 2
        pointer = f"{pointer[:half]}…{pointer[-half:]}"
    return spelled(pointer)


def spelled(pointer: str) -> str:
    """A pointer with halves of surrogate pairs, which UTF-8 cannot spell, as ``\\udc32``."""
    return pointer if pointer.isascii() else pointer.encode("utf-8", "backslashreplace").decode("utf-8")


def suggestion(wrong: str, names: list[str]) -> str:
    """The end of a message that names up to three which a person may have meant; empty if none is near."""
    known = list(dict.fromkeys(names[:_NAMES_LOOKED_AT]))
    near = get_close_matches(wrong, known, n=3, cutoff=0.6)
    if not near:
        # Those that differ in case or in the sign before them, as Required and ref do.
        bare = {name.lower().lstrip("$"): name for name in known}
        near = [
            bare[found] for found in get_close_matches(wrong.lower().lstrip("$"), list(bare), n=1, cutoff=0.8)
        ]
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""

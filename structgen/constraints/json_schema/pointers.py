"""JSON pointers: written into messages, parsed from references.

Why: every message about a schema has a pointer, and so has nearly every ``$ref``.

Invariant: `escape` and `segments` are inverse to each other for every key.

Source: RFC 6901 (pointers, ``~0`` and ``~1``), section 6 for percent-encoded fragments.
"""

from difflib import get_close_matches
from urllib.parse import unquote

__all__ = ["LABEL_LIMIT", "escape", "segments", "shorten", "spelled", "suggestion"]

LABEL_LIMIT = 512
"""Longest pointer that is kept for messages, so that a hostile schema cannot make them grow."""

_MAX_NAMES = 10_000


def escape(key: str) -> str:
    """Return one reference token of a pointer."""
    if "~" in key or "/" in key:
        return key.replace("~", "~0").replace("/", "~1")
    return key


def segments(fragment: str) -> list[str]:
    """Return the keys of a pointer in a URI fragment (without ``#``), which is empty or starts with ``/``."""
    if "%" in fragment:
        fragment = unquote(fragment)
    if "~" not in fragment:
        return fragment.split("/")[1:]
    # subtle: ~1 is replaced before ~0. Otherwise "~01" would become "/" instead of "~1".
    return [part.replace("~1", "/").replace("~0", "~") for part in fragment.split("/")[1:]]


def shorten(pointer: str) -> str:
    """Return a pointer for messages, cut in the middle to `LABEL_LIMIT`."""
    if len(pointer) > LABEL_LIMIT:
        half = LABEL_LIMIT // 2
        pointer = f"{pointer[:half]}…{pointer[-half:]}"
    return spelled(pointer)


def spelled(pointer: str) -> str:
    r"""Return a pointer in which halves of surrogate pairs, which UTF-8 cannot encode, are written as ``\udc32``."""
    return pointer if pointer.isascii() else pointer.encode("utf-8", "backslashreplace").decode("utf-8")


def suggestion(wrong: str, names: list[str]) -> str:
    """Return the end of a message with up to three similar names; empty if no name is similar."""
    known = list(dict.fromkeys(names[:_MAX_NAMES]))
    matches = get_close_matches(wrong, known, n=3, cutoff=0.6)
    if not matches:
        # Names that differ in case or in a leading dollar sign, such as Required and ref.
        normalised = {name.lower().lstrip("$"): name for name in known}
        lowered = wrong.lower().lstrip("$")
        matches = [
            normalised[found] for found in get_close_matches(lowered, list(normalised), n=1, cutoff=0.8)
        ]
    return f"; did you mean {' or '.join(map(repr, matches))}?" if matches else ""

"""Resolve and normalise URIs.

Why: `urllib.parse.urljoin` has a list of schemes and resolves nothing under others, keeps dot segments if there is
no base, and raises `ValueError` for input that strangers may send.

Invariant: `resolve` accepts any text. Its result is normal: scheme and host in lower case, and no dot segments
except those at the start of a relative path that leave its base.

Source: RFC 3986, sections 5.2 and 6.2.2; appendix B for the expression.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["normalise", "resolve"]

_PARTS = re.compile(r"(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(\?[^#]*)?")


class _Parts(NamedTuple):
    """The parts of a URI without its fragment; None if a part is missing."""

    scheme: str | None
    authority: str | None
    path: str
    query: str | None

    @property
    def is_opaque(self) -> bool:
        """Whether nothing can be relative to it, as for a URN."""
        return self.scheme is not None and self.authority is None and not self.path.startswith("/")


def normalise(uri: str) -> str:
    """Return the spelling under which a document is registered, without the fragment."""
    return resolve("", uri)


def resolve(base: str, reference: str) -> str:
    """Return the URI that `reference` denotes relative to `base`, without the fragment."""
    named, base_parts = _split(reference), _split(base)
    if named.scheme is not None or (base_parts.is_opaque and named.path):
        return _join(named)
    if named.authority is not None:
        return _join(named._replace(scheme=base_parts.scheme))
    if not named.path:
        return _join(base_parts if named.query is None else base_parts._replace(query=named.query))
    path = named.path
    if not path.startswith("/"):
        folder = base_parts.path[: base_parts.path.rfind("/") + 1]
        path = (folder or ("/" if base_parts.authority is not None else "")) + path
    return _join(base_parts._replace(path=path, query=named.query))


def _split(uri: str) -> _Parts:
    found = _PARTS.match(uri)
    assert found is not None  # every part may be empty
    return _Parts(*found.groups())


def _join(parts: _Parts) -> str:
    scheme = "" if parts.scheme is None else f"{parts.scheme.lower()}:"
    authority = ""
    if parts.authority is not None:
        user, at, host = parts.authority.rpartition("@")
        authority = f"//{user}{at}{host.lower()}"
    return f"{scheme}{authority}{_without_dots(parts.path)}{parts.query or ''}"


def _without_dots(path: str) -> str:
    if "." not in path:
        return path
    rooted = path.startswith("/")
    *folders, last = path[rooted:].split("/")
    kept: list[str] = []
    for segment in [*folders, *([last] if last in (".", "..") else [])]:
        if segment == ".." and kept and kept[-1] != "..":
            kept.pop()
        elif segment == ".." and rooted:
            pass  # the root has no parent
        elif segment != ".":
            kept.append(segment)
    end = "" if last in (".", "..") else last
    return "/" * rooted + "/".join([*kept, end])

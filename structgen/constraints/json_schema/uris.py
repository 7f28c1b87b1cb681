"""URIs as strings: one resolved against another, in the one spelling under which documents are known.

Why: `urllib.parse.urljoin` knows a list of schemes and resolves nothing under the others, leaves dot segments where
there is no base, and raises `ValueError` for what a stranger may write.
Invariant: `resolve` is total, and its answer is normal: scheme and host in small letters, no dot segments but
those at the beginning of a relative path that leave its base.
Source: RFC 3986, sections 5.2 and 6.2.2; appendix B for the expression.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["normal", "resolve"]

_PARTS = re.compile(r"(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(\?[^#]*)?")


class _Parts(NamedTuple):
    """Of a URI without its fragment; None is what is not there."""

    scheme: str | None
    authority: str | None
    path: str
    query: str | None

    @property
    def is_opaque(self) -> bool:
        """Nothing can be relative to it, as to a URN."""
        return self.scheme is not None and self.authority is None and not self.path.startswith("/")


def normal(uri: str) -> str:
    """The spelling under which a document is known; without the fragment."""
    return resolve("", uri)


def resolve(base: str, reference: str) -> str:
    """The URI that `reference` names where `base` is the base URI; without the fragment."""
    named, around = _split(reference), _split(base)
    if named.scheme is not None or (around.is_opaque and named.path):
        return _written(named)
    if named.authority is not None:
        return _written(named._replace(scheme=around.scheme))
    if not named.path:
        return _written(around if named.query is None else around._replace(query=named.query))
    path = named.path
    if not path.startswith("/"):
        folder = around.path[: around.path.rfind("/") + 1]
        path = (folder or ("/" if around.authority is not None else "")) + path
    return _written(around._replace(path=path, query=named.query))


def _split(uri: str) -> _Parts:
    found = _PARTS.match(uri)
    assert found is not None  # every part may be empty
    return _Parts(*found.groups())


def _written(parts: _Parts) -> str:
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
            pass  # above the root there is nothing
        elif segment != ".":
            kept.append(segment)
    end = "" if last in (".", "..") else last
    return "/" * rooted + "/".join([*kept, end])

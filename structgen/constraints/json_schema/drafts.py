"""The five drafts of JSON Schema, identified by ``$schema``.

Why: a keyword may mean different things in different drafts. ``exclusiveMinimum`` is a boolean in draft 4, and up
to draft 7 ``$ref`` disables its siblings. So a schema is always read under one draft.

Invariant: drafts are ordered by `Draft.number`; a draft is a constant, compared by identity.

Source: https://json-schema.org/specification-links
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

__all__ = [
    "DRAFTS",
    "LATEST",
    "OPTIONAL_VOCABULARIES",
    "Draft",
    "dialect",
    "draft_of",
    "is_ancient",
    "is_known_vocabulary",
]

OPTIONAL_VOCABULARIES = frozenset({"applicator", "unevaluated", "validation"})
"""Vocabularies with assertions, which a dialect may leave out."""
_FORMAT_ASSERTION = "format-assertion"
_KNOWN_VOCABULARIES = OPTIONAL_VOCABULARIES | {
    *("core", "meta-data", "content", "format", "format-annotation", _FORMAT_ASSERTION)
}


@dataclass(frozen=True, eq=False)
class Draft:
    """One draft, with the rules that do not belong to a single keyword."""

    number: int
    """4, 6, 7, 2019 or 2020."""
    name: str
    uri: str
    """The meta-schema's identifier without an empty fragment."""
    id_keyword: str
    ref_silences_siblings: bool
    without: frozenset[str] = frozenset()
    """The vocabularies of `OPTIONAL_VOCABULARIES` that the dialect's meta-schema leaves out."""
    asserts_formats: bool = False
    """Whether the dialect's meta-schema makes formats assertions."""

    def __repr__(self) -> str:
        return f"<{self.name}>"


_DRAFT4 = Draft(4, "draft 4", "http://json-schema.org/draft-04/schema", "id", True)
_DRAFT6 = Draft(6, "draft 6", "http://json-schema.org/draft-06/schema", "$id", True)
_DRAFT7 = Draft(7, "draft 7", "http://json-schema.org/draft-07/schema", "$id", True)
_DRAFT2019 = Draft(2019, "draft 2019-09", "https://json-schema.org/draft/2019-09/schema", "$id", False)
_DRAFT2020 = Draft(2020, "draft 2020-12", "https://json-schema.org/draft/2020-12/schema", "$id", False)

DRAFTS = (_DRAFT4, _DRAFT6, _DRAFT7, _DRAFT2019, _DRAFT2020)
LATEST = _DRAFT2020
_UNEVALUATED_ARE_APPLICATORS = 2019

_BY_URI = {draft.uri: draft for draft in DRAFTS}
# ``http://json-schema.org/schema`` always meant "the latest"; both schemes are in use.
_BY_URI["http://json-schema.org/schema"] = LATEST
for _draft in DRAFTS:
    _scheme, _, _rest = _draft.uri.partition("://")
    _BY_URI[("https" if _scheme == "http" else "http") + "://" + _rest] = _draft


def is_ancient(uri: str) -> bool:
    """Return whether this is the meta-schema of a draft before 4, whose keywords have other meanings."""
    return uri.partition("://")[2].startswith(
        (
            "json-schema.org/draft-00",
            "json-schema.org/draft-01",
            "json-schema.org/draft-02",
            "json-schema.org/draft-03",
        )
    )


def draft_of(uri: str) -> Draft | None:
    """Return the draft that ``$schema`` names, or None for another dialect."""
    return _BY_URI.get(uri.removesuffix("#"))


def dialect(draft: Draft, vocabularies: Iterable[str]) -> Draft:
    """Return the draft restricted to the vocabularies in ``$vocabulary``; equal vocabularies give the same object."""
    prefix = draft.uri.removesuffix("schema") + "vocab/"
    named = frozenset(name.removeprefix(prefix) for name in vocabularies)
    # In 2019-09 the vocabulary of applicators has `unevaluated*`.
    implied = (
        {"unevaluated"} if draft.number == _UNEVALUATED_ARE_APPLICATORS and "applicator" in named else set()
    )
    return _dialect(draft, OPTIONAL_VOCABULARIES - named - implied, _FORMAT_ASSERTION in named)


def is_known_vocabulary(draft: Draft, name: str) -> bool:
    """Return whether the draft defines this vocabulary."""
    prefix = draft.uri.removesuffix("schema") + "vocab/"
    return name.startswith(prefix) and name.removeprefix(prefix) in _KNOWN_VOCABULARIES


@cache
def _dialect(draft: Draft, without: frozenset[str], asserts_formats: bool) -> Draft:
    if not without and not asserts_formats:
        return draft
    notes = [f"without {name}" for name in sorted(without)] + ["formats asserted"] * asserts_formats
    return replace(
        draft, name=f"{draft.name} ({', '.join(notes)})", without=without, asserts_formats=asserts_formats
    )

"""The five drafts of JSON Schema, told apart by ``$schema``.

Why: the same keyword means different things in different drafts (``exclusiveMinimum`` is a boolean in
draft 4, ``$ref`` silences its siblings up to draft 7), so a schema is always read under one draft.
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
"""Vocabularies whose keywords say something, and which a dialect may leave out."""
_FORMAT_ASSERTION = "format-assertion"
_KNOWN_VOCABULARIES = OPTIONAL_VOCABULARIES | {
    *("core", "meta-data", "content", "format", "format-annotation", _FORMAT_ASSERTION)
}


@dataclass(frozen=True, eq=False)
class Draft:
    """One draft and the rules that are not those of a single keyword."""

    number: int
    """4, 6, 7, 2019 or 2020."""
    name: str
    uri: str
    """The meta-schema's identifier without an empty fragment."""
    id_keyword: str
    ref_silences_siblings: bool
    without: frozenset[str] = frozenset()
    """Of `OPTIONAL_VOCABULARIES`, those that the dialect's meta-schema leaves out."""
    asserts_formats: bool = False
    """Does the dialect's meta-schema say that formats are assertions?"""

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
# ``http://json-schema.org/schema`` always meant "the latest"; both schemes are met in the wild.
_BY_URI["http://json-schema.org/schema"] = LATEST
for _draft in DRAFTS:
    _scheme, _, _rest = _draft.uri.partition("://")
    _BY_URI[("https" if _scheme == "http" else "http") + "://" + _rest] = _draft


def is_ancient(uri: str) -> bool:
    """Is this the meta-schema of a draft before 4? Its keywords mean other things."""
    return uri.partition("://")[2].startswith(
        (
            "json-schema.org/draft-00",
            "json-schema.org/draft-01",
            "json-schema.org/draft-02",
            "json-schema.org/draft-03",
        )
    )


def draft_of(uri: str) -> Draft | None:
    """The draft that ``$schema`` names, or None for another dialect."""
    return _BY_URI.get(uri.removesuffix("#"))


def dialect(draft: Draft, vocabularies: Iterable[str]) -> Draft:
    """The draft restricted to the vocabularies that ``$vocabulary`` names; the same object for the same ones."""
    prefix = draft.uri.removesuffix("schema") + "vocab/"
    named = frozenset(name.removeprefix(prefix) for name in vocabularies)
    # In 2019-09 `unevaluated*` belong to the applicators.
    implied = (
        {"unevaluated"} if draft.number == _UNEVALUATED_ARE_APPLICATORS and "applicator" in named else set()
    )
    return _dialect(draft, OPTIONAL_VOCABULARIES - named - implied, _FORMAT_ASSERTION in named)


def is_known_vocabulary(draft: Draft, name: str) -> bool:
    """Is this one of the vocabularies that the draft defines?"""
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

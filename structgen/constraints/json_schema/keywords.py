"""The table of all keywords of all drafts: how each is supported, and the function that reads it.

Why: a keyword that is dropped silently is the worst bug of a constrained decoder. So each one is declared here as
exact, approximate, annotation or unsupported. `check`, the table in the documentation and the dispatch of the
reader all come from these entries. docs/first-change.md lists what a new keyword needs beyond its entry.

Invariant: a keyword without an entry is unknown to the specification, hence an annotation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from . import applicators, assertions
from .drafts import Draft
from .node_builder import NodeBuilder
from .nodes import Node
from .support import Support

__all__ = ["KEYWORDS", "SUBSCHEMAS", "Keyword", "Read", "dispatch"]

Read = Callable[[NodeBuilder, object, Node], None]
"""Reads the value of a keyword into a node."""
_LAST = 2020


@dataclass(frozen=True)
class Keyword:
    """One keyword, defined in the drafts `first` to `last`."""

    support: Support
    read: Read | None = None
    note: str = ""
    first: int = 4
    last: int = _LAST
    older: Mapping[int, Read] = field(default_factory=dict)
    """Functions for older drafts: the smallest key that is not below the draft applies."""
    subschemas: str | None = None
    """What the value holds: ``one`` schema, a ``list`` or a ``map`` of schemas, or ``either`` one or a list."""

    def reader_for(self, draft: Draft) -> Read | None:
        """Return the function that reads the keyword in a draft; None for an annotation."""
        for bound in sorted(self.older):
            if draft.number <= bound:
                return self.older[bound]
        return self.read


def _exact(read: Read, **more: Any) -> Keyword:  # noqa: ANN401 — fields of `Keyword`
    return Keyword(Support.EXACT, read, **more)


def _annotation(note: str = "", **more: Any) -> Keyword:  # noqa: ANN401 — fields of `Keyword`
    return Keyword(Support.ANNOTATION, None, note, **more)


_2019, _2020 = 2019, 2020

KEYWORDS: dict[str, Keyword] = {
    # Any value
    "type": _exact(
        assertions.type_,
        note="1.0 is an integer from draft 6 on; in draft 4 integers consist of digits only",
        older={4: assertions.type_draft4},
    ),
    "enum": _exact(assertions.enum),
    "const": _exact(assertions.const, first=6),
    # Numbers
    "minimum": _exact(assertions.minimum, older={4: assertions.minimum_draft4}),
    "maximum": _exact(assertions.maximum, older={4: assertions.maximum_draft4}),
    "exclusiveMinimum": _exact(assertions.exclusive_minimum, older={4: assertions.exclusive_minimum_draft4}),
    "exclusiveMaximum": _exact(assertions.exclusive_maximum, older={4: assertions.exclusive_maximum_draft4}),
    "multipleOf": _exact(assertions.multiple_of),
    # Strings; lengths are in characters (code points)
    "minLength": _exact(assertions.at_least("minLength")),
    "maxLength": _exact(assertions.at_most("maxLength")),
    "pattern": _exact(assertions.pattern),
    "format": _exact(assertions.format_, note="see the table of formats"),
    # Arrays
    "prefixItems": _exact(applicators.prefix_items, first=_2020, subschemas="list"),
    "items": _exact(applicators.items, older={_2019: applicators.items_before_2020}, subschemas="either"),
    "additionalItems": _exact(applicators.additional_items, last=_2019, subschemas="one"),
    "minItems": _exact(assertions.at_least("minItems")),
    "maxItems": _exact(assertions.at_most("maxItems")),
    "uniqueItems": _exact(assertions.unique_items),
    "contains": _exact(applicators.contains, first=6, subschemas="one"),
    "minContains": _exact(assertions.at_least("minContains"), first=_2019),
    "maxContains": _exact(assertions.at_most("maxContains"), first=_2019),
    "unevaluatedItems": _exact(applicators.unevaluated_items, first=_2019, subschemas="one"),
    # Objects
    "properties": _exact(applicators.properties, subschemas="map"),
    "patternProperties": _exact(applicators.pattern_properties, subschemas="map"),
    "additionalProperties": _exact(applicators.additional_properties, subschemas="one"),
    "required": _exact(assertions.required),
    "minProperties": _exact(assertions.at_least("minProperties")),
    "maxProperties": _exact(assertions.at_most("maxProperties")),
    "propertyNames": _exact(applicators.property_names, first=6, subschemas="one"),
    "dependentRequired": _exact(applicators.dependent_required, first=_2019),
    "dependentSchemas": _exact(applicators.dependent_schemas, first=_2019, subschemas="map"),
    "dependencies": _exact(
        applicators.dependencies,
        note="supported in every draft: it was split in 2019-09 and is still in use",
        subschemas="map",
    ),
    "unevaluatedProperties": _exact(applicators.unevaluated_properties, first=_2019, subschemas="one"),
    # Combinations
    "allOf": _exact(applicators.all_of, subschemas="list"),
    "anyOf": _exact(applicators.any_of, subschemas="list"),
    "oneOf": _exact(applicators.one_of, subschemas="list"),
    "not": _exact(applicators.not_, subschemas="one"),
    "if": _exact(applicators.if_, first=7, subschemas="one"),
    "then": _exact(applicators.branch_of_if, first=7, subschemas="one"),
    "else": _exact(applicators.branch_of_if, first=7, subschemas="one"),
    # References
    "$ref": _exact(applicators.ref),
    "$dynamicRef": _exact(applicators.dynamic_ref, first=_2020),
    "$recursiveRef": _exact(applicators.recursive_ref, first=_2019, last=_2019),
    "$schema": _annotation("chooses the draft"),
    "$id": _annotation("base of references", first=6),
    "id": _annotation("base of references", last=4),
    "$anchor": _annotation("target of references", first=_2019),
    "$dynamicAnchor": _annotation("target of references", first=_2020),
    "$recursiveAnchor": _annotation("target of $recursiveRef", first=_2019, last=_2019),
    "$defs": _annotation("target of references", first=_2019, subschemas="map"),
    "definitions": _annotation("target of references", subschemas="map"),
    "$vocabulary": _annotation(
        "taken from the meta-schema that $schema names, if registry= has it", first=_2019
    ),
    # Annotations
    **{
        name: _annotation()
        for name in (
            "$comment",
            "title",
            "description",
            "default",
            "examples",
            "readOnly",
            "writeOnly",
            "deprecated",
        )
    },
    **{name: _annotation("contents are not decoded") for name in ("contentEncoding", "contentMediaType")},
    "contentSchema": _annotation("contents are not decoded", subschemas="one"),
}

_VALIDATION = (
    "type enum const multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern "
    "maxItems minItems uniqueItems maxContains minContains maxProperties minProperties required dependentRequired"
)
_APPLICATOR = (
    "prefixItems items additionalItems contains properties patternProperties additionalProperties propertyNames "
    "dependentSchemas allOf anyOf oneOf not if then else"
)
_VOCABULARY = {
    **dict.fromkeys(_VALIDATION.split(), "validation"),
    **dict.fromkeys(_APPLICATOR.split(), "applicator"),
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties"), "unevaluated"),
}
"""The vocabulary of each keyword that a dialect may leave out."""

SUBSCHEMAS = {name: keyword.subschemas for name, keyword in KEYWORDS.items() if keyword.subschemas}
"""Keywords whose values contain schemas, in which identifiers and anchors are searched."""


@cache
def dispatch(draft: Draft) -> dict[str, Read]:
    """Return the function that reads each keyword of a draft; annotations are absent."""
    table: dict[str, Read] = {}
    for name, keyword in KEYWORDS.items():
        if not keyword.first <= draft.number <= keyword.last:
            continue
        if _VOCABULARY.get(name) in draft.without:
            continue
        if keyword.support is not Support.ANNOTATION:
            read = keyword.reader_for(draft)
            assert read is not None, name
            table[name] = read
    return table

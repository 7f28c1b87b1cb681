"""`check`: what becomes of every keyword of a schema.

Why: a person who writes a schema must see what is enforced, what is only a note, and everything that is
wrong, not only the first error.
Invariant: a schema that compiles has a report without problems, and the other way round; both run the same
functions, the report's reader only goes on after an error.
Cost: a few times that of compiling.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from structgen.argument_names import checks_names
from structgen.brief import short_repr
from structgen.errors import (
    LimitExceeded,
    RegexError,
    RegexUnsupported,
    SchemaError,
    SchemaInvalid,
    StructgenError,
    UnsupportedKeyword,
)
from structgen.notebook import card, pairs, plain, table

from ..drafts import draft_of
from ..formats import FORMATS, Format
from ..keywords import KEYWORDS, Read, dispatch
from ..options import JsonSchemaOptions, make_options
from ..parsing import parse_schema
from ..pointers import escape, spelled, suggestion
from ..reader import Node, Reader
from ..support import Support
from ..whitespace import Whitespace
from .document_order import document_order

__all__ = ["Finding", "Report", "check"]

_INVALID = "invalid"
_LIMIT = "limit"
_PROBLEMS = (_INVALID, Support.UNSUPPORTED.value, _LIMIT)
_USUAL_DEPTH = 1_000
"""Containers that may be open in one another, unless a vocabulary's limit says otherwise."""
_DEPTH_HINT = "Raise it: vocabulary.with_limits(max_depth=...)."
_OPEN = "an open object: the model may invent other keys than those that are declared"
_OPEN_HINT = 'closed=True closes it, and so does "additionalProperties": false.'
_NOTES = [name for name, keyword in KEYWORDS.items() if keyword.support is Support.ANNOTATION]


@short_repr
@dataclass(frozen=True)
class Finding:
    """One keyword at one place."""

    pointer: str
    keyword: str
    status: str
    """``exact``, ``approximate``, ``annotation``, ``unsupported``, ``limit`` or ``invalid``."""
    note: str = ""
    warning: bool = False
    """Something that a person probably did not mean."""
    hint: str = ""
    """What to do about it."""

    def __str__(self) -> str:
        """As ``structgen check`` shows it: ``!`` marks a warning, the hint has a line of its own."""
        note = f"   {self.note}" if self.note else ""
        hint = "".join(f"\n{' ' * 15}{line}" for line in self.hint.splitlines())
        return f"{'!' if self.warning else ' '} {self.status:<12} {self.pointer}{note}{hint}"


@short_repr
@dataclass(frozen=True)
class Report:
    """All findings about one schema."""

    draft: str
    findings: tuple[Finding, ...]
    choices: tuple[str, ...]
    """Where the options make the text narrower than the specification allows."""

    @property
    def problems(self) -> tuple[Finding, ...]:
        """What keeps the schema from being compiled."""
        return tuple(f for f in self.findings if f.status in _PROBLEMS)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.warning)

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def status(self) -> str:
        """The worst status: ``invalid``, ``unsupported``, ``limit``, ``approximate`` or ``exact``.

        Of the keywords, each for itself: whether a value can satisfy them together is for compiling to find out.
        """
        found = {finding.status for finding in self.findings}
        for status in (*_PROBLEMS, Support.APPROXIMATE.value):
            if status in found:
                return status
        return Support.EXACT.value

    def __str__(self) -> str:
        lines = [f"{self.draft}: {self.status}"]
        lines.extend(str(finding) for finding in self.findings)
        lines.extend(f"  note: {choice}" for choice in self.choices)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return _html_of(self)


_ROWS = 40


def _html_of(report: Report) -> str:
    """What needs attention first, in a table; then a count of the rest."""
    told = [one for one in report.findings if one.status != Support.EXACT.value or one.warning]
    notable = [one for one in told if one.warning or one.status != Support.ANNOTATION.value]
    rows = [
        (
            f"<b>{plain(one.status)}</b>" + ("!" if one.warning else ""),
            plain(one.pointer),
            plain(one.note, 300) + (f"<div><i>{plain(one.hint, 300)}</i></div>" if one.hint else ""),
        )
        for one in notable[:_ROWS]
    ]
    counts: dict[str, int] = {}
    for one in report.findings:
        counts[one.status] = counts.get(one.status, 0) + 1
    facts = [("keywords", ", ".join(f"{count} {status}" for status, count in counts.items()) or "none")]
    facts += [("not shown", f"{len(notable) - _ROWS} more")] if len(notable) > _ROWS else []
    shown = table(("", "at", "note"), rows) if rows else ""
    about = f"{report.draft}: {'can' if report.ok else 'cannot'} be used, {report.status}"
    return card(
        "Check of a JSON Schema",
        about,
        shown,
        pairs([*facts, *(("note", choice) for choice in report.choices)]),
    )


class _CheckingReader(Reader):
    """A reader that notes what it meets and goes on after errors."""

    def __init__(self, options: JsonSchemaOptions, registry: Any = None) -> None:
        super().__init__(options, registry, in_scopes=True)
        self.findings: list[Finding] = []
        self._deepest: dict[str, int] = {}
        """Places with a value of more containers inside one another than may be open, and how many those are."""

    def keywords(self, schema: dict[str, Any], table: dict[str, Read], node: Node) -> None:
        draft = self.resource.draft
        for keyword, value in self.schema.items():
            if not isinstance(keyword, str):
                self._note(self.pointer, repr(keyword), _INVALID, "keys of a JSON object are strings")
                continue
            place = self.at(escape(keyword))
            if keyword not in schema:
                self._note(place, keyword, "annotation", f"ignored beside $ref in {draft.name}", warning=True)
                continue
            read = table.get(keyword)
            entry = KEYWORDS.get(keyword)
            if read is None:
                self._annotation(place, keyword, value)
                continue
            assert entry is not None
            before = len(self.findings)
            try:
                read(self, value, node)
            except StructgenError as error:
                self._problem(error, keyword, place)
                continue
            if keyword == "format":
                self._format(place, value)
            elif (depth := self._deepest.get(place, 0)) > 0:
                self._note(
                    place, keyword, entry.support.value, _too_deep(depth), warning=True, hint=_DEPTH_HINT
                )
            elif len(self.findings) == before:
                speaks = keyword != "type" or node.get("integer")  # its note is about integers
                self._note(place, keyword, entry.support.value, entry.note if speaks else "")

    def _annotation(self, place: str, keyword: str, value: Any) -> None:
        draft = self.resource.draft
        entry = KEYWORDS.get(keyword)
        if keyword == "$schema" and isinstance(value, str) and draft_of(value) is None:
            known = self.references.knows_dialect(value)
            note = f"the dialect {value!r}" if known else f"unknown dialect {value!r}"
            self._note(place, keyword, "annotation", f"{note}, read as {draft.name}", warning=not known)
        elif entry is None:
            custom = keyword.startswith("x-")
            note = "unknown keyword" + ("" if custom else suggestion(keyword, [*dispatch(draft), *_NOTES]))
            self._note(place, keyword, "annotation", note, warning=not custom)
        elif entry.read is not None and entry.first <= draft.number <= entry.last:
            self._note(place, keyword, "annotation", f"not in the vocabularies of {draft.name}")
        elif not entry.first <= draft.number <= entry.last:
            self._note(place, keyword, "annotation", f"not a keyword of {draft.name}", warning=True)
        else:
            self._note(place, keyword, "annotation", entry.note)

    def _format(self, place: str, name: str) -> None:
        draft = self.resource.draft
        if not self.asserts_formats():
            note = f"formats are annotations by option (formats={self.options.formats!r})"
            self._note(place, "format", "annotation", note)
        elif (found := Format.find(name, draft.number)) is not None:
            self._note(place, "format", found.support.value, found.note)
        else:
            self._note(
                place,
                "format",
                "annotation",
                f"unknown format {name!r}{suggestion(name, list(FORMATS))}",
                warning=True,
            )

    def _note(
        self, pointer: str, keyword: str, status: str, note: str, *, warning: bool = False, hint: str = ""
    ) -> None:
        self.findings.append(Finding(spelled(pointer), keyword, status, note, warning, hint))

    def _problem(self, error: StructgenError, keyword: str, place: str) -> None:
        self._note(error.where or place, keyword, _status(error), error.message, hint=error.hint or "")

    def closes(self) -> bool:
        """Objects are closed to find the open ones, unless a keyword has a problem: then the nodes are incomplete."""
        return not any(finding.status in _PROBLEMS for finding in self.findings)

    def note_open_objects(self) -> None:
        """Warn of objects that have declared keys and may have any others."""
        found = {finding.pointer: place for place, finding in enumerate(self.findings)}
        for pointer in () if self.options.closed else map(spelled, self.open_objects.pointers):
            own = f"{pointer}/properties"
            if own in found:
                declared = self.findings[found[own]]
                self.findings[found[own]] = replace(declared, note=_OPEN, warning=True, hint=_OPEN_HINT)
            else:
                self._note(pointer, "schema", Support.EXACT.value, _OPEN, warning=True, hint=_OPEN_HINT)

    # The places where one bad entry must not hide the next.

    def child(self, schema: Any, pointer: str) -> int:
        try:
            return super().child(schema, pointer)
        except SchemaInvalid as error:
            self._problem(error, "schema", pointer)
            return self.true()

    def note_depth(self, depth: int, pointer: str) -> None:
        super().note_depth(depth, pointer)
        if depth > self._deepest.get(pointer, _USUAL_DEPTH):
            self._deepest[pointer] = depth

    def reference(self, reference: str) -> int:
        try:
            return super().reference(reference)
        except SchemaError as error:
            self._problem(error, "$ref", self.at("$ref"))
            return self.true()

    def language(self, keyword: str, pattern: Any) -> Any:
        try:
            return super().language(keyword, pattern)
        except (RegexError, LimitExceeded) as error:
            self._problem(error, keyword, self.at(keyword))
            return ("text",)


def _status(error: StructgenError) -> str:
    """Is the schema wrong, too large, or only beyond what regular languages say?"""
    if isinstance(error, LimitExceeded):
        return _LIMIT
    beyond = isinstance(error, (UnsupportedKeyword, RegexUnsupported))
    return Support.UNSUPPORTED.value if beyond else _INVALID


def _too_deep(depth: int) -> str:
    return (
        f"a value has {depth:,} containers inside one another; the limit max_depth of a vocabulary is "
        f"{_USUAL_DEPTH:,} by default"
    )


def _choices(options: JsonSchemaOptions) -> tuple[str, ...]:
    choices = []
    whitespace = Whitespace.of(options.whitespace)
    if whitespace.is_flexible:
        choices.append(
            f"white space between tokens is at most {whitespace.blanks} blanks, a line end and "
            f"{whitespace.indentation} blanks; there is none around the value (whitespace={whitespace})"
        )
    elif whitespace.patterns is not None:
        choices.append(f"white space between tokens is what patterns match (whitespace={whitespace})")
    else:
        choices.append(f"white space is fixed (whitespace={whitespace})")
    if options.ordered:
        choices.append(
            "object keys come in declared order, then those that are only required, then all others (ordered=True)"
        )
    if options.escapes == "canonical":
        choices.append("characters of strings are escaped only where they must be (escapes='canonical')")
    if options.integers == "digits":
        choices.append("integers are written with digits alone (integers='digits')")
    if options.closed:
        choices.append(
            "objects with declared keys have no others, unless the schema speaks of them (closed=True)"
        )
    choices.append(
        "a number with an exponent has one digit before the point, at most 16 after it, and |exponent| <= 400"
    )
    choices.append(
        "containers are nested at most as deep as the vocabulary's limit max_depth, 1,000 by default"
    )
    return tuple(choices)


@checks_names
def check(schema: str | bytes | dict[str, Any] | bool, *, registry: Any = None, **options: Any) -> Report:
    """What becomes of every keyword of `schema`; never raises for what is wrong with the schema.

    Keywords are looked at one by one, and nothing is compiled: a schema that no value can satisfy (``False``, or
    a minimum above the maximum) has a report without problems. Compiling it, ``minimal()`` and ``structgen check``
    on the command line tell that. The options, and `registry`, are those of `json_schema`.
    """
    chosen = make_options(options)
    reader = _CheckingReader(chosen, registry)
    try:
        reader.read(parse_schema(schema))
        reader.note_open_objects()
    except (SchemaError, LimitExceeded) as error:
        where = error.where or "#"
        keyword = where.rpartition("/")[2] if "/" in where else "schema"
        reader.findings.append(Finding(where, keyword, _status(error), error.message, hint=error.hint or ""))
    place_of = document_order(reader.references.documents())
    reader.findings.sort(key=lambda finding: place_of(finding.pointer))
    return Report(
        reader.root.draft.name,
        tuple(dict.fromkeys(reader.findings)),
        _choices(chosen),
    )

"""Report what becomes of each keyword of a schema: `check`.

Why: the author of a schema must see which keywords are enforced, which are only annotations, and every mistake, not
only the first one.

Invariant: a schema that compiles has a report without problems, and a schema whose report has no problems compiles.
Both run the same functions; the reader of the report only continues after an error.

Cost: a few times that of compiling.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from structgen.argument_names import checks_names
from structgen.brief import short_repr
from structgen.constraints.expressions import RE
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
from ..nodes import Node
from ..options import JsonSchemaOptions, make_options
from ..parsing import parse_schema
from ..pointers import escape, spelled, suggestion
from ..reader import Reader
from ..references import Registry
from ..support import Support
from ..whitespace import Whitespace
from .document_order import order_in_documents

__all__ = ["Finding", "Report", "check"]

_INVALID = "invalid"
_LIMIT = "limit"
_PROBLEMS = (_INVALID, Support.UNSUPPORTED.value, _LIMIT)
_USUAL_DEPTH = 1_000
"""Default limit on the number of nested containers; a vocabulary may have another."""
_DEPTH_HINT = "Raise it: vocabulary.with_limits(max_depth=...)."
_OPEN = "an open object: the model may write keys that are not declared"
_OPEN_HINT = 'closed=True closes it, and so does "additionalProperties": false.'
_NOTES = [name for name, keyword in KEYWORDS.items() if keyword.support is Support.ANNOTATION]


@short_repr
@dataclass(frozen=True)
class Finding:
    """One keyword at one position of the schema."""

    pointer: str
    keyword: str
    status: str
    """``exact``, ``approximate``, ``annotation``, ``unsupported``, ``limit`` or ``invalid``."""
    note: str = ""
    warning: bool = False
    """Whether the author probably did not mean this."""
    hint: str = ""
    """What to do about it; empty if there is nothing to do."""

    def __str__(self) -> str:
        """Format the finding as ``structgen check`` does: ``!`` marks a warning, the hint has its own line."""
        note = f"   {self.note}" if self.note else ""
        hint = "".join(f"\n{' ' * 15}{line}" for line in self.hint.splitlines())
        return f"{'!' if self.warning else ' '} {self.status:<12} {self.pointer}{note}{hint}"


@short_repr
@dataclass(frozen=True)
class Report:
    """The findings about one schema."""

    draft: str
    findings: tuple[Finding, ...]
    choices: tuple[str, ...]
    """Options under which the output is narrower than the specification allows."""

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that prevent compilation."""
        return tuple(f for f in self.findings if f.status in _PROBLEMS)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings that the author probably did not mean."""
        return tuple(f for f in self.findings if f.warning)

    @property
    def ok(self) -> bool:
        """Whether the schema can be compiled, as far as its keywords tell."""
        return not self.problems

    @property
    def status(self) -> str:
        """The worst status of a keyword: ``invalid``, ``unsupported``, ``limit``, ``approximate`` or ``exact``.

        Each keyword is judged by itself. Only compilation finds out whether a value can satisfy all of them.
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
    """Return a card with a table of what needs attention, and a count of the rest."""
    reported = [one for one in report.findings if one.status != Support.EXACT.value or one.warning]
    notable = [one for one in reported if one.warning or one.status != Support.ANNOTATION.value]
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
    """A reader that records each keyword as a finding and continues after errors."""

    def __init__(self, options: JsonSchemaOptions, registry: Registry | None = None) -> None:
        super().__init__(options, registry, in_scopes=True)
        self.findings: list[Finding] = []
        self._deepest: dict[str, int] = {}
        """By pointer: the depth of a value that is nested deeper than the default limit."""

    def keywords(self, schema: dict[str, Any], table: dict[str, Read], node: Node) -> None:
        draft = self.resource.draft
        for keyword, value in self.schema.items():
            if not isinstance(keyword, str):
                self._note(self.pointer, repr(keyword), _INVALID, "keys of a JSON object are strings")
                continue
            pointer = self.at(escape(keyword))
            if keyword not in schema:
                self._note(
                    pointer, keyword, "annotation", f"ignored beside $ref in {draft.name}", warning=True
                )
                continue
            read = table.get(keyword)
            entry = KEYWORDS.get(keyword)
            if read is None:
                self._annotation(pointer, keyword, value)
                continue
            assert entry is not None
            before = len(self.findings)
            try:
                read(self, value, node)
            except StructgenError as error:
                self._problem(error, keyword, pointer)
                continue
            if keyword == "format":
                self._format(pointer, value)
            elif (depth := self._deepest.get(pointer, 0)) > 0:
                self._note(
                    pointer, keyword, entry.support.value, _too_deep(depth), warning=True, hint=_DEPTH_HINT
                )
            elif len(self.findings) == before:
                has_note = keyword != "type" or node.get("integer")  # the note of `type` is about integers
                self._note(pointer, keyword, entry.support.value, entry.note if has_note else "")

    def _annotation(self, pointer: str, keyword: str, value: object) -> None:
        draft = self.resource.draft
        entry = KEYWORDS.get(keyword)
        if keyword == "$schema" and isinstance(value, str) and draft_of(value) is None:
            known = self.references.knows_dialect(value)
            note = f"the dialect {value!r}" if known else f"unknown dialect {value!r}"
            self._note(pointer, keyword, "annotation", f"{note}, read as {draft.name}", warning=not known)
        elif entry is None:
            custom = keyword.startswith("x-")
            note = "unknown keyword" + ("" if custom else suggestion(keyword, [*dispatch(draft), *_NOTES]))
            self._note(pointer, keyword, "annotation", note, warning=not custom)
        elif entry.read is not None and entry.first <= draft.number <= entry.last:
            self._note(pointer, keyword, "annotation", f"not in the vocabularies of {draft.name}")
        elif not entry.first <= draft.number <= entry.last:
            self._note(pointer, keyword, "annotation", f"not a keyword of {draft.name}", warning=True)
        else:
            self._note(pointer, keyword, "annotation", entry.note)

    def _format(self, pointer: str, name: str) -> None:
        draft = self.resource.draft
        if not self.asserts_formats():
            note = f"formats are annotations by option (formats={self.options.formats!r})"
            self._note(pointer, "format", "annotation", note)
        elif (known := Format.find(name, draft.number)) is not None:
            self._note(pointer, "format", known.support.value, known.note)
        else:
            self._note(
                pointer,
                "format",
                "annotation",
                f"unknown format {name!r}{suggestion(name, list(FORMATS))}",
                warning=True,
            )

    def _note(
        self, pointer: str, keyword: str, status: str, note: str, *, warning: bool = False, hint: str = ""
    ) -> None:
        self.findings.append(Finding(spelled(pointer), keyword, status, note, warning, hint))

    def _problem(self, error: StructgenError, keyword: str, pointer: str) -> None:
        self._note(error.where or pointer, keyword, _status(error), error.message, hint=error.hint or "")

    def closes(self) -> bool:
        """Return whether to close objects, which finds the open ones; a node with a problem is incomplete."""
        return not any(finding.status in _PROBLEMS for finding in self.findings)

    def note_open_objects(self) -> None:
        """Add warnings for objects that declare keys and allow any others."""
        index_of = {finding.pointer: index for index, finding in enumerate(self.findings)}
        for pointer in () if self.options.closed else map(spelled, self.open_objects.pointers):
            keyword_pointer = f"{pointer}/properties"
            if keyword_pointer in index_of:
                declared = self.findings[index_of[keyword_pointer]]
                self.findings[index_of[keyword_pointer]] = replace(
                    declared, note=_OPEN, warning=True, hint=_OPEN_HINT
                )
            else:
                self._note(pointer, "schema", Support.EXACT.value, _OPEN, warning=True, hint=_OPEN_HINT)

    # Overridden so that one bad entry does not hide the next.

    def child(self, schema: object, pointer: str) -> int:
        try:
            return super().child(schema, pointer)
        except SchemaInvalid as error:
            self._problem(error, "schema", pointer)
            return self.true_node()

    def note_depth(self, depth: int, pointer: str) -> None:
        super().note_depth(depth, pointer)
        if depth > self._deepest.get(pointer, _USUAL_DEPTH):
            self._deepest[pointer] = depth

    def reference(self, reference: str) -> int:
        try:
            return super().reference(reference)
        except SchemaError as error:
            self._problem(error, "$ref", self.at("$ref"))
            return self.true_node()

    def language(self, keyword: str, pattern: object) -> RE:
        try:
            return super().language(keyword, pattern)
        except (RegexError, LimitExceeded) as error:
            self._problem(error, keyword, self.at(keyword))
            return ("text",)


def _status(error: StructgenError) -> str:
    """Return whether the schema is wrong, too large, or uses what regular languages cannot express."""
    if isinstance(error, LimitExceeded):
        return _LIMIT
    beyond = isinstance(error, (UnsupportedKeyword, RegexUnsupported))
    return Support.UNSUPPORTED.value if beyond else _INVALID


def _too_deep(depth: int) -> str:
    return (
        f"a value has {depth:,} nested containers; the default of a vocabulary's limit max_depth is "
        f"{_USUAL_DEPTH:,}"
    )


def _choices(options: JsonSchemaOptions) -> tuple[str, ...]:
    choices = []
    whitespace = Whitespace.of(options.whitespace)
    if whitespace.is_flexible:
        choices.append(
            f"white space between tokens is at most {whitespace.blanks} blanks, a line end and "
            f"{whitespace.indentation} blanks; the value has none around it (whitespace={whitespace})"
        )
    elif whitespace.patterns is not None:
        choices.append(f"white space between tokens is given by patterns (whitespace={whitespace})")
    else:
        choices.append(f"white space is fixed (whitespace={whitespace})")
    if options.ordered:
        choices.append(
            "object keys come in declared order, then keys that are only required, then all others (ordered=True)"
        )
    if options.escapes == "canonical":
        choices.append("characters of strings are escaped only if JSON requires it (escapes='canonical')")
    if options.integers == "digits":
        choices.append("integers consist of digits only (integers='digits')")
    if options.closed:
        choices.append(
            "objects with declared keys have no others, unless the schema mentions them (closed=True)"
        )
    choices.append(
        "a number with an exponent has one digit before the point, at most 16 after it, and |exponent| <= 400"
    )
    choices.append(
        "containers are nested at most max_depth deep, a limit of the vocabulary (1,000 by default)"
    )
    return tuple(choices)


@checks_names
def check(
    schema: str | bytes | dict[str, Any] | bool, *, registry: Registry | None = None, **options: object
) -> Report:
    """Report what becomes of each keyword of `schema`; never raise for a mistake in the schema.

    The report covers keywords one by one, and nothing is compiled. So a schema that no value can satisfy, such as
    ``False`` or a minimum above the maximum, has a report without problems. Compiling it, ``minimal()`` and the
    command ``structgen check`` report that.

    Args:
        schema: The schema as JSON text or parsed.
        registry: Other documents that ``$ref`` may refer to, as for `json_schema`.
        **options: The options of `json_schema`.

    Returns:
        The findings, in the order of the schema.

    Raises:
        OptionError: An option or the registry is invalid.
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
    place_of = order_in_documents(reader.references.documents())
    reader.findings.sort(key=lambda finding: place_of(finding.pointer))
    return Report(
        reader.root.draft.name,
        tuple(dict.fromkeys(reader.findings)),
        _choices(chosen),
    )

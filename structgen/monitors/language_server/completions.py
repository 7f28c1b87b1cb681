"""From the completion items of a server to names that can be typed.

Why: an item says what an *editor* is to do: replace a range, run a snippet, add an import; its label may be a whole
signature. A monitor needs the identifier, and to know what would come with it.
Invariant: every name is one identifier that extends what is typed; what cannot be reached by typing on (keys that need
brackets, operators, text inside of strings) is left out. `Knowledge` says what a server's answer means, where servers
differ; that was measured, see `servers.py`.
Cost: 2 us for each item.
Spec: Language Server Protocol 3.17, "Completion Request".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from structgen.monitors.language_server.analysis import Completion, Completions
from structgen.monitors.language_server.positions import Encoding, offset_of

__all__ = ["Knowledge", "is_member_access", "read_completions", "word_start"]

_KINDS = (
    *(
        "text",
        "method",
        "function",
        "constructor",
        "field",
        "variable",
        "class",
        "interface",
        "module",
        "property",
    ),
    *("unit", "value", "enum", "keyword", "snippet", "color", "file", "reference", "folder", "enum member"),
    *("constant", "struct", "event", "operator", "type parameter"),
)
"""By the protocol's number, from 1."""
_TEXT = 1
_SNIPPET_FORMAT = 2
_DEPRECATED_TAG = 1

_IDENTIFIER = re.compile(r"#?[^\W\d][\w$]*|\$[\w$]*")
_WORD = re.compile(r"[\w$]*\Z")
_AFTER_CHANGE = re.compile(r"(?:\?\.)(#?[^\W\d][\w$]*)\Z")
_PLACEHOLDER = re.compile(r"(?<!\\)\$")
_MEMBER = re.compile(r"\.[ \t]*\Z")


@dataclass(frozen=True, slots=True)
class Knowledge:
    """How to understand a server's lists of completions."""

    full_below: int | None = None
    """A server that says "incomplete" of every list (since it filters by what is typed) is believed only for lists of
    at least so many items; None: it is always believed. Longer ones were cut, and are requested again with each first
    letter of ASCII typed; names that begin with another letter may be missing then."""
    asks_without_prefix: bool = False
    """Query as if the typed part of the identifier were not there, for servers that filter by it, and loosely."""
    nothing_known: frozenset[str] = frozenset()
    """A server's list for an unknown receiver; a list with nothing else is read as unknown."""
    text_is_noise: bool = False
    """Items of kind "text" are words of the file, not names that the server knows."""


def word_start(text: str, offset: int) -> int:
    """Return where the identifier begins that ends at the offset; the offset itself if none does."""
    line = text.rfind("\n", 0, offset) + 1
    match = _WORD.search(text, max(line, offset - 256), offset)
    start = match.start() if match else offset
    return (
        start - 1
        if start > line and text[start - 1] == "#" and text[max(0, start - 2) : start - 1] == "."
        else start
    )


def is_member_access(text: str, start: int) -> bool:
    """Return whether an identifier that begins here is a member of something."""
    return _MEMBER.search(text, max(0, start - 16), start) is not None


def read_completions(
    result: object,
    text: str,
    offset: int,
    encoding: Encoding,
    knowledge: Knowledge,
    prefix: str | None = None,
) -> Completions | None:
    """Return what a server's answer at an offset means; `prefix` is typed in addition to the text of the query.

    Raises:
        TypeError, ValueError, KeyError, AttributeError: the answer breaks the protocol.
    """
    if result is None:
        return None
    if isinstance(result, dict):
        items, is_incomplete = result["items"], bool(result.get("isIncomplete"))
    else:
        items, is_incomplete = result, False
    if not isinstance(items, list):
        raise TypeError("items are no list")
    if knowledge.full_below is not None:
        is_incomplete = is_incomplete and len(items) >= knowledge.full_below
    start = word_start(text, offset)
    typed = text[start:offset]
    if knowledge.text_is_noise:
        items = [item for item in items if item.get("kind") != _TEXT]
    reader = _Reader(text, start, encoding)
    completions = [completion for item in items if (completion := reader.read(item)) is not None]
    if is_member_access(text, start) and _says_nothing(completions, knowledge):
        return None
    prefix = typed if prefix is None else prefix
    return Completions(_distinct(completions, prefix), prefix, is_incomplete)


def _says_nothing(completions: list[Completion], knowledge: Knowledge) -> bool:
    """Return whether an answer about a member means unknown: servers list members of every known receiver."""
    if all(item.kind == "keyword" for item in completions):
        return True  # subtle: so is a list of what cannot stand after a dot, an answer to another query
    return bool(knowledge.nothing_known) and all(item.name in knowledge.nothing_known for item in completions)


def _distinct(completions: Iterable[Completion], prefix: str) -> tuple[Completion, ...]:
    """Return each name once, first where it needs the fewest changes elsewhere."""
    best: dict[str, Completion] = {}
    for item in completions:
        if item.name.startswith(prefix):
            other = best.get(item.name)
            if other is None or (other.adds_import, other.changes_before) > (
                item.adds_import,
                item.changes_before,
            ):
                best[item.name] = item
    return tuple(best.values())


@dataclass(slots=True)
class _Reader:
    """Reads items at one place; the start of a range is worked out once for each that occurs."""

    text: str
    start: int
    encoding: Encoding
    _range: tuple[int, int] | None = None
    _range_start: int = 0

    def read(self, item: dict[str, Any]) -> Completion | None:
        """Return the completion, or None for an item that typing on cannot reach."""
        label = item["label"]
        new = item.get("insertText") or label
        begin = self.start
        edit = item.get("textEdit")
        if edit is not None:
            new = edit["newText"]
            begin = self._begin(edit.get("range") or edit["insert"])
        if not isinstance(new, str) or not isinstance(label, str):
            raise TypeError("a label or a text is no string")
        if item.get("insertTextFormat") == _SNIPPET_FORMAT:
            new = _PLACEHOLDER.split(new, maxsplit=1)[0].replace("\\$", "$")
        changes_before = False
        if begin < self.start:
            before = self.text[begin : self.start]
            if new.startswith(before):
                new = new[len(before) :]
            elif match := _AFTER_CHANGE.match(new):
                new, changes_before = match[1], True
            else:
                return None
        else:
            new = self.text[self.start : begin] + new
        match = _IDENTIFIER.match(new)
        if match is None:
            return None
        kind = item.get("kind")
        data = item.get("data")
        return Completion(
            name=match[0],
            kind=_KINDS[kind - 1] if isinstance(kind, int) and 1 <= kind <= len(_KINDS) else "text",
            detail=_detail(item),
            suffix=new[match.end() :],
            adds_import=bool(item.get("additionalTextEdits"))
            or (isinstance(data, dict) and "autoImport" in data),
            changes_before=changes_before,
            is_deprecated=bool(item.get("deprecated")) or _DEPRECATED_TAG in (item.get("tags") or ()),
        )

    def _begin(self, edit_range: dict[str, Any]) -> int:
        position = edit_range["start"]
        key = position["line"], position["character"]
        if key != self._range:
            self._range, self._range_start = key, offset_of(self.text, *key, self.encoding)
        return self._range_start


def _detail(item: dict[str, Any]) -> str:
    detail = item.get("detail")
    if not detail:
        details = item.get("labelDetails")
        detail = details.get("description") or details.get("detail") if isinstance(details, dict) else ""
    return detail if isinstance(detail, str) else ""

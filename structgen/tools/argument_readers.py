"""Read the arguments of a call while it is written, and pass them on as JSON, piece by piece.

Why: OpenAI's API sends arguments as JSON. Keyword arguments and XML elements are converted here.
Invariant: what was passed on is never revoked, and together it is the JSON of the arguments.
Cost: linear in the text; nothing is compiled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping

from .format_texts import ToolFormat
from .forms import Form
from .keyword_readers import read_keywords
from .text_source import CutOff, Grow, Steps, TextSource
from .xml_styles import XmlStyle

__all__ = ["read_arguments"]

_STRUCTURE = re.compile(r'["{}\[\]]')
_ESCAPE = re.compile(r'["\\]')
_NULL = "null"
_CLOSING = {"{": "}", "[": "]"}
_OF_NUMBERS = "0123456789+-.eEtrufals"
"""Characters of numbers, true and false."""


def read_arguments(
    source: TextSource, format: ToolFormat, forms: Mapping[str, Form] | None, grow: Grow
) -> Steps:
    """Read the arguments of one call.

    Args:
        source: The text, at the first character of the arguments.
        format: How they are written.
        forms: The forms of the tool's parameters; None if the turn cannot call it.
        grow: Called with each piece of their JSON.
    """
    if format.arguments == "json":
        if not (yield from source.is_next("{")):
            raise source.missing("{")
        yield from _container(source, grow)
    elif format.arguments in ("python", "keywords"):
        yield from read_keywords(source, grow)
    elif format.arguments == "bare":
        yield from _bare(source, format.quote, grow)
    else:
        assert format.style is not None
        yield from _Elements(source, format.style, forms or {}).read(grow)


def _container(source: TextSource, grow: Grow) -> Steps:
    """Read a JSON object or array, unchanged."""
    depth = 0
    while True:
        found = yield from source.up_to_mark(_STRUCTURE, grow)
        if found == '"':
            yield from _string(source, grow)
        else:
            source.pass_on(source.position + 1, grow)
            depth += 1 if found in "{[" else -1
            if depth == 0:
                return


def _string(source: TextSource, grow: Grow) -> Steps:
    """Read a JSON string with its quotes. An escape is passed on once it is complete."""
    source.pass_on(source.position + 1, grow)
    while True:
        found = yield from source.up_to_mark(_ESCAPE, grow)
        if found == '"':
            source.pass_on(source.position + 1, grow)
            return
        yield from _escape(source, grow)


def _escape(source: TextSource, grow: Grow) -> Steps:
    while True:
        length = 6 if source.text.startswith("u", source.position + 1) else 2
        if len(source.text) >= source.position + length:
            source.pass_on(source.position + length, grow)
            return
        yield from source.more()


def _bare(source: TextSource, quote: str, grow: Grow) -> Steps:
    """Read an object whose keys have no quotes, with strings between two marks."""
    if not (yield from source.is_next("{")):
        raise source.missing("{")
    opened: list[str] = []
    while True:
        if (yield from source.one_of(quote)) is not None:
            grow('"')
            yield from source.through(quote, lambda piece: grow(json.dumps(piece, ensure_ascii=False)[1:-1]))
            grow('"')
            continue
        while not source.has_more:
            yield from source.more()
        letter = source.text[source.position]
        if letter not in "{}[],":
            yield from source.characters(_OF_NUMBERS, grow)
            if source.text.startswith(letter, source.position):
                raise source.missing(quote)  # no value begins like this
            continue
        source.pass_on(source.position + 1, grow)
        if letter in "}]":
            if not opened or opened.pop() != letter:
                raise source.invalid("brackets do not match")
            if not opened:
                return
        elif letter in "{[":
            opened.append(_CLOSING[letter])
        if letter in "{," and opened[-1] == "}" and not (yield from source.is_next("}")):
            name: list[str] = []
            yield from source.through(":", name.append)
            grow(json.dumps("".join(name), ensure_ascii=False) + ":")


class _Elements:
    """Reads one XML element for each argument."""

    def __init__(self, source: TextSource, style: XmlStyle, forms: Mapping[str, Form]) -> None:
        self._source, self._style, self._forms = source, style, forms
        self._prefix, _, rest = style.without_gaps.partition("$name")
        middle, _, self._end = rest.partition("$value")
        self._after_name, _, self._after_type = middle.partition("$type")
        self._types = {shown + self._after_type: kinds for shown, kinds in style.forms} if style.types else {}

    def read(self, grow: Grow) -> Steps:
        """Read all elements."""
        source, separator, begin = self._source, "{", self._prefix
        while (yield from source.one_of(begin)) is not None:
            name: list[str] = []
            yield from source.through(self._after_name, name.append)
            key = self._unescaped("".join(name))
            form = yield from self._form(key)
            grow(f"{separator}{json.dumps(key, ensure_ascii=False)}: ")
            separator, begin = ", ", self._style.between + self._prefix
            yield from self._value(form, grow)
        if source.is_cut_off_in(begin):
            raise CutOff
        grow("{}" if separator == "{" else "}")

    def _unescaped(self, name: str) -> str:
        for character, escape in reversed(list(self._style.escapes.items())):
            name = name.replace(escape, character)
        return name

    def _form(self, key: str) -> Generator[None, None, Form]:
        if not self._types:
            if key not in self._forms:
                raise self._source.invalid(f"an element names {key!r:.60}, which is no parameter")
            return self._forms[key]
        found = yield from self._source.one_of(*self._types)
        if found is None:
            raise self._source.missing(*self._types)
        return "string" if self._types[found] == ("string",) else "json"

    def _value(self, form: Form, grow: Grow) -> Steps:
        source = self._source
        if form == "json":
            yield from self._json_value(grow)
            return
        null = _NULL + self._end
        if form == "string or null" and (yield from source.one_of(null)) is not None:
            grow(_NULL)
            return
        grow('"')
        yield from source.through(self._end, lambda piece: grow(json.dumps(piece, ensure_ascii=False)[1:-1]))
        grow('"')

    def _json_value(self, grow: Grow) -> Steps:
        """Read a JSON value and the end of its element. Markers in its strings do not count."""
        source = self._source
        while not source.has_more:
            yield from source.more()
        first = source.text[source.position]
        if first == '"':
            yield from _string(source, grow)
        elif first in "{[":
            yield from _container(source, grow)
        else:
            yield from source.until(self._end, grow, must_come=True)
        yield from source.expect(self._end)

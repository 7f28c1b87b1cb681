"""JSON that is still being written: an incremental reader that reports events.

Why: a stream shows an object while it grows, long before its text parses.
What: `JsonReader` is fed pieces of text and calls a `JsonEvents` for each container that opens or closes, each key and
each finished value. Positions are offsets into the whole text, so that a finished value can be read again by anyone.
Invariant: a number, a literal or a key counts only when it is finished, since more text could change it; for a whole
JSON text the events describe what `json.loads` returns.
Cost: linear in the text that is fed.
Source: RFC 8259.
"""

from __future__ import annotations

import json
import re
from typing import Protocol

__all__ = ["JsonEvents", "JsonReader"]


class JsonEvents(Protocol):
    """What a `JsonReader` reports. Offsets count characters from the start of the text."""

    def on_open(self, is_object: bool, start: int) -> None:
        """Called after ``{`` or ``[``."""

    def on_key(self, key: str) -> None:
        """Called after the closing quote of an object's key."""

    def on_value(self, start: int, end: int) -> None:
        """Called after a string, number or literal, which is ``text[start:end]``."""

    def on_close(self, start: int, end: int) -> None:
        """Called after ``}`` or ``]``; the container is ``text[start:end]``."""


_SPACE = " \t\n\r"
_STRING_PART = re.compile(r'[^"\\]*')
_SCALAR_PART = re.compile(r"[-+.0-9A-Za-z]*")
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null")
# An escape at the end that more text may complete, a first surrogate that waits for its second included.
_OPEN_ESCAPE = re.compile(
    r"(?:(?<!\\)(?:\\\\)*)(\\(?:u[0-9a-fA-F]{0,3})?|\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?)$"
)


class JsonReader:
    """Reads JSON piece by piece and reports it to `events` (to nothing if that is None)."""

    def __init__(self, events: JsonEvents | None = None) -> None:
        self._events = events
        # One entry per open container: is it an object, and where it starts.
        self._open: list[tuple[bool, int]] = []
        # What may come next: "value", "first item", "first key", "key", "colon", "comma" or "end".
        self._expected = "value"
        self._string: list[str] | None = None
        # What `open_string` has decoded of it, from how many of its pieces, and the rest of these pieces.
        self._decoded, self._pieces, self._rest = "", 0, ""
        self._string_is_key = False
        self._escaped = False
        self._scalar = ""
        self._start = 0
        self._position = 0

    @property
    def is_complete(self) -> bool:
        """Whether a whole value has been read (a number at the top level could always continue)."""
        return self._expected == "end"

    @property
    def open_string(self) -> str | None:
        """The text so far of the string value that is being written; None if there is no such string."""
        if self._string is None or self._string_is_key:
            return None
        raw = self._rest + "".join(self._string[self._pieces :])
        self._pieces = len(self._string)
        found = _OPEN_ESCAPE.search(raw)
        end = found.start(1) if found else len(raw)
        self._rest = raw[end:]
        self._decoded += json.loads('"' + raw[:end] + '"')
        return self._decoded

    def feed(self, text: str) -> None:
        """Read more text.

        Raises:
            ValueError: No JSON text continues like this.
        """
        at = 0
        while at < len(text):
            if self._string is not None:
                at = self._read_string(text, at)
            elif self._scalar:
                at = self._read_scalar(text, at)
            elif text[at] in _SPACE:
                at += 1
            else:
                self._read_mark(text[at], at)
                at += 1
        self._position += len(text)

    def finish(self) -> None:
        """Declare that the text has ended.

        Raises:
            ValueError: The text is only the beginning of a JSON text.
        """
        if self._scalar:
            self._end_scalar(0)
        if not self.is_complete:
            raise ValueError(f"the JSON text ends early, at character {self._position}")

    def _read_string(self, text: str, at: int) -> int:
        assert self._string is not None
        if self._escaped:
            self._string.append(text[at])
            self._escaped = False
            return at + 1
        found = _STRING_PART.match(text, at)
        assert found is not None
        self._string.append(found.group())
        end = found.end()
        if end == len(text):
            return end
        if text[end] == "\\":
            self._string.append("\\")
            self._escaped = True
            return end + 1
        whole = json.loads('"' + "".join(self._string) + '"')
        self._string = None
        if self._string_is_key:
            self._expected = "colon"
            if self._events is not None:
                self._events.on_key(whole)
        else:
            self._end_value(end + 1)
        return end + 1

    def _read_scalar(self, text: str, at: int) -> int:
        found = _SCALAR_PART.match(text, at)
        assert found is not None
        self._scalar += found.group()
        if found.end() < len(text) or self._scalar in ("true", "false", "null"):
            self._end_scalar(found.end())
        return found.end()

    def _read_mark(self, mark: str, at: int) -> None:
        expected = self._expected
        is_value = expected in ("value", "first item")
        if mark == '"' and (is_value or expected in ("first key", "key")):
            self._string, self._string_is_key, self._start = [], not is_value, self._position + at
            self._decoded, self._pieces, self._rest = "", 0, ""
        elif mark in "{[" and is_value:
            self._open.append((mark == "{", self._position + at))
            self._expected = "first key" if mark == "{" else "first item"
            if self._events is not None:
                self._events.on_open(*self._open[-1])
        elif mark == ":" and expected == "colon":
            self._expected = "value"
        elif mark == "," and expected == "comma":
            self._expected = "key" if self._open[-1][0] else "value"
        elif (
            mark in "}]"
            and expected in ("first key" if mark == "}" else "first item", "comma")
            and self._open
            and self._open[-1][0] == (mark == "}")
        ):
            _, start = self._open.pop()
            self._expected = "comma" if self._open else "end"
            if self._events is not None:
                self._events.on_close(start, self._position + at + 1)
        elif is_value and (mark.isdigit() or mark in "-tfn"):
            self._scalar, self._start = mark, self._position + at
        else:
            raise self._error(at, f"{mark!r} cannot stand here")

    def _end_scalar(self, at: int) -> None:
        scalar, self._scalar = self._scalar, ""
        if not _SCALAR.fullmatch(scalar):
            raise self._error(at, f"{scalar!r:.60} is not a JSON value")
        self._end_value(at)

    def _end_value(self, at: int) -> None:
        self._expected = "comma" if self._open else "end"
        if self._events is not None:
            self._events.on_value(self._start, self._position + at)

    def _error(self, at: int, problem: str) -> ValueError:
        return ValueError(f"not JSON at character {self._position + at}: {problem}")

"""JSON that is still being written: the value so far, after every piece of text.

Why: a stream shows an object while it grows, long before its text parses.
What: `PartialJson` is fed text and knows the value so far. An unfinished string is there with what it has
(as an `Unfinished`), an unfinished number, literal or key is not there yet, since more text could change it.
Invariant: after a whole JSON text, `value` is what `json.loads` says; the value of a prefix only ever grows:
keys and items are added, the last string gets longer.
Cost: feeding is linear in the text that is fed; `value` copies the containers so far, `look` the open ones.
Source: RFC 8259.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

__all__ = ["MISSING", "PartialJson", "Unfinished", "copy_containers", "parse_partial"]


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING: Final = _Missing()
"""The value before there is one."""


class Unfinished(str):
    """A string whose closing quote has not been written yet."""

    __slots__ = ()


_SPACE = " \t\n\r"
_STRING_PART = re.compile(r'[^"\\]*')
_SCALAR_PART = re.compile(r"[-+.0-9A-Za-z]*")
# An escape at the end that more text may complete, a first surrogate that waits for its second included.
_OPEN_ESCAPE = re.compile(
    r"(?:(?<!\\)(?:\\\\)*)(\\(?:u[0-9a-fA-F]{0,3})?|\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?)$"
)


def parse_partial(text: str) -> Any:
    """The value of the beginning of a JSON text; `MISSING` if there is none yet."""
    parser = PartialJson()
    parser.feed(text)
    return parser.value


class PartialJson:
    """A JSON reader that can be asked for the value at any time."""

    def __init__(self) -> None:
        self._root: Any = MISSING
        self._open: list[list[Any] | dict[str, Any]] = []
        self._keys: list[str | None] = []
        # What may come next: "value", "first item", "first key", "key", "colon", "comma" or "end".
        self._expected = "value"
        self._string: list[str] | None = None
        self._string_is_key = False
        self._escaped = False
        self._scalar = ""
        self._position = 0

    @property
    def is_complete(self) -> bool:
        """Whether a whole value has been read (a number at the top level could always go on)."""
        return self._expected == "end"

    @property
    def value(self) -> Any:
        """The value so far, a copy; `MISSING` before its first character tells its kind."""
        return copy_containers(self.look()[0])

    def look(self) -> tuple[Any, list[Any]]:
        """The value so far, and those of its containers that are still open.

        Only these are copies. A closed container is the parser's own, which is not to be changed and does not
        change any more: the next look gives the same object.
        """
        spine: list[Any] = [container.copy() for container in self._open]
        for outer, key, inner in zip(spine, self._keys, spine[1:], strict=False):
            outer[-1 if isinstance(outer, list) else key] = inner
        root = spine[0] if spine else self._root
        if self._string is None or self._string_is_key:
            return root, spine
        unfinished = Unfinished(_decode_open("".join(self._string)))
        if not spine:
            return unfinished, spine
        if isinstance(spine[-1], list):
            spine[-1].append(unfinished)
        else:
            spine[-1][self._keys[-1]] = unfinished
        return root, spine

    def feed(self, text: str) -> None:
        """Read more text. Text that no JSON text goes on with raises ValueError."""
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

    def finish(self) -> Any:
        """The value, no text being left; raises ValueError if the text was not whole."""
        if self._scalar:
            self._put(self._parse_scalar(0))
        if not self.is_complete:
            raise ValueError(f"the JSON text ends early, at character {self._position}")
        return self._root

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
            self._keys[-1] = whole
            self._expected = "colon"
        else:
            self._put(whole)
        return end + 1

    def _read_scalar(self, text: str, at: int) -> int:
        found = _SCALAR_PART.match(text, at)
        assert found is not None
        self._scalar += found.group()
        if found.end() < len(text) or self._scalar in ("true", "false", "null"):
            self._put(self._parse_scalar(found.end()))
        return found.end()

    def _read_mark(self, mark: str, at: int) -> None:
        expected = self._expected
        is_value = expected in ("value", "first item")
        if mark == '"' and (is_value or expected in ("first key", "key")):
            self._string, self._string_is_key = [], not is_value
        elif mark in "{[" and is_value:
            container: list[Any] | dict[str, Any] = {} if mark == "{" else []
            self._attach(container)
            self._open.append(container)
            self._keys.append(None)
            self._expected = "first key" if mark == "{" else "first item"
        elif mark == ":" and expected == "colon":
            self._expected = "value"
        elif mark == "," and expected == "comma":
            self._expected = "key" if isinstance(self._open[-1], dict) else "value"
        elif (
            mark == "}"
            and expected in ("first key", "comma")
            and isinstance(self._open[-1], dict)
            or mark == "]"
            and expected in ("first item", "comma")
            and isinstance(self._open[-1], list)
        ):
            self._close()
        elif is_value and (mark.isdigit() or mark in "-tfn"):
            self._scalar = mark
        else:
            raise self._error(at, f"{mark!r} cannot stand here")

    def _parse_scalar(self, at: int) -> Any:
        scalar, self._scalar = self._scalar, ""
        try:
            return json.loads(scalar)
        except ValueError:
            raise self._error(at, f"{scalar!r} is not a JSON value") from None

    def _put(self, value: Any) -> None:
        self._attach(value)
        self._expected = "comma" if self._open else "end"

    def _attach(self, value: Any) -> None:
        if not self._open:
            self._root = value
        elif isinstance(self._open[-1], list):
            self._open[-1].append(value)
        else:
            key = self._keys[-1]
            assert key is not None
            self._open[-1].pop(key, None)  # a repeated key moves to the end, where `value` looks for it
            self._open[-1][key] = value

    def _close(self) -> None:
        self._open.pop()
        self._keys.pop()
        self._expected = "comma" if self._open else "end"

    def _error(self, at: int, problem: str) -> ValueError:
        return ValueError(f"not JSON at character {self._position + at}: {problem}")


def copy_containers(value: Any) -> Any:
    """A copy of all containers; a loop, since text may nest deeper than Python calls."""
    top = [value]
    waiting: list[Any] = [top]
    while waiting:
        container = waiting.pop()
        entries = enumerate(container) if isinstance(container, list) else container.items()
        for key, item in list(entries):
            if isinstance(item, (list, dict)):
                container[key] = item.copy()
                waiting.append(container[key])
    return top[0]


def _decode_open(raw: str) -> str:
    """The text of a string's contents so far, without an escape that is not whole."""
    found = _OPEN_ESCAPE.search(raw)
    return str(json.loads('"' + (raw[: found.start(1)] if found else raw) + '"'))

"""Read a request's JSON object key by key, and refuse unknown keys by name.

Invariant: each key is used, or requires what the server does anyway, or the request is refused.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from structgen.constraints.json_schema.unique_keys import RepeatedKey, loads_unique
from structgen.errors import with_kind

from .errors import ApiError, bad_request

__all__ = ["Fields", "parse_body"]

_DEEPEST = 200
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def parse_body(data: bytes) -> dict[str, Any]:
    """Return the JSON object of a request's body. Raises `ApiError`."""
    try:
        # subtle: given bytes, json also accepts other encodings than UTF-8, and lone surrogates in UTF-8.
        text = data.decode("utf-8-sig")
        body = loads_unique(text, parse_constant=_no_constant)
    except RecursionError:
        raise bad_request(None, "the body is nested too deeply") from None
    except RepeatedKey as error:
        raise bad_request(None, f"the body is ambiguous: {error}") from None
    except ValueError as error:  # JSON, UTF-8, and numbers of too many digits
        raise bad_request(None, f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise bad_request(None, f"the body is {with_kind(body)}, not an object")
    if _is_deep(body, _DEEPEST):
        raise bad_request(None, f"the body is nested more than {_DEEPEST} levels deep")
    if _ESCAPED_SURROGATE.search(text) and (surrogate := _lone_surrogate(body)) is not None:
        where, half = surrogate
        raise bad_request(
            where or None, f"{where or 'the body'} holds {half!r}, a lone surrogate, which is not valid text"
        )
    return body


def _lone_surrogate(value: Any, where: str = "") -> tuple[str, str] | None:
    """Return the path and value of the first lone surrogate."""
    if isinstance(value, str):
        half = _SURROGATE.search(value)
        return None if half is None else (where, half[0])
    if isinstance(value, list):
        parts: Any = ((f"{where}[{index}]", part) for index, part in enumerate(value))
    elif isinstance(value, dict):
        if (key := next((name for name in value if _SURROGATE.search(name)), None)) is not None:
            return where, _SURROGATE.findall(key)[0]
        parts = ((f"{where}.{name}" if where else name, part) for name, part in value.items())
    else:
        return None
    return next(
        (surrogate for path, part in parts if (surrogate := _lone_surrogate(part, path)) is not None), None
    )


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _is_deep(value: Any, most: int) -> bool:
    level = [value]
    for _ in range(most):
        level = [
            inner
            for one in level
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _is_same(value: Any, allowed: Any) -> bool:
    """Return whether two JSON values are equal. Python takes true for 1, and false for 0."""
    return isinstance(value, bool) is isinstance(allowed, bool) and bool(value == allowed)


def _plain(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:g}"


class Fields:
    """The keys of one JSON object, each of which is taken once."""

    def __init__(self, given: Mapping[str, Any], where: str = "") -> None:
        self._given = dict(given)
        self._where = f"{where}." if where else ""
        self._known: list[str] = []

    def name(self, key: str) -> str:
        """Return the path of a key, for errors."""
        return self._where + key

    def take(self, key: str) -> Any:
        """Take the value of a key; None if it is missing."""
        self._known.append(key)
        return self._given.pop(key, None)

    def number(
        self, key: str, low: float, high: float = math.inf, *, whole: bool = False, default: Any = None
    ) -> Any:
        """Take a number from `low` to `high`. Raises `ApiError`."""
        value = self.take(key)
        if value is None:
            return default
        kinds = (int,) if whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
            what = "a whole number" if whole else "a number"
            most = "" if high == math.inf else f" to {_plain(high)}"
            least = f" of {_plain(low)} or more" if high == math.inf else f" from {_plain(low)}"
            raise bad_request(self.name(key), f"{self.name(key)} is {value!r:.60}; it is {what}{least}{most}")
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        """Take a boolean. Raises `ApiError`."""
        value = self.take(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise bad_request(self.name(key), f"{self.name(key)} is {value!r:.60}; it is true or false")
        return value

    def text(self, key: str) -> str | None:
        """Take a text. Return None if the key is absent or null."""
        value = self.take(key)
        if value is not None and not isinstance(value, str):
            raise bad_request(self.name(key), f"{self.name(key)} is {with_kind(value)}, not a text")
        return value

    def object(self, key: str) -> Fields | None:
        """Take an object. Raises `ApiError`."""
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise bad_request(self.name(key), f"{self.name(key)} is {with_kind(value)}, not an object")
        return Fields(value, self.name(key))

    def only(self, key: str, allowed: Sequence[Any], why: str) -> None:
        """Take a key that may only state what the server does anyway. Raises `ApiError`.

        Args:
            key: The key.
            allowed: Its allowed values.
            why: The reason why other values are not supported.
        """
        value = self.take(key)
        if value is not None and not any(_is_same(value, one) for one in allowed):
            raise bad_request(
                self.name(key), f"{self.name(key)}={json.dumps(value)[:60]} is not supported: {why}"
            )

    def ignored(self, *keys: str) -> None:
        """Take keys that do not affect the answer."""
        for key in keys:
            self.take(key)

    def copy(self) -> dict[str, Any]:
        """Return the keys that were not taken, without taking them."""
        return dict(self._given)

    def rest(self) -> dict[str, Any]:
        """Take all remaining keys."""
        rest, self._given = self._given, {}
        return rest

    def end(self) -> None:
        """Raise `ApiError` if keys remain."""
        for key, value in self._given.items():
            if value is not None:
                raise self._unknown(key)

    def _unknown(self, key: str) -> ApiError:
        near = difflib.get_close_matches(key, self._known, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        message = f"{self.name(key)!r:.80} is not supported by this server.{hint}"
        return bad_request(self.name(key), message, "unsupported_parameter")

"""Why a text is not in a language, in the user's terms.

The core tells which byte cannot stand, where in the value that is, which sub-schemas apply there and which of
their rules the byte breaks; here that account becomes sentences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from structgen.errors import show_place

if TYPE_CHECKING:
    from structgen.constraints.base import Constraint

__all__ = ["BrokenRule", "Explanation", "explain_account"]

_MOST_LISTED = 12


@dataclass(frozen=True)
class BrokenRule:
    """A rule that the text breaks: `keyword` of the sub-schema at `pointer`."""

    pointer: str
    keyword: str
    message: str


@dataclass(frozen=True)
class Explanation:
    """What `Matcher.explain` found. ``str()`` of it is a message for people, with the place marked."""

    text: str
    ok: bool
    """The whole text is in the language."""
    viable: bool
    """The whole text can stand as a beginning."""
    position: int
    """Characters of the text that can stand."""
    instance: str
    """JSON pointer into the value, for JSON constraints."""
    reason: str
    rules: tuple[BrokenRule, ...]
    expected: tuple[str, ...]
    """What could stand there instead."""

    def __str__(self) -> str:
        if self.ok:
            return "The text satisfies the constraint."
        lines = [self.reason]
        if self.text or not self.viable:
            lines.append(show_place(self.text, self.position))
        lines += [
            f"  {rule.message}: `{rule.keyword}`" + (f" at {rule.pointer}" if rule.pointer else "")
            for rule in self.rules
        ]
        if self.expected:
            lines.append("  expected: " + ", ".join(self.expected))
        return "\n".join(lines)


def explain_account(account: dict[str, Any], text: bytes, constraint: Constraint) -> Explanation:
    """`account` is the core's (see ``explain.h``) of the whole `text`."""
    shown = text.decode("utf-8", "replace")
    offset: int = account["offset"]
    position = len(text[:offset].decode("utf-8", "replace"))
    viable = offset == len(text)
    ok = viable and account["complete"]
    instance = "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in account["path"])
    rules = () if viable else tuple(_rules(account, instance))
    return Explanation(
        text=shown,
        ok=ok,
        viable=viable,
        position=position,
        instance=instance,
        reason=_reason(account, text, viable, instance, constraint),
        rules=rules,
        expected=() if ok else tuple(_expected(account)),
    )


def _rules(account: dict[str, Any], instance: str) -> list[BrokenRule]:
    found: dict[tuple[str, str], BrokenRule] = {}
    for pointer, keyword, detail in account["rules"]:
        message = f"`{instance or '/'}` " + _RULES.get(keyword, "breaks {detail}").format(detail=detail)
        found.setdefault((pointer, keyword), BrokenRule(pointer, keyword, message))
    return list(found.values())


_RULES = {
    "type": "must be of type {detail}",
    "enum": "must be one of the listed values",
    "minLength": "must have at least {detail} characters",
    "maxLength": "must have at most {detail} characters",
    "pattern or format": "must match its pattern or format",
    "minimum": "must be at least {detail}",
    "maximum": "must be at most {detail}",
    "exclusiveMinimum": "must be greater than {detail}",
    "exclusiveMaximum": "must be less than {detail}",
    "multipleOf": "must be a multiple of {detail}",
    "required": "must have the key {detail!r}",
    "minProperties": "must have at least {detail} keys",
    "maxProperties": "must have at most {detail} keys",
    "duplicate key": "has the key {detail!r} already",
    "additionalProperties": "must not have this key ({detail!r} is not declared)",
    "declared order": "must have its keys in the declared order ({detail!r} comes too late or too early)",
    "minItems": "must have at least {detail} items",
    "maxItems": "must have at most {detail} items",
}


def _reason(account: dict[str, Any], text: bytes, viable: bool, instance: str, constraint: Constraint) -> str:
    place = _PLACES[account["place"]]
    at = f" at `{instance}`" if instance else ""
    if viable:
        return f"The text is a beginning, but not complete: it ends {place}{at}."
    rest = text[account["offset"] :]
    shown = rest[:1].decode("ascii", "replace") if rest[:1] < b"\x80" else rest.decode("utf-8", "replace")[:1]
    return f"Character {shown!r} cannot stand here: {place}{at}."


_PLACES = {
    "value": "where a value begins",
    "string": "inside a string",
    "number": "inside a number",
    "literal": "inside a literal",
    "object": "inside an object, between its entries",
    "key": "inside a key",
    "array": "inside an array, between its items",
    "text": "inside the text",
    "end": "after the end of the text",
}


def _expected(account: dict[str, Any]) -> list[str]:
    keys = [f'"{key}"' for key in account["keys"]]
    if account["place"] == "key" and keys:
        return _cut(keys)
    out = [_name(byte) for byte in account["next"] if byte not in b" \t\r\n"]
    if len(out) > 2 * _MOST_LISTED:
        out = _ranges(account["next"])
    if account["place"] == "object":
        out += [f"key {key}" for key in keys]
        out += [f"missing key {name!r}" for name in account["missing"]]
    if account["complete"]:
        out.append("the end of the text")
    return _cut(out)


def _cut(items: list[str]) -> list[str]:
    return (
        items
        if len(items) <= _MOST_LISTED
        else [*items[:_MOST_LISTED], f"and {len(items) - _MOST_LISTED} more"]
    )


def _name(byte: int) -> str:
    return repr(chr(byte)) if 0x20 <= byte < 0x7F else f"byte 0x{byte:02x}"


def _ranges(allowed: bytes) -> list[str]:
    """Runs of allowed bytes, as ranges of characters."""
    out: list[str] = []
    values = sorted(byte for byte in allowed if 0x20 <= byte < 0x7F)
    start = 0
    for i in range(1, len(values) + 1):
        if i == len(values) or values[i] != values[i - 1] + 1:
            first, last = values[start], values[i - 1]
            out.append(_name(first) if first == last else f"{_name(first)} to {_name(last)}")
            start = i
    if any(byte >= 0x80 for byte in allowed):
        out.append("other characters")
    return out

"""Why a text is not in a language, in the user's terms.

The core reports the first byte that the language does not allow, its position in the value, the sub-schemas that
apply there and the rules that the byte breaks. This module turns that account into sentences.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from structgen.brief import short_repr
from structgen.constraints.base import NO_SCHEMA, RuleViolation, Stop
from structgen.errors import show_place
from structgen.notebook import card, code, pairs, plain, table

__all__ = ["BrokenRule", "Explanation", "explain_account", "stop_of", "texts_to_test"]

_MOST_LISTED = 12
_SATISFIED = "The text satisfies the constraint."
_NUMBER_BEFORE = re.compile(rb"[-+.eE0-9]*$")
_NUMBER = re.compile(rb"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_NUMBER_PREFIX = re.compile(rb"-?((0|[1-9][0-9]*)(\.([0-9]+([eE]([-+]?[0-9]*))?)?|[eE][-+]?[0-9]*)?)?")
_NUMBER_BYTES = b"-+.eE0123456789"
_BLANKS = b" \t\r\n"
_DEEPEST = "max_depth"
_OTHERS = "other characters"
_NUMBER_AND_NEXT = re.compile(rb"[-+.eE0-9]+[^-+.eE0-9]")


@short_repr
@dataclass(frozen=True)
class BrokenRule:
    """A rule that the text breaks: `keyword` of the sub-schema at `pointer`."""

    pointer: str
    keyword: str
    message: str


@short_repr
@dataclass(frozen=True)
class Explanation:
    """What `Matcher.explain` found. ``str()`` of it is a message for people, with the place marked."""

    text: str
    ok: bool
    """The whole text is in the language."""
    viable: bool
    """Some text of the language begins with the whole text."""
    position: int
    """How many characters of the text are allowed."""
    instance: str
    """JSON pointer into the value, for JSON constraints."""
    reason: str
    rules: tuple[BrokenRule, ...]
    expected: tuple[str, ...]
    """What the language allows there: characters, and terminals by their names in the grammar."""
    within: tuple[str, ...] = ()
    """Rules of a grammar that are open at that position, after the lexeme that is open."""
    bounded: bool = False
    """The text must be in a regular language as well as in that of the grammar."""

    def __str__(self) -> str:
        if self.ok:
            return self.reason
        lines = [self.reason]
        if self.text or not self.viable:
            lines.append(show_place(self.text, self.position))
        lines += [
            f"  {rule.message}: `{rule.keyword}`" + (f" at {rule.pointer}" if rule.pointer else "")
            for rule in self.rules[:_MOST_LISTED]
        ]
        if len(self.rules) > _MOST_LISTED:
            lines.append(f"  and {len(self.rules) - _MOST_LISTED} more rules")
        if self.within:
            lines.append("  while reading: " + ", ".join(_cut(list(self.within))))
        if self.bounded:
            lines.append("  and the whole text must match the regular expression that is joined by &")
        if self.expected:
            lines.append("  expected: " + ", ".join(self.expected))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return _html_of(self)


def _html_of(explanation: Explanation) -> str:
    """Return the text with the position marked, the rules, and what the language allows there."""
    about = (
        "it satisfies the constraint"
        if explanation.ok
        else "a beginning"
        if explanation.viable
        else "it cannot stand"
    )
    parts = [f"<div>{plain(explanation.reason)}</div>"]
    if explanation.text and not explanation.ok:
        parts.append(code(show_place(explanation.text, explanation.position)))
    if explanation.rules:
        rows = [
            (plain(rule.message, 400), plain(rule.keyword), plain(rule.pointer))
            for rule in explanation.rules[:_MOST_LISTED]
        ]
        parts.append(table(("rule", "keyword", "at"), rows))
    facts = [("while reading", ", ".join(_cut(list(explanation.within))))] if explanation.within else []
    facts += [("expected", ", ".join(explanation.expected))] if explanation.expected else []
    facts += [
        ("also", "the whole text must match the regular expression that is joined by &")
    ] * explanation.bounded
    return card("Explanation", about, *parts, pairs(facts) if facts else "")


def explain_account(account: dict[str, Any], text: bytes) -> Explanation:
    """Explain the core's account of the whole `text` (`_core/bind/explain.h`)."""
    shown = text.decode("utf-8", "replace")
    offset: int = account["offset"]
    start = _character_start(text, offset)
    position = len(text[:start].decode("utf-8", "replace"))
    viable = offset == len(text)
    ok = viable and account["complete"]
    instance = _pointer(account["path"])
    is_blank = (
        account["optional_space"] and account["place"] != "text"
    )  # elsewhere space is text like any other
    follows = account["next"].strip(_BLANKS if is_blank else b"")
    is_stuck = viable and not ok and not follows and not account["expects_tokens"]
    rules: tuple[BrokenRule, ...] = ()
    if not ok and (is_stuck or not viable or is_json(text)):
        rules = tuple(_spelling(account, text, instance) or _rules(account, instance))
    return Explanation(
        text=shown,
        ok=ok,
        viable=viable,
        position=position,
        instance=instance,
        reason=_SATISFIED if ok else _reason(account, shown, position, viable, instance, is_stuck),
        rules=rules,
        expected=() if ok or is_stuck else tuple(_expected(account, text[start:offset])),
        bounded=not ok and account.get("bounded", False),
        within=() if ok else tuple(name for name in account.get("within", ()) if not _MADE.match(name)),
    )


def texts_to_test(account: dict[str, Any], text: bytes) -> list[tuple[bytes, bool]]:
    """Return the texts that show which rule is broken: a rule is to blame if the text is accepted without it.

    Each comes with whether it must also be complete; the strictest is first, and the list is empty if no rule is to
    blame. A whole JSON text that could continue, as `6` could to `6e-1`, most likely stands for itself; so does a
    number.
    """
    offset: int = account["offset"]
    out: list[tuple[bytes, bool]] = []
    if offset == len(text) and account["complete"]:
        return out
    if (
        account["rules"] and account["rules"][0][1] == _DEEPEST
    ):  # a limit of the vocabulary, not of the schema
        return out
    if is_json(text):
        out.append((text, True))
    if offset < len(text):
        start = _character_start(text, offset)
        number = _NUMBER_AND_NEXT.match(text, start)
        if number is not None:
            out.append((text[: number.end()], False))
        size = next((n for n in (1, 2, 3, 4) if _is_utf8(text[start : start + n])), offset - start + 1)
        out.append((text[: max(start + size, offset + 1)], False))
    return out


def stop_of(account: dict[str, Any], text: bytes) -> Stop:
    """Return where the text leaves the language, in the form that `Constraint.broken` takes."""
    may_begin = (
        *account.get("terminals", ()),
        *_names([bytes([byte]) for byte in account.get("begins", b"")]),
    )
    return Stop(
        text, account["offset"], tuple(account["path"]), account["schemas"], account["place"], may_begin
    )


def is_json(text: bytes) -> bool:
    """Return whether this is a whole JSON text."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return bool(data)


def _character_start(text: bytes, offset: int) -> int:
    """Return where the character begins that the byte at `offset` belongs to."""
    for start in range(offset - 1, max(-1, offset - 4), -1):
        byte = text[start]
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return start if start + length > offset else offset
        if byte < 0x80:
            break
    return offset


def _spelling(account: dict[str, Any], text: bytes, instance: str) -> list[BrokenRule]:
    """Return what is wrong with the JSON itself, under any schema."""
    place, offset = account["place"], account["offset"]
    wrong = text[offset : offset + 1]
    subject = _subject(instance, "", False)
    if place not in _SPELLED or not wrong:
        return []
    if place == "number" or wrong in b"+.":
        number: bytes = _NUMBER_BEFORE.search(text[:offset])[0]  # type: ignore[index]
        if not number and wrong not in b"+.":
            return []
        if wrong in _NUMBER_BYTES:
            is_number = _NUMBER_PREFIX.fullmatch(number + wrong)
            if not is_number and re.fullmatch(rb"-?0", number) and wrong.isdigit():
                return [BrokenRule("", "JSON", f"{subject} must have no leading zeros")]
        else:
            is_number = _NUMBER.fullmatch(number)
        if not is_number:
            return [BrokenRule("", "JSON", f"{subject} must be a number as JSON spells it")]
    if NO_SCHEMA not in account["rules"]:
        return []
    if wrong in _BLANKS:
        if place == "end" or not text[:offset] or is_json(text[:offset]):
            return [BrokenRule("", "white space", "the value must have no white space before or after it")]
        if account["optional_space"]:
            message = (
                "there must be little white space: a few blanks in a row, or one line end and its indentation"
            )
            return [BrokenRule("", "white space", message)]
    if place == "number" and wrong in _NUMBER_BYTES:
        return [BrokenRule("", "number", f"{subject} must be spelled as programs print numbers: {_NUMBERS}")]
    return []


_SPELLED = ("value", "number", "array", "object", "end")
_NUMBERS = (
    "before an exponent one digit that is not 0 and at most 16 after the point; exponents of at most 400"
)


def _rules(account: dict[str, Any], instance: str) -> list[BrokenRule]:
    rules: dict[tuple[str, str, str], BrokenRule] = {}
    for rule in account["rules"]:
        if rule == NO_SCHEMA:
            continue
        pointer, keyword, detail, path, phrase, subject = RuleViolation(*rule)
        is_here = pointer in account["schemas"] and account["place"] in ("array", "object", "key")
        if not subject:
            subject = _subject(instance, keyword, is_here) if path is None else _named(_pointer(path))
        if "/propertyNames" in pointer:
            subject = f"each key of {subject}"
        message = f"{subject} {phrase or _said(keyword, _shortened(detail))}"
        rules.setdefault((pointer, keyword, message), BrokenRule(pointer, keyword, message))
    return list(rules.values())


def _said(keyword: str, detail: str) -> str:
    """Return what the keyword requires."""
    template = _RULES.get(keyword, "must satisfy its rule")
    if keyword in _WITH_DETAIL and not detail:
        template = _WITH_DETAIL[keyword]
    if detail == "1":
        template = _PLURAL.sub(r"{detail} \1", template).replace("item that match", "item that matches")
    return template.format(detail=detail)


def _shortened(detail: str) -> str:
    return detail if len(detail) <= _LONGEST_DETAIL else f"{detail[: _LONGEST_DETAIL - 1]}…"


_LONGEST_DETAIL = 200
_PLURAL = re.compile(r"\{detail\} (item|key|character)s")
_RULES = {
    "type": "must be of type {detail}",
    "max_depth": "must not be nested deeper: the vocabulary's limit on open containers is max_depth={detail}; "
    "Vocabulary.with_limits(max_depth=...) raises it",
    "enum": "must be one of the listed values ({detail})",
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
    "closed=True": "must not have this key ({detail!r} is not declared, and objects are closed)",
    "declared order": "must have its keys in the declared order ({detail!r} comes too late or too early)",
    "minItems": "must have at least {detail} items",
    "maxItems": "must have at most {detail} items",
    "const": "must be that value ({detail})",
    "pattern": "must match the pattern {detail}",
    "format": "must have the format {detail}",
    "uniqueItems": "must not hold the same item twice",
    "contains": "must hold an item that matches",
    "minContains": "must hold at least {detail} items that match `contains`",
    "maxContains": "must hold at most {detail} items that match `contains`",
    **dict.fromkeys(("items", "prefixItems", "additionalItems"), "must not have an item here"),
    "unevaluatedItems": "must have no other items than those that another keyword has looked at, unless they match",
    "unevaluatedProperties": "must have no other keys than those that another keyword has looked at, unless they match",
    "properties": "must not have the key {detail!r}",
    "patternProperties": "must not have a key like this",
    "propertyNames": "must have keys that match",
    "dependentRequired": "{detail}",
    "dependentSchemas": "{detail}",
    "dependencies": "{detail}",
    "anyOf": "must match one of the branches",
    "oneOf": "must match exactly one of the branches, and {detail}",
    "not": "must not {detail}",
    **dict.fromkeys(("then", "else"), "is ruled out by the condition"),
    **dict.fromkeys(("allOf", "$ref"), "is ruled out"),
    "whitespace": "must have the white space that the option `whitespace` requires",
    "ordered": "must have its keys in the declared order (the option `ordered`)",
    "escapes": "must be escaped only where it is necessary (the option `escapes`)",
    "integers": "must be written with digits alone (the option `integers`)",
}

_WITH_DETAIL = {
    "not": "must not match",
    "additionalProperties": "must not have a key that is not declared",
    "closed=True": "must not have a key that is not declared (objects are closed)",
    "enum": "must be one of the listed values",
    "const": "must be that value",
    "pattern": "must match the pattern",
    "format": "must have the format",
    "dependentRequired": "must have the keys that another key requires",
    "dependentSchemas": "must be as one of its keys requires",
    "dependencies": "must be as one of its keys requires",
    "oneOf": "must match exactly one of the branches",
}
"""The same rules, where no detail is known."""


def _subject(instance: str, keyword: str, is_here: bool) -> str:
    """Return what a rule is about: the value at the position, or the container around it."""
    if is_here or not instance or keyword not in _AROUND:
        return _named(instance)
    return (
        f"`{instance}` or a value around it" if keyword in _BRANCHING else _named(instance.rpartition("/")[0])
    )


def _named(instance: str) -> str:
    return f"`{instance}`" if instance else "the value"


def _pointer(path: Sequence[str | int]) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


_BRANCHING = frozenset(["anyOf", "oneOf", "not", "then", "else", "allOf", "$ref"])
_AROUND = _BRANCHING | {
    *(
        "uniqueItems",
        "contains",
        "minContains",
        "maxContains",
        "minItems",
        "maxItems",
        "items",
        "additionalItems",
    ),
    *("unevaluatedItems", "required", "minProperties", "maxProperties", "additionalProperties", "properties"),
    *("closed=True",),
    *("unevaluatedProperties", "patternProperties", "dependentRequired", "dependentSchemas", "dependencies"),
}


def _reason(
    account: dict[str, Any], text: str, position: int, viable: bool, instance: str, is_stuck: bool
) -> str:
    where = _PLACES[account["place"]]
    if account["place"] == "text" and "\n" in text:
        column = position - text.rfind("\n", 0, position)
        where = f"at line {text.count(chr(10), 0, position) + 1}, column {column}"
    pointer_phrase = f" at `{instance}`" if instance else ""
    if is_stuck:
        return f"The text is not complete, and nothing can follow it: it ends {where}{pointer_phrase}."
    if viable:
        return f"The text is a beginning, but not complete: it ends {where}{pointer_phrase}."
    return f"Character {text[position : position + 1]!r} cannot stand here: {where}{pointer_phrase}."


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


def _expected(account: dict[str, Any], prefix: bytes) -> list[str]:
    """Return what the language allows there.

    `prefix` holds the allowed bytes of a character whose next byte is not allowed.
    """
    keys = list(map(_quoted, account["keys"]))
    if account["place"] == "key" and keys:
        return _cut(keys)
    if "terminals" in account and not prefix:
        return _expected_of_grammar(account)
    # Between marks white space says nothing where it may be left out.
    is_free = account["place"] not in ("text", "string", "key") and account["optional_space"]
    following = [prefix + bytes([byte]) for byte in account["next"] if not (is_free and byte in _BLANKS)]
    out = _names(following)
    if len(out) > _MOST_LISTED and not prefix:
        out = _ranges(b"".join(following))
    if account["place"] == "object" and (b'"' in account["next"] or b"," in account["next"]):
        missing = dict.fromkeys(map(_quoted, account["missing"]))
        out += [
            f"key {key}" + (" (required)" if key in missing else "")
            for key in {**dict.fromkeys(keys), **missing}
        ]
    if account["complete"]:
        out.append("the end of the text")
    return _cut(out)


def _expected_of_grammar(account: dict[str, Any]) -> list[str]:
    """Return terminals by name, then texts and characters, as the grammar names them."""
    characters = [bytes([byte]) for byte in account["begins"]]
    shown = _names(characters) if len(characters) <= _MOST_LISTED else _ranges(account["begins"])
    out = sorted({*account["terminals"], *shown} - {_OTHERS}, key=lambda name: (name[:1] in "'\"", name))
    if account["complete"]:
        out.insert(0, "the end of the text")
    return _cut([*out, _OTHERS] if _OTHERS in shown else out)


_MADE = re.compile(r"\.\.\.|[\w-]+\{|__")
"""In names of rules that a front end made: they stand for repetitions and choices."""


def _quoted(key: str) -> str:
    return json.dumps(key, ensure_ascii=False)


def _cut(items: list[str]) -> list[str]:
    return (
        items
        if len(items) <= _MOST_LISTED
        else [*items[:_MOST_LISTED], f"and {len(items) - _MOST_LISTED} more"]
    )


def _names(following: list[bytes]) -> list[str]:
    """Return characters one by one; those whose first bytes alone are known become one entry."""
    out, is_open = [], False
    for data in following:
        try:
            out.append(repr(data.decode()))
        except UnicodeDecodeError:
            is_open = True
    return [*out, _OTHERS] if is_open else out


def _ranges(allowed: bytes) -> list[str]:
    """Return runs of allowed bytes as ranges of characters."""
    out: list[str] = []
    values = sorted(byte for byte in allowed if 0x20 <= byte < 0x7F)
    start = 0
    for i in range(1, len(values) + 1):
        if i == len(values) or values[i] != values[i - 1] + 1:
            first, last = repr(chr(values[start])), repr(chr(values[i - 1]))
            out.append(first if first == last else f"{first} to {last}")
            start = i
    if any(byte >= 0x80 for byte in allowed):
        out.append(_OTHERS)
    return out

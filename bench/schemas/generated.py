"""Schemas of seeded rules, one rule for each construct that is known to be slow the first time.

The rules: patterns with bounds of length; formats with bounds of length; arrays of an `enum` with `uniqueItems`;
`multipleOf` with bounds; large Unicode classes; internationalised formats; large enums; many tools; and `allOf`/`oneOf`
whose tags are reached by references. The sizes of each schema are random, so no two are alike.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from bench.schemas import Source
from bench.schemas.mcp_tools import all_tools
from bench.schemas.strings import word

__all__ = ["NAME", "RULES", "sources", "tools"]

NAME = "generated"
_EACH = 14
"""Schemas of each rule."""
Schema = dict[str, Any]


def sources() -> Iterator[Source]:
    for name, rule in RULES.items():
        for i in range(_EACH):
            yield Source(f"{name}-{i}", rule(random.Random(f"{name}-{i}")))


def _record(source: random.Random, values: list[Schema], required: float = 0.8) -> Schema:
    """An object with these values under words as keys."""
    names = list(dict.fromkeys(word(source) for _ in range(6 * len(values) + 8)))[: len(values)]
    return {
        "type": "object",
        "properties": dict(zip(names, values, strict=True)),
        "required": [name for name in names if source.random() < required],
        "additionalProperties": False,
    }


def _bounds(source: random.Random, least: int, most: int) -> Schema:
    low = source.randint(0, least)
    bounds: Schema = {"maxLength": source.randint(max(low, least), most)}
    return {"minLength": low, **bounds} if source.random() < 0.6 else bounds


_CLASSES = (
    "[a-z]",
    "[A-Za-z0-9]",
    "[A-Za-z0-9_-]",
    "[a-zA-Z0-9 .,]",
    "[!-~]",
    "[0-9a-f]",
    r"[\w.-]",
    r"[^\s/]",
)


def _pattern(source: random.Random) -> Schema:
    """A pattern of the kinds that manifests and services use."""
    first, second = source.sample(_CLASSES, 2)
    head = source.choice(("[a-z]", "[A-Za-z]", "[A-Z]{2}", "arn:aws:[a-z]+:", word(source) + "[-/]"))
    pattern = source.choice(
        (
            f"^{head}{first}*$",
            f"^{head}{first}+(?:[-.]{second}+)*$",
            f"^{first}{{1,{source.randint(16, 120)}}}$",
            f"^(?:{first}+/)?{second}+(?::{second}{{1,{source.randint(8, 64)}}})?$",
            f"^{head}({first}{{0,{source.randint(10, 61)}}}[a-z0-9])?$",
            f"{head}{first}",
            f"^(?:{word(source)}|{word(source)}|{head}{first}*)$",
        )
    )
    return {"type": "string", "pattern": pattern, **_bounds(source, 12, source.choice((30, 64, 255, 2_048)))}


def _patterns(source: random.Random) -> Schema:
    return _record(source, [_pattern(source) for _ in range(source.randint(1, 6))])


_FORMATS = ("date-time", "email", "hostname", "uri", "uri-reference", "ipv6", "uuid", "iri", "uri-template")


def _formats(source: random.Random) -> Schema:
    def value() -> Schema:
        low = source.choice((0, 5, 20))
        return {"type": "string", "format": source.choice(_FORMATS), "minLength": low, "maxLength": low + 200}

    return _record(source, [value() for _ in range(source.randint(1, 5))])


def _unique(source: random.Random) -> Schema:
    def value() -> Schema:
        labels = [f"{word(source)}{source.choice('-_.')}{word(source)}" for _ in range(source.randint(3, 60))]
        values: list[Any] = list(dict.fromkeys(labels))
        if source.random() < 0.3:
            values = list(range(source.randint(5, 300)))
        most = source.randint(2, 12)
        bounds = {"minItems": source.randint(1, min(most, len(values))), "maxItems": most}
        return {"type": "array", "items": {"enum": values}, "uniqueItems": True, **bounds}

    return _record(source, [value() for _ in range(source.randint(1, 4))])


def _multiples(source: random.Random) -> Schema:
    def value() -> Schema:
        step = source.choice((0.01, 0.05, 0.25, 0.5, 2, 3, 5, 7, 12, 15, 60, 64, 100, 125, 250))
        low = source.choice((0, 0, 1, -50, 10)) * step
        high = low + step * source.randint(10, 100_000)
        kind = "integer" if isinstance(step, int) else "number"
        return {"type": kind, "multipleOf": step, "minimum": low, "maximum": high}

    return _record(source, [value() for _ in range(source.randint(1, 6))])


_UNICODE = (
    r"\p{L}",
    r"\p{Lu}",
    r"\p{L}\p{N}",
    r"\p{L}\p{M}",
    r"\p{L}\p{N}\p{P}",
    "À-ɏ",
    "一-龥",
    "\u0400-\u04ff",
)


def _unicode(source: random.Random) -> Schema:
    def value() -> Schema:
        ranges = source.choice(_UNICODE) + source.choice(("", " ", " '-", "_.", "0-9"))
        characters = f"[{ranges}]"
        pattern = source.choice(
            (
                f"^{characters}+$",
                f"^{characters}*$",
                rf"^\p{{L}}{characters}*$",
                f"^{characters}{{1,60}}(?: {characters}+)*$",
            )
        )
        return {"type": "string", "pattern": pattern, **_bounds(source, 4, source.choice((20, 80, 255)))}

    return _record(source, [value() for _ in range(source.randint(1, 4))])


def _international(source: random.Random) -> Schema:
    def value() -> Schema:
        name = source.choice(("idn-hostname", "idn-email", "iri", "iri-reference"))
        bounds = _bounds(source, 3, 253) if source.random() < 0.5 else {}
        return {"type": "string", "format": name, **bounds}

    return _record(source, [value() for _ in range(source.randint(1, 3))])


def _enums(source: random.Random) -> Schema:
    count = source.choice((100, 300, 1_000, 3_000, 10_000, 20_000))
    kind = source.randrange(3)
    if kind == 0:
        values: list[Any] = [f"{word(source)}.{word(source)}.{i:x}" for i in range(count)]
    elif kind == 1:
        values = sorted({source.randrange(10**9) for _ in range(min(count, 3_000))})
    else:
        values = [f"urn:{source.getrandbits(64):016x}" for _ in range(count)]
    return _record(source, [{"enum": values}, {"type": "string", "maxLength": 40}])


def tools(source: random.Random, count: int) -> list[Schema]:
    """Return tools with distinct names and a few parameters each, as MCP servers list them."""
    kinds: tuple[Callable[[], Schema], ...] = (
        lambda: {"type": "string", "description": f"The {word(source)} of the {word(source)}"},
        lambda: {"type": "integer", "minimum": 0, "maximum": source.choice((10, 100, 1_000))},
        lambda: {"type": "boolean"},
        lambda: {"enum": [word(source) for _ in range(source.randint(2, 6))]},
        lambda: {"type": "array", "items": {"type": "string"}, "maxItems": 10},
        lambda: {"type": "string", "format": source.choice(("date-time", "uri", "email"))},
        lambda: _pattern(source),
    )
    made = []
    for i in range(count):
        parameters = [source.choice(kinds)() for _ in range(source.randint(1, 5))]
        for parameter in parameters:
            if "enum" in parameter:
                parameter["enum"] = list(dict.fromkeys(parameter["enum"]))
        name = f"{word(source)}_{word(source)}_{i}"
        made.append({"name": name, "inputSchema": _record(source, parameters, 0.5)})
    return made


def _tools(source: random.Random) -> Schema:
    return all_tools(tools(source, source.choice((50, 100, 200, 400))))


def tagged(source: random.Random, count: int, *, closed: bool) -> Schema:
    """Return a map of components, in the style that generators of schemas from Rust's types write.

    Args:
        source: The source of randomness.
        count: Of the records to choose from.
        closed: Whether `unevaluatedProperties` refuses other keys.
    """
    defs: Schema = {}
    choices: list[Schema] = []
    for i in range(count):
        name = f"{word(source)}_{i}"
        record = _record(
            source, [_pattern(source), {"type": "integer", "minimum": 0}, {"type": "boolean"}], 0.4
        )
        del record["additionalProperties"]
        defs[name] = record
        tag = {"properties": {"type": {"const": name}}, "required": ["type"]}
        choices.append({"allOf": [{"$ref": f"#/$defs/{name}"}, tag]})
    defs["base"] = {
        "type": "object",
        "properties": {"inputs": {"type": "array", "items": {"type": "string"}}},
    }
    value = {"allOf": [{"$ref": "#/$defs/base"}, {"oneOf": choices}]}
    if closed:
        value["unevaluatedProperties"] = False  # type: ignore[assignment]
    return {
        "type": "object",
        "properties": {"components": {"type": "object", "additionalProperties": value, "minProperties": 1}},
        "required": ["components"],
        "$defs": defs,
    }


def _tagged(source: random.Random) -> Schema:
    return tagged(source, source.choice((3, 8, 20, 50)), closed=source.random() < 0.5)


RULES: dict[str, Callable[[random.Random], Schema]] = {
    "patterns": _patterns,
    "formats": _formats,
    "unique": _unique,
    "multiples": _multiples,
    "unicode": _unicode,
    "international": _international,
    "enums": _enums,
    "tools": _tools,
    "tagged": _tagged,
}

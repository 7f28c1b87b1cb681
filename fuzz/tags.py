"""Structural tags as inputs: random ones of all formats and all styles of arguments.

A structural tag combines nearly every type of constraint, and servers take them as untrusted input.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from structgen.tools.xml_styles import STYLES

__all__ = ["SEEDS", "written_tag"]

_TEXTS = ("", "x", "<f>", "</f>", "<f", "\n", "é", '"', "<|open|>", "</parameter>", "true", "a<b")
_TEXT = {"type": "any_text", "excludes": ["<f", "</think>"], "max_chars": 3}
_OBJECT = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": ["integer", "null"]}},
    "required": ["a"],
}
SEEDS = tuple(
    [
        json.dumps({"type": "structural_tag", "format": tag_format})
        for tag_format in (
            *({"type": "json_schema", "style": style, "json_schema": _OBJECT} for style in ("json", *STYLES)),
            {"type": "json_schema", "json_schema": _OBJECT, "excludes": ["<|a|>"], "max_whitespace_cnt": 1},
            {
                "type": "json_schema",
                "style": "glm_xml",
                "json_schema": {**_OBJECT, "minProperties": 2},
                "any_order": True,
            },
            {"type": "regex", "pattern": "[a-c<]+", "excludes": ["ab"]},
            {"type": "tag", "begin": "<f>", "content": _TEXT, "end": ["</f>", "x"]},
            {
                "type": "triggered_tags",
                "triggers": ["<f"],
                "tags": [{"begin": "<f>", "content": _TEXT, "end": "</f>"}],
                "excludes": ["y<"],
            },
            {"type": "dispatch", "rules": [["<f>", _TEXT]], "loop": False},
            {"type": "repeat", "min": 1, "max": 3, "content": {"type": "const_string", "value": "x"}},
        )
    ]
    + [
        json.dumps({"structures": [{"begin": "<f>", "schema": _OBJECT, "end": "</f>"}], "triggers": ["<f"]}),
    ]
)


def written_tag(rng: random.Random, schema: Callable[[], Any]) -> str:
    """A structural tag as JSON; `schema` makes schemas."""
    return json.dumps({"type": "structural_tag", "format": _format(rng, rng.randint(0, 3), schema)})


def _format(rng: random.Random, depth: int, schema: Callable[[], Any]) -> dict[str, Any]:
    def texts(most: int = 2) -> list[str]:
        known = _TEXTS[1:] if rng.random() < 0.9 else _TEXTS
        return [rng.choice(known) for _ in range(rng.randint(0, most))]

    def inner() -> Any:
        return _format(rng, depth - 1, schema)

    def tag() -> dict[str, Any]:
        end = rng.choice(_TEXTS) if rng.random() < 0.7 else texts(3)
        return {"type": "tag", "begin": rng.choice(_TEXTS), "content": inner(), "end": end}

    kinds: list[Callable[[], dict[str, Any]]] = [
        lambda: {"type": "const_string", "value": rng.choice(_TEXTS)},
        lambda: {"type": "any_text", "excludes": texts(), "max_chars": rng.choice((None, 0, 2, 100))},
        lambda: {"type": "regex", "pattern": rng.choice((".*", "[a-c]+", "x{2}", "(")), "excludes": texts()},
        *3 * [lambda: _schema(rng, schema, texts)],
    ]
    if depth > 0:
        kinds += [
            lambda: {"type": "sequence", "elements": [inner() for _ in range(rng.randint(1, 3))]},
            lambda: {"type": "or", "elements": [inner() for _ in range(rng.randint(1, 3))]},
            lambda: {"type": rng.choice(("optional", "star", "plus")), "content": inner()},
            lambda: {
                "type": "repeat",
                "min": rng.randint(0, 2),
                "max": rng.randint(-1, 4),
                "content": inner(),
            },
            tag,
            lambda: {
                "type": "triggered_tags",
                "triggers": texts(),
                "tags": [tag() for _ in range(rng.randint(1, 2))],
                "at_least_one": rng.random() < 0.5,
                "stop_after_first": rng.random() < 0.5,
                "excludes": texts(),
            },
            lambda: {
                "type": "tags_with_separator",
                "tags": [tag()],
                "separator": rng.choice(_TEXTS),
                "at_least_one": rng.random() < 0.5,
            },
            lambda: {
                "type": "dispatch",
                "rules": [[rng.choice(_TEXTS), inner()]],
                "loop": rng.random() < 0.5,
            },
        ]
    return rng.choice(kinds)()


def _schema(rng: random.Random, schema: Callable[[], Any], texts: Callable[[], list[str]]) -> dict[str, Any]:
    form = {"type": "json_schema", "json_schema": schema(), "style": rng.choice(("json", *STYLES))}
    if rng.random() < 0.3:
        form["any_order"] = rng.random() < 0.8
    if rng.random() < 0.3:
        form["excludes"] = texts()
    if rng.random() < 0.3:
        form["max_whitespace_cnt"] = rng.choice((0, 1, 5, 10**6))
    return form

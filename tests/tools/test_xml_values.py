"""Values that many tools share: no tool gets the value of another, and simplified expressions keep their texts."""

from __future__ import annotations

import random
from typing import Any

import pytest

import structgen as sg
from structgen import _core
from structgen.constraints.expressions import (
    RE,
    TEXT,
    alternate,
    character_class,
    complement,
    concat,
    intersect,
    literal,
    repeat,
)
from structgen.constraints.occurrences import without
from structgen.serving.requests import constraint_of
from structgen.tools import tools
from structgen.tools.xml_styles import STYLES
from structgen.tools.xml_texts import lacks, padded, unquoted

from .test_xml_elements import fits, object_schema

_LINE = literal("\n")


def _form(schema: Any, style: str) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": schema, "style": style}


def _constraint(form: dict[str, Any]) -> sg.Constraint:
    return constraint_of("structural_tag", {"type": "structural_tag", "format": form})


def _drawn(constraint: sg.Constraint, rng: random.Random) -> str | None:
    """Return a random text of at most 300 bytes, if one was found."""
    matcher, written = sg.Matcher(constraint, sg.Vocabulary.of_bytes()), bytearray()
    for _ in range(300):
        if matcher.is_complete() and rng.random() < 0.3:
            break
        mask = matcher.mask()
        allowed = [byte for byte in range(128) if mask[byte >> 5] >> (byte & 31) & 1]
        if not allowed:
            break
        ends = [byte for byte in allowed if byte in b"<>/\n"]
        byte = rng.choice(ends if ends and rng.random() < 0.5 else allowed)
        assert matcher.advance(byte)
        written.append(byte)
    return written.decode() if matcher.is_complete() else None


@pytest.mark.parametrize("style", STYLES)
def test_each_tool_has_its_own_values(style: str) -> None:
    rng = random.Random(7)
    checked = 0
    for _ in range(12):
        schemas: list[Any] = []
        alone: list[sg.Constraint] = []
        while len(schemas) < 4:
            schema = {"$defs": {"leaf": rng.choice([{"type": "integer"}, {"maxLength": 2}])}}
            schema |= object_schema(rng)
            try:
                constraint = _constraint(_form(schema, style))
                sg.Matcher(constraint, sg.Vocabulary.of_bytes())  # raises an error if there is no text
            except sg.errors.StructgenError:
                continue
            schemas.append(schema)
            alone.append(constraint)
        tags = [
            {"type": "tag", "begin": f"[{index}]", "content": _form(schema, style), "end": "[end]"}
            for index, schema in enumerate(schemas)
        ]
        together = _constraint({"type": "or", "elements": tags})
        for text in filter(None, (_drawn(one, rng) for one in alone for _ in range(3))):
            for index, one in enumerate(alone):
                assert fits(together, f"[{index}]{text}[end]") == fits(one, text), (schemas[index], text)
                checked += 1
    assert checked > 40


@pytest.mark.parametrize("name", ["qwen3_coder", "glm47", "minimax_m2", "deepseek_v32", "kimi_k3"])
def test_tools_of_a_turn_have_their_own_values(name: str) -> None:
    parameters = [
        {"type": "string"},
        {"type": "string", "maxLength": 3},
        {"type": "string", "pattern": "^[a-c]+$"},
        {"type": "string", "pattern": "^[a-d]+$"},
        {"type": ["string", "null"], "maxLength": 4},
        {"type": "integer", "maximum": 9},
        {"type": "integer", "maximum": 8},
        {"enum": ["abcd", "e"]},
        {"type": ["string", "integer"]},
        {"type": "string", "pattern": "^[a-c]+$"},
        {"type": "array", "items": {"type": "integer", "maximum": 8}},
    ]
    definitions = [
        {
            "name": f"f{index}",
            "parameters": {"type": "object", "properties": {"x": one}, "required": ["x"]},
        }
        for index, one in enumerate(parameters)
    ]
    together = tools(definitions, format=name, tool_choice="required")
    values = ["abcd", "abc", "abd", "e", "", None, 9, 8, [8], [9]]
    for definition in definitions:
        alone = tools([definition], format=name, tool_choice="required")
        called = definition["name"]
        assert together.forms.get(called) == alone.forms.get(called)
        for value in values:
            turn = sg.tools.AssistantTurn("", (sg.tools.ToolCall(called, {"x": value}),))
            assert _is_written(together, turn) == _is_written(alone, turn), (called, value)


def _is_written(constraint: Any, turn: Any) -> bool:
    try:
        constraint.render(turn)
    except sg.errors.OutputInvalid:
        return False
    return True


def _is_empty(expression: RE) -> bool:
    space = _core.RegexSpace()
    return not space.alive(space.compile(expression))


def _expression(rng: random.Random, depth: int = 0) -> RE:
    kinds = [
        lambda: literal(rng.choice(["", "a", "\n", "<", "b\n", "a<b"])),
        lambda: character_class(rng.choice([((10, 10), (97, 98)), ((60, 62),), ((97, 99),)])),
        lambda: TEXT,
    ]
    if depth < 3:
        inner = lambda: _expression(rng, depth + 1)  # noqa: E731
        kinds += 2 * [
            lambda: concat([inner(), inner()]),
            lambda: alternate([inner(), inner()]),
            lambda: intersect([inner(), inner()]),
            lambda: repeat(inner(), 0, rng.choice([1, 3, None])),
            lambda: complement(inner()),
        ]
    return rng.choice(kinds)()


def test_a_character_that_is_lacking_occurs_in_no_text() -> None:
    rng = random.Random(3)
    found = 0
    for _ in range(600):
        expression, character = _expression(rng), rng.choice("\n<a")
        if lacks(expression, character):
            found += 1
            assert _is_empty(intersect([expression, concat([TEXT, literal(character), TEXT])]))
    assert found > 60


def test_lacking_is_unknown_where_an_expression_is_too_deep() -> None:
    expression: RE = literal("a")
    for _ in range(3_000):
        expression = ("scope", expression)
    assert not lacks(expression, "b")


def test_padding_and_forbidden_texts_have_their_meaning() -> None:
    rng = random.Random(4)
    for _ in range(300):
        strings = _expression(rng)
        before, after = complement(concat([_LINE, TEXT])), complement(concat([TEXT, _LINE]))
        meant = alternate(
            [
                concat([_LINE, strings, _LINE]),
                concat([_LINE, intersect([strings, after])]),
                concat([intersect([strings, before]), _LINE]),
                intersect([strings, before, after]),
            ]
        )
        never = tuple(rng.sample(["<b", "a\n", "\n<", "b"], rng.randrange(3)))
        for made, wanted in (
            (padded(strings), meant),
            (unquoted(strings, never), intersect([strings, without(never)])),
        ):
            assert _is_empty(intersect([made, complement(wanted)]))
            assert _is_empty(intersect([wanted, complement(made)]))

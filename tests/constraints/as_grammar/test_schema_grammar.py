"""Schemas as grammars compared with the automaton of schemas: random texts of one are texts of the other."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import structgen as sg
from structgen import _core
from structgen.constraints.as_grammar.json_strings import json_strings
from structgen.constraints.as_grammar.schema_grammar import grammar_of_schema
from structgen.diffusion import Canvas, Hole
from structgen.errors import CombinationError, LimitExceeded

BYTES = sg.Vocabulary.of_bytes()
ABC: dict[str, Any] = {name: {"type": "null"} for name in "abc"}
CLOSED: dict[str, Any] = {"type": "object", "additionalProperties": False}
EXACT: list[Any] = [
    True,
    {"type": "string"},
    {"type": "string", "pattern": '^[a-z"\\\\\\n]+$', "maxLength": 9},
    {"type": "string", "minLength": 2, "maxLength": 3},
    {"type": "string", "format": "date"},
    {"enum": ["a", "b\n", 3, None, True, 2.5]},
    {"enum": ["a", "bcd", 7], "type": "string", "minLength": 2},
    {"type": "integer", "minimum": -3, "exclusiveMaximum": 150},
    {"type": "number", "multipleOf": 0.25, "maximum": 10},
    {"const": 7},
    {"const": {"x": [1, "a"], "y": None}},
    {"type": "array", "items": {"enum": ["a", 1]}, "minItems": 1, "maxItems": 3},
    {
        "type": "array",
        "prefixItems": [{"type": "integer"}, {"type": "null"}],
        "items": {"type": "boolean"},
        "minItems": 1,
    },
    {"type": "array", "prefixItems": [{"type": "null"}, {"type": "null"}], "items": False, "minItems": 1},
    {"type": "array", "items": False},
    {"type": "array", "maxItems": 0},
    {"type": "array", "maxItems": 1, "uniqueItems": True, "items": {"type": "null"}},
    {**CLOSED, "properties": ABC, "required": ["b"]},
    {**CLOSED, "properties": ABC, "minProperties": 1, "maxProperties": 2},
    {**CLOSED, "properties": {'q"': {"type": "boolean"}, "next": {"$ref": "#"}}, "required": ['q"']},
    {**CLOSED},
    {"anyOf": [{"type": "number", "multipleOf": 0.5}, {"const": "q"}, {"type": ["boolean", "null"]}]},
    {"oneOf": [{"type": "string", "minLength": 2}, {"type": "null"}, {"type": "array", "maxItems": 0}]},
    {
        "oneOf": [
            {**CLOSED, "properties": {"kind": {"const": "a"}, "n": {"type": "null"}}, "required": ["kind"]},
            {**CLOSED, "properties": {"kind": {"enum": ["b", "c"]}}, "required": ["kind"]},
        ]
    },
    {"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 5}]},
    {"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}},
    {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "null"}},
]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"whitespace": "compact"},
    {"whitespace": "json.dumps", "ordered": True},
    {"integers": "digits"},
]


def walk(matcher: Any, rng: random.Random) -> bytes | None:
    """A random text, ended by a short completion."""
    matcher.reset()
    text = b""
    for _ in range(80):
        following, may_end = matcher.next_bytes()
        if may_end and (not following or rng.random() < 0.3):
            return text
        byte = rng.choices(following, [6 if one in b'"]},:' else 1 for one in following])[0]
        assert matcher.advance(byte)
        text += bytes([byte])
    end = matcher.witness()
    return None if end is None else text + end


def accepts(matcher: Any, text: bytes) -> bool:
    matcher.reset()
    return bool(matcher.viable_bytes(text) == len(text) and matcher.next_bytes(text)[1])


def both(schema: Any, **options: Any) -> tuple[Any, Any, list[Any]]:
    constraint = sg.json_schema(schema, **options)
    ir, notes = grammar_of_schema(constraint.lower()[1])
    make = BYTES.engine.compile
    return _core.Matcher(make(constraint.lower())), _core.Matcher(make(ir)), notes


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("schema", EXACT, ids=lambda one: json.dumps(one)[:60])
def test_the_texts_are_the_same(schema: Any, options: dict[str, Any]) -> None:
    mine, grammar, notes = both(schema, **options)
    repeats = {note.kind for note in notes} == {"repeats"}
    assert not notes or repeats
    rng = random.Random(json.dumps(schema))
    for _ in range(40):
        text = walk(mine, rng)
        assert text is None or accepts(grammar, text), text
        text = walk(grammar, rng)
        assert text is None or repeats or accepts(mine, text), text
        if text:  # a text that is nearly right
            place = rng.randrange(len(text))
            wrong = text[:place] + rng.choice([b"", b" ", b",", b'"', b"1", b"}"]) + text[place + 1 :]
            assert repeats or accepts(mine, wrong) == accepts(grammar, wrong), wrong


@pytest.mark.parametrize(
    ("schema", "kinds"),
    [
        ({"type": "object", "properties": ABC}, {"narrowed"}),
        ({**CLOSED, "properties": {name: {"type": "null"} for name in "abcdef"}}, {"narrowed"}),
        ({"type": "object"}, {"repeats"}),
        ({**CLOSED, "properties": ABC}, set()),
    ],
)
def test_differences_from_the_schema_are_noted(schema: Any, kinds: set[str]) -> None:
    mine, grammar, notes = both(schema)
    assert {note.kind for note in notes} == kinds
    rng = random.Random(1)
    if "repeats" not in kinds:
        for _ in range(40):
            text = walk(grammar, rng)
            assert text is None or accepts(mine, text)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"not": {"type": "null"}}, "not"),
        ({"type": "array", "contains": {"type": "null"}}, "contains"),
        ({"type": "array", "uniqueItems": True}, "uniqueItems"),
        ({"properties": {"a": {"type": "array", "uniqueItems": True}}}, "at #/properties/a"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "oneOf"),
        ({"type": "object", "minProperties": 2}, "counts of undeclared keys"),
        ({"type": "object", "patternProperties": {"a": True}}, "patternProperties"),
        ({"if": {"type": "null"}, "then": False}, "if"),
    ],
)
def test_what_is_no_grammar_is_refused(schema: Any, said: str) -> None:
    with pytest.raises(CombinationError, match=said):
        grammar_of_schema(sg.json_schema(schema).lower()[1])


def test_a_field_that_the_translation_does_not_know_is_refused() -> None:
    node = {"pointer": "#", "types": 16, "minWords": 2}
    ir = {**sg.json_schema(True).lower()[1], "nodes": (node,), "root": 0}
    with pytest.raises(CombinationError, match="minWords"):
        grammar_of_schema(ir)


def test_layouts_and_limits() -> None:
    for options in ({"whitespace": "indented"}, {"escapes": "all"}):
        with pytest.raises(CombinationError, match="canvas"):
            grammar_of_schema(sg.json_schema(True, **options).lower()[1])
    many = {"allOf": [{"anyOf": [{"minimum": a}, {"maximum": -a}]} for a in range(12)]}
    with pytest.raises(LimitExceeded, match="combinations"):
        grammar_of_schema(sg.json_schema(many).lower()[1])


@pytest.mark.parametrize(
    "pattern",
    [r'[\x00-\x20"\\a]{0,2}', r"(?!.*ab)[ab\n]*", r'a"|\n+', r"[^a]?", r"(?=.b)[ab]*", "é\U0001f600*"],
)
def test_strings_are_written_as_json(pattern: str) -> None:
    language = sg.regex(pattern, dialect="ecma") if "(?" in pattern else sg.regex(pattern)
    plain = sg.Matcher(language, BYTES)
    expression = language.regular()
    assert expression is not None
    written = _core.Matcher(BYTES.engine.compile(("regex", json_strings([expression]))))
    rng = random.Random(pattern)
    for _ in range(300):
        text = "".join(rng.choice('ab"\\\n\x00\x1f é\U0001f600') for _ in range(rng.randrange(4)))
        expected = plain.explain(text).ok
        assert accepts(written, json.dumps(text, ensure_ascii=False).encode()) == expected, text
    assert not accepts(written, b'"\\u0061"') and not accepts(written, b'"\\/"')


def test_schemas_that_hold_themselves_and_deep_ones() -> None:
    """Branches distinguished by a key, after which the schema starts again; and too many levels."""
    around = {**CLOSED, "properties": {"k": {"$ref": "#"}}, "required": ["k"]}
    with pytest.raises(CombinationError, match="oneOf"):
        grammar_of_schema(sg.json_schema({"oneOf": [around, {**around, "minProperties": 1}]}).lower()[1])
    chain = {
        f"d{place}": {**CLOSED, "properties": {"k": {"$ref": f"#/$defs/d{place + 1}"}}, "required": ["k"]}
        for place in range(1_500)
    }
    deep = {"$ref": "#/$defs/d0", "$defs": {**chain, "d1500": {"type": "null"}}}
    with pytest.raises(LimitExceeded, match="nested too deeply"):
        grammar_of_schema(sg.json_schema(deep).lower()[1])


def test_objects_beside_each_other_keep_their_keys() -> None:
    """Many schemas, one after the other: rules are named by what they are of, not by where that lay in memory."""
    for size in range(1, 40):
        names = [f"p{place}" for place in range(size % 7 + 1)]
        inner = {**CLOSED, "properties": {f"q{size}": {"type": "integer"}}, "required": [f"q{size}"]}
        schema = {**CLOSED, "properties": dict.fromkeys(names[:2], inner), "required": names[:1]}
        canvas = Canvas(
            sg.json_schema(schema, whitespace="compact"), BYTES, [f'{{"p0":{{"q{size}":', Hole(2), "}}"]
        )
        assert canvas.completable() and ord("7") in canvas.allowed(len(canvas) - 3), schema


def test_branches_that_lead_nowhere_are_bounded() -> None:
    groups = [{"anyOf": [{"minLength": i + 1}, {"maxLength": 100 + i}]} for i in range(24)]
    schema = {"$defs": {"no": False}, "properties": {"b": {"allOf": [*groups, {"$ref": "#/$defs/no"}]}}}
    with pytest.raises(LimitExceeded, match="branches"):
        grammar_of_schema(sg.json_schema(schema).lower()[1])


def test_objects_of_many_keys() -> None:
    """In the order of the schema; the rules do not grow with how many came before."""
    names = [f"k{place}" for place in range(150)]
    schema = {**CLOSED, "properties": {name: {"type": "null"} for name in names}}
    canvas = Canvas(
        sg.json_schema(schema, whitespace="compact"), BYTES, ['{"k3":null,"k149', Hole(2), "null}"]
    )
    assert canvas.completable()

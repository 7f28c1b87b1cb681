"""Arguments as elements, against a slow writer and a slow reader: random schemas, random values, random texts."""

from __future__ import annotations

import json
import random
import re
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import structgen as sg
from structgen.errors import ConstraintError, LimitExceeded, UnsupportedKeyword
from structgen.serving.requests import constraint_of
from structgen.tools.xml_styles import STYLES as TABLE
from tests.oracles.json_validator import Validator
from tests.oracles.xml_arguments import STYLES, Unreadable, readings, write

VOCABULARY = sg.Vocabulary.of_bytes()
PIECES = [
    *'ab1.- \n{}[]":,<>',
    "x_a",
    "true",
    "null",
    "12",
    "red",
    "</parameter>",
    "</arg_value>",
    "</cofl:value>",
]
ROUNDS = 60


def tag(schema: Any, style: str, **options: Any) -> sg.Constraint:
    form = {"type": "json_schema", "json_schema": schema, "style": style, **options}
    return constraint_of("structural_tag", {"type": "structural_tag", "format": form})


def fits(constraint: sg.Constraint, text: str) -> bool:
    matcher = sg.Matcher(constraint, VOCABULARY)
    return all(map(matcher.advance, text.encode())) and matcher.is_complete()


# Random schemas and values.


def value_schema(rng: random.Random, depth: int = 0) -> Any:
    kinds = [
        lambda: {"type": "string"},
        lambda: {"type": "string", "pattern": "^[a-c]+$"},
        lambda: {"type": "string", "minLength": 1, "maxLength": 3},
        lambda: {"enum": ["red", 12, None, "true"]},
        lambda: {"const": rng.choice(["12", 12, "red", [1, "a"], {"a": 1}])},
        lambda: {"type": "integer", "minimum": 1},
        lambda: {"type": ["string", "integer"]},
        lambda: {"type": ["null", "boolean"]},
        lambda: {"anyOf": [{"type": "boolean"}, {"type": "string", "maxLength": 2}]},
        lambda: {"type": "array", "items": {"type": ["integer", "string"]}, "maxItems": 2},
        lambda: {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 1},
        lambda: {"$ref": "#/$defs/leaf"},
        lambda: True,
    ]
    if depth < 2:
        kinds += 2 * [lambda: object_schema(rng, depth + 1)]
    return rng.choice(kinds)()


def object_schema(rng: random.Random, depth: int = 0) -> dict[str, Any]:
    names = rng.sample(["a", "b", "x_a", "c1"], rng.randrange(4))
    schema: dict[str, Any] = {"type": "object"}
    if names:
        schema["properties"] = {name: value_schema(rng, depth + 1) for name in names}
        schema["required"] = [name for name in names if rng.random() < 0.4]
    if rng.random() < 0.6:
        schema["additionalProperties"] = rng.choice([False, True, {"type": "integer"}, {"type": "string"}])
    if rng.random() < 0.2:
        schema["patternProperties"] = {"^x_": value_schema(rng, 2), "^1$": {"type": "boolean"}}
    if rng.random() < 0.2:
        schema["propertyNames"] = rng.choice([{"pattern": "^[a-z_]+$"}, {"enum": ["a", "b", "z"]}])
    if rng.random() < 0.2:
        schema["maxProperties"] = rng.randrange(3)
    if rng.random() < 0.2:
        schema["minProperties"] = rng.randrange(3)
    if len(names) > 1 and rng.random() < 0.2:
        schema["dependentRequired"] = {names[0]: [names[1]]}
    if len(names) > 1 and rng.random() < 0.2:
        schema["anyOf"] = [{"required": [names[0]]}, {"required": [names[1]], "maxProperties": 2}]
    return schema


def whole_schema(rng: random.Random) -> dict[str, Any]:
    schema = object_schema(rng)
    leaf = {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/leaf"}}}
    return {**schema, "$defs": {"leaf": {**leaf, "required": ["v"], "additionalProperties": False}}}


def random_value(rng: random.Random, schema: Any, root: Any, depth: int = 0) -> Any:
    """Draw a value, often one of the schema."""
    if isinstance(schema, dict) and "$ref" in schema:
        return random_value(rng, root["$defs"]["leaf"], root, depth + 1)
    if isinstance(schema, dict) and rng.random() < 0.85:
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return rng.choice(schema["enum"])
        if schema.get("type") == "object":
            return random_object(rng, schema, root, depth)
        if schema.get("type") == "array":
            return [rng.choice([1, "a", None]) for _ in range(rng.randrange(3))]
        if schema.get("type") == "string":
            return rng.choice(["abc", "a", "", "12", "b\n", "\nc"])
    return rng.choice(["a", "12", "red", "", "true", 12, 0, 1.5, True, None, [], [1, "a"], {}, {"a": 1}])


def random_object(rng: random.Random, schema: Any, root: Any, depth: int = 0) -> dict[str, Any]:
    """Draw an object: declared keys in their order, then others."""
    declared: dict[str, Any] = schema.get("properties", {})
    there = [
        name
        for name in declared
        if depth < 4 and rng.random() < (0.9 if name in schema.get("required", ()) else 0.5)
    ]
    others = [name for name in ("z", "x_b", "1", "Q") if name not in declared and rng.random() < 0.15]
    some = {name: random_value(rng, declared[name], root, depth + 1) for name in there}
    return some | {name: random_value(rng, True, root, depth + 1) for name in others}


# Reference.


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """Close the schema: a function takes only the arguments that its schema names."""
    opening = {"additionalProperties", "patternProperties", "propertyNames", "anyOf", "dependentRequired"}
    if "properties" in schema and not opening & schema.keys():
        return {**schema, "additionalProperties": False}
    return schema


def in_order(schema: Any, value: Any, root: Any) -> bool:
    """Return whether, at each depth, declared keys come in order, then those of patterns, then others."""
    if isinstance(schema, dict) and "$ref" in schema:
        schema = root["$defs"]["leaf"]
    if not isinstance(value, dict) or not isinstance(schema, dict) or "const" in schema or "enum" in schema:
        return True
    listed = [*schema.get("properties", {}), *(["1"] if "patternProperties" in schema else [])]
    places = {name: place for place, name in enumerate(listed)}
    found = [places.get(name, len(places)) for name in value]
    return found == sorted(found) and all(
        in_order(schema.get("properties", {}).get(name), one, root) for name, one in value.items()
    )


def is_name(name: str, schema: Any) -> bool:
    """Return whether an undeclared key may occur: an XML name, unless the schema constrains its keys."""
    described = name in schema.get("properties", {}) or "propertyNames" in schema
    described = described or any(
        name.startswith("x_") or name == "1" for _ in schema.get("patternProperties", ())
    )
    return described or re.fullmatch(r"[^\W\d][\w.-]*", name) is not None


def right(schema: dict[str, Any], style: str, text: str) -> bool:
    whole = closed(schema)
    validator = Validator(whole)
    try:
        for pairs in readings(style, text):
            value = dict(pairs)
            if len(value) < len(pairs) and any(name in schema.get("properties", {}) for name, _ in pairs):
                continue
            if (
                validator.accepts(json.dumps(value))
                and in_order(whole, value, whole)
                and names_are_written(value, style, whole)
            ):
                return True
    except Unreadable:
        pass
    return False


def names_are_written(value: Any, style: str, schema: Any, root: Any = None) -> bool:
    root = root or schema
    if isinstance(schema, dict) and "$ref" in schema:
        schema = root["$defs"]["leaf"]
    schema = schema if isinstance(schema, dict) else {}
    if not isinstance(value, dict) or "const" in schema:
        return True
    inner = schema.get("properties", {})
    return all(is_name(name, schema) for name in value) and (
        style != "cohere_xml"
        or all(names_are_written(one, style, inner.get(name, {}), root) for name, one in value.items())
    )


# Tests.


def possible(schema: Any, style: str, **options: Any) -> sg.Constraint | None:
    """Return the constraint, or None if the schema has no value or counts keys that could repeat."""
    try:
        made = tag(schema, style, **options)
        sg.Matcher(made, VOCABULARY)
    except (ConstraintError, UnsupportedKeyword) as error:
        assert any(one in str(error) for one in ("minProperties", "no object", "unsatisfiable", "no text")), (
            error
        )
        return None
    return made


@pytest.mark.parametrize("style", STYLES)
def test_written_objects_fit_where_they_are_valid(style: str) -> None:
    rng = random.Random(f"written {style}")
    fitting = others = 0
    for _ in range(ROUNDS):
        schema = whole_schema(rng)
        made = possible(schema, style)
        if made is None:
            continue
        for _ in range(8):
            text = write(style, random_object(rng, schema, schema), rng)
            expected = right(schema, style, text)
            assert fits(made, text) == expected, f"{json.dumps(schema)} {text!r}"
            fitting, others = fitting + expected, others + (not expected)
    assert fitting > ROUNDS and others > ROUNDS


@pytest.mark.parametrize("style", STYLES)
def test_changed_texts_fit_where_they_read_as_valid(style: str) -> None:
    rng = random.Random(f"changed {style}")
    for _ in range(ROUNDS):
        schema = whole_schema(rng)
        made = possible(schema, style)
        if made is None:
            continue
        for _ in range(4):
            text = write(style, random_object(rng, schema, schema), rng)
            start = rng.randrange(len(text) + 1)
            text = text[:start] + rng.choice(["", *PIECES]) + text[start + rng.randrange(3) :]
            assert fits(made, text) == right(schema, style, text), f"{json.dumps(schema)} {text!r}"


@pytest.mark.parametrize("any_order", [False, True])
@pytest.mark.parametrize("style", STYLES)
def test_drawn_texts_read_back_as_valid(style: str, any_order: bool) -> None:
    rng = random.Random(f"drawn {style}")
    drawn = 0
    for _ in range(ROUNDS):
        schema = whole_schema(rng)
        made = possible(schema, style, any_order=any_order)
        if made is None:
            continue
        text = walked(made, rng)
        whole = closed(schema)
        validator = Validator(whole)
        assert any(validator.accepts(json.dumps(dict(pairs))) for pairs in readings(style, text)), (
            f"{json.dumps(schema)} {text!r}"
        )
        drawn += 1
    assert drawn > ROUNDS / 2


def walked(constraint: sg.Constraint, rng: random.Random) -> str:
    matcher = sg.Matcher(constraint, VOCABULARY)
    for _ in range(rng.randrange(150)):
        allowed = np.flatnonzero(np.unpackbits(matcher.mask().view(np.uint8), bitorder="little")[:256])
        likely = [int(one) for one in allowed if chr(one) in '<>/="abxt1{}[],:\n']
        if not len(allowed):
            break
        assert matcher.advance(rng.choice(likely or [int(one) for one in allowed]))
    if not matcher.is_complete():
        for token in matcher.witness() or ():
            assert matcher.advance(token)
    assert matcher.is_complete()
    return matcher.text.decode()


def test_each_style_of_the_table_is_tested() -> None:
    assert tuple(TABLE) == STYLES


@pytest.mark.parametrize("style", STYLES)
def test_any_order_takes_every_permutation_and_no_key_twice(style: str) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "boolean"}},
        "required": ["a", "b"],
        "additionalProperties": False,
        "minProperties": 2,
    }
    made = tag(schema, style, any_order=True)
    values = {"a": 1, "b": "x", "c": True}
    rng = random.Random(style)
    for size in range(5):
        for names in permutations("abca", size):
            text = "".join(write(style, {name: values[name]}, rng) for name in names)
            expected = len(set(names)) == len(names) and {"a", "b"} <= set(names)
            assert fits(made, text) == expected, text


@pytest.mark.parametrize("style", STYLES)
def test_xgrammar_agrees(style: str) -> None:
    xgrammar = pytest.importorskip("xgrammar", reason="the peer is not installed")
    inner = {
        "type": "object",
        "properties": {"x": {"type": "integer"}},
        "required": ["x"],
        "additionalProperties": False,
    }
    choices = {
        "s": ({"type": "string"}, ["a b", "", "x\ny"]),
        "p": ({"type": "string", "pattern": "^[a-c]+$"}, ["abc", "d", ""]),
        "i": ({"type": "integer"}, [1, "x", 1.5]),
        "n": ({"type": "null"}, [None, 1]),
        "o": (inner, [{"x": 1}, {}, {"x": "a"}]),
        "l": (
            {"type": "array", "items": {"type": "string"}, "maxItems": 2},
            [["a"], [], ["a", "b", "c"], [1]],
        ),
    }
    schema = {"type": "object", "properties": {name: one for name, (one, _) in choices.items()}}
    schema |= {"required": ["i"], "additionalProperties": False}
    form = {"type": "json_schema", "style": style, "json_schema": schema}
    tokens = [bytes([i]) for i in range(256)] + [b"<eos>"]
    info = xgrammar.TokenizerInfo(tokens, vocab_size=257, stop_token_ids=[256])
    grammar = xgrammar.Grammar.from_structural_tag(json.dumps({"type": "structural_tag", "format": form}))
    compiled = xgrammar.GrammarCompiler(info).compile_grammar(grammar)
    made = tag(schema, style)
    rng = random.Random(style)
    for _ in range(60):
        there = [name for name in choices if rng.random() < (0.9 if name == "i" else 0.4)]
        values = {name: rng.choice(choices[name][1][: rng.choice((1, 1, 4))]) for name in there}
        text = write(style, values, rng)
        theirs = xgrammar.GrammarMatcher(compiled)
        expected = all(map(theirs.accept_token, text.encode())) and theirs.accept_token(256)
        assert fits(made, text) == expected, text


# Unsupported keywords, and limits.

OBJECT = {"type": "object", "additionalProperties": False}
REFUSED = [
    ({"not": {"required": ["a"]}}, "not is not supported"),
    ({"if": {"required": ["a"]}, "then": {"required": ["b"]}}, "if is not supported"),
    ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, "oneOf is not supported"),
    ({"type": "array"}, "no object satisfies"),
    ({"properties": {"a<b": True}}, "'a<b' is no name of an element"),
    ({"properties": {"": True}}, "'' is no name of an element"),
    ({"type": "object", "minProperties": 3}, "minProperties is 3"),
    (False, "no object satisfies"),
]


@pytest.mark.parametrize(("schema", "message"), REFUSED)
def test_schemas_that_elements_cannot_enforce_are_refused(schema: Any, message: str) -> None:
    with pytest.raises(ConstraintError) as caught:
        tag(schema, "minimax_xml")
    assert message in str(caught.value)
    assert str(caught.value.where).startswith("format.json_schema")


def test_limits_have_names() -> None:
    many = {f"p{place}": {"type": "integer"} for place in range(11)}
    with pytest.raises(LimitExceeded) as caught:
        tag({**OBJECT, "properties": many}, "glm_xml", any_order=True)
    assert caught.value.limit == "keys_in_any_order"
    many = {f"p{place}": {"type": "integer"} for place in range(200)}
    with pytest.raises(LimitExceeded) as caught:
        tag({**OBJECT, "properties": many, "maxProperties": 100}, "glm_xml")
    assert caught.value.limit == "counted_keys"
    groups = [{"anyOf": [{"required": [f"a{place}"]}, {"required": [f"b{place}"]}]} for place in range(7)]
    with pytest.raises(LimitExceeded) as caught:
        tag({"type": "object", "allOf": groups}, "glm_xml")
    assert caught.value.limit == "schema_alternatives"
    cycles: dict[str, Any] = {}
    for size in (2, 3, 5, 7, 11, 13):
        for place in range(size):
            inner = {"n": {"$ref": f"#/$defs/{size} {(place + 1) % size}"}}
            cycles[f"{size} {place}"] = {"type": "object", "properties": inner}
    together = {"allOf": [{"$ref": f"#/$defs/{size} 0"} for size in (2, 3, 5, 7, 11, 13)]}
    with pytest.raises(LimitExceeded) as caught:
        tag({"properties": {"a": together}, "$defs": cycles}, "cohere_xml")
    assert caught.value.limit == "nested_elements"


def test_deep_and_long_values_need_no_recursion() -> None:
    deep: dict[str, Any] = {"type": "integer"}
    for _ in range(400):
        deep = {"type": "array", "items": deep}
    text = write("cohere_xml", {"a": []}, random.Random(5))
    assert fits(tag({"properties": {"a": deep}}, "cohere_xml"), text)
    long = {"type": "array", "prefixItems": [{"type": "integer"}] * 2_000}
    assert fits(
        tag({"properties": {"a": long}}, "cohere_xml"), write("cohere_xml", {"a": [1, 2]}, random.Random(5))
    )


def test_one_of_over_objects_that_exclude_each_other() -> None:
    schema = {
        "oneOf": [
            {
                **OBJECT,
                "properties": {"kind": {"const": "a"}, "x": {"type": "integer"}},
                "required": ["kind", "x"],
            },
            {**OBJECT, "properties": {"kind": {"const": "b"}}, "required": ["kind"]},
        ]
    }
    made = tag(schema, "deepseek_xml")
    rng = random.Random(0)
    assert fits(made, write("deepseek_xml", {"kind": "a", "x": 1}, rng))
    assert fits(made, write("deepseek_xml", {"kind": "b"}, rng))
    assert not fits(made, write("deepseek_xml", {"kind": "b", "x": 1}, rng))


@pytest.mark.parametrize("style", STYLES)
def test_keys_may_look_like_the_placeholders_of_a_style(style: str) -> None:
    names = ["$name", "$value", "$type", "$gap", "0", "a b", "é"]
    made = tag(
        {**OBJECT, "properties": {key: {"type": "integer"} for key in names}, "required": names}, style
    )
    assert fits(made, write(style, {name: place for place, name in enumerate(names)}, random.Random(4)))


def test_a_recursive_schema_as_elements_in_elements() -> None:
    node = {
        **OBJECT,
        "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}},
        "required": ["v"],
    }
    made = tag({"$ref": "#/$defs/node", "$defs": {"node": node}}, "cohere_xml")
    value: dict[str, Any] = {"v": 0}
    for place in range(1, 30):
        value = {"v": place, "next": value}
    text = write("cohere_xml", value, random.Random(1))
    assert fits(made, text)
    assert not fits(
        made, text.replace('type="json"> 0', 'type="raw"> 0').replace('type="json">0', 'type="raw">0')
    )


def test_what_is_excluded_stands_in_no_value_and_in_no_name() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": True},
        "additionalProperties": True,
    }
    made = tag(schema, "kimi_k3_xml", excludes=["<|sep|>", "Q"])
    rng = random.Random(2)
    for value, expected in (
        ({"a": "x", "b": ["y"]}, True),
        ({"a": "x<|sep|>"}, False),
        ({"a": "Q"}, False),
        ({"b": ["x<|sep|>"]}, False),
        ({"b": {"Q": 1}}, False),
        ({"Q": 1}, False),
        ({"R": 1}, True),
    ):
        assert fits(made, write("kimi_k3_xml", value, rng)) == expected, value


def test_special_tokens_of_a_style_are_tokens() -> None:
    names = ["<|open|>", "<|close|>", "<|sep|>"]
    vocabulary = sg.Vocabulary.of_bytes(names)
    form = {"type": "json_schema", "json_schema": {**OBJECT, "properties": {"a": {"type": "integer"}}}}
    made = constraint_of(
        "structural_tag",
        {"type": "structural_tag", "format": {**form, "style": "kimi_k3_xml"}},
        specials=names,
    )
    matcher = sg.Matcher(made, vocabulary)
    ids = {name: vocabulary.specials[name] for name in names}
    text = write("kimi_k3_xml", {"a": 1}, random.Random(3))
    for part in re.split(r"(<\|\w+\|>)", text):
        for token in [ids[part]] if part in ids else part.encode():
            assert matcher.advance(token), (part, token)
    assert matcher.is_complete()

"""Schemas from strangers: deep, long, endless. Bounded time, and an error that names the limit."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.constraints.json_schema import KEYWORDS, check, json_schema
from structgen.errors import LimitExceeded, SchemaInvalid, StructgenError
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary

DEEP = 100_000


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"properties": {"a": schema}}
    return schema


@pytest.mark.parametrize("text", ["[" * DEEP, '{"items":' * DEEP, '{"enum":' + "[" * DEEP])
def test_deep_text(text: str) -> None:
    with pytest.raises(LimitExceeded, match="too deep"):
        json_schema(text)


def test_deep_objects() -> None:
    with pytest.raises(LimitExceeded) as caught:
        json_schema(nested(DEEP))
    assert caught.value.limit == "schema_depth"
    assert "$defs" in str(caught.value)
    assert len(str(caught.value)) < 2_000


def test_depth_within_the_limit() -> None:
    assert len(json_schema(nested(900)).lower()[1]["nodes"]) == 901


def test_a_long_chain_of_references_is_not_deep() -> None:
    definitions = {f"d{i}": {"items": {"$ref": f"#/$defs/d{i + 1}"}} for i in range(20_000)}
    definitions["d20000"] = {}
    assert len(json_schema({"$defs": definitions, "$ref": "#/$defs/d0"}).lower()[1]["nodes"]) == 40_002


def test_a_deep_value_in_an_enumeration() -> None:
    value: list[Any] = []
    for _ in range(DEEP):
        value = [value]
    assert len(json_schema({"const": value}).lower()[1]["nodes"]) == DEEP + 3


def endless() -> list[Any]:
    value: list[Any] = [1]
    value.append({"again": value})
    return value


def test_a_value_that_contains_itself() -> None:
    schema: dict[str, Any] = {"type": "object"}
    schema["enum"] = [schema]
    for cyclic, place in (({"const": endless()}, "#/const"), (schema, "#/enum")):
        with pytest.raises(SchemaInvalid, match="contains itself") as caught:
            json_schema(cyclic)
        assert caught.value.pointer == place
        (problem,) = check(cyclic).problems
        assert (problem.pointer, problem.status) == (place, "invalid")


def test_a_value_that_stands_twice_does_not_contain_itself() -> None:
    one = [1]
    assert json_schema({"const": [one, one, {"a": one}]}) == json_schema({"const": [[1], [1], {"a": [1]}]})


def test_check_says_that_a_value_is_deeper_than_may_be_open() -> None:
    value: list[Any] = []
    for _ in range(4_999):
        value = [value]
    (warning,) = check({"const": value}).warnings
    assert "5,000 nested containers" in warning.note
    assert "max_depth" in warning.hint
    assert not check({"const": [[1]]}).warnings


def test_anchors_are_found_in_a_schema_that_contains_itself() -> None:
    schema: dict[str, Any] = {"properties": {"c": {"$anchor": "here", "type": "null"}}, "$ref": "#here"}
    schema["properties"] |= {"a": schema, "b": schema}
    assert len(json_schema(schema).lower()[1]["nodes"]) == 2


def test_two_schemas_of_one_name_that_contain_themselves() -> None:
    pair: list[dict[str, Any]] = [{"$id": "urn:x"}, {"$id": "urn:x"}]
    for schema in pair:
        schema["properties"] = {"again": schema}
    with pytest.raises(SchemaInvalid, match="is ambiguous"):
        json_schema({"$ref": "urn:x", "$defs": {"a": pair[0], "b": pair[1]}})


def test_ten_megabytes() -> None:
    text = json.dumps({"properties": {f"key{i}": {"type": "string", "maxLength": i} for i in range(200_000)}})
    assert len(text) > 9_000_000
    start = time.process_time()
    json_schema(text)
    assert time.process_time() - start < 60


def test_a_million_values() -> None:
    assert len(json_schema({"enum": list(range(1_000_000))}).lower()[1]["nodes"][0]["numbers"]) == 1_000_000


def test_long_names_do_not_multiply() -> None:
    name = "n" * 1_000_000
    found = json_schema(
        {"properties": {name: {"properties": {str(i): {"minimum": i} for i in range(1_000)}}}}
    )
    assert max(len(node["pointer"]) for node in found.lower()[1]["nodes"]) < 600


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"minimum": 1e99999999999999999999}', "exponent"),
        ('{"minimum": 1e20000}', "exponent"),
        ('{"minimum": ' + "9" * 5_000 + "}", "of more than"),
        ('{"minimum": ' + "9" * 2_000 + "}", "digits"),
        ('{"minLength": ' + "9" * 100 + "}", "no text is that long"),
    ],
)
def test_numbers_out_of_bounds(text: str, message: str) -> None:
    with pytest.raises(LimitExceeded, match=message):
        json_schema(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"type": }', "line 1, column 10"),
        ('{"minimum": NaN}', "NaN"),
        ("", "not JSON"),
        (b"\xff", "UTF-8"),
    ],
)
def test_text_that_is_not_json(text: str | bytes, message: str) -> None:
    with pytest.raises(SchemaInvalid, match=message):
        json_schema(text)


def test_check_survives_them_too() -> None:
    assert not check(nested(DEEP)).ok
    assert not check("[" * DEEP).ok
    assert not check("{").ok


def test_what_is_evaluated_is_bounded() -> None:
    branches = [
        {
            "properties": {f"{i}.{j}": {"type": "null"} for j in range(2_000)},
            "patternProperties": {f"^{i}x": {"type": "null"}},
        }
        for i in range(8)
    ]
    with pytest.raises(LimitExceeded) as caught:
        json_schema({"anyOf": branches, "unevaluatedProperties": False})
    assert caught.value.limit == "evaluated_entries"


_KEYS = st.sampled_from([*KEYWORDS, "a", "b", "#"])
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=True)
    | st.sampled_from(
        ["", "a", "#", "#/a", "#/definitions/a", "b", "string", "integer", "date", "^a", "(", "http://x/y#z"]
    )
)
_ANYTHING = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=25,
)


@settings(max_examples=500, deadline=None)
@given(st.dictionaries(_KEYS, _ANYTHING, max_size=5))
def test_any_json_is_read_or_refused(schema: dict[str, Any]) -> None:
    try:
        json_schema(schema)
        compiles = True
    except StructgenError:
        compiles = False
    assert check(schema).ok == compiles


def test_many_listed_containers_are_counted() -> None:
    vocabulary = Vocabulary.from_tokens([bytes([byte]) for byte in range(256)], eos_ids=[256], size=257)
    with pytest.raises(LimitExceeded, match="lists 20000 arrays and objects") as caught:
        Matcher(json_schema({"enum": [[i] for i in range(20_000)]}), vocabulary)
    assert caught.value.limit == "listed_containers"
    few = vocabulary.with_limits(listed_containers=300)
    listed = json_schema({"enum": [[i] for i in range(300)]})
    assert Matcher(listed, few).explain("[299]").ok
    assert not Matcher(listed, few).explain("[300]").ok


@pytest.mark.parametrize("more", [{}, {"properties": {"k": {}}}, {"additionalProperties": False}])
def test_many_branches_that_their_keys_distinguish(more: dict[str, Any]) -> None:
    vocabulary = Vocabulary.from_tokens([bytes([byte]) for byte in range(256)], eos_ids=[256], size=257)
    branches = [{"type": "object", "required": [f"a{i}"], **more} for i in range(200)]
    if "additionalProperties" in more:
        branches = [{**branch, "properties": {f"a{i}": {}}} for i, branch in enumerate(branches)]
    matcher = Matcher(json_schema({"oneOf": branches}), vocabulary)
    assert matcher.unproven == 0

    def is_viable(text: str) -> bool:
        return matcher.viable_bytes(text.encode()) == len(text)

    assert is_viable('{"a199"')
    assert is_viable('{"a7":1}')
    assert not is_viable('{"a7":1,"a8"')
    assert is_viable('{"a7":1,"k"') == ("additionalProperties" not in more)
    assert not is_viable("{}")


@pytest.mark.parametrize(
    ("text", "shortest"),
    [
        (r'{"patternProperties": {"\udc32": {"type": "integer"}}, "type": "object"}', "{}"),
        (r'{"$defs": {"\udc32": {"minimum": 3}}, "type": "integer", "$ref": "#/$defs/\udc32"}', "3"),
    ],
)
def test_half_a_surrogate_pair_in_a_place(text: str, shortest: str) -> None:
    """Places go into messages and into the core as UTF-8, which cannot spell it."""
    constraint = json_schema(text)
    assert constraint.minimal_text() == shortest
    assert "udc32" in str(check(json.loads(text)))
    Matcher(constraint, Vocabulary.of_bytes()).mask()


def test_half_a_surrogate_pair_in_the_place_of_a_fault() -> None:
    with pytest.raises(SchemaInvalid, match=r"#/patternProperties/\\udc32/minLength"):
        json_schema(r'{"patternProperties": {"\udc32": {"minLength": "a"}}}')

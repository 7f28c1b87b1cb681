"""Constraints of requests: each kind, its limits, and what is refused."""

import json

import pytest

import structgen as sg
from structgen.errors import ConstraintError, LimitExceeded, OptionError, StructgenError
from structgen.serving.limits import RequestLimits
from structgen.serving.requests import constraint_of, spec_text

BYTES = sg.Vocabulary.of_bytes()


def fits(constraint, text: str) -> bool:
    matcher = sg.Matcher(constraint, BYTES)
    data = text.encode()
    return (
        matcher.accepts(list(data)) == len(data) and all(map(matcher.advance, data)) and matcher.is_complete()
    )


@pytest.mark.parametrize(
    ("kind", "spec", "right", "wrong"),
    [
        ("json", {"type": "integer"}, "12", '"12"'),
        ("json", '{"type": "integer"}', "12", "1.0"),
        ("json", True, '{"a": [null]}', "{"),
        ("json_object", None, '{"a": 1}', "[1]"),
        ("regex", "a+b", "aab", "ba"),
        ("choice", ["yes", "no"], "no", "maybe"),
        ("choice", '["yes", "no"]', "yes", ""),
        ("grammar", 'root ::= "a" [0-9]+', "a12", "12"),
        ("grammar", 'root ::= . "b"', "xb", "b"),  # only GBNF has the dot
        ("grammar", 'start: A "b"?\nA: "a"', "ab", "b"),
    ],
)
def test_each_kind_means_what_it_says(kind, spec, right, wrong):
    constraint = constraint_of(kind, spec)
    assert fits(constraint, right)
    assert not fits(constraint, wrong)


def test_keys_keep_the_order_of_the_schema_unless_the_server_says_otherwise():
    schema = {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"]}
    swapped = '{"b": 1, "a": 2}'
    assert not fits(constraint_of("json", schema), swapped)
    assert fits(constraint_of("json", schema, RequestLimits(ordered=False)), swapped)


def test_white_space_is_bounded():
    assert not fits(constraint_of("json", {"type": "array"}), "[" + " " * 2000 + "]")


@pytest.mark.parametrize(
    ("kind", "spec", "message"),
    [
        ("json", "{", "not JSON"),
        ("json", {"type": "objct"}, "did you mean 'object'"),
        ("json", {"$ref": "https://example.org/a.json"}, "never fetched"),
        ("json", 3, "a schema is an object"),
        ("json", None, "a schema is an object"),
        ("regex", "(", "not closed"),
        ("regex", r"(a*)\1", "back-reference"),
        ("regex", 3, "a pattern is a text"),
        ("choice", [], "at least one text"),
        ("choice", [1], "needs texts"),
        ("choice", "yes", "a choice is not valid JSON"),
        ("choice", {"a": 1}, "a list of texts"),
        ("grammar", "  ", "the grammar is empty"),
        ("grammar", 'root ::= "a', "not closed"),
        ("grammar", "start: %%", "unexpected character"),
        ("grammar", ["root"], "a grammar is a text"),
        ("grammar", "%import .secret (X)\nstart: X", "no grammar"),
        ("structural_tag", "[", "a structural tag is not valid JSON"),
    ],
)
def test_errors_name_what_is_wrong(kind, spec, message):
    with pytest.raises(StructgenError) as caught:
        constraint_of(kind, spec)
    assert message in str(caught.value)


def test_an_unknown_kind_is_reported_by_name():
    with pytest.raises(OptionError, match="'json_schema'"):
        constraint_of("json_schema", {})  # type: ignore[arg-type]


def test_a_spec_that_is_too_large_is_refused_before_it_is_read():
    with pytest.raises(LimitExceeded) as caught:
        constraint_of("regex", "é" * 60, RequestLimits(max_bytes=100))
    assert caught.value.limit == "max_bytes"
    with pytest.raises(LimitExceeded) as caught:
        constraint_of("choice", list("abc"), RequestLimits(max_choices=2))
    assert caught.value.limit == "max_choices"


def test_a_spec_that_is_not_json_is_reported():
    with pytest.raises(ConstraintError, match="not JSON"):
        constraint_of("json", {"a": object()})
    nested: list = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(StructgenError):
        constraint_of("choice", nested)


def test_the_text_of_a_spec_keeps_the_order_of_its_keys():
    assert spec_text({"b": 1, "a": 2}) == json.dumps({"b": 1, "a": 2})

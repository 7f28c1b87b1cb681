"""A key that occurs twice in one object of a JSON text is refused wherever structgen reads such a text."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import structgen as sg
from structgen.cli import main
from structgen.constraints.json_schema.unique_keys import RepeatedKey, loads_unique
from structgen.errors import ConstraintError, SchemaInvalid
from structgen.server.errors import ApiError
from structgen.server.fields import parse_body
from structgen.serving.limits import RequestLimits
from structgen.serving.requests import constraint_of


def _containers(inner: Any) -> Any:
    return st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["k1", "k2", "k3", '"', ": "]), inner, max_size=4
    )


TWICE = [
    ('{"type": "string", "type": "integer"}', "type", "#"),
    ('{"properties": {"a": {}, "b": true, "a": false}}', "a", "#/properties"),
    (
        '{"anyOf": [true, {"properties": {"x/y": {"minimum": 1, "minimum": 2}}}]}',
        "minimum",
        "#/anyOf/1/properties/x~1y",
    ),
    ('{"enum": [{"k": 1, "\\u006b": 2}]}', "k", "#/enum/0"),
]


@pytest.mark.parametrize(("text", "key", "pointer"), TWICE)
def test_where_it_stands(text: str, key: str, pointer: str) -> None:
    for form in (text, text.encode(), "\ufeff".encode() + text.encode()):
        with pytest.raises(SchemaInvalid, match=f"{key!r} occurs twice") as caught:
            sg.json_schema(form)
        assert caught.value.pointer == pointer
    with pytest.raises(RepeatedKey) as plain:
        loads_unique(text)
    assert (plain.value.key, plain.value.pointer) == (key, pointer)
    assert sg.json_schema(json.loads(text))  # a Python object has no key twice


@pytest.mark.parametrize(("text", "key", "pointer"), TWICE)
def test_every_reader_of_schema_texts_refuses_it(text: str, key: str, pointer: str, tmp_path: Path) -> None:
    with pytest.raises(SchemaInvalid, match=f"{key!r} occurs twice"):
        sg.lark(f"start: %json {text}")
    with pytest.raises(ConstraintError, match=f"{key!r} occurs twice"):
        constraint_of("json", text, RequestLimits())
    tag = f'{{"type": "structural_tag", "format": {{"type": "json_schema", "json_schema": {text}}}}}'
    with pytest.raises(ConstraintError, match=f"{key!r} occurs twice"):
        constraint_of("structural_tag", tag, RequestLimits())
    with pytest.raises(ApiError, match=f"{key!r} occurs twice"):
        parse_body(b'{"schema": ' + text.encode() + b"}")
    path = tmp_path / "schema.json"
    path.write_text(text)
    assert main(["check", str(path)]) == 2


@given(st.recursive(st.none() | st.text(max_size=4), _containers, max_leaves=12), st.data())
def test_random_texts_with_and_without_a_repeated_key(value: Any, data: st.DataObject) -> None:
    text = json.dumps(
        value, indent=data.draw(st.sampled_from([None, 1])), ensure_ascii=data.draw(st.booleans())
    )
    assert loads_unique(text) == json.loads(text)
    keys = [found.start() for found in re.finditer(r'(?<!\\)"k\d"\s*:', text)]
    if keys:
        at = data.draw(st.sampled_from(keys))
        twice = f'{text[:at]}{text[at : at + 4]}: [{{"z": 1}}], {text[at:]}'
        with pytest.raises(RepeatedKey) as caught:
            loads_unique(twice)
        assert caught.value.key == text[at + 1 : at + 3]


@pytest.mark.parametrize("text", ['{"\ud800": 1, "\ud800": 2}', "[" * 1500 + '{"a": 1, "a": 2}' + "]" * 1500])
def test_texts_that_are_not_read_to_their_end(text: str) -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    try:
        with pytest.raises(RepeatedKey):
            loads_unique(text)
    finally:
        sys.setrecursionlimit(limit)


def test_equal_keys_in_different_objects_are_fine() -> None:
    assert loads_unique('{"a": {"a": [{"a": 1}, {"a": 1}]}}') == {"a": {"a": [{"a": 1}, {"a": 1}]}}

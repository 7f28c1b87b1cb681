"""A key that stands twice in one object of a JSON text is refused wherever structgen reads such a text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import structgen as sg
from structgen.cli.main import main
from structgen.constraints.json_schema.unique_keys import RepeatedKey, loads_unique
from structgen.errors import ConstraintError, SchemaInvalid
from structgen.server.errors import ApiError
from structgen.server.fields import parse_body
from structgen.serving.requests import RequestLimits, constraint_of

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
    for given in (text, text.encode(), "\ufeff".encode() + text.encode()):
        with pytest.raises(SchemaInvalid, match=f"{key!r} stands twice") as caught:
            sg.json_schema(given)
        assert caught.value.pointer == pointer
    with pytest.raises(RepeatedKey) as plain:
        loads_unique(text)
    assert (plain.value.key, plain.value.pointer) == (key, pointer)
    assert sg.json_schema(json.loads(text))  # a Python object has no key twice


@pytest.mark.parametrize(("text", "key", "pointer"), TWICE)
def test_every_reader_of_schema_texts_refuses_it(text: str, key: str, pointer: str, tmp_path: Path) -> None:
    with pytest.raises(SchemaInvalid, match=f"{key!r} stands twice"):
        sg.lark(f"start: %json {text}")
    with pytest.raises(ConstraintError, match=f"{key!r} stands twice"):
        constraint_of("json", text, RequestLimits())
    tag = f'{{"type": "structural_tag", "format": {{"type": "json_schema", "json_schema": {text}}}}}'
    with pytest.raises(ConstraintError, match=f"{key!r} stands twice"):
        constraint_of("structural_tag", tag, RequestLimits())
    with pytest.raises(ApiError, match=f"{key!r} stands twice"):
        parse_body(b'{"schema": ' + text.encode() + b"}")
    path = tmp_path / "schema.json"
    path.write_text(text)
    assert main(["check", str(path)]) == 2


def test_equal_keys_in_different_objects_are_fine() -> None:
    assert loads_unique('{"a": {"a": [{"a": 1}, {"a": 1}]}}') == {"a": {"a": [{"a": 1}, {"a": 1}]}}

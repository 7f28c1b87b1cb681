"""``structgen example``: values that the schema allows, the same for the same seed."""

from __future__ import annotations

import json

import pytest

from structgen.cli import main
from structgen.constraints.json_schema import json_schema

SCHEMA = '{"properties": {"name": {}, "age": {"type": "integer"}}, "required": ["age"], "type": "object"}'


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_values_one_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["example", SCHEMA, "--seed", "4", "--count", "3"]) == 0
    assert lines(capsys) == [json_schema(SCHEMA).example_text(seed) for seed in (4, 5, 6)]


def test_the_shortest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["example", SCHEMA, "--minimal"]) == 0
    assert lines(capsys) == ['{"age":0}']


def test_indented(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["example", SCHEMA, "--indent", "2"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith('{\n  "') and "age" in json.loads(shown)


def test_the_options_of_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["example", '{"format": "date", "type": "string"}', "--minimal", "--formats", "annotate"]) == 0
    )
    assert lines(capsys) == ['""']


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (['{"type": "integer", "minimum": 2, "maximum": 1}'], 1, "no value can satisfy"),
        (['{"type": "strnig"}'], 2, "is not a type"),
        ([SCHEMA, "--count", "0"], 2, "--count is 0"),
        (["no-such-file.json"], 2, "cannot read schema"),
    ],
)
def test_refusals(
    arguments: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["example", *arguments]) == status
    captured = capsys.readouterr()
    assert captured.out == "" and message in captured.err


@pytest.mark.parametrize(
    ("arguments", "indent", "separators"),
    [
        (["--whitespace", "json.dumps"], None, None),
        (["--whitespace", "indented"], 2, None),
        (["--indent", "4"], 4, None),
        (["--whitespace", "compact"], None, (",", ":")),
        ([], None, (",", ":")),
    ],
)
def test_white_space_follows_the_option(
    arguments: list[str],
    indent: int | None,
    separators: tuple[str, str] | None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"const": ["{", '"\\', {}, [], [[1], {"b:": None}]]}, "é": {"type": "number"}},
        "required": ["a", "é"],
    }
    assert main(["example", json.dumps(schema), *arguments]) == 0
    shown = capsys.readouterr().out
    value = json.loads(shown)
    assert shown == json.dumps(value, indent=indent, separators=separators, ensure_ascii=False) + "\n"

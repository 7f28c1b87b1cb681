"""``structgen explain``: the place, the reason, the exit status."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from structgen.cli import main

SCHEMA = '{"type": "object", "properties": {"age": {"type": "integer", "maximum": 120}}, "required": ["age"]}'


def test_a_rejected_text_shows_place_and_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", SCHEMA, '{"age": 130}']) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == '    {"age": 130}'
    assert lines[2] == "              ^"
    assert any("`maximum` at #/properties/age" in line for line in lines)
    assert any("expected" in line for line in lines)


def test_an_accepted_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", SCHEMA, '{"age": 12}']) == 0
    assert "satisfies" in capsys.readouterr().out


def test_a_beginning_is_enough_only_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", SCHEMA, '{"age": 12']) == 1
    assert "beginning" in capsys.readouterr().out
    assert main(["explain", "--prefix", SCHEMA, '{"age": 12']) == 0


def test_the_text_from_a_file_or_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "text.json"
    file.write_text('{"age": 12}')
    assert main(["explain", SCHEMA, f"@{file}"]) == 0
    monkeypatch.setattr("sys.stdin", io.StringIO('{"age": "x"}'))
    assert main(["explain", SCHEMA, "-"]) == 1
    assert '"x"' in capsys.readouterr().out


def test_other_constraints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--regex", "[0-9]{3}", "123"]) == 0
    assert main(["explain", "--regex", "[0-9]{3}", "12a"]) == 1
    assert main(["explain", "--choice", "yes", "--choice", "no", "no"]) == 0
    assert main(["explain", "--type", "decimal:Decimal", "1.5"]) == 0
    assert "12a" in capsys.readouterr().out


def test_the_explanation_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--json", SCHEMA, '{"age": 130}']) == 1
    output = json.loads(capsys.readouterr().out)
    assert output["ok"] is False
    assert output["position"] == 10
    assert output["rules"][0]["keyword"] == "maximum"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explain", SCHEMA], "a schema and a text"),
        (["explain", "--regex", "a", "b", "c"], "one text"),
        (["explain", "--regex", "a(", "b"], "at position"),
        (["explain", "no/such/file.json", "b"], "no/such/file.json"),
        (["explain", "--regex", "a", "--choice", "b", "c"], "cannot be given together"),
        (["explain", "--type", "json", "c"], "MODULE:NAME"),
        (["explain", "--type", "json:NoSuch", "c"], "has no 'NoSuch'"),
        (["explain", "--type", "no_such_module_here:X", "c"], "cannot be imported"),
        (["explain", "--regex", "a", "--ordered", "c"], "--ordered"),
        (["explain", "-", "-"], "standard input"),
    ],
)
def test_mistakes_exit_with_status_2_and_one_message(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert captured.err.startswith("structgen: ")


def test_an_unsatisfiable_constraint_exits_with_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", '{"type": "string", "minLength": 3, "maxLength": 2}', '"a"']) == 1
    assert "no value can satisfy" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1,2,3]", "at most 2 items"),
        ("[[1,2,3]]", "at most 2 items: `maxItems` at #/items"),
        ('[1,"a"]', "`/1` must be of type array or integer"),
    ],
)
def test_what_follows_a_number_in_an_array(text: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    schema = '{"type":"array","items":{"type":["integer","array"],"maxItems":2},"maxItems":2}'
    assert main(["explain", schema, text]) == 1
    assert said in capsys.readouterr().out


def test_a_final_line_end_of_a_file_is_not_part_of_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "text.json"
    for content, status in (b"true\n", 0), (b"true\r\n", 0), (b"true\n\n", 1):
        file.write_bytes(content)
        assert main(["explain", '{"type": "boolean"}', f"@{file}"]) == status
    monkeypatch.setattr("sys.stdin", io.StringIO("true\n"))
    assert main(["explain", '{"type": "boolean"}', "-"]) == 0
    assert main(["explain", '{"type": "boolean"}', "true\n"]) == 1
    assert capsys.readouterr().out

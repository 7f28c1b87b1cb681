"""``structgen check``: findings, and the exit status that they come to."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from structgen.cli import main


def test_an_exact_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--all", '{"type": "string", "maxLength": 3}']) == 0
    out = capsys.readouterr().out
    assert "exact        #/maxLength" in out
    assert out.splitlines()[-1].startswith("draft 2020-12: can be used; 2 exact")


def test_the_schema_may_be_a_file_or_standard_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "schema.json"
    file.write_text('{"minimum": 1}')
    assert main(["check", str(file)]) == 0
    monkeypatch.setattr("sys.stdin", io.StringIO('{"minimum": 1}'))
    assert main(["check", "-"]) == 0
    first, second = capsys.readouterr().out.split("draft 2020-12", 1)
    assert first.strip()
    assert second.strip()


def test_an_unsupported_keyword_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--all", '{"properties": {"a": {"unevaluatedProperties": false}}}']) in (0, 1)
    out = capsys.readouterr().out
    assert "#/properties/a/unevaluatedProperties" in out


def test_an_unsatisfiable_schema_fails_the_check(capsys: pytest.CaptureFixture[str]) -> None:
    schema = '{"required": ["a"], "type": "object", "properties": {"a": {"enum": [1], "minimum": 2}}}'
    assert main(["check", schema]) == 1
    out = capsys.readouterr().out
    assert "unsatisfiable" in out
    assert "cannot be used" in out


def test_strict_counts_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    schema = '{"type": "string", "maxLenght": 3}'
    assert main(["check", schema]) == 0
    assert main(["check", "--strict", schema]) == 1
    assert "! annotation   #/maxLenght   unknown keyword" in capsys.readouterr().out


def test_only_problems(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ([], ["--problems"]):
        assert main(["check", *option, '{"type": "string", "maxLenght": 3}']) == 0
        out = capsys.readouterr().out
        assert "#/type" not in out and "#/maxLenght" in out
        assert "(not shown: 1 exact keyword; --all shows everything)" in out
    assert main(["check", "--all", "--problems", "{}"]) == 2


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ('{"type": "strnig"}', "#/type"),
        ('{"type": ', "not JSON"),
        ('{"minLength": -1}', "#/minLength"),
        ('{"pattern": "a("}', "#/pattern"),
        ('{"$ref": "#/nowhere"}', "#/$ref"),
        ("", "the schema is empty"),
    ],
)
def test_an_invalid_schema_exits_with_status_2(
    schema: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", schema]) == 2
    captured = capsys.readouterr()
    assert said in captured.out + captured.err
    assert "note:" not in captured.out  # the notation does not matter


def test_the_report_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--json", '{"type": "string"}']) == 0
    report = json.loads(capsys.readouterr().out)
    assert list(report) == ["draft", "status", "findings", "choices", "failure"]
    assert report["status"] == "exact"
    assert report["findings"] == [
        {
            "pointer": "#/type",
            "keyword": "type",
            "status": "exact",
            "note": "",
            "warning": False,
            "hint": "",
        }
    ]
    assert report["failure"] is None


def test_options_reach_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--all", "--indent", "4", "true"]) == 0
    assert "whitespace=Whitespace.written(4, (',', ': '))" in capsys.readouterr().out
    assert main(["check", "--indent", "4", "--whitespace", "compact", "true"]) == 2
    assert "--indent does not go with --whitespace compact" in capsys.readouterr().err
    assert main(["check", "--all", "--whitespace", "compact", "--ordered", "true"]) == 0
    out = capsys.readouterr().out
    assert "whitespace='compact'" in out
    assert "ordered=True" in out


def test_a_schema_nested_very_deep_ends_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "deep.json"
    file.write_text('{"items": ' * 100_000 + "true" + "}" * 100_000)
    assert main(["check", str(file)]) == 1
    captured = capsys.readouterr()
    assert "nested too deep" in captured.out + captured.err


def test_hints_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", '{"$ref": "#"}']) == 2
    assert "Recursion must pass through" in capsys.readouterr().out
    assert main(["check", "--json", '{"$ref": "#"}']) == 2
    (problem,) = (
        one for one in json.loads(capsys.readouterr().out)["findings"] if one["status"] == "invalid"
    )
    assert "Recursion must pass through" in problem["hint"]
    assert main(["check", "--json", "false"]) == 1
    failure = json.loads(capsys.readouterr().out)["failure"]
    assert list(failure) == ["where", "message", "hint"] and failure["hint"]


def test_references_lead_to_documents_of_the_registry(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "named.json").write_text('{"$id": "http://example.com/named", "const": 7}')
    (tmp_path / "parts" / "plain.json").write_text('{"$defs": {"a": {"const": 8}}}')
    references = '{"$ref": "http://example.com/named"}, {"$ref": "parts/plain.json#/$defs/a"}'
    schema = f'{{"type": "array", "prefixItems": [{references}], "minItems": 2}}'
    assert main(["check", schema]) == 2
    assert main(["check", schema, "--registry", str(tmp_path)]) == 0
    capsys.readouterr()
    assert main(["example", "--minimal", schema, "--registry", str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == "[7,8]"


@pytest.mark.parametrize(("content", "fault"), [(None, "without JSON files"), ("{", "is not JSON")])
def test_a_registry_that_cannot_be_read_is_named(
    content: str | None, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / "one.json").write_text(content)
    assert main(["check", "true", "--registry", str(tmp_path)]) == 2
    assert fault in capsys.readouterr().err


def test_a_document_is_known_by_its_identifier_and_by_its_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "parts").mkdir()
    file = tmp_path / "parts" / "a.json"
    file.write_text('{"$id": "urn:a", "const": 7}')
    schema = '{"prefixItems": [{"$ref": "urn:a"}, {"$ref": "parts/a.json"}], "minItems": 2, "type": "array"}'
    assert main(["example", "--minimal", schema, "--registry", str(tmp_path), "--registry", str(file)]) == 0
    assert capsys.readouterr().out.strip() == "[7,7]"
    (tmp_path / "b.json").write_text('{"$id": "urn:a"}')
    assert main(["check", schema, "--registry", str(tmp_path)]) == 2
    output = capsys.readouterr().err
    assert str(file) in output
    assert "both named 'urn:a'" in output


def test_hints_name_the_arguments_of_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["check"], ["check", "--json"], ["example"]):
        assert main([*command, '{"$ref": "x.json"}']) == 2
        captured = capsys.readouterr()
        assert "Pass it in --registry" in captured.out + captured.err
    assert main(["check", "{}", "--registry", str(tmp_path / "none")]) == 2
    assert "a folder of them" in capsys.readouterr().err


def test_options_of_schemas_need_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_text("{}")
    for given in (["--registry", str(tmp_path)], ["--indent", "2"], ["--ordered"]):
        assert main(["explain", "--choice", "x", "x", *given]) == 2
        assert f"{given[0]} can only be given with a JSON Schema" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ('{\n  "type": "null",\n  "a" 1\n}\n', '  "a" 1', 6),
        ('{\n  "type": "null",\n  "a":\n\n', '  "a":', 6),
    ],
)
def test_the_caret_stands_under_the_fault(
    text: str, line: str, column: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "schema.json"
    file.write_text(text)
    assert main(["check", str(file)]) == 2
    output, shown, caret = capsys.readouterr().out.splitlines()[:3]
    assert output.endswith(f"line 3, column {column + 1}")
    assert shown.endswith(line)
    assert caret.index("^") - shown.index(line) == column


def test_hints_name_options_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", '{"type": "object", "properties": {"a": true}}']) == 0
    assert "--closed closes it" in capsys.readouterr().out

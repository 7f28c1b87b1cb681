"""``structgen generate`` with a model whose distribution is written down."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

import structgen as sg
from structgen.cli import generate, main
from structgen.models import DistributionModel

EOS = 256


class ByteModel(DistributionModel):
    """A model of bytes with equal probabilities; the end is ten times as likely as a byte."""

    def __init__(self) -> None:
        vocabulary = sg.Vocabulary.from_tokens([bytes([i]) for i in range(256)], eos_ids=[EOS], size=257)
        super().__init__(vocabulary, lambda _: [1 / 266] * 256 + [10 / 266])
        self.prompts: list[Any] = []

    def encode(self, prompt: Any) -> list[int]:
        self.prompts.append(prompt)
        return super().encode(prompt)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> ByteModel:
    made = ByteModel()
    monkeypatch.setattr(generate, "load_model", lambda name: made)
    return made


def test_a_choice(model: ByteModel, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "Pick", "--choice", "red", "--choice", "green", "--seed", "1"]) == 0
    assert capsys.readouterr().out in {"red\n", "green\n"}
    assert model.prompts == ["Pick"]


def test_a_schema_streamed_is_the_same_text(model: ByteModel, capsys: pytest.CaptureFixture[str]) -> None:
    schema = '{"type": "array", "items": {"enum": ["ä", 1, null]}, "minItems": 2, "maxItems": 3}'
    arguments = ["generate", "x", "--schema", schema, "--whitespace", "compact", "--seed", "5"]
    assert main(arguments) == 0
    whole = capsys.readouterr().out
    assert len(json.loads(whole)) in (2, 3)
    assert main([*arguments, "--stream"]) == 0
    assert capsys.readouterr().out == whole


def test_a_regex_and_a_type(model: ByteModel, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "x", "--regex", "[0-9]{4}", "--seed", "2"]) == 0
    assert capsys.readouterr().out.strip().isdigit()
    assert main(["generate", "x", "--type", "builtins:bool", "--seed", "2"]) == 0
    assert capsys.readouterr().out.strip() in {"true", "false", "True", "False"}


def test_details(model: ByteModel, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "x", "--choice", "a", "--details", "--seed", "0"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["text"] == "a"
    assert output["finish"] == "complete"
    assert output["log_weight"] < 0
    assert output["error"] is None


def test_prompt_from_standard_input_with_a_system_message(
    model: ByteModel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Hello"))
    assert main(["generate", "-", "--system", "Be kind", "--choice", "a"]) == 0
    assert model.prompts == [[{"role": "system", "content": "Be kind"}, {"role": "user", "content": "Hello"}]]


def test_a_truncated_text_exits_with_status_1(model: ByteModel, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "x", "--regex", "a|[b-z]{50}", "--max-tokens", "5", "--seed", "1"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "cut off after 5 tokens" in captured.err


def test_a_budget_too_small_for_any_text_is_an_error(
    model: ByteModel, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", "x", "--regex", "[a-z]{50}", "--max-tokens", "5"]) == 2
    assert "takes 50 tokens" in capsys.readouterr().err


def test_truncated_free_text_is_reported(model: ByteModel, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "x", "--max-tokens", "1", "--seed", "2"]) == 0
    assert "structgen: cut off after 1 token (--max-tokens)" in capsys.readouterr().err


def test_closing_within_the_budget(model: ByteModel, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["generate", "x", "--regex", "(ab)*c", "--max-tokens", "6", "--close-within-budget"]
    assert main([*arguments, "--seed", "1"]) == 0
    text = capsys.readouterr().out.strip()
    assert text.endswith("c")
    assert len(text) <= 6


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--temperature", "-1", "--choice", "a"], "temperature"),
        (["--top-p", "2", "--choice", "a"], "--top-p is 2.0; it must be"),
        (["--max-tokens", "few"], "argument --max-tokens: 'few' is not a whole number"),
        (["--temperature", "hot"], "argument --temperature: 'hot' is not a number"),
        (["--attempts", "0"], "--attempts is 0; it must be"),
        (["--comments"], "--comments can only be given with --grammar"),
        (["--grammar", "json", "--no-parameters"], "has no parameter 'parameters'"),
        (["--schema", '{"type": "strnig"}'], "#/type"),
        (["--regex", "(?P<x>a*)(?P=x)"], "position"),
        (["--schema", "{}", "--regex", "a"], "cannot be given together"),
        (["--whitespace", "compact"], "--whitespace"),
        (["--stream", "--details"], "cannot be given together"),
    ],
)
def test_mistakes_are_found_before_a_model_is_loaded(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(name: str | None) -> Any:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(generate, "load_model", fail)
    assert main(["generate", "x", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err


def test_a_model_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers")
    assert main(["generate", "x", "--model", "/no/such/model", "--choice", "a"]) == 2
    assert "/no/such/model" in capsys.readouterr().err


@pytest.mark.parametrize("stream", [[], ["--stream"]])
def test_attempts(stream: list[str], model: ByteModel, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["generate", "x", "--regex", "a|[bc]{50}", "--max-tokens", "5", "--seed", "1", *stream]
    assert main([*arguments, "--attempts", "40"]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[-1] == "a" and captured.err == ""
    assert len(model.prompts) > 1 and "cut off" in str(model.prompts[-1])


def test_types_of_one_object_are_described_by_default(
    model: ByteModel, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cli_models.py").write_text(
        "import pydantic\nclass Person(pydantic.BaseModel):\n    ok: bool = pydantic.Field(description='kind')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for flags, is_described in (([], True), (["--no-describe"], False), (["--describe", "--stream"], True)):
        assert main(["generate", "x", "--type", "cli_models:Person", *flags, "--seed", "1"]) == 0
        assert ("kind" in model.prompts[-1]) is is_described, flags


def test_only_one_argument_reads_standard_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "-", "--schema", "-"]) == 2
    assert "cannot both come from standard input" in capsys.readouterr().err


def test_penalties(model: ByteModel, capsys: pytest.CaptureFixture[str]) -> None:
    """Of equally probable bytes, one that was written is less probable than the others."""
    command = ["generate", "Write", "--regex", "[ab]{6}", "--temperature", "0"]
    assert main(command) == 0
    assert capsys.readouterr().out == "aaaaaa\n"
    assert main([*command, "--frequency-penalty", "1"]) == 0
    assert capsys.readouterr().out == "ababab\n"
    assert main([*command, "--frequency-penalty", "3"]) == 2
    assert "from -2 to 2" in capsys.readouterr().err

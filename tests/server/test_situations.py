"""Problems that users reported of servers and of the command line, one test for each report.

Each test is the shortest program that shows the problem; the tests of the modules go deeper. Other reports have their
tests elsewhere: processes that start in the source folder (``tests/test_source_folder.py``), signals and the check at
the start (``test_uvicorn_server.py``), interrupts (``tests/cli/test_main.py``).
"""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from structgen.cli import main
from structgen.evaluation.report import report
from tests.evaluation.runs import masks, read, run_of

from .calls import CLOCK, WEATHER, as_schema, ask
from .conftest import KEY, Running

COLOUR = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"]}
QUESTION = {"role": "user", "content": "A colour?"}


@pytest.mark.parametrize("seed", range(6))
def test_streams_of_two_answers(client: Any, seed: int) -> None:
    texts = ["", ""]
    extra = {"structured_outputs": {"regex": "[ab]{1,9}"}}
    for part in ask(client, n=2, seed=seed, stream=True, extra=extra):
        for choice in part.choices:
            texts[choice.index] += choice.delta.content or ""
    assert all(0 < len(text) <= 9 and set(text) <= {"a", "b"} for text in texts)


def test_arguments_of_tools_arrive_while_they_are_written(client: Any) -> None:
    options = {"tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 100}
    deltas = [
        delta.function.arguments
        for part in ask(client, stream=True, **options)
        for delta in part.choices[0].delta.tool_calls or []
        if delta.function.arguments
    ]
    assert len(deltas) > 2 and "city" in json.loads("".join(deltas))


def call(arguments: str) -> dict[str, Any]:
    made = {"id": "call_1", "type": "function", "function": {"name": "clock", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [made]}


RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "noon"}
SAID = {"role": "assistant", "content": "Red."}


@pytest.mark.parametrize(
    "history",
    [
        [call(""), RESULT],
        [call('{"zone": "Eu'), RESULT],  # cut off by the budget
        [{**SAID, "parsed": {"colour": "red"}}],
        [{**SAID, "refusal": None}],
        [{**SAID, "annotations": []}],
        [{**SAID, "audio": None, "function_call": None, "tool_calls": None}],
        [{**SAID, "name": "bot", "reasoning_content": "It is red."}],
    ],
)
def test_histories_as_clients_send_them(client: Any, history: list[dict[str, Any]]) -> None:
    answer = ask(client, messages=[QUESTION, *history, QUESTION], tools=[CLOCK], max_tokens=2)
    assert answer.choices[0].message.role == "assistant"


def test_tools_and_a_format_of_the_answer(client: Any) -> None:
    message = ask(client, tools=[CLOCK], response_format=as_schema(COLOUR)).choices[0].message
    assert message.tool_calls or json.loads(message.content)["colour"] in ("red", "blue")


@pytest.mark.parametrize(
    "extra", [{"chat_template_kwargs": {"enable_thinking": False}}, {"reasoning_effort": "low"}]
)
def test_options_of_reasoning(client: Any, extra: dict[str, Any]) -> None:
    answer = ask(client, response_format=as_schema(COLOUR), extra=extra)
    assert json.loads(answer.choices[0].message.content)["colour"] in ("red", "blue")


def test_reasoning_is_separate_from_the_content(client: Any) -> None:
    extra = {"structgen": {"reasoning": True, "max_reasoning": 12}}
    message = ask(client, response_format=as_schema(COLOUR), extra=extra).choices[0].message
    assert set(json.loads(message.content)) == {"colour"} and message.reasoning_content is not None


def test_objects_of_a_format_are_closed(client: Any) -> None:
    schema = {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}
    answer = ask(client, n=4, seed=1, temperature=5.0, response_format=as_schema(schema), max_tokens=12)
    assert [choice.message.content for choice in answer.choices] == 4 * ['{"a": 1}']


def test_web_pages_of_other_origins_can_be_allowed(model: Any) -> None:
    from structgen.server.settings import ServerSettings

    settings = ServerSettings(cors_origins=("https://app.example",), api_keys=(KEY,), compilers=0, samplers=0)
    running = Running(model, settings)
    try:
        asked = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
        url = f"{running.url}/v1/chat/completions"
        with urllib.request.urlopen(urllib.request.Request(url, headers=asked, method="OPTIONS")) as answer:
            assert answer.headers["Access-Control-Allow-Origin"] == "https://app.example"
    finally:
        running.stop()


def test_a_check_shows_problems_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "schema.json"
    path.write_text(
        json.dumps({"properties": {f"key{i}": {"type": "string"} for i in range(130)}, "maxLenght": 3})
    )
    assert main(["check", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 10 and any("maxLenght" in line for line in lines)
    assert main(["check", "--all", str(path)]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 130


@pytest.mark.parametrize(
    ("arguments", "near"),
    [(["genrate", "x"], "generate"), (["check", "{}", "--stict"], "--strict"), (["eval", "rn"], "run")],
)
def test_misspelt_commands_and_options(
    arguments: list[str], near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert f"did you mean {near}?" in capsys.readouterr().err


def test_the_help_of_eval_names_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "structgen eval run" in shown and "structgen eval compare" in shown and "``" not in shown


def test_the_help_of_serve_has_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for option in ("--max-rows N", "--drain-seconds X", "--compile-seconds X"):
        assert "(default " in shown[shown.rindex(option) : shown.rindex(option) + 160], option


def test_reports_compare_only_what_there_is() -> None:
    page = report(
        run_of(
            read("a", "1", compile_s=0.001, masks_us=masks(1, 2)),
            read("b", "1", status="refused", message="no oneOf"),
            read("b", "2", compile_s=0.01, masks_us=masks(5)),
            read("a", "2", status="refused", message="no oneOf"),
        )
    )
    assert "the 0 schemas" not in page and "Bars count" not in page

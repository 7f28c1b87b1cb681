"""Turns as the published templates of the families write them, after the prompt that the template ends with.

Each text was written by hand from reading the template that `ToolFormat.source` cites.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import structgen as sg
from structgen.errors import OptionError
from structgen.tools import FORMATS, AssistantTurn, ToolCall, tools

from .turns import TWO_CALLS, fits
from .walks import FUNCTIONS

ROME = ToolCall("weather", {"city": "Rome", "days": 2})
STOP = ToolCall("stop", {})
OFF = ToolCall("switch", {"on": False})

VECTORS: dict[str, list[tuple[Any, str, AssistantTurn]]] = {
    # The value of `reasoning`, the text, and the turn. What each template puts between parts is part of a text.
    "glm45": [
        (
            "optional",
            "\n<think>Look.</think>\nI look.\n<tool_call>weather\n<arg_key>city</arg_key>\n"
            "<arg_value>Rome</arg_value>\n<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>\n<tool_call>switch\n<arg_key>on</arg_key>\n"
            "<arg_value>false</arg_value>\n</tool_call>",
            AssistantTurn("I look.\n", (ROME, OFF), "Look."),
        ),
        ("optional", "\n<think></think>\nDone.", AssistantTurn("Done.", (), "")),
    ],
    "glm47": [
        (
            "opened",
            "Look.</think><tool_call>switch<arg_key>on</arg_key><arg_value>false</arg_value></tool_call>",
            AssistantTurn("", (OFF,), "Look."),
        )
    ],
    "minimax_m2": [
        (
            "opened",
            'Look.\n</think>\n\nI look.\n<minimax:tool_call>\n<invoke name="weather">\n'
            '<parameter name="city">Rome</parameter>\n<parameter name="days">2</parameter>\n</invoke>\n'
            '<invoke name="switch">\n<parameter name="on">false</parameter>\n</invoke>\n</minimax:tool_call>',
            AssistantTurn("I look.\n", (ROME, OFF), "Look.\n"),
        )
    ],
    "deepseek_v31": [
        (
            False,
            'I look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{"city": "Rome", "days": 2}'
            '<｜tool▁call▁end｜><｜tool▁call▁begin｜>switch<｜tool▁sep｜>{"on": false}<｜tool▁call▁end｜>'
            "<｜tool▁calls▁end｜>",
            AssistantTurn("I look.", (ROME, OFF)),
        )
    ],
    "deepseek_v32": [
        (
            "opened",
            'Look.</think>I look.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name="weather">\n'
            '<｜DSML｜parameter name="city" string="true">Rome</｜DSML｜parameter>\n'
            '<｜DSML｜parameter name="days" string="false">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
            '<｜DSML｜invoke name="switch">\n<｜DSML｜parameter name="on" string="false">false</｜DSML｜parameter>\n'
            "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
            AssistantTurn("I look.\n\n", (ROME, OFF), "Look."),
        )
    ],
    "kimi_k2": [
        (
            "optional",
            "<think>Look.</think>I look.<|tool_calls_section_begin|><|tool_call_begin|>functions.switch:0"
            '<|tool_call_argument_begin|>{"on": false}<|tool_call_end|><|tool_calls_section_end|>',
            AssistantTurn("I look.", (OFF,), "Look."),
        )
    ],
    "kimi_k3": [
        (
            "opened",
            "Look.<|close|>think<|sep|><|open|>response<|sep|>I look.<|close|>response<|sep|><|open|>tools<|sep|>"
            '<|open|>call tool="weather" index="1"<|sep|><|open|>argument key="city" type="string"<|sep|>Rome'
            '<|close|>argument<|sep|><|open|>argument key="days" type="number"<|sep|>2<|close|>argument<|sep|>'
            "<|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>",
            AssistantTurn("I look.", (ROME,), "Look."),
        ),
        (
            "opened",
            "Look.<|close|>think<|sep|><|open|>response<|sep|><|close|>response<|sep|><|open|>tools<|sep|>"
            '<|open|>call tool="switch" index="1"<|sep|><|open|>argument key="on" type="boolean"<|sep|>false'
            "<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>",
            AssistantTurn("", (OFF,), "Look."),
        ),
        (
            "opened",
            "<|close|>think<|sep|><|open|>response<|sep|>Done.<|close|>response<|sep|><|close|>message<|sep|>",
            AssistantTurn("Done.", (), ""),
        ),
    ],
    "kimi_k3_without_thinking": [
        (
            "skipped",
            "I look.<|close|>response<|sep|><|open|>tools<|sep|>"
            '<|open|>call tool="switch" index="1"<|sep|><|open|>argument key="on" type="boolean"<|sep|>false'
            "<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>",
            AssistantTurn("I look.", (OFF,)),
        ),
        (
            "skipped",
            "<|close|>response<|sep|><|open|>tools<|sep|>"
            '<|open|>call tool="switch" index="1"<|sep|><|open|>argument key="on" type="boolean"<|sep|>false'
            "<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>",
            AssistantTurn("", (OFF,)),
        ),
        ("skipped", "Done.<|close|>response<|sep|><|close|>message<|sep|>", AssistantTurn("Done.")),
    ],
    "cohere_command": [
        (
            "optional",
            '<|START_THINKING|>Look.<|END_THINKING|><|START_ACTION|>[\n    {"tool_call_id": "0", '
            '"tool_name": "weather", "parameters": {"city": "Rome", "days": 2}},\n    '
            '{"tool_call_id": "1", "tool_name": "switch", "parameters": {"on": false}}\n]<|END_ACTION|>',
            AssistantTurn("", (ROME, OFF), "Look."),
        ),
        ("optional", "<|START_RESPONSE|>Done.<|END_RESPONSE|>", AssistantTurn("Done.")),
    ],
    "exaone4": [
        (
            True,
            '<think>\nLook.\n</think>\n\nI look.\n<tool_call>{"name": "weather", "arguments": {"city": "Rome", '
            '"days": 2}}</tool_call>\n<tool_call>{"name": "switch", "arguments": {"on": false}}</tool_call>',
            AssistantTurn("I look.\n", (ROME, OFF), "\nLook.\n"),
        )
    ],
    "qwen3_coder": [
        (
            "opened",
            "Look.\n</think>\n\nI look.\n\n<tool_call>\n<function=weather>\n<parameter=city>\nRome\n</parameter>\n"
            "<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=switch>\n"
            "<parameter=on>\nfalse\n</parameter>\n</function>\n</tool_call>",
            AssistantTurn("I look.\n\n", (ROME, OFF), "Look.\n"),
        )
    ],
    "harmony": [
        (
            "optional",
            "<|channel|>analysis<|message|>Look.<|end|><|start|>assistant<|channel|>commentary to=functions.switch "
            '<|constrain|>json<|message|>{"on":false}<|call|>',
            AssistantTurn("", (OFF,), "Look."),
        ),
        (
            "optional",
            "<|channel|>analysis<|message|>Look.<|end|><|start|>assistant<|channel|>final<|message|>Done.",
            AssistantTurn("Done.", (), "Look."),
        ),
    ],
    "gemma4": [
        (
            "optional",
            '<|channel>thought\nLook.<channel|><|tool_call>call:weather{city:<|"|>Rome<|"|>,days:2}<tool_call|>'
            "<|tool_call>call:switch{on:false}<tool_call|>",
            AssistantTurn("", (ROME, OFF), "Look."),
        )
    ],
    "mistral_v3": [
        (
            False,
            '[TOOL_CALLS] [{"name": "weather", "arguments": {"city": "Rome", "days": 2}}]',
            AssistantTurn("", (ROME,)),
        )
    ],
    "hunyuan_a13b": [
        (
            True,
            "<think>\nLook.\n</think>\n<answer>\n"
            '<tool_calls>[{"name": "weather", "arguments": {"city": "Rome", "days": 2}}, '
            '{"name": "switch", "arguments": {"on": false}}]</tool_calls>\n</answer>',
            AssistantTurn("", (ROME, OFF), "Look.\n"),
        ),
        (
            "optional",
            "<think>\nLook.\n</think>\n<answer>\nDone.\n</answer>",
            AssistantTurn("Done.", (), "Look.\n"),
        ),
        ("optional", "<think>\n\n</think>\n<answer>\nDone.\n</answer>", AssistantTurn("Done.", (), "\n")),
        # After a prompt that ends with empty reasoning.
        (False, "<answer>\n助手：Done.\n\nYes.\n</answer>", AssistantTurn("助手：Done.\n\nYes.")),
        (
            False,
            '<answer>\nI look.<tool_calls>[{"name": "stop", "arguments": {}}]</tool_calls>\n</answer>',
            AssistantTurn("I look.", (STOP,)),
        ),
    ],
    "olmo3": [
        (
            False,
            'I look.<function_calls>weather(city="O\' \\"é\\"", days=2)\nstop()\n'
            'visit(places=[{"name": "a", "indoors": true}], flags=[false], note=null)</function_calls>',
            AssistantTurn(
                "I look.",
                (
                    ToolCall("weather", {"city": 'O\' "é"', "days": 2}),
                    STOP,
                    ToolCall(
                        "visit", {"places": [{"name": "a", "indoors": True}], "flags": [False], "note": None}
                    ),
                ),
            ),
        )
    ],
    "pythonic": [(False, '[weather(city="Rome", days=2), switch(on=False)]', AssistantTurn("", (ROME, OFF)))],
}


WITHOUT_ARGUMENTS = {
    "qwen3_coder": "<tool_call>\n<function=stop>\n</function>\n</tool_call>",
    "glm45": "<tool_call>stop\n</tool_call>",
    "glm47": "<tool_call>stop</tool_call>",
    "minimax_m2": '<minimax:tool_call>\n<invoke name="stop">\n</invoke>\n</minimax:tool_call>',
    # The published encodings join the elements with line ends, and put one before and one after them.
    "deepseek_v32": '<｜DSML｜function_calls>\n<｜DSML｜invoke name="stop">\n\n</｜DSML｜invoke>\n'
    "</｜DSML｜function_calls>",
    "deepseek_v4": '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="stop">\n\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>',
    "kimi_k3": "<|open|>response<|sep|><|close|>response<|sep|><|open|>tools<|sep|>"
    '<|open|>call tool="stop" index="1"<|sep|><|close|>call<|sep|>'
    "<|close|>tools<|sep|><|close|>message<|sep|>",
}


@pytest.mark.parametrize("name", [name for name, format in FORMATS.items() if format.style is not None])
def test_calls_without_arguments(name: str) -> None:
    """Also of a tool whose arguments may all be missing, before and after a call with arguments."""

    def look(a: str = "", b: int = 0) -> None: ...

    text = WITHOUT_ARGUMENTS[name]
    for given, renamed in ((FUNCTIONS, text), ([look], text.replace("stop", "look"))):
        turn = tools(given, format=name)
        assert fits(turn, renamed) and turn.render(turn.read(renamed)) == renamed
        assert turn.read(renamed).calls[0].arguments == {}
    turn = tools([look], format=name)
    calls = tuple(
        ToolCall("look", arguments) for arguments in ({}, {"b": 1}, {"a": "x", "b": 2}, {"a": "\n"}, {})
    )
    for wanted in (calls, calls[1:]):
        assert turn.read(turn.render(AssistantTurn("", wanted))).calls == wanted


@pytest.mark.parametrize(
    ("name", "reasoning", "text", "wanted"),
    [
        (name.removesuffix("_without_thinking"), *vector)
        for name, vectors in VECTORS.items()
        for vector in vectors
    ],
)
def test_turns_of_templates(name: str, reasoning: Any, text: str, wanted: AssistantTurn) -> None:
    turn = tools(FUNCTIONS, format=name, reasoning=reasoning)
    assert fits(turn, text), text
    assert turn.read(text) == wanted
    if reasoning == "skipped":
        assert turn.render(wanted) == text
        if wanted.calls and not wanted.text:
            for options in ({"tool_choice": "required"}, {"answer": sg.regex("[0-9]+")}):
                assert fits(tools(FUNCTIONS, format=name, reasoning=reasoning, **options), text)


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "kimi_k3"])
def test_no_prompt_opens_the_answer_in_other_formats(name: str) -> None:
    with pytest.raises(OptionError, match="no prompt can open the answer"):
        tools(FUNCTIONS, format=name, reasoning="skipped")


def test_each_format_has_a_turn_with_calls() -> None:
    assert TWO_CALLS.keys() == FORMATS.keys()


def test_the_documentation_cites_each_source() -> None:
    page = (Path(__file__).parents[2] / "docs" / "tools.md").read_text(encoding="utf-8")
    for format in FORMATS.values():
        cells = [line for line in page.splitlines() if line.startswith(f"| `{format.name}` |")]
        assert len(cells) == 2, format.name
        assert set(re.findall(r"https://[^\s;]+", format.source)) == set(
            re.findall(r"<(https://\S+)>", cells[1])
        )


def test_an_answer_in_kimi_k3_does_not_begin_as_an_empty_text_before_calls() -> None:
    format = FORMATS["kimi_k3"]
    begin = (format.say[1] + format.opening).replace('"', '\\"')
    with pytest.raises(OptionError, match="the answer may begin with"):
        tools(FUNCTIONS, format=format, answer=sg.lark(f'start: "{begin}" | "(" start ")"'))
    answer = sg.json_schema({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    turn = tools(FUNCTIONS, format=format, answer=answer)
    assert fits(turn, TWO_CALLS["kimi_k3"]) and len(turn.read(TWO_CALLS["kimi_k3"]).calls) == 2
    text = '<|open|>response<|sep|>{"n": 1}<|close|>response<|sep|><|close|>message<|sep|>'
    assert fits(turn, text) and turn.read(text) == AssistantTurn('{"n": 1}')

"""Turns as models write them."""

from __future__ import annotations

import structgen as sg
from structgen.tools import ToolFormat

from .walks import plain

__all__ = ["TWO_CALLS", "answer_markers", "fits"]

TWO_CALLS = {
    "hermes": '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>\n'
    '<tool_call>\n{"name": "switch", "arguments": {"on": true}}\n</tool_call>',
    "llama3_json": '{"name": "weather", "parameters": {"city": "Paris", "days": 2}}',
    "pythonic": '[weather(city="Paris", days=2), switch(on=True)]',
    "mistral": '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Paris", "days": 2}}, '
    '{"name": "switch", "arguments": {"on": true}}]',
    "mistral_args": '[TOOL_CALLS]weather[ARGS]{"city": "Paris", "days": 2}[TOOL_CALLS]switch[ARGS]{"on": true}',
    "deepseek_v3": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n"
    '{"city": "Paris", "days": 2}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>switch\n'
    '```json\n{"on": true}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "deepseek_v31": '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{"city": "Paris", "days": 2}'
    '<｜tool▁call▁end｜><｜tool▁call▁begin｜>switch<｜tool▁sep｜>{"on": true}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "harmony": "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>"
    '{"city":"Paris","days":2}<|call|>',
    "qwen3_coder": "<tool_call>\n<function=weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n2\n"
    "</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=switch>\n<parameter=on>\ntrue\n</parameter>\n"
    "</function>\n</tool_call>",
    "mistral_v11": '[TOOL_CALLS]weather[CALL_ID]Ab3dEf9h1[ARGS]{"city": "Paris", "days": 2}'
    '[TOOL_CALLS]switch[CALL_ID]000000001[ARGS]{"on": true}',
    "glm45": "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n"
    "<arg_value>2</arg_value>\n</tool_call>\n<tool_call>switch\n<arg_key>on</arg_key>\n<arg_value>true</arg_value>\n"
    "</tool_call>",
    "glm47": "<tool_call>weather<arg_key>city</arg_key><arg_value>Paris</arg_value><arg_key>days</arg_key>"
    "<arg_value>2</arg_value></tool_call><tool_call>switch<arg_key>on</arg_key><arg_value>true</arg_value></tool_call>",
    "minimax_m2": '<minimax:tool_call>\n<invoke name="weather">\n<parameter name="city">Paris</parameter>\n'
    '<parameter name="days">2</parameter>\n</invoke>\n<invoke name="switch">\n<parameter name="on">true</parameter>\n'
    "</invoke>\n</minimax:tool_call>",
    "deepseek_v32": '<｜DSML｜function_calls>\n<｜DSML｜invoke name="weather">\n'
    '<｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>\n'
    '<｜DSML｜parameter name="days" string="false">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
    '<｜DSML｜invoke name="switch">\n<｜DSML｜parameter name="on" string="false">true</｜DSML｜parameter>\n'
    "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    "kimi_k2": "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>"
    '{"city": "Paris", "days": 2}<|tool_call_end|><|tool_call_begin|>functions.switch:1<|tool_call_argument_begin|>'
    '{"on": true}<|tool_call_end|><|tool_calls_section_end|>',
    "kimi_k3": "<|open|>response<|sep|><|close|>response<|sep|>"
    '<|open|>tools<|sep|><|open|>call tool="weather" index="1"<|sep|>'
    '<|open|>argument key="city" type="string"<|sep|>Paris<|close|>argument<|sep|>'
    '<|open|>argument key="days" type="number"<|sep|>2<|close|>argument<|sep|><|close|>call<|sep|>'
    '<|open|>call tool="switch" index="2"<|sep|><|open|>argument key="on" type="boolean"<|sep|>true'
    "<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>",
    "cohere_command": '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "weather", "parameters": '
    '{"city": "Paris", "days": 2}},\n    {"tool_call_id": "1", "tool_name": "switch", "parameters": {"on": true}}\n'
    "]<|END_ACTION|>",
    "exaone4": '<tool_call>{"name": "weather", "arguments": {"city": "Paris", "days": 2}}</tool_call>\n'
    '<tool_call>{"name": "switch", "arguments": {"on": true}}</tool_call>',
    "gemma4": '<|tool_call>call:weather{city:<|"|>Paris<|"|>,days:2}<tool_call|>'
    "<|tool_call>call:switch{on:true}<tool_call|>",
    "granite4": '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>\n'
    '<tool_call>\n{"name": "switch", "arguments": {"on": true}}\n</tool_call>',
    "granite3": '<|tool_call|>[{"name": "weather", "arguments": {"city": "Paris", "days": 2}}, '
    '{"name": "switch", "arguments": {"on": true}}]',
    "phi4_mini": 'functools[{"name": "weather", "arguments": {"city": "Paris", "days": 2}}, '
    '{"name": "switch", "arguments": {"on": true}}]',
    "hunyuan_a13b": '<answer>\n<tool_calls>[{"name": "weather", "arguments": {"city": "Paris", "days": 2}}, '
    '{"name": "switch", "arguments": {"on": true}}]</tool_calls>\n</answer>',
    "olmo3": '<function_calls>weather(city="Paris", days=2)\nswitch(on=true)</function_calls>',
}


TWO_CALLS["mistral_v3"] = TWO_CALLS["mistral"].replace("[TOOL_CALLS][", "[TOOL_CALLS] [")
TWO_CALLS["granite31"] = TWO_CALLS["granite3"].replace("<|tool_call|>", "<tool_call>")
TWO_CALLS["deepseek_v4"] = TWO_CALLS["deepseek_v32"].replace("function_calls", "tool_calls")


def answer_markers(format: ToolFormat) -> tuple[str, str]:
    """Return the texts around an answer without calls."""
    return format.reply[0] + format.answer[0], format.answer[1] + format.reply[1]


def fits(constraint: sg.Constraint, text: str) -> bool:
    matcher = sg.Matcher(constraint, plain())
    data = list(text.encode())
    return matcher.accepts(data) == len(data) and all(map(matcher.advance, data)) and matcher.is_complete()

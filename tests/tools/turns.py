"""Turns as models write them."""

from __future__ import annotations

import structgen as sg

from .walks import plain

__all__ = ["TWO_CALLS", "fits"]

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
}


def fits(constraint: sg.Constraint, text: str) -> bool:
    matcher = sg.Matcher(constraint, plain())
    data = list(text.encode())
    return matcher.accepts(data) == len(data) and all(map(matcher.advance, data)) and matcher.is_complete()

"""Turns that the formats write, read by the parsers of an installed vLLM; `make test-vllm` runs it."""

from __future__ import annotations

import json
import random
from importlib.util import find_spec
from typing import Any
from unittest.mock import MagicMock

import pytest

if find_spec("vllm") is None:
    pytest.skip("vLLM is not installed; make test-vllm runs these", allow_module_level=True)

from structgen.tools import FORMATS, AssistantTurn, ToolCall, read_tools, tools
from tests.tools.walks import FUNCTIONS, plain, stop, switch, walk, weather

PARSERS = {
    "hermes": "hermes",
    "llama3_json": "llama3_json",
    "pythonic": "pythonic",
    "mistral": "mistral",
    "mistral_v3": "mistral",
    "mistral_args": "mistral",
    "deepseek_v3": "deepseek_v3",
    "deepseek_v31": "deepseek_v31",
    "deepseek_v32": "deepseek_v32",
    "deepseek_v4": "deepseek_v4",
    "qwen3_coder": "qwen3_coder",
    "glm45": "glm45",
    "glm47": "glm47",
    "minimax_m2": "minimax_m2",
    "kimi_k2": "kimi_k2",
    "kimi_k3": "kimi_k3",
    "granite3": "granite",
    "granite31": "granite",
    "granite4": "granite4",
    "hunyuan_a13b": "hunyuan_a13b",
    "olmo3": "olmo3",
    "gemma4": "gemma4",
}
"""The name of vLLM's parser for each format. Its parser of Phi-4-mini ends calls at any bracket, so it is not here."""
FLAT = ("gemma4",)
"""Formats whose parser in vLLM reads booleans inside objects as texts."""
OTHERS = ("<|python_tag|>",)
"""Special tokens that parsers need and formats do not write."""


def tokenizer_of(name: str) -> Any:
    """Return a tokenizer that has the special tokens of the format, and nothing else."""
    known = MagicMock()
    format = FORMATS[name]
    marks = dict.fromkeys((*format.specials, *format.think, *format.reply, *OTHERS))
    known.get_vocab.return_value = {mark: index for index, mark in enumerate(marks)}
    known.vocab = known.get_vocab.return_value
    return known


@pytest.mark.parametrize("name", PARSERS)
def test_vllm_reads_the_same_calls(name: str) -> None:
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionToolsParam
    from vllm.tool_parsers import ToolParserManager

    functions = [weather, switch, stop] if name in FLAT else FUNCTIONS
    offered = [ChatCompletionToolsParam(**tool.definition()) for tool in read_tools(functions)]
    several = {} if FORMATS[name].between is None else {"max_calls": 3}
    turn = tools(functions, format=name, tool_choice="required", **several)
    request = MagicMock(tools=offered)
    for seed in range(40):
        text = walk(turn, plain(), random.Random(seed))
        parser = ToolParserManager.get_tool_parser(PARSERS[name])(tokenizer_of(name), offered)
        found = parser.extract_tool_calls(text, request).tool_calls
        theirs = [(call.function.name, json.loads(call.function.arguments)) for call in found]
        assert theirs == [(call.name, call.arguments) for call in turn.read(text).calls], text


def test_vllm_reads_the_same_reasoning_and_answer() -> None:
    """vLLM's parser needs line ends around the reasoning, as the model writes them."""
    from vllm.reasoning.hunyuan_a13b_reasoning_parser import HunyuanA13BReasoningParser

    parser = HunyuanA13BReasoningParser(tokenizer_of("hunyuan_a13b"))
    turn = tools([weather], format="hunyuan_a13b", reasoning=True)
    for thought, answer in (("Look.", "Done."), ("a\n\nb", "\nDone.\n\nYes. "), ("", "<answer")):
        text = turn.render(AssistantTurn(answer, (), thought + "\n"))
        assert parser.extract_reasoning(text, MagicMock()) == (thought or None, answer)
    called = AssistantTurn("", (ToolCall("weather", {"city": "Rome"}),), "Look.\n")
    reasoning, content = parser.extract_reasoning(turn.render(called), MagicMock())
    assert reasoning == "Look." and content is not None and content.startswith("<tool_calls>[")

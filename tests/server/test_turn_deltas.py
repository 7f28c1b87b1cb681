"""Deltas of a growing answer add up to the whole turn, wherever the text is cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structgen.generation.options import SamplingOptions
from structgen.server.answers import whole_turn
from structgen.server.completion_request import CompletionRequest
from structgen.server.errors import ApiError
from structgen.server.reasoning import ReasoningFormat
from structgen.server.tool_fields import RequestedTools
from structgen.server.turn_deltas import ArgumentsDelta, CallStart, ReasoningDelta, TextDelta, TurnDeltas
from structgen.tools import FORMATS, read_tools

from .calls import CLOCK, WEATHER

CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome", "days": 3}}\n</tool_call>'
TURNS = [
    "Just text, with <tool and <think> in it.",
    f"First this.\n{CALL}",
    f"<think>Rome, of course.</think>\n{CALL}",
    f"<think></think>\n\n{CALL}\n"
    + CALL.replace("weather", "clock").replace('"city": "Rome", "days": 3', ""),
    "<think>Nothing to call.</think>\n\nNo.",
]


def request_of(with_tools: bool) -> CompletionRequest:
    """Return a request whose answer may reason."""
    tools = RequestedTools(read_tools([WEATHER, CLOCK]), FORMATS["hermes"], {}) if with_tools else None
    reasoning = ReasoningFormat("<think>", "</think>", optional=True)
    return CompletionRequest("chat", "m", [], SamplingOptions(), tools=tools, reasoning=reasoning)


def joined(deltas: list[Any]) -> tuple[str, str, list[tuple[str, str]]]:
    """Return the reasoning, the text and the calls that the deltas add up to."""
    reasoning, text = "", ""
    calls: list[tuple[str, str]] = []
    for delta in deltas:
        if isinstance(delta, ReasoningDelta):
            reasoning += delta.text
        elif isinstance(delta, TextDelta):
            text += delta.text
        elif isinstance(delta, CallStart):
            assert delta.index == len(calls)
            calls.append((delta.name, ""))
        else:
            assert isinstance(delta, ArgumentsDelta) and delta.text
            name, arguments = calls[delta.index]
            calls[delta.index] = (name, arguments + delta.text)
    return reasoning, text, calls


@given(st.sampled_from(TURNS), st.booleans(), st.sets(st.integers(0, 200)), st.integers(0, 200))
def test_deltas_add_up(turn: str, with_tools: bool, cuts: set[int], end: int) -> None:
    request = request_of(with_tools)
    turn = turn[: max(end, 1)]
    deltas = TurnDeltas(request)
    found = [delta for cut in sorted(cuts) for delta in deltas.new(turn[:cut], ends=False)]
    found += deltas.new(turn, ends=True)
    reader = request.reader()
    assert reader is not None
    whole = whole_turn(reader, turn, is_cut_off=True)
    calls = [(call.name, call.arguments) for call in whole.calls]
    assert joined(found) == (whole.reasoning or "", whole.text, calls)


def test_text_that_backtracks_past_what_was_sent_is_an_error() -> None:
    deltas = TurnDeltas(request_of(with_tools=False))
    assert list(deltas.new("<think>abc", ends=False)) == [ReasoningDelta("abc")]
    assert list(deltas.new("<think>abcd", ends=False)) == [ReasoningDelta("d")]
    with pytest.raises(ApiError, match="already sent"):
        list(deltas.new("<think>ax", ends=False))

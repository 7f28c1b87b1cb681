"""Markers around all that follows the reasoning, in formats that differ in how calls end."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import structgen as sg
from structgen.errors import OutputInvalid, StructgenError
from structgen.tools import FORMATS, AssistantTurn, ToolCall, ToolFormat, ToolTurn, tools

from .random_calls import turns
from .turns import fits
from .walks import FUNCTIONS, plain, walk, weather

HUNYUAN = FORMATS["hunyuan_a13b"]
HERMES = FORMATS["hermes"]
OLMO = FORMATS["olmo3"]
DSML = FORMATS["deepseek_v32"]


def wrapped(format: ToolFormat, **changes: Any) -> ToolFormat:
    specials = (*format.specials, "</think>", "</answer>")
    return replace(
        format,
        name=f"wrapped {format.name}",
        reply=("<answer>\n", "\n</answer>"),
        specials=specials,
        **changes,
    )


WRAPPED = [
    HUNYUAN,
    wrapped(HERMES),  # nothing comes after the last call
    wrapped(HERMES, between=None),
    wrapped(OLMO),
    wrapped(OLMO, end=""),  # a line end comes before the next call, and before the end
    wrapped(DSML),
]


def read_in_pieces(turn: ToolTurn, text: str, rng: random.Random) -> AssistantTurn:
    parser = turn.parser()
    while text:
        size = rng.choice((1, 2, 7))
        parser.feed(text[:size])
        text = text[size:]
    parser.finish()
    return parser.turn


@pytest.mark.parametrize("format", WRAPPED, ids=lambda format: format.name)
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_rendered_turns_are_read_back(format: ToolFormat, data: st.DataObject, seed: int) -> None:
    definitions, wanted = data.draw(turns(format))
    try:
        turn = tools(definitions, format=format, reasoning="optional")
        text = turn.render(wanted)
    except StructgenError:
        assume(False)
        return
    assert fits(turn, text) and turn.read(text) == wanted
    assert read_in_pieces(turn, text, random.Random(seed)) == wanted
    begin, end = format.reply
    after = text if wanted.reasoning is None else text.partition(format.think[1])[2]
    assert after.startswith(begin) and after.endswith(end)


@pytest.mark.parametrize("format", WRAPPED, ids=lambda format: format.name)
def test_random_texts_of_the_constraint_are_read(format: ToolFormat) -> None:
    options: list[dict[str, Any]] = [{}, {"reasoning": True, "max_reasoning": 5}, {"tool_choice": "required"}]
    options += [{"answer": sg.regex("[0-9]+"), "reasoning": "optional", "max_reasoning": 5}]
    options += [{"answer": sg.lark('start: "(" start ")" | "</answer>"')}]
    for given_options in options:
        most: dict[str, Any] = {} if "answer" in given_options else {"max_text": 6}
        most |= {} if format.between is None else {"max_calls": 2}
        turn = tools(FUNCTIONS, format=format, **most, **given_options)
        for seed in range(5):
            rng = random.Random(seed)
            text = walk(turn, plain(), rng)
            assert read_in_pieces(turn, text, rng) == turn.read(text)
            assert fits(turn, turn.render(turn.read(text)))


@pytest.mark.parametrize("format", WRAPPED, ids=lambda format: format.name)
@pytest.mark.parametrize("answer", [None, sg.regex("[A-Za-z.]+"), sg.lark('start: "D" "one."')])
def test_turns_need_the_whole_reply(format: ToolFormat, answer: Any) -> None:
    turn = tools([weather], format=format, answer=answer)
    text = "<answer>\nDone.\n</answer>"
    assert fits(turn, text) and turn.read(text) == AssistantTurn("Done.")
    called = turn.render(AssistantTurn("", (ToolCall("weather", {"city": "Rome"}),)))
    for whole in (text, called):
        for wrong in (whole[:-1], whole[: -len("\n</answer>")], whole.removeprefix("<answer>\n")):
            assert not fits(turn, wrong)
            with pytest.raises(OutputInvalid):
                turn.read(wrong)
    parser = turn.parser()
    parser.feed("<answer>\nDone.")
    assert [event.text for event in parser.finish(is_cut_off=True)] == []
    assert not parser.is_whole
    with pytest.raises(OutputInvalid, match="more"):
        turn.read(called + "x")


@pytest.mark.parametrize("answer", [None, sg.regex("[A-Za-z.]*"), sg.lark('start: "D"?')])
def test_the_texts_of_reply_do_not_overlap(answer: Any) -> None:
    """The line end of `<answer>\\n` is not also that of `\\n</answer>`."""
    turn = tools([weather], format=HUNYUAN, answer=answer)
    assert not fits(turn, "<answer>\n</answer>") and fits(turn, "<answer>\n\n</answer>")
    for size in (1, 9, 19):
        parser = turn.parser()
        for start in range(0, 19, size):
            parser.feed("<answer>\n</answer>"[start : start + size])
        parser.finish(is_cut_off=True)
        assert not parser.is_whole
    with pytest.raises(OutputInvalid, match="the turn has no end"):
        turn.read("<answer>\n</answer>")
    assert turn.read("<answer>\n\n</answer>") == AssistantTurn("")


def test_free_text_has_no_end_of_the_reply() -> None:
    turn = tools([weather], format="hunyuan_a13b")
    for text in ("a</answer>b", "a\n</answer>b", "<answer>"):
        assert not fits(turn, text.join(HUNYUAN.reply))
        with pytest.raises(OutputInvalid, match="cannot write this turn"):
            turn.render(AssistantTurn(text))
    for text in ("", "\n", "\n\n</answer", "</think"):
        assert turn.read(turn.render(AssistantTurn(text))) == AssistantTurn(text)

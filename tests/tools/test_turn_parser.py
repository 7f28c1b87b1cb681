"""Turns are rendered, allowed by the constraint, and parsed back, in pieces of any size."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, event, find, given, settings
from hypothesis import strategies as st

import structgen as sg
from structgen.errors import OptionError, OutputInvalid, UnsupportedKeyword
from structgen.tools import FORMATS, AssistantTurn, ToolCall, ToolTurn, TurnEvent, merged, tools, turn_of

from .random_calls import MARKERS, in_declared_order, turns
from .turns import fits
from .walks import DEFINITION, FUNCTIONS, plain, walk, weather, with_specials


def pieces_of(turn: ToolTurn, text: str, rng: random.Random) -> Iterator[bytes]:
    """Cut a text anywhere, also inside characters. In half of the cases special tokens stay whole."""
    data = text.encode()
    keep = (
        [mark.encode() for mark in (*turn.format.specials, *turn.format.think)] if rng.random() < 0.5 else []
    )
    units = list(re.split(b"(" + b"|".join(map(re.escape, keep)) + b")", data)) if keep else [data]
    most = rng.choice((1, 2, 7, 40))
    for unit in units:
        while unit and unit not in keep:
            size = rng.randint(1, most)
            yield unit[:size]
            unit = unit[size:]
        if unit:
            yield unit


def events_of(turn: ToolTurn, text: str, rng: random.Random | None = None) -> list[TurnEvent]:
    parser = turn.parser()
    pieces = [text.encode()] if rng is None else pieces_of(turn, text, rng)
    found = [event for piece in pieces for event in parser.feed(piece)]
    found += parser.finish()
    assert parser.is_whole and parser.turn == turn.read(text)
    return merged(found)


def check_order(events: list[TurnEvent]) -> None:
    """Check that reasoning comes before content, content before calls, and each call is started and finished."""
    kinds = [event.kind for event in events]
    wanted = [kind for kind in ("reasoning", "content") if kind in kinds]
    for call in range(kinds.count("call_started")):
        wanted += ["call_started", "argument_delta", "call_finished"]
        assert [event.call for event in events if event.call == call] == [call] * 3
    assert kinds == wanted


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_rendered_turns_are_allowed_and_parsed_back(name: str, data: st.DataObject, seed: int) -> None:
    definitions, wanted = data.draw(turns(FORMATS[name]))
    try:
        turn = tools(definitions, format=name, reasoning="optional")
    except (UnsupportedKeyword, sg.errors.ConstraintError):
        event("unsupported schema")
        assume(False)
        return
    try:
        text = turn.render(wanted)
    except OutputInvalid:
        event("cannot be written")
        assert not_expressible(turn, wanted)
        return
    event("rendered")
    assert fits(turn, text), text  # `render` has checked it, too
    assert turn.read(text) == wanted
    whole = events_of(turn, text)
    assert events_of(turn, text, random.Random(seed)) == whole
    assert turn_of(whole) == wanted
    check_order(whole)


def parts_of(value: Any) -> Iterator[Any]:
    """Yield a value and all values inside it."""
    yield value
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in inside:
        yield from parts_of(part)


FEATURES: dict[str, Callable[[AssistantTurn, list[Any]], bool]] = {
    "an empty object inside": lambda turn, parts: {} in parts,
    "an object in an array": lambda turn, parts: any(
        isinstance(part, list) and any(isinstance(item, dict) and item for item in part) for part in parts
    ),
    "an array in an object": lambda turn, parts: any(
        isinstance(part, dict) and any(isinstance(item, list) and item for item in part.values())
        for part in parts
    ),
    "an empty array": lambda turn, parts: [] in parts,
    "a marker in a string": lambda turn, parts: any(
        isinstance(part, str) and any(mark in part for mark in MARKERS if mark[0] == "<") for part in parts
    ),
    "other scripts": lambda turn, parts: any(isinstance(part, str) and not part.isascii() for part in parts),
    "an exponent": lambda turn, parts: any(isinstance(part, float) and "e" in repr(part) for part in parts),
    "null": lambda turn, parts: None in parts,
    "three calls": lambda turn, parts: len(turn.calls) == 3,
    "one tool twice": lambda turn, parts: len({call.name for call in turn.calls}) < len(turn.calls),
    "a call without arguments": lambda turn, parts: any(not call.arguments for call in turn.calls),
    "reasoning, text and calls": lambda turn, parts: bool(turn.reasoning and turn.text and turn.calls),
    "the beginning of a marker": lambda turn, parts: bool(turn.calls) and "<tool_call" in turn.text,
}


@pytest.mark.parametrize("feature", FEATURES)
def test_the_strategy_draws_what_matters(feature: str) -> None:
    def has_feature(drawn: tuple[Any, AssistantTurn]) -> bool:
        parts = [
            part for call in drawn[1].calls for value in call.arguments.values() for part in parts_of(value)
        ]
        return FEATURES[feature](drawn[1], parts)

    find(turns(FORMATS["hermes"]), has_feature, settings=settings(max_examples=1000, phases=[Phase.generate]))


def not_expressible(turn: ToolTurn, wanted: AssistantTurn) -> bool:
    """Return whether a turn has a part for which the format has no text."""
    format = turn.format
    marks = [format.marker, *format.specials, *format.think]
    free = wanted.text + "|" + (wanted.reasoning or "")
    if any(mark in free for mark in marks) or (format.at_start and wanted.text.startswith(format.marker)):
        return True
    if wanted.text.startswith("\n") and wanted.reasoning is not None:
        return True  # line ends after the reasoning are not text
    if format.style is None and not format.quote:
        return False
    if format.quote:
        written = json.dumps([call.arguments for call in wanted.calls], ensure_ascii=False)
        return json.dumps(format.quote)[1:-1] in written or "null" in written
    assert format.style is not None
    ends = (format.style.end.strip(), *format.style.never)
    values = [value for call in wanted.calls for value in call.arguments.values()]
    written = [json.dumps(value, ensure_ascii=False) for value in values]
    return "null" in values or any(end in text for end in ends for text in written)


@pytest.mark.parametrize(
    ("name", "reasoning"),
    [*itertools.product(FORMATS, [False, True, "optional", "opened"]), ("kimi_k3", "skipped")],
)
def test_random_texts_of_the_constraint_are_parsed(name: str, reasoning: Any) -> None:
    format = FORMATS[name]
    given: list[Any] = [*FUNCTIONS, *([] if format.arguments == "python" else [DEFINITION])]
    turn = tools(
        given,
        format=name,
        reasoning=reasoning,
        max_reasoning=9 if reasoning not in (False, "skipped") else None,
        max_text=9,
        max_calls=None if format.between is None else 2,
    )
    for seed in range(5):
        rng = random.Random(seed)
        text = walk(turn, with_specials(name) if seed % 2 else plain(), rng)
        whole = events_of(turn, text)
        for _ in range(3):
            assert events_of(turn, text, rng) == whole, text
        assert turn_of(whole) == turn.read(text)
        check_order(whole)


def test_tokens_and_bytes_are_pieces() -> None:
    known = with_specials("harmony")
    turn = tools([weather], format="harmony")
    names = known.specials
    tokens = [names["<|channel|>"], *b"commentary to=functions.weather ", names["<|constrain|>"], *b"json"]
    tokens += [names["<|message|>"], *'{"city":"é"}'.encode(), names["<|call|>"]]
    parser = turn.parser()
    found = [event for token in tokens for event in parser.feed_tokens([token], known)]
    assert merged(found + parser.finish()) == [
        TurnEvent("call_started", call=0, name="weather"),
        TurnEvent("argument_delta", '{"city":"é"}', call=0),
        TurnEvent("call_finished", call=0),
    ]
    assert parser.turn == AssistantTurn("", (ToolCall("weather", {"city": "é"}),))


def test_the_end_of_a_parser() -> None:
    turn = tools([weather])
    parser = turn.parser()
    parser.feed('<tool_call>\n{"name": "weather", "arguments": {"ci')
    with pytest.raises(OutputInvalid, match="the turn has no end"):
        parser.finish()
    with pytest.raises(OptionError, match="the parser has finished its turn"):
        parser.feed("more")
    parser = turn.parser()
    parser.feed('<tool_call>\n{"name": "weather", "arguments": {"ci')
    assert parser.finish(is_cut_off=True) == [] and not parser.is_whole
    with pytest.raises(OutputInvalid):
        assert parser.turn
    with pytest.raises(OutputInvalid, match="calls no|is missing"):
        turn.parser().feed('<tool_call>\n{"name": "wander')


def test_a_turn_that_cannot_be_written() -> None:
    turn = tools([weather], format="qwen3_coder")
    with pytest.raises(OutputInvalid, match="cannot write this turn"):
        turn.render(AssistantTurn("", (ToolCall("weather", {"city": "a</parameter>b"}),)))
    with pytest.raises(OutputInvalid, match="cannot write this turn"):
        tools([weather], format="pythonic").render(
            AssistantTurn("I look.", (ToolCall("weather", {"city": "a"}),))
        )


def test_a_text_that_is_no_turn_stays_one() -> None:
    parser = tools([weather]).parser()
    for piece in ('<tool_call>\n{"name": "wander"', "more"):
        with pytest.raises(OutputInvalid, match="is missing"):
            parser.feed(piece)
    with pytest.raises(OutputInvalid, match="is missing"):
        parser.finish(is_cut_off=True)


@pytest.mark.parametrize("name", FORMATS)
def test_an_answer_that_is_not_regular_never_begins_as_calls_do(name: str) -> None:
    format = FORMATS[name]
    opening = format.opening

    def answer(begin: str) -> sg.Constraint:
        return sg.lark(f'start: {json.dumps(begin, ensure_ascii=False)} "x" | "(" start ")"')

    if format.is_framed:
        turn = tools([weather], format=format, answer=answer(opening))
        text = f"{format.answer[0]}{opening}x{format.answer[1]}"
        assert fits(turn, text) and turn.read(text).text == opening + "x"
        return
    if format.at_start:
        turn = tools([weather], format=format, answer=answer(opening))
        assert fits(turn, opening + "x") and turn.read(opening + "x") == AssistantTurn(opening + "x")
        return
    for begin, options in ((opening, {}), (f"\n{opening}", {"reasoning": True})):
        if format.reply[0] and begin != opening:
            continue  # no line ends come between the reasoning and its marker
        with pytest.raises(OptionError, match="the answer may begin with"):
            tools([weather], format=format, answer=answer(begin), **options)
    tools([weather], format=format, answer=answer(opening), tool_choice="required")
    if format.reply[0]:
        turn = tools([weather], format=format, answer=answer(format.think[0]), reasoning="optional")
        for text in (format.think[0] + "x", f"({format.think[0]}x)"):
            assert turn.read(text.join(format.reply)) == AssistantTurn(text)
        return
    with pytest.raises(OptionError, match="the answer may begin with"):
        tools([weather], format=format, answer=answer(format.think[0]), reasoning="optional")
    turn = tools([weather], format=format, answer=answer(f"\n{opening}"))
    for text in (f"\n{opening}x", f"(\n{opening}x)"):
        assert fits(turn, text) and turn.read(text) == AssistantTurn(text)


@pytest.mark.parametrize("name", [name for name, format in FORMATS.items() if format.at_start])
def test_text_after_reasoning_does_not_begin_as_calls_do(name: str) -> None:
    turn = tools([weather], format=name, reasoning=True)
    marker = FORMATS[name].marker
    assert not fits(turn, f"<think>a</think>\n{marker}abc")
    text = f"<think>a</think>\n\n\n{marker}abc"
    assert fits(turn, text) and turn.read(text).text == f"\n{marker}abc"


def test_an_answer_that_only_looks_like_a_call_is_an_answer() -> None:
    text = '{"name": "weather", "parameters": {a}}'
    answer = sg.lark(f'start: {json.dumps(text)} | "(" start ")"')
    turn = tools([weather], format="llama3_json", answer=answer)
    assert fits(turn, text) and turn.read(text) == AssistantTurn(text)


S = {"type": "string"}


def declared(*keys: str) -> dict[str, Any]:
    return {"type": "object", "properties": dict.fromkeys(keys, S), "additionalProperties": False}


@pytest.mark.parametrize(
    ("choice", "keys"),
    [
        ([{"type": "object", "additionalProperties": S}, declared("k")], ["k", "a"]),
        ([declared("a", "b"), declared("b", "a")], ["a", "b"]),
        ([declared("b"), declared("a", "b")], ["b", "a"]),
    ],
)
@pytest.mark.parametrize("nest", [lambda s, v: (s, v), lambda s, v: ({"type": "array", "items": s}, [v])])
def test_a_choice_of_objects_has_one_order_of_keys(choice: list[Any], keys: list[str], nest: Any) -> None:
    schema, value = nest({"anyOf": choice}, dict.fromkeys(keys, ""))
    function = {"name": "f", "parameters": {"type": "object", "properties": {"x": schema}}}
    turn = tools([function], format="hermes")
    wanted = AssistantTurn("", (ToolCall("f", {"x": value}),))
    assert turn.read(turn.render(wanted)) == wanted
    other = nest(None, dict.fromkeys(reversed(keys), ""))[1]
    with pytest.raises(OutputInvalid, match="cannot write this turn"):
        turn.render(AssistantTurn("", (ToolCall("f", {"x": other}),)))
    assert json.dumps(in_declared_order(other, [schema])) == json.dumps(value)

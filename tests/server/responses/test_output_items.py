"""The items of a response are those that a client puts together from the events, for any deltas."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structgen.server.answers import Choice
from structgen.server.responses.output_items import OutputItems, deltas_of
from structgen.server.tool_fields import RequestedTools
from structgen.server.turn_deltas import ArgumentsDelta, CallStart, ReasoningDelta, TextDelta
from structgen.tools import FORMATS, read_tools
from structgen.tools.partial_turn import PartialCall

from .calls import Replay

TEXTS = st.lists(st.text("ab", min_size=1, max_size=3), max_size=3)
CALLS = st.lists(st.tuples(st.sampled_from(["f", "g", "write"]), TEXTS), max_size=3)
OFFERED = read_tools([{"type": "function", "name": "f"}, {"type": "custom", "name": "write"}])
TOOLS = RequestedTools(OFFERED, FORMATS["hermes"], {})


@st.composite
def answers(draw: st.DrawFn) -> tuple[list[Any], Choice]:
    """Draw the deltas of an answer, and the answer."""
    reasoning, text, calls = draw(TEXTS), draw(TEXTS), draw(CALLS)
    deltas: list[Any] = [*map(ReasoningDelta, reasoning), *map(TextDelta, text)]
    made = []
    for index, (name, arguments) in enumerate(calls):
        is_custom, written = name == "write", "".join(arguments)
        deltas.append(CallStart(index, name, is_custom))
        deltas += [ArgumentsDelta(index, piece, is_custom) for piece in arguments]
        made.append(
            PartialCall(name, json.dumps({"input": written}) if is_custom else written, is_whole=True)
        )
    reason = draw(st.sampled_from(["stop", "length"]))
    if made:
        made[-1].is_whole = reason == "stop" or draw(st.booleans())
    scored = (
        [{"token": "a", "logprob": -1.0, "bytes": [97], "top_logprobs": []}] if draw(st.booleans()) else None
    )
    return deltas, Choice("".join(text), reason, made, "".join(reasoning) or None, scored)


def followed(items: OutputItems, deltas: list[Any], choice: Choice) -> Replay:
    """Return a client that has followed all events."""
    replay = Replay()
    numbers = itertools.count()
    replay.feed(
        {"type": "response.created", "response": {"status": "in_progress"}, "sequence_number": next(numbers)}
    )
    for delta in deltas:
        for event in items.add(delta):
            replay.feed({**event, "sequence_number": next(numbers)})
    for event in items.close(choice):
        replay.feed({**event, "sequence_number": next(numbers)})
    return replay


def without_ids(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in item.items() if key not in ("id", "call_id")} for item in items]


@given(answers())
def test_events_add_up_to_the_items(drawn: tuple[list[Any], Choice]) -> None:
    deltas, choice = drawn
    items = OutputItems(has_logprobs=choice.logprobs is not None)
    assert followed(items, deltas, choice).output == items.items

    whole = OutputItems(has_logprobs=choice.logprobs is not None)
    followed(whole, list(deltas_of(choice, TOOLS)), choice)
    assert without_ids(whole.items) == without_ids(items.items)

    kinds = [item["type"] for item in items.items]
    shows_message = bool(choice.text) or (
        not choice.calls and (choice.reason == "stop" or not choice.reasoning)
    )
    assert kinds == [
        *(["reasoning"] if choice.reasoning else []),
        *(["message"] if shows_message else []),
        *("custom_tool_call" if call.name == "write" else "function_call" for call in choice.calls),
    ]
    incomplete = [item["status"] == "incomplete" for item in items.items]
    is_cut = choice.reason == "length" and not (choice.calls and choice.calls[-1].is_whole)
    assert incomplete == [*[False] * (len(kinds) - 1), is_cut]
    assert len({item["id"] for item in items.items}) == len(items.items)


@pytest.mark.parametrize("has_logprobs", [False, True])
def test_items_that_are_open_when_a_stream_fails_are_incomplete(has_logprobs: bool) -> None:
    items = OutputItems(has_logprobs=has_logprobs)
    for delta in (ReasoningDelta("r"), TextDelta("t"), CallStart(0, "f"), ArgumentsDelta(0, "{")):
        list(items.add(delta))
    items.fail()
    statuses = [item["status"] for item in items.items]
    assert statuses == ["completed", "incomplete" if has_logprobs else "completed", "incomplete"]


def test_log_probabilities_are_those_of_the_text() -> None:
    def scored(token: str | None) -> dict[str, Any]:
        data = None if token is None else list(token.encode())
        return {"token": token or "", "logprob": -1.0, "bytes": data}

    logprobs = [
        {**scored(token), "top_logprobs": [scored(None), scored("x")]} for token in ("r", "a", "b", None)
    ]
    choice = Choice("ab", "stop", reasoning="r", logprobs=logprobs, text_tokens=slice(1, 4))
    items = OutputItems(has_logprobs=True)
    followed(items, list(deltas_of(choice)), choice)
    (part,) = items.items[1]["content"]
    assert [one["token"] for one in part["logprobs"]] == ["a", "b"]
    assert all([top["token"] for top in one["top_logprobs"]] == ["x"] for one in part["logprobs"])

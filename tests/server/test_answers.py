"""What an answer reports: completions, log probabilities, and details that only this server has."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structgen import Vocabulary
from structgen.server.answers import finite, token_spans, whole_turn
from structgen.tools.partial_turn import PartialTurn

from .calls import as_schema, ask
from .conftest import NAME


def test_completions(client: Any) -> None:
    answer = client.completions.create(model=NAME, prompt="Once upon a", max_tokens=5, logprobs=0, seed=1)
    choice = answer.choices[0]
    assert "".join(choice.logprobs.tokens) == choice.text
    assert all(score <= 0 for score in choice.logprobs.token_logprobs)
    ids = client.completions.create(model=NAME, prompt=[1, 2, 3], max_tokens=2)
    assert ids.usage.prompt_tokens == 3
    parts = list(
        client.completions.create(model=NAME, prompt="Once upon a", max_tokens=5, seed=1, stream=True)
    )
    assert "".join(one.choices[0].text for one in parts) == choice.text


def test_details_are_valid_json_for_a_probability_of_0() -> None:
    shown = [finite(value) for value in (-1.5, None, -math.inf, math.nan)]
    assert json.dumps(shown, allow_nan=False) == "[-1.5, null, null, null]"


@pytest.mark.parametrize("text", ["🎉", "日本語", "ü\u0308 é"])
def test_logprobs_of_tokens_with_parts_of_a_character(client: Any, text: str) -> None:
    extra = {"guided_choice": [text]}
    options = {"temperature": 0.0, "extra_body": extra}  # drawn texts have different numbers of tokens
    answer = ask(client, logprobs=True, top_logprobs=2, extra=extra, temperature=0.0)
    scored = answer.choices[0].logprobs.content
    assert b"".join(bytes(one.bytes) for one in scored if one.bytes) == text.encode()
    assert text == "ü\u0308 é" or any("\ufffd" in one.token for one in scored)
    legacy = client.completions.create(model=NAME, prompt="Go", max_tokens=20, logprobs=2, **options)
    assert legacy.choices[0].text == text and len(legacy.choices[0].logprobs.tokens) >= len(scored)


def test_logprobs_of_chats(client: Any) -> None:
    answer = ask(client, logprobs=True, max_tokens=20, response_format=as_schema({"const": {"a": [1, 2]}}))
    scored = answer.choices[0].logprobs.content
    assert "".join(one.token for one in scored) == answer.choices[0].message.content
    assert all(one.logprob <= 0 for one in scored)


def test_the_most_probable_tokens_at_each_position(client: Any) -> None:
    """Forced tokens and drawn ones, whole and as a stream; at temperature 0 what is drawn freely is the first."""
    options = {"logprobs": True, "top_logprobs": 3, "max_tokens": 12, "temperature": 0.0}
    schema = as_schema({"const": {"a": [1, 2]}})
    for more in ({}, {"response_format": schema}):
        answer = ask(client, **options, **more)
        scored = answer.choices[0].logprobs.content
        assert scored and all(len(one.top_logprobs) == 3 for one in scored)
        for one in scored:
            tops = [each.logprob for each in one.top_logprobs]
            assert tops == sorted(tops, reverse=True) and one.logprob <= tops[0] + 1e-6
            if not more:
                assert one.top_logprobs[0].token == one.token and one.top_logprobs[0].logprob == one.logprob
        parts = [part.choices[0] for part in ask(client, stream=True, **options, **more) if part.choices]
        (streamed,) = [part.logprobs for part in parts if part.logprobs]
        assert [one.token for one in streamed.content] == [one.token for one in scored]
        assert all(len(one.top_logprobs) == 3 for one in streamed.content)
    legacy = client.completions.create(
        model=NAME, prompt="Once upon a", max_tokens=3, temperature=0, logprobs=2
    )
    found = legacy.choices[0].logprobs
    assert [max(one, key=one.get) for one in found.top_logprobs] == found.tokens
    assert all(len(one) == 2 for one in found.top_logprobs)


def test_details_that_only_this_server_reports(client: Any) -> None:
    answer = ask(client, seed=4, extra={"structgen": {}, "guided_choice": ["yes", "no"]})
    details = answer.choices[0].model_extra["structgen"]
    assert details["finish"] == "complete" and details["logprob"] < details["log_weight"] <= 0
    assert details["seed"] == [4, 0]
    short = ask(
        client,
        max_tokens=14,
        extra={"structgen": {"close_within_budget": True}, "guided_regex": "[a-z]+( [a-z]+)*[.]"},
    )
    assert short.choices[0].finish_reason == "stop"


def test_calls_with_halves_of_characters_are_written_as_escapes() -> None:
    from structgen.server.answers import shown_call, whole_turn
    from structgen.tools import FORMATS, read_tools

    tools = read_tools([{"type": "function", "function": {"name": "f"}}])
    text = '<tool_call>\n{"name": "f", "arguments": {"a": "x\\ud800é"}}\n</tool_call>'
    turn = whole_turn(PartialTurn(FORMATS["hermes"], tools), text)
    arguments = shown_call(turn.calls[0])["function"]["arguments"]
    assert arguments.encode() and json.loads(arguments) == {"a": "x\ud800é"}


@given(
    st.sampled_from(["<think>", ""]),
    st.text("ab<é", max_size=6),
    st.text("xy\n€", max_size=6),
    st.lists(st.integers(1, 5), max_size=30),
)
def test_tokens_of_the_reasoning_and_of_the_text(
    opening: str, thought: str, text: str, sizes: list[int]
) -> None:
    turn = f"{opening}{thought}</think>{text}"
    data, pieces = turn.encode(), []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    pieces = [piece for piece in [*pieces, data] if piece]
    vocabulary = Vocabulary.from_tokens([*pieces, None], eos_ids=[len(pieces)])
    tokens = list(range(len(pieces)))
    reader = PartialTurn(None, think=(opening, "</think>"))
    whole_turn(reader, turn)
    thoughts, spoken = token_spans(reader, tokens, vocabulary)
    # a token belongs to the part in which it ends
    ends = [len(b"".join(pieces[: index + 1]).decode("utf-8", "ignore")) for index in range(len(pieces))]
    border = turn.index("</think>", len(opening)) + len("</think>")
    assert thoughts == sum(end <= border for end in ends)
    start = len(turn) - len(reader.text)
    assert not reader.text or tokens[spoken] == [index for index, end in enumerate(ends) if end > start]
    assert reader.text or tokens[spoken] == []

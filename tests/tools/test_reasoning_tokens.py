"""A budget of tokens for reasoning: the reasoning ends within it, at the marker of each format."""

from __future__ import annotations

import random
from typing import Any

import pytest

import structgen as sg
from structgen.constraints.composition.reasoning_block import counted_reasoning
from structgen.errors import OptionError, OutputInvalid
from structgen.tools import FORMATS, AssistantTurn, ToolCall, tools

from .walks import FUNCTIONS, weather

_BYTES = [bytes([byte]) for byte in range(256)]
_WORDS = [b"Let me ", b"think", b" of it.", "é🙂".encode(), "é🙂".encode()[:3]]


def vocabulary_of(name: str, has_specials: bool) -> sg.Vocabulary:
    """Return bytes and longer tokens; one of these ends inside a character."""
    format = FORMATS[name]
    marks = list(dict.fromkeys((*format.specials, *format.think))) if has_specials else []
    marks = [
        mark
        for mark in marks
        if mark in format.specials or not any(special in mark for special in format.specials)
    ]
    first = len(_BYTES) + len(_WORDS) + 1
    specials = {mark: first + place for place, mark in enumerate(marks)}
    tokens = [*_BYTES, *_WORDS, None, *[None] * len(marks)]
    return sg.Vocabulary.from_tokens(tokens, [first - 1], specials=specials)


def reasoning_tokens(vocabulary: sg.Vocabulary, tokens: list[int], thought: str, before: int) -> int:
    """Count the tokens that have a byte of the reasoning, one by one."""
    start, end, position, count = before, before + len(thought.encode()), 0, 0
    for token in tokens:
        size = len(vocabulary.spelled_bytes([token]))
        count += position < end and position + size > start
        position += size
    return count


@pytest.mark.parametrize("has_specials", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_reasoning_ends_within_its_tokens(name: str, has_specials: bool) -> None:
    format, most = FORMATS[name], 4
    vocabulary = vocabulary_of(name, has_specials)
    opened = name == "kimi_k3"
    turn = tools([weather], format=name, reasoning="opened" if opened else True, max_reasoning_tokens=most)
    begin = "" if opened else format.think[0]
    seen = set()
    for seed in range(6):
        rng = random.Random(seed)
        matcher = sg.Matcher(turn, vocabulary)
        text = ""
        while format.think[1] not in text:
            mask = matcher.mask()
            allowed = [i for i in range(vocabulary.size) if mask[i // 32] >> (i % 32) & 1]
            words = [i for i in allowed if 256 <= i < 256 + len(_WORDS)]
            assert matcher.advance(rng.choice(words or allowed))
            text = vocabulary.spelled(matcher.tokens)
            assert len(matcher.tokens) < 200, text
        thought = text[len(begin) : text.index(format.think[1])]
        count = reasoning_tokens(vocabulary, matcher.tokens, thought, len(begin.encode()))
        assert count <= most + 3, (text, count)  # a character that was cut is completed
        seen.add(count)
    assert max(seen) >= most


def test_zero_tokens() -> None:
    turn = tools([weather], reasoning=True, max_reasoning_tokens=0)
    vocabulary = vocabulary_of("hermes", True)
    matcher = sg.Matcher(turn, vocabulary)
    names = vocabulary.specials
    assert matcher.advance(names["<think>"]) and not matcher.fork().advance(ord("a"))
    assert matcher.advance(names["</think>"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_reasoning_tokens": 3}, "max_reasoning_tokens is 3 without reasoning"),
        ({"max_reasoning_tokens": -1, "reasoning": True}, "max_reasoning_tokens is -1"),
    ],
)
def test_invalid_budgets(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        tools([weather], **options)


@pytest.mark.parametrize("max_tokens", [None, 3])
def test_an_opening_marker_of_a_token_and_text(max_tokens: int | None) -> None:
    """Gemma 4 opens its reasoning with a special token, a word and a line end."""
    vocabulary = vocabulary_of("gemma4", True)
    names = vocabulary.specials
    begin, end = FORMATS["gemma4"].think
    constraint = counted_reasoning("yes", open=begin, close=end, max_tokens=max_tokens)
    matcher = sg.Matcher(constraint, vocabulary)
    for token in (names["<|channel>"], *b"thought\n", *b"ab"):
        assert matcher.advance(token)
    assert matcher.fork().advance(ord("c"))
    if max_tokens is not None:
        assert matcher.advance(ord("c")) and not matcher.fork().advance(ord("d"))
    assert all(map(matcher.advance, (names["<channel|>"], *b"yes"))) and matcher.is_complete()


@pytest.mark.parametrize("name", ["deepseek_v32", "gemma4", "glm47", "kimi_k2", "cohere_command"])
def test_calls_in_an_order(name: str) -> None:
    turn = tools(FUNCTIONS, format=name, order="!weather W switch")
    first = ToolCall("switch", {"on": True})
    second = ToolCall("weather", {"city": "Rome"})
    assert turn.read(turn.render(AssistantTurn("", (first, second)))).calls == (first, second)
    with pytest.raises(OutputInvalid):
        turn.render(AssistantTurn("", (second, first)))

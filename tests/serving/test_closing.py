"""Rows under a budget, against all texts: a text that is drawn from them is complete in time."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structgen as sg
from structgen.serving import closing
from structgen.serving.closing import Closing
from structgen.serving.sequence import ConstrainedSequence, after_drafts, fill_rows

BYTES = sg.Vocabulary.of_bytes()
PIECES = sg.Vocabulary.from_tokens(
    [
        *(bytes([byte]) for byte in range(256)),
        b'{"',
        b'": "',
        b'"}',
        b'", "',
        b"ab",
        b"abc",
        b'a"',
        None,
        None,
    ],
    [263, 264],
)
WORDS = (BYTES.size + 31) // 32
EOS, STOP = 256, ord("!")
SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "string"},
        "b": {
            "type": "object",
            "properties": {"c": {"type": "integer"}, "d": {"enum": ["x", "long text"]}},
            "required": ["c", "d"],
        },
    },
    "required": ["a"],
    "additionalProperties": False,
}


def _sequence(constraint, limit, vocabulary=BYTES, stops=()):
    one = ConstrainedSequence(sg.Matcher(constraint, vocabulary), stops)
    one.closing = Closing(lambda: limit)
    return one


def _row(one):
    vocabulary = one.matcher.vocabulary
    out = np.zeros((1, vocabulary.words), np.int32)
    one.fill(out, 0)
    bits = np.unpackbits(out.view(np.uint8), bitorder="little")
    return [int(token) for token in np.flatnonzero(bits) if token < vocabulary.size]


def _completable(pattern, text, left):
    """Whether some text of at most `left` more bytes completes it, and its end fits, found by trying all."""
    matcher = sg.Matcher(sg.regex(pattern), BYTES)
    if not all(map(matcher.advance, text)):
        return False
    states = [matcher]
    for room in range(left, 0, -1):
        if any(state.is_complete() for state in states):
            return True
        states = (
            []
            if room == 1
            else [other for state in states for byte in b"abc" if (other := state.fork()).advance(byte)]
        )
    return False


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(["a{5}|b", "(ab)*c", "a(b{3}|c)a*", "(a|bccc)*", "c?(aa)*b", "a*(bc|cccc)?"]),
    st.integers(2, 8),
    st.integers(0, 2**32 - 1),
)
def test_a_row_allows_exactly_what_can_be_completed_in_time(pattern, limit, seed):
    rng = random.Random(seed)
    one, text = _sequence(sg.regex(pattern), limit), b""
    if not _completable(pattern, b"", limit):
        _row(one)
        assert one.failure is not None and "max_tokens" in one.failure
        return
    while not one.is_ended:
        plain = ConstrainedSequence(one.matcher.fork())
        row = _row(one)
        expected = [
            token
            for token in _row(plain)
            if token == EOS or _completable(pattern, text + bytes([token]), limit - len(text) - 1)
        ]
        assert row == expected
        token = rng.choice(row)
        assert one.advance(token)
        text += bytes([token]) if token != EOS else b""
        assert len(text) + one.is_ended <= limit


@settings(deadline=None, max_examples=30)
@given(st.sampled_from([BYTES, PIECES]), st.integers(16, 60), st.integers(0, 2**32 - 1), st.booleans())
def test_a_drawn_text_is_complete_within_the_budget(vocabulary, limit, seed, few):
    rng = random.Random(seed)
    one = _sequence(sg.json_schema(SCHEMA), limit, vocabulary)
    before, closing._FEW = closing._FEW, 1_024 if few else 8
    try:
        drawn = 0
        while not one.is_ended:
            row = _row(one)
            assert one.failure is None
            onwards = [token for token in row if token not in vocabulary.eos_ids]
            assert one.advance(rng.choice(onwards or row))
            drawn += 1
    finally:
        closing._FEW = before
    assert drawn <= limit
    assert one.matcher.is_complete()


def test_far_from_the_budget_rows_are_those_without_one():
    one, plain = (
        _sequence(sg.json_schema(SCHEMA), 5_000),
        ConstrainedSequence(sg.Matcher(sg.json_schema(SCHEMA), BYTES)),
    )
    for token in b'{"a": "x':
        assert _row(one) == _row(plain)
        assert one.advance(token) and plain.advance(token)


def test_rows_of_drafts_have_the_budget_that_is_left():
    one = _sequence(sg.regex("[a-z]*!!"), 6)
    ahead = after_drafts(one, list(b"abc"))
    out = np.zeros((4, WORDS), np.int32)
    fill_rows([*ahead], out)
    allowed = [bool(out[row, 3].view(np.uint32) >> 1 & 1) for row in range(4)]  # "a" is bit 1 of word 3
    assert allowed == [True, True, True, False]
    assert one.closing._held == (0, tuple(b"!!"))


def test_stop_tokens_of_the_request_end_a_text_in_time():
    one = _sequence(sg.regex("[a-z]*"), 3, stops=[STOP])
    for _ in range(2):
        assert ord("a") in _row(one)
        one.advance(ord("a"))
    assert _row(one) == [STOP, EOS]


def test_a_text_that_cannot_be_completed_fails():
    one = _sequence(sg.regex("abc"), 4)
    assert _row(one) == [ord("a")]
    tight = _sequence(sg.regex("abc"), 3)
    assert len(_row(tight)) == BYTES.size
    assert tight.failure == "the text cannot be completed within max_tokens: 4 tokens are needed, and 3 left"
    assert not tight.advance(ord("a"))


@pytest.mark.parametrize("count", [closing._MOST_KEPT + 3])
def test_what_is_kept_is_bounded(monkeypatch, count):
    monkeypatch.setattr(closing, "_FEW", 1)
    one = _sequence(sg.regex("".join(f"[{chr(97 + i % 20)}-z]" for i in range(count))), count + 2)
    for _ in range(count):
        one.advance(_row(one)[-1])
    assert len(one.closing.kept) <= closing._MOST_KEPT

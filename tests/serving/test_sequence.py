"""One request's constraint as engines drive it, against a matcher that tries every token."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structgen as sg
from structgen._core import LimitError
from structgen.serving.sequence import CALL_SECONDS, ConstrainedSequence, after_drafts, fill_rows

BYTES = sg.Vocabulary.of_bytes()
EOS, STOP = 256, ord("!")
WORDS = (BYTES.size + 31) // 32


def sequence(pattern: str = "ab+c?", stop=()) -> ConstrainedSequence:
    return ConstrainedSequence(sg.Matcher(sg.regex(pattern), BYTES), stop)


def row_of(one: ConstrainedSequence) -> set[int]:
    out = np.zeros((1, WORDS), np.int32)
    one.fill(out, 0)
    bits = np.unpackbits(out.view(np.uint8), bitorder="little")
    return {int(i) for i in np.flatnonzero(bits) if i < BYTES.size}


def test_the_end_is_allowed_where_the_text_is_complete():
    one = sequence()
    assert row_of(one) == {ord("a")}
    assert not one.advance(EOS)
    assert one.advance(ord("a"))
    assert one.advance(ord("b"))
    assert row_of(one) == {ord("b"), ord("c"), EOS}
    assert one.advance(EOS)
    assert one.is_ended
    assert row_of(one) == set(range(BYTES.size))
    assert one.advance(ord("z"))  # tokens after the end are ignored


def test_tokens_after_the_end_are_rolled_back_like_others():
    one = sequence()
    for token in [*b"ab", EOS, ord("z"), ord("z")]:
        assert one.advance(token)
    one.rollback(2)
    assert one.is_ended
    one.rollback(1)
    assert row_of(one) == {ord("b"), ord("c"), EOS}
    one.advance(EOS)
    one.advance(ord("z"))
    other = one.fork()
    other.rollback(3)
    assert row_of(other) == {ord("b")}
    one.reset()
    one.rollback(1)
    assert row_of(one) == {ord("a")}


def test_a_stop_token_of_the_request_is_an_end_like_others():
    one = sequence(stop=[STOP, EOS, 9999])
    for token in b"ab":
        assert one.advance(token)
    assert STOP in row_of(one)
    assert one.accepted([ord("b"), STOP]) == 2
    assert one.accepted([ord("b"), STOP, ord("b")]) == 2
    assert one.advance(STOP)
    assert one.is_ended
    one.rollback(1)
    assert not one.is_ended
    assert one.advance(ord("c"))


def test_a_stop_token_no_longer_counts_as_text():
    one = sequence("a!b", stop=[STOP])
    assert one.advance(ord("a"))
    # Nothing can follow. The row allows every token, because an engine must draw one, and `advance` refuses it.
    assert row_of(one) == set(range(BYTES.size))
    assert one.failure is not None
    assert not one.advance(STOP)
    one.reset()
    assert one.failure is None


@settings(deadline=None)
@given(st.lists(st.sampled_from([*b"abc", EOS, STOP]), max_size=8), st.data())
def test_validating_does_not_advance_and_rolling_back_undoes(tokens, data):
    one = sequence("a(b|c){0,3}", stop=[STOP])
    count = one.accepted(tokens)
    assert one.matcher.tokens == []
    rows = [row_of(one)]
    read = 0
    for token in tokens:
        if one.is_ended or not one.advance(token):
            break
        read += 1
        rows.append(row_of(one))
    assert read == count
    for token, row in zip(tokens[:read], rows, strict=False):
        assert token in row
    back = data.draw(st.integers(0, read))
    one.rollback(back)
    assert row_of(one) == rows[read - back]


def test_a_fork_has_a_state_of_its_own():
    one = sequence()
    one.advance(ord("a"))
    other = one.fork()
    other.advance(ord("b"))
    assert row_of(one) == {ord("b")}
    assert row_of(other) != row_of(one)


@pytest.mark.parametrize("stop", [(), (STOP,)])
def test_rows_of_a_batch_are_those_of_each(stop):
    many = [sequence("ab"), sequence("x*", stop), sequence("[0-9]{2}"), sequence("ab")]
    many[3].advance(ord("a"))
    many[3].advance(ord("b"))
    many[3].advance(EOS)
    out = np.zeros((5, WORDS), np.int32)
    fill_rows(many, out, 2)
    for row, one in enumerate(many):
        alone = np.zeros((1, WORDS), np.int32)
        one.fill(alone, 0)
        assert (out[row] == alone[0]).all()
    assert not out[4].any()


def test_rows_of_drafts_are_those_after_each_of_them():
    one = sequence("ab{2,3}c!?", [STOP])
    ahead = after_drafts(one, [*b"abb", STOP, *b"bc"])
    assert len(ahead) == 4  # a stop token ends no text that is not complete
    out = np.zeros((6, WORDS), np.int32)
    fill_rows([None, *ahead, None], out, 2)
    assert (out[0] == -1).all() and (out[5] == -1).all()
    for row, text in enumerate((b"", b"a", b"ab", b"abb"), 1):
        alone, expected = sequence("ab{2,3}c!?", [STOP]), np.zeros((1, WORDS), np.int32)
        for token in text:
            alone.advance(token)
        alone.fill(expected, 0)
        assert (out[row] == expected[0]).all()
    assert one.matcher.tokens == []
    assert len(after_drafts(ahead[3], [*b"bc", STOP, ord("x")])) == 4  # nothing is read after an end


def test_a_limit_that_is_met_ends_one_request_and_no_other():
    tight = BYTES.with_limits(automaton_states=12)
    bad = ConstrainedSequence(sg.Matcher(sg.regex("(a|b)*a(a|b){12}"), tight))
    good = sequence()
    out = np.zeros((2, WORDS), np.int32)
    for token in b"aababaabbabababbabaababababab":
        fill_rows([bad, good], out, 1)
        if bad.failure is not None or not bad.advance(token):
            break
    assert bad.failure is not None
    assert "automaton_states" in bad.failure
    fill_rows([bad, good], out, 1)
    assert (out[0] == -1).all()
    assert not bad.advance(ord("a"))
    assert bad.accepted([ord("a")]) == 0
    assert good.failure is None
    assert row_of(good) == {ord("a")}


def test_every_call_of_the_core_is_bounded(monkeypatch):
    """A request that takes too long fails, and the engine goes on."""
    depth, seen = 0, []

    class Recorded:
        def __init__(self, *, cpu_seconds):
            assert cpu_seconds == CALL_SECONDS

        def __enter__(self):
            nonlocal depth
            depth += 1

        def __exit__(self, *_):
            nonlocal depth
            depth -= 1

    class Watched:
        def __init__(self, inner):
            self._inner = inner

        def __getattr__(self, name):
            found = getattr(self._inner, name)
            if name == "native":
                return Watched(found)
            if name == "fork":
                return lambda: Watched(found())
            if callable(found):
                seen.append((name, depth))
            return found

    monkeypatch.setattr("structgen.serving.sequence._core.CallLimits", Recorded)
    one = sequence(stop=[STOP])
    one.matcher = Watched(one.matcher)
    assert one.advance(ord("a")) and one.accepted([ord("b"), ord("b"), STOP]) == 3
    assert one.advance(ord("b")) and STOP in row_of(one) and one.advance(STOP)
    assert {name for name, _ in seen} >= {"advance", "accepts", "fill", "is_complete"}
    assert all(inside == 1 for name, inside in seen)


def test_a_call_that_takes_too_long_fails_its_request_alone():
    one, other = sequence(), sequence()

    class Slow:
        def fill(self, out, row):
            raise LimitError("one call of the core took more than 1 s (limit call_seconds)")

    class Matcher:
        native = Slow()
        vocabulary = BYTES

    one.matcher = Matcher()
    out = np.zeros((1, WORDS), np.int32)
    one.fill(out, 0)
    assert one.failure is not None and "call_seconds" in one.failure and not one.advance(ord("a"))
    assert row_of(other) == {ord("a")}

"""Texts up to a stop string, however many tokens arrive at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from structgen.server.row_text import RowText

WORDS = [b"a", b"b", b"c", b"ab", b"bca", b"\xc3", b"\xa9"]


def followed(tokens: list[int], stops: list[str], steps: list[int]) -> RowText:
    text = RowText(lambda ids: b"".join(WORDS[token] for token in ids), stops)
    settled = ""
    for end in (*sorted(min(step, len(tokens)) for step in steps), len(tokens)):
        text.follow(tokens[:end])
        assert text.settled.startswith(settled)  # what a client has read is never revoked
        settled = text.settled
    return text


@given(
    st.lists(st.integers(0, len(WORDS) - 1), max_size=20),
    st.lists(st.text("abc\u00e9", min_size=1, max_size=4), max_size=3),
    st.lists(st.integers(0, 20), max_size=8),
)
def test_a_text_stops_at_the_same_token_however_many_arrive_at_once(
    tokens: list[int], stops: list[str], steps: list[int]
) -> None:
    """With draft tokens, a step of a row brings several tokens."""
    alone = followed(tokens, stops, list(range(len(tokens))))
    together = followed(tokens, stops, steps)
    assert (together.text, together.stopped, together.length) == (alone.text, alone.stopped, alone.length)
    assert not any(stop in together.text for stop in stops)


def test_the_stop_that_is_complete_first_ends_the_text() -> None:
    text = RowText(bytes, ["bc", "abcd"])
    text.follow(list(b"xabcdef"))
    assert (text.text, text.length) == ("xa", 4)

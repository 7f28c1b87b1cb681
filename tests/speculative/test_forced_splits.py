"""How a model splits forced text is learned: the token that it drew most often where the same text was forced."""

from __future__ import annotations

import pytest

import structgen as sg
from structgen.errors import OptionError
from structgen.speculative.drafters import Context, Start
from structgen.speculative.recycling import ForcedSplits

LETTERS = sg.Vocabulary([b"d", b"a", b"da", b"date", b"te", b"t", b"e", b"x", b"(", None], eos_ids=(9,))
D, A, DA, DATE, TE, T, E, X, OPEN = range(9)


def _row(splits: ForcedSplits, text: str, before: list[int]) -> tuple[object, Context]:
    matcher = sg.Matcher(sg.regex(text), LETTERS)
    return splits.start(Start((), LETTERS, "a constraint")), Context(before, matcher, LETTERS)


def _write(splits: ForcedSplits, text: str, tokens: list[int]) -> None:
    row, context = _row(splits, text, [X])
    row.observe([X], 0)
    list(row.propose(context))
    row.observe([X, *tokens], 1)


def test_the_most_frequent_token_is_proposed_and_each_piece_counts() -> None:
    splits = ForcedSplits()
    row, context = _row(splits, r"date\(", [])
    assert list(row.propose(context)) == []
    for tokens in ([D, A, TE], [D, A, TE], [DATE]):
        _write(splits, r"date\(", tokens)
    (proposal,) = row.propose(context)
    assert proposal.tokens == (D,)
    assert proposal.chance == 2 / 4
    for tokens, expected in (([D], A), ([D, A], TE)):
        row, context = _row(splits, r"date\(", list(tokens))
        for token in tokens:
            assert context.matcher.advance(token)
        assert [one.tokens for one in row.propose(context)] == [(expected,)]


def test_texts_with_the_same_start_share_what_is_known() -> None:
    splits = ForcedSplits(longest=2)
    _write(splits, r"date\(", [DA, TE])
    row, context = _row(splits, "data", [])
    assert [one.tokens for one in row.propose(context)] == [(DA,)]
    row, context = _row(splits, "dx", [])
    assert [one.tokens for one in row.propose(context)] == [(DA,)]  # the constraint refuses it later
    row, context = _row(splits, "xd", [])
    assert list(row.propose(context)) == []


def test_tokens_that_were_not_forced_are_not_counted() -> None:
    splits = ForcedSplits()
    row, context = _row(splits, r"d(a|t)ex", [])
    list(row.propose(context))
    row.observe([D, A, E], 0)
    assert set(splits._known) == {b"d"}
    row.observe([D, A, E, X], 3)  # nothing was proposed since
    assert set(splits._known) == {b"d"}


def test_rows_without_a_constraint_are_silent_and_entries_are_bounded() -> None:
    splits = ForcedSplits(entries=3)
    assert list(splits.start(Start((), LETTERS)).propose(None)) == []
    for text in ("date", "te", "x"):
        splits.count(text.encode(), X)
    assert list(splits._known) == [b"t", b"te", b"x"]
    with pytest.raises(OptionError, match="longest"):
        ForcedSplits(longest=0)

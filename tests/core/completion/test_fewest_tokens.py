"""The fewest tokens that a text needs: as few as a search over all texts finds, or None."""

from __future__ import annotations

import itertools

import pytest

import structgen as sg
from structgen.errors import LimitExceeded
from structgen.matcher import open_matcher
from structgen.vocabulary import Vocabulary

TOKENS = [b"a", b"b", b"c", b"ab", b"ba", b"aaa", b"cab"]
VOCABULARY = Vocabulary.from_tokens([*TOKENS, None], eos_ids=[len(TOKENS)])
PATTERNS = ["a", "a{6}", "(ab){3}|c{2}", "[abc]{7}", "(a|b)*ca(a|b){3}", "a{3}b?cab", "c*"]


def fewest(pattern: str, most: int) -> int | None:
    """By trying all sequences of tokens."""
    constraint = sg.regex(pattern)
    for length in range(most + 1):
        for tokens in itertools.product(range(len(TOKENS)), repeat=length):
            matcher = open_matcher(constraint, VOCABULARY)
            if all(matcher.advance(token) for token in tokens) and matcher.is_complete():
                return length
    return None


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_fewest_tokens_are_found_even_if_they_do_not_fit(pattern: str) -> None:
    true = fewest(pattern, 4)
    for room in range(6):
        found = open_matcher(sg.regex(pattern), VOCABULARY).least_tokens(room)
        assert found is not None
        if true is not None:
            assert true <= found
            assert (found <= room) == (true <= room)
        else:
            assert found > 4


def test_an_interrupted_search_gives_no_bound() -> None:
    narrow = VOCABULARY.with_limits(mask_steps=3)
    assert open_matcher(sg.regex("a{60}b"), narrow).least_tokens(61) == 21
    short_or_few = sg.regex("c{20}|a{21}")
    assert open_matcher(short_or_few, narrow).least_tokens(20) == 20
    assert open_matcher(short_or_few, narrow).least_tokens(10) is None
    assert open_matcher(short_or_few, VOCABULARY).least_tokens(10) == 7
    # More bytes than so many tokens can spell need no search.
    least = open_matcher(sg.regex("a{60}b"), narrow).least_tokens(5)
    assert least is not None and least > 5


def test_a_short_text_is_no_bound_where_it_need_not_be_the_shortest() -> None:
    tokens = [*(bytes([byte]) for byte in range(97, 123)), b"cbbbbbbbbbbbbbbbbbe"]
    vocabulary = Vocabulary.from_tokens([*tokens, None], [len(tokens)])
    matcher = open_matcher(sg.regex("(?=[^z]*$)(a{3000}|(b|c)*c(b|c){17}e)"), vocabulary)
    found, witness = matcher.least_tokens(100), matcher.witness(100)
    assert witness is not None and len(witness) <= 100
    assert found is None or found <= 100


def test_a_limit_in_the_middle_of_the_search_leaves_it_open() -> None:
    matcher = open_matcher(sg.regex("c{20}|a{21}"), VOCABULARY.with_limits(automaton_states=38))
    assert matcher.least_tokens(30) == 20
    with pytest.raises(LimitExceeded):
        matcher.least_tokens(10)
    assert matcher.least_tokens(10) is None


def test_a_search_interrupted_at_its_only_state_gives_no_bound() -> None:
    tokens = [b"a", b"aa", b"aaa", b"aaaa", b"b", b"c", b"bbbb"]
    vocabulary = Vocabulary.from_tokens([*tokens, None], [len(tokens)])
    constraint = sg.regex("a*(c{3}|b{4})")
    assert open_matcher(constraint, vocabulary).least_tokens(2) == 1
    for steps in range(1, 8):
        assert open_matcher(constraint, vocabulary.with_limits(mask_steps=steps)).least_tokens(2) in (None, 1)


def test_completions_are_searched_with_a_larger_budget() -> None:
    narrow = VOCABULARY.with_limits(mask_steps=3)
    witness = open_matcher(sg.regex("c{20}|a{21}"), narrow).witness(10)
    assert witness is not None and len(witness) == 7


def test_a_long_text_of_a_wide_alphabet_is_found_at_once() -> None:
    # The fewest tokens would take a walk over all tokens at each of 30,000 places.
    wide = Vocabulary.from_tokens(
        [*(bytes([byte]) for byte in range(97, 123)), *(f"{i:x}".encode() for i in range(16**3)), None],
        eos_ids=[26 + 16**3],
    )
    found = open_matcher(sg.regex("[a-f]{9000}"), wide.with_limits(mask_steps=100)).least_tokens(9_000)
    assert found == 3_000

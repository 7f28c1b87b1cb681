"""The vocabulary itself: sizes, ends of text, encoding after a sentinel, its errors."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structgen.errors import OptionError, VocabularyError, VocabularyMismatch
from structgen.vocabulary import Vocabulary
from tests.real_tokenizers import NAMES, tokenizer_path

BYTES = [bytes([byte]) for byte in range(256)]


def greedy(tokens: Sequence[bytes | None]) -> dict[bytes, int]:
    return {token: i for i, token in enumerate(tokens) if token}


def longest_match(tokens: Sequence[bytes | None], text: str) -> list[int]:
    """Return an encoder that always takes the longest token."""
    known, data, ids = greedy(tokens), text.encode(), []
    while data:
        length = next(n for n in range(min(8, len(data)), 0, -1) if data[:n] in known)
        ids.append(known[data[:length]])
        data = data[length:]
    return ids


def test_sizes_and_bytes() -> None:
    vocabulary = Vocabulary.from_tokens([b"a", None, b"bc", b""], [1], size=70)
    assert (vocabulary.size, len(vocabulary), vocabulary.words) == (70, 70, 3)
    assert vocabulary.token_bytes(2) == b"bc"
    assert [vocabulary.token_bytes(i) for i in (1, 4, 69, 70, -1)] == [None] * 5
    assert vocabulary.decode([0, 2, 1, 69, 0]) == b"abca"
    assert repr(vocabulary) == "<Vocabulary of 70 tokens, ends of text [1]>"


def test_bytes_as_tokens() -> None:
    vocabulary = Vocabulary.of_bytes(["<|a|>", "<|b|>"])
    assert (vocabulary.size, vocabulary.eos_ids) == (259, (256,))
    assert vocabulary.specials == {"<|a|>": 257, "<|b|>": 258}
    assert vocabulary.encode("aé") == [0x61, 0xC3, 0xA9] and vocabulary.encode("") == []
    assert vocabulary.spelled([257, *b"x", 256]) == "<|a|>x"
    assert Vocabulary.of_bytes().size == 257 and Vocabulary.of_bytes("<a>").specials == {"<a>": 257}


def test_ends_of_text_are_never_text() -> None:
    vocabulary = Vocabulary.from_tokens([b"a", b"</s>", b"<turn>"], [1, 2, 1])
    assert vocabulary.eos_ids == (1, 2)
    assert vocabulary.token_bytes(1) is None and vocabulary.token_bytes(2) is None


def test_ends_of_text_may_lie_in_the_padding() -> None:
    assert Vocabulary.from_tokens([b"a"], [5], size=6).eos_ids == (5,)


def test_the_native_vocabulary_and_engine_are_made_once() -> None:
    vocabulary = Vocabulary.from_tokens([b"a", None], [1], size=40)
    assert vocabulary.native is vocabulary.native
    assert vocabulary.engine is vocabulary.engine
    assert vocabulary.native.size == 40 and list(vocabulary.native.eos_ids) == [1]


def test_tokens_that_are_not_text_beyond_the_model_do_not_matter() -> None:
    assert Vocabulary.from_tokens([b"a", b"b", None, None], [], size=2).size == 2


def test_mismatches_raise_errors() -> None:
    with pytest.raises(VocabularyMismatch, match="the tokenizer has 3 tokens, the model 2"):
        Vocabulary.from_tokens([b"a", b"b", b"c"], [], size=2)
    with pytest.raises(VocabularyMismatch, match="end-of-text token 9 is outside of the 2 tokens"):
        Vocabulary.from_tokens([b"a", b"b"], [9])
    with pytest.raises(VocabularyError, match="no token of this vocabulary has bytes"):
        Vocabulary.from_tokens([None, b""], [])
    with pytest.raises(VocabularyError, match="token 1 is longer than 4096 bytes"):
        Vocabulary.from_tokens([b"a", b"x" * 5000], [])
    with pytest.raises(VocabularyError, match="token 1 is 'b'; tokens are bytes"):
        Vocabulary.from_tokens([b"a", "b"], [])  # type: ignore[list-item]


@given(text=st.text(max_size=20), pairs=st.lists(st.text('ab{"\n', min_size=2, max_size=4), max_size=6))
def test_encoded_text_round_trips(text: str, pairs: list[str]) -> None:
    tokens = [*BYTES, *dict.fromkeys(pair.encode() for pair in pairs)]
    vocabulary = Vocabulary(tokens, [], encoder=lambda words: longest_match(tokens, words))
    for given_text in (text, text.encode("utf-8", "ignore")):
        ids = vocabulary.encode(given_text)
        assert ids is not None
        assert vocabulary.decode(ids) == text.encode()


def test_a_token_across_the_sentinel_is_avoided() -> None:
    tokens = [*BYTES, b"\x02a", b"\x00a"]
    vocabulary = Vocabulary(tokens, [], encoder=lambda words: longest_match(tokens, words))
    assert vocabulary.encode("ab") == [97, 98]


def test_a_space_before_the_text_is_not_taken_for_text() -> None:
    vocabulary = Vocabulary(BYTES, [], encoder=lambda words: longest_match(BYTES, f" {words}"))
    assert vocabulary.encode("a b") == [97, 32, 98]
    assert vocabulary.encode(" a") == [32, 97]


def test_text_that_does_not_round_trip_is_not_encoded() -> None:
    lowering = Vocabulary(BYTES, [], encoder=lambda words: list(words.lower().encode()))
    assert lowering.encode("abc") == [97, 98, 99]
    assert lowering.encode("aBc") is None
    marker = Vocabulary([*BYTES, None], [256], encoder=lambda words: [*words.encode(), 256])
    assert marker.encode("a") is None
    assert Vocabulary.from_tokens(BYTES, []).encode("a") is None  # no tokenizer
    assert lowering.encode(b"\xff") is None
    assert lowering.encode("\ud800") is None
    assert lowering.encode("") == []


@pytest.mark.parametrize("name", NAMES)
def test_real_text_is_encoded_as_the_tokenizer_does_in_the_middle_of_one(name: str) -> None:
    vocabulary = Vocabulary.from_tokenizer(tokenizer_path(name))
    for text in ('{"name": "Ann"}', " and then", "\n\n", "日本語", "a"):
        ids = vocabulary.encode(text)
        assert ids is not None and vocabulary.decode(ids) == text.encode()
    assert len(vocabulary.encode(" the") or []) == 1


@pytest.mark.parametrize("name", NAMES)
def test_reading_a_vocabulary_is_quick(name: str) -> None:
    """Below a second of CPU time per 100k tokens; the bound is loose, since test machines differ."""
    tokenizers = pytest.importorskip("tokenizers")
    backend = tokenizers.Tokenizer.from_file(str(tokenizer_path(name) / "tokenizer.json"))
    before = time.process_time()
    vocabulary = Vocabulary.from_tokenizer(backend, eos_ids=[0])
    assert vocabulary.native.size == vocabulary.size
    assert time.process_time() - before < 20


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_depth": "x"}, "the limit max_depth is 'x'; it must be an int from 1 to"),
        ({"max_depth": -1}, "the limit max_depth is -1"),
        ({"max_depth": True}, "the limit max_depth is True"),
        ({"oracle_budget": 2**64}, "the limit oracle_budget is"),
        ({"depth": 3}, "unknown limit 'depth'; the limits are regex_nodes, "),
    ],
)
def test_invalid_limits(limits: dict[str, Any], message: str) -> None:
    vocabulary = Vocabulary.from_tokens([b"a"], [1], size=2)
    with pytest.raises(OptionError) as caught:
        vocabulary.with_limits(**limits)
    assert message in str(caught.value)


def test_every_limit_is_one_of_the_core() -> None:
    vocabulary = Vocabulary.from_tokens([b"a"], [1], size=2)
    with pytest.raises(OptionError) as caught:
        vocabulary.with_limits(unknown=1)
    for name in str(caught.value).partition("the limits are ")[2].split(", "):
        assert vocabulary.with_limits(**{name: 2**31 - 1}).engine is not vocabulary.engine

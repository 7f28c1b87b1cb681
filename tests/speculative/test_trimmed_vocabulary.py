"""Trimmed vocabularies: calibration, the mask, and distributions over the whole vocabulary."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import structgen as sg
from structgen.errors import OptionError
from structgen.matcher import Matcher
from structgen.speculative import frequent_tokens
from structgen.speculative.drafters import Context
from structgen.speculative.trimmed_vocabulary import TrimmedVocabulary, checked_token_ids
from structgen.vocabulary import Vocabulary

BYTES = Vocabulary.of_bytes()
END = BYTES.eos_ids[0]
LETTERS = Vocabulary.from_tokens([b"a", b"b", b"c", b"d", None], [4])


def test_the_most_frequent_tokens_of_texts() -> None:
    texts: list[Any] = ["aab", [97, 98, 99], np.array([97], dtype=np.int32), "a"]  # a: 5, b: 2, ends: 2, c: 1
    assert frequent_tokens(BYTES, texts).tolist() == sorted([97, 98, 99, END])
    assert frequent_tokens(BYTES, texts, 1).tolist() == [97]
    assert frequent_tokens(BYTES, texts, 3).tolist() == sorted([97, 98, END])
    assert frequent_tokens(BYTES, (text for text in texts), 3).dtype == np.int64


@pytest.mark.parametrize("seed", range(3))
def test_calibration_counts_as_one_loop_would(seed: int) -> None:
    rng = np.random.default_rng(seed)
    texts = [rng.integers(0, 4, size=rng.integers(1, 9)).tolist() for _ in range(6)]
    kept = set(frequent_tokens(LETTERS, texts, 2).tolist())
    counts = {token: sum(text.count(token) for text in texts) for token in range(5)}
    assert all(counts[one] >= counts[other] for one in kept for other in set(counts) - kept)
    assert len(kept) == min(2, sum(count > 0 for count in counts.values()))


@pytest.mark.parametrize(
    ("vocabulary", "texts", "message"),
    [
        (BYTES, "a text", "texts is one text"),
        (BYTES, [], "have no tokens"),
        (BYTES, [[]], "have no tokens"),
        (LETTERS, [[0], "ab"], "calibration text 2 cannot be tokenized"),
        (LETTERS, [[0, 5]], "calibration text 1 has the token 5; the vocabulary has 5 tokens"),
        (LETTERS, [[-1]], "has the token -1"),
        (LETTERS, [[0.5]], "calibration text 1 is a list; it must be a text or a list of tokens"),
        (LETTERS, [[True]], "it must be a text or a list of tokens"),
        (LETTERS, [b"ab"], "it must be a text or a list of tokens"),
        (LETTERS, [3], "it must be a text or a list of tokens"),
    ],
)
def test_texts_that_cannot_be_counted(vocabulary: Vocabulary, texts: Any, message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        frequent_tokens(vocabulary, texts)


def test_lists_of_tokens_are_checked() -> None:
    found = checked_token_ids([7, 3, 3])
    assert found is not None and found.tolist() == [3, 7] and found.dtype == np.int64
    assert checked_token_ids(None) is None
    for wrong in ([], [-1], [0.5], 3, "ab", [True, False], [[1], [2]], [[1], [2, 3]], LETTERS):
        with pytest.raises(OptionError, match="token_ids is .*list of token ids"):
            checked_token_ids(wrong)  # type: ignore[arg-type]


def test_the_mask_and_the_list_apply_together() -> None:
    trimmed = TrimmedVocabulary(np.array([0, 2, 3]), LETTERS.size)
    logits = np.array([1.0, 2.0, 0.5], dtype=np.float32)
    matcher = Matcher(sg.regex("(a|b)d*"), LETTERS)
    context = Context([], matcher, LETTERS)
    masked = trimmed.masked(logits, context)
    assert masked is not None and masked.tolist() == [1.0, -np.inf, -np.inf]
    np.testing.assert_allclose(trimmed.distribution(masked, 0.7), [1, 0, 0, 0, 0])
    assert matcher.advance(1)
    masked = trimmed.masked(logits, context)
    assert masked is not None and masked.tolist() == [-np.inf, -np.inf, 0.5]
    assert TrimmedVocabulary(np.array([0, 2]), LETTERS.size).masked(logits[:2], context) is None
    context.is_constrained = False
    assert trimmed.masked(logits, context) is logits
    found = trimmed.distribution(logits, 0.5)
    np.testing.assert_allclose(
        found / found.sum(), np.exp([2.0, -np.inf, 4.0, 1.0, -np.inf]) / np.exp([2, 4, 1]).sum()
    )
    assert trimmed.expanded(logits).tolist() == [1.0, -np.inf, 2.0, 0.5, -np.inf]

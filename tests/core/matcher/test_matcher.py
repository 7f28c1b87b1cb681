"""Properties of every matcher, under any constraint: samplers and serving engines rely on them.

A state machine makes random calls of matchers and keeps a list of the tokens read. Small languages are compared with a
matcher that tries every text. Masks are filled from several threads, and with caches so small that everything is
evicted.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from structgen.constraints.base import Constraint
from structgen.constraints.choice import choice
from structgen.constraints.json_schema import json_schema
from structgen.constraints.regex import regex
from structgen.errors import EmptyConstraint, VocabularyMismatch
from structgen.matcher import Matcher, fill_masks
from structgen.vocabulary import Vocabulary
from tests.core.small_vocabulary import EOS, allowed, byte_vocabulary, json_vocabulary, renewed, text_ids
from tests.oracles.json_spelling import SUPPORTED, matcher_of
from tests.oracles.naive_matcher import NaiveMatcher, NaiveVocabulary
from tests.strategies.json_schemas import schemas

RELAXED = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]

CONSTRAINTS: list[Constraint] = [
    json_schema(True),
    json_schema({"type": "array", "items": {"enum": ["a", "ab", 1]}, "maxItems": 2}, whitespace="compact"),
    json_schema({"properties": {"a": {"maxLength": 4}, "ab": {"type": "null"}}, "required": ["ab"]}),
    json_schema({"anyOf": [{"required": ["a"]}, {"items": {"const": "abc"}}, {"pattern": "^a*$"}]}),
    regex("(ab|a)*1?[a-c]{2,3}"),
    choice(["null", "nul", "abc", "ab", '"', "é"]),
    "a" + json_schema({"type": "number"}) + regex("[ab]*"),
    json_schema({"type": "string"}) | "abc",
]


class MatcherCalls(RuleBasedStateMachine):
    """Matchers, each with the list of tokens that it has read."""

    matchers = Bundle("matchers")

    def __init__(self) -> None:
        super().__init__()
        self.account: dict[int, tuple[Matcher, list[int]]] = {}
        self.masks: dict[tuple[int, ...], set[int]] = {}

    @initialize(target=matchers, constraint=st.sampled_from(CONSTRAINTS))
    def begin(self, constraint: Constraint) -> int:
        return self.add(Matcher(constraint, json_vocabulary()), [])

    def add(self, matcher: Matcher, tokens: list[int]) -> int:
        self.account[len(self.account)] = (matcher, tokens)
        return len(self.account) - 1

    @rule(which=matchers, source=st.randoms(use_true_random=False), steps=st.integers(1, 4))
    def read_allowed(self, which: int, source: random.Random, steps: int) -> None:
        matcher, tokens = self.account[which]
        for _ in range(steps):
            ids = sorted(allowed(matcher.mask()))
            texts = [token for token in ids if token not in EOS]
            if not ids:
                return
            token = source.choice(texts if texts and source.random() < 0.9 else ids)
            assert matcher.advance(token)
            tokens.append(token)

    @rule(which=matchers, source=st.randoms(use_true_random=False))
    def refused_tokens_change_nothing(self, which: int, source: random.Random) -> None:
        matcher, _ = self.account[which]
        ids = allowed(matcher.mask())
        others = [token for token in range(matcher.vocabulary.words * 32) if token not in ids]
        for token in [*source.sample(others, min(20, len(others))), 2**31, 2**32 - 1]:
            assert not matcher.advance(token)

    @rule(which=matchers, share=st.floats(0, 1))
    def roll_back(self, which: int, share: float) -> None:
        matcher, tokens = self.account[which]
        n = round(share * len(tokens))
        matcher.rollback(n)
        del tokens[len(tokens) - n :]

    @rule(which=matchers)
    def roll_back_too_far(self, which: int) -> None:
        matcher, tokens = self.account[which]
        for n in (len(tokens) + 1, -1):
            with pytest.raises(ValueError, match="cannot roll back"):
                matcher.rollback(n)

    @rule(which=matchers)
    def reset(self, which: int) -> None:
        matcher, tokens = self.account[which]
        matcher.reset()
        tokens.clear()

    @rule(target=matchers, which=matchers)
    def fork(self, which: int) -> Any:
        if len(self.account) > 6:
            return multiple()
        matcher, tokens = self.account[which]
        return self.add(matcher.fork(), list(tokens))

    @rule(which=matchers, source=st.randoms(use_true_random=False))
    def accepts_counts_what_advance_takes(self, which: int, source: random.Random) -> None:
        matcher, _ = self.account[which]
        twin = matcher.fork()
        drafted: list[int] = []
        for _ in range(4):
            ids = sorted(allowed(twin.mask())) or [5]
            drafted.append(
                source.choice(ids) if source.random() < 0.8 else source.randrange(matcher.vocabulary.size)
            )
            twin.advance(drafted[-1])
        again = matcher.fork()
        taken = next((n for n, token in enumerate(drafted) if not again.advance(token)), len(drafted))
        assert matcher.accepts(drafted) == taken

    @rule(which=matchers)
    def forced_tokens_are_the_only_choice(self, which: int) -> None:
        matcher, _ = self.account[which]
        run, twin = matcher.forced(), matcher.fork()
        for token in run:
            assert allowed(twin.mask()) == {token}
            assert twin.advance(token)
        assert twin.allowed_count() != 1 or twin.is_complete()
        assert matcher.forced(1) == run[:1]

    @rule(which=matchers)
    def forced_bytes_begin_every_continuation(self, which: int) -> None:
        matcher, _ = self.account[which]
        run = matcher.forced_bytes()
        for end in range(len(run)):
            assert matcher.native.next_bytes(run[:end]) == (run[end : end + 1], False)
        following, may_end = matcher.native.next_bytes(run)
        assert may_end or len(following) != 1 or matcher.is_finished
        assert matcher.forced_bytes(2) == run[:2]

    @rule(which=matchers)
    def a_witness_completes(self, which: int) -> None:
        matcher, _ = self.account[which]
        if not matcher.is_finished and (rest := matcher.witness()) is not None:
            assert matcher.accepts([*rest, EOS[0]]) == len(rest) + 1
            assert matcher.witness(len(rest)) == rest
            assert not rest or matcher.witness(len(rest) - 1) is None

    @invariant()
    def each_is_as_its_account_says(self) -> None:
        for matcher, tokens in self.account.values():
            assert matcher.tokens == tokens
            assert matcher.text == matcher.vocabulary.decode(tokens)
            assert matcher.is_finished == (bool(tokens) and tokens[-1] in EOS)
            ids = allowed(matcher.mask())
            assert ids == self.masks.setdefault(tuple(tokens), ids)
            assert matcher.allowed_count() == len(ids)
            if matcher.is_finished:
                assert not ids
            else:
                assert (ids & set(EOS) == set(EOS)) == matcher.is_complete()
                assert matcher.must_stop == (bool(ids) and ids <= set(EOS))
            row = np.full((2, matcher.vocabulary.words), -1, dtype=np.int32)
            matcher.fill(row, 1)
            assert (row[0] == -1).all() and (row[1] == matcher.mask()).all()


TestMatcherCalls = MatcherCalls.TestCase
TestMatcherCalls.settings = settings(
    max_examples=60, stateful_step_count=20, suppress_health_check=RELAXED, deadline=None
)


# ------------------------------------------------------------------ small languages, with a list of all texts

TOKENS: list[bytes | None] = [
    None,
    None,
    b"a",
    b"b",
    b"ab",
    b"ba",
    b"aab",
    b"1",
    b"a1",
    None,
    b"bb",
    b"ab",
    b"b",
]
WORDS = st.lists(st.text("ab1", max_size=5), min_size=1, max_size=5)


def compare(constraint: Constraint, language: Iterable[str], source: random.Random) -> None:
    """Random calls on both matchers."""
    texts = {text.encode() for text in language}
    vocabulary = Vocabulary.from_tokens(TOKENS, EOS, size=40)
    try:
        ours = Matcher(constraint, vocabulary)
    except EmptyConstraint:
        assert not texts
        return
    twin = NaiveMatcher(texts, NaiveVocabulary(TOKENS, EOS, size=40))
    for _ in range(25):
        assert (ours.mask() == twin.mask()).all(), ours.text
        assert ours.forced() == twin.forced()
        assert ours.is_finished or (ours.is_complete(), ours.must_stop) == (
            twin.is_complete(),
            twin.must_stop,
        )
        draft = source.choices(range(len(TOKENS)), k=3)
        assert ours.accepts(draft) == twin.accepts(draft)
        rest, known = ours.witness(20), twin.witness(20)
        assert (None if rest is None else len(rest)) == (None if known is None else len(known))
        if source.random() < 0.3:
            n = source.randint(0, len(ours.tokens))
            ours.rollback(n)
            twin.rollback(n)
        else:
            token = source.choice(sorted(allowed(ours.mask())) or [0])
            assert ours.advance(token) == twin.advance(token)


@settings(max_examples=80, suppress_health_check=RELAXED)
@given(WORDS, st.randoms(use_true_random=False))
def test_choices(words: list[str], source: random.Random) -> None:
    compare(choice(words), words, source)


@settings(max_examples=80, suppress_health_check=RELAXED)
@given(WORDS, WORDS, st.sampled_from(["+", "|", "&"]), st.randoms(use_true_random=False))
def test_operators(first: list[str], second: list[str], operator: str, source: random.Random) -> None:
    a, b = choice(first), choice(second)
    if operator == "+":
        compare(a + b, {x + y for x in first for y in second}, source)
    elif operator == "|":
        compare(a | b, {*first, *second}, source)
    else:
        compare(a & b, {*first} & {*second}, source)


@settings(max_examples=40, suppress_health_check=RELAXED)
@given(WORDS, st.sets(st.integers(-1, 11), min_size=1), WORDS, st.randoms(use_true_random=False))
def test_schemas_in_sequences(
    before: list[str], numbers: set[int], after: list[str], source: random.Random
) -> None:
    """Parts that are not regular: their readings run beside each other where a number may end or go on."""
    schema = json_schema({"enum": sorted(numbers), "type": "integer"}, integers="digits")
    # `-0` is a zero, too.
    written = {*map(str, numbers)} | ({"-0"} if 0 in numbers else set())
    language = {x + y + z for x in before for y in written for z in after}
    compare_by_bytes(choice(before) + schema + choice(after), language)
    compare_by_bytes(schema | choice(before), written | {*before})


def compare_by_bytes(constraint: Constraint, language: set[str]) -> None:
    matcher = Matcher(constraint, byte_vocabulary())
    texts = {text.encode() for text in language}
    prefixes = {text[:end] for text in texts for end in range(len(text) + 1)}
    for text in prefixes:
        following, may_end = matcher.native.next_bytes(text)
        assert may_end == (text in texts)
        assert {text + bytes([byte]) for byte in following} == {
            other for other in prefixes if len(other) == len(text) + 1 and other.startswith(text)
        }


# ------------------------------------------------------------------ many matchers

SAMPLE = [json_schema({"type": "string", "maxLength": n}) for n in range(8)] + CONSTRAINTS


def walked(vocabulary: Vocabulary, seed: int) -> list[Matcher]:
    source = random.Random(seed)
    matchers = [Matcher(constraint, vocabulary) for constraint in SAMPLE * 3]
    for matcher in matchers:
        for _ in range(source.randrange(6)):
            ids = sorted(allowed(matcher.mask()) - set(EOS))
            if ids:
                matcher.advance(source.choice(ids))
    return matchers


@pytest.mark.parametrize("threads", [1, 2, 50])
def test_filling_many_rows(threads: int) -> None:
    matchers = walked(renewed(json_vocabulary()), 1)
    words = matchers[0].vocabulary.words
    out = np.full((len(matchers) + 1, words + 3), -1, dtype=np.int32)
    fill_masks(matchers, out, threads)
    for row, matcher in zip(out, matchers, strict=False):
        assert (row[:words] == matcher.mask()).all() and not row[words:].any()
    assert (out[-1] == -1).all()
    fill_masks([], out, threads)


def test_rows_that_do_not_fit() -> None:
    matcher = Matcher(json_schema(True), json_vocabulary())
    words = matcher.vocabulary.words
    with pytest.raises(VocabularyMismatch, match="cannot hold masks"):
        matcher.fill(np.zeros((1, words - 1), dtype=np.int32))
    with pytest.raises((ValueError, IndexError)):
        fill_masks([matcher, matcher], np.zeros((1, words), dtype=np.int32))
    with pytest.raises((ValueError, IndexError)):
        matcher.fill(np.zeros((1, words), dtype=np.int32), 1)


def test_several_threads_at_once() -> None:
    """Each thread has matchers of its own, on programs and caches that all of them share."""
    vocabulary = renewed(json_vocabulary())
    expected = [
        [sorted(allowed(matcher.mask())) for matcher in walked(json_vocabulary(), seed)] for seed in range(4)
    ]
    found: dict[int, list[list[int]]] = {}

    def work(seed: int) -> None:
        for _ in range(3):
            matchers = walked(vocabulary, seed)
            out = np.zeros((len(matchers), vocabulary.words), dtype=np.int32)
            fill_masks(matchers, out, 2)
            found[seed] = [sorted(allowed(row)) for row in out]

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[seed] for seed in range(4)] == expected


# ------------------------------------------------------------------ caches

TINY = {"mask_cache_bytes": 1, "fragment_cache_bytes": 1, "space_bytes": 1}


@settings(max_examples=40, suppress_health_check=RELAXED)
@given(schemas(SUPPORTED), st.randoms(use_true_random=False))
def test_small_caches_give_the_same_masks(schema: Any, source: random.Random) -> None:
    first = matcher_of(schema, json_vocabulary())
    if first is None:
        return
    second = Matcher(first.constraint, TINY_VOCABULARY)
    held = []
    for _ in range(8):
        mask = second.mask()
        held.append((mask, mask.copy()))
        assert (mask == first.mask()).all()
        ids = sorted(allowed(mask) - set(EOS))
        if not ids:
            break
        token = source.choice(ids)
        assert first.advance(token) and second.advance(token)
    # What a caller holds survives eviction.
    assert all((mask == copy).all() for mask, copy in held)


TINY_VOCABULARY = renewed(json_vocabulary(), **TINY)


def test_several_ends_of_text() -> None:
    vocabulary = json_vocabulary()
    for token in EOS:
        matcher = Matcher(regex("a*"), vocabulary)
        assert not set(EOS) - allowed(matcher.mask())
        assert matcher.advance(token) and matcher.is_finished
        assert not any(matcher.advance(other) for other in (*EOS, *text_ids(vocabulary)))
        assert matcher.tokens == [token] and matcher.text == b""
        matcher.rollback(1)
        assert not matcher.is_finished and matcher.accepts([token, token]) == 1

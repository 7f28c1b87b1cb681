"""Drafters and trees: indexes against looking everywhere, growth against its invariants, guesses that are there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structgen as sg
from structgen.matcher import Matcher
from structgen.speculative.drafters import Context, Copying, Proposal, Start, TokenLookup
from structgen.speculative.growth import Chances, grow_tree
from structgen.speculative.recycling import (
    _MAX_CONSTRAINTS,
    LogitNGrams,
    SuffixStore,
    TokenRecycling,
    TriGrams,
    most_probable,
)
from structgen.speculative.suffixes import BREAK, SuffixIndex
from structgen.speculative.trees import ROOT, DraftTree
from structgen.vocabulary import Vocabulary

from .letters import CONSTRAINT, LETTERS

TOKENS = st.lists(st.integers(0, 3), max_size=20)
BYTES = Vocabulary([bytes([i]) for i in range(256)] + [None], [256], encoder=lambda text: list(text.encode()))


def naive_matches(tokens: Sequence[int], end: Sequence[int], longest: int) -> dict[int, int]:
    """For each place that something follows, how much of `end` stands before it."""
    found = {}
    for place in range(1, len(tokens)):
        if tokens[place] == BREAK:
            continue
        length = 0
        while length < min(longest, place, len(end)) and tokens[place - 1 - length] == end[-1 - length]:
            length += 1
        if length:
            found[place] = length
    return found


@given(st.lists(TOKENS, min_size=1, max_size=3), TOKENS, st.integers(2, 5), st.integers(0, 30))
@settings(max_examples=300, deadline=None)
def test_the_longest_match_is_found(texts: list[list[int]], end: list[int], longest: int, kept: int) -> None:
    index = SuffixIndex(longest)
    reported: list[int] = []
    for text in texts:
        index.extend([BREAK, *text])
        reported += [BREAK, *text]
    index.cut(kept)
    reported = reported[:kept]
    index.extend(end)
    reported += end
    wanted = naive_matches(reported, [*end, 1], longest)
    best = max(wanted.values(), default=0)
    length, counts = index.following([*end, 1])
    assert length == best
    assert counts == Counter(reported[place] for place, length in wanted.items() if length == best)
    found = index.latest([*end, 1])
    assert found == (
        (best, max(place for place, length in wanted.items() if length == best)) if best else None
    )
    if found is not None:
        rest = reported[found[1] : found[1] + 4]
        assert index.after(found[1], 4) == (rest[: rest.index(BREAK)] if BREAK in rest else rest)


@pytest.mark.parametrize("size", [5, 300, 4096, 49_152, 50_000])
def test_the_most_probable_ones(size: int) -> None:
    random = np.random.default_rng(size)
    for _ in range(5):
        scores = random.normal(size=size).astype(np.float32)
        assert most_probable(scores, 4).tolist() == np.argsort(-scores)[:4].tolist()


class Ways:
    """Proposes the same few runs everywhere."""

    def __init__(self, runs: list[list[int]]) -> None:
        self.runs = runs

    def propose(self, context: Context) -> list[Proposal]:
        return [Proposal(run, f"way {place}", 0.6) for place, run in enumerate(self.runs) if run]

    def observe(self, tokens: Sequence[int], start: int) -> None:
        pass


@given(
    st.lists(st.lists(st.sampled_from(b"abc"), max_size=4), min_size=1, max_size=4),
    st.sampled_from(["(ab|ba)*c?", "[ab]{3,8}", "a*b*c*", "abc"]),
    st.integers(1, 12),
    st.integers(1, 6),
    st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_trees_hold_what_the_constraint_takes(
    runs: list[list[int]], pattern: str, size: int, depth: int, branching: bool
) -> None:
    matcher = Matcher(sg.regex(pattern), BYTES)
    tokens = [1, 2]
    grown = grow_tree(
        Context(tokens, matcher, BYTES),
        [Ways(runs)],
        Chances(),
        frozenset(BYTES.eos_ids),
        size=size,
        depth=depth,
        branching=branching,
    )
    tree = grown.tree
    assert tokens == [1, 2] and matcher.tokens == []
    assert len(tree) <= size and tree.reach == sorted(tree.reach, reverse=True)
    for node, parent in enumerate(tree.parents):
        text = tree.text_to(node)
        assert parent < node and len(text) <= depth
        assert Matcher(sg.regex(pattern), BYTES).accepts(text) == len(text)
        assert tree.path([*text, 999]) == [*tree.above(node)][::-1]
        assert tree.tokens[node] in [candidate.token for candidate in grown.candidates[parent]]
    assert branching or tree.is_chain
    before = list(tree.tokens)
    tree.cut(len(tree) // 2)
    assert tree.tokens == before[: len(before) // 2]
    assert all(tree.path(tree.text_to(node))[-1] == node for node in range(len(tree)))


def test_a_chain_and_what_is_no_node() -> None:
    tree, node = DraftTree(), ROOT
    for token in (4, 5, 6):
        node = tree.add(node, token)
    assert tree.is_chain and tree.path([4, 5, 9]) == [0, 1] and tree.path([5]) == []
    assert tree.add(0, 5) == 1 and tree.add(0, 7) == 3 and not tree.is_chain
    with pytest.raises(IndexError):
        tree.add(9, 1)


def proposed(drafter: Any, prompt: bytes, text: bytes) -> list[bytes]:
    row = drafter.start(Start(list(prompt), BYTES, sg.regex("(?s).*")))
    tokens = [*prompt, *text]
    row.observe(tokens, len(prompt))
    matcher = Matcher(sg.regex("(?s).*"), BYTES)
    return [bytes(guess.tokens) for guess in row.propose(Context(tokens, matcher, BYTES))]


@pytest.mark.parametrize(
    ("prompt", "text", "wanted"),
    [
        (b"My name is Maria Lindqvist, from Oslo.", b'{"name": "Mar', b"ia Lindqvist"),
        (b"A carpenter in Leeds.", b'{"work": "C', b"arpenter in"),  # another case
        (b"lives at 5 Harbour Road\nin Bergen", b'"5 harbour road ', b"in Bergen"),  # other punctuation
        (b"nothing of it", b'{"name": "Q', None),
        (b"a prompt", b'{"name": "', None),
    ],
)
def test_words_are_copied(prompt: bytes, text: bytes, wanted: bytes | None) -> None:
    found = proposed(Copying(), prompt, text)
    assert found[0].startswith(wanted) if wanted is not None else not found, found


def test_tokens_are_looked_up_and_rows_that_go_back_forget() -> None:
    row = TokenLookup(most=3).start(Start([1, 2, 3, 4, 5, 1, 2], BYTES))
    context = Context([1, 2, 3, 4, 5, 1, 2], None, BYTES)
    assert [list(one.tokens) for one in row.propose(context)] == [[3, 4, 5]]
    row.observe([1, 2, 3, 4, 5, 1, 2, 9, 2], 7)
    row.observe([1, 2, 3, 4, 5, 1, 7], 6)
    assert row.propose(Context([9], None, BYTES)) == ()
    assert [list(one.tokens) for one in row.propose(Context([5, 1], None, BYTES))] == [[7]]


def test_copies_forget_what_was_rolled_back() -> None:
    row = Copying().start(Start(list(b"one two"), BYTES))
    row.observe(list(b"one two three four"), 7)
    row.observe(list(b"one two tw"), 8)
    (guess,) = row.propose(Context(list(b"one two tw"), None, BYTES, is_constrained=False))
    assert bytes(guess.tokens).startswith(b"o tw")


def test_tables_learn_and_forget() -> None:
    logits = np.zeros((2, 257), np.float32)
    logits[0, 7], logits[0, 9], logits[1, 5] = 3, 2, 1
    for table in (TokenRecycling(2), LogitNGrams((2, 1), 2)):
        table.learn([[3, 4], [4, 6]], logits)
        assert [list(one.tokens) for one in table.guesses([3, 4])] == [[7], [9]]
        assert next(iter(table.guesses([6]))).tokens == (5,)
        assert not list(table.guesses([8]))
    small = TokenRecycling(2, entries=1)
    small.learn([[3], [4]], logits)
    assert not list(small.guesses([3])) and list(small.guesses([4]))
    grams = TriGrams()
    for token in (5, 5, 6):
        grams.count([1, 2], token)
    assert [one.tokens[0] for one in grams.guesses([1, 2])] == [5, 6]
    assert [one.tokens[0] for one in grams.guesses([9, 9])] == [5, 6]


def test_a_store_knows_texts_of_the_same_constraint() -> None:
    store = SuffixStore(most=400)
    one, other = sg.regex("[a-z ]*"), sg.regex("[a-z ]+")

    def ended(constraint: Any, text: bytes) -> None:
        row: Any = store.start(Start([1], BYTES, constraint))
        row.finish([1, *text])

    def following(constraint: Any, text: bytes) -> list[bytes]:
        row = store.start(Start([1], BYTES, constraint))
        return [bytes(guess.tokens) for guess in row.propose(Context([1, *text], None, BYTES))]

    ended(one, b"the cat sat")
    ended(one, b"the cow sat")
    assert following(one, b"") == [b"t"] and following(one, b"a c") == [b"o", b"a"]
    assert following(one, b"the ca") == [b"t"] and following(other, b"the ca") == []
    assert following(None, b"the ca") == []  # free texts are not kept
    for _ in range(40):
        ended(one, b"and another text")
    assert 200 < len(store) < 400 and following(one, b"anot") == [b"h"]
    for number in range(20):
        ended(sg.regex(f"[a-z ]{{0,{number + 50}}}"), b"x" * 40)
    assert len(store) <= 400


def test_a_suffix_store_keeps_its_limit() -> None:
    store = SuffixStore(most=1000)
    for number in range(200):  # rows that started before their constraint was evicted
        rows: list[Any] = [
            store.start(Start([1], LETTERS, sg.regex(f"[ab]{{{number % 7},{size + 20}}}")))
            for size in range(12)
        ]
        for row in rows:
            row.finish([1, *[0, 1] * 60])
        assert 0 < len(store) <= 1000
    assert sum(len(texts) for texts in store._texts.values()) == len(store)
    assert len(SuffixStore(most=140)) == 0


def test_a_small_suffix_store_keeps_texts_that_fit() -> None:
    store = SuffixStore(most=140)
    row: Any = store.start(Start([1], LETTERS, CONSTRAINT))
    row.finish([1, *[0, 1] * 60])
    assert len(store) == 121


def test_a_suffix_store_forgets_the_keys_that_were_not_used_for_longest() -> None:
    """It outlives the requests of an API key: a server's constraints are pairs of a key and a constraint."""
    store = SuffixStore(most=10_000)

    def started(number: int) -> Any:
        return store.start(Start([1], BYTES, (f"key {number}", b"constraint")))

    for number in range(_MAX_CONSTRAINTS + 20):
        started(number).finish([1, 2, 3, 4])
        assert len(store._texts) <= _MAX_CONSTRAINTS
        assert len(store) == sum(map(len, store._texts.values()))
    context = Context([1, 2], None, BYTES)
    assert not started(0).propose(context), "its texts were evicted"
    assert started(_MAX_CONSTRAINTS).propose(context)
    assert not started(_MAX_CONSTRAINTS + 20).propose(context), "another key has no texts"

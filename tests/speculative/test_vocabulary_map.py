"""The map between two vocabularies, against its definition; texts keep their distribution."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from structgen.generation import SamplingOptions, generate_tokens
from structgen.speculative.controllers import Fixed
from structgen.speculative.drafters import Context, Start
from structgen.speculative.model_drafters import DraftModel
from structgen.speculative.speculation import Speculation
from structgen.speculative.verifiers import Recursive, Rejection, Verifier
from structgen.speculative.vocabulary_map import VocabularyMap
from structgen.vocabulary import Vocabulary
from tests.inference.toys import random_distribution
from tests.oracles.chi_squared import critical_value
from tests.oracles.toy_model import ToyModel

from . import exact_texts
from .test_model_drafters import BYTES, DRAFT, MANY, TEXT, WRITER, greedy

Pieces = list[bytes]
LETTERS = [b"a", b"b", b"c"]


def encoder(pieces: Sequence[bytes | None]) -> Callable[[str], list[int]]:
    """The longest piece first; other bytes are skipped, as those of a mark before the text."""

    def encode(text: str) -> list[int]:
        data, found = text.encode(), []
        while data:
            fitting = [i for i, piece in enumerate(pieces) if piece and data.startswith(piece)]
            if fitting:
                found.append(max(fitting, key=lambda i: len(pieces[i] or b"")))
            data = data[len(pieces[found[-1]] or b"") if fitting else 1 :]
        return found

    return encode


def vocabulary(pieces: Pieces) -> Vocabulary:
    return Vocabulary([*pieces, None], [len(pieces)], encoder=encoder(pieces))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Vocabulary, Vocabulary, list[bytes]]:
    """Two vocabularies over three letters, and texts."""

    def made() -> Vocabulary:
        words = st.text("abc", min_size=2, max_size=4).map(str.encode)
        return vocabulary([*LETTERS, *draw(st.lists(words, unique=True, max_size=5))])

    texts = draw(st.lists(st.text("abc", min_size=1, max_size=12).map(str.encode), min_size=1, max_size=3))
    return made(), made(), texts


def spans(words: Vocabulary, data: bytes) -> list[tuple[int, int, int]]:
    """Each token of a text with its first and last byte."""
    found, start = [], 0
    for token in encoder(words._tokens)(data.decode()):
        end = start + len(words.token_bytes(token) or b"")
        found.append((token, start, end))
        start = end
    return found


def by_definition(draft: Vocabulary, target: Vocabulary, texts: list[bytes]) -> dict[tuple[int, ...], int]:
    """What each n-gram of draft tokens stands for."""
    known: dict[tuple[int, ...], int] = {}
    for data in texts:
        theirs, ours = spans(draft, data), spans(target, data)
        for token, start, end in ours:
            inside = [(one, s, e) for one, s, e in theirs if start <= s and e <= end]
            if len(inside) > 1 and inside[0][1] == start and inside[-1][2] == end:
                known[tuple(one for one, _, _ in inside)] = token
        for token, start, end in theirs:
            inside = [(one, s, e) for one, s, e in ours if start <= s and e <= end]
            if len(inside) > 1 and inside[0][1] == start and inside[-1][2] == end:
                known[token,] = inside[0][0]
    for token in range(draft.size - 1):
        same = [i for i in range(target.size) if target.token_bytes(i) == draft.token_bytes(token)]
        if same:
            known[token,] = same[0]
    known[draft.size - 1,] = target.size - 1
    return known


@given(pair=pairs())
@settings(deadline=None, max_examples=150)
def test_it_learns_what_covers_the_same_bytes(pair: tuple[Vocabulary, Vocabulary, list[bytes]]) -> None:
    draft, target, texts = pair
    learned = VocabularyMap(draft, target)
    for data in texts:
        learned.learn(encoder(target._tokens)(data.decode()), encoder(draft._tokens)(data.decode()))
    expected = by_definition(draft, target, texts)
    assert {ngram: learned.token_of(ngram) for ngram in expected} == expected
    assert len(learned) == sum(len(ngram) > 1 for ngram in expected)
    assert sum(learned.token_of([token]) is not None for token in range(draft.size)) == sum(
        len(ngram) == 1 for ngram in expected
    )


@given(pair=pairs(), seed=st.integers(0, 50), least=st.sampled_from([0.0, 0.2]))
@settings(deadline=None, max_examples=150)
def test_probabilities_are_products_along_n_grams(
    pair: tuple[Vocabulary, Vocabulary, list[bytes]], seed: int, least: float
) -> None:
    """By the definition: all draft texts that the followed beginnings lead to, each with its longest n-gram."""
    draft, target, texts = pair
    learned = VocabularyMap(draft, target)
    for data in texts:
        learned.learn(encoder(target._tokens)(data.decode()), encoder(draft._tokens)(data.decode()))

    def q(after: Sequence[int]) -> NDArray[np.float64]:
        return np.random.default_rng([seed, *after]).dirichlet(np.full(draft.size, 0.4))

    known = by_definition(draft, target, texts)
    expected = np.zeros(target.size)

    def leads_on(beginning: tuple[int, ...]) -> bool:
        return any(len(ngram) > len(beginning) and ngram[: len(beginning)] == beginning for ngram in known)

    def follow(beginning: tuple[int, ...], mass: float, owner: int | None, is_followed: bool) -> None:
        """Give the mass of each draft text to the longest n-gram that it begins with."""
        owner = known.get(beginning, owner)
        if beginning and not (is_followed and leads_on(beginning) and mass >= least and mass > 0):
            if owner is not None:
                expected[owner] += mass
            return
        chances = q(beginning)
        longer = [token for token in range(draft.size) if leads_on((*beginning, token))]
        best = max(longer, key=lambda token: float(chances[token]), default=None)
        for token in range(draft.size):
            follow((*beginning, token), mass * float(chances[token]), owner, token == best)

    follow((), 1.0, None, True)
    found = learned.distribution(q, least)
    assert found is not None
    assert found.min() >= 0 and found.sum() <= 1 + 1e-9
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_a_bounded_map_keeps_what_was_seen_last() -> None:
    letters = [bytes([97 + i]) for i in range(20)]
    pairs_ = [letters[i] + letters[i + 1] for i in range(19)]
    draft = Vocabulary.from_tokens([*letters, None], [20])
    target = Vocabulary.from_tokens([*letters, *pairs_, None], [39])
    learned = VocabularyMap(draft, target, entries=3)
    for i in [0, 1, 2, 0, 5]:
        learned.learn([20 + i], [i, i + 1])
    assert len(learned) == 3
    assert [learned.token_of([i, i + 1]) for i in (0, 1, 2, 5)] == [20, None, 22, 25]
    assert sorted(learned._following[()]) == [0, 2, 5] and len(learned._following) == 4
    copied = pickle.loads(pickle.dumps(learned))
    assert copied.token_of([5, 6]) == 25
    copied.learn([21], [1, 2])
    assert len(copied) == 3 and learned.token_of([1, 2]) is None


@pytest.mark.parametrize("branching", [False, True])
@pytest.mark.parametrize("verifier", [Rejection(), Recursive()], ids=lambda one: type(one).__name__)
def test_texts_have_the_plain_distribution(
    verifier: Verifier, branching: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compare 400 texts by chi-squared. With random seeds, a correct verifier would fail once in 10,000 runs."""
    target = Vocabulary(exact_texts.PIECES, [5], encoder=encoder(exact_texts.PIECES))
    monkeypatch.setattr(exact_texts, "VOCABULARY", target)
    monkeypatch.setattr(exact_texts, "MODEL", ToyModel(target, random_distribution(7, 6)))
    pieces: list[bytes] = [b"a", b"b", b"c", b"bc", b"ca"]
    drafter = DraftModel(ToyModel(vocabulary(pieces), random_distribution(3, 6)), least=0.0)
    speculation = Speculation([drafter], verifier, Fixed(4), branching=branching, depth=3)
    statistic, freedom = exact_texts.chi_squared(exact_texts.texts(speculation, count=400))
    assert statistic < critical_value(freedom) and speculation.counts["accepted"] > 80
    assert len(drafter._map(target)) > 0


def test_a_distribution_of_the_target_leads_along_the_text() -> None:
    """A draft model of bytes knows the next piece of the target, after the map has seen the text once."""
    drafter = DraftModel(DRAFT, least=0.01)
    start: Any = Start([], MANY)
    row = drafter.start(start)
    tokens = greedy(TEXT)
    before = right(row, tokens)
    row.finish(tokens)
    after = right(drafter.start(start), tokens)
    assert before < 0.7 < 0.9 < after


def right(row: Any, tokens: Sequence[int]) -> float:
    """The fraction of positions at which the most probable token is the next one."""
    found = count = 0
    for end in range(1, len(tokens)):
        distribution = row.distribution(Context(list(tokens[:end]), None, MANY))
        if distribution is not None:
            count += 1
            found += int(distribution.argmax()) == tokens[end]
    assert count > 20
    return found / count


def test_more_tokens_are_accepted_after_the_first_text() -> None:
    options = SamplingOptions(temperature=0.7, seed=1, max_tokens=60)
    speculation = Speculation([DraftModel(DRAFT, least=0.01, most=8)], Rejection(), Fixed(4))
    passes = []
    for _ in range(2):
        before = WRITER.forward_passes
        generate_tokens(WRITER, [greedy("the ")], [None], options, drafting=speculation.start(WRITER))
        passes.append(WRITER.forward_passes - before)
    assert passes[1] < passes[0]
    assert BYTES.size > 256

"""Walks down a trie of bounds: toy T1, and random languages whose distribution is enumerated."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest

from structgen.errors import ModelError
from structgen.inference import bound_trie as bounds
from structgen.inference import walks as walks_module
from structgen.inference.bound_trie import BoundTrie
from structgen.inference.prefixes import Distribution, PrefixReader
from structgen.inference.walks import Policy, Walk, Walks
from structgen.models.memory import DistributionModel
from structgen.vocabulary import Vocabulary
from tests.inference.toys import (
    BITS,
    END,
    T1_LANGUAGE,
    chi_square,
    chi_square_bound,
    random_distribution,
    strings,
    t1_distribution,
)
from tests.oracles.naive_matcher import NaiveMatcher, NaiveVocabulary

VOCABULARY = Vocabulary.from_tokens([b"0", b"1", None], [END])
SEED = 20


def t1() -> DistributionModel:
    return DistributionModel(VOCABULARY, t1_distribution)


def walks_of(
    policy: Policy,
    seed: int,
    *,
    parallel: int = 1,
    model: DistributionModel | None = None,
    matcher: NaiveMatcher | None = None,
    trie: BoundTrie | None = None,
    max_tokens: int = 8,
) -> Walks:
    return Walks(
        PrefixReader(model or t1(), [0], parallel),
        matcher or NaiveMatcher(T1_LANGUAGE, BITS),  # type: ignore[arg-type]
        trie or BoundTrie(),
        policy,
        parallel=parallel,
        max_tokens=max_tokens,
        uniforms=lambda number: iter(np.random.default_rng([SEED, seed, number]).random, None),
    )


def first(walks: Walks, count: int, every: bool = False) -> list[Walk]:
    """The first `count` that ended in a text, or (`every`) that ended."""
    found: list[Walk] = []
    for walk in walks.run(lambda: len(found) < count):
        if walk.accepted or every:
            found.append(walk)
        if len(found) == count:
            break
    return found


def text(walk: Walk) -> str:
    return "".join(map(str, walk.tokens))


Q1 = {"000": 0.012 / 0.412, **{f"1{a}{b}": 0.1 / 0.412 for a, b in product("01", repeat=2)}}


@pytest.mark.parametrize(
    ("policy", "parallel"), [("rejection", 1), ("adaptive_rejection", 1), ("cars", 1), ("cars", 3)]
)
def test_every_draw_is_exact(policy: Policy, parallel: int) -> None:
    """Each draw index on its own; the bound is the 99.9 % quantile, for a fixed seed."""
    runs = [first(walks_of(policy, run, parallel=parallel), 4) for run in range(2000)]
    for j in range(4):
        counts = Counter(text(run[j]) for run in runs)
        statistic, freedom = chi_square((counts[x], q * len(runs)) for x, q in Q1.items())
        assert statistic < chi_square_bound(freedom), (j, counts)
    if policy == "cars" and parallel == 1:
        attempts = [run[-1].number + 1 for run in runs]
        assert np.mean(attempts) == pytest.approx(5.365, abs=5 * np.std(attempts) / math.sqrt(len(runs)))
    if policy == "rejection":
        attempts = [run[-1].number + 1 for run in runs]
        assert 4 / np.mean(attempts) == pytest.approx(0.412, abs=0.02)


def test_the_mass_is_estimated_without_bias() -> None:
    """Each walk, kept or given up: theta(root) when it began, if it ended in a text."""
    runs = [first(walks_of("cars", run), 5, every=True) for run in range(2000)]
    for j in range(5):
        estimates = [math.exp(run[j].log_weight) * run[j].accepted for run in runs]
        assert np.mean(estimates) == pytest.approx(0.412, abs=5 * np.std(estimates) / math.sqrt(len(runs)))


def test_asap_on_toy_t1() -> None:
    runs = [first(walks_of("asap", run), 4, every=True) for run in range(2500)]
    for j, expected in enumerate([0.6, 0.2575, 0.1205, 0.0657]):
        share = sum(text(run[j]) == "000" for run in runs) / len(runs)
        assert share == pytest.approx(expected, abs=5 * math.sqrt(expected * (1 - expected) / len(runs)))
        weights = np.array([math.exp(run[j].log_weight) for run in runs])
        of_text = weights * np.array([text(run[j]) == "000" for run in runs])
        assert weights.mean() == pytest.approx(0.412, abs=5 * weights.std() / math.sqrt(len(runs)))
        assert of_text.mean() == pytest.approx(0.012, abs=5 * of_text.std() / math.sqrt(len(runs)))
        assert all(walk.accepted for run in runs for walk in run)


def test_log_probabilities_are_the_models() -> None:
    for walk in first(walks_of("cars", 1), 20):
        tokens = (*walk.tokens, END)
        expected = sum(math.log(t1_distribution(tuple(tokens[:i]))[token]) for i, token in enumerate(tokens))
        assert walk.log_prob == pytest.approx(expected, abs=1e-5)


# Random languages.

SMALL = NaiveVocabulary([b"a", b"b", b"ab", b"ba", None], eos_ids=[4])
LARGE = Vocabulary.from_tokens([b"a", b"b", b"ab", b"ba", None], [4])


@pytest.mark.parametrize("policy", ["rejection", "adaptive_rejection", "cars", "asap"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rare", [False, True], ids=["held", "rare"])
def test_random_languages_under_a_cap(
    policy: Policy, seed: int, rare: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One trie over all draws, with three parallel walks, which is trimmed to almost nothing again and again.

    `rare`: most tokens are not held one by one, and no distribution is kept, so that it is read again for them.
    """
    if rare:
        monkeypatch.setattr(bounds, "_LIKELY_FRACTION", 0.4)
        monkeypatch.setattr(bounds, "_MAX_HELD_WHOLE", -100)
        monkeypatch.setattr(walks_module, "MAX_DISTRIBUTION_BYTES", 0)
    words = ["".join(w) for n in range(5) for w in product("ab", repeat=n)]
    random = np.random.default_rng(seed)
    language = [word.encode() for word in words if random.random() < 0.3] or [b"ab"]
    model = DistributionModel(LARGE, random_distribution(seed, 5))
    distribution = dict(strings(model, NaiveMatcher(language, SMALL), 3))
    total = sum(distribution.values())
    trie = BoundTrie(limit=6_000)
    walks = walks_of(
        policy, seed, parallel=3, model=model, matcher=NaiveMatcher(language, SMALL), trie=trie, max_tokens=3
    )
    count = 1500
    found = first(walks, count, every=policy == "asap")
    weights = [math.exp(walk.log_weight) if policy == "asap" else total for walk in found]
    sums: Counter[tuple[int, ...]] = Counter()
    squares: Counter[tuple[int, ...]] = Counter()
    for walk, weight in zip(found, weights, strict=True):
        if walk.accepted:
            sums[tuple(walk.tokens)] += weight  # type: ignore[assignment]
            squares[tuple(walk.tokens)] += weight**2  # type: ignore[assignment]
    assert set(sums) <= set(distribution)
    for tokens, p in distribution.items():
        mean = sums[tokens] / count
        error = math.sqrt(max(squares[tokens] / count - mean**2, p * total) / count)
        assert mean == pytest.approx(p, abs=6 * error), tokens


def test_known_prefixes_cost_no_call() -> None:
    model = t1()
    reader_calls = []
    trie = BoundTrie()
    for run in range(2):
        walks = walks_of("cars", run, model=model, trie=trie)
        first(walks, 200)
        reader_calls.append(walks._reader.calls)
    assert reader_calls[0] <= 11  # six prefixes of texts, and five texts that have to end
    assert reader_calls[1] == 0
    assert trie.root is not None and math.exp(trie.root.step.bound) == pytest.approx(0.412)


def test_a_constraint_without_mass_ends_every_walk() -> None:
    def distribution(tokens: tuple[int, ...]) -> tuple[float, float, float]:
        return (1.0, 0.0, 0.0) if len(tokens) < 3 else (0.0, 0.0, 1.0)

    model = DistributionModel(VOCABULARY, distribution)
    matcher = NaiveMatcher([b"101"], BITS)
    for policy in ("rejection", "adaptive_rejection", "cars", "asap"):
        walks = walks_of(policy, 0, model=model, matcher=matcher)  # type: ignore[arg-type]
        found = first(walks, 5, every=True)
        assert not any(walk.accepted for walk in found)


def test_walks_come_in_the_order_in_which_they_began() -> None:
    numbers = [walk.number for walk in first(walks_of("cars", 3, parallel=4), 60, every=True)]
    assert numbers == list(range(60))


def test_endless_logits_are_refused() -> None:
    with pytest.raises(ModelError, match="not a number"):
        Distribution.of(np.array([np.inf, 0], dtype=np.float32))

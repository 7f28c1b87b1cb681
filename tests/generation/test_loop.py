"""The generation loop on models and languages that can be enumerated."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise, product

import numpy as np
import pytest

from structgen.errors import LimitExceeded, OptionError
from structgen.generation import SamplingOptions, generate_steps, generate_tokens
from tests.inference.toys import (
    BITS,
    END,
    T1_LANGUAGE,
    chi_square,
    chi_square_bound,
    enumerate_distribution,
    random_distribution,
    t1_matcher,
    t1_model,
)
from tests.oracles.naive_matcher import NaiveMatcher, NaiveVocabulary
from tests.oracles.toy_model import ToyModel

LETTERS = NaiveVocabulary([b"a", b"b", b"c", b"ab", b"bc", None, None], eos_ids=[5, 6], size=9)
WORDS = [b"", b"a", b"ab", b"abc", b"bbb", b"cab", b"cc", b"ccc"]
PROMPT = [0]
SAMPLE = SamplingOptions(temperature=1, seed=11)


WORD_MATCHER = NaiveMatcher(WORDS, LETTERS)


def word_matcher() -> NaiveMatcher:
    return WORD_MATCHER.fork()


# -- the distribution


def test_t1_has_the_published_distribution() -> None:
    distribution = {
        bytes(48 + t for t in tokens): (p, w)
        for tokens, p, w in enumerate_distribution(t1_model(), t1_matcher(), SAMPLE)
    }
    assert {text: p for text, (p, _) in distribution.items()} == pytest.approx(
        {text: 0.6 if text == b"000" else 0.1 for text in T1_LANGUAGE}
    )
    # The weight of every draw times its probability is the model's own mass: E[w] = Z, E[w 1(000)] = P(000).
    assert sum(p * math.exp(w) for p, w in distribution.values()) == pytest.approx(0.412)
    assert distribution[b"000"][0] * math.exp(distribution[b"000"][1]) == pytest.approx(0.012)


def test_t1_draws_follow_the_distribution_and_carry_exact_weights() -> None:
    distribution = {
        tokens: (p, w) for tokens, p, w in enumerate_distribution(t1_model(), t1_matcher(), SAMPLE)
    }
    draws = generate_tokens(t1_model(), [PROMPT] * 3000, [t1_matcher() for _ in range(3000)], SAMPLE)
    counts = Counter(tuple(draw.tokens) for draw in draws)
    statistic, freedom = chi_square((counts[tokens], 3000 * p) for tokens, (p, _) in distribution.items())
    assert statistic < chi_square_bound(freedom)
    for draw in draws[:50]:
        assert draw.finish == "complete" and draw.end_token == END
        assert draw.log_weight == pytest.approx(distribution[tuple(draw.tokens)][1])
    weights = np.exp([draw.log_weight for draw in draws])
    assert weights.mean() == pytest.approx(0.412, abs=4 * weights.std() / math.sqrt(3000))


@pytest.mark.parametrize(
    "options",
    [
        SamplingOptions(temperature=1, seed=2),
        SamplingOptions(temperature=0.6, seed=3),
        SamplingOptions(temperature=1.5, top_k=3, seed=4),
        SamplingOptions(top_p=0.8, seed=5),
        SamplingOptions(min_p=0.3, seed=6),
    ],
)
def test_draws_follow_local_masking(options: SamplingOptions) -> None:
    model = ToyModel(LETTERS, random_distribution(1, 9))
    distribution = list(enumerate_distribution(model, word_matcher(), options))
    assert sum(p for _, p, _ in distribution) == pytest.approx(1)
    expected = {tokens: 0.0 for tokens, _, _ in distribution}
    for tokens, p, _ in distribution:  # several end-of-text tokens end the same text
        expected[tokens] += p
    count = 2000
    draws = generate_tokens(model, [PROMPT] * count, [word_matcher() for _ in range(count)], options)
    counts = Counter(tuple(draw.tokens) for draw in draws)
    assert counts.keys() <= expected.keys()
    statistic, freedom = chi_square((counts[tokens], count * p) for tokens, p in expected.items())
    assert statistic < chi_square_bound(freedom)


def test_logprob_is_the_model_s_own() -> None:
    model = ToyModel(LETTERS, random_distribution(1, 9))
    for seed in range(20):
        (draw,) = generate_tokens(
            model, [PROMPT], [word_matcher()], SamplingOptions(temperature=0.7, seed=seed)
        )
        path = [*draw.tokens, draw.end_token]
        expected = sum(math.log(model.distribution(tuple(path[:n]))[token]) for n, token in enumerate(path))
        assert draw.logprob == pytest.approx(expected)
        assert draw.text.encode() == LETTERS.decode(draw.tokens)
        assert draw.text.encode() in WORDS


def test_greedy_takes_the_most_probable_allowed_token() -> None:
    (draw,) = generate_tokens(t1_model(), [PROMPT], [t1_matcher()])
    assert draw.text == "000"
    assert draw.log_weight == pytest.approx(math.log(0.2 * 0.1))


# -- seeds, batches, forced tokens


def test_the_same_seed_draws_the_same_and_a_reported_seed_repeats() -> None:
    model = ToyModel(LETTERS, random_distribution(2, 9))
    runs = [generate_tokens(model, [PROMPT], [word_matcher()], SAMPLE)[0] for _ in range(2)]
    assert runs[0].tokens == runs[1].tokens
    fresh = SamplingOptions(temperature=1)
    (free,) = generate_tokens(model, [PROMPT], [word_matcher()], fresh)
    (again,) = generate_tokens(model, [PROMPT], [word_matcher()], fresh.replace(seed=free.seed))
    assert free.tokens == again.tokens
    texts = {
        generate_tokens(model, [PROMPT], [word_matcher()], SAMPLE.replace(seed=seed))[0].text
        for seed in range(30)
    }
    assert len(texts) > 3


def test_a_batch_draws_what_its_rows_draw_alone() -> None:
    model = ToyModel(LETTERS, random_distribution(3, 9))
    batch = generate_tokens(model, [PROMPT] * 8, [word_matcher() for _ in range(8)], SAMPLE)
    for row, draw in enumerate(batch):
        (alone,) = generate_tokens(model, [PROMPT], [word_matcher()], SAMPLE.replace(seed=(11, row)))
        assert alone.tokens == draw.tokens
        assert alone.log_weight == pytest.approx(draw.log_weight)
        assert alone.seed == draw.seed


def test_rows_of_a_batch_have_their_own_constraint_and_options() -> None:
    model = ToyModel(LETTERS, random_distribution(3, 9))
    matchers = [NaiveMatcher([b"cc"], LETTERS), NaiveMatcher([b"abc"], LETTERS), None, word_matcher()]
    options = [
        SAMPLE,
        SAMPLE.replace(max_tokens=1, forced=False),
        SAMPLE.replace(max_tokens=4),
        SamplingOptions(),
    ]
    cc, abc, free, greedy = generate_tokens(model, [PROMPT] * 4, matchers, options)
    assert (cc.text, cc.finish) == ("cc", "complete")
    assert abc.finish == "failed" and abc.tokens == [] and "takes 2 tokens, and 1 are left" in str(abc.error)
    assert len(free.tokens) <= 4 and free.log_weight == 0
    assert greedy.text.encode() in WORDS


@pytest.mark.parametrize("scored", [True, False])
def test_forcing_never_changes_text_or_weight(scored: bool) -> None:
    language = [b"abcabc", b"abcabb", b"bcccc", b"cab"]
    for seed in range(15):
        draws = []
        for forced in (True, False):
            model = ToyModel(LETTERS, random_distribution(4, 9), scored=scored)
            options = SamplingOptions(temperature=1, seed=seed, forced=forced)
            (draw,) = generate_tokens(model, [PROMPT], [NaiveMatcher(language, LETTERS)], options)
            draws.append((draw, model.forward_passes))
        (with_forced, fewer), (without, more) = draws
        assert with_forced.tokens == without.tokens
        assert with_forced.logprob == pytest.approx(without.logprob)
        assert with_forced.log_weight == pytest.approx(without.log_weight)
        assert without.forced_tokens == 0
        assert fewer == more - with_forced.forced_tokens
        assert scored or with_forced.forced_tokens == 0


def test_forced_text_costs_no_forward_pass_when_weights_are_not_requested() -> None:
    vocabulary = NaiveVocabulary([b"x", b"y", b"z", None], eos_ids=[3])
    model = ToyModel(vocabulary, random_distribution(1, 4))
    (draw,) = generate_tokens(
        model, [PROMPT], [NaiveMatcher([b"xyz"], vocabulary)], SamplingOptions(exact_weight=False)
    )
    assert (draw.text, draw.finish, draw.forced_tokens) == ("xyz", "complete", 3)
    assert model.forward_passes == 0
    assert draw.logprob is None and draw.log_weight is None


# -- budgets


class Blind(NaiveMatcher):
    """Finds no text, so that nothing is known of how long one is."""

    def least_tokens(self, room: int) -> int | None:
        return None


def test_truncation_is_reported_and_the_partial_text_kept() -> None:
    for exact in (True, False):
        options = SamplingOptions(max_tokens=2, forced=False, exact_weight=exact)
        matcher = Blind(t1_matcher().language, t1_matcher().vocabulary)
        (draw,) = generate_tokens(t1_model(), [PROMPT], [matcher], options)
        assert (draw.text, draw.finish, draw.end_token) == ("00", "length", None)
        assert draw.log_weight == pytest.approx(math.log(0.2))


def test_a_text_that_fills_the_budget_is_complete_if_the_model_ends_it() -> None:
    (draw,) = generate_tokens(t1_model(), [PROMPT], [t1_matcher()], SamplingOptions(max_tokens=3))
    assert (draw.text, draw.finish) == ("000", "complete")
    talkative = ToyModel(LETTERS, lambda tokens: [0.9, *[0.1 / 8] * 8])
    (draw,) = generate_tokens(
        talkative,
        [PROMPT],
        [NaiveMatcher([b"a" * n for n in range(9)], LETTERS)],
        SamplingOptions(max_tokens=3),
    )
    assert (draw.text, draw.finish) == ("aaa", "length")


def test_the_context_length_is_a_budget_too() -> None:
    model = ToyModel(BITS, lambda tokens: (0.4, 0.5, 0.1), context_length=6)
    (draw,) = generate_tokens(model, [[0, 0]], [None])
    assert (draw.text, draw.finish) == ("1111", "length")
    long, short = generate_tokens(model, [[0] * 6, [0]], [None] * 2)
    assert isinstance(long.error, LimitExceeded) and "6 tokens" in str(long.error)
    assert (long.finish, short.finish, short.error) == ("failed", "length", None)


def test_bad_calls_are_refused() -> None:
    (empty,) = generate_tokens(t1_model(), [[]], [None])
    assert isinstance(empty.error, OptionError) and "no tokens" in str(empty.error)
    with pytest.raises(OptionError, match="2 prompts"):
        generate_tokens(t1_model(), [PROMPT] * 2, [None])
    with pytest.raises(OptionError, match="2 prompts"):
        generate_tokens(t1_model(), [PROMPT] * 2, [None] * 2, [SAMPLE])
    assert generate_tokens(t1_model(), [], []) == []


LONG = [b"a" * n for n in range(2, 40)] + [b"b" + b"c" * 12, b"c" + b"ab" * 3]


@pytest.mark.parametrize("budget", [2, 3, 5, 9])
def test_closing_within_the_budget_always_completes(budget: int) -> None:
    model = ToyModel(LETTERS, lambda tokens: [0.3, 0.3, 0.3, 0.02, 0.02, 0.03, 0.03, 0, 0])
    options = SamplingOptions(temperature=1, seed=1, max_tokens=budget, close_within_budget=True)
    matcher = NaiveMatcher(LONG, LETTERS)
    draws = generate_tokens(model, [PROMPT] * 60, [matcher.fork() for _ in range(60)], options)
    for draw in draws:
        assert draw.finish == "complete"
        assert draw.text.encode() in LONG
        assert len(draw.tokens) <= budget
        assert draw.steered == (draw.log_weight is None)
    assert any(draw.steered for draw in draws)


def test_closing_draws_from_the_distribution_restricted_to_what_fits() -> None:
    """A token is allowed iff a completion after it fits: compare with the distribution under exactly that mask."""
    model = ToyModel(LETTERS, random_distribution(7, 9))
    budget = 3
    expected: dict[tuple[int, ...], float] = {}

    def follow(matcher: NaiveMatcher, probability: float) -> None:
        distribution = model.distribution(tuple(matcher.tokens))
        left = budget - len(matcher.tokens)
        fits = {}
        for token in matcher._ids():
            if token in LETTERS.eos_ids:
                fits[token] = distribution[token]
            elif left:
                twin = matcher.fork()
                twin.advance(token)
                if twin.witness(left - 1) is not None:
                    fits[token] = distribution[token]
        for token, p in fits.items():
            share = probability * p / sum(fits.values())
            if token in LETTERS.eos_ids:
                key = tuple(matcher.tokens)
                expected[key] = expected.get(key, 0) + share
            else:
                twin = matcher.fork()
                twin.advance(token)
                follow(twin, share)

    follow(NaiveMatcher(LONG, LETTERS), 1.0)
    assert sum(expected.values()) == pytest.approx(1)
    options = SamplingOptions(temperature=1, seed=5, max_tokens=budget, close_within_budget=True)
    count = 2000
    matcher = NaiveMatcher(LONG, LETTERS)
    matchers = [matcher.fork() for _ in range(count)]
    counts = Counter(tuple(d.tokens) for d in generate_tokens(model, [PROMPT] * count, matchers, options))
    assert counts.keys() <= expected.keys()
    statistic, freedom = chi_square((counts[k], count * p) for k, p in expected.items())
    assert statistic < chi_square_bound(freedom)


def test_a_budget_without_any_completion_is_refused_before_generation() -> None:
    options = SamplingOptions(max_tokens=2, close_within_budget=True)
    model = t1_model()
    (draw,) = generate_tokens(model, [PROMPT], [t1_matcher()], options)
    assert isinstance(draw.error, LimitExceeded) and draw.error.limit == "max_tokens"
    assert draw.finish == "failed" and model.forward_passes == 0


# -- dead ends


@pytest.mark.parametrize("forced", [True, False])
def test_a_dead_end_is_left_by_going_back(forced: bool) -> None:
    """`bc...` looks alive to the mask and is not; the texts drawn are of the language all the same."""
    model = ToyModel(LETTERS, lambda tokens: [0.05, 0.5, 0.2, 0.05, 0.1, 0.05, 0.05, 0, 0])
    seen = Counter()
    for seed in range(40):
        matcher = NaiveMatcher([b"abc", b"bbb"], LETTERS, optimistic=[b"bcbcb", b"cca"])
        options = SamplingOptions(temperature=1, seed=seed, forced=forced)
        (draw,) = generate_tokens(model, [PROMPT], [matcher], options)
        assert draw.finish == "complete" and draw.text in ("abc", "bbb")
        assert (draw.log_weight is None) == (draw.retries > 0)
        assert matcher.text == draw.text.encode()
        seen[draw.retries] += 1
    assert len(seen) > 1


@pytest.mark.parametrize("forced", [True, False])
def test_going_back_into_what_the_model_holds_keeps_the_scores_right(forced: bool) -> None:
    """The model alone kills "ab": everything after it has no probability, so the row goes back over the session."""
    language = [b"abcc", b"abbc", b"bbcc"]

    def distribution(tokens: tuple[int, ...]) -> list[float]:
        text = LETTERS.decode(tokens)
        if text.startswith(b"ab"):
            return [1.0, 0, 0, 0, 0, 0, 0, 0, 0]
        return [0.5, 0.2, 0.1, 0.05, 0.05, 0.05, 0.05, 0, 0]

    retries = 0
    for exact in (True, False):
        for seed in range(400):
            options = SamplingOptions(temperature=1, seed=seed, forced=forced, exact_weight=exact)
            (draw,) = generate_tokens(
                ToyModel(LETTERS, distribution), [PROMPT], [NaiveMatcher(language, LETTERS)], options
            )
            assert draw.finish == "complete"
            if draw.text != "bbcc":  # the only choice is taken, though it has no probability
                assert draw.logprob in (None, -math.inf)
                continue
            retries += draw.retries
            path = [*draw.tokens, draw.end_token]
            if draw.logprob is not None:
                expected = sum(math.log(distribution(tuple(path[:n]))[token]) for n, token in enumerate(path))
                assert draw.logprob == pytest.approx(expected)
            assert draw.logprob is not None or not exact
    assert retries > 0


def test_retries_are_bounded_and_the_row_alone_fails() -> None:
    model = ToyModel(LETTERS, lambda tokens: [0.01, 0.9, 0.01, 0.01, 0.01, 0.03, 0.03, 0, 0])
    hopeless = NaiveMatcher([], LETTERS, optimistic=[bytes(word) for word in product(b"bc", repeat=6)])
    dead, fine = generate_tokens(
        model, [PROMPT] * 2, [hopeless, word_matcher()], SamplingOptions(max_backtracks=3)
    )
    assert dead.finish == "dead_end" and dead.retries == 3
    assert (fine.text, fine.finish) == ("bbb", "complete")


def test_an_error_of_one_row_ends_that_row_alone() -> None:
    class Limited(NaiveMatcher):
        def mask(self) -> np.ndarray:
            raise LimitExceeded("too many states", limit="states")

    failed, fine = generate_tokens(t1_model(), [PROMPT] * 2, [Limited([b"01", b"10"], BITS), t1_matcher()])
    assert (failed.finish, failed.text) == ("failed", "")
    assert isinstance(failed.error, LimitExceeded)
    assert (fine.text, fine.finish, fine.error) == ("000", "complete", None)


def test_a_model_without_mass_on_the_language_is_a_dead_end() -> None:
    model = ToyModel(LETTERS, lambda tokens: [1, 0, 0, 0, 0, 0, 0, 0, 0])
    (draw,) = generate_tokens(model, [PROMPT], [NaiveMatcher([b"cc", b"b"], LETTERS)])
    assert (draw.finish, draw.text) == ("dead_end", "")


def test_a_text_may_end_though_the_model_never_ends() -> None:
    model = ToyModel(LETTERS, lambda tokens: [0.5, 0.5, 0, 0, 0, 0, 0, 0, 0])
    (draw,) = generate_tokens(model, [PROMPT], [NaiveMatcher([b"ab"], LETTERS)])
    assert (draw.finish, draw.text, draw.log_weight) == ("complete", "ab", -math.inf)


# -- telling as it goes, stopping


def test_progress_grows_and_ends_with_the_generation() -> None:
    reported = list(generate_steps(t1_model(), [PROMPT], [t1_matcher()], SamplingOptions(forced=False)))
    texts = [step.text for step in reported]
    assert texts[0] == "" and texts[-1] == "000"
    assert all(later.startswith(earlier) for earlier, later in pairwise(texts))
    assert [step.generation is not None for step in reported] == [False] * (len(reported) - 1) + [True]


def test_cancelling_keeps_the_partial_text() -> None:
    asked = iter([False, False, True])
    (draw,) = generate_tokens(
        t1_model(), [PROMPT], [t1_matcher()], SamplingOptions(forced=False), cancel=lambda: next(asked)
    )
    assert (draw.finish, draw.text) == ("cancelled", "00")


def test_half_a_character_is_not_shown() -> None:
    vocabulary = NaiveVocabulary([b"\xc3", b"\xa9", None], eos_ids=[2])
    model = ToyModel(vocabulary, random_distribution(1, 3))
    steps = list(
        generate_steps(
            model, [PROMPT], [NaiveMatcher(["é".encode()], vocabulary)], SamplingOptions(forced=False)
        )
    )
    assert {step.text for step in steps} == {"", "é"}


def test_timing_adds_up() -> None:
    (draw,) = generate_tokens(t1_model(), [PROMPT], [t1_matcher()], SamplingOptions(forced=False))
    timing = draw.timing
    assert 0 <= timing.prompt <= timing.first_token <= timing.total
    assert timing.model + timing.constraint + timing.drawing <= timing.total
    assert timing.forward_passes == 3
    assert timing.tokens_per_second(3) > 0

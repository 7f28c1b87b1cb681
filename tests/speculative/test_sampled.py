"""Whole texts under each verifier: their distribution is that of drawing without drafts.

Chi-squared over every text of a small language, 2,000 draws with fixed seeds. With random seeds, a correct verifier
would fail a test once in 10,000 runs. The statistic of the wrong verifier in `test_canary` is 87 times the critical
value.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from structgen import speculative
from structgen.errors import LimitExceeded, OptionError, VocabularyMismatch
from structgen.generation import SamplingOptions, generate_tokens
from structgen.generation.random_streams import GumbelNoise
from structgen.matcher import Matcher
from structgen.speculative.controllers import Confidence, Costs, Fixed, Goodput
from structgen.speculative.drafters import Context, Proposal, Start
from structgen.speculative.recycling import LogitNGrams, TriGrams
from structgen.speculative.sampled import Sampled, drawn_children
from structgen.speculative.speculation import Speculation
from structgen.speculative.verifiers import (
    GreedyTransport,
    KSeq,
    Match,
    Outcome,
    Recursive,
    Rejection,
    Verifier,
)
from structgen.vocabulary import Vocabulary
from tests.inference.toys import random_distribution
from tests.oracles.chi_squared import critical_value
from tests.oracles.toy_model import ToyModel

from .exact_texts import CONSTRAINT, DRAWS, MODEL, ROWS, VOCABULARY, chi_squared, texts


class Distribution:
    """Drafts from a distribution that has little to do with the model's."""

    gives_distributions = True

    def __init__(self, seed: int = 3) -> None:
        self._distribution = random_distribution(seed, 6)
        self._prompt = 0

    def start(self, start: Start) -> Distribution:
        self._prompt = len(start.prompt)
        return self

    def propose(self, context: Context) -> list[Proposal]:
        return []

    def observe(self, tokens: Sequence[int], start: int) -> None:
        pass

    def distribution(self, context: Context) -> Any:
        return np.array(self._distribution(tuple(context.tokens[self._prompt :])))


class Predicts(Distribution):
    """Predicts the acceptance of its most probable token, often badly; the number depends on the path alone."""

    predicts_acceptance = True

    def acceptances(self, context: Context, tokens: Sequence[int]) -> dict[int, float]:
        best = int(self.distribution(context).argmax())
        return {best: (0.9, 0.05, 0.5)[sum(context.tokens) % 3]} if best in tokens else {}


class ProposesOne(Distribution):
    """No distribution: a proposal that is not a draw."""

    gives_distributions = False

    def propose(self, context: Context) -> list[Proposal]:
        return [Proposal([0, 1], "one")]

    distribution = None  # type: ignore[assignment]


VERIFIERS: list[Verifier] = [Match(), Rejection(), Recursive(), KSeq(), GreedyTransport()]


@pytest.mark.parametrize("branching", [False, True])
@pytest.mark.parametrize("verifier", VERIFIERS, ids=lambda one: type(one).__name__)
def test_texts_have_the_plain_distribution(verifier: Verifier, branching: bool) -> None:
    speculation = Speculation([Distribution()], verifier, Fixed(4), branching=branching, depth=3)
    statistic, freedom = chi_squared(texts(speculation))
    assert statistic < critical_value(freedom)
    assert verifier.drafted == "any" or speculation.counts["accepted"] > DRAWS / 4


@pytest.mark.parametrize("branching", [False, True])
@pytest.mark.parametrize("verifier", VERIFIERS, ids=lambda one: type(one).__name__)
def test_predicted_acceptances_leave_the_distribution_alone(verifier: Verifier, branching: bool) -> None:
    """Also with the counts that texts before have left."""
    speculation = Speculation([Predicts()], verifier, Confidence(0.4, 4), branching=branching, depth=3)
    statistic, freedom = chi_squared(texts(speculation))
    assert statistic < critical_value(freedom)
    predicted = [kind for kind in speculation.tallies.known if kind.startswith("Predicts head drawn, ")]
    assert verifier.drafted == "any" or (speculation.counts["accepted"] > 100 and len(predicted) > 3)


def test_texts_of_a_large_batch() -> None:
    speculation = Speculation([Distribution()], Rejection(), Fixed(4), branching=True, depth=3)
    statistic, freedom = chi_squared(texts(speculation, rows=200))
    assert statistic < critical_value(freedom) and speculation.counts["accepted"] > DRAWS / 4


@pytest.mark.parametrize("verifier", VERIFIERS[1:], ids=lambda one: type(one).__name__)
def test_tables_that_learn_and_guesses_without_a_distribution(verifier: Verifier) -> None:
    drafters = [TriGrams(), LogitNGrams(), ProposesOne()]
    speculation = Speculation(drafters, verifier, Confidence(0.05, 4), branching=True, depth=3)
    statistic, freedom = chi_squared(texts(speculation))
    assert statistic < critical_value(freedom) and speculation.counts["accepted"] > 500


def test_noise_of_each_token() -> None:
    """The plain distribution again, the same texts with drafts, which are right more often than with one number."""
    plain = texts(None, noise="gumbel")
    statistic, freedom = chi_squared(plain)
    assert statistic < critical_value(freedom)
    accepted = {}
    for noise in ("gumbel", "uniform"):
        near = Speculation(
            [Distribution(7)], controller=Fixed(4), depth=3
        )  # drafts from the model's distribution, without its mask
        assert noise == "uniform" or texts(near, noise=noise) == plain
        if noise == "uniform":
            texts(near, noise=noise)
        accepted[noise] = near.counts["accepted"] / max(1, near.counts["drafted"])
    assert (
        accepted["gumbel"] > 0.95 and accepted["uniform"] == 0
    )  # without noise, a distribution alone proposes nothing


def test_noise_is_a_function_of_seed_position_and_token() -> None:
    ids = np.arange(50_000)
    noise = GumbelNoise((3, 0))
    assert (noise(ids, 5)[[7, 99]] == noise(np.array([7, 99]), 5)).all()
    assert abs(np.corrcoef(noise(ids, 5), noise(ids, 6))[0, 1]) < 0.02
    assert abs(np.corrcoef(noise(ids, 5), noise(ids, 5, 1))[0, 1]) < 0.02
    assert abs(np.corrcoef(noise(ids, 5), GumbelNoise((3, 1))(ids, 5))[0, 1]) < 0.02
    reported = noise(ids, 5)
    assert reported.mean() == pytest.approx(np.euler_gamma, abs=0.02) and reported.var() == pytest.approx(
        np.pi**2 / 6, abs=0.05
    )


@pytest.mark.parametrize("spread", [0.01, 1.0, 5.0, 30.0])
def test_the_best_is_found_without_all_logarithms(spread: float) -> None:
    random, noise = np.random.default_rng(4), GumbelNoise((9, 1))
    ids = np.arange(3_000) * 7
    for position in range(300):
        scores = (spread * random.normal(size=len(ids))).astype(np.float32)
        scores[random.random(len(ids)) < 0.3] = -np.inf
        assert noise.best(scores, ids, position) == int((scores + noise(ids, position)).argmax())


HUMPED = {1: 1.0, 2: 2.0, 3: 2.0, 4: 2.1, 5: 4.0}
"""Costs under which a pass over two tokens pays only if a third is likely to come of it."""


@pytest.mark.parametrize("branching", [False, True])
@pytest.mark.parametrize("verifier", VERIFIERS[1:], ids=lambda one: type(one).__name__)
def test_what_was_drawn_does_not_decide_whether_it_is_verified(verifier: Verifier, branching: bool) -> None:
    speculation = Speculation([Distribution()], verifier, Patient(margin=1.0), branching=branching, depth=3)
    speculation.costs = Fixture(dict.fromkeys(range(1, ROWS + 1), HUMPED))
    statistic, freedom = chi_squared(texts(speculation))
    assert statistic < critical_value(freedom) and speculation.counts["accepted"] > 100


class Patient(Goodput):
    """Leaves no drafter alone, however slow the machine is."""

    weighs_drafters = False


class Fixture(Costs):
    """Costs that stay as they are."""

    def note(self, rows: int, tokens: int, seconds: float) -> None:
        pass


def test_limits_that_are_met_on_a_draft_leave_the_distribution_alone() -> None:
    class Limited(Distribution):
        def distribution(self, context: Context) -> Any:
            if context.tokens[self._prompt :] and context.tokens[-1] == 0:
                raise LimitExceeded("after an a", limit="work")
            return super().distribution(context)

    speculation = Speculation([Limited()], Rejection(), Fixed(4), depth=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        statistic, freedom = chi_squared(texts(speculation))
    assert statistic < critical_value(freedom)


class Careless(Rejection):
    """Forgets what the draft was drawn from."""

    def outcome(self, target: Any, draft: Any, children: Sequence[int]) -> Outcome:
        return super().outcome(target, np.full(len(target), 1 / len(target)), children)


def test_canary() -> None:
    statistic, freedom = chi_squared(texts(Speculation([Distribution()], Careless(), Fixed(4), depth=3)))
    assert statistic > 40 * critical_value(freedom)


def test_children_are_drawn_as_they_are_said_to_be() -> None:
    distribution, random = np.array([0.5, 0.25, 0.0, 0.15, 0.1]), np.random.default_rng(0)
    first = Counter(drawn_children(distribution, "distinct", 2, random) for _ in range(8000))
    for (one, two), count in first.items():
        assert count / 8000 == pytest.approx(
            distribution[one] * distribution[two] / (1 - distribution[one]), abs=0.03
        )
    assert all(one != two for one, two in first)
    assert {drawn_children(distribution, "greedy", 3, random)[:2] for _ in range(50)} == {(0, 1)}
    assert len(drawn_children(distribution, "one", 4, random)) == 1
    assert len(drawn_children(distribution, "independent", 9, random)) == 9
    assert len(drawn_children(distribution, "distinct", 9, random)) == 4


class Wrong(Distribution):
    """Says that its tokens are drawn otherwise than the verifier wants them."""

    def sampled(self, context: Context) -> Sampled:
        distribution = np.array(self._distribution(tuple(context.tokens[self._prompt :])))
        return Sampled(distribution / distribution.sum(), (0, 1), "independent")


def test_drafts_of_another_kind_are_refused() -> None:
    options = SamplingOptions(seed=1, max_tokens=3)
    for verifier in (Recursive(), GreedyTransport()):
        drafting = Speculation([Wrong()], verifier, branching=True).start(MODEL)
        with pytest.raises(OptionError, match=r"exact for .* drafts, not for independent ones"):
            generate_tokens(MODEL, [[0]], [Matcher(CONSTRAINT, VOCABULARY)], options, drafting=drafting)
    with pytest.raises(OptionError, match="no drafter gives one"):
        Speculation([ProposesOne()], Rejection())


def test_the_drafters_with_distributions_are_listed() -> None:
    pytest.importorskip("torch")
    from structgen.speculative import learned
    from structgen.speculative.learned.learned_drafter import LearnedDrafter

    page = (Path(__file__).parents[2] / "docs" / "speculation.md").read_text("utf-8")
    (listed,) = re.findall(
        r"All but `Match` need a drafter with a distribution: (.*?)\. They", page, re.DOTALL
    )
    with pytest.raises(OptionError) as found:
        Speculation([ProposesOne()], Rejection())
    hint = str(found.value.hint).partition(" do; ")[0]
    for package in (speculative, learned):
        for name, drafter in vars(package).items():
            if not isinstance(drafter, type) or not hasattr(drafter, "start"):
                continue
            is_learned = issubclass(drafter, LearnedDrafter)
            gives = bool(getattr(drafter, "gives_distributions", False))
            assert gives or not is_learned
            named = f"`{name}`" in listed, bool(re.search(rf"\b{name}\b", hint))
            assert named == (gives and not is_learned,) * 2, name
    assert "all [learned drafters]" in listed and hint.endswith("learned drafters")


def test_bad_parts_are_reported() -> None:
    with pytest.raises(OptionError, match="a drafter has a method `start`"):
        Speculation([3])  # type: ignore[list-item]
    with pytest.raises(OptionError, match=r"is the class TriGrams, not an instance\nTriGrams\(\)"):
        Speculation([TriGrams])  # type: ignore[list-item]
    with pytest.raises(OptionError, match=r"the verifier is the class Match, not an instance\n.*Match\(\)"):
        Speculation(verifier=Match)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="drafters is"):
        Speculation(TriGrams())  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="branching"):
        Speculation(branching="no")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="a verifier has a method `outcome`"):
        Speculation(verifier="match")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="depth"):
        Speculation(depth=0)
    speculation = Speculation()
    speculation.start(MODEL)
    with pytest.raises(VocabularyMismatch, match="another vocabulary"):
        speculation.start(ToyModel(Vocabulary.from_tokens([b"x", None], [1]), random_distribution(7, 2)))


class Broken(Distribution):
    """Raises, or proposes what is no token."""

    def __init__(self, what: Any) -> None:
        super().__init__()
        self.what = what

    def propose(self, context: Context) -> Any:
        if isinstance(self.what, Exception):
            raise self.what
        return [self.what]

    distribution = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    "what",
    [
        ValueError("no"),
        Proposal([99], "high"),
        Proposal([-1], "low"),
        Proposal(["a"], "text"),
        Proposal([], "none"),
        7,
    ],
)
def test_a_drafter_that_fails_is_left_out_with_a_warning(what: Any) -> None:
    options = SamplingOptions(temperature=1.0, seed=5, max_tokens=3)
    plain = generate_tokens(MODEL, [[0]], [Matcher(CONSTRAINT, VOCABULARY)], options)
    drafting = Speculation([Broken(what), TriGrams()], controller=Fixed()).start(MODEL)
    with warnings.catch_warnings(record=True) as reported:
        warnings.simplefilter("always")
        found = generate_tokens(MODEL, [[0]], [Matcher(CONSTRAINT, VOCABULARY)], options, drafting=drafting)
    assert [one.tokens for one in found] == [one.tokens for one in plain]
    assert len(reported) == (not (isinstance(what, Proposal) and not what.tokens))
    assert all("Broken" in str(one.message) for one in reported)

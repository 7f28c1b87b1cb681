"""Samplers with drafts: the same draws, weights and calls as without, in no more forward passes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structgen as sg
from structgen.errors import GenerationError, LimitExceeded, OptionError, VocabularyMismatch
from structgen.generation import prefix_logits as ahead
from structgen.generation.drafting import PrefixQuery
from structgen.inference.prefixes import PrefixBatch, PrefixReader
from structgen.inference.samplers import Sampler
from structgen.matcher import Matcher
from structgen.models.memory import DistributionModel
from structgen.speculative import Costs, Fixed, ForcedBytes, Goodput, Speculation, SpeculationWarning
from structgen.speculative.defaults import sampler_drafts_of
from structgen.vocabulary import Vocabulary
from tests.generation.small_vocabulary import REAL
from tests.inference.toys import random_distribution
from tests.oracles.toy_model import ToyModel
from tests.speculative.toy_drafters import DRAFTERS, Guess, Reported

SAMPLERS: list[Sampler] = [
    sg.inference.Exact(parallel=1),
    sg.inference.Exact(parallel=3),
    sg.inference.AdaptiveRejection(parallel=2),
    sg.inference.Rejection(parallel=1),
    sg.inference.Rejection(parallel=4),
    sg.inference.ASAp(parallel=2),
    sg.inference.LocalMasking(parallel=1),
    sg.inference.LocalMasking(parallel=3),
    sg.inference.AWRS(parallel=2),
    sg.inference.SMC(4),
    sg.inference.SMC(3, proposal=sg.inference.AWRS("recursive")),
    sg.inference.SMC(4, proposal=sg.inference.ASAp()),
    sg.inference.MH(3, parallel=2),
]
POTENTIALS: list[Any] = [
    (),
    sg.inference.potential(lambda text: len(text) % 2 == 0),
    sg.inference.potential(lambda text: "b" in text, prefix=lambda text: not text.startswith("c")),
    sg.inference.potential(lambda text: -0.5 * len(text)),
]
pytestmark = pytest.mark.filterwarnings("ignore:MH uses no drafts")
WORDS = st.lists(st.text("abcé", min_size=1, max_size=5), min_size=1, max_size=6)


def reported_by(model: Any, output: Any, **options: Any) -> dict[str, Any]:
    """All that a call tells, but its time and its passes."""
    try:
        posterior = sg.sample(model, "", output, **options)
    except (GenerationError, LimitExceeded) as error:
        account = getattr(error, "account", None)
        found: dict[str, Any] = {"error": type(error), "passes": account.passes if account else 0}
    else:
        account = posterior.account
        found = {"draws": posterior.draws, "passes": account.passes}
    if account is not None:
        found |= {
            name: repr(value) for name, value in vars(account).items() if name not in ("seconds", "passes")
        }
    return found


def same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert {**one, "passes": 0} == {**other, "passes": 0}
    assert other["passes"] <= one["passes"]


def longest_draw(model: Any, output: Any) -> Sequence[int]:
    drawn = sg.sample(model, "", output, n=8, sampler="local", seed=1, speculate=False)
    return max((one.tokens for one in drawn.draws), key=len)


@settings(max_examples=300, deadline=None)
@given(
    words=WORDS,
    sampler=st.sampled_from(SAMPLERS),
    potentials=st.sampled_from(POTENTIALS),
    max_tokens=st.sampled_from([2, 20]),
    max_calls=st.sampled_from([None, 7]),
    temperature=st.sampled_from([1.0, 0.6]),
    seed=st.integers(0, 99),
    most=st.integers(1, 9),
)
def test_drafting_changes_nothing(
    words: list[str], sampler: Sampler, potentials: Any, seed: int, most: int, **options: Any
) -> None:
    """Also where guesses are wrong, potentials refuse, and texts do not fit."""
    model = DistributionModel(REAL, random_distribution(seed, 14))
    asked = {
        "n": 4, "sampler": sampler, "potentials": potentials, "seed": seed, "max_attempts": 300, **options,
    }  # fmt: skip
    output = sg.choice(words)
    plain = reported_by(model, output, speculate=False, **asked)
    speculation = Speculation([Guess(seed, longest_draw(model, output))], controller=Fixed(most))
    same(plain, reported_by(model, output, speculate=speculation, **asked))


@settings(max_examples=60, deadline=None)
@given(WORDS, st.sampled_from(SAMPLERS), st.integers(0, 20), st.booleans())
def test_drafters_change_nothing(words: list[str], sampler: Sampler, seed: int, fixed: bool) -> None:
    """Also once they have learned from texts, and with a controller that measures."""
    model = DistributionModel(REAL, random_distribution(seed, 14))
    options: dict[str, Any] = {"n": 5, "sampler": sampler, "seed": seed, "max_attempts": 300, "max_tokens": 9}
    plain = reported_by(model, sg.choice(words), speculate=False, **options)
    speculation = Speculation(DRAFTERS(), controller=Fixed(5) if fixed else Goodput())
    for _ in range(2):
        same(plain, reported_by(model, sg.choice(words), speculate=speculation, **options))


HEAD, TAIL = "abcabcabca", "bcbcbcbc"
FORCED = sg.regex(f"{HEAD}[ab]{TAIL}")
LETTERS = Vocabulary(
    [b"a", b"b", b"c", None, b"\x02"], [3], encoder=lambda text: ["abc_\x02".index(c) for c in text]
)


def letters_distribution(tokens: tuple[int, ...]) -> Sequence[float]:
    """Mostly what is forced."""
    text = f"{HEAD}a{TAIL}"
    place = len(tokens)
    right = 3 if place >= len(text) else "abc".index(text[place])
    return [0.94 if token == right else 0.02 for token in range(4)] + [0.0]


@pytest.mark.parametrize("controller", [Fixed(6), Goodput()], ids=["fixed", "goodput"])
@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_what_is_forced_takes_fewer_passes(sampler: Sampler, controller: Any) -> None:
    model = DistributionModel(LETTERS, letters_distribution)
    options: dict[str, Any] = {"n": 4, "sampler": sampler, "seed": 3}
    plain = reported_by(model, FORCED, speculate=False, **options)
    speculation = Speculation([ForcedBytes()], controller=controller)
    model.forward_passes = 0
    found = reported_by(model, FORCED, speculate=speculation, **options)
    same(plain, found)
    if isinstance(sampler, sg.inference.MH):
        assert not speculation.counts
        return
    assert model.forward_passes < found["passes"], (
        "the passes that are counted are those that were made, and starts"
    )
    assert found["passes"] < 0.75 * plain["passes"]
    counts = speculation.counts
    assert 0 < counts["accepted"] <= counts["drafted"]
    assert f"{counts['accepted']} accepted" in speculation.report()


def test_a_model_has_drafts_of_its_own_unless_it_shall_not() -> None:
    model = DistributionModel(LETTERS, letters_distribution)
    sg.sample(model, "", FORCED, n=2, seed=1, speculate=False)
    own = sg.speculative.speculation_of(model)
    assert not own.counts
    sg.sample(model, "", FORCED, n=2, seed=1)
    assert own.counts["accepted"] > 0
    before = own.counts.copy()
    sg.sample(model, "", FORCED, n=2, seed=1, sampler=sg.inference.MH())
    assert own.counts == before


async def _drawn(model: Any) -> Any:
    return await sg.inference.sample_async(model, "", FORCED, n=2, seed=1, speculate=Speculation())


def test_asynchronous_calls_drafted_too() -> None:
    import asyncio

    model = DistributionModel(LETTERS, letters_distribution)
    plain = sg.sample(model, "", FORCED, n=2, seed=1, speculate=False)
    found = asyncio.run(_drawn(model))
    assert found.draws == plain.draws and found.account.passes < plain.account.passes


def test_what_cannot_be_requested() -> None:
    model = DistributionModel(LETTERS, letters_distribution)
    with pytest.raises(OptionError, match="'speculate' is 'much'; it must be True, False or a Speculation"):
        sg.sample(model, "", FORCED, speculate="much")  # type: ignore[arg-type]
    other = Speculation()
    other.start(DistributionModel(REAL, random_distribution(1, 14)))
    with pytest.raises(VocabularyMismatch):
        sg.sample(model, "", FORCED, speculate=other)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_little_memory_is_enough(sampler: Sampler, monkeypatch: pytest.MonkeyPatch) -> None:
    model = DistributionModel(LETTERS, letters_distribution)
    options: dict[str, Any] = {"n": 4, "sampler": sampler, "seed": 3}
    plain = reported_by(model, FORCED, speculate=False, **options)
    monkeypatch.setattr(ahead, "MAX_LOGIT_BYTES", 3 * 5 * 4)
    same(plain, reported_by(model, FORCED, speculate=Speculation(controller=Fixed(6)), **options))


def test_distributions_that_were_learned_are_used_with_drafts() -> None:
    model = DistributionModel(LETTERS, letters_distribution)
    reported = []
    for speculate in (False, Speculation(controller=Fixed(4))):
        learned = sg.inference.KnownDistributions()
        calls = [
            {
                "n": 3,
                "seed": seed,
                "learned": learned,
                "speculate": speculate,
                "sampler": sg.inference.Exact(parallel=2),
            }
            for seed in (4, 5)
        ]
        reported.append([reported_by(model, FORCED, **one) for one in calls])
    for plain, found in zip(*reported, strict=True):
        same(plain, found)


def test_drafters_that_read_hidden_states_are_left_out() -> None:
    """Rows of samplers have none. Calls of such a drafter would take time and bring nothing."""

    class ReadsStates(ForcedBytes):
        hidden_layers: tuple[int, ...] = (1,)

        def start(self, start: Any) -> Any:
            assert not self.hidden_layers
            return super().start(start)

    class ReadsNone(ReadsStates):
        hidden_layers = ()

    for drafters, expected in (([ReadsStates()], []), ([ReadsNone()], [1, 2, 0])):
        run = _run(Speculation(drafters, controller=Fixed(3)))
        assert run.propose(_places([(0,)]), 1) == [expected]


def test_no_further_than_the_context() -> None:
    for length in (12, 15, 20):
        model = DistributionModel(LETTERS, letters_distribution, context_length=length)
        options: dict[str, Any] = {"n": 2, "seed": 1, "sampler": "local", "output": sg.regex("(abc)*")}
        plain = reported_by(model, speculate=False, **options)
        found = reported_by(
            model, speculate=Speculation([Reported([0, 1, 2] * 4)], controller=Fixed(12)), **options
        )
        same(plain, found)


def test_sessions_that_cannot_are_left_alone() -> None:
    model = ToyModel(LETTERS, letters_distribution, scored=False)
    matcher = Matcher(FORCED, LETTERS)
    drafting = sampler_drafts_of(
        model, Speculation(controller=Fixed(4)), [0], matcher, temperature=1.0, max_tokens=30, sampler="Exact"
    )
    reader = PrefixReader(model, [0], drafting=drafting)  # type: ignore[arg-type]
    with pytest.warns(SpeculationWarning, match="cannot be cropped cheaply"):
        reader.read({0: ()}, {0: matcher})
    for length in (1, 2):
        reader.read({0: (0, 1, 2)[:length]}, {0: matcher})
    assert model.forward_passes == 2 and reader.passes == reader.calls == 3


def _places(prefixes: Sequence[tuple[int, ...]], pending: int = 1, **options: Any) -> list[PrefixQuery]:
    found = []
    for row, prefix in enumerate(prefixes):
        matcher = Matcher(FORCED, LETTERS)
        assert all(matcher.advance(token) for token in prefix)
        found.append(PrefixQuery(row, prefix, matcher, pending, **options))
    return found


def _run(speculation: Speculation, max_tokens: int = 30) -> Any:
    model, matcher = DistributionModel(LETTERS, letters_distribution), Matcher(FORCED, LETTERS)
    return sampler_drafts_of(
        model, speculation, [0], matcher, temperature=1.0, max_tokens=max_tokens, sampler="SMC"
    )


HEAD_TOKENS = tuple("abc".index(letter) for letter in HEAD)


def test_rows_are_drafted_together() -> None:
    """A pass is spared only where all rows are known, so one without a draft is enough for none."""
    run = _run(Speculation([ForcedBytes()], controller=Fixed(3)))
    assert run.propose(_places([(0,), (0, 1)]), 2) == [[1, 2, 0], [2, 0, 1]]
    assert run.propose(_places([(0,), HEAD_TOKENS]), 2) == [[], []]
    far, near = _places([(0,), (0, 1)], pending=0, held=(1, 2), is_known=True)[0], _places([(0,), (0, 1)])[1]
    assert run.propose([far, near], 2) == [[1, 2, 0], [2, 0, 1]]
    assert _run(Speculation([ForcedBytes()], controller=Fixed(9)), 3).propose(_places([(0,)]), 1) == [[1, 2]]


def test_what_does_not_pay_is_not_read() -> None:
    """Costs are those of passes of as many rows."""
    speculation = Speculation([ForcedBytes()])
    speculation.costs = Costs({1: {1: 1.0, 4: 1.1, 8: 1.2}, 2: {1: 1.0, 2: 5.0, 8: 20.0}})
    run = _run(speculation)
    assert len(run.propose(_places([(0,)]), 1)[0]) > 2
    assert not any(any(run.propose(_places([(0,), (0, 1)]), 2)) for _ in range(20))


def test_guesses_that_are_wrong_are_given_up() -> None:
    """Proposals whose prefix is never requested are wrong, too, once the sampler has ended."""
    speculation = Speculation([Reported([1, 2])])
    speculation.costs = Costs({1: {1: 1.0, 8: 1.8}})
    for _ in range(20):
        run = _run(speculation)
        run.on_request([(0,)], 0)
        run.propose(_places([(0,)]), 1)
        run.close()
    assert run.propose(_places([(0,)]), 1) == [[]]


def test_batches_without_matchers_read_one_token_after_another() -> None:
    model = DistributionModel(LETTERS, letters_distribution)
    batch = PrefixBatch(model, [0], drafting=_run(Speculation(controller=Fixed(4))))
    distributions = batch.read([()])
    assert distributions[()].masses[0] == pytest.approx(0.94)
    batch.read([(0,), (1,)])
    assert (batch.calls, batch.passes) == (3, 2)
    assert math.isclose(sum(batch.read([(0, 1)])[0, 1].masses), 1, rel_tol=1e-6)

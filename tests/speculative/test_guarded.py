"""Drafters, controllers, options and models that misbehave: texts stay as they are, with a warning or an error."""

from __future__ import annotations

import copy
import itertools
import pickle
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import structgen as sg
from structgen.errors import ModelError, OptionError
from structgen.generation import Generation, SamplingOptions, generate_tokens
from structgen.matcher import Matcher
from structgen.models.memory import DistributionModel, DistributionSession
from structgen.models.processed import with_processors
from structgen.protocols import SessionCapabilities
from structgen.speculative import (
    Confidence,
    Copying,
    Costs,
    DraftModel,
    Fixed,
    ForcedBytes,
    Goodput,
    GreedyTransport,
    KSeq,
    LayerSkip,
    LogitNGrams,
    Proposal,
    Recursive,
    Rejection,
    Speculation,
    SpeculationWarning,
    SuffixStore,
    TokenLookup,
    TokenRecycling,
    TriGrams,
    speculation_of,
)
from structgen.speculative.drafters import Context, Start
from structgen.speculative.guarded import DrafterRecord
from structgen.speculative.sampled import Sampled
from structgen.vocabulary import Vocabulary
from tests.clocks import HandClock
from tests.inference.toys import random_distribution
from tests.oracles.toy_model import ToyModel

LETTERS = Vocabulary.from_tokens([b"a", b"b", b"c", b"ab", None], [4])
MODEL = ToyModel(LETTERS, random_distribution(3, 5))
CONSTRAINT = sg.regex("[abc]{3,30}")


class Reader:
    """A drafter that is its own reader, and proposes nothing."""

    def start(self, start: Start) -> Any:
        return self

    def propose(self, context: Context) -> Any:
        return []

    def observe(self, tokens: Sequence[int], start: int) -> None:
        pass


def drawn(speculation: Speculation | None, seed: int = 1, model: Any = MODEL, **options: Any) -> Generation:
    matcher = Matcher(CONSTRAINT, LETTERS)
    chosen = SamplingOptions(seed=seed, max_tokens=20, **options)
    drafting = None if speculation is None else speculation.start(model)
    return generate_tokens(model, [[0, 1, 2]], [matcher], chosen, drafting=drafting)[0]


def test_a_drafter_cannot_change_the_row() -> None:
    class Keeps(Reader):
        def start(self, start: Start) -> Any:
            self.tokens: Any = start.prompt
            return self

        def observe(self, tokens: Sequence[int], start: int) -> None:
            self.tokens[start:] = tokens[start:]

    class Rewrites(Reader):
        wants_hidden_states = True

        def propose(self, context: Context) -> Any:
            context.tokens.clear()
            return []

        def learn(self, contexts: Any, logits: Any) -> None:
            logits[:] = 0

    for drafter, warns in ((Keeps(), "tuple"), (Rewrites(), "read-only")):
        for seed in range(5):
            speculation = Speculation([drafter, ForcedBytes()], controller=Fixed(4))
            with pytest.warns(SpeculationWarning, match=warns):
                found = drawn(speculation, seed)
            plain = drawn(None, seed)
            assert (found.tokens, found.prompt_tokens) == (plain.tokens, plain.prompt_tokens)


def test_one_that_never_stops_proposing_is_cut() -> None:
    class Endless(Reader):
        def propose(self, context: Context) -> Any:
            return (Proposal((0,), "x" * 10_000 + str(number)) for number in itertools.count())

    speculation = Speculation([Endless()], controller=Fixed(4))
    assert drawn(speculation).tokens == drawn(None).tokens
    assert all(len(kind) < 2000 for kind in speculation.tallies.known)


@pytest.mark.parametrize("start", [lambda self, start: None, lambda self, start: 3])
def test_a_start_that_gives_no_reader_is_reported(start: Callable[..., Any]) -> None:
    drafter = type("Bad", (Reader,), {"start": start})()
    speculation = Speculation([drafter])
    with pytest.warns(SpeculationWarning, match="the drafter Bad failed.*TypeError.*has no `propose`"):
        assert drawn(speculation).tokens == drawn(None).tokens
    assert "Bad: " in speculation.report() and "left out of 1 texts: TypeError" in speculation.report()


def test_a_distribution_that_is_missing_is_reported() -> None:
    drafter = type("Lawless", (Reader,), {"gives_distributions": True})()
    with pytest.warns(
        SpeculationWarning, match="`gives_distributions` is set, and a Lawless has no `distribution`"
    ):
        drawn(Speculation([drafter], Rejection()))


def test_an_error_is_reported_with_its_place() -> None:
    class Raises(Reader):
        def propose(self, context: Context) -> Any:
            raise ValueError("bad luck")

    with pytest.warns(SpeculationWarning, match=r"ValueError: bad luck \(.*test_guarded\.py:\d+\)"):
        drawn(Speculation([Raises()]))


WHOLE = np.ones(5)


@pytest.mark.parametrize(
    ("reported", "verifier", "match"),
    [
        (Sampled(WHOLE, (-3,), "one"), Rejection(), "no probability"),
        (Sampled(WHOLE, (9,), "one"), Rejection(), "no probability"),
        (Sampled(WHOLE, (0, 1), "one"), Rejection(), "one token"),
        (Sampled(WHOLE, (0, 0), "distinct"), Recursive(), "drawn twice"),
        (Sampled(WHOLE, (0, 0), "greedy"), GreedyTransport(), "drawn twice"),
        (Sampled(WHOLE, (), "independent"), KSeq(), "no probability"),
        (Sampled(WHOLE, (0,), "somehow"), KSeq(), "drawn as"),  # type: ignore[arg-type]
        (Sampled(np.full(5, np.nan), (0,), "one"), Rejection(), "finite"),
        (Sampled(np.ones(4), (0,), "one"), Rejection(), "shape"),
        (Sampled(np.zeros(5), (0,), "one"), Rejection(), "no probability"),
    ],
)
def test_draws_that_are_not(reported: Sampled, verifier: Any, match: str) -> None:
    class Draws(Reader):
        gives_distributions = True
        distribution = None

        def sampled(self, context: Context) -> Any:
            return reported

    with pytest.warns(SpeculationWarning, match=match):
        found = drawn(Speculation([Draws()], verifier, Fixed(3), branching=True))
    assert found.tokens == drawn(None).tokens


def test_distributions_of_any_size_are_normalised() -> None:
    class Huge(Reader):
        gives_distributions = True

        def distribution(self, context: Context) -> Any:
            return np.full(5, 1e308)

    for verifier in (Rejection(), Recursive(), KSeq(), GreedyTransport()):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert drawn(Speculation([Huge()], verifier, Fixed(3))).accepted_tokens > 0


def test_rows_without_drafts_beside_another_verifier_are_as_alone() -> None:
    for seed in range(10):
        speculation = Speculation([TriGrams()], Rejection(), Fixed(3))
        plain = SamplingOptions(seed=seed, max_tokens=20, speculate=False)
        (alone,) = generate_tokens(MODEL, [[0]], [Matcher(CONSTRAINT, LETTERS)], plain)
        found, _ = generate_tokens(
            MODEL,
            [[0], [0]],
            [Matcher(CONSTRAINT, LETTERS), Matcher(CONSTRAINT, LETTERS)],
            [plain, SamplingOptions(seed=seed + 50, max_tokens=20, speculate=speculation)],
            drafting=speculation.start(MODEL),
        )
        assert found.tokens == alone.tokens


@pytest.mark.parametrize(
    "make",
    [
        lambda: TokenLookup(most=0),
        lambda: TokenLookup(longest="a"),  # type: ignore[arg-type]
        lambda: ForcedBytes(-1),
        lambda: SuffixStore(most=-1),
        lambda: SuffixStore(width=0),
        lambda: SuffixStore(longest=0),
        lambda: TriGrams(width=0),
        lambda: TriGrams(entries=0),
        lambda: LogitNGrams(orders=()),
        lambda: LogitNGrams(orders=(4,)),
        lambda: LogitNGrams(orders=3),  # type: ignore[arg-type]
        lambda: LogitNGrams(width=0),
        lambda: TokenRecycling(width=0),
        lambda: LayerSkip(refresh=0),
        lambda: LayerSkip(most=0),
        lambda: LayerSkip(least=3),
        lambda: DraftModel(MODEL, most=0),
        lambda: DraftModel(MODEL, width=0),
        lambda: DraftModel(MODEL, least=float("nan")),
        lambda: Goodput(margin="x"),  # type: ignore[arg-type]
        lambda: Goodput(margin=-1),
        lambda: Confidence(2),
        lambda: Fixed(0),
    ],
)
def test_bad_options_are_reported_at_once(make: Callable[[], Any]) -> None:
    with pytest.raises(OptionError, match="it must be"):
        make()


def test_verifiers_are_exact_for_what_they_say() -> None:
    for verifier in (Rejection, Recursive, KSeq, GreedyTransport):
        with pytest.raises(TypeError):
            verifier("any")  # type: ignore[call-arg]


class Controller:
    """Keeps as many nodes as it is given."""

    def __init__(self, kept: Any, size: Any = 4) -> None:
        self.size, self.kept = size, kept

    def keep(
        self,
        reach: Sequence[Sequence[float]],
        pending: Sequence[int],
        costs: Costs,
        ahead: Sequence[int] = (),
    ) -> Any:
        return self.kept


def test_controllers_may_be_anybodys() -> None:
    for kept in ([-1], [300], [1.5], np.array([2])):
        speculation = Speculation([ForcedBytes(), Copying()], controller=Controller(kept))
        assert drawn(speculation).tokens == drawn(None).tokens
    with pytest.raises(OptionError, match="the controller Controller returned 2 numbers for 1 rows"):
        drawn(Speculation([ForcedBytes()], controller=Controller([1, 1])))
    with pytest.raises(OptionError, match="the controller's size is None"):
        Speculation(controller=Controller([1], size=None))


def test_fixed_reads_what_is_improbable_too() -> None:
    class Wrong(Reader):
        def propose(self, context: Context) -> Any:
            return [Proposal((2,), "wrong", 0.001)]

    speculation = Speculation([Wrong()], controller=Fixed(3))
    found = drawn(speculation, temperature=0)
    assert found.drafted_tokens >= 3 * (len(found.tokens) - 4)
    assert found.tokens == drawn(None, temperature=0).tokens


def test_a_table_is_requested_what_is_drawn_only() -> None:
    text = "abababababc"
    table: dict[tuple[int, ...], list[float]] = {}
    for length in range(len(text) + 1):
        row = [0.0] * 5
        row["abc".index(text[length]) if length < len(text) else 4] = 1.0
        table[tuple("abc".index(letter) for letter in text[:length])] = row
    model = DistributionModel(LETTERS, table)
    for speculate in (True, False):
        assert sg.run(model, "x", sg.regex("[abc]+"), speculate=speculate).text == text
    with pytest.warns(SpeculationWarning, match="is a table"):
        assert sg.run(model, "x", sg.regex("[abc]+"), speculate=Speculation()).text == text
    assert sg.sample(model, "x", sg.regex("[abc]+"), n=2).texts == [text] * 2


def test_processors_see_what_the_constraint_allows() -> None:
    allowed = sg.regex("((ab)|(ba))*c?")

    def processor(tokens: Sequence[int], logits: Any) -> Any:
        matcher = Matcher(allowed, LETTERS)
        assert all(matcher.advance(token) for token in tokens), tokens
        return logits

    model = with_processors(DistributionModel(LETTERS, random_distribution(5, 5)), processor)
    for seed in range(10):
        speculation = Speculation([ForcedBytes(), TriGrams()])
        speculation.costs = Costs({1: {1: 1.0, 2: 2.0, 3: 2.0, 4: 1.2}})  # longer is faster: who may pads
        found, plain = (
            sg.run(model, "x", allowed, speculate=chosen, seed=seed, max_tokens=20)
            for chosen in (speculation, False)
        )
        assert found.tokens == plain.tokens


def test_only_guesses_are_learned_from() -> None:
    class Learns(Reader):
        def __init__(self) -> None:
            self.contexts: list[tuple[int, ...]] = []

        def propose(self, context: Context) -> Any:
            return [Proposal((0, 1), "two", 0.9)]

        def learn(self, contexts: Any, logits: Any) -> None:
            assert len(contexts) == len(logits) <= 3
            self.contexts += map(tuple, contexts)

    class PaddedSession(DistributionSession):
        @property
        def capabilities(self) -> SessionCapabilities:
            return replace(super().capabilities, takes_padding=True)

    class Pads(DistributionModel):
        def start(self, prompts: Any) -> Any:
            return PaddedSession(self, prompts)

    speculation = Speculation([learner := Learns()], controller=Fixed(2))
    speculation.costs = Costs({1: {1: 2.0, 2: 2.0, 3: 2.0, 4: 2.0, 6: 0.1}})
    model = Pads(LETTERS, random_distribution(5, 5))
    assert drawn(speculation, model=model).tokens == drawn(None, model=model).tokens
    assert len(learner.contexts) > 5


def test_batches_are_not_taken_to_be_padded() -> None:
    costs = Costs({8: {1: 1.0, 2: 3.0, 3: 3.0, 4: 3.0, 5: 1.2}})
    reach = [[0.5, 0.01]] * 8
    assert Goodput().keep(reach, [1] * 8, costs.for_rows(8, pads=False)) == [0] * 8


def test_costs_of_many_lengths_take_bounded_room() -> None:
    costs = Costs()
    for tokens in range(1, 100_000):
        costs.note(1, tokens, 0.01 + tokens * 1e-4)
    assert len(costs.known[1]) < 150
    assert costs.of(1, 5000) == pytest.approx(0.51, rel=0.15)


def test_a_store_keeps_no_more_than_it_may() -> None:
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


def test_a_small_store_keeps_texts_that_it_has_room_for() -> None:
    store = SuffixStore(most=140)
    row: Any = store.start(Start([1], LETTERS, CONSTRAINT))
    row.finish([1, *[0, 1] * 60])
    assert len(store) == 121


def test_who_does_not_pay_is_left_alone_for_a_while() -> None:
    slow = DrafterRecord("slow")
    asked = 0
    for _ in range(1000):
        if slow.resting:
            slow.rested()
            continue
        asked += 1
        slow.passed(0.02, 0, 0.03, weighed=True)
    assert asked < 120 and slow.rests >= 4
    good = DrafterRecord("good")
    for step in range(100):
        good.passed(0.02, step % 2 * 2, 0.03, weighed=True)
        assert not good.resting


def test_who_is_not_weighed_does_not_rest() -> None:
    slow = DrafterRecord("slow")
    for _ in range(100):
        slow.passed(0.02, 0, 0.03, weighed=False)
    assert not slow.resting and not slow.rests and "paused" not in str(slow)


class Knows(Reader):
    """Knows the model's distribution."""

    gives_distributions = True

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def propose(self, context: Context) -> Any:
        distribution = np.asarray(MODEL.distribution(tuple(context.tokens[3:])))
        return [Proposal((int(distribution.argmax()),), self.kind, 0.9)]

    def distribution(self, context: Context) -> Any:
        return np.asarray(MODEL.distribution(tuple(context.tokens[3:])))


@pytest.mark.parametrize("temperature", [0, 1.0])
@pytest.mark.parametrize("kind", ["mine", "name+value", "forced"])
def test_who_guessed_is_credited(kind: str, temperature: float) -> None:
    """By name of the drafter, not of the guess."""
    speculation = Speculation([Knows(kind)], controller=Fixed(4))
    drawn(speculation, temperature=temperature)
    assert speculation.counts["accepted"] > 5
    assert speculation.records[0].accepted == speculation.counts["accepted"]
    both = Speculation([Knows(kind), Knows(kind)], controller=Fixed(4))
    drawn(both, temperature=temperature)
    assert both.counts["accepted"] > 5 and [one.accepted for one in both.records] == [0, 0]


def test_whose_distribution_was_drawn_from_is_credited() -> None:
    speculation = Speculation([Knows("mine"), Reader()], Rejection(), Fixed(4))
    drawn(speculation)
    assert speculation.counts["accepted"] > 5
    assert [one.accepted for one in speculation.records] == [speculation.counts["accepted"], 0]


def test_samplers_leave_slow_drafters_alone_too(drafting_clock: HandClock) -> None:
    class Slow(Reader):
        asked = 0

        def propose(self, context: Context) -> Any:
            self.asked += 1
            drafting_clock.advance(0.003)
            return []

    slow = Slow()
    speculation = Speculation([slow])
    model = DistributionModel(LETTERS, random_distribution(5, 5))
    found = sg.sample(
        model, "x", CONSTRAINT, n=20, sampler=sg.inference.LocalMasking(), seed=1, speculate=speculation
    )
    assert speculation.records[0].rests and slow.asked < speculation.counts["passes"] > 20
    assert (
        found.texts
        == sg.sample(
            model, "x", CONSTRAINT, n=20, sampler=sg.inference.LocalMasking(), seed=1, speculate=False
        ).texts
    )


def test_learners_are_reported_where_the_row_is_while_drafts_rest() -> None:
    class Learns(Reader):
        def __init__(self) -> None:
            self.wrong = self.reported = 0

        def learn(self, contexts: Any, logits: Any) -> None:
            self.reported += 1
            self.wrong += int(np.asarray(logits[0]).argmax()) != contexts[0][-1]

    size = 5
    model = ToyModel(
        LETTERS, lambda tokens: [0.96 if token == (tokens or (2,))[-1] else 0.01 for token in range(size)]
    )
    learns = Learns()
    speculation = Speculation([learns])
    run = speculation.start(model)
    run._idle, run._drafting, run._reading = 10**6, 10.0, 0.1  # nothing was found for long
    options = SamplingOptions(seed=3, max_tokens=60)
    generate_tokens(model, [[0, 1, 2]], [Matcher(sg.regex("[abc]{60,}"), LETTERS)], options, drafting=run)
    assert learns.reported > 40 and learns.wrong == 0


def test_an_error_of_structgen_in_a_users_drafter_is_its_own() -> None:
    class Empty(Reader):
        def start(self, start: Start) -> Any:
            Matcher(sg.regex("z"), LETTERS)

    with pytest.warns(SpeculationWarning, match="the drafter Empty failed"):
        assert drawn(Speculation([Empty()])).tokens == drawn(None).tokens


def test_what_is_no_verifier_or_controller_is_reported() -> None:
    class Undrafted:
        def outcome(self, *parts: Any) -> Any: ...

    class OldKeep:
        size = 4

        def keep(self, reach: Any, pending: Any, costs: Any) -> Any: ...

    with pytest.raises(OptionError, match="the verifier Undrafted has no `drafted`"):
        Speculation(verifier=Undrafted())  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="the controller OldKeep failed: TypeError"):
        drawn(Speculation([ForcedBytes()], controller=OldKeep()))  # type: ignore[arg-type]


def test_it_can_be_copied_while_others_use_it() -> None:
    speculation = Speculation()
    stop = threading.Event()

    def work(seed: int) -> None:
        while not stop.is_set():
            drawn(speculation, seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(200):
            for copied in (pickle.loads(pickle.dumps(speculation)), copy.deepcopy(speculation)):
                assert copied.counts.keys() <= {*speculation.counts.keys()}
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert drawn(copy.deepcopy(speculation)).tokens == drawn(None).tokens


def test_a_distribution_that_is_not_total() -> None:
    table = {(): [1.0, 0, 0, 0, 0], (0,): [0, 1.0, 0, 0, 0], (0, 1): [0, 0, 0, 0, 1.0]}
    pattern = sg.regex("[abc]{2,5}")
    model = DistributionModel(LETTERS, table.__getitem__, total=False)
    assert sg.run(model, "x", pattern).text == "ab"
    with pytest.raises(ModelError, match=r"(?s)there is no distribution after .*total=False"):
        DistributionModel(LETTERS, table.__getitem__).log_probabilities((1, 1))


def test_goodput_leaves_a_slow_drafter_alone(drafting_clock: HandClock) -> None:
    class Slow(Reader):
        asked = 0

        def propose(self, context: Context) -> Any:
            if not context.drafted:
                self.asked += 1
            drafting_clock.advance(0.003)
            return []

    options = SamplingOptions(seed=1, max_tokens=120)
    found = {}
    for controller in (Goodput(), Fixed(4)):
        slow = Slow()
        speculation = Speculation([slow], controller=controller)
        generate_tokens(
            MODEL,
            [[0]],
            [Matcher(sg.regex("[abc]{200,}"), LETTERS)],
            options,
            drafting=speculation.start(MODEL),
        )
        found[type(controller)] = slow.asked
        assert "Slow: 0." in speculation.report()
    assert found[Goodput] < 50 < 100 < found[Fixed]


def test_what_samplers_do_not_use_is_reported() -> None:
    model = DistributionModel(LETTERS, random_distribution(5, 5))
    with pytest.warns(SpeculationWarning, match="Rejection is not used"):
        sg.sample(model, "x", CONSTRAINT, n=2, speculate=Speculation([TriGrams()], Rejection()))
    with pytest.warns(SpeculationWarning, match="MH uses no drafts"):
        sg.sample(model, "x", CONSTRAINT, n=2, sampler=sg.inference.MH(), speculate=Speculation())


def test_a_speculation_belongs_to_a_model_of_structgen() -> None:
    with pytest.raises(OptionError, match="takes a structgen model; this is an int"):
        speculation_of(1)


def test_a_text_that_stops_at_a_string() -> None:
    model = DistributionModel(LETTERS, random_distribution(3, 5))
    stops = sg.text("cab") + sg.choice(["cab", ""])
    ended = 0
    for seed in range(20):
        found, plain = (
            sg.run(model, "a", stops, seed=seed, max_tokens=40, speculate=speculate)
            for speculate in (Speculation(controller=Fixed(4)), False)
        )
        assert found.tokens == plain.tokens and "cab" not in found.text[:-1]
        ended += found.text.endswith("cab")
    assert ended
    with pytest.raises(OptionError, match=r'structgen.text\("STOP"\)'):
        sg.run(model, "a", stops, stop=["cab"])


def test_log_probabilities_at_the_end_of_a_budget() -> None:
    """Forced tokens at the very end are scored with drafts and without."""
    constraint = sg.regex("[ab]{3}(ccccccccc)")
    for most in range(3, 12):
        found = {}
        for drafting in (None, Speculation(controller=Fixed(4)).start(MODEL)):
            matcher = Matcher(constraint, LETTERS)
            options = SamplingOptions(seed=2, max_tokens=most)
            (one,) = generate_tokens(MODEL, [[0]], [matcher], options, drafting=drafting)
            found[drafting is None] = one
            assert one.logprob is not None and one.log_weight is not None
        assert found[True].tokens == found[False].tokens and found[True].finish == found[False].finish
        assert found[True].logprob == pytest.approx(found[False].logprob)
        assert found[True].log_weight == pytest.approx(found[False].log_weight)

"""The options of a `Speculation`, users' controllers, and models of other kinds: the texts are those without drafts."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import structgen as sg
from structgen.errors import ModelError, OptionError
from structgen.generation import SamplingOptions, generate_tokens
from structgen.matcher import Matcher
from structgen.models.memory import DistributionModel
from structgen.models.processed import with_processors
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
    Match,
    Proposal,
    Recursive,
    Rejection,
    Speculation,
    SpeculationWarning,
    SuffixStore,
    TokenLookup,
    TokenRecycling,
    TriGrams,
    Verifier,
    speculation_of,
)
from structgen.speculative.drafters import Context, Drafter
from tests.inference.toys import random_distribution

from .letters import CONSTRAINT, LETTERS, MODEL, SilentDrafter, generate


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
def test_bad_options_raise_at_once(make: Callable[[], Any]) -> None:
    with pytest.raises(OptionError, match="it must be"):
        make()


def test_verifiers_take_no_options() -> None:
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


def test_results_of_users_controllers_are_checked() -> None:
    for kept in ([-1], [300], [1.5], np.array([2])):
        speculation = Speculation([ForcedBytes(), Copying()], controller=Controller(kept))
        assert generate(speculation).tokens == generate(None).tokens
    with pytest.raises(OptionError, match="the controller Controller returned 2 numbers for 1 rows"):
        generate(Speculation([ForcedBytes()], controller=Controller([1, 1])))
    with pytest.raises(OptionError, match="the controller's size is None"):
        Speculation(controller=Controller([1], size=None))


def test_other_objects_as_verifier_or_controller_raise() -> None:
    class Undrafted:
        def outcome(self, *parts: Any) -> Any: ...

    class OldKeep:
        size = 4

        def keep(self, reach: Any, pending: Any, costs: Any) -> Any: ...

    with pytest.raises(OptionError, match="the verifier Undrafted has no `drafted`"):
        Speculation(verifier=Undrafted())  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="the controller OldKeep failed: TypeError"):
        generate(Speculation([ForcedBytes()], controller=OldKeep()))  # type: ignore[arg-type]


def test_options_that_samplers_do_not_use_are_reported() -> None:
    model = DistributionModel(LETTERS, random_distribution(5, 5))
    with pytest.warns(SpeculationWarning, match="Rejection is not used"):
        sg.sample(model, "x", CONSTRAINT, n=2, speculate=Speculation([TriGrams()], Rejection()))
    with pytest.warns(SpeculationWarning, match="MH uses no drafts"):
        sg.sample(model, "x", CONSTRAINT, n=2, sampler=sg.inference.MH(), speculate=Speculation())


def test_only_a_structgen_model_takes_a_speculation() -> None:
    with pytest.raises(OptionError, match="takes a structgen model; this is an int"):
        speculation_of(1)


def test_a_speculation_can_be_copied_while_threads_use_it() -> None:
    speculation = Speculation()
    stop = threading.Event()

    def work(seed: int) -> None:
        while not stop.is_set():
            generate(speculation, seed)

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
    assert generate(copy.deepcopy(speculation)).tokens == generate(None).tokens


def test_fixed_reads_improbable_drafts() -> None:
    class Wrong(SilentDrafter):
        def propose(self, context: Context) -> Any:
            return [Proposal((2,), "wrong", 0.001)]

    speculation = Speculation([Wrong()], controller=Fixed(3))
    found = generate(speculation, temperature=0)
    assert found.drafted_tokens >= 3 * (len(found.tokens) - 4)
    assert found.tokens == generate(None, temperature=0).tokens


def test_a_row_without_drafts_is_unchanged_by_a_row_with_drafts() -> None:
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


def test_a_table_of_distributions_is_read_only_where_tokens_are_drawn() -> None:
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


def test_a_table_of_distributions_may_be_partial() -> None:
    table = {(): [1.0, 0, 0, 0, 0], (0,): [0, 1.0, 0, 0, 0], (0, 1): [0, 0, 0, 0, 1.0]}
    pattern = sg.regex("[abc]{2,5}")
    model = DistributionModel(LETTERS, table.__getitem__, total=False)
    assert sg.run(model, "x", pattern).text == "ab"
    with pytest.raises(ModelError, match=r"(?s)there is no distribution after .*total=False"):
        DistributionModel(LETTERS, table.__getitem__).log_probabilities((1, 1))


def test_processors_see_only_tokens_that_the_constraint_allows() -> None:
    allowed = sg.regex("((ab)|(ba))*c?")

    def processor(tokens: Sequence[int], logits: Any) -> Any:
        matcher = Matcher(allowed, LETTERS)
        assert all(matcher.advance(token) for token in tokens), tokens
        return logits

    model = with_processors(DistributionModel(LETTERS, random_distribution(5, 5)), processor)
    for seed in range(10):
        speculation = Speculation([ForcedBytes(), TriGrams()])
        speculation.costs = Costs(
            {1: {1: 1.0, 2: 2.0, 3: 2.0, 4: 1.2}}
        )  # longer passes are faster, so a model that may pad does
        found, plain = (
            sg.run(model, "x", allowed, speculate=chosen, seed=seed, max_tokens=20)
            for chosen in (speculation, False)
        )
        assert found.tokens == plain.tokens


def test_texts_that_stop_at_a_string_are_the_same_with_drafts() -> None:
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


def test_log_probabilities_at_the_end_of_a_budget_are_the_same_with_drafts() -> None:
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


class ReadsStates(TokenLookup):
    """Declares that it reads hidden states, and that it gives distributions."""

    hidden_layers = (1,)
    gives_distributions = True


@pytest.mark.parametrize(
    ("drafters", "verifier", "wanted"),
    [
        ((TokenLookup(),), Match(), False),
        ((TokenLookup(), ReadsStates()), Match(), True),
        ((ReadsStates(),), Rejection(), False),
    ],
    ids=["none reads states", "one reads states", "the verifier takes one token"],
)
def test_trees_are_the_default_where_a_drafter_reads_hidden_states(
    drafters: tuple[Drafter, ...], verifier: Verifier, wanted: bool
) -> None:
    assert Speculation(drafters, verifier).branching is wanted
    for chosen in (False, True):
        assert Speculation(drafters, verifier, branching=chosen).branching is chosen


def test_a_report_has_a_line_for_each_drafter_before_its_kinds() -> None:
    speculation = Speculation()
    for kind, name, right, times in (
        ("eagle 0, 0, 9", "Eagle", True, 3),
        ("eagle 1, 0, 2", "Eagle", False, 5),
        ("forced", "ForcedBytes", True, 2),
    ):
        for _ in range(times):
            speculation.tallies.note(kind, [name], right, right)
    lines = speculation.report().split("\n")
    assert lines[1:] == [
        "proposals by drafter; a token that several proposed counts for each of them:",
        "  Eagle: 8 proposed, 38% right, 3 accepted",
        "  ForcedBytes: 2 proposed, 100% right, 2 accepted",
        "proposals by kind, in the order of accepted tokens:",
        "  eagle 0, 0, 9: 3 proposed, 100% right, 3 accepted",
        "  forced: 2 proposed, 100% right, 2 accepted",
        "  eagle 1, 0, 2: 5 proposed, 0% right, 0 accepted",
    ]
    for number in range(20):
        speculation.tallies.note(f"kind {number}", [f"Drafter{number}"], False, False)
    assert "  and 10 other drafters" in speculation.report()
    assert "  and 11 other kinds" in speculation.report()
    assert "proposals" not in Speculation().report()

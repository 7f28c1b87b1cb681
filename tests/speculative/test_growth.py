"""Which drafters are called at a node, how probable its children are, and which drafters pause."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pytest

import structgen as sg
from structgen.matcher import Matcher
from structgen.speculative import (
    Copying,
    Drafter,
    ForcedBytes,
    LogitNGrams,
    SuffixStore,
    TokenLookup,
    TokenRecycling,
    TriGrams,
)
from structgen.speculative.drafters import Context, Proposal, RowDrafter, Start
from structgen.speculative.growth import Chances, Tallies, candidates, grow_tree
from structgen.speculative.guarded import DrafterRecord, Guarded, start_guarded
from structgen.speculative.recycling import ForcedSplits
from structgen.speculative.trees import ROOT

from .tiny_sessions import VOCABULARY


class Says(RowDrafter):
    """Proposes one token, and counts its calls."""

    def __init__(self, token: int, chance: float, *, computes: bool) -> None:
        self.proposal, self.computes, self.calls = Proposal((token,), f"says {token}", chance), computes, 0

    def propose(self, context: Context) -> Iterable[Proposal]:
        self.calls += 1
        return [self.proposal]

    def observe(self, tokens: Sequence[int], start: int) -> None:
        pass


@pytest.mark.parametrize("chance", [0.5, 0.9])
@pytest.mark.parametrize("alternatives", [False, True])
def test_what_takes_time_is_not_called_where_another_drafter_is_almost_sure(
    chance: float, alternatives: bool
) -> None:
    matcher = Matcher(sg.regex("[a-z]*"), VOCABULARY)
    context = Context([3, 4], matcher, VOCABULARY, is_constrained=True)
    cheap, other = Says(5, chance, computes=False), Says(6, 0.4, computes=False)
    costly = Guarded(DrafterRecord("costly"), Says(7, 0.3, computes=True), VOCABULARY.size)
    found = candidates(context, [cheap, other, costly], Chances(), (), alternatives=alternatives)
    tokens = [candidate.token for candidate in found]
    assert tokens == ([5, 6] if chance == 0.9 else [5, 6, 7])
    assert (cheap.calls, other.calls) == (1, 1)


@pytest.mark.parametrize("reach", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("chance", [0.1, 0.6, 0.74, 0.8])
def test_what_takes_time_is_not_called_where_little_probability_is_left(reach: float, chance: float) -> None:
    matcher = Matcher(sg.regex("[a-z]*"), VOCABULARY)
    context = Context([3, 4], matcher, VOCABULARY, drafted=0, is_constrained=True, reach=reach)
    cheap, costly = Says(5, chance, computes=False), Says(7, 0.3, computes=True)
    candidates(context, [cheap, costly], Chances(), ())
    assert costly.calls == (reach * (1 - chance) >= 0.25)
    candidates(
        context, [costly], Chances(), ()
    )  # where no other drafter proposes anything, it decides itself
    assert costly.calls == 1 + (reach * (1 - chance) >= 0.25)


class Guesses(RowDrafter):
    """Proposes tokens with given probabilities at the end of the row."""

    def __init__(self, shares: dict[int, float]) -> None:
        self.shares = shares

    def propose(self, context: Context) -> Iterable[Proposal]:
        if context.drafted:
            return []
        return [
            Proposal((token,), f"guess {token}", share, is_probability=True)
            for token, share in self.shares.items()
        ]

    def observe(self, tokens: Sequence[int], start: int) -> None:
        pass


@pytest.mark.parametrize("shares", [[0.6, 0.3, 0.06], [0.3, 0.25, 0.2, 0.15], [0.5, 0.5], [0.34, 0.33, 0.33]])
def test_siblings_have_the_rates_at_which_they_are_right(shares: list[float]) -> None:
    """Texts are drawn from the shares themselves. A chance of 0.02 that some estimate is wrong (fixed seed)."""
    context = Context([3, 4], Matcher(sg.regex("[a-z]*"), VOCABULARY), VOCABULARY, is_constrained=True)
    tokens = list(range(5, 5 + len(shares)))
    drafter, chances, tallies = Guesses(dict(zip(tokens, shares, strict=True))), Chances(), Tallies()
    rng, estimates = np.random.default_rng(2), []
    for step in range(3000):
        grown = grow_tree(context, [drafter], chances, frozenset(), size=8, depth=1, least=0.0)
        reach = dict(zip(grown.tree.tokens, grown.tree.reach, strict=True))
        assert sum(reach.values()) <= 1 + 1e-9
        if step >= 500:
            estimates.append([reach.get(token, 0.0) for token in tokens])
        drawn = rng.choice([*tokens, 30], p=[*shares, max(0.0, 1 - sum(shares))])
        grown.learn(ROOT, int(drawn), chances, tallies)
    # Counts decay to 50 proposals, so an estimate is one of about 50 independent ones: deviation below 0.01.
    assert np.abs(np.mean(estimates, axis=0) - shares).max() < 0.035


def test_siblings_that_several_drafters_are_sure_of_share_the_probability_of_their_parent() -> None:
    context = Context([3, 4], Matcher(sg.regex("[a-z]*"), VOCABULARY), VOCABULARY, is_constrained=True)
    drafters = [Guesses({5: 0.9}), Guesses({6: 0.6}), Guesses({7: 0.3})]
    grown = grow_tree(context, drafters, Chances(), frozenset(), size=8, depth=1, least=0.01)
    assert grown.tree.tokens == [5, 6]
    assert grown.tree.reach == pytest.approx([0.9, 0.1])


@pytest.mark.parametrize(("rate", "pays"), [(0.3, True), (0.2, True), (0.02, False), (0.0, False)])
def test_a_drafter_pauses_only_where_it_clearly_does_not_pay(rate: float, pays: bool) -> None:
    """It costs a tenth of a pass. `rate` is the number of its tokens that are accepted per pass (fixed seed)."""
    record, rng = DrafterRecord("drafter"), np.random.default_rng(5)
    paused = 0
    for taken in rng.random(4000) < rate:
        if record.resting:
            record.rested()
            paused += 1
        else:
            record.passed(0.1, int(taken), 1.0, weighed=True)
    assert paused < 100 if pays else paused > 3000


def test_a_token_counts_for_each_drafter_that_proposed_it() -> None:
    tallies = Tallies()
    for kind, drafters, right, accepted in (
        ("eagle 0, 0, 9", {"Eagle"}, True, True),
        ("eagle 1, 2, 0", {"Eagle"}, False, False),
        ("eagle 0, 0, 9+store 8, always", {"Eagle", "SuffixStore"}, True, False),
        ("store 8, always", {"SuffixStore"}, False, False),
    ):
        tallies.note(kind, drafters, right, accepted)
    assert tallies.by_drafter == {"Eagle": [3, 2, 1], "SuffixStore": [2, 1, 0]}
    assert tallies.known["eagle 0, 0, 9"] == [1, 1, 1] and len(tallies.known) == 4


@pytest.mark.parametrize(
    "drafter",
    [
        ForcedBytes(),
        TokenLookup(),
        Copying(),
        LogitNGrams(),
        TokenRecycling(),
        TriGrams(),
        ForcedSplits(),
        SuffixStore(),
    ],
    ids=lambda drafter: type(drafter).__name__,
)
def test_rows_have_the_name_of_their_drafter(drafter: Drafter) -> None:
    """Also those that run without a guard."""
    start = Start([3], VOCABULARY, sg.regex("[a-z]+"))
    assert start_guarded(drafter, start, DrafterRecord.of(drafter)).name == type(drafter).__name__

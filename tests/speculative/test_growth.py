"""Which drafters are called at a node, and which pause."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pytest

import structgen as sg
from structgen.matcher import Matcher
from structgen.speculative.drafters import Context, Proposal, RowDrafter
from structgen.speculative.growth import Chances, candidates
from structgen.speculative.guarded import DrafterRecord, Guarded

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

"""What a client sees of its rows is the same with drafts, which bring several tokens in one step."""

from __future__ import annotations

from typing import Any

import pytest

from structgen.generation import SamplingOptions
from structgen.generation.continuous_batch import ContinuousBatch
from structgen.generation.options import row_seed
from structgen.generation.row import Row
from structgen.server.row_text import RowText
from structgen.server.ticket import Ticket
from structgen.speculative.controllers import Fixed
from structgen.speculative.speculation import Speculation
from tests.generation.small_vocabulary import REAL
from tests.oracles.toy_model import ToyModel


def cycle(tokens: tuple[int, ...]) -> list[float]:
    """After "a" mostly "b", after it "c", after it "a"; seldom the end."""
    shares = [0.02] * 14
    shares[(tokens[-1] + 1) % 3 if tokens else 0] = 0.74
    return shares


def answer(seed: int, stops: list[str], *, drafts: bool) -> tuple[Any, ...]:
    model: Any = ToyModel(REAL, cycle)
    speculation = Speculation(controller=Fixed(4)) if drafts else None
    batch = ContinuousBatch(
        model, patience=1e6, drafting=None if speculation is None else speculation.start(model)
    )
    options = SamplingOptions(seed=seed, temperature=1, max_tokens=20, speculate=drafts)
    row = Row(0, [0, 1, 2, 0, 1, 2], None, options, REAL, row_seed(seed, 0))
    row.scores.top_tokens = 1
    row.prepare(None)
    ticket = Ticket([row], [RowText(REAL.decode, stops)], lambda: None)
    batch.add([row])
    while not ticket.is_done:
        if row in batch.step():
            ticket.on_step(0)
    batch.drop([row])
    batch.close()
    (sequence,) = ticket.sequences
    seen = (sequence.text, sequence.finish, ticket.tokens, row.tokens, row.scores.token_logprobs)
    return *seen, row.scores.top_logprobs, row.logprob, row.end_token, row.accepted_tokens


@pytest.mark.parametrize("stops", [["b"], ["ab"], ["ca"], ["ca", "bcabc"], ["aa", "c"], ["abcabcab"], []])
def test_a_stop_string_ends_the_same_text_after_the_same_tokens_with_drafts(stops: list[str]) -> None:
    accepted = 0
    for seed in range(20):
        *alone, _ = answer(seed, stops, drafts=False)
        *drafted, read = answer(seed, stops, drafts=True)
        assert drafted[:4] == alone[:4]
        assert drafted[4] == pytest.approx(alone[4])
        assert drafted[6] == pytest.approx(alone[6]) and drafted[7] == alone[7]
        assert len(drafted[5]) == len(drafted[3]) == drafted[2]
        accepted += read
    assert accepted > 0

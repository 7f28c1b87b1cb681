"""Samplers share the model with the batch: their passes are split, and rows in groups are rows of one session."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import structgen
from structgen.models.batched_session import BatchedSession
from structgen.protocols import SessionCapabilities
from structgen.server.shared_model import SharedModel
from structgen.vocabulary import Vocabulary

from ..models.tiny import SIZE, tiny_model, tiny_tokenizer


class Session:
    """Logits are a function of all tokens of a row; `passes` records the number of tokens per row of each pass."""

    def __init__(self, prompts: Any, passes: list[list[int]]) -> None:
        self._rows: list[list[int]] = [[] for _ in prompts]
        self._passes = passes
        self.append(prompts)

    capabilities = SessionCapabilities(scores_runs=True)

    def append(self, tokens: Any) -> None:
        self.append_scored(tokens)

    def append_scored(self, tokens: Any) -> Any:
        self._passes.append([len(new) for new in tokens])
        scores = []
        for row, new in zip(self._rows, tokens, strict=True):
            logits = [logits_after([*row, *new[: at + 1]]) for at in range(len(new))]
            scores.append(np.array(logits).reshape(-1, 8))
            row += new
        return scores

    def logits(self) -> Any:
        return np.array([logits_after(row) for row in self._rows])


def logits_after(row: list[int]) -> Any:
    return np.random.default_rng(row).random(8)


class Recorded:
    """A model of such sessions."""

    context_length = None
    vocabulary = Vocabulary.of_bytes()

    def __init__(self) -> None:
        self.passes: list[list[int]] = []

    def start(self, prompts: Any) -> Session:
        return Session(prompts, self.passes)


@pytest.mark.parametrize("part", [1, 7, 1000])
def test_long_passes_are_split(part: int) -> None:
    """No pass reads more than a part, or one token a row where there are more rows."""
    model = Recorded()
    turns: list[str] = []

    def run(function: Any, reads: bool = False) -> Any:
        turns.append("turn")  # the batch may take a turn before each
        return function()

    shared = SharedModel(model, model.vocabulary, run, lambda: part, [0])
    prompts = [list(range(100)), [5] * 30, [6]]
    session = shared.start(prompts)
    session.append([[1] * 20, [], []])
    session.append([[], [], []])
    scored = session.append_scored([[2, 3], [4] * 9, []])
    none = session.append_scored([[], [], []])
    assert [scores.shape for scores in none] == [(0, 8)] * 3
    assert len(turns) == len(model.passes) + 1  # the call with empty lists took a turn without a pass
    assert max(map(sum, model.passes)) <= max(part, 3)
    assert sum(map(sum, model.passes)) == 100 + 30 + 1 + 20 + 2 + 9
    plain = model.start([[*prompts[0], *[1] * 20], prompts[1], prompts[2]])
    expected = plain.append_scored([[2, 3], [4] * 9, []])
    assert all(np.array_equal(logits, right) for logits, right in zip(scored, expected, strict=True))
    assert np.array_equal(session.logits(), plain.logits())


def test_a_session_of_several_groups_can_lose_all_its_rows(model: Any) -> None:
    shared = SharedModel(model, model.vocabulary, lambda function, reads=False: function(), lambda: 32, [0])
    session = shared.start([[1, 2]])
    session.select([0] * 40)
    assert session.logits().shape[0] == 40
    session.select([])
    assert session.logits().shape[0] == 0


def test_a_shared_session_can_be_copied_and_reads_no_trees(model: Any) -> None:
    shared = SharedModel(model, model.vocabulary, lambda function, reads=False: function(), lambda: 32, [0])
    session = shared.start([[1, 2]])
    assert np.array_equal(copy.copy(session).logits(), session.logits())
    assert not session.capabilities.reads_trees


def test_sessions_that_cannot_be_forked_read_some_of_their_rows_at_a_time() -> None:
    model = Recorded()
    shared = SharedModel(model, model.vocabulary, lambda function, reads=False: function(), lambda: 32, [0])
    session = shared.start([[row] for row in range(40)])
    model.passes.clear()
    new = [[row] * (row % 3) for row in range(40)]
    scored = session.append_scored(new)
    assert [len(logits) for logits in scored] == [len(row) for row in new]
    assert max(sum(map(bool, one)) for one in model.passes) <= 16
    plain = model.start([[row] for row in range(40)])
    for one, other in zip(scored, plain.append_scored(new), strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(session.logits(), plain.logits())


@pytest.fixture(scope="module")
def tiny() -> Any:
    """A small model: of the embedded one, 50 rows in two sessions take 0.3 GB."""
    return structgen.wrap(tiny_model("llama"), tiny_tokenizer())


@pytest.mark.parametrize("seed", range(12))
def test_rows_in_groups_are_rows_of_one_session(
    tiny: Any, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows in several sessions have the logits of rows in one session after any sequence of operations.

    No pass reads more than one group.
    """
    rng = np.random.default_rng(seed)
    part = 64

    def some(count: int) -> list[int]:
        return [int(token) for token in rng.integers(2, SIZE, size=count)]

    passes: list[int] = []
    forward = BatchedSession._forward

    def recorded(self: Any, ids: Any, *given: Any, **named: Any) -> Any:
        passes.append(len(ids))
        return forward(self, ids, *given, **named)

    monkeypatch.setattr(BatchedSession, "_forward", recorded)
    shared = SharedModel(tiny, tiny.vocabulary, lambda function, reads=False: function(), lambda: part, [0])
    prompt = some(5)
    session, plain = shared.start([prompt]), tiny.start([prompt])
    assert np.ptp(plain.logits()) > 1  # differences show
    for step in range(14):
        part = int(rng.choice([3, 32, 40, 256]))
        rows = len(plain.logits())
        kind = rng.choice(["select", "append", "scored", "rollback"]) if step else "select"
        if kind == "select":
            chosen = [int(row) for row in rng.integers(0, rows, size=rng.integers(1, 50))]
            session.select(chosen)
            plain.select(chosen)
        elif kind == "rollback":
            row = int(rng.integers(rows))
            session.rollback(row, 1)
            plain.rollback(row, 1)
        else:
            new = [some(int(rng.integers(1, 4)) if rng.random() < 0.8 else 0) for _ in range(rows)]
            passes.clear()
            if kind == "append":
                session.append(new)
            else:
                found = session.append_scored(new)
            assert max(passes, default=0) <= max(16, part // 2)
            right = plain.append_scored(new)
            if kind == "scored":
                for one, other in zip(found, right, strict=True):
                    np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(session.logits(), plain.logits(), rtol=1e-3, atol=1e-3)


def test_the_size_of_a_token_comes_from_the_cache(model: Any) -> None:
    session = model.start([list(range(1, 65))])
    held = sum(part.nbytes for layer in session._cache.layers for part in (layer.keys, layer.values))
    assert model.cache_bytes_per_token == held // 64

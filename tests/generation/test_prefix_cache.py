"""Prompts that begin as earlier ones are read from the difference on; never across scopes, never beyond the memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.generation import SamplingOptions, generate_tokens
from structgen.generation.continuous_batch import ContinuousBatch
from structgen.generation.options import row_seed
from structgen.generation.prefix_cache import PrefixCache
from structgen.generation.row import Row
from tests.models.tiny import CONFIGS
from tests.speculative.tiny_sessions import VOCABULARY, Model

pytestmark = pytest.mark.filterwarnings("ignore::structgen.models.ModelWarning")

SYSTEM = [2 + (7 * index) % 20 for index in range(60)]
ENDS = [[5, 6], [5, 7, 8], [9], [5, 6], [5, 6, 7]]


def answer(batch: ContinuousBatch, prompt: list[int], scope: Any) -> Row:
    options = SamplingOptions(seed=1, temperature=0, max_tokens=6)
    row = Row(0, prompt, None, options, VOCABULARY, row_seed(1, 0))
    row.scope = scope
    row.prepare(256)
    batch.add([row])
    while not batch.is_idle:
        batch.step()
    return row


@pytest.mark.parametrize("name", list(CONFIGS))
def test_answers_are_those_of_a_whole_prefill(name: str) -> None:
    model: Any = Model(name)
    batch = ContinuousBatch(model, prefix_bytes=1 << 20)
    for end in ENDS:
        prompt = [*SYSTEM, *end]
        row = answer(batch, prompt, "a")
        (alone,) = generate_tokens(model, [prompt], [None], SamplingOptions(temperature=0, max_tokens=6))
        assert row.tokens == alone.tokens
    read = batch.counts.prompt_tokens
    assert read + batch.counts.cached_tokens == sum(60 + len(end) for end in ENDS)
    if Model(name).start([[5]]).capabilities.forks:
        assert read == 60 + 2 + 2 + 1 + 1 + 1  # a prompt that was read before reads its last token again
    batch.close()


def test_scopes_share_nothing() -> None:
    model: Any = Model("llama")
    batch = ContinuousBatch(model, prefix_bytes=1 << 20)
    for scope in ("one key", "another key", None):
        before = batch.counts.prompt_tokens
        answer(batch, [*SYSTEM, 5], scope)
        assert batch.counts.prompt_tokens - before == 61
    answer(batch, [*SYSTEM, 5], "one key")
    assert batch.counts.cached_tokens == 60
    batch.close()


def test_no_memory_keeps_nothing() -> None:
    model: Any = Model("llama")
    batch = ContinuousBatch(model)
    for _ in range(2):
        answer(batch, [*SYSTEM, 5], None)
    assert batch.counts.cached_tokens == 0
    batch.close()


def test_the_least_recently_used_prompts_are_evicted() -> None:
    model: Any = Model("llama")
    cache = PrefixCache(200 * 1024, 1024)
    prompts = [[2 + number, *SYSTEM] for number in range(4)]
    for prompt in prompts[:3]:
        cache.keep(prompt, None, model.start([prompt]))
    assert (len(cache), cache.tokens) == (3, 183)
    assert cache.start([*prompts[0], 5], None) is not None
    cache.keep(prompts[3], None, model.start([prompts[3]]))
    assert (len(cache), cache.tokens) == (3, 183)
    assert [cache.start([*prompt, 5], None) is not None for prompt in prompts] == [True, False, True, True]


def test_a_longer_prompt_replaces_the_one_that_it_begins_with() -> None:
    model: Any = Model("llama")
    cache = PrefixCache(1 << 20, 1024)
    first, second = SYSTEM, [*SYSTEM, *SYSTEM[:40]]
    cache.keep(first, None, model.start([first]))
    cache.keep(second, None, model.start([second]))
    assert (len(cache), cache.tokens) == (1, 100)
    found = cache.start([*SYSTEM, 3, 4], None)
    assert found is not None
    session, common = found
    assert common == 60
    session.append([[3, 4]])
    whole = model.start([[*SYSTEM, 3, 4]])
    np.testing.assert_allclose(session.logits(), whole.logits(), rtol=1e-3, atol=1e-4)
    cache.keep([*second, 5], None, session)  # one token more is not worth a copy
    assert cache.tokens == 100


class Full:
    """A session that cannot be copied, as on a device without free memory."""

    def __init__(self, session: Any) -> None:
        self.capabilities = session.capabilities

    def fork(self, rows: list[int]) -> Any:
        raise RuntimeError("out of memory")


def test_a_copy_that_fails_empties_the_cache_and_fails_nothing() -> None:
    model: Any = Model("llama")
    cache = PrefixCache(200 * 1024, 1024)
    prompts = [[2 + number, *SYSTEM] for number in range(5)]
    cache.keep(SYSTEM, None, model.start([SYSTEM]))
    for prompt in prompts:
        cache.keep(prompt, None, Full(model.start([prompt])))
        assert (len(cache), cache.tokens) == (0, 0)
    cache.keep(prompts[0], None, model.start([prompts[0]]))
    assert (len(cache), cache.tokens) == (1, 61)
    ((key, session),) = cache._sessions.items()
    cache._sessions[key] = Full(session)
    assert cache.start([*prompts[0], 5], None) is None
    assert (len(cache), cache.tokens) == (0, 0)


def test_a_prompt_beyond_the_memory_is_not_kept() -> None:
    model: Any = Model("llama")
    cache = PrefixCache(50 * 1024, 1024)
    cache.keep(SYSTEM, None, model.start([SYSTEM]))
    assert len(cache) == 0
    cache.keep(SYSTEM[:40], None, model.start([SYSTEM[:40]]))
    longer = [*SYSTEM, *SYSTEM]
    cache.keep(longer, None, model.start([longer]))
    assert cache.tokens == 40  # the shorter one is not evicted for one that has no room

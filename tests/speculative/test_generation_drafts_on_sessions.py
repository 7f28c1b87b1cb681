"""Drafts in sessions of `transformers`, which are cropped: the same tokens in batches of any shape.

There are no drafts in sessions that cannot be cropped cheaply.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import structgen as sg
from structgen.generation import SamplingOptions, generate_tokens
from structgen.matcher import Matcher
from structgen.speculative.controllers import Fixed
from structgen.speculative.drafters import ForcedBytes, TokenLookup
from structgen.speculative.generation_drafts import GenerationDrafts
from structgen.speculative.recycling import TokenRecycling, TriGrams
from structgen.speculative.speculation import Speculation
from tests.models.tiny import CONFIGS, SIZE
from tests.oracles.naive_matcher import NaiveMatcher
from tests.speculative.tiny_sessions import DEAD, NAIVE, VOCABULARY, Model, Watcher

pytestmark = pytest.mark.filterwarnings("ignore::structgen.models.ModelWarning")

DRAFTERS = (ForcedBytes(), TokenLookup(), TokenRecycling(), TriGrams())


@pytest.mark.parametrize("branching", [False, True])
@pytest.mark.parametrize("temperature", [0, 0.7, 1.5])
@pytest.mark.parametrize("name", list(CONFIGS))
def test_batches_draw_the_same_tokens(name: str, temperature: float, branching: bool) -> None:
    model = Model(name)
    prompts = [[5, 6, 7, 5, 6, 7, 5, 6], [9, 9, 9, 9], [3, 4, 5, 6, 3, 4]]
    constraints = [sg.regex("[a-z]{5,40}"), sg.regex("(abc|abd){3,12}"), None]
    options = SamplingOptions(temperature=temperature, seed=3, max_tokens=36)

    def drawn(drafting: Any) -> list[Any]:
        matchers = [None if one is None else Matcher(one, VOCABULARY) for one in constraints]
        return generate_tokens(model, prompts, matchers, options, drafting=drafting)  # type: ignore[arg-type]

    plain = drawn(None)
    model.passes.clear()
    speculation = Speculation(DRAFTERS, controller=Fixed(5), branching=branching)
    found = drawn(speculation.start(model))
    assert [one.tokens for one in found] == [one.tokens for one in plain]
    for one, other in zip(found, plain, strict=True):
        assert one.log_weight == pytest.approx(other.log_weight, abs=1e-3)
    drafted = sum(one.drafted_tokens for one in found)
    assert drafted > 0 and any(max(one) > 1 for one in model.passes)


class Noting(GenerationDrafts):
    """Notes what a row has pending when the watcher is called."""

    def __init__(self, speculation: Speculation, model: Any, watcher: Watcher) -> None:
        super().__init__(speculation, model)
        self.watcher = watcher
        self.reported: list[tuple[Any, list[int], Any]] = []

    def propose(self, rows: Any, hidden: Any = None, **reads: bool) -> Any:
        found = super().propose(rows, hidden, **reads)  # type: ignore[misc]
        for tokens, state in self.watcher.seen:
            (row,) = [row for row in rows if [*row.prompt, *row.tokens] == tokens]
            self.reported.append((row.excess, tokens[: len(tokens) - len(row.pending)], state))
        self.watcher.seen.clear()
        return found


@pytest.mark.parametrize("branching", [False, True])
@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_drafters_get_the_hidden_state_after_what_was_read(name: str, forced: bool, branching: bool) -> None:
    model = Model(name)
    prompts = [[5, 6, 7, 5, 6, 7, 5, 6], [9, 9, 9, 9], [3, 4, 5, 6, 3, 4], [7, 8]]
    matchers = [
        Matcher(sg.regex("[a-z]{2,4}"), VOCABULARY),
        Matcher(sg.regex("(abcde|abdef|xyzab){3,12}"), VOCABULARY),
        None,
        NaiveMatcher([b"ab", b"abc", b"ba"], NAIVE, DEAD),
    ]
    options = [
        SamplingOptions(temperature=1.5, seed=(4, row), max_tokens=most, forced=forced)
        for row, most in enumerate((4, 40, 20, 12))
    ]
    watcher = Watcher()
    speculation = Speculation((watcher, *DRAFTERS), controller=Fixed(5), branching=branching)
    drafting = Noting(speculation, model, watcher)
    found = generate_tokens(model, prompts, matchers, options, drafting=drafting)  # type: ignore[arg-type]
    assert sum(one.accepted_tokens for one in found) > 0 and found[3].retries > 0
    reported = after_steps_back = 0
    for excess, read, hidden in drafting.reported:
        with torch.inference_mode():
            output = model.model(input_ids=torch.tensor([read]), output_hidden_states=True)
        wanted = torch.stack([output.hidden_states[layer][0] for layer in (1, 2)], dim=1)
        np.testing.assert_allclose(hidden[0], wanted, rtol=1e-3, atol=2e-4)
        np.testing.assert_allclose(hidden[1], wanted[3:, 1:], rtol=1e-3, atol=2e-4)
        after_steps_back += excess > 0
        reported += 1
    assert reported > 20 and after_steps_back > 0


def test_hidden_states_are_kept_for_those_who_want_them() -> None:
    model = Model("llama")
    kept: list[Any] = []
    start = model.start_with_hidden_states

    def noted(prompts: Any, layers: Any) -> Any:
        kept.append(start(prompts, layers))
        return kept[-1]

    model.start_with_hidden_states = noted  # type: ignore[method-assign]
    options = SamplingOptions(seed=1, max_tokens=8)
    for drafters in (DRAFTERS, (Watcher(), *DRAFTERS)):
        drafting = Speculation(drafters, controller=Fixed(3)).start(model)
        generate_tokens(model, [[5, 6]], [None], options, drafting=drafting)  # type: ignore[arg-type]
    assert [session.capabilities.hidden_states for session in kept] == [False, True]


def test_kernels_that_know_no_trees_are_given_chains() -> None:
    AttentionInterface.register("another", ALL_ATTENTION_FUNCTIONS["sdpa"])
    AttentionMaskInterface.register("another", ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    model = Model("llama", "another")
    options = SamplingOptions(temperature=0.7, seed=3, max_tokens=36)
    prompts = [[5, 6, 7, 5, 6, 7, 5, 6], [9, 9, 9, 9]]
    plain = generate_tokens(model, prompts, [None, None], options)  # type: ignore[arg-type]
    can = model.start([[5]]).capabilities
    assert not can.reads_trees and can.crops_cheaply
    speculation = Speculation(DRAFTERS, controller=Fixed(5), branching=True)
    drafting = speculation.start(model)
    found = generate_tokens(model, prompts, [None, None], options, drafting=drafting)  # type: ignore[arg-type]
    assert [one.tokens for one in found] == [one.tokens for one in plain]
    assert speculation.counts["accepted"] > 0 and model.trees == 0
    sdpa = Model("llama")
    generate_tokens(sdpa, prompts, [None, None], options, drafting=speculation.start(sdpa))  # type: ignore[arg-type]
    assert sdpa.trees > 0


@pytest.mark.parametrize("name", ["longrope", "dynamic"])
def test_texts_that_pass_the_length_where_keys_are_turned_otherwise(name: str) -> None:
    """A pass that goes beyond it turns all its keys otherwise: drafts end well before, and rows are read one by one."""
    model = Model(name)
    random = np.random.default_rng(2)
    accepted = 0
    for seed in range(6):
        prompt = [int(one) for one in random.integers(2, SIZE, int(random.integers(4, 60)))]
        options = SamplingOptions(seed=seed, temperature=0 if seed % 2 else 0.7, max_tokens=120)
        (plain,) = generate_tokens(model, [prompt], [None], options)
        speculation = Speculation(list(DRAFTERS), controller=Fixed(6))
        (found,) = generate_tokens(model, [prompt], [None], options, drafting=speculation.start(model))
        assert found.tokens == plain.tokens
        longer = [int(one) for one in random.integers(2, SIZE, 110)]
        beside = generate_tokens(model, [prompt, longer], [None, None], [options, options])[0]
        if name == "longrope":  # the others keep the frequencies of the longest text that they have read
            assert beside.tokens == plain.tokens
        accepted += speculation.counts["drafted"]
    assert accepted > 50

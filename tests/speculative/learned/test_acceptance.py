"""Acceptance heads in a drafter: the chance of its first-ranked token, and where drafts stop (SpecDec++)."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import structgen as sg  # noqa: E402
from structgen.errors import ModelError  # noqa: E402
from structgen.generation import SamplingOptions, generate_tokens  # noqa: E402
from structgen.generation.drafting import RowStates  # noqa: E402
from structgen.matcher import Matcher  # noqa: E402
from structgen.models.session import start_session  # noqa: E402
from structgen.speculative.controllers import Confidence, Costs  # noqa: E402
from structgen.speculative.drafters import Context, Start  # noqa: E402
from structgen.speculative.growth import Chances, grow_tree  # noqa: E402
from structgen.speculative.learned import (  # noqa: E402
    AcceptanceHead,
    DraftWeights,
    Eagle,
    acceptance_head,
    load_weights,
    save_weights,
)
from structgen.speculative.learned.eagle import EagleNetwork  # noqa: E402
from structgen.speculative.speculation import Speculation  # noqa: E402
from tests.models.tiny import SIZE  # noqa: E402
from tests.speculative.learned.test_eagle import LAYERS, SIZES, random_weights, wanted  # noqa: E402
from tests.speculative.tiny_sessions import VOCABULARY, Model  # noqa: E402

TOKENS = [5, 9, 3, 17, 8, 4]


class Allowed:
    """A context's matcher that allows the same tokens everywhere."""

    def __init__(self, tokens: list[int] | None = None) -> None:
        self._mask = np.zeros((SIZE + 31) // 32, dtype=np.uint32)
        for token in range(SIZE) if tokens is None else tokens:
            self._mask[token // 32] |= np.uint32(1 << token % 32)

    def mask(self) -> np.ndarray:
        return self._mask

    def advance(self, token: int) -> bool:
        return bool(self._mask[token // 32] >> np.uint32(token % 32) & 1)

    def rollback(self, n: int) -> None:
        pass


def random_head(seed: int = 0, blocks: int = 2) -> AcceptanceHead:
    torch.manual_seed(seed)
    head = AcceptanceHead(32, blocks)
    torch.nn.init.normal_(head.output.weight, std=0.5)
    return head


def row_and_context(drafter: Eagle, model: Model, matcher: Any) -> tuple[Any, Context]:
    session: Any = start_session(model.model, SIZE, [TOKENS[:-1]], LAYERS)
    row = drafter.start(Start(tuple(TOKENS), VOCABULARY, model=model))
    row.observe(TOKENS, 0)
    context = Context(list(TOKENS), matcher, VOCABULARY)
    context.hidden = RowStates.of(session, 0, LAYERS, len(TOKENS) - 1)
    return row, context


def probability_after(model: Model, weights: DraftWeights, head: AcceptanceHead, tokens: list[int]) -> float:
    """What the head gives after `tokens`, from the outputs that training unrolls."""
    from structgen.draft_training.unrolling import unrolled

    network = EagleNetwork(SIZES)
    network.load_state_dict(weights.tensors)
    read = len(TOKENS) - 1
    with torch.inference_mode():
        output = model.model(input_ids=torch.tensor([tokens[:read]]), output_hidden_states=True)
        states = torch.stack([output.hidden_states[layer] for layer in LAYERS], dim=2)
        embeddings = model.model.get_input_embeddings()(torch.tensor([tokens[1:]]))
        last = unrolled(network, states, embeddings, len(tokens) - read)[-1][0, -1]
        return float(head(network.predicted(last)).sigmoid())


def test_the_first_ranked_token_has_the_probability_of_the_head() -> None:
    model, weights, head = Model("llama"), random_weights(), random_head()
    plain, context = row_and_context(Eagle(weights, least=0.0), model, Allowed())
    with_head, other = row_and_context(Eagle(weights, least=0.0, acceptance=head), model, Allowed())
    expected, found = list(plain.propose(context)), list(with_head.propose(other))
    assert [proposal.tokens for proposal in found] == [proposal.tokens for proposal in expected]
    assert [proposal.chance for proposal in found[1:]] == [proposal.chance for proposal in expected[1:]]
    assert found[0].chance == pytest.approx(probability_after(model, weights, head, TOKENS), abs=1e-4)
    assert found[0].chance != pytest.approx(expected[0].chance, abs=1e-3)


def test_where_the_mask_forbids_that_token_the_head_is_not_used() -> None:
    model, weights = Model("llama"), random_weights()
    best = int(weights.token_ids[wanted(model, weights, TOKENS, len(TOKENS) - 1).argmax()])
    others = [int(token) for token in weights.token_ids if token != best]
    plain, context = row_and_context(Eagle(weights, least=0.0), model, Allowed(others))
    with_head, other = row_and_context(
        Eagle(weights, least=0.0, acceptance=random_head()), model, Allowed(others)
    )
    assert list(with_head.propose(other)) == list(plain.propose(context))


@pytest.mark.parametrize("seed", range(4))
def test_confidence_stops_where_a_rejection_is_more_probable_than_70_percent(seed: int) -> None:
    model, weights, head = Model("llama"), random_weights(seed), random_head(seed)
    with torch.no_grad():
        head.output.weight *= 0.2
        head.output.bias += 1.2  # several tokens until the product is below 0.3
    row, context = row_and_context(Eagle(weights, most=8, least=0.0, acceptance=head), model, Allowed())
    grown = grow_tree(context, [row], Chances(), frozenset(), size=16, depth=8, branching=False, least=0.0)
    kept = Confidence(least=0.3).keep([grown.tree.reach], [1], Costs())[0]
    # The rule, as it is written in the paper: stop before the token with which 1 - prod P(accept) exceeds 0.7.
    tokens, product, stopped_at = list(TOKENS), 1.0, 0
    for token in grown.tree.tokens:
        product *= probability_after(model, weights, head, tokens)
        if 1 - product > 0.7:
            break
        stopped_at += 1
        tokens.append(token)
    assert kept == stopped_at
    assert 0 < kept < 8


def test_heads_are_saved_with_the_drafter(tmp_path: Path) -> None:
    weights, head = random_weights(), random_head()
    both = random_weights(tensors={**weights.tensors, **head.tensors()})
    save_weights(both, tmp_path / "draft.safetensors")
    path = str(tmp_path / "draft.safetensors")
    loaded = acceptance_head(path)
    states = torch.randn(5, 32)
    torch.testing.assert_close(loaded(states), head(states), atol=0.05, rtol=0.05)  # matrices are int8
    for drafter in (Eagle(path), pickle.loads(pickle.dumps(Eagle(path, acceptance=loaded)))):
        row, context = row_and_context(drafter, Model("llama"), Allowed())
        assert list(row.propose(context))
    assert set(load_weights(path).tensors) == set(both.tensors)


def test_errors() -> None:
    weights = random_weights()
    with pytest.raises(ModelError, match="contain no acceptance head"):
        acceptance_head(weights)
    with pytest.raises(ModelError, match="reads states of 16 numbers; the drafter's have 32"):
        Eagle(weights, acceptance=AcceptanceHead(16))
    own = random_head().tensors()
    with pytest.raises(ModelError, match="acceptance head do not have the shapes"):
        acceptance_head(random_weights(tensors={**own, "acceptance.blocks.0.bias": torch.zeros(3)}))
    with pytest.raises(ModelError, match="has no output layer"):
        acceptance_head(random_weights(tensors={"acceptance.blocks.0.bias": torch.zeros(3)}))


def test_without_blocks_the_head_is_linear() -> None:
    head = AcceptanceHead(4, blocks=0)
    states = torch.randn(2, 3, 4)
    torch.testing.assert_close(head(states), states @ head.output.weight[0] + head.output.bias)


@pytest.mark.filterwarnings("ignore::structgen.models.ModelWarning")
@pytest.mark.parametrize("temperature", [0, 0.8])
def test_texts_stay_the_same_and_a_head_that_expects_rejections_ends_drafts(temperature: float) -> None:
    prompts, options = (
        [[5, 6, 7, 5, 6], [9, 9, 4]],
        SamplingOptions(temperature=temperature, seed=3, max_tokens=24),
    )

    def drawn(bias: float | None) -> tuple[list[list[int]], int]:
        model, drafting = Model("llama"), None
        if bias is not None:
            head = AcceptanceHead(32, blocks=0)
            torch.nn.init.zeros_(head.output.weight)
            torch.nn.init.constant_(head.output.bias, bias)
            eagle = Eagle(random_weights(), width=1, acceptance=head)
            drafting = Speculation([eagle], controller=Confidence(least=0.3)).start(model)
        matchers = [None, Matcher(sg.regex("[a-z]{5,30}"), VOCABULARY)]
        found = generate_tokens(model, prompts, matchers, options, drafting=drafting)
        return [list(one.tokens) for one in found], sum(one.drafted_tokens for one in found)

    plain, none = drawn(None)
    hopeful, many = drawn(9.0)
    cautious, few = drawn(-9.0)
    assert plain == hopeful == cautious
    assert few < many
    if temperature == 0:  # otherwise the row's noise selects tokens, whose probability is counted
        assert none == few == 0

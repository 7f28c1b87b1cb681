"""Acceptance heads in a drafter: the chance of its first-ranked token, and where drafts stop (SpecDec++)."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
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
from structgen.speculative import sampled  # noqa: E402
from structgen.speculative.controllers import Confidence, Costs  # noqa: E402
from structgen.speculative.drafters import Context, Start  # noqa: E402
from structgen.speculative.growth import (  # noqa: E402
    Chances,
    Tallies,
    candidates,
    grow_tree,
    masked_distribution,
)
from structgen.speculative.learned import (  # noqa: E402
    AcceptanceHead,
    DraftWeights,
    Eagle,
    acceptance_head,
    load_weights,
    save_weights,
)
from structgen.speculative.learned.eagle import EagleNetwork  # noqa: E402
from structgen.speculative.sampled import Draws, grow_sampled_tree  # noqa: E402
from structgen.speculative.speculation import Speculation  # noqa: E402
from structgen.speculative.verifiers import Drafted  # noqa: E402
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


def row_and_context(
    drafter: Eagle, model: Model, matcher: Any, temperature: float = 0.0
) -> tuple[Any, Context]:
    session: Any = start_session(model.model, SIZE, [TOKENS[:-1]], LAYERS)
    row = drafter.start(Start(tuple(TOKENS), VOCABULARY, temperature=temperature, model=model))
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
    # What is counted for the head's number is counted apart from the drafter's own probability.
    assert found[0].kind == f"eagle head, 0, {int(found[0].chance * 10)}"
    assert [proposal.kind for proposal in found[1:]] == [proposal.kind for proposal in expected[1:]]
    assert expected[0].kind == f"eagle 0, 0, {int(expected[0].chance * 10)}"


def test_where_the_mask_forbids_that_token_the_head_is_not_used() -> None:
    model, weights = Model("llama"), random_weights()
    best = int(weights.token_ids[wanted(model, weights, TOKENS, len(TOKENS) - 1).argmax()])
    others = [int(token) for token in weights.token_ids if token != best]
    plain, context = row_and_context(Eagle(weights, least=0.0), model, Allowed(others))
    with_head, other = row_and_context(
        Eagle(weights, least=0.0, acceptance=random_head()), model, Allowed(others)
    )
    assert list(with_head.propose(other)) == list(plain.propose(context))
    assert with_head.acceptances(other, others) == {}


def test_a_token_without_alternatives_is_certain_with_any_head() -> None:
    model, weights = Model("llama"), random_weights()
    best = int(weights.token_ids[wanted(model, weights, TOKENS, len(TOKENS) - 1).argmax()])
    row, context = row_and_context(
        Eagle(weights, least=0.0, acceptance=random_head()), model, Allowed([best]), 0.8
    )
    (proposal,) = row.propose(context)
    assert (proposal.chance, proposal.kind) == (1.0, "eagle 0, 0, 10")
    assert row.acceptances(context, [best]) == {}
    assert drawn_tree(row, context, "one", 0, always, depth=1).tree.reach == [1.0]


def noise_for(token: int) -> Any:
    """Noise that selects a token."""
    return lambda ids: np.where(ids == token, 100.0, 0.0)


@pytest.mark.parametrize("depth", [0, 1])
def test_the_token_that_the_noise_selects_has_the_number_of_the_head(depth: int) -> None:
    model, weights, head = Model("llama"), random_weights(), random_head()
    tokens = [*TOKENS, 11][: len(TOKENS) + depth]
    row, context = row_and_context(Eagle(weights, least=0.0, acceptance=head), model, Allowed(), 0.8)
    plain, other = row_and_context(Eagle(weights, least=0.0), model, Allowed(), 0.8)
    for each in (context, other):
        each.tokens, each.drafted, each.is_constrained = list(tokens), depth, False
    ranked = weights.token_ids[np.argsort(-wanted(model, weights, tokens, len(TOKENS) - 1))]
    for place, token in enumerate(ranked[:2]):
        context.noise = other.noise = noise_for(int(token))
        found, before = (
            next(one for one in candidates(at, [drafter], Chances(), []) if one.token == token)
            for at, drafter in ((context, row), (other, plain))
        )
        if place:
            assert found.kind == before.kind and found.chance == before.chance
            continue
        number = probability_after(model, weights, head, tokens)
        tenth = int(number * 10)
        assert found.kind[0] == f"eagle head with noise, {depth}, {tenth}+eagle head, {depth}, {tenth}"
        assert found.chance == pytest.approx(number, abs=1e-4)
        assert before.kind[0].startswith("eagle 0, ") and "+eagle with noise" in before.kind[0]


def drawn_tree(row: Any, context: Context, drafted: Drafted, seed: int, goes_on: Any, **changed: Any) -> Any:
    """Grow a tree for a verifier whose children are `drafted`."""
    draws = Draws(drafted, np.random.default_rng(seed), 1 if drafted == "one" else 2)
    options = {"size": 6, "depth": 3, **changed}
    chances = options.pop("chances", None) or Chances()
    return grow_sampled_tree(context, [row], chances, frozenset(), draws, goes_on, **options)


def always(reach: Sequence[float]) -> bool:
    return True


@pytest.mark.parametrize("drafted", ["one", "distinct", "independent", "greedy"])
@pytest.mark.parametrize("seed", range(3))
def test_drawn_children_have_the_number_of_the_head_or_the_root_of_their_probability(
    drafted: Drafted, seed: int
) -> None:
    model, weights, head = Model("llama"), random_weights(seed), random_head(seed)
    row, context = row_and_context(
        Eagle(weights, least=0.0, acceptance=head), model, Allowed([5, 9, 3, 8]), 1.5
    )
    grown = drawn_tree(row, context, drafted, seed, always)
    tree, number_used, root_used = grown.tree, 0, 0
    assert len(tree)
    for node, (parent, token) in enumerate(zip(tree.parents, tree.tokens, strict=True)):
        tokens = [*TOKENS, *(tree.text_to(parent) if parent >= 0 else [])]
        logits = wanted(model, weights, tokens, len(TOKENS) - 1)
        context.tokens, context.drafted = tokens, len(tokens) - len(TOKENS)
        if token == weights.token_ids[logits.argmax()]:
            chance, number_used = probability_after(model, weights, head, tokens), number_used + 1
        else:
            q = masked_distribution(context, row.distribution(context))
            assert q is not None
            chance, root_used = float(q[token]) ** 0.5, root_used + 1
        before = tree.reach[parent] if parent >= 0 else 1.0
        assert tree.reach[node] == pytest.approx(before * chance, abs=1e-3)
    # What the verifier gets is as without a head.
    plain, other = row_and_context(Eagle(weights, least=0.0), model, Allowed([5, 9, 3, 8]), 1.5)
    same = drawn_tree(plain, other, drafted, seed, always).sampled[-1]
    np.testing.assert_allclose(grown.sampled[-1].distribution, same.distribution)
    assert (grown.sampled[-1].tokens, grown.sampled[-1].drafted) == (same.tokens, same.drafted)


@pytest.mark.parametrize("seed", range(4))
def test_drafts_for_rejection_sampling_stop_by_the_rule_of_the_paper(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampled, "drawn_children", lambda q, *_: (int(q.argmax()),))
    model, weights, head = Model("llama"), random_weights(seed), random_head(seed)
    with torch.no_grad():
        head.output.weight *= 0.2
        head.output.bias += 1.2
    row, context = row_and_context(Eagle(weights, most=8, least=0.0, acceptance=head), model, Allowed())
    controller = Confidence(least=0.3)

    def goes_on(reach: Sequence[float]) -> bool:
        return controller.keep([reach], [1], Costs())[0] >= len(reach)

    grown = drawn_tree(row, context, "one", seed, goes_on, size=16, depth=8)
    tokens, product = list(TOKENS), 1.0
    for token in [*grown.tree.tokens, None]:
        product *= probability_after(model, weights, head, tokens)
        assert (1 - product > 0.7) == (token is None)
        tokens.append(token)
    assert 0 < len(grown.tree) < 8
    # The verifier learns of the token, too, at which the draft stopped.
    assert len(grown.sampled) == len(grown.tree) + 1


def test_how_often_the_number_is_right_is_counted_and_corrects_it() -> None:
    model, weights, head = Model("llama"), random_weights(), random_head()
    row, context = row_and_context(Eagle(weights, least=0.0, acceptance=head), model, Allowed())
    chances, tallies = Chances(), Tallies()
    number = probability_after(model, weights, head, TOKENS)
    for _ in range(40):  # the verifier draws another token each time
        grown = drawn_tree(row, context, "distinct", 0, always, chances=chances, depth=1)
        assert grown.learn(-1, 30, chances, tallies) is None
    ((kind, counts),) = tallies.known.items()
    assert kind == f"eagle head drawn, 0, {int(number * 10)}" and counts == [40, 0, 0]
    first = int(weights.token_ids[wanted(model, weights, TOKENS, len(TOKENS) - 1).argmax()])
    (found,) = (one for one in grown.candidates[-1] if one.token == first)
    assert found.chance < 0.2 * number
    assert grown.learn(-1, first, chances, tallies) is (row if grown.tree.has(-1, first) else None)


class Counted(AcceptanceHead):
    """Counts the states that it reads."""

    read = 0

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        Counted.read += len(states)
        return super().forward(states)


def test_the_head_is_computed_once_and_only_where_its_number_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counted, "read", 0)
    model, weights = Model("llama"), random_weights()
    ids = weights.token_ids
    best = int(ids[wanted(model, weights, TOKENS, len(TOKENS) - 1).argmax()])
    drafter = Eagle(weights, least=0.0, acceptance=Counted(32))
    others = [int(token) for token in ids if token != best]
    row, context = row_and_context(drafter, model, Allowed(others), 0.8)
    assert list(row.propose(context)) and row.distribution(context) is not None
    assert row.acceptances(context, others) == {}
    assert Counted.read == 0
    row, context = row_and_context(drafter, model, Allowed(), 0.8)
    row.distribution(context)
    assert row.acceptances(context, others) == {} and Counted.read == 0
    predicted = row.acceptances(context, [*others, best])
    assert set(predicted) == {best}
    assert row.acceptances(context, [best]) == predicted and Counted.read == 1
    assert next(iter(row.propose(context))).chance == predicted[best] and Counted.read == 1


def test_without_a_head_nothing_is_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    drafter = Eagle(random_weights(), least=0.0)
    row, context = row_and_context(drafter, Model("llama"), Allowed(), 0.8)
    assert not row.predicts_acceptance and row.acceptances(context, [5]) == {}

    def fails(*_: Any) -> Any:
        raise AssertionError("requested without a head")

    monkeypatch.setattr(type(row), "acceptances", fails)
    grown = drawn_tree(row, context, "distinct", 0, always)
    assert len(grown.tree) and not grown.candidates
    context.noise = noise_for(5)
    assert candidates(context, [row], Chances(), [])


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
    if temperature == 0:  # otherwise the row's noise may select another token, which has no number
        assert none == few == 0

"""Drafts of `Kangaroo`: at each node, the logits are those of the adapter over the states of a plain forward pass."""

from __future__ import annotations

from dataclasses import replace
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
from structgen.speculative.controllers import Fixed  # noqa: E402
from structgen.speculative.drafters import Context, Start, TokenLookup  # noqa: E402
from structgen.speculative.guarded import SpeculationWarning  # noqa: E402
from structgen.speculative.learned import AcceptanceHead, DraftWeights, Kangaroo  # noqa: E402
from structgen.speculative.learned.kangaroo import KangarooNetwork, KangarooSizes  # noqa: E402
from structgen.speculative.learned.layers import LayerSizes  # noqa: E402
from structgen.speculative.speculation import Speculation  # noqa: E402
from structgen.speculative.verifiers import Recursive, Rejection  # noqa: E402
from tests.models.tiny import SIZE  # noqa: E402
from tests.speculative.deep_models import LAYERS, DeepModel  # noqa: E402
from tests.speculative.tiny_sessions import VOCABULARY, Model  # noqa: E402

PROMPTS = [[5, 6, 7, 5, 6, 7, 5, 6], [9, 9, 9, 9], [3, 4, 5, 6, 3, 4]]


def sizes_of(exit_layer: int, mlp: int = 0) -> KangarooSizes:
    return KangarooSizes(LayerSizes(hidden=32, heads=4, kv_heads=2, head_size=8, mlp=mlp), exit_layer)


def random_weights(exit_layer: int = 2, mlp: int = 0, std: float = 0.4, tokens: int = 20) -> DraftWeights:
    torch.manual_seed(exit_layer)
    sizes = sizes_of(exit_layer, mlp)
    network = KangarooNetwork(sizes)
    for name, parameter in network.named_parameters():  # no part may be without effect
        if not name.startswith("output_norm") or std:
            torch.nn.init.normal_(parameter, std=std)
    ids = np.sort(np.random.default_rng(0).choice(np.arange(2, SIZE), size=tokens, replace=False))
    return DraftWeights("kangaroo", sizes.as_dict(), VOCABULARY.fingerprint, ids, network.state_dict())


def wanted(model: Model, weights: DraftWeights, tokens: list[int]) -> np.ndarray:
    """The logits after `tokens`, from the states of one forward pass."""
    sizes = KangarooSizes.from_dict(weights.sizes)
    network = KangarooNetwork(sizes)
    network.load_state_dict(weights.tensors)
    with torch.inference_mode():
        output = model.model(input_ids=torch.tensor([tokens]), output_hidden_states=True)
        states = network.output_norm(network.layer(output.hidden_states[sizes.exit_layer], None)[0, -1])
        rows = model.model.get_output_embeddings().weight[torch.from_numpy(weights.token_ids)]
        return np.asarray((states @ rows.T).float())


@pytest.mark.parametrize(("exit_layer", "mlp"), [(1, 0), (2, 24), (3, 0)])
@pytest.mark.parametrize("seed", range(3))
def test_logits_at_nodes_after_any_sequence_of_operations(seed: int, exit_layer: int, mlp: int) -> None:
    rng = np.random.default_rng(seed)
    model, weights = DeepModel(), random_weights(exit_layer, mlp)
    drafter = Kangaroo(weights, threshold=0.0, most=8, least=0.0)
    tokens = [int(i) for i in rng.integers(2, SIZE, size=5)]
    other = [int(i) for i in rng.integers(2, SIZE, size=9)]  # a longer row of the same batch
    session: Any = start_session(model.model, SIZE, [other, tokens], drafter.hidden_layers)
    row = drafter.start(Start(tuple(tokens), VOCABULARY, model=model))
    seen, checked = len(tokens), 0
    for _ in range(14):
        if rng.random() < 0.3 and len(tokens) > 4:  # a step back, sometimes to the same tokens again
            n = int(rng.integers(1, 4))
            dropped = tokens[len(tokens) - n :]
            del tokens[len(tokens) - n :]
            held = len(session._tokens[1])
            session.rollback(1, max(0, held - len(tokens)))
            if rng.random() < 0.5:
                tokens += dropped
            seen = min(seen, len(tokens))
        pending = [int(i) for i in rng.integers(2, SIZE, size=rng.integers(0, 4))]
        tokens += pending
        row.observe(tokens, seen)
        seen, read = len(tokens), max(len(tokens) - len(pending), len(session._tokens[1]))
        session.append(
            [[int(i) for i in rng.integers(2, SIZE, size=2)], tokens[len(session._tokens[1]) : read]]
        )
        hidden = RowStates.of(session, 1, drafter.hidden_layers, read)
        paths: list[list[int]] = [[]]
        for _ in range(6):  # nodes of a tree, in any order of growth; sometimes one below an unknown one
            path = [*paths[int(rng.integers(len(paths)))], *(int(i) for i in rng.integers(2, SIZE, size=2))]
            paths.append(path[: int(rng.integers(1, len(path) + 1))])
        for path in paths:
            if len(path) > 5:
                continue
            context = Context([*tokens, *path], None, VOCABULARY, drafted=len(path), is_constrained=False)
            context.hidden = hidden
            found = row._known(context)
            expected = wanted(model, weights, context.tokens)
            np.testing.assert_allclose(found.logits, expected, rtol=2e-3, atol=2e-3)
            best = [proposal.tokens[0] for proposal in row.propose(context)]
            assert best == weights.token_ids[np.argsort(-found.logits, kind="stable")[:2]].tolist()
            checked += 1
    assert checked > 60


def contexts(drafter: Kangaroo, matcher: Matcher | None = None) -> Any:
    """Start a row; return it and a function from draft tokens to the context there."""
    model, tokens = DeepModel(), PROMPTS[0]
    session: Any = start_session(model.model, SIZE, [tokens[:-1]], drafter.hidden_layers)
    row = drafter.start(Start(tuple(tokens), VOCABULARY, model=model))

    def at(path: list[int]) -> Context:
        context = Context(
            [*tokens, *path], matcher, VOCABULARY, drafted=len(path), is_constrained=matcher is not None
        )
        context.hidden = RowStates.of(session, 0, drafter.hidden_layers, len(tokens) - 1)
        return context

    return row, at


@pytest.mark.parametrize("by", ["propose", "distribution"])
def test_the_second_exit(by: str) -> None:
    """The token that is not sure enough is proposed, and nothing after it."""
    row, at = contexts(Kangaroo(random_weights(), threshold=0.0, least=0.0))
    top = max(proposal.chance for proposal in row.propose(at([])))
    token = next(iter(row.propose(at([])))).tokens[0]
    for threshold, goes_on in ((top - 1e-3, True), (top + 1e-3, False)):
        row, at = contexts(Kangaroo(random_weights(), threshold=threshold, least=0.0))
        if by == "propose":
            assert list(row.propose(at([])))
            assert bool(list(row.propose(at([token])))) == goes_on
        else:
            assert row.distribution(at([])) is not None
            assert (row.distribution(at([token])) is not None) == goes_on


@pytest.mark.parametrize("by", ["propose", "distribution"])
@pytest.mark.parametrize(("bias", "goes_on"), [(-9.0, False), (9.0, True)])
def test_the_second_exit_goes_by_the_number_of_an_acceptance_head(
    by: str, bias: float, goes_on: bool
) -> None:
    head = AcceptanceHead(32, blocks=0)
    torch.nn.init.zeros_(head.output.weight)
    torch.nn.init.constant_(head.output.bias, bias)
    row, at = contexts(Kangaroo(random_weights(), threshold=0.5, least=0.0, acceptance=head))
    token = int(row._head.token_ids[row._known(at([])).logits.argmax()])
    if by == "propose":
        assert next(iter(row.propose(at([])))).tokens == (token,)
        assert bool(list(row.propose(at([token])))) == goes_on
    else:
        assert row.distribution(at([])) is not None
        assert (row.distribution(at([token])) is not None) == goes_on


def test_the_second_exit_goes_by_the_probability_under_the_mask() -> None:
    weights = random_weights()
    letter = VOCABULARY.token_bytes(int(weights.token_ids[0])).decode()
    matcher = Matcher(sg.regex(f"{letter}+"), VOCABULARY)
    row, at = contexts(Kangaroo(weights, threshold=0.999, least=0.0), matcher)
    (first,) = [proposal for proposal in row.propose(at([])) if proposal.chance > 0.999]
    assert matcher.advance(first.tokens[0])
    assert list(row.propose(at(list(first.tokens))))


@pytest.mark.parametrize("verifier", [None, Rejection(), Recursive()])
@pytest.mark.parametrize("temperature", [0, 0.8])
def test_the_same_tokens_with_and_without_drafts(temperature: float, verifier: Any) -> None:
    # An adapter that changes little, and later layers that change nothing: many drafts are right.
    model = DeepModel(idle=2)
    weights = random_weights(2, std=0.0, tokens=SIZE - 2)
    options = SamplingOptions(temperature=temperature, seed=3, max_tokens=30)
    constraints = [sg.regex("[a-z]{5,40}"), None, sg.regex("(abc|abd){3,12}")]

    def drawn(drafting: Any) -> list[Any]:
        matchers = [None if one is None else Matcher(one, VOCABULARY) for one in constraints]
        return generate_tokens(model, PROMPTS, matchers, options, drafting=drafting)  # type: ignore[arg-type]

    arguments = {} if verifier is None else {"verifier": verifier}
    drafter = Kangaroo(weights, threshold=0.0, least=0.0)
    speculation = Speculation((drafter, TokenLookup()), controller=Fixed(5), **arguments)
    found, plain = drawn(speculation.start(model)), drawn(None)
    assert speculation.counts["accepted"] > 20
    assert not any(record.failed for record in speculation.records)
    if verifier is None or not temperature:
        assert [one.tokens for one in found] == [one.tokens for one in plain]


def trained(model: DeepModel, tokens: list[int]) -> DraftWeights:
    """An adapter that was trained on one text."""
    torch.manual_seed(0)
    sizes, ids = sizes_of(2, mlp=48), np.arange(2, SIZE)
    network = KangarooNetwork(sizes)
    with torch.no_grad():
        states = model.model(input_ids=torch.tensor([tokens[:-1]]), output_hidden_states=True).hidden_states[
            2
        ]
        rows = model.model.get_output_embeddings().weight[torch.from_numpy(ids)]
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01)
    for _ in range(150):
        logits = network.output_norm(network.layer(states, None))[0] @ rows.T
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor(tokens[1:]) - 2)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return DraftWeights("kangaroo", sizes.as_dict(), VOCABULARY.fingerprint, ids, network.state_dict())


def test_an_adapter_that_was_trained_on_one_text_predicts_it() -> None:
    model, prompt = DeepModel(), [5, 9, 3, 17, 8]
    options = SamplingOptions(temperature=1.0, seed=4, max_tokens=40)
    (plain,) = generate_tokens(model, [prompt], [None], options)  # type: ignore[arg-type]
    assert len(plain.tokens) > 25 and len(set(plain.tokens)) > 12  # a text that is no repetition
    drafter = Kangaroo(trained(model, [*prompt, *plain.tokens]), width=1)
    speculation = Speculation([drafter], controller=Fixed(4), branching=False)
    model.passes.clear()
    drafting: Any = speculation.start(model)  # type: ignore[arg-type]
    (found,) = generate_tokens(model, [prompt], [None], options, drafting=drafting)  # type: ignore[arg-type]
    assert found.tokens == plain.tokens
    assert len(plain.tokens) / len(model.passes) > 3
    assert found.accepted_tokens >= found.drafted_tokens - 4  # those after the end


def test_models_whose_layers_cannot_run_alone_go_on_without_it() -> None:
    model = Model("gpt2")
    weights = random_weights(1)
    options = SamplingOptions(seed=3, max_tokens=8)
    plain = generate_tokens(model, PROMPTS[:1], [None], options)  # type: ignore[arg-type]
    speculation = Speculation((Kangaroo(weights),), controller=Fixed(5))
    with pytest.warns(SpeculationWarning, match="cannot run alone"):
        found = generate_tokens(model, PROMPTS[:1], [None], options, drafting=speculation.start(model))  # type: ignore[arg-type]
    assert found[0].tokens == plain[0].tokens


def test_weights_that_do_not_fit_are_refused() -> None:
    start = Start((5,), VOCABULARY, model=DeepModel())
    with pytest.raises(ModelError, match=f"after layer {LAYERS}; this model has {LAYERS} layers"):
        Kangaroo(random_weights(LAYERS)).start(start)
    weights = random_weights()
    for exit_layer in (0, "2"):
        with pytest.raises(ModelError, match="do not have the sizes"):
            Kangaroo(replace(weights, sizes={**weights.sizes, "exit_layer": exit_layer}))

"""Drafts of `NestedLayers`: at each node, the logits are those of a plain pass of the draft model over the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import structgen as sg  # noqa: E402
from structgen.draft_training.first_layers import first_layers  # noqa: E402
from structgen.errors import ModelError, VocabularyMismatch  # noqa: E402
from structgen.generation import SamplingOptions, generate_tokens  # noqa: E402
from structgen.generation.continuous_batch import ContinuousBatch  # noqa: E402
from structgen.generation.row import Row  # noqa: E402
from structgen.matcher import Matcher  # noqa: E402
from structgen.speculative.controllers import Fixed  # noqa: E402
from structgen.speculative.drafters import Context, Start, TokenLookup  # noqa: E402
from structgen.speculative.learned import (  # noqa: E402
    AcceptanceHead,
    DraftWeights,
    NestedLayers,
    load_drafter,
    save_weights,
)
from structgen.speculative.learned.layers import LayerSizes  # noqa: E402
from structgen.speculative.learned.nested_layers import NestedNetwork, NestedSizes  # noqa: E402
from structgen.speculative.speculation import Speculation  # noqa: E402
from structgen.speculative.verifiers import Recursive, Rejection  # noqa: E402
from tests.models.tiny import SIZE  # noqa: E402
from tests.speculative.deep_models import DeepModel  # noqa: E402
from tests.speculative.tiny_sessions import LETTERS, VOCABULARY, Model  # noqa: E402

PROMPTS = [[5, 6, 7, 5, 6, 7, 5, 6], [9, 9, 9, 9], [3, 4, 5, 6, 3, 4]]
LAYER = LayerSizes(hidden=32, heads=4, kv_heads=2, head_size=8, mlp=48)


def random_weights(
    exits: Sequence[int] = (1, 2), *, seed: int = 0, tokens: int = 20, std: float = 0.3, norm: float = 12.0
) -> DraftWeights:
    torch.manual_seed(seed)
    sizes = NestedSizes(LAYER, tuple(exits))
    network = NestedNetwork(sizes)
    for parameter in network.layers.parameters():  # no part may be without effect
        torch.nn.init.normal_(parameter, std=std)
    for parameter in network.exit_norms.parameters():
        torch.nn.init.normal_(parameter, mean=norm, std=norm / 2)
    ids = np.sort(np.random.default_rng(seed).choice(np.arange(2, SIZE), size=tokens, replace=False))
    return DraftWeights("layers", sizes.as_dict(), VOCABULARY.fingerprint, ids, network.state_dict())


def plain_pass(model: Model, weights: DraftWeights, tokens: Sequence[int]) -> list[np.ndarray]:
    """The logits after `tokens` at each exit, from one pass of the network over all of them."""
    network = NestedNetwork(NestedSizes.from_dict(weights.sizes))
    network.load_state_dict(weights.tensors)
    with torch.inference_mode():
        embeddings = model.model.get_input_embeddings()(torch.tensor([list(tokens)]))
        rows = model.model.get_output_embeddings().weight[torch.from_numpy(weights.token_ids)]
        return [np.asarray((output[0, -1] @ rows.T).float()) for output in network(embeddings)]


def top(logits: np.ndarray) -> float:
    return float(1 / np.exp(logits - logits.max()).sum())


def at(tokens: Sequence[int], path: Sequence[int], matcher: Matcher | None = None) -> Context:
    return Context(
        [*tokens, *path], matcher, VOCABULARY, drafted=len(path), is_constrained=matcher is not None
    )


@pytest.mark.parametrize(
    ("exits", "confidence"), [((1, 2), 0.5), ((2,), 0.5), ((1, 3, 4), 0.6), ((1, 2), 1.0)]
)
@pytest.mark.parametrize("seed", range(3))
def test_logits_at_nodes_after_any_sequence_of_operations(
    seed: int, exits: tuple[int, ...], confidence: float
) -> None:
    rng = np.random.default_rng(seed)
    model, weights = Model("llama"), random_weights(exits, seed=seed)
    drafter = NestedLayers(weights, confidence=confidence, most=8, least=0.0, width=2)
    tokens = [int(i) for i in rng.integers(2, SIZE, size=5)]
    row: Any = drafter.start(Start(tuple(tokens), VOCABULARY, model=model))
    seen, taken = len(tokens), []
    for step in range(14):
        if rng.random() < 0.3 and len(tokens) > 4:  # a step back, sometimes to the same tokens again
            n = int(rng.integers(1, 4))
            dropped = tokens[len(tokens) - n :]
            del tokens[len(tokens) - n :]
            seen = min(seen, len(tokens))
            if rng.random() < 0.5:
                tokens += dropped
        many = 270 if step == 5 and not seed else 4  # more than the cache has room for at first
        tokens += [int(i) for i in rng.integers(2, SIZE, size=rng.integers(many - 4, many))]
        row.observe(tokens, seen)
        seen = len(tokens)
        paths: list[list[int]] = [[]]
        for _ in range(7):  # nodes of a tree, in any order of growth; sometimes one below an unknown one
            path = [*paths[int(rng.integers(len(paths)))], *(int(i) for i in rng.integers(2, SIZE, size=2))]
            paths.append(path[: int(rng.integers(1, len(path) + 1))])
        for path in paths[:: 1 if step % 2 else -1]:
            if len(path) >= 8:
                continue
            found = row._known(at(tokens, path))
            wanted = plain_pass(model, weights, [*tokens, *path])
            sure = [place for place, logits in enumerate(wanted) if top(logits) >= confidence]
            place = min([*sure, len(exits) - 1])
            if any(abs(top(logits) - confidence) < 1e-3 for logits in wanted):
                continue  # rounding decides
            np.testing.assert_allclose(found.logits, wanted[place], rtol=2e-3, atol=2e-3)
            proposals = list(row.propose(at(tokens, path)))
            best = weights.token_ids[np.argsort(-found.logits, kind="stable")[:2]].tolist()
            assert [proposal.tokens[0] for proposal in proposals] == best
            assert all(proposal.kind.startswith(f"layers {exits[place]} ") for proposal in proposals)
            taken.append(place)
    assert len(taken) > 70
    if 0 < confidence < 1:
        assert set(taken) == set(range(len(exits)))


def test_a_later_exit_reuses_what_an_earlier_one_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each layer reads each token of the row and of the draft once, for exits in any order."""
    weights = random_weights((1, 2))
    drafter = NestedLayers(weights, most=8, least=0.0)
    row: Any = drafter.start(Start((5, 6, 7), VOCABULARY, model=Model("llama")))
    read: list[tuple[int, list[int]]] = []
    extended = row._cache._extended

    def noted(index: int, states: Any, slots: list[int], path: list[int], first: int) -> Any:
        read.append((index, list(slots)))
        return extended(index, states, slots, path, first)

    monkeypatch.setattr(row._cache, "_extended", noted)
    tokens = [5, 6, 7]
    row.observe(tokens, 3)
    row._confidence = 0.0
    row._known(at(tokens, []))
    row._known(at(tokens, [8]))
    row._known(at(tokens, [9]))
    assert read == [(0, [0, 1, 2]), (0, [3]), (0, [4])]
    row._confidence = 1.0
    row._known(at(tokens, [8, 10]))
    assert read[3:] == [(0, [5]), (1, [0, 1, 2, 3, 5])]
    row._known(at(tokens, [9, 11]))
    assert read[5:] == [(0, [6]), (1, [4, 6])]
    tokens += [8]
    row.observe(tokens, 3)
    row._known(at(tokens, []))
    assert read[7:] == [(0, [3]), (1, [3])]


def test_an_acceptance_head_reads_the_last_exit_only(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    forward = AcceptanceHead.forward

    def noted(head: AcceptanceHead, states: torch.Tensor) -> torch.Tensor:
        read.append(len(states))
        return forward(head, states)

    monkeypatch.setattr(AcceptanceHead, "forward", noted)
    drafter = NestedLayers(random_weights(), least=0.0, acceptance=AcceptanceHead(32))
    for confidence, has_estimate in ((0.0, False), (1.0, True)):
        row: Any = drafter.start(Start((5, 6, 7), VOCABULARY, model=Model("llama")))
        row._confidence = confidence
        assert (row._known(at([5, 6, 7], [])).acceptance is not None) == has_estimate
        assert read == [1] * has_estimate  # that of the other exits is not computed


def test_the_exit_follows_the_mask() -> None:
    """Among the tokens that the constraint allows, a token may be sure that otherwise is not."""
    weights, tokens = random_weights((1, 2), tokens=24), [5, 6, 7]
    row: Any = NestedLayers(weights, confidence=0.999, least=0.0).start(
        Start(tuple(tokens), VOCABULARY, model=Model("llama"))
    )
    first, last = plain_pass(Model("llama"), weights, tokens)
    assert top(first) < 0.999
    np.testing.assert_allclose(row._known(at(tokens, [])).logits, last, rtol=2e-3, atol=2e-3)
    row.observe(tokens, 3)
    letter = LETTERS[int(weights.token_ids[0]) - 2]
    matcher = Matcher(sg.regex(f"{letter.decode()}+"), VOCABULARY)
    # Two tokens of this vocabulary may have the same letter; then none of them is sure.
    same = [token for token in weights.token_ids if LETTERS[int(token) - 2] == letter]
    sure = first if len(same) == 1 else last
    np.testing.assert_allclose(row._known(at(tokens, [], matcher)).logits, sure, rtol=2e-3, atol=2e-3)


def copied() -> tuple[DeepModel, DraftWeights]:
    """A model whose later layers change nothing, so that the last exit of a copy of its first ones agrees with it."""
    model = DeepModel(idle=2)
    network = first_layers(model, LAYER, (1, 2))  # type: ignore[arg-type]
    weights = random_weights((1, 2), tokens=SIZE - 2)
    return model, replace(weights, sizes=network.sizes.as_dict(), tensors=network.state_dict())


@pytest.mark.parametrize("verifier", [None, Rejection(), Recursive()])
@pytest.mark.parametrize("temperature", [0, 0.8])
def test_the_same_tokens_with_and_without_drafts(temperature: float, verifier: Any) -> None:
    model, weights = copied()
    options = SamplingOptions(temperature=temperature, seed=3, max_tokens=30)
    constraints = [sg.regex("[a-z]{5,40}"), None, sg.regex("(abc|abd){3,12}")]

    def drawn(drafting: Any) -> list[Any]:
        matchers = [None if one is None else Matcher(one, VOCABULARY) for one in constraints]
        return generate_tokens(model, PROMPTS, matchers, options, drafting=drafting)  # type: ignore[arg-type]

    arguments = {} if verifier is None else {"verifier": verifier}
    speculation = Speculation(
        (NestedLayers(weights, least=0.0), TokenLookup()), controller=Fixed(5), **arguments
    )
    found, plain = drawn(speculation.start(model)), drawn(None)
    assert speculation.counts["accepted"] > 20
    assert not any(record.failed for record in speculation.records)
    if verifier is None or not temperature:
        assert [one.tokens for one in found] == [one.tokens for one in plain]


def test_weights_go_through_a_file(tmp_path: Any) -> None:
    weights = random_weights((1, 3))
    save_weights(weights, tmp_path / "weights")
    drafter = load_drafter(tmp_path / "weights", confidence=0.7, least=0.0)
    assert isinstance(drafter, NestedLayers) and drafter.confidence == 0.7
    assert drafter.sizes == NestedSizes(LAYER, (1, 3))
    drafter.prepare(Model("llama"))


def test_weights_that_do_not_fit_are_refused() -> None:
    weights = random_weights()
    for exits in ((), (2, 1), (0, 1), (1, 1), ("1",), (1000,)):
        with pytest.raises(ModelError, match="do not have the sizes"):
            NestedLayers(replace(weights, sizes={**weights.sizes, "exits": exits}))
    with pytest.raises(ModelError, match="do not have the shapes"):
        NestedLayers(replace(weights, sizes={**weights.sizes, "exits": (1, 2, 3)})).prepare(Model("llama"))
    with pytest.raises(VocabularyMismatch):
        NestedLayers(replace(weights, vocabulary="another")).prepare(Model("llama"))
    with pytest.raises(sg.errors.OptionError, match="confidence"):
        NestedLayers(weights, confidence=1.5)


@pytest.mark.parametrize("branching", [False, True])
def test_rows_of_a_running_batch(branching: bool) -> None:
    """It reads tokens only, so it also drafts where a batch reads trees and rows share a prefix."""
    model, weights = copied()
    speculation = Speculation((NestedLayers(weights, least=0.0),), controller=Fixed(4), branching=branching)
    batch: Any = ContinuousBatch(
        model,
        most_rows=2,
        patience=1e6,
        drafting=speculation.start(model),  # type: ignore[arg-type]
    )
    rows = []
    for number, prompt in enumerate(PROMPTS):
        options = SamplingOptions(temperature=0.5, max_tokens=20, speculate=True)
        row = Row(number, prompt, None, options, VOCABULARY, (1, number))
        row.prepare(model.context_length)
        rows.append(row)
    for row in rows:
        batch.add([row])
    for _ in range(200):
        batch.step()
        if batch.is_idle:
            break
    batch.close()
    assert batch.counts.accepted > 10
    options = SamplingOptions(temperature=0.5, max_tokens=20, seed=1)
    plain = generate_tokens(model, PROMPTS, [None] * len(PROMPTS), options)  # type: ignore[arg-type]
    assert [row.tokens for row in rows] == [one.tokens for one in plain]
    assert not any(record.failed for record in speculation.records)

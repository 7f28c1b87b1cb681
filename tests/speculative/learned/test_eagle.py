"""Drafts of `Eagle`: at each node, the logits are those of the trained network, unrolled over the whole text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.draft_training.unrolling import unrolled  # noqa: E402
from structgen.generation.drafting import RowStates  # noqa: E402
from structgen.models.session import start_session  # noqa: E402
from structgen.speculative.drafters import Context, Start  # noqa: E402
from structgen.speculative.learned import DraftWeights, Eagle  # noqa: E402
from structgen.speculative.learned.eagle import EagleNetwork, EagleSizes  # noqa: E402
from structgen.speculative.learned.layers import LayerSizes  # noqa: E402
from tests.models.tiny import SIZE  # noqa: E402
from tests.speculative.tiny_sessions import VOCABULARY, Model  # noqa: E402

LAYERS = (1, 2)
SIZES = EagleSizes(LayerSizes(hidden=32, heads=4, kv_heads=2, head_size=8, mlp=48), LAYERS)


def random_weights(seed: int = 0, **changes: Any) -> DraftWeights:
    torch.manual_seed(seed)
    network = EagleNetwork(SIZES)
    for parameter in network.parameters():  # no part may be without effect
        torch.nn.init.normal_(parameter, std=0.4)
    rng = np.random.default_rng(seed)
    ids = np.sort(rng.choice(np.arange(2, SIZE), size=20, replace=False))
    given = {
        "kind": "eagle",
        "sizes": SIZES.as_dict(),
        "vocabulary": VOCABULARY.fingerprint,
        "token_ids": ids,
        "tensors": network.state_dict(),
    }
    return DraftWeights(**{**given, **changes})


def wanted(model: Model, weights: DraftWeights, tokens: list[int], read: int) -> np.ndarray:
    """The logits after `tokens`. The model has read the first `read` of them."""
    network = EagleNetwork(SIZES)
    network.load_state_dict(weights.tensors)
    with torch.inference_mode():
        output = model.model(input_ids=torch.tensor([tokens[:read]]), output_hidden_states=True)
        states = torch.stack([output.hidden_states[layer] for layer in LAYERS], dim=2)
        embeddings = model.model.get_input_embeddings()(torch.tensor([tokens[1:]]))
        outputs = unrolled(network, states, embeddings, len(tokens) - read)
        rows = model.model.get_output_embeddings().weight[torch.from_numpy(weights.token_ids)]
        return np.asarray((network.output_norm(outputs[-1][0, -1]) @ rows.T).float())


class Anything:
    """A context's matcher of a row without a constraint."""


@pytest.mark.parametrize("name", ["llama", "gpt2"])
@pytest.mark.parametrize("seed", range(4))
def test_logits_at_nodes_after_any_sequence_of_operations(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    model, weights = Model(name), random_weights(seed)
    drafter = Eagle(weights, most=8, least=0.0, width=2)
    tokens = [int(i) for i in rng.integers(2, SIZE, size=5)]
    session: Any = start_session(model.model, SIZE, [tokens], LAYERS)
    row = drafter.start(Start(tuple(tokens), VOCABULARY, model=model))
    seen = len(tokens)
    checked = 0
    for _ in range(14):
        if rng.random() < 0.25 and len(tokens) > 4:  # a step back
            n = int(rng.integers(1, 4))
            del tokens[len(tokens) - n :]
            held = len(session._tokens[0])
            session.rollback(0, max(0, held - len(tokens)))
            seen = min(seen, len(tokens))
        pending = [int(i) for i in rng.integers(2, SIZE, size=rng.integers(1, 4))]
        tokens += pending
        row.observe(tokens, seen)
        seen, read = len(tokens), len(tokens) - len(pending)
        session.append([tokens[len(session._tokens[0]) : read]])
        hidden = RowStates.of(session, 0, LAYERS, read)
        paths: list[list[int]] = [[]]
        for _ in range(7):  # nodes of a tree, in any order of growth; sometimes one below an unknown one
            path = [
                *paths[int(rng.integers(len(paths)))],
                *(int(i) for i in rng.integers(2, SIZE, size=rng.integers(1, 3))),
            ]
            paths.append(path)
        for path in paths:
            if len(path) > 5:
                continue
            context = Context(
                [*tokens, *path], Anything(), VOCABULARY, drafted=len(path), is_constrained=False
            )
            context.hidden = hidden
            scores = row._known(context)
            if scores is None:
                assert len(path) > 3
                continue
            found = scores.logits
            expected = wanted(model, weights, context.tokens, read)
            np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)
            best = [proposal.tokens[0] for proposal in row.propose(context)]
            assert best == weights.token_ids[np.argsort(-found, kind="stable")[:2]].tolist()
            checked += 1
    assert checked > 60

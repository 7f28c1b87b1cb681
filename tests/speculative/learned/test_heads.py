"""Drafts of `Medusa` and `Hydra`: at each node, the logits are those of the heads over the whole text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.draft_training.heads import head_outputs  # noqa: E402
from structgen.errors import ModelError  # noqa: E402
from structgen.generation import SamplingOptions, generate_tokens  # noqa: E402
from structgen.generation.drafting import RowStates  # noqa: E402
from structgen.models.session import start_session  # noqa: E402
from structgen.speculative.controllers import Fixed  # noqa: E402
from structgen.speculative.drafters import Context, Start  # noqa: E402
from structgen.speculative.learned import DraftWeights, Hydra, Medusa, load_weights, save_weights  # noqa: E402
from structgen.speculative.learned.heads import HeadSizes, HeadsNetwork  # noqa: E402
from structgen.speculative.learned.layers import LayerSizes  # noqa: E402
from structgen.speculative.speculation import Speculation  # noqa: E402
from tests.models.tiny import SIZE  # noqa: E402
from tests.speculative.tiny_sessions import VOCABULARY, Model  # noqa: E402

LAYER = LayerSizes(hidden=32, heads=4, kv_heads=2, head_size=8, mlp=48)
MEDUSA = HeadSizes(hidden=32, layer=2, count=5)
HYDRA = replace(MEDUSA, reads=5)
DESIGNS = {
    "medusa": MEDUSA,
    "medusa of several blocks": replace(MEDUSA, blocks=3, inner=24),
    "medusa over the context": replace(MEDUSA, context_layer=LAYER),
    "hydra": HYDRA,
    "hydra++": replace(HYDRA, blocks=2, inner=40, context_layer=LAYER),
    "clover": replace(MEDUSA, draft_layer=LAYER, context_layer=LAYER),
    "chimera": replace(MEDUSA, reads=1, trigrams=True, context_layer=LAYER),
    "everything": replace(HYDRA, reads=2, trigrams=True, draft_layer=LAYER, context_layer=LAYER),
}


def drafter_of(weights: DraftWeights, **options: Any) -> Medusa | Hydra:
    return (Medusa if weights.kind == "medusa" else Hydra)(weights, **options)


def weights_of(sizes: HeadSizes, network: HeadsNetwork, token_ids: Any) -> DraftWeights:
    kind = "hydra" if sizes.follows_draft else "medusa"
    return DraftWeights(
        kind, sizes.as_dict(), VOCABULARY.fingerprint, np.asarray(token_ids), network.state_dict()
    )


def random_weights(sizes: HeadSizes, seed: int = 0) -> DraftWeights:
    torch.manual_seed(seed)
    network = HeadsNetwork(sizes)
    for parameter in network.parameters():  # no part may be without effect
        torch.nn.init.normal_(parameter, std=0.4)
    rng = np.random.default_rng(seed)
    return weights_of(sizes, network, np.sort(rng.choice(np.arange(2, SIZE), size=20, replace=False)))


def last_states(model: Model, tokens: list[int]) -> Any:
    output = model.model(input_ids=torch.tensor([tokens]), output_hidden_states=True)
    return output.hidden_states[-1]


def wanted(model: Model, sizes: HeadSizes, weights: DraftWeights, tokens: list[int], read: int) -> np.ndarray:
    """The logits after `tokens`. The model has read the first `read` of them."""
    network = HeadsNetwork(sizes)
    network.load_state_dict(weights.tensors)
    with torch.inference_mode():
        whole = [*tokens, *[2] * sizes.count][: read + sizes.count]  # what follows has no effect
        embeddings = model.model.get_input_embeddings()(torch.tensor([whole]))
        outputs = head_outputs(network, last_states(model, tokens[:read]), embeddings)
        rows = model.model.get_output_embeddings().weight[torch.from_numpy(weights.token_ids)]
        return np.asarray((outputs[len(tokens) - read - 1][0, -1] @ rows.T).float())


class Anything:
    """A context's matcher of a row without a constraint."""


@pytest.mark.parametrize("name", ["llama", "gpt2"])
@pytest.mark.parametrize("design", list(DESIGNS))
def test_logits_at_nodes_after_any_sequence_of_operations(name: str, design: str) -> None:
    sizes, seed = DESIGNS[design], len(design)
    rng = np.random.default_rng(seed)
    model, weights = Model(name), random_weights(sizes, seed)
    drafter = drafter_of(weights, most=8, least=0.0, width=2)
    tokens = [int(i) for i in rng.integers(2, SIZE, size=5)]
    session: Any = start_session(model.model, SIZE, [tokens], (1, 2))
    row: Any = drafter.start(Start(tuple(tokens), VOCABULARY, model=model))
    seen = len(tokens)
    checked = beyond = 0
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
        hidden = RowStates.of(session, 0, (1, 2), read)
        paths: list[list[int]] = [[]]
        for _ in range(7):  # nodes of a tree, in any order of growth; sometimes one below an unknown one
            path = [
                *paths[int(rng.integers(len(paths)))],
                *(int(i) for i in rng.integers(2, SIZE, size=rng.integers(1, 3))),
            ]
            paths.append(path)
        for path in paths:
            context = Context(
                [*tokens, *path], Anything(), VOCABULARY, drafted=len(path), is_constrained=False
            )
            context.hidden = hidden
            scores = row._known(context)
            if len(pending) + len(path) > sizes.count:
                assert scores is None and not list(row.propose(context))
                beyond += 1
                continue
            expected = wanted(model, sizes, weights, context.tokens, read)
            np.testing.assert_allclose(scores.logits, expected, rtol=2e-3, atol=2e-3)
            best = [proposal.tokens[0] for proposal in row.propose(context)]
            ranked = weights.token_ids[np.argsort(-scores.logits, kind="stable")].tolist()
            assert best and best == ranked[: len(best)]  # a token without any probability is not proposed
            checked += 1
    assert checked > 60 and beyond > 3


@pytest.mark.parametrize("design", ["medusa", "hydra", "clover", "chimera"])
def test_batches_draw_the_same_tokens(design: str) -> None:
    model = Model("llama")
    drafter = drafter_of(random_weights(DESIGNS[design]), least=0.0)
    prompts = [[5, 6, 7, 5, 6, 7, 5, 6], [9, 9, 9, 9], [3, 4, 5, 6, 3, 4]]
    for temperature in (0.0, 1.0):
        options = SamplingOptions(temperature=temperature, seed=3, max_tokens=30)
        plain = generate_tokens(model, prompts, [None] * 3, options)  # type: ignore[arg-type]
        speculation = Speculation([drafter], controller=Fixed(4))
        found = generate_tokens(
            model,  # type: ignore[arg-type]
            prompts,
            [None] * 3,
            options,
            drafting=speculation.start(model),  # type: ignore[arg-type]
        )
        assert [one.tokens for one in found] == [one.tokens for one in plain]
        assert sum(one.drafted_tokens for one in found) > 0


def trained(model: Model, sizes: HeadSizes, text: list[int], prompt: int) -> DraftWeights:
    """Heads that were trained on one text."""
    torch.manual_seed(0)
    network = HeadsNetwork(sizes)
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    head = model.model.get_output_embeddings().weight.detach()
    with torch.no_grad():
        embeddings = model.model.get_input_embeddings()(torch.tensor([text]))
        states = last_states(model, text[: len(text) - sizes.count])
    count = states.shape[1]
    for _ in range(150):
        loss = torch.zeros(())
        for k, output in enumerate(head_outputs(network, states, embeddings), 1):
            logits = output[0, prompt - 1 :] @ head.T
            targets = torch.tensor(text[prompt + k : count + k + 1])
            loss = loss + torch.nn.functional.cross_entropy(logits[: len(targets)], targets)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return weights_of(sizes, network, np.arange(SIZE))


@pytest.mark.parametrize("design", ["medusa", "hydra", "hydra++", "clover", "chimera"])
def test_heads_that_were_trained_on_one_text_predict_it(design: str, tmp_path: Any) -> None:
    model, sizes, prompt = Model("llama"), replace(DESIGNS[design], count=3), [5, 9, 3, 17, 8]
    if sizes.reads > 3:
        sizes = replace(sizes, reads=3)
    options = SamplingOptions(temperature=1.0, seed=1, max_tokens=40)
    (plain,) = generate_tokens(model, [prompt], [None], options)  # type: ignore[arg-type]
    assert len(plain.tokens) == 40 and len(set(plain.tokens)) > 12  # a text that is no repetition
    weights = trained(model, sizes, [*prompt, *plain.tokens, 2, 2, 2], len(prompt))
    save_weights(weights, tmp_path / "heads.safetensors")
    drafter = drafter_of(load_weights(tmp_path / "heads.safetensors"), width=1)
    speculation = Speculation([drafter], controller=Fixed(3), branching=False)
    model.passes.clear()
    (found,) = generate_tokens(
        model,  # type: ignore[arg-type]
        [prompt],
        [None],
        options,
        drafting=speculation.start(model),  # type: ignore[arg-type]
    )
    assert found.tokens == plain.tokens
    assert len(plain.tokens) / len(model.passes) > 3
    assert found.accepted_tokens >= found.drafted_tokens - 3  # those after the end


def test_weights_that_do_not_fit_are_refused() -> None:
    model = Model("llama")

    def start(drafter: Any) -> None:
        drafter.start(Start((5, 6), VOCABULARY, model=model))

    with pytest.raises(ModelError, match="model of 3 layers; this one has 2"):
        start(Medusa(random_weights(replace(MEDUSA, layer=3))))
    with pytest.raises(ModelError, match="heads read draft tokens"):
        Medusa(replace(random_weights(HYDRA), kind="medusa"))
    with pytest.raises(ModelError, match="count is 0"):
        Medusa(replace(random_weights(MEDUSA), sizes={**MEDUSA.as_dict(), "count": 0}))
    with pytest.raises(ModelError, match="shapes of their sizes"):
        start(Medusa(replace(random_weights(MEDUSA), sizes={**MEDUSA.as_dict(), "count": 4})))

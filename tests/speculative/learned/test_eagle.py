"""Drafts of `Eagle`: at each node, the logits are those of the trained network, unrolled over the whole text."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.draft_training.unrolling import unrolled  # noqa: E402
from structgen.errors import ModelError  # noqa: E402
from structgen.generation.drafting import RowStates  # noqa: E402
from structgen.models.session import start_session  # noqa: E402
from structgen.speculative.drafters import Context, Start  # noqa: E402
from structgen.speculative.learned import DraftWeights, Eagle  # noqa: E402
from structgen.speculative.learned.eagle import EagleNetwork, EagleSizes, FeatureSampler  # noqa: E402
from structgen.speculative.learned.layers import DraftLayer, LayerSizes  # noqa: E402
from tests.models.tiny import SIZE  # noqa: E402
from tests.speculative.tiny_sessions import VOCABULARY, Model  # noqa: E402

LAYERS = (1, 2)
SIZES = EagleSizes(LayerSizes(hidden=32, heads=4, kv_heads=2, head_size=8, mlp=48), LAYERS)
VARIANTS = {
    "plain": SIZES,
    "feature sampling": replace(SIZES, sampler=24),
    "second output": replace(SIZES, second_output=True),
    "both": replace(SIZES, sampler=24, second_output=True),
    "both, with embeddings fused": EagleSizes(
        SIZES.layer,
        (2,),
        input_norms="none",
        fuses_embeddings=True,
        sampler=40,
        second_output=True,
    ),
    "two tokens a pass": replace(SIZES, tokens_a_pass=2),
    "three tokens a pass, and both": replace(SIZES, sampler=24, second_output=True, tokens_a_pass=3),
}


def random_weights(seed: int = 0, sizes: EagleSizes = SIZES, **changes: Any) -> DraftWeights:
    torch.manual_seed(seed)
    network = EagleNetwork(sizes)
    for parameter in network.parameters():  # no part may be without effect
        torch.nn.init.normal_(parameter, std=0.4)
    rng = np.random.default_rng(seed)
    ids = np.sort(rng.choice(np.arange(2, SIZE), size=20, replace=False))
    given = {
        "kind": "eagle",
        "sizes": sizes.as_dict(),
        "vocabulary": VOCABULARY.fingerprint,
        "token_ids": ids,
        "tensors": network.state_dict(),
    }
    return DraftWeights(**{**given, **changes})


def wanted(model: Model, weights: DraftWeights, tokens: list[int], read: int) -> np.ndarray:
    """The logits after `tokens`. The model has read the first `read` of them."""
    sizes = EagleSizes.from_dict(weights.sizes)
    network = EagleNetwork(sizes)
    network.load_state_dict(weights.tensors)
    with torch.inference_mode():
        output = model.model(input_ids=torch.tensor([tokens[:read]]), output_hidden_states=True)
        states = torch.stack([output.hidden_states[layer] for layer in sizes.hidden_layers], dim=2)
        embeddings = model.model.get_input_embeddings()(torch.tensor([tokens[1:]]))
        outputs = unrolled(network, states, embeddings, len(tokens) - read)
        rows = model.model.get_output_embeddings().weight[torch.from_numpy(weights.token_ids)]
        return np.asarray((network.predicted(outputs[-1][0, -1]) @ rows.T).float())


class Anything:
    """A context's matcher of a row without a constraint."""


@pytest.mark.parametrize(
    ("name", "variant", "seed"),
    [
        *((name, "plain", seed) for name in ("llama", "gpt2") for seed in range(4)),
        *(("llama", variant, seed) for variant in VARIANTS if variant != "plain" for seed in range(2)),
    ],
)
def test_logits_at_nodes_after_any_sequence_of_operations(name: str, variant: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    model, weights = Model(name), random_weights(seed, VARIANTS[variant])
    layers = VARIANTS[variant].hidden_layers
    drafter = Eagle(weights, most=8, least=0.0, width=2)
    tokens = [int(i) for i in rng.integers(2, SIZE, size=5)]
    session: Any = start_session(model.model, SIZE, [tokens], layers)
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
        hidden = RowStates.of(session, 0, layers, read)
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


def test_the_sampler_lets_the_embedding_pick_from_the_state() -> None:
    """The sum that the definition states, number by number."""
    torch.manual_seed(0)
    sampler = FeatureSampler(6, 10, 1e-5).double()
    for parameter in sampler.parameters():
        torch.nn.init.normal_(parameter)
    state, embedding = torch.randn(2, 6, dtype=torch.float64).unbind(0)
    tensors = {name: tensor.detach().numpy() for name, tensor in sampler.named_parameters()}

    def normed(vector: Any, name: str) -> np.ndarray:
        array = np.asarray(vector, dtype=np.float32).astype(np.float64)
        return np.asarray(array / np.sqrt((array**2).mean() + 1e-5) * tensors[f"{name}.weight"])

    gate = tensors["gate.weight"] @ normed(embedding, "embedding_norm")
    inner = gate / (1 + np.exp(-gate)) * (tensors["up.weight"] @ normed(state, "state_norm"))
    wanted = state.numpy() + tensors["down.weight"] @ inner
    with torch.inference_mode():
        found = sampler(state[None], embedding[None])[0].numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_two_outputs_share_all_but_the_last_matrix() -> None:
    """Each output is that of a layer of one output with its half of the last matrix."""
    torch.manual_seed(0)
    sizes, states, embeddings = SIZES.layer, *torch.randn(2, 1, 5, SIZES.hidden)
    both = DraftLayer(sizes, outputs=2)
    found = both(states, embeddings).chunk(2, -1)
    for half, output in enumerate(found):
        single = DraftLayer(sizes)
        tensors = both.state_dict()
        tensors["down.weight"] = tensors["down.weight"].chunk(2)[half]
        single.load_state_dict(tensors)
        torch.testing.assert_close(single(states, embeddings), output)
    network = EagleNetwork(replace(SIZES, second_output=True, normed_output=False))
    whole = torch.cat(found, -1)
    assert torch.equal(network.predicted(whole), found[0])
    assert torch.equal(network.continued(whole), found[1])


NEW = ("sampler", "second_output", "tokens_a_pass")


def test_weights_that_were_written_before_the_options_existed_load() -> None:
    weights = random_weights()
    older = {name: size for name, size in weights.sizes.items() if name not in NEW}
    assert EagleSizes.from_dict(json.loads(json.dumps(older))) == SIZES
    assert Eagle(replace(weights, sizes=older)).sizes == SIZES


@pytest.mark.parametrize(
    "wrong",
    [
        {"sampler": -1},
        {"sampler": "wide"},
        {"sampler": 1 << 40},
        {"second_output": True, "mlp": 0},
        {"tokens_a_pass": 0},
        {"tokens_a_pass": 1000},
    ],
)
def test_sizes_that_do_not_make_sense_are_an_error(wrong: dict[str, Any]) -> None:
    weights = random_weights()
    layer = {**weights.sizes["layer"], **{name: size for name, size in wrong.items() if name == "mlp"}}
    rest = {name: size for name, size in wrong.items() if name != "mlp"}
    with pytest.raises(ModelError, match="do not have the sizes"):
        Eagle(replace(weights, sizes={**weights.sizes, "layer": layer, **rest}))


def test_one_pass_gives_the_tokens_of_a_block() -> None:
    """A path of five tokens takes three passes, and equally deep nodes of a block have the same logits."""
    model, weights = Model("llama"), random_weights(0, VARIANTS["two tokens a pass"])
    row = Eagle(weights, most=8, least=0.0).start(Start((3, 4, 5), VOCABULARY, model=model))
    tokens = [3, 4, 5, 6, 7]
    session: Any = start_session(model.model, SIZE, [tokens[:-1]], LAYERS)
    row.observe(tokens, 0)
    passes = 0
    step = row._cache.step

    def counted(*given: Any) -> Any:
        nonlocal passes
        passes += 1
        return step(*given)

    row._cache.step = counted

    def logits(path: list[int]) -> np.ndarray:
        context = Context([*tokens, *path], Anything(), VOCABULARY, drafted=len(path), is_constrained=False)
        context.hidden = RowStates.of(session, 0, LAYERS, len(tokens) - 1)
        return row._known(context).logits

    first = logits([])
    assert not np.array_equal(first, logits([8])) and passes == 0
    assert np.array_equal(logits([8]), logits([9])) and passes == 0
    for length in range(2, 6):
        logits([8, 9, 10, 11, 12][:length])
    assert passes == 2  # after two tokens, and after four
    assert not np.array_equal(logits([8, 9]), logits([9, 9])) and passes == 3


@pytest.mark.parametrize(("unread", "drafted"), [(0, 4), (4, 0), (2, 2), (0, 5), (5, 0), (3, 2), (200, 0)])
def test_a_node_far_from_what_the_model_has_read_is_left_out(unread: int, drafted: int) -> None:
    """Tokens without states of the model are `unread` ones of the row, and drafts of others: four at most."""
    model = Model("llama")
    row = Eagle(random_weights(), most=8, least=0.0).start(Start((3, 4, 5), VOCABULARY, model=model))
    read, more = [3, 4, 5, 6], [3 + number % 9 for number in range(unread + drafted)]
    session: Any = start_session(model.model, SIZE, [read], LAYERS)
    row.observe([*read, 7, *more[:unread]], 0)
    passes, step = 0, row._cache.step

    def counted(*given: Any) -> Any:
        nonlocal passes
        passes += 1
        return step(*given)

    row._cache.step = counted
    context = Context([*read, 7, *more], Anything(), VOCABULARY, drafted=drafted, is_constrained=False)
    context.hidden = RowStates.of(session, 0, LAYERS, len(read))
    is_near = unread + drafted <= 4
    assert (row._known(context) is not None) == is_near
    assert passes == (unread + drafted if is_near else 0)


def test_a_text_shorter_than_a_block_is_not_drafted() -> None:
    model, weights = Model("llama"), random_weights(0, VARIANTS["three tokens a pass, and both"])
    tokens = [3, 4, 5]
    row = Eagle(weights, least=0.0).start(Start(tuple(tokens), VOCABULARY, model=model))
    session: Any = start_session(model.model, SIZE, [tokens[:-1]], LAYERS)
    row.observe(tokens, 0)
    context = Context(tokens, Anything(), VOCABULARY, drafted=0, is_constrained=False)
    context.hidden = RowStates.of(session, 0, LAYERS, 2)
    assert row._known(context) is None

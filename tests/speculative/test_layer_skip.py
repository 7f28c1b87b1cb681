"""Drafts by models of `transformers`: a smaller one, and the model itself without some of its layers."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, MixtralConfig, Qwen2Config, Qwen3Config

import structgen as sg
from structgen.errors import ModelError, OptionError
from structgen.generation import Generation, SamplingOptions, generate_tokens
from structgen.matcher import Matcher
from structgen.speculative.controllers import Costs, Fixed
from structgen.speculative.drafters import Context, Start
from structgen.speculative.model_drafters import DraftModel, LayerSkip, _Skeleton
from structgen.speculative.speculation import Speculation
from structgen.speculative.verifiers import Recursive, Rejection
from tests.inference.toys import random_distribution
from tests.models.tiny import SIZE
from tests.oracles.naive_matcher import NaiveMatcher
from tests.oracles.toy_model import ToyModel
from tests.speculative.tiny_sessions import DEAD, NAIVE, VOCABULARY, Model, Watcher

KINDS = {"llama": LlamaConfig, "qwen2": Qwen2Config, "qwen3": Qwen3Config, "mixtral": MixtralConfig}
LAYERS = 4


def deep_model(kind: str = "llama", idle: tuple[int, ...] = ()) -> Any:
    """A model of four layers; the `idle` ones change nothing."""
    torch.manual_seed(11)
    config = KINDS[kind](
        vocab_size=SIZE,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        **({"num_local_experts": 2} if kind == "mixtral" else {}),
    )
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)
        for place in idle:
            layer = model.model.layers[place]
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
    return model.eval()


class Deep(Model):
    """The same as a language model."""

    def __init__(self, kind: str = "llama", idle: tuple[int, ...] = ()) -> None:
        super().__init__("llama")
        self.model = deep_model(kind, idle)


class Even(Costs):
    """No pass is cheaper for being longer."""

    def padded(self, rows: int, tokens: int) -> int:
        return tokens


def speculating(*drafters: Any, **options: Any) -> Speculation:
    speculation = Speculation(drafters, controller=Fixed(5), **options)
    speculation.costs = Even()
    return speculation


SOME = [token for token in range(SIZE) if token % 7]
PROMPTS = [[5, 6, 7, 5, 6, 7, 5, 6], [9, 9, 9, 9], [7, 8]]


def drawn(model: Any, temperature: float, drafting: Any = None, most: int = 30) -> list[Generation]:
    """A constrained row, a free one, and one that goes back from dead ends."""
    matchers = [
        Matcher(sg.regex("(abc|abd|xy){3,12}"), VOCABULARY),
        None,
        NaiveMatcher([b"ab", b"abc", b"ba"], NAIVE, DEAD),
    ]
    options = [
        SamplingOptions(temperature=temperature, seed=(5, row), max_tokens=most, forced=row > 0)
        for row in range(3)
    ]
    return generate_tokens(model, PROMPTS, matchers, options, drafting=drafting)


def drafters(name: str, model: Any) -> list[Any]:
    return {
        "the same": [DraftModel(model, least=0.0)],
        "another": [DraftModel(Model("gpt2"), least=0.0)],
        "steps back with pains": [DraftModel(Model("mistral"), least=0.0)],
        "layers": [LayerSkip(0.5, least=0.0, refresh=None)],
        "other layers": [LayerSkip(0.5, least=0.0, refresh=4), DraftModel(Model("gpt2"))],
        "some tokens": [DraftModel(model, least=0.0, token_ids=SOME)],
        "layers, some tokens": [LayerSkip(0.5, least=0.0, refresh=4, token_ids=SOME)],
    }[name]


@pytest.mark.parametrize("branching", [False, True])
@pytest.mark.parametrize("temperature", [0, 0.7, 1.5])
@pytest.mark.parametrize(
    "name",
    [
        "the same",
        "another",
        "steps back with pains",
        "layers",
        "other layers",
        "some tokens",
        "layers, some tokens",
    ],
)
def test_the_same_tokens(name: str, temperature: float, branching: bool) -> None:
    model = Deep()
    plain = drawn(model, temperature)
    speculation = speculating(*drafters(name, model), branching=branching)
    for _ in range(2):  # the second time something has been learned
        found = drawn(model, temperature, speculation.start(model))
        for one, other in zip(found, plain, strict=True):
            assert (one.tokens, one.finish, one.retries) == (other.tokens, other.finish, other.retries)
            assert one.log_weight == pytest.approx(other.log_weight, abs=1e-3)
    assert speculation.counts["drafted"] > 0
    assert speculation.counts["accepted"] > 0 or name in ("another", "steps back with pains")


@pytest.mark.parametrize("verifier", [Rejection(), Recursive()], ids=lambda one: type(one).__name__)
def test_greedy_texts_are_the_same_under_verifiers_that_want_distributions(verifier: Any) -> None:
    model = Deep()
    for drafter in (
        LayerSkip(0.5, least=0.0),
        DraftModel(Model("gpt2"), least=0.0),
        LayerSkip(0.5, least=0.0, refresh=4, token_ids=SOME),
        DraftModel(Model("gpt2"), least=0.0, token_ids=SOME),
    ):
        speculation = speculating(drafter, verifier=verifier, branching=True)
        found = drawn(model, 0, speculation.start(model))
        assert [one.tokens for one in found] == [one.tokens for one in drawn(model, 0)]
        assert speculation.counts["drafted"] > 0


def test_a_draft_model_that_is_the_model_is_right() -> None:
    model = Deep()
    options = SamplingOptions(temperature=0, max_tokens=30)
    (plain,) = generate_tokens(model, [[5, 6]], [None], options)
    speculation = speculating(DraftModel(Deep(), most=5, least=0.0, width=1))
    model.passes.clear()
    (found,) = generate_tokens(model, [[5, 6]], [None], options, drafting=speculation.start(model))
    assert found.tokens == plain.tokens and len(plain.tokens) == 30
    assert found.accepted_tokens == found.drafted_tokens > 0
    assert found.timing.forward_passes < 12


# -- layers


@pytest.mark.parametrize("kind", KINDS)
def test_a_skeleton_with_all_layers_is_the_model(kind: str) -> None:
    model = Deep(kind)
    rows = [[5, 6, 7, 8, 9], [3], [11, 12, 13]]
    whole, all_layers = model.start(rows), _Skeleton(model, list(range(LAYERS))).start(rows)
    for session in (whole, all_layers):
        session.append([[7], [8, 9], []])
        session.rollback(0, 2)
        session.append([[4], [], [5]])
    np.testing.assert_array_equal(whole.logits(), all_layers.logits())


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("layers", [[0], [3], [0, 3], [1, 2, 3]])
def test_a_skeleton_is_the_model_whose_other_layers_change_nothing(kind: str, layers: list[int]) -> None:
    silent = Deep(kind, tuple(place for place in range(LAYERS) if place not in layers))
    skeleton = _Skeleton(Deep(kind), layers)
    with torch.inference_mode():
        (expected,) = silent.model(input_ids=torch.tensor([[5, 6, 7, 8]])).logits[:, -1]
    session: Any = skeleton.start([[5, 6], [9]])
    session.append([[7, 8], [3]])
    np.testing.assert_allclose(session.logits()[0], expected, rtol=1e-3, atol=1e-4)
    assert len(session._cache.layers) == len(layers)


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_itself_stays_as_it_is(kind: str) -> None:
    model = Deep(kind)
    ids = torch.tensor([[5, 6, 7, 8, 9]])

    def state() -> tuple[Any, ...]:
        with torch.inference_mode():
            logits = model.model(input_ids=ids).logits.numpy()
        layers = model.model.model.layers
        places = [layer.self_attn.layer_idx for layer in layers]
        return model.model.config.to_dict(), places, [id(layer) for layer in layers], logits

    before = state()
    speculation = speculating(LayerSkip(0.5, least=0.0, refresh=6))
    drawn(model, 0.7, speculation.start(model))
    assert speculation.counts["drafted"] > 0
    for one, other in zip(before[:-1], state()[:-1], strict=True):
        assert one == other
    np.testing.assert_array_equal(before[-1], state()[-1])
    assert model.start([[5, 6]])._model is model.model


def test_a_forward_that_was_replaced_does_not_run_the_whole_model() -> None:
    """As `torch.compile(model.forward)` is put on a model."""
    model, plain = Deep(), _Skeleton(Deep(), [0, 3]).start([[5, 6, 7]]).logits()
    for module in (model.model, model.model.model, model.model.model.layers[0]):
        module.forward = functools.wraps(type(module).forward)(
            functools.partial(type(module).forward, module)
        )
    np.testing.assert_array_equal(_Skeleton(model, [0, 3]).start([[5, 6, 7]]).logits(), plain)


def test_hidden_states_of_the_model_are_its_own() -> None:
    """Those who want hidden states hook into layers, which the skeleton shares."""
    model, watcher = Deep(), Watcher()
    speculation = speculating(LayerSkip(0.5, least=0.0, refresh=5), watcher, branching=True)
    drawn(model, 0.7, speculation.start(model))
    reported = [(tokens[:-1], hidden) for tokens, hidden in watcher.seen if hidden is not None]
    lone = [(tokens, hidden) for tokens, hidden in reported if tokens[:8] == PROMPTS[0]]
    assert len(lone) > 3
    for tokens, hidden in lone:
        with torch.inference_mode():
            output = deep_model()(input_ids=torch.tensor([tokens]), output_hidden_states=True)
        assert len(output.hidden_states) == LAYERS + 1
        wanted = torch.stack([output.hidden_states[layer][0] for layer in (1, 2)], dim=1)
        np.testing.assert_allclose(hidden[0], wanted, rtol=1e-3, atol=2e-4)


def test_layers_that_change_nothing_are_skipped_for_nothing() -> None:
    model = Deep(idle=(1, 2))
    drafter = LayerSkip(0.5, least=0.0, refresh=None)
    options = SamplingOptions(temperature=0, max_tokens=30)
    speculation = speculating(drafter)
    (found,) = generate_tokens(model, [[5, 6]], [None], options, drafting=speculation.start(model))
    assert drafter.layers == [0, 3] and len(found.tokens) > 20
    assert found.accepted_tokens == found.drafted_tokens > 0
    assert found.timing.forward_passes < len(found.tokens) / 2


def test_better_layers_are_found_and_kept() -> None:
    model = Deep(idle=(2, 3))
    drafter = LayerSkip(0.5, least=0.0, refresh=8)
    options = SamplingOptions(temperature=0.7, seed=3, max_tokens=120)
    speculation = speculating(drafter)
    generate_tokens(model, [[5, 6]], [None], options, drafting=speculation.start(model))
    assert drafter.layers == [0, 1] and drafter.tried >= drafter.changed >= 1
    changed, kept = drafter.changed, drafter.draft(model)
    generate_tokens(model, [[5, 7]], [None], options, drafting=speculation.start(model))
    assert (drafter.layers, drafter.changed, drafter.draft(model)) == ([0, 1], changed, kept), (
        "nothing is better"
    )
    assert drafter.tried > changed


def test_others_are_not_tried_on_a_few_tokens_nor_where_there_are_no_others() -> None:
    drafter, model = LayerSkip(0.5), Deep()
    drafter.start(Start([5], VOCABULARY, model=model))
    assert not drafter.try_another(model, [5, 6, 7]) and drafter.tried == 0
    drafter.try_another(model, list(range(5, 25)))
    assert drafter.tried == 1


@pytest.mark.parametrize("keep", [0.01, 0.25, 0.5, 0.75, 0.99])
def test_some_layers_are_kept_and_some_are_not(keep: float) -> None:
    drafter = LayerSkip(keep)
    row = drafter.start(Start([5], VOCABULARY, model=Deep()))
    assert len(drafter.layers) == max(1, min(LAYERS - 1, round(keep * LAYERS))) and drafter.layers[0] == 0
    assert len(drafter.layers) == 1 or drafter.layers[-1] == LAYERS - 1
    assert len(list(row.propose(Context([5, 6], None, VOCABULARY)))) == 1


def test_another_model_has_layers_of_its_own() -> None:
    drafter = LayerSkip(0.5, refresh=8)
    one, other = Deep(), Deep("qwen2")
    row: Any = drafter.start(Start([5], VOCABULARY, model=one))
    before = drafter.draft(one)
    drafter.start(Start([5], VOCABULARY, model=one))
    assert drafter.draft(one) is before
    drafter.start(Start([5], VOCABULARY, model=other))
    assert type(drafter.draft(other).model) is type(other.model) and drafter.draft(one) is None
    row.observe(list(range(5, 25)), 1)  # a text of the first model goes on with its layers
    assert row._draft is before and drafter.tried == 0


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (Model("gpt2"), "a GPT2LMHeadModel"),
        (Model("bloom"), "a BloomForCausalLM"),
        (Model("qwen3_next"), "a Qwen3NextForCausalLM"),  # some of its layers have no attention
        (ToyModel(VOCABULARY, random_distribution(1, SIZE)), "a ToyModel"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_models_whose_layers_cannot_be_skipped_are_named(model: Any, name: str) -> None:
    with pytest.raises(ModelError, match=f"layers of {name} cannot be skipped") as reported:
        LayerSkip().start(Start([5], VOCABULARY, model=model))
    assert "self_attn" in str(reported.value)


def test_bad_arguments_and_models_are_reported_to_the_caller() -> None:
    model = Model("gpt2")
    drafting = speculating(LayerSkip()).start(model)
    with pytest.raises(ModelError, match="GPT2LMHeadModel"):
        generate_tokens(model, [[5]], [None], SamplingOptions(max_tokens=4), drafting=drafting)
    for keep in (0, 1, True, "half", -0.5):
        with pytest.raises(OptionError, match="above 0 and below 1"):
            LayerSkip(keep)  # type: ignore[arg-type]

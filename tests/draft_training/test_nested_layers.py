"""Training of draft models with exits: the copy of the model's layers, all exits together, and on-policy batches."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import structgen as sg  # noqa: E402
from structgen.draft_training.features import compute_features  # noqa: E402
from structgen.draft_training.first_layers import first_layers  # noqa: E402
from structgen.draft_training.guesses import guesses_in_texts  # noqa: E402
from structgen.draft_training.masks import TextMasks  # noqa: E402
from structgen.draft_training.nesting import nested_outputs  # noqa: E402
from structgen.draft_training.on_policy import OnPolicy, draw_answers  # noqa: E402
from structgen.draft_training.recipes import Recipe, frozen_rows, layers_read, train_drafter  # noqa: E402
from structgen.draft_training.texts import Text  # noqa: E402
from structgen.draft_training.training import TrainingOptions  # noqa: E402
from structgen.errors import ModelError, OptionError  # noqa: E402
from structgen.generation import SamplingOptions, generate_tokens  # noqa: E402
from structgen.matcher import Matcher  # noqa: E402
from structgen.speculative import Fixed, Speculation  # noqa: E402
from structgen.speculative.learned import DraftWeights, load_drafter, save_weights  # noqa: E402
from structgen.speculative.learned.layers import LayerSizes  # noqa: E402
from structgen.speculative.learned.nested_layers import NestedNetwork  # noqa: E402
from structgen.speculative.learned.output_layers import LogitMap  # noqa: E402
from tests.draft_training.test_training import (  # noqa: E402
    OPTIONS,
    Tiny,
    assert_interruption_changes_nothing,
    some_texts,
)
from tests.models.tiny import SIZE  # noqa: E402
from tests.speculative.deep_models import DeepModel  # noqa: E402
from tests.speculative.tiny_sessions import VOCABULARY, Model  # noqa: E402

LAYER = LayerSizes(hidden=32, heads=4, kv_heads=2, head_size=8, mlp=48)
SHORT = dataclasses.replace(OPTIONS, epochs=3, loss="forward-kl")


class Deep(Tiny):
    """A model of four layers, of which `layers` may be drafted with."""

    def __init__(self) -> None:
        super().__init__()
        self.model = DeepModel().model


def some_features(model: Tiny, path: Path, texts: list[Text] | None = None) -> Any:
    return compute_features(model, texts or some_texts(12), path, layers_read(model), most_bytes=1 << 20)


@pytest.mark.parametrize("exits", [(1,), (1, 3), (2,)])
def test_a_draft_model_starts_as_the_models_first_layers(exits: tuple[int, ...]) -> None:
    """Each exit is the model after so many layers, with its own final norm: what is called the logit lens."""
    model = Deep()
    network = first_layers(model, LAYER, exits)
    tokens = torch.tensor([[5, 9, 3, 17, 8, 40], [2, 2, 7, 30, 11, 12]])
    with torch.inference_mode():
        states = model.model(input_ids=tokens, output_hidden_states=True).hidden_states
        found = network(model.model.get_input_embeddings()(tokens))
        for exit_, output in zip(exits, found, strict=True):
            torch.testing.assert_close(output, model.model.model.norm(states[exit_]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["gpt2", "longrope"])
def test_models_whose_layers_are_of_another_form(name: str) -> None:
    model = Model(name)
    with pytest.raises(ModelError, match="not of Llama's form"):
        first_layers(model, LAYER, (1,))  # type: ignore[arg-type]


def test_a_model_that_computes_something_else_with_the_same_parts() -> None:
    model = Tiny()
    layer = model.model.model.layers[0]
    layer.mlp.act_fn = torch.nn.GELU()
    with pytest.raises(ModelError, match="not of Llama's form"):
        first_layers(model, LAYER, (1,))


@pytest.mark.parametrize("exits", [(2,), (1, 2), (3,)])
def test_a_draft_model_has_fewer_layers_than_the_model(exits: tuple[int, ...]) -> None:
    with pytest.raises(OptionError, match="the model no more than 2"):
        first_layers(Tiny(), LAYER, exits)


def test_exits_ascend() -> None:
    with pytest.raises(OptionError, match="ascending"):
        first_layers(Deep(), LAYER, (2, 1))


def test_the_outputs_are_those_of_a_plain_pass_at_the_positions_of_each_step() -> None:
    network = first_layers(Deep(), LAYER, (1, 2, 3))
    embeddings = torch.randn(2, 9, 32)
    outputs = nested_outputs(network, embeddings, 2)
    first, second, last = network(embeddings)
    wanted = [last[:, 1:8], last[:, 2:9], first[:, 1:8], second[:, 1:8]]
    assert len(outputs) == len(wanted)
    for found, expected in zip(outputs, wanted, strict=True):
        torch.testing.assert_close(found, expected)


def test_each_exit_learns_one_text_and_then_drafts_it(tmp_path: Path) -> None:
    model = Deep()
    (answer,) = generate_tokens(
        model, [[5, 6, 7]], [None], SamplingOptions(temperature=1.0, seed=3, max_tokens=40)
    )
    features = some_features(model, tmp_path / "states", [Text([5, 6, 7], answer.tokens, "text", 1.0)] * 10)
    options = dataclasses.replace(OPTIONS, epochs=50, learning_rate=1e-2)
    weights, training = train_drafter(model, features, Recipe("layers", 64, options=options, exits=(1, 2)))
    assert training.validations[-1][1].right[2] > 0.9
    save_weights(weights, tmp_path / "weights")
    sampling = SamplingOptions(temperature=1.0, seed=3, max_tokens=40)
    for confidence in (0.0, 1.0):  # always the first exit, always the last
        drafter = load_drafter(tmp_path / "weights", confidence=confidence, least=0.0, most=3)
        speculation = Speculation([drafter], controller=Fixed(3))
        (drafted,) = generate_tokens(model, [[5, 6, 7]], [None], sampling, drafting=speculation.start(model))
        assert drafted.tokens == answer.tokens
        assert drafted.accepted_tokens > 0.85 * drafted.drafted_tokens > 0


def test_guesses_are_those_of_the_last_exit(tmp_path: Path) -> None:
    """An acceptance head is trained on them."""
    model = Deep()
    network, ids = first_layers(model, LAYER, (1, 2)), np.arange(1, SIZE)
    texts = [Text([5, 9, 3], [17, 8, 4, 22, 6, 11], "x", 0.0)]
    features = some_features(model, tmp_path, texts)
    weights = DraftWeights(
        "layers", network.sizes.as_dict(), VOCABULARY.fingerprint, ids, network.state_dict()
    )
    embeddings, rows = frozen_rows(model, ids)
    found = list(guesses_in_texts(weights, model, features))
    assert [each.ahead for each in found] == [0, 1, 2]
    tokens = [*texts[0].prompt, *texts[0].answer]
    with torch.no_grad():
        last = network(embeddings[tokens][None])[-1][0] @ rows.weight.T
    for each in found:
        assert each.positions.tolist() == list(range(max(3, each.ahead + 2), len(tokens) - 2 + each.ahead))
        torch.testing.assert_close(each.logits, last[each.positions - 1], rtol=1e-4, atol=1e-4)


def drawn(
    network: NestedNetwork, model: Tiny, prompts: list[list[int]], regexes: list[str | None], most: list[int]
) -> Any:
    ids = np.arange(1, SIZE)
    embeddings, rows = frozen_rows(model, ids)
    bias = torch.linspace(-0.2, 0.2, len(ids))
    rows = dataclasses.replace(rows, bias=bias, logit_map=LogitMap(4.0, 3.0))
    uniforms = np.random.default_rng(4).random((len(prompts), max(most)))
    answers, masks = draw_answers(
        network,
        embeddings,
        rows,
        ids,
        prompts,
        uniforms,
        most=most,
        matchers=[None if regex is None else Matcher(sg.regex(regex), VOCABULARY) for regex in regexes],
        vocabulary=VOCABULARY,
    )
    return ids, embeddings, rows, uniforms, answers, masks


def test_on_policy_texts_are_the_draft_models_own_draws() -> None:
    """Each token is the one that its number draws from the distribution of a plain pass, and obeys the mask.

    The logits are scaled and bounded, and have a bias.
    """
    model = Deep()
    network = first_layers(model, LAYER, (1, 2))
    prompts = [[5, 6, 7, 8, 9], [11], [12, 13, 14], [5, 6]]
    regexes = [None, "[a-f]{3,9}", "abc", None]
    most = [12, 12, 12, 4]
    ids, embeddings, rows, uniforms, answers, masks = drawn(network, model, prompts, regexes, most)
    for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        regex, end = regexes[row], VOCABULARY.eos_ids[0]
        matcher = None if regex is None else Matcher(sg.regex(regex), VOCABULARY)
        assert end not in answer[:-1]
        assert len(answer) == most[row] or answer[-1] == end
        for place, token in enumerate(answer):
            tokens = [*prompt, *answer[:place]]
            with torch.no_grad():
                logits = (network(embeddings[tokens][None])[-1][0, -1] @ rows.weight.T).double().numpy()
            logits = 3.0 * np.tanh(4.0 * (logits + rows.bias.double().numpy()) / 3.0)
            if matcher is not None:
                assert masks[row][place].tolist() == [matcher.accepts([int(i)]) == 1 for i in ids]
                logits[~masks[row][place]] = -np.inf
                assert matcher.advance(token)
            cumulated = np.exp(logits - logits.max()).cumsum()
            cumulated /= cumulated[-1]
            at = int(np.flatnonzero(ids == token)[0])
            low = cumulated[at - 1] if at else 0.0
            assert low - 1e-5 <= uniforms[row, place] <= cumulated[at] + 1e-5


def test_an_on_policy_batch_has_the_models_states_and_the_masks(tmp_path: Path) -> None:
    model = Deep()
    source = {"regex": "[a-c]{2,6}"}
    texts = [
        Text([3, 4, 5], [2, 3, 4, 2, 3, 4], "x", 0.0, source),
        *some_texts(3),
        Text([8], [2, 3], "x", 0.0, source),
    ]
    features = some_features(model, tmp_path, texts)
    ids = np.arange(1, SIZE)
    embeddings, rows = frozen_rows(model, ids)
    masks = TextMasks(features, VOCABULARY, ids)
    on_policy = OnPolicy(model, features, masks, embeddings, rows, ids)
    network = first_layers(model, LAYER, (1, 2))
    batch = on_policy.batch(network, [0, 1, 4], 7)
    assert batch.states.shape[:3] == (*batch.tokens.shape, 1)
    assert batch.allowed is not None
    for row, text in enumerate([0, 1, 4]):
        count = int(features.answers[text])
        length = count + int(batch.answers[row].sum())
        assert count < length <= features.length(text)
        assert batch.answers[row].nonzero().flatten().tolist() == list(range(count, length))
        tokens = batch.tokens[row, :length]
        assert tokens[:count].tolist() == texts[text].prompt
        with torch.inference_mode():
            states = model.model(input_ids=tokens[None], output_hidden_states=True).hidden_states[-1][0]
        torch.testing.assert_close(batch.states[row, :length, 0].float(), states, rtol=2e-2, atol=2e-2)
        for place in range(length):
            allowed = batch.allowed[row, place]
            assert allowed[int(tokens[place]) - 1]
            if place < count or text == 1:
                assert allowed.all()
            else:
                assert not allowed.all()
    assert torch.equal(on_policy.batch(network, [0, 1, 4], 7).tokens, batch.tokens)
    assert not torch.equal(on_policy.batch(network, [0, 1, 4], 8).tokens, batch.tokens)


def test_a_share_of_batches_is_on_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, made = Deep(), []
    features = some_features(model, tmp_path)
    whole = OnPolicy.batch

    def noted(self: OnPolicy, network: Any, texts: Any, step: int) -> Any:
        made.append(step)
        return whole(self, network, texts, step)

    monkeypatch.setattr(OnPolicy, "batch", noted)

    def trained(share: float) -> tuple[Any, int]:
        made.clear()
        options = dataclasses.replace(SHORT, on_policy=share, epochs=4)
        weights, training = train_drafter(model, features, Recipe("layers", 64, options=options))
        return weights, training._step

    off, steps = trained(0.0)
    assert not made
    half, _ = trained(0.5)
    assert 0.2 * steps < len(made) < 0.8 * steps
    every, _ = trained(1.0)
    assert made == list(range(steps))
    name = "layers.0.q.weight"
    assert not torch.equal(off.tensors[name], half.tensors[name])
    assert not torch.equal(every.tensors[name], half.tensors[name])


def test_share_0_is_the_training_without_on_policy_batches(tmp_path: Path) -> None:
    model = Deep()
    features = some_features(model, tmp_path)
    plain, _ = train_drafter(model, features, Recipe("layers", 64, options=SHORT))
    zero, _ = train_drafter(
        model, features, Recipe("layers", 64, options=dataclasses.replace(SHORT, on_policy=0.0))
    )
    assert plain.tensors.keys() == zero.tensors.keys()
    assert all(torch.equal(tensor, zero.tensors[name]) for name, tensor in plain.tensors.items())


def test_an_interrupted_on_policy_training_goes_on(tmp_path: Path) -> None:
    model = Deep()
    features = some_features(model, tmp_path / "states")
    options = dataclasses.replace(SHORT, on_policy=0.5)
    recipe = Recipe("layers", 64, options=options)
    resumed = assert_interruption_changes_nothing(model, features, recipe, tmp_path / "state", 6)
    assert len(resumed.validations) == 3
    other = dataclasses.replace(recipe, options=SHORT)
    with pytest.raises(ModelError, match="other options or other texts"):
        train_drafter(model, features, other, save=tmp_path / "state", resume=True)


def test_options_of_on_policy_training_are_checked() -> None:
    with pytest.raises(OptionError, match="on_policy"):
        TrainingOptions(on_policy=1.5)
    with pytest.raises(OptionError, match="Use a divergence"):
        TrainingOptions(on_policy=0.5, loss="cross-entropy")
    with pytest.raises(OptionError, match="'eagle' draws no texts of its own"):
        Recipe("eagle", options=TrainingOptions(on_policy=0.5))

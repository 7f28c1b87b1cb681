"""Options of the training of EAGLE drafters: the distance of states, and what it changes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from structgen.draft_training.eagle import (  # noqa: E402
    EagleOptions,
    EagleTraining,
    alignment_loss,
    eagle_outputs,
    eagle_sizes,
)
from structgen.draft_training.recipes import Recipe, train_drafter  # noqa: E402
from structgen.draft_training.unrolling import unrolled  # noqa: E402
from structgen.errors import ModelError, OptionError  # noqa: E402
from structgen.speculative.learned import load_checkpoint  # noqa: E402
from structgen.speculative.learned.eagle import EagleNetwork, EagleSizes  # noqa: E402
from structgen.speculative.learned.layers import LayerSizes  # noqa: E402
from tests.draft_training.finite_differences import slopes  # noqa: E402
from tests.draft_training.test_training import (  # noqa: E402
    FSPAD,
    OPTIONS,
    Tiny,
    assert_interruption_changes_nothing,
    repeated,
)
from tests.speculative.learned.published import INNER, LAYER_CONFIG, eagle, write  # noqa: E402
from tests.speculative.tiny_sessions import Model  # noqa: E402

EAGLE_1 = EagleOptions(features="eagle-1")


def distance(states: np.ndarray, wanted: np.ndarray, weights: np.ndarray) -> float:
    """The weighted mean over positions of the mean over numbers of Huber's function."""
    total = 0.0
    for state, other, weight in zip(states, wanted, weights, strict=True):
        steps = np.abs(state - other)
        total += weight * np.where(steps < 1, steps**2 / 2, steps - 0.5).mean()
    return float(total / weights.sum())


@pytest.mark.parametrize("seed", range(3))
def test_the_distance_of_states_and_its_gradient(seed: int) -> None:
    rng = np.random.default_rng(seed)
    states, wanted = 2 * rng.normal(size=(2, 5, 7))
    for weights in (None, np.array([1.0, 0.0, 0.5, 2.0, 1.0])):
        counted = np.ones(5) if weights is None else weights
        given = torch.tensor(states, requires_grad=True)
        other = torch.tensor(wanted, requires_grad=True)
        loss = alignment_loss(given, other, None if weights is None else torch.tensor(weights))
        loss.backward()
        assert float(loss.detach()) == pytest.approx(distance(states, wanted, counted))
        expected = slopes(lambda moved, counted=counted: distance(moved, wanted, counted), states)
        np.testing.assert_allclose(given.grad, expected, atol=1e-8)
        assert other.grad is None  # what the drafter should resemble does not move


def test_no_position_has_no_distance() -> None:
    states = torch.zeros((0, 4), requires_grad=True)
    alignment_loss(states, torch.zeros((0, 4))).backward()
    none = torch.ones((3, 4), requires_grad=True)
    loss = alignment_loss(none, torch.zeros((3, 4)), torch.zeros(3))
    loss.backward()
    assert float(loss.detach()) == 0 and not none.grad.any()


def first_text(model: Tiny, features: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The model's states of the first text, and the embeddings of its tokens."""
    end = int(features.offsets[1])
    tokens = torch.from_numpy(np.array(features.tokens[:end], dtype=np.int64))
    states = torch.from_numpy(np.array(features.states[:end])).float()
    return states[None], model.model.get_input_embeddings()(tokens).detach()[None]


def first_step(model: Tiny, features: Any, network: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """What the layer returns after the model's own states, and the fused states that it should resemble."""
    states, embedded = first_text(model, features)
    states = states[:, :, -len(network.sizes.hidden_layers) :]
    with torch.no_grad():
        (output,) = unrolled(network, states[:, :-1], embedded[:, 1:], 1)
        return output[0], network.fused(states)[0, 1:]


def test_the_weight_of_states_is_added_to_the_loss(tmp_path: Path) -> None:
    """At the first step the loss with alignment is the one without, plus the distance of each step."""
    model, features = repeated(tmp_path)
    short = dataclasses.replace(OPTIONS, epochs=1, steps_ahead=2)

    def first_loss(eagle: EagleOptions) -> tuple[float, EagleNetwork]:
        _, training = train_drafter(model, features, Recipe("eagle", 64, options=short, eagle=eagle))
        torch.manual_seed(0)
        for parameter in training.network.parameters():
            torch.nn.init.normal_(parameter, std=0.1)
        loss, _ = training._loss(training._read([0, 1]), counts=False)
        assert isinstance(training.network, EagleNetwork)
        return float(loss.detach()), training.network

    plain, network = first_loss(EagleOptions())
    aligned, same = first_loss(EagleOptions(alignment="full", alignment_weight=300.0))
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), same.parameters(), strict=True))
    states, embedded = first_text(model, features)
    count, answer = states.shape[1] - 1 - 2, int(features.answers[0])
    with torch.no_grad():
        outputs = unrolled(network, states[:, :count], embedded[:, 1:-1], 2)
        fused = network.fused(states)
        expected = plain
        for step, output in enumerate(outputs):
            first = max(0, answer - step - 2)  # the first position that predicts a token of the answer
            wanted = fused[0, step + 1 + first : step + 1 + count]
            expected += 0.8**step * 300.0 * float(alignment_loss(output[0, first:], wanted))
    assert aligned == pytest.approx(expected, rel=2e-2)  # the training computes in bfloat16
    assert aligned > 1.1 * plain


@pytest.mark.parametrize(
    "eagle", [EagleOptions(alignment="partial"), EagleOptions(alignment="full", features="eagle-1")]
)
def test_aligned_states_resemble_those_of_the_model(eagle: EagleOptions, tmp_path: Path) -> None:
    model, features = repeated(tmp_path)

    def distance_after(weight: float) -> float:
        given = dataclasses.replace(eagle, alignment_weight=weight)
        options = dataclasses.replace(OPTIONS, epochs=25, steps_ahead=1)
        _, training = train_drafter(model, features, Recipe("eagle", 64, options=options, eagle=given))
        network, (output, wanted) = training.network, first_step(model, features, training.network)
        assert isinstance(network, EagleNetwork)
        return float(alignment_loss(network.continued(output), wanted))

    assert distance_after(10.0) < 0.6 * distance_after(0.0)


def test_options_of_eagle_are_checked(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="unknown alignment 'partail'") as caught:
        EagleOptions(alignment="partail")
    assert "partial" in str(caught.value)
    with pytest.raises(OptionError, match="alignment_weight"):
        EagleOptions(alignment_weight=-1.0)
    with pytest.raises(OptionError, match="tokens_a_pass"):
        EagleOptions(tokens_a_pass=0)
    with pytest.raises(OptionError, match="a pass gives 4 tokens, and 3 steps ahead"):
        Recipe("eagle", options=OPTIONS, eagle=EagleOptions(tokens_a_pass=4))
    with pytest.raises(OptionError, match="unknown features 'eagle1'") as caught:
        EagleOptions(features="eagle1")  # type: ignore[arg-type]
    assert "eagle-1" in str(caught.value)
    for given in (FSPAD, EAGLE_1):
        with pytest.raises(OptionError, match="features, .* are options of eagle, not of medusa"):
            Recipe("medusa", eagle=given)
    model, features = repeated(tmp_path)
    save, short = tmp_path / "state", dataclasses.replace(OPTIONS, epochs=1)
    train_drafter(model, features, Recipe("eagle", 64, options=short), save=save)
    other = Recipe("eagle", 64, options=short, eagle=EagleOptions(alignment="full"))
    with pytest.raises(ModelError, match="other options or other texts"):
        train_drafter(model, features, other, save=save, resume=True)


def test_an_eagle_1_drafter_has_the_form_of_the_published_ones(tmp_path: Path) -> None:
    """It reads one state after the final norm, and a checkpoint of EAGLE has the same sizes."""
    model, features = repeated(tmp_path)
    short = dataclasses.replace(OPTIONS, epochs=1)
    assert features.layers == (1, 2)
    weights, training = train_drafter(model, features, Recipe("eagle", 64, options=short, eagle=EAGLE_1))
    assert training.used == (2,)
    sizes, layer = EagleSizes.from_dict(weights.sizes), LayerSizes(**weights.sizes["layer"])
    assert sizes.layer == layer and not layer.normed_input
    other = Model("llama")
    folder = write(tmp_path / "published", {**LAYER_CONFIG, "intermediate_size": INNER}, eagle(1, other))
    published = load_checkpoint(folder, other)
    same = dataclasses.replace(published.sizes, layer=layer)
    assert sizes == same and weights.tensors.keys() == published.weights.tensors.keys()
    states, _ = first_text(model, features)
    network = training.network
    assert isinstance(network, EagleNetwork)
    used = states[:, :, training._columns]
    assert torch.equal(network.fused(used), states[:, :, -1])  # an output takes the place of the state itself
    output = torch.randn(3, 32)
    assert torch.equal(network.predicted(output), output) and torch.equal(network.continued(output), output)


def test_an_interrupted_training_of_eagle_1_goes_on(tmp_path: Path) -> None:
    model, features = repeated(tmp_path)
    save, short = tmp_path / "state", dataclasses.replace(OPTIONS, epochs=4, steps_ahead=2)
    recipe = Recipe("eagle", 64, options=short, eagle=dataclasses.replace(EAGLE_1, alignment="full"))
    assert_interruption_changes_nothing(model, features, recipe, save, 6)
    for given in (EAGLE_1, EagleOptions(alignment="full")):
        other = dataclasses.replace(recipe, eagle=given)
        with pytest.raises(ModelError, match="other options or other texts"):
            train_drafter(model, features, other, save=save, resume=True)


def test_saves_of_before_there_were_features_are_as_good(tmp_path: Path) -> None:
    model, features = repeated(tmp_path)
    save, short = tmp_path / "state", dataclasses.replace(OPTIONS, epochs=1, steps_ahead=1)
    recipe = Recipe("eagle", 64, options=short, eagle=EagleOptions(alignment="full"))
    train_drafter(model, features, recipe, save=save)
    assert "features" not in torch.load(save, weights_only=True)["about"]["eagle"]


def test_a_training_of_eagle_1_starts_from_its_own_form_only(tmp_path: Path) -> None:
    model, features = repeated(tmp_path)
    short = dataclasses.replace(OPTIONS, epochs=1, steps_ahead=1)
    first, _ = train_drafter(model, features, Recipe("eagle", 64, options=short, eagle=EAGLE_1))
    again, _ = train_drafter(model, features, Recipe("eagle", 64, options=short, eagle=EAGLE_1, start=first))
    assert again.sizes == first.sizes
    with pytest.raises(OptionError, match="other sizes"):
        train_drafter(model, features, Recipe("eagle", 64, options=short, start=first))


def test_a_reference_of_before_the_options_existed_is_one_of_the_same_sizes(tmp_path: Path) -> None:
    model, features = repeated(tmp_path)
    short = dataclasses.replace(OPTIONS, epochs=1)
    weights, _ = train_drafter(model, features, Recipe("eagle", 64, options=short))
    new = ("sampler", "second_output", "tokens_a_pass")
    older = {name: size for name, size in weights.sizes.items() if name not in new}
    train_drafter(model, features, Recipe("eagle", 64, dataclasses.replace(weights, sizes=older), short))
    with pytest.raises(OptionError, match="other sizes"):
        train_drafter(model, features, Recipe("eagle", 64, weights, short, FSPAD))
    broken = dataclasses.replace(weights, sizes={"layer": {}})
    with pytest.raises(ModelError, match="do not have the sizes"):
        Recipe("eagle", 64, broken, short)


def one_position(
    network: EagleNetwork, states: torch.Tensor, embeddings: torch.Tensor, t: int, steps: int, glanced: Any
) -> list[torch.Tensor]:
    """What the layer returns for position `t` of one text: each pass over all that it sees, one after another.

    `embeddings` are those of tokens 0, 1, ...
    """
    layer, width = network.layer, network.sizes.tokens_a_pass
    fused = network.fused(states)

    def projected(state: torch.Tensor, token: int, position: int) -> tuple[torch.Tensor, ...]:
        inputs, embedded = network.layer_inputs(state[None], embeddings[token][None])
        return inputs, *layer.projected(inputs, embedded, layer.angles(position, 1))

    before = [projected(fused[p], p + 1, p) for p in range(t + 1)]
    block = before[t + 1 - width :]
    seen = [each[2:] for each in before]
    local = list(seen)
    for slot in range(width - 1):
        if glanced is not None and glanced[t, slot]:
            place = t + 1 - width + slot
            block[slot] = projected(fused[t + slot + 1], t + slot + 2, place)
            local[place] = block[slot][2:]
    outputs: list[torch.Tensor] = []
    while True:
        keys, values = (torch.cat([each[i] for each in local], 1) for i in (0, 1))
        for inputs, queries, *_ in block:
            attended = torch.nn.functional.scaled_dot_product_attention(
                queries[None], keys[None], values[None], enable_gqa=True
            )[0]
            outputs.append(layer.finished(inputs, attended.transpose(0, 1).flatten(1))[0])
        if len(outputs) >= steps:
            return outputs[:steps]
        first = len(outputs) - width
        block = [
            projected(network.continued(outputs[first + i]), t + first + i + 2, t + first + i + 1)
            for i in range(width)
        ]
        seen += [each[2:] for each in block]
        local = list(seen)


@pytest.mark.parametrize("features", ["eagle-3", "eagle-1"])
@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("glances", [False, True])
def test_unrolled_outputs_are_those_of_each_position_alone(width: int, glances: bool, features: Any) -> None:
    torch.manual_seed(width)
    count, steps = 8, 5
    options = EagleOptions(feature_sampling=True, alignment="partial", tokens_a_pass=width, features=features)
    sizes = eagle_sizes(LayerSizes(16, 4, 2, 4, mlp=24), (1, 2), options)
    network = EagleNetwork(sizes)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    layers = len(sizes.hidden_layers)
    states, embeddings = torch.randn(1, count + steps, layers, 16), torch.randn(1, count + steps, 16)
    glanced = torch.rand(1, count, width - 1) < 0.5 if glances else None
    with torch.no_grad():
        found = eagle_outputs(network, states, embeddings, steps, glanced)
        for t in range(width - 1, count):
            alone = one_position(
                network, states[0], embeddings[0], t, steps, None if glanced is None else glanced[0]
            )
            for step, output in enumerate(alone):
                # Outputs that follow each other without a norm grow, and so does the rounding.
                tolerance = 1e-4 if features == "eagle-3" else 2e-3
                torch.testing.assert_close(found[step][0, t], output, rtol=tolerance, atol=tolerance)
    assert len(found) == steps


def test_slots_that_glance_are_a_share_of_the_wrong_guesses(tmp_path: Path) -> None:
    model, features = repeated(tmp_path)
    eagle, short = EagleOptions(tokens_a_pass=3, glancing=0.5), dataclasses.replace(OPTIONS, epochs=1)
    _, training = train_drafter(model, features, Recipe("eagle", 64, options=short, eagle=eagle))
    assert isinstance(training, EagleTraining)
    # All logits are equal, so that the guess is the first of the drafter's tokens.
    outputs = [torch.zeros(40, 50, training.output_rows.weight.shape[1], dtype=torch.bfloat16)] * 3
    training._tokens = torch.full((40, 60), int(training.token_ids[-1]))
    for done, share in ((0.0, 0.5), (0.5, 0.3125), (1.0, 0.125)):
        training._done = done
        glanced = training._glanced(outputs)
        assert glanced.shape == (40, 50, 2)
        assert not (glanced[..., 1] & ~glanced[..., 0]).any()  # from the first slot on
        assert float(glanced.float().sum(-1).mean()) == pytest.approx(3 * share, rel=0.15)
        assert torch.equal(glanced, training._glanced(outputs))
    training._tokens = torch.full((40, 60), int(training.token_ids[0]))
    assert not training._glanced(outputs).any()


def test_slots_that_glance_add_no_gradient(tmp_path: Path) -> None:
    model, features = repeated(tmp_path)
    eagle, short = EagleOptions(tokens_a_pass=2), dataclasses.replace(OPTIONS, epochs=1)
    _, training = train_drafter(model, features, Recipe("eagle", 64, options=short, eagle=eagle))
    assert isinstance(training, EagleTraining)
    states, embedded = first_text(model, features)
    training._glanced = (
        lambda outputs: torch.ones(  # type: ignore[method-assign]
            (*outputs[0].shape[:2], 1), dtype=torch.bool
        )
    )
    seen, blind, _ = training.outputs(training.network, states, embedded, 3)
    weights = list(training.network.parameters())
    for output, has_gradient in ((seen, False), (blind, True)):
        found = torch.autograd.grad(output.sum(), weights, retain_graph=True, allow_unused=True)
        assert any(gradient is not None and gradient.any() for gradient in found) is has_gradient
    with torch.no_grad():
        plain = training.outputs(training.network, states, embedded, 3)
    assert torch.equal(seen, plain[0]) and not torch.equal(blind, plain[1])
    loss, _ = training._loss(training._read([0, 1]), counts=False)
    training._optimizer.zero_grad()
    loss.backward()  # the guesses before it were computed without gradients, and with the same weights
    for name, parameter in training.network.named_parameters():
        assert parameter.grad is not None and parameter.grad.any(), name
